"""``py:module:attribute``: a cache class or factory of anybody's, found by import.

The attribute is an ``Adapter`` (a subclass or an instance, used as it is) or a class or factory of caches. A factory
gets those fields of the configuration that its signature takes: ``kind``, ``window``, ``sinks``, ``dtype``,
``batch``, ``kv_heads``, ``head_dim``, ``value_dim``; a mapping such as ``window=max_size`` says by which parameter it
takes a field. What it builds must have mlx-lm's duck type (``duck``) or the calls of our contract
(``contract_type``): one instance is built to look. With ``array=numpy`` caches get NumPy arrays, and MLX is not
imported.
"""

import importlib
import inspect
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import attrs

from kvlaw.conformance.guard import describe
from kvlaw.conformance.interface import Adapter, UnsupportedError
from kvlaw.conformance.subjects.array_adapter import ArrayAdapter
from kvlaw.conformance.subjects.arrays import Arrays, NumpyArrays
from kvlaw.conformance.subjects.contract_type import ContractAdapter, is_contract_type
from kvlaw.conformance.subjects.duck import DuckAdapter, is_duck
from kvlaw.conformance.subjects.errors import TargetError, nearest
from kvlaw.conformance.subjects.mlx_arrays import MlxArrays, has_mlx
from kvlaw.spec.config import KINDS, Config, Kind, LayerSpec

FIELDS = ("kind", "window", "sinks", "dtype", "batch", "kv_heads", "head_dim", "value_dim")
"""What a factory can be given."""

ALIASES = {
    "window": ("max_size", "max_len", "window_size", "sliding_window", "capacity"),
    "sinks": ("keep", "num_sinks"),
}
"""Parameter names that probably mean a field, for a hint."""


def find(text: str) -> Any:
    """Import ``module:attribute``; raise ``TargetError`` that says what is missing."""
    name, colon, path = text.partition(":")
    if not name or not colon or not path:
        raise TargetError(f"py:{text}: write py:module:attribute, such as py:acme.cache:RingCache")
    found = _module(name)
    for part in path.split("."):
        if not hasattr(found, part):
            public = [n for n in dir(found) if not n.startswith("_")]
            raise TargetError(f"py:{text}: {name} has no {part!r}{nearest(part, public)}")
        found = getattr(found, part)
    return found


