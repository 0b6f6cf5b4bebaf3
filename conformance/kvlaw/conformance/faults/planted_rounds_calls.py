"""Faults of rounds of one cache: refusals, columns, conversion, open or not (ROUND-7 to ROUND-9, ROUND-11 to -16)."""

from collections.abc import Sequence
from typing import Any

from attrs import evolve

from kvlaw.conformance.faults.parts import Asked, WrongCache
from kvlaw.conformance.faults.planted_ring import AnyPlan
from kvlaw.conformance.faults.planted_rounds import RoundPlans
from kvlaw.conformance.faults.registry import fault
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.reference import index
from kvlaw.reference.layout import Cache, Read
from kvlaw.spec.calls import Phase
from kvlaw.spec.observations import StateView

# Begins, ends and keeps that are to be refused.


@fault("begins-twice", breaks="ROUND-7", profile="layout", trace="full ; begin_round x2")
class BeginsTwice(Cache):
    """A begin in an open round begins anew."""

    def begin_round(self) -> None:
        self.round = self.offset


@fault(
    "refused-begins-move-the-start",
    breaks="ROUND-2",
    profile="layout",
    trace="full ; begin_round ; decode ; begin_round ; roll_back 0",
)
class RefusedBeginsMoveTheStart(Cache):
    """A begin in an open round is refused, after it has moved the start of the round."""

    def begin_round(self) -> None:
        try:
            super().begin_round()
        finally:
            self.round = self.offset


@fault("commits-what-is-not-open", breaks="ROUND-7", profile="layout", trace="full ; commit_round")
class CommitsWhatIsNotOpen(Cache):
    """A commit without a round has nothing to do, and says yes."""

    def commit_round(self) -> None:
        if self.round is not None:
            super().commit_round()


@fault("rolls-back-what-is-not-open", breaks="ROUND-7", profile="layout", trace="full ; roll_back 0")
class RollsBackWhatIsNotOpen(Cache):
    """A roll back without a round has nothing to take back, and says yes."""

    def roll_back(self, keep: Sequence[int]) -> None:
        if self.round is not None:
            super().roll_back(keep)


@fault("keeps-what-it-can", breaks="ROUND-7", profile="layout", trace="full ; begin_round ; roll_back 1")
class KeepsWhatItCan(Cache):
    """A roll back that keeps more than was appended keeps all."""

    def roll_back(self, keep: Sequence[int]) -> None:
        super().roll_back([min(kept, self.appended_in_round) for kept in keep])


@fault(
    "negative-keeps-count-back", breaks="ROUND-7", profile="layout", trace="full ; begin_round ; decode ; roll_back -1"
)
class NegativeKeepsCountBack(Cache):
    """A keep below 0 counts from the end of the round, as an index does."""

    def roll_back(self, keep: Sequence[int]) -> None:
        super().roll_back([kept if kept >= 0 else self.appended_in_round + kept for kept in keep])


@fault("the-first-keep-is-taken", breaks="ROUND-7", profile="layout", trace="full ; begin_round ; roll_back 0,0")
class TheFirstKeepIsTaken(Cache):
    """Of several numbers to keep a lone cache takes the first."""

    def roll_back(self, keep: Sequence[int]) -> None:
        super().roll_back(keep[:1])


@fault("refused-keeps-end-the-round", breaks="ROUND-7", profile="layout", trace="full ; begin_round ; roll_back 1")
class RefusedKeepsEndTheRound(Cache):
    """A roll back closes the round before it looks at what it is to keep."""

    def roll_back(self, keep: Sequence[int]) -> None:
        try:
            super().roll_back(keep)
        finally:
            self.round = None


# Columns.


