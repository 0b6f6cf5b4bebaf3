"""mlx-lm's batch generator over our groups: its own batch caches bit for bit, each row as if it were alone.

Models are real, small and random.  Requests come at different times with different lengths, so that rows join and
leave, are padded on the right and on the left, and rings turn.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from attrs import frozen
from mlx.utils import tree_map
from mlx_lm.generate import BatchGenerator, PromptProcessingBatch, generate_step
from mlx_lm.models import gemma2, gemma3_text, gpt_oss, llama, qwen3
from mlx_lm.models.cache import make_prompt_cache

from kvlaw.mlx_impl import CacheError, FullCache, RingCache, bf16_first
from kvlaw.mlx_impl.mlx_lm import DropIn, QuantizedDropIn, make_cache
from kvlaw.mlx_impl.mlx_lm_rows import QuantizedRowsDropIn, RowsDropIn

pytestmark = pytest.mark.usefixtures("uncompiled")

WINDOW, VOCABULARY, DIM, GROUP, STEP = 8, 97, 32, 32, 6

LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": DIM,
    "rms_norm_eps": 1e-5,
    "vocab_size": VOCABULARY,
}
SLIDING = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "sliding_window": WINDOW}
QWEN = {"model_type": "qwen3", "max_position_embeddings": 512, "rope_theta": 1e4, "tie_word_embeddings": True}
GEMMA = {"model_type": "gemma3_text", "sliding_window": WINDOW, "sliding_window_pattern": 2}
GEMMA2 = {"model_type": "gemma2", "query_pre_attn_scalar": 32.0, "num_key_value_heads": 4}
"""mlx-lm's Gemma 2 takes no mask with an axis of rows where query heads share a key head."""
GPT_OSS = {
    "num_hidden_layers": 2,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 64,
    "head_dim": DIM,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "sliding_window": WINDOW,
}

MODELS: dict[str, Callable[[], Any]] = {
    "llama": lambda: llama.Model(llama.ModelArgs.from_dict(LLAMA)),
    "sliding-llama": lambda: llama.Model(llama.ModelArgs.from_dict({**LLAMA, **SLIDING})),
    "qwen3": lambda: qwen3.Model(qwen3.ModelArgs.from_dict({**LLAMA, **QWEN})),
    "gemma3": lambda: gemma3_text.Model(gemma3_text.ModelArgs.from_dict({**LLAMA, **GEMMA})),
    "gemma2": lambda: gemma2.Model(gemma2.ModelArgs.from_dict({**LLAMA, **GEMMA2})),
    "gpt-oss": lambda: gpt_oss.Model(gpt_oss.ModelArgs.from_dict(GPT_OSS)),
}
SLIDING_MODELS = {"sliding-llama", "gemma3", "gpt-oss"}
DTYPES = {"bf16": mx.bfloat16, "f32": mx.float32}
"""MLX mixes experts (GPT-OSS) only in float32 on a CPU."""

Made = list[tuple[int, np.ndarray]]
"""The tokens that a request got, each with its log-probabilities."""


@frozen
class Request:
    """A prompt of so many tokens that comes after ``at`` steps of the generator and wants so many tokens more."""

    at: int
    prompt: int
    wants: int


SCHEDULES = {
    "together": [Request(0, 9, 6), Request(0, 3, 12), Request(0, 14, 7)],
    "one after another": [Request(0, 7, 9), Request(3, 12, 9), Request(6, 2, 14), Request(9, 25, 4)],
    "into long decodes": [Request(0, 1, 30), Request(0, 5, 22), Request(8, 20, 8), Request(19, 3, 9)],
    "beyond the window": [Request(0, 40, 5), Request(1, 8, 12), Request(1, 17, 3)],
    "alone": [Request(0, 11, 20)],
}


@lru_cache
def made(name: str, dtype: str = "bf16") -> Any:
    """Make a model of weights wide enough for attention to be far from uniform."""
    mx.random.seed(11)
    model = MODELS[name]()

    def wide(weight: Any) -> mx.array:
        return (4 * mx.random.normal(weight.shape) / weight.shape[-1] ** 0.5).astype(DTYPES[dtype])

    model.update(tree_map(wide, model.parameters()))
    mx.eval(model.parameters())
    return model


