"""Lemmas on blocks of rows, padded or not: the invariant, the columns that move, memory, and one row against a ring.

`cut` is the right padding that all rows have passed and that the block takes off first; a row has passed as much or
more. So each lemma holds beside any siblings.
"""

# ruff: noqa: ARG001, F401 -- a twin has all parameters of its lemma; contracts use names that the code does not
# pyright: reportUnusedImport=false

from kvlaw.conformance.proofs.registry import lemma, twin_of
from kvlaw.conformance.proofs.rows import RowInOrder, is_kept, is_whole, owed, position_at
from kvlaw.reference import index
from kvlaw.reference.index import Ring, is_valid
from kvlaw.reference.index_group import (
    after_block,
    columns_after_block,
    keep_columns,
    lone,
    past_of_block,
    retract_source,
    row_is_real,
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
