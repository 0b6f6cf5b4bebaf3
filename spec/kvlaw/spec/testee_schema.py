"""The JSON Schema of the testee protocol (draft 2020-12), made from the classes themselves.

``python -m kvlaw.spec.testee_schema`` prints what ``schema/testee.json`` must hold: a line is a ``message`` of the
harness or an ``answer`` of the testee. Unknown fields are allowed everywhere, as within one version of the protocol.
"""

import json
from collections.abc import Mapping
from typing import Any, cast, get_args

import attrs

from kvlaw.spec.calls import CALLS, DAMAGES
from kvlaw.spec.config import CODE_BITS, DTYPES, KINDS, POLICIES
from kvlaw.spec.contract import CAPABILITIES
from kvlaw.spec.structure import Json
from kvlaw.spec.trace_schema import trace_schema
from kvlaw.spec.wire import MOST_ID, PROTOCOLS, VERBS, Hello, KernelSet
from kvlaw.spec.wire_views import view_schemas


def protocol_schema() -> Json:
    """Describe the lines of the protocol as a JSON Schema."""
    number = {"type": "integer", "minimum": 0, "maximum": MOST_ID}
    trace: Json = trace_schema()["$defs"]
    views = view_schemas()
    answer = views.pop("answer")
    line = answer | {"properties": {"id": number, "hello": {"$ref": "#/$defs/hello"}} | answer["properties"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "kvlaw testee protocol",
        "description": "A line of the harness, or the testee's answer to it.",
        "anyOf": [{"$ref": "#/$defs/message"}, {"$ref": "#/$defs/line"}],
        "$defs": {
            "message": {
                "description": "A line of the harness: an id, and what is asked.",
                "type": "object",
                "properties": {"id": number},
                "required": ["id"],
                "oneOf": [{"required": [verb], "$ref": f"#/$defs/{verb}_message"} for verb in VERBS],
            },
            "line": line | {"description": "An answer, with the id of its message.", "required": ["id", "outcome"]},
            "answer": answer,
            "hello": _hello(),
            **_messages(),
            **views,
            **{f"call_{verb}": _open(trace[verb]) for verb in CALLS},
            "config": _open(trace["config"]),
            "layer": _open(trace["layer"]),
        },
    }


def _messages() -> Mapping[str, Json]:
    protocols = {"type": "array", "items": {"type": "integer"}}
    harness = {"protocols": protocols, "spec": {"type": "string"}, "harness": {"type": "string"}}
    call = {
        "call": {"oneOf": [{"$ref": f"#/$defs/call_{verb}"} for verb in CALLS]},
        "look": {"description": "Show everything there is to see; else evaluate nothing.", "type": "boolean"},
        "tokens": {
            "description": "The ids of what is appended, row by row.",
            "type": "array",
            "items": {"type": "integer"},
        },
        "tensors": {"type": "object", "additionalProperties": {"$ref": "#/$defs/tensor"}},
        "scale": {"description": "The softmax scale of the queries.", "type": "number"},
    }
    return {
        "hello_message": _properties({"hello": {"type": "object", "properties": harness, "required": ["protocols"]}}),
        "open_message": _properties({"open": {"$ref": "#/$defs/config"}}),
        "call_message": _properties(call) | {"required": ["call", "look"]},
        "bye_message": _properties({"bye": {"type": "object"}}),
    }


def _properties(properties: Json) -> Json:
    return {"type": "object", "properties": properties}


def _hello() -> Json:
    several = {
        "kinds": KINDS,
        "capabilities": tuple(CAPABILITIES),
        "policies": POLICIES,
        "dtypes": DTYPES,
        "code_bits": CODE_BITS,
        "damages": DAMAGES,
    }
    return {
        "description": str(Hello.__doc__).partition("\n")[0],
        "type": "object",
        "properties": {
            "protocol": {"enum": list(PROTOCOLS)},
            "name": {"type": "string"},
            **{name: {"type": "array", "items": {"enum": list(words)}} for name, words in several.items()},
            "kernel_set": {"enum": list(get_args(KernelSet))},
            "hints": {"type": "boolean"},
        },
        "required": [a.name for a in attrs.fields(Hello) if a.default is attrs.NOTHING],
    }


def _open(schema: Any) -> Any:
    """Allow unknown fields, and let layers be found by their name."""
    if isinstance(schema, dict):
        body = cast("Json", schema)
        return {name: _open(item) for name, item in body.items() if name != "additionalProperties"}
    return [_open(item) for item in cast("list[Any]", schema)] if isinstance(schema, list) else schema


if __name__ == "__main__":
    print(json.dumps(protocol_schema(), indent=2))  # noqa: T201  # its output is the file
