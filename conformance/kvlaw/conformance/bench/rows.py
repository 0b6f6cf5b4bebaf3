"""Groups of rows beside mlx-lm's ``BatchKVCache`` and ``BatchRotatingKVCache``: decodes, and rows that come and go.

Rows have different lengths and one always lies behind left padding, so that both sides need an array mask in every
step.  A step asks for that mask once for all layers, and in each layer for the positions that a model rotates by, and
appends, as mlx-lm's models do; mask and positions are evaluated on both sides.  Every round begins again with groups
merged from the same serial caches, with one step that is not timed, in which either side lays out its columns to grow.

Without attention a step stops there, and what counts is the time to build its graph.  A ``Moving`` step merges four
serial caches, extracts one row of four, or filters four rows to three, in all 16 layers, and evaluates what all of them
then hold.  Its ``memory kept`` are the bytes that stay once all that the rows came from is dropped.
"""

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Any, Literal

import attrs
import mlx.core as mx
from mlx_lm.models.cache import BatchKVCache, BatchRotatingKVCache, KVCache, RotatingKVCache

from kvlaw.conformance.bench.cases import (
    LAYERS,
    SCALE,
    WINDOW,
    Runner,
    Who,
    attend,
    evaluate,
    itself,
    tokens,
)
from kvlaw.mlx_impl import Cache, make
from kvlaw.mlx_impl.groups import RowGroup, merge
from kvlaw.mlx_impl.mlx_lm import DropIn
from kvlaw.mlx_impl.reads import Read

GROWING = (200, 130, 170, 90)
EARLY = (60, 44, 52, 30)
WRAPPED = (300, 200, 150, 20)
"""Positions that rows hold: of a growing group, of a ring that has not wrapped, of one that has."""


@attrs.frozen
class Decoding:
    """Decodes of rows that hold ``lengths`` positions; ``attends`` says whether a step attends."""

    name: str
    lengths: tuple[int, ...]
    window: int | None
    attends: bool = True
    steps: int = 8

    def tokens(self) -> mx.array:
        """Draw one token per row."""
        return tokens(1, len(self.lengths))

    def runner(self, who: Who) -> Runner:
        """Make groups of 16 layers, again at the begin of each round."""
        rows = serial_rows(who, self.lengths, self.window)
        groups: list[Any] = []
        step, arrays = decoder(who, groups, self.window, attends=self.attends)

        def rewind() -> None:
            groups[:] = [_MERGES[who](rows) for _ in range(LAYERS)]
            evaluate(arrays(step(self.tokens())))

        return Runner(step, rewind=rewind, arrays=arrays)


Act = Literal["merge", "extract", "filter"]


@attrs.frozen
class Moving:
    """Rows that join or leave, in 16 layers; groups that they leave have decoded twice since they were merged."""

    name: str
    act: Act
    lengths: tuple[int, ...]
    window: int | None
    steps: int

    def tokens(self) -> mx.array:
        """Draw one token per row."""
        return tokens(1, len(self.lengths))

    def runner(self, who: Who) -> Runner:
        """Make what rows are taken from."""
        layers = [serial_rows(who, self.lengths, self.window) for _ in range(LAYERS)]
        if self.act == "merge":
            join = _MERGES[who]
            return Runner(lambda _: [join(layer) for layer in layers], arrays=_contents)
        groups = self._groups(who, layers)
        if self.act == "extract":
            return Runner(lambda _: [group.extract(EXTRACTED) for group in groups], arrays=_contents)
        return _filtering(groups)

    def _groups(self, who: Who, layers: Sequence[Sequence[Any]]) -> list[Any]:
        groups = [_MERGES[who](layer) for layer in layers]
        step, arrays = decoder(who, groups, self.window, attends=False)
        for _ in range(2):
            evaluate(arrays(step(self.tokens())))
        return groups


EXTRACTED = 1
KEPT = [0, 2, 3]

