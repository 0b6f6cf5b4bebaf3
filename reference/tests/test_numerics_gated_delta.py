"""The gated delta rule by hand, and the equalities that its definition promises."""

import math
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from kvlaw.reference.numerics import DTYPES, Bits, DType, decode, encode, equal_bits, family
from kvlaw.reference.numerics.gated_delta import (
    Inputs,
    beta_gates,
    decay_gates,
    gated_delta,
    sigmoid,
    softplus,
)
from kvlaw.reference.numerics.logarithm import log_of_one_plus

every_dtype = pytest.mark.parametrize("dtype", DTYPES)
repeatedly = settings(max_examples=25, deadline=None, database=None)


def slots(dtype: DType, writes: list[tuple[int, float]], reads: list[int], *, decay: float = 1, beta: float = 1):
    """One head of 3 slots and values of size 1: write a number to a slot, then read one, at each position."""
    eye = np.eye(3, dtype=np.float32)
    keys = eye[[slot for slot, _ in writes]][np.newaxis, :, np.newaxis]
    queries = eye[reads][np.newaxis, :, np.newaxis]
    values = np.array([value for _, value in writes], np.float32).reshape(1, -1, 1, 1)
    gates = np.ones((1, len(writes), 1), np.float32)
    queries, keys, values = (encode(part, dtype) for part in (queries, keys, values))
    return Inputs(queries, keys, values, encode(gates * decay, "f32"), encode(gates * beta, dtype), dtype)


def drawn(number: int, dtype: DType, length: int = 7) -> tuple[Inputs, Bits]:
    rng = np.random.default_rng(number)
    keys, values, gates = (2, length, 2, 8), (2, length, 4, 5), (2, length, 4)
    read, key, value = (family("normal", rng, shape, dtype) for shape in (keys, keys, values))
    decay, beta = encode(rng.random(gates), "f32"), encode(rng.random(gates), dtype)
    return Inputs(read, key, value, decay, beta, dtype), family("normal", rng, (2, 4, 5, 8), "f32")


def chosen(inputs: Inputs, where: Any) -> Inputs:
    queries, keys, values = inputs.queries[where], inputs.keys[where], inputs.values[where]
    return Inputs(queries, keys, values, inputs.decay[where], inputs.beta[where], inputs.dtype)


@every_dtype
def test_a_write_replaces_what_its_slot_held(dtype: DType) -> None:
    inputs = slots(dtype, [(0, 5), (1, -7), (0, 64), (2, 1)], [0, 0, 0, 1])
    outputs, state = gated_delta(inputs)
    assert decode(outputs, dtype).ravel().tolist() == [5, 5, 64, -7]
    assert decode(state, "f32").tolist() == [[[[64, -7, 1]]]]


@every_dtype
def test_beta_0_writes_nothing_and_beta_a_half_goes_half_the_way(dtype: DType) -> None:
    assert not gated_delta(slots(dtype, [(0, 5)], [0], beta=0))[1].any()
    outputs, _ = gated_delta(slots(dtype, [(0, 8), (0, 8)], [0, 0], beta=0.5))
    assert decode(outputs, dtype).ravel().tolist() == [4, 6]


@every_dtype
def test_the_decay_comes_before_the_recall(dtype: DType) -> None:
    """Slot 1 decays from 8 to 4; in slot 0, of which a half is recalled, the new value stands whole."""
    inputs = slots(dtype, [(0, 6)], [1], decay=0.5)
    outputs, state = gated_delta(inputs, encode(np.array([[[[2, 8, 0]]]], np.float32), "f32"))
    assert decode(state, "f32").tolist() == [[[[6, 4, 0]]]]
    assert decode(outputs, dtype).ravel().tolist() == [4]


def test_sums_run_upwards_in_float32_and_outputs_alone_are_rounded() -> None:
    """1 + 2^-24 + 2^-24 is 1 from the front and more than 1 from behind; the key recalls nothing."""
    state = encode(np.array([[[[1, 2**-24, 2**-24]]]], np.float32), "f32")
    ones, none = encode(np.ones((1, 1, 1, 3)), "f32"), encode(np.zeros((1, 1, 1, 3)), "f32")
    gate = encode(np.ones((1, 1, 1)), "f32")
    outputs, then = gated_delta(Inputs(ones, none, encode(np.ones((1, 1, 1, 1)), "f32"), gate, gate, "f32"), state)
    assert decode(outputs, "f32").ravel().tolist() == [1]
    assert np.array_equal(then, state)


def test_one_gate_per_column_is_one_gate_where_all_are_the_same() -> None:
    inputs, state = drawn(1, "f32")
    wide = Inputs(
        inputs.queries, inputs.keys, inputs.values, np.repeat(inputs.decay[..., None], 8, -1), inputs.beta, "f32"
    )
    assert all(np.array_equal(a, b) for a, b in zip(gated_delta(inputs, state), gated_delta(wide, state), strict=True))


