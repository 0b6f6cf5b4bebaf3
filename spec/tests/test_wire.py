"""The testee protocol: what is written is read back, what is no message is named by field, the schema says the same."""

import json
from base64 import b64encode
from importlib.resources import files
from typing import Any

import jsonschema
import numpy as np
import pytest
from attrs import evolve, fields
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from kvlaw.spec import testee_schema as schemas
from kvlaw.spec import wire
from kvlaw.spec.calls import Advance, AppendDecode, AppendWindow, Attend, Clone, Merge, OpenList, Prepare, Publish, Trim
from kvlaw.spec.config import Config, LayerSpec
from kvlaw.spec.contract import CAPABILITIES
from kvlaw.spec.observations import MaskView, Observation, Payload, ReadView, StateView, join_codes
from kvlaw.spec.wire_tensors import NUMPY, decode_tensor, encode_tensor
from kvlaw.spec.wire_views import read_observation, write_observation

VALIDATOR = jsonschema.Draft202012Validator(schemas.protocol_schema())


def same(left: Any, right: Any) -> bool:
    """Compare observations, whose arrays compare element by element."""
    if isinstance(left, np.ndarray):
        return isinstance(right, np.ndarray) and left.dtype == right.dtype and np.array_equal(left, right)
    if hasattr(left, "__attrs_attrs__"):
        return type(left) is type(right) and all(
            same(getattr(left, a.name), getattr(right, a.name)) for a in fields(type(left))
        )
    if isinstance(left, tuple | list):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    return bool(left == right)


def over_the_wire(message: wire.Json) -> wire.Json:
    """Write a line and read it, and see that the schema allows it."""
    line = wire.write_line(message)
    assert line.count(b"\n") == 1
    data = wire.read_line(line)
    VALIDATOR.validate(data)
    return data


# Tensors.


@given(
    st.sampled_from(sorted(set(NUMPY) - {"bf16", "f16", "f32"})).flatmap(
        lambda name: hnp.arrays(NUMPY[name], hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    )
)
@settings(max_examples=60)
def test_an_array_is_read_back(array: Any) -> None:
    again = decode_tensor(json.loads(json.dumps(encode_tensor(array))), "x")
    assert (again.dtype, again.shape, again.tobytes()) == (array.dtype, array.shape, array.tobytes())


def test_bits_are_little_endian_and_the_last_axis_comes_first() -> None:
    bits = np.array([[0x3F80, 0x0001], [0xFFFF, 0x8000]], np.uint16)
    told = encode_tensor(bits, "bf16")
    assert told == {"dtype": "bf16", "shape": [2, 2], "base64": b64encode(b"\x80\x3f\x01\x00\xff\xff\x00\x80").decode()}
    swapped = encode_tensor(bits.astype(">u2").T, "bf16")
    assert swapped["base64"] == b64encode(b"\x80\x3f\xff\xff\x01\x00\x00\x80").decode()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "x: an object is wanted, not null"),
        ([1], "x: an object is wanted, not a list"),
        ({"shape": [1], "base64": "AA=="}, "x.dtype: null is none"),
        ({"dtype": 16, "shape": [1], "base64": "AA=="}, "x.dtype: 16 is none"),
        ({"dtype": "u8", "base64": "AA=="}, "x.shape: a list is wanted, not null"),
        ({"dtype": "u8", "shape": [1.0], "base64": "AA=="}, "x.shape: 1.0 is no length"),
        ({"dtype": "u8", "shape": [True], "base64": "AA=="}, "x.shape: true is no length"),
        ({"dtype": "u8", "shape": [1]}, "x.base64: text is wanted, not null"),
        ({"dtype": "u8", "shape": [1], "base64": "AAA="}, "x.base64: u8 [1] takes 1 bytes, not 2"),
        ({"dtype": "u8", "shape": [1], "base64": "AA"}, "which are 4 characters, not 2"),
        ({"dtype": "u8", "shape": [1], "base64": "é==="}, "x.base64: no base64"),
        ({"dtype": "bool", "shape": [2], "base64": "AQI="}, "a byte of a bool is 0 or 1, and one is 2"),
    ],
)
def test_what_is_no_tensor_is_named(data: Any, said: str) -> None:
    with pytest.raises(wire.WireError) as caught:
        decode_tensor(data, "x")
    assert said in str(caught.value)


