"""What a failure looks like: two of one fault look alike in any trace, two of different faults do not."""

from typing import Any

import pytest
from attrs import evolve
from hypothesis.errors import FlakyStrategyDefinition

from kvlaw.conformance.adapter import AdapterSubject
from kvlaw.conformance.check import Plan
from kvlaw.conformance.compare import Divergence
from kvlaw.conformance.expectations.entries import Expected
from kvlaw.conformance.expectations.learn import Listener, learn, without_explained
from kvlaw.conformance.expectations.symptoms import Symptom
from kvlaw.conformance.parts import Player, parts
from kvlaw.conformance.session import OutOfTimeError
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.reference.layout import Cache
from kvlaw.spec.text_form import parse


def looks(expected: str, observed: str, field: str = "sights", live: tuple[int, ...] = (), **of: int) -> Symptom:
    return Symptom.of(Divergence(field, "VIS-2", (), expected, observed), live, **of)


ONE_OLDER = looks("sees t2..t3", "sees t1..t3")


@pytest.mark.parametrize(
    ("other", "alike"),
    [
        (looks("sees t7..t9", "sees t6..t9"), True),  # one before the oldest, in a larger ring
        (looks("sees t5,t9", "sees t3,t5,t9", live=(1, 3, 5, 9)), True),  # in positions, whatever ids there are between
        (looks("sees t5,t9", "sees t3,t5,t9"), False),  # two before the oldest, as far as ids tell
        (looks("sees t7..t9", "sees t5..t9"), False),  # one and two before it
        (looks("sees t1,t5..t6", "sees t1,t4..t6"), True),  # where sinks stand before it
        (looks("sees t2..t3", "sees t2..t4"), False),  # one behind the newest
        (looks("sees t2..t3", "sees t3"), False),
        (looks("sees t2..t3", "sees t1,t3"), False),  # and the oldest is missing
        (looks("sees t2..t3", "sees _"), False),
        (looks("1", "2", "offset"), False),
    ],
)
def test_tokens_that_come_in_are_told_by_their_place(other: Symptom, alike: bool):
    assert ONE_OLDER.alike(other) is alike
    assert other.alike(ONE_OLDER) is alike


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (looks("sees t1", "sees nothing"), looks("sees t4..t6", "sees t4..t5"), True),  # the newest is missing
        (looks("sees t1", "sees nothing"), looks("sees t4..t6", "sees t5..t6"), True),  # or the oldest: nobody knows
        (looks("sees t4..t6", "sees t4..t5"), looks("sees t4..t6", "sees t5..t6"), False),
        (looks("sees t4..t6", "sees t4,t4..t6"), looks("sees t4..t6", "sees t4..t6"), False),
        (looks("sees t1..t2", "sees _"), looks("sees t4..t9", "sees t4..t5,_"), True),  # nobody's bytes
        (looks("0", "-1", "answer"), looks("0", "-9", "answer"), True),
        (looks("0", "-1", "answer"), looks("0", "1", "answer"), False),
        (looks("2", "1", "offset"), looks("9", "3", "offset"), True),
        (looks("refused", "ok", "outcome"), looks("refused", "error it broke", "outcome"), False),
        (looks("ok", "error a", "outcome"), looks("ok", "error b", "outcome"), True),
        (looks("causal", "none", "mask"), looks("causal", "array", "mask"), False),
    ],
)
def test_what_else_is_wrong_is_told_by_its_sort(one: Symptom, other: Symptom, alike: bool):
    assert one.alike(other) is alike


ALL = looks("sees t3", "sees t2..t3", live=(1, 2, 3), window=2)


@pytest.mark.parametrize(
    ("other", "alike"),
    [
        (
            looks("sees t3", "sees t1..t3", live=(1, 2, 3), window=3),
            True,
        ),  # its argument is ignored
        (looks("sees t5", "sees t2,t3,t5", live=(1, 2, 3, 5), window=3), True),  # in positions
        (looks("sees t3", "sees t1..t3", live=(1, 2, 3)), True),  # of a growing cache all there is
        (looks("sees t4", "sees t3..t4", live=(1, 2, 3, 4), window=3), True),  # as many as there: one
        (looks("sees t4", "sees t2,t4", live=(1, 2, 3, 4), window=3), False),  # some
        (looks("sees t3", "sees t1..t3", live=(1, 2, 3), window=2), False),  # more than it holds
        (looks("sees t2", "sees t1..t3", live=(1, 2, 3), window=3), False),  # one behind it, too
        (looks("sees t3", "sees t1..t3"), False),  # nobody knows what it holds
    ],
)
def test_all_that_a_cache_holds_is_told_as_such(other: Symptom, alike: bool):
    assert ALL.alike(other) is alike
    assert other.alike(ALL) is alike


GONE = looks("sees t1..t3", "sees t3", live=(1, 2, 3), appended=1)


