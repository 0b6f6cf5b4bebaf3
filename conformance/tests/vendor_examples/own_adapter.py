# ruff: noqa: PGH003
# type: ignore # foreign code has no types
"""A cache with an interface of its own (one list of tokens), and the adapter that its vendor wrote."""

import numpy as np

from kvlaw.conformance import Adapter
from kvlaw.spec.observations import StateView


class Tape:
    def __init__(self):
        self.tokens = []

    def push(self, pairs):
        self.tokens += pairs
        return list(self.tokens), len(pairs)


class TapeAdapter(Adapter):
    capabilities = frozenset({"size", "clone"})
    kinds = ("full",)

    def build(self, layer):
        return Tape()

    def tensor(self, bits, dtype):
        return [bits[:, :, i].copy() for i in range(bits.shape[2])]

    def bits(self, array):
        return np.stack(array, axis=2)

    def append(self, cache, keys, values, phase, window, array):
        return cache.push(list(zip(keys, values, strict=True)))

    def fetched(self, read):
        return [k for k, _ in read[0]], [v for _, v in read[0]]

    def read_mask(self, read):
        return None if read[1] == 1 else "causal"

    def clone(self, cache):
        twin = Tape()
        twin.tokens = list(cache.tokens)
        return twin

    def show(self, cache):
        return StateView(offset=len(cache.tokens), size=len(cache.tokens))


tape = TapeAdapter()
