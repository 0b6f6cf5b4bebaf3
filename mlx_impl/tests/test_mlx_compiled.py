"""Compiled decode: bit for bit what the plain decode gives, traced once per slot key and capacity.

Where MLX compiles nothing (no g++ on the path) these tests are skipped: they would compare eager with eager.
"""

import os
import subprocess
import sys
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models import llama
from mlx_lm.models.base import quantized_scaled_dot_product_attention

from kvlaw.mlx_impl import Cache, CacheError, make, make_rows, merge
from kvlaw.mlx_impl.compiled import CompiledStep, compile_step, compiles
from kvlaw.mlx_impl.compiled_append import append_compiled
from kvlaw.mlx_impl.decode_steps import decode_phase, prepare_decode_step
from kvlaw.mlx_impl.errors import ConfigError, PaddingError, RoundError, ShapeError
from kvlaw.mlx_impl.mlx_lm import make_cache

HEADS, DIM, SCALE = 2, 64, 0.125


@pytest.fixture(autouse=True)
def compiling() -> None:
    mx.enable_compile()
    compiles.cache_clear()
    if not compiles():
        pytest.skip("not observed: MLX compiles nothing here")


def pair(number: int, rows: int = 1, length: int = 1, dtype: mx.Dtype = mx.float32) -> tuple[mx.array, mx.array]:
    key = mx.random.key(number)
    drawn = mx.random.normal((2, rows, HEADS, length, DIM), key=key).astype(dtype)
    return drawn[0], drawn[1]


def asks(number: int, rows: int = 1, dtype: mx.Dtype = mx.float32) -> mx.array:
    return mx.random.normal((rows, 2 * HEADS, 1, DIM), key=mx.random.key(10_000 + number)).astype(dtype)


def bits(array: mx.array) -> np.ndarray:
    return np.array(array.view(mx.uint32 if array.dtype == mx.float32 else mx.uint16))


def attention(keys: Any, values: Any, queries: mx.array, cache: Any) -> mx.array:
    """One layer of a model: append, and attend as mlx-lm does."""
    layer = cache[0]
    mask = layer.make_mask(1)
    keys, values = layer.update_and_fetch(keys, values)
    if isinstance(keys, tuple):
        codec = {"group_size": layer.group_size, "bits": layer.bits}
        return quantized_scaled_dot_product_attention(queries, keys, values, scale=SCALE, mask=mask, **codec)
    return mx.fast.scaled_dot_product_attention(queries, keys, values, scale=SCALE, mask=mask)


def same_state(one: Any, other: Any) -> None:
    ours, theirs = one.state(), other.state()
    assert ours.keys() == theirs.keys()
    for name, part in ours.items():
        if isinstance(part, mx.array):
            assert np.array_equal(np.array(part.view(mx.uint8)), np.array(theirs[name].view(mx.uint8))), name
        else:
            assert part == theirs[name], name


KINDS: dict[str, dict[str, Any]] = {
    "full": {"kind": "full"},
    "ring": {"kind": "ring", "window": 290},
    "sinks": {"kind": "ring", "window": 60, "sinks": 4},
    "affine": {"kind": "full", "bits": 4},
    "affine ring": {"kind": "ring", "window": 60, "sinks": 3, "bits": 8, "value_bits": 8},
    "bf16 first": {"kind": "full", "bits": 4, "start": 270},
    "bf16 first ring": {"kind": "ring", "window": 60, "bits": 4, "start": 100},
    "bf16 first before the window": {"kind": "ring", "window": 60, "bits": 4, "start": 30},
}


@pytest.mark.parametrize("name", KINDS)
def test_compiled_equals_eager_across_growth_and_the_ring_switch(name: str) -> None:
    eager, compiled = make(**KINDS[name]), make(**KINDS[name])
    for cache in (eager, compiled):
        cache.append_window(*pair(0, length=5))
    step = compile_step(attention, [compiled])
    for number in range(1, 311):
        keys, values = pair(number)
        expected = eager.append_decode(keys, values).attend(asks(number), scale=SCALE)
        assert np.array_equal(bits(step(keys, values, asks(number))), bits(expected)), number
        assert compiled.offset == eager.offset == 5 + number
    same_state(compiled, eager)
    assert step.compiled is True
    assert set(step.traces.values()) == {1}
    assert len(step.traces) <= 3


