"""Lemmas on the slot of a position in a wrapped ring, and on the write index that decodes keep there.

The slot formula uses a product of two unknowns, laps times W - s; `laps` stands for the quotient of the modulus.
"""

# ruff: noqa: ARG001, F401 -- a twin has all parameters of its lemma; contracts use names that the code does not
# pyright: reportUnusedImport=false

from kvlaw.conformance.proofs.registry import lemma, twin_of
from kvlaw.reference.index import (
    Ring,
    after_decode,
    column_position,
    decode_column,
    is_valid,
    position_column,
)


@lemma("RING-3", "VIS-7")
def wrapped_ring_holds(ring: Ring, column: int) -> bool:
    """Let a wrapped ring hold, in an unpinned column, the newest position that has reached it.

    pre: is_valid(ring)
    pre: ring.rotated and ring.sinks <= column < ring.window
    post: _
    """
    behind_newest = ring.write_index - 1 - column
    age = behind_newest if behind_newest >= 0 else behind_newest + ring.window - ring.sinks
    return column_position(ring, column) == ring.offset - 1 - age


@twin_of(wrapped_ring_holds)
def wrapped_ring_laps_by_window(ring: Ring, column: int) -> bool:
    """Count a lap as W columns although the pinned ones are jumped over.

    pre: is_valid(ring)
    pre: ring.rotated and ring.sinks <= column < ring.window
    post: _
    """
    behind_newest = ring.write_index - 1 - column
    age = behind_newest if behind_newest >= 0 else behind_newest + ring.window
    return column_position(ring, column) == ring.offset - 1 - age


@lemma("RING-2", "RING-3")
def slot_of_a_position(ring: Ring, laps: int, position: int, position_laps: int) -> bool:
    """Find position p at column s + (p - s) mod (W - s), if the write index stands where that formula says.

    pre: is_valid(ring) and ring.rotated
    pre: ring.offset - ring.write_index == laps * (ring.window - ring.sinks)
    pre: position_laps == laps or position_laps == laps - 1
    pre: 0 <= position - ring.sinks - position_laps * (ring.window - ring.sinks) < ring.window - ring.sinks
    pre: max(ring.sinks, ring.offset - (ring.window - ring.sinks)) <= position < ring.offset
    post: _
    """
    return position_column(ring, position) == position - position_laps * (ring.window - ring.sinks)


@twin_of(slot_of_a_position)
def slot_of_a_position_over_sinks(ring: Ring, laps: int, position: int, position_laps: int) -> bool:
    """Use p mod W, as if nothing were pinned.

    pre: is_valid(ring) and ring.rotated
    pre: ring.offset - ring.write_index == laps * (ring.window - ring.sinks)
    pre: position_laps == laps or position_laps == laps - 1
    pre: 0 <= position - ring.sinks - position_laps * (ring.window - ring.sinks) < ring.window - ring.sinks
    pre: max(ring.sinks, ring.offset - (ring.window - ring.sinks)) <= position < ring.offset
    post: _
    """
    return position_column(ring, position) == position - position_laps * ring.window


@lemma("RING-2", "RING-3")
def write_index_follows_the_slot(ring: Ring, laps: int) -> bool:
    """Keep the write index at s + (offset - s) mod (W - s) through every decode.

    pre: is_valid(ring) and ring.columns <= ring.window
    pre: ring.offset - ring.write_index == laps * (ring.window - ring.sinks)
    post: _
    """
    lap = ring.window - ring.sinks
    after = after_decode(ring)
    wrapped = 1 if ring.write_index >= ring.window else 0
    return after.offset - after.write_index == (laps + wrapped) * lap and decode_column(ring) == after.write_index - 1


@twin_of(write_index_follows_the_slot)
def write_index_wraps_one_early(ring: Ring, laps: int) -> bool:
    """Wrap when the last column is still free.

    pre: is_valid(ring) and ring.columns <= ring.window
    pre: ring.offset - ring.write_index == laps * (ring.window - ring.sinks)
    post: _
    """
    lap = ring.window - ring.sinks
    after = after_decode(ring)
    wrapped = 1 if ring.write_index >= ring.window - 1 else 0
    return after.offset - after.write_index == (laps + wrapped) * lap and decode_column(ring) == after.write_index - 1
