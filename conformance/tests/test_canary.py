"""The canary passes on the modelled arithmetic, and fails when one detail of the model is changed."""

import platform
import sys
import time
from collections.abc import Callable

import attrs
import numpy as np
import pytest

from kvlaw.conformance.subjects import canary as canary_module
from kvlaw.conformance.subjects import mlx_arithmetic
from kvlaw.conformance.subjects.canary import ArithmeticModel, arithmetic_is_modelled, canary
from kvlaw.reference.numerics import DTYPES, Bits, DType, Float32, Mask, decode, encode, fma32, lowest, round_to
from kvlaw.reference.numerics import attention as model_attention
from kvlaw.reference.numerics.exponential import exponential
from kvlaw.reference.numerics.products import multiply_matrices
from kvlaw.reference.numerics.softmax import sequential_sum

RUNS_THE_MODELLED_BUILD = sys.platform == "linux" and platform.machine() == "x86_64" and arithmetic_is_modelled()
modelled_only = pytest.mark.skipif(not RUNS_THE_MODELLED_BUILD, reason="MLX's arithmetic here is not the modelled one")

Exponential = Callable[[Float32], Float32]
Product = Callable[[Float32, Float32, DType], Float32]


@attrs.frozen
class Planted:
    """Attention in which each detail can be changed: the same steps as in the reference, put together once more."""

    exponential: Exponential = exponential
    product: Product = multiply_matrices
    total: Callable[[Float32], Float32] = sequential_sum
    divides: bool = False
    rounds_scale: bool = True
    rounds_scaled_queries: bool = True
    rounds_scores: bool = True
    rounds_weights: bool = True
    masked_score: float | None = None

    def model(self) -> ArithmeticModel:
        return ArithmeticModel(self.exponential, self.product, self.softmax, self.attend)

    def softmax(self, scores: Float32, dtype: DType) -> Float32:
        with np.errstate(all="ignore"):
            powers = self.exponential(scores - scores.max(axis=-1, keepdims=True))
            total = self.total(powers)
            weights = powers / total if self.divides else powers * (np.float32(1) / total)
        return round_to(weights, dtype if self.rounds_weights else "f32")

    def attend(
        self,
        queries: Bits,
        keys: Bits,
        values: Bits,
        *,
        scale: float,
        mask: Mask,
        dtype: DType,
        sink_logits: Bits | None = None,
    ) -> Bits:
        batch, heads, length, size = queries.shape
        groups = batch * keys.shape[1]
        factor = round_to(np.asarray(scale, np.float32), dtype if self.rounds_scale else "f32")
        scaled = round_to(factor * decode(queries, dtype), dtype if self.rounds_scaled_queries else "f32")
        across = decode(keys, dtype).reshape(groups, -1, size).transpose(0, 2, 1)
        score_format = dtype if self.rounds_scores else "f32"
        scores = self.product(scaled.reshape(groups, -1, size), across, score_format)
        scores = self.masked(scores.reshape(batch, heads, length, -1), mask, dtype)
        if sink_logits is not None:
            sinks = np.broadcast_to(decode(sink_logits, dtype)[:, np.newaxis, np.newaxis], (batch, heads, length, 1))
            scores = np.concatenate([sinks, scores], axis=3)
        weights = self.softmax(scores, dtype)[..., -keys.shape[2] :].reshape(groups, -1, keys.shape[2])
        output = self.product(weights, decode(values, dtype).reshape(groups, -1, size), dtype)
        return encode(output.reshape(queries.shape), dtype)

    def masked(self, scores: Float32, mask: Mask, dtype: DType) -> Float32:
        replaced = model_attention.masked(scores, mask, dtype)
        if self.masked_score is None:
            return replaced
        return np.where(replaced == lowest(dtype), np.float32(self.masked_score), replaced)


def library_exponential(values: Float32) -> Float32:
    with np.errstate(all="ignore"):
        return np.exp(values)


def fused_product(left: Float32, right: Float32, dtype: DType) -> Float32:
    total = np.zeros((left.shape[0], left.shape[1], right.shape[2]), np.float32)
    for k in range(left.shape[2]):
        total = fma32(left[:, :, k, np.newaxis], right[:, np.newaxis, k, :], total)
    return round_to(total, dtype)


def descending_product(left: Float32, right: Float32, dtype: DType) -> Float32:
    return multiply_matrices(left[:, :, ::-1], right[:, ::-1, :], dtype)


def product_of_halves(left: Float32, right: Float32, dtype: DType) -> Float32:
    half = left.shape[2] // 2
    first = multiply_matrices(left[:, :, :half], right[:, :half], "f32")
    return round_to(first + multiply_matrices(left[:, :, half:], right[:, half:], "f32"), dtype)


def wide_product(left: Float32, right: Float32, dtype: DType) -> Float32:
    return round_to((left.astype(np.float64) @ right.astype(np.float64)).astype(np.float32), dtype)


def pairwise_total(values: Float32) -> Float32:
    return values.sum(axis=-1, keepdims=True)


def unfused(left: Float32, right: Float32, addend: np.float32) -> Float32:
    return left * right + addend


