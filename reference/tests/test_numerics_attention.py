"""Dense attention by hand, and the equalities that its definition promises."""

import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from kvlaw.reference.numerics import (
    DTYPES,
    Bits,
    DType,
    attend,
    causal_mask,
    decode,
    encode,
    family,
    lowest,
)
from kvlaw.reference.numerics.exponential import exponential

NAN, INF = float("nan"), float("inf")
every_dtype = pytest.mark.parametrize("dtype", DTYPES)
repeatedly = settings(max_examples=40, deadline=None, database=None)


def normal(rng: np.random.Generator, *shape: int, dtype: DType) -> Bits:
    return encode(rng.standard_normal(shape), dtype)


def operands(dtype: DType, *, batch: int = 2, heads: int = 4, key_heads: int = 2, length: int = 3, width: int = 11):
    rng = np.random.default_rng([batch, heads, key_heads, length, width])
    return (
        normal(rng, batch, heads, length, 16, dtype=dtype),
        normal(rng, batch, key_heads, width, 16, dtype=dtype),
        normal(rng, batch, key_heads, width, 16, dtype=dtype),
    )


def head(rows: ArrayLike, dtype: DType) -> Bits:
    """One batch row and one head whose rows are given: [1, 1, n, D]."""
    return encode(np.array(rows, np.float32)[np.newaxis, np.newaxis], dtype)


# By hand --------------------------------------------------------------------------------------------------------------


@every_dtype
def test_two_equal_keys_share_the_output_evenly(dtype: DType) -> None:
    queries, keys, values = head([[1, 2]], dtype), head([[3, 1], [1, 2]], dtype), head([[1, -8], [4, 2]], dtype)
    output = attend(queries, keys, values, scale=1.0, mask=None, dtype=dtype)
    assert decode(output, dtype).tolist() == [[[[2.5, -3.0]]]]


@every_dtype
def test_a_key_far_ahead_returns_its_value_as_stored(dtype: DType) -> None:
    queries, keys = head([[128, 0], [0, 128]], dtype), head([[1, 0], [0, 1], [-1, -1]], dtype)
    values = head([[0.7, 3], [-5, 1e-3], [9, 9]], dtype)
    output = attend(queries, keys, values, scale=1.0, mask=None, dtype=dtype)
    assert np.array_equal(output, values[:, :, :2])


@every_dtype
def test_a_single_key_returns_its_value_as_stored(dtype: DType) -> None:
    queries, keys, values = operands(dtype, heads=2, length=1, width=1)
    assert np.array_equal(attend(queries, keys, values, scale=0.3, mask="causal", dtype=dtype), values)


@every_dtype
def test_a_row_that_sees_nothing_gets_the_mean_of_all_values(dtype: DType) -> None:
    queries, keys, _ = operands(dtype, batch=1, heads=1, key_heads=1, length=2, width=4)
    values = head([[1, 0], [2, 0], [3, 0], [10, 1]], dtype)
    mask = np.array([[False] * 4, [False, True, False, False]])
    output = attend(queries, keys, values, scale=0.25, mask=mask, dtype=dtype)
    assert decode(output, dtype).tolist() == [[[[4.0, 0.25], [2.0, 0.0]]]]


@every_dtype
def test_an_additive_mask_of_minus_infinity_everywhere_gives_nan(dtype: DType) -> None:
    queries, keys, values = operands(dtype)
    mask = encode(np.full((3, 11), -INF), dtype)
    assert np.isnan(decode(attend(queries, keys, values, scale=0.25, mask=mask, dtype=dtype), dtype)).all()


@every_dtype
def test_a_sink_as_strong_as_the_only_key_halves_the_output(dtype: DType) -> None:
    queries, keys, values = head([[2, 0]], dtype), head([[3, 5]], dtype), head([[7, -1]], dtype)
    sinks = encode(np.array([6.0]), dtype)
    output = attend(queries, keys, values, scale=1.0, mask=None, dtype=dtype, sink_logits=sinks)
    assert decode(output, dtype).tolist() == [[[[3.5, -0.5]]]]


@every_dtype
def test_a_sink_is_taken_by_query_head(dtype: DType) -> None:
    queries, keys, values = operands(dtype, length=2)
    sinks = encode(np.array([-INF, 80.0, -INF, 80.0]), dtype)
    without = attend(queries, keys, values, scale=0.25, mask=None, dtype=dtype)
    output = attend(queries, keys, values, scale=0.25, mask=None, dtype=dtype, sink_logits=sinks)
    assert np.array_equal(output[:, ::2], without[:, ::2])
    assert np.abs(decode(output[:, 1::2], dtype)).max() < 1e-20


