"""What a compiled step saves: whole decodes of a small Llama with random weights, compiled and not, in turns.

mlx-lm compiles no step with a cache in it, so a compiled step of our caches is set against the same model over our
caches without ``mx.compile``; two of the latter side by side say what a ratio of 1 looks like.
"""

import random
import time
from functools import partial
from typing import Any

import mlx.core as mx

from kvlaw.conformance.bench.cases import evaluate
from kvlaw.conformance.bench.measure import Times
from kvlaw.mlx_impl.compiled import compile_step
from kvlaw.mlx_impl.mlx_lm import make_cache

LAYERS, DIM, VOCABULARY = 8, 128, 256
STEPS = 4
"""Decodes of a round."""


def time_compiled(window: int | None, rounds: int) -> Times:
    """Time decodes in interleaved rounds: ``ours`` compiled, ``theirs`` and ``again`` not; one more round warms up.

    Raises:
        RuntimeError: if MLX compiled nothing.
    """
    model = _model()
    caches = {who: make_cache(model, window) for who in ("ours", "theirs", "again")}
    for of_one in caches.values():
        evaluate(model(mx.array([[3, 1, 4, 1, 5]]), cache=of_one))
    step = compile_step(model, caches["ours"])
    runs: dict[Any, Any] = {who: partial(model, cache=of_one) for who, of_one in caches.items()} | {"ours": step}
    times: Times = {who: [] for who in runs}
    rng = random.Random(0)  # noqa: S311  # an order, no secret
    for turn in range(rounds + 1):
        for who in rng.sample(list(runs), len(runs)):
            seconds = _seconds(runs[who])
            if turn:
                times[who].append(seconds)
    if not step.compiled:
        raise RuntimeError("MLX compiled nothing")
    return times


def _seconds(run: Any) -> float:
    token = mx.array([[7]])
    before = time.perf_counter()
    for _ in range(STEPS):
        evaluate(run(token))
    return (time.perf_counter() - before) / STEPS


def _model() -> Any:
    from mlx_lm.models import llama

    mx.random.seed(0)
    model = llama.Model(
        llama.ModelArgs(
            model_type="llama",
            hidden_size=DIM,
            num_hidden_layers=LAYERS,
            intermediate_size=2 * DIM,
            num_attention_heads=4,
            num_key_value_heads=2,
            rms_norm_eps=1e-5,
            vocab_size=VOCABULARY,
        )
    )
    evaluate(model.parameters())
    return model
