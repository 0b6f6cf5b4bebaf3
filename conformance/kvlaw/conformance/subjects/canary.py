"""Whether the MLX that runs here computes as the reference models it: the canary of the arithmetic comparison.

`kvlaw.reference.numerics` describes one build, the x86-64 Linux wheel. On macOS, on arm64, on CUDA or with another BLAS
the order of additions and the places of rounding differ, and so do bits, though nothing is wrong. So before outputs for
arbitrary inputs are compared, `arithmetic_is_modelled` compares both sides on inputs that are known to show the
difference. Where it says no, arithmetic is *not observed*; nothing is ever loosened to make it pass.

`canary` runs nine checks per format: the exponential; matrix products with the right operand stored by rows and by
columns; softmax; attention with no mask, causal, bool, additive, and with learned sinks. A check that cannot run, with
no MLX installed or an operation that raises, has failed. The model is an argument, so that a test can plant a change of
arithmetic in it and see the canary fail. All of it takes about a tenth of a second.

Quantized data has a canary of its own in `codec_canary`, at hand here too: where the one fails, the other may pass.
"""

from collections.abc import Callable
from functools import cache
from typing import Final, Protocol, TypeAlias

import attrs
import numpy as np
from numpy.random import Generator

from kvlaw.conformance.subjects import mlx_arithmetic
from kvlaw.conformance.subjects.codec_canary import CodecModel, codec_canary, codec_is_modelled
from kvlaw.reference import numerics
from kvlaw.reference.numerics import DTYPES, Bits, DType, Float32, Mask, decode, encode, equal_bits
from kvlaw.reference.numerics.exponential import exponential
from kvlaw.reference.numerics.products import multiply_matrices
from kvlaw.reference.numerics.softmax import softmax

__all__ = [
    "ArithmeticModel",
    "Attend",
    "CodecModel",
    "arithmetic_is_modelled",
    "canary",
    "codec_canary",
    "codec_is_modelled",
]

_Check: TypeAlias = Callable[["ArithmeticModel", DType], bool]


