"""Lemmas on appends: growth, the write, the drop of the overshoot, the re-layout before a window, memory.

The lemmas on content are the inductive step: if `column_position` is right before an append, and data moves by
`decode_source` and `block_source`, then it is right after it.
"""

# ruff: noqa: F401 -- contracts use names that the code does not
# pyright: reportUnusedImport=false

from kvlaw.conformance.proofs.registry import lemma, twin_of
from kvlaw.reference.index import (
    STEP,
    Full,
    Ring,
    active,
    added_columns,
    after_block,
    after_decode,
    after_full,
    block_source,
    capacity_for,
    column_position,
    decode_column,
    decode_source,
    decode_width,
    history,
    is_valid,
    max_columns,
    overshoot,
    temporal_column,
    temporal_index,
)


@lemma("RING-9", "POS-2", "POS-3")
def decode_keeps_the_invariant(ring: Ring) -> bool:
    """Lead every valid ring to a valid ring of at most W columns, one position further.

    pre: is_valid(ring)
    post: _
    """
    after = after_decode(ring)
    return is_valid(after) and after.offset == ring.offset + 1 and active(after) <= after.columns <= ring.window


@twin_of(decode_keeps_the_invariant)
def decode_keeps_the_overshoot(ring: Ring) -> bool:
    """Leave the columns that a window stored beyond W.

    pre: is_valid(ring)
    post: _
    """
    after = after_decode(ring)
    return after.columns + overshoot(ring) <= ring.window


@lemma("RING-2", "RING-3", "VIS-5")
def decode_writes_its_position(ring: Ring) -> bool:
    """Write the new position into an allocated column that is not pinned, right before the next write index.

    pre: is_valid(ring)
    post: _
    """
    column, after = decode_column(ring), after_decode(ring)
    free = column >= min(ring.sinks, ring.offset)
    return free and column < after.columns and column_position(after, column) == ring.offset


@twin_of(decode_writes_its_position)
def decode_writes_over_the_newest(ring: Ring) -> bool:
    """Write one column early.

    pre: is_valid(ring)
    post: _
    """
    column, after = decode_column(ring) - 1, after_decode(ring)
    free = column >= min(ring.sinks, ring.offset)
    return free and column < after.columns and column_position(after, column) == ring.offset


@lemma("RING-1", "GROW-2")
def decode_moves_nothing_else(ring: Ring, column: int) -> bool:
    """Let every other column hold after a decode what it, or the column moved there, held before.

    pre: is_valid(ring)
    pre: 0 <= column < active(after_decode(ring)) and column != decode_column(ring)
    post: _
    """
    return column_position(after_decode(ring), column) == column_position(ring, decode_source(ring, column))


@twin_of(decode_moves_nothing_else)
def decode_drops_the_sinks(ring: Ring, column: int) -> bool:
    """Drop the overshoot from the very front, before the sinks.

    pre: is_valid(ring)
    pre: 0 <= column < active(after_decode(ring)) and column != decode_column(ring)
    post: _
    """
    return column_position(after_decode(ring), column) == column_position(ring, column + overshoot(ring))


@lemma("RING-1", "RING-12")
def decode_overwrites_the_oldest(ring: Ring) -> bool:
    """Overwrite a spare column, or the one unpinned position that the new query is the first not to see.

    pre: is_valid(ring)
    post: _
    """
    lost = column_position(ring, decode_source(ring, decode_column(ring)))
    return lost is None or lost == ring.sinks + ring.offset - ring.window


@twin_of(decode_overwrites_the_oldest)
def decode_overwrites_the_oldest_of_all(ring: Ring) -> bool:
    """Evict as if the sinks took no part of the window.

    pre: is_valid(ring)
    post: _
    """
    lost = column_position(ring, decode_source(ring, decode_column(ring)))
    return lost is None or lost == ring.offset - ring.window


@lemma("RING-7")
def decode_grows_by_the_step(ring: Ring) -> bool:
    """Grow only when the write index is at the end of a buffer below W, by STEP columns or what is missing to W.

    pre: is_valid(ring)
    post: _
    """
    added = added_columns(ring)
    if ring.rotated or ring.write_index < ring.columns or ring.columns >= ring.window:
        return added == 0
    return added >= 1 and (added == STEP or added == ring.window - ring.columns) and added <= STEP


@twin_of(decode_grows_by_the_step)
def decode_grows_by_the_offset(ring: Ring) -> bool:
    """Grow by what the offset, not the buffer, is short of W.

    pre: is_valid(ring)
    post: _
    """
    added = min(STEP, ring.window - ring.offset)
    if ring.rotated or ring.write_index < ring.columns or ring.columns >= ring.window:
        return added_columns(ring) == 0
    return added >= 1 and (added == STEP or added == ring.window - ring.columns) and added <= STEP


