"""Attention over quantized keys and values as MLX's x86-64 CPU computes it, bit for bit.

A *kernel set* names a kernel for decodes, one for windows whose mask means plain causal, and one for other windows.
Two kernels do the work; T is the format of queries, scales and biases. ``unfused`` is made of MLX's plain operations,
which is also what mlx-lm runs over a quantized cache:

1. scale: round the scale to the format, multiply the queries by it, round;
2. scores: scaled queries times quantized keys (`quantized_products`: a sum in the format), each group of query heads
   with its own key-value head;
3. mask: a masked score becomes the lowest finite value of the format, or an additive mask is added, as in `attention`;
4. weights: precise `softmax` over the row, round;
5. output: weights times quantized values, again a sum in the format.

``tiled`` goes through the keys in tiles of 512, in their order, and keeps for each query the greatest score m, the sum
of weights l and the output so far a, in float32. After step 1, for each tile:

2. scores as above, a sum in T, then float32; a masked one becomes the lowest finite *float32*;
3. m' = the greatest of m and the tile's scores; weights p = e^(score - m') by `exponential`;
4. the tile's sum of p in float32, from its first key to its last; the tile's output T(p) times values, a sum in T;
5. l = l * c + sum and a = a * c + output with c = e^(m - m'), every operation rounded to float32. The first tile has
   nothing to rescale: l and a are its own.

The result is T(a / l), a division in float32. Only the tile's products are sums in the format.

The sum over keys of one product is trustworthy for at most 256 visible keys in bf16 and 2,048 in f16. Masked keys take
part with weight 0 and change nothing unless their values are infinite or NaN; where a whole tile before the first
visible key is masked, its weights are 1 until the rescaling by 0 takes them away.

Shapes: B batch rows, H query heads, G key-value heads, L queries, S keys, D head size, E value size.
"""

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import attrs
import numpy as np
from numpy.typing import NDArray

from kvlaw.reference.numerics.affine import Codes, dequantized
from kvlaw.reference.numerics.attention import Mask, causal_mask, is_additive, masked, scaled_queries
from kvlaw.reference.numerics.exponential import exponential
from kvlaw.reference.numerics.formats import Bits, DType, Float32, decode, encode, lowest, round_to
from kvlaw.reference.numerics.quantized_products import multiply_rounding
from kvlaw.reference.numerics.softmax import sequential_sum, softmax

KernelSet: TypeAlias = Literal["unfused", "tiled_causal", "tiled"]
_Kernel: TypeAlias = Callable[[Float32, Float32, Float32, Mask, DType], Float32]

TILE: Final = 512
"""Keys that a tiled kernel attends at a time."""

TILED_BITS: Final = (4, 8)
TILED_DTYPES: Final[tuple[DType, ...]] = ("bf16", "f16")


@attrs.frozen
class _Kernels:
    """One kernel for queries that stand alone, and two for windows, told apart by what the mask means."""

    alone: _Kernel
    causal: _Kernel
    masked: _Kernel


def attend_quantized(
    queries: Bits,
    keys: Codes,
    values: Codes,
    *,
    scale: float,
    mask: Mask,
    dtype: DType,
    key_bits: int,
    value_bits: int,
    group: int,
    kernel_set: KernelSet = "unfused",
    alone: bool = False,
) -> Bits:
    """Attend ``queries`` to quantized ``keys`` and return the weighted ``values`` as bits of ``dtype``, [B, H, L, E].

    ``queries`` is [B, H, L, D], bits of ``dtype``; ``keys`` are codes of rows [B, G, S, D] with ``key_bits`` bits,
    ``values`` codes of rows [B, G, S, E] with ``value_bits`` bits, both in groups of ``group``, with H a multiple of G
    and S at least 1. ``scale`` and ``mask`` are those of `attention.attend`.

    ``alone`` says that each query stands alone, as in a decode or a known append, which takes the kernel for decodes.
    Otherwise the queries are a window, also if there is one only, and `means_causal` chooses the kernel: how the mask
    is written does not (READ-15).

    Raises ValueError if shapes do not fit, there is no such kernel set, or it cannot read these bits, this format or an
    additive mask; TypeError if an array is not of the bits of ``dtype``.
    """
    _check_kernel_set(kernel_set, dtype, (key_bits, value_bits), mask)
    key_rows = dequantized(keys, dtype=dtype, bits=key_bits, group=group)
    value_rows = dequantized(values, dtype=dtype, bits=value_bits, group=group)
    _check_shapes(queries.shape, key_rows.shape, value_rows.shape)
    scaled = scaled_queries(decode(queries, dtype), scale, dtype)
    kernels = _KERNELS[kernel_set]
    causal = means_causal(mask, queries.shape[2], key_rows.shape[2])
    kernel = kernels.alone if alone else kernels.causal if causal else kernels.masked
    return encode(kernel(scaled, key_rows, value_rows, mask, dtype), dtype)


def means_causal(mask: Mask, length: int, width: int) -> bool:
    """Tell whether ``mask`` lets query i of ``length`` see keys 0 .. ``width`` - ``length`` + i and no other.

    So does ``"causal"``, a bool array with just these entries, and no mask for a single query.
    """
    if mask is None:
        return length == 1
    if isinstance(mask, str):
        return True
    if is_additive(mask) or np.atleast_2d(mask).shape[-2:] != (length, width):
        return False
    return bool((mask == causal_mask(length, width)).all())


