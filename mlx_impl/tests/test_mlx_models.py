"""Real models, small and random: the same logits, bit for bit, with our caches as with mlx-lm's."""

from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_map
from mlx_lm.generate import generate_step
from mlx_lm.models import gemma3_text, gpt_oss, llama
from mlx_lm.models.cache import make_prompt_cache, trim_prompt_cache

from kvlaw.mlx_impl import CacheError, FullCache, RingCache
from kvlaw.mlx_impl.mlx_lm import DropIn, make_cache

pytestmark = pytest.mark.usefixtures("uncompiled")

WINDOW = 8
VOCABULARY = 97


def make_llama() -> Any:
    return llama.Model(
        llama.ModelArgs(
            model_type="llama",
            hidden_size=64,
            num_hidden_layers=2,
            intermediate_size=96,
            num_attention_heads=4,
            num_key_value_heads=2,
            rms_norm_eps=1e-5,
            vocab_size=VOCABULARY,
        )
    )


def make_sliding_llama() -> Any:
    return llama.Model(
        llama.ModelArgs(
            model_type="llama",
            hidden_size=64,
            num_hidden_layers=3,
            intermediate_size=96,
            num_attention_heads=4,
            num_key_value_heads=2,
            rms_norm_eps=1e-5,
            vocab_size=VOCABULARY,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            sliding_window=WINDOW,
        )
    )


def make_gemma() -> Any:
    return gemma3_text.Model(
        gemma3_text.ModelArgs(
            model_type="gemma3_text",
            hidden_size=64,
            num_hidden_layers=4,
            intermediate_size=96,
            num_attention_heads=4,
            head_dim=16,
            num_key_value_heads=2,
            vocab_size=VOCABULARY,
            sliding_window=WINDOW,
            sliding_window_pattern=3,
        )
    )


def make_gpt_oss() -> Any:
    return gpt_oss.Model(
        gpt_oss.ModelArgs(
            num_hidden_layers=2,
            num_local_experts=4,
            num_experts_per_tok=2,
            vocab_size=VOCABULARY,
            hidden_size=64,
            intermediate_size=64,
            head_dim=16,
            num_attention_heads=4,
            num_key_value_heads=2,
            sliding_window=WINDOW,
        )
    )


MODELS = {
    "llama-bf16": (make_llama, mx.bfloat16),
    "llama-f16": (make_llama, mx.float16),
    "sliding-llama-bf16": (make_sliding_llama, mx.bfloat16),
    "gemma3-bf16": (make_gemma, mx.bfloat16),
    "gemma3-f16": (make_gemma, mx.float16),
    "gpt-oss-f32": (make_gpt_oss, mx.float32),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest) -> Any:
    make, dtype = MODELS[request.param]
    mx.random.seed(11)
    made = make()

    # weights wide enough for attention to be far from uniform; GPT-OSS' sink logits are among them
    def wide(weight: Any) -> mx.array:
        return (4 * mx.random.normal(weight.shape) / weight.shape[-1] ** 0.5).astype(dtype)

    made.update(tree_map(wide, made.parameters()))
    mx.eval(made.parameters())
    return made


def tokens(count: int) -> list[int]:
    return np.random.default_rng(5).integers(1, VOCABULARY, count).tolist()


def bits(logits: mx.array) -> np.ndarray:
    assert bool(mx.all(mx.isfinite(logits)))
    return np.array(logits.astype(mx.float32))


def advance(model: Any, caches: list[Any], pieces: list[list[int]]) -> list[np.ndarray]:
    return [bits(model(mx.array([piece]), cache=caches)) for piece in pieces]


def decodes(ids: list[int]) -> list[list[int]]:
    return [[token] for token in ids]


def both(model: Any) -> tuple[list[DropIn], list[Any]]:
    return make_cache(model), make_prompt_cache(model)


def assert_same(ours: list[np.ndarray], theirs: list[np.ndarray]) -> None:
    assert len(ours) == len(theirs) > 0
    for step, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        np.testing.assert_array_equal(mine, other, err_msg=f"step {step}")
        assert np.unique(mine).size > 10, "the logits say nothing"


PREFILLS = {
    "chunks that cross the window": ([3, 4, 9, 1, 13], 45),
    "one chunk below the window": ([5], 8),
    "one chunk of the window": ([WINDOW], 4),
    "one chunk beyond the window": ([19], 4),
    "across a growth step": ([250, 30], 4),
}
"""Lengths of the chunks, and how many decodes follow."""


