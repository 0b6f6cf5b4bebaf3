"""Failures in words: one demand at a step, the rule as a sentence, shorthand written out, calls without an answer."""

import re
import time
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from click.testing import CliRunner
from homemade_caches import growing
from rich.console import Console
from sample_run import RUN, flat, printed

from kvlaw.conformance.checks_read import READ_CHECKS, sight_words
from kvlaw.conformance.checks_state import STATE_CHECKS
from kvlaw.conformance.cli import cli
from kvlaw.conformance.cli_progress import Lines
from kvlaw.conformance.corpus import entries_for
from kvlaw.conformance.events import (
    ClauseJudged,
    ClauseOutcome,
    FailureFound,
    Progressed,
    StepShown,
    TargetEnded,
    TargetStarted,
)
from kvlaw.conformance.guard import Patience
from kvlaw.conformance.reports.failure_text import headline, text_block
from kvlaw.conformance.reports.forms import FORMS
from kvlaw.conformance.reports.legend import legend
from kvlaw.conformance.reports.mishaps import mishap_of
from kvlaw.conformance.reports.run import TargetReport
from kvlaw.conformance.reports.terminal import clause_table, failure_block, print_target
from kvlaw.conformance.reports.unasked import arithmetic, not_offered
from kvlaw.conformance.reports.wording import FIELDS, aside, demanded, shown, told
from kvlaw.reference.history import Sight
from kvlaw.spec.clauses import load_clauses
from kvlaw.spec.config import KINDS
from kvlaw.spec.contract import CAPABILITIES
from kvlaw.spec.observations import Observation
from kvlaw.spec.text_form import parse, write

FAILURE = RUN.targets[0].failures[0]


# One demand at a step.


@pytest.mark.parametrize(
    ("required", "allowed", "words"),
    [
        ((3, 4), (3, 4), "t3..t4"),
        ((4,), (1, 4), "t4, perhaps t1"),
        ((), (1, 2), "perhaps t1..t2"),
        ((), (), "nothing"),
    ],
)
def test_what_must_and_what_may_be_seen_is_one_form(
    required: tuple[int, ...], allowed: tuple[int, ...], words: str
) -> None:
    assert sight_words(Sight(required, allowed)) == words


@pytest.mark.parametrize(
    ("step", "law", "target", "more"),
    [
        (StepShown("decode", "sees t1,t4", "sees t2", "sights", "sees t4", "sees t2"), "sees t4", "sees t2", ""),
        (StepShown("trim 2", "refused", "drops 2", "outcome", "refused", "ok"), "refused", "ok, drops 2", ""),
        (
            StepShown("decode", "sees t1", "refused", "outcome", "ok", "refused ValueError: no"),
            "ok, sees t1",
            "refused ValueError: no",
            "",
        ),
        (StepShown("trim -1", "drops 0", "drops -1", "answer", "0", "-1"), "drops 0", "drops -1", ""),
        (StepShown("reuse t1 as c1", "finds 1", "finds 2", "answer", "1", "2"), "finds 1", "finds 2", ""),
        (StepShown("look", "ok", "reads t1", "row 1 offset", "3", "4"), "row 1 offset 3", "row 1 offset 4", "reads t1"),
        (
            StepShown("window 2", "sees t2", "fetches t1..t2", "mask_width", "a mask [2]", "one of [3]"),
            "a mask [2]",
            "one of [3]",
            "fetches t1..t2",
        ),
        (StepShown("decode", "ok or refused, sees t1", "refused"), "ok or refused, sees t1", "refused", ""),
    ],
)  # fmt: skip
def test_a_step_has_one_demand_and_one_observation(step: StepShown, law: str, target: str, more: str) -> None:
    assert (demanded(step), shown(step), aside(step)) == (law, target, more)


def test_every_field_of_a_divergence_has_words() -> None:
    names = {re.sub(r"_(min|max|per_column|rows)$", "", name) for name in (*STATE_CHECKS, *READ_CHECKS)}
    names = names - {"layers_can_trim", "row_dense"} | {"outcome", "answer", "torn", "mask_array", "columns", "rows"}
    assert names <= FIELDS.keys() | {"max_append", "mask"}
    assert told("something_new", "3") == "something_new: 3"


def test_no_form_names_a_field_of_ours() -> None:
    for form in ("terminal", "junit", "markdown", "html"):
        assert "sights" not in FORMS[form](RUN)


# The rule, and the words in it.


