"""The codec campaign: codes, scales, biases and dequantized rows of NumPy against MLX, every bit of them.

In each format, every number of bits and every size of group meets each of the thirty families of
`kvlaw.reference.numerics.inputs`, NaN, infinities and random bits among them, in rows of 256 elements. A further
family, ``"stored bits"``, holds words, scales and biases that no quantizer need have made, and is only dequantized: a
cache must read what it was handed. What is drawn depends on the seed, the format, bits, group and family alone.

Nothing is forgiven: a NaN must be the same NaN. That goes further than `equal_bits`, because codes, scales and biases
are stored data, and it holds since no NaN here depends on the order of two NaN operands that differ. `nan_only` counts
the differences that are NaN on both sides, for a reader who finds some on another processor.

Nothing here imports MLX: the side that is compared with the reference is an argument, `mlx_codec` by default.
"""

from collections.abc import Iterator
from itertools import product
from typing import Final

import attrs
import numpy as np
from numpy.random import Generator

from kvlaw.conformance.subjects import mlx_codec
from kvlaw.conformance.subjects.codec_canary import Dequantize, Quantize
from kvlaw.reference.numerics import DTYPES, FAMILY_NAMES, Bits, DType, affine, decode, differing, family
from kvlaw.reference.numerics.affine import GROUPS, Codes
from kvlaw.reference.numerics.inputs import random_bits
from kvlaw.reference.numerics.packing import CODE_BITS, unpack

LONG_CAMPAIGN: Final = 64
SHORT_CAMPAIGN: Final = 1
STORED_BITS: Final = "stored bits"

_WIDTH: Final = 256


@attrs.frozen
class CodecCase:
    """One array of the campaign: its codec, its family and its number of rows."""

    dtype: DType
    bits: int
    group: int
    family: str
    rows: int
    seed: int

    def describe(self) -> str:
        """Say in one line what the case is and how to draw it again."""
        codec = f"{self.bits} bits, groups of {self.group}"
        return f"{self.family!r} in {self.dtype}, {codec}, {self.rows} rows, seed {self.seed}"

    def generator(self) -> Generator:
        """Return the generator from which the case is drawn."""
        family_index = CASE_FAMILIES.index(self.family)
        return np.random.default_rng([self.seed, DTYPES.index(self.dtype), self.bits, self.group, family_index])

    def values(self) -> Bits:
        """Draw the elements [rows, 256] of a family that is quantized."""
        return family(self.family, self.generator(), (self.rows, _WIDTH), self.dtype)

    def stored(self) -> Codes:
        """Draw words, scales and biases of [rows, 256] elements, any bits."""
        rng, groups = self.generator(), (self.rows, _WIDTH // self.group)
        words = rng.integers(0, 1 << 32, (self.rows, _WIDTH * self.bits // 32), dtype=np.uint32)
        return Codes(words, random_bits(rng, groups, self.dtype), random_bits(rng, groups, self.dtype))


@attrs.frozen
class Tally:
    """How many values were compared, and how many of them differ; both add up."""

    codes: int = 0
    scales_and_biases: int = 0
    dequantized: int = 0
    nan_values: int = 0
    differing: int = 0
    nan_only: int = 0

    @property
    def compared(self) -> int:
        """All values that were compared."""
        return self.codes + self.scales_and_biases + self.dequantized

    def __add__(self, other: "Tally") -> "Tally":
        """Add field by field."""
        return Tally(*(mine + theirs for mine, theirs in zip(attrs.astuple(self), attrs.astuple(other), strict=True)))


@attrs.frozen
class CodecResult:
    """What a codec campaign in one format has shown."""

    dtype: DType
    arrays: int
    tally: Tally
    first_difference: str | None

    def describe(self) -> str:
        """Sum the campaign up in one line."""
        found = self.tally
        return (
            f"{self.dtype}: {self.arrays} arrays, {found.codes} codes, {found.scales_and_biases} scales and biases, "
            f"{found.dequantized} dequantized values, {found.nan_values} of these NaN; {found.differing} differ in a "
            f"bit, {found.nan_only} of them NaN on both sides"
        )


def run_codec_campaign(
    dtype: DType,
    rows: int = SHORT_CAMPAIGN,
    *,
    seed: int = 0,
    quantize: Quantize = mlx_codec.quantize,
    dequantize: Dequantize = mlx_codec.dequantize,
) -> CodecResult:
    """Compare a codec with the reference in every case of ``dtype``, arrays of ``rows`` rows, and sum up.

    All cases are run, whether they differ or not. The caller asks the canary first: on a machine whose arithmetic is
    not the modelled one, differences mean nothing.
    """
    arrays, total, first_difference = 0, Tally(), None
    for case in codec_cases(dtype, rows, seed=seed):
        tally = compare_case(case, quantize, dequantize)
        arrays, total = arrays + 1, total + tally
        if first_difference is None and tally.differing:
            first_difference = f"{case.describe()}: {tally.differing} of {tally.compared} values differ"
    return CodecResult(dtype, arrays, total, first_difference)


def codec_cases(dtype: DType, rows: int, *, seed: int = 0) -> Iterator[CodecCase]:
    """Yield the cases of ``dtype``: every number of bits, size of group and family."""
    for bits, group, name in product(CODE_BITS, GROUPS, CASE_FAMILIES):
        yield CodecCase(dtype, bits, group, name, rows, seed)


def compare_case(case: CodecCase, quantize: Quantize, dequantize: Dequantize) -> Tally:
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
    compared = Tally(codes=codes[1].size, differing=int((codes[0] != codes[1]).sum()))
    for part, reference in ((observed.scales, expected.scales), (observed.biases, expected.biases)):
        compared += Tally(scales_and_biases=reference.size) + _differences(part, reference, case.dtype)
    return compared


def _compare_rows(case: CodecCase, codes: Codes, dequantize: Dequantize) -> Tally:
    """Compare what both sides read from ``codes``."""
    observed = dequantize(codes, dtype=case.dtype, bits=case.bits, group=case.group)
    expected = affine.dequantize(codes, dtype=case.dtype, bits=case.bits, group=case.group)
    nan_values = int(np.isnan(decode(expected, case.dtype)).sum())
    counted = Tally(dequantized=expected.size, nan_values=nan_values)
    return counted + _differences(observed, expected, case.dtype)


def _differences(observed: Bits, expected: Bits, dtype: DType) -> Tally:
    """Count the elements that differ in any bit; ValueError if the shapes do."""
    if observed.shape != expected.shape:
        raise ValueError(f"an array of shape {observed.shape} where the reference has {expected.shape}")
    strict = int((observed != expected).sum())
    return Tally(differing=strict, nan_only=strict - int(differing(observed, expected, dtype).sum()))


CASE_FAMILIES: Final = (*FAMILY_NAMES, STORED_BITS)
