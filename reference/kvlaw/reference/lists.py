"""What one call on a list of layers must answer: every layer acts, or none does (ERR-8, TRIM-13)."""

from attrs import evolve, frozen

from kvlaw.reference.expectation import Expectation, Expected
from kvlaw.reference.judge import Judge
from kvlaw.reference.model import Model
from kvlaw.reference.refusals import is_open, refusal
from kvlaw.reference.trims import Judged
from kvlaw.reference.world import Layers, Seen, UnknownObjectError
from kvlaw.spec.calls import (
    Append,
    BeginRound,
    Call,
    Clone,
    CommitRound,
    Drop,
    LookAt,
    OpenList,
    Publish,
    Reset,
    RollBack,
    Save,
    Trim,
)
from kvlaw.spec.cite import clause
from kvlaw.spec.config import LayerSpec

Result = tuple[Expectation, Layers]
_CHARGED = {
    **dict.fromkeys(("decode", "window", "known"), ("POS-2",)),
    "compiled": ("DEC-1", "POS-2"),
    **dict.fromkeys(("begin_round", "commit_round", "roll_back"), ("ROUND-12",)),
    "clone": ("OWN-2",),
    "reset": ("OWN-7",),
}
"""What a call is charged with that a list does not carry out although every layer would."""


_ON_LISTS = (Append, Clone, Drop, LookAt, Publish, Reset, Save, Trim, BeginRound, CommitRound, RollBack)


@frozen
class Lists:
    """Calls on a list of layers, judged layer by layer."""

    judge: Judge

    @clause("POS-7", "ERR-6")
    def opened(self, call: OpenList) -> tuple[Expectation, Layers | None]:
        """Make a list, or refuse it if one of its layers cannot be built."""
        if any(layer.problem for layer in call.layers):
            policy = all(layer.ring_problem is None for layer in call.layers)
            return Expectation(("refused",), ("PREC-13", "ERR-6") if policy else ("ERR-6",), ends=True), None
        self._demand_one_codec(call)
        layers = Layers(tuple(Model.empty(layer) for layer in call.layers))
        inner = tuple(Expectation(expected=self.judge.states.after(model, None)) for model in layers.models)
        return Expectation(layers=inner, expected=self.judge.states.of_list(layers)), layers

    def _demand_one_codec(self, call: OpenList) -> None:
        """Raise for layers whose codes have other widths than the tokens' columns of this trace."""
        known = _codec(self.judge.config)
        if any(layer.bits and _codec(layer) != known for layer in call.layers):
            raise UnknownObjectError("the layers of a list have the bits and the group of the first cache, or no bits")

    @clause("POS-7", "TRIM-13", "TRIM-14", "ERR-8")
    def call(self, target: Layers, call: Call, tokens: tuple[int, ...], seen: Seen) -> Result:
        """Give what ``call`` must answer, and the list after it."""
        if not isinstance(call, _ON_LISTS):
            raise UnknownObjectError(f"{call.on!r} is a list of layers: it cannot be asked to {call.verb}")
        if isinstance(call, Trim):
            expectation, after = self._trim(target, call, seen)
        else:
            expectation, after = self._each(target, call, tokens, seen)
        shows = self.judge.states.of_list(after, expectation.charged)
        return evolve(expectation, expected=(*expectation.expected, *shows)), after

    def _each(self, target: Layers, call: Call, tokens: tuple[int, ...], seen: Seen) -> Result:
        if any(is_open(model, call) for model in target.models):
            return Expectation(("ok", "refused"), ends=True), target
        if refusing := [cited for model in target.models if (cited := refusal(model, call, self.judge.config))]:
            whole = "ROUND-12" if isinstance(call, BeginRound | CommitRound | RollBack) else "ERR-8"
            whole = "PERS-15" if isinstance(call, Save) else "REUSE-9" if isinstance(call, Publish) else whole
            return self._refused(target, (whole, *refusing[0]), (whole, *refusing[0]), seen)
        results = [self.judge.call(model, call, tokens, seen) for model in target.models]
        if isinstance(call, BeginRound | CommitRound | RollBack):
            results = [(_of_all(inner), after) for inner, after in results]
        if any(after.past.converted for _, after in results):
            results = [(_left_alone(inner), after) for inner, after in results]
        return _gathered(Expectation(charged=_CHARGED.get(call.verb, ())), results)

    def _refused(self, target: Layers, cited: tuple[str, ...], inner: tuple[str, ...], seen: Seen) -> Result:
        results = [self.judge.refused(model, inner, seen) for model in target.models]
        if self.judge.profile == "core" and seen.outcome == "ok":
            return _gathered(Expectation(("ok", "refused"), ends=True), results)
        return _gathered(Expectation(("refused",), cited), results)

    def _trim(self, target: Layers, call: Trim, seen: Seen) -> Result:
        rounds = any(model.round is not None for model in target.models)
        if self.judge.profile == "core" and type(call.n) is int and not rounds:
            return self._judged(target, call, seen)
        if any(refusal(model, call, self.judge.config) for model in target.models):
            return self._refused(target, ("TRIM-13", "ERR-8"), ("TRIM-13", "TRIM-7"), seen)
        results = [self.judge.trims.done(model, call) for model in target.models]
        return _gathered(Expectation(expected=(Expected("answer", call.n, ("TRIM-13",)),)), results)

    def _judged(self, target: Layers, call: Trim, seen: Seen) -> Result:
        """Judge a trim by its answer: every layer has dropped just as many, or nothing (TRIM-13).

        A list owes a trim only where each of its layers owes it.
        """
        owing = [self.judge.trims.due(model, call, None) for model in target.models]
        first = target.models[owing.index(())] if () in owing else target.models[0]
        judged, after = self.judge.trims.judged(first, call, seen)
        dropped = first.offset - after.offset
        models = tuple(model.trimmed(dropped) if dropped else model for model in target.models)
        cited = ("TRIM-13", "POS-7") if dropped else ("TRIM-13", "ERR-8", "POS-7")
        outcome = seen.outcome if seen.outcome in judged.outcomes else judged.outcomes[0]
        inner = tuple(Expectation((outcome,), expected=(Expected("offset", m.offset, cited),)) for m in models)
        answers = tuple(evolve(e, clauses=("TRIM-13", *e.clauses)) for e in judged.expected if e.field == "answer")
        return evolve(judged, expected=answers, layers=inner), Layers(models)


def _of_all(inner: Expectation) -> Expectation:
    """Cite that every layer begins and ends its round."""
    ends = ("round", "offset")
    cited = (evolve(e, clauses=("ROUND-12", *e.clauses)) if e.field in ends else e for e in inner.expected)
    return evolve(inner, expected=tuple(cited))


def _left_alone(inner: Expectation) -> Expectation:
    """Cite that no layer converts because another does, where this one stays dense."""
    dense = (e.field == "storage" and e.value == "dense" for e in inner.expected)
    cited = [evolve(e, clauses=("PREC-15", *e.clauses)) if d else e for e, d in zip(inner.expected, dense, strict=True)]
    return evolve(inner, expected=tuple(cited))


def _gathered(expectation: Expectation, results: list[Judged]) -> Result:
    layers = tuple(inner for inner, _ in results)
    return evolve(expectation, layers=layers), Layers(tuple(model for _, model in results))


def _codec(layer: LayerSpec) -> tuple[int | None, int | None, int]:
    return layer.bits, layer.bits_of_values, layer.group
