"""Attention over codes: which kernel an append's read takes, and the kernels.

A ``KernelSet`` has one kernel for decodes (and every query that stands alone), one for windows whose mask means plain
causal, and one for windows whose mask hides more.  It is fixed when a cache is built; the *meaning* of the mask chooses
among the three, never a length or how the mask is written (READ-15).

* ``unfused``: mlx-lm's order of operations, for everything.
* ``tiled_causal``: an online softmax over tiles of 512 keys for plain causal windows, ``unfused`` for the rest.
* ``tiled``: the same for all windows; decodes are ``unfused``.

A tiled kernel evaluates every tile before it builds the next.  Only that bounds its memory: MLX would run tiles that
do not depend on each other all at once, which was measured to take more than ``unfused``.
"""

from collections.abc import Callable
from typing import Literal

import attrs
import mlx.core as mx

from kvlaw.mlx_impl.codec import Codec, Codes
from kvlaw.mlx_impl.errors import ConfigError
from kvlaw.mlx_impl.evaluate import evaluate
from kvlaw.mlx_impl.masks import Meaning
from kvlaw.spec.cite import clause

TILE = 512
"""Keys that a tiled kernel attends at a time."""

TILED_BITS = (4, 8)
TILED_DTYPES = (mx.bfloat16, mx.float16)

HiddenBy = mx.array | Literal["causal"] | None
"""A mask as kernels take it: bool ``[L, S]`` or ``[B, 1, L, S]``, plain causal aligned at the last column, or none."""


@attrs.frozen
class Coded:
    """Fetched keys and values as codes, and the codec they were made by."""

    keys: Codes
    values: Codes
    codec: Codec

    @property
    def columns(self) -> int:
        """Return how many columns were fetched."""
        return self.keys[1].shape[-2]

    def tile(self, start: int, stop: int) -> "Coded":
        """Take columns ``[start, stop)``."""
        return Coded(_cut(self.keys, start, stop), _cut(self.values, start, stop), self.codec)

    def spread(self) -> "Coded":
        """Add an axis over which query heads share a head."""
        return Coded(_spread(self.keys), _spread(self.values), self.codec)

    def scores(self, queries: mx.array) -> mx.array:
        """Multiply queries by the transposed keys."""
        codec = self.codec
        return mx.quantized_matmul(queries, *self.keys, transpose=True, group_size=codec.group, bits=codec.bits)

    def mix(self, weights: mx.array) -> mx.array:
        """Multiply weights by the values."""
        codec = self.codec
        return mx.quantized_matmul(
            weights, *self.values, transpose=False, group_size=codec.group, bits=codec.value_bits
        )


Kernel = Callable[[mx.array, Coded, float, HiddenBy], mx.array]
"""Attend queries ``[B, Hq, L, Dk]`` over codes by ``scale`` and a mask: ``[B, Hq, L, Dv]``."""


@attrs.frozen
class KernelSet:
    """One kernel per meaning of a mask."""

    name: str
    decode: Kernel
    causal: Kernel
    masked: Kernel

    @clause("READ-15")
    def choose(self, meaning: Meaning) -> Kernel:
        """Return the kernel for what a mask means."""
        if meaning == "decode":
            return self.decode
        return self.causal if meaning == "causal" else self.masked


@clause("READ-11")
def unfused(queries: mx.array, coded: Coded, scale: float, mask: HiddenBy) -> mx.array:
    """Attend in mlx-lm's order: scale queries, scores, mask, precise softmax, values."""
    queries, coded = _prepare(queries, coded, scale)
    scores = _hide(coded.scores(queries), _rows(_meet(mask, queries), queries.shape[-2], coded.columns))
    mixed = coded.mix(mx.softmax(scores, axis=-1, precise=True))
    return _heads(mixed)


