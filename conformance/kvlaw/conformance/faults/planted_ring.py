"""Faults of the ring: what it keeps, where it writes, how it is laid out anew (RING)."""

from typing import Any

import numpy as np
from attrs import evolve

from kvlaw.conformance.faults.parts import Asked, WrongCache
from kvlaw.conformance.faults.registry import fault
from kvlaw.reference import index
from kvlaw.reference.layout import Cache, MaskValue, Planes, Read
from kvlaw.spec.calls import Phase
from kvlaw.spec.config import LayerSpec

AnyPlan = index.Plan[Any]


class RingFault(WrongCache):
    """A cache whose ring plans are bent by ``bent``, given the state before and the right plan."""

    def plan(self, phase: Phase, length: int) -> AnyPlan:
        """Plan, then bend."""
        plan = super().plan(phase, length)
        return plan if self.ring is None else self.bent(self.ring, plan, phase)

    def bent(self, ring: index.Ring, plan: AnyPlan, phase: Phase) -> AnyPlan:
        """Bend one plan."""
        raise NotImplementedError


def shifted(ring: index.Ring, plan: AnyPlan) -> AnyPlan:
    """Plan a decode that drops the oldest unpinned column and appends at the end: never rotated."""
    order = index.temporal_columns(ring)
    kept = (*order[: ring.sinks], *order[len(order) - (ring.window - 1 - ring.sinks) :]) if ring.window > 1 else ()
    after = evolve(plan.after, columns=ring.window, write_index=ring.window, rotated=False)
    return evolve(plan, add=0, keep=kept, write_at=ring.window - 1, fetch=tuple(range(ring.window)), after=after)


@fault("drops-one-too-many", breaks="RING-1", trace="ring window=3 ; window 4 ; decode", report="B01")
class DropsOneTooMany(RingFault):
    """The decode after an oversized window drops one position more than the overshoot."""

    def bent(self, ring: index.Ring, plan: AnyPlan, phase: Phase) -> AnyPlan:
        gone = ring.sinks + 1
        over = phase == "decode" and index.overshoot(ring) > 0 and gone < ring.window
        return evolve(plan, fetch=tuple(c for c in plan.fetch if c != gone)) if over else plan


@fault(
    "shifts-instead-of-writing-in-place",
    breaks="RING-2",
    profile="layout",
    trace="ring window=3 ; window 3 ; decode x2",
)
class ShiftsInsteadOfWriting(RingFault):
    """A decode into a rotated ring shifts the columns and writes at the end."""

    def bent(self, ring: index.Ring, plan: AnyPlan, phase: Phase) -> AnyPlan:
        return shifted(ring, plan) if phase == "decode" and ring.rotated and ring.write_index < ring.window else plan


@fault("never-wraps", breaks="RING-3", profile="layout", trace="ring window=2 ; window 2 ; decode")
class NeverWraps(RingFault):
    """At the window the write index stays at the end, and the columns move instead."""

    def bent(self, ring: index.Ring, plan: AnyPlan, phase: Phase) -> AnyPlan:
        wraps = ring.write_index == ring.window == ring.columns
        return shifted(ring, plan) if phase == "decode" and wraps else plan


@fault("keeps-a-whole-window", breaks="RING-4", profile="layout", trace="ring window=2 ; window 2 x2", report="B03")
class KeepsAWholeWindow(RingFault):
    """A window keeps W old columns in storage, one more than its queries need."""

    def bent(self, ring: index.Ring, plan: AnyPlan, phase: Phase) -> AnyPlan:
        if phase == "decode" or index.active(ring) < ring.window:
            return plan
        order = index.temporal_columns(ring)
        kept = (*order[: ring.sinks], *order[len(order) - (ring.window - ring.sinks) :])
        after = evolve(plan.after, columns=plan.after.columns + 1, write_index=plan.after.write_index + 1)
        fetch = tuple(c for c in range(after.columns) if c != ring.sinks)
        return evolve(plan, keep=kept, write_at=ring.window, fetch=fetch, after=after)


