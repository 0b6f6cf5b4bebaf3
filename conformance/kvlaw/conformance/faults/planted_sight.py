"""Faults of visibility: what the queries of a decode and of a window see (VIS)."""

import numpy as np
from attrs import evolve

from kvlaw.conformance.faults.parts import Asked, WrongCache
from kvlaw.conformance.faults.planted_ring import AnyPlan, RingFault
from kvlaw.conformance.faults.registry import fault
from kvlaw.reference import index
from kvlaw.reference.layout import Cache, Planes, Read
from kvlaw.spec.calls import Phase


@fault("decodes-over-the-overshoot", breaks="VIS-1", trace="ring window=2 ; window 3 ; decode", report="B03")
class DecodesOverTheOvershoot(RingFault):
    """The decode after an oversized window appends at the end and sees W positions of the past beside its own."""

    def bent(self, ring: index.Ring, plan: AnyPlan, phase: Phase) -> AnyPlan:
        if phase != "decode" or not index.overshoot(ring):
            return plan
        after = evolve(plan.after, columns=ring.columns + 1, write_index=ring.columns + 1, rotated=False)
        fetch = tuple(range(ring.columns - ring.window, ring.columns + 1))
        return evolve(plan, keep=None, write_at=ring.columns, fetch=fetch, after=after)


@fault("mask-one-column-too-wide", breaks="VIS-2", trace="ring window=3 ; window 2 x2", report="B04")
class MaskOneColumnTooWide(Cache):
    """The mask of a window shows each query one position too many."""

    def sees(self, length: int, phase: Phase, query: int, column: int, window: int | None) -> bool:
        if not isinstance(self.state, index.Ring) or phase == "decode":
            return super().sees(length, phase, query, column, window)
        reach = min(self.state.window, window or self.state.window) - self.state.sinks
        one_more = index.history(self.state) + query - column == reach
        return one_more or super().sees(length, phase, query, column, window)


@fault("takes-the-oldest-twice", breaks="VIS-3", trace="ring window=2 ; window 2 ; decode")
class TakesTheOldestTwice(RingFault):
    """A decode from a rotated ring fetches in temporal order, and the seam falls into both halves."""

    def bent(self, ring: index.Ring, plan: AnyPlan, phase: Phase) -> AnyPlan:
        seam = plan.after.write_index
        rotated = phase == "decode" and plan.after.rotated and seam < ring.window
        fetch = (*range(ring.sinks), *range(seam, ring.window), *range(ring.sinks, seam + 1))
        return evolve(plan, fetch=fetch) if rotated else plan


@fault("fetches-a-spare-column", breaks="VIS-4", trace="ring window=4 ; decode", report="B15")
class FetchesASpareColumn(RingFault):
    """A decode that makes the ring grow fetches one zero column of the new allocation."""

    def bent(self, ring: index.Ring, plan: AnyPlan, phase: Phase) -> AnyPlan:
        spare = plan.add > 1 and phase == "decode" and ring.columns < ring.window
        return evolve(plan, fetch=(*plan.fetch, plan.write_at + 1)) if spare else plan


@fault("last-query-misses-itself", breaks="VIS-5", trace="ring window=2 ; window 3")
class LastQueryMissesItself(Cache):
    """The last query of a masked window does not see its own position."""

    def sees(self, length: int, phase: Phase, query: int, column: int, window: int | None) -> bool:
        own = isinstance(self.state, index.Ring) and column == index.history(self.state) + query
        last = phase == "window" and length > 1 and query == length - 1
        return not (own and last) and super().sees(length, phase, query, column, window)


@fault("leaves-values-in-ring-order", breaks="VIS-6", trace="ring window=3 ; window 3 ; decode ; window 1")
class LeavesValuesInRingOrder(WrongCache):
    """A window lays the keys of a rotated ring out in temporal order, the values as they lie."""

    def act(self, asked: Asked) -> Read:
        rotated = self.ring is not None and self.ring.rotated and asked.phase == "window"
        plan, held = self.plan(asked.phase, asked.length), self.planes
        read = super().act(asked)
        if not rotated or held is None or plan.keep is None or self.planes is None:
            return read
        lying = np.concatenate([held.values[:, :, sorted(plan.keep)], asked.values], 2)
        self.planes = Planes(self.planes.keys, lying)
        return evolve(read, values=lying[:, :, list(plan.fetch)])


