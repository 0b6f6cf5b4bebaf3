"""Reuse through our store of prefixes."""

from collections.abc import Sequence
from typing import Any

from kvlaw.conformance.interface import Adapter

_MOST = 1 << 30
"""Bytes that no trace fills."""


class OurStore(Adapter):
    """The part of an adapter that publishes and reuses through ``PrefixStore``."""

    store: Any

    def empty_store(self) -> None:
        """Begin with an empty store."""
        from kvlaw.mlx_impl.reuse import PrefixStore

        self.store = PrefixStore(_MOST)

    def publish(self, caches: list[Any], tokens: Sequence[int], space: str) -> None:
        """Put clones into the store."""
        self.store.put(tokens, caches, space)

    def reuse(self, caches: list[Any], tokens: Sequence[int], space: str) -> tuple[list[Any] | None, int]:
        """Ask the store for caches like these."""
        found = self.store.get(tokens, space, like=caches)
        return (None, 0) if found is None else found


__all__ = ["OurStore"]
