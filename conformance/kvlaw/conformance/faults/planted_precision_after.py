"""Faults of what a cache says of its boundary: the floor, what takes it back, how far it is (PREC-5, -6, -10, -11)."""

from kvlaw.conformance.faults.parts import Asked, WrongCache
from kvlaw.conformance.faults.planted_precision import BoundaryFault
from kvlaw.conformance.faults.registry import fault
from kvlaw.reference.layout import Cache, Read
from kvlaw.spec.config import Storage
from kvlaw.spec.observations import Unbounded

# The floor.


@fault("floor-is-the-start", breaks="PREC-5", trace="full bits=4 start=2 ; window 3", report="B60")
class FloorIsTheStart(BoundaryFault):
    """The reuse floor is the start, also when the converting append went past it."""

    def floor_at(self, offset: int) -> int:
        return self.start


@fault("floor-of-start-0", breaks="PREC-5", trace="full bits=4 start=0 ; window 3")
class FloorOfStart0(BoundaryFault):
    """A start of 0 leaves a floor at the end of the first append."""

    def floor_at(self, offset: int) -> int:
        return offset


@fault("floor-from-the-start-on", breaks="PREC-5", trace="full bits=4 start=2")
class FloorFromTheStartOn(Cache):
    """A cache reports its start as reuse floor before it has converted."""

    def reset(self) -> None:
        super().reset()
        self.floor = self.layer.start if isinstance(self.layer.start, int) else 0


@fault("floor-moves-on", breaks="PREC-5", trace="full bits=4 start=2 ; window 2 ; decode")
class FloorMovesOn(BoundaryFault):
    """The floor of a converted cache follows its offset."""

    def act(self, asked: Asked) -> Read:
        read = super().act(asked)
        self.floor = self.offset if self.floor else 0
        return read


# What takes it back.


@fault("trims-back-to-dense", breaks="PREC-6", trace="full bits=4 start=2 ; window 2 ; trim 1")
class TrimsBackToDense(BoundaryFault):
    """A trim below the start makes the cache dense again, by what the codes stand for."""

    def trim(self, count: int, bypass: bool = False) -> int:
        answer = super().trim(count, bypass)
        if self.offset < self.start < 1 << 30:
            self.restore()
        return answer


@fault("trims-lower-the-floor", breaks="PREC-6", trace="full bits=4 start=2 ; window 2 ; trim 1")
class TrimsLowerTheFloor(Cache):
    """A trim takes the floor down to the offset."""

    def trim(self, count: int, bypass: bool = False) -> int:
        answer = super().trim(count, bypass)
        self.floor = min(self.floor, self.offset)
        return answer


@fault("reset-keeps-the-floor", breaks="PREC-6", trace="full bits=4 start=2 ; window 2 ; reset")
class ResetKeepsTheFloor(Cache):
    """A reset lets go of the codes and keeps the reuse floor."""

    def reset(self) -> None:
        floor = getattr(self, "floor", 0)
        super().reset()
        self.floor = floor


@fault("reset-keeps-the-codec", breaks="PREC-6", trace="ring window=2 bits=4 start=2 ; window 2 ; reset")
class ResetKeepsTheCodec(Cache):
    """A cache that was converted once stays one of codes, over a reset too."""

    def reset(self) -> None:
        codec = getattr(self, "codec", None)
        super().reset()
        self.codec = codec


# How many positions until then.


@fault("max-append-stops-one-short", breaks="PREC-10", trace="full bits=4 start=2", report="B60")
class MaxAppendStopsOneShort(Cache):
    """The number of positions that can be appended stops one before the start."""

    @property
    def max_append(self) -> int | Unbounded:
        most = super().max_append
        return most if most == "unbounded" else most - 1


@fault("max-append-counts-to-the-window", breaks="PREC-10", trace="ring window=2 bits=4 start=3")
class MaxAppendCountsToTheWindow(Cache):
    """A ring counts the positions until its window is full, where the start lies behind that."""

    @property
    def max_append(self) -> int | Unbounded:
        most, window = super().max_append, self.layer.window
        return most if most == "unbounded" or window is None else max(0, min(most, window - self.offset))


@fault("never-is-a-number", breaks="PREC-10", trace="full bits=4 start=never")
class NeverIsANumber(Cache):
    """Start never is the largest integer, and the positions until then are counted."""

    @property
    def max_append(self) -> int | Unbounded:
        return (1 << 31) - self.offset if self.layer.start == "never" else super().max_append


@fault("max-append-is-always-bounded", breaks="PREC-10", trace="full bits=4 start=2 ; window 2 ; trim 1")
class MaxAppendIsAlwaysBounded(Cache):
    """A converted cache that was trimmed below its start counts the positions until it again."""

    @property
    def max_append(self) -> int | Unbounded:
        start = self.layer.start
        return start - self.offset if isinstance(start, int) and self.offset < start else super().max_append


# Codes from the first append on.


@fault("first-read-is-dense", breaks="PREC-11", trace="full bits=4 ; decode", report="B66")
class FirstReadIsDense(WrongCache):
    """A cache of codes reads its first append as it came."""

    def act(self, asked: Asked) -> Read:
        first, read = self.planes is None, super().act(asked)
        if not first or self.layer.start is not None:
            return read
        return Read(asked.keys, asked.values, read.mask, read.length, read.dtype)


@fault("empty-caches-are-dense", breaks="PREC-11", trace="full bits=4")
class EmptyCachesAreDense(Cache):
    """A cache of codes says that it is dense as long as it is empty."""

    @property
    def storage(self) -> Storage:
        return "dense" if self.planes is None else super().storage
