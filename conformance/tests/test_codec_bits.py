"""The codec and attention over codes, NumPy against MLX, bit for bit.

Short campaigns by default; KVLAW_LONG=1 compares more than 50 million codes, scales, biases and dequantized values,
and 360 attentions per format. Where MLX's arithmetic is not the modelled one, the comparison is skipped: it is never
loosened.
"""

import os
from collections import Counter
from typing import Any, cast

import numpy as np
import pytest

from kvlaw.conformance.subjects import codec_campaign, mlx_codec, quantized_attention_campaign
from kvlaw.conformance.subjects.canary import codec_is_modelled
from kvlaw.conformance.subjects.codec_campaign import CodecCase, Tally, codec_cases, compare_case, run_codec_campaign
from kvlaw.conformance.subjects.mlx_arithmetic import from_mlx, to_mlx
from kvlaw.conformance.subjects.quantized_attention_campaign import (
    MASK_KINDS,
    QuantizedCase,
    compare_quantized,
    quantized_case,
    run_quantized_campaign,
)
from kvlaw.reference.numerics import DTYPES, FAMILY_NAMES, Bits, DType, Mask, decode, encode, equal_bits
from kvlaw.reference.numerics.affine import GROUPS, Codes, dequantize, quantize
from kvlaw.reference.numerics.packing import CODE_BITS
from kvlaw.reference.numerics.quantized_attention import KernelSet, attend_quantized
from kvlaw.reference.numerics.quantized_products import multiply_by_codes

LONG = os.environ.get("KVLAW_LONG") == "1"
ROWS = codec_campaign.LONG_CAMPAIGN if LONG else codec_campaign.SHORT_CAMPAIGN
CASES = quantized_attention_campaign.LONG_CAMPAIGN if LONG else quantized_attention_campaign.SHORT_CAMPAIGN
LEAST_PER_FORMAT = 17_000_000 if LONG else 250_000
CODECS = len(CODE_BITS) * len(GROUPS)

every_dtype = pytest.mark.parametrize("dtype", DTYPES)
modelled_only = pytest.mark.skipif(
    not codec_is_modelled(), reason="the running MLX has not the modelled x86-64 CPU arithmetic (canary): not observed"
)

# Stored bits ----------------------------------------------------------------------------------------------------------


@modelled_only
@every_dtype
def test_codes_scales_biases_and_dequantized_rows_are_the_same_bits(dtype: DType) -> None:
    result = run_codec_campaign(dtype, ROWS)
    assert result.arrays == CODECS * (len(FAMILY_NAMES) + 1)
    assert result.tally.compared >= LEAST_PER_FORMAT, result.describe()
    assert 0.05 < result.tally.nan_values / result.tally.dequantized < 0.3, result.describe()
    assert result.tally.differing == 0, f"{result.first_difference}; {result.describe()}"


@modelled_only
@every_dtype
def test_rows_that_lie_apart_in_memory_get_the_same_codes(dtype: DType) -> None:
    """A cache appends [B, H, L, D] that is a transposed view, and often a slice of a longer one."""
    mx = pytest.importorskip("mlx.core")
    values = encode(np.random.default_rng(8).standard_normal((2, 10, 3, 128)), dtype)
    expected = quantize(values.transpose(0, 2, 1, 3)[:, :, 2:9], dtype=dtype, bits=5, group=64)
    view = mx.swapaxes(to_mlx(values, dtype), 1, 2)[:, :, 2:9]
    words, scales, biases = mx.quantize(view, group_size=64, bits=5)
    raw: Any = words
    assert np.array_equal(np.array(raw), expected.words)
    assert np.array_equal(from_mlx(scales), expected.scales)
    assert np.array_equal(from_mlx(biases), expected.biases)
    read = mx.dequantize(words[:, :, 3:5], scales[:, :, 3:5], biases[:, :, 3:5], group_size=64, bits=5)
    assert np.array_equal(from_mlx(read), dequantize(expected[:, :, 3:5], dtype=dtype, bits=5, group=64))


def test_a_codec_case_is_drawn_from_what_it_says_alone() -> None:
    case, other = (CodecCase("f16", 3, 64, "any bits", rows=2, seed=seed) for seed in (0, 1))
    assert np.array_equal(case.values(), CodecCase("f16", 3, 64, "any bits", rows=2, seed=0).values())
    assert not np.array_equal(case.values(), other.values())


def test_the_cases_are_all_settings_of_the_codec_with_all_families() -> None:
    cases = list(codec_cases("bf16", 1))
    settings = {(case.bits, case.group, case.family) for case in cases}
    assert len(cases) == len(settings) == 6 * 3 * 31


