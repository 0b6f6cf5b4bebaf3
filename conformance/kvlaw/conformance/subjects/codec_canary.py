"""Whether the MLX that runs here computes with codes as the reference models it: the canary of quantized data.

`codec_canary` runs six checks per format: codes with their scales and biases; dequantized rows; products with codes
stored as columns and as rows; attention over codes; the float32 operations on the scores of one tile, of which, besides
the products, tiled attention is made. MLX's own operations are asked, never our kernels: a kernel that is wrong must
show as a difference, not as arithmetic that is not observed.

`codec_is_modelled` gates the comparison of what MLX *computes* into and from codes. Codes that are only moved are plain
data, compared on every machine.

As in `canary`, a check that cannot run has failed, and the model is an argument, so that a test can plant a change in
it. All of it takes about a fifth of a second.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Final, Protocol, TypeAlias

import attrs
import numpy as np

from kvlaw.conformance.subjects import mlx_codec
from kvlaw.reference.numerics import (
    DTYPES,
    Bits,
    DType,
    Float32,
    Mask,
    affine,
    decode,
    encode,
    equal_bits,
    family,
    quantized_attention,
    quantized_products,
)
from kvlaw.reference.numerics.affine import GROUPS, Codes
from kvlaw.reference.numerics.exponential import exponential
from kvlaw.reference.numerics.packing import CODE_BITS
from kvlaw.reference.numerics.quantized_attention import TILE, KernelSet
from kvlaw.reference.numerics.softmax import sequential_sum

_Check: TypeAlias = Callable[["CodecModel", DType], bool]


class Quantize(Protocol):
    """Quantization of raw bits, with the signature of `kvlaw.reference.numerics.affine.quantize`."""

    def __call__(self, values: Bits, *, dtype: DType, bits: int, group: int) -> Codes:
        """Return the codes of rows [..., n]."""
        ...


class Dequantize(Protocol):
    """The way back, with the signature of `kvlaw.reference.numerics.affine.dequantize`."""

    def __call__(self, codes: Codes, *, dtype: DType, bits: int, group: int) -> Bits:
        """Return rows [..., n]."""
        ...


class MultiplyByCodes(Protocol):
    """Products with codes, with the signature of `kvlaw.reference.numerics.quantized_products.multiply_by_codes`."""

    def __call__(
        self, left: Bits, codes: Codes, *, dtype: DType, bits: int, group: int, transpose: bool = True
    ) -> Bits:
        """Return the products [..., M, P]."""
        ...


class AttendQuantized(Protocol):
    """Attention over codes, as `kvlaw.reference.numerics.quantized_attention.attend_quantized`."""

    def __call__(
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
        """Return the outputs [B, H, L, E]."""
        ...


@attrs.frozen
class CodecModel:
    """The functions of quantized data that are held against MLX; by default those of the reference."""

    quantize: Quantize = affine.quantize
    dequantize: Dequantize = affine.dequantize
    multiply_by_codes: MultiplyByCodes = quantized_products.multiply_by_codes
    attend_quantized: AttendQuantized = quantized_attention.attend_quantized
    exponential: Callable[[Float32], Float32] = exponential
    add_up: Callable[[Float32], Float32] = sequential_sum


@cache
def codec_is_modelled() -> bool:
    """Tell whether every check of `codec_canary` passes on this machine; asked once per process, never raises."""
    return all(codec_canary().values())


def codec_canary(model: CodecModel | None = None) -> dict[str, bool]:
    """Run every check of quantized data against the running MLX; the names are like ``"codes bf16"``."""
    compared = model or CodecModel()
    return {f"{name} {dtype}": _passes(check, compared, dtype) for dtype in DTYPES for name, check in _CHECKS.items()}


def _passes(check: _Check, model: CodecModel, dtype: DType) -> bool:
    """Run one check, where anything that goes wrong is a failure of the check."""
    try:
        return check(model, dtype)
    except Exception:  # whatever a foreign backend raises, it isn't the modelled one
        return False


def _codes_agree(model: CodecModel, dtype: DType) -> bool:
    """Compare words, scales and biases of every number of bits and size of group, all bits of them."""
    return all(
        _same_codes(
            mlx_codec.quantize(values, dtype=dtype, bits=bits, group=group),
            model.quantize(values, dtype=dtype, bits=bits, group=group),
        )
        for values, bits, group in _rows_to_quantize(dtype)
    )


def _same_codes(observed: Codes, expected: Codes) -> bool:
    """Tell whether all stored bits are equal, those of NaN scales and biases too."""
    pairs = zip(attrs.astuple(observed, recurse=False), attrs.astuple(expected, recurse=False), strict=True)
    return all(np.array_equal(first, second) for first, second in pairs)


def _rows_agree(model: CodecModel, dtype: DType) -> bool:
    """Compare what MLX's own codes of the same rows stand for."""
    for values, bits, group in _rows_to_quantize(dtype):
        codes = mlx_codec.quantize(values, dtype=dtype, bits=bits, group=group)
        observed = mlx_codec.dequantize(codes, dtype=dtype, bits=bits, group=group)
        if not equal_bits(observed, model.dequantize(codes, dtype=dtype, bits=bits, group=group), dtype):
            return False
    return True


