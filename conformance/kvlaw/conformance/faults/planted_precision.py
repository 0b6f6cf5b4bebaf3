"""Faults of the boundary: when a cache converts, and what the read of that append attends (PREC-1 to PREC-4).

``BoundaryFault`` settles by rules of its own: ``due`` says when, ``floor_at`` what floor a conversion leaves.
"""

from typing import Any

from attrs import evolve

from kvlaw.conformance.faults.parts import Asked, WrongCache
from kvlaw.conformance.faults.registry import fault
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.reference.layout import Planes, Read
from kvlaw.spec.calls import AppendName
from kvlaw.spec.config import Storage
from kvlaw.spec.observations import Bits, StateView


class BoundaryFault(WrongCache):
    """A cache that is due, and sets its floor, by rules of its own; ``call`` is the append that it is in."""

    call: Asked

    def act(self, asked: Asked) -> Read:
        self.call = asked
        return super().act(asked)

    @property
    def start(self) -> int:
        """The start, of a cache that has a number."""
        return self.layer.start if isinstance(self.layer.start, int) else 1 << 30

    def due(self) -> bool:
        """Say whether the cache is to convert, after an append."""
        return self.due_at(self.offset)

    def floor_at(self, offset: int) -> int:
        """Give the floor that a conversion at ``offset`` leaves."""
        return offset if self.start > 0 else 0

    def settle(self) -> None:
        if self.codec is not None or self.planes is None or not self.due():
            return
        self.codec = self.make_codec(self.planes.keys, self.planes.values, self.dtype)
        self.planes = self.converted(self.planes)
        self.floor = self.floor_at(self.offset)

    def converted(self, planes: Planes) -> Planes:
        """Quantize all columns as they lie."""
        assert self.codec is not None
        return Planes(self.codec.encode("keys", planes.keys), self.codec.encode("values", planes.values))

    def restore(self) -> None:
        """Make dense what was converted, by what the codes stand for."""
        if self.codec is not None and self.planes is not None:
            keys, values = self.codec.decode("keys", self.planes.keys), self.codec.decode("values", self.planes.values)
            self.planes, self.codec, self.floor = Planes(keys, values), None, 0


# When.


@fault("converts-past-the-start", breaks="PREC-1", trace="full bits=4 start=2 ; window 2", report="B60")
class ConvertsPastTheStart(BoundaryFault):
    """A cache converts when its offset is past the start, not when it has reached it."""

    def due(self) -> bool:
        return super().due() and self.offset > max(0, self.start)


@fault("looks-before-the-append", breaks="PREC-1", trace="full bits=4 start=2 ; window 3", report="B52")
class LooksBeforeTheAppend(BoundaryFault):
    """The offset is compared with the start before the positions are stored, so that an append too many stays dense."""

    def due(self) -> bool:
        return self.due_at(self.offset - self.call.length)


@fault("windows-do-not-convert", breaks="PREC-1", trace="ring window=4 bits=4 start=2 ; window 3", report="B51")
class WindowsDoNotConvert(BoundaryFault):
    """Only decodes look whether the cache is due; a prompt longer than the start stays dense."""

    def due(self) -> bool:
        return super().due() and self.call.phase == "decode"


@fault("dense-fetches-do-not-convert", breaks="PREC-1", trace="full bits=4 start=2 ; dense 2")
class DenseFetchesDoNotConvert(BoundaryFault):
    """A dense fetch hands out half precision, and leaves the conversion to the next read."""

    fetching = False

    def due(self) -> bool:
        return super().due() and not self.fetching

    def fetch_dense(self, keys: Bits, values: Bits, dtype: str) -> Planes:
        self.fetching = True
        try:
            return super().fetch_dense(keys, values, dtype)
        finally:
            self.fetching = False


@fault("counts-what-it-holds", breaks="PREC-1", trace="ring window=2 bits=4 start=3 ; window 2 ; decode")
class CountsWhatItHolds(BoundaryFault):
    """A ring compares the positions that it holds with the start, and never reaches one past its window."""

    def due(self) -> bool:
        return super().due() and self.size >= self.start


@fault("converts-when-allocated", breaks="PREC-1", trace="full bits=4 start=2 ; decode")
class ConvertsWhenAllocated(BoundaryFault):
    """A growing cache compares its allocated columns with the start, so that the first append converts it."""

    def due(self) -> bool:
        return self.due_at(self.offset) or (self.layer.start != "never" and self.columns >= self.start > 0)


