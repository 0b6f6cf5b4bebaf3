"""A group in lockstep: every row is shown, decoded and compared like a cache of its own."""

from collections.abc import Mapping

from attrs import evolve, field, frozen

from kvlaw.conformance.compare import Divergence, compare
from kvlaw.conformance.showing import Exchange, Showing
from kvlaw.reference.expectation import Expectation
from kvlaw.reference.model import Model
from kvlaw.reference.oracle import Group, RecurrentModel
from kvlaw.spec.calls import Call, Clone, Extract, Filter, HandBack, Merge
from kvlaw.spec.observations import Observation
from kvlaw.spec.records import CacheRecord, Record, Tokens


@frozen
class Origin:
    """What a row was before a call: the state that it showed, and its tokens by position."""

    state: CacheRecord | None
    live: Tokens


Origins = tuple[Origin, ...]


@frozen
class Judged:
    """The rows of one exchange: their records, what differs, and which clauses were exercised."""

    records: tuple[Record, ...] = ()
    divergences: tuple[Divergence, ...] = ()
    exercised: frozenset[str] = field(default=frozenset())


@frozen
class Rows:
    """Judges the rows of groups; ``states`` keeps by name what each object showed last."""

    showing: Showing
    clauses: frozenset[str]
    states: dict[str, CacheRecord | None]

    def origins(self, call: Call, world: Mapping[str, object]) -> Origins:
        """Tell, before a call is made, what the rows were that it will show, or the row that it takes."""
        if isinstance(call, Merge):
            return tuple(origin for name in call.sources for origin in self._of(name, world))
        known = self._of(call.on, world) if is_group(world.get(call.on)) else ()
        if isinstance(call, Filter):
            there = len(set(call.rows)) == len(call.rows) and all(0 <= b < len(known) for b in call.rows)
            return tuple(known[b] for b in call.rows) if there else known  # else it is refused, and the rows stay
        if isinstance(call, Extract | HandBack):
            return known[call.row : call.row + 1] if call.row >= 0 else ()
        return known

    def _of(self, name: str, world: Mapping[str, object]) -> Origins:
        thing = world.get(name)
        if isinstance(thing, Model):
            return (Origin(self.states.get(name), thing.row.tokens),)
        if isinstance(thing, RecurrentModel):
            names = [row_name(name, b) for b in range(thing.count)] if thing.is_rows else [name]
            return tuple(Origin(self.states.get(n), tokens) for n, tokens in zip(names, thing.rows, strict=True))
        if not isinstance(thing, Group):
            return ()
        return tuple(Origin(self.states.get(row_name(name, b)), row.row.tokens) for b, row in enumerate(thing.rows))

    def judge(self, exchange: Exchange, thing: object, origins: Origins) -> Judged:
        """Compare the rows of one exchange, and keep what they showed."""
        expected, shown = exchange.expectation.rows, exchange.observation.rows
        takes = isinstance(exchange.call, Extract | HandBack)  # its origin is the row taken, not the rows that stay
        if not expected and (takes or not shown):
            return Judged()
        models = thing.rows if isinstance(thing, Group) else ()
        lives = thing.rows if isinstance(thing, RecurrentModel) else tuple(model.row.tokens for model in models)
        made = exchange.call.as_ if isinstance(exchange.call, Clone) else exchange.name
        whole = Judged()
        for number, observation in enumerate(shown):
            inner = expected[number] if number < len(expected) else None
            model = models[number] if number < len(models) else None
            origin = origins[number] if number < len(origins) else Origin(None, ())
            live = lives[number] if number < len(lives) else ()
            whole = self._with(whole, self._row(exchange, number, observation, inner, model, origin, made, live))
        return whole

    @staticmethod
    def _with(whole: Judged, row: Judged) -> Judged:
        return Judged(
            (*whole.records, *row.records),
            (*whole.divergences, *row.divergences),
            whole.exercised | row.exercised,
        )

    def _row(
        self,
        exchange: Exchange,
        number: int,
        observation: Observation,
        inner: Expectation | None,
        model: Model | None,
        origin: Origin,
        made: str,
        live: Tokens,
    ) -> Judged:
        """Compare one row; one that is not expected is told, and what it shows is compared with nothing."""
        whole = exchange.observation
        if observation.ok and not whole.ok:
            observation = evolve(observation, outcome=whole.outcome)
        tokens = _tokens_of(exchange, number)
        asked = exchange.asked.rows[number] if exchange.asked and number < len(exchange.asked.rows) else None
        asked = evolve(asked, expectation=inner) if asked and inner else None
        name = row_name(made, number)
        part = Exchange(exchange.call, name, inner or Expectation(), observation, tokens, asked, row=model)
        shown = self.showing.shown(part)
        if shown.after is not None and whole.state is not None:  # a round is the whole group's
            shown = evolve(shown, after=evolve(shown.after, round=whole.state.round))
        self.states[name] = shown.after
        real = inner.real if inner else None
        record = Record(
            exchange.call,
            observation.outcome,
            read=shown.read,
            mask=shown.read.mask if shown.read else observation.mask.kind if observation.mask else None,
            before=origin.state,
            after=shown.after,
            live_before=origin.live,
            live=live,
            tokens=tokens if real is None else tuple(tokens[i] for i in real if i < len(tokens)),
            real=real,
            of_group=True,
        )
        if inner is None:
            return Judged((record,))
        found = compare(inner, shown, model, self.clauses)
        return Judged((record,), tuple(evolve(d, row=number) for d in found.divergences), found.exercised)


def _tokens_of(exchange: Exchange, number: int) -> Tokens:
    """Give the tokens that a row got in an append, padding included."""
    rows = len(exchange.expectation.rows)
    length = len(exchange.tokens) // rows if rows else 0
    return exchange.tokens[number * length : (number + 1) * length]


def is_group(thing: object) -> bool:
    """Say whether an object of the oracle's world is shown row by row."""
    return isinstance(thing, Group) or (isinstance(thing, RecurrentModel) and thing.is_rows)


def row_name(name: str, number: int) -> str:
    """Name a row among the states."""
    return f"{name}@{number}"


__all__ = ["Judged", "Origin", "Origins", "Rows", "is_group", "row_name"]
