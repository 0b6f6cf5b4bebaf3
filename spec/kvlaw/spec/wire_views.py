"""Observations on the wire: how each field of an answer is written, read and described, by what it is annotated with.

What is not observed is left out, or null. Unknown fields are ignored; a known one of another type is a ``WireError``
that names it (``state.can_trim[2]``). Tensors of reads and states have the dtype of the configuration, the matrix of a
recurrent layer float32; columns of the form ``affine`` are codes: words, scales and biases, or one ``u32`` tensor of
them side by side (``observations.join_codes``).
"""

from collections.abc import Callable, Mapping
from typing import Any, cast, get_args, get_type_hints

import attrs
import numpy as np
from attrs import frozen

from kvlaw.spec.observations import (
    Bits,
    Form,
    MaskKind,
    MaskView,
    Observation,
    Outcome,
    ReadView,
    RoundWord,
    StateView,
    Unbounded,
    join_codes,
)
from kvlaw.spec.structure import Json, name_of, shown
from kvlaw.spec.wire_tensors import WireError, as_list, as_object, decode_tensor, encode_tensor

FLOATS = ("bf16", "f16", "f32")
MOST_INTEGER = 1 << 63
MOST_NAME = 100
MOST_INSIDE = 3
"""How deep answers may stand in answers: the rows of a group, the layers of a list."""
_CODED = ("keys", "values")
"""The tensors that may be codes."""


@frozen
class Place:
    """Where a value stands, and of which dtype and form tensors there are."""

    path: str
    dtype: str
    form: Form = "dense"

    def at(self, name: str) -> "Place":
        """Go on to a field."""
        return attrs.evolve(self, path=f"{self.path}.{name}" if self.path else name)


@frozen
class Part:
    """One kind of field: how it is written, read and described."""

    write: Callable[[Any, Place], Any]
    read: Callable[[object, Place], Any]
    schema: Json


def write_observation(observation: Observation, dtype: str) -> Json:
    """Write an answer, of a trace whose tensors have ``dtype``; what is at its default is left out."""
    return _write(observation, Place("", dtype))


def read_observation(data: object, dtype: str, where: str = "") -> Observation:
    """Read an answer; raise ``WireError`` for one that is none."""
    return cast("Observation", _read(Observation, data, Place(where, dtype)))


def view_schemas() -> dict[str, Json]:
    """Describe answers and what stands in them, by name."""
    kinds: dict[str, type[Any]] = {"answer": Observation, "read_view": ReadView, "state_view": StateView}
    number = {"type": "integer", "minimum": 0}
    tensor = {
        "description": "A tensor: little endian, the last axis first; without a dtype, that of the configuration.",
        "type": "object",
        "properties": {
            "dtype": {"type": "string"},
            "shape": {"type": "array", "items": number},
            "base64": {"type": "string", "contentEncoding": "base64"},
        },
        "required": ["shape", "base64"],
    }
    codes = {
        "description": "Affine codes: words [.., words] as u32, scales and biases [.., groups] as tensors are.",
        "type": "object",
        "properties": {name: {"$ref": "#/$defs/tensor"} for name in ("words", "scales", "biases")},
        "required": ["words", "scales", "biases"],
    }
    mask = {
        "description": "A mask: none, causal, or a bool tensor [.., L, S], 1 where a query sees a column.",
        "anyOf": [{"enum": ["none", "causal"]}, {"$ref": "#/$defs/tensor"}],
    }
    return {"tensor": tensor, "codes": codes, "mask_view": mask, **{name: _schema(k) for name, k in kinds.items()}}


def _schema(kind: type[Any]) -> Json:
    told = {name: {"anyOf": [part.schema, {"type": "null"}]} for name, part in _parts(kind).items()}
    required = ["outcome"] if kind is Observation else []
    return {
        "description": str(kind.__doc__).partition("\n")[0],
        "type": "object",
        "properties": told | ({"outcome": {"enum": list(get_args(Outcome))}} if required else {}),
        "required": required,
    }


# Fields.


