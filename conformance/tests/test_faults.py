"""Every planted fault is caught by the clause that it breaks, every clause has one, mutators keep their word."""

import ast
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from rich.console import Console

from kvlaw.conformance.adapter import AdapterSubject
from kvlaw.conformance.corpus import Entry, load_corpus, needed, save
from kvlaw.conformance.faults.hunt import Catch, catch, reference_fails
from kvlaw.conformance.faults.mutator import mutations
from kvlaw.conformance.faults.registry import fault, load_faults, subject
from kvlaw.conformance.faults.report import FaultReport, Row, print_report, run_faults
from kvlaw.conformance.faults.search import draw_many, shortest
from kvlaw.conformance.minimise import is_sound
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.reference.layout import Cache
from kvlaw.spec.calls import CALLS
from kvlaw.spec.clauses import load_clauses
from kvlaw.spec.text_form import parse
from kvlaw.spec.trace import Trace, TraceError

FAULTS = load_faults()
CLAUSES = load_clauses()


@cache
def caught(name: str) -> Catch:
    return catch(FAULTS[name], CLAUSES)


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_every_planted_fault_is_caught_and_the_reference_passes_its_trace(name: str) -> None:
    planted = FAULTS[name]
    found = caught(name)
    assert found.caught, found
    assert reference_fails(planted.trace, CLAUSES) == ""


def test_most_faults_are_charged_to_the_very_clause_that_they_break() -> None:
    beside = [name for name in FAULTS if caught(name).word != "caught"]
    assert len(beside) <= len(FAULTS) // 10, beside


def test_every_clause_has_a_fault_and_every_must_one_that_core_catches() -> None:
    assert set(CLAUSES) == {planted.breaks for planted in FAULTS.values()}
    must = {clause.id for clause in CLAUSES.values() if clause.level == "MUST"}
    assert must == {p.breaks for p in FAULTS.values() if p.profile == "core" and CLAUSES[p.breaks].level == "MUST"}


def test_a_fault_is_one_sentence_and_a_short_trace() -> None:
    for name, planted in FAULTS.items():
        assert planted.sentence, name
        assert planted.sentence[0].isupper(), name
        assert len(planted.trace.calls) <= 5, name


def test_the_corpus_holds_the_trace_of_every_fault_and_nothing_else() -> None:
    stored = {e.id: e for e in load_corpus() if e.target.startswith("fault:")}
    assert stored == {name: planted.entry for name, planted in FAULTS.items()}


def right_subject(_name: str) -> AdapterSubject:
    return AdapterSubject(ReferenceAdapter())


def test_a_right_cache_planted_as_a_fault_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = FAULTS["trims-a-wrapped-ring"]
    monkeypatch.setattr("kvlaw.conformance.faults.hunt.subject", right_subject)
    found = catch(planted, CLAUSES)
    assert (found.word, found.by, found.calls, found.caught) == ("missed", "", 2, False)


def test_a_trace_that_the_reference_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = FAULTS["trims-a-wrapped-ring"]
    monkeypatch.setattr("kvlaw.conformance.faults.hunt.ReferenceAdapter", planted.adapter)
    assert reference_fails(planted.trace, CLAUSES).startswith("the reference breaks TRIM-4 in core: expected refused")


def test_a_fault_that_is_charged_elsewhere_does_not_count_as_caught() -> None:
    wrong = evolve(FAULTS["trims-a-wrapped-ring"], breaks="GROW-3")
    found = catch(wrong, CLAUSES)
    assert (found.by, found.word, found.caught) == ("TRIM-4", "charged elsewhere", False)
    assert FaultReport([Row(wrong, found, "charged elsewhere")]).exit_code == 1


def test_two_faults_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two planted faults"):
        fault("trims-a-wrapped-ring", breaks="TRIM-4", trace="full")(Cache)


def test_an_unknown_fault_is_refused_by_name() -> None:
    with pytest.raises(KeyError, match="no planted fault is called 'nonsense'"):
        subject("nonsense")