@fault("trims-do-not-count", breaks="PREC-1", trace="full bits=4 start=3 ; window 2 ; trim 1 ; decode")
class TrimsDoNotCount(BoundaryFault):
    """The boundary counts every position that was ever appended, also those that were trimmed again."""

    appended = 0

    def act(self, asked: Asked) -> Read:
        self.appended += asked.length if asked.well_formed else 0
        return super().act(asked)

    def due(self) -> bool:
        return self.due_at(self.appended)


@fault("says-it-is-dense", breaks="PREC-1", trace="full bits=4 start=2 ; window 2")
class SaysItIsDense(ReferenceAdapter):
    """The storage that a cache reports is that of its construction, also when it holds codes by now."""

    def show(self, cache: Any) -> StateView:
        return evolve(super().show(cache), storage="affine" if cache.layer.policy == "affine" else "dense")


@fault("start-0-is-no-start", breaks="PREC-2", trace="full bits=4 start=0 ; decode")
class Start0IsNoStart(BoundaryFault):
    """A start of 0 is taken for codes from the first append on, its own read included."""

    def act(self, asked: Asked) -> Read:
        if self.layer.start == 0 and self.planes is None and asked.well_formed:
            self.codec = self.make_codec(asked.keys, asked.values, asked.dtype)
        return super().act(asked)


@fault("start-0-is-false", breaks="PREC-2", trace="full bits=4 start=0 ; decode", report="B52")
class Start0IsFalse(BoundaryFault):
    """A start of 0 counts as none given, and the cache stays dense for ever."""

    def due(self) -> bool:
        return bool(self.layer.start) and super().due()


@fault("empty-caches-convert", breaks="PREC-2", trace="full bits=4 start=0 ; trim 0", report="B52")
class EmptyCachesConvert(BoundaryFault):
    """A trim looks whether the offset has reached the start, and does not ask whether there is anything to convert."""

    hollow = False

    def trim(self, count: int, bypass: bool = False) -> int:
        answer = super().trim(count, bypass)
        self.hollow = self.layer.bits is not None and self.offset >= self.start
        return answer

    @property
    def storage(self) -> Storage:
        return "affine" if self.hollow else super().storage


@fault("never-is-as-long-as-the-window", breaks="PREC-3", trace="ring window=2 bits=4 start=never ; window 2")
class NeverIsAsLongAsTheWindow(BoundaryFault):
    """Start never stands for the window of a ring, and is reached when the ring is full."""

    def due(self) -> bool:
        full = self.layer.window is not None and self.offset >= self.layer.window
        return super().due() or (self.layer.start == "never" and full)


# What the read of the converting append attends.


@fault("converts-before-the-append", breaks="PREC-4", trace="full bits=4 start=2 ; window 2", report="B60")
class ConvertsBeforeTheAppend(BoundaryFault):
    """The append that makes a cache due converts it first, and then reads codes."""

    def act(self, asked: Asked) -> Read:
        fits = asked.well_formed and asked.keys.shape[:3] == asked.values.shape[:3] and asked.length > 0
        if fits and self.codec is None and self.due_at(self.offset + asked.length):
            self.codec = self.make_codec(asked.keys, asked.values, asked.dtype)
            self.planes = self.planes and self.converted(self.planes)
            self.dtype, self.floor = asked.dtype, self.floor_at(self.offset + asked.length)
        return super().act(asked)


@fault("reads-again-from-the-codes", breaks="PREC-4", trace="full bits=4 start=2 ; window 2 as r ; attend r")
class ReadsAgainFromTheCodes(ReferenceAdapter):
    """A read of half precision that is asked again attends the codes that its cache holds by now."""

    def append(self, cache: Any, keys: Any, values: Any, phase: AppendName, window: int | None, array: bool) -> Any:
        read = super().append(cache, keys, values, phase, window, array)
        self.asked: dict[int, Any] = {**getattr(self, "asked", {}), id(read): (read, cache.codec, False)}
        return read

    def fetched(self, read: Read) -> tuple[Any, Any] | None:
        _, codec, before = self.asked.get(id(read), (read, None, False))
        self.asked[id(read)] = (read, codec, True)
        if not before or codec is None or read.codec is not None:
            return super().fetched(read)
        keys, values = codec.encode("keys", read.keys), codec.encode("values", read.values)
        return super().fetched(Read(keys, values, read.mask, read.length, read.dtype, codec))
