"""Attention over codes by every kernel set, NumPy against MLX, bit for bit, and changes of arithmetic that are found.

The ``ci`` budget of the campaigns by default (252 attentions by our kernels, 108 by MLX's plain operations);
KVLAW_LONG=1 runs the ``deep`` one, as ``kvlaw arithmetic --budget deep`` does. Where MLX's arithmetic is not the
modelled one, the comparison is skipped: it is never loosened.
"""

import os
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import Any, cast

import attrs
import numpy as np
import pytest

from kvlaw.conformance.campaigns.attention_over_codes import (
    MASK_KINDS,
    TILED,
    TILED_CAUSAL,
    UNFUSED,
    CodesCase,
    Setting,
    by_plain_operations,
    codes_are_modelled,
    over_codes,
)
from kvlaw.conformance.campaigns.campaign import AnyCampaign, Budget
from kvlaw.conformance.campaigns.cases import FINITE_NONZERO, compare
from kvlaw.conformance.subjects import mlx_codec
from kvlaw.conformance.subjects.mlx_arithmetic import from_mlx, to_mlx
from kvlaw.reference.numerics import DTYPES, FAMILY_NAMES, Bits, DType, Float32, Mask, decode, encode, lowest, round_to
from kvlaw.reference.numerics.affine import GROUPS, Codes, dequantize
from kvlaw.reference.numerics.attention import causal_mask
from kvlaw.reference.numerics.exponential import exponential
from kvlaw.reference.numerics.packing import CODE_BITS
from kvlaw.reference.numerics.quantized_attention import attend_quantized
from kvlaw.reference.numerics.quantized_products import multiply_rounding

BUDGET: Budget = "deep" if os.environ.get("KVLAW_LONG") == "1" else "ci"
CAMPAIGNS: dict[str, AnyCampaign] = {
    "plain operations": by_plain_operations(),
    **{setting.kernel_set: over_codes(setting) for setting in (UNFUSED, TILED_CAUSAL, TILED)},
}
RUNS = [(name, dtype) for name, campaign in CAMPAIGNS.items() for dtype in campaign.dtypes]

modelled_only = pytest.mark.skipif(
    not codes_are_modelled(), reason="the running MLX has not the modelled x86-64 CPU arithmetic (canary): not observed"
)


@modelled_only
@pytest.mark.parametrize(("name", "dtype"), RUNS)
def test_attention_over_codes_gives_the_same_bits(name: str, dtype: DType) -> None:
    campaign = CAMPAIGNS[name]
    result = campaign.run(dtype, campaign.cases[BUDGET])
    assert result.cases == campaign.cases[BUDGET]
    assert result.tally.values > 1000 * result.cases, result.describe()
    assert result.tally.share(FINITE_NONZERO) >= 0.5, result.describe()
    assert result.tally.differing == 0, result.first_difference


def test_the_budgets_hold_hundreds_and_thousands_of_cases() -> None:
    ours = [campaign for name, campaign in CAMPAIGNS.items() if name != "plain operations"]
    cases = {
        budget: sum(campaign.cases[budget] * len(campaign.dtypes) for campaign in ours) for budget in ("ci", "deep")
    }
    assert cases["ci"] >= 250
    assert cases["deep"] >= 2500
    assert min(campaign.cases["deep"] * len(campaign.dtypes) for campaign in ours) >= 900


# What the cases reach -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[UNFUSED, TILED], ids=["unfused", "tiled"])
def setting(request: pytest.FixtureRequest) -> Setting:
    return request.param


@pytest.fixture(scope="module")
def deep(setting: Setting) -> list[CodesCase]:
    return [setting.draw(number, "bf16") for number in range(over_codes(setting).cases["deep"])]