@pytest.mark.parametrize(("dtype", "spacing"), [("bf16", 2**-7), ("f16", 2**-10)])
def test_the_scale_is_rounded_to_the_format_first(dtype: DType, spacing: float) -> None:
    # The scale 1 + 0.45 u is rounded to 1. Unrounded, it would move 1.5 by 0.67 u, and so to the next number.
    queries, keys, values = head([[1.5, 0]], dtype), head([[2**10, 0]], dtype), head([[1, -4]], dtype)
    sinks = encode(np.array([1.5 * 2**10]), dtype)
    output = attend(queries, keys, values, scale=1 + 0.45 * spacing, mask=None, dtype=dtype, sink_logits=sinks)
    assert decode(output, dtype).tolist() == [[[[0.5, -2.0]]]]


@pytest.mark.parametrize(("dtype", "spacing"), [("bf16", 2**-7), ("f16", 2**-10)])
def test_scaled_queries_are_rounded_before_they_meet_the_keys(dtype: DType, spacing: float) -> None:
    # With u the spacing above 1, (1 + u) * (1 + u) = 1 + 2u + u^2 is rounded to 1 + 2u. So the score is exactly
    # 2^15 * (1 + 2u) - 2^15 * (1 + u) = 2^15 * u, a tie with the sink; u^2 kept would add 2^15 * u^2 >= 1 / 32.
    queries, keys, values = head([[1 + spacing, 1]], dtype), head([[2**15, -(2**15)]], dtype), head([[1, -4]], dtype)
    sinks = encode(np.array([2**15 * spacing]), dtype)
    output = attend(queries, keys, values, scale=1 + spacing, mask=None, dtype=dtype, sink_logits=sinks)
    assert decode(output, dtype).tolist() == [[[[0.5, -2.0]]]]


@pytest.mark.parametrize(("dtype", "spacing"), [("bf16", 2**-7), ("f16", 2**-10)])
def test_scores_are_rounded_before_softmax(dtype: DType, spacing: float) -> None:
    # 2^10 * (1 + u / 4) is rounded to 2^10, the score of the other key.
    queries, keys = head([[2**10, 2**10]], dtype), head([[1, spacing / 4], [1, 0]], dtype)
    output = attend(queries, keys, head([[1, 0], [0, 1]], dtype), scale=1.0, mask=None, dtype=dtype)
    assert decode(output, dtype).tolist() == [[[[0.5, 0.5]]]]


@pytest.mark.parametrize(("dtype", "expected"), [("bf16", 214 / 128), ("f16", 1706 / 1024)])
def test_weights_are_rounded_before_they_meet_the_values(dtype: DType, expected: float) -> None:
    # 1 / 3 is 171 / 512 in bf16 and 1365 / 4096 in f16. Five of them are 213.75 / 128 and 1706.25 / 1024; five exact
    # thirds, 213.33 / 128 and 1706.67 / 1024, would be rounded to 213 / 128 and 1707 / 1024.
    queries, keys, values = head([[0, 0]], dtype), head([[1, 1]] * 3, dtype), head([[5], [0], [0]], dtype)
    output = attend(queries, keys, values, scale=1.0, mask=None, dtype=dtype)
    assert decode(output, dtype).tolist() == [[[[expected]]]]


@pytest.mark.parametrize(("dtype", "spacing"), [("bf16", 2**-7), ("f16", 2**-10)])
def test_a_score_is_rounded_after_an_additive_mask(dtype: DType, spacing: float) -> None:
    # 2^10 + 2^10 * u / 4 is rounded to 2^10, the score of the other key.
    queries, keys, values = head([[2**10]], dtype), head([[1], [1]], dtype), head([[1, 0], [0, 1]], dtype)
    mask = encode(np.array([[2**10 * spacing / 4, 0]]), dtype)
    output = attend(queries, keys, values, scale=1.0, mask=mask, dtype=dtype)
    assert decode(output, dtype).tolist() == [[[[0.5, 0.5]]]]


def test_the_sink_is_the_first_term_of_the_sum() -> None:
    # Each of 64 keys has a power of e^-17.4 < 2^-25, too small for float32 to add to the sink's 1: the
    # sum remains 1. Keys first, it would be 1 + 64 * 2^-25.1, and the weights smaller.
    keys, values = head([[-17.4]] * 64, "f32"), head([[1.0]] + [[0.0]] * 63, "f32")
    sinks = encode(np.array([0.0]), "f32")
    output = attend(head([[1.0]], "f32"), keys, values, scale=1.0, mask=None, dtype="f32", sink_logits=sinks)
    assert decode(output, "f32")[0, 0, 0, 0] == exponential(np.array([-17.4], np.float32))[0]