def _write(value: Any, place: Place) -> Json:
    kind = cast("type[Any]", type(value))
    place = attrs.evolve(place, form=getattr(value, "form", "dense"))
    told: Json = {}
    for a in attrs.fields(kind):
        item = getattr(value, a.name)
        if a.name == "outcome" or not (item is None or _is_default(item, a.default)):
            told[a.name] = _parts(kind)[a.name].write(item, place.at(a.name))
    return told


def _is_default(item: object, default: object) -> bool:
    return isinstance(item, str | tuple) and item == default


def _read(kind: type[Any], data: object, place: Place) -> Any:
    body = as_object(data, place.path or "the answer")
    if place.path.count("[") > MOST_INSIDE:
        raise WireError(f"{place.path}: rows and layers stand in each other {MOST_INSIDE} deep at most")
    if kind is Observation and "outcome" not in body:
        raise WireError(f"{place.at('outcome').path}: is missing; it is {name_of(Outcome)}")
    form = body.get("form", "dense")
    place = attrs.evolve(place, form=form if form in get_args(Form) else "dense")
    given = {
        name: part.read(body[name], place.at(name)) for name, part in _parts(kind).items() if body.get(name) is not None
    }
    return kind(**given)


def _word(wanted: Any) -> Part:
    """Make the part of a field that is one of some words."""

    def read(data: object, place: Place) -> Any:
        if not any(data == word and type(data) is str for word in get_args(wanted)):
            raise WireError(f"{place.path}: {shown(data)} is not {name_of(wanted)}")
        return data

    return Part(_as_it_is, read, {"enum": list(get_args(wanted))})


def _as_it_is(value: Any, _: Place) -> Any:
    return value


def _text(data: object, place: Place) -> str:
    if not isinstance(data, str):
        raise WireError(f"{place.path}: {shown(data)} is not text")
    return data


def _integer(data: object, place: Place) -> int:
    if type(data) is not int or abs(data) >= MOST_INTEGER:
        raise WireError(f"{place.path}: {shown(data)} is not an integer of 64 bits")
    return data


def _unbounded(data: object, place: Place) -> int | str:
    return "unbounded" if data == "unbounded" else _integer(data, place)


def _flags(data: object, place: Place) -> tuple[bool, ...]:
    flags = as_list(data, place.path)
    for number, flag in enumerate(flags):
        if not isinstance(flag, bool):
            raise WireError(f"{place.path}[{number}]: {shown(flag)} is not true or false")
    return cast("tuple[bool, ...]", tuple(flags))


def _name(place: Place) -> str:
    return place.path.rpartition(".")[2]


def _is_codes(place: Place) -> bool:
    return place.form == "affine" and _name(place) in _CODED


def _write_tensor(value: Bits, place: Place) -> Json:
    named = "f32" if _name(place) == "matrix" else place.dtype
    fits = not _is_codes(place) and value.dtype == (np.uint32 if named == "f32" else np.uint16)
    return encode_tensor(value, named if fits else None)


def _read_tensor(data: object, place: Place) -> Bits:
    body = as_object(data, place.path)
    if not _is_codes(place) or "words" not in body:
        return _read_one(data, place)
    parts = {name: _read_one(body.get(name), place.at(name)) for name in ("words", "scales", "biases")}
    if len({part.shape[:-1] for part in parts.values()}) > 1 or parts["words"].ndim == 0:
        raise WireError(f"{place.path}: words, scales and biases are not of the same columns")
    return join_codes(**parts)


def _read_one(data: object, place: Place) -> Any:
    name = _name(place)
    coded = name == "words" or _is_codes(place)
    wanted = "u32" if coded else "f32" if name == "matrix" else place.dtype
    array = decode_tensor(data, place.path, wanted)
    said = cast("Mapping[str, object]", data).get("dtype", wanted)
    if said != wanted and (said in FLOATS or coded):
        raise WireError(f"{place.path}: {said} instead of {wanted}")
    return array


def _write_mask(mask: MaskView, _: Place) -> Any:
    return mask.kind if mask.array is None else encode_tensor(mask.array)


