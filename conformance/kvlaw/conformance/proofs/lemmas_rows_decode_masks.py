"""Lemmas on the mask and the fetch of a decode of rows."""

# ruff: noqa: ARG001, F401 -- a twin has all parameters of its lemma; contracts use names that the code does not
# pyright: reportUnusedImport=false

from kvlaw.conformance.proofs.registry import lemma, twin_of
from kvlaw.conformance.proofs.rows import RowAsItLies, lies_well, position_in
from kvlaw.reference import index
from kvlaw.reference.index import Ring, can_narrow, is_valid, visible
from kvlaw.reference.index_group import (
    decode_place,
    decode_visible,
    decode_width,
    lone,
    mask_kind,
    obeyed_window,
    row_sees_decode,
    temporal_column,
    temporal_place,
)


@lemma("MASK-1", "VIS-7")
def decode_of_rows_fetches_what_counts(row: RowAsItLies, column: int) -> bool:
    """Fetch the columns that count after the write, and know before it at which place each will stand.

    pre: lies_well(row)
    pre: 0 <= column < decode_width(row.window, row.counting)
    post: _
    """
    then = row.decoded
    place = decode_place(row.window, row.counting, row.write_index, column)
    fits = then.counting == decode_width(row.window, row.counting)
    return fits and place == temporal_place(then.window, then.write_index, then.rotated, column)


@twin_of(decode_of_rows_fetches_what_counts)
def decode_of_rows_is_ordered_before_the_write(row: RowAsItLies, column: int) -> bool:
    """Take the write index before the write, as of a turned ring's cursor.

    pre: lies_well(row)
    pre: 0 <= column < decode_width(row.window, row.counting)
    post: _
    """
    then = row.decoded
    place = temporal_place(row.window, row.write_index, row.counting >= row.window, column)
    return place == temporal_place(then.window, then.write_index, then.rotated, column)


@lemma("ROWS-1", "MASK-8", "MASK-10", "VIS-1", "VIS-4")
def decode_mask_of_a_row_is_sound(row: RowAsItLies, column: int, window_argument: int | None) -> bool:
    """Show a row in each fetched column what the law shows of the position there, and no dead column.

    pre: lies_well(row)
    pre: 0 <= column < decode_width(row.window, row.counting)
    pre: window_argument is None or window_argument >= 1
    post: _
    """
    position = position_in(row.decoded.group, column)
    window = obeyed_window(row.window, window_argument)
    shown = decode_visible(row.group, 0, column, window_argument)
    return shown == (position is not None and visible(row.offset, position, window, 0))


@twin_of(decode_mask_of_a_row_is_sound)
def decode_mask_of_a_row_shows_left_padding(row: RowAsItLies, column: int, window_argument: int | None) -> bool:
    """Show every column of the fetch that is new enough.

    pre: lies_well(row)
    pre: 0 <= column < decode_width(row.window, row.counting)
    pre: window_argument is None or window_argument >= 1
    post: _
    """
    position = position_in(row.decoded.group, column)
    window = obeyed_window(row.window, window_argument)
    width = decode_width(row.window, row.counting)
    place = decode_place(row.window, row.counting, row.write_index, column)
    shown = window is None or width - 1 - place < window
    return shown == (position is not None and visible(row.offset, position, window, 0))


@lemma("ROWS-1", "VIS-1", "VIS-3")
def decode_fetch_of_a_row_is_complete(row: RowAsItLies, key: int) -> bool:
    """Fetch with a decode every position that a row's query sees, in a column where that position stands.

    pre: lies_well(row)
    pre: visible(row.offset, key, row.window, 0)
    post: _
    """
    width = decode_width(row.window, row.counting)
    then = row.decoded
    place = width - 1 - (row.offset - key)
    if not 0 <= place < width:
        return False
    column = temporal_column(then.window, then.write_index, then.rotated, place)
    return position_in(then.group, column) == key and decode_visible(row.group, 0, column)