def _unfused(queries: Float32, keys: Float32, values: Float32, mask: Mask, dtype: DType) -> Float32:
    """Attend scaled ``queries`` [B, H, L, D] to dequantized ``keys`` [B, G, S, D] with scores of all keys at once."""
    batch, heads, length, _ = queries.shape
    key_heads, width = keys.shape[1:3]
    across = _joined(keys, batch * key_heads).transpose(0, 2, 1)
    scores = multiply_rounding(_joined(queries, batch * key_heads), across, dtype)
    scores = masked(scores.reshape(batch, heads, length, width), mask, dtype)
    weights = softmax(scores, dtype)
    output = multiply_rounding(_joined(weights, batch * key_heads), _joined(values, batch * key_heads), dtype)
    return output.reshape(batch, heads, length, values.shape[3])


@attrs.frozen(eq=False)
class _Running:
    """What is known after some tiles, for each query: float32 [N, M, 1], [N, M, 1] and [N, M, E]."""

    greatest: Float32
    total: Float32
    output: Float32


def _tiled(queries: Float32, keys: Float32, values: Float32, mask: Mask, dtype: DType) -> Float32:
    """Attend scaled ``queries`` [B, H, L, D] to dequantized ``keys`` [B, G, S, D] tile by tile, and divide at last."""
    batch, heads, length, _ = queries.shape
    key_heads, width = keys.shape[1:3]
    joined, key_rows, value_rows = (_joined(array, batch * key_heads) for array in (queries, keys, values))
    visible = _visible(mask, (batch, heads, length, width)).reshape(*joined.shape[:2], width)

    def scores_of(tile: slice) -> Float32:
        scores = multiply_rounding(joined, key_rows[:, tile].transpose(0, 2, 1), dtype)
        return np.where(visible[:, :, tile], scores, lowest("f32"))

    first, *later = (slice(start, start + TILE) for start in range(0, width, TILE))
    with np.errstate(all="ignore"):
        running = _first_tile(scores_of(first), value_rows[:, first], dtype)
        for tile in later:
            running = _next_tile(running, scores_of(tile), value_rows[:, tile], dtype)
        output = round_to(running.output / running.total, dtype)
    return output.reshape(batch, heads, length, values.shape[3])


def _first_tile(scores: Float32, values: Float32, dtype: DType) -> _Running:
    """Begin with a tile: its masked ``scores`` [N, M, K] and dequantized ``values`` [N, K, E]."""
    return _weighed(scores, scores.max(axis=-1, keepdims=True), values, dtype)


def _next_tile(before: _Running, scores: Float32, values: Float32, dtype: DType) -> _Running:
    """Rescale what came ``before`` to the greatest score so far, and add a tile as in `_first_tile`."""
    greatest: Float32 = np.maximum(before.greatest, scores.max(axis=-1, keepdims=True))
    tile = _weighed(scores, greatest, values, dtype)
    shrink = exponential(before.greatest - greatest)
    return _Running(greatest, before.total * shrink + tile.total, before.output * shrink + tile.output)


def _weighed(scores: Float32, greatest: Float32, values: Float32, dtype: DType) -> _Running:
    """Weigh the ``values`` of one tile by e^(score - greatest)."""
    weights = exponential(scores - greatest)
    output = multiply_rounding(round_to(weights, dtype), values, dtype)
    return _Running(greatest, sequential_sum(weights), output)


def _visible(mask: Mask, scores_shape: tuple[int, int, int, int]) -> NDArray[np.bool_]:
    """Return which of the scores [B, H, L, S] ``mask`` leaves, by what `attention.masked` leaves of zeros."""
    return masked(np.zeros(scores_shape, np.float32), mask, "f32") == 0


def _joined(array: Float32, batches: int) -> Float32:
    """Join all axes but the last in ``batches`` matrices: heads that share a key-value head lie in the same one."""
    return array.reshape(batches, -1, array.shape[3])


def _check_shapes(queries: tuple[int, ...], keys: tuple[int, ...], values: tuple[int, ...]) -> None:
    """Raise ValueError, naming the three shapes, unless they are [B, H, L, D], [B, G, S, D] and [B, G, S, E]."""
    shapes = f"queries {queries}, keys {keys}, values {values}"
    if not len(queries) == len(keys) == len(values) == 4:
        raise ValueError(f"attention takes arrays of rank 4, got {shapes}")
    if keys[:3] != values[:3] or queries[0] != keys[0] or queries[3] != keys[3]:
        raise ValueError(f"queries [B, H, L, D], keys [B, G, S, D] and values [B, G, S, E] do not fit: {shapes}")
    if keys[1] == 0 or queries[1] % keys[1] or keys[2] == 0:
        raise ValueError(f"attention takes H a multiple of G and at least one key, got {shapes}")


def _check_kernel_set(kernel_set: str, dtype: DType, bits: tuple[int, int], mask: Mask) -> None:
    """Raise ValueError, naming what is possible, unless the kernel set exists and can read what it is given."""
    if kernel_set not in _KERNELS:
        raise ValueError(f"quantized attention has the kernel sets {', '.join(_KERNELS)}, got {kernel_set!r}")
    if kernel_set == "unfused":
        return
    if dtype not in TILED_DTYPES or not set(bits) <= set(TILED_BITS):
        raise ValueError(f"{kernel_set} reads bits of 4 or 8 in bf16 or f16, got {bits[0]} and {bits[1]} in {dtype}")
    if not (mask is None or isinstance(mask, str)) and is_additive(mask):
        raise ValueError(f"{kernel_set} hides keys and adds no mask, got an additive one")


_KERNELS: Final[dict[str, _Kernels]] = {
    "unfused": _Kernels(_unfused, _unfused, _unfused),
    "tiled_causal": _Kernels(alone=_unfused, causal=_tiled, masked=_unfused),
    "tiled": _Kernels(alone=_unfused, causal=_tiled, masked=_tiled),
}
KERNEL_SETS: Final = tuple(_KERNELS)
