"""Our caches beside mlx-lm's: time of a whole step, time to build its graph, peak memory.

``run`` measures the cases of ``cases`` and returns a ``Report``; ``python -m kvlaw.conformance.bench`` prints it.
A line passes if its ratio to mlx-lm is at most its bound, or, unless that bound is below 1, no larger than mlx-lm's
ratio to itself can be on this machine now (the upper end of the A/A interval).

Rows of a group (``rows``) are set against mlx-lm's batch caches: the bookkeeping of a decode alone, whole decodes, rows
that join and leave, and the bytes that they then keep.

mlx-lm has nothing like a conversion of all layers within a step.  Those lines (``conversion``) set the bytes that the
peak lies above the larger of before and after against the half precision bytes of one layer.  Nor has it tiled
attention over codes: that line (``tiling``) sets its peak against the unfused kernel's.  Nor does it compile a step:
those lines (``compiling``) set one against our own caches without; where MLX compiles nothing they are left out.
"""

import statistics
from collections.abc import Callable

import attrs

from kvlaw.conformance.bench.cases import CASES, Case, Who
from kvlaw.conformance.bench.compiling import time_compiled
from kvlaw.conformance.bench.conversion import convert
from kvlaw.conformance.bench.measure import WHO, Ratio, Timed, Times, memory_left, peak_memory, ratio, time_case
from kvlaw.conformance.bench.rows import BOOKKEEPING, DECODES, MOVES, Decoding, Moving
from kvlaw.conformance.bench.tiling import attend_by_tiles
from kvlaw.mlx_impl.compiled import compiles

BOUNDS = {"whole step": 1.05, "graph building": 1.15, "peak memory": 1.02}
"""The largest ratio to mlx-lm, per quantity."""

ROW_BOUNDS = {"bookkeeping": 0.9, "ring bookkeeping": 0.8, "rows moved": 1.05, "memory kept": 1.02}
"""As ``BOUNDS``, for rows: graph building without attention, a whole merge, extract or filter, and what is left."""

ABOVE, TILED, COMPILED = "memory above", "memory of tiles", "compiled step"
LIMITS = {**BOUNDS, **ROW_BOUNDS, ABOVE: 1.0, TILED: 0.5, COMPILED: 0.9}
"""The bounds, that of a conversion (one layer), of a tiled kernel (half of unfused), and of a compiled step."""

CONVERSIONS = (4, 8)
"""Bits of the conversions that are measured."""

TILINGS = (4,)
"""Bits of the tiled windows that are measured."""

COMPILINGS: tuple[int | None, ...] = (None, 64)
"""Windows of the caches of compiled steps that are measured."""

SUBJECTS: tuple[Who, ...] = ("ours", "drop-in")


@attrs.frozen
class Line:
    """One quantity of one case for one subject: medians (seconds or bytes), the ratio, and the A/A ratio beside it.

    ``theirs`` is mlx-lm's; of a conversion the bytes of one layer; of tiles the bytes of the unfused kernel; of a
    compiled step the time of one that is not.
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
        """The largest ratio that passes; where ours must be below mlx-lm's, a spread around 1 excuses nothing."""
        limit = LIMITS[self.quantity]
        return limit if limit < 1 else max(limit, self.control.high)

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
    for case in (*CASES, *BOOKKEEPING, *DECODES, *MOVES):
        if progress:
            progress(case.name)
        lines += _measure(case, rounds)
    lines += [_compiling(window, rounds) for window in COMPILINGS if compiles()]
    if progress and (CONVERSIONS or TILINGS):
        progress("conversion and tiles")
    return Report(rounds, (*lines, *map(_conversion, CONVERSIONS), *map(_tiling, TILINGS)))


def _measure(case: Case | Decoding | Moving, rounds: int) -> list[Line]:
    timing = time_case(case, rounds)
    if isinstance(case, Moving):
        quantities = {"rows moved": timing.whole}
        if case.act != "filter":
            quantities["memory kept"] = _bytes(memory_left(case))
    elif isinstance(case, Decoding) and not case.attends:
        quantities = {"bookkeeping" if case.window is None else "ring bookkeeping": timing.build}
    else:
        memory = _bytes(peak_memory(case))
        quantities = {"whole step": timing.whole, "graph building": timing.build, "peak memory": memory}
    return [_line(case, who, quantity, times) for quantity, times in quantities.items() for who in SUBJECTS]


def _bytes(found: dict[Who, int]) -> Times:
    return {who: [float(count)] for who, count in found.items()}


def _conversion(bits: int) -> Line:
    found = convert(bits)
    return _single(f"conversion to {bits} bits", ABOVE, found.above, found.layer)


def _tiling(bits: int) -> Line:
    found = attend_by_tiles(bits)
    return _single(f"512 over 8,192, {bits} bits", TILED, found.tiled, found.unfused)


def _compiling(window: int | None, rounds: int) -> Line:
    times = time_compiled(window, rounds)
    middle = {who: statistics.median(seconds) for who, seconds in times.items()}
    found, control = ratio(times["ours"], times["theirs"]), ratio(times["again"], times["theirs"])
    case = f"small Llama, {'growing' if window is None else f'ring {window}'}"
    return Line(case, "ours", COMPILED, middle["ours"], middle["theirs"], found, control)


def _single(case: str, quantity: str, value: int, other: int) -> Line:
    """Make a line of what is measured once and has no spread."""
    found = value / other
    return Line(case, "ours", quantity, float(value), float(other), Ratio(found, found, found), Ratio(0, 0, 0))


def _line(case: Timed, who: Who, quantity: str, times: Times) -> Line:
    middle = {name: statistics.median(times[name]) for name in WHO}
    theirs = times["theirs"]
    control = ratio(times["again"], theirs)
    return Line(case.name, who, quantity, middle[who], middle["theirs"], ratio(times[who], theirs), control)
