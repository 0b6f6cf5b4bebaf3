"""The MLX implementation with one module changed in memory, as a subject.

``load`` imports the changed module anew, and every module that imports it, directly or not; the others are shared with
what was imported before, which stays as it was.  No file is written.  ``ChangedAdapter`` asks its caches as the suite
asks ours, and is stricter: a failure that is no ``CacheError`` is an error, not a refusal; the numbers of columns and
the storage are the cache's own words, not those of its planes; between calls no cache is due; and what is stored is
what a dense fetch hands out.
"""

import ast
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.resources import files
from importlib.util import spec_from_loader
from types import CodeType, ModuleType
from typing import Any

import numpy as np
from attrs import evolve, frozen

from kvlaw.conformance.adapter import AdapterSubject
from kvlaw.conformance.interface import NonsenseError, Tensors, UnsupportedError
from kvlaw.conformance.subjects.array_adapter import is_triple
from kvlaw.conformance.subjects.contract_rows import ContractRowsAdapter
from kvlaw.conformance.subjects.contract_type import ContractAdapter
from kvlaw.conformance.subjects.mlx_arrays import MlxArrays
from kvlaw.spec.calls import AppendName, Phase
from kvlaw.spec.cite import CITATIONS
from kvlaw.spec.config import POLICIES, Config, LayerSpec
from kvlaw.spec.contract import Subject
from kvlaw.spec.observations import StateView, Unbounded

PACKAGE = "kvlaw.mlx_impl"


@frozen(eq=False)
class Loaded:
    """One import of the implementation: its package and its module of lists."""

    package: Any
    layers: Any

    def subject(self, name: str = "mlx_impl") -> Subject:
        """Ask its caches as a subject."""
        return AdapterSubject(ChangedAdapter(self), seconds=5.0, name=name)


@frozen
class _Changed(Loader):
    """Finds one module as the changed one, and those that import it as they are, compiled once."""

    name: str
    code: CodeType

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        """Answer for the modules of the package, but not for the package itself."""
        return spec_from_loader(name, self) if name.startswith(f"{PACKAGE}.") else None

    def exec_module(self, module: ModuleType) -> None:
        """Run the code, the changed one of the changed module."""
        code = self.code if module.__name__ == self.name else _compiled(module.__name__)
        exec(code, module.__dict__)  # noqa: S102  # the mutant itself


def load(module: str = "", code: CodeType | None = None) -> Loaded:
    """Import the implementation; with ``code`` anew, that code in the place of ``module``."""
    if code is None:
        return _imported()
    finder = _Changed(f"{PACKAGE}.{module}", code)
    with _fresh(importers(finder.name)):
        sys.meta_path.insert(0, finder)
        try:
            return _imported()
        finally:
            sys.meta_path.remove(finder)


def _imported() -> Loaded:
    return Loaded(import_module(PACKAGE), import_module(f"{PACKAGE}.layers"))


@cache
def _text(name: str) -> str:
    return (files(PACKAGE) / f"{name.rpartition('.')[2]}.py").read_text(encoding="utf-8")


@cache
def _compiled(name: str) -> CodeType:
    return compile(_text(name), name, "exec")


