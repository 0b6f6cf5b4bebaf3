"""The affine codec by hand, and the facts about it that a cache relies on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from kvlaw.reference.numerics import DTYPES, FAMILY_NAMES, Bits, DType, decode, encode, family
from kvlaw.reference.numerics.affine import GROUPS, Codes, dequantize, quantize
from kvlaw.reference.numerics.packing import CODE_BITS, unpack

NAN, INF = float("nan"), float("inf")
every_dtype = pytest.mark.parametrize("dtype", DTYPES)
every_bits = pytest.mark.parametrize("bits", CODE_BITS)
every_group = pytest.mark.parametrize("group", GROUPS)
repeatedly = settings(max_examples=60, deadline=None, database=None)
ORDINARY = ("normal", "normal * 1e-3", "uniform", "just above 3", "just below -3", "halves", "sparse", "any exponent")


def group_of_32(first: ArrayLike, rest: float, dtype: DType) -> Bits:
    """One row that begins with ``first`` and goes on with ``rest`` to 32 elements."""
    row = np.full(32, rest, np.float32)
    row[: np.size(first)] = first
    return encode(row[np.newaxis], dtype)


def numbers(codes: Codes, bits: int) -> list[int]:
    """The codes of one row of 32."""
    return unpack(codes.words, bits, 32)[0].tolist()


def scale_and_bias(codes: Codes, dtype: DType) -> tuple[float, float]:
    return decode(codes.scales, dtype).item(), decode(codes.biases, dtype).item()


def same(first: Codes, second: Codes) -> bool:
    """Whether all stored bits are equal."""
    return (
        np.array_equal(first.words, second.words)
        and np.array_equal(first.scales, second.scales)
        and np.array_equal(first.biases, second.biases)
    )


# By hand --------------------------------------------------------------------------------------------------------------


@every_dtype
def test_codes_count_downwards_from_the_greatest_if_that_is_further_from_0(dtype: DType) -> None:
    codes = quantize(group_of_32([0, 1, 2, 3], 0, dtype), dtype=dtype, bits=2, group=32)
    assert scale_and_bias(codes, dtype) == (-1, 3)
    assert numbers(codes, 2) == [3, 2, 1, 0] + [3] * 28
    assert codes.words.tolist() == [[0xFFFF_FF1B, 0xFFFF_FFFF]]


@every_dtype
def test_codes_count_upwards_from_the_least_if_that_is_further_from_0(dtype: DType) -> None:
    codes = quantize(group_of_32([0, -1, -2, -3], 0, dtype), dtype=dtype, bits=2, group=32)
    assert scale_and_bias(codes, dtype) == (1, -3)
    assert numbers(codes, 2) == [3, 2, 1, 0] + [3] * 28


@every_dtype
def test_a_tie_counts_from_the_greatest_and_loses_the_least(dtype: DType) -> None:
    codes = quantize(group_of_32([1, -1], 0, dtype), dtype=dtype, bits=2, group=32)
    assert scale_and_bias(codes, dtype) == (-0.5, 1)  # 1 / -(2 / 3) = -1.5, whose nearest even integer is -2
    assert numbers(codes, 2) == [0, 3] + [2] * 30  # -1 would need code 4
    assert decode(dequantize(codes, dtype=dtype, bits=2, group=32), dtype)[0, :3].tolist() == [1, -0.5, 0]


@every_dtype
def test_a_code_in_the_middle_is_rounded_to_even(dtype: DType) -> None:
    codes = quantize(group_of_32([15, 12.5, 11.5, 0.5], 0, dtype), dtype=dtype, bits=4, group=32)
    assert scale_and_bias(codes, dtype) == (-1, 15)
    assert numbers(codes, 4)[:5] == [0, 2, 4, 14, 15]  # 2.5, 3.5 and 14.5 steps from the edge


@every_dtype
def test_nan_gets_code_0_and_leaves_the_others_alone(dtype: DType) -> None:
    codes = quantize(group_of_32([0, NAN, 2, 3], 0, dtype), dtype=dtype, bits=2, group=32)
    assert scale_and_bias(codes, dtype) == (-1, 3)
    assert numbers(codes, 2) == [3, 0, 1, 0] + [3] * 28


@every_dtype
@pytest.mark.parametrize(("value", "bias"), [(INF, INF), (-INF, -INF)])
def test_an_infinity_takes_its_whole_group_along(dtype: DType, value: float, bias: float) -> None:
    codes = quantize(group_of_32([1, value], 2, dtype), dtype=dtype, bits=4, group=32)
    scale, stored_bias = scale_and_bias(codes, dtype)
    assert np.isnan(scale)
    assert stored_bias == bias
    assert numbers(codes, 4) == [0] * 32
    assert np.isnan(decode(dequantize(codes, dtype=dtype, bits=4, group=32), dtype)).all()


@every_dtype
def test_a_group_of_nan_has_bias_minus_infinity(dtype: DType) -> None:
    codes = quantize(group_of_32([], NAN, dtype), dtype=dtype, bits=8, group=32)
    scale, bias = scale_and_bias(codes, dtype)
    assert np.isnan(scale)
    assert bias == -INF
    assert numbers(codes, 8) == [0] * 32


@every_dtype
def test_dequantizing_rounds_the_product_and_then_the_sum(dtype: DType) -> None:
    scale, bias = encode([[1 + 2.0**-7]], dtype), encode([[-3.0]], dtype)  # 129 / 128 is exact in every format
    codes = Codes(np.full((1, 8), 0x0303_0303, np.uint32), scale, bias)
    # 3 * 129 / 128 = 3 + 6 / 256; bf16 has steps of 4 / 256 there and ties to the even 3 + 8 / 256
    expected = {"bf16": 8 / 256, "f16": 6 / 256, "f32": 6 / 256}[dtype]
    assert (decode(dequantize(codes, dtype=dtype, bits=8, group=32), dtype) == expected).all()


# Facts ----------------------------------------------------------------------------------------------------------------


@every_dtype
@every_bits
@pytest.mark.parametrize("constant", [0.7, -0.7, 3.0, -1e-3])
def test_a_constant_group_comes_back_exactly(dtype: DType, bits: int, constant: float) -> None:
    values = group_of_32([], constant, dtype)
    codes = quantize(values, dtype=dtype, bits=bits, group=32)
    scale, _ = scale_and_bias(codes, dtype)
    assert scale < 0  # greatest and least tie
    assert -scale == pytest.approx(2.0**-23 if dtype == "f16" else 1e-7, rel=0.01)
    assert numbers(codes, bits) == [0] * 32
    assert np.array_equal(codes.biases[0, 0], values[0, 0])
    assert np.array_equal(dequantize(codes, dtype=dtype, bits=bits, group=32), values)


@every_dtype
@pytest.mark.parametrize("constant", [0.0, -0.0, 4e-8, -4e-8])
def test_a_group_within_half_the_least_step_of_0_becomes_0(dtype: DType, constant: float) -> None:
    if dtype == "f16":
        constant = np.copysign(0.0, constant)  # no other f16 lies within 5e-8 of 0
    codes = quantize(group_of_32([], constant, dtype), dtype=dtype, bits=4, group=32)
    assert codes.biases.tolist() == [[0]]
    assert (decode(dequantize(codes, dtype=dtype, bits=4, group=32), dtype) == 0).all()


@every_dtype
@every_bits
@every_group
def test_the_edge_comes_back_exactly(dtype: DType, bits: int, group: int) -> None:
    """The element furthest from 0; its negative, where both are present, need not."""
    rng = np.random.default_rng([bits, group])
    for name in ORDINARY:
        values = family(name, rng, (50, group), dtype)
        codes = quantize(values, dtype=dtype, bits=bits, group=group)
        before, after = decode(values, dtype), decode(dequantize(codes, dtype=dtype, bits=bits, group=group), dtype)
        rows = np.arange(50)
        edge = np.where(-before.min(axis=1) > before.max(axis=1), before.argmin(axis=1), before.argmax(axis=1))
        assert np.array_equal(after[rows, edge], before[rows, edge]), name


def test_quantizing_dequantized_rows_is_not_the_identity_by_hand() -> None:
    """In every format: the second time, the gap of 1 is divided by 3 steps, no longer by 2."""
    for dtype in DTYPES:
        first = quantize(group_of_32([1, -7 / 32], 0.5, dtype), dtype=dtype, bits=2, group=32)
        assert scale_and_bias(first, dtype) == (-0.5, 1)  # 1 / -(39 / 96) = -2.46, nearest -2
        assert numbers(first, 2) == [0, 2] + [1] * 30
        read = dequantize(first, dtype=dtype, bits=2, group=32)
        assert decode(read, dtype)[0, :3].tolist() == [1, 0, 0.5]
        second = quantize(read, dtype=dtype, bits=2, group=32)
        assert second.scales.item() == encode(-1 / 3, dtype).item()
        assert numbers(second, 2) == [0, 3] + [2] * 30
        assert decode(dequantize(second, dtype=dtype, bits=2, group=32), dtype)[0, 2] < 0.34  # it was 0.5


@every_dtype
def test_quantizing_dequantized_rows_changes_about_one_random_group_in_seven(dtype: DType) -> None:
    values = encode(np.random.default_rng(0).standard_normal((4000, 64)), dtype)
    first = quantize(values, dtype=dtype, bits=4, group=64)
    again = quantize(dequantize(first, dtype=dtype, bits=4, group=64), dtype=dtype, bits=4, group=64)
    changed = (first.words != again.words).any(axis=1).mean()
    assert 0.10 < changed < 0.20


@every_dtype
@every_bits
@every_group
def test_codes_are_local_to_their_group(dtype: DType, bits: int, group: int) -> None:
    """One token after another, or one group after another, gives the codes of the whole block."""
    rng = np.random.default_rng([bits, group])
    for name in ("normal", "infinities and NaN", "any bits"):
        values = family(name, rng, (2, 3, 5, 2 * group), dtype)
        block = quantize(values, dtype=dtype, bits=bits, group=group)
        for token in range(5):
            alone = quantize(values[:, :, token : token + 1], dtype=dtype, bits=bits, group=group)
            assert same(alone, block[:, :, token : token + 1])
        halves = [quantize(half, dtype=dtype, bits=bits, group=group) for half in np.split(values, 2, axis=-1)]
        words, scales, biases = (
            np.concatenate([getattr(half, part) for half in halves], axis=-1) for part in ("words", "scales", "biases")
        )
        assert same(Codes(words, scales, biases), block)


@every_dtype
@every_bits
def test_a_slice_of_codes_reads_as_the_slice_of_rows(dtype: DType, bits: int) -> None:
    values = family("any bits", np.random.default_rng(bits), (2, 3, 9, 128), dtype)
    codes = quantize(values, dtype=dtype, bits=bits, group=64)
    whole = dequantize(codes, dtype=dtype, bits=bits, group=64)
    order = np.random.default_rng(1).permutation(9)
    for index in (np.s_[:, :, 3:7], np.s_[:, :, order], np.s_[1:, :, ::-2]):
        assert np.array_equal(dequantize(codes[index], dtype=dtype, bits=bits, group=64), whole[index])


@repeatedly
@given(
    dtype=st.sampled_from(DTYPES),
    bits=st.sampled_from(CODE_BITS),
    group=st.sampled_from(GROUPS),
    exponent=st.integers(-6, 2),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_grid_with_pinned_end_codes_is_exact(dtype: DType, bits: int, group: int, exponent: int, seed: int) -> None:
    """Multiples of 2^e, -2^(bits-1) and 2^(bits-1) - 1 among them: codes, scale, bias and rows are exact."""
    half, step = 1 << (bits - 1), 2.0**exponent
    counts = np.random.default_rng(seed).integers(-half, half, (4, 2 * group))
    counts[:, ::group], counts[:, 1::group] = -half, half - 1
    counts[:, 2::group] = 0
    values = encode(counts * step, dtype)
    codes = quantize(values, dtype=dtype, bits=bits, group=group)
    assert (decode(codes.scales, dtype) == step).all()
    assert (decode(codes.biases, dtype) == -half * step).all()
    found = unpack(codes.words, bits, 2 * group)
    assert np.array_equal(found, counts + half)
    assert (found[:, 2::group] == half).all()  # the code of 0 is a power of two
    assert np.array_equal(dequantize(codes, dtype=dtype, bits=bits, group=group), values)


@every_bits
def test_no_element_moves_further_than_a_step(bits: int) -> None:
    """Half a step inside, and up to a whole one at the far end, which the edge's whole number of steps may clip."""
    values = encode(np.random.default_rng(bits).standard_normal((2000, 64)), "f32")
    codes = quantize(values, dtype="f32", bits=bits, group=64)
    moved = np.abs(decode(dequantize(codes, dtype="f32", bits=bits, group=64), "f32") - decode(values, "f32"))
    steps = moved / np.abs(decode(codes.scales, "f32"))
    clipped = unpack(codes.words, bits, 64) == (1 << bits) - 1
    assert steps[~clipped].max() <= 0.5001
    assert 0.9 < steps[clipped].max() <= 1.0001


