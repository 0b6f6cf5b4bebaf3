"""Lemmas on trims of a ring: what is dropped and spared, and why a ring below W has never evicted anything.

Eviction is not stored. The lemmas `..._the_eviction_bound` carry one more relation through every operation: if any
position was ever dropped for a newer one (`evicted`), then `offset - block >= W`. A trim is allowed while `offset < W`.
"""

# ruff: noqa: ARG001 -- a twin has all parameters of its lemma

from kvlaw.conformance.proofs.registry import lemma, twin_of
from kvlaw.reference.index import (
    Full,
    Ring,
    active,
    after_block,
    after_decode,
    block_source,
    can_bypass,
    can_trim,
    column_position,
    decode_column,
    decode_source,
    history,
    is_valid,
    overshoot,
    plan_bypass,
    plan_trim,
    position_column,
)


@lemma("TRIM-2", "TRIM-5", "POS-4")
def trim_keeps_the_invariant(ring: Ring, count: int) -> bool:
    """Lead every ring that can be trimmed to a valid ring, `count` positions back, of the same buffer.

    pre: is_valid(ring) and can_trim(ring, count)
    post: _
    """
    after = plan_trim(ring, count)
    return is_valid(after) and after.offset == ring.offset - count and after.columns == ring.columns


@twin_of(trim_keeps_the_invariant)
def trim_leaves_the_write_index(ring: Ring, count: int) -> bool:
    """Trim the offset but leave the write index.

    pre: is_valid(ring) and can_trim(ring, count)
    post: _
    """
    return is_valid(Ring(ring.window, ring.sinks, ring.columns, ring.write_index, ring.rotated, ring.offset - count))


@lemma("TRIM-2", "TRIM-8")
def trim_drops_the_newest(ring: Ring, count: int, position: int) -> bool:
    """Drop exactly the newest `count` positions, and leave every other in its column.

    pre: is_valid(ring) and can_trim(ring, count)
    post: _
    """
    column = position_column(plan_trim(ring, count), position)
    return column == (position_column(ring, position) if position < ring.offset - count else None)


@twin_of(trim_drops_the_newest)
def trim_drops_one_more(ring: Ring, count: int, position: int) -> bool:
    """Drop one position more.

    pre: is_valid(ring) and can_trim(ring, count)
    post: _
    """
    column = position_column(plan_trim(ring, count), position)
    return column == (position_column(ring, position) if position < ring.offset - count - 1 else None)


@lemma("TRIM-6", "RING-1")
def ring_below_the_window_holds_all(ring: Ring, position: int) -> bool:
    """Hold every retained position at the column of its number while the offset is below W.

    pre: is_valid(ring) and ring.offset < ring.window
    pre: 0 <= position < ring.offset
    post: _
    """
    return position_column(ring, position) == position and not ring.rotated


@twin_of(ring_below_the_window_holds_all)
def ring_at_the_window_holds_all(ring: Ring, position: int) -> bool:
    """Count the new position too: hold everything at offset W - 1 even after the next two appends.

    pre: is_valid(ring) and ring.offset < ring.window
    pre: 0 <= position < ring.offset
    post: _
    """
    return position_column(after_decode(after_decode(ring)), position) == position


@lemma("TRIM-6", "TRIM-7")
def trim_limits(ring: Ring, full: Full, count: int) -> bool:
    """Allow a trim of 0 to offset positions, on a ring only below W, on a growing cache always.

    pre: is_valid(ring) and is_valid(full)
    post: _
    """
    ring_limit = can_trim(ring, count) == (ring.offset < ring.window and 0 <= count <= ring.offset)
    return ring_limit and can_trim(full, count) == (0 <= count <= full.offset)


@twin_of(trim_limits)
def trim_limits_at_the_window(ring: Ring, full: Full, count: int) -> bool:
    """Allow a trim of a ring that has just become full.

    pre: is_valid(ring) and is_valid(full)
    post: _
    """
    return can_trim(ring, count) == (ring.offset <= ring.window and 0 <= count <= ring.offset)


@lemma("TRIM-6", "RING-1")
def decode_keeps_the_eviction_bound(ring: Ring, evicted: bool) -> bool:
    """Overwrite a held position, or drop the overshoot, only when offset - block >= W holds afterwards.

    pre: is_valid(ring)
    pre: not evicted or ring.offset - ring.block >= ring.window
    post: _
    """
    lost = column_position(ring, decode_source(ring, decode_column(ring))) is not None or overshoot(ring) > 0
    after = after_decode(ring)
    return not (evicted or lost) or after.offset - after.block >= after.window


@twin_of(decode_keeps_the_eviction_bound)
def decode_keeps_a_tighter_bound(ring: Ring, evicted: bool) -> bool:
    """Claim that a position is lost only when offset - block > W + 1 holds afterwards.

    pre: is_valid(ring)
    pre: not evicted or ring.offset - ring.block >= ring.window
    post: _
    """
    lost = column_position(ring, decode_source(ring, decode_column(ring))) is not None or overshoot(ring) > 0
    after = after_decode(ring)
    return not (evicted or lost) or after.offset - after.block > after.window + 1


