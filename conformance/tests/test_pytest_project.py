"""The pytest plugin by a project's configuration: what is listed is expected to fail, as for ``kvlaw check``."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from expected_entries import HOLDS, STALE

from kvlaw.conformance.corpus import example_entries
from kvlaw.conformance.faults.registry import load_faults

LOADED = [
    import_module(f"kvlaw.conformance.{name}")
    for name in ("check", "pytest_items", "pytest_project", "cli_targets", "reports.terminal", "faults.registry")
]
"""Loaded once, so that suites that are run in this process do not load them again and again."""

pytest_plugins = ["pytester"]

CONFIGURED = """\
budget = "quick"
allow_incomplete = true

[[targets]]
name = "ring"
target = "fault:trims-a-wrapped-ring"
"""
SUITE = "from kvlaw.conformance import conformance_tests\ntest_it = conformance_tests({})\n"
CHOSEN = ("-k", "TRIM-4] or POS-2] or VIS-1] or verdict")
"""Some items only: the check behind them is whole."""


def constantly(answer: Any) -> Any:
    """Make a function that gives one answer, whatever it is asked."""

    def give(*_: object) -> Any:
        return answer

    return give


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Set a project up with a file of expectations, and run pytest in it."""
    few = [e for e in example_entries() if e.trace.config.kind == "ring"][:12]
    few.append(load_faults()["trims-a-wrapped-ring"].entry)
    monkeypatch.setattr("kvlaw.conformance.parts.entries_for", constantly(few))
    monkeypatch.setattr("kvlaw.conformance.parts.sweep", constantly(()))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def run(*options: str, expected: str = "", suite: str = "", configured: str = CONFIGURED) -> pytest.RunResult:
        Path("kvlaw.toml").write_text(configured)
        Path("kvlaw-expectations.toml").write_text(expected)
        if suite:
            pytester.makepyfile(test_suite=SUITE.format(suite))
        plain = ("-p", "no:cacheprovider", "-p", "no:xdist", "-W", "error", "-v", "-rxs")
        return pytester.runpytest_inprocess(*plain, *options)

    return run


def outcomes(result: pytest.RunResult) -> dict[str, str]:
    lines = [line.split() for line in result.outlines if "::test_" in line and "%]" in line]
    return {line[0].partition("[")[2].rstrip("]"): line[1] for line in lines}


GREEN = {"POS-2": "PASSED", "VIS-1": "PASSED", "TRIM-4": "XFAIL", "verdict": "PASSED"}


@pytest.mark.parametrize("target", ["ring", "fault:trims-a-wrapped-ring"])
def test_a_listed_failure_is_expected_to_fail(project: Any, target: str):
    result = project("--kvlaw-target", target, *CHOSEN, expected=HOLDS)
    assert outcomes(result) == GREEN
    assert result.ret == 0
    result.stdout.fnmatch_lines(["XFAIL *TRIM-4* - TRIM-4-*: obeyed until 2.0 https://example.org/12"])


@pytest.mark.parametrize("suite", ["'ring'", "'fault:trims-a-wrapped-ring'", ""])
def test_a_suite_is_checked_as_its_target_is_configured(project: Any, suite: str):
    text = suite or "seed=0"
    assert outcomes(project(*CHOSEN, expected=HOLDS, suite=text)) == GREEN


def test_one_that_passes_fails_and_says_what_to_do(project: Any):
    result = project("--kvlaw-target", "ring", *CHOSEN, expected=HOLDS + STALE)
    assert outcomes(result) == {**GREEN, "POS-2": "FAILED", "verdict": "FAILED"}
    result.stdout.fnmatch_lines(["*POS-2 is stale: its trace passes: remove it (*kvlaw-expectations.toml:7: ring *"])
    result.stdout.fnmatch_lines(["*stale expectations:*"])
    result.stdout.fnmatch_lines(["(`kvlaw check --update-expectations` removes what passes, and refreshes *"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_one_that_is_not_listed_fails_and_says_how_to_list_it(project: Any):
    other = STALE.replace("POS-2", "VIS-1")
    result = project("--kvlaw-target", "ring", *CHOSEN, expected=other)
    assert outcomes(result) == {"POS-2": "PASSED", "VIS-1": "FAILED", "TRIM-4": "FAILED", "verdict": "FAILED"}
    result.stdout.fnmatch_lines(["not listed: TRIM-4; repair it, or list it with `kvlaw check --update-expectations`*"])
    result.stdout.fnmatch_lines(["*VIS-1 is stale*"])


def test_one_of_a_clause_that_there_is_not_fails_the_verdict(project: Any):
    result = project("--kvlaw-target", "ring", *CHOSEN, expected=HOLDS + HOLDS.replace("TRIM-4", "TRIM-400"))
    assert outcomes(result) == {**GREEN, "verdict": "FAILED"}
    result.stdout.fnmatch_lines(["*TRIM-400 is *"])


def test_options_win_over_the_configuration(project: Any):
    loud = CONFIGURED.replace("allow_incomplete = true", 'profile = "layout"\nspec = "1.0"')
    result = project("--kvlaw-target", "ring", "--collect-only", "-q", expected=HOLDS, configured=loud)
    many = len(result.outlines)
    core = project("--kvlaw-target", "ring", "--kvlaw-profile", "core", "--collect-only", "-q", configured=loud)
    newest = project("--kvlaw-target", "ring", "--kvlaw-spec", "1.4", "--collect-only", "-q", configured=loud)
    assert len(core.outlines) < many < len(newest.outlines)


def test_several_configured_targets_have_to_be_named(project: Any):
    two = CONFIGURED + '\n[[targets]]\nname = "oracle"\ntarget = "builtin:oracle"\n'
    result = project(suite="", configured=two, expected=HOLDS)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result = project(suite="seed=0", configured=two, expected=HOLDS)
    assert result.ret == 2
    result.stdout.fnmatch_lines(["*a suite checks one target, and these are several: name one of ring, oracle*"])
    named = project(*CHOSEN, suite="'ring'", configured=two, expected=HOLDS)
    assert outcomes(named) == GREEN


@pytest.mark.parametrize(
    ("configured", "expected", "says"),
    [
        (CONFIGURED + "colour = 3\n", "", "*targets*colour*there is no such key*"),
        (CONFIGURED, "[[expected]]\nclause = 3\n", "*expected*"),
    ],
)
def test_a_file_that_cannot_be_used_is_an_error_without_a_traceback(
    project: Any, configured: str, expected: str, says: str
):
    result = project(suite="'ring'", configured=configured, expected=expected)
    assert result.ret in (2, 4)
    (result.stdout if result.ret == 2 else result.stderr).fnmatch_lines([says])
    result.stdout.no_fnmatch_line("*Traceback*")
