"""Second runs of pair laws: the same tokens, told in another way."""

import pytest

from kvlaw.conformance.adapter import AdapterSubject
from kvlaw.conformance.pairs import Told, make_pair, play_on
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.spec.calls import AppendDecode, AppendWindow, Call
from kvlaw.spec.config import Config
from kvlaw.spec.laws import Pair
from kvlaw.spec.records import Run
from kvlaw.spec.text_form import parse, write_call

ORACLE = AdapterSubject(ReferenceAdapter())


def told(run: Run) -> list[tuple[str, tuple[int, ...]]]:
    return [(write_call(step.call), step.tokens) for step in run if step.call is not None]


def seen(run: Run) -> tuple[int, ...]:
    read = run.steps[-1].read
    assert read is not None
    assert read.visible is not None
    return tuple(sorted(read.visible[0][-1]))


@pytest.mark.parametrize(
    ("how", "text", "other"),
    [
        (
            "rechunked",
            "ring window=4 ; window 3 ; decode",
            [("decode", (1,)), ("decode", (2,)), ("decode", (3,)), ("decode", (4,))],
        ),
        ("rechunked", "ring window=4 ; decode x3", [("window 3", (1, 2, 3))]),
        (
            "rechunked",
            "full ; window 2 ; trim 1 ; decode x2",
            [("decode", (1,)), ("decode", (2,)), ("trim 1", ()), ("window 2", (3, 4))],
        ),
        (
            "unread",
            "full ; window 2 ; trim 1 ; decode w=1",
            [("window 2 unread", (1, 2)), ("trim 1", ()), ("decode unread w=1", (3,))],
        ),
        (
            "retold",
            "ring window=8 ; window 5 ; trim 2 ; window 3 ; trim 1",
            [("window 3", (1, 2, 3)), ("window 2", (6, 7))],
        ),
        ("retold", "ring window=4 ; window 3 ; reset ; decode x6", [("window 6", (4, 5, 6, 7, 8, 9))]),
    ],
)
def test_the_same_tokens_are_told_in_another_way(
    how: Pair, text: str, other: list[tuple[str, tuple[int, ...]]]
) -> None:
    pair = make_pair(how, parse(text).trace, ORACLE)
    assert pair is not None
    *before, last = told(pair.other)
    assert sorted(before) == sorted((write_call(parse(f"full ; {call}").trace.calls[0]), ids) for call, ids in other)
    assert before == [(write_call(parse(f"full ; {call}").trace.calls[0]), ids) for call, ids in other]
    assert last == ("decode", pair.one.steps[-1].tokens)
    # the last decode sees the same ids in both, by the oracle
    assert seen(pair.one) == seen(pair.other)


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("unread", "full"),
        ("unread", "full ; decode ; clone as c1 ; decode on c1"),
        ("retold", "full ; decode malformed=heads ; decode"),
        ("rechunked", "ring window=4 ; window 4 ; trim 1 bypass"),
        ("rechunked", "ring window=4 sinks=1 ; decode x3 ; decode w=2"),
        ("retold", "ring window=0 ; decode"),
    ],
)
def test_some_traces_have_no_second_run(how: Pair, text: str) -> None:
    assert make_pair(how, parse(text).trace, ORACLE) is None


def test_calls_are_played_on_to_their_end_with_the_chosen_tokens() -> None:
    calls: list[Call] = [AppendWindow(length=2), AppendDecode()]
    run = play_on(Config("ring", 2, look="last"), [Told(calls[0], 7), Told(calls[1]), Told(calls[1], 3)], ORACLE)
    assert told(run) == [("window 2", (7, 8)), ("decode", (9,)), ("decode", (3,))]
    assert seen(run) == (3, 9)