@fault("cuts-the-first-window", breaks="RING-5", profile="layout", trace="ring window=2 ; window 3")
class CutsTheFirstWindow(WrongCache):
    """The first window into an empty ring is stored cut to W columns, although it is read whole."""

    def act(self, asked: Asked) -> Read:
        first, read = not self.offset, super().act(asked)
        if first and asked.phase == "window" and self.ring is not None and self.planes is not None:
            over, s, end = index.overshoot(self.ring), self.ring.sinks, self.ring.columns
            self.planes = self.planes.kept((*range(s), *range(s + over, end)))
            self.state = evolve(self.ring, columns=end - over, write_index=end - over)
        return read


@fault("drops-the-overshoot-in-order", breaks="RING-6", profile="layout", trace="ring window=2 ; window 3 ; decode")
class DropsTheOvershootInOrder(RingFault):
    """The decode after an oversized window lays the ring out in temporal order instead of wrapping."""

    def bent(self, ring: index.Ring, plan: AnyPlan, phase: Phase) -> AnyPlan:
        return shifted(ring, plan) if phase == "decode" and index.overshoot(ring) else plan


@fault("grows-column-by-column", breaks="RING-7", profile="layout", trace="ring window=4 ; decode")
class GrowsColumnByColumn(RingFault):
    """A decode grows the ring by one column at a time."""

    def bent(self, ring: index.Ring, plan: AnyPlan, phase: Phase) -> AnyPlan:
        del phase
        return evolve(plan, add=1, after=evolve(plan.after, columns=ring.columns + 1)) if plan.add else plan


@fault(
    "grows-by-the-offset",
    breaks="RING-1",
    trace="ring window=2 ; window 2 ; window 1 ; trim 1 bypass ; decode",
)
class GrowsByTheOffset(RingFault):
    """Growth looks at the offset, so a ring that a bypass left one column short does not grow again."""

    def bent(self, ring: index.Ring, plan: AnyPlan, phase: Phase) -> AnyPlan:
        short = phase == "decode" and plan.add > 0 and ring.offset >= ring.window and ring.columns > 0
        return shifted_short(ring, plan) if short else plan


def shifted_short(ring: index.Ring, plan: AnyPlan) -> AnyPlan:
    """Plan a decode that overwrites the oldest column of a ring below its window."""
    after = evolve(plan.after, columns=ring.columns, write_index=ring.sinks + 1)
    return evolve(plan, add=0, write_at=ring.sinks, fetch=tuple(range(ring.columns)), after=after)


@fault("keeps-what-it-evicts", breaks="RING-8", trace="ring window=1 ; window 520 unread x2", report="B25")
class KeepsWhatItEvicts(WrongCache):
    """A ring hides what it evicts and holds on to the bytes."""

    evicted = 0

    def act(self, asked: Asked) -> Read:
        held, read = super().nbytes, super().act(asked)
        self.evicted += max(0, held + asked.keys.nbytes + asked.values.nbytes - super().nbytes)
        return read

    @property
    def nbytes(self) -> int:
        return super().nbytes + (self.evicted if self.layer.kind == "ring" else 0)


@fault("reports-w-columns", breaks="RING-9", profile="layout", trace="ring window=2 ; window 3")
class ReportsWColumns(Cache):
    """A ring never reports more than W columns, also while it holds the overshoot of a window."""

    @property
    def columns(self) -> int:
        return min(self.state.columns, self.layer.window or self.state.columns)


@fault("keeps-one-at-least", breaks="RING-10", trace="ring window=1 ; decode ; window 1", report="B04")
class KeepsOneAtLeast(RingFault):
    """A window keeps at least one old position, also where W - 1 is none."""

    def bent(self, ring: index.Ring, plan: AnyPlan, phase: Phase) -> AnyPlan:
        if phase == "decode" or ring.window > 1 or not index.active(ring):
            return plan
        newest = index.temporal_columns(ring)[-1]
        after = evolve(plan.after, columns=plan.length + 1, write_index=plan.length + 1)
        return evolve(plan, keep=(newest,), write_at=1, fetch=tuple(range(plan.length + 1)), after=after)


@fault("long-first-window-is-causal", breaks="RING-11", trace="ring window=2 ; window 3")
class LongFirstWindowIsCausal(Cache):
    """A window into an empty ring is plain causal, also when it is longer than W."""

    def mask(self, length: int, phase: Phase, window: int | None = None, array: bool = False) -> MaskValue:
        mask = super().mask(length, phase, window, array)
        return "causal" if phase == "window" and not self.offset and window is None and not array else mask


