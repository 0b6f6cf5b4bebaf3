"""Faults that break laws which no other planted fault breaks (``kvlaw spec check`` asks for one per law)."""

from typing import Any

import numpy as np
from attrs import evolve

from kvlaw.conformance.faults.parts import Asked, WrongCache
from kvlaw.conformance.faults.registry import fault
from kvlaw.reference import index
from kvlaw.reference.layout import Cache, MaskValue, Planes, Read, Refusal
from kvlaw.spec.calls import Phase


@fault("rounds-what-it-stores", breaks="GROW-4", trace="full dtype=f32 stamp=random ; decode")
class RoundsWhatItStores(WrongCache):
    """Float32 keys and values are kept with the 7 mantissa bits of bfloat16."""

    def act(self, asked: Asked) -> Read:
        read = super().act(asked)
        if asked.dtype != "f32" or self.planes is None:
            return read
        self.planes = Planes(self.planes.keys & np.uint32(0xFFFF0000), self.planes.values & np.uint32(0xFFFF0000))
        return evolve(read, keys=read.keys & np.uint32(0xFFFF0000), values=read.values & np.uint32(0xFFFF0000))


@fault("mask-after-the-append", breaks="MASK-12", trace="ring window=2 ; mask 2 ; window 2")
class MaskAfterTheAppend(WrongCache):
    """A mask that is asked for by itself describes the ring as it is once the append has happened."""

    _appending = False

    def act(self, asked: Asked) -> Read:
        self._appending = True
        try:
            return super().act(asked)
        finally:
            self._appending = False

    def mask(self, length: int, phase: Phase, window: int | None = None, array: bool = False) -> MaskValue:
        if self._appending or self.ring is None or length < 1:
            return super().mask(length, phase, window, array)
        before = self.state
        self.state = self.plan(phase, length).after
        try:
            return super().mask(length, phase, window, array)
        finally:
            self.state = before


@fault("drops-before-it-refuses", breaks="TRIM-3", trace="full ; decode ; trim 2")
class DropsBeforeItRefuses(Cache):
    """A trim beyond the limit drops all that there is, and refuses then."""

    def trim(self, count: int, bypass: bool = False) -> int:
        able = not bypass and type(count) is int and self.can_trim(self.offset)
        if able and count > self.offset:
            super().trim(self.offset)
            raise Refusal(f"{count} positions were asked for, there were fewer")
        return super().trim(count, bypass)


@fault("reset-keeps-the-offset", breaks="OWN-7", trace="full ; decode ; reset")
class ResetKeepsTheOffset(Cache):
    """A reset of a growing cache lets go of the planes and goes on counting."""

    def reset(self) -> None:
        before: Any = getattr(self, "state", None)
        super().reset()
        if isinstance(before, index.Full):
            self.state = before


@fault("masks-of-nothing", breaks="ERR-4", profile="layout", trace="full ; mask 0")
class MasksOfNothing(Cache):
    """A mask of no positions is made like any other."""

    def mask(self, length: int, phase: Phase, window: int | None = None, array: bool = False) -> MaskValue:
        return None if length == 0 else super().mask(length, phase, window, array)