def _rows_to_quantize(dtype: DType) -> Iterator[tuple[Bits, int, int]]:
    """Draw rows that are ordinary, that tie, and that are hard, and yield them with all bits and groups in turn."""
    rng = np.random.default_rng(5)
    values = np.concatenate([family(name, rng, (4, 128), dtype) for name in _FAMILIES_TO_QUANTIZE])
    yield from ((values, bits, group) for bits in CODE_BITS for group in GROUPS)


def _products_with_codes_agree(transpose: bool) -> _Check:
    """Make the check of products whose codes are stored as columns, if ``transpose``, or as rows, 5 rows on the left.

    A sum of 128 terms of like size: in half formats each rounding shows in it, in f32 the order of additions does.
    """

    def check(model: CodecModel, dtype: DType) -> bool:
        rng = np.random.default_rng(6)
        left = encode(rng.standard_normal((2, 5, 128)), dtype)
        shape = (2, 64, 128) if transpose else (2, 128, 64)
        codes = affine.quantize(encode(rng.standard_normal(shape), dtype), dtype=dtype, bits=5, group=32)
        observed, expected = (
            multiply(left, codes, dtype=dtype, bits=5, group=32, transpose=transpose)
            for multiply in (mlx_codec.multiply_by_codes, model.multiply_by_codes)
        )
        return equal_bits(observed, expected, dtype)

    return check


def _attention_over_codes_agrees(model: CodecModel, dtype: DType) -> bool:
    """Compare attention over 8-bit keys and 4-bit values under every kind of mask, heads grouped two to one."""
    rng = np.random.default_rng(7)
    queries, keys, values = (encode(rng.standard_normal((2, heads, n, 64)), dtype) for heads, n in _HEADS_AND_LENGTHS)
    key_codes = affine.quantize(keys, dtype=dtype, bits=8, group=32)
    value_codes = affine.quantize(values, dtype=dtype, bits=4, group=32)

    def attended(attend: AttendQuantized, mask: Mask) -> Bits:
        return attend(
            queries,
            key_codes,
            value_codes,
            scale=0.3,
            mask=mask,
            dtype=dtype,
            key_bits=8,
            value_bits=4,
            group=32,
        )

    visible = rng.random((2, 1, 5, 41)) < 0.7
    visible[1, 0, 3] = False
    masks: tuple[Mask, ...] = (None, "causal", visible, encode(rng.standard_normal((5, 41)), dtype))
    return all(
        equal_bits(attended(mlx_codec.attend_quantized, mask), attended(model.attend_quantized, mask), dtype)
        for mask in masks
    )


def _tile_weights_agree(model: CodecModel, dtype: DType) -> bool:
    """Compare weights divided by their sum, in float32: an addition in another order changes most of the quotients."""
    scores = encode(4 * np.random.default_rng(8).standard_normal((12, TILE)), dtype)
    floats = decode(scores, dtype)
    weights = model.exponential(floats - floats.max(axis=-1, keepdims=True))
    return equal_bits(mlx_codec.weigh_tile(scores, dtype), encode(weights / model.add_up(weights), "f32"), "f32")


_FAMILIES_TO_QUANTIZE: Final = ("normal", "halves", "sixteenths", "just above 3", "constant", "any bits")
_HEADS_AND_LENGTHS: Final = ((4, 5), (2, 41), (2, 41))
_CHECKS: Final[dict[str, _Check]] = {
    "codes": _codes_agree,
    "dequantized rows": _rows_agree,
    "product with columns of codes": _products_with_codes_agree(transpose=True),
    "product with rows of codes": _products_with_codes_agree(transpose=False),
    "attention over codes": _attention_over_codes_agrees,
    "weights of a tile": _tile_weights_agree,
}
