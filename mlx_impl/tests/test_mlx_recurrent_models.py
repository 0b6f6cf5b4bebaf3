"""Small random Qwen3-Next and Qwen3.5: the same logits with our caches as with mlx-lm's, the same tokens when drafting.

Qwen3-Next is float32 alone: its experts have no kernel for half precision on the CPU.
"""

from contextlib import suppress
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_map_with_path
from mlx_lm.generate import BatchGenerator, generate_step
from mlx_lm.models import llama, qwen3_5, qwen3_next
from mlx_lm.models.cache import ArraysCache, can_trim_prompt_cache, make_prompt_cache

from kvlaw.mlx_impl import CacheError, ConfigError, FullCache, RecurrentCache
from kvlaw.mlx_impl.errors import RoundError, TrimError
from kvlaw.mlx_impl.mlx_lm import make_cache, recording
from kvlaw.mlx_impl.mlx_lm_recurrent import RecurrentDropIn, RecurrentRowsDropIn

pytestmark = pytest.mark.usefixtures("uncompiled")

VOCABULARY = 97


def make_qwen3_next() -> Any:
    return qwen3_next.Model(
        qwen3_next.ModelArgs(
            model_type="qwen3_next",
            hidden_size=64,
            num_hidden_layers=4,
            intermediate_size=96,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=16,
            linear_num_value_heads=4,
            linear_num_key_heads=2,
            linear_key_head_dim=16,
            linear_value_head_dim=8,
            linear_conv_kernel_dim=4,
            num_experts=4,
            num_experts_per_tok=2,
            decoder_sparse_step=1,
            shared_expert_intermediate_size=32,
            mlp_only_layers=[],
            moe_intermediate_size=32,
            rms_norm_eps=1e-5,
            vocab_size=VOCABULARY,
            rope_theta=10000.0,
            partial_rotary_factor=0.5,
            max_position_embeddings=1000,
        )
    )


def make_qwen3_5() -> Any:
    return qwen3_5.TextModel(
        qwen3_5.TextModelArgs(
            model_type="qwen3_5",
            hidden_size=64,
            intermediate_size=96,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=2,
            vocab_size=VOCABULARY,
            linear_num_value_heads=4,
            linear_num_key_heads=2,
            linear_key_head_dim=16,
            linear_value_head_dim=8,
            linear_conv_kernel_dim=3,
        )
    )


MODELS = {
    "qwen3-next-f32": (make_qwen3_next, mx.float32),
    "qwen3.5-bf16": (make_qwen3_5, mx.bfloat16),
    "qwen3.5-f16": (make_qwen3_5, mx.float16),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest) -> Any:
    make, dtype = MODELS[request.param]
    mx.random.seed(3)
    made = make()

    def wide(name: str, weight: Any) -> mx.array:
        if weight.ndim == 1:  # norms, and what gates are made of; A_log stays float32, as mlx-lm loads it
            return weight.astype(mx.float32 if name.endswith("A_log") else dtype)
        return (3 * mx.random.normal(weight.shape) / weight.shape[-1] ** 0.5).astype(dtype)

    made.update(tree_map_with_path(wide, made.parameters()))
    mx.eval(made.parameters())
    return made


def tokens(count: int, seed: int = 5) -> list[int]:
    return np.random.default_rng(seed).integers(1, VOCABULARY, count).tolist()


def logits_of(model: Any, caches: list[Any], pieces: list[list[int]]) -> list[np.ndarray]:
    made = [np.array(model(mx.array([piece]), cache=caches).astype(mx.float32)) for piece in pieces]
    assert all(np.isfinite(each).all() for each in made)
    assert all(np.unique(each).size > 10 for each in made), "the logits say nothing"
    return made


def same(one: mx.array, other: mx.array) -> bool:
    return one.dtype == other.dtype and bool(mx.array_equal(one, other))


PIECES = [tokens(n, n) for n in (7, 3, 12, 1, 2)] + [[token] for token in tokens(25)]


