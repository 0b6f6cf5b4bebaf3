"""Which clause a difference is charged to: each kind of difference, made by hand, against the oracle's expectation."""

from typing import Any

import numpy as np
import pytest
from attrs import evolve

from kvlaw.conformance.compare import Divergence, Shown, Verdict, compare
from kvlaw.conformance.decode import Columns
from kvlaw.reference.expectation import Expectation
from kvlaw.reference.model import Model
from kvlaw.reference.oracle import Oracle
from kvlaw.spec.clauses import load_clauses
from kvlaw.spec.config import Config
from kvlaw.spec.observations import MaskView, Observation, StateView
from kvlaw.spec.records import CacheRecord, ReadRecord
from kvlaw.spec.text_form import parse

ALL = frozenset(load_clauses())


def last(text: str) -> tuple[Expectation, Model]:
    """Walk a trace on the oracle; give the expectation of its last call and the model after it."""
    trace = parse(text).trace
    oracle, token = Oracle("layout"), 1
    expectation = oracle.open(trace.config)
    for call in trace.calls:
        expectation = oracle.step(call, tuple(range(token, token + call.appends)))
        token += call.appends
    model = oracle.world[trace.calls[-1].on]
    assert isinstance(model, Model)
    return expectation, model


def read_of(expectation: Expectation, *changes: tuple[int, ...] | None, torn: Any = (), **more: Any) -> ReadRecord:
    """Make the read that the law wants, with the sets of its queries changed where a change is given."""
    order = expectation.order or ()
    visible = tuple(changes[i] if i < len(changes) and changes[i] is not None else o for i, o in enumerate(order))
    fetched = expectation.fetched or ()
    record = ReadRecord((visible,), (fetched,), len(fetched), expectation.mask, torn=torn)  # type: ignore[arg-type] # no None is left
    return evolve(record, **more)


def charge(text: str, *changes: tuple[int, ...] | None, **more: Any) -> Divergence:
    expectation, model = last(text)
    found = compare(expectation, Shown(Observation(), read_of(expectation, *changes, **more)), model, ALL)
    return found.divergences[0]


def test_the_right_read_diverges_nowhere():
    for text in ("full ; window 3", "ring window=3 ; decode x5", "ring window=4 sinks=2 ; window 7 ; window 2"):
        expectation, model = last(text)
        assert compare(expectation, Shown(Observation(), read_of(expectation)), model, ALL).divergences == ()


@pytest.mark.parametrize(
    ("text", "seen", "clause"),
    [
        ("full ; decode x3", (1, 2, 2, 3), "VIS-3"),
        ("full ; decode x3", (0, 1, 2, 3), "VIS-4"),
        ("full ; decode x3", (1, 2), "VIS-5"),
        ("full ; decode x3", (1, 3), "GROW-1"),
        ("ring window=4 ; decode x6", (4, 5, 6), "RING-1"),
        ("ring window=4 ; decode x6", (2, 3, 4, 5, 6), "VIS-1"),
        ("ring window=1 ; decode x3", (2, 3), "RING-10"),
        ("ring window=4 sinks=1 ; decode x6", (4, 5, 6), "VIS-9"),
        ("full ; window 3 ; trim 1 ; decode", (1, 2, 3, 4), "TRIM-8"),
        ("full ; window 3 ; reset ; decode", (3, 4), "OWN-7"),
        ("full ; window 3 ; clone as c ; decode", (1, 2, 3, 4, 9), "OWN-3"),
        ("full ; window 3 unread ; decode", (4,), "READ-5"),
        ("full ; window 3 ; decode w=2", (2, 3, 4), "MASK-4"),
        ("ring window=4 ; decode x6 ; decode w=2", (5, 6, 7), "MASK-8"),
        ("ring window=2 ; decode x4 ; decode w=9", (3, 4, 5), "MASK-9"),
    ],
)
def test_a_wrong_set_of_a_decode(text: str, seen: tuple[int, ...], clause: str):
    assert charge(text, seen).clause == clause


@pytest.mark.parametrize(
    ("text", "changes", "clause"),
    [
        ("full ; window 3", (None, (1,), None), "VIS-5"),
        ("full ; window 3", ((1, 2), None, None), "VIS-2"),
        ("ring window=2 ; window 4", (None, None, (1, 2, 3), None), "RING-11"),
        ("full ; decode ; window 1", ((2,),), "GROW-1"),
        ("ring window=3 ; window 4 ; window 1", ((2, 3, 4, 5),), "VIS-8"),
        ("full ; window 3 array", (None, None, (2, 3)), "MASK-11"),
    ],
)
def test_a_wrong_set_of_a_window(text: str, changes: tuple[tuple[int, ...] | None, ...], clause: str):
    found = charge(text, *changes)
    assert found.clause == clause
    assert found.query == (next(i for i, c in enumerate(changes) if c is not None) if len(changes) > 1 else None)


