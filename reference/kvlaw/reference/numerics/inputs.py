"""Thirty families of inputs, ordinary and adversarial, as bits of any format.

They are plain numbers, ties, nearly equal numbers, zeros of both signs, the tiny and the huge, infinities, NaNs and
random bits: what arithmetic goes wrong on. `families` yields all of them for one shape, `family` one by name;
`FAMILY_NAMES` fixes their order. All are drawn from the generator that is passed in and from nothing else.
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from kvlaw.reference.numerics.formats import Bits, DType, Float32, bits_dtype, decode, encode

Shape: TypeAlias = tuple[int, ...]
_Maker: TypeAlias = Callable[[Generator, Shape, DType], Float32]

_HUGE: Final[dict[DType, float]] = {"bf16": 1e37, "f16": 2e4, "f32": 1e37}
_TINY: Final[dict[DType, float]] = {"bf16": 1e-40, "f16": 3e-7, "f32": 1e-40}


def families(rng: Generator, shape: Shape, dtype: DType) -> Iterator[tuple[str, Bits]]:
    """Yield (name, bits) for each of the thirty families, arrays of ``shape`` in ``dtype``."""
    for name in FAMILY_NAMES:
        yield name, family(name, rng, shape, dtype)


def family(name: str, rng: Generator, shape: Shape, dtype: DType) -> Bits:
    """Draw one array of ``shape`` from the family ``name`` as bits of ``dtype``; KeyError if there is none such."""
    return encode(_MAKERS[name](rng, shape, dtype), dtype)


def random_bits(rng: Generator, shape: Shape, dtype: DType) -> Bits:
    """Draw bit patterns of ``dtype`` uniformly, NaNs and infinities among them."""
    integer = bits_dtype(dtype)
    return rng.integers(0, int(np.iinfo(integer).max), shape, dtype=integer, endpoint=True)


def _float32(values: ArrayLike) -> Float32:
    """Narrow to float32, overflow to infinity being meant here."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(values, np.float32)


def _normal(factor: float) -> _Maker:
    """Make the family of standard normal numbers times ``factor``."""
    return lambda rng, shape, _dtype: _float32(rng.standard_normal(shape) * factor)


def _constant(value: float) -> _Maker:
    """Make the family that holds ``value`` everywhere."""
    return lambda _rng, shape, _dtype: np.full(shape, value, np.float32)


def _near(centre: float) -> _Maker:
    """Make the family of numbers within 0.01 of ``centre``, away from 0: nearly equal numbers of one sign."""
    return lambda rng, shape, _dtype: _float32(centre + np.copysign(0.01, centre) * rng.random(shape))


def _strewn(share: float, *specials: float) -> _Maker:
    """Make the family of normal numbers, each of ``specials`` put on a random ``share`` of the places."""

    def make(rng: Generator, shape: Shape, _dtype: DType) -> Float32:
        values = _float32(rng.standard_normal(shape))
        for special in specials:
            values[rng.random(shape) < share] = special
        return values

    return make


def _steps(bound: int, divisor: int) -> _Maker:
    """Make the family of multiples of 1 / ``divisor`` in [-bound, bound] / divisor, which tie often."""
    return lambda rng, shape, _dtype: _float32(rng.integers(-bound, bound + 1, shape) / divisor)


def _uniform(rng: Generator, shape: Shape, _dtype: DType) -> Float32:
    """Draw uniformly from [0, 1)."""
    return _float32(rng.random(shape))


def _signed_zeros(rng: Generator, shape: Shape, _dtype: DType) -> Float32:
    """Draw +0 and -0 with equal chance."""
    return _float32(np.where(rng.random(shape) < 0.5, -0.0, 0.0))


def _zeros_and_tiny(rng: Generator, shape: Shape, dtype: DType) -> Float32:
    """Draw -0 or a subnormal number with equal chance."""
    return _float32(np.where(rng.random(shape) < 0.5, -0.0, rng.standard_normal(shape) * _TINY[dtype]))


def _row_constants(rng: Generator, shape: Shape, _dtype: DType) -> Float32:
    """Draw one normal number for each row of the last axis."""
    return _float32(np.broadcast_to(rng.standard_normal((*shape[:-1], 1)), shape))


def _tiny(rng: Generator, shape: Shape, dtype: DType) -> Float32:
    """Draw normal numbers times a factor below the format's normal range."""
    return _float32(rng.standard_normal(shape) * _TINY[dtype])


def _huge(rng: Generator, shape: Shape, dtype: DType) -> Float32:
    """Draw normal numbers times a factor near the top of the format's range."""
    return _float32(rng.standard_normal(shape) * _HUGE[dtype])


def _two_valued(rng: Generator, shape: Shape, _dtype: DType) -> Float32:
    """Draw -1.5 or 1.5 with equal chance."""
    return _float32(np.where(rng.random(shape) < 0.5, -1.5, 1.5))


def _one_hot_huge(rng: Generator, shape: Shape, dtype: DType) -> Float32:
    """Put one huge number on about one place in a hundred, 0 elsewhere."""
    return _float32(np.where(rng.random(shape) < 0.01, _HUGE[dtype], 0))


def _sparse(rng: Generator, shape: Shape, _dtype: DType) -> Float32:
    """Put a normal number on about one place in twenty, 0 elsewhere."""
    return _float32(np.where(rng.random(shape) < 0.05, rng.standard_normal(shape), 0))


def _any_bits(rng: Generator, shape: Shape, dtype: DType) -> Float32:
    """Draw any bit pattern."""
    return decode(random_bits(rng, shape, dtype), dtype)


def _finite_bits(rng: Generator, shape: Shape, dtype: DType) -> Float32:
    """Draw any bit pattern of a finite number, with 1 in place of the others."""
    values = decode(random_bits(rng, shape, dtype), dtype)
    return np.where(np.isfinite(values), values, np.float32(1))


def _random_exponent(rng: Generator, shape: Shape, _dtype: DType) -> Float32:
    """Draw normal numbers of very different magnitude, 2^-12 to 2^11."""
    return _float32(rng.standard_normal(shape) * np.exp2(rng.integers(-12, 12, shape)))


_MAKERS: Final[dict[str, _Maker]] = {
    "normal": _normal(1),
    "normal * 1e-3": _normal(1e-3),
    "normal * 100": _normal(100),
    "uniform": _uniform,
    "just above 3": _near(3),
    "just below -3": _near(-3),
    "halves": _steps(20, 2),
    "sixteenths": _steps(128, 16),
    "zeros": _constant(0),
    "zeros of both signs": _signed_zeros,
    "-0 and tiny": _zeros_and_tiny,
    "constant": _constant(0.7),
    "negative constant": _constant(-0.7),
    "row constants": _row_constants,
    "normal * 1e-7": _normal(1e-7),
    "normal * 1e-6": _normal(1e-6),
    "tiny": _tiny,
    "huge": _huge,
    "two-valued": _two_valued,
    "one-hot huge": _one_hot_huge,
    "sparse": _sparse,
    "some infinity": _strewn(0.01, np.inf),
    "some -infinity": _strewn(0.01, -np.inf),
    "some NaN": _strewn(0.01, np.nan),
    "all NaN": _constant(np.nan),
    "all infinity": _constant(np.inf),
    "infinities and NaN": _strewn(0.02, np.inf, -np.inf, np.nan),
    "any bits": _any_bits,
    "finite bits": _finite_bits,
    "any exponent": _random_exponent,
}

FAMILY_NAMES: Final = tuple(_MAKERS)