def test_the_deep_campaign_reaches_every_setting_and_limit(setting: Setting, deep: list[CodesCase]) -> None:
    settings = Counter((case.settings["key_bits"], case.settings["group"], case.mask_kind) for case in deep)
    assert len(settings) == len(setting.bits) * len(GROUPS) * len(MASK_KINDS)
    assert min(settings.values()) == max(settings.values()) >= 3
    assert {case.drawn.family for case in deep} == set(FAMILY_NAMES)
    assert {case.drawn.family_of for case in deep} == {"queries", "keys", "values", "all", "scores"}
    assert {case.queries.shape[3] for case in deep} == {64, 96, 128, 256}
    assert {case.queries.shape[1] // case.keys.words.shape[1] for case in deep} == {1, 2, 3, 4}
    assert {case.queries.shape[2] for case in deep} == set(range(1, 10))
    assert {case.settings["value_bits"] for case in deep} == set(setting.bits)
    widths = Counter(case.keys.words.shape[2] for case in deep)
    assert max(widths) == 1100
    assert min(widths) <= 9
    limits = (256,) if setting is UNFUSED else (512, 513, 1024, 1025, 1100)
    assert min(widths[limit] for limit in limits) >= 5
    assert sum(widths[width] for width in widths if width > 512) >= (30 if setting is UNFUSED else 300)


def test_the_short_campaign_meets_every_setting(setting: Setting, deep: list[CodesCase]) -> None:
    short = deep[: over_codes(setting).cases["ci"]]
    codecs = {(case.settings["key_bits"], case.settings["group"]) for case in short}
    assert len(codecs) == len(setting.bits) * len(GROUPS)
    assert {case.mask_kind for case in short} == set(MASK_KINDS)
    if setting is TILED:
        assert len({(*codec, case.mask_kind) for case in short for codec in codecs}) == 48
        assert {-(-case.keys.words.shape[2] // 512) for case in short} == {1, 2, 3}


def test_a_tiled_set_is_drawn_with_the_bits_and_formats_that_it_reads() -> None:
    assert (UNFUSED.bits, TILED.bits, TILED_CAUSAL.bits) == (CODE_BITS, (4, 8), (4, 8))
    assert CAMPAIGNS["unfused"].dtypes == DTYPES
    assert CAMPAIGNS["tiled"].dtypes == CAMPAIGNS["tiled_causal"].dtypes == ("bf16", "f16")


def test_ring_masks_show_windows_in_the_order_of_the_ring(deep: list[CodesCase]) -> None:
    around_the_end = 0
    masks = [case.mask for case in deep if case.mask_kind in {"ring", "ring decode"}]
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


def test_window_masks_show_pinned_columns_and_a_window_that_ends_at_each_query(deep: list[CodesCase]) -> None:
    hidden = pinned = 0
    for case in deep:
        if case.mask_kind == "window":
            mask: Any = case.mask
            length, width = mask.shape
            assert not (mask & ~causal_mask(length, width)).any()
            assert mask[np.arange(length), np.arange(width - length, width)].all()
            hidden += not np.array_equal(mask, causal_mask(length, width))
            pinned += bool(mask[-1, 0] and not mask[-1].all())
    assert hidden >= 30
    assert pinned >= 10


def test_decodes_are_single_queries_that_stand_alone(deep: list[CodesCase]) -> None:
    for case in deep:
        assert case.settings["alone"] == (case.mask_kind in {"decode", "ring decode"})
        assert case.queries.shape[2] == 1 or not case.settings["alone"]
    assert any(case.queries.shape[2] == 1 and not case.settings["alone"] for case in deep)


def test_a_case_is_drawn_from_its_number_alone(setting: Setting) -> None:
    first, again, other = (setting.draw(number, "f16", 3) for number in (17, 17, 18))
    assert np.array_equal(first.queries, again.queries)
    assert np.array_equal(first.values.words, again.values.words)
    assert first.describe() == again.describe() != other.describe()
    assert first.describe().startswith(f"case 17 of f16, seed 3: {setting.kernel_set}, keys of ")


# Other computations of the same ---------------------------------------------------------------------------------------


def mlx_lm_attention(queries: Bits, keys: Codes, values: Codes, *, mask: Mask, dtype: DType, **settings: Any) -> Bits:
    """mlx-lm's own function, which has one number of bits for both and gives values the head size of keys."""
    base = pytest.importorskip("mlx_lm.models.base")
    given = pytest.importorskip("mlx.core").array(mask) if isinstance(mask, np.ndarray) else mask
    stored = [mlx_codec.codes_to_mlx(codes, dtype) for codes in (keys, values)]
    output = base.quantized_scaled_dot_product_attention(
        to_mlx(queries, dtype),
        stored[0],
        stored[1],
        scale=settings["scale"],
        mask=given,
        group_size=settings["group"],
        bits=settings["key_bits"],
    )
    return from_mlx(output)


@modelled_only
@pytest.mark.parametrize("dtype", DTYPES)
def test_mlx_lm_attends_to_codes_with_the_same_bits(dtype: DType) -> None:
    drawn = (by_plain_operations().draw(number, dtype, 0) for number in range(432))
    fitting = {(case.mask_kind, case.settings["key_bits"]): case for case in drawn if _fits_mlx_lm(case)}
    assert {kind for kind, _ in fitting} == set(MASK_KINDS)
    assert {bits for _, bits in fitting} == set(CODE_BITS)
    for case in fitting.values():
        outputs, differs = compare(case, mlx_lm_attention, attend_quantized)
        assert outputs.size
        assert not differs.any(), case.describe()


def _fits_mlx_lm(case: CodesCase) -> bool:
    """Whether mlx-lm's attention takes the case: one number of bits, one head size; not the slowest ones."""
    one_codec = case.settings["key_bits"] == case.settings["value_bits"]
    return one_codec and case.keys.words.shape == case.values.words.shape and case.keys.words.shape[2] <= 256


def test_mlx_refuses_a_kernel_set_that_its_plain_operations_are_not() -> None:
    case = TILED.draw(0, "bf16")
    with pytest.raises(ValueError, match="unfused, not tiled"):
        case.attended_by(mlx_codec.attend_quantized)


# Planted changes ------------------------------------------------------------------------------------------------------


def ascending(weights: Float32) -> Float32:
    total = np.zeros(weights.shape[:-1], np.float32)
    for k in range(weights.shape[-1]):
        total = np.add(total, weights[..., k])
    return total[..., np.newaxis]


def descending(weights: Float32) -> Float32:
    return ascending(weights[..., ::-1])


def in_pairs(weights: Float32) -> Float32:
    return weights.sum(axis=-1, keepdims=True, dtype=np.float32)  # NumPy adds pairwise, several sums at a time


@attrs.frozen
class Planted:
    """The tiled kernel in which each detail can be changed: the reference's steps, put together once more."""

    tile: int = 512
    add_up: Callable[[Float32], Float32] = ascending
    masked_score: float = float(lowest("f32"))
    masked_score_of_the_format: bool = False
    rescales: bool = True
    rescales_the_weight: bool = True
    rounds_weights: bool = True
    rounds_rescaled: bool = False
    sums_the_rounded_weights: bool = False
    divides_first: bool = False
    takes_reciprocals: bool = False
    sums_in_float32: bool = False
    backwards: bool = False
    unfused_if_masked: bool = False
    tiled_decodes: bool = False

    def attend(self, queries: Bits, keys: Codes, values: Codes, **given: Any) -> Bits:
        """Attend as `attend_quantized` does, by the changed kernel where the reference is tiled."""
        mask, dtype, group = given["mask"], given["dtype"], given["group"]
        length, width = queries.shape[2], keys.words.shape[2]
        visible = causal_mask(length, width) if isinstance(mask, str) else np.ones((length, width), np.bool_)
        visible = mask if isinstance(mask, np.ndarray) else visible
        is_causal = np.array_equal(visible, causal_mask(length, width))
        alone = given["alone"] and not self.tiled_decodes
        if alone or (not is_causal and (self.unfused_if_masked or given["kernel_set"] == "tiled_causal")):
            given["kernel_set"] = "unfused"
            return attend_quantized(queries, keys, values, **given)
        scaled = round_to(round_to(np.asarray(given["scale"], np.float32), dtype) * decode(queries, dtype), dtype)
        rows = [
            decode(dequantize(codes, dtype=dtype, bits=given[bits], group=group), dtype)
            for codes, bits in ((keys, "key_bits"), (values, "value_bits"))
        ]
        matrices = queries.shape[0] * rows[0].shape[1]
        by_head, key_rows, value_rows = (part.reshape(matrices, -1, part.shape[3]) for part in (scaled, *rows))
        repeats = queries.shape[1] // rows[0].shape[1]
        with np.errstate(all="ignore"):
            output = self.tiled(by_head, key_rows, value_rows, np.tile(visible, (repeats, 1)), dtype)
        return encode(output.reshape(*queries.shape[:3], -1), dtype)

    def tiled(
        self, queries: Float32, keys: Float32, values: Float32, visible: np.ndarray[Any, Any], dtype: DType
    ) -> Float32:
        """Attend [N, M, D] to [N, S, D] and [N, S, E] under [M, S]."""
        masked_score = lowest(dtype) if self.masked_score_of_the_format else np.float32(self.masked_score)
        top = total = mixed = None
        starts = range(0, keys.shape[1], self.tile)
        for start in reversed(starts) if self.backwards else starts:
            tile = slice(start, start + self.tile)
            scores = self.product(queries, keys[:, tile].swapaxes(1, 2), dtype)
            scores = np.where(visible[:, tile], scores, masked_score)
            best = scores.max(axis=-1, keepdims=True)
            best = best if top is None else np.maximum(top, best)
            weights = exponential(scores - best)
            rounded = round_to(weights, dtype) if self.rounds_weights else weights
            added = self.add_up(rounded if self.sums_the_rounded_weights else weights)
            if self.divides_first:
                rounded = round_to(weights / added, dtype)
            part = self.product(rounded, values[:, tile], dtype) * (added if self.divides_first else np.float32(1))
            if top is not None and total is not None and mixed is not None:
                shrink = exponential(top - best) if self.rescales else np.ones_like(best)
                added = total * (shrink if self.rescales_the_weight else np.float32(1)) + added
                kept = round_to(mixed * shrink, dtype) if self.rounds_rescaled else mixed * shrink
                part = kept + part
            top, total, mixed = best, added, part
        assert mixed is not None
        assert total is not None
        return mixed * (np.float32(1) / total) if self.takes_reciprocals else mixed / total

    def product(self, left: Float32, right: Float32, dtype: DType) -> Float32:
        """Multiply with sums in the format, or in float32 for a fused kernel that dequantizes in registers."""
        if not self.sums_in_float32:
            return multiply_rounding(left, right, dtype)
        return round_to(multiply_rounding(left, right, "f32"), dtype)


CHANGES = {
    "no rescale": Planted(rescales=False),
    "the weight is not rescaled": Planted(rescales_the_weight=False),
    "division before the values": Planted(divides_first=True),
    "sums from the last key to the first": Planted(add_up=descending),
    "sums in pairs": Planted(add_up=in_pairs),
    "sums of the rounded weights": Planted(sums_the_rounded_weights=True),
    "weights not rounded": Planted(rounds_weights=False),
    "rescaled outputs rounded": Planted(rounds_rescaled=True),
    "masked scores are the lowest of the format": Planted(masked_score_of_the_format=True),
    "masked scores are -infinity": Planted(masked_score=-np.inf),
    "tiles of 256": Planted(tile=256),
    "tiles of 1024": Planted(tile=1024),
    "tiles from the last to the first": Planted(backwards=True),
    "a reciprocal instead of a division": Planted(takes_reciprocals=True),
    "products add up in float32": Planted(sums_in_float32=True),
    "masked windows are unfused": Planted(unfused_if_masked=True),
    "decodes are tiled": Planted(tiled_decodes=True),
}


def _first_failing(planted: Planted, setting: Setting, dtype: DType, cases: int) -> int | None:
    """Run the campaign until something differs, and say after how many cases it does."""
    steps = over_codes(setting, planted.attend).steps(dtype, cases)
    return next((result.cases for result in steps if result.tally.differing), None)


@pytest.mark.parametrize("setting", [TILED, TILED_CAUSAL], ids=["tiled", "tiled_causal"])
def test_the_planted_kernel_without_a_change_passes(setting: Setting) -> None:
    for dtype in ("bf16", "f16"):
        assert _first_failing(Planted(), setting, cast("DType", dtype), 20) is None


@pytest.mark.parametrize("change", CHANGES)
def test_the_short_campaign_fails_on_a_changed_kernel(change: str) -> None:
    cases = over_codes(TILED).cases["ci"]
    assert any(_first_failing(CHANGES[change], TILED, dtype, cases) for dtype in over_codes(TILED).dtypes)


def test_a_wrong_choice_of_kernel_is_found_in_tiled_causal_too() -> None:
    def always_tiled(*operands: Any, **given: Any) -> Bits:
        return attend_quantized(*operands, **{**given, "kernel_set": "tiled"})

    steps = over_codes(TILED_CAUSAL, always_tiled).steps("bf16", 48)
    failed = [result.first_difference or "" for result in islice(steps, 48) if result.tally.differing]
    assert failed
    assert any(f"mask {kind}," in failed[0] for kind in ("none", "any", "ring", "window"))


def test_one_wrong_bit_is_found_and_its_case_is_named() -> None:
    def wrong_in_one_bit(queries: Bits, keys: Codes, values: Codes, **given: Any) -> Bits:
        outputs = attend_quantized(queries, keys, values, **given)
        if given["group"] == 128:
            outputs[0, 0, 0, 0] ^= outputs.dtype.type(1)
        return outputs

    result = over_codes(UNFUSED, wrong_in_one_bit).run("bf16", 18)
    numbers = [number for number in range(12, 18) if not _first_output_is_nan(number)]
    assert len(numbers) >= 3
    assert result.tally.differing == len(numbers)
    assert result.first_difference is not None
    assert result.first_difference.startswith(f"case {numbers[0]} of bf16, seed 0:")


def _first_output_is_nan(number: int) -> bool:
    """Whether the output whose bit is flipped is NaN, which equals any NaN."""
    return bool(np.isnan(decode(UNFUSED.draw(number, "bf16").attended_by(attend_quantized), "bf16")[0, 0, 0, 0]))
