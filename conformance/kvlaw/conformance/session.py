"""What a check gathers while traces run: coverage by clause, failures by clause, counts of calls and rules.

``Session.play`` walks one stored trace; machines walk their own with ``Session.lockstep`` and report each step to
``Session.note``.  Nothing here chooses calls, and nothing raises because a cache fails.
"""

import time
from collections import Counter
from collections.abc import Callable

from attrs import define, evolve, field

from kvlaw.conformance.failures import Failure
from kvlaw.conformance.lockstep import Lockstep, Step
from kvlaw.conformance.minimise import Minimised, minimise
from kvlaw.reference.oracle import Profile
from kvlaw.spec.calls import Call
from kvlaw.spec.config import Config
from kvlaw.spec.contract import Subject
from kvlaw.spec.trace import Trace


@define
class Session:
    """One check of one subject under one profile."""

    subject: Subject
    profile: Profile
    clauses: frozenset[str]
    target: str = ""
    arithmetic: bool = False
    seed: int = 0
    exercised: Counter[str] = field(factory=Counter[str])
    failures: dict[str, Failure] = field(factory=dict[str, Failure])
    rules: Counter[str] = field(factory=Counter[str])
    calls: int = 0
    traces: int = 0
    reads_compared: int = 0
    reads_different: int = 0
    errors: Counter[str] = field(factory=Counter[str])
    started: float = field(factory=time.monotonic)
    stage: str = ""
    on_progress: Callable[["Session"], None] | None = None

    def lockstep(self) -> Lockstep:
        """Make a fresh lockstep run."""
        self.traces += 1
        return Lockstep(self.subject, self.profile, self.clauses, arithmetic=self.arithmetic)

    def play(self, trace: Trace) -> tuple[Step, ...]:
        """Walk a stored trace and note every step."""
        run = self.lockstep()
        steps = run.run(trace)
        for index, step in enumerate(steps):
            self.note(trace.config, tuple(trace.calls[:index]), step)
        self.close(run)
        return steps

    def note(self, config: Config, calls: tuple[Call, ...], step: Step) -> None:
        """Take one step into account: coverage, and the first divergence of its trace."""
        self.calls += step.call is not None
        self.exercised.update(step.exercised)
        if step.record.outcome == "error":
            self.errors[step.message] += 1
        if step.divergences:
            first = step.divergences[0]
            known = self.failures.get(first.clause)
            trace = Trace(config, calls)
            if known is None or _size(trace) < _size(known.trace):
                self.failures[first.clause] = Failure(first.clause, trace, first, self.target, seed=self.seed)
        if self.on_progress is not None and self.calls % 20 == 0:
            self.on_progress(self)

    def close(self, run: Lockstep) -> None:
        """Take a finished run's arithmetic into account."""
        self.reads_compared += run.arithmetic.reads
        self.reads_different += run.arithmetic.different

    def shortest(self, failure: Failure, most: int = 600) -> Failure:
        """Shorten a failing trace, keeping the clause that it is charged to."""
        last: dict[Trace, Failure] = {}

        def fails(candidate: Trace) -> bool:
            steps = Lockstep(self.subject, self.profile, self.clauses).run(candidate)
            found = steps[-1].divergences
            if found and found[0].clause == failure.clause:
                last[candidate] = evolve(failure, trace=candidate, divergence=found[0], minimal=True)
                return True
            return False

        result: Minimised = minimise(failure.trace, fails, most)
        return last.get(result.trace, evolve(failure, minimal=result.complete))


def _size(trace: Trace) -> tuple[int, int]:
    return len(trace.calls), sum(call.appends for call in trace.calls) + (trace.config.window or 0)
