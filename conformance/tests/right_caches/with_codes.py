# ruff: noqa: PGH003
# type: ignore # foreign code has no types
"""Right caches of codes with a quantizer of their own: named appends, mlx-lm's duck type, and one that dequantizes.

``quantize`` is the formula of MLX's ``affine`` mode, in NumPy: the element furthest from 0 becomes code 0.
"""

import copy
import operator

import ml_dtypes
import numpy as np
from by_position import Book

DTYPES = (np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16), np.dtype(np.float32))


def quantize(x, bits, group):
    """Words, scales and biases of the last axis, group by group."""
    f = np.float32
    x32 = x.astype(f).reshape(*x.shape[:-1], -1, group)
    high, low = x32.max(-1), x32.min(-1)
    below = np.abs(low) > np.abs(high)
    step = np.maximum((high - low) / f(2**bits - 1), f(1e-7))
    step, edge = np.where(below, step, -step), np.where(below, low, high)
    n = np.rint(edge / step)
    scale = np.where(n != 0, edge / np.where(n != 0, n, f(1)), step)
    bias = np.where(n != 0, edge, f(0))
    codes = np.clip(np.rint((x32 - bias[..., None]) / scale[..., None]), 0, 2**bits - 1).astype(np.uint32)
    stream = (codes.reshape(*x.shape, 1) >> np.arange(bits, dtype=np.uint32)) & 1
    words = np.packbits(stream.reshape(*x.shape[:-1], -1).astype(np.uint8), axis=-1, bitorder="little").view("<u4")
    return words, scale.astype(x.dtype), bias.astype(x.dtype)


def dequantize(codes, bits, group):
    """The tensors that codes stand for."""
    words, scale, bias = codes
    stream = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=-1, bitorder="little")
    code = (stream.reshape(*words.shape[:-1], -1, bits).astype(np.uint32) << np.arange(bits, dtype=np.uint32)).sum(-1)
    code = code.astype(np.float32).astype(scale.dtype).reshape(*scale.shape, group)
    return (code * scale[..., None] + bias[..., None]).reshape(*scale.shape[:-1], -1)


class Policy:
    """Bits, group and start, refused if they cannot be."""

    def __init__(self, bits, value_bits, group, start):
        widths = (2, 3, 4, 5, 6, 8)
        if bits is None:
            if value_bits is not None or start is not None:
                raise ValueError("what is to be quantized to nothing?")
        elif bits not in widths or (value_bits or bits) not in widths or group not in (32, 64, 128):
            raise ValueError("no such codes")
        if start is not None and start != "never" and start < 0:
            raise ValueError("a start below 0")
        self.bits, self.group, self.start = (bits, value_bits or bits), group, start

    @property
    def always(self):
        return self.bits[0] is not None and self.start is None

    def due(self, offset):
        return isinstance(self.start, int) and offset >= max(1, self.start)

    def check(self, keys, values):
        if self.bits[0] is not None and (keys.shape[-1] % self.group or values.shape[-1] % self.group):
            raise ValueError("heads of this size have no such groups")

    def encode(self, x, side):
        return quantize(x, self.bits[side], self.group)

    def decode(self, x, side):
        return dequantize(x, self.bits[side], self.group) if isinstance(x, tuple) else x


def joined(parts):
    """Columns one behind the other, of tensors or of triples."""
    if isinstance(parts[0], tuple):
        return tuple(np.concatenate(part, 2) for part in zip(*parts, strict=True))
    return np.concatenate(parts, 2)


def cut(x, start, stop):
    return tuple(part[:, :, start:stop].copy() for part in x) if isinstance(x, tuple) else x[:, :, start:stop].copy()


