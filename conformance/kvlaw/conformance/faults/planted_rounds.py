"""Faults of rounds of one cache: what is kept, taken back and seen (ROUND-1 to ROUND-6, ROUND-10, ROUND-12)."""

from collections.abc import Sequence
from typing import Any

from attrs import evolve

from kvlaw.conformance.faults.parts import Asked, WrongCache
from kvlaw.conformance.faults.planted_precision_codes import again
from kvlaw.conformance.faults.planted_ring import AnyPlan
from kvlaw.conformance.faults.registry import fault
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.reference import index
from kvlaw.reference.codes import join_codes
from kvlaw.reference.layout import Cache, Planes, Read, Refusal
from kvlaw.spec.calls import Phase

# How much is kept.


@fault("commit-drops-the-last", breaks="ROUND-1", trace="full ; begin_round ; decode ; commit_round")
class CommitDropsTheLast(Cache):
    """A commit takes the newest position of the round back: it is read again by the next call."""

    def commit_round(self) -> None:
        self._demand_round("commit")
        self._close(min(1, self.appended_in_round))


@fault("keeps-one-more", breaks="ROUND-2", trace="full ; begin_round ; decode ; roll_back 0", report="B70")
class KeepsOneMore(Cache):
    """A roll back takes one position too few back."""

    def _close(self, count: int) -> None:
        super()._close(max(0, count - 1))


@fault("keep-counts-from-the-end", breaks="ROUND-2", trace="full ; begin_round ; decode ; roll_back 0")
class KeepCountsFromTheEnd(Cache):
    """A roll back takes as many positions back as it was told to keep."""

    def roll_back(self, keep: Sequence[int]) -> None:
        super().roll_back([self.appended_in_round - kept for kept in keep])


@fault("keep-counts-from-the-first-position", breaks="ROUND-2", trace="full ; decode ; begin_round ; roll_back 0")
class KeepCountsFromTheFirstPosition(Cache):
    """The number to keep is taken for the offset to go back to, whatever was there before the round."""

    def _close(self, count: int) -> None:
        super()._close(count + (self.round or 0))


@fault("roll-back-forgets-the-offset", breaks="ROUND-2", trace="ring window=2 ; begin_round ; decode ; roll_back 0")
class RollBackForgetsTheOffset(Cache):
    """A roll back cuts the columns, and the next position stays where it was."""

    def _close(self, count: int) -> None:
        before = self.offset
        super()._close(count)
        self.state = evolve(self.state, offset=before)


@fault(
    "rounds-begin-where-the-first-began",
    breaks="ROUND-2",
    trace="full ; begin_round ; decode ; commit_round ; begin_round ; roll_back 0",
)
class RoundsBeginWhereTheFirstBegan(Cache):
    """The start of the first round is kept, and every later one goes back to it."""

    start: int | None = None

    def begin_round(self) -> None:
        super().begin_round()
        self.start = self.round = self.round if self.start is None else min(self.start, self.offset)


@fault(
    "takes-the-first-of-the-round-back",
    breaks="ROUND-3",
    trace="ring window=2 ; begin_round ; window 2 ; roll_back 1 ; decode",
)
class TakesTheFirstOfTheRoundBack(Cache):
    """A roll back of a ring cuts the oldest columns of the round off, and keeps the newest."""

    def _close(self, count: int) -> None:
        start = self.columns - self.appended_in_round
        if self.planes is not None and isinstance(self.state, index.Ring) and count:
            last = range(start + count, self.columns)
            self.planes = self.planes.kept((*range(start), *last, *range(start, start + count)))
        super()._close(count)


# What is seen after it.


@fault(
    "rejected-tokens-stay-visible",
    breaks="ROUND-3",
    trace="ring window=2 ; begin_round ; decode ; roll_back 0 ; decode",
)
class RejectedTokensStayVisible(Cache):
    """A roll back of a ring counts back, and leaves the columns that it took back among those that count."""

    def _close(self, count: int) -> None:
        before, planes, dtype = self.state, self.planes, self.dtype
        super()._close(count)
        if isinstance(before, index.Ring) and self.codec is None:
            self.planes, self.dtype = planes, dtype
            self.state = evolve(before, offset=before.offset - count)


