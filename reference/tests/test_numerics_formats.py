"""Rounding, NaN encodings and the fused multiply-add against exact rational arithmetic."""

import bisect
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from kvlaw.reference.numerics import (
    DTYPES,
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

HALVES: tuple[DType, ...] = ("bf16", "f16")
EXPONENT_BITS = {"bf16": 0x7F80, "f16": 0x7C00}
FLOAT32_BITS = st.integers(0, 2**32 - 1)

exhaustively = settings(max_examples=400, deadline=None, database=None)


def float32(bits: int) -> Float32:
    return np.array(bits, np.uint32).view(np.float32)


def all_halves() -> NDArray[np.uint16]:
    return np.arange(1 << 16, dtype=np.uint16)


# Written by hand: value, its bits in the format. u is the spacing of the format's numbers just above 1.
BF16 = [
    (1.0, 0x3F80),
    (-2.0, 0xC000),
    (0.0, 0x0000),
    (-0.0, 0x8000),
    (1 + 2**-8, 0x3F80),  # tie of 1 and 1 + u, u = 2^-7: to the even 1
    (1 + 3 * 2**-8, 0x3F82),  # tie of 1 + u and 1 + 2u: to the even 1 + 2u
    (1 + 2**-8 + 2**-23, 0x3F81),  # one float32 step above the tie
    (1 + 2**-8 - 2**-23, 0x3F80),  # one below
    (2**-133, 0x0001),  # the smallest subnormal
    (2**-134, 0x0000),  # tie of 0 and the smallest subnormal
    (3 * 2**-134, 0x0002),
    (-(2**-149), 0x8000),
    (float("inf"), 0x7F80),
]
F16 = [
    (1.0, 0x3C00),
    (-2.0, 0xC000),
    (-0.0, 0x8000),
    (1 + 2**-11, 0x3C00),  # tie, u = 2^-10
    (1 + 3 * 2**-11, 0x3C02),
    (1 + 2**-11 + 2**-23, 0x3C01),
    (65504.0, 0x7BFF),
    (65519.0, 0x7BFF),
    (65520.0, 0x7C00),  # tie of 65504 and what would be 65536: to infinity
    (-1e9, 0xFC00),
    (2**-24, 0x0001),
    (2**-25, 0x0000),
    (3 * 2**-25, 0x0002),
    (2**-14 - 2**-25, 0x0400),  # tie of the largest subnormal and the smallest normal number
    (float("-inf"), 0xFC00),
]


@pytest.mark.parametrize(("value", "bits"), BF16)
def test_bf16_rounds_to_the_nearest_and_ties_to_even(value: float, bits: int) -> None:
    assert int(encode(np.float32(value), "bf16")) == bits


@pytest.mark.parametrize(("value", "bits"), F16)
def test_f16_rounds_to_the_nearest_and_ties_to_even(value: float, bits: int) -> None:
    assert int(encode(np.float32(value), "f16")) == bits


@pytest.mark.parametrize(("bits", "bf16"), [(0x7F7F_7FFF, 0x7F7F), (0x7F7F_8000, 0x7F80), (0xFF7F_FFFF, 0xFF80)])
def test_bf16_overflows_to_infinity_from_the_tie_above_its_largest_number(bits: int, bf16: int) -> None:
    assert int(encode(float32(bits), "bf16")) == bf16


@pytest.mark.parametrize("bits", [0x7FC0_0000, 0xFFC0_0000, 0x7F80_0001, 0xFF80_0001, 0x7FFF_FFFF, 0xFFFF_FFFF])
def test_a_narrowed_nan_keeps_no_payload_and_only_in_f16_its_sign(bits: int) -> None:
    sign = 0x8000 if bits >> 31 else 0
    assert int(encode(float32(bits), "bf16")) == 0x7FC0
    assert int(encode(float32(bits), "f16")) == sign | 0x7D00
    assert int(encode(float32(bits), "f32")) == bits


@pytest.mark.parametrize(
    ("dtype", "bits", "float32_bits"),
    [
        ("bf16", 0x7F81, 0x7F81_0000),  # bf16 is the upper half of float32: nothing changes
        ("bf16", 0xFFFF, 0xFFFF_0000),
        ("f16", 0x7D00, 0x7FE0_0000),  # quiet bit set, payload 0x100 moved up by 13
        ("f16", 0xFC01, 0xFFC0_2000),
        ("f16", 0x7E00, 0x7FC0_0000),
        ("f32", 0x7F80_0001, 0x7F80_0001),
    ],
)
def test_a_widened_nan_keeps_sign_and_payload(dtype: DType, bits: int, float32_bits: int) -> None:
    widened = decode(np.array([bits], bits_dtype(dtype)), dtype)
    assert int(widened.view(np.uint32)[0]) == float32_bits


@pytest.mark.parametrize(("dtype", "value"), [("bf16", -(2.0**128 - 2.0**120)), ("f16", -65504.0)])
def test_lowest_is_the_lowest_finite_number(dtype: DType, value: float) -> None:
    assert float(lowest(dtype)) == value


def test_the_lowest_f32_is_the_lowest_float32() -> None:
    assert lowest("f32") == np.finfo(np.float32).min


@pytest.mark.parametrize("dtype", HALVES)
def test_every_half_number_survives_widening_and_narrowing(dtype: DType) -> None:
    bits = all_halves()
    numbers = bits[(bits & 0x7FFF) <= EXPONENT_BITS[dtype]]
    assert numbers.size == 2 * (EXPONENT_BITS[dtype] + 1)
    assert np.array_equal(encode(decode(numbers, dtype), dtype), numbers)


@pytest.mark.parametrize("dtype", HALVES)
def test_every_half_widens_to_the_number_that_its_bits_spell(dtype: DType) -> None:
    mantissa_bits, bias = {"bf16": (7, 127), "f16": (10, 15)}[dtype]
    bits = np.arange(EXPONENT_BITS[dtype], dtype=np.uint16)
    exponent, mantissa = (bits >> mantissa_bits).astype(int), (bits & ((1 << mantissa_bits) - 1)).astype(int)
    implied = np.where(exponent > 0, 1 << mantissa_bits, 0)
    spelled = np.ldexp((implied + mantissa).astype(float), np.maximum(exponent, 1) - bias - mantissa_bits)
    assert np.array_equal(decode(bits, dtype), spelled)
    assert np.array_equal(decode(bits | np.uint16(0x8000), dtype), -spelled)


@cache
def positive_numbers(dtype: DType) -> list[float]:
    """All positive finite numbers of a half format and 0, ascending, at the index that is their bit pattern."""
    return decode(np.arange(EXPONENT_BITS[dtype], dtype=np.uint16), dtype).astype(float).tolist()


def nearest_half(value: float, dtype: DType) -> int:
    """The bit pattern of the number nearest to a positive ``value``, in exact arithmetic."""
    numbers = positive_numbers(dtype)
    above = bisect.bisect_left(numbers, value)
    if above == len(numbers):
        halfway = Fraction(numbers[-1]) + (Fraction(numbers[-1]) - Fraction(numbers[-2])) / 2
        return above if Fraction(value) >= halfway else above - 1
    if numbers[above] == value:
        return above
    to_below, to_above = Fraction(value) - Fraction(numbers[above - 1]), Fraction(numbers[above]) - Fraction(value)
    if to_below == to_above:
        return above - above % 2
    return above if to_above < to_below else above - 1


@pytest.mark.parametrize("dtype", HALVES)
@seed(0)
@exhaustively
@given(bits=FLOAT32_BITS, coarse=st.booleans())
def test_narrowing_picks_the_nearest_number(dtype: DType, bits: int, coarse: bool) -> None:
    # Half of the patterns end in zeros, so that ties of both formats are frequent.
    value = float32(bits & 0xFFFF_F000 if coarse else bits)
    if np.isnan(value):
        return
    sign = 0x8000 if bits >> 31 else 0
    expected = EXPONENT_BITS[dtype] if np.isinf(value) else nearest_half(abs(float(value)), dtype)
    assert int(encode(value, dtype)) == sign | expected


@pytest.mark.parametrize("dtype", DTYPES)
@seed(0)
@exhaustively
@given(bits=st.lists(FLOAT32_BITS, min_size=1, max_size=9))
def test_round_to_is_widening_after_narrowing(dtype: DType, bits: list[int]) -> None:
    values = np.array(bits, np.uint32).view(np.float32)
    expected = decode(encode(values, dtype), dtype)
    assert np.array_equal(round_to(values, dtype).view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_round_to_is_widening_after_narrowing_at_every_boundary(dtype: DType) -> None:
    """Every number of the format, every midpoint of two neighbours, and the float32 numbers next to it."""
    numbers = decode(np.arange(1 << 16, dtype=np.uint16), dtype)
    ascending = np.sort(numbers[np.isfinite(numbers)]).astype(np.float64)
    with np.errstate(all="ignore"):
        middles = ((ascending[1:] + ascending[:-1]) / 2).astype(np.float32)
        around = [np.nextafter(middles, np.float32(limit)) for limit in (-np.inf, np.inf)]
        values = np.concatenate([numbers, middles, *around, np.array([65519.99, 65520, 3.4e38], np.float32)])
    expected = decode(encode(values, dtype), dtype)
    assert np.array_equal(round_to(values, dtype).view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("dtype", DTYPES)
def test_shapes_and_strides_do_not_matter(dtype: DType) -> None:
    values = np.linspace(-3, 3, 24, dtype=np.float32).reshape(2, 3, 4)
    transposed = values.transpose(2, 0, 1)
    assert encode(np.float32(1), dtype).shape == ()
    assert np.array_equal(encode(transposed, dtype), encode(values, dtype).transpose(2, 0, 1))
    assert np.array_equal(decode(encode(values, dtype)[:, ::2], dtype), round_to(values, dtype)[:, ::2])


@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_of_another_width_are_refused(dtype: DType) -> None:
    wrong = np.zeros(3, np.uint16 if dtype == "f32" else np.uint32)
    with pytest.raises(TypeError, match=f"{dtype} bits are {bits_dtype(dtype).__name__}, got"):
        decode(wrong, dtype)


def test_equal_bits_takes_any_nan_for_any_other_and_nothing_else() -> None:
    nans, others = np.array([0x7FC0, 0xFFC0, 0x7F81], np.uint16), np.array([0x7FC1, 0x7F81, 0xFFFF], np.uint16)
    zeros = np.array([0x0000, 0x8000, 0x0000], np.uint16)
    assert equal_bits(nans, others, "bf16")
    assert not equal_bits(zeros, np.zeros(3, np.uint16), "bf16")
    assert not equal_bits(nans, nans[:2], "bf16")
    assert differing(np.append(nans, zeros), np.append(zeros, zeros), "bf16").tolist() == [True] * 3 + [False] * 3


def nearest_float32(exact: Fraction) -> float:
    """Round an exact number to float32, ties to even, in integer arithmetic."""
    if exact < 0:
        return -nearest_float32(-exact)
    exponent = max(_floor_log2(exact) if exact else -126, -126)
    steps, rest = divmod(exact / Fraction(2) ** (exponent - 23), 1)
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and steps % 2):
        steps += 1
    rounded = steps * Fraction(2) ** (exponent - 23)
    return float("inf") if rounded >= Fraction(2) ** 128 else float(rounded)


def _floor_log2(positive: Fraction) -> int:
    estimate = positive.numerator.bit_length() - positive.denominator.bit_length()
    return estimate if Fraction(2) ** estimate <= positive else estimate - 1


# A sum that float64 rounds onto a tie of float32. With d = 2^-24 * (1 + 2^-23) * (1 - 2^-23) = 2^-24 - 2^-70:
DOUBLE_ROUNDING = [
    # 1 + 2^-23 + d lies below the tie of 1 + 2^-23 and 1 + 2^-22; rounding twice gives 1 + 2^-22.
    (2**-24 * (1 + 2**-23), 1 - 2**-23, 1 + 2**-23, 1 + 2**-23),
    # 1 + 2^-23 - d lies above the tie of 1 and 1 + 2^-23; rounding twice gives 1.
    (-(2**-24) * (1 + 2**-23), 1 - 2**-23, 1 + 2**-23, 1 + 2**-23),
    (2**-24 * (1 + 2**-23), -(1 - 2**-23), -(1 + 2**-23), -(1 + 2**-23)),
    # The same below the normal range, where the spacing is 2^-149.
    (2**-75 * (1 + 2**-23), 2**-75 * (1 - 2**-23), 2**-127 + 2**-149, 2**-127 + 2**-149),
]


@pytest.mark.parametrize(("left", "right", "addend", "expected"), DOUBLE_ROUNDING)
def test_fma_rounds_once_where_float64_would_round_twice(
    left: float, right: float, addend: float, expected: float
) -> None:
    exact = Fraction(left) * Fraction(right) + Fraction(addend)
    assert nearest_float32(exact) == expected
    assert float(np.float32(left * right + addend)) != expected
    assert float(fma32(np.float32(left), np.float32(right), np.float32(addend))) == expected


@seed(0)
@settings(max_examples=1000, deadline=None, database=None)
@given(left=FLOAT32_BITS, right=FLOAT32_BITS, addend=FLOAT32_BITS)
def test_fma_is_the_exact_result_rounded_once(left: int, right: int, addend: int) -> None:
    assert_fma_is_exact(float32(left), float32(right), float32(addend))


@seed(0)
@settings(max_examples=1000, deadline=None, database=None)
@given(
    first=st.integers(-3, 3),
    second=st.integers(-3, 3),
    product_exponent=st.integers(-150, 20),
    addend_exponent=st.integers(-149, 20),
    addend_steps=st.integers(2**23 - 4, 2**23 + 4),
    sign=st.sampled_from([1, -1]),
)
def test_fma_is_exact_next_to_ties(
    first: int, second: int, product_exponent: int, addend_exponent: int, addend_steps: int, sign: int
) -> None:
    left = np.float32(np.ldexp(1 + first * 2**-23, product_exponent // 2))
    right = np.float32(np.ldexp(sign * (1 + second * 2**-23), product_exponent - product_exponent // 2))
    assert_fma_is_exact(left, right, np.float32(np.ldexp(float(addend_steps), addend_exponent - 23)))


def assert_fma_is_exact(left: ArrayLike, right: ArrayLike, addend: ArrayLike) -> None:
    factor, other, term = (float(np.asarray(value)) for value in (left, right, addend))
    if math.isfinite(factor) and math.isfinite(other) and math.isfinite(term):
        expected = nearest_float32(Fraction(factor) * Fraction(other) + Fraction(term))
    else:
        expected = factor * other + term
    result = float(fma32(left, right, addend))
    assert result == expected or (math.isnan(result) and math.isnan(expected))


def test_fma_broadcasts_and_repeats_only_doubtful_elements() -> None:
    left, right, addend, _ = np.array(DOUBLE_ROUNDING, np.float64).T.astype(np.float32)
    table = fma32(left[:, np.newaxis], right[np.newaxis, :], addend[0])
    for row, column in np.ndindex(table.shape):
        assert table[row, column] == fma32(left[row], right[column], addend[0])
