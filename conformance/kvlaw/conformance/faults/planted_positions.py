"""Faults of identity, counting and growth (ID, POS, GROW)."""

from typing import Any

import numpy as np
from attrs import evolve

from kvlaw.conformance.faults.parts import Asked, WrongCache
from kvlaw.conformance.faults.registry import fault
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.reference import index
from kvlaw.reference.layout import Cache, Planes, Read
from kvlaw.spec.calls import AppendName, Phase
from kvlaw.spec.observations import StateView

# Identity.


@fault("names-the-class", breaks="ID-1", profile="layout", trace="ring window=4")
class NamesTheClass(ReferenceAdapter):
    """A ring is called by its class and window alone, in a form of its own."""

    def show(self, cache: Any) -> StateView:
        view = super().show(cache)
        return view if cache.layer.window is None else evolve(view, identity=f"RingCache({cache.layer.window})")


@fault("says-that-it-rotated", breaks="ID-2", profile="layout", trace="ring window=2 ; window 2 ; decode")
class SaysThatItRotated(ReferenceAdapter):
    """The identity of a ring changes when the write index wraps."""

    def show(self, cache: Any) -> StateView:
        view = super().show(cache)
        return evolve(view, identity=f"{view.identity}+rotated") if getattr(cache.state, "rotated", False) else view


@fault("hides-its-sinks", breaks="ID-3", profile="layout", trace="ring window=4 sinks=2")
class HidesItsSinks(ReferenceAdapter):
    """Rings with different sinks carry one identity."""

    def show(self, cache: Any) -> StateView:
        return evolve(super().show(cache), identity=evolve(cache.layer, sinks=0).identity)


@fault("tells-the-dtype-as-storage", breaks="ID-4", profile="layout", trace="full ; decode")
class TellsTheDType(ReferenceAdapter):
    """The storage is told as the dtype of the planes once there are some."""

    def show(self, cache: Any) -> StateView:
        view = super().show(cache)
        return evolve(view, storage=cache.dtype) if cache.planes else view


# Positions.


@fault("counts-its-sinks-as-held", breaks="POS-1", trace="ring window=4 sinks=2")
class CountsItsSinks(Cache):
    """A new ring stands at the offset of its sinks, as if they were held already."""

    def reset(self) -> None:
        super().reset()
        self.state = evolve(self.state, offset=self.layer.sinks)


@fault("counts-when-read", breaks="POS-2", trace="full ; window 3 unread")
class CountsWhenRead(ReferenceAdapter):
    """The offset moves on when a read is first attended, not before its append returns."""

    def append(self, cache: Any, keys: Any, values: Any, phase: AppendName, window: int | None, array: bool) -> Any:
        read = super().append(cache, keys, values, phase, window, array)
        cache.behind = (read, read.length)
        return read

    def attend(self, read: Read, queries: Any, scale: float) -> Any:
        self.asked = read
        return super().attend(read, queries, scale)

    def show(self, cache: Any) -> StateView:
        view, (read, length) = super().show(cache), getattr(cache, "behind", (None, 0))
        late = read is not None and read is not getattr(self, "asked", None)
        return evolve(view, offset=cache.offset - length) if late else view


@fault("stops-counting-at-the-window", breaks="POS-3", trace="ring window=2 ; window 2 ; decode")
class StopsCounting(Cache):
    """A decode into a ring that holds its window no longer counts."""

    def plan(self, phase: Phase, length: int) -> index.Plan[Any]:
        plan = super().plan(phase, length)
        full = isinstance(self.state, index.Ring) and self.offset >= self.state.window
        return evolve(plan, after=evolve(plan.after, offset=self.offset)) if full and phase == "decode" else plan


@fault("turns-back-the-index-alone", breaks="POS-4", trace="ring window=4 ; window 3 ; trim 1", report="B79")
class TurnsBackTheIndexAlone(Cache):
    """A trim moves the write index of a ring back and leaves the offset where it was."""

    def trim(self, count: int, bypass: bool = False) -> int:
        offset, dropped = self.offset, super().trim(count, bypass)
        self.state = evolve(self.state, offset=offset) if isinstance(self.state, index.Ring) else self.state
        return dropped


@fault("hands-out-a-clamped-offset", breaks="POS-5", trace="ring window=2 ; window 3 ; state as s")
class HandsOutAClampedOffset(Cache):
    """Handing out the state writes the size over the offset."""

    def take_state(self) -> Any:
        self.state = evolve(self.state, offset=self.size)
        return super().take_state()


