"""Listed failures are replayed first: every state that one can be in, what is said of it, and what an update does."""

import json
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from attrs import evolve
from click.testing import CliRunner, Result
from expected_entries import HOLDS, STALE

from kvlaw.conformance.adapter import AdapterSubject
from kvlaw.conformance.check import Plan, check, counted
from kvlaw.conformance.cli import cli
from kvlaw.conformance.corpus import example_entries
from kvlaw.conformance.expectations.entries import Expected, observed_of
from kvlaw.conformance.expectations.file import read_file
from kvlaw.conformance.expectations.learn import learn
from kvlaw.conformance.expectations.witnesses import Witness, replayed
from kvlaw.conformance.faults.registry import load_faults
from kvlaw.conformance.session import Session
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.reference.layout import Refusal
from kvlaw.spec.clauses import Clauses, load_clauses
from kvlaw.spec.text_form import parse

FAULTS = load_faults()
TRIMS = FAULTS["trims-a-wrapped-ring"].adapter
FOUR = Expected("ring", "TRIM-4", parse("ring window=1 ; decode ; trim 1").trace, "outcome: ok", "known", "", "here:1")


def constantly(answer: Any) -> Any:
    """Make a function that gives one answer, whatever it is asked."""

    def give(*_: object) -> Any:
        return answer

    return give


def state(
    entry: Expected, adapter: type[ReferenceAdapter] = TRIMS, *others: Expected, profile: Any = "core"
) -> Witness:
    subject = AdapterSubject(adapter())
    session = Session(subject, profile, counted(profile, "ring", subject.capabilities), "a cache")
    return replayed({"ring": session}, (*others, entry), profile, "ring")[-1]


def like(entry: Expected, text: str = "", **changes: Any) -> Expected:
    return evolve(entry, **changes, **({"trace": parse(text).trace} if text else {}))


def test_a_failure_that_is_as_it_is_listed_holds():
    found = state(FOUR)
    assert (found.state, found.why) == ("holds", "")
    assert found.failure is not None
    assert found.failure.clause == "TRIM-4"
    assert state(like(FOUR, observed="")).state == "holds"


def test_one_that_passes_is_stale():
    found = state(FOUR, ReferenceAdapter)
    assert (found.state, found.why) == ("stale", "its trace passes: remove it")


def test_one_that_cannot_be_asked_any_more_is_stale():
    class HasNoTrim(TRIMS):
        capabilities = TRIMS.capabilities - {"trim"}

    found = state(like(FOUR, clause="POS-2"), HasNoTrim)
    assert found.state in ("stale", "unknown")
    assert "remove it" in found.why


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (like(FOUR, clause="TRIM-9"), "its trace breaks TRIM-4 now, not TRIM-9"),
        (like(FOUR, "ring window=1 ; decode ; trim 1 ; decode"), "its trace fails at call 2 of 3 now"),
        (like(FOUR, observed="outcome: error"), "the target shows 'outcome: ok' now, not 'outcome: error'"),
        (like(FOUR, observed="answer: 1"), "the target shows 'outcome: ok' now, not 'answer: 1'"),
    ],
)
def test_one_that_fails_otherwise_is_changed(entry: Expected, why: str):
    found = state(entry)
    assert (found.state, found.why) == ("changed", why)
    assert found.failure is not None


