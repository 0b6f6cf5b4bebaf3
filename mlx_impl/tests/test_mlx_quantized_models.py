"""Real models, small and random, with quantized drop-ins: mlx-lm's own path bit for bit where it has one.

mlx-lm converts full caches only, after each step, and raises for rings.  Where it has no path, models run beside the
same model over ``Oracle``: a dense cache of ours and codes by ``mx.quantize``, converted by hand.
"""

import re
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_map
from mlx_lm.generate import generate_step, maybe_quantize_kv_cache
from mlx_lm.models import gemma2, gemma3_text, llama, qwen3
from mlx_lm.models.cache import make_prompt_cache

from kvlaw.mlx_impl import CacheError, FullCache, RingCache, bf16_first
from kvlaw.mlx_impl.mlx_lm import DENSE_FETCH, SHARED_FETCH, DropIn, QuantizedDropIn, make_cache, replace

pytestmark = pytest.mark.usefixtures("uncompiled")

WINDOW, VOCABULARY, DIM, GROUP = 8, 97, 32, 32

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
GEMMA2 = {"model_type": "gemma2", "query_pre_attn_scalar": 32.0}


def make_llama() -> Any:
    return llama.Model(llama.ModelArgs.from_dict(LLAMA))


def make_sliding_llama() -> Any:
    return llama.Model(llama.ModelArgs.from_dict({**LLAMA, **SLIDING}))


def make_qwen() -> Any:
    return qwen3.Model(qwen3.ModelArgs.from_dict({**LLAMA, **QWEN}))


def make_gemma() -> Any:
    return gemma3_text.Model(gemma3_text.ModelArgs.from_dict({**LLAMA, **GEMMA}))


def make_gemma2() -> Any:
    return gemma2.Model(gemma2.ModelArgs.from_dict({**LLAMA, **GEMMA2}))


MODELS = {
    "llama": make_llama,
    "sliding-llama": make_sliding_llama,
    "qwen3": make_qwen,
    "gemma3": make_gemma,
    "gemma2": make_gemma2,
}
_made: dict[str, Any] = {}


def made(name: str) -> Any:
    """Make a model once, of weights wide enough for attention to be far from uniform."""
    if name not in _made:
        mx.random.seed(11)
        model = MODELS[name]()

        def wide(weight: Any) -> mx.array:
            return (4 * mx.random.normal(weight.shape) / weight.shape[-1] ** 0.5).astype(mx.bfloat16)

        model.update(tree_map(wide, model.parameters()))
        mx.eval(model.parameters())
        _made[name] = model
    return _made[name]


def tokens(count: int) -> list[int]:
    return np.random.default_rng(5).integers(1, VOCABULARY, count).tolist()


def bits(logits: mx.array) -> np.ndarray:
    assert bool(mx.all(mx.isfinite(logits)))
    return np.array(logits.astype(mx.float32))


def advance(model: Any, caches: list[Any], pieces: list[list[int]]) -> list[np.ndarray]:
    return [bits(model(mx.array([piece]), cache=caches)) for piece in pieces]


def pieces_of(lengths: list[int]) -> list[list[int]]:
    ids, starts = tokens(sum(lengths)), np.cumsum([0, *lengths]).tolist()
    return [ids[start : start + length] for start, length in zip(starts, lengths, strict=False)]


def assert_same(ours: list[np.ndarray], theirs: list[np.ndarray]) -> None:
    assert len(ours) == len(theirs) > 0
    for step, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        np.testing.assert_array_equal(mine, other, err_msg=f"step {step}")
        assert np.unique(mine).size > 10, "the logits say nothing"


def generated(model: Any, caches: Any, prompt: list[int], **options: Any) -> list[tuple[int, np.ndarray]]:
    steps = generate_step(mx.array(prompt), model, prompt_cache=caches, max_tokens=10, prefill_step_size=6, **options)
    return [(int(token), bits(logprobs)) for token, logprobs in steps]


# -- where mlx-lm has a path ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [0, 1, 6, 7, 20, 21, 24, 500])
@pytest.mark.parametrize("kv_bits", [4, 8])
@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_generation_equals_mlx_lms_own_conversion(name: str, kv_bits: int, start: int) -> None:
    """21 tokens come in chunks of 6, 6, 6, 2 and 1; both sides convert after the one that reaches ``start``."""
    model = made(name)
    ours = make_cache(model, kv_bits=kv_bits, group_size=GROUP, quantized_kv_start=start)
    mine = generated(model, ours, tokens(21))
    theirs = generated(model, None, tokens(21), kv_bits=kv_bits, kv_group_size=GROUP, quantized_kv_start=start)
    assert [token for token, _ in mine] == [token for token, _ in theirs]
    assert_same([logprobs for _, logprobs in mine], [logprobs for _, logprobs in theirs])
    ends = [6, 12, 18, 20, *range(21, 32)]
    floor = 0 if start in {0, 500} else next(end for end in ends if end >= start)
    assert {cache.cache.floor for cache in ours} == {floor}
    assert {cache.cache.storage for cache in ours} == {"dense" if start == 500 else "affine"}


