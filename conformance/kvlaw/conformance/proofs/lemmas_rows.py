"""Lemmas on rows of a group at rest: padding, what is held and extracted, a serial cache as one row, a new group."""

# ruff: noqa: F401 -- a twin has all parameters of its lemma; contracts use names that the code does not
# pyright: reportUnusedImport=false

from kvlaw.conformance.proofs.registry import (
    lemma,
    twin_of,
)
from kvlaw.conformance.proofs.rows import (
    RowAsItLies,
    RowInOrder,
    is_kept,
    is_whole,
    lies_well,
    owed,
    position_at,
    position_in,
)
from kvlaw.reference.index import (
    Ring,
    column_position,
    is_valid,
)
from kvlaw.reference.index_group import (
    lone,
    row_held,
    row_is_real,
    row_left_pad,
    row_overrun,
    row_valid,
    temporal_column,
    temporal_place,
)


@lemma("VIS-7", "RING-3")
def order_of_a_group_goes_there_and_back(row: RowAsItLies, place: int) -> bool:
    """Lay the columns that count in temporal order, each at one place.

    pre: lies_well(row)
    pre: 0 <= place < row.counting
    post: _
    """
    column = temporal_column(row.window, row.write_index, row.rotated, place)
    back = temporal_place(row.window, row.write_index, row.rotated, column)
    return 0 <= column < row.counting <= row.columns and back == place


@twin_of(order_of_a_group_goes_there_and_back)
def order_of_a_group_begins_at_the_first_column(row: RowAsItLies, place: int) -> bool:
    """Take physical order for temporal order.

    pre: lies_well(row)
    pre: 0 <= place < row.counting
    post: _
    """
    return temporal_place(row.window, row.write_index, row.rotated, place) == place


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


@lemma("POS-6", "ROWS-12", "ROWS-14", "PAD-11")
def extraction_takes_exactly_the_newest(row: RowInOrder, place: int) -> bool:
    """Take the `held` places before the overrun: the newest min(offset, W) positions, the last one at offset - 1.

    pre: is_kept(row)
    pre: 0 <= place < row.counting
    post: _
    """
    held, end = row_held(row.window, row.valid), row.counting - row.over
    first = end - held if held <= end else 0
    complete = held <= end or not is_whole(row)
    return (first <= place < end) == owed(row, position_at(row, place)) and complete


@twin_of(extraction_takes_exactly_the_newest)
def extraction_takes_the_right_padding(row: RowInOrder, place: int) -> bool:
    """Take the last columns, padding or not.

    pre: is_kept(row)
    pre: 0 <= place < row.counting
    post: _
    """
    held, end = row_held(row.window, row.valid), row.counting
    first = end - held if held <= end else 0
    return (first <= place < end) == owed(row, position_at(row, place))


@lemma("ROWS-13", "ROWS-14", "ROWS-28")
def extracted_row_is_a_valid_cache(row: RowInOrder) -> bool:
    """Make a serial ring of an extracted row that goes on like one that was never in a group.

    pre: is_kept(row) and row.valid >= 0
    post: _
    """
    held, end = row_held(row.window, row.valid), row.counting - row.over
    taken = min(held, end)
    return is_valid(Ring(row.window, 0, taken, taken, False, row.valid))


@twin_of(extracted_row_is_a_valid_cache)
def extracted_row_keeps_its_raw_offset(row: RowInOrder) -> bool:
    """Extract with an offset that counts right padding.

    pre: is_kept(row) and row.valid >= 0
    post: _
    """
    held, end = row_held(row.window, row.valid), row.counting - row.over
    taken = min(held, end)
    return is_valid(Ring(row.window, 0, taken, taken, False, row.offset))


@lemma("ROWS-5", "POS-6", "RING-1")
def serial_ring_is_a_group_of_one_row(ring: Ring, column: int) -> bool:
    """Find in a serial ring, seen as a group, every position in the column in which the ring has it.

    pre: is_valid(ring) and ring.sinks == 0
    pre: 0 <= column < ring.columns
    post: _
    """
    row = RowAsItLies(ring.window, ring.columns, ring.write_index, ring.rotated, ring.offset)
    return lies_well(row) and position_in(lone(ring), column) == column_position(ring, column)


@twin_of(serial_ring_is_a_group_of_one_row)
def serial_ring_is_a_group_in_temporal_order(ring: Ring, column: int) -> bool:
    """Forget that the ring has wrapped.

    pre: is_valid(ring) and ring.sinks == 0
    pre: 0 <= column < ring.columns
    post: _
    """
    group = lone(Ring(ring.window, 0, ring.columns, ring.write_index, False, ring.offset))
    return position_in(group, column) == column_position(ring, column)


@lemma("ROWS-3", "ROWS-6", "ROWS-9")
def merge_lays_a_row_behind_left_padding(window: int, held: int, offset: int, width: int, place: int) -> bool:
    """Leave, behind `width - held` dead columns, each newest position at the place where a group has it.

    pre: window >= 1 and offset >= 0 and held == row_held(window, offset)
    pre: held <= width <= window
    pre: 0 <= place < width
    post: _
    """
    row = RowInOrder(window, width, offset, None)
    taken = offset - held + place - (width - held)
    live = place >= width - held
    position = position_at(row, place)
    return is_whole(row) and owed(row, position) == live and (position == taken or not live)


@twin_of(merge_lays_a_row_behind_left_padding)
def merge_lays_a_row_before_its_padding(window: int, held: int, offset: int, width: int, place: int) -> bool:
    """Put the dead columns behind the positions of a shorter row.

    pre: window >= 1 and offset >= 0 and held == row_held(window, offset)
    pre: held <= width <= window
    pre: 0 <= place < width
    post: _
    """
    row = RowInOrder(window, width, offset, None)
    return place >= held or position_at(row, place) == offset - held + place
