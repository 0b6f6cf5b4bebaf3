"""The exhaustive search of groups: it ends, what it covers, how it is told, and searches side by side."""

# A rule that is replaced may be any function, so lambdas have no types.
# pyright: reportUnknownLambdaType=false

import io
import multiprocessing
import re
from typing import Any

import pytest
from attrs import evolve
from click.testing import CliRunner
from rich.console import Console

from kvlaw.conformance.cli import cli
from kvlaw.conformance.proofs.exhaustive import report as reports
from kvlaw.conformance.proofs.exhaustive import search as searches
from kvlaw.conformance.proofs.exhaustive.invariants import check_state
from kvlaw.conformance.proofs.exhaustive.parallel import search_all
from kvlaw.conformance.proofs.exhaustive.product import Line, Product, empty, normal_form, serial
from kvlaw.conformance.proofs.exhaustive.readings import law
from kvlaw.conformance.proofs.exhaustive.search import SPACES, Space, search
from kvlaw.reference import index_group_plans
from kvlaw.reference.history import Padding, Row
from kvlaw.reference.index_group import Group

SMALL = (Space(1, 1), Space(2, 1), Space(None, 2, positions=2), Space(1, 2), Space(None, 2, positions=3))

# What a search covers, and how it ends.


@pytest.fixture
def visited(monkeypatch: pytest.MonkeyPatch) -> list[Product]:
    """Collect the states that a search checks."""
    states: list[Product] = []

    def check(state: Product) -> None:
        states.append(state)
        check_state(state)

    monkeypatch.setattr(searches, "check_state", check)
    return states


@pytest.mark.parametrize("space", SMALL, ids=lambda space: space.name)
def test_no_history_is_wrong(space: Space, visited: list[Product]):
    found = search(space)
    assert found.violation is None
    assert found.closed
    assert found.states == len(visited) == len(set(visited))
    assert found.transitions > found.states


def test_every_situation_of_a_ring_is_visited(visited: list[Product]):
    assert search(Space(2, 1)).closed
    for holds in (
        lambda g: g.rotated and g.write_index == 1,
        lambda g: g.columns > 2 and not g.rotated,
        lambda g: g.columns == 2 > g.write_index > 0 and not g.rotated,
        lambda g: g.offsets and g.offsets[0] < 0,
        lambda g: g.ends and g.offsets[0] > g.ends[0] > 2,
        lambda g: g.ends and g.offsets[0] < 0 < g.ends[0],
        lambda g: g.write_index > g.offsets[0] >= 0 if g.offsets else False,
        lambda g: g.write_index == 2 + 2 + 2,
        lambda g: not g.offsets,
    ):
        assert any(holds(state.group) for state in visited)


def test_two_rows_meet_in_every_way(visited: list[Product]):
    assert search(Space(1, 2)).closed
    two = [state for state in visited if len(state.lines) == 2]
    pairs = {tuple(line.row.offset for line in state.lines) for state in two}
    assert pairs >= {(a, b) for a in range(5) for b in range(5)}  # shifted from 2W + 2 = 4 on
    assert any({line.over for line in state.lines} == {0, 3} for state in two)
    assert {tuple(line.padding.before for line in state.lines) for state in two} >= {(0, 0), (0, 2), (2, 0), (1, 2)}


def test_states_are_told_apart_up_to_a_shift_of_positions():
    far = Product(Group(1, 1, 1, offsets=(9,), ends=(11,)), [Line(Row(range(1, 10)), Padding(0, 2), cells=(9,))], 1)
    near = Product(Group(1, 1, 1, offsets=(4,), ends=(6,)), [Line(Row(range(1, 5)), Padding(0, 2), cells=(4,))], 1)
    assert normal_form(far) == near == normal_form(near)


def test_what_no_query_may_see_is_forgotten():
    group = Group(2, 4, 4, offsets=(3,))
    kept = normal_form(Product(group, [Line(Row((1, 2, 3)), cells=(4, 1, 2, 3))], 9))
    assert kept == Product(group, [Line(Row((1, 2, 3)), cells=(0, 0, 2, 3))], 2)
    grown = Product(Group(None, 256, 1, offsets=(1,)), [Line(Row((1,)), cells=(1,) + (7,) * 255)], 1)
    assert normal_form(grown) == Product(Group(None, 9, 1, offsets=(1,)), [Line(Row((1,)), cells=(1,) + (0,) * 8)], 1)


def test_a_serial_cache_holds_its_newest_positions():
    assert serial(2, 3) == Product(Group(2, 2, 2, offsets=(3,)), [Line(Row((1, 2, 3)), cells=(2, 3))], 2)
    assert serial(None, 2) == Product(Group(None, 2, 2, offsets=(2,)), [Line(Row((1, 2)), cells=(1, 2))], 2)
    assert serial(2, 0) == empty(2, 1)


def test_history_appends_between_the_padding():
    line = Line(Row((1,)), Padding(1, 3))
    after, ids, real = line.appended(5)
    assert (ids, real) == ((0, 2, 3, 0, 0), (1, 2))
    assert after == Line(Row((1, 2, 3)), Padding(0, 0), over=2)
    assert (line.raw_offset, after.raw_offset) == (0, 5)