@pytest.mark.parametrize("start", [0, 9, 14])
@pytest.mark.parametrize("name", ["gemma3", "sliding-llama"])
def test_full_layers_alone_equal_mlx_lms_conversion_of_them(name: str, start: int) -> None:
    """mlx-lm raises for rings, so there its full layers are converted one by one."""
    model = made(name)
    theirs = make_prompt_cache(model)
    full = [layer for layer, cache in enumerate(theirs) if not hasattr(cache, "max_size")]
    assert 0 < len(full) < len(theirs)
    ours = make_cache(model, group_size=GROUP, quantized_kv_start=start, per_layer=dict.fromkeys(full, 8))
    for piece in pieces_of([5, 4, 1, 1, 3, 1, 1, 1]):
        mine, other = (advance(model, caches, [piece]) for caches in (ours, theirs))
        for layer in full:
            one = [theirs[layer]]
            if not hasattr(one[0], "bits"):
                maybe_quantize_kv_cache(one, start, GROUP, 8)
            theirs[layer] = one[0]
        assert_same(mine, other)
    assert [cache.cache.storage for cache in ours] == ["affine" if i in full else "dense" for i in range(len(ours))]


def test_mlx_lms_conversion_leaves_ours_alone() -> None:
    model = made("llama")
    ours = make_cache(model, kv_bits=8, group_size=GROUP, quantized_kv_start=4)
    before = list(ours)
    mine = generated(model, ours, tokens(9), kv_bits=4, kv_group_size=GROUP, quantized_kv_start=0)
    assert all(cache is then for cache, then in zip(ours, before, strict=True))
    again = generated(model, make_cache(model, kv_bits=8, group_size=GROUP, quantized_kv_start=4), tokens(9))
    assert_same([logprobs for _, logprobs in mine], [logprobs for _, logprobs in again])


# -- where it has none ------------------------------------------------------------------------------------------------


class Oracle:
    """A dense cache of ours that hands out codes of all it fetches once it was converted, or these dequantized."""

    def __init__(self, cache: Any, kv_bits: int, start: int, *, dequantize: bool) -> None:
        self.cache, self.kv_bits, self.start, self.dequantize = cache, kv_bits, start, dequantize
        self.converted = False

    def __getattr__(self, name: str) -> Any:
        return getattr(DropIn(self.cache), name)

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> Any:
        fetched: Any = self.cache.fetch_dense(keys, values)
        if self.converted:
            codes = [mx.quantize(part, group_size=GROUP, bits=self.kv_bits) for part in fetched]
            if self.dequantize:
                fetched = [mx.dequantize(*part, group_size=GROUP, bits=self.kv_bits) for part in codes]
            else:
                fetched, self.bits, self.group_size = codes, self.kv_bits, GROUP
        self.converted = self.converted or self.cache.offset >= self.start
        return fetched


@pytest.mark.parametrize("start", [0, 1, 5, 7, 8, 9, 12, 30])
@pytest.mark.parametrize("name", ["gemma3", "sliding-llama", "gemma2"])
def test_sliding_layers_and_softcapped_attention_equal_the_model_over_the_oracle(name: str, start: int) -> None:
    model = made(name)
    ours = make_cache(model, kv_bits=8, group_size=GROUP, quantized_kv_start=start)
    softcapped = name == "gemma2"
    kinds = [RingCache(cache.max_size) if hasattr(cache, "max_size") else FullCache() for cache in ours]
    oracles = [Oracle(cache, 8, start, dequantize=softcapped) for cache in kinds]
    pieces = pieces_of([5, 2, 1, 1, 6, *[1] * 9, 3, 1, 1])
    assert_same(advance(model, ours, pieces), advance(model, oracles, pieces))
    assert all(isinstance(cache, QuantizedDropIn) != softcapped for cache in ours)
    assert {cache.cache.storage for cache in ours} == {"affine" if start < 30 else "dense"}


def test_one_codes_boundary_too_early_shows_in_the_logits() -> None:
    """The comparison is not blind: a start moved by one changes the step after it."""
    model = made("gemma3")
    pieces = pieces_of([5, 1, 1, 1])
    mine, other = (
        advance(model, make_cache(model, kv_bits=4, group_size=GROUP, quantized_kv_start=start), pieces)
        for start in (6, 7)
    )
    assert [bool((a == b).all()) for a, b in zip(mine, other, strict=True)] == [True, True, False, False]