def test_a_lost_sink_is_told_apart_from_a_hidden_one():
    text = "ring window=4 sinks=1 ; window 5 ; window 2"
    expectation, model = last(text)
    hidden = read_of(expectation, (4, 5, 6), (5, 6, 7))
    lost = evolve(hidden, fetched=((4, 5, 6, 7),), width=4)
    charged = [compare(expectation, Shown(Observation(), r), model, ALL).divergences[0].clause for r in (hidden, lost)]
    assert charged == ["VIS-9", "RING-12"]


def test_each_clause_is_listed_once():
    for seen in ((0, 1, 3), (1, 1, 2), (0, 0, 2)):
        found = charge("full poison ; decode x3", seen)
        assert len(set(found.clauses)) == len(found.clauses)


def test_the_words_of_a_difference():
    found = charge("ring window=4 ; decode x6", (2, 4, 5, 6))
    assert (found.expected, found.observed) == ("sees t3..t6", "sees t2,t4..t6")
    assert found.clause not in found.others
    assert set(found.clauses) <= ALL


@pytest.mark.parametrize(
    ("what", "clause"),
    [
        ("key of head 1 is t2's", "VIS-6"),
        ("value of head 0 is t1's of row 1, head 0", "VIS-10"),
        ("value of head 0 is no token's", "VIS-6"),
    ],
)
def test_a_torn_column_that_is_seen(what: str, clause: str):
    assert charge("full kv_heads=2 batch=2 ; decode ; decode", torn=((0, 1, what),)).clause == clause


def test_a_torn_column_that_nobody_sees_is_no_divergence():
    expectation, model = last("ring window=2 ; window 3 ; window 2 w=1")
    shown = Shown(Observation(), read_of(expectation, torn=((0, 0, "key of head 0 is no token's"),)))
    assert compare(expectation, shown, model, ALL).divergences == ()


def test_the_right_set_in_another_order():
    found = charge("ring window=3 ; decode x4", (2, 3, 4))
    assert (found.field, found.clause, found.expected, found.observed) == ("order", "VIS-7", "t4,t2..t3", "t2..t4")


def test_the_form_and_the_width_of_a_mask():
    assert charge("full ; window 3", mask="array").clause == "MASK-3"
    assert charge("ring window=4 ; window 3 ; decode", mask="causal").clause == "MASK-6"
    narrow = charge("ring window=2 ; window 3", mask="array", mask_shape=(3, 2), visible=None)
    assert (narrow.field, narrow.clause) == ("mask_width", "MASK-1")
    short = charge("ring window=2 ; window 3", mask="array", mask_shape=(2, 3), visible=None)
    assert short.expected == "a mask of shape [..., 3, 3]"


def test_probes_by_what_they_answer():
    expectation, model = last("full ; decode x3")

    def charged(got: str) -> str:
        shown = Shown(Observation(), read_of(expectation), probes=((0, "the newest probe answers t3", got),))
        return compare(expectation, shown, model, ALL).divergences[0].clause

    assert charged("t2") == "READ-3"
    assert charged("t3 of row 0, KV head 1") == "READ-4"


# Numbers.


def state(text: str, **changes: Any) -> Verdict:
    expectation, model = last(text)
    token = Config("full").token_bytes
    values: dict[str, Any] = {e.field: e.value for e in expectation.expected}
    held = values["held"]
    columns = values.get("columns", len(held))
    right = CacheRecord(
        offset=values["offset"], size=values["size"], nbytes=columns * token, columns=columns, held=held,
        bytes_per_token=values["bytes_per_token"], identity=values["identity"], storage="dense",
        can_trim=values["can_trim"], write_index=values.get("write_index"),
    )  # fmt: skip
    shown = Shown(Observation(), read_of(expectation) if expectation.order else None, after=evolve(right, **changes))
    return compare(expectation, shown, model, ALL)


RING, FULL = "ring window=4 ; decode x6", "full ; window 3"


@pytest.mark.parametrize("text", [RING, FULL, "ring window=4 ; window 6", "full ; window 3 ; trim 1"])
def test_the_right_state_diverges_nowhere(text: str):
    assert state(text).divergences == ()