@lemma("TRIM-6", "RING-1")
def window_keeps_the_eviction_bound(ring: Ring, length: int, evicted: bool) -> bool:
    """Drop held positions before a window only when offset - block >= W holds afterwards.

    pre: is_valid(ring) and length >= 1
    pre: not evicted or ring.offset - ring.block >= ring.window
    post: _
    """
    lost = history(ring) < active(ring)
    after = after_block(ring, length)
    return not (evicted or lost) or after.offset - after.block >= after.window


@twin_of(window_keeps_the_eviction_bound)
def window_keeps_a_tighter_bound(ring: Ring, length: int, evicted: bool) -> bool:
    """Claim that a position is lost only when offset - block > W holds afterwards.

    pre: is_valid(ring) and length >= 1
    pre: not evicted or ring.offset - ring.block >= ring.window
    post: _
    """
    lost = history(ring) < active(ring)
    after = after_block(ring, length)
    return not (evicted or lost) or after.offset - after.block > after.window


@lemma("TRIM-6", "TRIM-11")
def trims_keep_the_eviction_bound(ring: Ring, count: int, cut: int, evicted: bool) -> bool:
    """Keep offset - block >= W, where anything was evicted, through trims and bypass trims.

    pre: is_valid(ring)
    pre: not evicted or ring.offset - ring.block >= ring.window
    post: _
    """
    trimmed = plan_trim(ring, count) if can_trim(ring, count) else ring
    bypassed = plan_bypass(ring, cut) if can_bypass(ring, cut) else ring
    after_trim = trimmed.offset - trimmed.block >= ring.window
    return not evicted or (after_trim and bypassed.offset - bypassed.block >= ring.window)


@twin_of(trims_keep_the_eviction_bound)
def bypass_keeps_the_window_full(ring: Ring, count: int, cut: int, evicted: bool) -> bool:
    """Claim that a bypass trim of a ring that evicted something leaves W columns.

    pre: is_valid(ring)
    pre: not evicted or ring.offset - ring.block >= ring.window
    post: _
    """
    bypassed = plan_bypass(ring, cut) if can_bypass(ring, cut) else ring
    return not evicted or active(bypassed) >= ring.window


@lemma("TRIM-6", "TRIM-2")
def below_the_window_nothing_was_evicted(ring: Ring, count: int, evicted: bool) -> bool:
    """Conclude from the bound: a ring that can be trimmed has never evicted anything, also after bypass trims.

    pre: is_valid(ring)
    pre: not evicted or ring.offset - ring.block >= ring.window
    post: _
    """
    return not (can_trim(ring, count) and evicted)


@twin_of(below_the_window_nothing_was_evicted)
def at_the_window_nothing_was_evicted(ring: Ring, count: int, evicted: bool) -> bool:
    """Conclude it for a ring at offset W too.

    pre: is_valid(ring)
    pre: not evicted or ring.offset - ring.block >= ring.window
    post: _
    """
    return not (ring.offset <= ring.window and evicted)


@lemma("TRIM-8", "RING-15")
def trimmed_tail_is_never_laid_out(ring: Ring, count: int, index: int) -> bool:
    """Take the history of the next window from columns [0, write_index) after a trim.

    pre: is_valid(ring) and can_trim(ring, count)
    pre: 0 <= index < history(plan_trim(ring, count))
    post: _
    """
    after = plan_trim(ring, count)
    return block_source(after, index) == index < after.write_index


@twin_of(trimmed_tail_is_never_laid_out)
def trimmed_tail_is_laid_out(ring: Ring, count: int, index: int) -> bool:
    """Take it from the newest columns of the buffer, dropped or not.

    pre: is_valid(ring) and can_trim(ring, count)
    pre: 0 <= index < history(plan_trim(ring, count))
    post: _
    """
    after = plan_trim(ring, count)
    return after.columns - history(after) + index < after.write_index


@lemma("TRIM-8", "POS-4")
def append_after_a_trim(ring: Ring, count: int, position: int) -> bool:
    """Give the trimmed position to the next decode, and hold what the trim spared besides it.

    pre: is_valid(ring) and can_trim(ring, count)
    pre: 0 <= position <= ring.offset - count
    post: _
    """
    after = after_decode(plan_trim(ring, count))
    return after.offset == ring.offset - count + 1 and position_column(after, position) == position


@twin_of(append_after_a_trim)
def append_after_a_trim_behind_the_tail(ring: Ring, count: int, position: int) -> bool:
    """Append behind the columns that the trim dropped.

    pre: is_valid(ring) and can_trim(ring, count)
    pre: 0 <= position <= ring.offset - count
    post: _
    """
    return decode_column(plan_trim(ring, count)) == decode_column(ring)


@lemma("TRIM-10")
def trims_of_nothing_change_nothing(ring: Ring, full: Full) -> bool:
    """Allow a trim of 0 wherever one is possible at all, a bypass of 0 always, and leave every number as it was.

    pre: is_valid(ring) and is_valid(full)
    post: _
    """
    allowed = can_bypass(ring, 0) and can_trim(full, 0) and can_trim(ring, 0) == (ring.offset < ring.window)
    return allowed and plan_trim(ring, 0) == ring and plan_bypass(ring, 0) == ring and plan_trim(full, 0) == full


@twin_of(trims_of_nothing_change_nothing)
def trims_of_nothing_cut_spare_columns(ring: Ring, full: Full) -> bool:
    """Cut the buffer to its write index on the way.

    pre: is_valid(ring) and is_valid(full)
    post: _
    """
    return plan_bypass(ring, 0).write_index == ring.columns