def test_an_array_without_a_form_is_refused() -> None:
    with pytest.raises(wire.WireError, match="complex128 has no form"):
        encode_tensor(np.zeros(1, np.complex128))


# Observations.

BITS = np.arange(24, dtype=np.uint16).reshape(1, 2, 3, 4)
WIDE = np.arange(24, dtype=np.uint32).reshape(1, 2, 3, 4)
SEEN = np.array([[True, False], [True, True]])
MASK = MaskView("array", SEEN)
SHOWN = Observation(
    "refused",
    message="no",
    answer=-3,
    read=ReadView(BITS, BITS + 1, MASK, BITS + 2, "restored", BITS + 3, BITS + 4),
    mask=MaskView("causal"),
    state=StateView(
        3, 2, 10, 4, 8, "ring(window=4)", "dense", (True, False), 1, BITS, BITS, "dense", 0, "unbounded", 2, "open",
        BITS, WIDE,
    ),
    arrays={"mask": SEEN, "positions": np.array([3, -1], np.int32), "half": np.array(2.5, np.float32)},
    layers=(Observation(state=StateView(max_append=7)), Observation()),
    rows=(Observation(mask=MaskView("none")),),
)  # fmt: skip
CODED = ReadView(WIDE, WIDE + 1, MaskView("none"), BITS, "affine")


def test_every_field_is_read_back() -> None:
    told = {a.name for kind in (Observation, ReadView, StateView) for a in fields(kind)}
    written = write_observation(SHOWN, "bf16")
    assert told <= {*written, *written["read"], *written["state"]}
    again = read_observation(over_the_wire({"id": 1, **written}), "bf16")
    assert again.arrays is not None
    half = again.arrays["half"]  # which is read as its bits
    assert half == np.float32(2.5).view(np.uint32)
    assert same(again, evolve(SHOWN, arrays={**(SHOWN.arrays or {}), "half": half}))


def test_codes_are_read_back_side_by_side_or_apart() -> None:
    observation = Observation(read=CODED)
    assert same(read_observation(write_observation(observation, "f16"), "f16"), observation)
    words, scales, biases = WIDE[..., :2], BITS[..., 2:3], BITS[..., 3:]
    apart = {
        "words": encode_tensor(words),
        "scales": encode_tensor(scales, "f16"),
        "biases": encode_tensor(biases, "f16"),
    }
    read = read_observation({"outcome": "ok", "read": {"form": "affine", "keys": apart}}, "f16").read
    assert read is not None
    assert same(read.keys, join_codes(words, scales, biases))
    with pytest.raises(wire.WireError, match=r"read\.keys\.scales: an object is wanted"):
        read_observation({"outcome": "ok", "read": {"form": "affine", "keys": {"words": apart["words"]}}}, "f16")
    uneven = {**apart, "biases": encode_tensor(biases[:, :, :1], "f16")}
    with pytest.raises(wire.WireError, match="not of the same columns"):
        read_observation({"outcome": "ok", "read": {"form": "affine", "keys": uneven}}, "f16")


def test_what_is_null_or_unknown_counts_as_left_out() -> None:
    body = {"outcome": "ok", "read": None, "state": {"offset": 3, "size": None, "novelty": {"a": 1}}, "extra": [1]}
    assert same(read_observation(body, "bf16"), Observation(state=StateView(3)))


def test_a_tensor_without_a_dtype_has_that_of_the_configuration() -> None:
    body = {"outcome": "ok", "state": {"keys": {"shape": [1], "base64": "AQA="}}}
    state = read_observation(body, "f16").state
    assert state is not None
    assert same(state.keys, np.array([1], np.uint16))