def test_a_growing_cache_is_traced_once_per_allocation_and_a_full_ring_once() -> None:
    full, ring = make("full"), make("ring", 4)
    for cache in (full, ring):
        cache.append_window(*pair(0, length=2))

    def model(keys: mx.array, values: mx.array, cache: Any) -> list[mx.array]:
        return [layer.update_and_fetch(keys, values)[0] for layer in cache]

    step = compile_step(model, [full, ring])
    for number in range(1, 520):
        step(*pair(number))
    counted = {(key, columns): count for (key, columns), count in step.traces.items()}
    assert counted == {
        (("fixed:dense:masked", "fixed:dense:masked"), (256, 4)): 1,
        (("fixed:dense:masked", "ring:dense"), (256, 4)): 1,
        (("fixed:dense:masked", "ring:dense"), (512, 4)): 1,
        (("fixed:dense:masked", "ring:dense"), (768, 4)): 1,
    }


@pytest.mark.parametrize("name", ["full", "sinks", "affine ring", "bf16 first ring"])
def test_steps_and_other_calls_take_turns(name: str) -> None:
    eager, compiled = make(**KINDS[name]), make(**KINDS[name])
    for cache in (eager, compiled):
        cache.append_window(*pair(0, length=3))
    step = compile_step(attention, [compiled])
    for number in range(1, 90):
        for cache in (eager, compiled):
            if number % 7 == 0:
                cache.append_window(*pair(1000 + number, length=number % 5 + 1))
            if number % 11 == 0 and cache.can_trim(2):
                cache.trim(2)
            if number % 13 == 0:
                cache.begin_round()
                cache.append_window(*pair(2000 + number, length=3))
                cache.roll_back(number % 3)
        keys, values = pair(number)
        expected = eager.append_decode(keys, values).attend(asks(number), scale=SCALE)
        assert np.array_equal(bits(step(keys, values, asks(number))), bits(expected)), number
    same_live(compiled, eager)


def same_live(one: Cache, other: Cache) -> None:
    for ours, theirs in zip(one.peek(), other.peek(), strict=True):
        assert np.array_equal(bits(ours), bits(theirs))


def test_what_was_trimmed_weighs_nothing_even_if_it_is_no_number() -> None:
    eager, compiled = make("full"), make("full")
    nothing = mx.full((1, HEADS, 4, DIM), float("nan"))
    for cache in (eager, compiled):
        cache.append_window(*pair(0, length=3))
        cache.append_window(nothing, nothing)
        cache.trim(4)
    step = compile_step(attention, [compiled])
    for number in range(1, 3):
        keys, values = pair(number)
        expected = eager.append_decode(keys, values).attend(asks(number), scale=SCALE)
        assert np.array_equal(bits(step(keys, values, asks(number))), bits(expected))


@pytest.mark.parametrize("dtype", [mx.bfloat16, mx.float16])
def test_halves_are_written_as_they_are(dtype: mx.Dtype) -> None:
    eager, compiled = make("ring", 6), make("ring", 6)
    for cache in (eager, compiled):
        cache.append_window(*pair(0, length=3, dtype=dtype))
    for number in range(1, 16):
        keys, values = pair(number, dtype=dtype)
        theirs, ours = eager.append_decode(keys, values), append_compiled(compiled, keys, values)
        queries = asks(number, dtype=dtype)
        assert np.array_equal(bits(ours.attend(queries, scale=SCALE)), bits(theirs.attend(queries, scale=SCALE)))
        assert np.array_equal(bits(ours.keys), bits(theirs.keys))
    same_state(compiled, eager)


def test_what_a_step_wrote_and_was_trimmed_weighs_nothing() -> None:
    eager, compiled = make("full"), make("full")
    for cache in (eager, compiled):
        cache.append_window(*pair(0, length=3))
    step = compile_step(attention, [compiled])
    nothing = mx.full((1, HEADS, 1, DIM), float("inf"))
    step(nothing, nothing, asks(0))
    step(nothing, nothing, asks(0))
    compiled.trim(2)
    keys, values = pair(1)
    expected = eager.append_decode(keys, values).attend(asks(1), scale=SCALE)
    assert np.array_equal(bits(step(keys, values, asks(1))), bits(expected))


# -- groups ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [None, 7])
@pytest.mark.parametrize("bits_of", [None, 4])
def test_rows_of_unequal_lengths_decode_by_one_step(window: int | None, bits_of: int | None) -> None:
    kind, offsets = "full" if window is None else "ring", (2, 9, 5)
    sources = [make(kind, window, bits=bits_of) for _ in offsets]
    for number, (cache, length) in enumerate(zip(sources, offsets, strict=True)):
        cache.append_window(*pair(number, length=length))
    eager, compiled = merge(sources), merge(sources)
    step = compile_step(attention, [compiled])
    for number in range(10, 30):
        keys, values = pair(number, rows=3)
        expected = eager.append_decode(keys, values).attend(asks(number, rows=3), scale=SCALE)
        assert np.array_equal(bits(step(keys, values, asks(number, rows=3))), bits(expected)), number
    same_state(compiled, eager)
    assert set(step.traces.values()) == {1}


