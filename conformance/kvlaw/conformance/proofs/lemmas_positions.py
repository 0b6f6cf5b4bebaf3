"""Lemmas on one ring at rest: temporal order, the column of a position and its inverse, which positions are held."""

# ruff: noqa: ARG001 -- a twin has all parameters of its lemma

from kvlaw.conformance.proofs.registry import lemma, twin_of
from kvlaw.reference.index import (
    Ring,
    active,
    column_position,
    is_valid,
    live,
    position_column,
    temporal_column,
    temporal_index,
)


@lemma("POS-1")
def new_ring_is_valid(window: int, sinks: int) -> bool:
    """Start every allowed configuration in a valid state that holds nothing.

    pre: 0 <= sinks < window
    post: _
    """
    ring = Ring(window, sinks)
    return is_valid(ring) and active(ring) == 0 and live(ring) == 0


@twin_of(new_ring_is_valid)
def new_ring_rotated(window: int, sinks: int) -> bool:
    """Let a new ring count as wrapped.

    pre: 0 <= sinks < window
    post: _
    """
    ring = Ring(window, sinks, rotated=True)
    return is_valid(ring) and active(ring) == 0 and live(ring) == 0


@lemma("RING-3", "VIS-7")
def temporal_index_is_inverted(ring: Ring, column: int) -> bool:
    """Find every active column again by its place in temporal order.

    pre: is_valid(ring)
    pre: 0 <= column < active(ring)
    post: _
    """
    index = temporal_index(ring, column)
    return 0 <= index < active(ring) and temporal_column(ring, index) == column


@twin_of(temporal_index_is_inverted)
def temporal_index_from_the_newest(ring: Ring, column: int) -> bool:
    """Start temporal order one column early, at the newest column instead of the oldest.

    pre: is_valid(ring)
    pre: 0 <= column < active(ring)
    post: _
    """
    index = temporal_index(ring, column) + (1 if ring.rotated and column >= ring.sinks else 0)
    return 0 <= index < active(ring) and temporal_column(ring, index) == column


@lemma("RING-3", "VIS-7")
def temporal_column_is_inverted(ring: Ring, index: int) -> bool:
    """Give every place in temporal order an active, allocated column of its own.

    pre: is_valid(ring)
    pre: 0 <= index < active(ring)
    post: _
    """
    column = temporal_column(ring, index)
    return 0 <= column < active(ring) <= ring.columns and temporal_index(ring, column) == index


@twin_of(temporal_column_is_inverted)
def temporal_column_wraps_over_sinks(ring: Ring, index: int) -> bool:
    """Wrap to column 0, as if nothing were pinned.

    pre: is_valid(ring)
    pre: 0 <= index < active(ring)
    post: _
    """
    column = (ring.write_index + index) - (ring.window if ring.write_index + index >= ring.window else 0)
    column = column if ring.rotated else index
    return 0 <= column < active(ring) <= ring.columns and temporal_index(ring, column) == index


@lemma("RING-4", "VIS-7")
def temporal_order_is_increasing(ring: Ring, earlier: int, later: int) -> bool:
    """Order columns by position: a later place in temporal order holds a later position.

    pre: is_valid(ring)
    pre: 0 <= earlier < later < active(ring)
    post: _
    """
    first = column_position(ring, temporal_column(ring, earlier))
    second = column_position(ring, temporal_column(ring, later))
    return first is not None and second is not None and first < second


@twin_of(temporal_order_is_increasing)
def physical_order_is_increasing(ring: Ring, earlier: int, later: int) -> bool:
    """Take physical order for temporal order.

    pre: is_valid(ring)
    pre: 0 <= earlier < later < active(ring)
    post: _
    """
    first = column_position(ring, earlier)
    second = column_position(ring, later)
    return first is not None and second is not None and first < second


@lemma("RING-1", "VIS-3")
def position_of_a_column_is_inverted(ring: Ring, column: int) -> bool:
    """Let every active column hold one retained position, which stands in that column only.

    pre: is_valid(ring)
    pre: 0 <= column < active(ring)
    post: _
    """
    position = column_position(ring, column)
    return position is not None and 0 <= position < ring.offset and position_column(ring, position) == column


