"""What each operation does to the columns of a growing cache and of a ring, in plain integers.

Every operation reads the same: a check (`can_...`, it changes nothing), a plan, the next state.

* `plan_decode`, `plan_block`, `full_plan`: one append as a `Plan` of columns to add, keep, write and fetch.
* `after_decode`, `after_block`, `after_full`: only the next state, free of loops for the proofs.
* `can_trim`, `plan_trim`: drop the newest positions, moving no data.
* `can_bypass`, `plan_bypass`: cut positions off the end of the newest window.
* `max_columns`: the memory bound of an append.

A plan is carried out in the order of its fields: add zero columns at the end, keep and order columns, write, fetch.

Refused by the checks: a ring trim once `offset >= W` (positions may be gone), a trim of more than `offset` positions, a
bypass of more than is left of the newest window.

Source: `geometry.md` sections 3, 6 and 7, `design.md` section 7 (decisions 2, 14, 17).
"""

from typing import Generic, Literal, TypeVar

from attrs import evolve, frozen

from kvlaw.reference.index_state import STEP, Full, Ring, State, active, history, temporal_column
from kvlaw.spec.cite import clause

Phase = Literal["decode", "window"]
"""How an append was named; the name decides, not its length: a one-token window concatenates."""


StateT = TypeVar("StateT", bound=Ring | Full)


@frozen
class Plan(Generic[StateT]):
    """Say what one append does to the buffer.

    add: zero columns put at the end of the buffer first.
    keep: columns of that buffer that stay, in the order in which they are laid out; None if all stay where they are.
    write_at: the column of the first appended position; equal to the columns kept when the write extends the buffer.
    length: L, positions appended; they fill [write_at, write_at + length).
    fetch: columns after the write that a read of this append sees, in the order in which it sees them.
    after: the state after the append.
    """

    add: int
    keep: tuple[int, ...] | None
    write_at: int
    length: int
    fetch: tuple[int, ...]
    after: StateT


# Decode of a ring: in place.


@clause("RING-7")
def added_columns(ring: Ring) -> int:
    """Count the zero columns that a decode adds because the write index has reached the end of a buffer below W."""
    if ring.rotated or ring.write_index < ring.columns:
        return 0
    return max(0, min(STEP, ring.window - ring.columns))


@clause("RING-6")
def overshoot(ring: Ring) -> int:
    """Count the oldest unpinned columns beyond W, left by a window, that the next decode drops first."""
    return max(0, ring.columns - ring.window)


@clause("RING-2", "RING-3")
def decode_column(ring: Ring) -> int:
    """Give the column that a decode writes: the write index, wrapped to the first unpinned column at W."""
    return ring.sinks if ring.write_index >= ring.window else ring.write_index


@clause("RING-6", "RING-12")
def decode_source(ring: Ring, column: int) -> int:
    """Give the column before a decode whose data lies at `column` after its overshoot was dropped."""
    return column if column < ring.sinks else column + overshoot(ring)


@clause("RING-9", "POS-2", "POS-3")
def after_decode(ring: Ring) -> Ring:
    """Give the state after a decode."""
    return evolve(
        ring,
        columns=ring.columns + added_columns(ring) - overshoot(ring),
        write_index=decode_column(ring) + 1,
        rotated=ring.rotated or ring.write_index >= ring.window,
        offset=ring.offset + 1,
        block=0,
    )


@clause("RING-2", "RING-3", "RING-6", "RING-7", "VIS-7", "READ-1")
def plan_decode(ring: Ring) -> Plan[Ring]:
    """Plan the append of one position in place: grow or drop the overshoot, wrap, write; fetch in physical order."""
    after = after_decode(ring)
    kept = tuple(decode_source(ring, column) for column in range(ring.window)) if overshoot(ring) else None
    return Plan(
        add=added_columns(ring),
        keep=kept,
        write_at=decode_column(ring),
        length=1,
        fetch=tuple(range(active(after))),
        after=after,
    )


# Window of a ring: concatenated to the newest history.