@fault(
    "writes-behind-rejected-tokens",
    breaks="ROUND-3",
    trace="full ; begin_round ; decode ; roll_back 0 ; decode",
    report="B79",
)
class WritesBehindRejectedTokens(Cache):
    """A growing cache goes on writing behind what a roll back took back, and fetches all that lies before it."""

    behind = 0

    def _close(self, count: int) -> None:
        super()._close(count)
        self.behind += count

    def plan(self, phase: Phase, length: int) -> AnyPlan:
        plan = super().plan(phase, length)
        if not isinstance(self.state, index.Full) or not self.behind:
            return plan
        end = self.offset + self.behind + length
        columns = max(plan.after.columns, end)
        add = max(0, columns - (0 if self.planes is None else self.planes.keys.shape[2]))
        after = evolve(plan.after, columns=columns)
        return evolve(plan, add=add, keep=None, write_at=end - length, fetch=tuple(range(end)), after=after)


class RoundPlans(WrongCache):
    """A cache whose rings append in a round by other plans."""

    def plan(self, phase: Phase, length: int) -> AnyPlan:
        if self.round is None or not isinstance(self.state, index.Ring):
            return super().plan(phase, length)
        return self.ring_plan(self.state, phase, length)

    def ring_plan(self, ring: index.Ring, phase: Phase, length: int) -> AnyPlan:
        """Plan an append to a ring in an open round rightly."""
        del phase
        return index.plan_in_round(ring, length, self.appended_in_round)

    def _close(self, count: int) -> None:
        """Cut the newest columns that are there, in temporal order, and count all of them back."""
        ring, there = self.ring, min(count, self.columns)
        if ring is not None:
            order = tuple(index.temporal_column(ring, place) for place in range(index.active(ring)))
            there = min(count, len(order))
            self.planes = self.planes and self.planes.kept(order)
            columns, offset = len(order), ring.offset - (count - there)
            self.state = evolve(ring, columns=columns, write_index=columns, rotated=False, offset=offset)
        super()._close(there)


@fault(
    "drafts-are-written-in-place",
    breaks="ROUND-4",
    trace="ring window=2 ; begin_round ; window 2 ; decode ; roll_back 1 ; decode",
    report="B12",
)
class DraftsAreWrittenInPlace(RoundPlans):
    """A decode in a round is written over the oldest column, which no roll back brings back."""

    def ring_plan(self, ring: index.Ring, phase: Phase, length: int) -> AnyPlan:
        return index.plan_decode(ring) if phase == "decode" else super().ring_plan(ring, phase, length)

    def _close(self, count: int) -> None:
        ring = self.ring
        super()._close(0 if ring is not None and ring.rotated else count)
        if ring is not None and ring.rotated:
            self.state = evolve(self.state, offset=self.offset - count)


@fault(
    "drafts-leave-what-a-block-leaves",
    breaks="ROUND-4",
    trace="ring window=2 ; begin_round ; window 2 ; decode ; roll_back 1",
    report="B18",
)
class DraftsLeaveWhatABlockLeaves(RoundPlans):
    """An append in a round keeps the W - 1 columns that its own first query sees, not those of before the round."""

    def ring_plan(self, ring: index.Ring, phase: Phase, length: int) -> AnyPlan:
        return index.plan_block(ring, length)


@fault(
    "rounds-keep-a-window-in-all",
    breaks="ROUND-4",
    trace="ring window=2 ; begin_round ; window 3 ; decode ; roll_back 1",
)
class RoundsKeepAWindowInAll(RoundPlans):
    """An append in a round keeps W columns, those of the round among them."""

    def ring_plan(self, ring: index.Ring, phase: Phase, length: int) -> AnyPlan:
        return index.plan_in_round(ring, length, 0)


# What is seen in it.


@fault("one-append-a-round", breaks="ROUND-5", trace="full ; begin_round ; decode x2")
class OneAppendARound(WrongCache):
    """A second append in a round is refused: a draft is one block."""

    def act(self, asked: Asked) -> Read:
        if self.appended_in_round:
            raise Refusal("this round has its draft")
        return super().act(asked)


@fault("rounds-see-themselves-alone", breaks="ROUND-6", trace="full ; decode ; begin_round ; decode")
class RoundsSeeThemselvesAlone(Cache):
    """In a round a growing cache fetches the columns of the round, and none from before it."""

    def plan(self, phase: Phase, length: int) -> AnyPlan:
        plan = super().plan(phase, length)
        if self.round is None or not isinstance(self.state, index.Full):
            return plan
        return evolve(plan, fetch=plan.fetch[self.round :])