@lemma("RING-6")
def overshoot_is_out_of_sight(ring: Ring, column: int) -> bool:
    """Drop only positions from the overshoot that the newest retained position did not see either.

    pre: is_valid(ring)
    pre: ring.sinks <= column < ring.sinks + overshoot(ring)
    post: _
    """
    position = column_position(ring, column)
    return position is not None and (ring.offset - 1) - position >= ring.window - ring.sinks


@twin_of(overshoot_is_out_of_sight)
def overshoot_is_the_newest(ring: Ring, column: int) -> bool:
    """Drop the overshoot from the end of the buffer.

    pre: is_valid(ring)
    pre: ring.sinks <= column < ring.sinks + overshoot(ring)
    post: _
    """
    position = column_position(ring, ring.columns - 1 - (column - ring.sinks))
    return position is not None and (ring.offset - 1) - position >= ring.window - ring.sinks


@lemma("VIS-7", "VIS-1")
def decode_fetches_the_active_columns(ring: Ring) -> bool:
    """Fetch min(active + 1, W) columns, which are the active ones after the write.

    pre: is_valid(ring)
    post: _
    """
    return decode_width(ring) == active(after_decode(ring))


@twin_of(decode_fetches_the_active_columns)
def decode_fetches_by_offset(ring: Ring) -> bool:
    """Fetch as many columns as there are positions, up to the columns allocated before.

    pre: is_valid(ring)
    post: _
    """
    return min(ring.offset + 1, ring.columns) == active(after_decode(ring))


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


@lemma("RING-10")
def ring_of_one_holds_one(ring: Ring) -> bool:
    """Let a ring with W = 1 decode into column 0 and fetch that alone, whatever came before.

    pre: is_valid(ring) and ring.window == 1
    post: _
    """
    after = after_decode(ring)
    return decode_column(ring) == 0 and after.columns == 1 and column_position(after, 0) == ring.offset


@twin_of(ring_of_one_holds_one)
def ring_of_one_keeps_history(ring: Ring) -> bool:
    """Let a window of a ring with W = 1 keep a column of history.

    pre: is_valid(ring) and ring.window == 1
    post: _
    """
    return history(ring) == min(1, active(ring))


@lemma("GROW-1", "GROW-3", "POS-2")
def full_growth_fits(full: Full, length: int) -> bool:
    """Hold every position after an append, in a buffer left alone or grown to less than STEP spare columns.

    pre: is_valid(full) and length >= 1
    post: _
    """
    after = after_full(full, length)
    fits = is_valid(after) and after.offset == full.offset + length
    return fits and (after.columns == full.columns or after.columns < after.offset + STEP)


@twin_of(full_growth_fits)
def full_growth_by_the_append(full: Full, length: int) -> bool:
    """Add columns for the append rounded up, without cutting the stale ones of a trim.

    pre: is_valid(full) and length >= 1
    post: _
    """
    after = after_full(full, length)
    grown = after.offset > full.columns
    columns = full.columns + capacity_for(length) if grown else full.columns
    return columns == full.columns or columns < after.offset + STEP


@lemma("GROW-3")
def full_capacity_is_smallest(positions: int) -> bool:
    """Round a capacity up to the smallest multiple of STEP that holds the positions.

    pre: positions >= 0
    post: _
    """
    capacity = capacity_for(positions)
    return capacity % STEP == 0 and positions <= capacity < positions + STEP


@twin_of(full_capacity_is_smallest)
def full_capacity_always_grows(positions: int) -> bool:
    """Add a whole step even at a multiple of STEP.

    pre: positions >= 0
    post: _
    """
    capacity = (positions // STEP + 1) * STEP
    return capacity % STEP == 0 and positions <= capacity < positions + STEP


@lemma("GROW-3")
def full_growth_is_bounded(full: Full, length: int) -> bool:
    """Allocate at most STEP columns beyond the positions held, unless a trim has left more.

    pre: is_valid(full) and length >= 1
    post: _
    """
    after = after_full(full, length)
    return after.columns <= max_columns(full, length, "window") <= max(full.columns, after.offset + STEP)


@twin_of(full_growth_is_bounded)
def full_growth_is_exact(full: Full, length: int) -> bool:
    """Allocate no spare columns.

    pre: is_valid(full) and length >= 1
    post: _
    """
    after = after_full(full, length)
    return after.columns <= max(full.columns, after.offset)