def test_a_terminal_says_the_rule_in_a_sentence_and_only_a_verbose_one_its_code() -> None:
    plain, verbose = (flat(printed(failure_block(FAILURE, verbose=verbose))) for verbose in (False, True))
    assert "A decode at offset o sees the newest `min(o + 1, W)` positions." in plain
    assert "call.is_decode" not in plain
    assert "when call.is_decode and result.ok" in verbose


def test_the_title_of_a_clause_stands_once_in_a_failure_of_markdown() -> None:
    page = FORMS["markdown"](RUN)
    part = page[page.index("<details><summary><b>VIS-1") :].partition("</details>")[0]
    assert part.count("a decode sees exactly its newest min") == 1
    assert part.count("kvlaw try") == 1


def with_text(text: str) -> FailureFound:
    return FailureFound("t", "X-1", "X-1-1", parse(text).trace, text, "offset", "1", "2", "a title", "MUST")


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("ring window=4 ; decode w=1", "w=1"),
        ("ring window=4 ; window 5 malformed=dtype", "malformed=dtype"),
        ("ring window=4 ; window 5 ; trim 2 bypass", "bypass"),
        ("full_rows ; prepare lengths=2,1 right=0,1", "right=0,1"),
        ("full look=last ; decode unread", "unread"),
    ],
)
def test_shorthand_of_a_trace_is_written_out(text: str, short: str) -> None:
    assert dict(legend(with_text(text))).get(short)
    assert short in text_block(with_text(text)).partition("words")[2]
    assert f"{short}:" in flat(printed(failure_block(with_text(text))))


def test_every_option_of_every_stored_trace_is_written_out() -> None:
    plain = {"window", "dtype", "seed"}
    for kind in KINDS:
        for entry in entries_for(kind, frozenset(CAPABILITIES), "layout", ("dense", "affine", "bf16_first")):
            text = write(entry.trace)
            words = {short.partition("=")[0] for short, _ in legend(with_text(text))}
            options = set(re.findall(r" (\w+)=", text)) | set(
                re.findall(r" (array|unread|bypass|poison|other)\b", text)
            )
            assert options - plain <= words, text


def test_letters_of_a_rule_are_written_out_with_their_numbers() -> None:
    words = dict(legend(FAILURE))
    assert words["W"] == "the window, here 4"
    assert "offset" in words["o"]
    assert "s" not in words


def test_a_letter_means_what_it_means_in_the_rule_of_that_kind() -> None:
    of_rows, of_states = (load_clauses()[name].prose for name in ("ROWS-22", "REC-3"))
    assert "open round" in dict(legend(evolve(with_text("ring_rows window=4 ; decode"), prose=of_rows)))["K"]
    assert dict(legend(evolve(with_text("recurrent conv=3 ; advance 1"), prose=of_states)))["K"].endswith("here 3")


# Calls that come to no answer.


@pytest.mark.parametrize(
    ("expected", "observed", "sentence"),
    [
        ("ok", "error no answer within 10 s", "the target hung in `window 2`: no answer within 10 s"),
        (
            "ok",
            "error the testee was ended by signal 9 (SIGKILL)",
            "the target crashed in `window 2`: the testee was ended by signal 9 (SIGKILL)",
        ),
        (
            "ok",
            "error the target called sys.exit(7)",
            "the target crashed in `window 2`: the target called sys.exit(7)",
        ),
        ("ok", "refused KeyError: 'x'", "the target raised KeyError in `window 2`: 'x'"),
        ("ok", "error keys: [1] is no array", "the target failed in `window 2`: keys: [1] is no array"),
        ("ok", "refused", None),
        ("refused", "ok", None),
        ("ok or refused", "refused ValueError: no", None),
    ],
)
def test_a_call_without_an_answer_is_told_before_its_clause(expected: str, observed: str, sentence: str | None) -> None:
    met = mishap_of("outcome", expected, observed, "window 2")
    assert (met.sentence if met else None) == sentence
    assert mishap_of("offset", expected, observed, "window 2") is None
    step = StepShown("window 2", expected, observed.partition(" ")[0], "outcome", expected, observed)
    failure = evolve(FAILURE, field="outcome", expected=expected, observed=observed, steps=(step,))
    run = evolve(RUN, targets=(evolve(RUN.targets[0], failures=(failure,)),))
    assert headline(failure).startswith(sentence or "VIS-1: a decode sees")
    for form in ("terminal", "junit", "markdown", "html"):
        assert ("harged to VIS-1" in flat(FORMS[form](run))) == (sentence is not None)


HANGS = growing(
    "Hangs where it is to drop a negative number of positions.",
    """\
        return self.keys.copy(), self.values.copy()

    def is_trimmable(self):
        return False

    def trim(self, n):
        if n < 0:
            time.sleep(60)
        return 0
""",
    "time",
)


