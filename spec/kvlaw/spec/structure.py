"""How values become JSON and JSON becomes values: one cattrs converter without any coercion.

``"5"`` is no integer, ``true`` no number, ``4.0`` no count; unknown and missing fields are errors; what is at its
default is left out when written; ``as_`` is written ``as``; a call is told by its verb in the field ``call``.  Whatever
cattrs has to say about a value becomes one ``TraceError``: where, what, and what would be right (``explain``).
"""

import json
import math
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, TypeVar, Union, cast, get_args, get_origin

import attrs
from cattrs import Converter
from cattrs.errors import ClassValidationError, ForbiddenExtraKeysError, IterableValidationError
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from kvlaw.spec.calls import CALLS, Call
from kvlaw.spec.nearest import nearest

Json: TypeAlias = dict[str, Any]
Value = TypeVar("Value")

PLAIN: dict[Any, str] = {int: "an integer", float: "a number", str: "text", bool: "true or false", NoneType: "null"}
"""The plain types, and how messages name them."""


class TraceError(ValueError):
    """A trace that cannot be read: says what is wrong, where, and what would be right."""


def load(kind: type[Value], data: object, where: str) -> Value:
    """Build an attrs value from JSON values.

    Args:
        kind: the attrs class.
        data: what ``json.loads`` gave.
        where: what to call it in messages.

    Raises:
        TraceError: for an unknown or missing field, a wrong type, or a value that the class refuses; names the field.
    """
    try:
        return _CONVERTER.structure(data, kind)
    except (ClassValidationError, IterableValidationError, ValueError) as error:
        raise explain(error, data, where) from None


def dump(value: Any) -> Json:
    """Write a configuration or a call as JSON values, leaving out what is at its default."""
    return cast("Json", _CONVERTER.unstructure(value))


def explain(error: Exception, data: object, where: str) -> TraceError:
    """Turn what cattrs raised into one sentence, following its notes to the first fault in the data."""
    if isinstance(error, ClassValidationError):
        return _explain_fields(error, data, where)
    if isinstance(error, IterableValidationError):
        inner, note = error.group_exceptions()[0][0]
        items = cast("list[object]", data)
        return explain(inner, items[int(note.index)], _item(where, int(note.index), items[int(note.index)]))
    return TraceError(f"{where}: {error.args[0]}" if where else str(error.args[0]))


def _explain_fields(error: ClassValidationError, data: object, where: str) -> TraceError:
    inside, others = error.group_exceptions()
    for other in others:
        if isinstance(other, ForbiddenExtraKeysError):
            known = sorted(written(a.name) for a in attrs.fields(other.cl))
            odd = sorted(other.extra_fields)
            hint = nearest(odd[0], known) if len(odd) == 1 else ""
            return TraceError(f"{where}: unknown field {', '.join(odd)}{hint}; known are {', '.join(known)}")
    missing = [written(note.name) for inner, note in inside if isinstance(inner, KeyError)]
    if missing:
        return TraceError(f"{where}: {', '.join(missing)} is missing")
    if not inside:
        return explain(others[0], data, where)
    inner, note = inside[0]
    name = written(note.name)
    top = where == TOP
    return explain(inner, cast("Json", data)[name], name if top else f"{where}.{name}")


TOP = "the trace"
"""The ``where`` of a whole trace: its fields are named without it."""


def _item(where: str, index: int, item: object) -> str:
    if where != "calls":
        return f"{where}[{index}]"
    verb = cast("Json", item).get("call") if isinstance(item, dict) else None
    return f"call {index + 1} ({verb})" if isinstance(verb, str) and verb in CALLS else f"call {index + 1}"


def written(name: str) -> str:
    """Give the name under which JSON and text know a field: ``as`` for ``as_``."""
    return name.rstrip("_")


