"""What a tiled kernel saves: the peak of a window of 512 tokens over 8,192 keys in codes, beside the unfused kernel's.

A tiled kernel stays only while its peak is below half of the other's.
"""

import gc

import attrs
import mlx.core as mx

from kvlaw.conformance.bench.cases import DIM, SCALE, evaluate
from kvlaw.mlx_impl import make

KEYS, LENGTH, HEADS, SHARED = 8192, 512, 2, 1


@attrs.frozen
class Tiling:
    """Peak bytes of attending one window, the cache's own bytes included, what else the process holds left out."""

    tiled: int
    unfused: int


def attend_by_tiles(bits: int = 4) -> Tiling:
    """Attend the same window by either kernel set, each alone in memory."""
    return Tiling(_peak("tiled_causal", bits), _peak("unfused", bits))


def _peak(kernels: str, bits: int) -> int:
    gc.collect()
    mx.clear_cache()
    before = mx.get_active_memory()
    cache = make("full", bits=bits, kernels=kernels, dtype=mx.bfloat16)
    keys, queries = _normal(1, SHARED, KEYS), _normal(2, HEADS, LENGTH)
    cache.append_window(keys, keys)
    read = cache.append_window(*2 * [_normal(3, SHARED, LENGTH)])
    for part in (*read.keys, *read.values, queries):
        evaluate(part)
    del keys
    gc.collect()
    mx.clear_cache()
    mx.reset_peak_memory()
    evaluate(read.attend(queries, scale=SCALE))
    return mx.get_peak_memory() - before


def _normal(seed: int, heads: int, length: int) -> mx.array:
    return mx.random.normal((1, heads, length, DIM), key=mx.random.key(seed)).astype(mx.bfloat16)
