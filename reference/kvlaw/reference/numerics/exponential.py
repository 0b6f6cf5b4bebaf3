"""The exponential of MLX's x86-64 CPU, bit for bit.

MLX does not call the C library. It writes e^x = 2^w * 2^f with w the nearest integer to x * log2(e) and f in
[-1/2, 1/2], takes 2^f from a polynomial of degree 6, and builds 2^w from the exponent bits of a float32. The polynomial
is evaluated by Horner's rule with fused multiply-adds. Against a correctly rounded exponential it is up to 16 units in
the last place off, so `np.exp` is no substitute: on [-20, 0] they differ in four of five values.

Results below 2^-126 are 0 rather than subnormal (from about x = -87.68 on), and above x = 88 the result is infinity.
Source: mlx/backend/cpu/simd/math.h, `exp`; measured over all f16 and bf16 inputs and every 1031st float32.
"""

from typing import Final

import numpy as np

from kvlaw.reference.numerics.formats import Float32, fma32

_LOG2_E: Final = np.float32(1.442695)
_HIGHEST_POWER_FIRST: Final = tuple(
    np.float32(coefficient)
    for coefficient in (
        1.535336188319500e-4,
        1.339887440266574e-3,
        9.618437357674640e-3,
        5.550332471162809e-2,
        2.402264791363012e-1,
        6.931472028550421e-1,
        1.0,
    )
)
_OVERFLOWS_ABOVE: Final = np.float32(88)
_VANISHES_BELOW: Final = np.float32(-88)
_EXPONENT_BIAS: Final = 127
_MANTISSA_BITS: Final = 23


def exponential(values: Float32) -> Float32:
    """Compute e^x of float32 ``values`` of any shape in float32, as MLX's CPU does."""
    with np.errstate(all="ignore"):
        scaled = np.asarray(values * _LOG2_E)
        # The constant 0.5 is a C double: this addition and its floor take place in float64.
        whole = np.floor(scaled.astype(np.float64) + 0.5).astype(np.float32)
        power_of_two = _power_of_two(whole)
        result = power_of_two * _two_to_the(scaled - whole)
        result = np.where(values > _OVERFLOWS_ABOVE, np.float32(np.inf), result)
        return np.where(values < _VANISHES_BELOW, np.float32(0), result)


def _two_to_the(fraction: Float32) -> Float32:
    """Evaluate the polynomial for 2^fraction, fraction in [-1/2, 1/2], one rounding for each power."""
    result = np.full(fraction.shape, _HIGHEST_POWER_FIRST[0], np.float32)
    for coefficient in _HIGHEST_POWER_FIRST[1:]:
        result = fma32(result, fraction, coefficient)
    return result


def _power_of_two(whole: Float32) -> Float32:
    """Build 2^whole for integral ``whole`` in [-126, 127] from exponent bits; -127 gives 0.

    Anything else, NaN included, gives 1: those results are replaced by infinity or 0, or are NaN already.
    """
    representable = np.abs(whole) <= np.float32(_EXPONENT_BIAS)
    exponent = np.where(representable, whole, np.float32(0)).astype(np.int32) + np.int32(_EXPONENT_BIAS)
    return np.left_shift(exponent, _MANTISSA_BITS).astype(np.int32).view(np.float32)
