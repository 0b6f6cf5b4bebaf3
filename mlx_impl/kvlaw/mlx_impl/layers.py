"""Lists of caches, one per layer: a call checks every layer first, then acts on all or on none.

The layers of a model stand at the same offset; what can be done to a list is what can be done to each of them.  A
model that moves its layers by itself and fails halfway leaves those of an open round apart: then nothing but a roll
back, to what every layer has, is carried out.  A list may hold recurrent layers beside the others: they have all of a
``Layer`` but appends, which models make by themselves.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self, TypeVar

import mlx.core as mx

from kvlaw.mlx_impl.caches import Cache
from kvlaw.mlx_impl.compiled_append import append_compiled as append_one
from kvlaw.mlx_impl.counts import as_count
from kvlaw.mlx_impl.errors import ConfigError, RoundError
from kvlaw.mlx_impl.reads import Read
from kvlaw.spec.cite import clause


class Layer(Protocol):
    """What every layer of a list does, whatever it holds."""

    @property
    def offset(self) -> int:
        """Return the position of the next token."""
        ...

    @property
    def nbytes(self) -> int:
        """Return the bytes that it holds."""
        ...

    @property
    def in_round(self) -> bool:
        """Say whether a round is open."""
        ...

    @property
    def due(self) -> bool:
        """Say whether it is to be converted."""
        ...

    @property
    def max_append(self) -> int | None:
        """Return how many positions make it due; None: unbounded."""
        ...

    def settle(self) -> bool:
        """Convert it if it is due, and say whether it was."""
        ...

    def can_trim(self, n: int) -> bool:
        """Say whether its newest ``n`` positions can be dropped."""
        ...

    def trim(self, n: int, *, bypass: bool = False) -> int:
        """Drop its newest ``n`` positions, or refuse."""
        ...

    def begin_round(self) -> None:
        """Open a round."""
        ...

    def commit_round(self) -> None:
        """Close the round and keep all of it."""
        ...

    def roll_back(self, keep: int) -> None:
        """Close the round and keep its first ``keep`` positions."""
        ...

    def clone(self) -> Self:
        """Return an independent copy."""
        ...

    def become(self, other: Any) -> None:
        """Take over the state of its like."""
        ...

    def reset(self) -> None:
        """Return to the constructed, empty state."""
        ...

    def state(self) -> dict[str, mx.array | int]:
        """Return its arrays and integers by name."""
        ...


LayerT = TypeVar("LayerT", bound=Layer)

Pairs = Sequence[tuple[mx.array, mx.array]]
"""Keys and values of an append, per layer."""


@clause("ERR-8", "POS-7")
def append_decode(
    caches: Sequence[Cache], pairs: Pairs, *, window: int | None = None, as_array: bool = False
) -> list[Read]:
    """Append one position per row to every layer, or to none, and return the read of each layer.

    Raises:
        CacheError: if one layer refuses; then no layer has changed.
        ConfigError: if there is not one pair per layer, or a cache is in the list twice.
    """
    return _append(caches, pairs, lambda cache, pair: cache.append_decode(*pair, window=window, as_array=as_array))


@clause("ERR-8", "POS-7")
def append_window(
    caches: Sequence[Cache], pairs: Pairs, *, window: int | None = None, as_array: bool = False
) -> list[Read]:
    """Append L >= 1 positions per row to every layer, or to none, and return the read of each layer.

    Raises:
        CacheError: if one layer refuses; then no layer has changed.
        ConfigError: if there is not one pair per layer, or a cache is in the list twice.
    """
    return _append(caches, pairs, lambda cache, pair: cache.append_window(*pair, window=window, as_array=as_array))


@clause("ERR-8", "POS-7", "READ-12")
def append_known(
    caches: Sequence[Cache], pairs: Pairs, *, window: int | None = None, as_array: bool = False
) -> list[Read]:
    """Append L >= 1 decided positions per row to every layer, or to none, and return the read of each layer.

    Raises:
        CacheError: if one layer refuses; then no layer has changed.
        ConfigError: if there is not one pair per layer, or a cache is in the list twice.
    """
    return _append(caches, pairs, lambda cache, pair: cache.append_known(*pair, window=window, as_array=as_array))


@clause("ERR-8", "DEC-1")
def append_compiled(
    caches: Sequence[Cache], pairs: Pairs, *, window: int | None = None, as_array: bool = False
) -> list[Read]:
    """Decode one position per row of every layer by a compiled write, or of none, and return the read of each layer.

    Raises:
        CacheError: if one layer refuses; then no layer has changed.
        ConfigError: if there is not one pair per layer, or a cache is in the list twice.
    """
    return _append(caches, pairs, lambda cache, pair: append_one(cache, *pair, window=window, as_array=as_array))


def _append(
    caches: Sequence[Cache], pairs: Pairs, append: Callable[[Cache, tuple[mx.array, mx.array]], Read]
) -> list[Read]:
    """Append to clones; the layers become their clones once all have accepted."""
    _once_each(caches)
    _refuse_apart(caches, "an append")
    if len(pairs) != len(caches):
        raise ConfigError(f"{len(pairs)} appends to {len(caches)} layers", "one per layer is needed", "ERR-8")
    twins = clone(caches)
    reads = [append(twin, pair) for twin, pair in zip(twins, pairs, strict=True)]
    for cache, twin in zip(caches, twins, strict=True):
        cache.become(twin)
    return reads


def offset(caches: Sequence[Layer]) -> int:
    """Return the offset that every layer has reached: the least of them, 0 for an empty list."""
    return min((cache.offset for cache in caches), default=0)


def nbytes(caches: Sequence[Layer]) -> int:
    """Return the allocated bytes of all layers."""
    return sum(cache.nbytes for cache in caches)


@clause("TRIM-14")
def can_trim(caches: Sequence[Layer], n: int) -> bool:
    """Say whether every layer can drop its newest ``n`` positions."""
    return all(cache.can_trim(n) for cache in caches)


@clause("TRIM-13", "ERR-8", "POS-7")
def trim(caches: Sequence[Layer], n: int, *, bypass: bool = False) -> int:
    """Drop the newest ``n`` positions of every layer, or of none, and return how many every layer dropped.

    Raises:
        CountError: if ``n`` is negative or no integer.
        TrimError: if one layer cannot; then no layer has changed.
        ConfigError: if a cache is in the list twice.
    """
    count = as_count(n, "trim of", "ERR-5")
    _once_each(caches)
    for cache in caches:
        cache.clone().trim(count, bypass=bypass)  # a clone shares the planes: refusals come before any change
    return min((cache.trim(count, bypass=bypass) for cache in caches), default=0)


@clause("ROUND-12")
def begin_round(caches: Sequence[Layer]) -> None:
    """Open a round of every layer, or of none.

    Raises:
        RoundError: if one is open in one layer; then no layer has changed.
        ConfigError: if a cache is in the list twice.
    """
    _act(caches, lambda cache: cache.begin_round())


@clause("ROUND-12")
def commit_round(caches: Sequence[Layer]) -> None:
    """Close the round of every layer and keep all of it.

    Raises:
        RoundError: if none is open in one layer, or some have more of it than others; then no layer has changed.
        ConfigError: if a cache is in the list twice.
    """
    _refuse_apart(caches, "a commit")
    _act(caches, lambda cache: cache.commit_round())


@clause("ROUND-12")
def roll_back(caches: Sequence[Layer], keep: int) -> None:
    """Close the round of every layer and keep its first ``keep`` positions.

    Raises:
        RoundError: if one layer refuses; then no layer has changed.
        ConfigError: if a cache is in the list twice.
    """
    _act(caches, lambda cache: cache.roll_back(keep))


def _act(caches: Sequence[Layer], act: Callable[[Layer], None]) -> None:
    """Act on clones; the layers become their clones once all have accepted."""
    _once_each(caches)
    twins = clone(caches)
    for twin in twins:
        act(twin)
    for cache, twin in zip(caches, twins, strict=True):
        cache.become(twin)


@clause("PREC-15")
def due(caches: Sequence[Layer]) -> list[int]:
    """Return the indices of the layers that hold half precision and are to be converted.

    An append converts a layer that it makes due, so there is none unless a conversion failed.
    """
    return [index for index, cache in enumerate(caches) if cache.due]


@clause("PREC-15")
def settle(caches: Sequence[Layer]) -> int:
    """Convert the layers that are due, one at a time, each computed before the next; return how many there were."""
    return sum(cache.settle() for cache in caches)


@clause("PREC-10", "PREC-15")
def max_append_tokens(caches: Sequence[Layer]) -> int | None:
    """Return how many positions make a layer due, one fewer making none; None: unbounded."""
    return min((cache.max_append for cache in caches if cache.max_append is not None), default=None)


@clause("OWN-2", "OWN-3")
def clone(caches: Sequence[LayerT]) -> list[LayerT]:
    """Return an independent copy of every layer."""
    return [cache.clone() for cache in caches]


@clause("OWN-7")
def reset(caches: Sequence[Layer]) -> None:
    """Return every layer to its constructed, empty state."""
    for cache in caches:
        cache.reset()


@clause("OWN-4")
def state(caches: Sequence[Layer]) -> list[dict[str, mx.array | int]]:
    """Return the state of every layer."""
    return [cache.state() for cache in caches]


@clause("ROUND-12")
def _refuse_apart(caches: Sequence[Layer], asked: str) -> None:
    """Refuse in a round of which some layers have more than others: a step has failed halfway."""
    offsets = sorted({cache.offset for cache in caches})
    if len(offsets) > 1 and any(cache.in_round for cache in caches):
        possible = f"a step has failed: the layers stand at {offsets}; the round can be rolled back"
        raise RoundError(asked, possible, "ROUND-12")


def _once_each(caches: Sequence[Layer]) -> None:
    if len({id(cache) for cache in caches}) != len(caches):
        raise ConfigError("a list of layers", "every layer needs a cache of its own", "ERR-8")
