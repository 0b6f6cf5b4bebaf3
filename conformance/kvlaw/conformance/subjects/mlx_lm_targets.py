"""mlx-lm's caches by name, of the installed mlx-lm (``builtin:mlx_lm.NAME``) or of a release (``release:…:NAME``).

``CACHES`` says of each which kinds it serves and how its adapter is made; ``open_release`` reads the name behind
``release:``, ``mlx-lm==0.28.0:RotatingKVCache``, and makes the adapter of that release. A release that was not fetched,
a class that it does not have: each is a ``TargetError`` with the way out.
"""

import re
from collections.abc import Callable, Mapping

from attrs import frozen

from kvlaw.conformance.adapter import Adapter
from kvlaw.conformance.subjects.errors import MisnamedError, TargetError, nearest
from kvlaw.conformance.subjects.mlx_lm_library import INSTALLED, Library
from kvlaw.spec.config import RECURRENT_KINDS, ROW_KINDS, SERIAL_KINDS, Kind

Options = Mapping[str, str]
STEPS = ("naive_compile",)
_WRITTEN = re.compile(r"mlx[-_]lm==(?P<version>[^:]+):(?P<cache>.+)", re.IGNORECASE)
_EXAMPLE = "release:mlx-lm==0.28.0:RotatingKVCache"


def _serial(name: str) -> Callable[[Options, Library], Adapter]:
    def make(options: Options, library: Library) -> Adapter:
        from kvlaw.conformance.subjects.mlx_lm import MlxLmAdapter

        return MlxLmAdapter(name, options.get("clone"), options.get("step"), library)

    return make


def _codes(name: str) -> Callable[[Options, Library], Adapter]:
    def make(options: Options, library: Library) -> Adapter:
        from kvlaw.conformance.subjects.mlx_lm_codes import ConvertingAdapter, QuantizedAdapter

        plain, plus, _ = name.partition("+convert")
        clone = options.get("clone")
        return ConvertingAdapter(plain, clone, library) if plus else QuantizedAdapter(clone, library)

    return make


def _rows(name: str) -> Callable[[Options, Library], Adapter]:
    def make(options: Options, library: Library) -> Adapter:
        from kvlaw.conformance.subjects.mlx_lm_batches import MlxLmRowsAdapter

        return MlxLmRowsAdapter(name, options.get("clone"), library)

    return make


def _arrays(name: str) -> Callable[[Options, Library], Adapter]:
    def make(options: Options, library: Library) -> Adapter:
        from kvlaw.conformance.subjects.mlx_lm_arrays import ArraysAdapter, arrays_cache

        return ArraysAdapter(lambda: arrays_cache(name, library), options.get("clone"), library)

    return make


@frozen
class Known:
    """One of mlx-lm's caches: its kinds, how its adapter is made, the ways to compile a step of it."""

    kinds: tuple[Kind, ...]
    make: Callable[[Options, Library], Adapter]
    steps: tuple[str, ...] = ()
    gone: bool = False
    """It is in old releases only."""

    def installed(self, options: Options) -> Adapter:
        """Make the adapter of the installed mlx-lm."""
        return self.make(options, INSTALLED)


CACHES: dict[str, Known] = {
    "KVCache": Known(("full",), _serial("KVCache"), STEPS),
    "RotatingKVCache": Known(("ring",), _serial("RotatingKVCache"), STEPS),
    "ConcatenateKVCache": Known(("full",), _serial("ConcatenateKVCache"), STEPS),
    "BatchKVCache": Known(("full_rows",), _rows("BatchKVCache")),
    "BatchRotatingKVCache": Known(("ring_rows",), _rows("BatchRotatingKVCache")),
    "ArraysCache": Known(RECURRENT_KINDS, _arrays("ArraysCache")),
    "MambaCache": Known(RECURRENT_KINDS, _arrays("MambaCache"), gone=True),
    "CacheList": Known((*SERIAL_KINDS, *ROW_KINDS), _rows("CacheList")),
    "QuantizedKVCache": Known(("full",), _codes("QuantizedKVCache")),
    "KVCache+convert": Known(("full",), _codes("KVCache+convert")),
    "RotatingKVCache+convert": Known(("ring",), _codes("RotatingKVCache+convert")),
}
"""mlx-lm's caches; those ``+convert`` turn to codes on the way."""


def open_release(name: str, options: Options) -> Adapter:
    """Make the adapter of a cache of a release.

    Args:
        name: ``mlx-lm==VERSION:CACHE``.
        options: ``clone`` and, of serial caches, ``step``.

    Raises:
        TargetError: for another name, a release that was not fetched, or a cache that it has not.
    """
    from kvlaw.conformance.releases.modules import load
    from kvlaw.conformance.releases.store import ReleaseError, place

    version, known, cache = read_release(name)
    _check_step(name, known, options.get("step"))
    try:
        place(version)
    except ReleaseError as error:
        raise MisnamedError(f"release:{name}: {error}") from None
    try:
        library = Library(load(version))
    except ReleaseError as error:
        raise TargetError(f"release:{name}: {error}") from error
    _check_there(version, cache, library)
    return known.make(options, library)


def read_release(name: str) -> tuple[str, Known, str]:
    """Read ``mlx-lm==VERSION:CACHE``; raise ``TargetError`` that says how it is written."""
    written = _WRITTEN.fullmatch(name)
    if written is None:
        raise MisnamedError(f"release:{name} is no release and cache; write PACKAGE==VERSION:CACHE, as {_EXAMPLE}")
    version, cache = written["version"].strip(), written["cache"]
    if cache not in CACHES:
        raise MisnamedError(f"release:{name}: unknown cache {cache!r}{nearest(cache, CACHES)}; known are {_listed()}")
    return version, CACHES[cache], cache


def _check_there(version: str, cache: str, library: Library) -> None:
    """Raise ``TargetError`` if a release lacks the class, or what is needed to drive it."""
    name = cache.partition("+")[0]
    try:
        there = hasattr(library.cache, name)
    except ImportError as error:
        raise TargetError(f"mlx-lm {version} cannot be imported here: {error}") from error
    if not there:
        public = [known for known in CACHES if hasattr(library.cache, known.partition("+")[0])]
        raise TargetError(f"mlx-lm {version} has no {name}{nearest(name, public)}; it has {', '.join(public)}")


def _check_step(name: str, known: Known, step: str | None) -> None:
    if step is not None and step not in known.steps:
        ways = ", ".join(known.steps) or "there is none for this cache"
        raise MisnamedError(f"step={step}: release:{name} has no such way to compile a step; {ways}")


def _listed() -> str:
    return ", ".join(CACHES)


__all__ = ["CACHES", "STEPS", "Known", "open_release", "read_release"]
