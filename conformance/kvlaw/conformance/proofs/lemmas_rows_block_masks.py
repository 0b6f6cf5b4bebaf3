"""Lemmas on the mask and the fetch of a block of rows, with `cut` as in `lemmas_rows_block`."""

# ruff: noqa: ARG001, F401 -- a twin has all parameters of its lemma; contracts use names that the code does not
# pyright: reportUnusedImport=false

from kvlaw.conformance.proofs.registry import lemma, twin_of
from kvlaw.conformance.proofs.rows import RowInOrder, is_kept, owed, position_at
from kvlaw.reference import index
from kvlaw.reference.index import Ring, is_valid, visible
from kvlaw.reference.index_group import (
    block_visible,
    history,
    lone,
    mask_kind,
    obeyed_window,
    row_is_real,
    row_sees_block,
)


@lemma("ROWS-1", "PAD-4", "MASK-7", "MASK-8", "MASK-14", "VIS-2", "VIS-4")
def block_mask_of_a_row_is_sound(row: RowInOrder, cut: int, i: int, j: int, window_argument: int | None) -> bool:
    """Show a real query in each fetched column what the law shows of the position there.

    pre: is_kept(row) and 0 <= cut <= row.over
    pre: i >= 0 and j >= 0
    pre: row_is_real(row.valid, row.end, i)
    pre: window_argument is None or window_argument >= 1
    post: _
    """
    window = obeyed_window(row.window, window_argument)
    past = row.past(cut)
    shown = row_sees_block(past, row.valid, window, i, j)
    return shown == visible(row.valid + i, row.valid - past + j, window, 0)


@twin_of(block_mask_of_a_row_is_sound)
def block_mask_of_a_row_shows_left_padding(
    row: RowInOrder, cut: int, i: int, j: int, window_argument: int | None
) -> bool:
    """Show every column of the fetch that is new enough.

    pre: is_kept(row) and 0 <= cut <= row.over
    pre: i >= 0 and j >= 0
    pre: row_is_real(row.valid, row.end, i)
    pre: window_argument is None or window_argument >= 1
    post: _
    """
    window = obeyed_window(row.window, window_argument)
    past = row.past(cut)
    position = row.valid - past + j
    shown = j <= past + i and (window is None or past + i - j < window)
    return shown == visible(row.valid + i, position, window, 0)


@lemma("ROWS-1", "PAD-4", "VIS-2", "RING-11")
def block_shows_no_dead_column(row: RowInOrder, cut: int, i: int, j: int) -> bool:
    """Show a real query only columns of its own block and those that hold a position of its row.

    pre: is_kept(row) and 0 <= cut <= row.over
    pre: i >= 0 and row_is_real(row.valid, row.end, i)
    pre: row_sees_block(row.past(cut), row.valid, row.window, i, j)
    post: _
    """
    past = row.past(cut)
    position = position_at(row.after_block(cut, i + 1), row.stored(cut) - past + j)
    return position == row.valid - past + j and (owed(row, position) or row.valid <= position <= row.valid + i)


@twin_of(block_shows_no_dead_column)
def block_shows_what_it_fetches(row: RowInOrder, cut: int, i: int, j: int) -> bool:
    """Show the columns one older too.

    pre: is_kept(row) and 0 <= cut <= row.over
    pre: i >= 0 and row_is_real(row.valid, row.end, i)
    pre: row_sees_block(row.past(cut), row.valid, row.window, i, j)
    post: _
    """
    position = position_at(row.after_block(cut, i + 1), row.stored(cut) - row.past(cut) + j) - 1
    return owed(row, position) or row.valid <= position <= row.valid + i


@lemma("ROWS-1", "PAD-4", "PAD-5", "VIS-2", "VIS-3")
def block_fetch_of_a_row_is_complete(row: RowInOrder, cut: int, i: int, key: int) -> bool:
    """Fetch with a block every position that a real query sees, in a column that it sees.

    pre: is_kept(row) and 0 <= cut <= row.over
    pre: i >= 0 and row_is_real(row.valid, row.end, i)
    pre: visible(row.valid + i, key, row.window, 0)
    post: _
    """
    past = row.past(cut)
    column = past + key - row.valid
    return 0 <= column <= past + i and row_sees_block(past, row.valid, row.window, i, column)


