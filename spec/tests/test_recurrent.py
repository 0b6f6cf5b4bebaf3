"""Recurrent layers in the language: their configurations, and what tokens leave in a state."""

import pytest

from kvlaw.spec.config import Config, LayerSpec
from kvlaw.spec.slots import answers_of, asked_by, slots_of, tail_of, written_by
from kvlaw.spec.text_form import parse, write
from kvlaw.spec.trace import TraceError


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("recurrent", None),
        ("recurrent conv=1", None),
        ("recurrent conv=0", "a convolution reads at least 1 position, not 0"),
        ("recurrent window=4", "a recurrent layer takes no window, no sinks and no bits"),
        ("recurrent bits=4", "a recurrent layer takes no window, no sinks and no bits"),
        ("recurrent sinks=1", "a recurrent layer takes no window, no sinks and no bits"),
        ("recurrent batch=2", "a recurrent cache is of one sequence: batch 1, not 2"),
        ("recurrent rows=2", "only a group takes rows"),
        ("recurrent_rows rows=2", None),
        ("recurrent_rows batch=2", "a group has one sequence in a row: batch 1, not 2"),
        ("full conv=4", "only a recurrent layer has a convolution"),
        ("ring window=4 conv=4", "only a recurrent layer has a convolution"),
    ],
)
def test_what_cannot_be_built(text: str, problem: str | None) -> None:
    assert parse(text).trace.config.problem == problem


def test_identities_and_the_two_forms_of_a_layer() -> None:
    layer = LayerSpec("recurrent")
    assert (layer.kernel, layer.identity) == (4, "recurrent(conv=4)")
    assert layer.grouped == LayerSpec("recurrent_rows")
    assert layer.grouped.serial == layer
    assert Config("recurrent_rows", conv=2).identity == "recurrent_rows(conv=2)"
    assert (layer.is_rows, layer.grouped.is_rows, layer.grows, layer.grouped.grows) == (False, True, False, False)


def test_a_trace_is_read_as_it_is_written() -> None:
    text = (
        "recurrent_rows conv=2 rows=3 ; advance 2 -> reads _,t2 and row 1 tail t4 ; advance 1 malformed=rank -> refused"
    )
    assert write(parse(text)) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("full ; list full + recurrent as l0", "none can be recurrent"),
        ("full ; decode -> reads t1", "only advance can"),
        ("recurrent ; advance 2 malformed=two", "malformed"),
    ],
)
def test_what_is_no_trace(text: str, said: str) -> None:
    with pytest.raises(TraceError, match=said):
        parse(text)


def test_tokens_write_and_ask_slots() -> None:
    assert [written_by(t) for t in (1, 4, 5, 12)] == [1, 4, 0, 2]
    assert [asked_by(t) for t in (1, 2, 3, 5, 6)] == [2, 4, 1, 0, 2]


def test_what_a_row_of_tokens_leaves() -> None:
    assert tail_of((), 4) == (0, 0, 0)
    assert tail_of((7, 9), 4) == (0, 7, 9)
    assert tail_of((1, 2, 3, 4), 3) == (3, 4)
    assert tail_of((1, 2), 1) == ()
    assert slots_of(()) == (0, 0, 0, 0, 0)
    assert slots_of((1, 2, 6)) == (0, 6, 2, 0, 0)


def test_an_output_is_that_of_the_newest_token_that_wrote_the_slot_asked() -> None:
    assert answers_of((), (1, 2, 3)) == (0, 0, 1)  # 3 asks slot 1
    assert answers_of((1, 2, 3), (6, 8)) == (2, 6)  # 6 asks slot 2; 8 asks slot 1, which 6 has written
    assert answers_of((), (5,)) == (5,)  # it asks what it has just written