@fault("counts-the-overshoot", breaks="POS-6", profile="layout", trace="ring window=2 ; window 3")
class CountsTheOvershoot(Cache):
    """The size of a ring counts all of its columns, those of a window's overshoot too."""

    @property
    def size(self) -> int:
        return self.write_index if self.offset >= (self.layer.window or 0) else self.offset


# Growth.


@fault("forgets-the-first-at-growth", breaks="GROW-1", trace="full ; window 256 ; decode")
class ForgetsTheFirst(Cache):
    """A growing cache beyond its first allocation no longer shows position 0."""

    def plan(self, phase: Phase, length: int) -> index.Plan[Any]:
        plan = super().plan(phase, length)
        grown = self.layer.kind == "full" and plan.after.columns > index.STEP and self.offset > 0
        return evolve(plan, fetch=plan.fetch[1:]) if grown else plan


@fault("grows-one-head-short", breaks="GROW-2", trace="ring window=4 ; window 2 ; decode")
class GrowsOneHeadShort(WrongCache):
    """Growth of the allocation loses the newest value of the last head."""

    def act(self, asked: Asked) -> Read:
        if self.planes is not None and self.offset and self.plan(asked.phase, asked.length).add:
            lost = self.planes.values.copy()
            lost[:, -1, self.write_index - 1] = 0
            self.planes = Planes(self.planes.keys, lost)
        return super().act(asked)


@fault("doubles-its-allocation", breaks="GROW-3", profile="layout", trace="full ; window 512 unread ; decode")
class DoublesItsAllocation(Cache):
    """A growing cache doubles its allocation instead of adding to it."""

    def plan(self, phase: Phase, length: int) -> index.Plan[Any]:
        plan = super().plan(phase, length)
        if not plan.add or not self.columns or self.layer.kind != "full":
            return plan
        more = max(0, 2 * self.columns - plan.after.columns)
        wider = evolve(plan, add=plan.add + more, after=evolve(plan.after, columns=plan.after.columns + more))
        return wider if plan.keep is None else evolve(wider, keep=(*plan.keep, *range(-more, 0)))


@fault("stores-values-as-wide-as-keys", breaks="GROW-4", trace="full Dv=96 ; decode", report="B57")
class StoresValuesAsWideAsKeys(WrongCache):
    """The planes of the values take their head dim from the keys."""

    def act(self, asked: Asked) -> Read:
        return super().act(evolve(asked, values=asked.values[..., : asked.keys.shape[-1]]))


@fault("counts-keys-twice", breaks="GROW-5", profile="layout", trace="full Dv=96 ; decode")
class CountsKeysTwice(Cache):
    """Bytes per token are twice those of a key, whatever the values' head dim."""

    @property
    def bytes_per_token(self) -> int:
        return 0 if self.planes is None else 2 * self.planes.keys[0, :, 0].nbytes

    @property
    def nbytes(self) -> int:
        return 0 if self.planes is None else self.planes.keys.nbytes + self.planes.values.nbytes


@fault("counts-one-row", breaks="GROW-6", trace="ring window=4 batch=2 ; window 4", report="B66")
class CountsOneRow(Cache):
    """The bytes are those of one row, whatever the batch."""

    @property
    def nbytes(self) -> int:
        return 0 if self.planes is None else super().nbytes // len(self.planes.keys)


@fault("counts-live-bytes", breaks="GROW-7", profile="layout", trace="full ; decode")
class CountsLiveBytes(Cache):
    """The bytes are those of the positions held, not those of the columns allocated."""

    @property
    def nbytes(self) -> int:
        return 0 if self.planes is None else self.bytes_per_token * self.size * len(self.planes.keys)


@fault("keeps-by-style", breaks="GROW-8", trace="ring window=3 ; window 3 ; decode ; window 1", report="B03")
class KeepsByStyle(Cache):
    """A window finds one position less in a ring that decodes have rotated than in one that a window filled."""

    def plan(self, phase: Phase, length: int) -> index.Plan[Any]:
        plan = super().plan(phase, length)
        rotated = isinstance(self.state, index.Ring) and self.state.rotated and phase == "window"
        return evolve(plan, fetch=plan.fetch[1:]) if rotated else plan


@fault("grows-into-a-fresh-value-plane", breaks="GROW-2", trace="full batch=2 ; window 256 ; decode")
class GrowsIntoAFreshPlane(WrongCache):
    """Growth copies the values of the first row only."""

    def act(self, asked: Asked) -> Read:
        if self.planes is not None and self.plan(asked.phase, asked.length).add:
            lost = np.zeros_like(self.planes.values)
            lost[0] = self.planes.values[0]
            self.planes = Planes(self.planes.keys, lost)
        return super().act(asked)
