"""The JSON Schema of one line of a record (draft 2020-12), made from the classes of ``events``.

``python -m kvlaw.conformance.event_schema`` prints what ``schema/events.json`` must hold. That the lines of a record
are in order, and that there are as many as its last one counts, is the reader's question (``event_file``).
"""

import json
from typing import Any

from kvlaw.conformance.events import EVENTS, LawText, StepShown, Strip
from kvlaw.spec.structure import Json
from kvlaw.spec.trace_schema import object_schema, trace_schema

_PARTS = (StepShown, Strip, LawText)


def event_schema() -> Json:
    """Describe one event as a JSON Schema."""
    traces = trace_schema()
    calls: dict[str, Any] = traces["properties"]["calls"]
    trace = {
        "description": "A configuration and the calls made on it.",
        "type": "object",
        "properties": {"config": {"$ref": "#/$defs/config"}, "calls": calls},
        "required": ["config"],
        "additionalProperties": False,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "kvlaw event",
        "description": "One line of the record of a run, as kvlaw check --events writes it.",
        "oneOf": [{"$ref": f"#/$defs/{name}"} for name in EVENTS],
        "$defs": {
            **{name: object_schema(kind, {"event": {"const": name}}) for name, kind in EVENTS.items()},
            **{kind.__name__: object_schema(kind) for kind in _PARTS},
            "trace": trace,
            **traces["$defs"],
        },
    }


if __name__ == "__main__":
    print(json.dumps(event_schema(), indent=2))  # noqa: T201  # its output is the file