_STATES: tuple[tuple[str, tuple[int, ...], int | None], ...] = (
    ("growing", GROWING, None),
    ("ring, early", EARLY, WINDOW),
    ("ring, wrapped", WRAPPED, WINDOW),
)
DECODES = tuple(
    Decoding(f"{rows} rows, {name}", lengths * (rows // 4), window)
    for rows in (4, 16)
    for name, lengths, window in _STATES
)
BOOKKEEPING = tuple(attrs.evolve(case, attends=False) for case in DECODES)
_ACTS: tuple[tuple[str, Act, int], ...] = (
    ("merge of 4", "merge", 4),
    ("extract", "extract", 16),
    ("filter 4 to 3", "filter", 8),
)
MOVES = tuple(
    Moving(f"{title}, {name}", act, lengths, window, steps)
    for title, act, steps in _ACTS
    for name, lengths, window in (("growing", GROWING, None), ("ring", WRAPPED, WINDOW))
)


# -- caches ----------------------------------------------------------------------------------------------------------


def serial_rows(who: Who, lengths: tuple[int, ...], window: int | None) -> list[Any]:
    """Make one serial cache per row, with its prompt but one token in a block, and then that token."""
    caches = [_MAKERS[who](window) for _ in lengths]
    for cache, length in zip(caches, lengths, strict=True):
        for part in (tokens(length - 1), tokens(1)):
            evaluate(_append(cache, part))
    return caches


def _append(cache: Any, x: mx.array) -> Any:
    fetch = cache.update_and_fetch if hasattr(cache, "update_and_fetch") else cache.fetch_dense
    return fetch(x, x)


def _native(window: int | None) -> Any:
    return make("ring" if window else "full", window)


def _theirs(window: int | None) -> Any:
    return RotatingKVCache(window) if window else KVCache()


def _join(caches: Sequence[Any]) -> Any:
    kind: Any = BatchRotatingKVCache if isinstance(caches[0], RotatingKVCache) else BatchKVCache
    return kind.merge(caches)


_MAKERS: dict[Who, Callable[[int | None], Any]] = {
    "ours": _native,
    "drop-in": lambda window: DropIn(_native(window)),
    "theirs": _theirs,
    "again": _theirs,
}
_MERGES: dict[Who, Callable[[Sequence[Any]], Any]] = {
    "ours": merge,
    "drop-in": DropIn.merge,
    "theirs": _join,
    "again": _join,
}


# -- steps -----------------------------------------------------------------------------------------------------------

Step = Callable[[mx.array], Any]


def decoder(who: Who, groups: list[Any], window: int | None, *, attends: bool) -> tuple[Step, Callable[[Any], Any]]:
    """Return a step of ``groups``, and what to evaluate of its output."""
    if who == "ours":
        return _native_step(groups, attends=attends), _read
    return _duck_step(groups, window, attends=attends), itself


def _native_step(groups: list[RowGroup], *, attends: bool) -> Step:
    """Decode with our groups: mask and columns come in one read."""

    def step(x: mx.array) -> Any:
        below, positions, reads = x, list[mx.array](), list[Read]()
        for group in groups:
            positions.append(group.positions)
            read = group.append_decode(x, below)
            if attends:
                x, below = read.attend(x, scale=SCALE), x
            else:
                reads.append(read)
        return x, positions, reads

    return step


def _read(output: Any) -> Any:
    x, positions, reads = output
    return x, positions, [(read.keys, read.values, read.mask) for read in reads]


def _duck_step(groups: list[Any], window: int | None, *, attends: bool) -> Step:
    """Decode as mlx-lm's models do."""

    def step(x: mx.array) -> Any:
        below, positions, fetched = x, list[mx.array](), list[Any]()
        mask = groups[0].make_mask(1, return_array=False, window_size=window)
        for group in groups:
            positions.append(group.offset)
            keys, values = group.update_and_fetch(x, below)
            if attends:
                x, below = attend(x, keys, values, cache=group, scale=SCALE, mask=mask), x
            else:
                fetched.append((keys, values))
        return x, mask, positions, fetched

    return step


def _filtering(groups: list[Any]) -> Runner:
    """Filter copies: none of them writes into what it shares with the others."""
    copies: list[Any] = []

    def undo() -> None:
        copies[:] = map(copy, groups)

    def step(_: mx.array) -> list[Any]:
        for group in copies:
            group.filter(KEPT)
        return copies

    undo()
    return Runner(step, undo, arrays=_contents)


def _contents(caches: list[Any]) -> list[mx.array]:
    """Return all arrays that caches hold."""
    return [part for cache in caches for part in _parts(cache) if isinstance(part, mx.array)]


def _parts(cache: Any) -> Iterable[Any]:
    return cache.state().values() if isinstance(cache, Cache | RowGroup) else cache.state