@twin_of(block_fetch_of_a_row_is_complete)
def block_fetch_of_a_row_is_one_short(row: RowInOrder, cut: int, i: int, key: int) -> bool:
    """Fetch one column of history less.

    pre: is_kept(row) and 0 <= cut <= row.over
    pre: i >= 0 and row_is_real(row.valid, row.end, i)
    pre: visible(row.valid + i, key, row.window, 0)
    post: _
    """
    past = row.past(cut)
    column = past + key - row.valid
    return column >= 1


@lemma("MASK-14", "ROWS-1")
def block_of_rows_is_plain_causal(row: RowInOrder, sibling: int, length: int, i: int, j: int) -> bool:
    """Say "causal" only where that shows every row, whatever its sibling's offset, what its mask shows.

    pre: is_kept(row) and row.end is None and row.offset >= 0 and sibling >= 0
    pre: 0 <= i < length
    pre: 0 <= j < row.past(0) + length
    pre: mask_kind(row.beside(sibling), length, "window") == "causal"
    post: _
    """
    return block_visible(row.beside(sibling), 1, length, i, j) == (j <= row.past(0) + i)


@twin_of(block_of_rows_is_plain_causal)
def block_of_rows_is_causal_without_history(row: RowInOrder, sibling: int, length: int, i: int, j: int) -> bool:
    """Align plain causal with the first column.

    pre: is_kept(row) and row.end is None and row.offset >= 0 and sibling >= 0
    pre: 0 <= i < length
    pre: 0 <= j < row.past(0) + length
    pre: mask_kind(row.beside(sibling), length, "window") == "causal"
    post: _
    """
    return block_visible(row.beside(sibling), 1, length, i, j) == (j <= i)


@lemma("MASK-14")
def block_of_rows_needs_an_array(row: RowInOrder, sibling: int, length: int) -> bool:
    """Say "array" only where the last query does not see the first column, or the first query of a row does not.

    pre: is_kept(row) and row.end is None and row.offset >= 0 and sibling >= 0
    pre: length >= 1
    post: _
    """
    group = row.beside(sibling)
    wide = not row_sees_block(row.past(0), max(row.offset, row.past(0)), row.window, length - 1, 0)
    padded = not (block_visible(group, 0, length, 0, 0) and block_visible(group, 1, length, 0, 0))
    return (mask_kind(group, length, "window") == "array") == (wide or padded)


@twin_of(block_of_rows_needs_an_array)
def block_of_rows_needs_an_array_for_the_last_row(row: RowInOrder, sibling: int, length: int) -> bool:
    """Look at the padding of one row alone.

    pre: is_kept(row) and row.end is None and row.offset >= 0 and sibling >= 0
    pre: length >= 1
    post: _
    """
    group = row.beside(sibling)
    wide = not row_sees_block(row.past(0), max(row.offset, row.past(0)), row.window, length - 1, 0)
    padded = not block_visible(group, 1, length, 0, 0)
    return (mask_kind(group, length, "window") == "array") == (wide or padded)


@lemma("ROWS-5", "ROWS-28", "MASK-14", "MASK-7")
def block_mask_of_one_row_is_that_of_a_ring(ring: Ring, length: int, i: int, j: int) -> bool:
    """Show a lone row in a block what a serial ring shows, by the same kind of mask.

    pre: is_valid(ring) and ring.sinks == 0
    pre: 0 <= i < length
    pre: 0 <= j < index.history(ring) + length
    post: _
    """
    same = index.mask_kind(ring, length, "window") == mask_kind(lone(ring), length, "window")
    return same and index.block_visible(ring, length, i, j) == block_visible(lone(ring), 0, length, i, j)


@twin_of(block_mask_of_one_row_is_that_of_a_ring)
def block_mask_of_one_row_is_causal(ring: Ring, length: int, i: int, j: int) -> bool:
    """Read a lone row causally, however long the block.

    pre: is_valid(ring) and ring.sinks == 0
    pre: 0 <= i < length
    pre: 0 <= j < index.history(ring) + length
    post: _
    """
    return (j <= index.history(ring) + i) == block_visible(lone(ring), 0, length, i, j)
