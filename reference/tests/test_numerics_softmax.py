"""The exponential, matrix products and softmax, by hand and against scalar loops."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from kvlaw.reference.numerics import DTYPES, DType, Float32, decode, encode, equal_bits, family, lowest, round_to
from kvlaw.reference.numerics.exponential import exponential
from kvlaw.reference.numerics.inputs import FAMILY_NAMES
from kvlaw.reference.numerics.products import multiply_matrices
from kvlaw.reference.numerics.softmax import sequential_sum, softmax

NAN, INF = float("nan"), float("inf")
repeatedly = settings(max_examples=150, deadline=None, database=None)


def array32(*values: float) -> Float32:
    return np.array(values, np.float32)


# The exponential ------------------------------------------------------------------------------------------------------


def test_the_exponential_of_zero_is_one() -> None:
    assert exponential(array32(0.0, -0.0)).view(np.uint32).tolist() == [0x3F80_0000] * 2


@pytest.mark.parametrize(
    ("value", "result"), [(INF, INF), (-INF, 0), (88.00001, INF), (-88.00001, 0), (1e38, INF), (-3e38, 0)]
)
def test_the_exponential_ends_in_infinity_and_in_zero(value: float, result: float) -> None:
    assert exponential(array32(value)).tolist() == [result]


def test_the_exponential_of_nan_is_nan() -> None:
    assert np.isnan(exponential(array32(NAN, -NAN))).all()


def test_results_below_the_normal_range_are_zero() -> None:
    # -87.7 * log2(e) = -126.52 is nearest to -127, whose power of two has no normal float32; -87.6 gives -126.38.
    vanishing, smallest = exponential(array32(-87.7, -87.6))
    assert vanishing == 0
    assert smallest == pytest.approx(math.exp(-87.6), rel=3e-6)


def test_88_itself_is_finite() -> None:
    assert exponential(array32(88.0))[0] == pytest.approx(math.exp(88.0), rel=2e-5)


def scalar_exponential(value: float) -> float:
    """e^x for |x| < 87 in exact rational arithmetic, rounded where MLX's source rounds."""
    coefficients = [
        1.535336188319500e-4,
        1.339887440266574e-3,
        9.618437357674640e-3,
        5.550332471162809e-2,
        2.402264791363012e-1,
        6.931472028550421e-1,
        1.0,
    ]
    scaled = Fraction(float(np.float32(value) * np.float32(1.442695)))
    whole = math.floor(scaled + Fraction(1, 2))
    fraction = scaled - whole
    result = Fraction(float(np.float32(coefficients[0])))
    for coefficient in coefficients[1:]:
        result = round32(result * fraction + Fraction(float(np.float32(coefficient))))
    return float(round32(result * Fraction(2) ** whole))


def round32(exact: Fraction) -> Fraction:
    """Round a positive normal number to the 24 bits of float32, ties to even."""
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > exact
    spacing = Fraction(2) ** (exponent - 23)
    return round(exact / spacing) * spacing


@seed(0)
@repeatedly
@given(st.lists(st.floats(-87, 87, width=32), min_size=1, max_size=8))
def test_the_exponential_is_the_documented_polynomial(values: list[float]) -> None:
    assert exponential(array32(*values)).tolist() == [scalar_exponential(value) for value in values]


@seed(0)
@repeatedly
@given(st.floats(-87, 87, width=32))
def test_the_exponential_is_close_to_the_exact_one(value: float) -> None:
    # The constant log2(e) has 24 bits: its error grows with the value.
    assert exponential(array32(value))[0] == pytest.approx(math.exp(value), rel=2e-6 + 1e-7 * abs(value))


# Matrix products ------------------------------------------------------------------------------------------------------


def dot(left: list[float], right: list[float], dtype: DType = "f32") -> float:
    return float(multiply_matrices(array32(*left).reshape(1, 1, -1), array32(*right).reshape(1, -1, 1), dtype)[0, 0, 0])


@pytest.mark.parametrize(
    ("terms", "result"),
    [([2**24, 1, -(2**24)], 0), ([1, 2**24, -(2**24)], 0), ([2**24, -(2**24), 1], 1), ([1, 2**24, 1], 2**24)],
)
def test_terms_are_added_in_the_order_of_their_index(terms: list[float], result: float) -> None:
    # 2^24 + 1 is a tie in float32 and goes to the even 2^24.
    assert dot([1.0] * 3, terms) == result


def test_products_are_rounded_before_they_are_added() -> None:
    # (1 + 2^-23)^2 = 1 + 2^-22 + 2^-46; a fused multiply-add would keep the last term.
    assert dot([-1, 1 + 2**-23], [1 + 2**-22, 1 + 2**-23]) == 0


def test_the_sum_starts_from_positive_zero() -> None:
    assert math.copysign(1, dot([-0.0], [1.0])) == 1


def test_zeros_are_multiplied_like_anything_else() -> None:
    assert math.isnan(dot([0.0, 1.0], [INF, 1.0]))
    assert math.isnan(dot([0.0, 1.0], [NAN, 1.0]))