@twin_of(decode_fetch_of_a_row_is_complete)
def decode_mask_of_a_row_hides_one_more(row: RowAsItLies, key: int) -> bool:
    """Count the row's own new position as left padding.

    pre: lies_well(row)
    pre: visible(row.offset, key, row.window, 0)
    post: _
    """
    width = decode_width(row.window, row.counting)
    return row_sees_decode(width, width - 1 - (row.offset - key), row.offset - 1, row.window)


@lemma("MASK-15", "ROWS-1")
def decode_of_rows_needs_no_mask(row: RowAsItLies, sibling: int, column: int, window_argument: int | None) -> bool:
    """Say "none" only where every column of the fetch is visible to this row, whatever the sibling's offset.

    pre: lies_well(row) and sibling >= 0
    pre: 0 <= column < decode_width(row.window, row.counting)
    pre: window_argument is None or window_argument >= 1
    pre: mask_kind(row.beside(sibling), 1, "decode", window_argument) == "none"
    post: _
    """
    return decode_visible(row.group, 0, column, window_argument)


@twin_of(decode_of_rows_needs_no_mask)
def decode_of_rows_without_a_mask_if_narrower(
    row: RowAsItLies, sibling: int, column: int, window_argument: int | None
) -> bool:
    """Leave the mask out for a window argument that is one narrower.

    pre: lies_well(row) and sibling >= 0
    pre: 0 <= column < decode_width(row.window, row.counting)
    pre: window_argument is None or window_argument >= 1
    pre: mask_kind(row.beside(sibling), 1, "decode", window_argument) == "none"
    post: _
    """
    narrower = 1 if window_argument is None or window_argument < 2 else window_argument - 1
    return decode_visible(row.group, 0, column, narrower)


@lemma("MASK-15", "MASK-10")
def decode_of_rows_hides_something(row: RowAsItLies, window_argument: int | None) -> bool:
    """Say "array" only where the shortest row, alone here, does not see the oldest column.

    pre: lies_well(row)
    pre: window_argument is None or window_argument >= 1
    post: _
    """
    oldest = temporal_column(row.window, row.decoded.write_index, row.decoded.rotated, 0)
    kind = mask_kind(row.group, 1, "decode", window_argument)
    return (kind == "none") == decode_visible(row.group, 0, oldest, window_argument)


@twin_of(decode_of_rows_hides_something)
def decode_of_rows_hides_something_from_w_on(row: RowAsItLies, window_argument: int | None) -> bool:
    """Ask for an array whenever the ring is full.

    pre: lies_well(row)
    pre: window_argument is None or window_argument >= 1
    post: _
    """
    oldest = temporal_column(row.window, row.decoded.write_index, row.decoded.rotated, 0)
    return (row.counting < row.window) == decode_visible(row.group, 0, oldest, window_argument)


@lemma("ROWS-5", "ROWS-28", "MASK-15", "MASK-10")
def decode_mask_of_one_row_is_that_of_a_ring(ring: Ring, column: int, window_argument: int | None) -> bool:
    """Show a lone row in a decode what a serial ring shows, by the same kind of mask.

    pre: is_valid(ring) and ring.sinks == 0 and can_narrow(ring, window_argument)
    pre: 0 <= column < index.decode_width(ring)
    post: _
    """
    same = index.mask_kind(ring, 1, "decode", window_argument) == mask_kind(lone(ring), 1, "decode", window_argument)
    shown = index.decode_visible(ring, column, window_argument)
    return same and shown == decode_visible(lone(ring), 0, column, window_argument)


@twin_of(decode_mask_of_one_row_is_that_of_a_ring)
def decode_mask_of_one_row_ignores_the_argument(ring: Ring, column: int, window_argument: int | None) -> bool:
    """Read a lone row with its own window, whatever the argument.

    pre: is_valid(ring) and ring.sinks == 0 and can_narrow(ring, window_argument)
    pre: 0 <= column < index.decode_width(ring)
    post: _
    """
    return index.decode_visible(ring, column, window_argument) == decode_visible(lone(ring), 0, column)
