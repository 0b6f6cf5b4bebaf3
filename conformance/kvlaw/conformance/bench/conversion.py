"""What converting a model's caches costs in memory: 16 layers of 4,096 positions, converted by one decode.

Layers convert one at a time: the peak may lie above the larger of before and after by one layer's half precision.
"""

import gc

import attrs
import mlx.core as mx

from kvlaw.conformance.bench.cases import DIM, HEADS, LAYERS, SCALE, evaluate, tokens
from kvlaw.mlx_impl import Cache, make

POSITIONS = 4096


@attrs.frozen
class Conversion:
    """Active bytes before and after the step that converts, its peak, and the half precision bytes of one layer."""

    before: int
    after: int
    peak: int
    layer: int

    @property
    def above(self) -> int:
        """The bytes of the peak above the larger of before and after."""
        return self.peak - max(self.before, self.after)


def convert(bits: int = 4) -> Conversion:
    """Fill 16 caches up to one position below their start, decode one token through all, and measure.

    Raises:
        RuntimeError: if a layer did not convert in that step.
    """
    caches = [make("full", bits=bits, start=POSITIONS) for _ in range(LAYERS)]
    _fill(caches)
    x = tokens(1)
    gc.collect()
    mx.clear_cache()
    before, layer = mx.get_active_memory(), caches[0].nbytes
    mx.reset_peak_memory()
    _decode(caches, x)
    peak = mx.get_peak_memory()
    gc.collect()
    if {cache.floor for cache in caches} != {POSITIONS}:
        raise RuntimeError("a layer did not convert")
    return Conversion(before, mx.get_active_memory(), peak, layer)


def _fill(caches: list[Cache]) -> None:
    """Append without attending."""
    for seed, cache in enumerate(caches):
        shape = (1, HEADS, POSITIONS - 1, DIM)
        keys = mx.random.normal(shape, key=mx.random.key(seed)).astype(mx.bfloat16)
        cache.append_window(keys, keys)
        for part in cache.peek():
            evaluate(part)


def _decode(caches: list[Cache], x: mx.array) -> None:
    below = x
    for cache in caches:
        x, below = cache.append_decode(x, below).attend(x, scale=SCALE), x
    evaluate(x)
