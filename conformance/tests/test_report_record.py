"""The record of a run: lines that are written as they happen, and read with care; several records together."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from attrs import evolve

from kvlaw.conformance.event_file import EventFile, StreamError, from_json, read_events, rescue, to_json
from kvlaw.conformance.event_schema import event_schema
from kvlaw.conformance.events import (
    ClauseJudged,
    Event,
    FailureFound,
    Progressed,
    RunEnded,
    RunStarted,
    TargetEnded,
    TargetStarted,
    WitnessReplayed,
)
from kvlaw.conformance.outputs import OutputError, check_writable, write_whole
from kvlaw.conformance.recording import Recording
from kvlaw.conformance.reports.combine import CombineError, combine
from kvlaw.conformance.reports.run import RunReport, gather
from kvlaw.spec.text_form import parse

SAMPLE = Path(__file__).parent / "report_samples" / "run.ndjson"
LINES = SAMPLE.read_text().splitlines()


# Writing and reading.


def test_a_record_is_what_was_told(tmp_path: Path):
    events = read_events(SAMPLE)
    file = EventFile.open(tmp_path / "again.ndjson")
    for number, event in enumerate(events, 1):
        file.write(event)
        assert len((tmp_path / "again.ndjson").read_text().splitlines()) == number  # flushed as it happens
    file.close()
    assert read_events(tmp_path / "again.ndjson") == events
    assert [json.loads(line) for line in (tmp_path / "again.ndjson").read_text().splitlines()] == [
        json.loads(line) for line in LINES
    ]


def test_lines_keep_the_schema_and_the_schema_is_checked_in():
    schema = event_schema()
    stored = (files("kvlaw.conformance") / "schema" / "events.json").read_text(encoding="utf-8")
    assert stored == json.dumps(schema, indent=2) + "\n"
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for line in LINES:
        validator.validate(json.loads(line))


BAD: list[tuple[str, Any, str]] = [
    ("run_started", {"schema": 2}, "schema 2; this kvlaw reads schema 1"),
    ("target_started", {"kinds": "ring"}, "kinds: a list is wanted"),
    ("clause_judged", {"outcome": "passed"}, "outcome: 'passed' is not one of pass, fail"),
    ("target_ended", {"errors": {"x": "y"}}, "errors: 'x': 'y' is not an integer"),
    ("failure_found", {"trace": {"config": {"kind": "rung"}}}, "trace.config.kind: 'rung' is not one of full"),
    ("failure_found", {"steps": [{"call": "x"}]}, "law, shown is missing"),
    ("run_ended", {"exit_code": True}, "exit_code: true is not an integer"),
    ("progressed", {"speed": 1}, "unknown field speed"),
]


@pytest.mark.parametrize(("name", "change", "said"), BAD)
def test_a_line_that_is_no_event_is_refused_by_name(name: str, change: dict[str, Any], said: str):
    line = next(json.loads(line) for line in LINES if json.loads(line)["event"] == name)
    with pytest.raises(StreamError, match=said.replace("(", r"\(")):
        from_json({**line, **change})
    validator = jsonschema.Draft202012Validator(event_schema())
    assert not validator.is_valid({**line, **change})


def test_an_event_that_is_misspelt_is_told_the_right_word():
    with pytest.raises(StreamError, match="did you mean 'clause_judged'"):
        from_json({"event": "clause_juged"})
    with pytest.raises(StreamError, match="an object is wanted, not a list"):
        from_json([])


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "cut.ndjson"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


WHOLE = "\n".join(LINES) + "\n"


@pytest.mark.parametrize("keep", [1, 2, 5, len(LINES) - 1])
def test_a_record_that_was_cut_between_lines_is_refused(keep: int, tmp_path: Path):
    path = written(tmp_path, "\n".join(LINES[:keep]) + "\n")
    with pytest.raises(StreamError, match=f"no run_ended.*after {keep} whole events.*--partial"):
        read_events(path)


@pytest.mark.parametrize("cut", [2, 30, 400])
def test_a_record_whose_last_line_is_torn_is_refused(cut: int, tmp_path: Path):
    path = written(tmp_path, WHOLE[: len("\n".join(LINES[:6])) + cut])
    with pytest.raises(StreamError, match=r"torn off in its middle.*--partial"):
        read_events(path)


def test_a_record_without_its_last_newline_is_whole(tmp_path: Path):
    assert read_events(written(tmp_path, WHOLE[:-1])) == read_events(SAMPLE)


def without(number: int) -> str:
    return "\n".join(line for i, line in enumerate(LINES) if i != number) + "\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        (without(0), "line 1 is target_started, not run_started"),
        (without(7), "counts 19 events before it, and there are 18: lines were lost"),
        (without(1), "counts 19"),
        ("\n".join([*LINES[:3], LINES[2], *LINES[3:]]) + "\n", "there are 20: lines were added"),
        (WHOLE + WHOLE, "begins another run.*--combine"),
        (WHOLE + LINES[2] + "\n", "ends the run, and 1 lines stand behind it"),
        (WHOLE.replace("{", "[", 1), "line 1: no valid JSON"),
        ("\x00\x01", "no valid JSON"),
        (b"\xff\xfe\x00", "no text in UTF-8"),
        ('{"event": "run_started", "schema": 1, "versions": {}, "schema": 1}\n', "stands twice"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_whole_record_says_what_is_missing(text: str | bytes, said: str, tmp_path: Path):
    with pytest.raises(StreamError, match=said) as caught:
        read_events(written(tmp_path, text))
    assert "cut.ndjson" in str(caught.value)


def in_order(*events: Event) -> str:
    all_events = [RunStarted(1, {}), *events]
    return "\n".join(json.dumps(to_json(e)) for e in [*all_events, RunEnded(0, len(all_events))]) + "\n"


START, END = TargetStarted("t", ("full",), "core", "ci", 0), TargetEnded("t", "conformant", 0)


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ((START,), "the check of t has no target_ended"),
        ((END,), "target_ended of t, whose check is not open"),
        ((START, END, START, END), "t is checked twice"),
        ((START, evolve(START, target="u"), END), "u begins before t has ended"),
        ((START, Progressed("u"), END), "progressed of u, whose check is not open"),
    ],
)
def test_events_out_of_their_order_are_refused(events: tuple[Event, ...], said: str, tmp_path: Path):
    with pytest.raises(StreamError, match=said):
        read_events(written(tmp_path, in_order(*events)))


def test_a_folder_and_a_missing_file_are_named(tmp_path: Path):
    with pytest.raises(StreamError, match="is a folder"):
        read_events(tmp_path)
    with pytest.raises(StreamError, match=r"no\.ndjson: No such file"):
        read_events(tmp_path / "no.ndjson")


def test_what_had_been_found_can_be_rescued(tmp_path: Path):
    for cut in range(len(LINES[0]) + 2, len(WHOLE), 97):
        run = gather(rescue(written(tmp_path, WHOLE[:cut])))
        assert run.ended is not None
        assert run.ended.interrupted
        for target in run.targets:
            assert target.failures == () or target.end.verdict == "violations"
            assert {f.clause for f in target.failures} <= {c.clause for c in target.clauses if c.outcome == "fail"}
    assert gather(rescue(written(tmp_path, WHOLE))).targets == gather(read_events(SAMPLE)).targets
    with pytest.raises(StreamError, match="nothing of it can be rescued"):
        rescue(written(tmp_path, LINES[0][:20]))
    with pytest.raises(StreamError, match="line 2"):
        rescue(written(tmp_path, f"{LINES[0]}\nnonsense\n{LINES[1]}\n"))


# Recording.


def test_progress_is_recorded_once_a_second_or_when_it_is_news(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    now = 0.0
    monkeypatch.setattr("kvlaw.conformance.recording.time.monotonic", lambda: now)
    seen: list[Event] = []
    record = Recording(("kvlaw",), (), tmp_path / "r.ndjson", on_event=seen.append)
    record.tell(START)
    for n in range(100):
        now = n * 0.05
        record.tell(Progressed("t", "full", "any call" if n < 50 else "server", n))
    record.tell(END)
    record.end(0)
    told = [e.calls for e in read_events(tmp_path / "r.ndjson") if isinstance(e, Progressed)]
    assert told == [0, 20, 40, 50, 70, 90]
    assert len(seen) == 102


def test_two_stages_that_are_played_side_by_side_are_each_told_once_a_second(monkeypatch: pytest.MonkeyPatch):
    now = 0.0
    monkeypatch.setattr("kvlaw.conformance.recording.time.monotonic", lambda: now)
    record = Recording(("kvlaw",))
    record.tell(START)
    for n in range(40):
        now = n * 0.0625
        record.tell(Progressed("t", "full", ("any call", "server")[n % 2], n))
    assert [e.calls for e in record.events if isinstance(e, Progressed)] == [0, 1, 16, 17, 32, 33]


def test_of_a_failure_its_first_trace_and_its_shortest_are_recorded(tmp_path: Path):
    record = Recording(("kvlaw",))
    record.tell(START)
    found = run_of(("VIS-1", "fail", 1)).targets[0].failures[0]
    later, shortest = evolve(found, id="later"), evolve(found, id="shortest", minimal=True)
    for event in (found, later, evolve(later, clause="VIS-2"), shortest, END):
        record.tell(event)
    told = [(e.clause, e.id) for e in record.events if isinstance(e, FailureFound)]
    assert told == [("VIS-1", "VIS-1-3"), ("VIS-2", "later"), ("VIS-1", "shortest")]


def test_nothing_is_written_before_the_first_target(tmp_path: Path):
    path = tmp_path / "r.ndjson"
    path.write_text("an older record")
    Recording(("kvlaw",), (("html", tmp_path / "r.html"),), path).end(2)
    assert path.read_text() == "an older record"
    assert not (tmp_path / "r.html").exists()


def test_a_check_that_breaks_off_is_ended_and_reported(tmp_path: Path):
    record = Recording(("kvlaw",), (("json", tmp_path / "r.json"),), tmp_path / "r.ndjson")
    record.tell(START)
    record.end(3, why="no module acme")
    assert json.loads((tmp_path / "r.json").read_text())["verdict"] == "unusable"
    (target,) = gather(read_events(tmp_path / "r.ndjson")).targets
    assert (target.end.exit_code, target.end.stopped) == (3, "no module acme")


def test_a_disk_that_fills_up_is_told_once_and_loses_no_result(tmp_path: Path):
    told: list[str] = []
    record = Recording(("kvlaw",), (("json", tmp_path / "gone" / "r.json"),), Path("/dev/full"), told.append)
    for event in (START, END):
        record.tell(event)
    record.end(0)
    assert [line.split(":")[0] for line in told] == ["--events /dev/full", f"--report json={tmp_path}/gone/r.json"]
    assert record.run.targets[0].end.verdict == "conformant"


def test_passwords_in_addresses_are_not_recorded(monkeypatch: pytest.MonkeyPatch):
    record = Recording(("kvlaw", "check", "--database", "redis://me:secret@host/0"))
    record.tell(START)
    assert record.run.started.command[-1] == "redis://...@host/0"


# Files.


def test_a_report_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "report.html"
    write_whole(path, "first")
    link = tmp_path / "link.html"
    link.symlink_to(path)
    write_whole(link, "second")
    assert (path.read_text(), link.is_symlink()) == ("second", True)

    def broken(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", broken)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, "third")
    assert path.read_text() == "second"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link.html", "report.html"]


@pytest.mark.parametrize(
    ("name", "said"),
    [("", "is a folder"), ("no/such/x", "there is no folder"), ("a\0b", "null"), ("x" * 300, "too long")],
)
def test_a_file_that_cannot_be_written_is_refused(name: str, said: str, tmp_path: Path):
    with pytest.raises(OutputError, match=said):
        check_writable(tmp_path / name if name else tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_device_is_written_and_not_replaced():
    check_writable(Path("/dev/null"))
    write_whole(Path("/dev/null"), "text")
    assert Path("/dev/null").is_char_device()


# Several runs together.


def run_of(*clauses: tuple[str, Any, int], versions: str = "1", calls: int = 3, **start: Any) -> RunReport:
    """Make a run of the target t; each clause with its outcome and how often it was exercised."""
    started = evolve(START, **start)
    trace = parse("full ; decode" + " ; decode" * (calls - 1)).trace
    found = [
        FailureFound("t", clause, f"{clause}-{calls}", trace, "", "f", "a", "b", "title", "MUST")
        for clause, outcome, _ in clauses
        if outcome == "fail"
    ]
    judged = [ClauseJudged("t", clause, "title", "MUST", outcome, count) for clause, outcome, count in clauses]
    word = "violations" if found else "conformant"
    return gather((RunStarted(1, {"mlx": versions}), started, *found, *judged, TargetEnded("t", word, 0, calls, 1)))


def test_shards_of_a_target_are_one_result():
    one = run_of(("VIS-1", "pass", 3), ("TRIM-1", "not exercised", 0), ("OWN-1", "fail", 1), calls=5, shard="1/2")
    two = run_of(("VIS-1", "not exercised", 0), ("TRIM-1", "pass", 2), ("OWN-1", "fail", 4), calls=2, shard="2/2")
    (target,) = combine([("a", one), ("b", two)]).targets
    assert {c.clause: (c.outcome, c.exercised) for c in target.clauses} == {
        "VIS-1": ("pass", 3),
        "TRIM-1": ("pass", 2),
        "OWN-1": ("fail", 5),
    }
    assert [len(f.trace.calls) for f in target.failures] == [2]
    assert (target.end.verdict, target.end.exit_code, target.end.calls, target.end.traces) == ("violations", 1, 7, 2)
    assert target.notes == ("put together of 2 runs", "shards 1/2, 2/2")


def test_a_shard_that_is_missing_makes_the_result_incomplete():
    parts = [("a", run_of(("VIS-1", "pass", 3), shard="1/3")), ("b", run_of(("VIS-1", "pass", 3), shard="3/3"))]
    (target,) = combine(parts).targets
    assert (target.end.verdict, target.end.exit_code) == ("incomplete", 4)
    assert target.end.stopped == "shard 2/3 is missing"
    (lone,) = combine(parts[:1]).targets
    assert lone.end.stopped == "shard 2/3, 3/3 is missing"


def test_what_no_shard_exercised_stays_open():
    parts = [
        ("a", run_of(("VIS-1", "not exercised", 0), shard="1/2")),
        ("b", run_of(("VIS-1", "blocked", 0), shard="2/2")),
    ]
    (target,) = combine(parts).targets
    assert target.clauses[0].outcome == "blocked"
    assert target.end.verdict == "incomplete"


def test_an_expected_failure_of_several_shards_is_one_and_wrong_if_it_is_wrong_in_one():
    holds = WitnessReplayed("t", "VIS-1", "VIS-1-1", "holds", met=2)
    one, two = run_of(("VIS-1", "expected fail", 3), shard="1/2"), run_of(("VIS-1", "expected fail", 3), shard="2/2")
    runs = [
        (name, evolve(run, targets=(evolve(run.targets[0], witnesses=(witness,)),)))
        for name, run, witness in (("a", one, evolve(holds, state="stale")), ("b", two, holds))
    ]
    for parts in (runs, runs[::-1]):
        (target,) = combine(parts).targets
        assert [(w.state, w.met) for w in target.witnesses] == [("stale", 4)]
        assert target.end.verdict == "stale expectations"


def test_what_one_shard_did_not_reach_behind_a_listed_failure_is_no_gap_of_the_other():
    behind = ClauseJudged("t", "TRIM-1", "title", "MUST", "not exercised", behind=("VIS-1",), why="not reached behind")
    other = evolve(behind, behind=("OWN-1",))
    lacking = evolve(behind, behind=(), why="")
    shards = [
        (share, evolve(run, targets=(evolve(run.targets[0], clauses=(*run.targets[0].clauses, judged)),)))
        for share, judged in (("1/3", lacking), ("2/3", behind), ("3/3", other))
        for run in (run_of(("VIS-1", "pass", 3), shard=share),)
    ]
    for runs in (shards, shards[::-1]):
        (target,) = combine(runs).targets
        assert target.clauses[1].behind == ("OWN-1", "VIS-1")
        assert target.clauses[1].why == "not reached behind OWN-1, VIS-1"
        assert target.end.verdict == "conformant"


def test_seeds_are_one_result_that_says_so():
    runs = [(name, run_of(("VIS-1", "pass", 3), seed=seed)) for name, seed in (("a", 1), ("b", 5))]
    (target,) = combine(runs).targets
    assert "seeds 1, 5" in target.notes
    assert target.end.verdict == "conformant"


@pytest.mark.parametrize("change", [{"versions": "2"}, {"profile": "layout"}, {"fixed": {"window": 8}}])
def test_other_conditions_stay_apart_under_names_that_say_so(change: dict[str, Any]):
    one, other = run_of(("VIS-1", "pass", 3)), run_of(("VIS-1", "fail", 3), **change)
    targets = combine([("a", one), ("b", other)]).targets
    assert [target.end.verdict for target in targets] == ["conformant", "violations"]
    names = [target.name for target in targets]
    assert all(name.startswith("t (") for name in names)
    assert len(set(names)) == 2
    word = str(next(iter(change.values()))).strip("{}").split(":")[0].strip("'")
    assert word in names[1]


def test_several_seeds_of_one_run_are_known_as_such():
    one, other = run_of(("VIS-1", "pass", 3), seed=0, seeds=3), run_of(("VIS-1", "pass", 3), seed=3)
    (target,) = combine([("a", one), ("b", other)]).targets
    assert "seeds 0, 1, 2, 3" in target.notes
    with pytest.raises(CombineError, match="both t, seed 2"):
        combine([("a", one), ("b", run_of(("VIS-1", "pass", 3), seed=2))])


def test_the_same_part_twice_is_refused():
    run, shard = run_of(("VIS-1", "pass", 3)), run_of(("VIS-1", "pass", 3), shard="1/2")
    with pytest.raises(CombineError, match="a and b are both t, seed 0, budget ci: its counts would be taken twice"):
        combine([("a", run), ("b", run)])
    with pytest.raises(CombineError, match="both t, shard 1/2 of seed 0"):
        combine([("a", shard), ("b", shard)])
    with pytest.raises(CombineError, match="b is shard 1/2 of what a has whole"):
        combine([("a", run), ("b", shard)])
