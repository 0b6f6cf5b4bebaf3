"""``py:module:attribute``: a cache class or factory of anybody's, found by import.

The attribute is an ``Adapter`` (a subclass or an instance, used as it is) or a class or factory of caches. A factory
gets those fields of the configuration that its signature takes: ``kind``, ``window``, ``sinks``, ``dtype``,
``batch``, ``kv_heads``, ``head_dim``, ``value_dim``; a mapping such as ``window=max_size`` says by which parameter it
takes a field. What it builds must have mlx-lm's duck type (``duck``) or the calls of our contract
(``contract_type``): one instance is built to look. With ``array=numpy`` caches get NumPy arrays, and MLX is not
imported. With ``kind=full_rows`` or ``ring_rows`` the groups are checked that its caches are merged into
(``duck_rows``).

A factory that takes ``rows`` makes groups of so many empty rows, with the calls of ``contract_rows``, and without
``rows``, which must have a default, the serial caches beside them; its ``kind``, if it takes one, is then ``full_rows``
or ``ring_rows`` for a group, ``full`` or ``ring`` for a cache.

A factory that takes ``bits`` makes caches of codes (chapter 11 of the specification), and gets ``value_bits``,
``group`` and ``start`` if it takes them; a field that a policy leaves out is not passed. It is checked with dense
storage if its ``bits`` may be None, with codes from the first append on (affine) if its ``start`` may be None or it
has none, half precision first if it takes a start: a number of positions, or ``"never"``. One cache of codes is
appended to, to see whether it hands codes out (triples of words, scales and biases) or dequantizes them.
"""

import importlib
import inspect
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from attrs import evolve

from kvlaw.conformance.guard import describe
from kvlaw.conformance.interface import Adapter, UnsupportedError
from kvlaw.conformance.subjects.array_adapter import ArrayAdapter, is_triple
from kvlaw.conformance.subjects.arrays import Arrays, NumpyArrays
from kvlaw.conformance.subjects.contract_rows import ContractRowsAdapter, is_contract_group
from kvlaw.conformance.subjects.contract_type import ContractAdapter, is_contract_type
from kvlaw.conformance.subjects.duck import DuckAdapter, is_duck
from kvlaw.conformance.subjects.duck_rows import DuckRowsAdapter
from kvlaw.conformance.subjects.errors import MisnamedError, TargetError, nearest
from kvlaw.conformance.subjects.mlx_arrays import MlxArrays, has_mlx
from kvlaw.spec.config import KINDS, POLICIES, ROW_KINDS, SERIAL_KINDS, WINDOWED, Config, Kind, LayerSpec, Policy

POLICY = ("bits", "value_bits", "group", "start")
FIELDS = ("kind", "window", "sinks", "rows", "dtype", "batch", "kv_heads", "head_dim", "value_dim", *POLICY)
"""What a factory can be given."""

ALIASES = {
    "window": ("max_size", "size", "max_len", "maxlen", "max_length", "window_size", "sliding_window", "capacity"),
    "sinks": ("keep", "num_sinks"),
    "bits": ("kv_bits", "nbits", "num_bits", "key_bits"),
    "value_bits": ("v_bits",),
    "group": ("group_size", "kv_group_size", "q_group_size"),
    "start": ("quantized_kv_start", "quantize_after", "threshold"),
}
"""Parameter names that probably mean a field, for a hint."""

DEFAULT_GROUP = LayerSpec("full").group
"""The group of a policy that names none: a factory without a group is asked for no other."""


