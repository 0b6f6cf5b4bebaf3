"""A check in parts: the same in one process and in two, in one piece and in shards, with what others have found."""

import os
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis.database import InMemoryExampleDatabase

from kvlaw.conformance.adapter import AdapterSubject
from kvlaw.conformance.check import Plan, Processes, check
from kvlaw.conformance.compare import Divergence
from kvlaw.conformance.database import DatabaseError, TraceDatabase, _key, open_database
from kvlaw.conformance.expectations.entries import Expected
from kvlaw.conformance.failures import Failure
from kvlaw.conformance.opening import open_any
from kvlaw.conformance.parts import EFFORTS, Effort, Part, machines, parts
from kvlaw.conformance.processes import Pool
from kvlaw.conformance.result import CheckResult
from kvlaw.conformance.session import Session, TargetGoneError
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.spec.clauses import Profile
from kvlaw.spec.config import KINDS
from kvlaw.spec.contract import Subject
from kvlaw.spec.text_form import parse
from kvlaw.spec.trace import Trace

FAULT = "fault:reset-keeps-the-offset"
"""A fault that the stored traces find, and the machines."""


def opened(target: str) -> Subject:
    return open_any(target, {}, {}).subject


SMALL = Effort(6, 12, 5, 6, 12, 5, 5, 1)
"""Two parts of two machines, and one of a third, in a few seconds."""


def plan(target: str = FAULT, **how: Any) -> Plan:
    return evolve(Plan(target, ("full",), effort=SMALL), **how)


def same(result: CheckResult) -> dict[str, Any]:
    told = result.to_json()
    told.pop("seconds")
    return told


def test_the_parts_of_a_plan_play_what_its_budget_says():
    for budget in EFFORTS:
        for kind in KINDS:
            found = parts(Plan(FAULT, (kind,), budget=budget, seed=3))
            played = Counter[Any]()
            for part in found:
                played[part.machine] += part.examples
            assert played == Counter({None: 0}) + Counter({m: n for m, n, _ in machines(kind, EFFORTS[budget])})
            assert found[0] == Part(kind, "stored traces")


def test_seeds_that_are_neighbours_share_no_part():
    one, two = parts(plan(seed=0)), parts(plan(seed=1))
    assert not {p for p in one if p.machine} & {p for p in two if p.machine}
    both = parts(plan(seed=0, seeds=2))
    assert {p for p in both if p.machine} == {p for p in (*one, *two) if p.machine}


@pytest.mark.parametrize("of", [1, 2, 3, 7])
def test_shards_are_a_partition(of: int):
    whole = parts(plan(kinds=KINDS))
    shares = [parts(plan(kinds=KINDS, shard=(i, of))) for i in range(1, of + 1)]
    assert sorted((p for share in shares for p in share), key=whole.index) == list(whole)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_two_processes_find_what_one_finds():
    alone = check(plan(), opened(FAULT))
    with Pool(2) as pool:
        beside = check(plan(), opened(FAULT), processes=Processes(pool, partial(opened, FAULT)))
    assert alone.verdict == "violations"
    assert same(beside) == same(alone)
    assert dict(beside.rules) == dict(alone.rules)


def test_two_shards_find_what_the_whole_finds():
    whole = check(plan(), opened(FAULT))
    shares = [check(plan(shard=(i, 2)), opened(FAULT)) for i in (1, 2)]
    assert {r.clause.id for share in shares for r in share.failed} == {r.clause.id for r in whole.failed}
    exercised = Counter[str]()
    for share in shares:
        exercised.update({r.clause.id: r.exercised for r in share.clauses})
    assert +exercised == +Counter({r.clause.id: r.exercised for r in whole.clauses})
    assert sum(share.calls for share in shares) == whole.calls


