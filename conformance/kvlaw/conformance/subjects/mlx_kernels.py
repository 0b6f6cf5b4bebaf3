"""kvlaw's own kernels for attention over codes, on raw bits: what the campaigns of every kernel set ask.

The function has the signature of `kvlaw.reference.numerics.quantized_attention.attend_quantized`. As in
`mlx_arithmetic`, it runs on MLX's default device, returns a copy, and imports MLX only when it is called.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from kvlaw.conformance.subjects.mlx_arithmetic import from_mlx, to_mlx
from kvlaw.conformance.subjects.mlx_codec import codes_to_mlx
from kvlaw.reference.numerics import Bits, DType, Mask, is_additive
from kvlaw.reference.numerics.affine import Codes
from kvlaw.reference.numerics.attention import causal_mask
from kvlaw.reference.numerics.quantized_attention import KernelSet

if TYPE_CHECKING:
    from kvlaw.mlx_impl.kernels import HiddenBy
    from kvlaw.mlx_impl.masks import Meaning


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
    """Attend ``queries`` to quantized keys and values by the kernel that the set has for what ``mask`` means.

    Raises ValueError for a mask that no cache makes: an additive one, or one of another shape than [L, S].
    """
    from kvlaw.mlx_impl.codec import make_codec
    from kvlaw.mlx_impl.kernels import Coded, make_kernels

    given, codec = to_mlx(queries, dtype), make_codec(key_bits, value_bits, group)
    kernels = make_kernels(kernel_set, codec, given.dtype)
    meaning = _meaning(mask, queries.shape[2], keys.words.shape[2], alone=alone)
    read = Coded(codes_to_mlx(keys, dtype), codes_to_mlx(values, dtype), codec)
    return from_mlx(kernels.choose(meaning)(given, read, scale, _hidden_by(mask)))


def _meaning(mask: Mask, length: int, width: int, *, alone: bool) -> "Meaning":
    """Say what a cache's mask with these entries means."""
    if alone:
        return "decode"
    causal = causal_mask(length, width)
    visible = causal if isinstance(mask, str) else np.ones_like(causal) if mask is None else mask
    return "causal" if np.array_equal(visible, causal) else "masked"


def _hidden_by(mask: Mask) -> "HiddenBy":
    """Write a mask as kernels take it."""
    import mlx.core as mx

    if mask is None or isinstance(mask, str):
        return mask
    if is_additive(mask) or mask.ndim != 2:
        raise ValueError(f"kernels take bool masks [L, S], got {mask.dtype} {list(mask.shape)}")
    visible: Any = mask  # MLX takes NumPy arrays, but its stubs leave them out
    return mx.array(visible)
