"""Check one target: the corpus first, then the machines, then the shortest trace of every failure.

Budgets count traces, never seconds: ``quick`` is the corpus alone, ``ci`` some hundred machine traces, ``deep``
thousands. A target that cannot even open is ``TargetError``; a target that fails, hangs or answers nonsense is a
result.
"""

import importlib.metadata
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from attrs import define, evolve, field, frozen

from kvlaw.conformance.corpus import entries_for
from kvlaw.conformance.failures import Failure
from kvlaw.conformance.lockstep import Lockstep, Step
from kvlaw.conformance.machines.base import LockstepMachine, bind, play
from kvlaw.conformance.machines.contract import ContractMachine
from kvlaw.conformance.machines.policies import fitting, served, sweep, told_of
from kvlaw.conformance.machines.protocol import ProtocolMachine
from kvlaw.conformance.machines.recurrent import RecurrentContractMachine
from kvlaw.conformance.machines.rows_contract import RowsContractMachine
from kvlaw.conformance.machines.rows_protocol import RowsProtocolMachine
from kvlaw.conformance.machines.server import RowsServerMachine, ServerMachine
from kvlaw.conformance.result import ArithmeticResult, CheckResult, ClauseResult
from kvlaw.conformance.scope import ruled_out
from kvlaw.conformance.session import Session, StoppedError, within_means
from kvlaw.reference.oracle import Profile
from kvlaw.spec.calls import DAMAGES, AppendDecode, AppendWindow, Call, Load, LookAt, Save, SpoilFile
from kvlaw.spec.clauses import Clause, load_clauses
from kvlaw.spec.config import RECURRENT_KINDS, ROW_KINDS, SERIAL_KINDS, WINDOWED, Config, Kind
from kvlaw.spec.contract import CAPABILITIES, Subject
from kvlaw.spec.trace import Trace

Budget = Literal["quick", "ci", "deep"]


@frozen
class Effort:
    """How many machine traces a budget plays, and of how many rules each; of groups fewer, whose calls show more.

    A rule of a server is several acts of several calls each.
    """

    protocol: int
    contract: int
    steps: int
    rows_protocol: int
    rows_contract: int
    rows_steps: int
    server: int
    server_steps: int


EFFORTS: dict[Budget, Effort] = {
    "quick": Effort(0, 0, 0, 0, 0, 0, 0, 0),
    "ci": Effort(60, 340, 16, 50, 220, 12, 10, 4),
    "deep": Effort(2500, 12000, 30, 1200, 2500, 20, 600, 8),  # more than 50,000 calls of each machine of groups
}


@frozen
class Plan:
    """What to check: the target under its name, the kinds it serves, the profile, the budget and the seed."""

    target: str
    kinds: tuple[Kind, ...]
    profile: Profile = "core"
    budget: Budget = "ci"
    seed: int = 0
    fixed: Mapping[str, Any] = field(factory=dict[str, Any])
    modelled: bool = False


@define
class Progress:
    """What is going on, for a progress display."""

    stage: str = ""
    kind: str = ""
    calls: int = 0
    failures: int = 0


Report = Callable[[Progress], None]
OnCall = Callable[[int], object]


def check(plan: Plan, subject: Subject, report: Report | None = None) -> CheckResult:
    """Check ``subject`` by ``plan``; an interrupt, or the end of memory, keeps what was found so far."""
    started = time.monotonic()
    sessions: list[Session] = []
    interrupted, stopped = False, ""
    try:
        for kind in plan.kinds:
            sessions.append(_session(plan, subject, kind, report))
            if not _play_own(plan, sessions[-1], kind):
                _explore(plan, sessions[-1], kind)
        for session in sessions:
            for clause, failure in list(session.failures.items()):
                session.failures[clause] = _shortest(session, failure, report)
    except KeyboardInterrupt:
        interrupted = True
    except StoppedError as error:
        stopped = str(error)
    stopped = stopped or getattr(subject, "unasked", "")
    swept = [(clause, config) for s in sessions for clause, configs in s.swept.items() for config in configs]
    found = [failure for session in sessions for failure in session.failures.values()]
    failures = [evolve(f, seen=told_of(c for clause, c in swept if clause == f.clause)) for f in found]
    result = _result(plan, subject, sessions, failures)
    return evolve(result, seconds=time.monotonic() - started, interrupted=interrupted, stopped=stopped)