def prompt(number: int, length: int) -> list[int]:
    return np.random.default_rng(number).integers(1, VOCABULARY, length).tolist()


def bits(logits: mx.array) -> np.ndarray:
    assert bool(mx.all(mx.isfinite(logits)))
    return np.array(logits.astype(mx.float32))


def batched(
    model: Any, make: Callable[[Any], list[Any]], requests: Sequence[Request], storages: set[str] | None = None
) -> list[Made]:
    """Serve requests by mlx-lm's batch generator, each with caches that ``make`` makes; tell what they held."""
    generator = BatchGenerator(model, prefill_step_size=STEP, stream=mx.default_stream(mx.default_device()))
    answers: list[Made] = [[] for _ in requests]
    numbers: dict[int, int] = {}
    step, finished = 0, 0
    while finished < len(requests):
        for number, request in enumerate(requests):
            if request.at == step:
                (uid,) = generator.insert([prompt(number, request.prompt)], [request.wants], caches=[make(model)])
                numbers[uid] = number
        for response in generator.next()[1]:
            answers[numbers[response.uid]].append((response.token, bits(response.logprobs)))
            finished += response.finish_reason is not None
        if storages is not None:
            storages |= {rows.cache.storage for rows in generator._generation_batch.prompt_cache}
        step += 1
    return answers


def alone(model: Any, caches: list[Any], number: int, request: Request) -> Made:
    """Serve one request by mlx-lm's serial generation, whose prefill has the same chunks."""
    ids = mx.array(prompt(number, request.prompt))
    steps = generate_step(ids, model, prompt_cache=caches, max_tokens=request.wants, prefill_step_size=STEP)
    return [(int(token), bits(logprobs)) for token, logprobs in steps]


def assert_same(ours: Made, theirs: Made) -> None:
    assert [token for token, _ in ours] == [token for token, _ in theirs]
    for step, ((_, mine), (_, other)) in enumerate(zip(ours, theirs, strict=True)):
        np.testing.assert_array_equal(mine, other, err_msg=f"step {step}")
        assert np.unique(mine).size > 10, "the log-probabilities say nothing"


def assert_close(ours: Made, theirs: Made, most: float) -> None:
    assert [token for token, _ in ours] == [token for token, _ in theirs]
    for step, ((_, mine), (_, other)) in enumerate(zip(ours, theirs, strict=True)):
        np.testing.assert_allclose(mine, other, rtol=0, atol=most, err_msg=f"step {step}")


# -- beside mlx-lm's own batch caches ---------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("name", "dtype"), [(n, d) for n in MODELS for d in DTYPES if (n, d) != ("gpt-oss", "bf16")])
def test_dense_groups_equal_mlx_lms_batch_caches_bit_for_bit(name: str, dtype: str, schedule: str) -> None:
    model, requests = made(name, dtype), SCHEDULES[schedule]
    ours = batched(model, make_cache, requests)
    theirs = batched(model, make_prompt_cache, requests)
    for mine, other, request in zip(ours, theirs, requests, strict=True):
        assert len(mine) == request.wants
        assert_same(mine, other)


def test_a_window_one_too_short_shows_in_the_log_probabilities() -> None:
    """The comparison is not blind."""

    def short(model: Any) -> list[Any]:
        return [DropIn(RingCache(WINDOW - 1)) if hasattr(c, "max_size") else c for c in make_cache(model)]

    model, requests = made("gemma3"), SCHEDULES["together"]
    right, wrong = batched(model, make_cache, requests), batched(model, short, requests)
    differing = [next(i for i, (x, y) in enumerate(zip(a, b, strict=True)) if (x[1] != y[1]).any())
                 for a, b in zip(right, wrong, strict=True)]  # fmt: skip
    assert differing == [0, WINDOW - 3, 0], "the second prompt is of 3 tokens: its query of step i sees 3 + i of them"


