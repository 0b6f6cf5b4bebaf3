"""Faults of masks and window arguments (MASK)."""

from typing import Any

import numpy as np
from attrs import evolve

from kvlaw.conformance.faults.parts import Asked, WrongCache
from kvlaw.conformance.faults.registry import fault
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.reference import index
from kvlaw.reference.layout import Cache, MaskValue, Read
from kvlaw.spec.calls import Phase
from kvlaw.spec.observations import Bits


class MaskFault(WrongCache):
    """A cache whose masks are asked for in another way: ``asked`` changes the request."""

    def mask(self, length: int, phase: Phase, window: int | None = None, array: bool = False) -> MaskValue:
        """Build the mask for the changed request."""
        return super().mask(length, phase, *self.asked(length, phase, window, array))

    def asked(self, length: int, phase: Phase, window: int | None, array: bool) -> tuple[int | None, bool]:
        """Change one request: the window argument, and whether an array is wanted."""
        raise NotImplementedError

    def width(self, length: int, phase: Phase) -> int:
        """Count the columns of the next fetch."""
        return len(self.plan(phase, length).fetch)


@fault("mask-of-the-whole-history", breaks="MASK-1", trace="ring window=2 ; window 3 ; window 2", report="B07")
class MaskOfTheWholeHistory(WrongCache):
    """The mask of a sliding layer is as wide as the whole history, and is cut to the fetch when it is applied."""

    def mask(self, length: int, phase: Phase, window: int | None = None, array: bool = False) -> MaskValue:
        mask = super().mask(length, phase, window, array)
        if not isinstance(mask, np.ndarray):
            return mask
        hidden = np.zeros((length, self.offset + length - mask.shape[1]), np.bool_)
        return np.concatenate([hidden, mask], 1)

    def act(self, asked: Asked) -> Read:
        read = super().act(asked)
        return CutsItsMask(read.keys, read.values, read.mask, read.length, read.dtype)


class CutsItsMask(Read):
    """A read that cuts its mask to the fetch when it attends."""

    def attend(self, queries: Bits, scale: float) -> Bits:
        """Attend with the newest columns of the mask."""
        if not isinstance(self.mask, np.ndarray):
            return super().attend(queries, scale)
        cut = self.mask[:, -self.keys.shape[2] :]
        return Read(self.keys, self.values, cut, self.length, self.dtype).attend(queries, scale)


@fault("hands-a-decode-a-mask", breaks="MASK-2", profile="layout", trace="full ; decode")
class HandsADecodeAMask(MaskFault):
    """A decode of a growing cache gets an array that hides nothing."""

    def asked(self, length: int, phase: Phase, window: int | None, array: bool) -> tuple[int | None, bool]:
        return window, array or (phase == "decode" and self.ring is None and window is None)


@fault("arrays-behind-a-prefix", breaks="MASK-3", profile="layout", trace="full ; decode ; window 2")
class ArraysBehindAPrefix(MaskFault):
    """A window behind a prefix gets an array where plain causal would do."""

    def asked(self, length: int, phase: Phase, window: int | None, array: bool) -> tuple[int | None, bool]:
        return window, array or (phase == "window" and self.ring is None and window is None and self.offset > 0)


@fault("no-window-at-decode", breaks="MASK-4", trace="full ; window 2 ; decode w=2", report="B06")
class NoWindowAtDecode(MaskFault):
    """A growing cache honours a window argument in windows, not in decodes."""

    def asked(self, length: int, phase: Phase, window: int | None, array: bool) -> tuple[int | None, bool]:
        return None if phase == "decode" and self.ring is None else window, array


@fault("array-one-position-early", breaks="MASK-5", profile="layout", trace="full ; window 2 w=2")
class ArrayOnePositionEarly(MaskFault):
    """A growing cache hands out an array already when the width reaches the window argument."""

    def asked(self, length: int, phase: Phase, window: int | None, array: bool) -> tuple[int | None, bool]:
        return window, array or (self.ring is None and self.width(length, phase) == window)


@fault("masks-a-full-ring", breaks="MASK-6", profile="layout", trace="ring window=2 ; decode x2")
class MasksAFullRing(MaskFault):
    """A decode that fills the ring gets an array that hides nothing."""

    def asked(self, length: int, phase: Phase, window: int | None, array: bool) -> tuple[int | None, bool]:
        full = self.ring is not None and self.width(length, phase) == self.ring.window
        return window, array or (full and phase == "decode")


@fault("judges-causal-by-the-offset", breaks="MASK-7", profile="layout", trace="ring window=2 ; window 2 ; window 1")
class JudgesCausalByTheOffset(MaskFault):
    """A window gets an array once offset + L passes W, though what it fetches is plain causal."""

    def asked(self, length: int, phase: Phase, window: int | None, array: bool) -> tuple[int | None, bool]:
        past = self.ring is not None and self.offset + length > self.ring.window
        return window, array or (past and phase == "window")


