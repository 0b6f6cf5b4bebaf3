"""Faults of ownership: buffers shared with callers, clones and handed-out arrays (OWN)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import evolve

from kvlaw.conformance.faults.parts import Asked, WrongCache
from kvlaw.conformance.faults.registry import fault
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.reference import index
from kvlaw.reference.layout import Cache, Planes, Read
from kvlaw.spec.calls import Phase
from kvlaw.spec.observations import Bits


class InPlace(WrongCache):
    """A cache that writes into its buffer where nothing has to move; alone that harms nobody."""

    def act(self, asked: Asked) -> Read:
        held, at = self.planes, None
        if held is not None and asked.well_formed:
            plan = self.plan(asked.phase, asked.length)
            at = plan.write_at if plan.keep is None and not plan.add else None
        read = super().act(asked)
        if held is None or at is None or self.planes is None or at + read.length > held.keys.shape[2]:
            return read
        held.keys[:, :, at : at + read.length] = asked.keys
        held.values[:, :, at : at + read.length] = asked.values
        self.planes = held
        return read


@fault("read-is-a-view", breaks="OWN-1", trace="ring window=2 ; window 2 as r ; decode ; attend r", report="B84")
class ReadIsAView(InPlace):
    """A read that fetches whole planes is a view of them, and the next decode writes into it."""

    def act(self, asked: Asked) -> Read:
        read = super().act(asked)
        whole = self.planes is not None and read.keys.shape == self.planes.keys.shape
        return evolve(read, keys=self.planes.keys, values=self.planes.values) if whole and self.planes else read


@fault("clone-clamps-the-offset", breaks="OWN-2", trace="ring window=2 ; window 3 ; clone as c1", report="B13")
class CloneClampsTheOffset(Cache):
    """A clone of a ring takes the size for the offset."""

    def clone(self) -> Cache:
        twin = super().clone()
        twin.state = evolve(twin.state, offset=self.size)
        return twin


@fault(
    "clone-forgets-the-rotation", breaks="OWN-2", trace="ring window=3 ; window 3 ; decode ; clone as c1 ; decode on c1"
)
class CloneForgetsTheRotation(Cache):
    """A clone does not know that its source's write index has wrapped."""

    def clone(self) -> Cache:
        twin = super().clone()
        twin.state = evolve(twin.state, rotated=False) if isinstance(twin.state, index.Ring) else twin.state
        return twin


@fault(
    "trims-the-source-too", breaks="OWN-3", trace="full ; window 2 ; clone as c1 ; trim 1 on c1 ; look c0", report="B61"
)
class TrimsTheSourceToo(Cache):
    """A clone shares its counters with its source until one of them appends."""

    source: Cache | None = None

    def clone(self) -> Cache:
        twin = super().clone()
        if isinstance(twin, TrimsTheSourceToo):
            twin.source = self
        return twin

    def trim(self, count: int, bypass: bool = False) -> int:
        dropped = super().trim(count, bypass)
        if self.source is not None:
            self.source.state = self.state
        return dropped


@fault(
    "clone-shares-the-buffer",
    breaks="OWN-3",
    trace="ring window=2 ; window 2 ; clone as c1 ; decode on c1 x2 ; decode",
    report="B84",
)
class CloneSharesTheBuffer(InPlace):
    """A clone of a full ring shares its buffer, and both write in place."""

    def clone(self) -> Cache:
        twin = super().clone()
        twin.planes = self.planes
        return twin


@fault(
    "state-is-the-buffer", breaks="OWN-4", trace="ring window=2 ; window 2 ; state as s ; decode ; look s", report="B84"
)
class StateIsTheBuffer(InPlace):
    """The state hands out the buffer itself, and the next decode writes into it."""

    def take_state(self) -> Mapping[str, npt.NDArray[Any]]:
        if self.planes is None:
            return super().take_state()
        return {"keys": self.planes.keys, "values": self.planes.values, "offset": np.array(self.offset)}


