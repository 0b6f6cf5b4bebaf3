"""Breadth-first over the product of layout and history, until no call leads to a new state."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, Literal, Protocol, TypeVar

from attrs import frozen

from kvlaw.conformance.proofs.exhaustive import serial
from kvlaw.conformance.proofs.exhaustive.invariants import check_state
from kvlaw.conformance.proofs.exhaustive.moves import Alphabet, Move
from kvlaw.conformance.proofs.exhaustive.product import Product, ViolationError, empty, normal_form
from kvlaw.conformance.proofs.exhaustive.readings import Reader
from kvlaw.conformance.proofs.exhaustive.serial import Serial
from kvlaw.conformance.proofs.exhaustive.serial_moves import SerialAlphabet

Budget = Literal["ci", "deep"]


@frozen
class Space:
    """Name the caches of one search: rings with one window, or growing ones up to so many columns.

    drafts: the most columns of one round; None for as many as the longest block has, 0 for no rounds.
    serial: no group, but serial caches; of a ring with any number of pinned positions.
    """

    window: int | None
    rows: int
    positions: int | None = None
    drafts: int | None = None
    serial: bool = False

    @property
    def name(self) -> str:
        """Say which caches these are."""
        kind = f"growing, up to {self.positions} columns" if self.window is None else f"rings, window {self.window}"
        if self.serial:
            return f"serial {kind}" + (", all pinnings" if self.window else "")
        return f"{kind}, {'one row' if self.rows == 1 else 'up to two rows' if self.rows == 2 else self.rows}"

    @property
    def alphabet(self) -> Alphabet:
        """Give the calls: blocks, padded prompts and rounds of up to W + 2 positions."""
        return Alphabet(self.rows, self.longest, self.positions, self.most_drafts)

    @property
    def longest(self) -> int:
        """Give the length of the longest block."""
        return (self.positions if self.window is None else self.window + 2) or 0

    @property
    def most_drafts(self) -> int:
        """Give the most columns of a round: no more than the longest block, by which positions are shifted."""
        return self.longest if self.drafts is None else min(self.longest, self.drafts)


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

_SERIAL = (*(Space(window, 1, serial=True) for window in range(1, 6)), Space(None, 1, positions=6, serial=True))

SPACES: dict[Budget, tuple[Space, ...]] = {
    "ci": (
        *_SERIAL,
        *(Space(window, 1) for window in (1, 2, 3, 4)),
        *(Space(window, 2) for window in (1, 2)),
        Space(None, 2, positions=4),
        Space(3, 2),
    ),
    "deep": (*_SERIAL, *(Space(window, 2) for window in (1, 2, 3)), Space(None, 2, positions=5), Space(4, 2)),
}
"""The searches of each budget, the longest last; up to two rows includes one row and none."""

_EVERY = 1000


def search(space: Space, on_progress: OnProgress | None = None) -> Coverage:
    """Visit every state that some history of calls leads to; stops at the first violation or interrupt."""
    if space.serial:
        return _Search(space, _Alone(space), on_progress).run()
    return _Search(space, _Group(space), on_progress).run()


StateT = TypeVar("StateT", Product, Serial)


class _Walk(Protocol[StateT]):
    """Know the states of a space and the calls from each."""

    def starts(self) -> Iterator[StateT]: ...

    def moves(self, at: StateT) -> Iterator[tuple[str, Callable[[], StateT | None]]]: ...

    def normal_form(self, at: StateT) -> StateT: ...

    def check(self, at: StateT) -> None: ...

    def told(self, at: StateT) -> str: ...


class _Group:
    def __init__(self, space: Space) -> None:
        self.space, self.alphabet, self.reader = space, space.alphabet, Reader()

    def starts(self) -> Iterator[Product]:
        return (empty(self.space.window, rows) for rows in range(self.space.rows + 1))

    def moves(self, at: Product) -> Iterator[Move]:
        return self.alphabet.moves(at, self.reader)

    def normal_form(self, at: Product) -> Product:
        return normal_form(at)

    def check(self, at: Product) -> None:
        check_state(at)

    def told(self, at: Product) -> str:
        return f"group of {len(at.lines)} empty rows"


class _Alone:
    def __init__(self, space: Space) -> None:
        self.space, self.alphabet = space, SerialAlphabet(space.longest, space.positions, space.most_drafts)

    def starts(self) -> Iterator[Serial]:
        return (serial.new(self.space.window, sinks) for sinks in range(self.space.window or 1))

    def moves(self, at: Serial) -> Iterator[tuple[str, Callable[[], Serial]]]:
        return self.alphabet.moves(at)

    def normal_form(self, at: Serial) -> Serial:
        return serial.normal_form(at)

    def check(self, at: Serial) -> None:
        serial.check_serial(at)

    def told(self, at: Serial) -> str:
        return f"empty cache, {at.sinks} pinned"


class _Search(Generic[StateT]):
    def __init__(self, space: Space, walk: _Walk[StateT], on_progress: OnProgress | None) -> None:
        self.space, self.walk, self.on_progress = space, walk, on_progress
        self.started = time.monotonic()
        self.before: dict[StateT, tuple[StateT, str] | None] = {}
        self.waiting: deque[StateT] = deque()
        self.transitions = 0

    def run(self) -> Coverage:
        at: StateT | None = None
        call = "new"
        try:
            for start in self.walk.starts():
                self._reach(start, None)
            while self.waiting:
                at = self.waiting.popleft()
                for call, make in self.walk.moves(at):
                    self._reach(make(), (at, call))
        except KeyboardInterrupt:
            return self._coverage(closed=False, interrupted=True)
        except Exception as error:  # a rule that cannot be carried out is wrong as well
            message = str(error) if isinstance(error, ViolationError) else f"{type(error).__name__}: {error}"
            return self._coverage(closed=False, violation=Violation(message, (*self._history(at), call)))
        return self._coverage(closed=True)

    def _reach(self, state: StateT | None, origin: tuple[StateT, str] | None) -> None:
        self.transitions += origin is not None
        if self.on_progress is not None and origin is not None and self.transitions % _EVERY == 0:
            self.on_progress(self.space, len(self.before), self.transitions)
        normal = None if state is None else self.walk.normal_form(state)
        if normal is not None and normal not in self.before:
            self.walk.check(normal)
            self.before[normal] = origin
            self.waiting.append(normal)

    def _history(self, state: StateT | None) -> tuple[str, ...]:
        calls: list[str] = []
        while state is not None and (origin := self.before[state]) is not None:
            state, call = origin
            calls.append(call)
        return ("" if state is None else self.walk.told(state), *reversed(calls))

    def _coverage(self, closed: bool, violation: Violation | None = None, interrupted: bool = False) -> Coverage:
        seconds = time.monotonic() - self.started
        return Coverage(self.space, len(self.before), self.transitions, seconds, closed, violation, interrupted)
