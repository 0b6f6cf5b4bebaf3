"""A trace that ended the process in which it was played: told as the outcome of that trace, like any other.

The trace is what the process had noted (``blackbox``).  It is walked again without the target: the oracle answers in
its place up to the call in which it died, which is answered by an error.  So the crash is charged to the clause to
which any other error of that call would be.
"""

import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from attrs import define, evolve, field

from kvlaw.conformance.blackbox import lines, read
from kvlaw.conformance.failures import Failure, is_crash
from kvlaw.conformance.lockstep import Lockstep, Step
from kvlaw.conformance.parts import Ended, Plan, Task
from kvlaw.conformance.processes import WorkerError
from kvlaw.conformance.scope import counted
from kvlaw.conformance.session import Findings
from kvlaw.reference.oracle import UnknownObjectError
from kvlaw.spec.calls import Call
from kvlaw.spec.config import Config
from kvlaw.spec.contract import Subject
from kvlaw.spec.observations import Observation, Payload
from kvlaw.spec.trace import Trace


@define
class _Dying:
    """The oracle, up to the call in which the target died."""

    inner: Subject
    calls: int
    message: str
    made: int = field(default=0, init=False)

    @property
    def capabilities(self) -> frozenset[str]:
        return self.inner.capabilities

    def open(self, config: Config) -> Observation:
        observation = self.inner.open(config)
        return observation if self.calls else Observation("error", message=self.message)

    def apply(self, call: Call, payload: Payload | None, look: bool) -> Observation:
        self.made += 1
        if self.made >= self.calls:
            return Observation("error", message=self.message)
        return self.inner.apply(call, payload, look)

    def close(self) -> None:
        self.inner.close()


def steps_of(failure: Failure, plan: Plan, capabilities: frozenset[str]) -> tuple[Step, ...]:
    """Tell the steps of a crash without making it happen again."""
    return _steps(failure.trace, failure.divergence.observed.removeprefix("error "), plan, capabilities)


def crash_of(box: Path, error: WorkerError, plan: Plan, capabilities: frozenset[str]) -> Failure | None:
    """Give the failure that a dead process was in; None if it is not known in which."""
    trace = read(box)
    if trace is None:
        return None
    where = lines(box)
    how = error.how.partition(",")[0] + (f" in {where}" if where else "")
    steps = _steps(trace, how, plan, capabilities)
    if not steps or not steps[-1].divergences:
        return None
    first = steps[-1].divergences[0]
    cut = Trace(trace.config, trace.calls[: len(steps) - 1])
    return Failure(first.clause, cut, first, plan.target, plan.profile, seed=plan.seed)


def _steps(trace: Trace, message: str, plan: Plan, capabilities: frozenset[str]) -> tuple[Step, ...]:
    from kvlaw.conformance.subjects.targets import open_target

    clauses = counted(plan.profile, trace.config.kind, capabilities, plan.spec)
    dying = _Dying(open_target("builtin:oracle"), len(trace.calls), message)
    try:
        return Lockstep(dying, plan.profile, clauses).run(trace)
    except UnknownObjectError:
        return ()


_LEFT_OUT = "a process ended in a call; stored traces that begin so, or make that call, were then left out"
MOST = 12
"""How many crashes of one part are taken before it is left."""


@define(eq=False)
class Crashes:
    """The crashes of one check that is played in processes, and where these note what they do."""

    plan: Plan
    capabilities: frozenset[str]
    on_failure: Callable[[Failure], object] | None = None
    found: list[Failure] = field(factory=list[Failure], init=False)
    """The crashes, and what parts had found when they crashed."""
    _folder: "tempfile.TemporaryDirectory[str] | None" = field(default=None, init=False)

    def folder(self) -> str:
        """Give the folder in which each process notes its calls, and saves files; nothing where there is no room."""
        with suppress(OSError):
            self._folder = self._folder or tempfile.TemporaryDirectory(prefix="kvlaw-", ignore_cleanup_errors=True)
        return self._folder.name if self._folder is not None else ""

    @property
    def trouble(self) -> Counter[str]:
        """Say how often a process ended, and what was left out for that."""
        count = sum(is_crash(failure.divergence) for failure in self.found)
        return Counter({_LEFT_OUT: count} if count else {})

    def close(self) -> None:
        """Remove the folder."""
        if self._folder is not None:
            self._folder.cleanup()

    def recovered(self, task: Task, error: WorkerError, going: Findings | None) -> Task:
        """Go on behind a process that died: keep the crash, and give what is to be done in its place.

        Stored traces are played again without the one that crashed; of a machine, which would draw it again, what it
        had found by then is kept.  A failure that cannot be shortened without a crash stays as it is.

        Raises:
            WorkerError: if it is not known at which call the process died.
        """
        if isinstance(task.what, Failure):
            return evolve(task, instead=task.what)
        failure = crash_of(Path(self.folder()) / str(error.pid), error, self.plan, self.capabilities)
        if failure is None:
            raise error
        self.found += [failure, *(going.failures.values() if going is not None else ())]
        if self.on_failure is not None:
            self.on_failure(failure)
        part = task.what
        if part.machine is None and len(part.avoided) < MOST:
            return evolve(task, what=evolve(part, avoided=(*part.avoided, failure.trace)))
        return evolve(task, instead=Ended(going or Findings()))


__all__ = ["MOST", "Crashes", "crash_of", "steps_of"]
