"""What a round does to the columns of a growing cache and of a ring, in plain integers.

In an open round every append to a ring is a block, a decode too, and the ring keeps the columns of the round beside the
newest W from before it. So taking the newest columns back leaves nothing short, whatever was appended.

* `plan_in_round`: one append in an open round.
* `after_roll_back`: the state with the newest `count` positions taken back.

Source: `geometry.md` sections 3, 4 and 6, `design.md` section 7 (decision 2).
"""

from typing import Any

from attrs import evolve

from kvlaw.reference.index_plans import Plan, full_plan
from kvlaw.reference.index_state import Full, Ring, State, active, history, temporal_column
from kvlaw.spec.cite import clause


@clause("ROUND-8", "ROUND-15")
def kept_in_round(window: int, counting: int, appended: int) -> int:
    """Count the columns that a block keeps, of `counting` ones, when `appended` positions of the round came before."""
    return min(counting, window + appended)


@clause("ROUND-8")
def after_round_block(ring: Ring, length: int, appended: int) -> Ring:
    """Give the state after an append of `length` positions in a round: temporal order, no spare columns."""
    columns = kept_in_round(ring.window, active(ring), appended) + length
    return evolve(ring, columns=columns, write_index=columns, rotated=False, offset=ring.offset + length, block=0)


@clause("ROUND-8")
def round_source(ring: Ring, index: int, dropped: int) -> int:
    """Give the column before a block whose data lies at `index` after it: the sinks, then all but `dropped` others."""
    return temporal_column(ring, index if index < ring.sinks else index + dropped)


@clause("ROUND-6", "ROUND-8")
def plan_in_round(state: State, length: int, appended: int) -> Plan[Any]:
    """Plan the append of `length` >= 1 positions in an open round that has got `appended` positions so far."""
    if isinstance(state, Full):
        return full_plan(state, length)
    stored = kept_in_round(state.window, active(state), appended)
    kept = tuple(round_source(state, index, active(state) - stored) for index in range(stored))
    after = after_round_block(state, length, appended)
    unseen = stored - history(state)
    fetch = tuple(column for column in range(after.columns) if not state.sinks <= column < state.sinks + unseen)
    return Plan(
        add=0,
        keep=None if kept == tuple(range(state.columns)) else kept,
        write_at=stored,
        length=length,
        fetch=fetch,
        after=after,
    )


@clause("ROUND-2", "ROUND-14")
def after_roll_back(state: State, count: int) -> State:
    """Give the state with the newest `count` positions of the open round taken back: cut off the end of a ring."""
    if count == 0 or isinstance(state, Full):
        return evolve(state, offset=state.offset - count)
    columns = state.columns - count
    return evolve(state, columns=columns, write_index=columns, offset=state.offset - count)
