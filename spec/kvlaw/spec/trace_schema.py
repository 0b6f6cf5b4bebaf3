"""The JSON Schema of a trace (draft 2020-12), made from the classes themselves.

``python -m kvlaw.spec.trace_schema`` prints what ``schema/trace.json`` must hold.  The loader is the stricter of the
two: JSON Schema takes 4.0 for an integer, and whether a configuration or a count is possible is the law's question.
"""

import json
from collections.abc import Mapping
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import attrs

from kvlaw.spec.calls import CALLS
from kvlaw.spec.config import Config, LayerSpec
from kvlaw.spec.structure import Json, written

VERSION: Literal[1] = 1
FREE_FIELDS = ("id", "note", "expect", "target", "profile")
"""Fields of a stored trace that only people and the failure store read: any value."""

_NAMES = {"LayerSpec": "layer", "Trace": "trace"}
"""Classes that have a name of their own in a schema."""
_TYPES = {int: "integer", float: "number", str: "string", bool: "boolean", NoneType: "null"}


def trace_schema() -> Json:
    """Describe a trace as a JSON Schema."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "kvlaw trace",
        "description": "A configuration and the calls made on it.",
        "type": "object",
        "properties": {
            "version": {"const": VERSION},
            "config": {"$ref": "#/$defs/config"},
            "calls": {"type": "array", "items": {"oneOf": [{"$ref": f"#/$defs/{verb}"} for verb in CALLS]}},
            **{name: {} for name in FREE_FIELDS},
        },
        "required": ["config"],
        "additionalProperties": False,
        "$defs": {
            "config": object_schema(Config),
            "layer": object_schema(LayerSpec),
            **{verb: object_schema(kind, {"call": {"const": verb}}) for verb, kind in CALLS.items()},
        },
    }


def object_schema(kind: type[Any], extra: Mapping[str, Json] | None = None) -> Json:
    """Describe an attrs class; ``extra`` fields stand before its own, and are always there."""
    fields = attrs.fields(kind)
    named = extra or {}
    return {
        "description": str(kind.__doc__).partition("\n")[0],
        "type": "object",
        "properties": {**named, **{written(a.name): _field(a) for a in fields}},
        "required": [*named, *(written(a.name) for a in fields if a.default is attrs.NOTHING)],
        "additionalProperties": False,
    }


def _field(attribute: "attrs.Attribute[Any]") -> Json:
    schema: Json = attribute.metadata.get("schema", {})
    return schema if "anyOf" in schema else _value(attribute.type) | schema


def _value(kind: Any) -> Json:
    if get_origin(kind) is tuple:
        return {"type": "array", "items": _value(get_args(kind)[0])}
    if get_origin(kind) is dict:
        return {"type": "object", "additionalProperties": _value(get_args(kind)[1])}
    if attrs.has(kind):
        return {"$ref": f"#/$defs/{_NAMES.get(kind.__name__, kind.__name__)}"}
    if get_origin(kind) is Literal:
        return {"enum": list(get_args(kind))}
    if get_args(kind):
        return {"anyOf": [_value(option) for option in get_args(kind)]}
    return {"type": _TYPES[kind]}


if __name__ == "__main__":
    print(json.dumps(trace_schema(), indent=2))  # noqa: T201  # its output is the file