def test_the_report_counts_catches_and_fails_on_a_miss(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[object] = []
    report = run_faults(on_event=told.append)
    assert (report.exit_code, len(told), report.problems) == (0, len(FAULTS), ())
    missed = Row(report.rows[0].fault, Catch("POS-1", calls=3), "missed: POS-1 was not found broken in 3 calls")
    broken = evolve(report, rows=(missed, *report.rows[1:]))
    assert broken.exit_code == 1
    print_report(Console(width=120, force_terminal=False), broken)
    shown = capsys.readouterr().out
    assert "nobody" in shown
    assert "missed: POS-1" in shown
    assert f"{len(FAULTS) - 1} of {len(FAULTS)} planted faults caught" in shown


# The corpus.


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("full ; decode", set()),
        ("ring window=4 sinks=1 ; decode", {"sinks"}),
        ("full ; decode w=2 array", {"window_argument", "as_array"}),
        ("ring window=2 ; window 2 ; trim 1 bypass", {"trim", "bypass"}),
        ("full ; mask 1 decode", {"mask"}),
        ("full ; dense 2 as d ; look d", {"dense"}),
        ("full ; state as s ; clone as c1 ; reset", {"state", "clone", "reset"}),
        ("full ; list full + ring window=4 sinks=1 as l0 ; decode on l0", {"lists", "sinks"}),
    ],
)
def test_what_a_trace_needs_follows_from_its_calls(text: str, needs: set[str]) -> None:
    assert needed(parse(text).trace) == needs


def test_a_saved_corpus_reads_back_as_it_was(tmp_path: Path) -> None:
    entries = (
        Entry("b", "two", "fault:b", "VIS-1", parse("ring window=2 ; window 3").trace),
        Entry("a", "one", "fault:a", "POS-1", parse("full").trace),
    )
    save(entries, "faults.jsonl", tmp_path)
    assert load_corpus(tmp_path) == (entries[1], entries[0])


def test_a_corpus_line_that_cannot_be_read_is_refused_with_its_place(tmp_path: Path) -> None:
    good = json.dumps(Entry("a", "one", "fault:a", "POS-1", parse("full").trace).to_json())
    (tmp_path / "faults.jsonl").write_text(f"{good}\n{good}\n")
    with pytest.raises(TraceError, match=r"faults.jsonl:2: the id 'a' stands twice"):
        load_corpus(tmp_path)
    (tmp_path / "faults.jsonl").write_text('{"config": {"kind": "full"}, "calls": []}\n')
    with pytest.raises(TraceError, match=r"faults.jsonl:1: id is missing"):
        load_corpus(tmp_path)
    (tmp_path / "faults.jsonl").write_text("{\n")
    with pytest.raises(TraceError, match=r"faults.jsonl:1: "):
        load_corpus(tmp_path)


