"""Reuse through mlx-lm's ``LRUPromptCache``, as its server has it.

The server hands the caches of a request that has ended over to the store, and asks it for the nearest cache and the
rest of the prompt. Here a deep copy is handed over, since the trace goes on with the source. The key is the space and
what the layers are: a server has one store for all its models, with a key of its own for each.
"""

import copy
from collections.abc import Sequence
from typing import Any

from kvlaw.conformance.interface import Adapter


class LruStore(Adapter):
    """The part of an adapter of mlx-lm's caches that publishes and reuses; ``_library`` has the store."""

    _library: Any
    store: Any

    @property
    def has_store(self) -> bool:
        """Say whether the library has a store (since 0.31.2)."""
        return hasattr(self._library, "LRUPromptCache")

    def empty_store(self) -> None:
        """Begin with an empty store."""
        if self.has_store:
            self.store = self._library.LRUPromptCache(max_size=1000)

    def publish(self, caches: list[Any], tokens: Sequence[int], space: str) -> None:
        """Hand copies over to the store."""
        if tokens:
            self.store.insert_cache(_key(caches, space), list(tokens), copy.deepcopy(caches))

    def reuse(self, caches: list[Any], tokens: Sequence[int], space: str) -> tuple[list[Any] | None, int]:
        """Fetch the nearest cache; what is left of the prompt says how much was found."""
        found, rest = self.store.fetch_nearest_cache(_key(caches, space), list(tokens))
        return (None, 0) if found is None else (list(found), len(tokens) - len(rest))


def _key(caches: list[Any], space: str) -> tuple[Any, ...]:
    names = ("max_size", "keep", "bits", "group_size", "layer")
    return (space, *((type(c).__name__, *(getattr(c, name, None) for name in names)) for c in caches))


__all__ = ["LruStore"]