def _read_mask(data: object, place: Place) -> MaskView:
    if isinstance(data, str):
        if data not in ("none", "causal"):
            raise WireError(f"{place.path}: {shown(data)} is no mask; it is none, causal, or a bool tensor")
        return MaskView(cast("MaskKind", data))
    array = decode_tensor(data, place.path, "bool")
    if array.dtype != np.bool_:
        raise WireError(f"{place.path}: a mask is of bool, not of {shown(as_object(data, place.path)['dtype'])}")
    return MaskView("array", array)


def _write_arrays(arrays: Mapping[str, Any], _: Place) -> Json:
    return {name: encode_tensor(np.asarray(array)) for name, array in arrays.items()}


def _read_arrays(data: object, place: Place) -> dict[str, Any]:
    arrays = as_object(data, place.path)
    if any(len(name) > MOST_NAME for name in arrays):
        raise WireError(f"{place.path}: the name of an array has {MOST_NAME} characters at most")
    return {name: decode_tensor(item, f"{place.path}.{name}") for name, item in arrays.items()}


def _inside(kind: type[Any], schema: str) -> Part:
    return Part(_write, lambda data, place: _read(kind, data, place), {"$ref": f"#/$defs/{schema}"})


def _write_answers(answers: tuple[Observation, ...], place: Place) -> list[Json]:
    return [_write(answer, place) for answer in answers]


def _read_answers(data: object, place: Place) -> tuple[Observation, ...]:
    items = enumerate(as_list(data, place.path))
    told = ((number, {"outcome": "ok", **as_object(item, f"{place.path}[{number}]")}) for number, item in items)
    return tuple(_read(Observation, item, attrs.evolve(place, path=f"{place.path}[{number}]")) for number, item in told)


_TENSOR = Part(_write_tensor, _read_tensor, {"anyOf": [{"$ref": "#/$defs/tensor"}, {"$ref": "#/$defs/codes"}]})
_INTEGER = {"type": "integer"}
_FORM: Any = Form
_UNBOUNDED: Any = Unbounded
_ROUND: Any = RoundWord
_PARTS_OF: dict[Any, Part] = {
    Outcome: _word(Outcome),
    _FORM: _word(Form),
    _ROUND | None: _word(RoundWord),
    str: Part(_as_it_is, _text, {"type": "string"}),
    str | None: Part(_as_it_is, _text, {"type": "string"}),
    int | None: Part(lambda value, _: int(value), _integer, _INTEGER),
    int | _UNBOUNDED | None: Part(
        lambda value, _: value if isinstance(value, str) else int(value),
        _unbounded,
        {"anyOf": [_INTEGER, {"const": "unbounded"}]},
    ),
    tuple[bool, ...] | None: Part(
        lambda value, _: [bool(flag) for flag in value], _flags, {"type": "array", "items": {"type": "boolean"}}
    ),
    Bits | None: _TENSOR,
    MaskView | None: Part(_write_mask, _read_mask, {"$ref": "#/$defs/mask_view"}),
    ReadView | None: _inside(ReadView, "read_view"),
    StateView | None: _inside(StateView, "state_view"),
    tuple[Observation, ...]: Part(
        _write_answers, _read_answers, {"type": "array", "items": {"$ref": "#/$defs/answer"}}
    ),
}
_ARRAYS = Part(_write_arrays, _read_arrays, {"type": "object", "additionalProperties": {"$ref": "#/$defs/tensor"}})


def _found(kind: type[Any]) -> dict[str, Part]:
    hints = get_type_hints(kind)
    return {a.name: _ARRAYS if a.name == "arrays" else _PARTS_OF[hints[a.name]] for a in attrs.fields(kind)}


_BY_KIND: dict[type[Any], dict[str, Part]] = {kind: _found(kind) for kind in (Observation, ReadView, StateView)}


def _parts(kind: type[Any]) -> dict[str, Part]:
    return _BY_KIND[kind]


__all__ = ["read_observation", "view_schemas", "write_observation"]