@pytest.mark.parametrize(
    ("text", "changes", "clause"),
    [
        (FULL, {"offset": 2}, "POS-2"),
        (RING, {"offset": 4}, "POS-3"),
        ("full ; window 3 ; trim 1", {"offset": 3}, "POS-4"),
        ("full ; window 3 ; look c0", {"offset": 4}, "POS-5"),
        ("full ; window 3 ; mask 1 decode", {"offset": 4}, "MASK-12"),
        ("full ; window 3 ; reset", {"offset": 3}, "OWN-7"),
        (RING, {"size": 6}, "POS-6"),
        (FULL, {"identity": "FULL"}, "ID-2"),
        (FULL, {"storage": "bf16"}, "ID-4"),
        (FULL, {"can_trim": (True, True, True, False, False)}, "TRIM-6"),
        (RING, {"can_trim": (True,) + (False,) * 7}, "TRIM-6"),
        (RING, {"bytes_per_token": 0}, "GROW-5"),
        (RING, {"nbytes": 100}, "GROW-6"),
        (RING, {"nbytes": 5 * 512}, "GROW-7"),
        (RING, {"nbytes": 1 << 30}, "RING-8"),
        (RING, {"columns": 5, "nbytes": 5 * 512}, "RING-9"),
        ("ring window=4 ; decode x5", {"held": (2, 3, 4, 5)}, "RING-3"),
        (RING, {"held": (3, 4, 5, 6)}, "RING-2"),
        ("ring window=4 ; decode x3", {"held": (1, 2, 0, 3)}, "RING-2"),
        ("ring window=4 ; window 3 ; window 3", {"held": (4, 5, 6)}, "RING-4"),
        ("ring window=4 ; window 6", {"held": (3, 4, 5, 6)}, "RING-5"),
        ("ring window=4 ; window 6 ; decode", {"held": (1, 2, 3, 7)}, "RING-6"),
        ("ring window=6 ; decode x4 ; trim 2 ; window 1", {"held": (1, 2, 3, 4, 5)}, "RING-15"),
        ("ring window=4 ; decode x5 ; window 1", {"held": (5, 6, 3, 4)}, "READ-1"),
        ("ring window=4 sinks=1 ; decode x6", {"held": (5, 6, 3, 4)}, "RING-13"),
        ("ring window=4 ; decode x5", {"write_index": 5}, "RING-3"),
        (FULL, {"columns": 1024, "nbytes": 1024 * 512}, "GROW-3"),
        (FULL, {"held": (1, 3, 2)}, "GROW-1"),
    ],
)
def test_a_wrong_number_or_column(text: str, changes: dict[str, Any], clause: str):
    assert state(text, **changes).divergences[0].clause == clause


def test_spare_columns_of_a_growing_cache_may_hold_anything():
    assert state(FULL, held=(1, 2, 3, 9, 0, 7)).divergences == ()


def test_the_offset_is_charged_before_what_follows_from_it():
    found = state(RING, offset=4, size=3, held=(3, 4, 5, 6), can_trim=(True,) * 6).divergences
    assert [d.field for d in found[:2]] == ["offset", "held"]


# Outcomes, answers, arrays.


def test_outcomes():
    expectation, model = last("ring window=4 ; window 6 ; trim 1")
    accepted = compare(expectation, Shown(Observation("ok", answer=1)), model, ALL).divergences[0]
    assert (accepted.field, accepted.clause, accepted.expected, accepted.observed) == (
        "outcome",
        "TRIM-4",
        "refused",
        "ok",
    )
    expectation, model = last("full ; window 3")
    refused = compare(expectation, Shown(Observation("refused", "no room")), model, ALL).divergences[0]
    assert (refused.clause, refused.observed) == ("POS-2", "refused no room")
    broken = compare(expectation, Shown(Observation("error", "no answer within 10 s")), model, ALL).divergences[0]
    assert (broken.clause, broken.observed) == ("POS-2", "error no answer within 10 s")


def test_nonsense_is_charged_to_the_call_and_a_wrong_shape_to_growth():
    expectation, model = last("full ; window 3")
    found = compare(expectation, Shown(Observation(), nonsense="keys are no array"), model, ALL).divergences[0]
    assert (found.field, found.clause) == ("answer", "POS-2")
    wrong = "values have shape [1, 2, 3, 64], not [1, 2, S, 96]"
    assert compare(expectation, Shown(Observation(), nonsense=wrong), model, ALL).divergences[0].clause == "GROW-4"


def test_a_call_that_the_subject_lacks_says_nothing():
    expectation, model = last("full ; window 3")
    assert compare(expectation, Shown(Observation("unsupported")), model, ALL) == Verdict()


def test_what_the_law_leaves_open_says_nothing():
    expectation, model = last("full ; window 2 malformed=heads")
    for outcome in ("ok", "refused"):
        assert compare(expectation, Shown(Observation(outcome)), model, ALL) == Verdict()


