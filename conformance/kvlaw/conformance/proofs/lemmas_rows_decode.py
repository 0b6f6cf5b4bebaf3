"""Lemmas on decodes and trims of rows: the invariant, the columns that move, memory, and one row against a ring."""

# ruff: noqa: ARG001, F401 -- a twin has all parameters of its lemma; contracts use names that the code does not
# pyright: reportUnusedImport=false

from kvlaw.conformance.proofs.registry import lemma, twin_of
from kvlaw.conformance.proofs.rows import RowAsItLies, lies_well, position_in
from kvlaw.reference import index
from kvlaw.reference.index import Ring, is_valid
from kvlaw.reference.index_group import (
    STEP,
    Group,
    after_decode,
    can_trim,
    column_of_decode,
    decode_source,
    lone,
    overshoot,
    plan_trim,
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