@pytest.mark.parametrize(
    ("other", "alike"),
    [
        (looks("sees t1..t2", "sees t2", live=(1, 2), appended=1), True),  # however much there was
        (looks("sees t3..t5", "sees t5", live=(1, 2, 3, 4, 5), appended=1, window=3), True),
        (looks("sees t1..t4", "sees t3..t4", live=(1, 2, 3, 4), appended=2), True),
        (looks("sees t1..t3", "sees nothing", live=(1, 2, 3), appended=1), False),  # and the new one, too
        (looks("sees t1..t4", "sees t2,t4", live=(1, 2, 3, 4), appended=1), False),  # one of them is there
        (looks("sees t1..t4", "sees t4", live=(1, 2, 3, 4), appended=2), False),  # and one that is new
        (looks("sees t1..t4", "sees t4", live=(1, 2, 3, 4), appended=4), False),  # there was nothing before
        (looks("sees t1..t5", "sees t5"), False),  # nobody knows what was there before
    ],
)
def test_a_history_that_is_gone_is_told_as_such(other: Symptom, alike: bool):
    assert GONE.alike(other) is alike
    assert other.alike(GONE) is alike


# What is listed of several that are one another's.


class OneTooWide(Cache):
    """Windows let one position too many in."""

    def sees(self, length: int, phase: Any, query: int, column: int, window: int | None) -> bool:
        own = super().sees(length, phase, query, column, window)
        return own or (phase == "window" and super().sees(length, phase, query, column + 1, window))


WIDE = AdapterSubject(type("Wide", (ReferenceAdapter,), {"cache_type": OneTooWide})())
SEARCHED = Plan("it", ("ring",), budget="ci", modelled=True, called="ring")
PLAN = Plan("it", ("ring",), budget="quick", modelled=True, called="ring")


def entry(clause: str, text: str) -> Expected:
    return Expected("ring", clause, parse(text).trace, "", "known")


NARROW = entry("MASK-8", "ring window=3 ; window 3 w=1")
PLAIN = entry("RING-11", "ring window=2 ; window 3")
LATER = entry("VIS-2", "ring window=2 ; decode x3 ; window 2")


def test_a_failure_that_the_plainest_one_explains_is_not_listed_whenever_it_was_found():
    """A narrowed window fails by the same fault; by itself it does not explain one that is not narrowed."""
    assert without_explained(PLAN, WIDE, [], [NARROW, PLAIN, LATER]) == [PLAIN]
    assert without_explained(PLAN, WIDE, [], [NARROW]) == [NARROW]


def test_of_two_that_explain_each_other_the_shorter_one_stays():
    assert without_explained(PLAN, WIDE, [], [LATER, PLAIN]) == [PLAIN]


def test_what_people_have_listed_stays_and_explains_what_is_new():
    assert without_explained(PLAN, WIDE, [LATER], [PLAIN]) == []


def test_one_fault_gives_few_entries_in_a_whole_check():
    """Each clause and each place had an entry of its own, and so had sinks, copies, codes and lists."""
    found = learn(evolve(PLAN, budget="quick"), WIDE, "ring", seconds=3600)
    assert found.settled
    assert not found.late
    assert [e.text for e in found.added] == ["ring window=2 ; window 3"]


# The time that it may take.


def test_when_its_time_is_over_what_was_found_is_listed_and_what_is_left_is_said():
    seen: list[str] = []
    late = learn(PLAN, WIDE, "ring", Listener(on_failure=lambda f: seen.append(f.clause)), seconds=0.0)
    assert late.late
    assert not late.settled
    assert (late.added, seen) == ((), [])
    assert late.result.left == ("ring: stored traces",)


def unheard(_told: object) -> None:
    """Hear what a part tells."""


@pytest.mark.parametrize("end", [OutOfTimeError("its time is over"), KeyboardInterrupt()])
def test_a_trace_that_is_broken_off_is_no_flaky_one(end: BaseException, monkeypatch: pytest.MonkeyPatch):
    """Hypothesis finds that a run which it has seen before drew less, and raises that instead."""

    def broken_off(*_: object, **_how: object) -> None:
        raise FlakyStrategyDefinition("inconsistent data generation") from end

    monkeypatch.setattr("kvlaw.conformance.machines.base.run_state_machine_as_test", broken_off)
    player = Player(evolve(SEARCHED, learn=True), WIDE)
    part = next(part for part in parts(SEARCHED) if part.machine is not None)
    ended = player.play(part, unheard)
    assert (ended.interrupted, ended.stopped) == (
        (True, "") if isinstance(end, KeyboardInterrupt) else (False, "its time is over")
    )


def test_other_errors_of_hypothesis_are_told(monkeypatch: pytest.MonkeyPatch):
    def flaky(*_: object, **_how: object) -> None:
        raise FlakyStrategyDefinition("inconsistent data generation")

    monkeypatch.setattr("kvlaw.conformance.machines.base.run_state_machine_as_test", flaky)
    part = next(part for part in parts(SEARCHED) if part.machine is not None)
    with pytest.raises(FlakyStrategyDefinition):
        Player(PLAN, WIDE).play(part, unheard)
