"""Matrix products of MLX's x86-64 CPU, bit for bit: one running sum per result, in the order of the reduced index.

The wheel contains neither fused multiply-adds nor vector registers of several sums, and its BLAS is the plain reference
one. So each element of a product is

    total = +0;  for k = 0, 1, ..., K - 1:  total = float32(total + float32(left[k] * right[k]));  round once to dtype

whatever the layout of the operands, and zeros are multiplied like anything else (0 * infinity is NaN). `np.matmul`
sums in another order and differs in four of five float32 results.

Only k is sequential, so `multiply_matrices` moves k to the front and lets NumPy run over all other axes at once.
Products are formed for several k in one call, as many as a buffer in the processor's cache holds; the additions remain
one call for each k, which is what fixes their order.
"""

from typing import Final

import numpy as np

from kvlaw.reference.numerics.formats import DType, Float32, round_to

_BUFFERED_PRODUCTS: Final = 1 << 16


def multiply_matrices(left: Float32, right: Float32, dtype: DType) -> Float32:
    """Multiply ``left`` [N, M, K] by ``right`` [N, K, P] and return [N, M, P], rounded to ``dtype``.

    Operands and result are float32 arrays that hold values of ``dtype``. Raises ValueError if N or K disagree.
    """
    batches, rows, reduced = left.shape
    columns = right.shape[2]
    if right.shape[:2] != (batches, reduced):
        raise ValueError(f"cannot multiply [N, M, K] = {left.shape} by [N, K, P] = {right.shape}")
    left_first = np.ascontiguousarray(left.transpose(2, 0, 1))[:, :, :, np.newaxis]
    right_first = np.ascontiguousarray(right.transpose(1, 0, 2))[:, :, np.newaxis, :]
    total = np.zeros((batches, rows, columns), np.float32)
    with np.errstate(all="ignore"):
        _add_products(total, left_first, right_first)
    return round_to(total, dtype)


def _add_products(total: Float32, left: Float32, right: Float32) -> None:
    """Add left[k] * right[k] to ``total`` in place for k ascending; k is the first axis of both operands."""
    reduced = left.shape[0]
    step = max(1, min(reduced, _BUFFERED_PRODUCTS // max(1, total.size)))
    buffer = np.empty((step, *total.shape), np.float32)
    for start in range(0, reduced, step):
        products = buffer[: min(step, reduced - start)]
        np.multiply(left[start : start + step], right[start : start + step], out=products)
        for product in products:
            np.add(total, product, out=total)
