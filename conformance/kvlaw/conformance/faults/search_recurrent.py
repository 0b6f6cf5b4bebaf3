"""Traces of recurrent layers, drawn at random: caches, groups of rows, and what is made of either.

The oracle walks along, so that every call names what is there.  Lengths come from around the length of the
convolution's tail and of the slots; now and then something is asked that cannot be.
"""

import random
from collections.abc import Iterator
from typing import get_args

from attrs import define, evolve

from kvlaw.conformance.faults.search_walk import Kinds, Walk
from kvlaw.reference.oracle import RecurrentModel
from kvlaw.spec.calls import (
    Advance,
    BeginRound,
    Call,
    Clone,
    CommitRound,
    Extract,
    Filter,
    Finalize,
    LookAt,
    MakeCache,
    Merge,
    Prepare,
    Reset,
    RollBack,
    Spoilt,
    Trim,
)
from kvlaw.spec.config import Config, LayerSpec
from kvlaw.spec.trace import Trace

LENGTHS = (1, 1, 2, 3, 4, 5, 6)


def draw_recurrent(rng: random.Random) -> Trace:
    """Draw one trace of a recurrent cache, or of a group of recurrent rows."""
    conv = rng.choice((None, None, 1, 2, 3))
    rows = rng.choice((0, 1, 2, 2, 3))
    grouped = rng.random() < 0.75
    look = rng.choice(("every", "every", "last"))
    config = Config("recurrent_rows", rows=rows, conv=conv, look=look) if grouped else Config("recurrent", conv=conv)
    return _Walk(rng, config).drawn(rng.randint(2, 9))


@define
class _Walk(Walk):
    """A walk among caches and groups of recurrent layers."""

    def next_calls(self) -> Iterator[Call]:
        """Draw a call on one of them."""
        world = {n: thing for n, thing in self.oracle.world.items() if isinstance(thing, RecurrentModel)}
        name = self.rng.choice(list(world))
        yield evolve(self._next(world[name], list(world)), on=name)

    def _next(self, model: RecurrentModel, names: list[str]) -> Call:
        made, rng = f"x{len(self.calls)}", self.rng
        kinds: Kinds = [
            (40, lambda: Advance(length=rng.choice(LENGTHS), malformed=self._spoilt())),
            (8, lambda: Clone(as_=made)),
            (2, lambda: Trim(n=rng.choice((-1, 0, 1)))),
            (2, Reset),
            (2, LookAt),
            (3 if model.in_round else 14, BeginRound),
            (4, CommitRound),
            (30 if model.in_round else 1, lambda: RollBack(keep=self._keep(model))),
            (6, lambda: MakeCache(layer=self._other(), as_=made)),
            (10, lambda: Merge(sources=tuple(rng.choices(names, k=rng.choice((1, 2, 2, 3)))), as_=made)),
        ]
        if model.is_rows:
            kinds += [
                (10, lambda: Extract(row=self._row(model), as_=made)),
                (10, lambda: Filter(rows=self._rows(model))),
                (2 if model.holds or model.pends else 16, lambda: self._prompt(model)),
                (6, lambda: self._prompt(model)),
                (16 if model.pends else 1, Finalize),
            ]
        return rng.choices([make for _, make in kinds], [weight for weight, _ in kinds])[0]()

    def _rarely(self) -> bool:
        return self.rng.random() < 0.08

    def _spoilt(self) -> Spoilt | None:
        return self.rng.choice(get_args(Spoilt)) if self._rarely() else None

    def _keep(self, model: RecurrentModel) -> tuple[int, ...]:
        count = self.rng.choice((1, model.count, model.count, model.count + self._rarely())) or 1
        return tuple(self.rng.randint(-self._rarely(), model.appended + self._rarely()) for _ in range(count))

    def _other(self) -> LayerSpec | None:
        return LayerSpec("recurrent", conv=self.rng.choice((2, 5))) if self._rarely() else None

    def _row(self, model: RecurrentModel) -> int:
        return self.rng.randint(-self._rarely(), max(0, model.count - 1) + self._rarely())

    def _rows(self, model: RecurrentModel) -> tuple[int, ...]:
        rows = list(range(model.count + self._rarely()))
        self.rng.shuffle(rows)
        kept = tuple(rows[: self.rng.randint(0, len(rows))])
        return (*kept, *kept[:1]) if self._rarely() else kept

    def _prompt(self, model: RecurrentModel) -> Call:
        count = (model.count or self.rng.randint(0, 2)) + self._rarely()
        left = tuple(self.rng.choice((0, 0, 1, 2, 3)) for _ in range(count))
        left = left if self.rng.random() < 0.4 and (not model.holds or self._rarely()) else None
        longest = self.rng.choice(LENGTHS) + max(left or (), default=0)
        lengths = tuple(self.rng.randint(n - (n > 0 and self._rarely()), longest) for n in (left or (0,) * count))
        if left and self.rng.random() < 0.4:
            return Prepare(left=left)
        right = tuple(longest - n for n in lengths)
        return Prepare(left=left, lengths=None if self._rarely() else lengths, right=None if self._rarely() else right)


__all__ = ["draw_recurrent"]
