# ruff: noqa: PGH003
# type: ignore # foreign code has no types
"""Foreign caches on NumPy arrays with mlx-lm's duck type: one of each kind that keeps the law, and near misses."""

import numpy as np


class Growing:
    """Keeps everything; builds no masks, cannot be trimmed, cloned or reset."""

    def __init__(self):
        self.offset = 0
        self._keys = self._values = None

    def update_and_fetch(self, keys, values):
        if self._keys is None:
            self._keys, self._values = keys.copy(), values.copy()
        else:
            self._keys = np.concatenate([self._keys, keys], axis=2)
            self._values = np.concatenate([self._values, values], axis=2)
        self.offset += keys.shape[2]
        return self._keys.copy(), self._values.copy()


class Transposed(Growing):
    """Keeps everything, and lays its planes out as ``[B, columns, H, D]``."""

    @property
    def keys(self):
        return None if self._keys is None else self._keys.swapaxes(1, 2)

    @property
    def values(self):
        return None if self._values is None else self._values.swapaxes(1, 2)


class Ring:
    """Keeps the newest ``max_size`` positions in temporal order."""

    def __init__(self, max_size):
        if max_size < 1:
            raise ValueError(f"a ring of {max_size}")
        self.max_size = max_size
        self.reset()

    def reset(self):
        self.offset = 0
        self.keys = self.values = None

    def make_mask(self, N, window_size=None, return_array=False):
        width = min(self.offset, self.max_size - 1) + N
        reach = min(self.max_size, window_size or self.max_size)
        own, column = np.arange(width - N, width)[:, None], np.arange(width)
        mask = (column <= own) & (column > own - reach)
        return None if mask.all() and not return_array else mask

    def update_and_fetch(self, keys, values):
        old = min(self.offset, self.max_size - 1)
        if self.keys is None:
            fetched = keys.copy(), values.copy()
        else:
            start = self.keys.shape[2] - old
            fetched = (
                np.concatenate([self.keys[:, :, start:], keys], axis=2),
                np.concatenate([self.values[:, :, start:], values], axis=2),
            )
        self.keys, self.values = fetched
        self.offset += keys.shape[2]
        return fetched[0].copy(), fetched[1].copy()

    def is_trimmable(self):
        return self.offset < self.max_size

    def trim(self, n):
        if not self.is_trimmable() or not 0 <= n <= self.offset:
            return 0
        held = self.offset - n
        self.keys, self.values = (None, None) if held == 0 else (self.keys[:, :, :held], self.values[:, :, :held])
        self.offset = held
        return n

    def clone(self):
        twin = Ring(self.max_size)
        twin.offset, twin.keys, twin.values = self.offset, self.keys, self.values
        return twin

    @property
    def nbytes(self):
        return 0 if self.keys is None else self.keys.nbytes + self.values.nbytes


class MasklessRing(Ring):
    """The same ring, which leaves masks to the runtime."""

    make_mask = None


class ForgetfulRing(Ring):
    """Near miss: keeps one position too few."""

    def __init__(self, max_size):
        super().__init__(max(1, max_size - 1))


class SharingRing(Ring):
    """Near miss: hands out its own planes and overwrites them in place."""

    def update_and_fetch(self, keys, values):
        if keys.shape[2] == 1 and self.keys is not None and self.keys.shape[2] == self.max_size:
            for plane, new in ((self.keys, keys), (self.values, values)):
                plane[:, :, :-1] = plane[:, :, 1:].copy()
                plane[:, :, -1:] = new
            self.offset += 1
        else:
            super().update_and_fetch(keys, values)
        return self.keys, self.values


def make(kind, window=7, head_dim=0, value_dim=0, kv_heads=0, batch=0, dtype=None):
    """A factory of both kinds, which remembers what it was asked for."""
    cache = Growing() if kind == "full" else Ring(window)
    cache.asked = (kind, window, head_dim, value_dim, kv_heads, batch, dtype)
    return cache