def test_the_message_of_an_exception_may_change_but_not_the_outcome():
    class Refuses(ReferenceAdapter):
        def trim(self, cache: Any, n: Any, bypass: bool = False) -> Any:
            if n:
                raise Refusal(f"no {time.monotonic()}")
            return super().trim(cache, n, bypass)

    entry = like(FOUR, "ring window=2 ; decode ; trim 1", clause="TRIM-5", observed="outcome: refused")
    assert state(entry, Refuses).state == "holds"


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (
            like(FOUR, clause="TRIM-44"),
            "there is no clause 'TRIM-44'; did you mean 'TRIM-4'? correct it, or remove it",
        ),
        (like(FOUR, clause="no such"), "there is no clause 'no such'; correct it, or remove it"),
        (like(FOUR, clause="TRIM-6"), "TRIM-6 is a LAYOUT clause, and the profile is core"),
        (like(FOUR, clause="ROWS-1"), "ROWS-1 does not apply to this target as it is checked"),
        (like(FOUR, "full ; decode"), "its trace opens a full cache, and the target is checked as ring"),
        (like(FOUR, "ring window=1 ; decode on c9"), "its trace asks an object that is not there"),
        (like(FOUR, "ring window=1 ; window 99999"), "the trace is too large at call 1"),
    ],
)
def test_one_that_names_what_is_not_checked_is_unknown(entry: Expected, why: str):
    found = state(entry)
    assert found.state == "unknown"
    assert found.why.startswith(why)


def test_one_that_has_other_fields_than_the_target_is_checked_with_is_unknown():
    subject = AdapterSubject(TRIMS())
    session = Session(subject, "core", counted("core", "ring", subject.capabilities), "a cache")
    (found,) = replayed({"ring": session}, [FOUR], "core", "ring", {"window": 8, "sinks": 0})
    assert found.state == "unknown"
    assert found.why == "its trace has window=1, and the target is checked with window=8, sinks=0: remove it"


def test_a_retired_clause_is_unknown(monkeypatch: pytest.MonkeyPatch):
    clauses = load_clauses()
    gone = evolve(clauses["TRIM-4"], retired="1.3")
    left = Clauses({i: c for i, c in clauses.by_id.items() if i != "TRIM-4"}, {"TRIM-4": gone}, clauses.chapters)
    monkeypatch.setattr("kvlaw.conformance.expectations.witnesses.load_clauses", lambda: left)
    found = state(FOUR)
    assert found.state == "unknown"
    assert found.why == "TRIM-4 is retired (specification 1.3) and no longer checked: remove it"


def test_one_that_is_listed_twice_is_told_once():
    assert state(FOUR, TRIMS, FOUR).state == "twice"
    assert state(like(FOUR, "ring window=2 ; window 2 ; trim 1"), TRIMS, FOUR).state == "holds"  # another witness


def test_one_for_another_target_is_misplaced():
    found = state(like(FOUR, target="rnig"))
    assert found.state == "misplaced"
    assert found.why == "no target is called 'rnig'; did you mean 'ring'? correct it, or remove the entry"


def test_a_target_that_answers_differently_each_time_is_told():
    class Unsteady(TRIMS):
        count = 0

        def trim(self, cache: Any, n: Any, bypass: bool = False) -> Any:
            type(self).count += 1
            if type(self).count % 2 == 0:
                raise Refusal("not now")
            return super().trim(cache, n, bypass)

    found = state(FOUR, Unsteady)
    assert found.state == "changed"
    assert "now and then" in found.why


def test_twenty_witnesses_are_replayed_in_two_seconds():
    texts = [f"ring window={w} ; window {w + more} ; trim 1" for w in range(2, 9) for more in range(1, 4)]
    subject = AdapterSubject(TRIMS())
    session = Session(subject, "core", counted("core", "ring", subject.capabilities), "a cache")
    entries = [like(FOUR, text) for text in texts]
    assert len(entries) >= 20
    started = time.process_time()
    found = replayed({"ring": session}, entries, "core", "ring")
    assert time.process_time() - started < 2
    assert {w.state for w in found} == {"holds"}


# What an update learns.


