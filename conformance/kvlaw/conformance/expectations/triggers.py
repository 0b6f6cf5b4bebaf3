"""What sets a failure off, taken from its shortest trace; and whether another trace has that in it.

A shortest trace can do without nothing that it has, so that its last call (the ``mark``), the special calls before it
and what its configuration has beyond the plainest are what the failure needs. A failure that is charged to the same
clause and shows in the same field at the same call, behind the same special calls, is the same one (``is_in``). Where
the last call is asked in more ways, or shows it in another way, it may be (``may_be``): then ``bare`` takes away what
else its trace has, so that a walk of what is left can tell. One that looks the same (``symptoms``) at such a call is
the same one wherever its cache stands (``looks_on``): before its window is reached, or behind that.
"""

from collections.abc import Iterator, Sequence

import attrs
from attrs import frozen

from kvlaw.conformance.compare import Divergence
from kvlaw.conformance.expectations.marks import Mark
from kvlaw.spec.config import Config

_CONTENT = ("held", "torn", "sights", "dense_sights", "order", "fetched", "tail", "slots", "answers", "probes", "spare")
_GROUPED = {
    **dict.fromkeys(_CONTENT, "content"),
    **dict.fromkeys(("outcome", "answer", "rows"), "outcome"),
    **dict.fromkeys(("mask_array", "mask_width"), "mask_array"),
}
"""Fields of which it is chance which one shows a failure first."""
_EITHER_WAY = ("kind", "window", "seed", "rows", "stamp")
_PLAINEST = {a.name: a.default for a in attrs.fields(Config)}


@frozen
class Trigger:
    """What a failure needs, beside the clause that it is charged to."""

    kind: str
    field: str
    mark: Mark
    before: tuple[Mark, ...]
    needs: frozenset[str]

    @classmethod
    def of(cls, divergence: Divergence, config: Config, marks: Sequence[Mark]) -> "Trigger":
        """Take the trigger of a walk that ends with a divergence; ``marks`` are those of its steps."""
        before = tuple(mark for mark in marks[:-1] if mark.special)
        shown = _GROUPED.get(divergence.field, divergence.field)
        return cls(config.kind, shown, marks[-1], before, frozenset(_needs(config)))

    def may_be(self, found: "Trigger") -> bool:
        """Tell whether a failure that was found has all that this one needs; it may show in another way."""
        mine, other = self.mark, found.mark
        alike = all(getattr(mine, part) == getattr(other, part) for part in ("on", "place"))
        alike = alike and _has(other, mine) and set(mine.amid) <= set(other.amid)
        return alike and self.kind == found.kind and self.needs <= found.needs and bool(self.places(found))

    def covers(self, found: "Trigger") -> bool:
        """Tell whether a failure that has nothing beside what this one needs is this one: it shows in the same way."""
        return self.field == found.field and self.may_be(found)

    def places(self, found: "Trigger") -> tuple[tuple[int, ...], ...]:
        """Find the special calls that are needed among those of a failure that was found: the latest, the earliest."""
        late, early = within(self.before, found.before), within(self.before[::-1], found.before[::-1])
        if late is None or early is None:
            return ()
        last = len(found.before) - 1
        return tuple(dict.fromkeys((tuple(late), tuple(last - place for place in reversed(early)))))

    def is_in(self, found: "Trigger") -> bool:
        """Tell whether a failure that was found shows in the same way, at the very call in the very situation."""
        return self.covers(found) and self.mark == found.mark

    def looks_on(self, found: "Trigger") -> bool:
        """Tell whether a failure that was found shows in the same way and at such a call, wherever its cache stands.

        That is also in a list, which is nothing but its caches.
        """
        mine, other = self.mark, found.mark
        there = mine.on == other.on or (mine.on, other.on) == ("cache", "list")
        alike = there and _has(other, mine) and set(mine.amid) <= set(other.amid)
        alike = alike and self.kind == found.kind and self.field == found.field and self.needs <= found.needs
        return alike and bool(self.places(found))

    def masks(self, found: "Trigger") -> bool:
        """Tell whether a wrong report belongs to this one: it need not show at the same call, but in such a state."""
        alike = all(getattr(self.mark, part) == getattr(found.mark, part) for part in ("on", "amid"))
        alike = alike and self.kind == found.kind and self.field == found.field and self.needs <= found.needs
        mine = (*self.before, *([self.mark] if self.mark.special else []))
        return alike and within(mine, (*found.before, found.mark)) is not None


def within(mine: Sequence[Mark], others: Sequence[Mark]) -> list[int] | None:
    """Find calls of the same verbs, asked in the same ways, in the same order: the latest such; None if there are not.

    Gives the places among the others.
    """
    places: list[int] = []
    at = len(others)
    for mark in reversed(mine):
        at = next((i for i in range(at - 1, -1, -1) if _has(others[i], mark)), -1)
        if at < 0:
            return None
        places.append(at)
    return places[::-1]


PLAINER = {"known": "window", "dense": "window", "compiled": "decode"}
"""Appends that do the same in a special way, and the plain way."""


def _has(other: Mark, mine: Mark) -> bool:
    """Tell whether a call is of the same verb, or a special way of it, and is asked in these ways, perhaps in more."""
    verbs = (other.verb, PLAINER.get(other.verb, other.verb))
    return mine.verb in verbs and set(mine.how) <= set(other.how)


def _needs(config: Config) -> Iterator[str]:
    """List what a configuration has beyond the plainest."""
    for name, plain in _PLAINEST.items():
        value = getattr(config, name)
        if name in _EITHER_WAY or value == plain:
            continue
        yield f"{name}={value}" if name in ("look", "poison", "dtype") else name
    if config.policy != "dense":
        yield config.policy


__all__ = ["PLAINER", "Trigger", "within"]