def test_a_lone_row_in_a_ring_group_answers_by_its_ring_without_moving() -> None:
    serial = make("ring", 5)
    serial.append_window(*pair(0, length=3))
    group = merge([serial])
    assert (decode_phase(serial), decode_phase(group)) == ("concat", "concat")
    serial.append_decode(*pair(1))  # the serial cache goes on by itself
    assert (decode_phase(serial), decode_phase(group)) == ("ring", "concat")
    append_compiled(group, *pair(1))
    assert decode_phase(group) == "ring"
    for number in range(2, 12):
        theirs, ours = serial.append_decode(*pair(number)), append_compiled(group, *pair(number))
        assert np.array_equal(bits(ours.keys), bits(theirs.keys))
        assert (group.columns, group.write_index) == (serial.columns, serial.write_index)


def test_a_row_left_by_its_siblings_goes_on_where_it_lies() -> None:
    sources = [make("ring", 4), make("ring", 4)]
    sources[0].append_window(*pair(0, length=6))
    sources[1].append_window(*pair(1, length=2))
    eager, compiled = merge(sources), merge(sources)
    for number in range(2, 5):
        eager.append_decode(*pair(number, rows=2))
        append_compiled(compiled, *pair(number, rows=2))
    for group in (eager, compiled):
        group.filter([1])
    for number in range(5, 12):
        keys, values = pair(number)
        theirs, ours = eager.append_decode(keys, values), append_compiled(compiled, keys, values)
        expected = theirs.attend(asks(number), scale=SCALE)
        assert np.array_equal(bits(ours.attend(asks(number), scale=SCALE)), bits(expected))
    same_state(compiled, eager)


# -- refusals --------------------------------------------------------------------------------------------------------


def refused(step: CompiledStep, error: type[CacheError], clause: str) -> None:
    with pytest.raises(error) as caught:
        step(*pair(1), asks(1))
    assert clause in caught.value.clauses


def test_an_empty_cache_is_refused() -> None:
    refused(compile_step(attention, [make("full")]), ConfigError, "DEC-5")
    refused(compile_step(attention, [make_rows("ring_rows", 4, 1)]), ConfigError, "DEC-5")


def test_an_open_round_is_refused_and_stays() -> None:
    cache = make("ring", 4)
    cache.append_window(*pair(0, length=5))
    cache.begin_round()
    refused(compile_step(attention, [cache]), RoundError, "DEC-6")
    assert cache.in_round
    assert cache.offset == 5


def test_announced_padding_is_refused() -> None:
    group = make_rows("full_rows", rows=2)
    group.append_window(*pair(0, rows=2, length=2))
    group.prepare(lengths=[1, 2], right=[1, 0])
    with pytest.raises(PaddingError):
        append_compiled(group, *pair(1, rows=2))
    assert group.offsets == (2, 2)


def test_rows_that_are_stored_in_two_ways_are_refused() -> None:
    sources = [make("full", bits=4, start=4) for _ in range(2)]
    sources[0].append_window(*pair(0, length=5))
    sources[1].append_window(*pair(1, length=2))
    group = merge(sources)
    with pytest.raises(ConfigError) as caught:
        append_compiled(group, *pair(2, rows=2))
    assert caught.value.clauses == ("DEC-10",)
    assert group.storage == "mixed"


def test_one_layer_that_refuses_keeps_all_from_changing() -> None:
    first, second = make("full"), make("full")
    first.append_window(*pair(0, length=2))
    with pytest.raises(ConfigError):
        compile_step(attention, [first, second])(*pair(1), asks(1))
    assert first.offset == 2


def test_a_model_that_raises_while_it_is_traced_changes_nothing() -> None:
    cache = make("full")
    cache.append_window(*pair(0, length=2))
    step = compile_step(attention, [cache])
    with pytest.raises(ShapeError):
        step(*pair(1, length=2), asks(1))
    assert cache.offset == 2
    assert step(*pair(1), asks(1)).shape == (1, 2 * HEADS, 1, DIM)


def test_what_is_no_cache_of_ours_is_refused() -> None:
    with pytest.raises(ConfigError):
        compile_step(attention, [object()])
    cache = make("full")
    with pytest.raises(ConfigError):
        compile_step(attention, [cache, cache])


# -- the protocol ----------------------------------------------------------------------------------------------------


