"""Faults of reads of codes: what is fetched, what is attended, and by which kernel (READ-10, READ-11, READ-15)."""

import numpy as np
from attrs import evolve

from kvlaw.conformance.faults.parts import Asked, WrongCache
from kvlaw.conformance.faults.planted_precision_codes import CodecFault
from kvlaw.conformance.faults.registry import fault
from kvlaw.reference.codes import Codec, Side
from kvlaw.reference.layout import MaskValue, Read
from kvlaw.reference.numerics.affine import Codes
from kvlaw.spec.observations import Bits

# What is fetched.


class _Swapped(Codec):
    def split(self, side: Side, columns: Bits) -> Codes:
        codes = super().split(side, columns)
        return Codes(codes.words, codes.biases, codes.scales)


@fault("swaps-scales-and-biases", breaks="READ-10", trace="full bits=4 ; decode", report="B55")
class SwapsScalesAndBiases(CodecFault):
    """A read hands its biases on as scales, and its scales as biases."""

    codec_type = _Swapped


class _KeyBits(Codec):
    def split(self, side: Side, columns: Bits) -> Codes:
        codes = super().split(side, columns)
        return evolve(codes, words=codes.words[..., : self.width(side) * self.bits("keys") // 32])


@fault("values-by-key-bits", breaks="READ-10", trace="full bits=4 value_bits=8 ; decode", report="B55")
class ValuesByKeyBits(CodecFault):
    """A read takes as many words of the values as the bits of the keys ask for."""

    codec_type = _KeyBits


@fault("fetches-dequantized", breaks="READ-10", trace="full bits=4 start=2 ; window 2 ; decode", report="B67")
class FetchesDequantized(WrongCache):
    """A read of a converted cache fetches what the codes stand for, not the codes."""

    def act(self, asked: Asked) -> Read:
        read = super().act(asked)
        if read.codec is None or self.layer.start is None:
            return read
        keys, values = read.codec.decode("keys", read.keys), read.codec.decode("values", read.values)
        return Read(keys, values, read.mask, read.length, read.dtype)


# What is attended.


class CodesFault(WrongCache):
    """A cache whose reads of codes are bent by ``bent``."""

    read_type: type[Read] = Read

    def act(self, asked: Asked) -> Read:
        read = super().act(asked)
        if read.codec is None:
            return read
        return self.read_type(read.keys, read.values, self.bent(read), read.length, read.dtype, read.codec)

    def bent(self, read: Read) -> MaskValue:
        """Bend the mask."""
        return read.mask


class _Unmasked(Read):
    """Attends every fetched column."""

    def attend(self, queries: Bits, scale: float) -> Bits:
        alone = Read(self.keys, self.values, None, self.length, self.dtype, self.codec)
        return alone.attend(queries, scale)


@fault("codes-are-not-masked", breaks="READ-11", trace="ring window=2 bits=4 groups=4 ; window 3", report="B54")
class CodesAreNotMasked(CodesFault):
    """Attention over codes adds a mask of bools as a number, which hides nothing."""

    read_type = _Unmasked


class _Ahead(Read):
    def attend(self, queries: Bits, scale: float) -> Bits:
        alone = Read(self.keys, self.values, None, self.length, self.dtype, self.codec)
        return alone.attend(queries, scale) if isinstance(self.mask, str) else super().attend(queries, scale)


@fault("causal-codes-see-ahead", breaks="READ-11", trace="full bits=4 groups=4 ; window 2", report="B54")
class CausalCodesSeeAhead(CodesFault):
    """Attention over codes does not know the word causal, and hides nothing."""

    read_type = _Ahead


class _Interleaved(Read):
    def attend(self, queries: Bits, scale: float) -> Bits:
        heads, kv = queries.shape[1], self.keys.shape[1]
        order = [head for turn in range(kv) for head in range(turn, heads, kv)]
        return super().attend(queries[:, order], scale)[:, [order.index(head) for head in range(heads)]]


@fault("codes-interleave-heads", breaks="READ-11", trace="full bits=4 ; decode")
class CodesInterleaveHeads(CodesFault):
    """Over codes query head h reads KV head h mod Hkv."""

    read_type = _Interleaved


class _WithoutBias(Read):
    def attend(self, queries: Bits, scale: float) -> Bits:
        codec = self.codec
        if codec is None:
            return super().attend(queries, scale)
        values = self.values.copy()
        values[..., -(codec.width("values") // codec.layer.group) :] = 0
        alone = Read(self.keys, values, self.mask, self.length, self.dtype, codec)
        return alone.attend(queries, scale)


@fault("forgets-the-biases-of-values", breaks="READ-11", trace="full bits=4 ; decode", report="B67")
class ForgetsTheBiasesOfValues(CodesFault):
    """Attention over codes multiplies the weights with scale times code, and leaves the biases of the values out."""

    read_type = _WithoutBias


# Kernels.


@fault(
    "arrays-take-another-kernel",
    breaks="READ-15",
    profile="layout",
    trace="full bits=4 groups=4 ; window 2 array",
    report="B54",
)
class ArraysTakeAnotherKernel(WrongCache):
    """Who asks for an array gets a kernel for codes that takes no mask, and no column is hidden."""

    def act(self, asked: Asked) -> Read:
        read = super().act(asked)
        if read.codec is None or not asked.array:
            return read
        return _Unmasked(read.keys, read.values, read.mask, read.length, read.dtype, read.codec)


@fault(
    "array-masks-of-codes-hide-old-columns",
    breaks="READ-15",
    profile="layout",
    trace="full bits=4 ; window 2 ; window 2 array",
)
class ArrayMasksOfCodesHideOldColumns(WrongCache):
    """The array mask of a window of codes is as wide as its own positions, and hides all others."""

    def act(self, asked: Asked) -> Read:
        read = super().act(asked)
        if read.codec is None or not asked.array or not isinstance(read.mask, np.ndarray) or asked.length < 2:
            return read
        mask = read.mask.copy()
        mask[:, : -asked.length] = False
        return evolve(read, mask=mask)