@fault("wraps-onto-its-sinks", breaks="RING-12", trace="ring window=2 sinks=1 ; window 2 ; decode", report="B22")
class WrapsOntoItsSinks(RingFault):
    """The write index wraps to column 0, over the pinned positions."""

    def bent(self, ring: index.Ring, plan: AnyPlan, phase: Phase) -> AnyPlan:
        wraps = phase == "decode" and ring.write_index >= ring.window
        return evolve(plan, write_at=0, after=evolve(plan.after, write_index=1)) if wraps else plan


@fault("pins-in-reverse", breaks="RING-13", profile="layout", trace="ring window=4 sinks=2 ; window 3")
class PinsInReverse(WrongCache):
    """The first window lays its pinned positions down newest first."""

    def act(self, asked: Asked) -> Read:
        first, read = not self.offset, super().act(asked)
        pinned = min(self.layer.sinks, asked.length)
        if first and asked.phase == "window" and self.planes is not None:
            self.planes = self.planes.kept((*reversed(range(pinned)), *range(pinned, self.state.columns)))
        return read


@fault("pins-the-whole-window", breaks="RING-14", trace="ring window=2 sinks=2 ; window 2 ; decode")
class PinsTheWholeWindow(Cache):
    """A ring takes as many sinks as its window has positions, and then no query sees itself."""

    def __init__(self, layer: LayerSpec) -> None:
        self.layer = layer
        self.reset()


@fault(
    "lays-out-the-stale-tail", breaks="RING-15", profile="layout", trace="ring window=4 ; window 3 ; trim 1 ; window 2"
)
class LaysOutTheStaleTail(WrongCache):
    """A window after a trim carries the stale columns along, behind its own."""

    def act(self, asked: Asked) -> Read:
        stale = self._stale() if asked.phase == "window" else None
        read = super().act(asked)
        if stale is not None and self.planes is not None:
            self.planes = self.planes.written(self.state.columns, stale)
            self.state = evolve(self.state, columns=self.state.columns + stale.keys.shape[2])
        return read

    def _stale(self) -> Planes | None:
        tail = tuple(range(self.write_index, self.columns))
        if self.planes is None or self.ring is None or self.ring.rotated or not tail:
            return None
        return self.planes.kept(tail)


@fault("wraps-one-column-early", breaks="RING-1", trace="ring window=3 ; decode x3")
class WrapsOneColumnEarly(RingFault):
    """A ring that grew by decodes wraps when its last column is still free."""

    def bent(self, ring: index.Ring, plan: AnyPlan, phase: Phase) -> AnyPlan:
        early = phase == "decode" and ring.write_index == ring.window - 1 > ring.sinks and not ring.rotated
        if not early or plan.add:
            return plan
        return evolve(plan, write_at=ring.sinks, fetch=tuple(range(ring.window - 1)))


@fault("rotates-row-0-only", breaks="VIS-5", trace="ring window=2 batch=2 ; window 2 ; decode")
class RotatesRow0Only(WrongCache):
    """Past the wrap a decode writes the first row only."""

    def act(self, asked: Asked) -> Read:
        held, read = self.planes, super().act(asked)
        rotated = self.ring is not None and self.ring.rotated and asked.phase == "decode"
        if not rotated or held is None or self.planes is None or held.keys.shape[2] != self.columns:
            return read
        keys, values = self.planes.keys, self.planes.values
        keys, values = (np.concatenate([keys[:1], held.keys[1:]]), np.concatenate([values[:1], held.values[1:]]))
        self.planes = Planes(keys, values)
        return evolve(read, keys=keys, values=values)


@fault("drops-its-sinks-with-the-overshoot", breaks="RING-12", trace="ring window=2 sinks=1 ; window 3 ; decode")
class DropsItsSinks(RingFault):
    """The decode after an oversized window drops the overshoot from column 0 on, the pinned positions first."""

    def bent(self, ring: index.Ring, plan: AnyPlan, phase: Phase) -> AnyPlan:
        over = index.overshoot(ring)
        return evolve(plan, keep=tuple(range(over, ring.columns))) if phase == "decode" and over else plan
