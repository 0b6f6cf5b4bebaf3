"""The one loop: apply a call to the subject and to the oracle, compare, stop at the first divergence.

``Lockstep.open`` and ``Lockstep.step`` take one call each and give a ``Step``; ``run`` walks a whole trace. With
``look="last"`` nothing is evaluated until ``finish``, which then looks at every object. A trace also ends where the law
leaves open what follows, and at a call that the subject does not have (``Step.ends``).
"""

import numpy as np
import numpy.typing as npt
from attrs import evolve, frozen

from kvlaw.conformance.compare import Divergence, Shown, Verdict, compare
from kvlaw.conformance.decode import Columns, Decoder, NonsenseError, handed
from kvlaw.conformance.probes import check_probes
from kvlaw.conformance.stamps import Stamper, spoil
from kvlaw.reference.expectation import Expectation
from kvlaw.reference.model import Model
from kvlaw.reference.numerics import attention
from kvlaw.reference.oracle import Layers, Oracle, Profile, ReadModel, Seen
from kvlaw.spec.calls import Append, Attend, Call, FetchDense, LookAt, Trim
from kvlaw.spec.config import Config
from kvlaw.spec.contract import Subject
from kvlaw.spec.observations import Bits, MaskKind, Observation, Payload, ReadView
from kvlaw.spec.records import CacheRecord, ReadRecord, Record, Run
from kvlaw.spec.trace import Trace

REFUSED_TOKENS = 9000
"""Tokens of spoilt appends count from here, so that one that is stored all the same is told apart."""


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


@frozen
class Asked:
    """The queries of a read, kept so that it can be asked again in the same way."""

    queries: Bits
    pointers: npt.NDArray[np.int64]
    turn: int
    expectation: Expectation


@frozen
class Arithmetic:
    """How many reads were compared with the NumPy model of MLX's arithmetic, and how many differed."""

    reads: int = 0
    different: int = 0


_stampers: dict[Config, Stamper] = {}


def stamper_of(config: Config) -> Stamper:
    """Give the stamp tables of a configuration, shared by all traces with the same shapes."""
    key = evolve(config, kind="full", window=None, sinks=0, look="every", poison=False)
    if key not in _stampers:
        if len(_stampers) > 64:  # a bound on memory, nothing else
            _stampers.clear()
        _stampers[key] = Stamper(key)
    return _stampers[key]


