"""Lemmas on decodes of rows: the invariant, the columns that move, memory, the mask, and one row against a ring."""

# ruff: noqa: ARG001, F401 -- a twin has all parameters of its lemma; contracts use names that the code does not
# pyright: reportUnusedImport=false

from kvlaw.conformance.proofs.registry import (
    lemma,
    twin_of,
)
from kvlaw.conformance.proofs.rows import (
    RowAsItLies,
    lies_well,
    position_in,
)
from kvlaw.reference import (
    index,
)
from kvlaw.reference.index import (
    Ring,
    can_narrow,
    is_valid,
    visible,
)
from kvlaw.reference.index_group import (
    STEP,
    Group,
    after_decode,
    can_trim,
    column_of_decode,
    columns_after_decode,
    decode_place,
    decode_source,
    decode_visible,
    decode_width,
    lone,
    mask_kind,
    obeyed_window,
    overshoot,
    plan_trim,
    row_sees_decode,
    temporal_column,
    temporal_place,
)


@lemma("ROWS-22", "RING-9", "POS-2", "POS-3")
def decode_of_rows_keeps_the_invariant(row: RowAsItLies) -> bool:
    """Lead every row to one of at most W columns that holds what it owes, one position further.

    pre: lies_well(row)
    post: _
    """
    then = row.decoded
    return lies_well(then) and then.offset == row.offset + 1 and then.columns <= row.window


@twin_of(decode_of_rows_keeps_the_invariant)
def decode_of_rows_forgets_that_it_wrapped(row: RowAsItLies) -> bool:
    """Leave `rotated` as it was.

    pre: lies_well(row)
    post: _
    """
    then = row.decoded
    return lies_well(RowAsItLies(row.window, then.columns, then.write_index, row.rotated, then.offset))


@lemma("ROWS-1", "POS-3", "RING-2")
def decode_of_rows_writes_the_newest(row: RowAsItLies) -> bool:
    """Write a row's new position into the column that the state after it has for it.

    pre: lies_well(row)
    post: _
    """
    column = column_of_decode(row.window, row.write_index)
    return position_in(row.decoded.group, column) == row.offset


@twin_of(decode_of_rows_writes_the_newest)
def decode_of_rows_writes_behind_the_newest(row: RowAsItLies) -> bool:
    """Write at the write index, wrapped or not.

    pre: lies_well(row)
    post: _
    """
    return position_in(row.decoded.group, row.write_index) == row.offset


@lemma("ROWS-1", "RING-1")
def decode_of_rows_moves_nothing_else(row: RowAsItLies, column: int) -> bool:
    """Let every other column hold after a decode the position of a row that the column moved there held before.

    pre: lies_well(row)
    pre: 0 <= column < row.decoded.counting and column != column_of_decode(row.window, row.write_index)
    post: _
    """
    at = column_of_decode(row.window, row.write_index)
    source = decode_source(row.columns, overshoot(row.window, row.columns), at, column)
    return source is not None and position_in(row.decoded.group, column) == position_in(row.group, source)


@twin_of(decode_of_rows_moves_nothing_else)
def decode_of_rows_keeps_the_overshoot(row: RowAsItLies, column: int) -> bool:
    """Forget that pads and positions move to the front when the overshoot is dropped.

    pre: lies_well(row)
    pre: 0 <= column < row.decoded.counting and column != column_of_decode(row.window, row.write_index)
    post: _
    """
    return position_in(row.decoded.group, column) == position_in(row.group, column)


@lemma("ROWS-22", "RING-6", "RING-7")
def decode_of_rows_grows_by_the_step(row: RowAsItLies) -> bool:
    """Add columns only where the write index is at the end of fewer than W, and drop them only beyond W.

    pre: lies_well(row)
    post: _
    """
    columns = row.decoded.columns
    if row.columns >= row.window:
        return columns == row.window
    if row.write_index < row.columns:
        return columns == row.columns
    return columns == row.columns + STEP or columns == row.window <= row.columns + STEP


