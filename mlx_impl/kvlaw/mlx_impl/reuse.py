"""A small store of caches, so that a prompt starts from the longest part of it that was computed before.

``PrefixStore.put`` keeps clones of a model's caches under the tokens that they hold; ``get`` lends clones of the entry
with the longest usable part of a prompt, cut to it.  Usable is what both begin with, short of the last token of the
prompt, not below a reuse floor of a layer, and, where that is shorter than the entry, what each layer can be cut to.

A recurrent layer cannot be cut: an entry with one is lent whole, or not at all.

The store keeps at most ``max_bytes`` of planes, counted as they are allocated, those that entries share once; the least
recently used entries go first.  Nothing is copied: planes never change.
"""

from collections.abc import Iterable, Sequence
from typing import Any, cast

import attrs

from kvlaw.mlx_impl import layers
from kvlaw.mlx_impl.caches import Cache
from kvlaw.mlx_impl.counts import as_count
from kvlaw.mlx_impl.errors import ConfigError, RoundError
from kvlaw.mlx_impl.evaluate import evaluate
from kvlaw.mlx_impl.planes import Planes
from kvlaw.mlx_impl.recurrent import RecurrentCache
from kvlaw.mlx_impl.recurrent_state import State
from kvlaw.spec.cite import clause

Tokens = tuple[int, ...]
Cached = Cache | RecurrentCache
"""A layer of a model."""


@attrs.frozen(eq=False)
class Entry:
    """Caches of a model, one per layer, and the tokens that they hold; ``number`` counts what was put."""

    tokens: Tokens
    caches: tuple[Cached, ...]
    namespace: str
    number: int

    @property
    def floor(self) -> int:
        """Return the largest reuse floor of the layers."""
        return max(cache.floor for cache in self.caches)

    @property
    def identity(self) -> tuple[str, ...]:
        """Return what the layers are."""
        return tuple(cache.identity for cache in self.caches)

    @clause("REUSE-2", "REUSE-5", "REUSE-8")
    def gives(self, length: int) -> bool:
        """Say whether its first ``length`` tokens can be lent."""
        cut = len(self.tokens) - length
        return length > 0 and self.floor <= length and (cut == 0 or layers.can_trim(self.caches, cut))


class PrefixStore:
    """Caches by the tokens that they hold, the least recently used of which make room for new ones."""

    __slots__ = ("_count", "_entries", "_max_bytes")

    def __init__(self, max_bytes: int) -> None:
        """Keep at most ``max_bytes`` of planes.

        Raises:
            CountError: if that is no count.
        """
        self._max_bytes = as_count(max_bytes, "a store of bytes", "ERR-5")
        self._entries: list[Entry] = []  # the most recently used last
        self._count = 0

    def __len__(self) -> int:
        """Return how many entries there are."""
        return len(self._entries)

    @property
    def nbytes(self) -> int:
        """Return the allocated bytes of all planes that the entries keep, shared ones counted once."""
        return _bytes(self._entries)

    @clause("REUSE-4", "REUSE-6", "REUSE-9")
    def put(self, tokens: Sequence[int], caches: Sequence[Cached], namespace: str = "") -> bool:
        """Keep clones of caches that hold exactly ``tokens``; say whether there was room for them.

        An entry of the same tokens, layers and namespace is replaced; one that holds a beginning of them is let go of
        if this one can be cut to it.  Caches that hold nothing are not kept.

        Raises:
            ConfigError: if there are no caches, or they do not hold as many positions as there are tokens.
            RoundError: if a round is open.
        """
        held, caches = tuple(tokens), tuple(caches)
        given = cast("tuple[object, ...]", caches)  # whatever a caller hands in
        if not all(isinstance(cache, Cache | RecurrentCache) for cache in given):
            kinds = ", ".join(sorted({type(cache).__name__ for cache in caches}))
            raise ConfigError(
                f"a store of {kinds}", "serial caches are needed; a row of a group is extracted first", "REUSE-6"
            )
        if not caches or any(cache.offset != len(held) for cache in caches):
            told = f"{len(held)} tokens of caches of offsets {[cache.offset for cache in caches]}"
            raise ConfigError(told, "every layer must hold just these tokens", "REUSE-6", "POS-7")
        if any(cache.in_round for cache in caches):
            raise RoundError("a store of caches in a round", "commit it or roll it back first", "REUSE-9")
        if not held:
            return False
        self._count += 1
        entry = Entry(held, tuple(layers.clone(caches)), namespace, self._count)
        if _bytes([entry]) > self._max_bytes:
            return False
        evaluate(*(array for planes in _planes([entry]).values() for array in planes.arrays.values()))
        kept = [other for other in self._entries if not _replaces(entry, other)]
        self._entries = [*kept, entry]
        while self.nbytes > self._max_bytes:
            self._entries.pop(0)
        return True

    @clause("REUSE-1", "REUSE-3", "REUSE-4", "REUSE-5", "REUSE-7")
    def get(
        self, prompt: Sequence[int], namespace: str = "", *, like: Sequence[Cached] | None = None
    ) -> tuple[list[Any], int] | None:
        """Lend caches that hold the longest usable part of ``prompt``, and say how long it is; None: there is none.

        Of several the newest is lent; with ``like`` only caches of the same configurations are.  The entry stays as it
        is.
        """
        asked = tuple(prompt)
        wanted = None if like is None else tuple(cache.identity for cache in like)
        best, length, newest = None, 0, 0
        for entry in self._entries:
            if entry.namespace != namespace or wanted not in (None, entry.identity):
                continue
            shared = min(_common(entry.tokens, asked), len(asked) - 1)
            if (shared, entry.number) > (length, newest) and entry.gives(shared):
                best, length, newest = entry, shared, entry.number
        if best is None:
            return None
        self._entries = [*(entry for entry in self._entries if entry is not best), best]
        lent = layers.clone(best.caches)
        if length < len(best.tokens):
            layers.trim(lent, len(best.tokens) - length)
        return lent, length

    def clear(self) -> None:
        """Let go of every entry."""
        self._entries = []


def _common(one: Tokens, other: Tokens) -> int:
    """Count the tokens with which both begin."""
    most = min(len(one), len(other))
    if one[:most] == other[:most]:
        return most
    return next(i for i in range(most) if one[i] != other[i])


def _replaces(new: Entry, old: Entry) -> bool:
    """Say whether an entry gives all that another one gives."""
    same = new.namespace == old.namespace and new.identity == old.identity
    begins = new.tokens[: len(old.tokens)] == old.tokens
    return same and begins and (len(new.tokens) == len(old.tokens) or _covers(new, old))


def _covers(new: Entry, old: Entry) -> bool:
    """Say whether a longer entry can be cut to all lengths that a shorter one gives: from the larger floor on."""
    return new.floor <= old.floor and new.gives(len(old.tokens)) and new.gives(max(1, old.floor))


def _planes(entries: Iterable[Entry]) -> dict[int, Planes | State]:
    """List the planes and states that entries keep, each once."""
    contents = (_held(cache) for entry in entries for cache in entry.caches)
    return {id(planes): planes for planes in contents if planes is not None}


def _held(cache: Cached) -> Planes | State | None:
    return cache.content[0] if isinstance(cache, RecurrentCache) else cache.content.planes


def _bytes(entries: Iterable[Entry]) -> int:
    return sum(planes.nbytes for planes in _planes(entries).values())


__all__ = ["Entry", "PrefixStore"]
