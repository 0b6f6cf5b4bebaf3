"""Matrix products with a quantized right operand, of MLX's x86-64 CPU, bit for bit.

MLX's loop has one accumulator of the operands' own format and rounds everywhere:

    total = +0;  for k = 0, 1, ..., K - 1:  total = T(total + T(left[k] * T(T(code[k] * scale) + bias)))

where T rounds to the format. So in bf16 and f16 a product with codes is *not* the product with the dequantized matrix,
whose sum stays in float32: four of five results differ. In f32 the two agree.

A sum kept in the format also stands still once its terms are below half a unit in its last place: the mean of n equal
values by weights 1 / n is right up to n = 256 in bf16 and 2,048 in f16, and gets too small beyond (1/2 of the value for
512 keys in bf16). Such results are still reproduced here, but say little about attention.

Source: mlx/backend/cpu/quantized.cpp, `_qmm` and `_qmm_t`; measured on mlx 0.32.4, x86-64 Linux.
"""

from typing import Final

import numpy as np

from kvlaw.reference.numerics.affine import Codes, dequantized
from kvlaw.reference.numerics.formats import Bits, DType, Float32, decode, encode, round_to
from kvlaw.reference.numerics.products import multiply_matrices

_BUFFERED_PRODUCTS: Final = 1 << 16


def multiply_by_codes(left: Bits, codes: Codes, *, dtype: DType, bits: int, group: int, transpose: bool = True) -> Bits:
    """Multiply ``left`` by the matrix that ``codes`` stand for: `mx.quantized_matmul`, as bits of ``dtype``.

    ``left`` is [..., M, K]. Rows of ``codes`` are [..., P, K], and multiplied as columns, if ``transpose``, else
    [..., K, P]; leading axes are the same on both sides. The result is [..., M, P].

    Raises ValueError if shapes do not fit, TypeError if an array is not of the bits of ``dtype``.
    """
    rows = dequantized(codes, dtype=dtype, bits=bits, group=group)
    right = rows.swapaxes(-1, -2) if transpose else rows
    if left.ndim != right.ndim or left.ndim < 2 or left.shape[:-2] != right.shape[:-2]:
        raise ValueError(f"cannot multiply [..., M, K] = {left.shape} by [..., K, P] = {right.shape}")
    product = multiply_rounding(
        decode(left, dtype).reshape(-1, *left.shape[-2:]), right.reshape(-1, *right.shape[-2:]), dtype
    )
    return encode(product.reshape(*left.shape[:-1], right.shape[-1]), dtype)


def multiply_rounding(left: Float32, right: Float32, dtype: DType) -> Float32:
    """Multiply ``left`` [N, M, K] by ``right`` [N, K, P], every product and every sum rounded to ``dtype``.

    Operands and result are float32 arrays that hold values of ``dtype``. Raises ValueError if N or K disagree.
    """
    if dtype == "f32":
        return multiply_matrices(left, right, dtype)
    batches, rows, reduced = left.shape
    if right.shape[:2] != (batches, reduced):
        raise ValueError(f"cannot multiply [N, M, K] = {left.shape} by [N, K, P] = {right.shape}")
    left_first = np.ascontiguousarray(left.transpose(2, 0, 1))[:, :, :, np.newaxis]
    right_first = np.ascontiguousarray(right.transpose(1, 0, 2))[:, :, np.newaxis, :]
    total = np.zeros((batches, rows, right.shape[2]), np.float32)
    step = max(1, _BUFFERED_PRODUCTS // max(1, total.size))
    with np.errstate(all="ignore"):
        for start in range(0, reduced, step):
            products = left_first[start : start + step] * right_first[start : start + step]
            for product in round_to(products, dtype):
                total = round_to(total + product, dtype)
    return total
