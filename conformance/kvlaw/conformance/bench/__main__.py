"""``python -m kvlaw.conformance.bench [--rounds N]``: measure and print; exit 1 if a line fails."""

import argparse
import sys

from kvlaw.conformance.bench import Line, Ratio, Report, run


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and return 0 if every line passed, else 1."""
    parser = argparse.ArgumentParser(prog="kvlaw.conformance.bench", description="Our caches beside mlx-lm's.")
    parser.add_argument("--rounds", type=int, default=40, help="interleaved rounds per case, at least 20")
    options = parser.parse_args(arguments)
    report = run(rounds=options.rounds, progress=_say)
    sys.stdout.write(table(report))
    return 0 if report.passed else 1


def table(report: Report) -> str:
    """Write the report as a table of lines."""
    head = f"{'case':<27}{'who':<9}{'quantity':<16}{'value':>10}{'mlx-lm':>10}{'ratio':>22}{'A/A':>22}{'bound':>7}"
    return "\n".join([head, *map(_row, report.lines), ""])


def _row(line: Line) -> str:
    values = f"{_quantity(line, line.value):>10}{_quantity(line, line.theirs):>10}"
    ratios = f"{_interval(line.ratio):>22}{_interval(line.control):>22}{line.bound:>7.2f}"
    return f"{line.case:<27}{line.who:<9}{line.quantity:<16}{values}{ratios}  {'ok' if line.passed else 'TOO MUCH'}"


def _quantity(line: Line, value: float) -> str:
    return f"{value / 2**20:.2f} MiB" if "memory" in line.quantity else f"{value * 1e6:.0f} us"


def _interval(ratio: Ratio) -> str:
    return f"{ratio.median:.3f} ({ratio.low:.3f}-{ratio.high:.3f})"


def _say(case: str) -> None:
    sys.stderr.write(f"timing {case}\n")


if __name__ == "__main__":
    sys.exit(main())
