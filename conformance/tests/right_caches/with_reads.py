# ruff: noqa: PGH003
# type: ignore # foreign code has no types
"""Right caches that answer reads: one that shows nothing but outputs, one without masks, two with named appends."""

import ml_dtypes
import numpy as np
from by_position import Book

from kvlaw.conformance import Adapter
from kvlaw.conformance.interface import UNSHOWN
from kvlaw.reference.numerics import attend
from kvlaw.spec.observations import StateView

NAMES = {np.dtype(ml_dtypes.bfloat16): "bf16", np.dtype(np.float16): "f16", np.dtype(np.float32): "f32"}


def bits(array):
    copy = np.array(array, order="C")
    return copy if copy.dtype == np.bool_ else copy.view(np.uint32 if copy.itemsize == 4 else np.uint16)


class Read:
    """Keys, values and a mask of its own, and their attention."""

    def __init__(self, keys, values, mask):
        self.keys, self.values, self.mask = keys, values, mask

    def attend(self, queries, *, scale):
        if queries.ndim != 4 or queries.dtype != self.keys.dtype or queries.shape[1] % self.keys.shape[1]:
            raise ValueError("queries that do not fit")
        name = NAMES[queries.dtype]
        out = attend(bits(queries), bits(self.keys), bits(self.values), scale=scale, mask=self.mask, dtype=name)
        return out.view(queries.dtype)


class Named(Book):
    """A ring with named appends: a window append of one position is what a decode is, but masked as an array."""

    def append_decode(self, keys, values, *, window=None, as_array=False):
        if keys.shape[2:3] != (1,):
            raise ValueError("a decode appends one position")
        return self._append(keys, values, window, as_array)

    def append_window(self, keys, values, *, window=None, as_array=False):
        return self._append(keys, values, window, True)

    def _append(self, keys, values, window, as_array):
        self.check(keys, values)
        mask = self.make_mask(keys.shape[2], window, as_array)
        return Read(*self.update_and_fetch(keys, values), mask)

    def mask(self, length, *, phase, window=None, as_array=False):
        return self.make_mask(length, window, as_array or phase == "window")


class Holey(Named):
    """Fetches columns that no mask shows, full of huge numbers and of what was trimmed long ago."""

    def __init__(self, window, sinks=0):
        super().__init__(window, sinks)
        self.gone = []

    def drop(self, n):
        self.gone = [self.book[p] for p in sorted(self.book) if p >= self.offset - n][:3] or self.gone
        return super().drop(n)

    def append_decode(self, keys, values, *, window=None, as_array=False):
        return self._holes(super().append_decode(keys, values, window=window, as_array=True))

    def append_window(self, keys, values, *, window=None, as_array=False):
        return self._holes(super().append_window(keys, values, window=window, as_array=True))

    def _holes(self, read):
        gone, parts = self.gone, []
        for side, x in enumerate((read.keys, read.values)):
            huge = np.full((*x.shape[:2], 2, x.shape[3]), 6e4, x.dtype)
            stale = [column[side][:, :, None] for column in gone]
            parts.append(np.concatenate([huge, x[:, :, :1], *stale, x[:, :, 1:], huge], 2))
        length, dead = read.mask.shape[0], np.zeros
        mask = [dead((length, 2)), read.mask[:, :1], dead((length, len(gone))), read.mask[:, 1:], dead((length, 2))]
        return Read(*parts, np.concatenate(mask, 1).astype(bool))

    def mask(self, length, *, phase, window=None, as_array=False):
        live, gone = super().mask(length, phase=phase, window=window, as_array=True), len(self.gone)
        dead = np.zeros
        mask = [dead((length, 2)), live[:, :1], dead((length, gone)), live[:, 1:], dead((length, 2))]
        return np.concatenate(mask, 1).astype(bool)


class Numpy(Adapter):
    """What the adapters below share: NumPy arrays."""

    cache = Book
    kinds = ("ring",)

    def build(self, layer):
        return self.cache(layer.window, layer.sinks)

    def tensor(self, bits, dtype):
        dtypes = {name: kind for kind, name in NAMES.items()}
        return np.array(bits, order="C").view(dtypes[dtype])

    def bits(self, array):
        return bits(array)

    def poison(self, array):
        array[...] = 77.0

    def append(self, cache, keys, values, phase, window, array):
        if phase == "decode" and keys.shape[2:3] != (1,):
            raise ValueError("a decode appends one position")
        cache.check(keys, values)
        mask = cache.make_mask(keys.shape[2], window)
        return Read(*cache.update_and_fetch(keys, values), mask)

    def trim(self, cache, n, bypass):
        return cache.trim(n)

    def clone(self, cache):
        return cache.clone()

    def reset(self, cache):
        cache.reset()


class OutputsOnly(Numpy):
    """Shows what its reads attend to and the offset, and nothing else."""

    capabilities = frozenset({"attend", "phases", "window_argument", "trim", "clone", "reset", "sinks"})

    def fetched(self, read):
        return None

    def attend(self, read, queries, scale):
        return read.attend(queries, scale=scale)

    def show(self, cache):
        return StateView(offset=cache.offset)


class Blind(OutputsOnly):
    """Shows not even the offset, and trims without an answer."""

    def trim(self, cache, n, bypass):
        cache.trim(n)

    def show(self, cache):
        return StateView()


class FetchesOnly(Numpy):
    """Shows keys and values, no masks and no outputs: a decode's query sees the whole fetch."""

    capabilities = frozenset({"trim", "can_trim", "clone", "reset"})

    class cache(Book):  # noqa: N801  # stands for the attribute
        def order(self, new):
            oldest = self.offset - (self.window - self.sinks) + 1
            line = super().order(new)
            return [p for p in line if self.offset < self.window or p >= oldest or p < self.sinks]

    def fetched(self, read):
        return read.keys, read.values

    def show(self, cache):
        flags = tuple(cache.can_trim(n) for n in range(cache.offset + 2))
        return StateView(offset=cache.offset, can_trim=flags)


class NoMask(Numpy):
    """Shows keys, values and outputs, but no mask."""

    capabilities = frozenset({"attend", "phases", "trim", "clone", "reset", "sinks"})

    def fetched(self, read):
        return read.keys, read.values

    def read_mask(self, read):
        return UNSHOWN

    def attend(self, read, queries, scale):
        return read.attend(queries, scale=scale)

    def show(self, cache):
        return StateView(offset=cache.offset)


ADAPTERS = (OutputsOnly, Blind, FetchesOnly, NoMask)
NAMED = (Named, Holey)