def applicable(clause: Clause, kind: str, capabilities: frozenset[str]) -> str:
    """Say why a clause does not apply to a target of ``kind``; an empty text if it does."""
    if kind not in clause.applies:
        return f"speaks of {', '.join(sorted(clause.applies))} only"
    lacking = sorted(clause.needs - capabilities)
    return f"the target lacks {', '.join(lacking)}: {CAPABILITIES[lacking[0]]}" if lacking else ""


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


def counted(profile: Profile, kind: str, capabilities: frozenset[str]) -> frozenset[str]:
    """List the clauses that count for a target of ``kind`` with these capabilities.

    For groups those of files and prefixes count as well: they hold for the serial caches beside the groups.
    """
    chosen = load_clauses().of_profile(profile)
    beside = [c for c in chosen.values() if kind in ROW_KINDS and not c.needs.isdisjoint(_KEPT)]
    kept = frozenset(c.id for c in beside if not applicable(c, kind.removesuffix("_rows"), capabilities))
    return kept | frozenset(c.id for c in chosen.values() if not applicable(c, kind, capabilities))


_KEPT = ("files", "reuse")
"""What is needed by clauses that speak of caches which are kept."""


def replay(subject: Subject, profile: Profile, trace: Trace, on_call: OnCall | None = None) -> tuple[Step, ...]:
    """Walk one trace by the clauses that count for its kind; ``on_call`` is told the number of each call.

    Raises:
        StoppedError: if the walk itself runs out of memory.
    """
    counts = counted(profile, trace.config.kind, subject.capabilities)
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


def _session(plan: Plan, subject: Subject, kind: Kind, report: Report | None) -> Session:
    ids = counted(plan.profile, kind, subject.capabilities)
    progress = Progress(kind=kind)

    def tell(session: Session) -> None:
        if report is not None:
            progress.stage = session.stage
            progress.calls, progress.failures = session.calls, len(session.failures)
            report(progress)

    fixed = frozenset(plan.fixed)
    return Session(subject, plan.profile, ids, plan.target, plan.modelled, plan.seed, fixed, on_progress=tell)


def _play_own(plan: Plan, session: Session, kind: Kind) -> bool:
    """Play the traces of a subject that has answers to no others, and say whether it is one."""
    own: tuple[Trace, ...] | None = getattr(session.subject, "traces", None)
    session.stage = "recorded traces"
    for trace in own or ():
        if trace.config.kind == kind and _chosen(trace.config, plan):
            session.play(trace)
    return own is not None


def _explore(plan: Plan, session: Session, kind: Kind) -> None:
    session.stage = "stored traces"
    policies = served(session.subject, session.subject.capabilities)
    for entry in entries_for(kind, session.subject.capabilities, plan.profile, policies):
        if _chosen(entry.trace.config, plan):
            session.play(entry.trace)
    window = plan.fixed.get("sinks", 0) + 3 if kind in WINDOWED else None
    plain = Config(kind, window, kv_heads=1, groups=1)
    swept = () if kind in RECURRENT_KINDS else sweep(plain, policies, plan.fixed)
    for config in swept:
        if _chosen(config, plan):
            session.sweep(Trace(config, (AppendWindow(length=2), AppendDecode(), AppendDecode(), LookAt())))
    if "files" in session.subject.capabilities and kind in SERIAL_KINDS:
        for config in (plain,) if "dense" in policies else swept[:1]:
            if _chosen(config, plan):
                _spoil_files(session, config)
    for machine, examples, steps in machines(kind, EFFORTS[plan.budget]):
        if examples:
            session.stage = STAGES[machine]
            play(bind(machine, session, kind, dict(plan.fixed)), examples, steps, plan.seed)


