"""mlx-lm as the adapters of its caches need it: the modules of the installed one, or of a release (``kvlaw.releases``).

What a release lacks is read off its modules and classes, never off its version: the mask of a runtime before caches
built their own (``RuntimeMasks``), the way back from a saved state (``restored``), how an empty group is made
(``BatchMaker``).
"""

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

from attrs import frozen

from kvlaw.conformance.interface import UnsupportedError
from kvlaw.conformance.subjects.contract_type import takes
from kvlaw.conformance.subjects.duck import DuckAdapter
from kvlaw.spec.calls import Phase


@frozen
class Library:
    """One mlx-lm, by the name of its package."""

    package: str = "mlx_lm"

    @property
    def cache(self) -> Any:
        """The module of its caches."""
        return import_module(f"{self.package}.models.cache")

    @property
    def base(self) -> Any:
        """The module of its masks and of its attention."""
        return import_module(f"{self.package}.models.base")

    @property
    def recurrence(self) -> Any:
        """The gated delta rule in plain operations: of the installed mlx-lm, else its own.

        It is a layer's arithmetic and not the cache's: what it gave in which dtype has changed between releases.

        Raises:
            ImportError: if neither has it.
        """
        packages = [name for name in ("mlx_lm", self.package) if find_spec(name) is not None]
        here = [f"{name}.models.gated_delta" for name in packages]
        return import_module(next(filter(find_spec, here), f"{self.package}.models.gated_delta")).gated_delta_ops

    @property
    def convert(self) -> Any:
        """The step of its runtime that converts caches to codes."""
        return import_module(f"{self.package}.generate").maybe_quantize_kv_cache


INSTALLED = Library()


def restored(cache: Any) -> Any:
    """Make another cache of a cache's state, as mlx-lm's loader of files does.

    Since 0.32 a state has everything; before, a ``meta_state`` went beside it, and before 0.28.1 a cache was made
    without arguments and given both.
    """
    kind = cast("Any", type(cache))
    make = getattr(kind, "from_state", None)
    if make is None:
        twin = kind()
        twin.state, twin.meta_state = cache.state, cache.meta_state
        return twin
    return make(cache.state, cache.meta_state) if takes(make, "meta_state") else make(cache.state)


class RuntimeMasks(DuckAdapter):
    """The part of an adapter that asks mlx-lm's models for a mask, where its caches do not build their own (0.26)."""

    library: Library

    def asks_models(self) -> None:
        """Ask the models' function from now on."""
        self.capabilities |= {"mask", "as_array"}
        self.shows |= {"mask", "as_array"}

    def mask(self, cache: Any, length: int, phase: Phase, window: int | None, array: bool) -> Any:
        """Build the next append's mask, by the cache or by the models' function, which takes one per layer."""
        if callable(getattr(cache, "make_mask", None)):
            return super().mask(cache, length, phase, window, array)
        if window is not None:
            raise UnsupportedError("the models of this release pass no window")
        hidden = import_module("mlx.core").zeros((1, length, 1))
        return self.library.base.create_attention_mask(hidden, [cache], return_array=array)


@frozen
class BatchMaker:
    """Makes groups of a release: of serial caches by ``merge``, or empty ones as its batch generator does."""

    library: Library

    def merged(self, serial: Sequence[Any]) -> Any:
        """Merge serial caches; raise ``UnsupportedError`` in a release that cannot."""
        owner = self._batch(serial[0]) if not hasattr(serial[0], "merge") else serial[0]
        if not hasattr(owner, "merge"):
            raise UnsupportedError("this release makes no group of caches that hold something")
        return owner.merge(list(serial))

    def constructed(self, cache: Any, rows: int) -> Any:
        """Make a group of as many empty rows like a cache, by the constructor of its class.

        Raises:
            UnsupportedError: if the release has no groups of such caches.
        """
        library, name = self.library.cache, type(cache).__name__
        if name == "CacheList":
            return library.CacheList(*(self.constructed(inner, rows) for inner in cache.caches))
        group, padding = self._batch(cache), [0] * rows
        if name != "RotatingKVCache":
            return group(padding)
        if cache.keep or not isinstance(cache.max_size, int):
            raise ValueError(f"a ring of {cache.max_size} that keeps {cache.keep} sinks is in no group")
        return group(cache.max_size, padding)

    def _batch(self, cache: Any) -> Any:
        """Give the class of the groups of such caches."""
        name = {"KVCache": "BatchKVCache", "RotatingKVCache": "BatchRotatingKVCache"}.get(type(cache).__name__, "")
        found = getattr(self.library.cache, name, None)
        if found is None:
            raise UnsupportedError(f"this release has no groups of {type(cache).__name__}")
        return found


__all__ = ["INSTALLED", "BatchMaker", "Library", "RuntimeMasks", "restored"]
