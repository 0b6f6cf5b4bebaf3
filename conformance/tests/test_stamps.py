"""Stamps: exact levels, codes that only one token answers, bytes that tell every token, row, head and side apart."""

from typing import Any

import numpy as np
import pytest

from kvlaw.conformance.stamps import MOST_TOKENS, PROBES, Owner, Stamper, levels, spoil
from kvlaw.reference.numerics.formats import DTYPES, DType, decode, encode
from kvlaw.spec.calls import MALFORMED, Malformed
from kvlaw.spec.config import Config, StampName

SHAPE: dict[str, Any] = {"batch": 2, "kv_heads": 3, "groups": 2, "head_dim": 64, "value_dim": 64}


@pytest.mark.parametrize("dtype", DTYPES)
def test_levels_are_exact_and_rise_by_enough_for_softmax_to_pick_one(dtype: DType):
    rising = levels(MOST_TOKENS[dtype], dtype)
    assert np.array_equal(decode(encode(rising, dtype), dtype), rising)
    gaps = np.diff(rising.astype(np.float64))
    assert gaps.min() >= (128 if dtype == "f16" else 1024)
    assert np.exp(np.float32(-gaps.min())) == 0  # in float32, where MLX sums


def test_the_levels_of_f16_stop_rising_where_the_table_says():
    assert levels(MOST_TOKENS["f16"] + 2, "f16")[-2:].tolist() == [65408.0, 65408.0]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stamp", ["code", "random"])
def test_no_two_columns_have_the_same_bytes(dtype: DType, stamp: StampName):
    stamper = Stamper(Config("full", dtype=dtype, stamp=stamp, **SHAPE))
    for side in ("keys", "values"):
        table = stamper.table(side, 600)
        columns = {table[t, r, h].tobytes() for t in range(1, 601) for r in range(2) for h in range(3)}
        assert len(columns) == 600 * 2 * 3
        assert stamper.owners(side)[table[599, 1, 2].tobytes()] == Owner(599, 1, 2)
        assert not table[0].any()
        assert np.zeros(64, table.dtype).tobytes() not in stamper.owners(side)


def test_a_coded_column_worked_out_by_hand():
    stamper = Stamper(Config("full", dtype="f32", **SHAPE))
    key = stamper.table("keys", 300).view(np.float32)[300, 1, 2]
    assert key[:14].tolist() == [-1, -1, 1, 1, -1, 1, -1, -1, 1, -1, -1, -1, -1, -1]  # 300 = 4 + 8 + 32 + 256
    assert key[14:17].tolist() == [300 * 1024, 2, 3]
    value = stamper.table("values", 300).view(np.float32)[300, 1, 2]
    assert value[:4].tolist() == [44, 2, 3, 2]  # 300 = 44 + 256, one added; head 2 and row 1, one added
    assert np.flatnonzero(value[4:]).tolist() == [300 % 60]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_pointer_is_answered_by_one_token_alone(dtype: DType):
    stamper = Stamper(Config("full", dtype=dtype, groups=4))
    keys = decode(stamper.table("keys", 900), dtype)[1:901, 0, 0].astype(np.float64)
    head = next(h for h in range(4) if stamper.probe(h, 0) == "pointer")
    query = decode(stamper.queries(np.array([777]), 0), dtype)[0, head, 0].astype(np.float64)
    scores = keys @ query
    order = np.argsort(scores)
    assert order[-1] + 1 == 777
    assert scores[order[-1]] - scores[order[-2]] >= 1024


def test_every_group_of_heads_asks_every_probe_in_four_turns():
    stamper = Stamper(Config("full", kv_heads=2, groups=2))
    for head in range(4):
        assert {stamper.probe(head, turn) for turn in range(4)} == set(PROBES)
    assert stamper.probe(0, 3) != stamper.probe(1, 3)
    assert stamper.probe(1, 3) == stamper.probe(3, 3)


