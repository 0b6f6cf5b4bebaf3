"""``builtin:mlx_lm.BatchKVCache``, ``.BatchRotatingKVCache`` and ``.CacheList``: mlx-lm's groups of rows.

A group is made as mlx-lm's batch generator makes it: serial caches are merged, groups extended. ``CacheList`` holds
one cache here, as a model with one cache per layer would have it: appends and masks go to the cache that it holds, as
models do it, everything else is asked of the list. A ``CacheList`` is also saved and loaded.

Releases without ``merge``, or whose ``merge`` takes no empty caches, make a group by the constructor of its class, as
their batch generator did (``BatchMaker``).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from kvlaw.conformance.interface import UnsupportedError
from kvlaw.conformance.subjects.duck_rows import DuckGroup, DuckRowsAdapter
from kvlaw.conformance.subjects.mlx_arrays import MlxArrays
from kvlaw.conformance.subjects.mlx_lm_files import MlxLmFiles
from kvlaw.conformance.subjects.mlx_lm_library import INSTALLED, BatchMaker, Library, RuntimeMasks, restored
from kvlaw.conformance.subjects.mlx_lm_rounds import TrimmedRounds
from kvlaw.spec.calls import Damage
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
        """Ask the list for what its class has of its own, else its cache."""
        if name == "list" or name.startswith("__"):  # while a copy is being made
            raise AttributeError(name)
        own = vars(cast("type[Any]", type(self.list)))
        return getattr(self.list if name in own else self.list.caches[0], name)

    def merge(self, caches: list["Listed"]) -> "Listed":
        """Merge lists."""
        if not hasattr(self.list, "merge"):
            raise UnsupportedError("this release merges no lists")
        return Listed(self.list.merge([cache.list for cache in caches]))

    def extend(self, other: "Listed") -> None:
        """Extend the list."""
        self.list.extend(other.list)

    def extract(self, row: int) -> "Listed":
        """Give a row as a list."""
        return Listed(self.list.extract(row))


class MlxLmRowsAdapter(TrimmedRounds, MlxLmFiles, RuntimeMasks, DuckRowsAdapter):
    """One of mlx-lm's groups, and the serial caches beside it."""

    damages: tuple[Damage, ...] = tuple(how for how in MlxLmFiles.damages if how != "older")  # 0.31 saved no lists

    def __init__(self, name: str, clone: str | None = None, library: Library = INSTALLED) -> None:
        """Adapt the class of that name."""
        self.library, self._library = library, library.cache
        self._listed, self._maker = name == "CacheList", BatchMaker(library)
        kinds = BATCHES[name]
        grows = kinds[0] in ("full", "full_rows")
        example = self._made(LayerSpec("full") if grows else LayerSpec("ring", 8), self.config)
        self._constructs = not self._merges_empty(example)
        super().__init__(MlxArrays(cpu=True), self._made, example, clone or "deepcopy")
        self.kinds = kinds
        self.capabilities |= {"rounds"} | ({"files"} if self._listed else set())
        self.capabilities |= {"sinks"} if {"ring", "ring_rows"} & set(kinds) else set()
        if self._listed and not hasattr(example.list, "extract"):
            self.capabilities -= {"extract"}
        if clone == "from_state":
            self.cloned = _restored

    def _merges_empty(self, example: Any) -> bool:
        """Say whether a group can be made by merging caches that are empty (since 0.31.2)."""
        try:
            self.group_of([example, example])
        except Exception:  # whatever a release makes of it
            return False
        return True

    def group_of(self, serial: Sequence[Any]) -> Any:
        """Merge serial caches, where the release can."""
        return super().group_of(serial) if self._listed else self._maker.merged(serial)

    def empty_group(self, serial: Sequence[Any]) -> Any:
        """Make a group of empty rows."""
        if not self._constructs:
            return self.group_of(serial)
        if self._listed:
            return Listed(self._maker.constructed(serial[0].list, len(serial)))
        return self._maker.constructed(serial[0], len(serial))

    def write(self, path: Path, caches: list[Any]) -> None:
        """Save lists as they are."""
        super().write(path, [cache.list for cache in caches])

    def read(self, path: Path, other: bool) -> list[Any]:
        """Load lists."""
        return [Listed(cache) for cache in super().read(path, other)]

    def _made(self, layer: LayerSpec, _config: Config) -> Any:
        if layer.grows and layer.problem:
            raise ValueError(layer.problem)
        library = self._library
        made = library.KVCache() if layer.grows else library.RotatingKVCache(layer.window, keep=layer.sinks)
        return Listed(library.CacheList(made)) if self._listed else made


def _restored(cache: Any) -> Any:
    """Make another cache, or list, of its state."""
    return Listed(restored(cache.list)) if isinstance(cache, Listed) else restored(cache)


__all__ = ["BATCHES", "DuckGroup", "MlxLmRowsAdapter"]