@cache
def _imports(name: str) -> frozenset[str]:
    """List the modules of the package that a module of it imports anywhere, and the package if it imports from it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(_text(name))):
        if isinstance(node, ast.ImportFrom) and node.module and _is_ours(node.module):
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if _is_ours(alias.name)}
    return frozenset(found)


@cache
def importers(name: str) -> frozenset[str]:
    """List a module of the package and all that import it, directly or not; the package is always among them."""
    import_module(PACKAGE)
    modules = [n for n in sys.modules if n.startswith(f"{PACKAGE}.")]
    found, last = {PACKAGE, name}, set[str]()
    while found != last:
        last = set(found)
        found |= {module for module in modules if _imports(module) & found}
    return frozenset(found)


@contextmanager
def _fresh(names: frozenset[str]) -> Generator[None]:
    """Take modules of the package out of the modules for a while, and keep its citations as they are."""
    import_module(PACKAGE)
    ours = {n: m for n, m in sys.modules.items() if _is_ours(n)}
    parent, cited = sys.modules[PACKAGE.partition(".")[0]], {k: list(v) for k, v in CITATIONS.items()}
    for name in names & set(ours):
        del sys.modules[name]
    try:
        yield
    finally:
        for name in [n for n in sys.modules if _is_ours(n)]:
            del sys.modules[name]
        sys.modules.update(ours)
        setattr(parent, PACKAGE.partition(".")[2], ours[PACKAGE])
        CITATIONS.clear()
        CITATIONS.update(cited)


def _is_ours(name: str) -> bool:
    return name == PACKAGE or name.startswith(f"{PACKAGE}.")


def told(package: Any, act: Callable[..., Any], *arguments: Any) -> Any:
    """Ask; a failure that is no ``CacheError`` of the package is nonsense, and so an error, not a refusal."""
    try:
        return act(*arguments)
    except (package.CacheError, UnsupportedError, NonsenseError):
        raise
    except Exception as error:
        raise NonsenseError(f"{type(error).__name__}: {error}") from error


_TOLD = (
    *("merge", "extract", "hand_back", "filter", "prepare", "finalize"),
    *("begin_prefill", "commit_prefill", "end_prefill", "show_rows"),
    *("begin_round", "commit_round", "roll_back"),
)
"""The calls on groups, and on caches and groups in rounds, that are asked as they are."""


class ChangedAdapter(ContractRowsAdapter):
    """Asks the caches of one import of the implementation: alone, as a list of layers, and in groups."""

    def __init__(self, loaded: Loaded) -> None:
        """Adapt the loaded implementation."""
        self.loaded = loaded
        arrays, make = MlxArrays(cpu=True), loaded.package.make
        super().__init__(arrays, self._build, self._build_rows, loaded.package.make_rows("full_rows", bits=4, start=4))
        serial = ContractAdapter(arrays, self._build, make("full", bits=4, start=4))
        self.computes, self.policies = "mlx", POLICIES
        self.capabilities |= serial.capabilities | {"sinks", "lists", "list_appends", "merge"}
        self.capabilities |= {"policy", "affine", "bf16_first", "value_bits"}
        self.shows |= serial.shows
        for name in _TOLD:
            setattr(self, name, partial(self._told, getattr(self, name)))

    def _build(self, layer: LayerSpec, _config: Config) -> Any:
        return self._told(lambda: self.loaded.package.make(layer.kind, layer.window, layer.sinks, **_policy(layer)))

    def _build_rows(self, layer: LayerSpec, rows: int, _config: Config) -> Any:
        policy = {"sinks": layer.sinks, **_policy(layer)}
        return self._told(lambda: self.loaded.package.make_rows(layer.kind, layer.window, rows, **policy))

    def merge(self, sources: Sequence[Any]) -> Any:
        """Make a group of groups and caches."""
        return self.loaded.package.merge(list(sources))

    def _told(self, act: Callable[..., Any], *arguments: Any) -> Any:
        return told(self.loaded.package, act, *arguments)

    def append(self, cache: Any, keys: Any, values: Any, phase: AppendName, window: int | None, array: bool) -> Any:
        """Append by the named call."""
        return self._told(super().append, cache, keys, values, phase, window, array)

    def attend(self, read: Any, queries: Any, scale: float) -> Any:
        """Ask the read, unless its mask has an empty axis, on which MLX ends the process (a division by zero)."""
        shape: tuple[int, ...] = getattr(read.mask, "shape", ())
        if 0 in shape:
            raise NonsenseError(f"a mask {list(shape)}")
        return super().attend(read, queries, scale)

    def fetch_dense(self, cache: Any, keys: Any, values: Any) -> tuple[Any, Any]:
        """Append and hand out the fetch; a copy hands out the same as it is stored, or codes of as many columns."""
        twin = self._told(cache.clone)
        fetched: tuple[Any, Any] = self._told(super().fetch_dense, cache, keys, values)
        fetch = twin.fetch_alike if hasattr(twin, "fetch_alike") else twin.fetch_stored
        for stored, dense in zip(self._told(fetch, keys, values), fetched, strict=True):
            coded = is_triple(stored)
            if stored[0].shape[2] != dense.shape[2] if coded else not self._told(self._alike, stored, dense):
                raise NonsenseError("what is stored is not what is fetched (READ-10)")
        return fetched

    def _alike(self, stored: Any, dense: Any) -> bool:
        return np.array_equal(self.arrays.bits(stored), self.arrays.bits(dense))

    def mask(self, cache: Any, length: int, phase: Phase, window: int | None, array: bool) -> Any:
        """Build the next append's mask."""
        return self._told(super().mask, cache, length, phase, window, array)

    def trim(self, cache: Any, n: Any, bypass: bool) -> Any:
        """Drop the newest positions."""
        return self._told(super().trim, cache, n, bypass)

    def show(self, cache: Any) -> StateView:
        """Show everything, and the columns and the storage that the cache says it has."""
        view = super().show(cache)
        if hasattr(cache, "due") and self._told(lambda: cache.due or cache.clone().settle()):
            raise NonsenseError("a cache that is due between calls (PREC-1)")
        return self._told(lambda: evolve(view, columns=cache.columns, storage=cache.storage))

    def append_layers(
        self, caches: list[Any], tensors: Tensors, phase: AppendName, window: int | None, array: bool
    ) -> list[Any]:
        """Append to clones; they take the places of the layers when every one accepted."""
        twins: list[Any] = self.loaded.layers.clone(caches)
        reads = super().append_layers(twins, tensors, phase, window, array)
        caches[:] = twins
        return reads

    def max_append_layers(self, caches: list[Any]) -> int | Unbounded | None:
        """Ask the list."""
        left = self._told(self.loaded.layers.max_append_tokens, caches)
        return "unbounded" if left is None else left

    def begin_round_layers(self, caches: list[Any]) -> None:
        """Open a round of all layers."""
        self._told(self.loaded.layers.begin_round, caches)

    def commit_round_layers(self, caches: list[Any]) -> None:
        """Keep the round of all layers."""
        self._told(self.loaded.layers.commit_round, caches)

    def roll_back_layers(self, caches: list[Any], keep: Sequence[int]) -> None:
        """Take back what is not kept of the round of all layers."""
        self._told(self.loaded.layers.roll_back, caches, keep[0] if len(keep) == 1 else list(keep))

    def trim_layers(self, caches: list[Any], n: Any) -> Any:
        """Drop the newest positions of all layers."""
        return self._told(self.loaded.layers.trim, caches, n)

    def can_trim_layers(self, caches: list[Any], n: int) -> bool | None:
        """Say whether every layer can trim."""
        return self.loaded.layers.can_trim(caches, n)


def _policy(layer: LayerSpec) -> dict[str, Any]:
    return {"bits": layer.bits, "value_bits": layer.value_bits, "group": layer.group, "start": layer.start}
