"""A trace that is copied from wherever kvlaw prints one is the trace that was printed."""

import json
from io import StringIO

import pytest
from click.testing import CliRunner
from rich.console import Console

from kvlaw.conformance.cli import cli
from kvlaw.conformance.compare import Divergence
from kvlaw.conformance.corpus import example_entries
from kvlaw.conformance.events import StepShown
from kvlaw.conformance.expectations.entries import Expected
from kvlaw.conformance.expectations.file import HEAD, written
from kvlaw.conformance.expectations.tell import table
from kvlaw.conformance.failures import Failure
from kvlaw.conformance.pasted import read
from kvlaw.conformance.reports.failure_text import text_block
from kvlaw.conformance.reports.steps import step_table
from kvlaw.conformance.reports.terminal import failure_block
from kvlaw.conformance.telling import failure_found
from kvlaw.spec.text_form import parse, write_call, write_config
from kvlaw.spec.trace import Trace, TraceError

TRACES = [entry.trace for entry in example_entries() if entry.trace.calls][::9]


def steps_of(trace: Trace) -> tuple[StepShown, ...]:
    """Tell the steps of a trace, of which the last one diverges."""
    told = [StepShown(write_config(trace.config), "ok", "ok")]
    told += [StepShown(write_call(call), "sees t1..t2, t3", "drops 1") for call in trace.calls]
    last = StepShown(told[-1].call, "refused", "drops 1", "outcome", "refused", "ok")
    return (*told[:-1], last)


def failure(trace: Trace) -> Failure:
    divergence = Divergence("outcome", "TRIM-4", (), "refused", "ok")
    return Failure("TRIM-4", trace, divergence, "py:acme:Ring --set window=8", minimal=True)


def printed(what: object, width: int) -> str:
    out = StringIO()
    Console(file=out, width=width, color_system=None, highlight=False).print(what)
    return out.getvalue()


@pytest.mark.parametrize("width", [50, 80, 200])
def test_a_block_of_a_terminal_report(width: int):
    for trace in TRACES:
        block = printed(failure_block(failure_found(failure(trace))), width)
        assert read(block).trace == trace, block


@pytest.mark.parametrize("width", [60, 200])
def test_a_table_of_steps_by_itself(width: int):
    for trace in TRACES:
        if len(trace.calls) <= 20:
            shown = printed(step_table(steps_of(trace)), width)
            assert read(shown).trace == trace, shown


def test_what_junit_and_html_have_as_text():
    for trace in TRACES:
        assert read(text_block(failure_found(failure(trace)))).trace == trace


def test_an_entry_of_a_file_of_expectations():
    for trace in TRACES:
        entry = Expected("ring", "TRIM-4", trace, "outcome: ok", "known", comments=table(steps_of(trace)))
        text = written(entry)
        (line,) = [line for line in text.splitlines() if line.startswith("trace = ")]
        for copied in (HEAD + "\n" + text, text, line):
            assert read(copied).trace == trace, copied


def test_the_comments_of_an_entry():
    for trace in TRACES:
        comments = table(steps_of(trace))
        if len(trace.calls) < 40 and "..." not in "".join(comments):
            assert read("\n".join(f"# {line}" for line in comments)).trace == trace


def test_the_json_of_a_stored_failure():
    for trace in TRACES:
        assert read(json.dumps({**trace.to_json(), "id": "TRIM-4-12", "expect": "TRIM-4"}, indent=1)).trace == trace


def test_what_is_written_by_hand_is_read_as_before():
    for text in (
        "ring window=8 ; window 12 ; trim 2 -> refused ; decode -> sees t6..t13",
        "ring window=8 # a comment\n window 3\n decode -> sees t1..t4 and offset 4",
        "full_rows ; prepare lengths=2,1 right=0,1 ; window 2 ; finalize ; decode -> row 1 sees t3,t6",
        "list",
    )[:3]:
        assert read(text) == parse(text)


@pytest.mark.parametrize(
    ("told", "claims"),
    [
        ("trim 2 -> drops 2", "trim 2 -> 2"),
        ("trim 2 -> answer: -2", "trim 2 -> -2"),
        ("trim 2 -> outcome: refused", "trim 2 -> refused"),
        ("window 3 -> sights: sees t1 | t1,t2 | t1..t3", "window 3 -> sees t1 | t1,t2 | t1..t3"),
        ("decode -> offset: 1", "decode -> offset 1"),
        ("decode -> sees t1, offset 1", "decode -> sees t1 and offset 1"),
    ],
)
def test_what_was_shown_may_be_claimed_in_the_words_of_a_report(told: str, claims: str):
    assert read(f"ring window=4 ; {told}") == parse(f"ring window=4 ; {claims}")


def test_rows_as_a_report_tells_them():
    told = "full_rows ; window 2 -> row 0 sees t1..t2, row 1 sees t3 ; look c0 -> row 0 stands at 2, row 1 stands at 2"
    plain = "full_rows ; window 2 -> row 0 sees t1..t2 and row 1 sees t3 ; look c0 -> row 0 offset 2 and row 1 offset 2"
    assert read(told) == parse(plain)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("window 12 ; trim 2", "the opening before it is missing"),
        ("decode", "as in 'ring window=8 ; decode'"),
        ("", "an empty trace"),
        ("│ trace   rng window=8 ; decode │", "'rng' is not one of full, ring"),
        ('trace = "ring window=1', "no valid TOML"),
        ('trace = "ring window=1"\ntrace = "full"', "2 traces stand there: copy one of them"),
        ("{}", "config"),
        ("ring window=8 ; trim 2 -> drops two", "cannot read the expectation 'drops two'"),
    ],
)
def test_what_is_missing_is_named(text: str, message: str):
    with pytest.raises(TraceError) as error:
        read(text)
    assert message in str(error.value)


def test_the_command_takes_what_a_report_printed():
    block = printed(failure_block(failure_found(failure(parse("ring window=1 ; decode ; trim 1").trace))), 80)
    for arguments, stdin in ((["try", block], ""), (["try", "-"], block)):
        done = CliRunner().invoke(cli, [*arguments, "--target", "fault:trims-a-wrapped-ring"], input=stdin)
        assert done.exit_code == 1
        assert "breaks TRIM-4" in done.output
    wrong = CliRunner().invoke(cli, ["try", "trim 2"])
    assert wrong.exit_code == 2
    assert "the opening before it is missing" in wrong.output
