"""Faults of refusals: calls that should be turned down and are not, or not without a trace (ERR)."""

from typing import Any

import numpy as np
from attrs import evolve

from kvlaw.conformance.faults.parts import Asked, WrongCache
from kvlaw.conformance.faults.registry import fault
from kvlaw.reference.layout import Cache, MaskValue, Read, Refusal
from kvlaw.spec.calls import Phase
from kvlaw.spec.config import LayerSpec
from kvlaw.spec.observations import Bits


@fault("counts-before-it-checks", breaks="ERR-1", trace="full ; decode ; decode malformed=heads", report="B82")
class CountsBeforeItChecks(WrongCache):
    """An append counts its positions before it finds the tensors at fault."""

    def act(self, asked: Asked) -> Read:
        try:
            return super().act(asked)
        except Refusal:
            if self.planes is not None and asked.well_formed:
                self.state = evolve(self.state, offset=self.offset + asked.length)
            raise


@fault(
    "refused-window-drops-the-history",
    breaks="ERR-1",
    trace="ring window=2 ; window 2 ; window 2 malformed=heads ; decode",
)
class RefusedWindowDropsTheHistory(WrongCache):
    """A window is refused after the ring was cut to make room for it."""

    def act(self, asked: Asked) -> Read:
        try:
            return super().act(asked)
        except Refusal:
            if self.planes is not None and self.write_index == self.layer.window:
                self.planes = self.planes.each(np.zeros_like)
            raise


@fault("cuts-to-the-shorter", breaks="ERR-2", profile="layout", trace="full ; window 1 malformed=lengths")
class CutsToTheShorter(WrongCache):
    """Keys and values of different lengths are cut to the shorter."""

    def act(self, asked: Asked) -> Read:
        keys, values = asked.keys, asked.values
        if asked.well_formed:
            length = min(asked.length, values.shape[2])
            keys, values = keys[:, :, :length], values[:, :, :length]
        return super().act(evolve(asked, keys=keys, values=values))


@fault("casts-without-a-word", breaks="ERR-3", profile="layout", trace="full ; decode ; decode malformed=dtype")
class CastsWithoutAWord(WrongCache):
    """Tensors of another dtype are cast to the storage's."""

    def act(self, asked: Asked) -> Read:
        if self.planes is not None and asked.dtype != self.dtype:
            kind = self.planes.keys.dtype
            cast = evolve(asked, keys=asked.keys.astype(kind), values=asked.values.astype(kind), dtype=self.dtype)
            return super().act(cast)
        return super().act(asked)


@fault("decodes-two", breaks="ERR-4", profile="layout", trace="full ; decode malformed=two")
class DecodesTwo(Cache):
    """A decode of two positions is taken for a window."""

    def append_decode(
        self, keys: Bits, values: Bits, dtype: str, window: int | None = None, array: bool = False
    ) -> Read:
        return self._append(keys, values, dtype, "decode" if keys.shape[2] == 1 else "window", window, array)


@fault("truncates-a-count", breaks="ERR-5", profile="layout", trace="full ; window 2 ; trim 1.0")
class TruncatesACount(Cache):
    """A trim takes any number and cuts off its fraction."""

    def trim(self, count: Any, bypass: bool = False) -> int:
        return super().trim(int(count), bypass)


@fault("window-of-at-least-one", breaks="ERR-6", profile="layout", trace="ring window=0")
class WindowOfAtLeastOne(Cache):
    """A ring of window 0 is built with a window of 1."""

    def __init__(self, layer: LayerSpec) -> None:
        super().__init__(layer if layer.window is None or layer.window > 0 else evolve(layer, window=1))


@fault("window-argument-zero-is-none", breaks="ERR-7", profile="layout", trace="full ; decode w=0")
class WindowArgumentZeroIsNone(Cache):
    """A window argument of 0 counts as none at all."""

    def mask(self, length: int, phase: Phase, window: int | None = None, array: bool = False) -> MaskValue:
        return super().mask(length, phase, window or None, array)