@pytest.mark.parametrize(("dtype", "small"), [("bf16", 2**-8), ("f16", 2**-11)])
def test_the_running_sum_is_float32_and_is_rounded_once(dtype: DType, small: float) -> None:
    # 1 + small is a tie of the format: rounding each step would stay at 1.
    assert dot([1.0] * 3, [1.0, small, small], dtype) == 1 + 2 * small


def test_a_sum_that_overflows_stays_infinite() -> None:
    assert dot([1.0] * 3, [3e38, 3e38, -3e38]) == INF
    assert dot([1.0] * 2, [65504.0, 65504.0], "f16") == INF
    assert dot([1.0] * 3, [65504.0, 65504.0, -65504.0], "f16") == 65504.0


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 3, 0, 4), (1, 5, 40, 7), (2, 36, 67, 300), (3, 1, 300, 64)])
def test_products_equal_one_addition_after_the_other(shape: tuple[int, int, int, int]) -> None:
    batches, rows, reduced, columns = shape
    rng = np.random.default_rng(5)
    left = rng.standard_normal((batches, rows, reduced)).astype(np.float32)
    right = rng.standard_normal((batches, reduced, columns)).astype(np.float32)
    total = np.zeros((batches, rows, columns), np.float32)
    for k in range(reduced):
        total += left[:, :, k, np.newaxis] * right[:, np.newaxis, k, :]
    assert np.array_equal(multiply_matrices(left, right, "f32"), total)
    assert np.array_equal(multiply_matrices(left, right, "bf16"), round_to(total, "bf16"))


def test_operands_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"cannot multiply \[N, M, K\] = \(1, 2, 3\) by"):
        multiply_matrices(np.zeros((1, 2, 3), np.float32), np.zeros((1, 4, 5), np.float32), "f32")


# Softmax --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("score", [0.0, -3.0, 65504.0, 1e-6])
def test_two_equal_scores_weigh_a_half_each(dtype: DType, score: float) -> None:
    assert softmax(array32(score, score), dtype).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 190, 300])
def test_equal_scores_weigh_the_rounded_reciprocal_of_their_number(dtype: DType, count: int) -> None:
    expected = round_to(np.full(count, np.float32(1) / np.float32(count), np.float32), dtype)
    assert np.array_equal(softmax(np.full((2, count), 5, np.float32), dtype), np.stack([expected, expected]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_lowest_score_weighs_nothing_beside_an_ordinary_one(dtype: DType) -> None:
    assert softmax(array32(0, float(lowest(dtype)), -INF, 0), dtype).tolist() == [0.5, 0, 0, 0.5]


@pytest.mark.parametrize("row", [[NAN, 0.0], [0.0, NAN], [INF, 0.0], [INF, INF], [-INF, -INF], [0.0, INF, -INF]])
def test_nan_and_an_infinite_maximum_make_the_whole_row_nan_and_no_other(row: list[float]) -> None:
    weights = softmax(np.array([row, [1.0] * len(row)], np.float32), "f32")
    assert np.isnan(weights[0]).all()
    assert np.isfinite(weights[1]).all()


def scalar_softmax(row: Float32) -> list[np.float32]:
    """One row in float32, a step at a time."""
    highest = max(row)
    powers = [exponential(array32(float(score - highest)))[0] for score in row]
    total = np.float32(0)
    for power in powers:
        total = total + power
    reciprocal = np.float32(1) / total
    return [power * reciprocal for power in powers]


@seed(0)
@repeatedly
@given(name=st.sampled_from(["normal", "normal * 100", "uniform", "halves", "any exponent"]), width=st.integers(1, 60))
def test_softmax_equals_a_scalar_loop(name: str, width: int) -> None:
    row = family(name, np.random.default_rng(width), (width,), "f32").view(np.float32)
    assert softmax(row, "f32").tolist() == scalar_softmax(row)
    assert softmax(row, "f16").tolist() == round_to(np.array(scalar_softmax(row)), "f16").tolist()


def test_softmax_multiplies_by_the_reciprocal_instead_of_dividing() -> None:
    scores = np.random.default_rng(0).standard_normal((8, 9)).astype(np.float32)
    powers = exponential(scores - scores.max(axis=-1, keepdims=True))
    assert np.count_nonzero(softmax(scores, "f32") != powers / sequential_sum(powers)) >= 8


def test_the_sum_of_a_row_is_taken_from_the_first_element_on() -> None:
    row = np.ones(9, np.float32)
    row[0] = 2**24
    assert sequential_sum(row).tolist() == [2**24]
    assert sequential_sum(row[::-1]).tolist() == [2**24 + 8]


@pytest.mark.parametrize("name", FAMILY_NAMES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_weights_lie_between_zero_and_one_or_are_nan(name: str, dtype: DType) -> None:
    scores = decode(family(name, np.random.default_rng(0), (6, 40), dtype), dtype)
    weights = softmax(scores, dtype)
    ordinary = weights[~np.isnan(weights)]
    assert ((ordinary >= 0) & (ordinary <= 1)).all()
    assert equal_bits(encode(weights, dtype), encode(round_to(weights, dtype), dtype), dtype)
