"""Lemmas on windows of a ring: the re-layout, the history kept, the block appended, memory.

The lemmas on content are the inductive step: if `column_position` is right before a window, and data moves by
`block_source`, then it is right after it.
"""

# ruff: noqa: F401 -- contracts use names that the code does not
# pyright: reportUnusedImport=false

from kvlaw.conformance.proofs.registry import lemma, twin_of
from kvlaw.reference.index import (
    Ring,
    active,
    after_block,
    after_decode,
    block_source,
    column_position,
    history,
    is_valid,
    max_columns,
    temporal_column,
    temporal_index,
)


@lemma("RING-9", "POS-2", "POS-3")
def window_keeps_the_invariant(ring: Ring, length: int) -> bool:
    """Lead every valid ring to a valid ring in temporal order of min(active, W - 1) + L columns, L positions further.

    pre: is_valid(ring) and length >= 1
    post: _
    """
    after = after_block(ring, length)
    exact = after.columns == after.write_index == min(active(ring), ring.window - 1) + length
    return is_valid(after) and exact and not after.rotated and after.offset == ring.offset + length


@twin_of(window_keeps_the_invariant)
def window_keeps_a_whole_window(ring: Ring, length: int) -> bool:
    """Keep W columns of history.

    pre: is_valid(ring) and length >= 1
    post: _
    """
    return after_block(ring, length).columns == min(active(ring), ring.window) + length


@lemma("RING-4", "RING-12", "GROW-2")
def window_keeps_its_history(ring: Ring, length: int, index: int) -> bool:
    """Lay the kept columns out so that each holds what its source held before: the sinks, then the newest.

    pre: is_valid(ring) and length >= 1
    pre: 0 <= index < history(ring)
    post: _
    """
    source = block_source(ring, index)
    kept = column_position(after_block(ring, length), index)
    return 0 <= source < active(ring) and kept is not None and kept == column_position(ring, source)


@twin_of(window_keeps_its_history)
def window_keeps_the_oldest(ring: Ring, length: int, index: int) -> bool:
    """Keep the head of the temporal order instead of its tail.

    pre: is_valid(ring) and length >= 1
    pre: 0 <= index < history(ring)
    post: _
    """
    source = temporal_column(ring, index)
    kept = column_position(after_block(ring, length), index)
    return 0 <= source < active(ring) and kept is not None and kept == column_position(ring, source)


@lemma("RING-4", "VIS-7")
def window_appends_in_order(ring: Ring, length: int, i: int) -> bool:
    """Write token i of a window, position offset + i, right behind the history.

    pre: is_valid(ring) and length >= 1
    pre: 0 <= i < length
    post: _
    """
    return column_position(after_block(ring, length), history(ring) + i) == ring.offset + i


@twin_of(window_appends_in_order)
def window_appends_at_the_write_index(ring: Ring, length: int, i: int) -> bool:
    """Write a window where the next decode would go.

    pre: is_valid(ring) and length >= 1
    pre: 0 <= i < length
    post: _
    """
    return column_position(after_block(ring, length), ring.write_index + i) == ring.offset + i


@lemma("RING-5", "RING-4")
def window_drops_nothing_below_the_window(ring: Ring, length: int) -> bool:
    """Store a window uncut behind a history shorter than W, also when the window is longer than W.

    pre: is_valid(ring) and length >= 1
    pre: active(ring) < ring.window
    post: _
    """
    return after_block(ring, length).columns == active(ring) + length


@twin_of(window_drops_nothing_below_the_window)
def first_window_is_cut(ring: Ring, length: int) -> bool:
    """Cut a long window to the last W columns.

    pre: is_valid(ring) and length >= 1
    pre: active(ring) < ring.window
    post: _
    """
    return after_block(ring, length).columns == min(active(ring) + length, ring.window)


@lemma("RING-4", "VIS-2")
def window_history_is_out_of_sight(ring: Ring, column: int) -> bool:
    """Drop before a window at most the columns that its first query does not see.

    pre: is_valid(ring)
    pre: 0 <= column < active(ring)
    pre: ring.sinks <= temporal_index(ring, column) < ring.sinks + active(ring) - history(ring)
    post: _
    """
    position = column_position(ring, column)
    return position is not None and position >= ring.sinks and ring.offset - position >= ring.window - ring.sinks


@twin_of(window_history_is_out_of_sight)
def window_history_one_short(ring: Ring, column: int) -> bool:
    """Drop one column more, as a history of W - 2 columns would.

    pre: is_valid(ring)
    pre: 0 <= column < active(ring)
    pre: ring.sinks <= temporal_index(ring, column) < ring.sinks + active(ring) - history(ring)
    post: _
    """
    position = column_position(ring, column)
    return position is not None and ring.offset - (position + 1) >= ring.window - ring.sinks


@lemma("RING-8", "RING-9")
def ring_memory_is_bounded(ring: Ring, length: int) -> bool:
    """Allocate at most W columns after a decode and W - 1 + L after a window, however long the history.

    pre: is_valid(ring) and length >= 1
    post: _
    """
    decoded = after_decode(ring).columns <= max_columns(ring, 1, "decode") == ring.window
    return decoded and after_block(ring, length).columns <= max_columns(ring, length, "window") < ring.window + length


@twin_of(ring_memory_is_bounded)
def ring_memory_is_bounded_by_the_window(ring: Ring, length: int) -> bool:
    """Allocate at most W columns after a window too.

    pre: is_valid(ring) and length >= 1
    post: _
    """
    return after_block(ring, length).columns <= ring.window