def test_a_matrix_is_of_f32_whatever_the_tensors_are() -> None:
    body = {"outcome": "ok", "state": {"matrix": {"dtype": "bf16", "shape": [1], "base64": "AQA="}}}
    with pytest.raises(wire.WireError, match=r"state\.matrix: bf16 instead of f32"):
        read_observation(body, "bf16")


# Messages.

ASKED = [
    AppendDecode(),
    AppendWindow(length=2, window=4, array=True, as_="r1", on="c1", malformed="heads"),
    Trim(n=2, bypass=True),
    Clone(as_="c1"),
    Attend(on="r1"),
    OpenList(layers=(LayerSpec("full"), LayerSpec("ring", 4, 1)), as_="l0"),
    Merge(sources=("a", "b"), as_="g1"),
    Prepare(left=(0, 1)),
    Publish(),
    Advance(length=2),
]


@pytest.mark.parametrize("call", ASKED)
def test_a_call_is_read_back_with_every_field_spelled_out(call: Any) -> None:
    message = over_the_wire({"id": 1, **wire.asking(call, None, look=True, hints=True, queries=True)})
    assert wire.read_call(message["call"]) == call
    left_out = {a.name.rstrip("_") for a in fields(type(call)) if getattr(call, a.name) is None}
    assert message["call"].keys() == {"call", *(a.name.rstrip("_") for a in fields(type(call)))} - left_out


def test_without_hints_nobody_is_told_what_is_spoilt() -> None:
    message = wire.asking(ASKED[1], None, look=True, hints=False, queries=True)
    assert "malformed" not in message["call"]


def test_a_configuration_is_read_back_and_has_no_defaults_to_know() -> None:
    config = Config("ring", 8, 2, dtype="f16")
    body = over_the_wire({"id": 3, **wire.opening(config)})["open"]
    assert wire.read_config(body) == config
    assert (body["head_dim"], body["batch"], body["poison"]) == (64, 1, False)
    assert "bits" not in body


def test_unknown_fields_of_a_message_are_ignored() -> None:
    config = wire.spelled(Config("full")) | {"novelty": 1}
    assert wire.read_config(config) == Config("full")
    layers = [{"kind": "full", "novelty": 1}]
    call = wire.read_call({"call": "list", "layers": layers, "as": "l0", "on": "c0", "novelty": [1]})
    assert call == OpenList(layers=(LayerSpec("full"),), as_="l0")


@pytest.mark.parametrize(
    ("call", "payload"),
    [
        (AppendDecode(), Payload((7,), BITS, BITS + 1, BITS + 2, "f16", 0.3)),
        (AppendDecode(), Payload((7,), WIDE, WIDE + 1, WIDE + 2, "f32")),
        (Attend(on="r1"), Payload((), queries=BITS, dtype="bf16", scale=0.3)),
        (Publish(), Payload((1, 2, 3))),
        (Advance(length=3), Payload((1, 2, 3), dtype="bf16", step={"inputs": BITS, "beta": BITS[0], "decay": WIDE[0]})),
    ],
)
def test_a_payload_is_read_back(call: Any, payload: Payload) -> None:
    message = over_the_wire({"id": 2, **wire.asking(call, payload, look=False, hints=False, queries=True)})
    assert same(wire.read_payload(call, message), payload)


def test_queries_are_left_out_for_those_that_attend_nothing() -> None:
    payload = Payload((7,), BITS, BITS + 1, BITS + 2)
    message = wire.asking(AppendDecode(), payload, look=False, hints=False, queries=False)
    assert message["tensors"].keys() == {"keys", "values"}
    assert "scale" not in message


HELLO = wire.Hello(protocol=1, kinds=("ring",), capabilities=("trim",), name="x", dtypes=("f32",), hints=True)


