"""A state of the product of a serial cache's layout and its history, with pinned positions, and what must hold of it.

Token ids begin at 1 as in `product`: the id of position p is p + 1, and a column that holds none has 0.
"""

from attrs import evolve, frozen

from kvlaw.conformance.proofs.exhaustive.product import DEAD, SPARE, demand, shift_from
from kvlaw.reference import index_plans as plans
from kvlaw.reference import index_state as states
from kvlaw.reference.index_state import Full, Ring, State


@frozen(cache_hash=True)
class Serial:
    """Hold the integers of a serial cache, its columns, and what history says.

    cells: the id in each physical column. length: tokens so far. drafted: those appended in the open round, None if no
    round is open. block: newest tokens that came as one window and may be cut off by a bypass trim.
    short: a bypass trim left one position less than W, which no query sees any more.
    """

    state: State
    cells: tuple[int, ...] = ()
    length: int = 0
    drafted: int | None = None
    block: int = 0
    short: bool = False

    @property
    def window(self) -> int | None:
        """Give W, None for a growing cache."""
        return self.state.window if isinstance(self.state, Ring) else None

    @property
    def sinks(self) -> int:
        """Give s, the positions that stay."""
        return self.state.sinks if isinstance(self.state, Ring) else 0

    @property
    def owed(self) -> tuple[int, ...]:
        """List the ids that must be there, oldest first: pinned ones and the newest, W in all beside the open round."""
        most = self.length if self.window is None else self.window - self.short + (self.drafted or 0)
        ids = range(1, self.length + 1)
        pinned = min(self.sinks, most)
        return tuple(ids) if self.length <= most else (*ids[:pinned], *ids[self.length - most + pinned :])


def new(window: int | None, sinks: int) -> Serial:
    """Give an empty cache."""
    return Serial(Full() if window is None else Ring(window, sinks))


def normal_form(at: Serial) -> Serial:
    """Shift the positions behind the pinned ones down, and forget ids that no query may see."""
    if isinstance(at.state, Full):
        state = evolve(at.state, columns=min(at.state.columns, at.state.offset + SPARE))
        cells = tuple(cell if cell <= at.length else DEAD for cell in at.cells[: state.columns])
        return evolve(at, state=state, cells=cells)
    firm = at.length - (at.drafted or 0) - at.block  # what is newer may be taken back
    shift = max(0, firm - shift_from(at.state.window))
    oldest, sinks = firm - at.state.window, at.state.sinks
    cells = tuple(
        cell if cell <= min(sinks, at.length) else cell - shift if oldest < cell <= at.length else DEAD
        for cell in at.cells
    )
    return evolve(at, state=evolve(at.state, offset=at.state.offset - shift), cells=cells, length=at.length - shift)


def check_serial(at: Serial) -> None:
    """Compare numbers, columns and what may be called with history; raises ViolationError."""
    state = at.state
    demand(states.is_valid(state), f"no valid cache: {state}")
    demand(state.offset == at.length, f"offset {state.offset}, not {at.length}")
    demand(len(at.cells) == state.columns, f"{len(at.cells)} of {state.columns} columns")
    if isinstance(state, Full):
        demand(at.cells[: at.length] == at.owed, f"holds {at.cells}, not {at.owed} first")
    else:
        _check_ring(at, state)
    for count in range(-1, at.length + 2):
        able = 0 <= count <= at.length and (at.window is None or at.length < at.window)
        demand(plans.can_trim(state, count) == able, f"a trim of {count} is {'refused' if able else 'allowed'}")


def _check_ring(at: Serial, ring: Ring) -> None:
    """I1: pinned positions lie first, the newest last; each column says of itself what it holds."""
    order = states.temporal_columns(ring)
    demand(sorted(order) == list(range(states.active(ring))), f"temporal order {order}")
    lie, owed = tuple(at.cells[column] for column in order), at.owed
    pinned = min(at.sinks, len(owed))
    newest = owed[pinned:]
    held = lie[:pinned] == owed[:pinned] and (not newest or lie[max(pinned, len(lie) - len(newest)) :] == newest)
    demand(held, f"holds {lie}, not {owed[:pinned]} first and {newest} last (I1)")
    for column, cell in enumerate(at.cells):
        position = states.column_position(ring, column)
        demand(cell in (DEAD, -1 if position is None else position + 1), f"column {column} holds {cell}: {position}")
    for cell in owed:
        column = states.position_column(ring, cell - 1)
        demand(column is not None and at.cells[column] == cell, f"position {cell - 1} is in column {column}")
    for count in range(-1, at.length + 2):
        able = 0 <= count <= at.block
        demand(plans.can_bypass(ring, count) == able, f"a bypass of {count} is {'refused' if able else 'allowed'}")


__all__ = ["Serial", "check_serial", "new", "normal_form"]