@fault("drafts-fill-spare-columns", breaks="ROUND-8", profile="layout", trace="ring window=2 ; begin_round ; decode")
class DraftsFillSpareColumns(RoundPlans):
    """As long as a ring is not full, a decode in a round is written in place, behind which spare columns lie."""

    def ring_plan(self, ring: index.Ring, phase: Phase, length: int) -> AnyPlan:
        room = phase == "decode" and ring.write_index < ring.window and not ring.rotated
        return index.plan_decode(ring) if room else super().ring_plan(ring, phase, length)


@fault(
    "rounds-keep-one-less", breaks="ROUND-8", profile="layout", trace="ring window=1 ; decode ; begin_round ; decode"
)
class RoundsKeepOneLess(RoundPlans):
    """An append in a round keeps the W - 1 newest columns of before the round, as a block outside does."""

    def ring_plan(self, ring: index.Ring, phase: Phase, length: int) -> AnyPlan:
        del phase
        return index.plan_in_round(ring, length, self.appended_in_round - 1)


@fault(
    "roll-backs-leave-spare-columns",
    breaks="ROUND-14",
    profile="layout",
    trace="ring window=2 ; begin_round ; window 2 ; roll_back 1",
)
class RollBacksLeaveSpareColumns(Cache):
    """A roll back of a ring only moves the write index: the columns behind it stay allocated."""

    def _close(self, count: int) -> None:
        before, planes, dtype = self.state, self.planes, self.dtype
        super()._close(count)
        if isinstance(before, index.Ring) and planes is not None and count:
            self.state, self.planes, self.dtype = evolve(self.state, columns=before.columns), planes, dtype


@fault(
    "rounds-drop-nothing", breaks="ROUND-8", profile="layout", trace="ring window=1 ; window 2 ; begin_round ; decode"
)
class RoundsDropNothing(RoundPlans):
    """In a round a ring keeps every column that it has."""

    def ring_plan(self, ring: index.Ring, phase: Phase, length: int) -> AnyPlan:
        del phase
        return index.plan_in_round(ring, length, max(0, index.active(ring) - ring.window))


@fault("rounds-allocate-ahead", breaks="ROUND-15", profile="layout", trace="ring window=1 ; begin_round ; decode")
class RoundsAllocateAhead(WrongCache):
    """In a round a ring allocates columns for more drafts behind those that it writes."""

    def act(self, asked: Asked) -> Read:
        read = super().act(asked)
        if self.round is not None and self.ring is not None and self.planes is not None:
            self.planes = self.planes.grown(index.STEP)
            self.state = evolve(self.ring, columns=self.columns + index.STEP)
        return read


# What an open round forbids.


@fault("trims-in-a-round", breaks="ROUND-9", profile="layout", trace="full ; begin_round ; trim 0")
class TrimsInARound(Cache):
    """A trim in an open round is carried out."""

    def trim(self, count: int, bypass: bool = False) -> int:
        start, self.round = self.round, None
        try:
            return super().trim(count, bypass)
        finally:
            self.round = start


@fault("bypass-in-a-round", breaks="ROUND-9", profile="layout", trace="ring window=1 ; begin_round ; trim 0 bypass")
class BypassInARound(TrimsInARound):
    """A trim with a bypass passes the open round by as well."""

    def trim(self, count: int, bypass: bool = False) -> int:
        return super().trim(count, bypass) if bypass else Cache.trim(self, count)


@fault("says-it-can-trim-in-a-round", breaks="ROUND-9", profile="layout", trace="full ; begin_round")
class SaysItCanTrimInARound(Cache):
    """A cache says that it can trim while a round is open, and refuses to."""

    def can_trim(self, count: int) -> bool:
        return index.can_trim(self.state, count)


# Conversion.


@fault("converts-in-a-round", breaks="ROUND-11", profile="layout", trace="full bits=4 start=1 ; begin_round ; decode")
class ConvertsInARound(Cache):
    """An append in a round converts the cache as soon as it is due."""

    def settle(self) -> None:
        start, self.round = self.round, None
        super().settle()
        self.round = start


