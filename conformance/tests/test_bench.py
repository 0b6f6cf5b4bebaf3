"""The bench: its arithmetic by hand, and one small run against mlx-lm."""

from typing import Any

import attrs
import pytest

from kvlaw.conformance import bench
from kvlaw.conformance.bench import BOUNDS, Line, Report, measure
from kvlaw.conformance.bench.__main__ import main, table
from kvlaw.conformance.bench.cases import CASES, Case
from kvlaw.conformance.bench.measure import WHO, Ratio, ratio
from kvlaw.conformance.bench.rows import BOOKKEEPING, DECODES, EARLY, GROWING, MOVES, WINDOW, WRAPPED, Decoding, Moving

TINY = (
    Case("decode, growing", 1, 5, None, 2),
    Case("window of 3, ring 8", 3, 9, 8, 1),
    Case("window of 3, 8 bits", 3, 9, None, 1, bits=8),
)
TINY_ROWS = (Decoding("rows, growing", (5, 2), None, steps=2), Decoding("rows, ring 8", (9, 2), 8, steps=2))
TINY_MOVES = (
    Moving("merge, ring 8", "merge", (9, 2, 11, 4), 8, steps=1),
    Moving("extract, growing", "extract", (5, 2, 3, 4), None, steps=1),
    Moving("extract, ring 8", "extract", (9, 2, 11, 4), 8, steps=1),
    Moving("filter, growing", "filter", (5, 2, 3, 4), None, steps=1),
)


@pytest.fixture
def nothing_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CASES", "BOOKKEEPING", "DECODES", "MOVES", "CONVERSIONS", "TILINGS", "COMPILINGS"):
        monkeypatch.setattr(bench, name, ())


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
    assert line(0.9, quantity="bookkeeping", control_high=1.1).passed
    assert not line(0.91, quantity="bookkeeping", control_high=1.1).passed  # a bound below 1 is no matter of spread


def test_the_bounds_are_those_of_the_issue() -> None:
    assert BOUNDS == {"whole step": 1.05, "graph building": 1.15, "peak memory": 1.02}
    assert bench.ROW_BOUNDS == {"bookkeeping": 0.9, "ring bookkeeping": 0.8, "rows moved": 1.05, "memory kept": 1.02}
    assert {**BOUNDS, **bench.ROW_BOUNDS, bench.ABOVE: 1.0, bench.TILED: 0.5, bench.COMPILED: 0.9} == bench.LIMITS
    half = [(case.length, case.window) for case in CASES if case.bits is None]
    codes = [(case.length, case.bits) for case in CASES if case.bits is not None]
    assert half == [(1, None), (1, 128), (64, None), (64, 128)]
    assert codes == [(1, 4), (1, 8), (16, 4), (16, 8)]
    rows = [(GROWING, None), (EARLY, WINDOW), (WRAPPED, WINDOW)]
    decodes = [(lengths * more, window, True) for more in (1, 4) for lengths, window in rows]
    assert [(case.lengths, case.window, case.attends) for case in DECODES] == decodes
    assert [(case.lengths, case.window, case.attends) for case in BOOKKEEPING] == [(*row[:2], False) for row in decodes]
    moves = [(act, window) for act in ("merge", "extract", "filter") for window in (None, WINDOW)]
    assert [(case.act, case.window) for case in MOVES] == moves


def test_rows_are_where_their_names_say_during_a_whole_round() -> None:
    steps = 1 + DECODES[0].steps
    assert max(EARLY) + steps < WINDOW  # has not wrapped
    assert max(WRAPPED) > WINDOW  # has
    assert min(WRAPPED) + steps < WINDOW  # and a row still lies behind padding, so that both sides build a mask
    assert len({*GROWING}) == len({*EARLY}) == len({*WRAPPED}) == 4


def test_too_few_rounds_are_refused() -> None:
    with pytest.raises(ValueError, match="20"):
        bench.run(rounds=19)


@pytest.mark.usefixtures("nothing_to_run")
def test_a_run_measures_every_quantity_of_every_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "CASES", TINY)
    monkeypatch.setattr(bench, "DECODES", TINY_ROWS)
    heard: list[str] = []
    report = bench.run(rounds=20, progress=heard.append)
    cases = [case.name for case in (*TINY, *TINY_ROWS)]
    assert heard == cases
    expected = {(name, who, quantity) for name in cases for who in ("ours", "drop-in") for quantity in BOUNDS}
    assert {(found.case, found.who, found.quantity) for found in report.lines} == expected
    assert all(found.value > 0 and found.theirs > 0 for found in report.lines)
    assert all(0.3 < found.ratio.median < 3 for found in report.lines)
    assert len(table(report).splitlines()) == 1 + len(report.lines)


