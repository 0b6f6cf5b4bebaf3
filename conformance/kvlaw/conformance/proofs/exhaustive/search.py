"""Breadth-first over the product of layout and history, until no call leads to a new state."""

import time
from collections import deque
from collections.abc import Callable
from typing import Literal

from attrs import frozen

from kvlaw.conformance.proofs.exhaustive.invariants import check_state
from kvlaw.conformance.proofs.exhaustive.moves import Alphabet
from kvlaw.conformance.proofs.exhaustive.product import Product, ViolationError, empty, normal_form
from kvlaw.conformance.proofs.exhaustive.readings import Reader

Budget = Literal["ci", "deep"]


@frozen
class Space:
    """Name the groups of one search: of rings with one window, or growing ones up to so many columns.

    drafts: the most columns of one round; None for as many as the longest block has, 0 for no rounds.
    """

    window: int | None
    rows: int
    positions: int | None = None
    drafts: int | None = None

    @property
    def name(self) -> str:
        """Say which groups these are."""
        kind = f"growing, up to {self.positions} columns" if self.window is None else f"rings, window {self.window}"
        return f"{kind}, {'one row' if self.rows == 1 else 'up to two rows' if self.rows == 2 else self.rows}"

    @property
    def alphabet(self) -> Alphabet:
        """Give the calls: blocks, padded prompts and rounds of up to W + 2 positions."""
        longest = (self.positions if self.window is None else self.window + 2) or 0
        return Alphabet(self.rows, longest, self.positions, longest if self.drafts is None else self.drafts)


@frozen
class Violation:
    """Say what is wrong, and a shortest history that shows it."""

    message: str
    calls: tuple[str, ...]


@frozen
class Coverage:
    """Say what a search has seen.

    states: different ones, up to a shift of positions. transitions: calls made and checked.
    closed: no call leads to a new state; False after a violation or an interrupt.
    """

    space: Space
    states: int
    transitions: int
    seconds: float
    closed: bool
    violation: Violation | None = None
    interrupted: bool = False


OnProgress = Callable[[Space, int, int], None]
"""Called now and then with the space, the states and the transitions so far."""

SPACES: dict[Budget, tuple[Space, ...]] = {
    "ci": (
        *(Space(window, 1) for window in (1, 2, 3, 4)),
        *(Space(window, 2) for window in (1, 2)),
        Space(None, 2, positions=4),
        Space(3, 2),
    ),
    "deep": (*(Space(window, 2) for window in (1, 2, 3)), Space(None, 2, positions=5), Space(4, 2)),
}
"""The searches of each budget, the longest last; up to two rows includes one row and none."""

_EVERY = 1000


def search(space: Space, on_progress: OnProgress | None = None) -> Coverage:
    """Visit every state that some history of calls leads to; stops at the first violation or interrupt."""
    return _Search(space, on_progress).run()


class _Search:
    def __init__(self, space: Space, on_progress: OnProgress | None) -> None:
        self.space, self.on_progress = space, on_progress
        self.started = time.monotonic()
        self.reader = Reader()
        self.before: dict[Product, tuple[Product, str] | None] = {}
        self.waiting: deque[Product] = deque()
        self.transitions = 0

    def run(self) -> Coverage:
        at: Product | None = None
        call = "new group"
        try:
            for rows in range(self.space.rows + 1):
                self._reach(empty(self.space.window, rows), None)
            while self.waiting:
                at = self.waiting.popleft()
                for call, make in self.space.alphabet.moves(at, self.reader):
                    self._reach(make(), (at, call))
        except KeyboardInterrupt:
            return self._coverage(closed=False, interrupted=True)
        except Exception as error:  # a rule that cannot be carried out is wrong as well
            message = str(error) if isinstance(error, ViolationError) else f"{type(error).__name__}: {error}"
            return self._coverage(closed=False, violation=Violation(message, (*self._history(at), call)))
        return self._coverage(closed=True)

    def _reach(self, state: Product | None, origin: tuple[Product, str] | None) -> None:
        self.transitions += origin is not None
        if self.on_progress is not None and origin is not None and self.transitions % _EVERY == 0:
            self.on_progress(self.space, len(self.before), self.transitions)
        normal = None if state is None else normal_form(state)
        if normal is not None and normal not in self.before:
            check_state(normal)
            self.before[normal] = origin
            self.waiting.append(normal)

    def _history(self, state: Product | None) -> tuple[str, ...]:
        calls: list[str] = []
        while state is not None and (origin := self.before[state]) is not None:
            state, call = origin
            calls.append(call)
        return ("" if state is None else f"group of {len(state.lines)} empty rows", *reversed(calls))

    def _coverage(self, closed: bool, violation: Violation | None = None, interrupted: bool = False) -> Coverage:
        seconds = time.monotonic() - self.started
        return Coverage(self.space, len(self.before), self.transitions, seconds, closed, violation, interrupted)