# Shapes and refusals --------------------------------------------------------------------------------------------------


@every_dtype
@every_bits
@every_group
@pytest.mark.parametrize("shape", [(), (0,), (2, 3, 0), (2, 1, 4)])
def test_shapes_are_those_of_mlx(dtype: DType, bits: int, group: int, shape: tuple[int, ...]) -> None:
    values = family("normal", np.random.default_rng(0), (*shape, 3 * group), dtype)
    codes = quantize(values, dtype=dtype, bits=bits, group=group)
    assert codes.words.shape == (*shape, 3 * group * bits // 32)
    assert codes.words.dtype == np.uint32
    assert codes.scales.shape == codes.biases.shape == (*shape, 3)
    assert codes.scales.dtype == codes.biases.dtype == values.dtype
    assert dequantize(codes, dtype=dtype, bits=bits, group=group).shape == values.shape


@pytest.mark.parametrize(
    ("bits", "group", "width", "message"),
    [
        (7, 32, 64, "codes have 2, 3, 4, 5, 6 or 8 bits, got 7"),
        (1, 32, 64, "got 1"),
        (4, 16, 64, "groups have 32, 64 or 128 elements, got 16"),
        (4, 64, 96, r"whole groups of 64, got an array of shape \(2, 96\)"),
    ],
)
def test_what_the_codec_has_not_is_refused(bits: int, group: int, width: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quantize(np.zeros((2, width), np.uint16), dtype="bf16", bits=bits, group=group)


def test_bits_of_another_format_are_refused() -> None:
    with pytest.raises(TypeError, match="f32 bits are uint32"):
        quantize(np.zeros((2, 64), np.uint16), dtype="f32", bits=4, group=32)
    codes = quantize(np.zeros((2, 64), np.uint16), dtype="bf16", bits=4, group=32)
    with pytest.raises(TypeError, match="f32 bits are uint32"):
        dequantize(codes, dtype="f32", bits=4, group=32)


def test_codes_read_with_other_settings_are_refused() -> None:
    codes = quantize(np.zeros((2, 128), np.uint16), dtype="bf16", bits=4, group=32)
    for bits, group in ((8, 32), (4, 64), (3, 32)):
        with pytest.raises(ValueError, match=f"do not fit {bits} bits in groups of {group}"):
            dequantize(codes, dtype="bf16", bits=bits, group=group)
    with pytest.raises(ValueError, match="not of the same rows"):
        dequantize(Codes(codes.words, codes.scales[:1], codes.biases), dtype="bf16", bits=4, group=32)


def test_every_family_is_quantized_without_a_warning() -> None:
    """The suite turns warnings into errors: none of the special values may raise one."""
    rng = np.random.default_rng(2)
    for dtype in DTYPES:
        for name in FAMILY_NAMES:
            codes = quantize(family(name, rng, (2, 64), dtype), dtype=dtype, bits=3, group=32)
            assert dequantize(codes, dtype=dtype, bits=3, group=32).shape == (2, 64)