@pytest.mark.parametrize("recorded", [False, True])
def test_the_logits_are_those_of_mlx_lm_bit_for_bit(model: Any, *, recorded: bool) -> None:
    ours, theirs = make_cache(model), make_prompt_cache(model)
    assert [type(cache.cache) for cache in ours] == [RecurrentCache] * 3 + [FullCache]
    expected = logits_of(model, theirs, PIECES)
    if recorded:
        with recording(model):
            found = logits_of(model, ours, PIECES)
    else:
        found = logits_of(model, ours, PIECES)
    for mine, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, other)
    assert {cache.offset for cache in ours} == {sum(map(len, PIECES))}
    for mine, other in zip(ours, theirs, strict=True):
        if isinstance(other, ArraysCache):
            assert all(same(mine[at], other[at]) for at in (0, 1))
            assert mine.nbytes == other.nbytes


def test_generation_gives_the_same_tokens(model: Any) -> None:
    def generated(caches: list[Any]) -> list[int]:
        steps = generate_step(mx.array(tokens(20)), model, max_tokens=15, prefill_step_size=8, prompt_cache=caches)
        return [int(token) for token, _ in steps]

    expected = generated(make_prompt_cache(model))
    assert generated(make_cache(model)) == expected
    with recording(model):
        assert generated(make_cache(model)) == expected


def drafted(model: Any, caches: list[Any], prompt: list[int], count: int, draft: Any) -> tuple[list[int], int]:
    """Generate greedily, each step verifying what ``draft`` guesses; return the tokens and how many were rejected."""
    made, rejected = [greedy(model, caches, prompt)[-1]], 0
    while len(made) < count:
        guesses = draft(made)
        for cache in caches:
            cache.begin_round()
        chosen = greedy(model, caches, [made[-1], *guesses])
        good = next((at for at, guess in enumerate(guesses) if guess != chosen[at]), len(guesses))
        for cache in caches:
            cache.roll_back(1 + good)
        rejected += len(guesses) - good
        made += chosen[: good + 1]
    return made[:count], rejected


def greedy(model: Any, caches: list[Any], ids: list[int]) -> list[int]:
    listed: Any = mx.argmax(model(mx.array([ids]), cache=caches)[0], axis=-1).tolist()
    return listed


def test_drafting_and_roll_back_give_the_same_tokens_as_without(model: Any) -> None:
    prompt, count, rng = tokens(11), 40, np.random.default_rng(2)
    plain = [greedy(model, caches := make_prompt_cache(model), prompt)[-1]]
    while len(plain) < count:
        plain.append(greedy(model, caches, plain[-1:])[-1])

    def guess(made: list[int]) -> list[int]:
        """The next tokens, some of them wrong."""
        right = plain[len(made) : len(made) + int(rng.integers(0, 5))]
        return [token if rng.random() < 0.7 else (token + 1) % VOCABULARY for token in right]

    with recording(model):
        made, rejected = drafted(model, make_cache(model), prompt, count, guess)
    assert made == plain
    assert rejected > 5


def test_what_a_roll_back_leaves_is_what_the_kept_tokens_alone_leave(model: Any) -> None:
    prompt, draft = tokens(9), tokens(6, 8)
    for keep in range(7):
        ours = make_cache(model)
        with recording(model):
            logits_of(model, ours, [prompt])
            for cache in ours:
                cache.begin_round()
            logits_of(model, ours, [draft[:4], draft[4:]])
            for cache in ours:
                cache.roll_back(keep)
        alone = make_cache(model)
        logits_of(model, alone, [prompt, *([draft[:keep]] if keep else [])])
        for mine, other in zip(ours[:3], alone[:3], strict=True):
            assert mine.offset == other.offset
            assert all(same(mine[at], other[at]) for at in (0, 1))
        np.testing.assert_array_equal(logits_of(model, ours, [[5]])[0], logits_of(model, alone, [[5]])[0])


