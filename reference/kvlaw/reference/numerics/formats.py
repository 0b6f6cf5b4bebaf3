"""The three storage formats as bits: bfloat16, float16 and float32, converted the way MLX's x86-64 CPU converts.

Every tensor that crosses a boundary of kvlaw is an array of unsigned integers, the bits of its elements: np.uint16 for
``bf16`` and ``f16``, np.uint32 for ``f32``. Between two boundaries an operation works on float32 arrays, which hold
every value of the three formats exactly. The functions here are the only way from the one to the other:

* `decode` widens bits to float32, which is exact; `encode` narrows float32 to bits, nearest value, ties to even;
* `round_to` is both in one, float32 to float32: the rounding that an operation in that format applies to its result;
* `lowest` is the lowest finite value, which stands for "masked" in an attention score;
* `fma32` is a multiply-add with one rounding, which NumPy lacks;
* `equal_bits` compares results: the same bits, or NaN on both sides. The sign and payload of a NaN that arithmetic
  produced depend on the operand order inside the processor, so no two right implementations need to agree on them.

Narrowing forgets most of a NaN: bf16 keeps 0x7FC0 alone, f16 keeps the sign and makes it sign | 0x7D00.
Source: measured on mlx 0.32.4, x86-64 Linux.
"""

from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

DType: TypeAlias = Literal["bf16", "f16", "f32"]
Bits: TypeAlias = NDArray[np.unsignedinteger[Any]]
Float32: TypeAlias = NDArray[np.float32]

DTYPES: Final[tuple[DType, ...]] = ("bf16", "f16", "f32")

_SIGN: Final = np.uint32(0x8000_0000)
_BF16_NAN: Final = np.uint16(0x7FC0)
_F16_NAN: Final = np.uint16(0x7D00)
_F32_QUIET_NAN: Final = np.uint32(0x7FC0_0000)
_F16_NAN_AS_F32: Final = np.uint32(0x7FE0_0000)
_F16_LEAST_NORMAL: Final = np.float32(2**-14)
_F16_GREATEST: Final = np.float32(65504)
_HALF: Final = np.float32(0.5)
_LOWEST_BITS: Final[dict[DType, int]] = {"bf16": 0xFF7F, "f16": 0xFBFF, "f32": 0xFF7F_FFFF}
# A float64 that lies halfway between two float32 numbers, subnormal ones included, has at least these bits clear.
_CLEAR_IN_A_TIE: Final = np.uint64((1 << 28) - 1)


def bits_dtype(dtype: DType) -> type[np.uint16] | type[np.uint32]:
    """Return the unsigned integer type that holds the bits of one element of ``dtype``."""
    return np.uint32 if dtype == "f32" else np.uint16


