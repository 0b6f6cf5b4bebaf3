"""``builtin:mlx_lm.BatchKVCache``, ``.BatchRotatingKVCache`` and ``.CacheList``: mlx-lm's groups of rows.

A group is made as mlx-lm's batch generator makes it: serial caches are merged, groups extended. ``CacheList`` holds
one cache here, as a model with one cache per layer would have it: appends and masks go to the cache that it holds, as
models do it, everything else is asked of the list.
"""

from collections.abc import Mapping
from typing import Any

from kvlaw.conformance.subjects.duck_rows import DuckGroup, DuckRowsAdapter
from kvlaw.conformance.subjects.mlx_arrays import MlxArrays
from kvlaw.conformance.subjects.mlx_lm_rounds import TrimmedRounds
from kvlaw.spec.config import Config, Kind, LayerSpec

BATCHES: Mapping[str, tuple[Kind, ...]] = {
    "BatchKVCache": ("full_rows",),
    "BatchRotatingKVCache": ("ring_rows",),
    "CacheList": ("full", "ring", "full_rows", "ring_rows"),
}
"""mlx-lm's groups, and their kinds."""


class Listed:
    """A ``CacheList`` of one cache: what the list does not have is asked of that cache."""

    def __init__(self, caches: Any) -> None:
        """Wrap a list."""
        self.list = caches

    def __getattr__(self, name: str) -> Any:
        """Ask the list, else its cache."""
        if name == "list" or name.startswith("__"):  # while a copy is being made
            raise AttributeError(name)
        return getattr(self.list if name in dir(self.list) else self.list[0], name)

    def merge(self, caches: list["Listed"]) -> "Listed":
        """Merge lists."""
        return Listed(self.list.merge([cache.list for cache in caches]))

    def extend(self, other: "Listed") -> None:
        """Extend the list."""
        self.list.extend(other.list)

    def extract(self, row: int) -> "Listed":
        """Give a row as a list."""
        return Listed(self.list.extract(row))

    @classmethod
    def from_state(cls, state: Any) -> "Listed":
        """Make a list of its state."""
        from mlx_lm.models.cache import CacheList

        caches: Any = CacheList
        return cls(caches.from_state(state))


class MlxLmRowsAdapter(TrimmedRounds, DuckRowsAdapter):
    """One of mlx-lm's groups, and the serial caches beside it."""

    def __init__(self, name: str, clone: str | None = None) -> None:
        """Adapt the class of that name."""
        from mlx_lm.models import cache

        self._library: Any = cache
        self._listed = name == "CacheList"
        kinds = BATCHES[name]
        grows = kinds[0] in ("full", "full_rows")
        example = self._made(LayerSpec("full") if grows else LayerSpec("ring", 8), self.config)
        super().__init__(MlxArrays(cpu=True), self._made, example, clone or "deepcopy")
        self.kinds = kinds
        self.capabilities |= {"rounds"}
        self.capabilities |= {"sinks"} if {"ring", "ring_rows"} & set(kinds) else set()

    def _made(self, layer: LayerSpec, _config: Config) -> Any:
        if layer.grows and layer.problem:
            raise ValueError(layer.problem)
        library = self._library
        made = library.KVCache() if layer.grows else library.RotatingKVCache(layer.window, keep=layer.sinks)
        return Listed(library.CacheList(made)) if self._listed else made


__all__ = ["BATCHES", "DuckGroup", "MlxLmRowsAdapter"]
