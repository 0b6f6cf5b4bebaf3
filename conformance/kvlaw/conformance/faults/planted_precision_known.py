"""Faults of known appends, and of dense fetches from codes (READ-12 to READ-14)."""

from typing import Any, cast

import numpy as np
from attrs import evolve

from kvlaw.conformance.faults.parts import WrongCache
from kvlaw.conformance.faults.planted_precision_codes import CodecFault
from kvlaw.conformance.faults.registry import fault
from kvlaw.reference import index
from kvlaw.reference.codes import Codec, Side
from kvlaw.reference.layout import Cache, Planes, Read
from kvlaw.reference.numerics.affine import Codes, dequantize
from kvlaw.reference.numerics.attention import masked
from kvlaw.reference.numerics.formats import DType, decode, encode
from kvlaw.reference.numerics.quantized_attention import TILED_BITS, TILED_DTYPES
from kvlaw.spec.observations import Bits

# Known appends.


class KnownFault(Cache):
    """A cache whose known appends are bent by ``known``."""

    def append_known(
        self, keys: Bits, values: Bits, dtype: str, window: int | None = None, array: bool = False
    ) -> Read:
        return self.known(super().append_known(keys, values, dtype, window, array))

    def known(self, read: Read) -> Read:
        """Bend the read."""
        return read


@fault("known-appends-see-ahead", breaks="READ-12", trace="full ; known 2")
class KnownAppendsSeeAhead(KnownFault):
    """A known append is read as a decode is, without a mask, so that each query sees those behind it."""

    def known(self, read: Read) -> Read:
        return evolve(read, mask=None)


@fault("known-appends-write-in-place", breaks="READ-12", trace="ring window=2 ; window 2 ; known 2")
class KnownAppendsWriteInPlace(Cache):
    """A known append writes its positions one by one over the oldest, before its first query is read."""

    def append_known(
        self, keys: Bits, values: Bits, dtype: str, window: int | None = None, array: bool = False
    ) -> Read:
        length = keys.shape[2] if keys.ndim == values.ndim == 4 else 0
        if self.layer.window is None or window is not None or length < 1 or length > self.layer.window:
            return super().append_known(keys, values, dtype, window, array)
        ones = [slice(i, i + 1) for i in range(length)]
        reads = [self.append_decode(keys[:, :, one], values[:, :, one], dtype) for one in ones]
        order = index.temporal_columns(self.ring_state)
        last = [len(order) - length + i for i in range(length)]
        mask = np.array([[order.index(column) <= seen for column in range(len(order))] for seen in last])
        return evolve(reads[-1], mask=mask, length=length)

    @property
    def ring_state(self) -> index.Ring:
        """The ring's state."""
        assert isinstance(self.state, index.Ring)
        return self.state


@fault("known-appends-keep-the-oldest", breaks="READ-12", trace="ring window=3 ; window 3 ; known 1")
class KnownAppendsKeepTheOldest(WrongCache):
    """A known append keeps the oldest W - 1 positions of a full ring, not the newest."""

    deciding = False

    def append_known(
        self, keys: Bits, values: Bits, dtype: str, window: int | None = None, array: bool = False
    ) -> Read:
        self.deciding = True
        try:
            return super().append_known(keys, values, dtype, window, array)
        finally:
            self.deciding = False

    def plan(self, phase: Any, length: int) -> index.Plan[Any]:
        plan = super().plan(phase, length)
        if not self.deciding or self.ring is None or plan.keep is None:
            return plan
        return evolve(plan, keep=index.temporal_columns(self.ring)[: len(plan.keep)])


class _OneRow(Read):
    """Attends every query with the mask row of the last one."""

    def attend(self, queries: Bits, scale: float) -> Bits:
        if self.length == 1 or not isinstance(self.mask, np.ndarray | str):
            return super().attend(queries, scale)
        rows = None if isinstance(self.mask, str) else self.mask[-1:].repeat(self.length, 0)
        alone = Read(self.keys, self.values, rows, self.length, self.dtype, self.codec)
        return alone.attend(queries, scale)


@fault("known-queries-share-a-row", breaks="READ-13", profile="layout", trace="full groups=4 ; known 2")
class KnownQueriesShareARow(KnownFault):
    """The kernel of one query attends all positions of a known append with the mask row of the last."""

    def known(self, read: Read) -> Read:
        return _OneRow(read.keys, read.values, read.mask, read.length, read.dtype, read.codec)


