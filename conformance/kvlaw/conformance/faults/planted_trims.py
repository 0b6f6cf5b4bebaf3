"""Faults of trims: counts that go down while positions stay, and the reverse (TRIM)."""

import numpy as np
from attrs import evolve

from kvlaw.conformance.faults.parts import Asked, WrongCache
from kvlaw.conformance.faults.planted_ring import AnyPlan
from kvlaw.conformance.faults.registry import fault
from kvlaw.reference import index
from kvlaw.reference.layout import Cache, Planes, Read, Refusal
from kvlaw.spec.calls import Phase


@fault("clears-one-column-too-many", breaks="TRIM-1", trace="full ; window 3 ; trim 1 ; decode")
class ClearsOneTooMany(Cache):
    """A trim of a growing cache clears the dropped columns and the one before them."""

    def trim(self, count: int, bypass: bool = False) -> int:
        dropped = super().trim(count, bypass)
        if self.layer.kind == "full" and count and self.planes is not None:
            self.planes = self.planes.each(np.copy)
            self.planes.keys[:, :, max(0, self.offset - 1) :] = 0
            self.planes.values[:, :, max(0, self.offset - 1) :] = 0
        return dropped


@fault("steps-back-one-too-far", breaks="TRIM-2", trace="ring window=4 ; window 3 ; trim 1 ; decode")
class StepsBackOneTooFar(Cache):
    """A trim of a ring moves the write index back by one column more than it drops."""

    def trim(self, count: int, bypass: bool = False) -> int:
        dropped = super().trim(count, bypass)
        if isinstance(self.state, index.Ring) and count and not bypass:
            self.state = evolve(self.state, write_index=max(0, self.state.write_index - 1))
        return dropped


@fault("answers-what-was-asked", breaks="TRIM-3", trace="full ; window 2 ; trim 3", report="B28")
class AnswersWhatWasAsked(Cache):
    """A trim of more than is held drops all and answers what it was asked for."""

    def trim(self, count: int, bypass: bool = False) -> int:
        super().trim(min(count, self.offset), bypass)
        return count


@fault("trims-a-wrapped-ring", breaks="TRIM-4", trace="ring window=2 ; window 3 ; trim 1", report="B09")
class TrimsAWrappedRing(Cache):
    """A ring obeys a trim although it says that it cannot: the counters go down, the evicted stay gone."""

    def trim(self, count: int, bypass: bool = False) -> int:
        wrapped = isinstance(self.state, index.Ring) and not bypass and not self.can_trim(count)
        if not wrapped or not 0 < count <= self.offset or not isinstance(self.state, index.Ring):
            return super().trim(count, bypass)
        self.state = evolve(self.state, write_index=self.state.write_index - count, offset=self.offset - count)
        return count


@fault("will-not-drop-all", breaks="TRIM-5", trace="full ; window 2 ; trim 2")
class WillNotDropAll(Cache):
    """A cache says that it can drop all it holds, and then refuses."""

    def trim(self, count: int, bypass: bool = False) -> int:
        if 0 < count == self.offset:
            raise Refusal("a cache cannot be trimmed to nothing")
        return super().trim(count, bypass)


@fault("trims-at-the-window", breaks="TRIM-6", profile="layout", trace="ring window=2 ; window 2")
class TrimsAtTheWindow(Cache):
    """A ring that holds exactly W positions says that it can be trimmed."""

    def can_trim(self, count: int) -> bool:
        full = isinstance(self.state, index.Ring) and self.offset == self.state.window
        return 0 <= count <= self.offset if full else super().can_trim(count)


@fault("clamps-a-trim", breaks="TRIM-7", profile="layout", trace="full ; decode ; trim 2")
class ClampsATrim(Cache):
    """A trim of more than is held drops all and answers how many that were."""

    def trim(self, count: int, bypass: bool = False) -> int:
        return super().trim(min(count, self.offset) if type(count) is int and count > 0 else count, bypass)


@fault(
    "appends-behind-the-dropped", breaks="TRIM-8", trace="ring window=4 ; window 3 ; trim 1 ; window 1", report="B10"
)
class AppendsBehindTheDropped(Cache):
    """A window after a trim is appended to the columns of the buffer, the dropped ones among them."""

    def plan(self, phase: Phase, length: int) -> AnyPlan:
        plan, ring = super().plan(phase, length), self.state
        if phase == "decode" or not isinstance(ring, index.Ring) or ring.rotated or ring.columns >= ring.window:
            return plan
        after = evolve(plan.after, columns=ring.columns + length, write_index=ring.columns + length)
        return evolve(plan, keep=None, write_at=ring.columns, fetch=tuple(range(after.columns)), after=after)


@fault("a-negative-trim-appends", breaks="TRIM-9", trace="full ; window 2 ; trim -1", report="B70")
class ANegativeTrimAppends(Cache):
    """A trim of a negative count raises the offset over columns that were never written."""

    def trim(self, count: int, bypass: bool = False) -> int:
        if type(count) is int and count < 0 and isinstance(self.state, index.Full):
            self.state = index.Full(max(self.columns, self.offset - count), self.offset - count)
            return count
        return super().trim(count, bypass)