def test_a_target_that_ends_its_process_before_any_call_stops_the_check():  # after one: test_crashes
    with Pool(2) as pool:
        result = check(plan("gone"), AdapterSubject(ReferenceAdapter()), processes=Processes(pool, gone_at_once))
    assert "its process ended by exit code 9" in result.stopped
    assert "cmd:kvlaw testee serve" in result.stopped
    assert result.verdict == "incomplete"


def gone_at_once() -> Subject:
    os._exit(9)


def test_an_interrupt_keeps_what_the_processes_told():
    seen: list[Failure] = []

    def interrupt(failure: Failure) -> None:
        seen.append(failure)
        raise KeyboardInterrupt

    with Pool(2) as pool:
        result = check(plan(), opened(FAULT), None, Processes(pool, partial(opened, FAULT)), interrupt)
    assert result.interrupted
    assert [r.clause.id for r in result.failed] == [seen[0].clause]


# What others have found.


def test_what_one_finds_another_plays_first(tmp_path: Path):
    url = str(tmp_path / "shared")
    none = EFFORTS["quick"]
    found = check(plan(database=url), opened(FAULT))
    failure = found.failed[0].failures[0]
    assert failure.trace in open_database(url).traces(FAULT, "full")
    shared = Part("full", "shared traces")
    assert shared in parts(plan(database=url, effort=none))
    again = check(plan(database=url, effort=none), opened(FAULT))
    assert {r.clause.id for r in again.failed} >= {r.clause.id for r in found.failed}


def test_the_shortest_trace_takes_the_place_of_the_one_that_was_found(tmp_path: Path):
    database = open_database(str(tmp_path))
    found = check(plan(), opened(FAULT)).failed[0].failures[0]
    longer = evolve(found, trace=Trace(found.trace.config, (*found.trace.calls, *found.trace.calls)))
    database.save(longer)
    assert database.traces(FAULT, "full") == (longer.trace,)
    database.replace(longer, found)
    assert database.traces(FAULT, "full") == (found.trace,)
    assert database.traces("fault:another", "full") == ()
    assert database.traces(FAULT, "ring") == ()


def test_what_is_no_trace_is_left_alone(tmp_path: Path):
    database = open_database(str(tmp_path))
    found = check(plan(effort=EFFORTS["quick"]), opened(FAULT)).failed[0].failures[0]
    database.save(found)
    (key,) = [p for p in tmp_path.iterdir() if p.is_dir() and list(p.iterdir()) and ".hypothesis" not in p.name][:1]
    for name, content in (("a", b"\xff\xfe"), ("b", b"{"), ("c", b'{"kind": "full"}'), ("d", b"")):
        (key / name).write_bytes(content)
    assert database.traces(FAULT, "full") == (found.trace,)
    assert (key / "a").exists()


def given(database: TraceDatabase, *texts: str, target: str = FAULT, profile: Profile = "core") -> tuple[Trace, ...]:
    """Put traces into a database as another machine does."""
    traces = tuple(parse(text).trace for text in texts)
    for trace in traces:
        divergence = Divergence("offset", "GROW-1", (), "1", "2")
        database.save(Failure("GROW-1", trace, divergence, target, profile))
    return traces


def test_a_whole_check_leaves_what_fails_in_its_shortest_form_alone(tmp_path: Path):
    """The first trace passes, the others are longer than need be."""
    database = open_database(str(tmp_path))
    given(database, "full ; decode", "full ; decode x7 ; reset", "full batch=2 ; window 2 ; reset ; decode")
    result = check(plan(database=str(tmp_path), effort=EFFORTS["quick"]), opened(FAULT))
    shortest = {failure.trace for clause in result.failed for failure in clause.failures}
    assert set(database.traces(FAULT, "full")) == shortest
    again = check(plan(database=str(tmp_path), effort=EFFORTS["quick"]), opened(FAULT))
    assert {r.clause.id for r in again.failed} == {r.clause.id for r in result.failed}
    assert set(database.traces(FAULT, "full")) == shortest


