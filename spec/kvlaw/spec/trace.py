"""A trace: a configuration and the calls made on it, in JSON.

A failure, a vector, an example of the spec, a stored case and a wire message are the same thing.  ``Trace.loads``
refuses what is no JSON, ``Trace.from_json`` an unknown version, field, verb or value, by name and position
(``TraceError``); ``trace_schema`` is the JSON Schema that is checked into ``spec/kvlaw/spec/schema/trace.json``.
"""

import json
from typing import Any, Literal, NoReturn, cast

from attrs import field, frozen

from kvlaw.spec.calls import Call
from kvlaw.spec.config import Config
from kvlaw.spec.structure import TOP, Json, TraceError, dump, load, shown
from kvlaw.spec.trace_schema import VERSION, trace_schema


@frozen
class Trace:
    """A configuration and the calls made on it."""

    config: Config
    calls: tuple[Call, ...] = field(default=(), converter=tuple[Call, ...])

    def to_json(self) -> Json:
        """Write the trace as plain JSON values, defaults left out."""
        return {"version": VERSION, "config": dump(self.config), "calls": [dump(call) for call in self.calls]}

    @classmethod
    def from_json(cls, data: object) -> "Trace":
        """Read what ``to_json`` wrote; raise ``TraceError`` for anything else."""
        version = cast("Json", data).get("version", VERSION) if isinstance(data, dict) else VERSION
        if version != VERSION:
            raise TraceError(f"the trace says version {shown(version)}; this kvlaw reads version {VERSION}")
        document = load(Document, cast("object", data), TOP)
        return cls(document.config, document.calls)

    @classmethod
    def loads(cls, text: str) -> "Trace":
        """Read a trace from JSON text; raise ``TraceError`` for text that is no JSON or no trace."""
        return cls.from_json(read_json(text))

    def dumps(self) -> str:
        """Write the trace as one line of JSON."""
        return json.dumps(self.to_json(), separators=(", ", ": "), allow_nan=False)


@frozen
class Document:
    """A trace as it lies in a file: beside the trace, the fields that only people and the failure store read."""

    config: Config
    calls: tuple[Call, ...] = ()
    version: Literal[1] = VERSION
    id: Any = None
    note: Any = None
    expect: Any = None
    target: Any = None
    profile: Any = None
    found: Any = None


def read_json(text: str) -> Any:
    """Read JSON text strictly: no NaN, no Infinity, no name twice in one object; raise ``TraceError``."""
    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise TraceError(f"no valid JSON: {error.msg} at line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise TraceError("no valid JSON: nested too deeply") from None
    except TraceError:
        raise
    except ValueError as error:  # an integer of thousands of digits
        raise TraceError(f"no valid JSON: {error}") from None


def _no_constant(name: str) -> NoReturn:
    raise TraceError(f"no valid JSON: {name} is no JSON number")


def _once(pairs: list[tuple[str, Any]]) -> Json:
    body = dict(pairs)
    if len(body) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise TraceError(f"no valid JSON: {twice!r} stands twice in one object")
    return body


__all__ = ["VERSION", "Json", "Trace", "TraceError", "dump", "load", "read_json", "trace_schema"]
