"""What one call on one cache must answer, and the cache's model after it.

Refused calls are followed by what the subject did: in ``core`` a cache may accept what our design refuses, and the
trace then ends, since the law leaves open what follows.
"""

from attrs import evolve, frozen

from kvlaw.reference.citations import form_clauses, layout_clauses, mask_clauses, probe_clauses, sight_clauses
from kvlaw.reference.expectation import Expectation, Expected
from kvlaw.reference.history import Sight
from kvlaw.reference.index import mask_kind
from kvlaw.reference.model import Model
from kvlaw.reference.refusals import ROUND_CALLS, is_open, refusal
from kvlaw.reference.rounds import Rounds
from kvlaw.reference.states import States
from kvlaw.reference.trims import Judged, Trims
from kvlaw.reference.world import Profile, Seen, UnknownObjectError
from kvlaw.spec.calls import (
    AppendDecode,
    Call,
    Clone,
    Drop,
    FetchDense,
    LookAt,
    MakeMask,
    Phase,
    Publish,
    Reset,
    Save,
    TakeState,
    Trim,
)
from kvlaw.spec.cite import clause
from kvlaw.spec.config import Config
from kvlaw.spec.observations import Form

_EITHER = Expectation(("ok", "refused"), ends=True)
"""The law leaves open what comes of this call."""
_NOT_READ = ("VIS-1", "VIS-2", "VIS-5", "VIS-8")
"""Clauses that speak of a query, so not of a dense fetch."""