@twin_of(position_of_a_column_is_inverted)
def position_of_a_column_by_window(ring: Ring, column: int) -> bool:
    """Count positions back from the window instead of from the active columns.

    pre: is_valid(ring)
    pre: 0 <= column < active(ring)
    post: _
    """
    position = ring.offset - ring.window + temporal_index(ring, column)
    return 0 <= position < ring.offset and position_column(ring, position) == column


@lemma("RING-1", "VIS-4")
def column_of_a_position_is_inverted(ring: Ring, position: int) -> bool:
    """Find a position only in an active column that holds it.

    pre: is_valid(ring)
    post: _
    """
    column = position_column(ring, position)
    return column is None or (0 <= column < active(ring) and column_position(ring, column) == position)


@twin_of(column_of_a_position_is_inverted)
def column_of_a_position_without_bounds(ring: Ring, position: int) -> bool:
    """Look a position up without asking whether it is still held.

    pre: is_valid(ring)
    post: _
    """
    column = temporal_column(ring, active(ring) - ring.offset + position)
    return 0 <= column < active(ring) and column_position(ring, column) == position


@lemma("VIS-4", "TRIM-8")
def spare_columns_hold_nothing(ring: Ring, column: int) -> bool:
    """Let a column that is spare, trimmed, or not allocated at all hold no position.

    pre: is_valid(ring)
    pre: not 0 <= column < active(ring)
    post: _
    """
    return column_position(ring, column) is None


@twin_of(spare_columns_hold_nothing)
def spare_columns_hold_what_they_held(ring: Ring, column: int) -> bool:
    """Let an allocated column behind the write index hold what was once written there.

    pre: is_valid(ring)
    pre: not 0 <= column < active(ring)
    post: _
    """
    return column_position(ring, column) is None and not 0 <= column < ring.columns


@lemma("RING-1", "RING-12")
def positions_held(ring: Ring, position: int) -> bool:
    """Hold exactly the first s positions and the newest ones, as many as there are other active columns.

    pre: is_valid(ring)
    pre: 0 <= position < ring.offset
    post: _
    """
    held = position < ring.sinks or position >= ring.offset - (active(ring) - ring.sinks)
    return (position_column(ring, position) is not None) == held


@twin_of(positions_held)
def positions_held_without_sinks(ring: Ring, position: int) -> bool:
    """Hold the newest positions only.

    pre: is_valid(ring)
    pre: 0 <= position < ring.offset
    post: _
    """
    held = position >= ring.offset - active(ring)
    return (position_column(ring, position) is not None) == held


@lemma("RING-1")
def enough_positions_held(ring: Ring, position: int) -> bool:
    """Hold the newest min(offset, W - 1) positions always, with the sinks counted in.

    pre: is_valid(ring)
    pre: 0 <= position < ring.offset
    pre: position < ring.sinks or position >= ring.offset - (ring.window - 1 - ring.sinks)
    post: _
    """
    return position_column(ring, position) is not None


@twin_of(enough_positions_held)
def one_more_position_held(ring: Ring, position: int) -> bool:
    """Hold W positions always; a bypass trim of a whole window leaves one less.

    pre: is_valid(ring)
    pre: 0 <= position < ring.offset
    pre: position < ring.sinks or position >= ring.offset - (ring.window - 1 - ring.sinks)
    post: _
    """
    return active(ring) >= min(ring.offset, ring.window)


@lemma("RING-13")
def sinks_stand_in_front(ring: Ring, position: int) -> bool:
    """Let each retained position below s stand at its own column.

    pre: is_valid(ring)
    pre: 0 <= position < min(ring.sinks, ring.offset)
    post: _
    """
    return position_column(ring, position) == position and column_position(ring, position) == position


@twin_of(sinks_stand_in_front)
def sinks_move_with_the_window(ring: Ring, position: int) -> bool:
    """Let the positions after the sinks be pinned too.

    pre: is_valid(ring)
    pre: 0 <= position < min(ring.sinks, ring.offset)
    post: _
    """
    return position_column(ring, position + 1) == position + 1
