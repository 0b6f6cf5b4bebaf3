"""What a first reader of a report has to find in it, in every form: what is fixed, what was played, what to do next."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from click.testing import CliRunner
from rich.text import Text
from sample_run import RUN, SAMPLE, flat, printed

from kvlaw.conformance.check import Plan, Progress
from kvlaw.conformance.cli import cli
from kvlaw.conformance.event_file import rescue
from kvlaw.conformance.events import (
    ClauseJudged,
    ClauseOutcome,
    FailureFound,
    TargetEnded,
    TargetStarted,
    WitnessReplayed,
)
from kvlaw.conformance.expectations.learn import Listener, learn
from kvlaw.conformance.opening import open_any
from kvlaw.conformance.reports.combine import combine
from kvlaw.conformance.reports.expected import as_listed
from kvlaw.conformance.reports.failure_text import shared_rule
from kvlaw.conformance.reports.forms import FORMS
from kvlaw.conformance.reports.html_failure import failure_article
from kvlaw.conformance.reports.html_text import Anchors
from kvlaw.conformance.reports.legend import means
from kvlaw.conformance.reports.run import RunReport, TargetReport, fixed_words, gather
from kvlaw.conformance.reports.terminal import SEVERAL, clause_table, failure_block, next_steps, summary
from kvlaw.conformance.reports.unbroken import Kept, whole
from kvlaw.spec.text_form import parse

NAME = "py:acme.cache:RingCache --set array=numpy --map window=max_size"
READERS = ("terminal", "junit", "markdown", "html")


def sample(**fixed: int) -> RunReport:
    """Give the sample's ring as the result of a target with such fixed fields."""
    ring = RUN.targets[0]
    started = evolve(ring.started, target=NAME, fixed=dict(fixed))
    failures = tuple(evolve(failure, target=NAME) for failure in ring.failures)
    clauses = tuple(evolve(clause, target=NAME) for clause in ring.clauses)
    target = evolve(ring, started=started, failures=failures, clauses=clauses, ended=evolve(ring.end, target=NAME))
    return evolve(RUN, targets=(target,))


def report(*clauses: ClauseJudged, budget: str = "ci", **more: Any) -> TargetReport:
    started = TargetStarted("t", ("ring",), "core", budget, 0, seeds=more.pop("seeds", 1))
    ended = TargetEnded("t", more.pop("verdict", "incomplete"), 4)
    return TargetReport(started, clauses=clauses, ended=ended, **more)


# What is fixed.


def test_what_is_fixed_stands_beside_the_target_in_every_form() -> None:
    for form in READERS:
        text = flat(FORMS[form](sample(window=8)))
        assert text.count("fixed window=8") >= 2, form  # at the target as a whole, and at its failure
        assert "fixed" not in FORMS[form](sample()).replace("prefixed", ""), form
    assert "## ❌ `" + NAME + " (fixed window=8)`: violations" in FORMS["markdown"](sample(window=8))
    assert f'<testsuite name="{NAME} (fixed window=8)"' in FORMS["junit"](sample(window=8))


def test_the_name_by_which_a_target_is_known_is_as_it_was() -> None:
    found, plain = (json.loads(FORMS["json"](run)) for run in (sample(window=8, sinks=1), sample()))
    assert found["target"] == plain["target"] == NAME
    assert found.pop("fixed") == {"window": 8, "sinks": 1}
    assert found == plain
    assert sample(window=8).targets[0].name == NAME


def test_results_put_together_say_once_what_is_fixed() -> None:
    both = combine([("a", sample(window=8)), ("b", sample(window=16))])
    for form in READERS:
        titles = re.findall(r"RingCache --set array=numpy --map window=max_size\W* *\(fixed[^)]*\)", FORMS[form](both))
        assert titles, form
    assert [target.title for target in both.targets] == [f"{NAME} (fixed window={n})" for n in (8, 16)]
    assert fixed_words({"window": 8, "sinks": 1}) == "fixed sinks=1 window=8"


RING = '''
import numpy as np


class Ring:
    """Forgets a token too early."""

    def __init__(self, max_size):
        self.max_size, self.offset, self.keys, self.values = max_size, 0, None, None

    def update_and_fetch(self, keys, values):
        if self.keys is not None:
            first = max(0, self.keys.shape[2] - self.max_size + 2)
            keys = np.concatenate([self.keys[:, :, first:], keys], 2)
            values = np.concatenate([self.values[:, :, first:], values], 2)
            self.offset += keys.shape[2] - (self.keys.shape[2] - first)
        else:
            self.offset = keys.shape[2]
        self.keys, self.values = keys.copy(), values.copy()
        return self.keys, self.values
'''
CHECK = ["check", "py:early:Ring", "--set", "array=numpy", "--map", "window=max_size", "--budget", "quick", "-q"]


