"""The canary of quantized data passes on the modelled arithmetic, and fails when one detail of the model is changed."""

import sys
from collections.abc import Callable

import attrs
import numpy as np
import pytest

from kvlaw.conformance.subjects import codec_canary as codec_canary_module
from kvlaw.conformance.subjects import mlx_codec
from kvlaw.conformance.subjects.canary import CodecModel, arithmetic_is_modelled, codec_canary, codec_is_modelled
from kvlaw.reference.numerics import DTYPES, Bits, DType, Float32, Mask, decode, encode, fma32, lowest, round_to
from kvlaw.reference.numerics import attention as model_attention
from kvlaw.reference.numerics.affine import Codes
from kvlaw.reference.numerics.exponential import exponential
from kvlaw.reference.numerics.packing import pack, unpack
from kvlaw.reference.numerics.products import multiply_matrices
from kvlaw.reference.numerics.quantized_attention import KernelSet
from kvlaw.reference.numerics.quantized_products import multiply_rounding
from kvlaw.reference.numerics.softmax import sequential_sum, softmax

modelled_only = pytest.mark.skipif(not codec_is_modelled(), reason="MLX's arithmetic here is not the modelled one")

Product = Callable[[Float32, Float32, DType], Float32]
Round = Callable[[Float32], Float32]
Affine = Callable[[Float32, Float32, Float32, DType], Float32]


def two_roundings(counts: Float32, scales: Float32, biases: Float32, dtype: DType) -> Float32:
    return round_to(round_to(counts * scales, dtype) + biases, dtype)