def test_value_heads_that_share_a_key_head_stand_side_by_side() -> None:
    inputs, state = drawn(2, "f32")
    whole = gated_delta(inputs, state)
    for head in range(4):
        key, own = slice(head // 2, head // 2 + 1), slice(head, head + 1)
        decay, beta = inputs.decay[:, :, own], inputs.beta[:, :, own]
        alone = Inputs(inputs.queries[:, :, key], inputs.keys[:, :, key], inputs.values[:, :, own], decay, beta, "f32")
        outputs, then = gated_delta(alone, state[:, own])
        assert np.array_equal(outputs, whole[0][:, :, own])
        assert np.array_equal(then, whole[1][:, own])


@every_dtype
@seed(1)
@repeatedly
@given(number=st.integers(0, 10**6), cut=st.integers(0, 7))
def test_positions_may_be_split_anywhere(number: int, cut: int, dtype: DType) -> None:
    inputs, state = drawn(number, dtype)
    whole, end = gated_delta(inputs, state)
    first, between = gated_delta(inputs.first(cut), state)
    second, then = gated_delta(inputs.between(cut, 7), between)
    assert equal_bits(np.concatenate([first, second], axis=1), whole, dtype)
    assert equal_bits(then, end, "f32")


@seed(2)
@repeatedly
@given(number=st.integers(0, 10**6), shown=st.lists(st.booleans(), min_size=7, max_size=7))
def test_padded_positions_leave_the_state_of_their_row(number: int, shown: list[bool]) -> None:
    inputs, state = drawn(number, "bf16")
    padding = np.array([shown, [True] * 7])
    outputs, then = gated_delta(inputs, state, padding)
    whole, end = gated_delta(inputs, state)
    kept = [at for at in range(7) if shown[at]]
    alone, own = gated_delta(chosen(inputs, np.ix_([0], kept)), state[:1])
    assert np.array_equal(outputs[0, kept], alone[0])
    assert np.array_equal(then[:1], own)
    assert np.array_equal(outputs[1], whole[1])
    assert np.array_equal(then[1], end[1])


@every_dtype
def test_gates_are_within_two_units_of_their_definition(dtype: DType) -> None:
    values = decode(family("normal", np.random.default_rng(3), (400,), dtype), dtype)
    unit = {"bf16": 2**-8, "f16": 2**-11, "f32": 2**-22}[dtype]
    for number, found, curve in zip(
        *(part.tolist() for part in (values, sigmoid(values, dtype), softplus(values, dtype))), strict=True
    ):
        exact = 1 / (1 + math.exp(-number))
        assert found == pytest.approx(exact, abs=2 * unit)
        assert curve == pytest.approx(math.log1p(math.exp(number)), abs=4 * unit * max(1, abs(number)))


@every_dtype
def test_gates_at_the_ends(dtype: DType) -> None:
    infinite = encode([[[-np.inf, np.inf, np.nan]]], dtype)
    beta = decode(beta_gates(infinite, dtype), dtype).ravel()
    assert beta[:2].tolist() == [0, 1]
    assert np.isnan(beta[2])
    decay = decode(decay_gates(encode([0] * 3, "f32"), infinite, encode([0] * 3, dtype), dtype), "f32").ravel()
    assert decay[:2].tolist() == [1, 0]
    assert np.isnan(decay[2])


def test_the_logarithm_is_within_a_unit_of_its_definition() -> None:
    values = np.concatenate([np.linspace(0, 1, 3001), np.exp2(-np.arange(0, 149, 0.5))]).astype(np.float32)
    exact = np.array([math.log1p(value) for value in values.tolist()])
    assert (np.abs(log_of_one_plus(values) - exact) <= np.spacing(exact.astype(np.float32))).all()
    assert np.isnan(log_of_one_plus(np.array([np.nan], np.float32))).all()


@pytest.mark.parametrize(
    "bits", [0, 1, 0x3F800000, 0x3ED413D6, 0x3ED413D7, 0x3F7FFFFF, 0x3F7FFFFE, 0x30FFFFFF, 0x31000000]
)
def test_the_logarithm_at_the_seams_of_its_pieces(bits: int) -> None:
    value = np.array([bits], np.uint32).view(np.float32)
    exact = np.float32(math.log1p(value.item()))
    assert abs(log_of_one_plus(value).item() - exact) <= np.spacing(exact)


def test_shapes_that_do_not_fit_are_refused() -> None:
    inputs, state = drawn(4, "f32")
    names = ("queries", "keys", "values", "decay", "beta")
    for wrong, cut in (
        (0, np.s_[:, :3]),
        (1, np.s_[..., :4]),
        (2, np.s_[:, :, :3]),
        (3, np.s_[:1]),
        (4, np.s_[..., :1]),
    ):
        changed = attrs.evolve(inputs, **{names[wrong]: getattr(inputs, names[wrong])[cut]})
        with pytest.raises(ValueError, match=r"do not fit|multiple"):
            gated_delta(changed, state)
    with pytest.raises(ValueError, match="a state of shape"):
        gated_delta(inputs, state[:1])
    with pytest.raises(ValueError, match="padding of shape"):
        gated_delta(inputs, state, np.ones((2, 6), np.bool_))
    with pytest.raises(TypeError, match="f32 bits"):
        gated_delta(inputs, encode(decode(state, "f32"), "f16"))
