"""Lemmas on padding: what is announced, what is a real token, and what taking it off keeps."""

# ruff: noqa: F401 -- a twin has all parameters of its lemma; contracts use names that the code does not
# pyright: reportUnusedImport=false

from kvlaw.conformance.proofs.registry import lemma, twin_of
from kvlaw.conformance.proofs.rows import RowInOrder, is_kept, is_whole, owed, position_at
from kvlaw.reference.index_group import (
    prepared,
    retract_source,
    row_is_real,
    row_left_pad,
    row_overrun,
    row_valid,
)


@lemma("PAD-2", "PAD-7", "POS-2")
def padding_behind_an_end_is_not_counted(offset: int, end: int | None) -> bool:
    """Count positions up to the end, and what is beyond it apart.

    post: _
    """
    valid, beyond = row_valid(offset, end), row_overrun(offset, end)
    capped = offset if end is None or offset < end else end
    return valid == capped and beyond >= 0 and valid + beyond == offset


@twin_of(padding_behind_an_end_is_not_counted)
def padding_before_an_end_is_counted(offset: int, end: int | None) -> bool:
    """Let a row that has not reached its end overrun by a negative number.

    post: _
    """
    beyond = 0 if end is None else offset - end
    capped = offset if end is None or offset < end else end
    return offset - beyond == capped


@lemma("PAD-1", "PAD-2", "PAD-4", "PAD-5", "PAD-6")
def real_tokens_are_those_announced(past: int, left: int, length: int, done: int, index: int) -> bool:
    """Take column `done + index` of a padded prompt for real iff it is one of [left, length), in any chunking.

    pre: left >= 0 and length >= left and done >= 0 and index >= 0
    pre: past == 0 or (past > 0 and left == 0)
    post: _
    """
    end = past - left + length
    at = row_valid(past - left + done, end)
    return row_is_real(at, end, index) == (done < length and left <= done + index < length)


@twin_of(real_tokens_are_those_announced)
def real_tokens_by_an_end_behind_the_left_padding(past: int, left: int, length: int, done: int, index: int) -> bool:
    """Count the end from where the left padding ends.

    pre: left >= 0 and length >= left and done >= 0 and index >= 0
    pre: past == 0 or (past > 0 and left == 0)
    post: _
    """
    end = past + length
    at = row_valid(past - left + done, end)
    return row_is_real(at, end, index) == (done < length and left <= done + index < length)


@lemma("PAD-2", "PAD-6", "ROWS-2")
def offset_moves_by_the_real_tokens(offset: int, end: int | None, length: int) -> bool:
    """Move a row's offset by the columns of an append that are real, so by none if all are padding.

    pre: offset >= 0 and length >= 1
    pre: end is None or end >= 0
    post: _
    """
    before = row_valid(offset, end)
    moved = row_valid(before + length, end) - before
    last = moved == 0 or row_is_real(before, end, moved - 1)
    return 0 <= moved <= length and last and not (moved < length and row_is_real(before, end, moved))


@twin_of(offset_moves_by_the_real_tokens)
def offset_moves_by_all_columns(offset: int, end: int | None, length: int) -> bool:
    """Move the offset past its end.

    pre: offset >= 0 and length >= 1
    pre: end is None or end >= 0
    post: _
    """
    return row_is_real(row_valid(offset, end), end, length - 1)


@lemma("PAD-16", "PAD-4")
def left_padding_is_what_stands_before_position_zero(row: RowInOrder, place: int) -> bool:
    """Count as left padding exactly the places of negative positions.

    pre: is_kept(row)
    pre: 0 <= place < row.counting
    post: _
    """
    return (place < row_left_pad(row.counting, row.offset)) == (position_at(row, place) < 0)


@twin_of(left_padding_is_what_stands_before_position_zero)
def left_padding_by_the_valid_offset(row: RowInOrder, place: int) -> bool:
    """Count right padding that was passed as left padding.

    pre: is_kept(row)
    pre: 0 <= place < row.counting
    post: _
    """
    return (place < row_left_pad(row.counting, row.valid)) == (position_at(row, place) < 0)


@lemma("PAD-1", "PAD-2", "PAD-3", "PAD-12")
def padding_is_announced_from_where_a_row_stands(row: RowInOrder, left: int, length: int, right: int) -> bool:
    """Put a row back by its left padding, and its end `length` positions behind that, if there is right padding.

    pre: is_kept(row) and row.end is None and row.offset >= 0
    pre: 0 <= left <= length and right >= 0
    pre: left == 0 or row.counting == 0
    post: _
    """
    group = prepared(row.alone, (left,), (length,), (right,))
    end = row.offset - left + length if right > 0 else None
    then = RowInOrder(row.window, row.counting, group.offsets[0], end)
    return group.ends == (None if end is None else (end,)) and then.offset == row.offset - left and is_kept(then)


