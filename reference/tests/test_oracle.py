"""What the oracle expects, call by call, against the examples of the text worked out by hand; and that layout refines
history: what the masks of ``index`` show of the columns is what the definition says of the positions.
"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlaw.reference import index
from kvlaw.reference.expectation import Expectation
from kvlaw.reference.history import Sight
from kvlaw.reference.model import Model
from kvlaw.reference.oracle import Oracle, UnknownObjectError
from kvlaw.spec.calls import Call, Phase
from kvlaw.spec.config import LayerSpec
from kvlaw.spec.text_form import parse


def told(text: str, profile: Any = "layout") -> list[Expectation]:
    """Walk a trace on the oracle alone; tokens count from 1, and a refused append uses none."""
    trace = parse(text).trace
    oracle = Oracle(profile)
    steps, token = [oracle.open(trace.config)], 1
    for call in trace.calls:
        steps.append(oracle.step(call, tuple(range(token, token + call.appends))))
        token += call.appends if "ok" in steps[-1].outcomes else 0
    return steps


def sets(expectation: Expectation) -> list[tuple[int, ...]]:
    assert all(s.required == s.allowed for s in expectation.sights)
    return [s.allowed for s in expectation.sights]


def test_an_opening_is_an_empty_cache():
    opening = told("ring window=4 sinks=1")[0]
    assert opening.value("offset") == 0
    assert opening.value("held") == ()
    assert opening.value("identity") == "ring(window=4,sinks=1)"
    assert opening.value("can_trim") == (True, False)
    assert opening.value("bytes_per_token") == 0


def test_a_wrapped_ring():
    steps = told("ring window=4 ; decode x6 ; window 2")
    assert sets(steps[6]) == [(3, 4, 5, 6)]
    assert steps[6].order == ((5, 6, 3, 4),)
    assert steps[6].value("held") == (5, 6, 3, 4)
    assert steps[6].value("write_index") == 2
    assert steps[7].value("held") == (4, 5, 6, 7, 8)
    assert sets(steps[7]) == [(4, 5, 6, 7), (5, 6, 7, 8)]
    assert steps[7].mask == "array"
    assert steps[7].value("columns") == 5


def test_numbers_of_a_step():
    step = told("ring window=4 batch=2 kv_heads=3 D=64 Dv=96 dtype=f32 ; window 6")[1]
    token = 3 * (64 + 96) * 4
    assert step.value("offset") == 6
    assert step.value("size") == 4
    assert step.value("bytes_per_token") == token
    assert step.value("nbytes_per_column") == 2 * token
    assert step.value("nbytes_min") == 3 * 2 * token  # the next query needs three besides itself
    assert step.value("nbytes_max") == (2 * 4 + 6 + 512) * 2 * token
    assert step.value("can_trim") == (False,) * 8


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("full ; window 2 ; trim 3", "TRIM-7"),
        ("full ; window 2 ; trim -1", "TRIM-9"),
        ("full ; window 2 ; trim 0.5", "ERR-5"),
        ("ring window=4 ; window 4 ; trim 1", "TRIM-4"),
        ("ring window=4 ; window 4 ; trim 0", "TRIM-7"),
        ("ring window=4 ; window 6 ; decode ; trim 1 bypass", "TRIM-12"),
        ("full ; window 2 ; window 2 malformed=heads", "ERR-2"),
        ("full ; window 2 ; decode malformed=dtype", "ERR-3"),
        ("full ; decode malformed=two", "ERR-4"),
        ("full ; mask 2 decode", "ERR-4"),
        ("full ; window 0", "ERR-4"),
        ("full ; window 2 ; decode w=0", "ERR-7"),
        ("ring window=4 sinks=1 ; window 3 ; decode w=3", "MASK-13"),
        ("full ; window 2 as r ; attend r malformed=batch", "READ-9"),
        ("full ; list full + ring window=2 as l ; window 3 on l ; trim 1 on l", "TRIM-13"),
        ("full ; list full + full as l ; window 2 on l ; window 2 malformed=heads on l", "ERR-8"),
    ],
)
def test_what_is_refused_and_by_which_clause(text: str, clause: str):
    last = told(text)[-1]
    assert last.outcomes == ("refused",)
    assert last.charged[0] == clause


@pytest.mark.parametrize("text", ["ring window=0", "ring window=4 sinks=4", "ring window=4 sinks=-1", "full window=4"])
def test_an_impossible_configuration_is_refused(text: str):
    opening = told(text)[0]
    assert (opening.outcomes, opening.ends) == (("refused",), True)
    assert opening.charged[-1] == "ERR-6"


def test_a_refused_call_leaves_everything_as_it_was():
    before, after = told("ring window=4 ; window 6 ; trim 1")[1:]
    assert after.value("offset") == before.value("offset") == 6
    assert after.value("held") == before.value("held") == (1, 2, 3, 4, 5, 6)


def test_an_empty_cache_cannot_tell_spoilt_heads_so_what_follows_is_open():
    last = told("full ; window 2 malformed=heads")[-1]
    assert (set(last.outcomes), last.ends) == ({"ok", "refused"}, True)


def test_a_mask_is_that_of_the_append_that_comes_next():
    mask = told("ring window=4 ; window 3 ; mask 2 window")[-1]
    assert mask.mask == "array"
    assert mask.value("mask_array") == ((True, True, True, True, False), (False, True, True, True, True))
    narrow = told("ring window=4 ; decode x6 ; mask 1 decode w=2")[-1]
    assert narrow.value("mask_array") == ((False, True, True, False),)


def test_a_dense_fetch_needs_what_its_queries_see_and_may_have_what_is_live():
    fetch = told("ring window=3 ; decode x4 ; dense 2")[-1]
    assert fetch.value("fetched") == (3, 4, 5, 6)
    assert fetch.value("dense_sights") == Sight((3, 4, 5, 6), (1, 2, 3, 4, 5, 6))


def test_reads_clones_and_arrays_in_the_world():
    steps = told("ring window=3 ; decode x3 as r ; attend r ; clone as c ; decode on c ; decode ; attend r")
    assert [e.clauses for e in steps[4].expected if e.field == "sights"] == [("READ-2",)]
    assert sets(steps[6]) == [(2, 3, 4)]
    assert sets(steps[7]) == [(2, 3, 5)]
    assert sets(steps[8]) == [(1, 2, 3)]
    assert [e.clauses for e in steps[8].expected if e.field == "sights"] == [("OWN-1", "READ-2")]


def test_a_read_of_a_dropped_cache_still_answers():
    last = told("full ; window 2 as r ; drop c0 ; attend r")[-1]
    assert sets(last) == [(1,), (1, 2)]
    assert last.charged == ("OWN-1", "READ-2")


def test_a_reset_forgets_everything_but_the_identity():
    steps = told("ring window=3 ; window 5 ; reset ; decode ; window 2")
    assert steps[2].value("columns") == 0
    assert steps[2].value("identity") == "ring(window=3,sinks=0)"
    assert sets(steps[3]) == [(6,)]
    assert sets(steps[4]) == [(6, 7), (6, 7, 8)]


def test_lists_answer_layer_by_layer():
    last = told("full ; list full + ring window=2 as l ; window 3 on l ; decode on l")[-1]
    assert last.value("offset") == 4
    assert [sets(layer) for layer in last.layers] == [[(1, 2, 3, 4)], [(3, 4)]]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("full ; decode on c7", "nothing is called 'c7' here; there are c0"),
        ("full ; drop c0 ; decode", "there are no objects"),
        ("full ; attend c0", "'c0' is a cache: it cannot be asked to attend"),
        ("full ; window 2 as r ; trim 1 on r", "'r' is a read: it cannot be asked to trim"),
        ("full ; state as s ; attend s", "'s' is a set of arrays that was handed out: it cannot be asked to attend"),
        ("full ; list full as l ; dense 2 on l", "'l' is a list of layers: it cannot be asked to dense"),
    ],
)
def test_a_call_that_makes_no_sense_is_named(text: str, says: str):
    with pytest.raises(UnknownObjectError, match=says):
        told(text)


# Layout refines history: random histories, the masks of ``index`` as the other side.


@st.composite
def histories(draw: st.DrawFn) -> tuple[LayerSpec, list[tuple[Phase, int, int | None]]]:
    """Draw a layer, and appends with trims (a negative length) between them."""
    window = draw(st.none() | st.integers(1, 7))
    sinks = draw(st.integers(0, window - 1)) if window else 0
    narrow = st.none() | (st.just(99) if sinks else st.integers(1, 9))
    longest = 2 * (window or 4) + 1
    append = st.tuples(st.sampled_from(("decode", "window")), st.integers(-3, longest), narrow)
    return LayerSpec("full" if window is None else "ring", window, sinks), draw(st.lists(append, max_size=12))


def shown(before: index.State, phase: Phase, length: int, query: int, column: int, window: int | None) -> bool:
    if isinstance(before, index.Full):
        return index.full_visible(before, length, query, column, window)
    if phase == "decode":
        return index.decode_visible(before, column, window)
    return index.block_visible(before, length, query, column, window)


@given(histories())
@settings(max_examples=400, deadline=None, derandomize=True)
def test_layout_refines_history(drawn: tuple[LayerSpec, list[tuple[Phase, int, int | None]]]):
    layer, acts = drawn
    model, token = Model.empty(layer), 1
    for phase, length, window in acts:
        if length <= 0:
            model = model.trimmed(-length) if index.can_trim(model.state, -length) else model
            continue
        count = 1 if phase == "decode" else length
        before, tokens = model.state, tuple(range(token, token + count))
        model, plan = model.appended(phase, tokens, unread=False)
        token += count
        fetched = [model.slots[column] for column in plan.fetch]
        for query, sight in enumerate(model.sights(count, window)):
            seen = [t for c, t in enumerate(fetched) if shown(before, phase, count, query, c, window)]
            assert sorted(seen) == sorted(sight.allowed), (layer, acts)
            assert sight.admits(tuple(seen))


def test_the_oracle_moves_on_only_by_calls():
    oracle = Oracle()
    oracle.open(parse("full").trace.config)
    look: Call = parse("full ; look c0").trace.calls[0]
    assert oracle.step(look, ()).value("offset") == 0
    assert oracle.step(look, ()).value("offset") == 0