@twin_of(decode_of_rows_grows_by_the_step)
def decode_of_rows_grows_by_the_offset(row: RowAsItLies) -> bool:
    """Grow by what a row's offset, not the buffer, is short of W.

    pre: lies_well(row)
    post: _
    """
    if row.columns >= row.window or row.write_index < row.columns:
        return True
    return row.decoded.columns == row.columns + min(STEP, row.window - row.offset)


@lemma("ROWS-22", "GROW-3")
def decode_of_growing_rows_fits(columns: int, write_index: int) -> bool:
    """Leave the buffer of a growing group alone if the position fits, else round up to a multiple of STEP.

    pre: 0 <= write_index <= columns
    post: _
    """
    then = columns_after_decode(None, columns, write_index)
    if write_index < columns:
        return then == columns
    return then % STEP == 0 and write_index < then <= write_index + STEP


@twin_of(decode_of_growing_rows_fits)
def decode_of_growing_rows_adds_a_step(columns: int, write_index: int) -> bool:
    """Add STEP columns to whatever is there.

    pre: 0 <= write_index <= columns
    post: _
    """
    return columns_after_decode(None, columns, write_index) == (columns if write_index < columns else columns + STEP)


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


@lemma("ROWS-5", "ROWS-28", "RING-2", "RING-6", "RING-7")
def decode_of_one_row_is_that_of_a_ring(ring: Ring) -> bool:
    """Lead a serial ring and the same ring as a group of one row to the same columns, write index and phase.

    pre: is_valid(ring) and ring.sinks == 0
    post: _
    """
    return after_decode(lone(ring)) == lone(index.after_decode(ring))


@twin_of(decode_of_one_row_is_that_of_a_ring)
def decode_of_one_row_is_a_window_of_one(ring: Ring) -> bool:
    """Take a decode for a window of one token.

    pre: is_valid(ring) and ring.sinks == 0
    post: _
    """
    return after_decode(lone(ring)) == lone(index.after_block(ring, 1))


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


@lemma("ROWS-19", "ROWS-20", "TRIM-1", "POS-4")
def trim_of_rows_keeps_the_invariant(row: RowAsItLies, sibling: int, count: int, column: int) -> bool:
    """Drop by a trim the newest positions of every row, and leave every other in its column.

    pre: lies_well(row) and sibling >= 0
    pre: can_trim(row.beside(sibling), count)
    pre: 0 <= column < row.write_index - count
    post: _
    """
    group = plan_trim(row.group, count)
    then = RowAsItLies(row.window, group.columns, group.write_index, group.rotated, group.offsets[0])
    kept = position_in(group, column) == position_in(row.group, column)
    return lies_well(then) and then.offset == row.offset - count and kept


@twin_of(trim_of_rows_keeps_the_invariant)
def trim_of_rows_leaves_the_write_index(row: RowAsItLies, sibling: int, count: int, column: int) -> bool:
    """Lower the offsets alone.

    pre: lies_well(row) and sibling >= 0
    pre: can_trim(row.beside(sibling), count)
    pre: 0 <= column < row.write_index - count
    post: _
    """
    group = Group(row.window, row.columns, row.write_index, row.rotated, (row.offset - count,))
    return position_in(group, column) == position_in(row.group, column)


@lemma("ROWS-19", "ROWS-20", "TRIM-3")
def trim_of_rows_asks_the_shortest(row: RowAsItLies, sibling: int, count: int) -> bool:
    """Allow a trim iff every row has as many positions and fewer than W columns count.

    pre: lies_well(row) and sibling >= 0
    pre: sibling <= row.counting or row.counting >= row.window
    post: _
    """
    group = row.beside(sibling)
    enough = 0 <= count <= sibling and count <= row.offset
    short = row.counting < row.window and row.offset < row.window
    return can_trim(group, count) == (enough and short)


@twin_of(trim_of_rows_asks_the_shortest)
def trim_of_rows_asks_the_first(row: RowAsItLies, sibling: int, count: int) -> bool:
    """Allow what one row has.

    pre: lies_well(row) and sibling >= 0
    pre: sibling <= row.counting or row.counting >= row.window
    post: _
    """
    group = row.beside(sibling)
    return can_trim(group, count) == (0 <= count <= row.offset and row.counting < row.window)