# Equalities -----------------------------------------------------------------------------------------------------------


@every_dtype
def test_causal_is_the_bool_mask_that_ends_at_the_last_key(dtype: DType) -> None:
    for length, width in [(3, 11), (5, 5), (4, 2)]:
        queries, keys, values = operands(dtype, length=length, width=width)
        rows = [[key - query <= width - length for key in range(width)] for query in range(length)]
        assert causal_mask(length, width).tolist() == rows
        by_mask = attend(queries, keys, values, scale=0.25, mask=np.array(rows), dtype=dtype)
        assert np.array_equal(attend(queries, keys, values, scale=0.25, mask="causal", dtype=dtype), by_mask)


@every_dtype
def test_a_query_of_a_causal_window_gets_what_it_gets_alone(dtype: DType) -> None:
    queries, keys, values = operands(dtype, length=4)
    together = attend(queries, keys, values, scale=0.25, mask="causal", dtype=dtype)
    for query in range(4):
        seen = slice(0, 11 - 3 + query)
        alone = (queries[:, :, query : query + 1], keys[:, :, seen], values[:, :, seen])
        expected = attend(*alone, scale=0.25, mask=None, dtype=dtype)
        assert np.array_equal(together[:, :, query : query + 1], expected)


@every_dtype
def test_batch_rows_and_heads_do_not_meet(dtype: DType) -> None:
    queries, keys, values = operands(dtype)
    together = attend(queries, keys, values, scale=0.25, mask="causal", dtype=dtype)
    for row, query_head in np.ndindex(2, 4):
        one, shared = np.s_[row : row + 1, query_head : query_head + 1], query_head // 2
        two = np.s_[row : row + 1, shared : shared + 1]
        alone = attend(queries[one], keys[two], values[two], scale=0.25, mask="causal", dtype=dtype)
        assert np.array_equal(together[one], alone)


@every_dtype
@pytest.mark.parametrize("key_fill", ["huge", "NaN", "infinity"])
def test_a_key_masked_by_a_bool_mask_leaves_no_trace(dtype: DType, key_fill: str) -> None:
    queries, keys, values = operands(dtype)
    sliced = attend(queries, keys[:, :, 2:], values[:, :, 2:], scale=0.25, mask=None, dtype=dtype)
    fill = {"huge": -float(lowest(dtype)), "NaN": NAN, "infinity": INF}[key_fill]
    keys[:, :, :2] = encode(np.float32(fill), dtype)
    values[:, :, :2] = encode(-lowest(dtype), dtype)
    output = attend(queries, keys, values, scale=0.25, mask=np.arange(11) >= 2, dtype=dtype)
    assert np.array_equal(output, sliced)


@every_dtype
@pytest.mark.parametrize("fill", [NAN, INF])
def test_a_masked_value_that_is_not_finite_poisons_the_output(dtype: DType, fill: float) -> None:
    queries, keys, values = operands(dtype)
    values[:, :, 4, 5] = encode(np.float32(fill), dtype)
    output = decode(attend(queries, keys, values, scale=0.25, mask=np.arange(11) != 4, dtype=dtype), dtype)
    assert np.isnan(output[..., 5]).all()
    assert np.isfinite(np.delete(output, 5, axis=-1)).all()


@every_dtype
@pytest.mark.parametrize("kind", ["bool", "additive"])
def test_masks_broadcast_over_rows_heads_and_queries(dtype: DType, kind: str) -> None:
    queries, keys, values = operands(dtype)
    drawn = np.random.default_rng(1).random((3, 11)) < 0.6
    outputs: list[Bits] = []
    for shape in [(3, 11), (2, 1, 3, 11), (2, 4, 3, 11)]:
        visible = np.broadcast_to(drawn, shape)
        mask = visible if kind == "bool" else encode(np.where(visible, 0.5, -INF), dtype)
        outputs.append(attend(queries, keys, values, scale=0.25, mask=mask, dtype=dtype))
    assert np.isfinite(decode(outputs[0], dtype)).all()
    assert np.array_equal(outputs[0], outputs[1])
    assert np.array_equal(outputs[0], outputs[2])


