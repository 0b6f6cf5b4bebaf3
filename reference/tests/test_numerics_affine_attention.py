"""Products with codes and attention over codes by hand, and the equalities that their definitions promise."""

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlaw.reference.numerics import DTYPES, Bits, DType, attend, decode, encode, equal_bits, family, round_to
from kvlaw.reference.numerics.affine import Codes, dequantize, quantize
from kvlaw.reference.numerics.packing import CODE_BITS
from kvlaw.reference.numerics.products import multiply_matrices
from kvlaw.reference.numerics.quantized_attention import KERNEL_SETS, KernelSet, attend_quantized
from kvlaw.reference.numerics.quantized_products import multiply_by_codes, multiply_rounding

HALVES: tuple[DType, ...] = ("bf16", "f16")
every_dtype = pytest.mark.parametrize("dtype", DTYPES)
every_half = pytest.mark.parametrize("dtype", HALVES)
repeatedly = settings(max_examples=30, deadline=None, database=None)


def normal(rng: np.random.Generator, *shape: int, dtype: DType) -> Bits:
    return encode(rng.standard_normal(shape), dtype)


# Products -------------------------------------------------------------------------------------------------------------


def test_each_product_is_rounded_before_it_is_added() -> None:
    """In bf16 (129 / 128)^2 = 1 + 4 / 256 + 1 / 2^14 becomes 1 + 4 / 256, so that nothing remains of the sum."""
    left = np.array([[[129 / 128, -(1 + 4 / 256)]]], np.float32)
    right = np.array([[[129 / 128], [1]]], np.float32)
    assert multiply_rounding(left, right, "bf16").tolist() == [[[0]]]
    assert multiply_matrices(left, right, "bf16").tolist() == [[[2.0**-14]]]


def test_each_sum_is_rounded_before_the_next() -> None:
    """256 + 1 is 256 in bf16, twice; in float32 the two ones arrive."""
    left, right = np.array([[[256, 1, 1]]], np.float32), np.ones((1, 3, 1), np.float32)
    assert multiply_rounding(left, right, "bf16").item() == 256
    assert multiply_matrices(left, right, "bf16").item() == 258
    assert multiply_rounding(left[:, :, ::-1], right, "bf16").item() == 258


@pytest.mark.parametrize(
    ("dtype", "keys", "mean"),
    [
        ("bf16", 256, 1),
        ("bf16", 512, 0.5),
        ("bf16", 2048, 0.125),
        ("f16", 2048, 1),
        ("f16", 4096, 0.5),
        ("f32", 8192, 1),
    ],
)
def test_the_mean_of_many_ones_stands_still(dtype: DType, keys: int, mean: float) -> None:
    """From where 1 / n is half a unit in the sum's last place: 2^-9 at 1/2 in bf16, 2^-12 at 1/2 in f16."""
    weights = np.full((1, 1, keys), 1 / keys, np.float32)
    assert multiply_rounding(weights, np.ones((1, keys, 1), np.float32), dtype).item() == mean


