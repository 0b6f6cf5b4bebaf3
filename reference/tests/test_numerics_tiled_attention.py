"""Tiled attention over codes by hand, against its loop written out, and which kernel a mask's meaning takes."""

from typing import Any

import numpy as np
import pytest

from kvlaw.reference.numerics import Bits, DType, Mask, decode, encode, family, lowest, round_to
from kvlaw.reference.numerics.affine import Codes, dequantize, quantize
from kvlaw.reference.numerics.exponential import exponential
from kvlaw.reference.numerics.quantized_attention import TILE, attend_quantized, means_causal

HALVES: tuple[DType, ...] = ("bf16", "f16")
every_half = pytest.mark.parametrize("dtype", HALVES)


def coded(values: Any, dtype: DType, bits: int = 8) -> Codes:
    return quantize(encode(values, dtype), dtype=dtype, bits=bits, group=32)


def attended(queries: Any, keys: Codes, values: Codes, dtype: DType, mask: Mask = None, **more: Any) -> Bits:
    settings: dict[str, Any] = {
        "scale": 1.0,
        "key_bits": 8,
        "value_bits": 8,
        "group": 32,
        "kernel_set": "tiled",
        **more,
    }
    return attend_quantized(encode(queries, dtype), keys, values, mask=mask, dtype=dtype, **settings)


def constant_rows(values: Any, width: int) -> np.ndarray:
    """Rows [1, 1, S, 32] of the same values, each the constant of one key: 8-bit codes of a constant are exact."""
    return np.broadcast_to(np.asarray(values, np.float32).reshape(1, 1, -1, 1), (1, 1, width, 32))


@pytest.mark.parametrize(("dtype", "mean"), [("bf16", 0.5), ("f16", 1.0)])
def test_a_tile_adds_up_in_the_format_and_tiles_add_up_in_float32(dtype: DType, mean: float) -> None:
    """512 ones add up to 256 in bf16 and to 512 in f16; two tiles make 512 or 1024, by a weight of 1024."""
    ones = coded(constant_rows([1.0] * 1024, 1024), dtype)
    output = attended(np.zeros((1, 1, 2, 32)), ones, ones, dtype)
    assert (decode(output, dtype) == mean).all()


@every_half
def test_a_greater_score_in_a_later_tile_rescales_what_came_before(dtype: DType) -> None:
    """Scores of 0 in the first tile, one of 8 after it: (512 * e^-8 * 3 + 5) / (512 * e^-8 + 1)."""
    keys = np.zeros(TILE + 1)
    keys[TILE] = 8.0
    values = np.zeros(TILE + 1)
    values[0], values[TILE] = 96.0, 5.0  # one value of 96 in 512 weights of 1: what they add up to is exact
    queries = np.zeros((1, 1, 2, 32))
    queries[..., 0] = 1.0
    output = attended(
        queries, coded(constant_rows(keys, TILE + 1), dtype), coded(constant_rows(values, TILE + 1), dtype), dtype
    )
    shrink = np.exp(-8.0)
    expected = (96 * shrink + 5) / (512 * shrink + 1)
    assert np.array_equal(output, np.full_like(output, encode(expected, dtype)))
    assert expected != pytest.approx((96 + 5) / (512 + 1), rel=0.1)


@every_half
@pytest.mark.parametrize("name", ["normal", "normal * 100", "any exponent", "some infinity", "some NaN", "huge"])
def test_it_is_the_loop_written_out(dtype: DType, name: str) -> None:
    rng = np.random.default_rng([HALVES.index(dtype), len(name)])
    width, value_size = 2 * TILE + 9, 32
    queries = family(name, rng, (1, 1, 2, 32), dtype)
    keys, values = (
        quantize(family("normal", rng, (1, 1, width, 32), dtype), dtype=dtype, bits=8, group=32) for _ in "kv"
    )
    mask = rng.random((2, width)) < 0.5
    mask[1, : TILE + 3] = False
    found = attended(decode(queries, dtype), keys, values, dtype, mask)
    key_rows, value_rows = (decode(dequantize(c, dtype=dtype, bits=8, group=32), dtype)[0, 0] for c in (keys, values))
    for query in range(2):
        expected = one_query(decode(queries, dtype)[0, 0, query], key_rows, value_rows, mask[query], dtype)
        assert expected.shape == (value_size,)
        both_nan = np.isnan(decode(found[0, 0, query], dtype)) & np.isnan(expected)
        assert ((found[0, 0, query] == encode(expected, dtype)) | both_nan).all()


def one_query(query: Any, keys: Any, values: Any, visible: Any, dtype: DType) -> np.ndarray:
    """Attend one query, key by key, tile by tile."""
    f32 = np.float32
    top = total = f32(0)
    mixed = np.zeros(values.shape[1], f32)
    with np.errstate(all="ignore"):
        for start in range(0, len(keys), TILE):
            tile = range(start, min(start + TILE, len(keys)))
            scores = np.array([score(query, keys[j], dtype) if visible[j] else lowest("f32") for j in tile], f32)
            best = scores.max() if start == 0 else np.maximum(top, scores.max())
            weights = exponential(scores - best)
            added, part = f32(0), np.zeros(values.shape[1], f32)
            for weight, j in zip(weights, tile, strict=True):
                added = added + weight
                part = round_to(part + round_to(round_to(np.asarray(weight), dtype) * values[j], dtype), dtype)
            shrink = exponential(np.asarray(top - best))
            total = added if start == 0 else total * shrink + added
            mixed = part if start == 0 else mixed * shrink + part
            top = best
        return round_to(np.asarray(mixed / total), dtype)


