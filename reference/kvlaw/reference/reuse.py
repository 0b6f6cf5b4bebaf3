"""What published caches can be reused for: the longest usable part of a prompt, and never more.

In ``core`` a store may find less, or nothing; what it finds must be a part that some entry can give.
"""

from collections.abc import Iterator, Mapping

from attrs import define, evolve, field, frozen

from kvlaw.reference.expectation import Expectation, Expected
from kvlaw.reference.index import can_trim
from kvlaw.reference.model import Model
from kvlaw.reference.states import States
from kvlaw.reference.world import Layers, Seen
from kvlaw.spec.calls import Publish, Reuse
from kvlaw.spec.cite import clause
from kvlaw.spec.config import LayerSpec

Thing = Model | Layers


@frozen
class Entry:
    """What was published: the caches, where, by whom, and after which of its acts; whether it was lent since."""

    holds: Thing
    space: str
    owner: str
    version: int
    lent: bool = False

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens that it holds."""
        return models_of(self.holds)[0].row.tokens

    @property
    def floor(self) -> int:
        """The largest reuse floor of its layers."""
        return max(model.floor for model in models_of(self.holds))

    @clause("REUSE-1", "REUSE-2", "REUSE-5", "REUSE-8")
    def gives(self, count: int) -> bool:
        """Say whether its first ``count`` tokens can be lent: above every floor, and all layers can be cut to it."""
        cut = len(self.tokens) - count
        able = cut == 0 or all(can_trim(model.state, cut) for model in models_of(self.holds))
        return 0 < count <= len(self.tokens) and count >= self.floor and able


def models_of(thing: Thing) -> tuple[Model, ...]:
    """List the layers of a cache or a list."""
    return thing.models if isinstance(thing, Layers) else (thing,)


def layers_of(thing: Thing) -> tuple[LayerSpec, ...]:
    """List the configurations of a cache or a list."""
    return tuple(model.layer for model in models_of(thing))


def _common(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


@define
class Reuses:
    """The store of one world."""

    states: States
    entries: list[Entry] = field(factory=list[Entry])

    @clause("REUSE-4", "REUSE-6", "REUSE-9")
    def published(self, thing: Thing, call: Publish, shows: Expectation) -> tuple[Expectation, Thing]:
        """Store what a cache holds now; it stays as it is."""
        if shows.ends or "ok" not in shows.outcomes:
            return shows, thing
        if models_of(thing)[0].offset:
            self.entries.append(Entry(_told(thing, published=False), call.space, call.on, thing.version))
        kept = tuple(evolve(e, clauses=("REUSE-6", *e.clauses)) for e in shows.expected)
        return evolve(shows, charged=("REUSE-6",), expected=kept), _told(thing, published=True)

    @clause("REUSE-1", "REUSE-2", "REUSE-3", "REUSE-5", "REUSE-7", "REUSE-8")
    def reused(self, like: Thing, call: Reuse, seen: Seen, versions: Mapping[str, int]) -> tuple[Expectation, Thing]:
        """Give what a prompt finds, and what is made of it: of one configuration and space, the longest part.

        ``versions`` counts the acts of the caches and lists that there are.
        """
        usable = [(n, entry) for entry in self._known(like, call) for n in self._lengths(entry, call)]
        most = max((n for n, _ in usable), default=0)
        told = seen.offset if seen.answer is None else seen.answer
        chosen = self.states.profile == "core" and told in (0, *(n for n, _ in usable))
        answer = told if chosen and told is not None else most
        found = next((entry for n, entry in reversed(usable) if n == answer), None)
        made = _cut(found.holds, answer) if found else _empty(like)
        cited = self._clauses(call, like, answer, told or 0)
        if found is not None:
            again = ("REUSE-4",) if found.lent else ()
            moved = ("REUSE-6",) if versions.get(found.owner) != found.version else ()
            cited = (*(again if (told or 0) < answer else ()), *cited, *again, *moved)
            self.entries[self.entries.index(found)] = evolve(found, lent=True)
        return self._shows(made, call, answer, tuple(dict.fromkeys(cited))), made

    def _known(self, like: Thing, call: Reuse) -> Iterator[Entry]:
        mine = (layers_of(like), isinstance(like, Layers))
        for entry in self.entries:
            if entry.space == call.space and (layers_of(entry.holds), isinstance(entry.holds, Layers)) == mine:
                yield entry

    @staticmethod
    def _lengths(entry: Entry, call: Reuse) -> list[int]:
        most = min(_common(entry.tokens, call.tokens), len(call.tokens) - 1)
        return [n for n in range(1, most + 1) if entry.gives(n)]

    def _clauses(self, call: Reuse, like: Thing, answer: int, told: int) -> tuple[str, ...]:
        """Cite what an answer rests on, first what one breaks that is too long or too short."""
        asked = len(call.tokens)
        here = [_common(entry.tokens, call.tokens) for entry in self._known(like, call)]
        anywhere = [_common(entry.tokens, call.tokens) for entry in self.entries]
        lists = ("REUSE-8",) if isinstance(like, Layers) else ()
        cited = ["REUSE-1", "REUSE-5"]
        floors = [entry.floor for entry in self._known(like, call)]
        cited += ["REUSE-2"] if any(floors) else []
        cited += ["REUSE-7"] if max(anywhere, default=0) > max(here, default=0) else []
        first: list[str] = []
        if told > answer:
            elsewhere = max(here, default=0) < told <= max(anywhere, default=0)
            first += ["REUSE-1"] if told > asked - 1 else ["REUSE-7"] if elsewhere else []
            first += ["REUSE-1"] if told > max(anywhere, default=0) else []
            first += lists
            first += ["REUSE-2"] if told < max(floors, default=0) else ["REUSE-5"]
        longest = ("REUSE-3",) if answer else ()
        if told < answer:
            first += longest
        return tuple(dict.fromkeys((*first, *lists, *cited, *longest)))

    def _shows(self, made: Thing, call: Reuse, answer: int, cited: tuple[str, ...]) -> Expectation:
        inner = tuple(
            Expectation(charged=cited, expected=tuple(evolve(e, clauses=_state(e, cited)) for e in self._of(m, call)))
            for m in models_of(made)
        )
        told = Expected("answer", answer, cited)
        if isinstance(made, Layers):
            whole = tuple(evolve(e, clauses=cited) for e in self.states.of_list(made))
            return Expectation(charged=cited, expected=(told, *whole), layers=inner, answer=answer)
        return evolve(inner[0], expected=(told, *inner[0].expected), answer=answer)

    def _of(self, model: Model, call: Reuse) -> tuple[Expected, ...]:
        return self.states.after(model, call)


def _state(expected: Expected, cited: tuple[str, ...]) -> tuple[str, ...]:
    """Cite what a lent cache shows: that it is what the prompt begins with."""
    first = "REUSE-2" if expected.field == "floor" and "REUSE-2" in cited else "REUSE-5"
    return (*(c for c in cited if c in ("REUSE-8", "REUSE-4", "REUSE-6")), first)


def _told(thing: Thing, published: bool) -> Thing:
    if isinstance(thing, Layers):
        return Layers(tuple(model.was(published=published) for model in thing.models))
    return thing.was(published=published)


def _cut(thing: Thing, count: int) -> Thing:
    """Make what is lent: a clone that is cut to the first ``count`` tokens."""
    models = tuple(_lent(model, count) for model in models_of(thing))
    return Layers(models) if isinstance(thing, Layers) else models[0]


def _lent(model: Model, count: int) -> Model:
    cut = model.offset - count
    after = model.trimmed(cut) if cut else model
    return after.was(reused=True, related=True, converted=False)


def _empty(like: Thing) -> Thing:
    models = tuple(Model.empty(layer) for layer in layers_of(like))
    return Layers(models) if isinstance(like, Layers) else models[0]
