"""The campaign of the codec: codes, scales, biases and dequantized rows, every bit of them.

Running through the numbers, every number of bits and every size of group meets each of the thirty families of
`kvlaw.reference.numerics.inputs`, NaN, infinities and random bits among them, in 16 rows of 256 elements. A further
family, ``"stored bits"``, holds words, scales and biases that no quantizer need have made, and is only dequantized: a
cache must read what it was handed. All of them take 558 cases; more cases repeat them with other draws.

Nothing is forgiven: a NaN must be the same NaN. That goes further than `equal_bits`, because codes, scales and biases
are stored data, and it holds since no NaN here depends on the order of two NaN operands that differ. How many
differences are NaN on both sides is noted, for a reader who finds some on another processor.

Nothing here imports MLX: the side that is compared with the reference is an argument, `mlx_codec` by default.
"""

from itertools import product
from typing import Final

import attrs
import numpy as np
from numpy.random import Generator

from kvlaw.conformance.campaigns.campaign import Campaign, Tally
from kvlaw.conformance.subjects import mlx_codec
from kvlaw.conformance.subjects.codec_canary import Dequantize, Quantize, codec_is_modelled
from kvlaw.reference.numerics import DTYPES, FAMILY_NAMES, Bits, DType, affine, decode, differing, family
from kvlaw.reference.numerics.affine import GROUPS, Codes
from kvlaw.reference.numerics.inputs import random_bits
from kvlaw.reference.numerics.packing import CODE_BITS, unpack

STORED_BITS: Final = "stored bits"
CODES: Final = "codes"
SCALES: Final = "scales and biases"
DEQUANTIZED: Final = "dequantized values"
NAN: Final = "dequantized to NaN"
NAN_ONLY: Final = "differ as two NaNs do"

_ROWS: Final = 16
_WIDTH: Final = 256


@attrs.frozen
class CodecCase:
    """One array of the campaign: its codec, its family and where it is drawn from."""

    number: int
    dtype: DType
    bits: int
    group: int
    family: str
    seed: int = 0

    def describe(self) -> str:
        """Say in one line what the case is and how to draw it again."""
        codec = f"{self.bits} bits, groups of {self.group}"
        return f"case {self.number} of {self.dtype}, seed {self.seed}: {self.family!r}, {codec}"

    def generator(self) -> Generator:
        """Return the generator from which the case is drawn."""
        return np.random.default_rng([self.seed, DTYPES.index(self.dtype), self.number])

    def values(self) -> Bits:
        """Draw the elements [16, 256] of a family that is quantized."""
        return family(self.family, self.generator(), (_ROWS, _WIDTH), self.dtype)

    def stored(self) -> Codes:
        """Draw words, scales and biases of [16, 256] elements, any bits."""
        rng, groups = self.generator(), (_ROWS, _WIDTH // self.group)
        words = rng.integers(0, 1 << 32, (_ROWS, _WIDTH * self.bits // 32), dtype=np.uint32)
        return Codes(words, random_bits(rng, groups, self.dtype), random_bits(rng, groups, self.dtype))


def codec(
    quantize: Quantize = mlx_codec.quantize, dequantize: Dequantize = mlx_codec.dequantize
) -> Campaign[CodecCase]:
    """Make the campaign that compares a codec with the reference."""
    return Campaign(
        "codec",
        codec_case,
        lambda case: compare(case, quantize, dequantize),
        codec_is_modelled,
        {"ci": len(SETTINGS), "deep": 12 * len(SETTINGS)},
    )


def codec_case(number: int, dtype: DType, seed: int = 0) -> CodecCase:
    """Draw case ``number`` in ``dtype``."""
    bits, group, name = SETTINGS[number % len(SETTINGS)]
    return CodecCase(number, dtype, bits, group, name, seed)


def compare(case: CodecCase, quantize: Quantize, dequantize: Dequantize) -> Tally:
    """Quantize and dequantize one case on both sides; both sides dequantize the codes that are under test."""
    if case.family == STORED_BITS:
        return _compare_rows(case, case.stored(), dequantize)
    values = case.values()
    observed = quantize(values, dtype=case.dtype, bits=case.bits, group=case.group)
    expected = affine.quantize(values, dtype=case.dtype, bits=case.bits, group=case.group)
    return _compare_codes(case, observed, expected) + _compare_rows(case, observed, dequantize)


def _compare_codes(case: CodecCase, observed: Codes, expected: Codes) -> Tally:
    """Compare codes one by one, and scales and biases."""
    codes = [unpack(side.words, case.bits, _WIDTH) for side in (observed, expected)]
    compared = Tally({CODES: codes[1].size}, differing=int((codes[0] != codes[1]).sum()))
    for part, reference in ((observed.scales, expected.scales), (observed.biases, expected.biases)):
        compared += _compared(SCALES, part, reference, case.dtype)
    return compared


def _compare_rows(case: CodecCase, codes: Codes, dequantize: Dequantize) -> Tally:
    """Compare what both sides read from ``codes``."""
    observed = dequantize(codes, dtype=case.dtype, bits=case.bits, group=case.group)
    expected = affine.dequantize(codes, dtype=case.dtype, bits=case.bits, group=case.group)
    nan_values = int(np.isnan(decode(expected, case.dtype)).sum())
    return Tally(noted={NAN: nan_values}) + _compared(DEQUANTIZED, observed, expected, case.dtype)


def _compared(what: str, observed: Bits, expected: Bits, dtype: DType) -> Tally:
    """Count the elements that differ in any bit; ValueError if the shapes do."""
    if observed.shape != expected.shape:
        raise ValueError(f"an array of shape {observed.shape} where the reference has {expected.shape}")
    strict = int((observed != expected).sum())
    nan_only = strict - int(differing(observed, expected, dtype).sum())
    return Tally({what: expected.size}, {NAN_ONLY: nan_only}, strict)


CASE_FAMILIES: Final = (*FAMILY_NAMES, STORED_BITS)
SETTINGS: Final = tuple(product(CODE_BITS, GROUPS, CASE_FAMILIES))
"""Bits, group and family of the cases, in turn."""
