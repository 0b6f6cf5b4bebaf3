"""The codec and products with codes, NumPy against MLX, every bit of them.

The ``ci`` budget of the campaign by default, which compares more than 10 million codes, scales, biases and dequantized
values; KVLAW_LONG=1 runs the ``deep`` one, as ``kvlaw arithmetic --budget deep`` does. Where MLX's arithmetic is not
the modelled one, the comparison is skipped: it is never loosened.
"""

import os
from typing import Any

import numpy as np
import pytest

from kvlaw.conformance.campaigns.campaign import Budget, Tally
from kvlaw.conformance.campaigns.codec import (
    CODES,
    DEQUANTIZED,
    NAN,
    NAN_ONLY,
    SCALES,
    SETTINGS,
    CodecCase,
    codec,
    codec_case,
    compare,
)
from kvlaw.conformance.subjects import mlx_codec
from kvlaw.conformance.subjects.canary import codec_is_modelled
from kvlaw.conformance.subjects.mlx_arithmetic import from_mlx, to_mlx
from kvlaw.reference.numerics import DTYPES, FAMILY_NAMES, Bits, DType, decode, encode, equal_bits
from kvlaw.reference.numerics.affine import GROUPS, Codes, dequantize, quantize
from kvlaw.reference.numerics.packing import CODE_BITS
from kvlaw.reference.numerics.quantized_products import multiply_by_codes

BUDGET: Budget = "deep" if os.environ.get("KVLAW_LONG") == "1" else "ci"
LEAST: dict[Budget, int] = {"ci": 200_000, "deep": 20_000_000}
"""Of each sort of value but scales and biases, in all formats together."""

every_dtype = pytest.mark.parametrize("dtype", DTYPES)
modelled_only = pytest.mark.skipif(
    not codec_is_modelled(), reason="the running MLX has not the modelled x86-64 CPU arithmetic (canary): not observed"
)


@modelled_only
@every_dtype
def test_codes_scales_biases_and_dequantized_rows_are_the_same_bits(dtype: DType) -> None:
    campaign = codec()
    result = campaign.run(dtype, campaign.cases[BUDGET])
    assert result.cases % len(SETTINGS) == 0
    assert result.tally.differing == 0, f"{result.first_difference}; {result.describe()}"
    compared = result.tally.compared
    assert compared[CODES] >= LEAST[BUDGET] / len(DTYPES), result.describe()
    assert compared[DEQUANTIZED] >= LEAST[BUDGET] / len(DTYPES), result.describe()
    assert compared[SCALES] >= compared[CODES] / 64
    assert 0.05 < result.tally.noted[NAN] / compared[DEQUANTIZED] < 0.3, result.describe()


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


def test_a_case_is_drawn_from_its_number_alone() -> None:
    number = SETTINGS.index((3, 64, "any bits"))
    case, again, other = (codec_case(number, "f16", seed) for seed in (0, 0, 1))
    assert (case.bits, case.group, case.family) == (3, 64, "any bits")
    assert np.array_equal(case.values(), again.values())
    assert not np.array_equal(case.values(), other.values())
    repeated = codec_case(number + len(SETTINGS), "f16")
    assert repeated.family == case.family
    assert not np.array_equal(case.values(), repeated.values())


def test_the_cases_are_all_settings_of_the_codec_with_all_families() -> None:
    cases = [codec_case(number, "bf16") for number in range(codec().cases["ci"])]
    assert len({(case.bits, case.group, case.family) for case in cases}) == len(cases) == 6 * 3 * 31


def _with_a_flipped_bias(values: Bits, *, dtype: DType, bits: int, group: int) -> Codes:
    """The reference with the last bit of the first bias flipped, at 6 bits in groups of 64 only."""
    codes = quantize(values, dtype=dtype, bits=bits, group=group)
    if (bits, group) == (6, 64):
        codes.biases[0, 0] ^= codes.biases.dtype.type(1)
    return codes


@every_dtype
def test_one_wrong_bias_is_found_and_its_case_is_named(dtype: DType) -> None:
    result = codec(_with_a_flipped_bias, dequantize).run(dtype, len(SETTINGS))
    assert result.tally.differing == len(FAMILY_NAMES)
    assert result.first_difference is not None
    number = SETTINGS.index((6, 64, "normal"))
    told = f"case {number} of {dtype}, seed 0: 'normal', 6 bits, groups of 64: 1 of "
    assert result.first_difference.startswith(told)


def test_one_wrong_code_and_one_wrong_row_are_found() -> None:
    def with_a_wrong_code(values: Bits, *, dtype: DType, bits: int, group: int) -> Codes:
        codes = quantize(values, dtype=dtype, bits=bits, group=group)
        codes.words[0, 1] ^= np.uint32(1 << 31)
        return codes

    def with_a_wrong_row(codes: Codes, *, dtype: DType, bits: int, group: int) -> Bits:
        rows = dequantize(codes, dtype=dtype, bits=bits, group=group)
        rows[0, 7] ^= rows.dtype.type(1)
        return rows

    case = CodecCase(0, "bf16", 3, 32, "normal")
    same = Tally({CODES: 16 * 256, SCALES: 16 * 16, DEQUANTIZED: 16 * 256}, {NAN: 0, NAN_ONLY: 0})
    assert compare(case, quantize, dequantize) == same
    assert compare(case, with_a_wrong_code, dequantize) == same + Tally(differing=1)
    assert compare(case, quantize, with_a_wrong_row) == same + Tally(differing=1)


def test_another_nan_is_a_difference_and_counted_as_one_of_nan() -> None:
    def with_another_nan(codes: Codes, *, dtype: DType, bits: int, group: int) -> Bits:
        rows = dequantize(codes, dtype=dtype, bits=bits, group=group)
        return np.where(np.isnan(decode(rows, dtype)), np.uint16(0x7FC1), rows)

    tally = compare(CodecCase(0, "bf16", 4, 32, "all NaN"), quantize, with_another_nan)
    assert (tally.noted[NAN], tally.differing, tally.noted[NAN_ONLY]) == (16 * 256, 16 * 256, 16 * 256)


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
