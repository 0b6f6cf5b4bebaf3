"""What is timed: 16 layers that append and attend, ours, mlx-lm's, and ours behind mlx-lm's duck type.

A ``Runner`` makes 16 caches of one implementation and knows one step of them.  Steps of different runners get the same
arrays: the queries of a layer are the output of the one below, keys and values are fixed per layer.  mlx-lm's step is
what its models do: one mask per step, then ``update_and_fetch`` and its attention function in every layer.
"""

from collections.abc import Callable
from typing import Any, Literal

import attrs
import mlx.core as mx
from mlx_lm.models.base import scaled_dot_product_attention
from mlx_lm.models.cache import KVCache, RotatingKVCache

from kvlaw.mlx_impl import Cache, FullCache, RingCache
from kvlaw.mlx_impl.mlx_lm import DropIn

LAYERS = 16
KV_HEADS = 4
HEADS = 8
DIM = 64
WINDOW = 128
SCALE = DIM**-0.5

Who = Literal["ours", "drop-in", "theirs", "again"]
"""Who runs a step; ``again`` is a second mlx-lm, whose ratio to the first is the A/A ratio."""


@attrs.frozen
class Case:
    """A step of ``length`` tokens on caches that hold ``start`` tokens; ``window`` is None for growing caches.

    A case that is ``repeated`` trims what a step appended, so that every step starts at the same place.
    """

    name: str
    length: int
    start: int
    window: int | None
    repeated: bool = False


CASES = (
    Case("decode, growing", 1, 200, None),
    Case("decode, ring 128", 1, 300, WINDOW),
    Case("window of 64, growing", 64, 300, None, repeated=True),
    Case("window of 64, ring 128", 64, 300, WINDOW),
)


@attrs.frozen
class Tensors:
    """The arrays of a step of one length: queries, and keys and values per layer."""

    queries: mx.array
    keys: list[mx.array]
    values: list[mx.array]


def tensors(length: int) -> Tensors:
    """Draw the arrays of a step of ``length`` tokens, B = 1, bf16."""
    mx.random.seed(length)

    def draw(heads: int) -> mx.array:
        return mx.random.normal((1, heads, length, DIM)).astype(mx.bfloat16)

    made = Tensors(draw(HEADS), [draw(KV_HEADS) for _ in range(LAYERS)], [draw(KV_HEADS) for _ in range(LAYERS)])
    mx.eval(made.queries, made.keys, made.values)
    return made


@attrs.frozen
class Runner:
    """16 caches of one implementation, one step of them, and a way back."""

    caches: list[Any]
    step: Callable[[Tensors], mx.array]
    undo: Callable[[int], None]


def make_runner(who: Who, case: Case) -> Runner:
    """Make the caches of ``who`` and fill them with ``case.start`` tokens, in chunks of 100."""
    runner = _MAKERS[who](case)
    for begin in range(0, case.start, 100):
        mx.eval(runner.step(tensors(min(100, case.start - begin))))
    return runner


def _ours(case: Case) -> Runner:
    caches: list[Cache] = [RingCache(case.window) if case.window else FullCache() for _ in range(LAYERS)]

    def step(arrays: Tensors) -> mx.array:
        x = arrays.queries
        if x.shape[2] == 1:
            for cache, keys, values in zip(caches, arrays.keys, arrays.values, strict=True):
                x = cache.append_decode(keys, values).attend(x, scale=SCALE)
        else:
            for cache, keys, values in zip(caches, arrays.keys, arrays.values, strict=True):
                x = cache.append_window(keys, values).attend(x, scale=SCALE)
        return x

    def undo(count: int) -> None:
        for cache in caches:
            cache.trim(count)

    return Runner(caches, step, undo)


def _duck(caches: list[Any], window: int | None) -> Runner:
    """Run caches as mlx-lm's models do."""

    def step(arrays: Tensors) -> mx.array:
        x = arrays.queries
        mask = caches[0].make_mask(x.shape[2], return_array=False, window_size=window)
        for cache, keys, values in zip(caches, arrays.keys, arrays.values, strict=True):
            fetched_keys, fetched_values = cache.update_and_fetch(keys, values)
            x = scaled_dot_product_attention(x, fetched_keys, fetched_values, cache=cache, scale=SCALE, mask=mask)
        return x

    def undo(count: int) -> None:
        for cache in caches:
            cache.trim(count)

    return Runner(caches, step, undo)


def _drop_in(case: Case) -> Runner:
    return _duck([DropIn(cache) for cache in _ours(case).caches], case.window)


def _theirs(case: Case) -> Runner:
    return _duck([RotatingKVCache(case.window) if case.window else KVCache() for _ in range(LAYERS)], case.window)


_MAKERS: dict[Who, Callable[[Case], Runner]] = {
    "ours": _ours,
    "drop-in": _drop_in,
    "theirs": _theirs,
    "again": _theirs,
}