def test_what_a_check_has_not_played_stays(tmp_path: Path):
    """Another profile's, another kind's, another field's than the fixed one, and what cannot be asked."""
    database = open_database(str(tmp_path))
    (layout,) = given(database, "full ; decode", profile="layout")
    (other,) = given(database, "full ; decode", target="fault:another")
    (wide,) = given(database, "full batch=2 ; decode")
    (unasked,) = given(database, "full ; attend r7")
    check(evolve(plan(database=str(tmp_path), effort=EFFORTS["quick"]), fixed={"batch": 1}), opened(FAULT))
    assert layout in database.traces(FAULT, "full", "layout")
    assert other in database.traces("fault:another", "full")
    assert {wide, unasked} <= set(database.traces(FAULT, "full"))


def test_a_pinned_check_does_not_say_of_later_clauses_that_they_are_kept(tmp_path: Path):
    database = open_database(str(tmp_path))
    (passing,) = given(database, "full ; decode")
    check(evolve(plan(database=str(tmp_path), effort=EFFORTS["quick"]), spec="1.0"), opened(FAULT))
    assert passing in database.traces(FAULT, "full")
    check(plan(database=str(tmp_path), effort=EFFORTS["quick"]), opened(FAULT))
    assert passing not in database.traces(FAULT, "full")


def test_a_trace_of_a_listed_failure_stays(tmp_path: Path):
    found = check(plan(effort=EFFORTS["quick"]), opened(FAULT))
    expected = tuple(
        Expected(FAULT, failure.clause, failure.trace, "", "known") for r in found.failed for failure in r.failures
    )
    database = open_database(str(tmp_path))
    traces = given(database, *(entry.text for entry in expected), "full ; decode")
    asked = evolve(plan(database=str(tmp_path), effort=EFFORTS["quick"]), expected=expected)
    assert not check(asked, opened(FAULT)).failed
    assert set(database.traces(FAULT, "full")) == set(traces[:-1])


def test_a_check_that_is_interrupted_drops_nothing(tmp_path: Path):
    database = open_database(str(tmp_path))
    (passing,) = given(database, "full ; decode")

    def interrupt(_failure: Failure) -> None:
        raise KeyboardInterrupt

    result = check(plan(database=str(tmp_path), effort=EFFORTS["quick"]), opened(FAULT), on_failure=interrupt)
    assert result.interrupted
    assert passing in database.traces(FAULT, "full")


def test_two_processes_leave_the_same(tmp_path: Path):
    database = open_database(str(tmp_path))
    given(database, "full ; decode", "full ; decode x7 ; reset")
    with Pool(2) as pool:
        asked = plan(database=str(tmp_path))
        result = check(asked, opened(FAULT), processes=Processes(pool, partial(opened, FAULT)))
    shortest = {failure.trace for clause in result.failed for failure in clause.failures}
    assert set(database.traces(FAULT, "full")) == shortest


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://localhost", "mysql://localhost: a database is the path of a folder, or redis://"),
        ("redis://127.0.0.1:1/0", "cannot be reached"),
        ("file:///proc/nothing/here", "a folder is wanted that can be written to"),
    ],
)
def test_a_database_that_cannot_be_used_is_told(url: str, said: str):
    with pytest.raises(DatabaseError, match=said):
        open_database(url)


class TakesNothing(ReferenceAdapter):
    """A cache that refuses every append."""

    def append(self, *_args: Any, **_how: Any) -> Any:
        raise RuntimeError("out of order")


def test_a_clause_that_a_failure_keeps_from_arising_is_blocked_by_it():
    plan = Plan("takes nothing", ("ring",), effort=EFFORTS["quick"])
    result = check(plan, AdapterSubject(TakesNothing(), name="takes nothing"))
    (failing,) = {r.clause.id for r in result.failed}
    found = {r.clause.id: r for r in result.clauses}
    for clause in ("VIS-1", "TRIM-4", "OWN-3"):  # whose situations begin with an append
        assert (found[clause].outcome, found[clause].why) == ("blocked", f"blocked by {failing}")
    assert found["POS-1"].outcome == "pass"
    assert found["ROWS-1"].outcome == "not applicable"
    assert result.verdict == "violations"