def test_a_hello_is_read_back() -> None:
    over_the_wire({"id": 0, **wire.hello("1.4", "kvlaw 0")})
    assert wire.read_hello(over_the_wire(wire.greeting(0, HELLO))) == HELLO


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"outcome": "unsupported", "message": "what?"}, "the answer to hello is 'unsupported': 'what?'"),
        ({"outcome": "ok"}, "hello: an object is wanted, not null"),
        ({"outcome": "ok", "hello": {"kinds": ["full"], "capabilities": []}}, "it speaks null, this kvlaw 1"),
        ({"outcome": "ok", "hello": {"protocol": True, "kinds": ["full"], "capabilities": []}}, "it speaks true"),
        ({"outcome": "ok", "hello": {"protocol": 1, "capabilities": []}}, "hello: kinds is missing"),
        (
            {"outcome": "ok", "hello": {"protocol": 1, "kinds": "full", "capabilities": []}},
            "hello.kinds: a list is wanted, not 'full'",
        ),
    ],
)
def test_what_is_no_hello_is_named(body: Any, said: str) -> None:
    with pytest.raises(wire.WireError) as caught:
        wire.read_hello(body)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"", "no valid JSON"),
        (b"[]", "an object is wanted, not a list"),
        (b"\xff", "no text in UTF-8"),
        (b'{"id": 1}', "a message has one of hello, open, call, bye; this one has none"),
        (b'{"id": 1, "bye": {}, "open": {}}', "this one has open, bye"),
        (b'{"id": -1, "bye": {}}', "id: -1 is no id"),
        (b'{"id": 9007199254740992, "bye": {}}', "is no id"),
        (b'{"bye": {}}', "id: is missing"),
    ],
)
def test_what_is_no_message_is_named(line: bytes, said: str) -> None:
    with pytest.raises(wire.WireError) as caught:
        wire.read_message(line)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (lambda: wire.read_call({"call": "levitate"}), "unknown call 'levitate'"),
        (lambda: wire.read_call({"call": "trim", "n": "2"}), "call (trim).n: '2' is not an integer or a number"),
        (lambda: wire.read_call(7), "call: an object is wanted, not 7"),
        (lambda: wire.read_config({"kind": "rign"}), "open.kind"),
        (lambda: wire.read_payload(AppendDecode(), {"tokens": ["t1"]}), "tokens: integers are wanted"),
        (lambda: wire.read_payload(AppendDecode(), {"scale": "1"}), "scale: '1' is not a number"),
        (lambda: wire.read_payload(AppendDecode(), {"tensors": {"keys": 1}}), "tensors.keys: an object is wanted"),
    ],
)
def test_what_a_message_holds_is_named_by_field(read: Any, said: str) -> None:
    with pytest.raises(wire.WireError) as caught:
        read()
    assert said in str(caught.value)


# The schema.


def test_the_schema_is_checked_in() -> None:
    stored = (files("kvlaw.spec") / "schema" / "testee.json").read_text(encoding="utf-8")
    assert stored == json.dumps(schemas.protocol_schema(), indent=2) + "\n"
    jsonschema.Draft202012Validator.check_schema(schemas.protocol_schema())


@pytest.mark.parametrize(
    "line",
    [
        {"outcome": "ok"},
        {"id": 1, "outcome": "fine"},
        {"id": 1.5, "outcome": "ok"},
        {"id": 1, "outcome": "ok", "state": {"offset": "3"}},
        {"id": 1, "outcome": "ok", "read": {"mask": "diagonal"}},
        {"id": 1, "outcome": "ok", "state": {"can_trim": [1]}},
        {"id": 1, "outcome": "ok", "read": {"keys": {"shape": [1]}}},
        {"id": 1, "outcome": "ok", "hello": {"protocol": 2, "kinds": ["full"], "capabilities": []}},
        {"id": 1, "outcome": "ok", "hello": {"protocol": 1, "kinds": ["full"], "capabilities": ["trimm"]}},
        {"id": 1, "call": {"call": "levitate"}, "look": True},
        {"id": 1, "call": {"call": "decode"}},
        {"id": 1, "open": {"kind": "rign"}},
        {"id": 1, "open": {"kind": "full"}, "bye": {}},
    ],
)
def test_the_schema_refuses(line: Any) -> None:
    assert not VALIDATOR.is_valid(line)


def test_the_schema_knows_every_capability() -> None:
    told = schemas.protocol_schema()["$defs"]["hello"]["properties"]["capabilities"]["items"]["enum"]
    assert told == list(CAPABILITIES)
