"""Lemmas on bypass trims: what the cut at the end of a window drops, spares and leaves for the next query."""

# ruff: noqa: F401 -- contracts use names that the code does not
# pyright: reportUnusedImport=false

from kvlaw.conformance.proofs.registry import lemma, twin_of
from kvlaw.reference.index import (
    Ring,
    active,
    after_block,
    after_decode,
    can_bypass,
    can_trim,
    history,
    is_valid,
    plan_bypass,
    plan_trim,
    position_column,
    visible,
)


@lemma("TRIM-11", "POS-4")
def bypass_keeps_the_invariant(ring: Ring, count: int) -> bool:
    """Lead every ring to a valid ring, `count` positions back, whose write index is where the buffer ends.

    pre: is_valid(ring) and can_bypass(ring, count)
    post: _
    """
    after = plan_bypass(ring, count)
    ends = after.write_index == after.columns or count == 0
    return is_valid(after) and after.offset == ring.offset - count and ends


@twin_of(bypass_keeps_the_invariant)
def bypass_of_more_than_the_window(ring: Ring, count: int) -> bool:
    """Allow a bypass trim of one position more than the window had.

    pre: is_valid(ring) and can_bypass(ring, count)
    post: _
    """
    columns = ring.columns - count - 1
    return is_valid(Ring(ring.window, ring.sinks, columns, columns, False, ring.offset - count - 1))


@lemma("TRIM-11")
def bypass_drops_the_newest(ring: Ring, count: int, position: int) -> bool:
    """Drop exactly the newest `count` positions, and leave every other in its column.

    pre: is_valid(ring) and can_bypass(ring, count)
    post: _
    """
    column = position_column(plan_bypass(ring, count), position)
    return column == (position_column(ring, position) if position < ring.offset - count else None)


@twin_of(bypass_drops_the_newest)
def bypass_leaves_the_offset(ring: Ring, count: int, position: int) -> bool:
    """Cut the buffer but not the offset.

    pre: is_valid(ring) and can_bypass(ring, count)
    post: _
    """
    columns = ring.columns - count
    cut = Ring(ring.window, ring.sinks, columns, columns, False, ring.offset)
    column = position_column(cut, position)
    return column == (position_column(ring, position) if position < ring.offset - count else None)


@lemma("TRIM-11", "RING-12", "VIS-9")
def bypass_spares_what_is_seen(ring: Ring, count: int, key: int) -> bool:
    """Leave after a bypass trim every earlier position that the next query sees, the sinks in their columns.

    pre: is_valid(ring) and can_bypass(ring, count)
    pre: visible(ring.offset - count, key, ring.window, ring.sinks)
    pre: key < ring.offset - count
    post: _
    """
    column = position_column(plan_bypass(ring, count), key)
    return column is not None and (key >= ring.sinks or column == key)


@twin_of(bypass_spares_what_is_seen)
def bypass_spares_a_whole_window(ring: Ring, count: int, key: int) -> bool:
    """Leave one position more, which the newest retained query saw.

    pre: is_valid(ring) and can_bypass(ring, count)
    pre: visible(ring.offset - count, key, ring.window, ring.sinks)
    pre: key < ring.offset - count
    post: _
    """
    after = plan_bypass(ring, count)
    one_older = key - 1
    return one_older < after.sinks or position_column(after, one_older) is not None


@lemma("TRIM-11", "TRIM-12", "RING-4")
def bypass_undoes_a_window(ring: Ring, length: int, key: int) -> bool:
    """Hold after a window and its bypass trim what its history was: the newest min(active, W - 1), sinks included.

    pre: is_valid(ring) and length >= 1
    post: _
    """
    after = plan_bypass(after_block(ring, length), length)
    kept = key < ring.sinks or key >= ring.offset - (history(ring) - ring.sinks)
    held = kept and position_column(ring, key) is not None
    back = after.offset == ring.offset and after.block == 0
    return back and (position_column(after, key) is not None) == held


@twin_of(bypass_undoes_a_window)
def bypass_restores_the_ring(ring: Ring, length: int, key: int) -> bool:
    """Claim that the ring then holds all that it held before the window.

    pre: is_valid(ring) and length >= 1
    post: _
    """
    after = plan_bypass(after_block(ring, length), length)
    return (position_column(after, key) is not None) == (position_column(ring, key) is not None)


@lemma("TRIM-12")
def bypass_only_after_a_window(ring: Ring, length: int, count: int) -> bool:
    """Allow a bypass trim of 0 to L positions after a window, and of none after a decode or a trim.

    pre: is_valid(ring) and length >= 1 and count >= 1
    post: _
    """
    decoded = can_bypass(after_decode(ring), count)
    trimmed = can_trim(ring, count) and can_bypass(plan_trim(ring, count), 1)
    return not decoded and not trimmed and can_bypass(after_block(ring, length), count) == (count <= length)


@twin_of(bypass_only_after_a_window)
def bypass_of_the_history(ring: Ring, length: int, count: int) -> bool:
    """Allow a bypass trim of any column that is stored.

    pre: is_valid(ring) and length >= 1 and count >= 1
    post: _
    """
    after = after_block(ring, length)
    return can_bypass(after, count) == (count <= after.columns)