@attrs.frozen
class Planted:
    """The codec in which each detail can be changed: the same steps as in the reference, put together once more."""

    nearest: Round = np.rint
    least_step: float = 1e-7
    documented_formula: bool = False
    tie_is_least: bool = False
    rounds_scale_early: bool = False
    nan_code_is_highest: bool = False
    affine: Affine = two_roundings
    product: Product = multiply_rounding
    rounds_scaled_queries: bool = True
    add_up: Callable[[Float32], Float32] = sequential_sum
    exponential: Callable[[Float32], Float32] = exponential
    masked_score: float | None = None

    def model(self) -> CodecModel:
        functions = (self.quantize, self.dequantize, self.multiply_by_codes, self.attend_quantized)
        return CodecModel(*functions, self.exponential, self.add_up)

    def quantize(self, values: Bits, *, dtype: DType, bits: int, group: int) -> Codes:
        groups = decode(values, dtype).reshape(*values.shape[:-1], -1, group)
        highest = np.float32((1 << bits) - 1)
        with np.errstate(all="ignore"):
            scale, bias = self.scale_and_bias(groups, highest)
            divisor = round_to(scale, dtype) if self.rounds_scale_early else scale
            counts = self.nearest((groups - bias[..., np.newaxis]) / divisor[..., np.newaxis])
        counts = np.where(np.isnan(counts), highest if self.nan_code_is_highest else 0, np.clip(counts, 0, highest))
        codes = pack(counts.astype(np.uint8).reshape(values.shape), bits)
        return Codes(codes, encode(scale, dtype), encode(bias, dtype))

    def scale_and_bias(self, groups: Float32, highest: np.float32) -> tuple[Float32, Float32]:
        nan = np.isnan(groups)
        greatest = np.where(nan, np.float32(-np.inf), groups).max(axis=-1)
        least = np.where(nan, np.float32(np.inf), groups).min(axis=-1)
        size = (greatest - least) / highest
        size = np.where(size < self.least_step, np.float32(self.least_step), size)
        if self.documented_formula:
            return size, least
        low = np.abs(least) >= np.abs(greatest) if self.tie_is_least else np.abs(least) > np.abs(greatest)
        edge, step = np.where(low, least, greatest), np.where(low, size, -size)
        edge_code = np.rint(edge / step)
        return np.where(edge_code != 0, edge / edge_code, step), np.where(edge_code != 0, edge, np.float32(0))

    def dequantize(self, codes: Codes, *, dtype: DType, bits: int, group: int) -> Bits:
        return encode(self.rows(codes, dtype, bits, group), dtype)

    def rows(self, codes: Codes, dtype: DType, bits: int, group: int) -> Float32:
        shape = (*codes.words.shape[:-1], codes.scales.shape[-1] * group)
        counts = unpack(codes.words, bits, shape[-1]).reshape(*codes.scales.shape, group).astype(np.float32)
        scales, biases = (decode(part, dtype)[..., np.newaxis] for part in (codes.scales, codes.biases))
        with np.errstate(all="ignore"):
            return self.affine(counts, scales, biases, dtype).reshape(shape)

    def multiply_by_codes(
        self, left: Bits, codes: Codes, *, dtype: DType, bits: int, group: int, transpose: bool = True
    ) -> Bits:
        rows = self.rows(codes, dtype, bits, group)
        return encode(self.product(decode(left, dtype), rows.swapaxes(1, 2) if transpose else rows, dtype), dtype)

    def attend_quantized(
        self,
        queries: Bits,
        keys: Codes,
        values: Codes,
        *,
        scale: float,
        mask: Mask,
        dtype: DType,
        key_bits: int,
        value_bits: int,
        group: int,
        kernel_set: KernelSet = "unfused",
        alone: bool = False,
    ) -> Bits:
        (batch, heads, length, size), (_, key_heads, width, _) = queries.shape, keys.words.shape
        joined = (batch * key_heads, heads // key_heads * length)
        scaled = round_to(np.asarray(scale, np.float32), dtype) * decode(queries, dtype)
        scaled = round_to(scaled, dtype if self.rounds_scaled_queries else "f32")
        key_rows, value_rows = self.rows(keys, dtype, key_bits, group), self.rows(values, dtype, value_bits, group)
        across = key_rows.reshape(-1, width, size).swapaxes(1, 2)
        scores = self.product(scaled.reshape(*joined, size), across, dtype).reshape(batch, heads, length, width)
        scores = model_attention.masked(scores, mask, dtype)
        if self.masked_score is not None:
            scores = np.where(scores == lowest(dtype), np.float32(self.masked_score), scores)
        weights = softmax(scores, dtype).reshape(*joined, width)
        output = self.product(weights, value_rows.reshape(batch * key_heads, width, -1), dtype)
        return encode(output.reshape(batch, heads, length, -1), dtype)


def half_away_from_zero(values: Float32) -> Float32:
    return np.copysign(np.floor(np.abs(values) + np.float32(0.5)), values)


def fused(counts: Float32, scales: Float32, biases: Float32, dtype: DType) -> Float32:
    return round_to(fma32(counts, scales, biases), dtype)


def rounded_at_the_end(counts: Float32, scales: Float32, biases: Float32, dtype: DType) -> Float32:
    return round_to(counts * scales + biases, dtype)


def scales_and_biases_swapped(counts: Float32, scales: Float32, biases: Float32, dtype: DType) -> Float32:
    return two_roundings(counts, biases, scales, dtype)


def descending(left: Float32, right: Float32, dtype: DType) -> Float32:
    return multiply_rounding(left[:, :, ::-1], right[:, ::-1, :], dtype)


def products_not_rounded(left: Float32, right: Float32, dtype: DType) -> Float32:
    total = np.zeros((left.shape[0], left.shape[1], right.shape[2]), np.float32)
    for k in range(left.shape[2]):
        product: Float32 = left[:, :, k, np.newaxis] * right[:, np.newaxis, k, :]
        total = round_to(np.add(total, product), dtype)
    return total


def fused_products(left: Float32, right: Float32, dtype: DType) -> Float32:
    total = np.zeros((left.shape[0], left.shape[1], right.shape[2]), np.float32)
    for k in range(left.shape[2]):
        total = round_to(fma32(left[:, :, k, np.newaxis], right[:, np.newaxis, k, :], total), dtype)
    return total


def from_the_last(weights: Float32) -> Float32:
    return sequential_sum(weights[..., ::-1])


def in_float64(weights: Float32) -> Float32:
    return weights.astype(np.float64).sum(axis=-1, keepdims=True).astype(np.float32)


def correctly_rounded(values: Float32) -> Float32:
    return np.exp(values.astype(np.float64)).astype(np.float32)


HALVES = ("bf16", "f16")
PRODUCTS = ("product with columns of codes", "product with rows of codes")


def checks(*names: str, dtypes: tuple[str, ...] = DTYPES) -> set[str]:
    return {f"{name} {dtype}" for name in names for dtype in dtypes}


WHAT_DEQUANTIZES = ("dequantized rows", *PRODUCTS, "attention over codes")
WHAT_MULTIPLIES = (*PRODUCTS, "attention over codes")

# A change, and exactly the checks that must notice it: no other may. Where a change concerns a rounding to the format,
# f32, whose operations are rounded to it anyway, cannot show it.
CHANGES: dict[str, tuple[Planted, set[str]]] = {
    "the documented formula": (Planted(documented_formula=True), checks("codes")),
    "ties away from 0": (Planted(nearest=half_away_from_zero), checks("codes")),
    "no least step": (Planted(least_step=0.0), checks("codes")),
    "a tie of edges takes the least": (Planted(tie_is_least=True), checks("codes")),
    "codes by the rounded scale": (Planted(rounds_scale_early=True), checks("codes", dtypes=HALVES)),
    "NaN gets the highest code": (Planted(nan_code_is_highest=True), checks("codes")),
    "scales and biases swapped": (Planted(affine=scales_and_biases_swapped), checks(*WHAT_DEQUANTIZES)),
    "rows rounded at the end only": (Planted(affine=rounded_at_the_end), checks(*WHAT_DEQUANTIZES, dtypes=HALVES)),
    "fused multiply-add in rows": (Planted(affine=fused), checks(*WHAT_DEQUANTIZES)),
    "a sum in float32": (Planted(product=multiply_matrices), checks(*WHAT_MULTIPLIES, dtypes=HALVES)),
    "sums downwards": (Planted(product=descending), checks(*WHAT_MULTIPLIES)),
    "products not rounded": (Planted(product=products_not_rounded), checks(*WHAT_MULTIPLIES, dtypes=HALVES)),
    "fused multiply-add in products": (Planted(product=fused_products), checks(*WHAT_MULTIPLIES)),
    "scaled queries not rounded": (
        Planted(rounds_scaled_queries=False),
        checks("attention over codes", dtypes=HALVES),
    ),
    "tiles add up from the last key": (Planted(add_up=from_the_last), checks("weights of a tile")),
    "tiles add up in float64": (Planted(add_up=in_float64), checks("weights of a tile")),
    "a correctly rounded exponential": (Planted(exponential=correctly_rounded), checks("weights of a tile")),
    "masked scores are -infinity": (Planted(masked_score=-np.inf), checks("attention over codes")),
}


@modelled_only
def test_every_check_passes_on_the_modelled_arithmetic() -> None:
    outcomes = codec_canary()
    assert len(outcomes) == 6 * len(DTYPES)
    assert [name for name, passed in outcomes.items() if not passed] == []


@modelled_only
def test_the_planted_codec_without_a_change_passes() -> None:
    assert all(codec_canary(Planted().model()).values())


@modelled_only
@pytest.mark.parametrize("change", CHANGES)
def test_the_canary_fails_on_a_changed_codec(change: str) -> None:
    planted, noticing = CHANGES[change]
    outcomes = codec_canary(planted.model())
    assert {name for name, passed in outcomes.items() if not passed} == noticing


@pytest.fixture
def asked_anew():
    codec_is_modelled.cache_clear()
    arithmetic_is_modelled.cache_clear()
    yield
    codec_is_modelled.cache_clear()
    arithmetic_is_modelled.cache_clear()


@pytest.mark.usefixtures("asked_anew")
def test_without_mlx_every_check_fails_and_nothing_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlx.core", None)
    outcomes = codec_canary()
    assert len(outcomes) == 6 * len(DTYPES)
    assert not any(outcomes.values())
    assert codec_is_modelled() is False


@modelled_only
@pytest.mark.usefixtures("asked_anew")
def test_dense_arithmetic_is_judged_without_the_codec(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_kernel(*_args: object, **_kwargs: object) -> Codes:
        raise RuntimeError("[quantize] no kernel for this device")

    monkeypatch.setattr(mlx_codec, "quantize", no_kernel)
    assert codec_is_modelled() is False
    assert arithmetic_is_modelled() is True


@pytest.mark.usefixtures("asked_anew")
def test_the_answer_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(codec_canary_module, "codec_canary", lambda: calls.append(1) or {"codes f32": False})
    assert [codec_is_modelled(), codec_is_modelled()] == [False, False]
    assert calls == [1]
