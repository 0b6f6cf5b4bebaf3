"""What all campaigns share: tallies, results, the run of all of them, and `kvlaw arithmetic`."""

import io
import re
from itertools import islice

import attrs
import pytest
from click.testing import CliRunner
from rich.console import Console

from kvlaw.conformance.campaigns import run
from kvlaw.conformance.campaigns.campaign import BUDGETS, Campaign, Result, Tally
from kvlaw.conformance.cli import cli
from kvlaw.reference.numerics import DTYPES, DType


@attrs.frozen
class Number:
    """A case that is its number: values are 0 .. number, and every seventh number is off by one."""

    number: int
    dtype: DType
    seed: int

    def describe(self) -> str:
        return f"case {self.number} of {self.dtype}, seed {self.seed}"


def count(case: Number) -> Tally:
    return Tally({"numbers": case.number + 1}, {"odd": case.number % 2}, int(case.number % 7 == 6))


def numbers(name: str = "numbers", *, modelled: bool = True) -> Campaign[Number]:
    return Campaign(name, Number, count, lambda: modelled, {"ci": 4, "deep": 20})


def test_tallies_add_up_sort_by_sort() -> None:
    first, second = Tally({"a": 2, "b": 3}, {"odd": 1}, 1), Tally({"b": 4, "c": 5}, {"even": 7})
    assert first + second == Tally({"a": 2, "b": 7, "c": 5}, {"odd": 1, "even": 7}, 1)
    assert (first + second).values == 14
    assert (first + second).share("even") == 0.5
    assert Tally().share("even") == 0.0


def test_a_run_adds_up_all_cases_and_names_the_first_that_differs() -> None:
    result = numbers().run("f16", 20, seed=3)
    assert result.cases == 20
    assert result.tally == Tally({"numbers": sum(range(1, 21))}, {"odd": 10}, 2)
    assert result.first_difference == "case 6 of f16, seed 3: 1 of 7 values differ"
    assert result.describe() == "numbers in f16: 20 cases, 210 numbers (10 odd), 2 differ"


def test_steps_show_the_sum_so_far() -> None:
    steps = list(islice(numbers().steps("bf16", 20), 3))
    assert [(step.cases, step.tally.values) for step in steps] == [(1, 1), (2, 3), (3, 6)]
    assert steps[-1].first_difference is None


def report_of(monkeypatch: pytest.MonkeyPatch, *campaigns: Campaign[Number], budget: str = "ci") -> run.Report:
    monkeypatch.setattr(run, "campaigns", lambda: campaigns)
    return run.run_all("deep" if budget == "deep" else "ci", 5)


def test_all_campaigns_run_in_every_format_by_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    report = report_of(monkeypatch, numbers("first"), numbers("second"))
    assert [(result.campaign, result.dtype) for result in report.results] == [
        (name, dtype) for name in ("first", "second") for dtype in DTYPES
    ]
    assert {result.cases for result in report.results} == {4}
    assert (report.values, report.differing, report.word, report.exit_code) == (6 * 10, 0, "exact", 0)


def test_a_difference_decides_the_word_and_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    report = report_of(monkeypatch, numbers(), numbers("other", modelled=False), budget="deep")
    assert (report.differing, report.word, report.exit_code) == (3 * 2, "differs", 1)
    assert "case 6 of bf16, seed 5: 1 of 7 values differ" in told(report)


def test_what_is_not_modelled_is_neither_run_nor_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    report = report_of(monkeypatch, numbers(), numbers("other", modelled=False))
    assert [result.campaign for result in report.results] == ["numbers"] * 3
    assert report.unobserved == tuple(f"other in {dtype}" for dtype in DTYPES)
    assert (report.word, report.exit_code) == ("not observed", 4)
    assert "unobserved  other in f32" in told(report)


def test_an_interrupt_keeps_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_part: run.Part, result: Result) -> None:
        if (result.dtype, result.cases) == ("f16", 2):
            raise KeyboardInterrupt

    monkeypatch.setattr(run, "campaigns", lambda: (numbers(),))
    report = run.run_all("ci", 0, stop)
    assert [(result.dtype, result.cases) for result in report.results] == [("bf16", 4), ("f16", 2)]
    assert (report.word, report.exit_code) == ("interrupted", 4)
    assert "interrupted: what was compared so far is shown" in told(report)


def told(report: run.Report) -> str:
    console = Console(file=io.StringIO(), width=120, no_color=True)
    console.print(run.summary(report))
    written = console.file
    assert isinstance(written, io.StringIO)
    return written.getvalue()


def test_every_kernel_set_the_codec_and_the_recurrence_are_among_all_campaigns() -> None:
    names = [campaign.name for campaign in run.campaigns()]
    assert len(set(names)) == len(names) == 7
    for part in ("codec", "attention", "plain operations", "unfused", "tiled_causal", "tiled", "recurrence"):
        assert any(name.endswith(part) for name in names)
    for budget in BUDGETS:
        runs = [(part.campaign.name, part.dtype) for part in run.parts(budget)]
        assert len(runs) == len(set(runs)) == 5 * 3 + 2 * 2


def test_the_command_prints_its_seed_a_line_for_each_format_and_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "campaigns", lambda: (numbers(),))
    runner = CliRunner()
    result = runner.invoke(cli, ["arithmetic", "--seed", "7"])
    assert result.exit_code == 0, result.output
    assert "budget ci, seed 7" in result.output
    assert len(re.findall(r"^numbers +\w+ +4 +10 +0$", result.output, re.MULTILINE)) == 3
    assert "EXACT  0 of 30 values differ, in 12 cases and" in result.output
    assert runner.invoke(cli, ["arithmetic", "--budget", "deep"]).exit_code == 1
    assert runner.invoke(cli, ["arithmetic", "--budget", "quick"]).exit_code == 2
