"""Lemmas on right padding that is taken off, and on rows that leave: what a retract and a filter keep."""

# ruff: noqa: ARG001, F401 -- a twin has all parameters of its lemma; contracts use names that the code does not
# pyright: reportUnusedImport=false

from kvlaw.conformance.proofs.registry import (
    lemma,
    twin_of,
)
from kvlaw.conformance.proofs.rows import (
    RowInOrder,
    is_kept,
    is_whole,
    owed,
    position_at,
)
from kvlaw.reference.index_group import (
    retract_source,
    row_left_pad,
)


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


@lemma("ROWS-21", "ROWS-16")
def filter_of_a_growing_group_drops_no_position(counting: int, first: int, second: int, place: int) -> bool:
    """Keep, without the left padding that two rows have in common, every position of both at its place.

    pre: 0 <= first <= counting and 0 <= second <= counting
    pre: 0 <= place < counting
    post: _
    """
    dropped = min(row_left_pad(counting, first), row_left_pad(counting, second))
    left = counting - dropped
    tight = left in (first, second)
    dead = place >= dropped or (first - counting + place < 0 and second - counting + place < 0)
    return first <= left and second <= left and tight and dead


@twin_of(filter_of_a_growing_group_drops_no_position)
def filter_of_a_growing_group_drops_the_most(counting: int, first: int, second: int, place: int) -> bool:
    """Drop the left padding of the shorter row.

    pre: 0 <= first <= counting and 0 <= second <= counting
    pre: 0 <= place < counting
    post: _
    """
    dropped = max(row_left_pad(counting, first), row_left_pad(counting, second))
    return first <= counting - dropped and second <= counting - dropped