class Lockstep:
    """A subject and the oracle, walked through one trace."""

    def __init__(
        self, subject: Subject, profile: Profile, clauses: frozenset[str], *, arithmetic: bool = False
    ) -> None:
        """Make a run against ``subject`` in which ``clauses`` count; ``arithmetic`` compares random reads bit for
        bit."""
        self.subject, self.profile, self.clauses = subject, profile, clauses
        self.check_arithmetic, self.arithmetic = arithmetic, Arithmetic()
        self.oracle = Oracle(profile)

    # The walk.

    def open(self, config: Config) -> Step:
        """Open ``c0`` on both sides."""
        self.config = config
        self.stamper = stamper_of(config)
        self.decoder = Decoder(self.stamper)
        self.tokens, self.turn, self.names = 1, 0, 0
        self.asked: dict[str, Asked] = {}
        self.handed: dict[str, tuple[tuple[str, str], ...]] = {}
        self.states: dict[str, CacheRecord | None] = {}
        self.steps: list[Step] = []
        observation = self.subject.open(config)
        expectation = self.oracle.open(config, Seen.of(observation))
        return self._judge(None, "c0", expectation, observation, (), None, ())

    def step(self, call: Call) -> Step:
        """Apply one call to both sides and compare."""
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
            steps.append(self._step(call, look=True))
            if steps[-1].divergences or steps[-1].ends:
                break
        return tuple(steps)

    def run(self, trace: Trace) -> tuple[Step, ...]:
        """Walk a whole trace, up to its first divergence."""
        steps = [self.open(trace.config)]
        for call in trace.calls:
            if steps[-1].divergences or steps[-1].ends:
                return tuple(steps)
            steps.append(self.step(call))
        if not (steps[-1].divergences or steps[-1].ends):
            steps += self.finish()
        return tuple(steps)

    def history(self) -> Run:
        """Tell the steps so far as records."""
        opened = self.steps[0].record.outcome if self.steps else "ok"
        return Run(self.config, opened, tuple(s.record for s in self.steps[1:]))

    # One step.

    def _step(self, call: Call, look: bool) -> Step:
        spoilt = getattr(call, "malformed", None) is not None
        first = REFUSED_TOKENS if spoilt and call.appends else self.tokens
        tokens = tuple(range(first, first + max(call.appends, 0)))
        asked = self._ask(call, tokens)
        payload = self._payload(call, tokens, asked)
        before = self.oracle.world.get(call.on)
        observation = self.subject.apply(call, payload, look)
        seen = (
            Seen.of(observation, self._said(call))
            if look or isinstance(call, Trim)
            else Seen(observation.outcome, observation.answer)
        )
        expectation = self.oracle.step(call, tokens, seen)
        carried = not spoilt and "ok" in expectation.outcomes and observation.ok
        self.tokens += len(tokens) if carried else 0
        if call.appends and asked is not None and getattr(call, "as_", None):
            self.asked[str(call.as_)] = evolve(asked, expectation=expectation)  # type: ignore[union-attr] # only appends have queries
        return self._judge(
            call,
            call.on,
            expectation,
            observation,
            tokens,
            evolve(asked, expectation=expectation) if asked else None,
            before,
        )

    def _said(self, call: Call) -> bool | None:
        """Recall what ``can_trim`` promised for this trim, the last time the cache was looked at."""
        state = self.states.get(call.on)
        if not isinstance(call, Trim) or state is None or state.can_trim is None or type(call.n) is not int:
            return None
        return state.can_trim[call.n] if 0 <= call.n < len(state.can_trim) else None

    def _ask(self, call: Call, tokens: tuple[int, ...]) -> Asked | None:
        """Choose the queries of an append, or take those of the read that is asked again."""
        if isinstance(call, (Attend, LookAt)):
            return self.asked.get(call.on)
        if not tokens or not isinstance(call, Append):
            return None
        self.turn += 1
        pointers = self._pointers(call, tokens)
        return Asked(self.stamper.queries(pointers, self.turn, self.turn), pointers, self.turn, Expectation())

    def _pointers(self, call: Append, tokens: tuple[int, ...]) -> npt.NDArray[np.int64]:
        """Choose for each query a token that it surely sees: one of its newest, never below a pinned one."""
        thing = self.oracle.world.get(call.on)
        models = thing.models if isinstance(thing, Layers) else (thing,) if isinstance(thing, Model) else ()
        bounds = [m.layer.window - m.layer.sinks for m in models if m.layer.window is not None]
        bounds += [call.window] if call.window is not None else []
        reach = max(1, min(bounds, default=1 << 30))
        line = (*(models[0].row.tokens if models else ()), *tokens)
        start = len(line) - len(tokens)
        back = [(self.turn * 7 + i * 3) % min(reach, start + i + 1) for i in range(len(tokens))]
        return np.array([line[start + i - b] for i, b in enumerate(back)], np.int64)

    def _payload(self, call: Call, tokens: tuple[int, ...], asked: Asked | None) -> Payload | None:
        queries = asked.queries if asked else np.zeros(0, np.uint16)
        if call.appends > 0:
            return self.stamper.payload(tokens, queries)
        if isinstance(call, (Append, FetchDense)):
            one = self.stamper.payload((self.tokens,), queries)
            return one if call.malformed else spoil(one, "empty", decode_call=False)
        return Payload((), queries=queries, dtype=self.config.dtype, scale=self.stamper.scale) if asked else None

    def _judge(
        self,
        call: Call | None,
        name: str,
        expectation: Expectation,
        observation: Observation,
        tokens: tuple[int, ...],
        asked: Asked | None,
        before: object,
    ) -> Step:
        model = self.oracle.world.get(name)
        length = len(asked.pointers) if asked else len(tokens)
        shown = self._shown(call, name, observation, length, asked, expectation)
        verdict = compare(expectation, shown, model if isinstance(model, Model) else None, self.clauses)
        records: list[Record] = []
        for index, inner in enumerate(expectation.layers):
            verdict, record = self._layer(index, inner, verdict, call, observation, model, length, asked)
            records += [record] if record else []
        subject_name = getattr(call, "as_", name) if call is not None and call.verb == "clone" else name
        record = Record(
            call,
            observation.outcome,
            observation.answer,
            shown.read,
            self._mask_of(shown),
            self.states.get(name),
            shown.after,
            self._live(before),
            self._live(model),
            handed(observation),
            tokens,
            tuple(records),
        )
        self.states[str(subject_name)] = shown.after
        step = Step(
            call,
            expectation,
            record,
            verdict.divergences,
            verdict.exercised,
            expectation.ends or observation.outcome == "unsupported",
            tuple(records),
            observation.message,
        )
        self.steps.append(step)
        return step

    @staticmethod
    def _mask_of(shown: Shown) -> MaskKind | None:
        """Give the form of the mask that was shown: the read's, or the one that a mask call handed out."""
        if shown.read is not None:
            return shown.read.mask
        return shown.observation.mask.kind if shown.observation.mask is not None else None

    @staticmethod
    def _live(thing: object) -> tuple[int, ...]:
        return (
            thing.row.tokens
            if isinstance(thing, Model)
            else thing.models[0].row.tokens
            if isinstance(thing, Layers)
            else ()
        )

    def _layer(
        self,
        index: int,
        inner: Expectation,
        verdict: Verdict,
        call: Call | None,
        observation: Observation,
        model: object,
        length: int,
        asked: Asked | None,
    ) -> tuple[Verdict, Record | None]:
        if index >= len(observation.layers):
            return verdict, None
        layer = observation.layers[index]
        layer = layer if observation.ok or layer.outcome != "ok" else evolve(layer, outcome=observation.outcome)
        inner_asked = evolve(asked, expectation=inner) if asked else None
        shown = self._shown(call, f"#{index}", layer, length, inner_asked, inner)
        one = model.models[index] if isinstance(model, Layers) else None
        found = compare(inner, shown, one, self.clauses)
        marked = tuple(evolve(d, layer=index) for d in found.divergences)
        before = self.states.get(f"{call.on if call else ''}#{index}")
        record = Record(call, layer.outcome, None, shown.read, before=before, after=shown.after, live=self._live(one))
        self.states[
            f"{getattr(call, 'as_', None) if call and call.verb in ('list', 'clone') else call.on if call else ''}#{index}"
        ] = shown.after
        return Verdict((*verdict.divergences, *marked), verdict.exercised | found.exercised), record

    # Decoding.

    def _shown(
        self,
        call: Call | None,
        name: str,
        observation: Observation,
        length: int,
        asked: Asked | None,
        expectation: Expectation,
    ) -> Shown:
        try:
            read, dense = self._reads(call, observation, length)
            after = self.decoder.state(observation.state)
            probes = self._probe(observation.read, asked) if read is not None and dense is None else None
        except (NonsenseError, TypeError, ValueError) as error:
            return Shown(observation, nonsense=str(error))
        same = self._handed_same(call, name, observation)
        if read is not None and asked is not None:
            self._compare_arithmetic(observation.read, read, asked)
        return Shown(observation, read, dense, after, same, probes)

    def _reads(
        self, call: Call | None, observation: Observation, length: int
    ) -> tuple[ReadRecord | None, Columns | None]:
        view = observation.read
        if view is None:
            return None, None
        if call is not None and call.verb == "dense" and view.keys is not None and view.values is not None:
            columns = self.decoder.columns(view.keys, view.values)
            return ReadRecord(fetched=columns.ids, width=int(view.keys.shape[2]), torn=columns.torn), columns
        return self.decoder.read(view, length), None

    def _probe(self, view: ReadView | None, asked: Asked | None) -> tuple[tuple[int, str, str], ...] | None:
        if view is None or view.output is None or asked is None or not asked.expectation.sights:
            return None
        return check_probes(self.stamper, view.output, asked.expectation.sights, asked.pointers, asked.turn)

    def _handed_same(self, call: Call | None, name: str, observation: Observation) -> bool | None:
        now = handed(observation)
        if call is None or not now:
            return None
        made = getattr(call, "as_", None)
        if made:
            self.handed[made] = now
            return None
        return self.handed.setdefault(name, now) == now if isinstance(call, LookAt) else None

    def _compare_arithmetic(self, view: ReadView | None, read: ReadRecord, asked: Asked) -> None:
        """Compare a random read's output with the NumPy model, over the bytes that were fetched in their order."""
        if not self.check_arithmetic or self.config.stamp != "random" or view is None or view.output is None:
            return
        if view.keys is None or view.values is None or read.visible is None or view.mask is None or read.mask is None:
            return
        mask = view.mask.array if read.mask == "array" else "causal" if read.mask == "causal" else None
        wanted = attention.attend(
            asked.queries, view.keys, view.values, scale=self.stamper.scale, mask=mask, dtype=self.config.dtype
        )
        same = bool(attention_equal(wanted, view.output, self.config.dtype))
        self.arithmetic = Arithmetic(self.arithmetic.reads + 1, self.arithmetic.different + (not same))


def attention_equal(one: Bits, other: Bits, dtype: str) -> bool:
    """Compare outputs bit for bit, NaN equal to NaN."""
    from kvlaw.reference.numerics.formats import equal_bits  # keeps this module's head short

    return one.shape == other.shape and bool(np.all(equal_bits(one, other, dtype)))  # type: ignore[arg-type] # a DType by construction


__all__ = ["Arithmetic", "Lockstep", "Step", "stamper_of"]