@pytest.mark.usefixtures("nothing_to_run")
def test_a_run_measures_bookkeeping_and_rows_that_move(monkeypatch: pytest.MonkeyPatch) -> None:
    books = tuple(attrs.evolve(case, attends=False) for case in TINY_ROWS)
    monkeypatch.setattr(bench, "BOOKKEEPING", books)
    monkeypatch.setattr(bench, "MOVES", TINY_MOVES)
    lines = bench.run(rounds=20).lines
    kinds = {None: "bookkeeping", 8: "ring bookkeeping"}
    expected = {(case.name, kinds[case.window]) for case in books} | {(case.name, "rows moved") for case in TINY_MOVES}
    expected |= {(case.name, "memory kept") for case in TINY_MOVES if case.act != "filter"}
    assert {(found.case, found.quantity) for found in lines} == expected
    assert len(lines) == 2 * len(expected)
    assert all(0.1 < found.ratio.median < 10 for found in lines)


def test_rows_keep_the_bytes_of_their_columns() -> None:
    column = 16 * 4 * (64 + 64) * 2  # layers, heads, dims of keys and values, bytes
    for case, columns in zip(TINY_MOVES, (4 * 8, 2 + 2, 2 + 2), strict=False):  # merged, or of row 1 two steps later
        kept = measure.memory_left(case)
        assert {kept[who] // column for who in WHO} == {columns}, case.name  # less than one more, of small arrays


@pytest.mark.usefixtures("nothing_to_run")
def test_a_conversion_peaks_at_most_one_layer_above_before_and_after(monkeypatch: Any) -> None:
    monkeypatch.setattr(bench, "CONVERSIONS", (8,))
    (found,) = bench.run(rounds=20).lines
    layer = 4096 * 4 * (64 + 64) * 2  # positions, heads, dims of keys and values, bytes
    assert (found.case, found.quantity, found.theirs) == ("conversion to 8 bits", "memory above", layer)
    codes = layer // 2 + 4096 * 4 * 4 * 2  # 8 bits for 16, and a scale and a bias per side
    assert codes <= found.value <= layer  # the codes of one layer at least
    assert found.passed
    assert not attrs.evolve(found, ratio=Ratio(1.01, 1.01, 1.01)).passed


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_to_run")
def test_a_tiled_window_peaks_below_half_of_an_unfused_one(monkeypatch: Any) -> None:
    monkeypatch.setattr(bench, "TILINGS", (4,))
    (found,) = bench.run(rounds=20).lines
    assert (found.case, found.quantity) == ("512 over 8,192, 4 bits", "memory of tiles")
    assert found.theirs >= 2 * 512 * (8192 + 512) * 2  # heads, queries, keys, bytes: all scores at once
    assert found.value >= 2 * 512 * 512 * 4  # the scores of one tile, in f32
    assert found.passed
    assert not attrs.evolve(found, ratio=Ratio(0.51, 0.51, 0.51)).passed


def test_runners_of_one_case_compute_the_same() -> None:
    for case in TINY:
        runners = [case.runner(who) for who in WHO]
        outputs = [runner.step(case.tokens()).tolist() for runner in runners]
        assert outputs[1:] == outputs[:1] * 3


def test_groups_of_one_case_compute_the_same() -> None:
    for case in TINY_ROWS:
        outputs: list[Any] = []
        for who in WHO:
            runner = case.runner(who)
            runner.rewind()
            outputs.append([runner.step(case.tokens())[0].tolist() for _ in range(4)])
        assert outputs[1:] == outputs[:1] * 3, case.name


def test_rows_that_moved_hold_the_same() -> None:
    for case in TINY_MOVES:
        found: list[Any] = []
        for who in WHO:
            runner = case.runner(who)
            keys, values, *_ = runner.arrays(runner.step(case.tokens()))  # of the first layer
            most = max(case.lengths) + 2 if case.window is None else 8  # the rest is spare columns
            found.append([keys[:, :, :most].tolist(), values[:, :, :most].tolist()])
        assert found[1:] == found[:1] * 3, case.name


def test_the_command_prints_and_tells_by_its_status(monkeypatch: Any, capsys: pytest.CaptureFixture[str]) -> None:
    lines = (line(1.0), attrs.evolve(line(0.9, quantity="peak memory"), value=2.0**20, theirs=2.0**21))
    for slow, status in ((1.0, 0), (1.3, 1)):
        run = FixedRun(Report(20, (*lines, line(slow, quantity="graph building"))))
        monkeypatch.setattr("kvlaw.conformance.bench.__main__.run", run)
        assert main(["--rounds", "20"]) == status
        printed = capsys.readouterr().out
        assert "1.00 MiB" in printed
        assert ("TOO MUCH" in printed) == (status == 1)