# -- beside each row alone --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", MODELS)
def test_each_dense_row_equals_itself_alone(name: str, schedule: str) -> None:
    """Bit for bit in growing groups; a ring's columns are summed up in another order once siblings have turned it."""
    model, requests = made(name, "f32"), SCHEDULES[schedule]
    for number, (row, request) in enumerate(zip(batched(model, make_cache, requests), requests, strict=True)):
        one = alone(model, make_cache(model), number, request)
        assert_close(row, one, 1e-4) if name in SLIDING_MODELS else assert_same(row, one)


QUANTIZED: dict[str, dict[str, Any]] = {
    "from the first": {"kv_bits": 8, "quantized_kv_start": None},
    "from 0": {"kv_bits": 8, "quantized_kv_start": 0},
    "from 9": {"kv_bits": 8, "quantized_kv_start": 9},
    "from 12, 4 bits": {"kv_bits": 4, "quantized_kv_start": 12},
    "other bits for values": {"kv_bits": 8, "v_bits": 4, "quantized_kv_start": 9},
}


@pytest.mark.parametrize("schedule", ["together", "one after another", "into long decodes"])
@pytest.mark.parametrize("policy", QUANTIZED)
@pytest.mark.parametrize("name", [name for name in MODELS if name != "gpt-oss"])
def test_each_quantized_row_equals_itself_alone(name: str, policy: str, schedule: str) -> None:
    """Rows convert at different steps, so that groups hold half precision, both, and codes in turn.

    In a ring another order of summing up may move an element to the next code.
    """
    model, requests = made(name, "f32"), SCHEDULES[schedule]
    make = partial(make_cache, group_size=GROUP, **QUANTIZED[policy])
    for number, (row, request) in enumerate(zip(batched(model, make, requests), requests, strict=True)):
        one = alone(model, make(model), number, request)
        assert_close(row, one, 4e-3) if name in SLIDING_MODELS else assert_same(row, one)


def test_groups_hold_half_precision_both_and_codes_in_turn() -> None:
    model, storages = made("gemma3", "f32"), set[str]()
    make = partial(make_cache, group_size=GROUP, kv_bits=8, quantized_kv_start=12)
    batched(model, make, SCHEDULES["into long decodes"], storages)
    assert storages == {"dense", "mixed", "packed"}


def test_one_codes_boundary_too_early_shows() -> None:
    model, requests = made("llama", "f32"), SCHEDULES["together"]
    runs = [
        batched(model, partial(make_cache, kv_bits=4, group_size=GROUP, quantized_kv_start=start), requests)
        for start in (9, 10)
    ]
    worst = max(
        float(np.abs(a[1] - b[1]).max())
        for row, other in zip(*runs, strict=True)
        for a, b in zip(row, other, strict=True)
    )
    assert worst > 1e-2


# -- what the generator hands out -------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"kv_bits": 8, "group_size": GROUP, "quantized_kv_start": 9}], ids=str)
@pytest.mark.parametrize("name", ["gemma3", "qwen3"])
def test_a_row_that_was_handed_out_goes_on_alone(name: str, options: dict[str, Any]) -> None:
    model = made(name, "f32")
    make = partial(make_cache, **options)
    generator = BatchGenerator(model, prefill_step_size=STEP, stream=mx.default_stream(mx.default_device()))
    lengths = (13, 4)
    uids = generator.insert([prompt(i, n) for i, n in enumerate(lengths)], [6, 40], caches=[make(model), make(model)])
    done: list[Any] = []
    while not done:
        done = [response for response in generator.next()[1] if response.finish_reason]
    caches, ids = done[0].prompt_cache, done[0].all_tokens
    assert done[0].uid == uids[0]
    serial = make(model)
    history = prompt(0, 13)
    for piece in (history[:6], history[6:12], *([token] for token in ids[12:])):
        model(mx.array([piece]), cache=serial)
    assert [cache.offset for cache in caches] == [len(ids)] * len(caches)
    assert [type(cache) for cache in caches] == [type(cache) for cache in serial]
    assert [cache.cache.storage for cache in caches] == [cache.cache.storage for cache in serial]
    for piece in ([5], [6, 7, 8], [9]):
        mine, other = (bits(model(mx.array([piece]), cache=listed)) for listed in (caches, serial))
        np.testing.assert_allclose(mine, other, rtol=0, atol=1e-3)


