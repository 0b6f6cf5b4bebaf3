"""The testee protocol: a cache in any language, asked in lines of JSON over its standard input and output.

The harness asks, the testee answers each message with one line; the answer has the ``id`` of its message and an
``outcome``. Messages are, in this order:

* ``hello``: which protocols the harness speaks. The answer's ``hello`` (``Hello``) says what the testee is.
* ``open``: forget everything and make ``c0``, by a configuration.
* ``call``: one call of ``kvlaw.spec.calls``, in the JSON of a trace with every field written out that is not null, its
  ``tensors`` (``kvlaw.spec.wire_tensors``) and whether to ``look``.
* ``bye``: the end; standard input is closed behind it, and the testee exits.

Answers are observations (``kvlaw.spec.wire_views``). Within one version unknown fields are ignored on both sides;
whatever else is no message of the protocol is a ``WireError`` that names the field.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal, cast, get_args

import attrs
import numpy as np
from attrs import frozen

from kvlaw.spec.calls import CALLS, DAMAGES, Advance, Call, Damage
from kvlaw.spec.config import CODE_BITS, DTYPES, Config, DType, Kind, LayerSpec, Policy
from kvlaw.spec.observations import Observation, Payload
from kvlaw.spec.structure import Json, TraceError, load, shown, written
from kvlaw.spec.trace import read_json
from kvlaw.spec.wire_tensors import WireError, as_list, as_object, decode_tensor, encode_tensor
from kvlaw.spec.wire_views import read_observation, write_observation

PROTOCOL = 1
PROTOCOLS: tuple[int, ...] = (PROTOCOL,)
"""The versions that this kvlaw speaks."""
MOST_ID = (1 << 53) - 1
"""The largest id of a message: every integer up to it is exact where numbers are doubles."""
Verb = Literal["hello", "open", "call", "bye"]
VERBS: tuple[Verb, ...] = get_args(Verb)
KernelSet = Literal["tiled", "tiled_causal", "unfused"]
_OUTLINE = ("outcome", "message", "answer")
_SIDES = ("keys", "values", "queries")
_STEP = ("inputs", "queries", "keys", "values", "decay", "beta")


class UnknownCallError(WireError):
    """A call that this version does not know."""


@frozen(kw_only=True)
class Hello:
    """What a testee says of itself: the words of ``contract.CAPABILITIES``, and with what it is checked.

    With ``hints`` calls say by ``malformed`` in which way their tensors were spoilt, as a trace does.
    """

    protocol: int
    kinds: tuple[Kind, ...]
    capabilities: tuple[str, ...]
    name: str = ""
    policies: tuple[Policy, ...] = ("dense",)
    dtypes: tuple[DType, ...] = DTYPES
    code_bits: tuple[int, ...] = CODE_BITS
    damages: tuple[Damage, ...] = DAMAGES
    kernel_set: KernelSet = "unfused"
    hints: bool = False


@frozen
class Message:
    """One message to a testee: its id, what it is, and its fields."""

    id: int
    verb: Verb
    body: Mapping[str, object]


# Messages: written by the harness, read by a testee.


def hello(spec: str, harness: str) -> Json:
    """Say hello."""
    return {"hello": {"protocols": list(PROTOCOLS), "spec": spec, "harness": harness}}


def opening(config: Config) -> Json:
    """Ask to forget everything and make ``c0``."""
    return {"open": spelled(config)}


def asking(call: Call, payload: Payload | None, look: bool, *, hints: bool, queries: bool) -> Json:
    """Ask a call; ``hints`` as in ``Hello``, and ``queries`` says whether reads are asked any."""
    told = spelled(call)
    if not hints:
        told.pop("malformed", None)
    message: Json = {"call": told, "look": look}
    if payload is None:
        return message
    if payload.tokens:
        message["tokens"] = list(payload.tokens)
    tensors = _tensors(payload, queries=queries)
    return message | ({"tensors": tensors} if tensors else {}) | ({"scale": payload.scale} if queries else {})


def _tensors(payload: Payload, *, queries: bool) -> Json:
    """Write keys and values, queries where there are any to ask, or the step of an advance."""
    if payload.step:
        return {n: encode_tensor(bits, "f32" if n == "decay" else payload.dtype) for n, bits in payload.step.items()}
    tensors: Json = {}
    for name in _SIDES:
        bits = getattr(payload, name)
        fits = bits.dtype == (np.uint32 if payload.dtype == "f32" else np.uint16)  # not, beside a spoilt dtype
        if bits.ndim > 1 and fits and (queries or name != "queries"):
            tensors[name] = encode_tensor(bits, payload.dtype)
    return tensors


def spelled(value: Any) -> Json:
    """Write a configuration, a layer or a call with every field that is not null, defaults too."""
    told: Json = {"call": value.verb} if hasattr(value, "verb") else {}
    for a in attrs.fields(cast("type[Any]", type(value))):
        item = getattr(value, a.name)
        if item is not None:
            told[written(a.name)] = _spelled(item)
    return told


def _spelled(item: Any) -> Any:
    if isinstance(item, tuple):
        return [_spelled(part) for part in cast("tuple[Any, ...]", item)]
    return spelled(item) if isinstance(item, LayerSpec) else item


def write_line(message: Json) -> bytes:
    """Write a message or an answer as one line."""
    return json.dumps(message, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"


def read_line(line: bytes) -> Json:
    """Read one line as a JSON object, strictly."""
    try:
        data = read_json(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise WireError("no text in UTF-8") from None
    except TraceError as error:
        raise WireError(str(error)) from None
    return dict(as_object(data, "the line"))


def read_message(line: bytes) -> Message:
    """Read a message to a testee."""
    body = read_line(line)
    verbs: list[Verb] = [verb for verb in VERBS if verb in body]
    if len(verbs) != 1:
        raise WireError(f"a message has one of {', '.join(VERBS)}; this one has {', '.join(verbs) or 'none'}")
    return Message(read_id(body), verbs[0], body)


def read_id(body: Mapping[str, object]) -> int:
    """Read the id of a message or an answer."""
    number = body.get("id")
    if type(number) is not int or not 0 <= number <= MOST_ID:
        told = f"{shown(number)} is no id; it is an integer from 0 to 2^53 - 1" if "id" in body else "is missing"
        raise WireError(f"id: {told}")
    return number


def read_config(data: object) -> Config:
    """Read the configuration of an ``open``."""
    return _loaded(Config, as_object(data, "open"), "open")


def read_call(data: object) -> Call:
    """Read a call."""
    body = as_object(data, "call")
    verb = body.get("call")
    if not isinstance(verb, str) or verb not in CALLS:
        raise UnknownCallError(f"unknown call {shown(verb)}; known are {', '.join(CALLS)}")
    return _loaded(CALLS[verb], body, f"call ({verb})")


def _loaded(kind: type[Any], body: Mapping[str, object], where: str) -> Any:
    try:
        return load(kind, _known(kind, body), where)
    except TraceError as error:
        raise WireError(str(error)) from None


def _known(kind: type[Any], body: Mapping[str, object]) -> Json:
    """Keep the fields that are known to this version, those of layers among them."""
    names = {written(a.name) for a in attrs.fields(kind)}
    kept = {name: item for name, item in body.items() if name in names}
    if isinstance(kept.get("layer"), dict):
        kept["layer"] = _known(LayerSpec, cast("Json", kept["layer"]))
    if isinstance(kept.get("layers"), list):
        layers = cast("list[object]", kept["layers"])
        kept["layers"] = [_known(LayerSpec, cast("Json", x)) if isinstance(x, dict) else x for x in layers]
    return kept


def read_payload(call: Call, body: Mapping[str, object]) -> Payload:
    """Read what a call hands over."""
    tokens = as_list(body.get("tokens") or [], "tokens")
    if any(type(token) is not int for token in tokens):
        raise WireError("tokens: integers are wanted")
    tensors, scale = as_object(body.get("tensors") or {}, "tensors"), body.get("scale", 1.0)
    if isinstance(scale, bool) or not isinstance(scale, int | float):
        raise WireError(f"scale: {shown(scale)} is not a number")
    step = isinstance(call, Advance)
    arrays = {n: decode_tensor(tensors[n], f"tensors.{n}") for n in (_STEP if step else _SIDES) if n in tensors}
    first = next((as_object(tensors[name], name).get("dtype") for name in arrays), "bf16")
    given: Any = {"step": arrays} if step else arrays
    return Payload(cast("tuple[int, ...]", tuple(tokens)), dtype=str(first), scale=scale, **given)


# Answers: written by a testee, read by the harness.


def answering(number: int, observation: Observation, dtype: str) -> Json:
    """Answer a message with what was observed."""
    return {"id": number, **write_observation(observation, dtype)}


def greeting(number: int, told: Hello) -> Json:
    """Answer a hello."""
    return {"id": number, "outcome": "ok", "hello": spelled(told)}


def read_answer(body: Mapping[str, object], dtype: str, *, shown: bool = True) -> Observation:
    """Read the answer to an ``open`` or a call; of one that was asked to show nothing, only what it answers."""
    return read_observation(body if shown else {name: body[name] for name in _OUTLINE if name in body}, dtype)


def read_hello(body: Mapping[str, object]) -> Hello:
    """Read the answer to a hello."""
    if body.get("outcome") != "ok":
        raise WireError(f"the answer to hello is {shown(body.get('outcome'))}: {shown(body.get('message', ''))}")
    told = as_object(body.get("hello"), "hello")
    protocol = told.get("protocol")
    if protocol not in PROTOCOLS or type(protocol) is not int:
        spoken = ", ".join(map(str, PROTOCOLS))
        raise WireError(f"hello.protocol: it speaks {shown(protocol)}, this kvlaw {spoken}")
    return _loaded(Hello, told, "hello")


__all__ = [
    "PROTOCOL",
    "PROTOCOLS",
    "Hello",
    "Message",
    "UnknownCallError",
    "WireError",
    "answering",
    "asking",
    "greeting",
    "hello",
    "opening",
    "read_answer",
    "read_call",
    "read_config",
    "read_hello",
    "read_id",
    "read_line",
    "read_message",
    "read_payload",
    "spelled",
    "write_line",
]