def _with_a_flipped_bias(values: Bits, *, dtype: DType, bits: int, group: int) -> Codes:
    """The reference with the last bit of the first bias flipped, at 6 bits in groups of 64 only."""
    codes = quantize(values, dtype=dtype, bits=bits, group=group)
    if (bits, group) == (6, 64):
        codes.biases[0, 0] ^= codes.biases.dtype.type(1)
    return codes


@every_dtype
def test_one_wrong_bias_is_found_and_its_case_is_named(dtype: DType) -> None:
    result = run_codec_campaign(dtype, quantize=_with_a_flipped_bias, dequantize=dequantize)
    assert result.tally.differing == len(FAMILY_NAMES)
    assert result.first_difference is not None
    assert result.first_difference.startswith(f"'normal' in {dtype}, 6 bits, groups of 64, 1 rows, seed 0: 1 of ")


def test_one_wrong_code_and_one_wrong_row_are_found() -> None:
    def with_a_wrong_code(values: Bits, *, dtype: DType, bits: int, group: int) -> Codes:
        codes = quantize(values, dtype=dtype, bits=bits, group=group)
        codes.words[0, 1] ^= np.uint32(1 << 31)
        return codes

    def with_a_wrong_row(codes: Codes, *, dtype: DType, bits: int, group: int) -> Bits:
        rows = dequantize(codes, dtype=dtype, bits=bits, group=group)
        rows[0, 7] ^= rows.dtype.type(1)
        return rows

    case = CodecCase("bf16", 3, 32, "normal", rows=1, seed=0)
    same = Tally(codes=256, scales_and_biases=16, dequantized=256)
    assert compare_case(case, quantize, dequantize) == same
    assert compare_case(case, with_a_wrong_code, dequantize) == same + Tally(differing=1)
    assert compare_case(case, quantize, with_a_wrong_row) == same + Tally(differing=1)


def test_another_nan_is_a_difference_and_counted_as_one_of_nan() -> None:
    def with_another_nan(codes: Codes, *, dtype: DType, bits: int, group: int) -> Bits:
        rows = dequantize(codes, dtype=dtype, bits=bits, group=group)
        return np.where(np.isnan(decode(rows, dtype)), np.uint16(0x7FC1), rows)

    tally = compare_case(CodecCase("bf16", 4, 32, "all NaN", rows=1, seed=0), quantize, with_another_nan)
    assert (tally.nan_values, tally.differing, tally.nan_only) == (256, 256, 256)


# Attention over codes -------------------------------------------------------------------------------------------------


@modelled_only
@every_dtype
def test_attention_over_codes_gives_the_same_bits(dtype: DType) -> None:
    result = run_quantized_campaign(dtype, CASES)
    assert result.cases == CASES
    assert result.values > 1000 * CASES, result.describe()
    assert result.finite_nonzero_share >= 0.5, result.describe()
    assert result.differing == 0, result.first_difference


def mlx_lm_attention(
    queries: Bits,
    keys: Codes,
    values: Codes,
    *,
    scale: float,
    mask: Mask,
    dtype: DType,
    key_bits: int,
    value_bits: int,
    group: int,
    kernel_set: KernelSet = "unfused",
) -> Bits:
    """mlx-lm's own function, which has one number of bits for both and gives values the head size of keys."""
    base = pytest.importorskip("mlx_lm.models.base")
    assert key_bits == value_bits
    given = pytest.importorskip("mlx.core").array(mask) if isinstance(mask, np.ndarray) else mask
    stored = [mlx_codec.codes_to_mlx(codes, dtype) for codes in (keys, values)]
    output = base.quantized_scaled_dot_product_attention(
        to_mlx(queries, dtype), stored[0], stored[1], scale=scale, mask=given, group_size=group, bits=key_bits
    )
    return from_mlx(output)


@modelled_only
@every_dtype
def test_mlx_lm_attends_to_codes_with_the_same_bits(dtype: DType) -> None:
    fitting = [case for case in (quantized_case(index, dtype) for index in range(108)) if _fits_mlx_lm(case)]
    assert {case.mask_kind for case in fitting} == set(MASK_KINDS)
    assert {case.key_bits for case in fitting} == set(CODE_BITS)
    for case in fitting:
        outputs, differs = compare_quantized(case, mlx_lm_attention)
        assert outputs.size
        assert not differs.any(), case.describe()


def _fits_mlx_lm(case: QuantizedCase) -> bool:
    """Whether mlx-lm's attention takes the case: one number of bits, one head size."""
    return case.key_bits == case.value_bits and case.keys.words.shape == case.values.words.shape


@pytest.fixture(scope="module")
def long_campaign() -> list[QuantizedCase]:
    return [quantized_case(index, "bf16") for index in range(quantized_attention_campaign.LONG_CAMPAIGN)]


