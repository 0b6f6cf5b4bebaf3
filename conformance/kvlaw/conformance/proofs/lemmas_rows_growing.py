"""Lemmas on groups of growing rows: what they share with rings, growth, and what a filter drops."""

# ruff: noqa: ARG001 -- a twin has all parameters of its lemma; contracts use names that the code does not
# pyright: reportUnusedImport=false

from kvlaw.conformance.proofs.registry import lemma, twin_of
from kvlaw.reference.index_group import (
    STEP,
    columns_after_block,
    columns_after_decode,
    decode_width,
    history,
    keep_columns,
    row_held,
    row_left_pad,
    row_sees_block,
    row_sees_decode,
)


@lemma("GROW-1", "ROWS-1", "VIS-1", "MASK-4")
def growing_rows_are_those_of_a_ring_that_is_never_full(counting: int, offset: int, i: int, j: int, more: int) -> bool:
    """Keep, fetch and show in a growing group what a ring does whose window is wider than all that it holds.

    pre: counting >= 0 and i >= 0 and more >= 1
    pre: offset <= counting
    post: _
    """
    window = counting + i + more
    kept = keep_columns(None, True, counting) == keep_columns(window, False, counting) == counting
    past = history(None, counting) == history(window, counting) == counting
    block = row_sees_block(counting, offset, None, i, j) == row_sees_block(counting, offset, window, i, j)
    width = decode_width(None, counting) == decode_width(window, counting)
    decode = row_sees_decode(counting + 1, j, offset, None) == row_sees_decode(counting + 1, j, offset, window)
    return kept and past and block and width and decode and row_held(None, offset) == row_held(window, offset)


@twin_of(growing_rows_are_those_of_a_ring_that_is_never_full)
def growing_rows_are_those_of_a_ring_that_is_full(counting: int, offset: int, i: int, j: int, more: int) -> bool:
    """Give a growing group a window that its columns reach.

    pre: counting >= 0 and i >= 0 and more >= 1
    pre: offset <= counting
    post: _
    """
    return history(None, counting) == history(max(1, counting), counting)


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