def _chosen(config: Config, plan: Plan) -> bool:
    return all(getattr(config, name) == value for name, value in plan.fixed.items())


def _spoil_files(session: Session, config: Config) -> None:
    """Load a file that was spoilt, in each way: they are few, and most are a clause of their own."""
    for how in DAMAGES:
        spoilt = (SpoilFile(on="f1", how=how), Load(on="f1", as_="c1"))
        session.play(Trace(config, (AppendWindow(length=2), Save(as_="f1"), *spoilt)))


Played = tuple[type[LockstepMachine], int, int]
"""A machine, how many traces it plays, and of how many rules each."""


def machines(kind: Kind, effort: Effort) -> tuple[Played, ...]:
    """Name the machines of a kind of cache, and how much of each a budget plays."""
    if kind in RECURRENT_KINDS:
        rows = kind == "recurrent_rows"
        return (
            (RecurrentContractMachine, effort.rows_contract, effort.rows_steps)
            if rows
            else (RecurrentContractMachine, effort.contract, effort.steps),
        )
    if kind in ROW_KINDS:
        return (
            (RowsProtocolMachine, effort.rows_protocol, effort.rows_steps),
            (RowsContractMachine, effort.rows_contract, effort.rows_steps),
            (RowsServerMachine, effort.server, effort.server_steps),
        )
    return (
        (ProtocolMachine, effort.protocol, effort.steps),
        (ContractMachine, effort.contract, effort.steps),
        (ServerMachine, effort.server, effort.server_steps),
    )


STAGES: Mapping[type[LockstepMachine], str] = {
    **dict.fromkeys((ProtocolMachine, RowsProtocolMachine), "runtime protocol"),
    **dict.fromkeys((ContractMachine, RowsContractMachine, RecurrentContractMachine), "any call"),
    **dict.fromkeys((ServerMachine, RowsServerMachine), "server"),
}
"""What is told while a machine plays."""


def _shortest(session: Session, failure: Failure, report: Report | None) -> Failure:
    if report is not None:
        report(
            Progress(f"shortening {failure.clause}", failure.trace.config.kind, session.calls, len(session.failures))
        )
    return session.shortest(failure)


def _result(plan: Plan, subject: Subject, sessions: Iterable[Session], failures: list[Failure]) -> CheckResult:
    sessions = list(sessions)
    chosen = load_clauses().of_profile(plan.profile)
    results = tuple(_clause_result(clause, plan, subject, sessions, failures) for clause in chosen.values())
    compared, different = sum(s.reads_compared for s in sessions), sum(s.reads_different for s in sessions)
    return CheckResult(
        target=plan.target,
        profile=plan.profile,
        budget=plan.budget,
        seed=plan.seed,
        versions=versions(),
        clauses=results,
        arithmetic=ArithmeticResult(plan.modelled, compared, different),
        calls=sum(s.calls for s in sessions),
        traces=sum(s.traces for s in sessions),
        rules=dict(sum((s.rules for s in sessions), Counter[str]())),
        errors=dict(sum((s.errors for s in sessions), Counter[str]())),
        kinds=plan.kinds,
    )


def _clause_result(
    clause: Clause, plan: Plan, subject: Subject, sessions: list[Session], failures: list[Failure]
) -> ClauseResult:
    whys = [applicable(clause, kind, subject.capabilities) for kind in plan.kinds]
    exercised = sum(s.exercised[clause.id] for s in sessions)
    own = tuple(f for f in failures if f.clause == clause.id)
    if own:
        return ClauseResult(clause, "fail", exercised, own)
    if all(whys) and not exercised:
        return ClauseResult(clause, "not applicable", why=whys[0])
    if not exercised and (why := ruled_out(clause.id, plan.fixed)):
        return ClauseResult(clause, "not applicable", why=why)
    return ClauseResult(clause, "pass" if exercised else "not exercised", exercised)


def versions() -> dict[str, str]:
    """List the versions that a result depends on."""
    names = ("kvlaw", "mlx", "mlx-lm", "numpy", "hypothesis")
    found = {"python": platform.python_version(), "spec": "1.4"}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
