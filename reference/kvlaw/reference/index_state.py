"""State of a growing cache and of a ring, and where each position stands in it, in plain integers.

* `Ring`, `Full`: the stored numbers, and nothing that follows from them.
* `active`, `live`, `history`: numbers that follow from them.
* `temporal_index`, `temporal_column`: physical column to place in temporal order, and back; `temporal_columns`: all.
* `column_position`, `position_column`: physical column to the position that it holds, and back.
* `is_valid`: the invariants I2, I4 and I5, which every operation of `index_plans` keeps.

Temporal order of a ring: as it lies until the write index has wrapped; after that the sinks `[0, s)`, then
`[write_index, W)`, then `[s, write_index)`. Every function here is free of loops except `temporal_columns`, so that
CrossHair can prove it for all sizes.

Source: `geometry.md` sections 1, 2 and 6. Nothing here is refused: `index_plans` has the checks.
"""

from attrs import frozen

from kvlaw.spec.cite import clause

STEP = 256
"""Columns that one allocation adds: the ring adds at most STEP, the growing cache rounds up to a multiple of STEP."""


@frozen
class Ring:
    """Hold the geometry of a serial sliding-window ring.

    window: W, columns that count once the ring is full, and the newest positions a query sees, W >= 1.
    sinks: s, the first positions, pinned at columns [0, s) and counted in W, 0 <= s < W.
    columns: allocated columns of the buffer.
    write_index: the column that the next decode writes, write_index <= columns.
    rotated: the write index has wrapped since the columns were last laid out in temporal order.
    offset: the next position, which is also the number of positions retained so far.
    block: newest positions of the last window that still end the buffer and that a bypass trim can drop.
    """

    window: int
    sinks: int = 0
    columns: int = 0
    write_index: int = 0
    rotated: bool = False
    offset: int = 0
    block: int = 0


@frozen
class Full:
    """Hold the geometry of a serial growing cache: position p always stands at column p.

    columns: allocated columns of the buffer.
    offset: the next position; columns [offset, columns) are spare or stale.
    """

    columns: int = 0
    offset: int = 0


State = Ring | Full


def active(ring: Ring) -> int:
    """Count the columns that hold a position; the rest of the buffer is spare."""
    return ring.window if ring.rotated else ring.write_index


@clause("POS-6")
def live(ring: Ring) -> int:
    """Count the newest positions that a reader is owed, sinks included."""
    return min(ring.offset, ring.window)


@clause("RING-4")
def history(ring: Ring) -> int:
    """Count the columns that a window keeps from before it: all that its first query may see."""
    return min(active(ring), ring.window - 1)


@clause("RING-3", "VIS-7")
def temporal_index(ring: Ring, column: int) -> int:
    """Give the place in temporal order of a physical column in [0, active)."""
    if not ring.rotated or column < ring.sinks:
        return column
    if column >= ring.write_index:
        return ring.sinks + column - ring.write_index
    return column + ring.window - ring.write_index


@clause("RING-3", "VIS-7")
def temporal_column(ring: Ring, index: int) -> int:
    """Give the physical column of a place in temporal order, index in [0, active); the inverse of `temporal_index`."""
    if not ring.rotated or index < ring.sinks:
        return index
    column = ring.write_index + index - ring.sinks
    return column if column < ring.window else column - (ring.window - ring.sinks)


def temporal_columns(ring: Ring) -> tuple[int, ...]:
    """List the physical columns that hold a position, oldest first."""
    return tuple(temporal_column(ring, index) for index in range(active(ring)))


@clause("RING-1", "RING-13")
def column_position(ring: Ring, column: int) -> int | None:
    """Give the position that a physical column holds, or None for a spare column."""
    if not 0 <= column < active(ring):
        return None
    index = temporal_index(ring, column)
    return index if index < ring.sinks else ring.offset - active(ring) + index


@clause("RING-1", "RING-13")
def position_column(ring: Ring, position: int) -> int | None:
    """Give the physical column that holds a position, or None if the ring holds it no more or not yet."""
    if 0 <= position < min(ring.sinks, active(ring)):
        return position
    index = active(ring) - ring.offset + position
    return temporal_column(ring, index) if ring.sinks <= index < active(ring) else None


def is_valid(state: State) -> bool:
    """Tell whether the numbers can be those of a cache: the invariant that every operation keeps."""
    if isinstance(state, Full):
        return 0 <= state.offset <= state.columns
    return (
        0 <= state.sinks < state.window
        and _has_valid_buffer(state)
        and _holds_enough(state)
        and _has_valid_block(state)
    )


def _has_valid_buffer(ring: Ring) -> bool:
    if ring.rotated:
        return ring.columns == ring.window and ring.sinks < ring.write_index <= ring.window
    if ring.columns > ring.window:
        return ring.write_index == ring.columns
    return 0 <= ring.write_index <= ring.columns


def _holds_enough(ring: Ring) -> bool:
    """Below W positions all are held; from W on at least the W - 1 that the next query needs besides its own."""
    if ring.offset < ring.window:
        return active(ring) == ring.offset
    return ring.window - 1 <= active(ring) <= ring.offset


def _has_valid_block(ring: Ring) -> bool:
    """A droppable block ends the buffer, behind all the history that was kept before it."""
    if ring.block == 0:
        return True
    if ring.rotated or ring.write_index != ring.columns or not 0 < ring.block <= ring.offset:
        return False
    return ring.columns - ring.block == min(ring.offset - ring.block, ring.window - 1)