def test_queries_of_probes():
    stamper = Stamper(Config("full", dtype="f32", kv_heads=1, groups=4))
    queries = stamper.queries(np.array([5, 6]), 0).view(np.float32)
    asked = {stamper.probe(head, 0): queries[0, head] for head in range(4)}
    assert asked["newest"][:, 14].tolist() == [1, 1]
    assert asked["oldest"][:, 14].tolist() == [-1, -1]
    assert not asked["census"].any()
    assert asked["pointer"][0, :4].tolist() == [512, -512, 512, -512]  # 5 = 1 + 4
    assert not asked["pointer"][:, 14:].any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_random_bits_are_finite_repeatable_and_those_of_their_seed(dtype: DType):
    one, again, other = (Stamper(Config("full", dtype=dtype, stamp="random", seed=s)) for s in (3, 3, 4))
    table = one.table("keys", 200)
    assert np.isfinite(decode(table, dtype)).all()
    assert np.array_equal(table[:100], again.table("keys", 90)[:100])
    assert not (table[1:200] == other.table("keys", 200)[1:200]).all(-1).any()
    sixteenth, ordinary = decode(table[16:200:16], dtype), decode(table[17:32], dtype)
    assert abs(sixteenth).max() > 1000 * abs(ordinary).max()  # any finite bits, not only values of ordinary size
    assert one.scale != 1


def test_a_table_grows_and_keeps_what_it_had():
    stamper = Stamper(Config("full", stamp="random"))
    before = stamper.table("values", 5)[:6].copy()
    assert np.array_equal(stamper.table("values", 700)[:6], before)


def test_a_payload_is_laid_out_as_batch_heads_length_dim():
    stamper = Stamper(Config("full", dtype="bf16", **SHAPE))
    queries = stamper.queries(np.array([7, 9]), 1)
    payload = stamper.payload((7, 9), queries)
    assert payload.keys.shape == (2, 3, 2, 64)
    assert queries.shape == (2, 6, 2, 64)
    assert np.array_equal(payload.keys[1, 2, 1], stamper.table("keys", 9)[9, 1, 2])
    assert np.array_equal(payload.values[0, 1, 0], stamper.table("values", 9)[7, 0, 1])
    assert (payload.dtype, payload.scale, payload.tokens) == ("bf16", 1.0, (7, 9))


SPOILT: dict[Malformed, tuple[tuple[int, ...], tuple[int, ...], str]] = {
    "rank": ((3, 2, 64), (3, 2, 64), "bf16"),
    "batch": ((4, 3, 2, 64), (4, 3, 2, 64), "bf16"),
    "heads": ((2, 6, 2, 64), (2, 6, 2, 64), "bf16"),
    "head_dim": ((2, 3, 2, 56), (2, 3, 2, 64), "bf16"),
    "lengths": ((2, 3, 2, 64), (2, 3, 3, 64), "bf16"),
    "dtype": ((2, 3, 2, 64), (2, 3, 2, 64), "f32"),
    "empty": ((2, 3, 0, 64), (2, 3, 0, 64), "bf16"),
}


@pytest.mark.parametrize("how", SPOILT)
def test_tensors_are_spoilt_in_one_way_each(how: Malformed):
    stamper = Stamper(Config("full", dtype="bf16", **SHAPE))
    spoilt = spoil(stamper.payload((7, 9), stamper.queries(np.array([7, 9]), 1)), how, decode_call=False)
    assert (spoilt.keys.shape, spoilt.values.shape, spoilt.dtype) == SPOILT[how]
    assert spoilt.keys.dtype == (np.uint32 if spoilt.dtype == "f32" else np.uint16)


def test_a_decode_is_spoilt_by_two_positions():
    stamper = Stamper(Config("full", **SHAPE))
    one = stamper.payload((7,), stamper.queries(np.array([7]), 1))
    assert spoil(one, "two", decode_call=True).keys.shape == (2, 3, 2, 64)
    assert set(SPOILT) | {"two"} == set(MALFORMED)


def test_another_dtype_has_the_same_values():
    stamper = Stamper(Config("full", dtype="f32", **SHAPE))
    one = stamper.payload((7,), stamper.queries(np.array([7]), 1))
    spoilt = spoil(one, "dtype", decode_call=True)
    assert spoilt.dtype == "bf16"
    assert np.array_equal(decode(spoilt.values, "bf16"), one.values.view(np.float32))