def test_a_hang_is_told_with_the_limit_in_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("kvlaw.conformance.rerunning.WAIT", 0.1)
    Path("hangs.py").write_text(HANGS)
    found = CliRunner().invoke(
        cli, ["check", "py:hangs:Cache", "--set", "array=numpy", "--set", "seconds=0.6", "--budget", "quick"]
    )
    report = flat(found.output)
    assert "the target hung in `trim -1`: no answer within 0.6 s" in report
    assert "0.25 s (cut from 0.6 s" in report  # among the troubles of the search, in which it had hung before


def test_a_limit_that_was_cut_says_so() -> None:
    def hang() -> Observation:
        time.sleep(5)
        return Observation()

    patience = Patience(0.5)
    assert patience.guarded(hang).message == "no answer within 0.5 s"
    assert patience.guarded(hang).message == "no answer within 0.25 s (cut from 0.5 s: it hung before)"


# What is not asked, and what goes on.

LACKS = "the target lacks {}: it is not there"


Told = tuple[str, ClauseOutcome, str]


def report(*clauses: Told, capabilities: tuple[str, ...] = (), **ended: Any) -> TargetReport:
    judged = tuple(ClauseJudged("t", name, "a title", "MUST", outcome, 1, why) for name, outcome, why in clauses)
    started = TargetStarted("t", ("ring",), "core", "ci", 0, capabilities=capabilities)
    return TargetReport(started, clauses=judged, ended=TargetEnded("t", "conformant", 0, **ended))


MIXED: tuple[Told, ...] = (
    ("VIS-1", "pass", ""),
    ("ROUND-1", "not applicable", LACKS.format("rounds")),
    ("ROUND-2", "not applicable", LACKS.format("rounds, policy")),
    ("PERS-1", "not applicable", LACKS.format("files")),
    ("REC-1", "not applicable", "speaks of recurrent only"),
)


def test_what_a_target_does_not_offer_is_one_line() -> None:
    told = not_offered(report(*MIXED))
    assert told == "rollback, storage as codes, save and load (3 clauses not asked, and 1 for other kinds of cache"
    assert not_offered(report(MIXED[0])) == ""
    out = StringIO()
    print_target(Console(file=out, width=200, color_system=None), report(*MIXED))
    assert f"not offered {told}; -v lists them)" in out.getvalue()


def test_families_of_which_nothing_applies_are_no_rows() -> None:
    families = [line.split()[0] for line in printed(clause_table(report(*MIXED).clauses)).splitlines()]
    assert families == ["family", "VIS"]
    page = FORMS["markdown"](evolve(RUN, targets=(report(*MIXED),)))
    assert re.findall(r"^\| ([A-Z]+) \|", page, re.MULTILINE) == ["VIS"]


def test_arithmetic_is_told_where_it_says_something() -> None:
    assert arithmetic(report()) == ""
    assert arithmetic(report(capabilities=("attend",))) == ""  # nothing of it was played
    unmodelled = arithmetic(report(capabilities=("attend",), modelled=False))
    assert unmodelled.startswith("not observed: ")
    assert "nothing to do" in unmodelled
    assert arithmetic(report(arithmetic="exact", reads=12)).startswith("exact: outputs of 12 reads")


def test_a_log_shows_how_far_a_check_is_now_and_then() -> None:
    now, written = [0.0], list[str]()
    lines = Lines(written.append, lambda: now[0])

    def at(second: float, done: int) -> None:
        now[0] = second
        lines.show(Progressed("t", "ring", "any call", 10 * int(second), 1, done, 4))

    for second, done in [(1, 0), (4.9, 1), (5.5, 1), (7, 2), (10.4, 2), (11, 2), (20, 2), (21.1, 2), (27, 3)]:
        at(second, done)
    assert [line.split(" s  ")[0].strip() for line in written] == ["6", "11", "21", "27"]
    assert written[0].endswith("ring: any call, 50 calls, 1 of 4 parts done, 1 clause broken")


def test_a_quiet_check_shows_no_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("kvlaw.conformance.cli_progress.OFTEN", 0.0)
    Path("plain.py").write_text(HANGS.replace("time.sleep(60)", "pass"))
    check = ["check", "py:plain:Cache", "--set", "array=numpy", "--budget", "quick"]
    loud, quiet = CliRunner().invoke(cli, check), CliRunner().invoke(cli, [*check, "--quiet"])
    assert re.search(r"^ *\d+ s  full: stored traces", loud.stderr, re.MULTILINE)
    assert quiet.stderr == ""
    assert not re.search(r"^ *\d+ s  ", loud.stdout, re.MULTILINE)
