"""Dense attention, NumPy against MLX, bit for bit, on arbitrary inputs.

The ``ci`` budget of the campaign by default; KVLAW_LONG=1 runs the ``deep`` one (2,100 cases per format), as ``kvlaw
arithmetic --budget deep`` does. Where MLX's arithmetic is not the modelled one, the comparison is skipped: it is never
loosened.
"""

import os
from collections import Counter
from typing import Any

import numpy as np
import pytest

from kvlaw.conformance.campaigns.attention import MASK_KINDS, DenseCase, attention_case, dense_attention
from kvlaw.conformance.campaigns.campaign import Budget
from kvlaw.conformance.campaigns.cases import FINITE_NONZERO, compare
from kvlaw.reference.numerics import DTYPES, FAMILY_NAMES, Bits, DType, attend, decode

BUDGET: Budget = "deep" if os.environ.get("KVLAW_LONG") == "1" else "ci"
NOT_MODELLED = "the running MLX has not the modelled x86-64 CPU arithmetic (canary): not observed"
SHORT, LONG = (dense_attention().cases[budget] for budget in ("ci", "deep"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_model_and_mlx_give_the_same_bits(dtype: DType) -> None:
    campaign = dense_attention()
    if not campaign.modelled():
        pytest.skip(NOT_MODELLED)
    result = campaign.run(dtype, campaign.cases[BUDGET])
    assert result.cases == campaign.cases[BUDGET]
    assert result.tally.values > 1000 * result.cases, result.describe()
    assert result.tally.share(FINITE_NONZERO) >= 0.6, result.describe()
    assert result.tally.differing == 0, result.first_difference


@pytest.fixture(scope="module")
def long_campaign() -> list[DenseCase]:
    return [attention_case(number, "bf16") for number in range(LONG)]


def test_the_long_campaign_reaches_every_limit(long_campaign: list[DenseCase]) -> None:
    assert len(long_campaign) >= 2000
    assert {case.queries.shape[2] for case in long_campaign} == set(range(1, 10))
    assert {case.keys.shape[3] for case in long_campaign} == {64, 96, 128}
    assert {case.queries.shape[1] // case.keys.shape[1] for case in long_campaign} == {1, 2, 3, 4}
    widths = Counter(case.keys.shape[2] for case in long_campaign)
    assert (min(widths), max(widths)) == (1, 300)
    assert widths[1] >= 100
    assert widths[300] >= 100
    assert len(widths) > 250


def test_every_family_meets_every_kind_of_mask(long_campaign: list[DenseCase]) -> None:
    pairs = Counter((case.drawn.family, case.mask_kind) for case in long_campaign)
    assert len(pairs) == len(FAMILY_NAMES) * len(MASK_KINDS)
    assert min(pairs.values()) == 10
    assert {case.drawn.family_of for case in long_campaign} == {"queries", "keys", "values", "all"}


def test_the_short_campaign_meets_every_family_and_every_kind_of_mask(long_campaign: list[DenseCase]) -> None:
    short = long_campaign[:SHORT]
    assert {case.drawn.family for case in short} == set(FAMILY_NAMES)
    assert {case.mask_kind for case in short} == set(MASK_KINDS)


def test_ring_masks_show_the_newest_keys_wherever_the_ring_has_wrapped(long_campaign: list[DenseCase]) -> None:
    around_the_end = 0
    for case in long_campaign:
        if case.mask_kind == "ring":
            assert isinstance(case.mask, np.ndarray)
            assert case.queries.shape[2] == 1
            (visible,) = case.mask
            assert visible.any()
            starts = int((visible & ~np.roll(visible, 1)).sum())
            assert starts == (0 if visible.all() else 1)  # one run of slots, taken around the end
            around_the_end += bool(visible[0] and visible[-1] and not visible.all())
    assert around_the_end >= 30


def test_array_masks_come_in_every_shape_and_with_rows_that_see_nothing(long_campaign: list[DenseCase]) -> None:
    masks = [case.mask for case in long_campaign if case.mask_kind == "bool" and isinstance(case.mask, np.ndarray)]
    assert {mask.ndim for mask in masks} == {2, 4}
    assert any(mask.ndim == 4 and mask.shape[1] == 1 for mask in masks)
    assert any(mask.ndim == 4 and mask.shape[1] > 1 for mask in masks)
    assert sum(not mask.any(axis=-1).all() for mask in masks) >= 30


def test_learned_sinks_come_alone_and_with_a_mask(long_campaign: list[DenseCase]) -> None:
    with_sinks = {case.mask_kind for case in long_campaign if case.settings["sink_logits"] is not None}
    assert with_sinks == {"sinks", "bool and sinks"}


def test_a_case_is_drawn_from_its_number_alone() -> None:
    first, again, other = (attention_case(number, "f16", seed=3) for number in (17, 17, 18))
    assert np.array_equal(first.queries, again.queries)
    assert first.describe() == again.describe() != other.describe()
    assert not np.array_equal(first.queries, attention_case(17, "f16", seed=4).queries)


def wrong_in_one_bit(*operands: Bits, mask: Any, **settings: Any) -> Bits:
    """The model with the last bit of one output flipped, in causal attention only."""
    outputs = attend(*operands, mask=mask, **settings)
    if isinstance(mask, str):
        outputs[0, 0, 0, 0] ^= outputs.dtype.type(1)
    return outputs


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_wrong_bit_is_found_and_its_case_is_named(dtype: DType) -> None:
    causal = [number for number in range(30) if MASK_KINDS[number % len(MASK_KINDS)] == "causal"]
    ordinary = [number for number in causal if _flip_is_visible(number, dtype)]
    result = dense_attention(wrong_in_one_bit).run(dtype, 30)
    assert len(ordinary) >= 2
    assert result.tally.differing == len(ordinary)
    assert result.first_difference is not None
    assert result.first_difference.startswith(f"case {ordinary[0]} of {dtype}, seed 0:")


def _flip_is_visible(number: int, dtype: DType) -> bool:
    """Whether the flipped output is a number: a NaN equals any NaN."""
    outputs, differs = compare(attention_case(number, dtype), wrong_in_one_bit, attend)
    return bool(differs.any()) and not np.isnan(decode(outputs, dtype)[0, 0, 0, 0])


def test_outputs_of_another_shape_are_refused() -> None:
    def too_short(*operands: Bits, **settings: Any) -> Bits:
        return attend(*operands, **settings)[..., :-1]

    with pytest.raises(ValueError, match=r"case 0 of bf16, seed 0: .*outputs of shape"):
        compare(attention_case(0, "bf16"), too_short, attend)