def find(text: str) -> Any:
    """Import ``module:attribute``; raise ``TargetError`` that says what is missing."""
    name, colon, path = text.partition(":")
    if not name or not colon or not path:
        raise MisnamedError(f"py:{text}: write py:module:attribute, such as py:acme.cache:RingCache")
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
                raise MisnamedError(
                    f"no field {name!r} to map{nearest(name, FIELDS)}; the fields are {', '.join(FIELDS)}"
                )
        try:
            parameters = inspect.signature(self.make).parameters
        except (TypeError, ValueError):
            return {}
        open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
        for name, parameter in self.mapping.items():
            if parameter not in parameters and not open_ended:
                raise MisnamedError(
                    f"py:{self.text} takes no {parameter!r}, to which {name} is mapped{nearest(parameter, parameters)}"
                )
        return parameters

    def takes(self, name: str) -> bool:
        """Say whether a field can be passed."""
        return name in self.mapping or name in self.parameters

    def grows(self) -> bool:
        """Say whether it may make growing caches: it takes no window, or a kind, or a window that may be None."""
        return not self.takes("window") or self.takes("kind") or self._optional("window")

    def _optional(self, name: str) -> bool:
        """Say whether a field may be None: the default of its parameter is."""
        parameter = self.parameters.get(self.mapping.get(name, name))
        return parameter is not None and parameter.default is None

    @property
    def policies(self) -> tuple[Policy, ...]:
        """The kinds of storage policy of the caches that it makes."""
        if not self.takes("bits"):
            return ("dense",)
        open_ended = self.mapping.get("bits", "bits") not in self.parameters
        able = {
            "dense": open_ended or self._optional("bits"),
            "affine": not self.takes("start") or open_ended or self._optional("start"),
            "bf16_first": self.takes("start"),
        }
        return tuple(policy for policy in POLICIES if able[policy])

    def __call__(self, layer: LayerSpec, config: Config) -> Any:
        """Build a cache of a layer; what the factory cannot be told is refused here, what it is told is its own."""
        return self._made(layer, self.arguments(layer, config))

    def make_rows(self, layer: LayerSpec, rows: int, config: Config) -> Any:
        """Build a group of empty rows."""
        return self._made(layer, {**self.arguments(layer, config), self.mapping.get("rows", "rows"): rows})

    def _made(self, layer: LayerSpec, given: Mapping[str, Any]) -> Any:
        if layer.grows and layer.ring_problem:
            raise ValueError(layer.ring_problem)
        try:
            self.check(layer)
        except TargetError as error:
            raise UnsupportedError(str(error)) from error
        return self.make(**given)

    def arguments(self, layer: LayerSpec, c: Config) -> dict[str, Any]:
        """Give the arguments for a layer: a field that a growing or a dense cache does not have is left out."""
        values: dict[str, Any] = {"kind": layer.kind, "dtype": self.arrays.dtype(c.dtype), "batch": c.batch}
        values |= {"kv_heads": c.kv_heads, "head_dim": c.head_dim, "value_dim": c.value_dim}
        values |= {} if layer.grows else {"window": layer.window, "sinks": layer.sinks}
        values |= {name: getattr(layer, name) for name in _given(layer)}
        return {self.mapping.get(name, name): value for name, value in values.items() if self.takes(name)}

    def told(self, config: Config) -> str:
        """Tell by which call the first cache of a trace is built."""
        rows = {self.mapping.get("rows", "rows"): config.row_count} if self.takes("rows") and config.is_rows else {}
        layer = config.layer if rows else config.layer.serial
        given = {**self.arguments(layer, config), **rows}
        words = [
            f"{name}={value!r}" if isinstance(value, int | str) else f"{name}={config.dtype}"
            for name, value in given.items()
        ]
        call = f"{self.text.rpartition(':')[2]}({', '.join(words)})"
        return call if rows or not config.is_rows else f"{call}, {config.row_count} of them merged"

    def check(self, layer: LayerSpec) -> None:
        """Raise ``TargetError`` if a cache of this layer cannot be asked for."""
        if layer.grows and not self.grows():
            raise TargetError(f"py:{self.text} takes a window: it makes rings, no growing caches")
        asked = (*(name for name in ("window", "sinks") if getattr(layer, name)), *_given(layer))
        for name in asked:
            if not self.takes(name) and not (name == "group" and layer.group == DEFAULT_GROUP):
                raise TargetError(f"py:{self.text} takes no {name}{self._hint(name)}")
        given = self.arguments(layer, Config("full"))
        for name, parameter in self.parameters.items():
            wanted = parameter.default is parameter.empty and parameter.kind not in (
                parameter.VAR_POSITIONAL,
                parameter.VAR_KEYWORD,
            )
            if wanted and (name not in given or parameter.kind is parameter.POSITIONAL_ONLY):
                raise TargetError(self._wanting(name, layer))

    def _wanting(self, name: str, layer: LayerSpec) -> str:
        """Say of a parameter without a default that no field has its name, and how to give it one."""
        field = next((field for field, names in ALIASES.items() if name in names), "")
        kind = "a ring" if field in ("window", "sinks") or not layer.grows else "a cache"
        way = f"say which field it is: --map {field or 'FIELD'}={name}"
        listed = f"fields are {', '.join(FIELDS)}"
        return (
            f"py:{self.text} wants {name!r}, which no field of {kind} is called; {way} ({listed}), "
            "or point to a factory of your own"
        )

    def _hint(self, name: str) -> str:
        likely = next((p for p in ALIASES.get(name, ()) if p in self.parameters), "PARAMETER")
        takes = f" (it takes {', '.join(self.parameters)})" if self.parameters else ""
        return f"; say by which parameter it does: --map {name}={likely}{takes}"


def _given(layer: LayerSpec) -> tuple[str, ...]:
    """List the fields of a layer's storage policy that are given; a group comes with bits."""
    named = (name for name in ("bits", "value_bits", "start") if getattr(layer, name) is not None)
    return (*named, *(("group",) if layer.bits is not None else ()))