@pytest.mark.parametrize("prefill", PREFILLS)
def test_prefill_in_chunks_and_decodes_give_the_same_logits(model: Any, prefill: str) -> None:
    lengths, count = PREFILLS[prefill]
    ids = tokens(sum(lengths) + count)
    starts = np.cumsum([0, *lengths]).tolist()
    pieces = [ids[start : start + length] for start, length in zip(starts, lengths, strict=False)]
    pieces += decodes(ids[starts[-1] :])
    ours, theirs = both(model)
    assert_same(advance(model, ours, pieces), advance(model, theirs, pieces))
    assert [cache.offset for cache in ours] == [len(ids)] * len(ours)


def test_a_trim_below_the_window_gives_the_same_logits(model: Any) -> None:
    ours, theirs = both(model)
    ids = tokens(40)
    assert_same(advance(model, ours, [ids[:6]]), advance(model, theirs, [ids[:6]]))
    assert trim_prompt_cache(ours, 4) == trim_prompt_cache(theirs, 4) == 4
    pieces = [ids[10:14], *decodes(ids[14:18]), ids[20:25], *decodes(ids[25:])]
    assert_same(advance(model, ours, pieces), advance(model, theirs, pieces))


def test_windows_between_decodes_give_the_same_logits(model: Any) -> None:
    ours, theirs = both(model)
    ids = tokens(45)
    pieces = [ids[:11], *decodes(ids[11:20]), ids[20:23], *decodes(ids[23:26]), ids[26:42], *decodes(ids[42:])]
    assert_same(advance(model, ours, pieces), advance(model, theirs, pieces))


def test_two_rows_give_the_same_logits(model: Any) -> None:
    ours, theirs = both(model)
    ids = mx.array([tokens(20), tokens(21)[1:]])
    for start, stop in [(0, 7), (7, 12), *((at, at + 1) for at in range(12, 20))]:
        mine, other = (bits(model(ids[:, start:stop], cache=caches)) for caches in (ours, theirs))
        assert_same([mine], [other])


def test_a_window_one_too_short_shows_in_the_logits() -> None:
    mx.random.seed(2)
    model = make_gemma()
    right = make_cache(model)
    wrong = [DropIn(RingCache(WINDOW - 1)) if hasattr(cache, "max_size") else cache for cache in make_cache(model)]
    pieces = [tokens(WINDOW - 1), [1], [2]]
    mine, other = advance(model, right, pieces), advance(model, wrong, pieces)
    assert [bool((a == b).all()) for a, b in zip(mine, other, strict=True)] == [True, False, False]


def test_generate_step_runs_with_our_caches(model: Any) -> None:
    prompt = mx.array(tokens(21))
    runs: list[list[tuple[int, np.ndarray]]] = []
    for caches in (make_cache(model), None):
        steps = generate_step(prompt, model, prompt_cache=caches, max_tokens=12, prefill_step_size=6)
        runs.append([(int(token), bits(logprobs)) for token, logprobs in steps])
    assert [token for token, _ in runs[0]] == [token for token, _ in runs[1]]
    assert_same([logprobs for _, logprobs in runs[0]], [logprobs for _, logprobs in runs[1]])


def test_kinds_and_windows_are_the_models_own() -> None:
    kinds = [cache.cache for cache in make_cache(make_gemma())]
    assert [cache.identity for cache in kinds] == ["ring(window=8,sinks=0)"] * 2 + ["full", "ring(window=8,sinks=0)"]
    assert [type(cache) for cache in kinds] == [RingCache, RingCache, FullCache, RingCache]


def test_a_maximal_size_makes_rings_with_four_sinks() -> None:
    class Plain:
        layers = (None, None)

    assert [cache.cache.identity for cache in make_cache(Plain(), 32)] == ["ring(window=32,sinks=4)"] * 2
    assert [cache.cache.identity for cache in make_cache(Plain())] == ["full"] * 2
    with pytest.raises(CacheError, match="RING-14"):
        make_cache(Plain(), 4)


def test_decoding_on_a_ring_with_sinks_gives_the_same_logits(model: Any) -> None:
    """mlx-lm loses the sinks only in windows after the wrap; before it, and in decodes, the two agree."""

    def rings(caches: list[Any]) -> list[Any]:
        return [cache for cache in caches if "Rotating" in type(cache).__name__]

    theirs = make_prompt_cache(model, 12) if not hasattr(model, "make_cache") else make_prompt_cache(model)
    for cache in rings(theirs):
        cache.keep = 3
    ours = [DropIn(RingCache(cache.max_size, 3) if cache in rings(theirs) else FullCache()) for cache in theirs]
    ids = tokens(25)
    pieces = [ids[:5], *decodes(ids[5:])]
    assert_same(advance(model, ours, pieces), advance(model, theirs, pieces))