@pytest.mark.parametrize("recorded", [False, True])
def test_batch_generation_gives_the_tokens_of_mlx_lm(model: Any, *, recorded: bool) -> None:
    prompts = [tokens(n, n) for n in (5, 17, 9, 2)]

    def generated(make: Any) -> dict[int, list[int]]:
        batch = BatchGenerator(model, max_tokens=8, completion_batch_size=3, prefill_batch_size=2, prefill_step_size=6)
        uids = batch.insert(prompts, caches=[make(model) for _ in prompts])
        made: dict[int, list[int]] = {uid: [] for uid in uids}
        while responses := batch.next_generated():
            for response in responses:
                made[response.uid].append(response.token)
        return {at: made[uid] for at, uid in enumerate(uids)}

    expected = {
        at: [int(token) for token, _ in generate_step(mx.array(prompt), model, max_tokens=8)]
        for at, prompt in enumerate(prompts)
    }
    assert all(len(each) == 8 for each in expected.values())
    if recorded:
        with recording(model):
            assert generated(make_cache) == expected
    else:
        assert generated(make_cache) == expected


def test_rows_of_a_recorded_group_take_back_different_counts(model: Any) -> None:
    rows = [tokens(6, 1), tokens(6, 2)]
    draft = [tokens(3, 3), tokens(3, 4)]
    group = [layer[0].merge(list(layer)) for layer in zip(make_cache(model), make_cache(model), strict=True)]
    with recording(model):
        mx.eval(model(mx.array(rows), cache=group))
        for cache in group:
            cache.begin_round()
        mx.eval(model(mx.array(draft), cache=group))
        for cache in group:
            cache.roll_back([2, 0])
    assert isinstance(group[0], RecurrentRowsDropIn)
    for row, kept in enumerate((draft[0][:2], [])):
        alone = make_cache(model)
        logits_of(model, alone, [rows[row], *([kept] if kept else [])])
        mine = [cache.extract(row) for cache in group]
        assert all(same(mine[0][at], alone[0][at]) for at in (0, 1))
        np.testing.assert_array_equal(logits_of(model, mine, [[5]])[0], logits_of(model, alone, [[5]])[0])


def test_recording_is_undone_on_exit_and_harmless_twice(model: Any) -> None:
    before = [(id(module), type(module)) for module in model.modules()]
    names = [name for name, _ in model.named_modules()]
    with suppress(KeyError), recording(model), recording(model):
        assert [type(module) for module in model.modules()] != [kind for _, kind in before]
        assert [name for name, _ in model.named_modules()] == names
        caches = make_cache(model)
        found = logits_of(model, caches, [tokens(4)])
        np.testing.assert_array_equal(found[0], logits_of(model, make_prompt_cache(model), [tokens(4)])[0])
        raise KeyError
    assert [(id(module), type(module)) for module in model.modules()] == before


def test_a_step_of_a_round_outside_a_recording_is_refused(model: Any) -> None:
    caches = make_cache(model)
    logits_of(model, caches, [tokens(4)])
    for cache in caches:
        cache.begin_round()
    with pytest.raises(RoundError, match="recording"):
        model(mx.array([[1, 2]]), cache=caches)
    for cache in caches:
        cache.roll_back(0)
    again = make_cache(model)
    np.testing.assert_array_equal(logits_of(model, caches, [[7]])[0], logits_of(model, again, [tokens(4), [7]])[1])


def test_a_recurrent_layer_is_never_trimmed(model: Any) -> None:
    caches = make_cache(model)
    logits_of(model, caches, [tokens(4)])
    assert not can_trim_prompt_cache(caches)
    with pytest.raises(TrimError):
        caches[0].trim(1)
    assert caches[0].offset == 4


def test_a_model_without_recurrent_layers_may_be_recorded() -> None:
    plain = llama.Model(
        llama.ModelArgs(
            model_type="llama",
            hidden_size=32,
            num_hidden_layers=1,
            intermediate_size=32,
            num_attention_heads=2,
            rms_norm_eps=1e-5,
            vocab_size=VOCABULARY,
        )
    )
    with recording(plain):
        assert type(plain.layers[0]).__name__ == "TransformerBlock"


def test_merges_with_other_layers_are_refused(model: Any) -> None:
    caches = make_cache(model)
    with pytest.raises(ConfigError):
        RecurrentDropIn.merge([caches[0], caches[3]])
    with pytest.raises(CacheError):
        RecurrentDropIn.merge([])
