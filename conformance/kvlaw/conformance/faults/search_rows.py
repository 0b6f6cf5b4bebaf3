"""Traces of groups of rows, drawn at random at the boundary values of windows, padding and starts.

The oracle walks along, so that every call names what is there: rows of a group, caches that were made of them, groups
that were merged. Most prompts that are padded are read to their end and finalized.
"""

import random
from collections.abc import Iterator
from typing import Any

from attrs import define, evolve

from kvlaw.conformance.faults.search_walk import Kinds, Walk
from kvlaw.reference.model import Model
from kvlaw.reference.oracle import Group
from kvlaw.spec.calls import (
    AppendDecode,
    AppendKnown,
    AppendWindow,
    BeginPrefill,
    BeginRound,
    Call,
    Clone,
    CommitPrefill,
    CommitRound,
    EndPrefill,
    Extract,
    FetchDense,
    Filter,
    Finalize,
    HandBack,
    LookAt,
    MakeCache,
    MakeMask,
    Merge,
    Prepare,
    Reset,
    RollBack,
    TakeState,
    Trim,
)
from kvlaw.spec.config import Config, LayerSpec
from kvlaw.spec.trace import Trace


def draw_rows(rng: random.Random, layer: LayerSpec, look: Any) -> Trace:
    """Draw one trace of a group whose rows are caches of ``layer``."""
    grouped = evolve(layer, sinks=0).grouped
    config = Config(
        grouped.kind,
        grouped.window,
        rows=rng.choice((0, 1, 1, 2, 2, 2, 3)),
        bits=layer.bits,
        value_bits=layer.value_bits,
        group=layer.group,
        start=layer.start,
        look=look,
    )
    return _Walk(rng, config).drawn(rng.randint(3, 11))