def test_a_check_says_what_is_fixed_from_its_first_line_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("early.py").write_text(RING)
    output = CliRunner().invoke(cli, [*CHECK, "--set", "window=3", "--events", "run.ndjson"]).output
    shown = " ".join(output.replace("│", " ").split())  # whatever the width
    name = "py:early:Ring --set array=numpy --map window=max_size"
    assert f"checking {name} (fixed window=3, profile core" in shown
    assert f"target {name} fixed window=3 shortest trace" in shown
    assert f"VIOLATIONS {name} (fixed window=3) (ring; profile core)" in shown
    kept = [line for line in Path("run.ndjson").read_text().splitlines() if '"failure_found"' in line]
    assert {json.loads(line)["target"] for line in kept} == {name}


# To whom a failure is charged, and how several are read.


def test_a_failure_says_that_it_is_charged_to_one_clause() -> None:
    failure = RUN.targets[0].failures[0]
    told = "asked for by VIS-5, RING-1, which may still count as pass: a failure is charged to one clause"
    assert shared_rule(failure) == told
    assert shared_rule(evolve(failure, others=())) == ""
    for form in READERS:
        assert told in flat(FORMS[form](RUN)), form


def test_of_several_failures_the_first_is_mended_first() -> None:
    failure = RUN.targets[0].failures[0]
    one, two = (report(verdict="violations", failures=(failure,) * number) for number in (1, 2))
    assert SEVERAL not in next_steps(one)
    assert next_steps(two)[0] == SEVERAL
    for form in ("terminal", "markdown", "html"):
        assert (SEVERAL in flat(FORMS[form](evolve(RUN, targets=(two,))))) is True, form
        assert (SEVERAL in flat(FORMS[form](evolve(RUN, targets=(one,))))) is False, form


@pytest.mark.parametrize(
    ("budget", "seeds", "advice"),
    [
        ("quick", 1, "--budget ci, then --budget deep"),
        ("ci", 1, "--budget deep"),
        ("quick, ci", 1, "--budget deep"),
        ("ci, quick", 1, "--budget deep"),
        ("deep", 1, "--seeds 2"),
        ("deep", 4, "--seeds 8"),
    ],
)
def test_an_incomplete_check_is_told_the_next_larger_budget(budget: str, seeds: int, advice: str) -> None:
    steps = next_steps(report(ClauseJudged("t", "VIS-1", "a", "MUST", "not exercised"), budget=budget, seeds=seeds))
    assert steps[0] == "never exercised: VIS-1"
    assert steps[1] == f"try {advice}, or --allow-incomplete if that is known and accepted"


# What was played.


def test_a_record_that_was_cut_off_tells_no_number_that_it_does_not_have(tmp_path: Path) -> None:
    lines = SAMPLE.read_text().splitlines()
    calls = [json.loads(line).get("calls", 0) for line in lines if '"progressed"' in line]
    last = max(number for number, line in enumerate(lines) if '"progressed"' in line)
    cut = tmp_path / "cut.ndjson"
    cut.write_text("\n".join(lines[: last + 1]) + "\n")
    run = gather(rescue(cut))
    target = run.targets[-1]
    assert target.played == f"at least {calls[-1]} calls; the record was cut off, so the rest is not known"
    alone = evolve(run, targets=(target,))
    for form in ("terminal", "markdown", "html"):
        text = flat(FORMS[form](alone))
        assert target.played in text, form
        assert "0 traces" not in text, form
        assert "0.0 s" not in text, form
    found = json.loads(FORMS["json"](alone))
    assert (found["traces"], found["seconds"]) == (None, None)
    assert 'time="0.00" timestamp' not in FORMS["junit"](alone)
    assert f"at least {calls[-1]}" in FORMS["junit"](alone)


def test_what_was_played_is_told_as_it_was_and_of_a_check_that_goes_on_not_at_all() -> None:
    ended = TargetEnded("t", "conformant", 0, calls=1, traces=2, seconds=0.04)
    assert evolve(report(), ended=ended).played == "2 traces, 1 call in 0.0 s"
    assert evolve(report(), ended=None).played == "how much is not known; the check goes on, so the rest is not known"


# What is listed.


def test_a_clause_that_fails_as_another_one_is_listed_is_told() -> None:
    entry = WitnessReplayed("t", "MASK-8", "MASK-8-1", "holds", "known", text="full ; mask 1")
    judged = [
        ClauseJudged("t", "MASK-8", "a", "MUST", "expected fail", 1, expected=("MASK-8-1",)),
        ClauseJudged("t", "MASK-11", "b", "MUST", "expected fail", 1, expected=("MASK-8-1",)),
        ClauseJudged("t", "VIS-1", "c", "MUST", "pass", 1),
    ]
    target = report(*judged, verdict="conformant", witnesses=(entry,))
    assert as_listed(target) == "MASK-11 as MASK-8"
    assert as_listed(report(*judged[::2], witnesses=(entry,))) == ""
    assert "as listed   MASK-11 as MASK-8" in printed(summary(target))
    for form in ("terminal", "markdown", "html"):
        assert "MASK-11 as MASK-8" in FORMS[form](evolve(RUN, targets=(target,))).replace("\\", ""), form