@clause("READ-11")
def tiled(queries: mx.array, coded: Coded, scale: float, mask: HiddenBy) -> mx.array:
    """Attend by an online softmax in f32 over tiles of 512 keys, dividing after the values.

    Scores and the products of weights and values are rounded to the dtype of the queries, all else is f32.
    """
    queries, coded = _prepare(queries, coded, scale)
    mask = _meet(mask, queries)
    length, columns = queries.shape[-2], coded.columns
    top = total = mixed = None
    for start in range(0, columns, TILE):
        stop = min(start + TILE, columns)
        tile = coded.tile(start, stop)
        scores = _hide(tile.scores(queries).astype(mx.float32), _tile_rows(mask, start, stop, length, columns))
        best = mx.max(scores, axis=-1, keepdims=True)
        if top is not None:
            best = mx.maximum(top, best)
        weights = mx.exp(scores - best)
        sums = mx.sum(weights, axis=-1, keepdims=True)
        part = tile.mix(weights.astype(queries.dtype)).astype(mx.float32)
        if top is not None and total is not None and mixed is not None:
            shrink = mx.exp(top - best)
            sums, part = total * shrink + sums, mixed * shrink + part
        top, total, mixed = best, sums, part
        evaluate(top, total, mixed)
    assert total is not None  # noqa: S101  # a read fetches at least the column that it appended
    assert mixed is not None  # noqa: S101  # as above
    return _heads((mixed / total).astype(queries.dtype))


UNFUSED = KernelSet("unfused", unfused, unfused, unfused)
TILED_CAUSAL = KernelSet("tiled_causal", unfused, tiled, unfused)
TILED = KernelSet("tiled", unfused, tiled, tiled)

KERNEL_SETS = {kernels.name: kernels for kernels in (UNFUSED, TILED_CAUSAL, TILED)}


@clause("READ-15")
def make_kernels(name: str, codec: Codec, dtype: mx.Dtype | None) -> KernelSet:
    """Return the kernel set of that name for a codec and, if it is tiled, for a dtype.

    Raises:
        ConfigError: if there is none of that name, or a tiled one is asked for other bits than 4 and 8, or without a
            dtype or for another one than bf16 and f16.
    """
    kernels = KERNEL_SETS.get(name)
    if kernels is None:
        raise ConfigError(f"kernel set {name!r}", f"there are {', '.join(KERNEL_SETS)}", "READ-15")
    if kernels is UNFUSED:
        return kernels
    if codec.bits not in TILED_BITS or codec.value_bits not in TILED_BITS:
        raise ConfigError(f"{name} for {codec.describe}", "bits and value bits of 4 or 8 are needed", "READ-15")
    if dtype is None or dtype not in TILED_DTYPES:
        raise ConfigError(f"{name} for dtype {dtype}", "bfloat16 or float16 must be named", "READ-15")
    return kernels


def _prepare(queries: mx.array, coded: Coded, scale: float) -> tuple[mx.array, Coded]:
    """Scale the queries and give those that share a head an axis of their own."""
    if scale != 1:
        queries = queries * scale
    batch, heads, length, dim = queries.shape
    shared = coded.keys[1].shape[1]
    if heads == shared:
        return queries, coded
    return mx.reshape(queries, (batch, shared, heads // shared, length, dim)), coded.spread()


def _meet(mask: HiddenBy, queries: mx.array) -> HiddenBy:
    """Give a mask of several rows the axis over which query heads share a head."""
    return mask[:, :, None] if isinstance(mask, mx.array) and queries.ndim > mask.ndim > 2 else mask


def _heads(mixed: mx.array) -> mx.array:
    """Join the axes of heads again."""
    if mixed.ndim == 4:
        return mixed
    batch, shared, repeats, length, dim = mixed.shape
    return mx.reshape(mixed, (batch, shared * repeats, length, dim))


def _hide(scores: mx.array, mask: mx.array | None) -> mx.array:
    """Give hidden columns the lowest finite score."""
    return scores if mask is None else mx.where(mask, scores, mx.finfo(scores.dtype).min)


def _rows(mask: HiddenBy, length: int, columns: int) -> mx.array | None:
    """Return the mask as an array, if there is one."""
    if mask is None or isinstance(mask, mx.array):
        return mask
    return _causal_rows(0, columns, length, columns)


def _tile_rows(mask: HiddenBy, start: int, stop: int, length: int, columns: int) -> mx.array | None:
    """Return the mask of columns ``[start, stop)``; none if plain causal hides nothing there."""
    if mask is None or isinstance(mask, mx.array):
        return None if mask is None else mask[..., start:stop]
    first_query = columns - length
    return None if stop - 1 <= first_query else _causal_rows(start, stop, length, columns)


def _causal_rows(start: int, stop: int, length: int, columns: int) -> mx.array:
    return mx.arange(columns - length, columns)[:, None] >= mx.arange(start, stop)[None]


def _cut(codes: Codes, start: int, stop: int) -> Codes:
    words, scales, biases = (part[..., start:stop, :] for part in codes)
    return words, scales, biases


def _spread(codes: Codes) -> Codes:
    words, scales, biases = (part[:, :, None] for part in codes)
    return words, scales, biases
