"""A trace: a configuration and the calls made on it, in JSON.

A failure, a vector, an example of the spec, a stored case and a wire message are the same thing.  JSON in, JSON out:
``Trace.from_json`` refuses an unknown version, field, verb or value by name and position (``TraceError``);
``trace_schema`` is the JSON Schema that is checked into ``spec/kvlaw/spec/schema/trace.json``.
"""

import json
from typing import Any, Literal, TypeAlias, cast, get_args, get_origin

import attrs
from attrs import field, frozen

from kvlaw.spec.calls import CALLS, Call
from kvlaw.spec.config import Config, LayerSpec

VERSION = 1
Json: TypeAlias = dict[str, Any]


class TraceError(ValueError):
    """A trace that cannot be read: says what is wrong, where, and what would be right."""


@frozen
class Trace:
    """A configuration and the calls made on it."""

    config: Config
    calls: tuple[Call, ...] = field(default=(), converter=tuple)

    def to_json(self) -> Json:
        """Write the trace as plain JSON values, defaults left out."""
        return {"version": VERSION, "config": dump(self.config), "calls": [dump(call) for call in self.calls]}

    @classmethod
    def from_json(cls, data: object) -> "Trace":
        """Read what ``to_json`` wrote; raise ``TraceError`` for anything else."""
        body = _mapping(data, "the trace")
        _known(body, {"version", "config", "calls", "id", "note", "expect", "target"}, "the trace")
        if body.get("version", VERSION) != VERSION:
            raise TraceError(f"the trace says version {body['version']!r}; this kvlaw reads version {VERSION}")
        config = load(Config, _mapping(body.get("config"), "config"), "config")
        calls = body.get("calls", [])
        if not isinstance(calls, list):
            raise TraceError(f"calls: a list of calls is wanted, not {type(calls).__name__}")
        return cls(config, tuple(_call(item, i) for i, item in enumerate(cast("list[object]", calls))))

    @classmethod
    def loads(cls, text: str) -> "Trace":
        """Read a trace from JSON text."""
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise TraceError(f"no valid JSON: {error.msg} at line {error.lineno} column {error.colno}") from None
        return cls.from_json(data)

    def dumps(self) -> str:
        """Write the trace as one line of JSON."""
        return json.dumps(self.to_json(), separators=(", ", ": "))


def dump(value: Any) -> Json:
    """Write a configuration or a call as JSON, leaving out what is at its default."""
    out: Json = {"call": value.verb} if hasattr(type(value), "verb") else {}
    for attribute in attrs.fields(type(value)):
        item = getattr(value, attribute.name)
        if item == attribute.default and type(item) is type(attribute.default):
            continue
        name = attribute.name.rstrip("_")
        out[name] = [dump(layer) for layer in item] if attribute.name == "layers" else item
    return out


def load(kind: type[Any], data: Json, where: str) -> Any:
    """Build an attrs value from JSON, refusing unknown fields and wrong types by name."""
    fields = {attribute.name.rstrip("_"): attribute for attribute in attrs.fields(kind)}
    _known(data, set(fields), where)
    missing = [n for n, a in fields.items() if a.default is attrs.NOTHING and n not in data]
    if missing:
        raise TraceError(f"{where}: {', '.join(missing)} is missing")
    values = {fields[name].name: _value(fields[name].type, item, f"{where}.{name}") for name, item in data.items()}
    try:
        return kind(**values)
    except (ValueError, TypeError) as error:
        raise TraceError(f"{where}: {error.args[0]}") from None


def _call(item: object, index: int) -> Call:
    body = dict(_mapping(item, f"call {index + 1}"))
    verb = body.pop("call", None)
    if not isinstance(verb, str) or verb not in CALLS:
        raise TraceError(f"call {index + 1}: unknown call {verb!r}; known are {', '.join(CALLS)}")
    return load(CALLS[verb], body, f"call {index + 1} ({verb})")


def _mapping(data: object, where: str) -> Json:
    if not isinstance(data, dict):
        raise TraceError(f"{where}: a JSON object is wanted, not {type(data).__name__}")
    return cast("Json", data)


def _known(data: Json, known: set[str], where: str) -> None:
    unknown = sorted(set(data) - known)
    if unknown:
        raise TraceError(f"{where}: unknown field {', '.join(unknown)}; known are {', '.join(sorted(known))}")


def _value(kind: Any, item: object, where: str) -> object:
    if kind == tuple[LayerSpec, ...]:
        if not isinstance(item, list):
            raise TraceError(f"{where}: a list of layers is wanted")
        layers = cast("list[object]", item)
        return tuple(load(LayerSpec, _mapping(x, where), f"{where}[{i}]") for i, x in enumerate(layers))
    if not _fits(kind, item):
        raise TraceError(f"{where}: {item!r} is no {_name(kind)}")
    return item


def _fits(kind: Any, item: object) -> bool:
    if get_origin(kind) is Literal:
        return item in get_args(kind)
    if get_args(kind):
        return any(_fits(option, item) for option in get_args(kind))
    if kind is float:
        return isinstance(item, float)
    return type(item) is kind


def _name(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(str, get_args(kind)))
    if get_args(kind):
        return " or ".join(_name(option) for option in get_args(kind))
    return {"int": "integer", "str": "text", "bool": "true or false", "NoneType": "null"}.get(
        kind.__name__, kind.__name__
    )


def trace_schema() -> Json:
    """Describe a trace as a JSON Schema (draft 2020-12), made from the classes themselves."""
    layer = _object(LayerSpec)
    calls = [_object(kind, {"call": {"const": verb}}) for verb, kind in CALLS.items()]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "kvlaw trace",
        "type": "object",
        "properties": {
            "version": {"const": VERSION},
            "config": _object(Config),
            "calls": {"type": "array", "items": {"oneOf": calls}},
            **{name: {} for name in ("id", "note", "expect", "target")},
        },
        "required": ["config", "calls"],
        "additionalProperties": False,
        "$defs": {"layer": layer},
    }


def _object(kind: type[Any], extra: Json | None = None) -> Json:
    fields = attrs.fields(kind)
    return {
        "type": "object",
        "properties": {**(extra or {}), **{a.name.rstrip("_"): _schema(a.type) for a in fields}},
        "required": [*(extra or {}), *(a.name.rstrip("_") for a in fields if a.default is attrs.NOTHING)],
        "additionalProperties": False,
    }


def _schema(kind: Any) -> Json:
    if kind == tuple[LayerSpec, ...]:
        return {"type": "array", "items": {"$ref": "#/$defs/layer"}}
    if get_origin(kind) is Literal:
        return {"enum": list(get_args(kind))}
    if get_args(kind):
        return {"anyOf": [_schema(option) for option in get_args(kind)]}
    names = {int: "integer", float: "number", str: "string", bool: "boolean"}
    return {"type": names.get(kind, "null")}