class _OnePiece(Read):
    """Attends the queries of a known append in one piece, with every step between query and output in float32."""

    def attend(self, queries: Bits, scale: float) -> Bits:
        stepwise = super().attend(queries, scale)
        if self.length == 1:
            return stepwise
        dtype = cast("DType", self.dtype)
        keys, values = (decode(x, dtype) for x in self.tensors)
        heads = queries.shape[1] // keys.shape[1]
        keys, values = keys.repeat(heads, 1), values.repeat(heads, 1)
        scaled: Any = decode(queries, dtype) * np.float32(scale)
        with np.errstate(all="ignore"):
            scores = masked(scaled @ keys.swapaxes(2, 3), cast("Any", self.mask), "f32")
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            return encode(weights / weights.sum(-1, keepdims=True) @ values, dtype)

    @property
    def tensors(self) -> tuple[Bits, Bits]:
        """What was fetched, as tensors."""
        if self.codec is None:
            return self.keys, self.values
        return self.codec.decode("keys", self.keys), self.codec.decode("values", self.values)


@fault("known-spans-are-one-piece", breaks="READ-13", profile="layout", trace="full stamp=random ; known 2")
class KnownSpansAreOnePiece(KnownFault):
    """A known append is attended as one window, in float32 from end to end, where one query is rounded at each step."""

    def known(self, read: Read) -> Read:
        return _OnePiece(read.keys, read.values, read.mask, read.length, read.dtype, read.codec)


class _Tiled(Read):
    """Attends the queries of a known append over codes with the tiled kernel, where there is one."""

    def attend(self, queries: Bits, scale: float) -> Bits:
        stepwise, codec = super().attend(queries, scale), self.codec
        if codec is None or self.length == 1 or self.dtype not in TILED_DTYPES:
            return stepwise
        if not {codec.bits("keys"), codec.bits("values")} <= set(TILED_BITS):
            return stepwise
        return codec.attend(queries, self.keys, self.values, scale, cast("Any", self.mask), kernel_set="tiled")


@fault("known-spans-are-tiled", breaks="READ-13", profile="layout", trace="full bits=4 stamp=random ; known 2")
class KnownSpansAreTiled(KnownFault):
    """A known append over codes takes the tiled kernel of windows, where a decode is unfused."""

    def known(self, read: Read) -> Read:
        return _Tiled(read.keys, read.values, read.mask, read.length, read.dtype, read.codec)


# Dense fetches.


class DenseFault(Cache):
    """A cache whose dense fetches of codes are bent by ``restored``."""

    def fetch_dense(self, keys: Bits, values: Bits, dtype: str) -> Planes:
        before, planes = self.storage, super().fetch_dense(keys, values, dtype)
        return planes if before == "dense" else self.restored(planes, Planes(keys, values))

    def restored(self, planes: Planes, new: Planes) -> Planes:
        """Bend what is handed out."""
        return planes


@fault("own-positions-are-not-restored", breaks="READ-14", trace="full bits=4 stamp=random ; dense 1")
class OwnPositionsAreNotRestored(DenseFault):
    """A dense fetch of codes hands out its own positions as they came, and the others dequantized."""

    def restored(self, planes: Planes, new: Planes) -> Planes:
        if self.layer.window is not None:
            return planes
        return planes.written(planes.keys.shape[2] - new.keys.shape[2], new)


@fault(
    "dense-fetch-drops-its-own",
    breaks="READ-14",
    trace="full bits=4 start=2 ; window 2 ; dense 1",
    report="B57",
)
class DenseFetchDropsItsOwn(DenseFault):
    """A dense fetch of codes is taken before its own positions are stored."""

    def restored(self, planes: Planes, new: Planes) -> Planes:
        end = planes.keys.shape[2] - new.keys.shape[2]
        return planes.each(lambda plane: plane[:, :, :end]) if end else planes


class _NoBias(Codec):
    def decode(self, side: Side, columns: Bits) -> Bits:
        codes = self.split(side, columns)
        scales = np.zeros_like(codes.biases)
        return dequantize(
            Codes(codes.words, codes.scales, scales), dtype=self.dtype, bits=self.bits(side), group=self.layer.group
        )


@fault("dense-fetch-without-biases", breaks="READ-14", trace="full bits=4 ; dense 1", report="B57")
class DenseFetchWithoutBiases(CodecFault):
    """A dense fetch hands out scale times code, without the bias."""

    codec_type = _NoBias


@fault(
    "dense-fetch-of-codes-in-order",
    breaks="READ-14",
    profile="layout",
    trace="ring window=2 bits=4 ; window 2 ; dense 1",
)
class DenseFetchOfCodesInOrder(DenseFault):
    """A dense fetch of a wrapped ring of codes comes oldest first."""

    def restored(self, planes: Planes, new: Planes) -> Planes:
        ring = self.state
        return planes.kept(index.temporal_columns(ring)) if isinstance(ring, index.Ring) and ring.rotated else planes
