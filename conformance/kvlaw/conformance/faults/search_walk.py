"""A walk of the oracle through calls that are drawn, so that every call names what is there."""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

from attrs import define, field

from kvlaw.reference.oracle import Group, Oracle, RecurrentModel
from kvlaw.spec.calls import Call
from kvlaw.spec.config import Config
from kvlaw.spec.trace import Trace

Kinds = list[tuple[int, Callable[[], Call]]]
"""Ways to make a call, with the weights by which one is drawn."""


@define
class Walk(ABC):
    """One walk, from the opening on; what comes next is drawn by its kind."""

    rng: random.Random
    config: Config
    oracle: Oracle = field(factory=lambda: Oracle("layout"))
    calls: list[Call] = field(factory=list[Call])
    tokens: int = 1

    @abstractmethod
    def next_calls(self) -> Iterable[Call]:
        """Draw what comes next: a call, or several that belong together."""

    def drawn(self, count: int) -> Trace:
        """Draw ``count`` calls, or a few more."""
        self.oracle.open(self.config)
        while len(self.calls) < count:
            for call in self.next_calls():
                self._made(call)
        return Trace(self.config, tuple(self.calls))

    def _made(self, call: Call) -> None:
        acted = self.oracle.world.get(call.on)
        rows = max(1, len(acted.rows)) if isinstance(acted, Group | RecurrentModel) else 1
        tokens = tuple(range(self.tokens, self.tokens + max(0, call.appends) * rows))
        self.tokens += len(tokens)
        self.oracle.step(call, tokens)
        self.calls.append(call)


__all__ = ["Kinds", "Walk"]