class Attend(Protocol):
    """Dense attention on raw bits, with the signature of `kvlaw.reference.numerics.attend`."""

    def __call__(
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
        """Return the outputs [B, H, L, E]."""
        ...


@attrs.frozen
class ArithmeticModel:
    """The functions that are held against MLX; by default those of the reference."""

    exponential: Callable[[Float32], Float32] = exponential
    multiply_matrices: Callable[[Float32, Float32, DType], Float32] = multiply_matrices
    softmax: Callable[[Float32, DType], Float32] = softmax
    attend: Attend = numerics.attend


@cache
def arithmetic_is_modelled() -> bool:
    """Tell whether every check of `canary` passes on this machine; asked once per process, never raises."""
    return all(canary().values())


def canary(model: ArithmeticModel | None = None) -> dict[str, bool]:
    """Run every check against the running MLX; the names are like ``"attention causal bf16"``, True is agreement."""
    compared = model or ArithmeticModel()
    return {f"{name} {dtype}": _passes(check, compared, dtype) for dtype in DTYPES for name, check in _CHECKS.items()}


def _passes(check: _Check, model: ArithmeticModel, dtype: DType) -> bool:
    """Run one check, where anything that goes wrong is a failure of the check."""
    try:
        return check(model, dtype)
    except Exception:  # whatever a foreign backend raises, it isn't the modelled one
        return False


def _exponential_agrees(model: ArithmeticModel, dtype: DType) -> bool:
    """Compare e^x of every half number, or of float32 numbers where results are ordinary and at both ends."""
    if dtype == "f32":
        inputs = encode(np.concatenate([np.linspace(-90, 90, 4001), np.linspace(-12, 12, 4001)]), dtype)
    else:
        inputs = np.arange(1 << 16, dtype=np.uint16)
    expected = encode(model.exponential(decode(inputs, dtype)), dtype)
    return equal_bits(mlx_arithmetic.exponential(inputs, dtype), expected, dtype)


def _products_agree(model: ArithmeticModel, dtype: DType) -> bool:
    """Compare products with the right operand stored by rows."""
    left, right = _cancelling_operands(np.random.default_rng(1), dtype)
    expected = encode(model.multiply_matrices(decode(left, dtype), decode(right, dtype), dtype), dtype)
    return equal_bits(mlx_arithmetic.multiply_matrices(left, right, dtype), expected, dtype)


def _transposed_products_agree(model: ArithmeticModel, dtype: DType) -> bool:
    """Compare products with the right operand stored by columns, which is another routine in a BLAS."""
    left, right = _cancelling_operands(np.random.default_rng(2), dtype)
    expected = encode(model.multiply_matrices(decode(left, dtype), decode(right, dtype), dtype), dtype)
    return equal_bits(mlx_arithmetic.multiply_by_transposed(left, right, dtype), expected, dtype)


def _cancelling_operands(rng: Generator, dtype: DType) -> tuple[Bits, Bits]:
    """Draw [2, 5, 80] and [2, 80, 19] whose exact product is 0.

    Each term occurs once more with the other sign, in another order. What remains in float32 is rounding alone, so that
    the order of additions shows in every format, however few bits it keeps. A fused multiply-add shows in f32 alone:
    the product of two half numbers is exact in float32, fused or not.
    """
    left, right = 8 * rng.standard_normal((2, 5, 40)), 8 * rng.standard_normal((2, 40, 19))
    order = rng.permutation(40)
    both_left = np.concatenate([left, left[:, :, order]], axis=2)
    both_right = np.concatenate([right, -right[:, order, :]], axis=1)
    return encode(both_left, dtype), encode(both_right, dtype)


def _softmax_agrees(model: ArithmeticModel, dtype: DType) -> bool:
    """Compare softmax over rows long enough that the order of the sum shows."""
    scores = encode(np.random.default_rng(3).standard_normal((24, 131)), dtype)
    expected = encode(model.softmax(decode(scores, dtype), dtype), dtype)
    return equal_bits(mlx_arithmetic.softmax(scores, dtype), expected, dtype)


def _attention_agrees(mask_kind: str) -> _Check:
    """Make the check of attention with one kind of mask: 2 batch rows, 4 query heads on 2 key-value heads."""

    def check(model: ArithmeticModel, dtype: DType) -> bool:
        rng = np.random.default_rng(4)
        queries, keys, values = (
            encode(rng.standard_normal((2, heads, n, 64)), dtype) for heads, n in _HEADS_AND_LENGTHS
        )
        mask = _mask(mask_kind, rng, dtype)
        sinks = encode(rng.standard_normal(4), dtype) if mask_kind == "sinks" else None
        observed, expected = (
            attend(queries, keys, values, scale=0.3, mask=mask, dtype=dtype, sink_logits=sinks)
            for attend in (mlx_arithmetic.attend, model.attend)
        )
        return equal_bits(observed, expected, dtype)

    return check


def _mask(kind: str, rng: Generator, dtype: DType) -> Mask:
    """Draw a mask of the named kind for 5 queries and 41 keys; in the bool one, a query sees nothing."""
    if kind == "bool":
        visible = rng.random((2, 4, 5, 41)) < 0.7
        visible[1, 2, 3] = False
        return visible
    if kind == "additive":
        return encode(np.where(rng.random((5, 41)) < 0.3, -np.inf, rng.standard_normal((5, 41))), dtype)
    return "causal" if kind == "causal" else None


_HEADS_AND_LENGTHS: Final = ((4, 5), (2, 41), (2, 41))
_CHECKS: Final[dict[str, _Check]] = {
    "exponential": _exponential_agrees,
    "product": _products_agree,
    "product with transposed": _transposed_products_agree,
    "softmax": _softmax_agrees,
    "attention unmasked": _attention_agrees("none"),
    "attention causal": _attention_agrees("causal"),
    "attention bool": _attention_agrees("bool"),
    "attention additive": _attention_agrees("additive"),
    "attention sinks": _attention_agrees("sinks"),
}