def test_the_long_campaign_reaches_every_setting_and_limit(long_campaign: list[QuantizedCase]) -> None:
    assert len(long_campaign) * len(DTYPES) >= 1000
    settings = Counter((case.key_bits, case.group, case.mask_kind) for case in long_campaign)
    assert len(settings) == 6 * 3 * 4
    assert set(settings.values()) == {5}
    assert {case.family for case in long_campaign} == set(FAMILY_NAMES)
    assert {case.family_of for case in long_campaign} == {"queries", "keys", "values", "all"}
    assert {case.queries.shape[3] for case in long_campaign} == {64, 96, 128, 256}
    assert {case.queries.shape[1] // case.keys.words.shape[1] for case in long_campaign} == {1, 2, 3, 4}
    widths = Counter(case.keys.words.shape[2] for case in long_campaign)
    assert (min(widths), max(widths)) == (1, 256)
    assert widths[256] >= 20
    assert any(case.key_bits != case.value_bits for case in long_campaign)


def test_the_short_campaign_meets_every_setting(long_campaign: list[QuantizedCase]) -> None:
    short = long_campaign[: quantized_attention_campaign.SHORT_CAMPAIGN]
    assert len({(case.key_bits, case.group) for case in short}) == 18
    assert {case.mask_kind for case in short} == set(MASK_KINDS)
    assert len(short) * len(DTYPES) >= 50


def test_ring_masks_show_windows_in_the_order_of_the_ring(long_campaign: list[QuantizedCase]) -> None:
    around_the_end = 0
    masks = [case.mask for case in long_campaign if case.mask_kind == "ring"]
    assert len(masks) == 90
    for mask in masks:
        assert isinstance(mask, np.ndarray)
        sizes = mask.sum(axis=1)
        assert sizes.min() == sizes.max() >= 1  # every query sees a whole window, and as large a one as the others
        starts = (mask & ~np.roll(mask, 1, axis=1)).sum(axis=1)
        assert (starts == np.where(sizes == mask.shape[1], 0, 1)).all()  # one run of slots, taken around the end
        newest = [np.flatnonzero(row & ~np.roll(row, -1))[0] for row in mask if not row.all()]
        assert (np.diff(newest) % mask.shape[1] == 1).all() if len(newest) > 1 else True
        around_the_end += bool((mask[:, 0] & mask[:, -1] & ~mask.all(axis=1)).any())
    assert around_the_end >= 15


def test_a_case_of_attention_is_drawn_from_its_number_alone() -> None:
    first, again, other = (quantized_case(index, "f16", seed=3) for index in (17, 17, 18))
    assert np.array_equal(first.queries, again.queries)
    assert np.array_equal(first.values.words, again.values.words)
    assert first.describe() == again.describe() != other.describe()


def test_one_wrong_bit_of_attention_is_found_and_its_case_is_named() -> None:
    def wrong_in_one_bit(queries: Bits, keys: Codes, values: Codes, **settings: Any) -> Bits:
        outputs = attend_quantized(queries, keys, values, **settings)
        if settings["group"] == 128:
            outputs[0, 0, 0, 0] ^= outputs.dtype.type(1)
        return outputs

    result = run_quantized_campaign("bf16", 18, attend=wrong_in_one_bit)
    numbers = [index for index in range(12, 18) if not _first_output_is_nan(index)]
    assert len(numbers) >= 3
    assert result.differing == len(numbers)
    assert result.first_difference is not None
    assert result.first_difference.startswith(f"case {numbers[0]} of bf16, seed 0:")


def _first_output_is_nan(index: int) -> bool:
    """Whether the output whose bit is flipped is NaN, which equals any NaN."""
    return bool(np.isnan(decode(quantized_case(index, "bf16").attended_by(attend_quantized), "bf16")[0, 0, 0, 0]))


def test_mlx_refuses_a_kernel_set_that_its_plain_operations_are_not() -> None:
    def tiled(*operands: Any, **settings: Any) -> Bits:
        return mlx_codec.attend_quantized(*operands, **settings, kernel_set=cast("KernelSet", "tiled"))

    with pytest.raises(ValueError, match="unfused, not tiled"):
        quantized_case(0, "bf16").attended_by(tiled)


@modelled_only
@every_dtype
def test_products_with_codes_stored_as_rows_and_as_columns_are_the_same_bits(dtype: DType) -> None:
    rng = np.random.default_rng(9)
    left = encode(rng.standard_normal((3, 7, 128)), dtype)
    for bits in CODE_BITS:
        for group in GROUPS:
            for shape, transpose in (((3, 11, 128), True), ((3, 128, 256), False)):
                codes = quantize(encode(rng.standard_normal(shape), dtype), dtype=dtype, bits=bits, group=group)
                settings: dict[str, Any] = {"dtype": dtype, "bits": bits, "group": group, "transpose": transpose}
                observed = mlx_codec.multiply_by_codes(left, codes, **settings)
                assert equal_bits(observed, multiply_by_codes(left, codes, **settings), dtype), settings