def shown(value: object) -> str:
    """Quote a wrong value, shortly; what holds other values is only named."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value) if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def name_of(kind: Any) -> str:
    """Name a plain type, a choice of words, or a union of them, as messages do."""
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(str, get_args(kind)))
    if get_args(kind):
        return " or ".join(name_of(option) for option in get_args(kind))
    return PLAIN[kind]


def is_plain(kind: Any) -> bool:
    """Tell whether a type is plain: one of ``PLAIN``, a Literal, or a union of these."""
    if get_origin(kind) in (Union, UnionType):
        return all(is_plain(option) for option in get_args(kind))
    return kind in PLAIN or get_origin(kind) is Literal


def _fits(kind: Any, value: object) -> bool:
    if get_origin(kind) is Literal:
        return any(value == option and type(value) is type(option) for option in get_args(kind))
    if get_args(kind):
        return any(_fits(option, value) for option in get_args(kind))
    return type(value) is kind and not (isinstance(value, float) and not math.isfinite(value))


def _plain(value: object, kind: Any) -> Any:
    if not _fits(kind, value):
        raise ValueError(f"{shown(value)} is not {name_of(kind)}")
    return value


def _sequence(value: object, kind: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise ValueError(f"a list is wanted, not {shown(value)}")  # noqa: TRY004  # all faults of the data are ValueErrors
    return tuple(_CONVERTER.structure(value, list[get_args(kind)[0]]))


def _mapping(value: object, kind: Any) -> Json:
    """Read an object whose names are free, and whose values are plain, or anything."""
    inner = get_args(kind)[1]
    items = _object(value)
    return dict(items) if inner is Any else {name: _named(name, item, inner) for name, item in items.items()}


def _named(name: str, item: object, kind: Any) -> Any:
    try:
        return _plain(item, kind)
    except ValueError as error:
        raise ValueError(f"{shown(name)}: {error}") from None


def _may_be_sequence(kind: Any) -> bool:
    """Tell whether a type is a tuple or None."""
    return get_origin(kind) in (Union, UnionType) and any(get_origin(option) is tuple for option in get_args(kind))


def _sequence_or_none(value: object, kind: Any) -> tuple[Any, ...] | None:
    wanted = next(option for option in get_args(kind) if get_origin(option) is tuple)
    return None if value is None else _sequence(value, wanted)


def _object(value: object) -> Json:
    if not isinstance(value, dict):
        raise ValueError(f"an object is wanted, not {shown(value)}")  # noqa: TRY004  # as above
    return cast("Json", value)


def _call(value: object, _: Any) -> Call:
    body = _object(value)
    verb = body.get("call")
    if not isinstance(verb, str) or verb not in CALLS:
        hint = nearest(verb, CALLS) if isinstance(verb, str) else ""
        raise ValueError(f"unknown call {shown(verb)}{hint}; known are {', '.join(CALLS)}")
    return _CONVERTER.structure({name: item for name, item in body.items() if name != "call"}, CALLS[verb])


def _reader(kind: type[Any]) -> Callable[[object, Any], Any]:
    read = make_dict_structure_fn(kind, _CONVERTER, **_renamed(kind))
    return lambda value, _: read(_object(value), kind)


def _writer(kind: type[Any]) -> Callable[[Any], Json]:
    write = make_dict_unstructure_fn(kind, _CONVERTER, _cattrs_omit_if_default=True, **_renamed(kind))
    verb: str | None = getattr(kind, "verb", None)
    return write if verb is None else lambda value: {"call": verb, **write(value)}


def _renamed(kind: type[Any]) -> dict[str, Any]:
    names = [a.name for a in attrs.fields(kind) if a.name != written(a.name)]
    return {name: override(rename=written(name)) for name in names}


def _converter() -> Converter:
    converter = Converter(forbid_extra_keys=True, unstruct_collection_overrides={tuple: list})
    converter.register_structure_hook_factory(attrs.has, _reader)
    converter.register_unstructure_hook_factory(attrs.has, _writer)
    converter.register_structure_hook_func(lambda kind: get_origin(kind) is tuple, _sequence)
    converter.register_structure_hook_func(lambda kind: get_origin(kind) is dict, _mapping)
    converter.register_structure_hook_func(_may_be_sequence, _sequence_or_none)
    converter.register_structure_hook_func(lambda kind: kind == Call, _call)
    converter.register_structure_hook_func(is_plain, _plain)
    for kind in (int, float, str, bool):  # cattrs' own hooks for these coerce, and come before those by condition
        converter.register_structure_hook(kind, _plain)
    return converter


_CONVERTER = _converter()
