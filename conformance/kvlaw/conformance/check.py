"""Check one target: play the parts of its plan, here or in processes, and shorten the trace of every failure.

Budgets count traces, never seconds: ``quick`` is the stored traces alone, ``ci`` some hundred machine traces, ``deep``
thousands. A target that cannot even open is ``TargetError``; a target that fails, hangs or answers nonsense is a
result.
"""

import importlib.metadata
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attrs import define, evolve, field, frozen

from kvlaw.conformance.crashes import Crashes
from kvlaw.conformance.database import reached
from kvlaw.conformance.expectations.outcomes import accounted
from kvlaw.conformance.expectations.steering import Known
from kvlaw.conformance.expectations.witnesses import Witness, replayed
from kvlaw.conformance.failures import Failure, is_crash
from kvlaw.conformance.interrupts import ending
from kvlaw.conformance.lockstep import Lockstep, Step
from kvlaw.conformance.machines.policies import fitting, served, told_of
from kvlaw.conformance.parts import (
    EFFORTS,
    STAGES,
    Budget,
    Elsewhere,
    Ended,
    Far,
    Open,
    Part,
    Plan,
    Player,
    Task,
    carry_out,
    close_here,
    machines,
    parts,
    with_shared,
)
from kvlaw.conformance.processes import Pool, WorkerError
from kvlaw.conformance.result import ArithmeticResult, CheckResult, ClauseResult
from kvlaw.conformance.scope import applicable, counted, ruled_out
from kvlaw.conformance.session import Findings, Session, StoppedError, within_means
from kvlaw.reference.oracle import Profile
from kvlaw.spec.calls import Call
from kvlaw.spec.clauses import Clause, load_clauses
from kvlaw.spec.config import WINDOWED, Config, Kind
from kvlaw.spec.contract import Subject
from kvlaw.spec.trace import Trace


@define
class Progress:
    """What is going on, for a progress display."""

    stage: str = ""
    kind: str = ""
    calls: int = 0
    failures: int = 0
    done: int = 0
    parts: int = 0
    """How many parts of the check have ended, and of how many."""


Report = Callable[[Progress], None]
OnCall = Callable[[int], object]
OnFailure = Callable[[Failure], object]


@frozen(eq=False)
class Processes:
    """Where parts are played: in the processes of a pool, which open the target for themselves."""

    pool: Pool
    open: Open


def check(
    plan: Plan,
    subject: Subject,
    report: Report | None = None,
    processes: Processes | None = None,
    on_failure: OnFailure | None = None,
    until: float | None = None,
) -> CheckResult:
    """Check ``subject`` by ``plan``; an interrupt, or the end of memory, keeps what was found so far.

    Args:
        plan: what to check, and how much.
        subject: the target; other processes open it again.
        report: told how far the check is.
        processes: where to play; without them everything is played here.
        on_failure: told of each failure when it is found, and again when it has been shortened.
        until: when to stop by the monotonic clock, where failures are learnt; budgets of others count traces.
    """
    started = time.monotonic()
    run = _Run(plan, subject, report, processes, on_failure, until)
    interrupted = False
    try:
        run.replay()
        run.play()
        run.shorten()
        run.tidy()
    except KeyboardInterrupt:
        ending()
        interrupted = True
        if processes is not None:  # none goes on to write where we remove
            processes.pool.close()
    except WorkerError as error:
        run.stopped = f"{error}; to find the call, check it in a process of its own: cmd:kvlaw testee serve TARGET"
    finally:
        close_here()
        run.crashed.close()
    whole = run.whole()
    result = accounted(_result(plan, subject, whole), whole[0], run.witnesses)
    seconds = time.monotonic() - started
    stopped = run.stopped or getattr(subject, "unasked", "")
    left = run.left if stopped else ()
    return evolve(result, seconds=seconds, interrupted=interrupted or run.interrupted, stopped=stopped, left=left)