def test_a_prompt_goes_on_in_caches_that_were_handed_out() -> None:
    """The caches of a finished request, with history, are rows of a batch again."""
    model = made("gemma3", "f32")
    serial = make_cache(model)
    for piece in (prompt(0, 11), [3], [4]):
        model(mx.array([piece]), cache=serial)
    generator = BatchGenerator(model, prefill_step_size=STEP, stream=mx.default_stream(mx.default_device()))
    uids = generator.insert([[8, 9, 10], prompt(7, 9)], [8, 8], caches=[serial, make_cache(model)])
    answers: dict[int, list[int]] = {uid: [] for uid in uids}
    while any(len(answer) < 8 for answer in answers.values()):
        for response in generator.next()[1]:
            answers[response.uid].append(response.token)
    expected = make_cache(model)
    for piece in (prompt(0, 11), [3], [4]):
        model(mx.array([piece]), cache=expected)
    steps = generate_step(mx.array([8, 9, 10]), model, prompt_cache=expected, max_tokens=8, prefill_step_size=STEP)
    assert answers[uids[0]] == [int(token) for token, _ in steps]
    assert [cache.offset for cache in serial] == [13] * len(serial), "the merge left its sources as they were"


@pytest.mark.parametrize("name", ["llama", "gemma3"])
def test_chunks_of_a_padded_prompt_may_end_with_one_position(name: str) -> None:
    """mlx-lm's rings ask for ``finalize`` here (B39); how a prompt is cut must not matter."""
    model = made(name, "f32")
    prompts = [prompt(0, STEP + 1), prompt(1, 3)]
    after: list[np.ndarray] = []
    for step in (STEP, 50):
        batch = PromptProcessingBatch(
            model,
            [0, 1],
            [make_cache(model), make_cache(model)],
            prefill_step_size=step,
        )
        batch.prompt([list(ids) for ids in prompts])
        assert batch.prompt_cache[0].offset.tolist() == [STEP + 1, 3]
        after.append(bits(model(mx.array([[5], [6]]), cache=batch.prompt_cache)))
    np.testing.assert_allclose(*after, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", sorted(SLIDING_MODELS))
def test_a_row_that_joins_with_one_token_keeps_it(name: str) -> None:
    """A ring that a chunk of one token turned, then a longer chunk: mlx-lm's mask hides the token there (B108).

    Row 0 comes in chunks of 6, 6, 1, 6, 2 and 1, row 1 from the third step on in 1, 6, 1 and 1.
    """
    model = made(name, "f32")
    segments = [[prompt(0, 13), prompt(1, 9)], [prompt(2, 1), prompt(3, 8)]]
    generator = BatchGenerator(model, prefill_step_size=STEP, stream=mx.default_stream(mx.default_device()))
    uids = generator.insert_segments(segments[:1], [9], caches=[make_cache(model)])
    answers: dict[int, Made] = {}
    for step in range(16):
        if step == 2:
            uids += generator.insert_segments(segments[1:], [9], caches=[make_cache(model)])
        for response in generator.next()[1]:
            answers.setdefault(response.uid, []).append((response.token, bits(response.logprobs)))
    for uid, (first, last) in zip(uids, segments, strict=True):
        caches = make_cache(model)
        for piece in (first[:6], first[6:12], first[12:], last[:-1][:6], last[:-1][6:]):
            if piece:
                model(mx.array([piece]), cache=caches)
        steps = generate_step(mx.array(last[-1:]), model, prompt_cache=caches, max_tokens=9)
        assert_close(answers[uid], [(int(token), bits(logprobs)) for token, logprobs in steps], 1e-4)


# -- the duck type ----------------------------------------------------------------------------------------------------


def pair(rows: int, length: int, seed: int = 0) -> tuple[mx.array, mx.array]:
    keys = mx.random.normal((rows, 2, length, DIM), key=mx.random.key(seed)).astype(mx.bfloat16)
    return keys, keys + 1


def group_of(rows: int, ring: bool, **policy: Any) -> RowsDropIn:
    def one() -> DropIn:
        given = bf16_first(**policy) if policy else None
        ours = RingCache(6, policy=given) if ring else FullCache(policy=given)
        return QuantizedDropIn(ours) if policy else DropIn(ours)

    return one().merge([one() for _ in range(rows)])


@pytest.mark.parametrize("ring", [False, True])
def test_bits_are_there_only_while_the_last_fetch_were_codes(ring: bool) -> None:
    """Rows of 3 and 1 tokens, codes from 4 on: after one decode row 0 is due, after three more row 1 as well."""
    group = group_of(2, ring, start=4, bits=8, group=GROUP)
    assert isinstance(group, QuantizedRowsDropIn)
    group.prepare(lengths=[3, 1], right_padding=[0, 2])
    group.update_and_fetch(*pair(2, 3))
    group.finalize()
    storages = []
    for step in range(5):
        fetched = group.update_and_fetch(*pair(2, 1, step))
        codes = not isinstance(fetched[0], mx.array)
        storages.append(group.cache.storage)
        assert codes == (storages[-1] == "packed")
        assert (getattr(group, "bits", None), getattr(group, "group_size", None)) == (
            (8, GROUP) if codes else (None, None)
        )
    assert storages == ["dense", "mixed", "mixed", "packed", "packed"]
    assert not hasattr(group, "to_quantized")


@pytest.mark.parametrize("ring", [False, True])
def test_offsets_that_were_handed_out_stay(ring: bool) -> None:
    group = group_of(2, ring)
    group.prepare(left_padding=[1, 0])
    group.update_and_fetch(*pair(2, 3))
    before, padding = group.offset, group.left_padding
    for step in range(9):
        group.update_and_fetch(*pair(2, 1, step))
    assert (before.tolist(), padding.tolist()) == ([2, 3], [1, 0])
    assert group.offset.tolist() == [11, 12]


def test_what_layers_reuse_is_what_was_handed_out() -> None:
    group = group_of(2, False, start=2, bits=8, group=GROUP)
    with pytest.raises(CacheError):
        group.keys_and_values()
    group.shared = True
    for length in (2, 1, 3):
        fetched = group.update_and_fetch(*pair(2, length))
        assert all(one is other for one, other in zip(fetched, group.keys_and_values(), strict=True))
    assert group.merge([group.extract(0), group.extract(1)]).shared


def test_rows_are_kept_extended_and_extracted() -> None:
    group, other = group_of(2, False), group_of(1, False)
    group.prepare(lengths=[3, 1], right_padding=[0, 2])
    keys, values = pair(2, 3)
    group.update_and_fetch(keys, values)
    group.finalize()
    more = pair(1, 2, seed=5)
    other.update_and_fetch(*more)
    group.extend(other)
    assert group.offset.tolist() == [3, 1, 2]
    assert other.offset.tolist() == [2]
    group.filter([2, 0])
    assert group.offset.tolist() == [2, 3]
    taken = [group.extract(row) for row in (0, 1)]
    assert [cache.offset for cache in taken] == [2, 3]
    for cache, expected in zip(taken, (more[0], keys[:1]), strict=True):
        assert cache.keys is not None
        assert bool(mx.array_equal(cache.keys[..., : cache.offset, :], expected))
    group.filter(mx.array([1]))
    assert group.offset.tolist() == [3]
    assert (group.size(), group.empty(), group_of(2, True).empty()) == (3, False, True)


def test_a_trim_takes_at_most_what_the_shortest_row_has() -> None:
    group = group_of(2, False)
    group.prepare(left_padding=[5, 0])
    group.update_and_fetch(*pair(2, 6))
    assert group.is_trimmable()
    assert group.trim(3) == 1
    assert group.offset.tolist() == [0, 5]
    with pytest.raises(CacheError):
        group.trim(-1)


def test_what_cannot_be_one_group_is_refused() -> None:
    group = group_of(2, False)
    with pytest.raises(CacheError, match="ROWS-7"):
        group.extend(group_of(1, True))
    with pytest.raises(CacheError, match="ROWS-7"):
        group.merge([make_prompt_cache(made("llama"))[0]])
    for rows in ([0, 2], [0, 0]):
        with pytest.raises(CacheError, match="row"):
            group.filter(rows)
    assert group.offset.tolist() == [0, 0]