@fault("drafts-do-not-see-each-other", breaks="ROUND-6", trace="full ; begin_round ; decode x2")
class DraftsDoNotSeeEachOther(Cache):
    """In a round an append fetches what was there before the round and itself, not the earlier drafts."""

    def plan(self, phase: Phase, length: int) -> AnyPlan:
        plan = super().plan(phase, length)
        if self.round is None or not isinstance(self.state, index.Full):
            return plan
        return evolve(plan, fetch=(*plan.fetch[: self.round], *plan.fetch[self.offset :]))


@fault("rounds-fetch-all-they-keep", breaks="ROUND-6", trace="ring window=1 ; decode ; begin_round ; decode")
class RoundsFetchAllTheyKeep(RoundPlans):
    """A decode in a round fetches every column that the ring keeps for a roll back, and sees them all."""

    def ring_plan(self, ring: index.Ring, phase: Phase, length: int) -> AnyPlan:
        plan = super().ring_plan(ring, phase, length)
        return evolve(plan, fetch=tuple(range(plan.after.columns))) if phase == "decode" else plan


# Codes.


@fault(
    "kept-codes-are-made-anew",
    breaks="ROUND-10",
    profile="layout",
    trace="full bits=4 stamp=random ; begin_round ; window 5 ; commit_round",
)
class KeptCodesAreMadeAnew(Cache):
    """At the end of a round the codes are restored to values, and these are quantized again."""

    def _close(self, count: int) -> None:
        super()._close(count)
        self.planes = self.planes and again(self, self.planes)


@fault(
    "kept-codes-take-other-scales",
    breaks="ROUND-10",
    trace="full bits=4 stamp=random ; begin_round ; window 2 ; roll_back 1 ; decode",
)
class KeptCodesTakeOtherScales(Cache):
    """What a roll back keeps is given the scales of what it takes back."""

    def _close(self, count: int) -> None:
        held, kept = self.planes, self.offset - count
        super()._close(count)
        if self.codec is None or held is None or not count or not kept or self.planes is None:
            return
        own = self.codec.split("keys", self.planes.keys[:, :, :kept])
        lent = self.codec.split("keys", held.keys[:, :, [kept] * kept])
        keys = self.planes.keys.copy()
        keys[:, :, :kept] = join_codes(own.words, lent.scales, own.biases)
        self.planes = Planes(keys, self.planes.values)


# Lists.

_LIST = "full ; list full + ring window=2 as l0 ; begin_round on l0"


@fault("the-last-layer-alone-rolls-back", breaks="ROUND-12", trace=f"{_LIST} ; decode on l0 ; roll_back 0 on l0")
class TheLastLayerAloneRollsBack(ReferenceAdapter):
    """A roll back of a list takes positions back from its rings, and commits the round of the others."""

    def roll_back_layers(self, caches: list[Any], keep: Sequence[int]) -> None:
        rings = [cache for cache in caches if cache.layer.window is not None]
        super().roll_back_layers(rings, keep)
        super().commit_round_layers([cache for cache in caches if cache.layer.window is None])


@fault("the-first-layer-alone-commits", breaks="ROUND-12", profile="layout", trace=f"{_LIST} ; commit_round on l0")
class TheFirstLayerAloneCommits(ReferenceAdapter):
    """A commit of a list closes the round of its first layer."""

    def commit_round_layers(self, caches: list[Any]) -> None:
        super().commit_round_layers(caches[:1])


@fault("rings-alone-begin", breaks="ROUND-12", profile="layout", trace=_LIST)
class RingsAloneBegin(ReferenceAdapter):
    """A round of a list is begun by the layers that could lose something, its rings."""

    def begin_round_layers(self, caches: list[Any]) -> None:
        super().begin_round_layers([cache for cache in caches if cache.layer.window is not None])


@fault(
    "layers-keep-what-each-can",
    breaks="ROUND-12",
    profile="layout",
    trace=f"{_LIST} ; roll_back 1 on l0",
)
class LayersKeepWhatEachCan(ReferenceAdapter):
    """A roll back of a list commits the round of its first layer before it asks the others, which refuse."""

    def roll_back_layers(self, caches: list[Any], keep: Sequence[int]) -> None:
        caches[0].commit_round()
        for cache in caches[1:]:
            cache.roll_back(keep)
