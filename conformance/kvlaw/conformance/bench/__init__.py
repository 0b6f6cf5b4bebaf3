"""Our caches beside mlx-lm's: time of a whole step, time to build its graph, peak memory.

``run`` measures the cases of ``cases`` and returns a ``Report``; ``python -m kvlaw.conformance.bench`` prints it.
A line passes if its ratio to mlx-lm is at most its bound, or no larger than mlx-lm's ratio to itself can be on this
machine now (the upper end of the A/A interval).

mlx-lm has nothing like a conversion of all layers within a step.  Those lines (``conversion``) set the bytes that the
peak lies above the larger of before and after against the half precision bytes of one layer.
"""

import statistics
from collections.abc import Callable

import attrs

from kvlaw.conformance.bench.cases import CASES, Case, Who
from kvlaw.conformance.bench.conversion import convert
from kvlaw.conformance.bench.measure import WHO, Ratio, Times, peak_memory, ratio, time_case

BOUNDS = {"whole step": 1.05, "graph building": 1.15, "peak memory": 1.02}
"""The largest ratio to mlx-lm, per quantity."""

ABOVE = "memory above"
LIMITS = {**BOUNDS, ABOVE: 1.0}
"""The bounds, and that of a conversion: one layer."""

CONVERSIONS = (4, 8)
"""Bits of the conversions that are measured."""

SUBJECTS: tuple[Who, ...] = ("ours", "drop-in")


@attrs.frozen
class Line:
    """One quantity of one case for one subject: medians (seconds or bytes), the ratio, and the A/A ratio beside it.

    ``theirs`` is mlx-lm's, or of a conversion the bytes of one layer.
    """

    case: str
    who: str
    quantity: str
    value: float
    theirs: float
    ratio: Ratio
    control: Ratio

    @property
    def bound(self) -> float:
        """The largest ratio that passes."""
        return max(LIMITS[self.quantity], self.control.high)

    @property
    def passed(self) -> bool:
        """Whether the ratio is within its bound."""
        return self.ratio.median <= self.bound


@attrs.frozen
class Report:
    """All lines of a run."""

    rounds: int
    lines: tuple[Line, ...]

    @property
    def passed(self) -> bool:
        """Whether every line passed."""
        return all(line.passed for line in self.lines)


def run(*, rounds: int = 40, progress: Callable[[str], None] | None = None) -> Report:
    """Measure every case in ``rounds`` >= 20 interleaved rounds; ``progress`` hears the name of each case.

    Raises:
        ValueError: if there are fewer than 20 rounds.
    """
    if rounds < 20:
        raise ValueError(f"{rounds} rounds: medians need at least 20")
    lines: list[Line] = []
    for case in CASES:
        if progress:
            progress(case.name)
        lines += _measure(case, rounds)
    if progress and CONVERSIONS:
        progress("conversion")
    return Report(rounds, (*lines, *map(_conversion, CONVERSIONS)))


def _measure(case: Case, rounds: int) -> list[Line]:
    timing = time_case(case, rounds)
    memory: Times = {who: [float(peak)] for who, peak in peak_memory(case).items()}
    quantities = {"whole step": timing.whole, "graph building": timing.build, "peak memory": memory}
    return [_line(case, who, quantity, times) for quantity, times in quantities.items() for who in SUBJECTS]


def _conversion(bits: int) -> Line:
    found = convert(bits)
    layers, sure = found.above / found.layer, Ratio(1.0, 1.0, 1.0)
    ratio_of = Ratio(layers, layers, layers)
    return Line(f"conversion to {bits} bits", "ours", ABOVE, float(found.above), float(found.layer), ratio_of, sure)


def _line(case: Case, who: Who, quantity: str, times: Times) -> Line:
    middle = {name: statistics.median(times[name]) for name in WHO}
    theirs = times["theirs"]
    control = ratio(times["again"], theirs)
    return Line(case.name, who, quantity, middle[who], middle["theirs"], ratio(times[who], theirs), control)
