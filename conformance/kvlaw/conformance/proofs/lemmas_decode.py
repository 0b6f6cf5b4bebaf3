"""Lemmas on decodes of a ring: growth, the drop of the overshoot, the wrap, the write.

The lemmas on content are the inductive step: if `column_position` is right before a decode, and data moves by
`decode_source`, then it is right after it.
"""

from kvlaw.conformance.proofs.registry import lemma, twin_of
from kvlaw.reference.index import (
    STEP,
    Ring,
    active,
    added_columns,
    after_decode,
    column_position,
    decode_column,
    decode_source,
    decode_width,
    history,
    is_valid,
    overshoot,
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
