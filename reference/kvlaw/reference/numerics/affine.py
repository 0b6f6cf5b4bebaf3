"""The affine codec of MLX's x86-64 CPU, bit for bit: numbers as codes with one scale and one bias per group.

A group is 32, 64 or 128 consecutive elements of the last axis, and no other element has a say in its codes. `quantize`
computes in float32, whatever the format of the elements:

1. the greatest and the least element, NaN left out; the *edge* is the one further from 0, the greatest in a tie;
2. step = (greatest - least) / (2^bits - 1), at least 1e-7, and negative if the edge is the greatest;
3. edge_code = the integer nearest to edge / step, ties to even. Unless that is 0, scale = edge / edge_code and
   bias = edge; else scale = step and bias = 0;
4. code = the integer nearest to (element - bias) / scale, ties to even, held within 0 and 2^bits - 1; NaN becomes 0;
5. only now scale and bias are rounded to the format, in which they are stored.

So the edge has code 0 and comes back exactly (unless the whole group is within 5e-8 of 0, where everything becomes 0),
and codes count *away* from the edge. The documented formula (bias = least element, positive scale) is another one.
`dequantize` rounds twice in the format: once code * scale, once more the sum with the bias.

`quantize(dequantize(codes))` is *not* ``codes``: about one random 4-bit group in seven gets other codes and another
scale. Nothing that holds codes may therefore dequantize and quantize again, and every copy, shift or trim moves the
stored words, scales and biases as they are.

Source: mlx/backend/cpu/quantized.cpp; measured on mlx 0.32.4, x86-64 Linux, NaN results included.
"""

from typing import Any, Final

import attrs
import numpy as np

from kvlaw.reference.numerics.formats import Bits, DType, Float32, decode, encode, round_to
from kvlaw.reference.numerics.packing import CodeArray, Words, check_code_bits, pack, unpack

GROUPS: Final = (32, 64, 128)

_LEAST_STEP: Final = np.float32(1e-7)


@attrs.frozen(eq=False)
class Codes:
    """Quantized rows [..., n]: packed codes and, for each group, the scale and the bias in the rows' format."""

    words: Words
    """np.uint32 [..., n * bits / 32], packed by `packing.pack`."""

    scales: Bits
    """Bits of the format, [..., n / group]."""

    biases: Bits
    """Bits of the format, [..., n / group]."""

    def __getitem__(self, index: Any) -> "Codes":
        """Select whole rows: apply ``index``, which must leave the last axis alone, to all three arrays."""
        return Codes(self.words[index], self.scales[index], self.biases[index])


def quantize(values: Bits, *, dtype: DType, bits: int, group: int) -> Codes:
    """Quantize ``values`` [..., n], bits of ``dtype``, in groups along the last axis; n is a multiple of ``group``.

    Raises ValueError if ``bits`` is none of `packing.CODE_BITS`, ``group`` none of `GROUPS`, or n is no multiple of
    ``group``; TypeError if ``values`` are not bits of ``dtype``.
    """
    check_affine(bits, group)
    if values.ndim == 0 or values.shape[-1] % group:
        raise ValueError(f"rows are quantized in whole groups of {group}, got an array of shape {values.shape}")
    groups = decode(values, dtype).reshape(*values.shape[:-1], values.shape[-1] // group, group)
    with np.errstate(all="ignore"):
        scale, bias = _scale_and_bias(groups, bits)
        codes = _codes(groups, scale, bias, bits)
    return Codes(pack(codes.reshape(values.shape), bits), encode(scale, dtype), encode(bias, dtype))


def dequantize(codes: Codes, *, dtype: DType, bits: int, group: int) -> Bits:
    """Return the rows [..., n] that ``codes`` stand for, as bits of ``dtype``.

    Raises ValueError if the three arrays do not fit each other, ``bits`` and ``group``; TypeError if scales or biases
    are not bits of ``dtype``.
    """
    return encode(dequantized(codes, dtype=dtype, bits=bits, group=group), dtype)


def dequantized(codes: Codes, *, dtype: DType, bits: int, group: int) -> Float32:
    """Return what `dequantize` does as float32, in which products are formed."""
    check_affine(bits, group)
    _check_fit(codes, bits, group)
    width = codes.scales.shape[-1] * group
    counts = unpack(codes.words, bits, width).reshape(*codes.scales.shape, group).astype(np.float32)
    scales, biases = (decode(part, dtype)[..., np.newaxis] for part in (codes.scales, codes.biases))
    with np.errstate(all="ignore"):
        rows = round_to(round_to(counts * scales, dtype) + biases, dtype)
    return rows.reshape(*codes.words.shape[:-1], width)


def check_affine(bits: int, group: int) -> None:
    """Raise ValueError, naming what is possible, unless codes can have ``bits`` bits in groups of ``group``."""
    check_code_bits(bits)
    if group not in GROUPS:
        raise ValueError(f"groups have {', '.join(map(str, GROUPS[:-1]))} or {GROUPS[-1]} elements, got {group}")


def _scale_and_bias(groups: Float32, bits: int) -> tuple[Float32, Float32]:
    """Find scale and bias [..., n / group] of ``groups`` [..., n / group, group], in float32: steps 1 to 3."""
    greatest: Float32 = np.fmax.reduce(groups, axis=-1, initial=np.float32(-np.inf))
    least: Float32 = np.fmin.reduce(groups, axis=-1, initial=np.float32(np.inf))
    edge_is_least = np.abs(least) > np.abs(greatest)
    edge: Float32 = np.where(edge_is_least, least, greatest)
    size = (greatest - least) / np.float32(_highest_code(bits))
    size = np.where(size < _LEAST_STEP, _LEAST_STEP, size)
    step = np.where(edge_is_least, size, -size)
    edge_code = np.rint(edge / step)
    has_edge = edge_code != 0  # also where it is NaN
    return np.where(has_edge, edge / edge_code, step), np.where(has_edge, edge, np.float32(0))


def _codes(groups: Float32, scale: Float32, bias: Float32, bits: int) -> CodeArray:
    """Return the codes of ``groups`` [..., n / group, group] by unrounded scale and bias: step 4."""
    nearest = np.subtract(groups, bias[..., np.newaxis])
    np.divide(nearest, scale[..., np.newaxis], out=nearest)
    np.rint(nearest, out=nearest)
    np.fmax(nearest, np.float32(0), out=nearest)  # NaN, too, becomes 0
    np.fmin(nearest, np.float32(_highest_code(bits)), out=nearest)
    return nearest.astype(np.uint8)


def _highest_code(bits: int) -> int:
    """Return 2^bits - 1."""
    return (1 << bits) - 1


def _check_fit(codes: Codes, bits: int, group: int) -> None:
    """Raise ValueError, naming the three shapes, unless they are those of one array of rows."""
    words, scales, biases = (part.shape for part in (codes.words, codes.scales, codes.biases))
    if not (words and scales) or scales != biases or words[:-1] != scales[:-1]:
        raise ValueError(f"words {words}, scales {scales} and biases {biases} are not of the same rows")
    if words[-1] * 32 != scales[-1] * group * bits:
        raise ValueError(f"words {words} and scales {scales} do not fit {bits} bits in groups of {group}")