@repeatedly
@given(
    dtype=st.sampled_from(HALVES),
    sizes=st.tuples(*[st.integers(1, 6)] * 3),
    reduced=st.integers(1, 40),
    name=st.sampled_from(["normal", "any exponent", "infinities and NaN", "any bits", "tiny", "huge"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_products_are_those_of_the_loop(
    dtype: DType, sizes: tuple[int, int, int], reduced: int, name: str, seed: int
) -> None:
    batches, rows, columns = sizes
    rng = np.random.default_rng(seed)
    left = decode(family(name, rng, (batches, rows, reduced), dtype), dtype)
    right = decode(family(name, rng, (batches, reduced, columns), dtype), dtype)
    total = np.zeros((batches, rows, columns), np.float32)
    with np.errstate(all="ignore"):
        for k in range(reduced):
            term = round_to(left[:, :, k, np.newaxis] * right[:, np.newaxis, k, :], dtype)
            total = round_to(np.add(total, term), dtype)
    assert equal_bits(encode(multiply_rounding(left, right, dtype), dtype), encode(total, dtype), dtype)


def test_products_of_more_terms_than_a_buffer_holds_are_the_same() -> None:
    rng = np.random.default_rng(1)
    left, right = (decode(normal(rng, *shape, dtype="f16"), "f16") for shape in ((2, 40, 70), (2, 70, 50)))
    whole = multiply_rounding(left, right, "f16")
    assert left.shape[1] * right.shape[2] * 2 * 70 > 1 << 16
    for row in (0, 39):
        assert np.array_equal(multiply_rounding(left[:, row : row + 1], right, "f16"), whole[:, row : row + 1])


@pytest.mark.parametrize("transpose", [True, False])
def test_in_f32_a_product_with_codes_is_the_product_with_their_rows(transpose: bool) -> None:
    rng = np.random.default_rng(2)
    left = normal(rng, 2, 5, 96, dtype="f32")
    codes = quantize(normal(rng, 2, 96, 96, dtype="f32"), dtype="f32", bits=3, group=32)
    rows = decode(dequantize(codes, dtype="f32", bits=3, group=32), "f32")
    expected = multiply_matrices(decode(left, "f32"), rows.swapaxes(1, 2) if transpose else rows, "f32")
    product = multiply_by_codes(left, codes, dtype="f32", bits=3, group=32, transpose=transpose)
    assert np.array_equal(product, encode(expected, "f32"))


@every_half
def test_in_halves_most_results_differ_from_the_product_with_the_rows(dtype: DType) -> None:
    rng = np.random.default_rng(3)
    left = normal(rng, 2, 5, 128, dtype=dtype)
    codes = quantize(normal(rng, 2, 64, 128, dtype=dtype), dtype=dtype, bits=4, group=32)
    rows = decode(dequantize(codes, dtype=dtype, bits=4, group=32), dtype)
    dense = encode(multiply_matrices(decode(left, dtype), rows.swapaxes(1, 2), dtype), dtype)
    differing = (multiply_by_codes(left, codes, dtype=dtype, bits=4, group=32) != dense).mean()
    assert differing > 0.5


def test_products_that_do_not_fit_are_refused() -> None:
    codes = quantize(np.zeros((2, 64, 96), np.uint16), dtype="bf16", bits=4, group=32)
    left = np.zeros((2, 5, 64), np.uint16)
    with pytest.raises(ValueError, match=r"cannot multiply \[N, M, K\] = \(2, 5, 64\) by \[N, K, P\] = \(2, 96, 64\)"):
        multiply_by_codes(left, codes, dtype="bf16", bits=4, group=32)
    with pytest.raises(ValueError, match=r"\(1, 5, 64\) by"):
        multiply_by_codes(left[:1], codes, dtype="bf16", bits=4, group=32, transpose=False)


# Attention ------------------------------------------------------------------------------------------------------------


class Setting:
    """Quantized keys and values of one random cache, and the way to attend to them."""

    def __init__(self, dtype: DType, *, key_bits: int = 8, value_bits: int = 4, width: int = 11, heads: int = 4):
        rng = np.random.default_rng([key_bits, value_bits, width, heads])
        self.queries = normal(rng, 2, heads, 3, 64, dtype=dtype)
        self.keys = quantize(normal(rng, 2, 2, width, 64, dtype=dtype), dtype=dtype, bits=key_bits, group=32)
        self.values = quantize(normal(rng, 2, 2, width, 96, dtype=dtype), dtype=dtype, bits=value_bits, group=32)
        self.codec: Any = {"dtype": dtype, "key_bits": key_bits, "value_bits": value_bits, "group": 32}
        self.key_rows = dequantize(self.keys, dtype=dtype, bits=key_bits, group=32)
        self.value_rows = dequantize(self.values, dtype=dtype, bits=value_bits, group=32)

    def attend(self, queries: Bits, keys: Codes, values: Codes, mask: Any = None, **more: Any) -> Bits:
        return attend_quantized(queries, keys, values, scale=0.125, mask=mask, **self.codec, **more)


def repeated(codes: Codes, times: int) -> Codes:
    """Each key-value head ``times`` times in a row."""
    return Codes(*(np.repeat(part, times, axis=1) for part in (codes.words, codes.scales, codes.biases)))


@every_dtype
def test_a_single_key_returns_its_value(dtype: DType) -> None:
    cache = Setting(dtype, width=1, heads=2)
    output = cache.attend(cache.queries, cache.keys, cache.values)
    assert np.array_equal(output, np.broadcast_to(cache.value_rows, output.shape))


@every_dtype
def test_a_query_that_sees_nothing_gets_the_mean_of_all_values(dtype: DType) -> None:
    rng = np.random.default_rng(5)
    values = encode(rng.integers(-8, 8, (1, 1, 8, 32)), dtype)
    values[..., 0], values[..., 1] = encode(-8.0, dtype), encode(7.0, dtype)  # pinned: 4-bit codes are exact
    codes = quantize(values, dtype=dtype, bits=4, group=32)
    queries = normal(rng, 1, 1, 1, 32, dtype=dtype)
    output = attend_quantized(
        queries,
        codes,
        codes,
        scale=1.0,
        mask=np.zeros((1, 8), np.bool_),
        dtype=dtype,
        key_bits=4,
        value_bits=4,
        group=32,
    )
    assert np.array_equal(output[0, 0, 0], encode(decode(values, dtype)[0, 0].mean(axis=0), dtype))


@every_dtype
def test_query_heads_share_the_key_head_of_their_group(dtype: DType) -> None:
    cache = Setting(dtype, heads=6)
    grouped = cache.attend(cache.queries, cache.keys, cache.values, "causal")
    apart = cache.attend(cache.queries, repeated(cache.keys, 3), repeated(cache.values, 3), "causal")
    assert np.array_equal(grouped, apart)


@every_dtype
def test_masked_keys_are_as_good_as_absent(dtype: DType) -> None:
    cache = Setting(dtype)
    visible = np.arange(11) >= 4
    masked = cache.attend(cache.queries, cache.keys, cache.values, visible)
    absent = cache.attend(cache.queries, cache.keys[:, :, 4:], cache.values[:, :, 4:])
    assert np.array_equal(masked, absent)


@every_dtype
def test_causal_queries_see_what_they_would_one_at_a_time(dtype: DType) -> None:
    cache = Setting(dtype)
    together = cache.attend(cache.queries, cache.keys, cache.values, "causal")
    for query in range(3):
        keys, values = (codes[:, :, : 9 + query] for codes in (cache.keys, cache.values))
        alone = cache.attend(cache.queries[:, :, query : query + 1], keys, values)
        assert np.array_equal(together[:, :, query : query + 1], alone)


@pytest.mark.parametrize("mask", [None, "causal"])
@pytest.mark.parametrize("bits", CODE_BITS)
def test_in_f32_attention_over_codes_is_attention_over_their_rows(mask: Any, bits: int) -> None:
    cache = Setting("f32", key_bits=bits)
    dense = attend(cache.queries, cache.key_rows, cache.value_rows, scale=0.125, mask=mask, dtype="f32")
    assert np.array_equal(cache.attend(cache.queries, cache.keys, cache.values, mask), dense)


@every_half
def test_in_halves_attention_over_codes_is_not_attention_over_their_rows(dtype: DType) -> None:
    """So a read says which of the two it hands out."""
    cache = Setting(dtype)
    dense = attend(cache.queries, cache.key_rows, cache.value_rows, scale=0.125, mask=None, dtype=dtype)
    quantized = cache.attend(cache.queries, cache.keys, cache.values)
    assert (quantized != dense).mean() > 0.3
    assert np.allclose(decode(quantized, dtype), decode(dense, dtype), atol=0.05)


def test_attention_that_does_not_fit_is_refused() -> None:
    cache = Setting("bf16")
    with pytest.raises(ValueError, match="do not fit"):
        cache.attend(cache.queries, cache.keys[:, :, 1:], cache.values)
    with pytest.raises(ValueError, match="H a multiple of G"):
        cache.attend(cache.queries[:, :3], cache.keys, cache.values)
    with pytest.raises(ValueError, match="at least one key"):
        cache.attend(cache.queries, cache.keys[:, :, :0], cache.values[:, :, :0])
    with pytest.raises(ValueError, match="does not broadcast"):
        cache.attend(cache.queries, cache.keys, cache.values, np.ones((3, 12), np.bool_))
    with pytest.raises(ValueError, match="has the kernel sets unfused, tiled_causal, tiled, got 'flash'"):
        cache.attend(cache.queries, cache.keys, cache.values, kernel_set=cast("KernelSet", "flash"))
    assert KERNEL_SETS == ("unfused", "tiled_causal", "tiled")
