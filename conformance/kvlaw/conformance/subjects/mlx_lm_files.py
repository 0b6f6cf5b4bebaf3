"""mlx-lm's prompt-cache files: ``save_prompt_cache`` and ``load_prompt_cache``, and files of its version 0.31.

Nothing in such a file says by which version it was written, for which model, or what its bytes should be; it cannot be
of a later version than the library that reads it. ``older`` writes what mlx-lm 0.31.3 wrote for the same caches: states
cut to their offset, and what else a cache counts as texts (``meta_state``) where 0.32 has scalars.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

from kvlaw.conformance.interface import UnsupportedError
from kvlaw.conformance.subjects.files_on_disk import FilesOnDisk
from kvlaw.spec.calls import Damage


class MlxLmFiles(FilesOnDisk):
    """The part of an adapter of mlx-lm's caches that saves and loads by mlx-lm's functions; ``_library`` has them."""

    _library: Any
    damages: tuple[Damage, ...] = ("truncate", "empty", "extra", "header", "tensor", "older", "foreign")

    @property
    def has_older(self) -> bool:
        """Say whether files of version 0.31 are older than the library's own: its caches have no ``meta_state``."""
        return not hasattr(self._library.KVCache, "meta_state")

    def write(self, path: Path, caches: list[Any]) -> None:
        """Save."""
        self._library.save_prompt_cache(str(path), caches)

    def read(self, path: Path, other: bool) -> list[Any]:
        """Load; no file says for which model it is."""
        if other:
            raise UnsupportedError("a prompt-cache file does not say for which model it is")
        return list(self._library.load_prompt_cache(str(path)))

    def damage(self, file: Any, how: Damage) -> None:
        """Spoil the file in its place."""
        if how == "older" and how not in self.damages:
            raise UnsupportedError("no earlier format of these files is known")
        if how == "older":
            save_as_031(file.path, self._library.load_prompt_cache(str(file.path)))
        else:
            super().damage(file, how)


def save_as_031(path: Path, caches: list[Any], metadata: dict[str, str] | None = None) -> None:
    """Write caches as ``save_prompt_cache`` of mlx-lm 0.31.3 did."""
    if any(cache.empty() for cache in caches):
        raise UnsupportedError("mlx-lm 0.31 saves no empty cache")
    library: Any = import_module("mlx.core")
    flatten: Any = import_module("mlx.utils").tree_flatten
    states = dict(flatten([_state(cache) for cache in caches]))
    classes = [type(cache).__name__ for cache in caches]
    texts = dict(flatten([[_meta(cache) for cache in caches], metadata or {}, classes]))
    library.save_safetensors(str(path), states, texts)


def _state(cache: Any) -> list[Any]:
    """Give keys and values up to the offset; a ring's whole once its offset has reached its columns."""
    kept = cache.keys_and_values() if not cache.empty() else (cache.keys, cache.values)
    return list(kept)


def _meta(cache: Any) -> Any:
    name = type(cache).__name__
    numbers = {
        "RotatingKVCache": ("keep", "max_size", "offset", "_idx"),
        "QuantizedKVCache": ("offset", "group_size", "bits"),
    }.get(name)
    return "" if numbers is None else tuple(str(getattr(cache, number)) for number in numbers)


__all__ = ["MlxLmFiles", "save_as_031"]