def test_what_a_check_finds_itself_is_not_played_again_as_shared(tmp_path: Path):
    alone = check(plan(effort=EFFORTS["quick"]), opened(FAULT))
    shared = check(plan(effort=EFFORTS["quick"], database=str(tmp_path)), opened(FAULT))
    assert (shared.traces, shared.calls) == (alone.traces, alone.calls)


@pytest.mark.parametrize("text", ["full ; attend r7", "full ; window 2 on c9", "ring window=4 ; window 6"])
def test_a_shared_trace_that_nobody_can_be_asked_is_left_alone(tmp_path: Path, text: str):
    trace = parse(text).trace
    database = open_database(str(tmp_path))
    database.examples.save(_key("builtin:oracle", "full"), trace.dumps().encode())
    asked = plan("builtin:oracle", database=str(tmp_path), effort=EFFORTS["quick"])
    result = check(asked, AdapterSubject(ReferenceAdapter()))
    assert not result.failed
    assert result.whole


def test_a_database_that_is_gone_does_not_end_the_check(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    url = tmp_path / "shared"
    open_database(str(url))
    url.rmdir()
    url.write_text("now a file")
    asked = plan(effort=EFFORTS["quick"], database=str(url))
    with Pool(2) as pool:
        result = check(asked, opened(FAULT), processes=Processes(pool, partial(opened, FAULT)))
    assert result.verdict == "violations"
    assert result.whole
    assert "a folder is wanted that can be written to; the check goes on" in capfd.readouterr().err


class Unreachable(InMemoryExampleDatabase):
    def save(self, key: bytes, value: bytes) -> None:
        raise ConnectionError("redis://me:secret@host/0 does not answer")

    fetch = delete = save  # type: ignore[reportAssignmentType]


def test_a_database_that_does_not_answer_any_more_is_told_once(capsys: pytest.CaptureFixture[str]):
    found = check(plan(effort=EFFORTS["quick"]), opened(FAULT)).failed[0].failures[0]
    database = TraceDatabase(Unreachable(), "redis://me:secret@host/0")
    database.save(found)
    database.replace(found, evolve(found, trace=Trace(found.trace.config, ())))
    assert database.traces(FAULT, "full") == ()
    (said,) = capsys.readouterr().err.splitlines()
    assert "does not answer; the check goes on" in said
    assert "secret" not in said


def cannot_be_opened() -> Subject:
    raise TargetGoneError("no room for two")


def test_a_target_that_cannot_be_opened_in_another_process_is_told(capfd: pytest.CaptureFixture[str]):
    with Pool(2) as pool:
        result = check(plan(), AdapterSubject(ReferenceAdapter()), processes=Processes(pool, cannot_be_opened))
    assert result.stopped == "no room for two"
    assert result.verdict == "incomplete"
    assert capfd.readouterr().err == ""


def test_a_target_that_is_gone_before_its_failures_are_shortened_keeps_them(monkeypatch: pytest.MonkeyPatch):
    def gone(*_: Any) -> None:
        raise TargetGoneError("the target is gone")

    monkeypatch.setattr(Session, "shortest", gone)
    result = check(plan(effort=EFFORTS["quick"]), opened(FAULT))
    assert result.verdict == "violations"
    assert not result.failed[0].failures[0].minimal


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_is_being_shortened_is_told(jobs: int):
    told: list[str] = []
    with Pool(jobs) as pool:
        beside = Processes(pool, partial(opened, FAULT)) if jobs > 1 else None
        result = check(
            plan(effort=EFFORTS["quick"]), opened(FAULT), lambda p: told.append(f"{p.stage} of {p.kind}"), beside
        )
    assert {f"shortening {r.clause.id} of full" for r in result.failed} <= set(told)
