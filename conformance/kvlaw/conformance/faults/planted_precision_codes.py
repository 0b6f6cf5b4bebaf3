"""Faults of codes: how they are made, and where a conversion lays them (PREC-7 to PREC-9)."""

import numpy as np
from attrs import evolve

from kvlaw.conformance.faults.parts import Asked, WrongCache
from kvlaw.conformance.faults.planted_precision import BoundaryFault
from kvlaw.conformance.faults.registry import fault
from kvlaw.reference import index
from kvlaw.reference.codes import Codec, Side
from kvlaw.reference.layout import Cache, Planes, Read
from kvlaw.reference.numerics.affine import quantize
from kvlaw.reference.numerics.packing import pack, unpack
from kvlaw.spec.observations import Bits, join_codes


class CodecFault(Cache):
    """A cache with a codec of its own."""

    codec_type: type[Codec] = Codec

    def make_codec(self, keys: Bits, values: Bits, dtype: str) -> Codec:
        right = super().make_codec(keys, values, dtype)
        return self.codec_type(right.layer, right.dtype, right.key_width, right.value_width)


def again(cache: Cache, planes: Planes) -> Planes:
    """Dequantize columns and quantize them again."""
    codec = cache.codec
    if codec is None:
        return planes
    keys, values = codec.decode("keys", planes.keys), codec.decode("values", planes.values)
    return Planes(codec.encode("keys", keys), codec.encode("values", values))


# Made once.


@fault(
    "quantizes-again-when-laid-out",
    breaks="PREC-7",
    trace="ring window=3 bits=4 stamp=random ; window 5 ; window 1",
)
class QuantizesAgainWhenLaidOut(WrongCache):
    """A window brings the columns of a ring in order by way of half precision, and quantizes them again."""

    def act(self, asked: Asked) -> Read:
        if asked.phase == "window" and self.ring is not None and self.planes is not None:
            self.planes = again(self, self.planes)
        return super().act(asked)


@fault("quantizes-again-when-it-grows", breaks="PREC-7", trace="full bits=4 stamp=random ; window 256 unread ; decode")
class QuantizesAgainWhenItGrows(WrongCache):
    """A growing cache that gets more columns takes its codes over by way of half precision."""

    def act(self, asked: Asked) -> Read:
        plan = self.plan(asked.phase, asked.length) if asked.well_formed and asked.length > 0 else None
        if plan is not None and plan.add and self.ring is None and self.planes is not None:
            self.planes = again(self, self.planes)
        return super().act(asked)


class _ValueBits(Codec):
    def encode(self, side: Side, plane: Bits) -> Bits:
        codes = quantize(plane, dtype=self.dtype, bits=self.bits("values"), group=self.layer.group)
        words = pack(unpack(codes.words, self.bits("values"), self.width(side)), self.bits(side))
        return join_codes(words, codes.scales, codes.biases)


@fault("quantizes-keys-by-value-bits", breaks="PREC-7", trace="full bits=4 value_bits=2 ; decode", report="B55")
class QuantizesKeysByValueBits(CodecFault):
    """The codes of keys use the range of the values' bits, and are packed with their own."""

    codec_type = _ValueBits


class _OneScale(Codec):
    def encode(self, side: Side, plane: Bits) -> Bits:
        codes = quantize(plane, dtype=self.dtype, bits=self.bits(side), group=self.layer.group)
        scales = np.broadcast_to(codes.scales[..., :1], codes.scales.shape)
        return join_codes(codes.words, scales, codes.biases)


@fault("one-scale-per-head", breaks="PREC-7", trace="full bits=4 group=32 stamp=random ; decode")
class OneScalePerHead(CodecFault):
    """All groups of a head are stored with the scale of the first."""

    codec_type = _OneScale


@fault("trims-wipe-words", breaks="PREC-7", trace="full bits=4 ; window 3 ; trim 1 ; decode")
class TrimsWipeWords(Cache):
    """A trim clears the codes from one column too early on."""

    def trim(self, count: int, bypass: bool = False) -> int:
        answer = super().trim(count, bypass)
        if self.codec is not None and self.planes is not None and count:
            self.planes = self.planes.each(np.copy)
            self.planes.keys[:, :, max(0, self.write_index - 1) :] = 0
        return answer


# Where they lie.


class TemporalConversion(BoundaryFault):
    """A ring that brings its columns in temporal order when it converts."""

    def converted(self, planes: Planes) -> Planes:
        ring = self.ring
        if ring is None or not ring.rotated:
            return super().converted(planes)
        self.laid_out(ring)
        return super().converted(planes.kept(index.temporal_columns(ring)))

    def laid_out(self, ring: index.Ring) -> None:
        """Count on, after the columns moved."""


@fault(
    "converts-in-order-and-writes-on",
    breaks="PREC-8",
    trace="ring window=3 bits=4 start=4 ; window 3 ; decode x2",
    report="B61",
)
class ConvertsInOrderAndWritesOn(TemporalConversion):
    """A conversion brings a wrapped ring in temporal order, and the write index stays where it was."""


