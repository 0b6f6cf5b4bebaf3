"""Traces in JSON: round trips, the schema, and every kind of text that is no trace."""

import json
from importlib.resources import files
from typing import Any

import hypothesis.strategies as st
import jsonschema
import pytest
from hypothesis import given, settings

from kvlaw.spec import calls
from kvlaw.spec.calls import CALLS, AppendDecode, AppendWindow, Call, Clone, OpenList, Trim
from kvlaw.spec.config import CODE_BITS, DTYPES, GROUPS, KINDS, Config, LayerSpec
from kvlaw.spec.text_form import parse, write
from kvlaw.spec.trace import Trace, TraceError, dump, load, trace_schema

VALIDATOR = jsonschema.Draft202012Validator(trace_schema())

counts = st.integers(-3, 300)
optional_counts = st.none() | counts
names = st.from_regex(calls.NAME, fullmatch=True) | st.sampled_from(["c0", "c1", "x5", "array", "full", "decode", "w"])
made = st.none() | names
malformed = st.none() | st.sampled_from(calls.MALFORMED)
spoilt = st.none() | st.sampled_from([word for word in calls.MALFORMED if word != "two"])
bits = st.none() | st.sampled_from([*CODE_BITS, 7])
policies: dict[str, st.SearchStrategy[Any]] = {
    "bits": bits,
    "value_bits": bits,
    "group": st.sampled_from([*GROUPS, 48]),
    "start": st.none() | counts | st.just("never"),
    "conv": optional_counts,
}
kinds = st.sampled_from(KINDS)
layers = st.builds(LayerSpec, kinds, optional_counts, counts, **policies)
configs = st.builds(
    Config,
    kind=kinds,
    rows=st.none() | st.integers(0, 5),
    window=optional_counts,
    sinks=counts,
    dtype=st.sampled_from(DTYPES),
    batch=st.integers(1, 4),
    kv_heads=st.integers(1, 4),
    groups=st.integers(1, 4),
    head_dim=st.sampled_from([32, 64, 128]),
    value_dim=st.sampled_from([32, 64, 128]),
    stamp=st.sampled_from(["code", "random"]),
    look=st.sampled_from(["every", "last"]),
    poison=st.booleans(),
    seed=st.integers(),
    **policies,
)
rows = st.lists(st.integers(-2, 9), max_size=4).map(tuple)
ARGUMENTS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "decode": {"as_": made, "window": optional_counts, "malformed": malformed, "unread": st.booleans()},
    "compiled": {"as_": made, "window": optional_counts, "malformed": malformed, "unread": st.booleans()},
    "window": {"length": counts, "as_": made, "window": optional_counts, "array": st.booleans(), "malformed": spoilt},
    "known": {"length": counts, "as_": made, "window": optional_counts, "array": st.booleans(), "malformed": spoilt},
    "dense": {"length": counts, "as_": made, "malformed": spoilt},
    "mask": {"length": counts, "phase": st.sampled_from(["decode", "window"]), "window": optional_counts, "as_": made},
    "attend": {"malformed": malformed},
    "look": {},
    "trim": {"n": counts | st.floats(allow_nan=False, allow_infinity=False), "bypass": st.booleans()},
    "clone": {"as_": names},
    "state": {"as_": names},
    "reset": {},
    "drop": {},
    "cache": {"layer": st.none() | layers, "as_": names},
    "merge": {"sources": st.lists(names, max_size=3).map(tuple), "as_": names},
    "extract": {"row": st.integers(-2, 9), "as_": names},
    "hand_back": {"row": st.integers(-2, 9), "as_": names},
    "filter": {"rows": rows},
    "prepare": {"left": st.none() | rows, "lengths": st.none() | rows, "right": st.none() | rows},
    "finalize": {},
    "begin_prefill": {},
    "commit_prefill": {"rows": rows},
    "end_prefill": {},
    "begin_round": {},
    "commit_round": {},
    "roll_back": {"keep": rows},
    "save": {"as_": names},
    "load": {"other": st.booleans(), "as_": names},
    "damage": {"how": st.sampled_from(calls.DAMAGES)},
    "publish": {"space": names},
    "reuse": {"tokens": st.lists(st.integers(1, 300), max_size=6).map(tuple), "space": names, "as_": names},
    "advance": {"length": counts, "malformed": spoilt},
    "list": {
        "layers": st.lists(layers.filter(lambda layer: not layer.is_recurrent), min_size=1, max_size=3).map(tuple),
        "as_": names,
    },
}
any_call = st.one_of(*(st.builds(CALLS[verb], on=names, **given_) for verb, given_ in ARGUMENTS.items()))
traces = st.builds(Trace, configs, st.lists(any_call, max_size=6).map(tuple))


def test_every_call_is_drawn() -> None:
    assert set(ARGUMENTS) == set(CALLS)


@given(traces)
def test_json_and_back(trace: Trace) -> None:
    text = trace.dumps()
    assert Trace.loads(text) == trace
    assert VALIDATOR.is_valid(json.loads(text))
    assert json.loads(text) == trace.to_json()