@every_dtype
def test_masks_of_one_head_concern_that_head(dtype: DType) -> None:
    queries, keys, values = operands(dtype)
    mask = np.ones((1, 4, 1, 11), np.bool_)
    mask[0, 2, 0, 6:] = False
    output = attend(queries, keys, values, scale=0.25, mask=mask, dtype=dtype)
    plain = attend(queries, keys, values, scale=0.25, mask=None, dtype=dtype)
    short = attend(queries, keys[:, :, :6], values[:, :, :6], scale=0.25, mask=None, dtype=dtype)
    assert np.array_equal(output[:, [0, 1, 3]], plain[:, [0, 1, 3]])
    assert np.array_equal(output[:, 2], short[:, 2])


@every_dtype
def test_values_may_have_another_size_than_keys(dtype: DType) -> None:
    queries, keys, values = operands(dtype)
    output = attend(queries, keys, values, scale=0.25, mask=None, dtype=dtype)
    narrow = attend(queries, keys, values[..., 3:8], scale=0.25, mask=None, dtype=dtype)
    assert np.array_equal(narrow, output[..., 3:8])


@seed(0)
@repeatedly
@given(dtype=st.sampled_from(DTYPES), width=st.integers(1, 40), length=st.integers(1, 4), draw=st.integers(0, 99))
def test_outputs_are_close_to_float64_attention(dtype: DType, width: int, length: int, draw: int) -> None:
    rng = np.random.default_rng(draw)
    queries, keys, values = (family("normal", rng, (1, 1, rows, 16), dtype) for rows in (length, width, width))
    wide_queries, wide_keys, wide_values = (
        decode(bits, dtype)[0, 0].astype(np.float64) for bits in (queries, keys, values)
    )
    powers = np.exp(wide_queries @ wide_keys.T / 4)
    expected = powers / powers.sum(axis=1, keepdims=True) @ wide_values
    output = decode(attend(queries, keys, values, scale=0.25, mask=None, dtype=dtype), dtype)[0, 0]
    bound = {"bf16": 1e-2, "f16": 1e-3, "f32": 1e-6}[dtype] * np.abs(wide_values).max()
    assert np.abs(output - expected).max() <= bound


# Refusals -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query_shape", "key_shape", "value_shape"),
    [
        ((1, 2, 3, 8), (1, 2, 5, 7), (1, 2, 5, 8)),
        ((1, 2, 3, 8), (2, 2, 5, 8), (2, 2, 5, 8)),
        ((1, 2, 3, 8), (1, 2, 5, 8), (1, 2, 4, 8)),
        ((1, 3, 3, 8), (1, 2, 5, 8), (1, 2, 5, 8)),
        ((1, 2, 3, 8), (1, 2, 0, 8), (1, 2, 0, 8)),
        ((2, 3, 8), (1, 2, 5, 8), (1, 2, 5, 8)),
    ],
)
def test_shapes_that_do_not_fit_are_refused_by_name(
    query_shape: tuple[int, ...], key_shape: tuple[int, ...], value_shape: tuple[int, ...]
) -> None:
    queries, keys, values = (np.zeros(shape, np.uint16) for shape in (query_shape, key_shape, value_shape))
    with pytest.raises(ValueError, match="queries") as refusal:
        attend(queries, keys, values, scale=1.0, mask=None, dtype="bf16")
    assert all(str(shape) in str(refusal.value) for shape in (query_shape, key_shape, value_shape))


@pytest.mark.parametrize("shape", [(3, 10), (2, 1, 1, 3, 11), (3, 1, 3, 11), (2, 2, 3, 11)])
def test_a_mask_that_does_not_broadcast_is_refused(shape: tuple[int, ...]) -> None:
    queries, keys, values = operands("bf16")
    with pytest.raises(ValueError, match="does not broadcast to"):
        attend(queries, keys, values, scale=1.0, mask=np.ones(shape, np.bool_), dtype="bf16")


def test_bits_of_another_format_and_sinks_of_another_count_are_refused() -> None:
    queries, keys, values = operands("bf16")
    with pytest.raises(TypeError, match="f32 bits are uint32"):
        attend(queries, keys, values, scale=1.0, mask=None, dtype="f32")
    with pytest.raises(TypeError, match="bf16 bits are uint16"):
        attend(queries, keys, values, scale=1.0, mask=np.zeros((3, 11), np.uint32), dtype="bf16")
    with pytest.raises(ValueError, match=r"sink logits are one per query head, \[4\]"):
        attend(queries, keys, values, scale=1.0, mask=None, dtype="bf16", sink_logits=np.zeros(2, np.uint16))