@fault("offset-by-reference", breaks="OWN-4", trace="full ; decode ; state as s ; decode ; look s", report="B40")
class OffsetByReference(WrongCache):
    """The state hands out the offset as an array that every append moves on."""

    def take_state(self) -> Mapping[str, npt.NDArray[Any]]:
        self.counter = np.array(self.offset)
        return {**super().take_state(), "offset": self.counter}

    def act(self, asked: Asked) -> Read:
        read = super().act(asked)
        if hasattr(self, "counter"):
            self.counter[...] = self.offset
        return read


@fault("dense-is-a-view", breaks="OWN-5", trace="ring window=2 ; dense 2 as d ; decode ; look d", report="B84")
class DenseIsAView(InPlace):
    """A dense fetch of whole planes hands out the buffer itself."""

    def fetch_dense(self, keys: Bits, values: Bits, dtype: str) -> Planes:
        fetch = super().fetch_dense(keys, values, dtype)
        whole = self.planes is not None and fetch.keys.shape == self.planes.keys.shape
        return self.planes if whole and self.planes is not None else fetch


@fault("reuses-a-mask-buffer", breaks="OWN-6", trace="full ; mask 2 array as m ; mask 2 w=1 ; look m")
class ReusesAMaskBuffer(ReferenceAdapter):
    """Array masks of one shape are built in one buffer, which was handed out before."""

    def mask(self, cache: Any, length: int, phase: Phase, window: int | None, array: bool) -> Any:
        mask = super().mask(cache, length, phase, window, array)
        if not hasattr(mask, "shape"):
            return mask
        buffers: dict[Any, Any] = self.__dict__.setdefault("buffers", {})
        buffer = buffers.setdefault(mask.shape, mask)
        buffer[...] = mask
        return buffer


@fault("reset-keeps-the-rotation", breaks="OWN-7", trace="ring window=2 ; window 2 ; decode ; reset ; decode")
class ResetKeepsTheRotation(Cache):
    """A reset of a rotated ring lowers its counters, but the ring counts as rotated and shows all its columns."""

    def reset(self) -> None:
        held, state = getattr(self, "planes", None), getattr(self, "state", None)
        super().reset()
        if isinstance(state, index.Ring) and state.rotated:
            self.state, self.planes = evolve(state, offset=0, write_index=state.sinks), held
            self.dtype = "bf16"


@fault("keeps-the-callers-array", breaks="OWN-8", trace="ring window=2 poison ; window 2 ; decode", report="B84")
class KeepsTheCallersArray(WrongCache):
    """The first append into an empty ring keeps the caller's own arrays as planes."""

    def act(self, asked: Asked) -> Read:
        first, read = self.planes is None, super().act(asked)
        if first and self.planes is not None and self.planes.keys.shape == asked.keys.shape:
            self.planes = Planes(asked.keys, asked.values)
        return read


@fault("read-keeps-the-callers-array", breaks="OWN-8", trace="full poison ; window 2", report="B84")
class ReadKeepsTheCallersArray(WrongCache):
    """The read of the first append attends the caller's own arrays."""

    def act(self, asked: Asked) -> Read:
        first, read = self.planes is None, super().act(asked)
        borrows = first and read.keys.shape == asked.keys.shape
        return evolve(read, keys=asked.keys, values=asked.values) if borrows else read


@fault("reset-keeps-its-columns", breaks="OWN-9", profile="layout", trace="ring window=2 ; window 2 ; reset")
class ResetKeepsItsColumns(Cache):
    """A reset empties the ring but keeps its columns for later."""

    def reset(self) -> None:
        held = getattr(self, "planes", None)
        super().reset()
        if held is not None and isinstance(self.state, index.Ring):
            self.planes = held.each(np.zeros_like)
            self.state = evolve(self.state, columns=min(held.keys.shape[2], self.state.window))


@fault("writes-with-the-next-append", breaks="OWN-8", trace="full poison ; decode x2", report="B67")
class WritesWithTheNextAppend(WrongCache):
    """A decode is read at once, but its arrays are written only when the next append comes."""

    pending: Asked | None = None

    def act(self, asked: Asked) -> Read:
        late, self.pending = self.pending, None
        if late is not None and self.planes is not None:
            at = self.write_index - 1
            self.planes = self.planes.written(at, Planes(late.keys, late.values))
        read = super().act(asked)
        self.pending = asked if asked.phase == "decode" and self.ring is None else None
        return read