# -- the duck type ----------------------------------------------------------------------------------------------------


def pair(length: int) -> tuple[mx.array, mx.array]:
    keys = mx.random.normal((1, 2, length, DIM), key=mx.random.key(length)).astype(mx.bfloat16)
    return keys, keys + 1


@pytest.mark.parametrize("ring", [False, True])
def test_bits_and_group_size_are_there_only_while_the_last_fetch_were_codes(ring: bool) -> None:
    policy = bf16_first(4, 8, None, GROUP)
    cache = QuantizedDropIn(RingCache(6, policy=policy) if ring else FullCache(policy=policy))
    for length, codes in ((3, False), (1, False), (1, True), (5, True)):  # the second converts, and is read before
        keys, _ = cache.update_and_fetch(*pair(length))
        assert isinstance(keys, tuple) == codes
        for name, value in (("bits", 8), ("group_size", GROUP)):
            assert hasattr(cache, name) == codes
            assert getattr(cache, name, value) == value
    assert not hasattr(cache, "to_quantized")


def test_what_layers_reuse_is_what_was_handed_out() -> None:
    cache = QuantizedDropIn(FullCache(policy=bf16_first(4, 8, None, GROUP)))
    cache.shared = True
    for length in (3, 1, 1, 2):
        fetched = cache.update_and_fetch(*pair(length))
        for part, again in zip(fetched, cache.keys_and_values(), strict=True):
            assert isinstance(again, mx.array) == isinstance(part, mx.array)
            parts = [(part, again)] if isinstance(part, mx.array) else zip(part, again, strict=True)
            assert all(bool(mx.array_equal(one, other)) for one, other in parts)


def test_a_table_stands_in_for_uniform_bits() -> None:
    model = made("llama")
    table: dict[int, Any] = {0: 4, 2: (8, 32)}
    caches = make_cache(model, kv_bits=3, group_size=32, quantized_kv_start=7, per_layer=table)
    names = ["full(bits=4,group=32,start=7)", "full", "full(bits=8,group=32,start=7)"]
    assert [cache.cache.identity for cache in caches] == names
    assert [type(cache) for cache in caches] == [QuantizedDropIn, DropIn, QuantizedDropIn]
    policy = bf16_first("never", 4)
    assert make_cache(model, per_layer={1: policy, 0: None})[1].cache.policy == policy
    with pytest.raises(CacheError, match="PREC-13"):
        make_cache(model, per_layer={3: 4})
    with pytest.raises(CacheError, match="PREC-13"):
        make_cache(model, kv_bits=7)


def test_other_bits_for_values_are_handed_out_dequantized() -> None:
    model = made("llama")
    caches = make_cache(model, kv_bits=8, v_bits=4, group_size=GROUP, quantized_kv_start=None)
    assert [type(cache) for cache in caches] == [DropIn] * 3
    assert caches[0].cache.identity == "full(bits=8,value_bits=4,group=32)"
    advance(model, caches, pieces_of([5, 1, 1]))
    assert caches[0].cache.storage == "affine"
    forced = make_cache(model, kv_bits=8, group_size=GROUP, dense_fetch=True)
    assert [type(cache) for cache in forced] == [DropIn] * 3


def test_a_ring_of_mlx_lm_is_replaced_by_one_of_codes() -> None:
    rings = [cache for cache in make_prompt_cache(made("gemma3")) if hasattr(cache, "max_size")]
    drop_in = replace(rings[0], bf16_first(5, 4, 8, 64))
    assert drop_in.cache.identity == "ring(window=8,sinks=0,bits=4,value_bits=8,group=64,start=5)"


def test_models_whose_attention_takes_no_codes_are_those_of_the_table() -> None:
    """Read from mlx-lm's sources: attention of their own, learned sinks, softcapped scores, latents as keys."""
    folder = Path(gemma2.__file__).parent
    sources = {path.stem: path.read_text() for path in folder.glob("*.py") if path.stem not in {"cache", "base"}}
    users = {name: text for name, text in sources.items() if ".update_and_fetch(" in text}
    signs = ("sinks=", "self.attn_logit_softcapping", "kv_latent")
    found = {name for name, text in users.items() if any(sign in text for sign in signs)}
    found |= {name for name, text in users.items() if not re.search(r"[\s=]scaled_dot_product_attention\(", text)}
    assert found == DENSE_FETCH
    asking = {name for name, text in sources.items() if "cache.keys_and_values()" in text}
    assert asking == SHARED_FETCH