@fault(
    "conversion-moves-the-write-index",
    breaks="PREC-8",
    trace="ring window=2 bits=4 start=3 ; window 2 ; decode x2",
    report="B61",
)
class ConversionMovesTheWriteIndex(BoundaryFault):
    """A conversion starts the ring over at its first column, whatever stands there."""

    def converted(self, planes: Planes) -> Planes:
        if self.ring is not None and self.ring.rotated:
            self.state = evolve(self.ring, write_index=self.ring.window)
        return super().converted(planes)


@fault(
    "converts-in-temporal-order",
    breaks="PREC-9",
    profile="layout",
    trace="ring window=2 bits=4 start=3 ; window 2 ; decode",
    report="B61",
)
class ConvertsInTemporalOrder(TemporalConversion):
    """A conversion brings a wrapped ring in temporal order, write index and all."""

    def laid_out(self, ring: index.Ring) -> None:
        self.state = evolve(ring, write_index=ring.window, rotated=False)


@fault(
    "conversion-drops-spare-columns",
    breaks="PREC-9",
    profile="layout",
    trace="ring window=4 bits=4 start=2 ; decode x2",
    report="B103",
)
class ConversionDropsSpareColumns(BoundaryFault):
    """A conversion takes over the columns that hold a position, and drops the spare ones."""

    def converted(self, planes: Planes) -> Planes:
        end = self.columns if self.ring is not None and self.ring.rotated else self.write_index
        self.state = evolve(self.state, columns=end)
        return super().converted(planes.kept(tuple(range(end))))


@fault(
    "growing-cache-drops-spare-columns",
    breaks="PREC-9",
    profile="layout",
    trace="full bits=4 start=2 ; decode x2",
    report="B103",
)
class GrowingCacheDropsSpareColumns(ConversionDropsSpareColumns):
    """A growing cache that converts is cut to what it holds, and allocates anew at the next append."""

    def converted(self, planes: Planes) -> Planes:
        return super().converted(planes) if self.ring is None else BoundaryFault.converted(self, planes)


@fault(
    "forgets-spare-columns",
    breaks="PREC-9",
    profile="layout",
    trace="ring window=4 bits=4 start=2 ; decode x2",
)
class ForgetsSpareColumns(BoundaryFault):
    """A conversion quantizes the columns that hold a position, and the cache counts the spare ones still."""

    def converted(self, planes: Planes) -> Planes:
        end = self.columns if self.ring is not None and self.ring.rotated else self.write_index
        return super().converted(planes.kept(tuple(range(end))))


class OrderedConversion(BoundaryFault):
    """A growing cache whose conversion lays its columns out in another order."""

    def converted(self, planes: Planes) -> Planes:
        order = tuple(range(planes.keys.shape[2]))
        return super().converted(planes.kept(self.ordered(order) if self.ring is None else order))

    def ordered(self, order: tuple[int, ...]) -> tuple[int, ...]:
        """Give the columns in their new order."""
        raise NotImplementedError


@fault("conversion-moves-a-column", breaks="PREC-9", profile="layout", trace="full bits=4 start=2 ; window 2")
class ConversionMovesAColumn(OrderedConversion):
    """A conversion takes the first column of a growing cache behind the newest, and all of it is still seen."""

    def ordered(self, order: tuple[int, ...]) -> tuple[int, ...]:
        return (*order[1 : self.offset], order[0], *order[self.offset :])


@fault("conversion-reverses-the-columns", breaks="PREC-9", profile="layout", trace="full bits=4 start=3 ; window 3")
class ConversionReversesTheColumns(OrderedConversion):
    """A conversion packs the columns of a growing cache newest first."""

    def ordered(self, order: tuple[int, ...]) -> tuple[int, ...]:
        return (*reversed(order[: self.offset]), *order[self.offset :])


class SpareConversion(BoundaryFault):
    """A cache whose conversion makes something of its own of spare columns."""

    def converted(self, planes: Planes) -> Planes:
        codes, end = super().converted(planes).each(np.copy), self.write_index
        if self.ring is None or not self.ring.rotated:
            for plane in (codes.keys, codes.values):
                self.spared(plane, end)
        return codes

    def spared(self, plane: Bits, end: int) -> None:
        """Write the spare columns of a plane, those from ``end`` on."""
        raise NotImplementedError


@fault(
    "spare-codes-are-left-empty", breaks="PREC-9", profile="layout", trace="ring window=4 bits=4 start=2 ; decode x2"
)
class SpareCodesAreLeftEmpty(SpareConversion):
    """A conversion allocates zeros for words, scales and biases, and quantizes the columns that hold a position."""

    def spared(self, plane: Bits, end: int) -> None:
        plane[:, :, end:] = 0


@fault("spare-codes-repeat-the-newest", breaks="PREC-9", profile="layout", trace="full bits=4 start=2 ; decode x2")
class SpareCodesRepeatTheNewest(SpareConversion):
    """A conversion fills the spare columns up with the codes of the newest position."""

    def spared(self, plane: Bits, end: int) -> None:
        plane[:, :, end:] = plane[:, :, end - 1 : end]