@fault("zero-means-all", breaks="TRIM-10", trace="full ; window 2 ; trim 0")
class ZeroMeansAll(Cache):
    """A trim of 0 drops everything, since 0 is taken for no count at all."""

    def trim(self, count: int, bypass: bool = False) -> int:
        super().trim(count or self.offset, bypass)
        return count


@fault("bypass-cuts-the-front", breaks="TRIM-11", profile="layout", trace="ring window=2 ; window 3 ; trim 1 bypass")
class BypassCutsTheFront(Cache):
    """A bypass trim cuts the oldest columns instead of the newest."""

    def _cut(self, count: int, ring: index.Ring) -> None:
        held = self.planes
        super()._cut(count, ring)
        self.planes = held and held.kept(tuple(range(count, ring.columns)))


@fault("bypass-after-a-decode", breaks="TRIM-12", profile="layout", trace="ring window=4 ; decode ; trim 1 bypass")
class BypassAfterADecode(Cache):
    """A bypass trim also cuts a column that a decode wrote."""

    def _cut(self, count: int, ring: index.Ring) -> None:
        if ring.block or ring.rotated or not 0 < count <= ring.write_index:
            super()._cut(count, ring)
            return
        end = ring.write_index - count
        self.state = evolve(ring, columns=end, write_index=end, offset=ring.offset - count)
        self.planes = self.planes and self.planes.kept(tuple(range(end)))


@fault(
    "bypass-does-not-count-down",
    breaks="TRIM-12",
    profile="layout",
    trace="ring window=3 ; window 2 ; window 1 ; trim 1 bypass x2",
)
class BypassDoesNotCountDown(Cache):
    """A second bypass trim may cut as much as the first, into the history before the window."""

    def _cut(self, count: int, ring: index.Ring) -> None:
        super()._cut(count, ring)
        self.state = evolve(self.state, block=ring.block)


@fault(
    "bypass-only-once",
    breaks="TRIM-11",
    profile="layout",
    trace="ring window=2 ; window 2 ; trim 1 bypass x2",
)
class BypassOnlyOnce(Cache):
    """Only one bypass trim may follow a window, also when it cut less than the window."""

    def _cut(self, count: int, ring: index.Ring) -> None:
        super()._cut(count, ring)
        self.state = evolve(self.state, block=0)


@fault("trimmed-tokens-come-back", breaks="TRIM-8", trace="full ; window 2 ; trim 1 ; decode", report="B79")
class TrimmedTokensComeBack(Cache):
    """A trim lowers the offset of a growing cache, and the next fetch takes all columns ever written."""

    written = 0

    def plan(self, phase: Phase, length: int) -> AnyPlan:
        plan = super().plan(phase, length)
        if not isinstance(self.state, index.Full):
            return plan
        behind = max(self.written, self.offset)
        self.written = behind + length
        columns = max(plan.after.columns, behind + length)
        fetch, after = tuple(range(behind + length)), evolve(plan.after, columns=columns)
        add = max(0, columns - (0 if self.planes is None else self.planes.keys.shape[2]))
        return evolve(plan, add=add, keep=None, write_at=behind, fetch=fetch, after=after)


@fault("forgets-the-values-tail", breaks="VIS-6", trace="full ; window 2 ; trim 1 ; decode", report="B73")
class ForgetsTheValuesTail(WrongCache):
    """After a trim the keys are written over the dropped columns, the values behind them."""

    kept_values: Planes | None = None

    def trim(self, count: int, bypass: bool = False) -> int:
        self.kept_values = self.planes if count else None
        return super().trim(count, bypass)

    def act(self, asked: Asked) -> Read:
        stale, start = self.kept_values, self.write_index
        self.kept_values = None
        read = super().act(asked)
        if stale is None or self.planes is None or stale.values.shape[2] <= start:
            return read
        values = self.planes.values.copy()
        values[:, :, start] = stale.values[:, :, start]
        self.planes = Planes(self.planes.keys, values)
        return evolve(read, values=values[:, :, : read.keys.shape[2]])


@fault(
    "shows-what-it-trimmed-to-nothing",
    breaks="TRIM-8",
    trace="ring window=3 ; window 2 ; trim 2 ; decode",
    report="B18",
)
class KeepsActiveAfterTrimToZero(Cache):
    """A ring trimmed to nothing keeps showing as many columns as it had."""

    shown = 0

    def trim(self, count: int, bypass: bool = False) -> int:
        self.shown = self.write_index if count == self.offset else 0
        return super().trim(count, bypass)

    def plan(self, phase: Phase, length: int) -> AnyPlan:
        plan = super().plan(phase, length)
        shown, self.shown = self.shown, 0
        return evolve(plan, fetch=tuple(range(max(len(plan.fetch), shown)))) if phase == "decode" else plan


@fault("trims-down-to-its-sinks", breaks="TRIM-8", trace="ring window=3 sinks=2 ; window 2 ; trim 1 ; decode")
class TrimsDownToItsSinks(Cache):
    """A trim never moves the write index of a ring below its sinks, also where these are the newest positions."""

    def trim(self, count: int, bypass: bool = False) -> int:
        pinned = min(self.layer.sinks, self.write_index)
        dropped = super().trim(count, bypass)
        if isinstance(self.state, index.Ring) and not bypass:
            self.state = evolve(self.state, write_index=max(pinned, self.state.write_index))
        return dropped
