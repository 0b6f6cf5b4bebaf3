"""Lemmas on rows of a group at rest: their order, what is held and extracted, a serial cache as one row, merges."""

# ruff: noqa: F401 -- a twin has all parameters of its lemma; contracts use names that the code does not
# pyright: reportUnusedImport=false

from kvlaw.conformance.proofs.registry import lemma, twin_of
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
from kvlaw.reference.index import Ring, column_position, is_valid
from kvlaw.reference.index_group import lone, row_held, temporal_column, temporal_place


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