@pytest.fixture
def few_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Play some stored traces only, so that a whole check takes no second."""
    few = [e for e in example_entries() if e.trace.config.kind == "ring"][:10]
    few += [FAULTS[name].entry for name in ("trims-a-wrapped-ring", "last-query-misses-itself")]
    monkeypatch.setattr("kvlaw.conformance.parts.entries_for", constantly(few))
    monkeypatch.setattr("kvlaw.conformance.parts.sweep", constantly(()))


@pytest.mark.usefixtures("few_traces")
def test_learning_drops_refreshes_and_adds_until_all_is_listed():
    stale = like(FOUR, "ring window=1 ; decode", clause="POS-2", where="here:2")
    changed = like(FOUR, observed="outcome: error", reason="asked upstream", where="here:3")
    subject = AdapterSubject(type("Both", (ReferenceAdapter,), {"cache_type": _both()})())
    plan = Plan("it", ("ring",), budget="quick", modelled=True, called="ring", expected=(stale, changed))
    found = learn(plan, subject, "ring")
    became = dict(found.became)
    assert became["here:2"] is None
    assert became["here:3"] == evolve(changed, observed="outcome: ok")
    assert {e.clause for e in found.added} == {"VIS-5"}
    (added,) = found.added
    title = load_clauses()["VIS-5"].title
    assert added.text == "ring window=1 ; window 2"
    assert added.reason == f"{title}: at `window 2` the law says sees t2, the target shows sees nothing"
    assert added.comments[:4] == (
        "    call           the law says  the target shows",
        "    ring window=1  ok            ok",
        ">1  window 2       sees t2       sees nothing",
        "",
    )
    assert added.comments[-1].startswith("found on 20")
    assert "seed 0" in added.comments[-1]
    assert found.settled
    again = check(evolve(plan, expected=tuple(e for e in (*became.values(), *found.added) if e)), subject)
    assert not again.failed
    assert not again.outdated


def _both() -> Any:
    first, second = (FAULTS[n].adapter.cache_type for n in ("trims-a-wrapped-ring", "last-query-misses-itself"))
    return type("Both", (first, second), {})


# The command line.


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few_traces: None) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    target = '[[targets]]\nname = "ring"\ntarget = "fault:trims-a-wrapped-ring"\n'
    (tmp_path / "kvlaw.toml").write_text(f'budget = "quick"\nallow_incomplete = true\n\n{target}')
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["check", *arguments])


def listed(folder: Path, *entries: str) -> None:
    (folder / "kvlaw-expectations.toml").write_text("# ours\n\n" + "\n".join(entries))


def test_an_unchanged_file_keeps_a_check_green(project: Path):
    listed(project, HOLDS)
    done = run()
    assert done.exit_code == 0, done.output
    assert "1 of 1 hold" in done.output
    assert "obeyed until 2.0 https://example.org/12" in done.output
    assert "but for 1 expected failure " in done.output
    assert "expected fail" in done.output


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ((), "VIOLATIONS"),
        ((HOLDS, STALE), "POS-2 is stale: its trace passes: remove it"),
        ((HOLDS.replace("TRIM-4", "TRIM-9"),), "TRIM-9 is changed: its trace breaks TRIM-4 now, not TRIM-9"),
        ((HOLDS.replace("TRIM-4", "TRIM-400"),), "TRIM-400 is unknown: there is no clause 'TRIM-400'"),
        ((HOLDS, HOLDS), "TRIM-4 is twice: the same trace is listed before"),
        ((HOLDS, HOLDS.replace('"ring"', '"rong"')), "TRIM-4 is misplaced: no target is called 'rong'"),
        ((STALE.replace("POS-2", "POS-1"),), "not listed: TRIM-4; repair it, or list it with"),
    ],
)
def test_whatever_is_not_as_listed_turns_a_check_red_and_says_what_to_do(
    project: Path, entries: tuple[str, ...], said: str
):
    listed(project, *entries)
    done = run()
    assert done.exit_code == 1, done.output
    assert said in done.output
    assert "Traceback" not in done.output


def test_where_only_the_list_is_wrong_the_verdict_says_so_in_every_form(project: Path):
    listed(project, HOLDS, STALE)
    forms = {"json": "r.json", "junit": "r.xml", "markdown": "r.md", "html": "r.html"}
    done = run(
        *(word for form, name in forms.items() for word in ("--report", f"{form}={name}")), "--events", "r.ndjson"
    )
    assert done.exit_code == 1
    assert "STALE EXPECTATIONS  fault:trims-a-wrapped-ring" in done.output
    assert "VIOLATIONS" not in done.output
    assert json.loads((project / "r.json").read_text())["verdict"] == "stale expectations"
    (verdict,) = ET.parse(project / "r.xml").getroot().iterfind(".//testsuite[@name='kvlaw verdicts']/testcase/failure")
    assert str(verdict.get("message")).startswith("stale expectations: expectations: POS-2 (stale)")
    assert "stale expectations" in (project / "r.md").read_text().splitlines()[0]
    assert '<div class="word">stale expectations</div>' in (project / "r.html").read_text()
    combined = CliRunner().invoke(cli, ["report", "--combine", "r.ndjson", "--exit-code"])
    assert combined.exit_code == 1
    assert "STALE EXPECTATIONS" in combined.output


def test_what_is_not_listed_is_a_violation_whatever_else_is_stale(project: Path):
    listed(project, STALE)
    done = run()
    assert done.exit_code == 1
    assert "VIOLATIONS  fault:trims-a-wrapped-ring" in done.output


def test_runs_by_different_versions_stay_apart_and_say_so(project: Path):
    """An unpinned run is one by the newest version: the same share of both would count twice."""
    listed(project, HOLDS)
    newest = load_clauses().versions[-1]
    for name, words in {"old": ("--spec", "1.0"), "new": ("--spec", newest, "--seed", "1"), "none": ()}.items():
        assert run(*words, "--events", f"{name}.ndjson").exit_code == 0
    said = {}
    for names in (("old", "none"), ("new", "none")):
        records = [f"{name}.ndjson" for name in names]
        done = CliRunner().invoke(cli, ["report", "--combine", *records, "--format", "json"])
        told = json.loads(done.output)
        said[names] = [target["target"] for target in (told if isinstance(told, list) else [told])]
    target = "fault:trims-a-wrapped-ring"
    assert said["old", "none"] == [f"{target} (spec 1.0)", f"{target} (spec {newest})"]
    assert said["new", "none"] == [target]


def test_an_update_keeps_what_people_wrote(project: Path):
    changed = HOLDS.replace("ring window=1 ; decode ; trim 1", "ring window=3 ; window 4 ; trim 2") + 'observed = "?"\n'
    listed(project, "# stays\n\n# goes\n" + STALE, "# asked in May\n" + changed)
    done = run("--update-expectations")
    assert done.exit_code == 0, done.output
    text = (project / "kvlaw-expectations.toml").read_text()
    assert text.startswith("# ours\n\n# stays\n\n# asked in May\n[[expected]]\n")
    assert "# goes" not in text
    (entry,) = read_file(project / "kvlaw-expectations.toml")
    assert (entry.reason, entry.link, entry.observed) == ("obeyed until 2.0", "https://example.org/12", "outcome: ok")
    assert "1 refreshed, 1 removed" in done.output
    assert run().exit_code == 0


def test_an_update_makes_the_file_and_then_has_nothing_to_change(project: Path):
    done = run("--update-expectations", "--expectations", "known.toml")
    assert done.exit_code == 0, done.output
    (entry,) = read_file(project / "known.toml")
    assert (entry.target, entry.clause, entry.observed) == ("ring", "TRIM-4", "outcome: ok")
    assert not (project / "kvlaw-expectations.toml").exists()
    before = (project / "known.toml").read_text()
    again = run("--update-expectations", "--expectations", "known.toml")
    assert "nothing to change" in again.output
    assert (project / "known.toml").read_text() == before
    assert run("--expectations", "known.toml").exit_code == 0
    assert run().exit_code == 1


def test_an_update_with_nothing_to_list_makes_the_file_that_is_configured(project: Path):
    (project / "kvlaw.toml").write_text(
        'expectations = "lists/known.toml"\nbudget = "quick"\n'
        '[[targets]]\ntarget = "builtin:oracle"\nkinds = ["full"]\n'
    )
    lacking = run("--allow-incomplete")
    assert lacking.exit_code == 2
    assert (
        "known.toml: there is no such file of expectations: `kvlaw check --update-expectations` makes it"
        in " ".join(lacking.output.split())
    )
    updated = run("--update-expectations", "--allow-incomplete")
    assert updated.exit_code == 0, updated.output
    assert "known.toml: made, with nothing to list" in updated.output
    assert read_file(project / "lists" / "known.toml") == ()
    assert "nothing to change" in run("--update-expectations", "--allow-incomplete").output
    assert run("--allow-incomplete").exit_code == 0


def test_an_update_with_nothing_to_list_makes_no_file_that_nobody_named(project: Path):
    (project / "kvlaw.toml").write_text('budget = "quick"\n[[targets]]\ntarget = "builtin:oracle"\nkinds = ["full"]\n')
    assert "nothing to change" in run("--update-expectations", "--allow-incomplete").output
    assert not (project / "kvlaw-expectations.toml").exists()


def test_an_update_leaves_entries_of_other_targets_alone(project: Path):
    listed(project, HOLDS.replace('"ring"', '"rong"'))
    done = run("--update-expectations")
    assert [e.target for e in read_file(project / "kvlaw-expectations.toml")] == ["rong", "ring"]
    assert done.exit_code == 0
    assert run().exit_code == 1  # rong is for people to correct


def test_an_update_that_is_interrupted_writes_nothing(project: Path, monkeypatch: pytest.MonkeyPatch):
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    listed(project, STALE)
    before = (project / "kvlaw-expectations.toml").read_text()
    monkeypatch.setattr("kvlaw.conformance.parts.Player._play", interrupt)
    done = run("--update-expectations")
    assert done.exit_code == 1
    assert "is left as it is: the check was not finished" in done.output
    assert (project / "kvlaw-expectations.toml").read_text() == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--config", "none.toml"], "none.toml: No such file or directory"),
        (
            ["--expectations", "none.toml"],
            "none.toml: there is no such file of expectations: `kvlaw check --update-exp",
        ),
        (["--expectations", "."], "Is a directory"),
        (["--config", "bad.toml"], "bad.toml: buget: there is no such key; did you mean 'budget'"),
        (["rang", "--budget", "quick"], "unknown target 'rang'"),
    ],
)
def test_what_cannot_be_used_is_told_before_anything_runs(project: Path, arguments: list[str], said: str):
    (project / "bad.toml").write_text("buget = 'ci'\n")
    done = run(*arguments)
    assert done.exit_code in (2, 3)
    assert said in done.output


def test_a_check_without_a_target_and_a_configuration_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    done = run()
    assert done.exit_code == 2
    assert "kvlaw init TARGET" in done.output


def test_the_kinds_of_a_configured_target_are_checked_alone(project: Path):
    target = '[[targets]]\nname = "ring"\ntarget = "builtin:oracle"\nkinds = {kinds}\n'
    (project / "kvlaw.toml").write_text(f'budget = "quick"\n{target}'.replace("{kinds}", '["ring", "full"]'))
    assert "(full, ring; profile core)" in run("--allow-incomplete").output
    (project / "kvlaw.toml").write_text(
        target.replace("builtin:oracle", "builtin:mlx_impl.ring").replace("{kinds}", '["ring", "full"]')
    )
    done = run()
    assert done.exit_code == 2
    assert "kinds: ring is checked as ring, not as full" in done.output


def test_observed_says_the_outcome_without_its_message():
    failure = state(FOUR).failure
    assert failure is not None
    assert observed_of(evolve(failure.divergence, observed="error at 0x7f")) == "outcome: error"
    assert observed_of(evolve(failure.divergence, field="sights", observed="sees t1")) == "sights: sees t1"
