"""NumPy against MLX, bit for bit, on arbitrary inputs.

A short campaign by default; KVLAW_LONG=1 runs 2,100 cases per format. Where MLX's arithmetic is not the modelled one,
the comparison is skipped: it is never loosened.
"""

import os
from collections import Counter

import numpy as np
import pytest

from kvlaw.conformance.subjects.attention_campaign import (
    LONG_CAMPAIGN,
    MASK_KINDS,
    SHORT_CAMPAIGN,
    AttentionCase,
    CampaignResult,
    attention_case,
    compare,
    run_campaign,
)
from kvlaw.conformance.subjects.canary import arithmetic_is_modelled
from kvlaw.reference.numerics import DTYPES, FAMILY_NAMES, Bits, DType, Mask, attend, decode

CASES = LONG_CAMPAIGN if os.environ.get("KVLAW_LONG") == "1" else SHORT_CAMPAIGN
NOT_MODELLED = "the running MLX has not the modelled x86-64 CPU arithmetic (canary): not observed"


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_model_and_mlx_give_the_same_bits(dtype: DType) -> None:
    if not arithmetic_is_modelled():
        pytest.skip(NOT_MODELLED)
    result = run_campaign(dtype, CASES)
    assert result.cases == CASES
    assert result.values > 1000 * CASES, result.describe()
    assert result.finite_nonzero_share >= 0.6, result.describe()
    assert result.differing == 0, result.first_difference


@pytest.fixture(scope="module")
def long_campaign() -> list[AttentionCase]:
    return [attention_case(index, "bf16") for index in range(LONG_CAMPAIGN)]


def test_the_long_campaign_reaches_every_limit(long_campaign: list[AttentionCase]) -> None:
    assert len(long_campaign) >= 2000
    assert {case.queries.shape[2] for case in long_campaign} == set(range(1, 10))
    assert {case.keys.shape[3] for case in long_campaign} == {64, 96, 128}
    assert {case.queries.shape[1] // case.keys.shape[1] for case in long_campaign} == {1, 2, 3, 4}
    widths = Counter(case.keys.shape[2] for case in long_campaign)
    assert (min(widths), max(widths)) == (1, 300)
    assert widths[1] >= 100
    assert widths[300] >= 100
    assert len(widths) > 250


def test_every_family_meets_every_kind_of_mask(long_campaign: list[AttentionCase]) -> None:
    pairs = Counter((case.family, case.mask_kind) for case in long_campaign)
    assert len(pairs) == len(FAMILY_NAMES) * len(MASK_KINDS)
    assert min(pairs.values()) == 10
    assert {case.family_of for case in long_campaign} == {"queries", "keys", "values", "all"}


def test_the_short_campaign_meets_every_family_and_every_kind_of_mask(long_campaign: list[AttentionCase]) -> None:
    short = long_campaign[:SHORT_CAMPAIGN]
    assert {case.family for case in short} == set(FAMILY_NAMES)
    assert {case.mask_kind for case in short} == set(MASK_KINDS)


def test_ring_masks_show_the_newest_keys_wherever_the_ring_has_wrapped(long_campaign: list[AttentionCase]) -> None:
    around_the_end = 0
    for case in long_campaign:
        if case.mask_kind == "ring":
            assert isinstance(case.mask, np.ndarray)
            assert case.queries.shape[2] == 1
            assert case.mask.any()
            starts = int((case.mask & ~np.roll(case.mask, 1)).sum())
            assert starts == (0 if case.mask.all() else 1)  # one run of slots, taken around the end
            around_the_end += bool(case.mask[0] and case.mask[-1] and not case.mask.all())
    assert around_the_end >= 30


def test_array_masks_come_in_every_shape_and_with_rows_that_see_nothing(long_campaign: list[AttentionCase]) -> None:
    masks = [case.mask for case in long_campaign if case.mask_kind == "bool" and isinstance(case.mask, np.ndarray)]
    assert {mask.ndim for mask in masks} == {2, 4}
    assert any(mask.ndim == 4 and mask.shape[1] == 1 for mask in masks)
    assert any(mask.ndim == 4 and mask.shape[1] > 1 for mask in masks)
    assert sum(not mask.any(axis=-1).all() for mask in masks) >= 30


def test_a_case_is_drawn_from_its_number_alone() -> None:
    first, again, other = (attention_case(index, "f16", seed=3) for index in (17, 17, 18))
    assert np.array_equal(first.queries, again.queries)
    assert first.describe() == again.describe() != other.describe()
    assert not np.array_equal(first.queries, attention_case(17, "f16", seed=4).queries)


def wrong_in_one_bit(
    queries: Bits,
    keys: Bits,
    values: Bits,
    *,
    scale: float,
    mask: Mask,
    dtype: DType,
    sink_logits: Bits | None = None,
) -> Bits:
    """The model with the last bit of one output flipped, in causal attention only."""
    outputs = attend(queries, keys, values, scale=scale, mask=mask, dtype=dtype, sink_logits=sink_logits)
    if isinstance(mask, str):
        outputs[0, 0, 0, 0] ^= outputs.dtype.type(1)
    return outputs


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_wrong_bit_is_found_and_its_case_is_named(dtype: DType) -> None:
    causal = [index for index in range(30) if MASK_KINDS[index % len(MASK_KINDS)] == "causal"]
    ordinary = [index for index in causal if _flip_is_visible(index, dtype)]
    result = run_campaign(dtype, 30, attend=wrong_in_one_bit)
    assert len(ordinary) >= 2
    assert result.differing == len(ordinary)
    assert result.first_difference is not None
    assert result.first_difference.startswith(f"case {ordinary[0]} of {dtype}, seed 0:")


def _flip_is_visible(index: int, dtype: DType) -> bool:
    """Whether the flipped output is a number: a NaN equals any NaN."""
    outputs, differs = compare(attention_case(index, dtype), wrong_in_one_bit)
    return bool(differs.any()) and not np.isnan(decode(outputs, dtype)[0, 0, 0, 0])


def test_outputs_of_another_shape_are_refused() -> None:
    def too_short(
        queries: Bits,
        keys: Bits,
        values: Bits,
        *,
        scale: float,
        mask: Mask,
        dtype: DType,
        sink_logits: Bits | None = None,
    ) -> Bits:
        return queries[..., :1]

    with pytest.raises(ValueError, match=r"case 0 of bf16, seed 0: .* outputs of shape"):
        compare(attention_case(0, "bf16"), too_short)


def test_a_result_sums_itself_up() -> None:
    result = CampaignResult("f32", cases=3, values=1000, finite_nonzero=655, differing=0, first_difference=None)
    assert result.describe() == "f32: 3 cases, 1000 values, 65.5% finite and non-zero, 0 differ (NaN = NaN)"
