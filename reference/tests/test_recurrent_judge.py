"""The oracle of recurrent layers against histories worked out by hand, and what it refuses."""

import pytest

from kvlaw.reference.expectation import Expectation
from kvlaw.reference.oracle import Oracle, Profile, Seen, UnknownObjectError
from kvlaw.spec.calls import CALLS
from kvlaw.spec.text_form import parse

OK = Seen("ok")


def walk(text: str, profile: Profile = "layout") -> tuple[Oracle, list[Expectation]]:
    """Walk a trace with the ids that the harness would give."""
    trace = parse(text).trace
    oracle, first = Oracle(profile), 1
    told = [oracle.open(trace.config, OK)]
    for call in trace.calls:
        thing = oracle.world.get(call.on)
        count = max(1, len(getattr(thing, "rows", ())))
        tokens = tuple(range(first, first + call.appends * count))
        told.append(oracle.step(call, tokens, OK))
        first += len(tokens) if told[-1].outcomes == ("ok",) else 0
    return oracle, told


def state(expectation: Expectation) -> tuple[object, ...]:
    return tuple(expectation.value(name) for name in ("offset", "tail", "slots"))


def test_positions_move_tail_and_slots() -> None:
    _, (opened, one, two) = walk("recurrent conv=3 ; advance 4 ; advance 3")
    assert state(opened) == (0, (0, 0), (0, 0, 0, 0, 0))
    assert state(one) == (4, (3, 4), (0, 1, 2, 3, 4))
    assert one.value("answers") == (0, 0, 1, 3)
    assert state(two) == (7, (6, 7), (5, 6, 7, 3, 4))
    assert two.value("answers") == (5, 2, 4)


def test_a_round_taken_back_was_never_there() -> None:
    _, told = walk("recurrent ; advance 2 ; begin_round ; advance 2 ; advance 1 ; roll_back 1 ; advance 1")
    assert state(told[-2]) == (3, (1, 2, 3), (0, 1, 2, 3, 0))
    assert state(told[-1]) == (4, (2, 3, 6), (0, 6, 2, 3, 0))


def test_arrays_of_a_first_round_go_with_it() -> None:
    size = 2 * (3 * 64 * 2 + 64 * 64 * 4)  # heads: a tail of three keys in bf16, a float32 matrix
    _, told = walk("recurrent ; begin_round ; advance 1 ; roll_back 0 ; begin_round ; advance 1 ; commit_round")
    assert [step.value("nbytes") for step in told] == [0, 0, size, 0, 0, size, size]


def test_padding_is_no_position_of_a_row() -> None:
    _, told = walk("recurrent_rows rows=2 ; prepare left=0,1 lengths=2,3 right=1,0 ; advance 2 ; advance 1 ; finalize")
    assert [row.real for row in told[2].rows] == [(0, 1), (1,)]
    assert [row.real for row in told[3].rows] == [(), (0,)]
    assert [state(row) for row in told[4].rows] == [
        (2, (0, 1, 2), (0, 1, 2, 0, 0)),
        (2, (0, 4, 6), (0, 6, 0, 0, 4)),
    ]


def test_rows_take_their_part_of_a_round_along() -> None:
    _, told = walk("recurrent_rows rows=3 ; advance 1 ; begin_round ; advance 2 ; filter 2,1 ; roll_back 2,0")
    assert [row.value("tail") for row in told[-1].rows] == [(3, 8, 9), (0, 0, 2)]


def test_a_merge_lays_rows_in_order_and_leaves_its_sources() -> None:
    oracle, told = walk(
        "recurrent_rows rows=1 ; advance 1 ; cache as s1 ; merge s1 c0 c0 as g1 ; advance 1 on g1 ; look c0"
    )
    assert [row.value("offset") for row in told[3].rows] == [0, 1, 1]
    assert [row.value("tail") for row in told[4].rows] == [(0, 0, 2), (0, 1, 3), (0, 1, 4)]
    assert told[5].rows[0].value("tail") == (0, 0, 1)
    assert set(oracle.world) == {"c0", "s1", "g1"}


@pytest.mark.parametrize(
    "text",
    [
        "recurrent ; commit_round",
        "recurrent ; begin_round ; begin_round",
        "recurrent ; begin_round ; advance 2 ; roll_back 3",
        "recurrent ; begin_round ; advance 2 ; roll_back 1,1",
        "recurrent ; trim 0",
        "recurrent ; advance 0",
        "recurrent ; advance 1 ; advance 1 malformed=heads",
        "recurrent_rows rows=0 ; advance 1",
        "recurrent_rows rows=2 ; extract 2 as e1",
        "recurrent_rows rows=2 ; begin_round ; extract 0 as e1",
        "recurrent_rows rows=2 ; filter 1,1",
        "recurrent_rows rows=2 ; advance 1 ; prepare left=1,0",
        "recurrent_rows rows=2 ; prepare right=1,0",
        "recurrent_rows rows=2 ; prepare lengths=1,0 right=0,1 ; begin_round",
        "recurrent_rows rows=2 ; prepare lengths=1,0 right=0,1 ; prepare left=1,0",
        "recurrent_rows rows=2 ; prepare left=1,0 ; merge c0 as g1",
        "recurrent_rows rows=1 ; cache recurrent conv=2 as s1 ; merge c0 s1 as g1",
        "recurrent_rows rows=1 ; merge c0 as g1 ; advance 1 malformed=batch on g1",
        "recurrent_rows rows=1 ; cache full as s1 ; merge c0 s1 as g1",
        "full_rows rows=1 ; cache recurrent as s1 ; merge c0 s1 as g1",
    ],
)
def test_what_is_refused_leaves_everything(text: str) -> None:
    _, told = walk(text)
    assert told[-1].outcomes == ("refused",)
    kept = {e.field: e.value for e in told[-1].expected}
    before = {e.field: e.value for e in told[-2].expected}
    assert kept.items() <= before.items()


def test_core_follows_a_design_that_accepts_more() -> None:
    _, told = walk("recurrent ; begin_round ; begin_round", "core")
    assert (told[-1].outcomes, told[-1].ends) == (("ok", "refused"), True)
    _, told = walk("recurrent ; advance 1 ; trim 1", "core")
    assert told[-1].outcomes == ("ok", "refused")
    assert told[-1].value("answer") == 0


@pytest.mark.parametrize("verb", sorted(set(CALLS) - {"list", "merge", "cache"}))
def test_no_call_of_other_kinds_breaks_the_oracle(verb: str) -> None:
    needed = {
        **dict.fromkeys(("window", "known", "dense", "mask", "advance", "trim"), " 1"),
        **dict.fromkeys(("clone", "state", "save", "load"), " as x1"),
        **dict.fromkeys(("extract", "hand_back"), " 0 as x1"),
        **dict.fromkeys(("filter", "commit_prefill", "roll_back"), " 0"),
        "reuse": " t1 as x1",
    }
    special = {"load": "load c0 as x1", "damage": "damage c0 how=empty", "drop": "drop c0", "attend": "attend c0"}
    text = f"recurrent_rows ; {special.get(verb, verb + needed.get(verb, ''))}"
    try:
        walk(text)
    except UnknownObjectError as error:
        assert verb in str(error)  # noqa: PT017  # it says which call this is no object of
