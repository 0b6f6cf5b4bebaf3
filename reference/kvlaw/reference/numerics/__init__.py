"""MLX's x86-64 CPU arithmetic in NumPy, bit for bit.

Read in this order: `formats` (bf16, f16 and f32 as bits, and how they round), `exponential`, `products` (matrix
products), `softmax`, `attention` (dense attention, which is made of the four before), `inputs` (the input families that
tests draw from). Codes have modules of their own: `packing`, `affine` (the codec), `quantized_products` and
`quantized_attention` (attention over codes, by every kernel set). So does the recurrence of linear attention:
`gated_delta`, whose gates need `logarithm`. Each module states the order of operations and every place where a value is
rounded: that is the whole model, because single float32 operations are the same on every IEEE machine.

It describes one build: the x86-64 Linux wheel of mlx 0.32. Whether the MLX that runs is such a build, the canary of the
conformance room finds out; where it is not, nothing here is compared with it.
"""

from kvlaw.reference.numerics.attention import Mask, attend, causal_mask, is_additive
from kvlaw.reference.numerics.formats import (
    DTYPES,
    Bits,
    DType,
    Float32,
    bits_dtype,
    decode,
    differing,
    encode,
    equal_bits,
    fma32,
    lowest,
    round_to,
)
from kvlaw.reference.numerics.inputs import FAMILY_NAMES, families, family

__all__ = [
    "DTYPES",
    "FAMILY_NAMES",
    "Bits",
    "DType",
    "Float32",
    "Mask",
    "attend",
    "bits_dtype",
    "causal_mask",
    "decode",
    "differing",
    "encode",
    "equal_bits",
    "families",
    "family",
    "fma32",
    "is_additive",
    "lowest",
    "round_to",
]