@frozen
class Judge:
    """Calls on one cache, for one configuration and profile."""

    config: Config
    profile: Profile

    @property
    def states(self) -> States:
        """What caches show."""
        return States(self.config, self.profile)

    @property
    def trims(self) -> Trims:
        """What trims answer."""
        return Trims(self.states)

    def call(self, model: Model, call: Call, tokens: tuple[int, ...], seen: Seen) -> Judged:
        """Give what ``call`` must answer, and the model after it."""
        narrows = getattr(call, "window", None) is not None
        if is_open(model, call) or (model.lenient and (narrows or isinstance(call, Trim))):
            return _EITHER, model
        if isinstance(call, Trim) and self.profile == "core" and type(call.n) is int and model.round is None:
            return self.trims.judged(model, call, seen)
        if cited := refusal(model, call, self.config):
            return self.refused(model, cited, seen)
        if call.appends:
            return self._append(model, call, tokens, seen)
        if isinstance(call, MakeMask):
            return self._mask(model, call), model
        if isinstance(call, Trim):
            return self.trims.done(model, call)
        if isinstance(call, ROUND_CALLS):
            return Rounds(self.states).done(model, call)
        return self._plain(model, call)

    @clause("OWN-2", "OWN-3", "OWN-7", "OWN-9", "POS-5")
    def _plain(self, model: Model, call: Call) -> Judged:
        """Give what a call shows that only looks, clones or resets."""
        if not isinstance(call, Clone | Drop | LookAt | Publish | Reset | Save | TakeState):
            raise UnknownObjectError(f"{call.on!r} is a cache: it cannot be asked to {call.verb}")
        after = model
        if isinstance(call, Reset):
            after = model.reset()
        elif isinstance(call, Clone):
            after = model.was(related=True)
        return Expectation(expected=self.states.after(after, call)), after

    @clause("ERR-1", "ERR-2", "ERR-3", "ERR-4", "ERR-5", "ERR-7", "MASK-13", "TRIM-7", "TRIM-12")
    def refused(self, model: Model, cited: tuple[str, ...], seen: Seen) -> Judged:
        """Give what a call shows that our design refuses by the clauses ``cited``: what it showed before (ERR-1)."""
        after = model.was(refused=True)
        if self.profile == "core" and seen.outcome == "ok":
            return _EITHER, after
        first = tuple(c for c in cited if c in ("TRIM-10", "TRIM-13", "ERR-8", "PREC-13"))
        own = tuple(c for c in cited if c in ("TRIM-3", "TRIM-4", "TRIM-9", "ROUND-7", "ROUND-12"))
        kept = self.states.unchanged(after, (*first, "ERR-1", *own))
        return Expectation(("refused",), cited, expected=kept), after

    @clause("POS-2", "POS-3", "READ-1", "READ-5", "READ-6", "READ-7", "READ-8", "VIS-3", "VIS-5", "VIS-7", "VIS-8")
    def _append(self, model: Model, call: Call, tokens: tuple[int, ...], seen: Seen) -> Judged:
        single = call.verb == "dense" and call.appends == 1
        phase: Phase = "decode" if single or isinstance(call, AppendDecode) else "window"
        argument, unread = getattr(call, "window", None), bool(getattr(call, "unread", False))
        after, plan = model.appended(phase, tokens, unread)
        sights = after.sights(len(tokens), argument)
        fetched = tuple(after.slots[column] for column in plan.fetch)
        spoilt = (model.past.spoilt,) if model.past.spoilt else ()
        shows = Expectation(
            charged=(*spoilt, *(("DEC-1",) if call.verb == "compiled" else ()), "POS-2"),
            sights=sights,
            order=tuple(_in_order(fetched, frozenset(sight.allowed)) for sight in sights),
            fetched=fetched,
            live_before=model.row.tokens,
            live=after.row.tokens,
            form=_form(model, call),
        )
        expected = self.states.after(after, call, layout_clauses(model, after, call, phase))
        expected += self.states.kept_columns(after, seen.columns)
        if not unread:
            expected += self._read(model, after, call, phase, shows)
        expected += self._alone(call)
        kind = mask_kind(model.state, len(tokens), phase, argument) if self.profile == "layout" else None
        return evolve(shows, expected=expected, mask=kind), after

    @clause("READ-13")
    def _alone(self, call: Call) -> tuple[Expected, ...]:
        """Give that each query of a known append answers as it does alone, now or when the read is asked later."""
        return self.states.layout_only(Expected("apart", (), ("READ-13",))) if call.verb == "known" else ()

    @clause("MASK-1", "MASK-11", "GROW-4", "GROW-8", "VIS-4", "VIS-6", "VIS-10")
    @clause("RING-1", "RING-11", "RING-12", "TRIM-8")
    def _read(self, model: Model, after: Model, call: Call, phase: Phase, shows: Expectation) -> tuple[Expected, ...]:
        """Give what the read of an append shows."""
        cited = sight_clauses(model, after, call, phase, self.config)
        layout_only = self.states.layout_only
        if isinstance(call, FetchDense):
            restored = ("READ-14",) if model.storage == "affine" else ()
            cited = (*restored, "READ-6", *(c for c in cited if c not in _NOT_READ))
            needed = frozenset(t for sight in shows.sights for t in sight.required)
            dense = Expected("dense_sights", Sight(_in_order(shows.live, needed), shows.live), cited)
            if model.lenient:
                return (evolve(dense, clauses=("RING-14",)),)
            return dense, *layout_only(Expected("fetched", shows.fetched, (*restored, "READ-7", "VIS-7")))
        argument, array = getattr(call, "window", None), bool(getattr(call, "array", False))
        kind = "array" if array else mask_kind(model.state, len(shows.sights), phase, argument)
        mask = Expected("mask", kind, mask_clauses(model, phase, argument))
        if model.lenient:
            return (Expected("sights", shows.sights, cited),)
        return (
            Expected("sights", shows.sights, cited),
            Expected("mask_width", len(shows.sights), ("MASK-1",)),
            Expected("foretold", shows.sights, ("MASK-12",)),
            Expected(
                "probes", None, (*probe_clauses(model, call, phase), *(("VIS-10",) if self.config.batch > 1 else ()))
            ),
            *([Expected("form", shows.form, form_clauses(model, after))] if model.layer.bits else []),
            *layout_only(mask, Expected("order", shows.order, ("VIS-7",))),
        )

    @clause("MASK-2", "MASK-3", "MASK-5", "MASK-6", "MASK-7", "MASK-10", "MASK-12", "POS-5")
    def _mask(self, model: Model, call: MakeMask) -> Expectation:
        kind = "array" if call.array else mask_kind(model.state, call.length, call.phase, call.window)
        cited = mask_clauses(model, call.phase, call.window)
        asked = ("MASK-11",) if call.array else ()
        form = self.states.layout_only(
            Expected("mask", kind, cited),
            Expected("mask_array", self._matrix(model, call), (*cited, "MASK-12", *asked)),
        )
        return Expectation(charged=cited, expected=(*self.states.after(model, call), *form), mask=kind)

    @staticmethod
    def _matrix(model: Model, call: MakeMask) -> tuple[tuple[bool, ...], ...]:
        """Work out what the next append's queries see of its fetch, by trying it: the law, not a mask formula."""
        fresh = tuple(-1 - i for i in range(call.length))
        after, plan = model.appended(call.phase, fresh, unread=True)
        sights = after.sights(call.length, call.window)
        return tuple(tuple(after.slots[c] in set(sight.allowed) for c in plan.fetch) for sight in sights)


def _form(model: Model, call: Call) -> Form:
    """Say what a fetch of the next append gives: what is stored before it, or tensors again for a dense fetch."""
    if model.storage == "dense":
        return "dense"
    return "restored" if isinstance(call, FetchDense) else "affine"


def _in_order(ids: tuple[int, ...], among: frozenset[int]) -> tuple[int, ...]:
    return tuple(token for token in ids if token in among)
