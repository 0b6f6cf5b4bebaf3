# ruff: noqa: PGH003
# type: ignore # foreign code has no types
"""A growing NumPy cache with decode and window told apart by name, and attention of its own in float64."""

import numpy as np


class Read:
    def __init__(self, keys, values, mask):
        self.keys, self.values, self.mask = keys, values, mask

    def attend(self, queries, *, scale):
        groups = queries.shape[1] // self.keys.shape[1]
        keys, values = (np.repeat(x.astype(np.float64), groups, axis=1) for x in (self.keys, self.values))
        scores = queries.astype(np.float64) @ keys.swapaxes(-1, -2) * scale
        length, width = scores.shape[-2:]
        seen = np.arange(width) <= np.arange(width - length, width)[:, None]
        scores = np.where(seen, scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return (weights / weights.sum(-1, keepdims=True) @ values).astype(self.keys.dtype)


class Named:
    def __init__(self):
        self.columns = []

    @property
    def offset(self):
        return len(self.columns)

    def append_decode(self, keys, values):
        if keys.shape[2] != 1:
            raise ValueError("a decode appends one position")
        return self._append(keys, values, None)

    def append_window(self, keys, values):
        return self._append(keys, values, "causal")

    def _append(self, keys, values, mask):
        new = [(keys[:, :, i : i + 1].copy(), values[:, :, i : i + 1].copy()) for i in range(keys.shape[2])]
        whole = self.columns + new
        read = Read(np.concatenate([k for k, _ in whole], 2), np.concatenate([v for _, v in whole], 2), mask)
        self.columns = whole
        return read

    def trim(self, n):
        if not 0 <= n <= len(self.columns):
            raise ValueError(f"{n} of {len(self.columns)}")
        self.columns = self.columns[: len(self.columns) - n]
        return n

    def can_trim(self, n):
        return 0 <= n <= len(self.columns)