def test_phases_follow_the_columns_that_count() -> None:
    ring, full = make("ring", 4), make("full")
    phases: list[str] = []
    for number in range(7):
        for cache in (ring, full):
            cache.append_decode(*pair(number))
        phases.append(decode_phase(ring))
        assert decode_phase(full) == "concat"
    assert phases == ["concat", "concat", "ring", "ring", "ring", "ring", "ring"]  # offset + 1 < 4: concat
    ring.reset()
    ring.append_window(*pair(0, length=9))
    assert decode_phase(ring) == "ring"


@pytest.mark.parametrize("name", ["full", "sinks", "affine"])
def test_a_step_of_the_attention_alone_by_the_protocol(name: str) -> None:
    """``concat``: the graph gets the columns that count, and gives the new column back."""
    cache, eager = make(**KINDS[name]), make(**KINDS[name])
    for each in (cache, eager):
        each.append_window(*pair(0, length=3))
    for number in range(1, 6):
        keys, values = pair(number)
        step = prepare_decode_step(cache)
        assert (step.decode_slot.phase, step.write) == ("concat", 2 + number)
        inputs = step.decode_inputs()
        assert len(inputs) == step.decode_slot.planes
        assert all(part.shape[2] == 2 + number for part in inputs)
        codes = cache.policy.codes
        new = [*codes.codec.encode_keys(keys), *codes.codec.encode_values(values)] if codes else [keys, values]
        assert cache.offset == 2 + number
        mx.eval(step.commit_decode_step(new))
        eager.append_decode(keys, values)
        with pytest.raises(ConfigError):
            step.commit_decode_step(new)
    same_state(cache, eager)


def test_a_step_is_not_committed_to_a_cache_that_changed_since() -> None:
    cache = make("full")
    cache.append_window(*pair(0, length=3))
    step = prepare_decode_step(cache, whole=True)
    outputs = step.decode_inputs()[:2]
    cache.append_decode(*pair(1))
    with pytest.raises(ConfigError):
        step.commit_decode_step(outputs)
    assert cache.offset == 4


def test_a_slot_key_holds_no_offset() -> None:
    cache, keys = make("ring", 20, 2, bits=4), set[str]()
    cache.append_window(*pair(0, length=3))
    for number in range(1, 60):
        keys.add(prepare_decode_step(cache, whole=True).decode_slot.key)
        cache.append_decode(*pair(number))
    assert keys == {"fixed:affine:4:4:64:masked", "ring:affine:4:4:64"}


# -- a model ---------------------------------------------------------------------------------------------------------


def make_llama() -> Any:
    layers = ["sliding_attention", "full_attention"]
    dims: dict[str, Any] = {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
    }
    return llama.Model(
        llama.ModelArgs(
            model_type="llama",
            num_hidden_layers=2,
            rms_norm_eps=1e-5,
            vocab_size=97,
            layer_types=layers,
            sliding_window=40,
            **dims,
        )
    )


@pytest.mark.parametrize("policy", [{}, {"kv_bits": 4, "group_size": 32, "quantized_kv_start": 50}])
def test_a_model_gives_the_same_logits(policy: dict[str, Any]) -> None:
    mx.random.seed(3)
    model = make_llama()
    eager, compiled = make_cache(model, **policy), make_cache(model, **policy)
    prompt = mx.array([[5, 3, 1]])
    for caches in (eager, compiled):
        mx.eval(model(prompt, cache=caches))
    step = compile_step(model, compiled)
    for number in range(300):
        token = mx.array([[number * 7 % 97]])
        assert np.array_equal(bits(step(token)), bits(model(token, cache=eager))), number
    assert step.compiled is True
    assert set(step.traces.values()) == {1}
    for ours, theirs in zip(compiled, eager, strict=True):
        same_state(ours.cache, theirs.cache)


# -- without a compiler ----------------------------------------------------------------------------------------------

_BARE = """
import mlx.core as mx
from kvlaw.mlx_impl import make
from kvlaw.mlx_impl.compiled import compile_step, compiles
cache = make("full")
ones = mx.ones((1, 1, 1, 4))
cache.append_decode(ones, ones)
step = compile_step(lambda keys, values, cache: cache[0].update_and_fetch(keys, values)[0], [cache])
assert step.compiled is None
for _ in range(3):
    mx.eval(step(ones, ones))
print(compiles(), step.compiled, cache.offset)
"""


@pytest.mark.parametrize("missing", [{"PATH": "/nowhere"}, {"MLX_DISABLE_COMPILE": "1"}])
def test_without_a_compiler_that_is_said(missing: dict[str, str]) -> None:
    run = subprocess.run(
        [sys.executable, "-c", _BARE], env={**os.environ, **missing}, capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["False", "False", "4"]
