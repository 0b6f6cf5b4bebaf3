"""The one loop: apply a call to the subject and to the oracle, compare, stop at the first divergence.

``Lockstep.open`` and ``Lockstep.step`` take one call each and give a ``Step``; ``run`` walks a whole trace. With
``look="last"`` nothing is evaluated until ``finish``, which then looks at every object. A trace also ends where the law
leaves open what follows, and at a call that the subject does not have (``Step.ends``).
"""

from attrs import evolve, frozen

from kvlaw.conformance import blackbox
from kvlaw.conformance.compare import Divergence, Shown, Verdict, compare
from kvlaw.conformance.decode import handed
from kvlaw.conformance.demands import terms_of
from kvlaw.conformance.expectations.marks import OPENING, Mark, mark_of
from kvlaw.conformance.expectations.masks import Masks
from kvlaw.conformance.minimise import acted_on
from kvlaw.conformance.questions import Questions, spoilt_from, stamper_of
from kvlaw.conformance.rows import Origins, Rows, is_group
from kvlaw.conformance.showing import Arithmetic, Exchange, Showing
from kvlaw.reference.expectation import Expectation
from kvlaw.reference.model import Model
from kvlaw.reference.oracle import Group, Layers, Oracle, Profile, ReadModel, RecurrentModel, Seen
from kvlaw.spec.calls import (
    Append,
    Attend,
    Call,
    Clone,
    Extract,
    HandBack,
    Load,
    LookAt,
    MakeCache,
    Merge,
    OpenList,
    Publish,
    Reuse,
    Trim,
)
from kvlaw.spec.config import Config
from kvlaw.spec.contract import Subject
from kvlaw.spec.observations import MaskKind, Observation, Payload, StateView
from kvlaw.spec.records import CacheRecord, Record, Run
from kvlaw.spec.trace import Trace


@frozen
class Step:
    """One call in lockstep: what was asked, expected and shown, what differs, and which clauses were exercised."""

    call: Call | None
    expectation: Expectation
    record: Record
    divergences: tuple[Divergence, ...] = ()
    exercised: frozenset[str] = frozenset()
    ends: bool = False
    layers: tuple[Record, ...] = ()
    message: str = ""
    mark: Mark = OPENING

    @property
    def over(self) -> bool:
        """Nothing that follows this step can be judged."""
        return self.ends or bool(self.divergences)


