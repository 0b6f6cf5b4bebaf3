"""log(1 + x) for x in [0, 1] as MLX's x86-64 CPU gets it from the C library (glibc before 2.41), bit for bit.

glibc has fdlibm's algorithm: 1 + x = 2^k * (1 + f) with f from -0.2929 to 0.4143, a polynomial in (f / (2 + f))^2 for
log(1 + f), and k times ln 2 in two parts, which also takes up what 1 + x lost by rounding.  `np.log1p` is no
substitute: where NumPy has a vector routine of its own, one result in six differs in the last place.
Source: glibc 2.36, sysdeps/ieee754/flt-32/s_log1pf.c; measured against the library over every seventh number of [0, 1].
"""

from typing import Final

import numpy as np

from kvlaw.reference.numerics.formats import Float32

_TINY: Final = np.float32(2**-29)
_SQUARE_BELOW_THE_LAST_PLACE: Final = np.float32(2**-54)
_UNSHIFTED_BELOW: Final = np.array(0x3ED413D7, np.uint32).view(np.float32)
_ROOT_OF_TWO: Final = np.array(0x3FB504F7, np.uint32).view(np.float32)
_NEAR_TWO: Final = np.uint32(0x0080_0000 - 3)
_LN2_HIGH: Final = np.float32(6.9313812256e-01)
_LN2_LOW: Final = np.float32(9.0580006145e-06)
_HALF, _ONE, _TWO = np.float32(0.5), np.float32(1), np.float32(2)
_TWO_THIRDS: Final = np.float32(0.66666666666666666)
_HIGHEST_POWER_FIRST: Final = tuple(
    np.array(bits, np.uint32).view(np.float32)
    for bits in (0x3E178897, 0x3E1CD04F, 0x3E3A3325, 0x3E638E29, 0x3E924925, 0x3ECCCCCD, 0x3F2AAAAB)
)


def log_of_one_plus(values: Float32) -> Float32:
    """Compute log(1 + x) of float32 ``values`` in [0, 1], of any shape; NaN stays NaN."""
    with np.errstate(all="ignore"):
        tiny = np.where(values < _SQUARE_BELOW_THE_LAST_PLACE, values, values - values * values * _HALF)
        unshifted = _unshifted(values)
        result = np.where(values < _UNSHIFTED_BELOW, unshifted, _shifted(values))
        return np.where(values < _TINY, tiny, result)


def _unshifted(values: Float32) -> Float32:
    """Take 1 + x as 1 + f."""
    square: Float32 = np.multiply(_HALF * values, values)
    result: Float32 = np.subtract(values, square - _rest(values, square))
    return result


def _shifted(values: Float32) -> Float32:
    """Take 1 + x as 2 * (1 + f): f is negative, or 0 where 1 + x rounds to 2, and few are left below."""
    total = values + _ONE
    lost = np.where(total >= _TWO, _ONE - (total - values), values - (total - _ONE)) / total
    fraction = total * _HALF - _ONE
    near_two = (total.view(np.uint32) & np.uint32(0x007F_FFFF)) >= _NEAR_TWO
    square: Float32 = np.multiply(_HALF * fraction, fraction)
    short = square * (_ONE - _TWO_THIRDS * fraction)
    of_near_two = _LN2_HIGH - ((short - (_LN2_LOW + lost)) - fraction)
    by_polynomial = _LN2_HIGH - ((square - (_rest(fraction, square) + (_LN2_LOW + lost))) - fraction)
    result = np.where(near_two, of_near_two, by_polynomial)
    result = np.where(total >= _TWO, _LN2_HIGH + (lost + _LN2_LOW), result)
    return np.where(total < _ROOT_OF_TWO, _unshifted(total - _ONE), result)


def _rest(fraction: Float32, square: Float32) -> Float32:
    """Return log(1 + f) - f + ``square`` of f = ``fraction``, where ``square`` is f^2 / 2."""
    ratio: Float32 = np.divide(fraction, _TWO + fraction)
    power = np.multiply(ratio, ratio)
    polynomial = _HIGHEST_POWER_FIRST[0]
    for coefficient in _HIGHEST_POWER_FIRST[1:]:
        polynomial = coefficient + power * polynomial
    rest: Float32 = np.multiply(ratio, square + power * polynomial)
    return rest
