"""How it is timed: interleaved rounds, ratios within a round, medians, and the A/A ratio beside them.

In every round each runner does the same number of steps, in an order that is drawn for each round, so that a machine
that slows down slows all of them, and none always follows the same other.  A result is the median over rounds of the
ratio to mlx-lm *in the same round*; its spread comes from resampling the rounds.  mlx-lm against a second mlx-lm, in
the same rounds, says what a ratio of 1 looks like on this machine now.  Building a graph is timed by the processor time
of its thread, which does not count the time that other programs take.
"""

import gc
import random
import statistics
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Protocol

import attrs
import mlx.core as mx

from kvlaw.conformance.bench.cases import Runner, Who, evaluate

WHO: tuple[Who, ...] = ("ours", "drop-in", "theirs", "again")

Times = dict[Who, list[float]]
"""Seconds per step, one number per round."""


@attrs.frozen
class Ratio:
    """The median over rounds of a ratio, and its 95 % interval by resampling."""

    median: float
    low: float
    high: float


@attrs.frozen
class Timing:
    """Times of one case per runner: building the graph of a step, and the whole step."""

    build: Times
    whole: Times


class Timed(Protocol):
    """A case: who runs it, on which input, and how many steps of it are a round."""

    @property
    def name(self) -> str:
        """Name it in a table."""
        ...

    @property
    def steps(self) -> int:
        """Return the steps of a round."""
        ...

    def tokens(self) -> mx.array:
        """Draw the input of a step."""
        ...

    def runner(self, who: Who) -> Runner:
        """Make the caches of ``who``."""
        ...


def time_case(case: Timed, rounds: int) -> Timing:
    """Time ``case`` in interleaved rounds; one more round first warms up."""
    x = case.tokens()
    runners: dict[Who, Runner] = {who: case.runner(who) for who in WHO}
    timing = Timing({who: [] for who in WHO}, {who: [] for who in WHO})
    rng = random.Random(0)  # noqa: S311  # an order, no secret
    with _uncollected():
        for turn in range(rounds + 1):
            for who in rng.sample(WHO, len(WHO)):
                build, whole = _time_steps(runners[who], case.steps, x)
                if turn:
                    timing.build[who].append(build)
                    timing.whole[who].append(whole)
    return timing


@contextmanager
def _uncollected() -> Generator[None]:
    """Keep Python's cycle collector from running in the middle of a step."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _time_steps(runner: Runner, steps: int, x: mx.array) -> tuple[float, float]:
    """Return seconds per step: of this thread for building its graph, by the clock in all."""
    build = whole = 0.0
    runner.rewind()
    for _ in range(steps):
        start, busy = time.perf_counter(), time.thread_time()
        output = runner.step(x)
        build += time.thread_time() - busy
        whole += time.perf_counter() - start
        arrays = runner.arrays(output)
        start = time.perf_counter()
        evaluate(arrays)
        whole += time.perf_counter() - start
        del output, arrays
        runner.undo()
    return build / steps, whole / steps


def peak_memory(case: Timed) -> dict[Who, int]:
    """Return the peak bytes of a round of ``case``, each runner alone in memory, its filling not counted."""
    return {who: _peak(who, case) for who in WHO}


def _peak(who: Who, case: Timed) -> int:
    x = case.tokens()
    runner = case.runner(who)
    runner.rewind()
    gc.collect()
    mx.clear_cache()
    mx.reset_peak_memory()
    for _ in range(case.steps):
        evaluate(runner.arrays(runner.step(x)))
        runner.undo()
    return mx.get_peak_memory()


def memory_left(case: Timed) -> dict[Who, int]:
    """Return the bytes that the outcome of one step keeps once all that it was made from is dropped."""
    return {who: _left(who, case) for who in WHO}


def _left(who: Who, case: Timed) -> int:
    x = case.tokens()
    gc.collect()
    before = mx.get_active_memory()
    runner = case.runner(who)
    runner.rewind()
    output = runner.step(x)
    evaluate(runner.arrays(output))
    del runner
    gc.collect()
    left = mx.get_active_memory() - before
    del output
    return left


def ratio(times: Sequence[float], others: Sequence[float]) -> Ratio:
    """Return the ratio of ``times`` to ``others``, round by round."""
    ratios = [time / other for time, other in zip(times, others, strict=True)]
    rng = random.Random(0)  # noqa: S311  # resampling, not secrets
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(400))
    return Ratio(statistics.median(ratios), medians[9], medians[389])