def test_no_other_file_is_a_file_of_the_corpus(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no file of the corpus"):
        save((), "other.jsonl", tmp_path)


# Drawn traces.


def test_drawn_traces_are_sound_and_hold_on_the_reference() -> None:
    verbs: set[str] = set()
    for name, trace in (*draw_many(3, 60), *draw_many(3, 60, "rows"), *draw_many(3, 60, "recurrent")):
        assert is_sound(trace), name
        assert reference_fails(trace, CLAUSES) == "", name
        verbs |= {call.verb for call in trace.calls}
    others = {"save", "load", "damage", "publish", "reuse", "advance"}  # no mutated module has to do with them
    assert verbs >= set(CALLS) - {"attend", "drop"} - others


def test_the_same_seed_draws_the_same_traces() -> None:
    assert list(draw_many(5, 20)) == list(draw_many(5, 20))
    assert list(draw_many(5, 20)) != list(draw_many(6, 20))


def test_a_list_becomes_the_layer_that_fails_alone() -> None:
    trace = parse("full ; list full + ring window=4 as l0 ; window 3 on l0 ; window 2 on l0").trace

    def fails(candidate: Trace) -> bool:
        return candidate.config.kind == "ring" and sum(call.appends for call in candidate.calls) > 2

    found = shortest(trace, fails)
    assert (found.config.kind, [call.verb for call in found.calls]) == ("ring", ["window"])


# The mutator.

TOY = '''
"""A text: 1 < 2."""

STEP = 4


def grow(a: int | None, b: int = 0) -> int:
    """Text: 1 + 1."""
    total = a + b
    if total <= STEP and not b:
        raise ValueError(f"{total} < 1", 7)
    kept(a, b)
    assert total > 1
    return min(total, 9)


def pairs(a: int) -> list[int]:
    return [one for one, _ in zip(range(a), range(a), strict=True)]


def words(a: int) -> str:
    return "few" if a < 3 else "many"
'''


def changed(what: str) -> dict[str, Any]:
    """Run the toy module with one named change."""
    (found,) = [m for m in mutations(TOY) if m.id == what]
    names: dict[str, Any] = {"kept": print}
    exec(found.code(), names)
    return names


def test_the_mutator_lists_each_kind_of_change_once() -> None:
    assert {m.id for m in mutations(TOY)} == {
        "module: STEP = 4 -> dropped",
        "module: 4 -> 5 in STEP = 4",
        "module: 4 -> 3 in STEP = 4",
        "grow: 0 -> 1 in 0",
        "grow: 0 -> -1 in 0",
        "grow: total = a + b -> dropped",
        "grow: a + b -> a - b",
        "grow: a + b -> a + b + 1",
        "grow: a + b -> a + b - 1",
        "grow: total <= STEP and (not b) -> not (total <= STEP and (not b))",
        "grow: if total <= STEP and (not b): raise ValueError(f'{total} < 1', 7) -> dropped",
        "grow: total <= STEP and (not b) -> total <= STEP or not b",
        "grow: total <= STEP and (not b) -> not b",
        "grow: total <= STEP and (not b) -> total <= STEP",
        "grow: total <= STEP -> total < STEP",
        "grow: total <= STEP -> total == STEP",
        "grow: not b -> b",
        "grow: kept(a, b) -> dropped",
        "grow: kept(a, b) -> kept(b, a)",
        "grow: min(total, 9) -> max(total, 9)",
        "grow: 9 -> 10 in return min(total, 9)",
        "grow: 9 -> 8 in return min(total, 9)",
    }


@pytest.mark.parametrize(
    ("what", "arguments", "right", "wrong"),
    [
        ("grow: a + b -> a - b", (7, 1), 8, 6),
        ("grow: a + b -> a + b + 1", (7, 1), 8, 9),
        ("grow: min(total, 9) -> max(total, 9)", (7, 1), 8, 9),
        ("grow: total <= STEP -> total < STEP", (4, 0), ValueError, 4),
        ("grow: not b -> b", (1, 1), 2, ValueError),
        ("module: 4 -> 3 in STEP = 4", (4, 0), ValueError, 4),
        ("grow: total = a + b -> dropped", (7, 1), 8, NameError),
        ("grow: 0 -> 1 in 0", (5,), 5, 6),
    ],
)
def test_a_change_changes_what_the_module_does(what: str, arguments: tuple[int, ...], right: Any, wrong: Any) -> None:
    names: dict[str, Any] = {"kept": print}
    exec(compile(TOY, "toy", "exec"), names)
    for module, expected in ((names, right), (changed(what), wrong)):
        grow = module["grow"]
        if isinstance(expected, type):
            with pytest.raises(expected):
                grow(*arguments)
        else:
            assert grow(*arguments) == expected


def test_every_change_changes_the_code() -> None:
    right = compile(TOY, "<mutant>", "exec")
    assert not [m.id for m in mutations(TOY) if m.code() == right]


def test_compiling_a_change_leaves_the_others_alone() -> None:
    first, second = mutations(TOY)[5:7]
    first.code()
    second.code()
    assert ast.dump(first._tree) == ast.dump(ast.parse(TOY))


def test_texts_annotations_and_what_is_raised_are_left_alone() -> None:
    shown = " ".join(m.id for m in mutations(TOY))
    assert "words" not in shown
    assert "7 ->" not in shown
    assert "int | None" not in shown