@given(traces)
def test_text_and_back(trace: Trace) -> None:
    text = write(trace)
    assert parse(text).trace == trace
    assert write(parse(text).trace) == text


def test_defaults_are_left_out() -> None:
    trace = Trace(
        Config("ring", 8),
        (
            AppendWindow(length=12),
            AppendDecode(),
            Trim(n=2, bypass=True),
            Clone(as_="c1"),
            AppendDecode(on="c1", as_="r1"),
        ),
    )
    assert trace.to_json() == {
        "version": 1,
        "config": {"kind": "ring", "window": 8},
        "calls": [
            {"call": "window", "length": 12},
            {"call": "decode"},
            {"call": "trim", "n": 2, "bypass": True},
            {"call": "clone", "as": "c1"},
            {"call": "decode", "on": "c1", "as": "r1"},
        ],
    }


def test_a_list_of_layers_in_json() -> None:
    call = OpenList(layers=(LayerSpec("full"), LayerSpec("ring", 4, 1)), as_="l0")
    body = {"call": "list", "layers": [{"kind": "full"}, {"kind": "ring", "window": 4, "sinks": 1}], "as": "l0"}
    assert dump(call) == body
    assert Trace.from_json({"config": {"kind": "full"}, "calls": [body]}).calls == (call,)


def test_people_may_write_beside_a_trace() -> None:
    data = {"config": {"kind": "full"}, "id": "T1", "note": "why", "expect": [1], "target": None}
    assert Trace.from_json(data) == Trace(Config("full"))


def test_the_schema_is_checked_in() -> None:
    stored = (files("kvlaw.spec") / "schema" / "trace.json").read_text(encoding="utf-8")
    assert stored == json.dumps(trace_schema(), indent=2) + "\n"
    jsonschema.Draft202012Validator.check_schema(trace_schema())


# ----------------------------------------------------------------------------------------------------------------------
# What is no trace

junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 9)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "full", "5", "a b"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["call", "kind", "n"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def places(data: Any) -> list[tuple[Any, Any]]:
    """List (container, key) of every value inside JSON data."""
    keys = list(data) if isinstance(data, dict) else list(range(len(data))) if isinstance(data, list) else []
    return [(data, key) for key in keys] + [place for key in keys for place in places(data[key])]


@given(traces, st.data())
@settings(max_examples=300)
def test_what_fails_the_schema_fails_the_loader(trace: Trace, draw: st.DataObject) -> None:
    data = trace.to_json()
    container, key = draw.draw(st.sampled_from(places(data)))
    action = draw.draw(st.sampled_from(["replace", "remove", "add"]))
    if action == "add" and isinstance(container, dict):
        container[draw.draw(st.sampled_from(["extra", "as_", "layers", "n", "length"]))] = draw.draw(junk)
    elif action == "remove":
        del container[key]
    else:
        container[key] = draw.draw(junk)
    if not VALIDATOR.is_valid(data):
        with pytest.raises(TraceError):
            Trace.from_json(data)


@given(st.text() | junk.map(json.dumps))
def test_any_text_is_a_trace_or_a_trace_error(text: str) -> None:
    with pytest.raises(TraceError):
        Trace.loads(text)


@given(traces, st.data())
def test_a_cut_file_is_told_as_such(trace: Trace, draw: st.DataObject) -> None:
    text = trace.dumps()
    cut = text[: draw.draw(st.integers(0, len(text) - 1))]
    with pytest.raises(TraceError, match=r"no valid JSON: .* at line 1 column"):
        Trace.loads(cut)


FULL = '{"config": {"kind": "full"}, '


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "the trace: an object is wanted, not a list"),
        ('"full"', "the trace: an object is wanted, not 'full'"),
        ("null", "the trace: an object is wanted, not null"),
        ("{}", "the trace: config is missing"),
        ('{"config": null}', "config: an object is wanted, not null"),
        ('{"config": {}}', "config: kind is missing"),
        ('{"config": {"kind": "rings"}}', "config.kind: 'rings' is not one of full, ring"),
        ('{"config": {"kind": "ring", "window": "5"}}', "config.window: '5' is not an integer or null"),
        ('{"config": {"kind": "ring", "window": true}}', "config.window: true is not an integer or null"),
        ('{"config": {"kind": "ring", "window": 4.0}}', "config.window: 4.0 is not an integer or null"),
        ('{"config": {"kind": "ring", "sinks": "1"}}', "config.sinks: '1' is not an integer"),
        ('{"config": {"kind": "ring", "poison": 1}}', "config.poison: 1 is not true or false"),
        ('{"config": {"kind": "full", "dtype": "f64"}}', "config.dtype: 'f64' is not one of bf16, f16, f32"),
        ('{"config": {"kind": "full", "batch": 0}}', "config: 'batch' must be >= 1: 0"),
        (
            '{"config": {"kind": "ring", "win": 5}}',
            "config: unknown field win; did you mean 'window'?; known are batch, bits,",
        ),
        (FULL + '"version": 2}', "the trace says version 2; this kvlaw reads version 1"),
        (FULL + '"version": true}', "version: true is not one of 1"),
        (FULL + '"cals": []}', "the trace: unknown field cals; did you mean 'calls'?; known are calls, config,"),
        (FULL + '"calls": {}}', "calls: a list is wanted, not an object"),
        (FULL + '"calls": null}', "calls: a list is wanted, not null"),
        (FULL + '"calls": [3]}', "call 1: an object is wanted, not 3"),
        (FULL + '"calls": [{}]}', "call 1: unknown call null; known are decode, window,"),
        (
            FULL + '"calls": [{"call": "decod"}]}',
            "call 1: unknown call 'decod'; did you mean 'decode'?; known are decode,",
        ),
        (FULL + '"calls": [{"call": ["decode"]}]}', "call 1: unknown call a list; known are"),
        (FULL + '"calls": [{"call": "decode"}, {"call": "window"}]}', "call 2 (window): length is missing"),
        (FULL + '"calls": [{"call": "list"}]}', "call 1 (list): layers, as is missing"),
        (FULL + '"calls": [{"call": "window", "length": "5"}]}', "call 1 (window).length: '5' is not an integer"),
        (FULL + '"calls": [{"call": "trim", "n": null}]}', "call 1 (trim).n: null is not an integer or a number"),
        (
            FULL + '"calls": [{"call": "trim", "n": 1, "m": 2}]}',
            "call 1 (trim): unknown field m; known are bypass, n, on",
        ),
        (FULL + '"calls": [{"call": "clone", "as": null}]}', "call 1 (clone).as: null is not text"),
        (
            FULL + '"calls": [{"call": "clone", "as_": "c1"}]}',
            "call 1 (clone): unknown field as_; did you mean 'as'?; known are as, on",
        ),
        (FULL + '"calls": [{"call": "clone", "as": "a b"}]}', "call 1 (clone): 'as' must be a word of letters"),
        (FULL + '"calls": [{"call": "decode", "on": "on"}]}', "call 1 (decode): 'on' must be a word of letters"),
        (
            FULL + '"calls": [{"call": "list", "as": "l0", "layers": []}]}',
            "call 1 (list): Length of 'layers' must be >= 1: 0",
        ),
        (
            FULL
            + '"calls": [{"call": "list", "as": "l0", "layers": [{"kind": "full"}, {"kind": "ring", "window": "4"}]}]}',
            "call 1 (list).layers[1].window: '4' is not an integer or null",
        ),
        (
            FULL + '"calls": [{"call": "decode", "malformed": "x"}]}',
            "call 1 (decode).malformed: 'x' is not one of rank",
        ),
        ('{"config": {"kind": "full", "seed": NaN}}', "no valid JSON: NaN is no JSON number"),
        (FULL + '"calls": [{"call": "trim", "n": -Infinity}]}', "no valid JSON: -Infinity is no JSON number"),
        (FULL + '"calls": [{"call": "trim", "n": 1e999}]}', "call 1 (trim).n: inf is not an integer or a number"),
        ('{"config": {"kind": "full", "kind": "ring"}}', "no valid JSON: 'kind' stands twice in one object"),
        ('{"config": {"kind": "full", "seed": ' + "1" * 5000 + "}}", "no valid JSON: Exceeds the limit"),
        ("[" * 100_000, "no valid JSON: nested too deeply"),
        ('{"config": ' * 100_000, "no valid JSON: nested too deeply"),
        (FULL + '"calls": [{"call": "trim", "n": "' + "x" * 5000 + '"}]}', "call 1 (trim).n: 'xxx"),
        ("", "no valid JSON: Expecting value at line 1 column 1"),
        ('{"config": {"kind": "full"}', "no valid JSON: Expecting ',' delimiter at line 1 column 28"),
    ],
)
def test_the_message_names_the_place_and_what_would_be_right(text: str, message: str) -> None:
    with pytest.raises(TraceError) as caught:
        Trace.loads(text)
    assert str(caught.value).startswith(message)
    assert len(str(caught.value)) < 400


def test_deep_values_do_not_break_the_message() -> None:
    deep: Any = 0
    for _ in range(900):
        deep = [deep]
    with pytest.raises(TraceError, match=r"config.window: a list is not an integer or null"):
        Trace.from_json({"config": {"kind": "ring", "window": deep}})


def test_load_reads_one_value() -> None:
    assert load(Config, {"kind": "ring", "window": 8}, "--set") == Config("ring", 8)
    with pytest.raises(TraceError, match=r"^--set: unknown field spam; did you mean .*; known are"):
        load(Config, {"kind": "ring", "spam": 8}, "--set")


@pytest.mark.parametrize("n", [float("inf"), float("nan")])
def test_a_count_that_json_cannot_say_is_refused(n: float) -> None:
    with pytest.raises(ValueError, match="'n' must be finite"):
        Trim(n=n)


def test_a_call_knows_its_verb() -> None:
    call: Call = Trim(n=2)
    assert call.is_trim
    assert not call.is_decode
    with pytest.raises(AttributeError, match="Trim has no attribute 'is_trimmed'"):
        _ = call.is_trimmed
    with pytest.raises(AttributeError, match="Trim has no attribute 'length'"):
        getattr(call, "length")  # noqa: B009  # pyright knows that it is not there
