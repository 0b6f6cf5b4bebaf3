# ruff: noqa: PGH003
# type: ignore # foreign code has no types
"""Right caches over real buffers: growing ones of three ways to allocate, and a ring that writes in place."""

import copy
from operator import index

import numpy as np


def fits(keys, values, like):
    """Refuse what does not fit, before anything changes."""
    if keys.ndim != 4 or values.ndim != 4 or keys.shape[:3] != values.shape[:3] or keys.shape[2] < 1:
        raise ValueError("no keys and values")
    for new, old in zip((keys, values), like or (), strict=False):
        if new.shape[:2] != old.shape[:2] or new.shape[3] != old.shape[3] or new.dtype != old.dtype:
            raise ValueError("another shape or dtype")


class Exact:
    """Allocates exactly what it holds; no masks; trims by slicing; clamps."""

    def __init__(self):
        self.planes = None

    @property
    def offset(self):
        return 0 if self.planes is None else self.planes[0].shape[2]

    def update_and_fetch(self, keys, values):
        fits(keys, values, self.planes)
        old = self.planes or (keys[:, :, :0], values[:, :, :0])
        self.planes = tuple(np.concatenate(pair, 2) for pair in zip(old, (keys, values), strict=True))
        return self.planes

    def trim(self, n):
        n = max(0, min(n, self.offset))
        if n:
            left = self.offset - n
            self.planes = tuple(x[:, :, :left] for x in self.planes) if left else None
        return n

    def clone(self):
        return copy.copy(self)


class Doubling:
    """Doubles its buffer; hands out copies; mlx-lm's way to say what can be trimmed; shows bytes and state."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.offset, self.buffers = 0, None

    @property
    def nbytes(self):
        return sum(x.nbytes for x in self.buffers) if self.buffers else 0

    @property
    def state(self):
        return tuple(x[:, :, : self.offset].copy() for x in self.buffers or ())

    def make_mask(self, N, window_size=None, return_array=False):
        if N < 1 or (window_size is not None and window_size < 1):
            raise ValueError("no such mask")
        own, column = np.arange(self.offset, self.offset + N)[:, None], np.arange(self.offset + N)
        reach = self.offset + N if window_size is None else window_size
        return (column <= own) & (own - column < reach)

    def update_and_fetch(self, keys, values):
        fits(keys, values, self.buffers)
        end = self.offset + keys.shape[2]
        size = self.buffers[0].shape[2] if self.buffers else 0
        if end > size:
            size = max(2 * size, end, 4)
            bigger = [np.full((*x.shape[:2], size, x.shape[3]), 3.0, x.dtype) for x in (keys, values)]
            for new, old in zip(bigger, self.buffers or (), strict=False):
                new[:, :, : self.offset] = old[:, :, : self.offset]
            self.buffers = bigger
        for buffer, new in zip(self.buffers, (keys, values), strict=True):
            buffer[:, :, self.offset : end] = new
        self.offset = end
        return tuple(x[:, :, :end].copy() for x in self.buffers)

    def is_trimmable(self):
        return True

    def trim(self, n):
        if not 0 <= n <= self.offset:
            raise ValueError("cannot trim so many")
        self.offset -= n
        return n

    def clone(self):
        return copy.deepcopy(self)


class Paged:
    """Keeps pages of 16 columns, which clones share until one of them writes; a fetch puts the pages together."""

    page = 16

    def __init__(self):
        self.offset, self.pages = 0, []

    def make_mask(self, N):
        return None if N == 1 else "causal"

    def update_and_fetch(self, keys, values):
        fits(keys, values, self.pages[0] if self.pages else None)
        for i in range(keys.shape[2]):
            number, place = divmod(self.offset, self.page)
            if number == len(self.pages):
                self.pages.append(
                    tuple(np.zeros((*x.shape[:2], self.page, x.shape[3]), x.dtype) for x in (keys, values))
                )
            else:
                self.pages[number] = tuple(x.copy() for x in self.pages[number])  # copy on write
            for plane, new in zip(self.pages[number], (keys, values), strict=True):
                plane[:, :, place] = new[:, :, i]
            self.offset += 1
        return tuple(np.concatenate(side, 2)[:, :, : self.offset] for side in zip(*self.pages, strict=True))

    def can_trim(self, n):
        return 0 <= n <= self.offset

    def trim(self, n):
        if not self.can_trim(index(n)):
            raise ValueError("cannot trim so many")
        self.offset -= n
        self.pages = self.pages[: -(-self.offset // self.page)]
        return n

    def clone(self):
        twin = Paged()
        twin.offset, twin.pages = self.offset, list(self.pages)
        return twin


class InPlace:
    """A ring of W columns that decodes write in place: the others rotate in front, the sinks stand at the end.

    A window append unrolls into the fetch and writes its newest positions back.
    """

    def __init__(self, window, sinks=0):
        if not (window >= 1 and 0 <= sinks < window):
            raise ValueError("no such ring")
        self.window, self.sinks, self.others = window, sinks, window - sinks
        self.offset, self.buffers = 0, None
        self.positions = np.full(window, -1)

    @property
    def nbytes(self):
        return sum(x.nbytes for x in self.buffers) if self.buffers else 0

    def column(self, position):
        if position < self.sinks:
            return self.others + position
        return (position - self.sinks) % self.others

    def _write(self, keys, values):
        if self.buffers is None:
            self.buffers = [np.zeros((*x.shape[:2], self.window, x.shape[3]), x.dtype) for x in (keys, values)]
        for i in range(keys.shape[2]):
            column = self.column(self.offset)
            for buffer, new in zip(self.buffers, (keys, values), strict=True):
                buffer[:, :, column] = new[:, :, i]
            self.positions[column] = self.offset
            self.offset += 1

    def _past(self):
        held = np.flatnonzero(self.positions >= 0)
        return held, self.positions[held]

    def _layout(self, new):
        """The positions of the fetch of the next append."""
        if new == 1:
            after = self.positions.copy()
            after[self.column(self.offset)] = self.offset
            return after[after >= 0]
        return np.concatenate([self._past()[1], np.arange(self.offset, self.offset + new)])

    def make_mask(self, N, window_size=None, return_array=False):
        window = self.window if window_size is None else min(window_size, self.window)
        if N < 1 or window < 1 or (self.sinks and window < self.window):
            raise ValueError("no such mask")
        q, k = self.offset + np.arange(N)[:, None], self._layout(N)[None]
        return (k <= q) & ((q < window) | (k < self.sinks) | (q - k < window - self.sinks))

    def update_and_fetch(self, keys, values):
        fits(keys, values, self.buffers)
        if keys.shape[2] == 1:
            self._write(keys, values)
            held = self._past()[0]
            return tuple(x[:, :, held] for x in self.buffers)
        held = self._past()[0]
        old = [x[:, :, held] for x in self.buffers] if self.buffers else (keys[:, :, :0], values[:, :, :0])
        fetched = tuple(np.concatenate(pair, 2) for pair in zip(old, (keys, values), strict=True))
        self._write(keys, values)
        return fetched

    def can_trim(self, n):
        return 0 <= n <= (self.offset if self.offset <= self.window else 0)

    def trim(self, n):
        if not self.can_trim(n):
            raise ValueError("cannot trim so many")
        self.offset -= n
        self.positions[self.positions >= self.offset] = -1
        return n

    def clone(self):
        return copy.deepcopy(self)


FULLS = (Exact, Doubling, Paged)