def arrays_named(name: str | None) -> Arrays:
    """Give the array library of that name: by default MLX where it is installed."""
    if name is None:
        name = "mlx" if has_mlx() else "numpy"
    if name == "numpy":
        return NumpyArrays()
    if name != "mlx":
        raise MisnamedError(f"array={name}: the libraries are mlx and numpy")
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
    asked = options.get("kind")
    made: ArrayAdapter
    if factory.takes("rows") and asked not in SERIAL_KINDS:
        return _adapted_groups(factory, asked)
    kinds, example = _examples(factory, asked)
    if kinds[0] in ROW_KINDS:
        made = _adapted_rows(factory, example, kinds[0], options.get("clone"))
    elif is_contract_type(example):
        made = ContractAdapter(factory.arrays, factory, example)
    elif is_duck(example):
        made = DuckAdapter(factory.arrays, factory, example, options.get("clone"))
    else:
        raise TargetError(
            f"py:{factory.text} makes a {type(example).__name__} without update_and_fetch (mlx-lm's duck type) or "
            "append_decode and append_window; subclass kvlaw.conformance.interface.Adapter for another interface"
        )
    made.kinds, made.policies = kinds, factory.policies
    made.capabilities |= {"sinks"} if factory.takes("sinks") and not {"ring", "ring_rows"}.isdisjoint(kinds) else set()
    return _with_policy(made, factory)


def _adapted_groups(factory: Factory, asked: str | None) -> ArrayAdapter:
    """Adapt groups that a factory makes of so many rows."""
    if asked not in (None, *ROW_KINDS):
        raise MisnamedError(f"kind={asked}: the kinds are {', '.join(KINDS)}")
    able: list[Kind] = [kind for kind in ROW_KINDS if factory.takes("window") or kind == "full_rows"]
    kinds: tuple[Kind, ...] = tuple(k for k in able if asked in (None, k) and (k != "full_rows" or factory.grows()))
    if not kinds:
        raise TargetError(f"py:{factory.text} makes no {asked}: a ring takes a window, a growing group can do without")
    layer = evolve(_layer(kinds[0], factory.policies[0]), kind=kinds[0])
    made = _built(f"{factory.text} of 2 rows", lambda: factory.make_rows(layer, 2, Config(kinds[0])))
    if not is_contract_group(made):
        raise TargetError(
            f"py:{factory.text} takes rows, and makes a {type(made).__name__} without append_decode, append_window, "
            "rows and offsets; subclass kvlaw.conformance.interface.Adapter for another interface"
        )
    adapted = ContractRowsAdapter(factory.arrays, factory, factory.make_rows, made)
    adapted.kinds, adapted.policies = kinds, factory.policies
    adapted.capabilities |= {"sinks"} if factory.takes("sinks") and "ring_rows" in kinds else set()
    return _with_policy(adapted, factory)


def _adapted_rows(factory: Factory, example: Any, kind: Kind, clone: str | None) -> ArrayAdapter:
    """Adapt the groups that serial caches are merged into."""
    if not is_duck(example) or not callable(getattr(example, "merge", None)):
        raise TargetError(
            f"py:{factory.text} makes a {type(example).__name__} without update_and_fetch and merge (mlx-lm's duck "
            f"type), of which no {kind} come; subclass kvlaw.conformance.interface.Adapter for another interface"
        )
    return _built(factory.text, lambda: DuckRowsAdapter(factory.arrays, factory, example, clone))


def _with_policy(made: ArrayAdapter, factory: Factory) -> ArrayAdapter:
    """Name what an adapter of caches with a storage policy can do and show."""
    coded: list[Policy] = [policy for policy in factory.policies if policy != "dense"]
    if not coded:
        return made
    made.capabilities |= {"policy", *coded, *({"value_bits"} if factory.takes("value_bits") else set[str]())}
    if _hands_out_codes(made, coded[0]):
        made.takes_codes()
    return made


def _hands_out_codes(made: ArrayAdapter, policy: Policy) -> bool:
    """Say whether a read of codes fetches triples: two positions are appended to a cache that is due at once."""
    bits = made.tensor(np.zeros((1, 2, 1, 64), np.uint16), "bf16")
    layer = _layer(made.kinds[0], policy)
    try:
        with redirect_stdout(sys.stderr):
            cache = made.build(layer)
            reads = [made.append(cache, bits, bits, "decode", None, False) for _ in range(2)]
            fetched = made.fetched(reads[1])
    except KeyboardInterrupt:
        raise
    except BaseException:  # whatever is wrong with it, its check will tell
        return False
    return fetched is not None and is_triple(fetched[0])


def _layer(kind: Kind, policy: Policy) -> LayerSpec:
    """Give an example of a layer of a kind and a kind of policy; for a group that of a row of it."""
    plain = LayerSpec(kind, 8 if kind in WINDOWED else None).serial
    given = {"dense": {}, "affine": {"bits": 8}, "bf16_first": {"bits": 8, "start": 0}}
    return evolve(plain, **given[policy])


def _examples(factory: Factory, asked: str | None) -> tuple[tuple[Kind, ...], Any]:
    """Build one cache of each kind that is asked for, or of each that can be built."""
    if asked is not None and asked not in KINDS:
        raise MisnamedError(f"kind={asked}: the kinds are {', '.join(KINDS)}")
    built: dict[Kind, Any] = {}
    errors: list[TargetError] = []
    for kind in KINDS if asked in ROW_KINDS else SERIAL_KINDS:
        if asked in (None, kind):
            try:
                built[kind] = _example(factory, _layer(kind, factory.policies[0]))
            except TargetError as error:
                errors.append(error)
    if not built:
        raise errors[-1 if factory.takes("window") or factory.takes("sinks") else 0]  # it is meant to make rings
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