def test_the_law_is_that_of_history():
    assert law(4, 2) == (4, 5)
    assert law(1, 4) == law(1, None) == (1, 2)


def test_a_violation_is_told_with_a_shortest_history(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(index_group_plans, "overshoot", lambda window, columns: 0)
    found = search(Space(2, 1))
    assert found.violation is not None
    # A block of 3 leaves 3 columns of W = 2, and the decode behind it keeps the oldest of them.
    assert found.violation.calls == ("group of 1 empty rows", "window 3", "decode")
    assert found.violation.message == "row 0 sees (2, 4) at position 3, not (3, 4)"


# The report.


def shown(budget: Any = "ci") -> tuple[int, str]:
    console = Console(record=True, width=120, file=io.StringIO())
    code = reports.print_exhaustive(console, reports.explore(budget, Console(file=io.StringIO())))
    return code, console.export_text()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SPACES, "ci", SMALL[:2])


@pytest.mark.usefixtures("few")
def test_the_report_sums_up():
    code, text = shown()
    assert code == 0
    rows = re.findall(r"^rings, window (\d), one row +([\d,]+) +([\d,]+) +[\d.]+ +fixpoint", text, re.MULTILINE)
    assert [row[0] for row in rows] == ["1", "2"]
    states, transitions = (sum(int(row[at].replace(",", "")) for row in rows) for at in (1, 2))
    assert f"every history keeps the law: {states:,} states, {transitions:,} transitions" in text
    assert reports.COVERED in " ".join(text.split())


@pytest.mark.usefixtures("few")
def test_the_report_shows_what_is_wrong(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(index_group_plans, "overshoot", lambda window, columns: 0)
    code, text = shown()
    assert code == 1
    assert "group of 1 empty rows ; window 3 ; decode: row 0 sees (2, 4) at position 3, not (3, 4)" in " ".join(
        text.split()
    )
    assert "not every history keeps the law" in text
    assert "Every call from every state" not in text


@pytest.mark.usefixtures("few")
def test_a_rule_that_cannot_be_carried_out_is_wrong(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(index_group_plans, "history", lambda window, counting: None)
    code, text = shown()
    assert code == 1
    assert "TypeError" in text


@pytest.mark.usefixtures("few")
def test_an_interrupt_keeps_what_was_seen(monkeypatch: pytest.MonkeyPatch):
    calls = 0

    def interrupted(state: Product) -> None:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(searches, "check_state", interrupted)
    code, text = shown()
    assert code == 130
    assert re.search(r"one row +4 .* interrupted", text)
    assert "interrupted before the end: 4 states" in text
    assert "window 2" not in text


def test_searches_side_by_side_see_the_same(monkeypatch: pytest.MonkeyPatch):
    told: list[Space] = []
    monkeypatch.setattr(searches, "_EVERY", 500)
    both = search_all(SMALL[:2], lambda space, *_: told.append(space), jobs=2)
    alone = search_all(SMALL[:2], lambda *_: None, jobs=1)
    assert [evolve(one, seconds=0.0) for one in both] == [evolve(one, seconds=0.0) for one in alone]
    assert all(one.closed for one in both)


def test_an_interrupt_ends_searches_side_by_side():
    def interrupt(space: Space, *_: Any) -> None:
        if space == Space(3, 2):
            raise KeyboardInterrupt

    (found,) = search_all((Space(1, 1), Space(3, 2)), interrupt, jobs=2)[-1:]
    assert found.space == Space(3, 2)
    assert found.interrupted
    assert not found.closed
    assert found.transitions >= 1000
    assert multiprocessing.active_children() == []


def test_deep_covers_windows_to_four_with_two_rows():
    groups = {(space.window, space.rows) for space in SPACES["deep"] if not space.serial}
    assert groups == {*((w, 2) for w in range(1, 5)), (None, 2)}
    assert {s for s in SPACES["deep"] if s.serial} == {s for s in SPACES["ci"] if s.serial}
    groups = {(space.window, space.rows) for space in SPACES["ci"] if not space.serial}
    assert groups == {*((w, 1) for w in range(1, 5)), *((w, 2) for w in range(1, 4)), (None, 2)}
    assert {space.window for space in SPACES["ci"] if space.serial} == {None, 1, 2, 3, 4, 5}


# The command line.


@pytest.mark.usefixtures("few")
def test_the_command_searches():
    found = CliRunner().invoke(cli, ["prove", "--exhaustive", "--jobs", "1"])
    assert found.exit_code == 0, found.output
    assert "every history keeps the law" in found.output
    assert "confirmed over all paths" not in found.output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(("--budget", "deep"), "--budget is for --exhaustive"), (("--exhaustive", "--budget", "all"), "'ci', 'deep'")],
)
def test_options_that_do_not_fit_are_refused(arguments: tuple[str, ...], told: str):
    found = CliRunner().invoke(cli, ["prove", *arguments])
    assert found.exit_code == 2
    assert told in found.output