class Lockstep:
    """A subject and the oracle, walked through one trace."""

    def __init__(
        self,
        subject: Subject,
        profile: Profile,
        clauses: frozenset[str],
        *,
        arithmetic: bool = False,
        masks: Masks | None = None,
    ) -> None:
        """Make a run in which ``clauses`` count; ``arithmetic`` compares random reads with the model, bit for bit.

        What ``masks`` hide is no divergence: the wrong reports that a listed failure makes of a state that is right.
        """
        self.subject, self.profile, self.clauses, self.masks = subject, profile, clauses, masks
        self.oracle = Oracle(profile)
        self._arithmetic = arithmetic
        self._begin(Config("full"))

    def _begin(self, config: Config) -> None:
        stamper = stamper_of(config)
        self.config, self.tokens, self.names = config, 1, 0
        self.questions, self.showing = (
            Questions(stamper),
            Showing(stamper, self._arithmetic, terms_of(self.subject).kernel_set),
        )
        self.states: dict[str, CacheRecord | None] = {}
        self.rows = Rows(self.showing, self.clauses, self.states)
        self.planes: dict[str, StateView | None] = {}
        self.steps: list[Step] = []

    @property
    def arithmetic(self) -> Arithmetic:
        """How many reads were compared with the NumPy model so far."""
        return self.showing.arithmetic

    # The walk.

    def open(self, config: Config) -> Step:
        """Open ``c0`` on both sides."""
        self._begin(config)
        blackbox.opening(config)
        observation = self.subject.open(config)
        return self._judge(Exchange(None, "c0", self.oracle.open(config, Seen.of(observation)), observation), None)

    def step(self, call: Call) -> Step:
        """Apply one call to both sides and compare."""
        blackbox.calling(call)
        look = self.config.look == "every"
        if not look and isinstance(call, Append) and call.as_ is None and not call.unread:
            self.names += 1
            call = evolve(call, as_=f"read{self.names}")
        return self._step(call, look)

    def finish(self) -> tuple[Step, ...]:
        """Look at every object of a trace that was not looked at as it went; stop at the first divergence."""
        steps: list[Step] = []
        if self.config.look == "every":
            return ()
        for name, thing in list(self.oracle.world.items()):
            call: Call = Attend(on=name) if isinstance(thing, ReadModel) else LookAt(on=name)
            blackbox.calling(call)
            steps.append(self._step(call, look=True))
            if steps[-1].over:
                break
        return tuple(steps)

    def run(self, trace: Trace) -> tuple[Step, ...]:
        """Walk a whole trace, up to its first divergence, or to a call on what a refused call did not make."""
        if (expect := getattr(self.subject, "expect", None)) is not None:  # one that has answers to some traces only
            expect(trace)
        steps = [self.open(trace.config)]
        unmade: set[str] = set()
        for call in trace.calls:
            if steps[-1].over:
                return tuple(steps)
            if unmade.intersection(acted_on(call)) - self.oracle.world.keys():
                break
            steps.append(self.step(call))
            unmade |= {getattr(call, "as_", None) or ""} if steps[-1].record.refused else set()
        return tuple(steps) if steps[-1].over else (*steps, *self.finish())

    def history(self) -> Run:
        """Tell the steps so far as records."""
        opened = self.steps[0].record.outcome if self.steps else "ok"
        return Run(self.config, opened, tuple(s.record for s in self.steps[1:]))

    # One step.

    def _step(self, call: Call, look: bool) -> Step:
        spoilt = getattr(call, "malformed", None) is not None
        first = spoilt_from(self.tokens) if spoilt else self.tokens
        acted = self.oracle.world.get(call.on)
        rows = max(1, len(acted.rows)) if isinstance(acted, Group | RecurrentModel) else 1
        tokens = tuple(range(first, first + max(call.appends, 0) * rows))
        asked = self.questions.ask(call, tokens, self.oracle.world)
        name = call.as_ if isinstance(call, OpenList | Merge | MakeCache) else call.on
        before = self.oracle.world.get(name)
        mark = mark_of(call, self.oracle.world)
        origins = self.rows.origins(call, self.oracle.world)
        padding = _padding(acted, tokens) if isinstance(acted, RecurrentModel) else ()
        payload = self.questions.payload(call, tokens, asked, rows, padding)
        payload = Payload(_live(before)) if isinstance(call, Publish) else payload
        observation = self.subject.apply(call, payload, look)
        expectation = self.oracle.step(call, tokens, self._seen(call, observation, look))
        if asked is not None:
            asked = evolve(asked, expectation=expectation)
            if isinstance(call, Append) and call.as_:
                self.questions.kept[call.as_] = asked
        if observation.ok and "ok" in expectation.outcomes and not spoilt:
            self.tokens += len(tokens)
        exchange = Exchange(call, name, expectation, observation, tokens, asked, self.planes.get(name))
        return self._judge(exchange, before, origins, mark)

    def _seen(self, call: Call, observation: Observation, look: bool) -> Seen:
        if look or isinstance(call, Trim):
            state = self.states.get(call.on)
            return Seen.of(observation, self._able(call), state.columns if state is not None else None)
        return Seen(observation.outcome, observation.answer)

    def _able(self, call: Call) -> tuple[bool, ...] | None:
        """Recall what ``can_trim`` said, the last time that the cache was looked at before a trim."""
        state = self.states.get(call.on)
        return state.can_trim if isinstance(call, Trim) and state is not None else None

    def _judge(self, exchange: Exchange, before: object, origins: Origins = (), mark: Mark = OPENING) -> Step:
        """Compare one exchange, layer by layer for a list, row by row for a group, and keep what was shown."""
        call, expectation, observation = exchange.call, exchange.expectation, exchange.observation
        thing = self.oracle.acted
        shown = self.showing.shown(exchange)
        verdict = compare(expectation, shown, thing if isinstance(thing, Model) else None, self.clauses)
        layers: list[Record] = []
        inside: tuple[Divergence, ...] = ()
        for index, inner in enumerate(expectation.layers[: len(observation.layers)]):
            found, record = self._layer(exchange, index, inner, thing)
            layers.append(record)
            inside = (*inside, *found.divergences)
            verdict = evolve(verdict, exercised=verdict.exercised | found.exercised)
        offsets = {record.after.offset for record in layers if record.after is not None}
        if len(offsets) > 1 and "POS-7" in self.clauses and not isinstance(call, Load):  # PERS-13 speaks of that
            inside = tuple(_apart(d) for d in inside)
        judged = self.rows.judge(exchange, thing, origins)
        inside = (*inside, *judged.divergences)
        exercised = verdict.exercised | judged.exercised
        found = _inner_first(verdict.divergences, inside)
        if self.masks is not None:
            found = self.masks.left(found, self.config, (*(step.mark for step in self.steps), mark))
        verdict = evolve(verdict, divergences=found, exercised=exercised)
        record = self._record(exchange, shown, before, thing, tuple(layers))
        record = evolve(record, rows=judged.records, group=is_group(thing))
        if isinstance(call, Reuse):  # what it makes was not there before
            record = evolve(record, before=None, live_before=())
        if isinstance(call, Extract | HandBack):
            record = evolve(record, before=origins[0].state, live_before=origins[0].live) if origins else record
        self.states[_shown_as(call, exchange.name)] = shown.after
        self.planes[_shown_as(call, exchange.name)] = observation.state
        ends = expectation.ends or observation.outcome == "unsupported"
        inner, message = tuple(layers), observation.message
        step = Step(call, expectation, record, verdict.divergences, verdict.exercised, ends, inner, message, mark)
        self.steps.append(step)
        return step

    def _layer(self, exchange: Exchange, index: int, inner: Expectation, thing: object) -> tuple[Verdict, Record]:
        call, whole = exchange.call, exchange.observation
        observation = whole.layers[index]
        if observation.ok and not whole.ok:
            observation = evolve(observation, outcome=whole.outcome)
        asked = evolve(exchange.asked, expectation=inner) if exchange.asked else None
        shown = self.showing.shown(Exchange(call, f"#{index}", inner, observation, exchange.tokens, asked))
        model = thing.models[index] if isinstance(thing, Layers) else None
        found = compare(inner, shown, model, self.clauses)
        before = self.states.get(f"{exchange.name}#{index}")
        self.states[f"{_shown_as(call, exchange.name)}#{index}"] = shown.after
        record = Record(call, observation.outcome, None, shown.read, None, before, shown.after, live=_live(model))
        return evolve(found, divergences=tuple(evolve(d, layer=index) for d in found.divergences)), record

    def _record(
        self, exchange: Exchange, shown: Shown, before: object, after: object, layers: tuple[Record, ...]
    ) -> Record:
        return Record(
            exchange.call,
            exchange.observation.outcome,
            exchange.observation.answer,
            shown.read,
            _mask_of(shown),
            self.states.get(exchange.name),
            shown.after,
            _live(before),
            _live(after),
            handed(exchange.observation),
            exchange.tokens,
            layers,
        )