@define
class _Run:
    """A check that goes on: what its parts found, and how far those are that are not at their end."""

    plan: Plan
    subject: Subject
    report: Report | None
    processes: Processes | None
    on_failure: OnFailure | None
    until: float | None = None
    parts: tuple[Part, ...] = field(init=False)
    ended: dict[int, Ended] = field(factory=dict[int, Ended], init=False)
    going: dict[int, Findings] = field(factory=dict[int, Findings], init=False)
    shortest: dict[tuple[str, str], Failure] = field(factory=dict[tuple[str, str], Failure], init=False)
    calls: int = field(default=0, init=False)
    failing: set[str] = field(factory=set[str], init=False)
    """What the parts that have ended add up to: a campaign has very many."""
    saved: set[Trace] = field(factory=set[Trace], init=False)
    """The traces of all failures that were told, each of which a database was given."""
    stopped: str = field(default="", init=False)
    witnesses: tuple[Witness, ...] = field(default=(), init=False)
    player: Player = field(init=False)
    crashed: Crashes = field(init=False)

    def __attrs_post_init__(self) -> None:
        """List the parts."""
        self.parts = tuple(with_shared(self.plan, part) for part in parts(self.plan))
        self.player = Player(self.plan, self.subject, until=self.until)
        self.crashed = Crashes(self.plan, self.subject.capabilities, self.on_failure)

    @property
    def interrupted(self) -> bool:
        """A part says that it was interrupted."""
        return any(ended.interrupted for ended in self.ended.values())

    @property
    def left(self) -> tuple[str, ...]:
        """Name the parts that were not played to their end, each sort of a kind once."""
        left = (part for index, part in enumerate(self.parts) if not (ended := self.ended.get(index)) or ended.stopped)
        return tuple(dict.fromkeys(f"{part.kind}: {part.stage}" for part in left))

    def replay(self) -> None:
        """Replay what is listed, before all else; what holds is gone around from then on."""
        plan = self.plan
        sessions: dict[Kind, Session] = {kind: self.player.session(kind) for kind in plan.kinds}
        try:
            self.witnesses = replayed(sessions, plan.expected, plan.profile, plan.called or plan.target, plan.fixed)
        except StoppedError as error:
            self.stopped = str(error)

    def play(self) -> None:
        """Play every part; stop behind one that ended before its time."""
        for index, ended in self._spread(() if self.stopped else self.parts, self._told):
            self.ended[index] = ended
            self.going.pop(index, None)
            self.calls += ended.findings.calls
            self.failing |= ended.findings.failures.keys()
            self.stopped = self.stopped or ended.stopped
            if ended.interrupted or ended.stopped:
                break

    def shorten(self) -> None:
        """Shorten the trace of each failure that was found, one of each clause and kind; a crash stays as it is."""
        whole = not (self.interrupted or self.stopped)
        found = [failure for failure in self._found().values() if whole and not is_crash(failure.divergence)]

        def told(index: int, _: Any) -> None:
            self._tell(f"shortening {found[index].clause}", found[index].trace.config.kind)

        shorter: Iterator[tuple[int, Failure]] = self._spread(found, told)
        for index, failure in shorter:
            self.shortest[_place(found[index])] = failure
            if self.on_failure is not None:
                self.on_failure(failure)

    def tidy(self) -> None:
        """Drop shared traces that a whole check has outlived, and those that it found on the way to the shortest.

        Without the newest clauses nobody can say that a trace passes.
        """
        plan = self.plan
        if not plan.database or self.interrupted or self.stopped or plan.spec not in ("", load_clauses().versions[-1]):
            return
        shortest = {failure.trace for failure in self.shortest.values()}
        outlived = {trace for ended in self.ended.values() for trace in ended.findings.outlived}
        for trace in (outlived | self.saved) - shortest:
            reached(plan.database).drop(plan.target, plan.profile, trace)

    def whole(self) -> tuple[Findings, list[Failure]]:
        """Add up what was found, with the failures as short as they are known."""
        whole = Findings()
        whole.errors.update(self.crashed.trouble)
        for index in range(len(self.parts)):
            if (part := self._of(index)) is not None:
                whole.add(part)
        return whole, [self.shortest.get(place, failure) for place, failure in self._found().items()]

    def _of(self, index: int) -> Findings | None:
        ended = self.ended.get(index)
        return ended.findings if ended is not None else self.going.get(index)

    def _found(self) -> dict[tuple[str, str], Failure]:
        """Give the shortest failure of each clause and kind of cache, in the order of the parts."""
        kinds: dict[Kind, Findings] = {}
        for index, part in enumerate(self.parts):
            if (findings := self._of(index)) is not None:
                kinds.setdefault(part.kind, Findings()).add(findings)
        for failure in self.crashed.found:
            kinds.setdefault(failure.trace.config.kind, Findings()).found(failure)
        return {_place(failure): failure for one in kinds.values() for failure in one.failures.values()}

    def _spread(self, items: "tuple[Part, ...] | list[Failure]", told: Callable[[int, Any], None]) -> Any:
        if self.processes is None:
            return Pool(1).spread(self.player.carry_out, items, told)
        listed: dict[Kind, tuple[Known, ...]] = {
            kind: tuple(self.player.session(kind).steering.known) for kind in self.plan.kinds
        }
        boxes = self.crashed.folder()
        elsewhere = Elsewhere(self.plan, self.processes.open, listed, boxes)
        tasks = [Task(elsewhere, item) for item in items]

        def recover(index: int, error: WorkerError) -> Task:
            tasks[index] = self.crashed.recovered(tasks[index], error, self.going.get(index))
            return tasks[index]

        return self.processes.pool.spread(carry_out, list(tasks), told, recover)

    def _told(self, index: int, what: "Far | Failure") -> None:
        """Hear how far a part is, or what it has found."""
        going = self.going.setdefault(index, Findings())
        if isinstance(what, Failure):
            going.found(what)
            self.saved.add(what.trace)
            if self.on_failure is not None:
                self.on_failure(what)
        else:
            going.calls = what.calls
        part = self.parts[index]
        self._tell(part.stage, part.kind)

    def _tell(self, stage: str, kind: str) -> None:
        if self.report is not None:
            going = self.going.values()
            clauses = self.failing.union(*(one.failures for one in going))
            calls = self.calls + sum(one.calls for one in going)
            self.report(Progress(stage, kind, calls, len(clauses), len(self.ended), len(self.parts)))