# Lines, and what stands in them.


@pytest.mark.parametrize("width", [60, 80, 100])
def test_facts_are_not_broken_in_their_middle(width: int) -> None:
    target = sample(window=8).targets[0]
    for extra in range(30):  # a name of any length, so that the line ends at every place
        name = NAME + "x" * extra
        failure = evolve(target.failures[0], target=name)
        block = printed(failure_block(failure, fixed=target.fixed), width)
        verdict = printed(summary(evolve(target, started=evolve(target.started, target=name))), width)
        assert all(part in block for part in ("fixed window=8", "shortest trace, 2 calls"))
        assert all(part in verdict for part in ("(fixed window=8)", "(ring; profile core)", "budget ci, seed 7"))
        assert max(map(len, (block + verdict).splitlines())) <= width
        assert "\ue000" not in block + verdict


def test_a_part_that_is_wider_than_the_line_is_broken_at_its_spaces() -> None:
    assert printed(Kept(Text(f"so {whole('much more than fits')} here")), 10).split("\n")[:3] == [
        "so much",
        "more than",
        "fits here",
    ]


@pytest.mark.parametrize(
    ("call", "opening", "told"),
    [
        ("trim 1", "full", "Drop the newest 1 position"),
        ("trim 2 bypass", "ring window=4", "Drop the newest 2 positions; bypass lets a ring cut the newest columns"),
        ("decode", "full", "Append one position and attend it"),
        ("decode", "full batch=2", "Append one position per row and attend it"),
        ("decode", "full_rows", "Append one position per row and attend it"),
        ("window 3", "ring window=4", "Append 3 positions, causal inside, and attend them"),
    ],
)
def test_a_call_is_explained_by_what_it_has(call: str, opening: str, told: str) -> None:
    said = means(call, parse(opening).trace.config)
    assert said.startswith(told)
    assert ("bypass" in said) == ("bypass" in call)


def test_a_page_explains_no_option_that_is_not_there() -> None:
    trace = parse("full ; decode ; trim 1").trace
    steps = tuple(evolve(RUN.targets[0].failures[0].steps[0], call=call) for call in ("full", "decode", "trim 1"))
    failure = FailureFound("t", "X-1", "X-1-1", trace, "full ; decode ; trim 1", "offset", "1", "2", "a", "MUST")
    page = failure_article(evolve(failure, steps=steps), Anchors(("t",)), report())
    assert "Drop the newest 1 position" in page
    assert "bypass" not in page
    assert "per row" not in page


def test_the_numbers_of_a_table_sum_to_those_below_it() -> None:
    came: tuple[tuple[str, ClauseOutcome], ...] = (
        ("VIS-1", "pass"),
        ("VIS-2", "not applicable"),
        ("TRIM-1", "fail"),
        ("ROUND-1", "not applicable"),
    )
    judged = [ClauseJudged("t", name, "a", "MUST", outcome, 1) for name, outcome in came]
    head, *rows = printed(clause_table(judged)).splitlines()
    assert head.split() == ["family", "pass", "fail", "not", "exercised"]
    assert [row.split()[:3] for row in rows] == [["VIS", "1", "-"], ["TRIM", "-", "1"]]
    target = report(*judged)
    assert "clauses     1 pass, 1 fail, 2 not applicable" in printed(summary(target))
    page = FORMS["markdown"](evolve(RUN, targets=(target,)))
    assert "| family | pass | fail | which |" in page
    assert "Not applicable, and not in the table: 2." in page


# Rounds.


def test_each_round_of_learning_names_itself_as_it_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rounds_ring.py").write_text(RING)
    monkeypatch.syspath_prepend(str(tmp_path))
    opened = open_any("py:rounds_ring:Ring", {"array": "numpy", "window": 3}, {"window": "max_size"})
    told: list[Progress] = []
    plan = Plan(opened.name, opened.kinds, "core", "quick", 0, opened.fixed)
    learnt = learn(plan, opened.subject, opened.name, Listener(told.append))
    rounds = [int(match[1]) for one in told if (match := re.match(r"round (\d+), ", one.stage))]
    assert len(rounds) == len(told)
    assert learnt.rounds >= 2
    assert sorted(set(rounds)) == list(range(1, learnt.rounds + 1))
    assert rounds == sorted(rounds)