def _module(name: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        with redirect_stdout(sys.stderr):
            return importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            where = f"it is neither installed nor found from {here}"
            raise TargetError(f"no module {error.name!r}: {where}; install it, or set PYTHONPATH") from error
        raise TargetError(f"importing {name} failed: {describe(error)}") from error
    except BaseException as error:
        raise TargetError(f"importing {name} failed: {describe(error)}") from error


@attrs.frozen
class Factory:
    """A class or function that makes caches, and the parameters through which it takes fields."""

    make: Any
    text: str
    mapping: Mapping[str, str]
    arrays: Arrays
    parameters: Mapping[str, inspect.Parameter] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Read the signature."""
        object.__setattr__(self, "parameters", self._signature())

    def _signature(self) -> Mapping[str, inspect.Parameter]:
        for name in self.mapping:
            if name not in FIELDS:
                raise TargetError(
                    f"no field {name!r} to map{nearest(name, FIELDS)}; the fields are {', '.join(FIELDS)}"
                )
        try:
            parameters = inspect.signature(self.make).parameters
        except (TypeError, ValueError):
            return {}
        open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
        for name, parameter in self.mapping.items():
            if parameter not in parameters and not open_ended:
                raise TargetError(
                    f"py:{self.text} takes no {parameter!r}, to which {name} is mapped{nearest(parameter, parameters)}"
                )
        return parameters

    def takes(self, name: str) -> bool:
        """Say whether a field can be passed."""
        return name in self.mapping or name in self.parameters

    def grows(self) -> bool:
        """Say whether it may make growing caches: it takes no window, or a kind, or a window that may be None."""
        window = self.parameters.get(self.mapping.get("window", "window"))
        return not self.takes("window") or self.takes("kind") or (window is not None and window.default is None)

    def __call__(self, layer: LayerSpec, config: Config) -> Any:
        """Build a cache of a layer."""
        if layer.kind == "full" and layer.problem:
            raise ValueError(layer.problem)
        try:
            self.check(layer)
        except TargetError as error:
            raise UnsupportedError(str(error)) from error
        return self.make(**self.arguments(layer, config))

    def arguments(self, layer: LayerSpec, c: Config) -> dict[str, Any]:
        """Give the arguments for a layer: a field that a growing cache does not have is left out."""
        values: dict[str, Any] = {"kind": layer.kind, "dtype": self.arrays.dtype(c.dtype), "batch": c.batch}
        values |= {"kv_heads": c.kv_heads, "head_dim": c.head_dim, "value_dim": c.value_dim}
        values |= {"window": layer.window, "sinks": layer.sinks} if layer.kind == "ring" else {}
        return {self.mapping.get(name, name): value for name, value in values.items() if self.takes(name)}

    def check(self, layer: LayerSpec) -> None:
        """Raise ``TargetError`` if a cache of this layer cannot be asked for."""
        if layer.kind == "full" and not self.grows():
            raise TargetError(f"py:{self.text} takes a window: it makes rings, no growing caches")
        for name in ("window", "sinks"):
            if getattr(layer, name) and not self.takes(name):
                raise TargetError(f"py:{self.text} takes no {name}{self._hint(name)}")
        given = self.arguments(layer, Config("full"))
        for name, parameter in self.parameters.items():
            wanted = parameter.default is parameter.empty and parameter.kind not in (
                parameter.VAR_POSITIONAL,
                parameter.VAR_KEYWORD,
            )
            if wanted and (name not in given or parameter.kind is parameter.POSITIONAL_ONLY):
                field = next((field for field, names in ALIASES.items() if name in names), "FIELD")
                raise TargetError(
                    f"py:{self.text} wants {name!r}, which is no field of a {layer.kind} cache; map a field to it "
                    f"(--map {field}={name}; fields are {', '.join(FIELDS)}), or point to a factory of your own"
                )

    def _hint(self, name: str) -> str:
        likely = next((p for p in ALIASES.get(name, ()) if p in self.parameters), "PARAMETER")
        takes = f" (it takes {', '.join(self.parameters)})" if self.parameters else ""
        return f"; say by which parameter it does: --map {name}={likely}{takes}"


def arrays_named(name: str | None) -> Arrays:
    """Give the array library of that name: by default MLX where it is installed."""
    if name is None:
        name = "mlx" if has_mlx() else "numpy"
    if name == "numpy":
        return NumpyArrays()
    if name != "mlx":
        raise TargetError(f"array={name}: the libraries are mlx and numpy")
    if not has_mlx():
        raise TargetError(
            "array=mlx: MLX is not installed; pip install mlx, or give the cache NumPy arrays (array=numpy)"
        )
    return MlxArrays(cpu=True)


def adapter(text: str, options: Mapping[str, str], mapping: Mapping[str, str]) -> Adapter:
    """Make the adapter of a ``py:`` target."""
    return adapt(find(text), text, options, mapping)


def adapt(found: Any, text: str, options: Mapping[str, str], mapping: Mapping[str, str]) -> Adapter:
    """Make the adapter of a class, a factory or an ``Adapter``, called ``text`` in messages."""
    if isinstance(found, Adapter):
        return found
    if inspect.isclass(found) and issubclass(found, Adapter):
        return _built(text, found)
    if not callable(found):
        raise TargetError(f"py:{text} is a {type(found).__name__}: a class, a factory or an Adapter is wanted")
    factory = Factory(found, text, mapping, arrays_named(options.get("array")))
    return _adapted(factory, options)


def _adapted(factory: Factory, options: Mapping[str, str]) -> Adapter:
    kinds, example = _examples(factory, options.get("kind"))
    made: ArrayAdapter
    if is_contract_type(example):
        made = ContractAdapter(factory.arrays, factory, example)
    elif is_duck(example):
        made = DuckAdapter(factory.arrays, factory, example, options.get("clone"))
    else:
        raise TargetError(
            f"py:{factory.text} makes a {type(example).__name__} without update_and_fetch (mlx-lm's duck type) or "
            "append_decode and append_window; subclass kvlaw.conformance.interface.Adapter for another interface"
        )
    made.kinds = kinds
    made.capabilities |= {"sinks"} if factory.takes("sinks") and "ring" in kinds else set()
    return made


def _examples(factory: Factory, asked: str | None) -> tuple[tuple[Kind, ...], Any]:
    """Build one cache of each kind that is asked for, or of each that can be built."""
    if asked is not None and asked not in KINDS:
        raise TargetError(f"kind={asked}: the kinds are {', '.join(KINDS)}")
    built: dict[Kind, Any] = {}
    errors: list[TargetError] = []
    for kind in KINDS:
        if asked in (None, kind):
            try:
                built[kind] = _example(factory, LayerSpec(kind, 8 if kind == "ring" else None))
            except TargetError as error:
                errors.append(error)
    if not built:
        raise errors[0]
    return tuple(built), next(iter(built.values()))


def _example(factory: Factory, layer: LayerSpec) -> Any:
    factory.check(layer)
    return _built(f"{factory.text} of a {layer.describe()} cache", lambda: factory(layer, Config("full")))


def _built(text: str, make: Any) -> Any:
    try:
        with redirect_stdout(sys.stderr):
            return make()
    except (KeyboardInterrupt, TargetError):
        raise
    except BaseException as error:
        raise TargetError(f"building py:{text} failed: {describe(error)}") from error
