"""MLX's affine codec and attention over codes, on raw bits: what the canary and the codec campaign ask.

The functions have the signatures of `kvlaw.reference.numerics` (`affine`, `quantized_products`, `quantized_attention`),
so that one stands for the other in a comparison. As in `mlx_arithmetic`, they run on MLX's default device, return
copies, and import MLX only when they are called.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from kvlaw.conformance.subjects.mlx_arithmetic import from_mlx, to_mlx
from kvlaw.reference.numerics import Bits, DType, Mask, is_additive
from kvlaw.reference.numerics.affine import Codes
from kvlaw.reference.numerics.attention import causal_mask
from kvlaw.reference.numerics.quantized_attention import KernelSet

if TYPE_CHECKING:
    import mlx.core as mx


def quantize(values: Bits, *, dtype: DType, bits: int, group: int) -> Codes:
    """Quantize ``values`` [..., n] along the last axis."""
    import mlx.core as mx

    words, scales, biases = mx.quantize(to_mlx(values, dtype), group_size=group, bits=bits)
    raw: Any = words
    return Codes(np.array(raw), from_mlx(scales), from_mlx(biases))


def dequantize(codes: Codes, *, dtype: DType, bits: int, group: int) -> Bits:
    """Return the rows [..., n] that ``codes`` stand for."""
    import mlx.core as mx

    return from_mlx(mx.dequantize(*codes_to_mlx(codes, dtype), group_size=group, bits=bits))


def multiply_by_codes(left: Bits, codes: Codes, *, dtype: DType, bits: int, group: int, transpose: bool = True) -> Bits:
    """Multiply ``left`` [..., M, K] by the matrix that ``codes`` stand for."""
    import mlx.core as mx

    product = mx.quantized_matmul(
        to_mlx(left, dtype), *codes_to_mlx(codes, dtype), transpose=transpose, group_size=group, bits=bits
    )
    return from_mlx(product)


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
    alone: bool = False,  # noqa: ARG001  # the kernel of a decode is the same
) -> Bits:
    """Attend ``queries`` to quantized keys and values by MLX's plain operations: the kernel set ``unfused``.

    The graph is that of `mlx_lm.models.base.quantized_scaled_dot_product_attention`, with bits of keys and of values
    apart. Raises ValueError for another kernel set.
    """
    import mlx.core as mx

    if kernel_set != "unfused":
        raise ValueError(f"MLX's plain operations are the kernel set unfused, not {kernel_set}")
    batch, heads, length, size = queries.shape
    key_heads = keys.words.shape[1]
    grouped = [batch, key_heads, heads // key_heads, length]
    scaled = mx.reshape(to_mlx(queries, dtype) * scale, [*grouped, size])
    scores = mx.quantized_matmul(scaled, *_one_per_group(keys, dtype), transpose=True, group_size=group, bits=key_bits)
    scores = _masked(mx.reshape(scores, [batch, heads, length, -1]), mask, dtype)
    scores = mx.reshape(scores, [*grouped, -1])
    weights = mx.softmax(scores, axis=-1, precise=True)
    output = mx.quantized_matmul(
        weights, *_one_per_group(values, dtype), transpose=False, group_size=group, bits=value_bits
    )
    return from_mlx(mx.reshape(output, [batch, heads, length, -1]))


def weigh_tile(scores: Bits, dtype: DType) -> Bits:
    """Return e^(score - greatest) of ``scores`` [..., S], divided by the sum of the row: all of it in float32."""
    import mlx.core as mx

    floats = to_mlx(scores, dtype).astype(mx.float32)
    weights = mx.exp(floats - mx.max(floats, axis=-1, keepdims=True))
    return from_mlx(weights / mx.sum(weights, axis=-1, keepdims=True))


def codes_to_mlx(codes: Codes, dtype: DType) -> "tuple[mx.array, mx.array, mx.array]":
    """Hand words, scales and biases to MLX, every bit as it is."""
    import mlx.core as mx

    words: Any = np.ascontiguousarray(codes.words)  # MLX takes NumPy arrays, but its stubs leave them out
    return mx.array(words), to_mlx(codes.scales, dtype), to_mlx(codes.biases, dtype)


def _one_per_group(codes: Codes, dtype: DType) -> "list[mx.array]":
    """Put the axis over which the query heads of a group share keys: [B, G, S, X] to [B, G, 1, S, X]."""
    import mlx.core as mx

    return [mx.expand_dims(part, axis=2) for part in codes_to_mlx(codes, dtype)]


def _masked(scores: "mx.array", mask: Mask, dtype: DType) -> "mx.array":
    """Mask ``scores`` [B, H, L, S] as mlx-lm does."""
    import mlx.core as mx

    if mask is None:
        return scores
    if not isinstance(mask, str) and is_additive(mask):
        return scores + to_mlx(mask, dtype)
    visible: Any = causal_mask(scores.shape[2], scores.shape[3]) if isinstance(mask, str) else mask
    return mx.where(mx.array(visible), scores, mx.finfo(scores.dtype).min)