def _place(failure: Failure) -> tuple[str, str]:
    return failure.clause, failure.trace.config.kind


def probe(subject: Subject, kinds: tuple[Kind, ...], fixed: Mapping[str, Any]) -> str:
    """Open one plain cache of each kind; say which cannot be opened, and why, or nothing."""
    for kind in kinds if getattr(subject, "traces", None) is None else ():
        window = {"window": fixed.get("sinks", 0) + 4} if kind in WINDOWED else {}
        policy = fitting(served(subject, subject.capabilities), fixed)
        start = {} if "affine" in policy else {"start": 4}
        given: dict[str, Any] = {**window, **({} if "dense" in policy else {"bits": 8, **start}), **fixed}
        config = Config(kind, **given)
        observation = subject.open(config)
        if not observation.ok:
            return f"a {config.describe()} cache: {observation.message or observation.outcome}"
    return ""


def replay(
    subject: Subject, profile: Profile, trace: Trace, on_call: OnCall | None = None, spec: str = ""
) -> tuple[Step, ...]:
    """Walk one trace by the clauses that count for its kind; ``on_call`` is told the number of each call.

    Raises:
        StoppedError: if the walk itself runs out of memory.
    """
    counts = counted(profile, trace.config.kind, subject.capabilities, spec)
    with within_means():
        return Walk(subject, profile, counts, on_call).run(trace)


class Walk(Lockstep):
    """A walk that tells the number of each call before it is made."""

    def __init__(self, subject: Subject, profile: Profile, clauses: frozenset[str], on_call: OnCall | None) -> None:
        """Make a run in which ``clauses`` count."""
        super().__init__(subject, profile, clauses)
        self.on_call = on_call

    def step(self, call: Call) -> Step:
        """Tell, then make the call."""
        if self.on_call is not None:
            self.on_call(len(self.steps))
        return super().step(call)


def _result(plan: Plan, subject: Subject, whole: tuple[Findings, list[Failure]]) -> CheckResult:
    findings, found = whole
    swept = [(clause, config) for clause, configs in findings.swept.items() for config in configs]
    failures = [evolve(f, seen=told_of(c for clause, c in swept if clause == f.clause)) for f in found]
    chosen = load_clauses().of_version(plan.spec).of_profile(plan.profile)
    return CheckResult(
        target=plan.target,
        profile=plan.profile,
        budget=plan.budget,
        seed=plan.seed,
        versions=versions(plan.spec),
        clauses=tuple(_clause_result(clause, plan, subject, findings, failures) for clause in chosen.values()),
        arithmetic=ArithmeticResult(plan.modelled, findings.reads_compared, findings.reads_different),
        calls=findings.calls,
        traces=findings.traces,
        rules=dict(findings.rules),
        errors=dict(findings.errors),
        kinds=plan.kinds,
        shard=plan.shard,
    )


def _clause_result(
    clause: Clause, plan: Plan, subject: Subject, findings: Findings, failures: list[Failure]
) -> ClauseResult:
    whys = [applicable(clause, kind, subject.capabilities) for kind in plan.kinds]
    exercised = findings.exercised[clause.id]
    own = tuple(f for f in failures if f.clause == clause.id)
    if own:
        return ClauseResult(clause, "fail", exercised, own)
    if all(whys) and not exercised:
        return ClauseResult(clause, "not applicable", why=whys[0])
    if not exercised and (why := ruled_out(clause.id, plan.fixed)):
        return ClauseResult(clause, "not applicable", why=why)
    failing = {failure.clause for failure in failures}
    if not exercised and (blockers := sorted(findings.hidden.get(clause.id, set[str]()) & failing)):
        return ClauseResult(clause, "blocked", why=f"blocked by {', '.join(blockers)}")
    return ClauseResult(clause, "pass" if exercised else "not exercised", exercised)


def versions(spec: str = "") -> dict[str, str]:
    """List the versions that a result depends on; ``spec`` is the one that is checked, the newest without one."""
    names = ("kvlaw", "mlx", "mlx-lm", "numpy", "hypothesis")
    found = {"python": platform.python_version(), "spec": spec or load_clauses().versions[-1]}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


__all__ = [
    "EFFORTS",
    "STAGES",
    "Budget",
    "Plan",
    "Processes",
    "Progress",
    "Report",
    "Walk",
    "applicable",
    "check",
    "counted",
    "machines",
    "probe",
    "replay",
    "versions",
]
