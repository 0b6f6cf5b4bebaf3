"""Lemmas on blocks of rows, padded or not: the invariant, the columns that move, memory, the fetch and the mask.

`cut` is the right padding that all rows have passed and that the block takes off first; a row has passed as much or
more. So each lemma holds beside any siblings.
"""

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
from kvlaw.reference import (
    index,
)
from kvlaw.reference.index import (
    Ring,
    is_valid,
    visible,
)
from kvlaw.reference.index_group import (
    STEP,
    after_block,
    block_visible,
    columns_after_block,
    history,
    keep_columns,
    lone,
    mask_kind,
    obeyed_window,
    past_of_block,
    retract_source,
    row_is_real,
    row_sees_block,
)


@lemma("ROWS-2", "PAD-5", "PAD-6", "PAD-11", "RING-4")
def block_keeps_the_invariant(row: RowInOrder, cut: int, length: int) -> bool:
    """Lead every row, with any padding and any chunk, to one that holds what it owes.

    pre: is_kept(row) and 0 <= cut <= row.over
    pre: length >= 1
    post: _
    """
    then = row.after_block(cut, length)
    return is_kept(then) and (is_whole(then) or not is_whole(row))


@twin_of(block_keeps_the_invariant)
def block_keeps_too_little_while_ends_pend(row: RowInOrder, cut: int, length: int) -> bool:
    """Keep W - 1 columns, as if all that is appended were real.

    pre: is_kept(row) and 0 <= cut <= row.over
    pre: length >= 1
    post: _
    """
    stored = keep_columns(row.window, False, row.counting - cut)
    then = RowInOrder(row.window, stored + length, row.valid + length, row.end)
    return is_kept(then) and (is_whole(then) or not is_whole(row))


@lemma("ROWS-1", "RING-1", "PAD-16")
def block_moves_every_position_that_it_keeps(row: RowInOrder, cut: int, length: int, column: int) -> bool:
    """Let each kept column hold after a block the position that it held where it is taken from.

    pre: is_kept(row) and 0 <= cut <= row.over
    pre: length >= 1
    pre: 0 <= column < row.stored(cut)
    pre: owed(row, position_at(row.after_block(cut, length), column))
    post: _
    """
    counting = row.counting - cut
    place = counting - row.stored(cut) + column
    source = retract_source(counting, row.over - cut, place)
    return position_at(row, source) == position_at(row.after_block(cut, length), column)


@twin_of(block_moves_every_position_that_it_keeps)
def block_drops_the_newest_instead_of_the_oldest(row: RowInOrder, cut: int, length: int, column: int) -> bool:
    """Keep the first columns, not the last.

    pre: is_kept(row) and 0 <= cut <= row.over
    pre: length >= 1
    pre: 0 <= column < row.stored(cut)
    pre: owed(row, position_at(row.after_block(cut, length), column))
    post: _
    """
    source = retract_source(row.counting - cut, row.over - cut, column)
    return position_at(row, source) == position_at(row.after_block(cut, length), column)


@lemma("ROWS-1", "PAD-1", "PAD-5", "POS-3")
def block_writes_real_tokens_at_their_positions(row: RowInOrder, cut: int, length: int, index: int) -> bool:
    """Place token `index` of a block at the position behind the valid offset, whatever padding came before.

    pre: is_kept(row) and 0 <= cut <= row.over
    pre: 0 <= index < length
    pre: row_is_real(row.valid, row.end, index)
    post: _
    """
    then = row.after_block(cut, length)
    position = position_at(then, row.stored(cut) + index)
    return position == row.valid + index and owed(then, position) == (then.valid - position <= row.window)


@twin_of(block_writes_real_tokens_at_their_positions)
def block_writes_behind_what_it_fetches(row: RowInOrder, cut: int, length: int, index: int) -> bool:
    """Write over the column that is kept for the padding.

    pre: is_kept(row) and 0 <= cut <= row.over
    pre: 0 <= index < length
    pre: row_is_real(row.valid, row.end, index)
    post: _
    """
    return position_at(row.after_block(cut, length), row.past(cut) + index) == row.valid + index


@lemma("ROWS-22", "RING-5")
def block_bounds_the_columns(row: RowInOrder, cut: int, length: int) -> bool:
    """Store at most W - 1 + L columns, or W + L while ends pend, and all that are needed.

    pre: is_kept(row) and 0 <= cut <= row.over
    pre: length >= 1
    post: _
    """
    columns = columns_after_block(row.window, row.counting, row.stored(cut), length)
    most = row.window + length if row.end is not None else row.window - 1 + length
    return columns <= most and (columns == most or columns == row.counting - cut + length)


@twin_of(block_bounds_the_columns)
def block_bounds_the_columns_without_padding(row: RowInOrder, cut: int, length: int) -> bool:
    """Bound them by W - 1 + L always.

    pre: is_kept(row) and 0 <= cut <= row.over
    pre: length >= 1
    post: _
    """
    return columns_after_block(row.window, row.counting, row.stored(cut), length) <= row.window - 1 + length


@lemma("ROWS-22", "GROW-3", "GROW-1")
def block_of_growing_rows_fits(columns: int, stored: int, length: int) -> bool:
    """Leave the buffer of a growing group alone if the block fits, else round up to a multiple of STEP.

    pre: 0 <= stored <= columns and length >= 1
    post: _
    """
    then = columns_after_block(None, columns, stored, length)
    if stored + length <= columns:
        return then == columns
    return then % STEP == 0 and stored + length <= then < stored + length + STEP


@twin_of(block_of_growing_rows_fits)
def block_of_growing_rows_always_rounds_up(columns: int, stored: int, length: int) -> bool:
    """Round up whatever is there already.

    pre: 0 <= stored <= columns and length >= 1
    post: _
    """
    return columns_after_block(None, columns, stored, length) % STEP == 0


@lemma("MASK-14", "PAD-5", "RING-4")
def block_fetches_a_part_of_what_it_stores(row: RowInOrder, cut: int, length: int) -> bool:
    """Fetch the newest min(active - cut, W - 1) + L of the columns, with or without pending ends.

    pre: is_kept(row) and 0 <= cut <= row.over
    pre: length >= 1
    post: _
    """
    past, stored = row.past(cut), row.stored(cut)
    whole = past == row.counting - cut or past == row.window - 1
    return 0 <= past <= stored <= past + 1 and past <= row.window - 1 and whole


@twin_of(block_fetches_a_part_of_what_it_stores)
def block_fetches_all_that_it_stores(row: RowInOrder, cut: int, length: int) -> bool:
    """Fetch the column too that is kept for the padding.

    pre: is_kept(row) and 0 <= cut <= row.over
    pre: length >= 1
    post: _
    """
    return row.past(cut) == row.stored(cut)


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


@lemma("ROWS-5", "ROWS-28", "RING-4", "RING-5")
def block_of_one_row_is_that_of_a_ring(ring: Ring, length: int) -> bool:
    """Lead a serial ring and the same ring as a group of one row to the same columns, write index and phase.

    pre: is_valid(ring) and ring.sinks == 0
    pre: length >= 1
    post: _
    """
    group = lone(ring)
    same = after_block(group, length) == lone(index.after_block(ring, length))
    return same and past_of_block(group) == index.history(ring)


@twin_of(block_of_one_row_is_that_of_a_ring)
def block_of_one_row_in_place(ring: Ring, length: int) -> bool:
    """Take a block for a decode.

    pre: is_valid(ring) and ring.sinks == 0
    pre: length >= 1
    post: _
    """
    return after_block(lone(ring), length) == lone(index.after_decode(ring))


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