@fault(
    "converts-by-what-is-taken-back",
    breaks="ROUND-11",
    profile="layout",
    trace="full bits=4 start=1 ; begin_round ; decode ; roll_back 0",
)
class ConvertsByWhatIsTakenBack(Cache):
    """The end of a round converts what is due, and takes back then."""

    def _close(self, count: int) -> None:
        self.round = None
        self.settle()
        super()._close(count)


@fault(
    "the-floor-counts-what-is-taken-back",
    breaks="ROUND-11",
    profile="layout",
    trace="full bits=4 start=1 ; begin_round ; window 2 ; roll_back 1",
)
class TheFloorCountsWhatIsTakenBack(Cache):
    """The floor of a conversion at the end of a round is the offset before the roll back."""

    def _close(self, count: int) -> None:
        before, converted = self.offset, self.codec is not None
        super()._close(count)
        if self.codec is not None and not converted and self.floor:
            self.floor = before


@fault(
    "rounds-end-in-half-precision",
    breaks="ROUND-11",
    profile="layout",
    trace="full bits=4 start=1 ; begin_round ; decode ; commit_round",
)
class RoundsEndInHalfPrecision(Cache):
    """The end of a round converts nothing, the next append does."""

    ending = False

    def _close(self, count: int) -> None:
        self.ending = True
        super()._close(count)
        self.ending = False

    def settle(self) -> None:
        if not self.ending:
            super().settle()


# Whether a round is open.


@fault("begins-nothing", breaks="ROUND-16", profile="layout", trace="full ; begin_round")
class BeginsNothing(Cache):
    """A begin is accepted, and the round opens with the first append."""

    def begin_round(self) -> None:
        super().begin_round()
        self.round = None


@fault("roll-backs-leave-the-round-open", breaks="ROUND-16", profile="layout", trace="full ; begin_round ; roll_back 0")
class RollBacksLeaveTheRoundOpen(Cache):
    """After a roll back the round goes on from its start."""

    def roll_back(self, keep: Sequence[int]) -> None:
        start = self.round
        super().roll_back(keep)
        self.round = start


@fault("reset-leaves-the-round-open", breaks="ROUND-16", profile="layout", trace="full ; begin_round ; reset")
class ResetLeavesTheRoundOpen(Cache):
    """A reset empties the cache, and the round that was open goes on at position 0."""

    def reset(self) -> None:
        was_open = getattr(self, "round", None) is not None
        super().reset()
        self.round = 0 if was_open else None


@fault("clones-have-no-round", breaks="ROUND-16", profile="layout", trace="full ; begin_round ; clone as c1")
class ClonesHaveNoRound(Cache):
    """A clone of a cache with an open round has none."""

    def clone(self) -> Cache:
        twin = super().clone()
        twin.round = None
        return twin


@fault(
    "clones-share-the-round",
    breaks="ROUND-16",
    profile="layout",
    trace="full ; begin_round ; clone as c1 ; commit_round ; look c1",
)
class ClonesShareTheRound(ReferenceAdapter):
    """The end of a round of a cache ends that of its clones."""

    def __init__(self) -> None:
        super().__init__()
        self.twins: list[tuple[Any, Any]] = []

    def clone(self, cache: Any) -> Any:
        twin = super().clone(cache)
        self.twins += [(cache, twin)]
        return twin

    def commit_round(self, cache: Any) -> None:
        super().commit_round(cache)
        for original, twin in self.twins:
            if original is cache and isinstance(twin, Cache):
                twin.round = None


@fault("shows-a-round-once-it-has-drafts", breaks="ROUND-16", profile="layout", trace="full ; begin_round")
class ShowsARoundOnceItHasDrafts(ReferenceAdapter):
    """A round is said to be open once something was appended in it."""

    def show(self, cache: Any) -> StateView:
        view = super().show(cache)
        drafts = not isinstance(cache, Cache) or cache.appended_in_round > 0
        return view if drafts else evolve(view, round="none")