def score(query: Any, key: Any, dtype: DType) -> np.float32:
    total = np.zeros((), np.float32)
    for left, right in zip(query, key, strict=True):
        total = round_to(np.asarray(total + round_to(np.asarray(left * right), dtype)), dtype)
    return np.float32(total)


def random_cache(dtype: DType, width: int) -> tuple[Any, Codes, Codes]:
    rng = np.random.default_rng(width)
    queries = rng.standard_normal((2, 4, 3, 32))
    keys, values = (coded(rng.standard_normal((2, 2, width, 32)), dtype) for _ in "kv")
    return queries, keys, values


@every_half
def test_masked_tiles_before_the_first_visible_key_leave_nothing_behind(dtype: DType) -> None:
    """Their keys have weight 1 until a visible one comes; e^(lowest - m) = 0 then."""
    queries, keys, values = random_cache(dtype, 2 * TILE + 7)
    visible = np.arange(2 * TILE + 7) >= TILE
    masked = attended(queries, keys, values, dtype, np.broadcast_to(visible, (3, 2 * TILE + 7)))
    assert np.array_equal(masked, attended(queries, keys[:, :, TILE:], values[:, :, TILE:], dtype))


def test_a_masked_score_is_the_lowest_float32_and_not_that_of_the_format() -> None:
    """A visible score of f16's lowest value, -65504, is far above a masked one: weight 1 against none."""
    queries = np.zeros((1, 1, 2, 32))
    queries[..., 0] = -65504.0
    keys, values = coded(constant_rows([1, 1], 2), "f16"), coded(constant_rows([2, 8], 2), "f16")
    mask = np.array([[True, False], [False, True]])
    assert decode(attended(queries, keys, values, "f16", mask), "f16")[0, 0, :, 0].tolist() == [2, 8]
    unfused = attended(queries, keys, values, "f16", mask, kernel_set="unfused")
    assert decode(unfused, "f16")[0, 0, :, 0].tolist() == [5, 5]


@every_half
def test_the_meaning_of_the_mask_and_standing_alone_choose_the_kernel(dtype: DType) -> None:
    width = TILE + 40
    queries, keys, values = random_cache(dtype, width)
    causal = np.tri(3, width, width - 3, dtype=np.bool_)
    narrower = causal & ~np.tri(3, width, width - 3 - 500, dtype=np.bool_)

    def output(kernel_set: str, mask: Mask, **more: Any) -> bytes:
        return attended(queries, keys, values, dtype, mask, kernel_set=kernel_set, **more).tobytes()

    unfused = {mask: output("unfused", how) for mask, how in (("causal", causal), ("narrower", narrower))}
    tiled = {mask: output("tiled", how) for mask, how in (("causal", causal), ("narrower", narrower))}
    assert unfused["causal"] != tiled["causal"]
    assert unfused["narrower"] != tiled["narrower"]
    assert output("tiled", "causal") == output("tiled_causal", "causal") == tiled["causal"]
    assert output("tiled_causal", causal) == tiled["causal"]
    assert output("tiled_causal", narrower) == unfused["narrower"]
    for kernel_set in ("tiled", "tiled_causal"):
        assert output(kernel_set, causal, alone=True) == unfused["causal"]
        assert output(kernel_set, narrower, alone=True) == unfused["narrower"]


def test_one_query_means_causal_without_a_mask_and_several_do_not() -> None:
    assert means_causal(None, 1, 9)
    assert not means_causal(None, 2, 9)
    assert means_causal("causal", 2, 9)
    assert means_causal(np.ones(9, np.bool_), 1, 9)
    assert means_causal(np.array([[True, True, False], [True, True, True]]), 2, 3)
    assert not means_causal(np.array([[True, True, True], [True, True, True]]), 2, 3)
    assert not means_causal(np.array([[False, True, False], [True, True, True]]), 2, 3)
    assert not means_causal(encode(np.zeros((1, 9)), "bf16"), 1, 9)


def test_a_tiled_set_refuses_what_it_cannot_read() -> None:
    queries, keys, values = random_cache("bf16", 4)
    with pytest.raises(ValueError, match="tiled_causal reads bits of 4 or 8 in bf16 or f16, got 8 and 6 in bf16"):
        attended(queries, keys, values, "bf16", kernel_set="tiled_causal", value_bits=6)
    with pytest.raises(ValueError, match="got 8 and 8 in f32"):
        attended(queries, coded(np.zeros((2, 2, 4, 32)), "f32"), coded(np.zeros((2, 2, 4, 32)), "f32"), "f32")
    with pytest.raises(ValueError, match="tiled hides keys and adds no mask"):
        attended(queries, keys, values, "bf16", encode(np.zeros((3, 4)), "bf16"))