@twin_of(padding_is_announced_from_where_a_row_stands)
def padding_is_announced_from_the_raw_length(row: RowInOrder, left: int, length: int, right: int) -> bool:
    """Put the end behind the right padding too.

    pre: is_kept(row) and row.end is None and row.offset >= 0
    pre: 0 <= left <= length and right >= 0
    pre: left == 0 or row.counting == 0
    post: _
    """
    group = prepared(row.alone, (left,), (length,), (right,))
    return group.ends == ((row.offset - left + length + right,) if right > 0 else None)


@lemma("PAD-16")
def retract_turns_every_place_once(remaining: int, beyond: int, place: int) -> bool:
    """Bring the place `beyond` further on to each place, round the end, so none is lost and none doubled.

    pre: 0 <= beyond <= remaining
    pre: 0 <= place < remaining
    post: _
    """
    source = retract_source(remaining, beyond, place)
    there = source + beyond if source + beyond < remaining else source + beyond - remaining
    return 0 <= source < remaining and there == place


@twin_of(retract_turns_every_place_once)
def retract_turns_the_other_way(remaining: int, beyond: int, place: int) -> bool:
    """Turn the padding that was passed to where it already is.

    pre: 0 <= beyond <= remaining
    pre: 0 <= place < remaining
    post: _
    """
    source = retract_source(remaining, beyond, place)
    there = source - beyond if source >= beyond else source - beyond + remaining
    return 0 <= source < remaining and there == place


@lemma("PAD-7", "PAD-16", "ROWS-1")
def retract_keeps_every_position(row: RowInOrder, cut: int, place: int) -> bool:
    """Let each position that a row is owed come, by a retract, from the place where it stood.

    pre: is_kept(row) and 0 <= cut <= row.over
    pre: 0 <= place < row.counting - cut
    pre: owed(row, row.valid - row.counting + cut + place)
    post: _
    """
    source = retract_source(row.counting - cut, row.over - cut, place)
    after = RowInOrder(row.window, row.counting - cut, row.valid, row.end)
    return position_at(row, source) == position_at(after, place) and 0 <= source < row.counting - row.over


@twin_of(retract_keeps_every_position)
def retract_turns_by_the_whole_overrun(row: RowInOrder, cut: int, place: int) -> bool:
    """Turn a row by all its padding, though a part of it was cut.

    pre: is_kept(row) and 0 <= cut <= row.over
    pre: 0 <= place < row.counting - cut
    pre: owed(row, row.valid - row.counting + cut + place)
    post: _
    """
    source = retract_source(row.counting - cut, row.over, place)
    after = RowInOrder(row.window, row.counting - cut, row.valid, row.end)
    return position_at(row, source) == position_at(after, place)


@lemma("PAD-7", "PAD-8", "PAD-11")
def retract_keeps_the_invariant(row: RowInOrder, cut: int) -> bool:
    """Lead every row to one that holds what it owes and has passed nothing, by the columns that all rows can spare.

    pre: is_kept(row) and 0 <= cut <= row.over
    post: _
    """
    after = RowInOrder(row.window, row.counting - cut, row.offset - row.over, row.end)
    finished = RowInOrder(row.window, row.counting - cut, row.offset - row.over, None)
    same = after.valid == finished.valid == row.valid
    whole = (is_whole(after) and is_whole(finished)) or not is_whole(row)
    return is_kept(after) and is_kept(finished) and after.over == 0 and same and whole


@twin_of(retract_keeps_the_invariant)
def retract_cuts_by_the_most(row: RowInOrder, cut: int) -> bool:
    """Cut one column more than the row with the least padding has.

    pre: is_kept(row) and 0 <= cut <= row.over
    post: _
    """
    return is_kept(RowInOrder(row.window, row.counting - cut - 1, row.offset - row.over, row.end))


@lemma("PAD-4", "PAD-16")
def retract_leaves_only_dead_columns_in_front(row: RowInOrder, cut: int, place: int) -> bool:
    """Let what a row gives up beyond the cut lie where its positions are negative, or older than it is owed.

    pre: is_kept(row) and 0 <= cut <= row.over
    pre: 0 <= place < row.over - cut
    post: _
    """
    after = RowInOrder(row.window, row.counting - cut, row.valid, row.end)
    position = position_at(after, place)
    return position < 0 or (row.valid - position > row.counting - row.over and row.valid >= row.window)


@twin_of(retract_leaves_only_dead_columns_in_front)
def retract_leaves_only_left_padding_in_front(row: RowInOrder, cut: int, place: int) -> bool:
    """Take what a row gave up for left padding, also when it is longer than the window.

    pre: is_kept(row) and 0 <= cut <= row.over
    pre: 0 <= place < row.over - cut
    post: _
    """
    return place < row_left_pad(row.counting - cut, row.valid)