def decode(bits: Bits, dtype: DType) -> Float32:
    """Widen raw bits of any shape to float32, exactly.

    A NaN keeps its sign and payload; a signalling f16 NaN becomes quiet. For f32 the result is a view of ``bits``.

    Raises TypeError if ``bits`` is not of the integer type that `bits_dtype` names.
    """
    raw = _checked(bits, dtype)
    if dtype == "f32":
        return raw.view(np.float32)
    if dtype == "bf16":
        return np.left_shift(raw, 16, dtype=np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        values = raw.view(np.float16).astype(np.float32)
    return _with_f16_nans(values, raw)


def encode(values: ArrayLike, dtype: DType) -> Bits:
    """Narrow float32 ``values`` of any shape to raw bits: nearest value, ties to even, overflow to infinity."""
    floats = np.asarray(values, np.float32, order="C")
    if dtype == "f32":
        return floats.view(np.uint32)
    if dtype == "bf16":
        return np.right_shift(_rounded_to_bf16(floats), 16).astype(np.uint16)
    with np.errstate(all="ignore"):
        bits = floats.astype(np.float16).view(np.uint16)
    sign = np.right_shift(floats.view(np.uint32) & _SIGN, 16).astype(np.uint16)
    return np.where(np.isnan(floats), sign | _F16_NAN, bits)


def round_to(values: Float32, dtype: DType) -> Float32:
    """Round float32 ``values`` to the nearest value of ``dtype`` and hand that back as float32."""
    if dtype == "f32":
        return np.asarray(values, np.float32)
    floats = np.asarray(values, np.float32, order="C")
    return _rounded_to_bf16(floats).view(np.float32) if dtype == "bf16" else _rounded_to_f16(floats)


def lowest(dtype: DType) -> np.float32:
    """Return the lowest finite value of ``dtype``, as float32."""
    return np.float32(decode(np.array(_LOWEST_BITS[dtype], bits_dtype(dtype)), dtype))


def fma32(left: ArrayLike, right: ArrayLike, addend: ArrayLike) -> Float32:
    """Compute left * right + addend in float32 with a single rounding, elementwise with broadcasting.

    The product of two float32 numbers is exact in float64, and their float64 sum with the addend is rounded once.
    Rounding that again to float32 is wrong only if the first rounding landed on a tie of the second. Those few elements
    are repeated with the first rounding *to odd*, which is never a tie unless the sum is exact.
    """
    with np.errstate(all="ignore"):
        product = np.asarray(left, np.float64) * np.asarray(right, np.float64)
        addend64 = np.asarray(addend, np.float64)
        total = np.asarray(product + addend64)
        result = np.asarray(total.astype(np.float32))
        doubtful = ((total.view(np.uint64) & _CLEAR_IN_A_TIE) == 0) & (result != total)
        if doubtful.any():
            product, addend64 = np.broadcast_arrays(product, addend64)
            result[doubtful] = _sum_to_odd(product[doubtful], addend64[doubtful]).astype(np.float32)
        return result


def equal_bits(first: Bits, second: Bits, dtype: DType) -> bool:
    """Tell whether two bit arrays have the same shape and the same bits, where any NaN equals any NaN."""
    return first.shape == second.shape and not bool(differing(first, second, dtype).any())


def differing(first: Bits, second: Bits, dtype: DType) -> NDArray[np.bool_]:
    """Mark the elements of two bit arrays of one shape that differ, where any NaN equals any NaN."""
    both_nan = np.isnan(decode(first, dtype)) & np.isnan(decode(second, dtype))
    return (first != second) & ~both_nan


def _checked(bits: Bits, dtype: DType) -> Bits:
    """Return ``bits`` in C order, or raise TypeError if their type is not the one of ``dtype``."""
    if bits.dtype != bits_dtype(dtype):
        raise TypeError(f"{dtype} bits are {bits_dtype(dtype).__name__}, got an array of {bits.dtype}")
    return np.asarray(bits, order="C")


def _rounded_to_bf16(floats: Float32) -> NDArray[np.uint32]:
    """Return the float32 bits of the nearest bf16 value: 16 low bits clear, ties to even, every NaN 0x7FC00000."""
    bits = floats.view(np.uint32)
    rounded = np.right_shift(bits, 16)
    rounded &= np.uint32(1)
    rounded += np.uint32(0x7FFF)
    rounded += bits
    rounded &= np.uint32(0xFFFF_0000)
    return np.where(np.isnan(floats), np.uint32(_BF16_NAN) << np.uint32(16), rounded)


def _rounded_to_f16(floats: Float32) -> Float32:
    """Return the nearest f16 value, as `decode` of `encode` does, without NumPy's slow conversion of tiny numbers.

    A normal f16 number has 13 of a float32's low bits clear. A subnormal one is a multiple of 2^-24, the distance of
    the float32 numbers from 1/2 to 1, among which an addition of 1/2 rounds it.
    """
    magnitude = np.abs(np.atleast_1d(floats))
    bits = magnitude.view(np.uint32)
    rounded = np.right_shift(bits, 13)
    rounded &= np.uint32(1)
    rounded += np.uint32(0xFFF)
    rounded += bits
    rounded &= np.uint32(0xFFFF_E000)
    result = rounded.view(np.float32)
    with np.errstate(all="ignore"):
        np.copyto(result, (magnitude + _HALF) - _HALF, where=magnitude < _F16_LEAST_NORMAL)
        np.copyto(result, np.float32(np.inf), where=result > _F16_GREATEST)
        np.copyto(result, _F16_NAN_AS_F32.view(np.float32), where=np.isnan(magnitude))
    signed = result.view(np.uint32).reshape(floats.shape) | (floats.view(np.uint32) & _SIGN)
    return np.asarray(signed).view(np.float32)


def _with_f16_nans(values: Float32, raw: Bits) -> Float32:
    """Put the widened f16 NaNs in place, quiet with sign and payload kept, whatever the processor made of them."""
    nan = np.isnan(values)
    if not nan.any():
        return values
    payload = raw[nan].astype(np.uint32)
    sign = np.left_shift(payload & np.uint32(0x8000), 16)
    values.view(np.uint32)[nan] = sign | _F32_QUIET_NAN | np.left_shift(payload & np.uint32(0x3FF), 13)
    return values


def _sum_to_odd(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Add float64 arrays, rounding an inexact sum to the neighbour whose last bit is 1 (Knuth's two-sum error)."""
    total = first + second
    shadow = total - first
    error = (first - (total - shadow)) + (second - shadow)
    even = (total.view(np.uint64) & np.uint64(1)) == 0
    towards = np.where(error > 0, np.inf, -np.inf)
    return np.where(np.isfinite(total) & (error != 0) & even, np.nextafter(total, towards), total)
