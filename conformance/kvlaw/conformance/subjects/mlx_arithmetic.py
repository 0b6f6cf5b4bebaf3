"""The operations of MLX that the reference models, on raw bits: what the canary and the attention campaign ask.

The functions have the signatures of `kvlaw.reference.numerics`, so that one stands for the other in a comparison. They
run on MLX's default device, as the caches under test do, and return copies: an array that merely looks into MLX's
memory would change or dangle when that memory is reused. MLX is imported when a function is called: a vendor without
an MLX wheel checks other targets, and this module is imported all the same.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from kvlaw.reference.numerics import Bits, DType, Mask, bits_dtype, is_additive

if TYPE_CHECKING:
    import mlx.core as mx


def to_mlx(bits: Bits, dtype: DType) -> "mx.array":
    """Hand ``bits`` of any shape to MLX as an array of ``dtype``, every bit as it is."""
    import mlx.core as mx

    formats = {"bf16": mx.bfloat16, "f16": mx.float16, "f32": mx.float32}
    return mx.array(np.ascontiguousarray(bits, bits_dtype(dtype))).view(formats[dtype])


def from_mlx(array: "mx.array") -> Bits:
    """Return a copy of the bits of an MLX array in bfloat16, float16 or float32."""
    import mlx.core as mx

    unsigned: Any = array.view(mx.uint32 if array.dtype == mx.float32 else mx.uint16)
    return np.array(unsigned)


def exponential(values: Bits, dtype: DType) -> Bits:
    """Compute e^x of ``values`` of any shape."""
    import mlx.core as mx

    return from_mlx(mx.exp(to_mlx(values, dtype)))


def multiply_matrices(left: Bits, right: Bits, dtype: DType) -> Bits:
    """Multiply ``left`` [..., M, K] by ``right`` [..., K, P], which MLX gets as stored, row after row."""
    return from_mlx(to_mlx(left, dtype) @ to_mlx(right, dtype))


def multiply_by_transposed(left: Bits, right: Bits, dtype: DType) -> Bits:
    """Multiply ``left`` [..., M, K] by ``right`` [..., K, P], which MLX gets as the transpose of stored columns."""
    columns = to_mlx(right.swapaxes(-1, -2), dtype)
    return from_mlx(to_mlx(left, dtype) @ columns.swapaxes(-1, -2))


def softmax(scores: Bits, dtype: DType) -> Bits:
    """Compute the precise softmax of ``scores`` over the last axis."""
    import mlx.core as mx

    return from_mlx(mx.softmax(to_mlx(scores, dtype), axis=-1, precise=True))


def attend(
    queries: Bits,
    keys: Bits,
    values: Bits,
    *,
    scale: float,
    mask: Mask,
    dtype: DType,
    sink_logits: Bits | None = None,
) -> Bits:
    """Attend ``queries`` [B, H, L, D] to ``keys`` [B, G, S, D]; see `kvlaw.reference.numerics.attend`."""
    import mlx.core as mx

    output = mx.fast.scaled_dot_product_attention(
        to_mlx(queries, dtype),
        to_mlx(keys, dtype),
        to_mlx(values, dtype),
        scale=scale,
        mask=_mlx_mask(mask, dtype),
        sinks=None if sink_logits is None else to_mlx(sink_logits, dtype),
    )
    return from_mlx(output)


def _mlx_mask(mask: Mask, dtype: DType) -> "mx.array | str | None":
    """Turn a mask of the reference into one that MLX takes."""
    import mlx.core as mx

    if mask is None or isinstance(mask, str):
        return mask
    if is_additive(mask):
        return to_mlx(mask, dtype)
    visible: Any = mask  # MLX takes NumPy arrays, but its stubs leave them out
    return mx.array(visible)