def unfused_exponential(values: Float32) -> Float32:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kvlaw.reference.numerics.exponential.fma32", unfused)
        return exponential(values)


HALVES = ("bf16", "f16")
ATTENTION = ("unmasked", "causal", "bool", "additive", "sinks")
PRODUCTS = ("product", "product with transposed")


def attention_checks(*dtypes: str) -> set[str]:
    return {f"attention {kind} {dtype}" for kind in ATTENTION for dtype in dtypes}


def product_checks(*dtypes: str) -> set[str]:
    return {f"{name} {dtype}" for name in PRODUCTS for dtype in dtypes}


# A change, and the checks that must notice it. In half formats the last rounding hides most wrong bits of float32: the
# products are drawn so that it cannot; np.exp rounds to the same f16 as MLX's exponential everywhere; and half products
# are exact in float32, so that fusing them changes nothing.
CHANGES: dict[str, tuple[Planted, set[str]]] = {
    "np.exp": (
        Planted(exponential=library_exponential),
        {"exponential bf16", "exponential f32", "softmax f32"} | attention_checks("f32"),
    ),
    "exponential without fused multiply-add": (
        Planted(exponential=unfused_exponential),
        {"exponential f32", "softmax f32"} | attention_checks("f32"),
    ),
    "fused multiply-add in products": (Planted(product=fused_product), product_checks("f32") | attention_checks("f32")),
    "products summed downwards": (
        Planted(product=descending_product),
        product_checks(*DTYPES) | attention_checks("f32"),
    ),
    "products summed in halves": (
        Planted(product=product_of_halves),
        product_checks(*DTYPES) | attention_checks("f32"),
    ),
    "products summed in float64": (Planted(product=wide_product), product_checks(*DTYPES) | attention_checks("f32")),
    "softmax summed pairwise": (Planted(total=pairwise_total), {"softmax f32"} | attention_checks("f32")),
    "division in softmax": (Planted(divides=True), {"softmax f32"} | attention_checks("f32")),
    "scale not rounded": (Planted(rounds_scale=False), attention_checks(*HALVES)),
    "scaled queries not rounded": (Planted(rounds_scaled_queries=False), attention_checks(*HALVES)),
    "scores not rounded": (Planted(rounds_scores=False), attention_checks(*HALVES)),
    "weights not rounded": (
        Planted(rounds_weights=False),
        attention_checks(*HALVES),
    ),
    "masked scores are -infinity": (
        Planted(masked_score=-np.inf),
        {f"attention bool {dtype}" for dtype in DTYPES},
    ),
}


@modelled_only
def test_every_check_passes_on_the_modelled_arithmetic() -> None:
    outcomes = canary()
    assert len(outcomes) == 9 * len(DTYPES)
    assert [name for name, passed in outcomes.items() if not passed] == []


@modelled_only
def test_the_planted_attention_without_a_change_passes() -> None:
    assert all(canary(Planted().model()).values())


@modelled_only
@pytest.mark.parametrize("change", CHANGES)
def test_the_canary_fails_on_a_changed_arithmetic(change: str) -> None:
    planted, noticing = CHANGES[change]
    outcomes = canary(planted.model())
    failed = {name for name, passed in outcomes.items() if not passed}
    assert noticing <= failed, sorted(noticing - failed)


@modelled_only
def test_a_change_of_the_exponential_does_not_touch_products() -> None:
    outcomes = canary(Planted(exponential=library_exponential).model())
    assert all(outcomes[name] for name in product_checks(*DTYPES))


@modelled_only
def test_the_canary_takes_about_a_tenth_of_a_second() -> None:
    seconds: list[float] = []
    for _ in range(3):
        before = time.perf_counter()
        canary()
        seconds.append(time.perf_counter() - before)
    assert min(seconds) < 0.3


@pytest.fixture
def asked_anew():
    arithmetic_is_modelled.cache_clear()
    yield
    arithmetic_is_modelled.cache_clear()


@pytest.mark.usefixtures("asked_anew")
def test_without_mlx_every_check_fails_and_nothing_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlx.core", None)
    outcomes = canary()
    assert len(outcomes) == 9 * len(DTYPES)
    assert not any(outcomes.values())
    assert arithmetic_is_modelled() is False


@pytest.mark.usefixtures("asked_anew")
def test_a_backend_that_raises_is_not_the_modelled_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_kernel(*_args: object, **_kwargs: object) -> Bits:
        raise RuntimeError("[softmax] no kernel for this device")

    monkeypatch.setattr(mlx_arithmetic, "softmax", no_kernel)
    assert arithmetic_is_modelled() is False


@pytest.mark.usefixtures("asked_anew")
def test_outputs_of_another_shape_are_not_the_modelled_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_number(values: Bits, _dtype: DType) -> Bits:
        return values[:1]

    monkeypatch.setattr(mlx_arithmetic, "exponential", one_number)
    assert arithmetic_is_modelled() is False


@pytest.mark.usefixtures("asked_anew")
def test_the_answer_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(canary_module, "canary", lambda: calls.append(1) or {"product f32": False})
    assert [arithmetic_is_modelled(), arithmetic_is_modelled()] == [False, False]
    assert calls == [1]
