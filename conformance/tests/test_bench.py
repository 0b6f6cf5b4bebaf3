"""The bench: its arithmetic by hand, and one small run against mlx-lm."""

from typing import Any

import attrs
import pytest

from kvlaw.conformance import bench
from kvlaw.conformance.bench import BOUNDS, Line, Report, measure
from kvlaw.conformance.bench.__main__ import main, table
from kvlaw.conformance.bench.cases import CASES, Case
from kvlaw.conformance.bench.measure import WHO, Ratio, ratio

TINY = (
    Case("decode, growing", 1, 5, None, 2),
    Case("window of 3, ring 8", 3, 9, 8, 1),
    Case("window of 3, 8 bits", 3, 9, None, 1, bits=8),
)


@attrs.frozen
class FixedRun:
    """A run that measures nothing."""

    report: Report

    def __call__(self, **_options: Any) -> Report:
        return self.report


def line(median: float, *, quantity: str = "whole step", control_high: float = 1.0) -> Line:
    control = Ratio(1.0, 0.9, control_high)
    return Line("decode", "ours", quantity, median, 1.0, Ratio(median, median, median), control)


def test_a_ratio_is_taken_within_a_round() -> None:
    # the machine was ten times slower in the last two rounds; ours always took half as long again
    found = ratio([1.5, 3.0, 15.0, 30.0], [1.0, 2.0, 10.0, 20.0])
    assert found == Ratio(1.5, 1.5, 1.5)


def test_the_interval_of_a_ratio_holds_its_median() -> None:
    found = ratio([1.0, 1.1, 0.9, 1.2, 1.0, 1.05], [1.0] * 6)
    assert found.median == pytest.approx(1.025)
    assert 0.9 <= found.low < found.median < found.high <= 1.2


@pytest.mark.parametrize(("quantity", "bound"), BOUNDS.items())
def test_a_line_passes_up_to_its_bound(quantity: str, bound: float) -> None:
    assert line(bound, quantity=quantity).passed
    assert not line(bound + 0.001, quantity=quantity).passed


def test_a_ratio_inside_the_spread_of_mlx_lm_against_itself_passes() -> None:
    assert line(1.2, control_high=1.21).passed
    assert not line(1.2, control_high=1.19).passed


def test_the_bounds_are_those_of_the_issue() -> None:
    assert BOUNDS == {"whole step": 1.05, "graph building": 1.15, "peak memory": 1.02}
    assert {**BOUNDS, bench.ABOVE: 1.0, bench.TILED: 0.5} == bench.LIMITS
    half = [(case.length, case.window) for case in CASES if case.bits is None]
    codes = [(case.length, case.bits) for case in CASES if case.bits is not None]
    assert half == [(1, None), (1, 128), (64, None), (64, 128)]
    assert codes == [(1, 4), (1, 8), (16, 4), (16, 8)]


def test_too_few_rounds_are_refused() -> None:
    with pytest.raises(ValueError, match="20"):
        bench.run(rounds=19)


def test_a_run_measures_every_quantity_of_every_case(monkeypatch: Any) -> None:
    monkeypatch.setattr(bench, "CASES", TINY)
    monkeypatch.setattr(bench, "CONVERSIONS", ())
    monkeypatch.setattr(bench, "TILINGS", ())
    heard: list[str] = []
    report = bench.run(rounds=20, progress=heard.append)
    assert heard == [case.name for case in TINY]
    expected = {(case.name, who, quantity) for case in TINY for who in ("ours", "drop-in") for quantity in BOUNDS}
    assert {(found.case, found.who, found.quantity) for found in report.lines} == expected
    assert all(found.value > 0 and found.theirs > 0 for found in report.lines)
    assert all(0.3 < found.ratio.median < 3 for found in report.lines)
    assert len(table(report).splitlines()) == 1 + len(report.lines)


def test_a_conversion_peaks_at_most_one_layer_above_before_and_after(monkeypatch: Any) -> None:
    monkeypatch.setattr(bench, "CASES", ())
    monkeypatch.setattr(bench, "CONVERSIONS", (8,))
    monkeypatch.setattr(bench, "TILINGS", ())
    (found,) = bench.run(rounds=20).lines
    layer = 4096 * 4 * (64 + 64) * 2  # positions, heads, dims of keys and values, bytes
    assert (found.case, found.quantity, found.theirs) == ("conversion to 8 bits", "memory above", layer)
    codes = layer // 2 + 4096 * 4 * 4 * 2  # 8 bits for 16, and a scale and a bias per side
    assert codes <= found.value <= layer  # the codes of one layer at least
    assert found.passed
    assert not attrs.evolve(found, ratio=Ratio(1.01, 1.01, 1.01)).passed


@pytest.mark.slow
def test_a_tiled_window_peaks_below_half_of_an_unfused_one(monkeypatch: Any) -> None:
    monkeypatch.setattr(bench, "CASES", ())
    monkeypatch.setattr(bench, "CONVERSIONS", ())
    (found,) = bench.run(rounds=20).lines
    assert (found.case, found.quantity) == ("512 over 8,192, 4 bits", "memory of tiles")
    assert found.theirs >= 2 * 512 * (8192 + 512) * 2  # heads, queries, keys, bytes: all scores at once
    assert found.value >= 2 * 512 * 512 * 4  # the scores of one tile, in f32
    assert found.passed
    assert not attrs.evolve(found, ratio=Ratio(0.51, 0.51, 0.51)).passed


def test_runners_of_one_case_compute_the_same() -> None:
    for case in TINY:
        runners = [measure.make_runner(who, case) for who in WHO]
        outputs = [runner.step(measure.tokens(case.length)).tolist() for runner in runners]
        assert outputs[1:] == outputs[:1] * 3


def test_the_command_prints_and_tells_by_its_status(monkeypatch: Any, capsys: pytest.CaptureFixture[str]) -> None:
    lines = (line(1.0), attrs.evolve(line(0.9, quantity="peak memory"), value=2.0**20, theirs=2.0**21))
    for slow, status in ((1.0, 0), (1.3, 1)):
        run = FixedRun(Report(20, (*lines, line(slow, quantity="graph building"))))
        monkeypatch.setattr("kvlaw.conformance.bench.__main__.run", run)
        assert main(["--rounds", "20"]) == status
        printed = capsys.readouterr().out
        assert "1.00 MiB" in printed
        assert ("TOO MUCH" in printed) == (status == 1)