@fault("no-narrowing-when-full", breaks="MASK-8", trace="ring window=3 ; window 3 ; decode w=2")
class NoNarrowingWhenFull(MaskFault):
    """A decode of a full ring ignores a narrower window argument."""

    def asked(self, length: int, phase: Phase, window: int | None, array: bool) -> tuple[int | None, bool]:
        full = self.ring is not None and index.active(self.ring) >= self.ring.window
        return None if full and phase == "decode" else window, array


@fault("widens-to-the-argument", breaks="MASK-9", trace="ring window=2 ; window 3 w=3")
class WidensToTheArgument(Cache):
    """A window argument above W lets the later queries of a window see more than W positions."""

    def sees(self, length: int, phase: Phase, query: int, column: int, window: int | None) -> bool:
        wider = isinstance(self.state, index.Ring) and phase == "window" and (window or 0) > self.state.window
        if not wider or not isinstance(self.state, index.Ring):
            return super().sees(length, phase, query, column, window)
        return 0 <= index.history(self.state) + query - column < (window or 0)


@fault(
    "sorts-a-narrowing-mask",
    breaks="MASK-10",
    profile="layout",
    trace="ring window=3 ; window 3 ; mask 1 decode w=2",
)
class SortsANarrowingMask(ReferenceAdapter):
    """The narrowing mask of a decode is handed out in temporal order, the fetch in physical order."""

    def mask(self, cache: Any, length: int, phase: Phase, window: int | None, array: bool) -> Any:
        mask = super().mask(cache, length, phase, window, array)
        return np.sort(mask, 1) if hasattr(mask, "shape") and phase == "decode" else mask


@fault("array-hides-the-oldest", breaks="MASK-11", trace="ring window=2 ; window 2 ; decode array")
class ArrayHidesTheOldest(Cache):
    """Asked for as an array, the mask of a full ring's decode hides its oldest position."""

    def sees(self, length: int, phase: Phase, query: int, column: int, window: int | None) -> bool:
        ring = self.state
        rotating = isinstance(ring, index.Ring) and phase == "decode" and index.active(ring) >= ring.window > 1
        oldest = rotating and isinstance(ring, index.Ring) and index.decode_temporal(ring, column) == ring.sinks
        return not oldest and super().sees(length, phase, query, column, window)


@fault("mask-counts-the-decode", breaks="MASK-12", trace="ring window=2 ; window 2 ; mask 1 decode")
class MaskCountsTheDecode(ReferenceAdapter):
    """Asking a full ring for the mask of the next decode counts that decode."""

    def mask(self, cache: Any, length: int, phase: Phase, window: int | None, array: bool) -> Any:
        mask = super().mask(cache, length, phase, window, array)
        if phase == "decode" and cache.layer.window and cache.offset >= cache.layer.window:
            cache.state = evolve(cache.state, offset=cache.offset + 1)
        return mask


@fault("mask-turns-the-ring", breaks="MASK-12", profile="layout", trace="ring window=2 ; window 2 ; mask 1 decode")
class MaskTurnsTheRing(ReferenceAdapter):
    """Asking for the mask of a decode at the wrap already moves the write index back."""

    def mask(self, cache: Any, length: int, phase: Phase, window: int | None, array: bool) -> Any:
        mask = super().mask(cache, length, phase, window, array)
        if phase == "decode" and cache.layer.window == cache.columns == cache.write_index:
            cache.state = evolve(cache.state, write_index=cache.layer.sinks, rotated=True)
        return mask


@fault("narrows-past-its-sinks", breaks="MASK-13", profile="layout", trace="ring window=3 sinks=1 ; window 2 w=2")
class NarrowsPastItsSinks(MaskFault):
    """A ring with sinks takes a narrower window argument and ignores it."""

    def asked(self, length: int, phase: Phase, window: int | None, array: bool) -> tuple[int | None, bool]:
        narrow = self.ring is not None and self.ring.sinks > 0 and window is not None and window < self.ring.window
        return None if narrow else window, array


@fault("one-mask-for-all-lengths", breaks="VIS-2", trace="ring window=3 ; window 2 x3", report="B07")
class OneMaskForAllLengths(Cache):
    """A window mask is built once per shape and used again, although the history has grown under it."""

    def mask(self, length: int, phase: Phase, window: int | None = None, array: bool = False) -> MaskValue:
        known: dict[int, MaskValue] = self.__dict__.setdefault("known", {})
        mask = super().mask(length, phase, window, array)
        if phase == "window" and window is None and not array and self.offset > length:
            mask = known.setdefault(length, mask if isinstance(mask, str) else "causal")
        return mask


@fault("one-bound-for-all-queries", breaks="MASK-4", trace="full ; window 3 w=2")
class OneBoundForAllQueries(WrongCache):
    """A window argument bounds all queries of a window where it bounds the first."""

    def sees(self, length: int, phase: Phase, query: int, column: int, window: int | None) -> bool:
        if self.ring is not None or window is None:
            return super().sees(length, phase, query, column, window)
        return max(0, self.offset - window + 1) <= column <= self.offset + query