def test_answers():
    expectation, model = last("full ; window 3 ; trim 2")
    found = compare(expectation, Shown(Observation(answer=1)), model, ALL).divergences[0]
    assert (found.field, found.clause, found.expected, found.observed) == ("answer", "TRIM-3", "2", "1")


def test_a_dense_fetch():
    expectation, model = last("ring window=3 ; decode x4 ; dense 2")

    def fetch(*ids: int, torn: Any = ()) -> list[str]:
        shown = Shown(Observation(), dense=Columns((ids,), torn))
        return [d.clause for d in compare(expectation, shown, model, ALL).divergences]

    assert fetch(3, 4, 5, 6) == []
    assert fetch(4, 3, 5, 6) == ["READ-7"]
    assert fetch(2, 3, 4, 5, 6) == ["READ-7"]  # more than is needed, but live
    assert fetch(4, 5, 6) == ["READ-6", "READ-7"]
    assert fetch(3, 4, 5, 5, 6) == ["READ-6", "READ-7"]
    assert fetch(0, 3, 4, 5, 6) == ["READ-6", "READ-7"]
    assert fetch(3, 4, 5, 6, torn=((0, 0, "value of head 0 is t9's"),)) == ["READ-6"]


def test_a_mask_that_was_asked_for_alone():
    expectation, model = last("ring window=4 ; window 3 ; mask 2 window")
    right = np.array([[1, 1, 1, 1, 0], [0, 1, 1, 1, 1]], bool)

    def masks(mask: MaskView) -> list[str]:
        return [d.field for d in compare(expectation, Shown(Observation(mask=mask)), model, ALL).divergences]

    assert masks(MaskView("array", right)) == []
    assert masks(MaskView("array", right[None, None])) == []
    assert masks(MaskView("array", np.tile(right, (2, 1, 1, 1)))) == []
    assert masks(MaskView("causal")) == ["mask"]
    for wrong in (~right, right[::-1], right[:1], right[:, :4], right[:0], np.stack([right, ~right])):
        assert masks(MaskView("array", wrong)) == ["mask_array"]


def test_handed_out_arrays():
    expectation, model = last("full ; window 3")
    oracle = Oracle("layout")
    trace = parse("full ; window 3 ; state as s ; look s").trace
    oracle.open(trace.config)
    for index, call in enumerate(trace.calls):
        expectation = oracle.step(call, (1, 2, 3) if index == 0 else ())
    found = compare(expectation, Shown(Observation(), handed_same=False), model, ALL).divergences[0]
    assert (found.clause, found.observed) == ("OWN-4", "other bytes")
    assert compare(expectation, Shown(Observation(), handed_same=True), model, ALL).exercised == {"OWN-4"}
    assert compare(expectation, Shown(Observation()), model, ALL).exercised == frozenset()


# What counts and what is exercised.


def test_only_clauses_that_count_are_charged():
    expectation, model = last("ring window=4 ; decode x6")
    shown = Shown(Observation(), read_of(expectation, (4, 5, 6)))
    few = compare(expectation, shown, model, frozenset({"VIS-1", "VIS-4"}))
    assert few.divergences[0].clauses == ("VIS-1", "VIS-4")
    assert compare(expectation, shown, model, frozenset({"POS-2"})).divergences == ()


def test_what_was_not_observed_exercises_nothing():
    expectation, model = last("ring window=4 ; decode x6")
    assert compare(expectation, Shown(Observation()), model, ALL).exercised == {"POS-2"}
    numbers = compare(expectation, Shown(Observation(), after=CacheRecord(offset=6)), model, ALL)
    assert numbers.exercised == {"POS-2", "POS-3"}
    seen = compare(expectation, Shown(Observation(), read_of(expectation)), model, ALL)
    assert {"VIS-1", "RING-1", "VIS-7", "MASK-6"} <= seen.exercised
    assert not {"POS-3", "RING-2", "READ-3", "TRIM-8", "VIS-2"} & seen.exercised


def test_the_trims_of_a_list_are_what_every_layer_can():
    trace = parse("full ; list full + ring window=4 as l ; window 3 on l").trace
    oracle = Oracle("core")
    oracle.open(trace.config)
    oracle.step(trace.calls[0], ())
    expectation = oracle.step(trace.calls[1], (1, 2, 3))
    layers = tuple(Observation(state=StateView(can_trim=flags)) for flags in ((True,) * 4, (True, True, False, False)))

    def charged(*flags: bool) -> list[str]:
        shown = Shown(Observation(layers=layers), after=CacheRecord(offset=3, can_trim=flags))
        return [d.clause for d in compare(expectation, shown, None, ALL).divergences]

    assert charged(True, True, False, False) == []
    assert charged(True, True, True, False) == ["TRIM-14"]