@fault("fetches-in-temporal-order", breaks="VIS-7", profile="layout", trace="ring window=2 ; window 2 ; decode")
class FetchesInTemporalOrder(RingFault):
    """A decode from a rotated ring fetches oldest first."""

    def bent(self, ring: index.Ring, plan: AnyPlan, phase: Phase) -> AnyPlan:
        rotated = phase == "decode" and plan.after.rotated
        return evolve(plan, fetch=index.temporal_columns(plan.after)) if rotated else plan


@fault("one-token-window-sees-one-more", breaks="VIS-8", trace="ring window=2 ; window 2 ; window 1", report="B03")
class OneTokenWindowSeesOneMore(RingFault):
    """A window of one token is appended to W old positions, a decode to W - 1."""

    def bent(self, ring: index.Ring, plan: AnyPlan, phase: Phase) -> AnyPlan:
        if phase == "decode" or plan.length > 1 or index.active(ring) < ring.window:
            return plan
        kept = index.temporal_columns(ring)[-ring.window :]
        after = evolve(plan.after, columns=ring.window + 1, write_index=ring.window + 1)
        return evolve(plan, keep=kept, write_at=ring.window, fetch=tuple(range(ring.window + 1)), after=after)


@fault("masks-its-sinks", breaks="VIS-9", trace="ring window=3 sinks=1 ; window 3 ; window 2", report="B21")
class MasksItsSinks(Cache):
    """The mask of a window is built as if the buffer were one contiguous window, so the sinks drop out of sight."""

    def sees(self, length: int, phase: Phase, query: int, column: int, window: int | None) -> bool:
        if phase == "decode" or not isinstance(self.state, index.Ring):
            return super().sees(length, phase, query, column, window)
        return index.block_visible(evolve(self.state, sinks=0), length, query, column, window)


@fault("broadcasts-row-0", breaks="VIS-10", trace="full batch=2 ; decode", report="B49")
class BroadcastsRow0(WrongCache):
    """A decode writes the key of the first row into every row."""

    def act(self, asked: Asked) -> Read:
        keys = asked.keys
        spread = np.repeat(keys[:1], len(keys), 0) if asked.phase == "decode" and asked.well_formed else keys
        return super().act(evolve(asked, keys=spread))


@fault("one-head-at-the-wrap", breaks="VIS-10", trace="ring window=2 ; window 2 ; decode")
class OneHeadAtTheWrap(WrongCache):
    """At the wrap the last head is written with the value of the first."""

    def act(self, asked: Asked) -> Read:
        wraps, values = asked.phase == "decode" and self.write_index == self.layer.window, asked.values
        mixed = np.concatenate([values[:, :-1], values[:, :1]], 1) if wraps and asked.well_formed else values
        return super().act(evolve(asked, values=mixed))


@fault("lays-out-all-but-the-last-head", breaks="VIS-6", trace="ring window=3 ; window 3 ; decode ; window 1")
class LaysOutAllButTheLastHead(WrongCache):
    """A window lays a rotated ring out in temporal order, the last head excepted."""

    def act(self, asked: Asked) -> Read:
        rotated = self.ring is not None and self.ring.rotated and asked.phase == "window"
        plan, held = self.plan(asked.phase, asked.length), self.planes
        read = super().act(asked)
        if not rotated or held is None or plan.keep is None or self.planes is None:
            return read
        for plane, old in ((self.planes.keys, held.keys), (self.planes.values, held.values)):
            plane[:, -1, : len(plan.keep)] = old[:, -1, sorted(plan.keep)]
        fetch = self.planes.kept(plan.fetch)
        return evolve(read, keys=fetch.keys, values=fetch.values)


@fault(
    "temporal-order-off-by-one", breaks="RING-1", trace="ring window=3 ; window 3 ; decode x2 ; window 1", report="B01"
)
class TemporalOrderOffByOne(RingFault):
    """A window takes the write index of a rotated ring for the newest column instead of the oldest."""

    def bent(self, ring: index.Ring, plan: AnyPlan, phase: Phase) -> AnyPlan:
        seam = ring.write_index + 1
        if phase == "decode" or not ring.rotated or seam > ring.window:
            return plan
        order = index.temporal_columns(evolve(ring, write_index=seam))
        dropped = len(order) - (plan.write_at - ring.sinks)
        return evolve(plan, keep=(*order[: ring.sinks], *order[dropped:]))