@define
class _Walk(Walk):
    """A walk among groups, and caches beside them."""

    def next_calls(self) -> Iterator[Call]:
        """Draw what comes next: a call, or the pieces of a padded prompt."""
        world = self.oracle.world
        groups = [name for name, thing in world.items() if isinstance(thing, Group)]
        caches = [name for name, thing in world.items() if isinstance(thing, Model)]
        if caches and self.rng.random() < 0.25:
            yield evolve(self._serial(), on=self.rng.choice(caches))
            return
        name = self.rng.choice(groups)
        group = world[name]
        assert isinstance(group, Group)
        if group.pends and self.rng.random() < 0.75:
            yield self._piece(group, name)
        elif not group.pends and self.rng.random() < 0.18:
            yield self._prompt(group, name)
        else:
            yield self._on_group(group, name, [*groups, *caches])

    def _length(self) -> int:
        w = self.config.window
        return self.rng.choice([1, 1, 2, 3, *([w - 1, w, w + 1] if w is not None else [4])]) or 1

    def _serial(self) -> Call:
        return self._chosen(
            [
                (4, AppendDecode),
                (4, lambda: AppendWindow(length=self._length())),
                (1, lambda: Trim(n=self.rng.choice((0, 1, 2)), bypass=False)),
                (2, LookAt),
                (1, BeginRound),
                (1, lambda: RollBack(keep=(self.rng.randint(0, 2),))),
            ]
        )

    def _chosen(self, kinds: Kinds) -> Call:
        return self.rng.choices([make for _, make in kinds], [weight for weight, _ in kinds])[0]()

    def _argument(self) -> int | None:
        w = self.config.window or 4
        return None if self.rng.random() < 0.75 else self.rng.choice([n for n in (1, 2, w - 1, w, w + 1) if n > 0])

    def _rarely(self) -> bool:
        return self.rng.random() < 0.12

    # Padded prompts.

    def _prompt(self, group: Group, name: str) -> Call:
        rows = len(group.rows) or self.rng.randint(1, 3)
        several = [self.rng.choice((0, 0, 1, 2, 3)) for _ in range(rows)]
        left = tuple(several) if self.rng.random() < 0.4 and not group.shortest else None
        longest = self._length() + max(left or (0,))
        lengths = tuple(self.rng.randint(n, longest) for n in (left or (0,) * rows))
        if self.rng.random() < 0.25 and left:
            return Prepare(left=left, on=name)
        more = self.rng.choice((0, 0, 1))
        right = tuple(longest + more - n for n in lengths)
        return Prepare(left=left, lengths=lengths, right=right if self.rng.random() < 0.9 else None, on=name)

    def _piece(self, group: Group, name: str) -> Call:
        over = all(padding.before == 0 and padding.until in (0, None) for padding in group.paddings)
        if over or self.rng.random() < 0.15:
            return Finalize(on=name)
        return self._chosen(
            [
                (6, lambda: AppendWindow(length=self._length(), window=self._argument(), on=name)),
                (1, lambda: AppendKnown(length=self._length(), on=name)),
                (1, lambda: FetchDense(length=self._length(), on=name)),
                (1, lambda: MakeMask(length=self._length(), phase="window", window=self._argument(), on=name)),
                (2, lambda: self._filter(group, name)),
            ]
        )

    # Groups.

    def _on_group(self, group: Group, name: str, sources: list[str]) -> Call:
        made, row = f"x{len(self.calls)}", self.rng.randrange(max(1, len(group.rows)))
        kinds: Kinds = [
            (14, lambda: AppendDecode(window=self._argument(), array=self._rarely(), on=name)),
            (14, lambda: AppendWindow(length=self._length(), window=self._argument(), array=self._rarely(), on=name)),
            (4, lambda: AppendKnown(length=self._length(), window=self._argument(), on=name)),
            (4, lambda: FetchDense(length=self._length(), on=name)),
            (4, lambda: self._mask(name)),
            (9, lambda: Trim(n=self._count(group), bypass=False, on=name)),
            (6, lambda: self._filter(group, name)),
            (12, lambda: self._merge(sources, made)),
            (6, lambda: MakeCache(as_=made)),
            (3, lambda: MakeCache(layer=self._other(), as_=made)),
            (7, lambda: Extract(row=row if not self._rarely() else row + self.rng.choice((1, 3)), as_=made, on=name)),
            (5, lambda: HandBack(row=row, as_=made, on=name)),
            (3, lambda: Clone(as_=made, on=name)),
            (2, lambda: TakeState(as_=made, on=name)),
            (1, lambda: Reset(on=name)),
            (2, lambda: Finalize(on=name)),
            (1, lambda: LookAt(on=name)),
            (3 if group.in_round else 12, lambda: BeginRound(on=name)),
            (3, lambda: CommitRound(on=name)),
            (25 if group.in_round else 1, lambda: RollBack(keep=self._keep(group), on=name)),
        ]
        if group.layer.start is not None:
            kinds += [
                (6, lambda: BeginPrefill(on=name)),
                (6, lambda: CommitPrefill(rows=self._rows(group), on=name)),
                (4, lambda: EndPrefill(on=name)),
            ]
        return self._chosen(kinds)

    def _other(self) -> LayerSpec:
        """Draw a layer that differs from that of the trace's groups, or is dense."""
        layer = self.config.layer.serial
        changes: list[dict[str, Any]] = [{"bits": None, "value_bits": None, "start": None, "group": 64}]
        if layer.window is not None:
            changes += [{"window": layer.window + 1}, *([{"sinks": 1}] if layer.window > 1 else [])]
        if layer.bits is not None:
            changes += [{"start": 5}, {"start": None}]  # codes of another codec are not modelled
        return evolve(layer, **self.rng.choice(changes))

    def _count(self, group: Group) -> int:
        return self.rng.choice((0, 1, 1, 2, group.shortest, group.shortest + 1))

    def _keep(self, group: Group) -> tuple[int, ...]:
        most = group.rows[0].appended_in_round if group.rows else 0
        most += self._rarely()  # now and then too much, or a number too many
        count = self.rng.choice((1, len(group.rows), len(group.rows), len(group.rows) + self._rarely()))
        return tuple(self.rng.randint(0, most) for _ in range(count)) or (0,)

    def _mask(self, name: str) -> Call:
        decode = self.rng.random() < 0.5
        return MakeMask(
            length=1 if decode else self._length(),
            phase="decode" if decode else "window",
            window=self._argument(),
            array=self._rarely(),
            on=name,
        )

    def _rows(self, group: Group) -> tuple[int, ...]:
        rows = list(range(len(group.rows)))
        self.rng.shuffle(rows)
        return tuple(rows[: self.rng.randint(0, len(rows))])

    def _filter(self, group: Group, name: str) -> Call:
        rows = self._rows(group)
        return Filter(rows=(*rows, *rows[:1]) if self.rng.random() < 0.06 else rows, on=name)

    def _merge(self, sources: list[str], made: str) -> Call:
        chosen = tuple(self.rng.choice(sources) for _ in range(self.rng.choice((1, 1, 2, 2, 3))))
        return Merge(sources=chosen, as_=made, on=chosen[0])


__all__ = ["draw_rows"]