class Read:
    """What an append fetched, attended in float64: each query alone, under its row of the mask."""

    def __init__(self, keys, values, mask, policy):
        self.keys, self.values, self.mask, self.policy = keys, values, mask, policy

    def attend(self, queries, *, scale):
        keys = self.policy.decode(self.keys, 0)
        if queries.ndim != 4 or queries.dtype != keys.dtype or queries.shape[1] % keys.shape[1]:
            raise ValueError("queries that do not fit")
        if queries.shape[2] != self.mask.shape[0]:
            raise ValueError("another number of queries")
        ones = [slice(i, i + 1) for i in range(len(self.mask))]
        return np.concatenate([self.attend_alone(queries[:, :, i], self.mask[i], scale=scale) for i in ones], 2)

    def attend_alone(self, queries, mask, *, scale):
        keys, values = self.policy.decode(self.keys, 0), self.policy.decode(self.values, 1)
        times = queries.shape[1] // keys.shape[1]
        keys, values = (np.repeat(x.astype(np.float64), times, axis=1) for x in (keys, values))
        scores = queries.astype(np.float64) @ keys.swapaxes(-1, -2) * scale
        scores = np.where(mask, scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return (weights / weights.sum(-1, keepdims=True) @ values).astype(queries.dtype)


class Packed:
    """Keeps everything, without spare columns; appends told apart by name, known ones among them."""

    def __init__(self, bits=None, value_bits=None, group=64, start=None):
        self.policy = Policy(bits, value_bits, group, start)
        self.reset()

    def reset(self):
        self.offset, self.floor, self.planes = 0, 0, None
        self.affine = self.policy.always

    def clone(self):
        return copy.deepcopy(self)

    # What it says of itself.

    @property
    def storage(self):
        return "affine" if self.affine else "dense"

    @property
    def codes(self):
        return self.planes if self.affine else None

    def state(self):
        return {} if self.planes is None or self.affine else {"keys": self.planes[0], "values": self.planes[1]}

    @property
    def max_append(self):
        start = self.policy.start
        return start - self.offset if isinstance(start, int) and not self.affine and self.offset < start else None

    @property
    def nbytes(self):
        parts = [] if self.planes is None else [p for x in self.planes for p in (x if isinstance(x, tuple) else (x,))]
        return sum(part.nbytes for part in parts)

    # Appends.

    def append_decode(self, keys, values, *, window=None, as_array=True):
        if keys.shape[2:3] != (1,):
            raise ValueError("a decode appends one position")
        return self._append(keys, values, window)

    def append_window(self, keys, values, *, window=None, as_array=True):
        return self._append(keys, values, window)

    append_known = append_window

    def fetch_dense(self, keys, values):
        read = self._append(keys, values, None)
        return self.policy.decode(read.keys, 0), self.policy.decode(read.values, 1)

    def mask(self, length, *, phase, window=None, as_array=True):
        if length < 1 or (window is not None and window < 1):
            raise ValueError("no such mask")
        own, column = self.offset + np.arange(length)[:, None], np.arange(self.offset + length)
        return (column <= own) & (column > own - (window or self.offset + length))

    def _append(self, keys, values, window):
        self.check(keys, values)
        mask = self.mask(keys.shape[2], phase="window", window=window)
        new = [self.policy.encode(x, side) if self.affine else x.copy() for side, x in enumerate((keys, values))]
        self.planes = new if self.planes is None else [joined(pair) for pair in zip(self.planes, new, strict=True)]
        self.offset, self.like = self.offset + keys.shape[2], (keys[:, :, :0], values[:, :, :0])
        read = Read(*self.planes, mask, self.policy)
        self.settle()
        return read

    def check(self, keys, values):
        if keys.ndim != 4 or values.ndim != 4 or keys.shape[:3] != values.shape[:3] or keys.shape[2] < 1:
            raise ValueError("no keys and values")
        if self.planes is not None:
            for x, like in zip((keys, values), self.like, strict=True):
                same = x.shape[:2] == like.shape[:2] and x.shape[3] == like.shape[3]
                if not same or x.dtype != like.dtype:
                    raise ValueError("another shape or dtype")
        self.policy.check(keys, values)

    def settle(self):
        if not self.affine and self.policy.due(self.offset):
            self.convert()

    def convert(self):
        self.planes = [self.policy.encode(x, side) for side, x in enumerate(self.planes)]
        self.affine, self.floor = True, self.offset if self.policy.start else 0

    # Trims.

    def can_trim(self, n):
        return 0 <= n <= self.offset

    def trim(self, n):
        if not self.can_trim(operator.index(n)):
            raise ValueError("cannot trim so many")
        self.offset -= n
        self.planes = None if self.planes is None else [cut(x, 0, self.offset) for x in self.planes]
        return n


class Duck:
    """mlx-lm's interface over the same growing cache: ``update_and_fetch`` hands out codes once there are any."""

    def __init__(self, kv_bits=None, group_size=64, quantized_kv_start=None):
        self.inner = Packed(kv_bits, None, group_size, quantized_kv_start)

    offset = property(lambda self: self.inner.offset)
    storage = property(lambda self: self.inner.storage)
    floor = property(lambda self: self.inner.floor)
    max_append = property(lambda self: self.inner.max_append)
    keys = property(lambda self: None if self.inner.planes is None else self.inner.planes[0])
    values = property(lambda self: None if self.inner.planes is None else self.inner.planes[1])

    def update_and_fetch(self, keys, values):
        read = self.inner.append_window(keys, values)
        return read.keys, read.values

    def make_mask(self, N, window_size=None, return_array=False):
        return self.inner.mask(N, phase="window", window=window_size)

    def is_trimmable(self):
        return True

    def trim(self, n):
        return self.inner.trim(max(0, min(n, self.offset)))

    def reset(self):
        self.inner.reset()

    def clone(self):
        return copy.deepcopy(self)


class Restoring(Duck):
    """Holds codes from the first append on, and hands out what they stand for."""

    keys = values = None

    def __init__(self, bits, group=64):
        super().__init__(bits, group)

    def update_and_fetch(self, keys, values):
        return self.inner.fetch_dense(keys, values)


class CodedBook(Book):
    """A ring in temporal order whose book has a triple for each position and side."""

    def __init__(self, window, bits, group=64):
        self.policy = Policy(bits, None, group, None)
        super().__init__(window)

    storage = "affine"

    @property
    def nbytes(self):
        return sum(part.nbytes for kv in self.book.values() for x in kv for part in x)

    def check(self, keys, values):
        book, self.book = self.book, {}
        try:
            super().check(keys, values)
        finally:
            self.book = book
        if self.book:
            like = next(iter(self.book.values()))[0][1]
            fits = (keys.shape[0], keys.shape[1]) == like.shape[:2] and keys.dtype == values.dtype == like.dtype
            if not fits or (keys.shape[3], values.shape[3]) != self.widths:
                raise ValueError("another shape or dtype")
        self.policy.check(keys, values)

    def update_and_fetch(self, keys, values):
        self.check(keys, values)
        self.widths = keys.shape[3], values.shape[3]
        new, order = keys.shape[2], self.order(keys.shape[2])
        coded = [self.policy.encode(x, side) for side, x in enumerate((keys, values))]
        for i in range(new):
            self.book[self.offset + i] = tuple(cut(x, i, i + 1) for x in coded)
        self.offset += new
        fetched = tuple(joined([self.book[p][side] for p in order]) for side in (0, 1))
        self.forget()
        return fetched


# One fault each.


class ConvertsLate(Packed):
    """Converts when its offset is past the start."""

    def settle(self):
        if not self.affine and self.policy.due(self.offset - 1):
            self.convert()


class FloorIsTheStart(Packed):
    """Sets the floor to the start, wherever it converted."""

    def convert(self):
        super().convert()
        self.floor = self.policy.start


class QuantizesAgain(Packed):
    """Quantizes what it dequantized, when it is trimmed, by other groups in between."""

    def trim(self, n):
        answer = super().trim(n)
        if self.affine and n and self.offset:
            other = Policy(2, None, self.policy.group, None)
            lost = [other.decode(other.encode(self.policy.decode(x, s), s), s) for s, x in enumerate(self.planes)]
            self.planes = [self.policy.encode(x, side) for side, x in enumerate(lost)]
        return answer


class TurnsDense(Packed):
    """Takes a conversion back when it is trimmed below the start."""

    def trim(self, n):
        answer = super().trim(n)
        if self.affine and isinstance(self.policy.start, int) and self.offset < self.policy.start:
            self.planes = [self.policy.decode(x, side) for side, x in enumerate(self.planes)]
            self.affine, self.floor = False, 0
        return answer


class SwapsScalesAndBiases(Duck):
    """Hands out biases for scales."""

    def update_and_fetch(self, keys, values):
        fetched = super().update_and_fetch(keys, values)
        return tuple((x[0], x[2], x[1]) if isinstance(x, tuple) else x for x in fetched)


class RestoresWithoutBiases(Restoring):
    """Hands out scale times code."""

    def update_and_fetch(self, keys, values):
        read = self.inner.append_window(keys, values)
        bare = [(words, scale, np.zeros_like(bias)) for words, scale, bias in (read.keys, read.values)]
        return tuple(self.inner.policy.decode(x, side) for side, x in enumerate(bare))


class _Rounded(Read):
    def attend(self, queries, *, scale):
        keys, values = self.policy.decode(self.keys, 0), self.policy.decode(self.values, 1)
        times = queries.shape[1] // keys.shape[1]
        keys, values = np.repeat(keys, times, axis=1), np.repeat(values, times, axis=1)
        scores = (queries @ keys.swapaxes(-1, -2)).astype(np.float64) * scale
        scores = np.where(self.mask, scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True)).astype(queries.dtype)
        mixed = weights.astype(np.float64) @ values.astype(np.float64)
        return (mixed / weights.astype(np.float64).sum(-1, keepdims=True)).astype(queries.dtype)


class SpansInOnePiece(Packed):
    """Attends known appends in one piece, with weights rounded to the dtype, where a query alone rounds at the end."""

    def append_known(self, keys, values, *, window=None, as_array=True):
        read = self.append_window(keys, values, window=window)
        return _Rounded(read.keys, read.values, read.mask, read.policy)


RIGHT = (Packed, Duck, Restoring, CodedBook)
FAULTS = {
    ConvertsLate: {"PREC-1"},
    FloorIsTheStart: {"PREC-5"},
    QuantizesAgain: {"PREC-7"},
    TurnsDense: {"PREC-6"},
    SwapsScalesAndBiases: {"READ-10"},
    RestoresWithoutBiases: {"READ-14"},
}