def _apart(divergence: Divergence) -> Divergence:
    """Charge a layer's offset to POS-7, where the layers of a list have come apart."""
    if divergence.field != "offset":
        return divergence
    return evolve(divergence, clause="POS-7", others=divergence.clauses)


def _inner_first(outer: tuple[Divergence, ...], inside: tuple[Divergence, ...]) -> tuple[Divergence, ...]:
    """Order the divergences of a list: refusals of the whole list, then what one layer shows, then what all show."""
    whole = tuple(d for d in outer if d.field in ("outcome", "answer", "rows"))
    return (*whole, *inside, *(d for d in outer if d not in whole))


def _shown_as(call: Call | None, name: str) -> str:
    """Name the object whose state a call shows: what it made, or what it acted on."""
    made = getattr(call, "as_", None) if isinstance(call, Clone | Extract | HandBack | Load | Reuse) else None
    return made or name


def _mask_of(shown: Shown) -> MaskKind | None:
    """Give the form of the mask that was shown: the read's, or the one that a mask call handed out."""
    if shown.read is not None:
        return shown.read.mask
    return shown.observation.mask.kind if shown.observation.mask is not None else None


def _padding(rows: RecurrentModel, tokens: tuple[int, ...]) -> tuple[int, ...]:
    """List the tokens of an advance that are padding of their row."""
    length = len(tokens) // max(1, rows.count)
    real = {tokens[b * length + i] for b, own in enumerate(rows.real(length)) for i in own}
    return tuple(token for token in tokens if token not in real)


def _live(thing: object) -> tuple[int, ...]:
    if isinstance(thing, Layers):
        return thing.models[0].row.tokens
    if isinstance(thing, RecurrentModel) and not thing.is_rows:
        return thing.rows[0]
    return thing.row.tokens if isinstance(thing, Model) else ()


__all__ = ["Arithmetic", "Lockstep", "Step", "stamper_of"]