@clause("RING-4", "RING-12", "RING-15")
def block_source(ring: Ring, index: int) -> int:
    """Give the column before a window whose data lies at `index`, in [0, history), after it: sinks, then the newest."""
    dropped = active(ring) - history(ring)
    return temporal_column(ring, index if index < ring.sinks else index + dropped)


@clause("RING-4", "RING-5", "RING-9", "POS-2", "POS-3")
def after_block(ring: Ring, length: int) -> Ring:
    """Give the state after a window of `length` positions: temporal order, no spare columns."""
    columns = history(ring) + length
    return evolve(ring, columns=columns, write_index=columns, rotated=False, offset=ring.offset + length, block=length)


@clause("RING-4", "RING-5", "VIS-7", "READ-1")
def plan_block(ring: Ring, length: int) -> Plan[Ring]:
    """Plan the append of a window of `length` >= 1 positions: lay the history out in temporal order, concatenate."""
    kept = tuple(block_source(ring, index) for index in range(history(ring)))
    after = after_block(ring, length)
    return Plan(
        add=0,
        keep=None if kept == tuple(range(ring.columns)) else kept,
        write_at=history(ring),
        length=length,
        fetch=tuple(range(after.columns)),
        after=after,
    )


# Growing cache.


@clause("GROW-3")
def capacity_for(positions: int) -> int:
    """Give the smallest multiple of STEP that holds `positions`."""
    return -(-positions // STEP) * STEP


@clause("GROW-1", "GROW-3", "POS-2")
def after_full(full: Full, length: int) -> Full:
    """Give the state of a growing cache after an append of `length` positions."""
    offset = full.offset + length
    return Full(columns=full.columns if offset <= full.columns else capacity_for(offset), offset=offset)


@clause("GROW-1", "GROW-2", "GROW-3")
def full_plan(full: Full, length: int) -> Plan[Full]:
    """Plan an append of `length` >= 1 positions to a growing cache: if they do not fit, cut stale columns and grow."""
    after = after_full(full, length)
    added, kept = 0, None
    if after.offset > full.columns:
        added = after.columns - full.offset
        if full.columns > full.offset:
            kept = (*range(full.offset), *range(full.columns, full.columns + added))
    return Plan(
        add=added, keep=kept, write_at=full.offset, length=length, fetch=tuple(range(after.offset)), after=after
    )


# Trims.


@clause("TRIM-6")
def can_trim(state: State, count: int) -> bool:
    """Tell whether the newest `count` positions can be dropped: a ring only while nothing was ever evicted."""
    if isinstance(state, Ring) and state.offset >= state.window:
        return False
    return 0 <= count <= state.offset


@clause("TRIM-1", "TRIM-2", "TRIM-10", "POS-4")
def plan_trim(state: StateT, count: int) -> StateT:
    """Give the state after a trim that `can_trim` allows; no data moves, the dropped columns become spare."""
    if isinstance(state, Full):
        return evolve(state, offset=state.offset - count)
    block = state.block if count == 0 else 0
    return evolve(state, write_index=state.write_index - count, offset=state.offset - count, block=block)


@clause("TRIM-11", "TRIM-12")
def can_bypass(ring: Ring, count: int) -> bool:
    """Tell whether `count` positions at the end of the newest window can be cut off the buffer."""
    return 0 <= count <= ring.block


@clause("TRIM-11", "POS-4")
def plan_bypass(ring: Ring, count: int) -> Ring:
    """Give the state after a bypass trim that `can_bypass` allows: the last `count` columns are cut off."""
    return evolve(
        ring,
        columns=ring.columns - count,
        write_index=ring.write_index - count,
        offset=ring.offset - count,
        block=ring.block - count,
    )


# Memory.


@clause("RING-9", "GROW-3")
def max_columns(state: State, length: int, phase: Phase) -> int:
    """Bound the columns allocated after an append of `length` positions to `state`."""
    if isinstance(state, Full):
        return max(state.columns, state.offset + length + STEP)
    return state.window if phase == "decode" else state.window - 1 + length
