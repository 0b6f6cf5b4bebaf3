"""Attention over quantized keys and values as MLX's x86-64 CPU computes it, bit for bit.

A *kernel set* fixes the order of operations. The only one so far is ``unfused``, made of MLX's plain operations, which
is also what mlx-lm runs over a quantized cache:

1. scale: round the scale to the format, multiply the queries by it, round;
2. scores: scaled queries times quantized keys (`quantized_products`: a sum in the format), each group of query heads
   with its own key-value head;
3. mask: a masked score becomes the lowest finite value of the format, or an additive mask is added, as in `attention`;
4. weights: precise `softmax` over the row, round;
5. output: weights times quantized values, again a sum in the format.

The sum over keys in step 5 is trustworthy for at most 256 visible keys in bf16 and 2,048 in f16. Masked keys take part
with weight 0 and change nothing unless their values are infinite or NaN.

Shapes: B batch rows, H query heads, G key-value heads, L queries, S keys, D head size, E value size.
"""

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from kvlaw.reference.numerics.affine import Codes, dequantized
from kvlaw.reference.numerics.attention import Mask, masked, scaled_queries
from kvlaw.reference.numerics.formats import Bits, DType, Float32, decode, encode
from kvlaw.reference.numerics.quantized_products import multiply_rounding
from kvlaw.reference.numerics.softmax import softmax

KernelSet: TypeAlias = Literal["unfused"]
_Kernel: TypeAlias = Callable[[Float32, Float32, Float32, Mask, DType], Float32]


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
) -> Bits:
    """Attend ``queries`` to quantized ``keys`` and return the weighted ``values`` as bits of ``dtype``, [B, H, L, E].

    ``queries`` is [B, H, L, D], bits of ``dtype``; ``keys`` are codes of rows [B, G, S, D] with ``key_bits`` bits,
    ``values`` codes of rows [B, G, S, E] with ``value_bits`` bits, both in groups of ``group``, with H a multiple of G
    and S at least 1. ``scale`` and ``mask`` are those of `attention.attend`.

    Raises ValueError if shapes do not fit or there is no such kernel set, TypeError if an array is not of the bits of
    ``dtype``.
    """
    if kernel_set not in _KERNELS:
        raise ValueError(f"quantized attention has the kernel sets {', '.join(_KERNELS)}, got {kernel_set!r}")
    key_rows = dequantized(keys, dtype=dtype, bits=key_bits, group=group)
    value_rows = dequantized(values, dtype=dtype, bits=value_bits, group=group)
    _check_shapes(queries.shape, key_rows.shape, value_rows.shape)
    scaled = scaled_queries(decode(queries, dtype), scale, dtype)
    return encode(_KERNELS[kernel_set](scaled, key_rows, value_rows, mask, dtype), dtype)


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


_KERNELS: Final[dict[str, _Kernel]] = {"unfused": _unfused}
KERNEL_SETS: Final = tuple(_KERNELS)
