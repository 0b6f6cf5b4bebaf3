"""The parts of a check: what is played at a time, here or in a process of its own.

A check of a kind of cache is its stored traces, the traces that others found (``database``), and the traces of each
machine, in parts of some dozens.  The parts depend on the plan alone, never on how many processes play them, and what
they find adds up (``Findings``); so one process, two, or the shards of a matrix find the same.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from attrs import Factory, define, evolve, field, frozen

from kvlaw.conformance import blackbox
from kvlaw.conformance.corpus import entries_for
from kvlaw.conformance.database import reached
from kvlaw.conformance.expectations.entries import Expected
from kvlaw.conformance.expectations.steering import Known
from kvlaw.conformance.failures import Failure
from kvlaw.conformance.interrupts import ending
from kvlaw.conformance.machines.base import LockstepMachine, bind, play
from kvlaw.conformance.machines.contract import ContractMachine
from kvlaw.conformance.machines.policies import served, sweep
from kvlaw.conformance.machines.protocol import ProtocolMachine
from kvlaw.conformance.machines.recurrent import RecurrentContractMachine
from kvlaw.conformance.machines.rows_contract import RowsContractMachine
from kvlaw.conformance.machines.rows_protocol import RowsProtocolMachine
from kvlaw.conformance.machines.server import RowsServerMachine, ServerMachine
from kvlaw.conformance.processes import Tell
from kvlaw.conformance.scope import counted
from kvlaw.conformance.session import Findings, Session, StoppedError
from kvlaw.reference.oracle import Profile, UnknownObjectError
from kvlaw.spec.calls import DAMAGES, AppendDecode, AppendWindow, Load, LookAt, Save, SpoilFile
from kvlaw.spec.config import RECURRENT_KINDS, ROW_KINDS, SERIAL_KINDS, WINDOWED, Config, Kind
from kvlaw.spec.contract import Subject
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


def _effort(plan: "Plan") -> Effort:
    return EFFORTS[plan.budget]


@frozen
class Plan:
    """What to check: the target under its name, the kinds it serves, the profile, the budget and the seed.

    ``seeds``: how many seeds the machines are played from, counted from ``seed``.
    ``shard``: (i, n) plays the i-th of n shares of the parts, counted from 1.
    ``spec``: the version of the specification whose clauses count; empty for the newest.
    ``database``: where traces that others found are kept, and what is found here (``open_database``).
    ``effort``: how much the machines play; without it what the budget says.
    ``expected``: the failures that are listed for the target, by what they call it (``called``); with ``learn`` those
    that are found are listed as well, and gone around.
    """

    target: str
    kinds: tuple[Kind, ...]
    profile: Profile = "core"
    budget: Budget = "ci"
    seed: int = 0
    fixed: Mapping[str, Any] = field(factory=dict[str, Any])
    modelled: bool = False
    seeds: int = 1
    shard: tuple[int, int] = (1, 1)
    spec: str = ""
    database: str = ""
    effort: Effort = field(default=Factory(_effort, takes_self=True))
    expected: tuple[Expected, ...] = ()
    called: str = ""
    learn: bool = False


Machine = type[LockstepMachine]
Played = tuple[Machine, int, int]
"""A machine, how many traces it plays, and of how many rules each."""
Stage = Literal["stored traces", "shared traces", "runtime protocol", "any call", "server"]


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


STAGES: Mapping[Machine, Stage] = {
    **dict.fromkeys((ProtocolMachine, RowsProtocolMachine), "runtime protocol"),
    **dict.fromkeys((ContractMachine, RowsContractMachine, RecurrentContractMachine), "any call"),
    **dict.fromkeys((ServerMachine, RowsServerMachine), "server"),
}
"""What is told while a machine plays."""


@frozen
class Part:
    """What is played at a time: stored traces of a kind, or some traces of a machine from one seed."""

    kind: Kind
    stage: Stage
    machine: Machine | None = None
    examples: int = 0
    steps: int = 0
    seed: int = 0
    shared: tuple[Trace, ...] = ()
    """What others had found when the check began, and not what it finds itself."""
    avoided: tuple[Trace, ...] = ()
    """Traces that end the process in which they are played; stored traces that begin so are left out.

    Once they are many, so are stored traces that make the calls in which these ended.
    """

    @property
    def name(self) -> str:
        """Say what is played."""
        return f"{self.kind}, {self.stage}" + (f", seed {self.seed}" if self.machine else "")


_FEWEST, _MOST = 5, 100
"""How many traces of a machine are a part, at least and at most."""
_SEEDS = 1_000_003
"""How far apart the seeds of two parts are, so that those of two neighbouring seeds differ."""


def parts(plan: Plan) -> tuple[Part, ...]:
    """List the parts of a plan, of its own shard."""
    found: list[Part] = []
    for kind in plan.kinds:
        if plan.database:
            found.append(Part(kind, "shared traces"))
        found.append(Part(kind, "stored traces"))
        for machine, examples, steps in machines(kind, plan.effort):
            for seed in range(plan.seed, plan.seed + plan.seeds):
                found += _parts_of(kind, machine, examples, steps, seed)
    share, of = plan.shard
    return tuple(found[share - 1 :: of])


def with_shared(plan: Plan, part: Part) -> Part:
    """Give a part of shared traces those that the database has now."""
    if part.stage != "shared traces":
        return part
    return evolve(part, shared=reached(plan.database).traces(plan.target, part.kind, plan.profile))


def _parts_of(kind: Kind, machine: Machine, examples: int, steps: int, seed: int) -> list[Part]:
    size = min(_MOST, max(_FEWEST, -(-examples // 4)))
    sizes = [min(size, examples - done) for done in range(0, examples, size)]
    return [Part(kind, STAGES[machine], machine, n, steps, seed + i * _SEEDS) for i, n in enumerate(sizes)]


@frozen
class Ended:
    """What a part found, and why it ended before its time, if it did."""

    findings: Findings
    interrupted: bool = False
    stopped: str = ""


@frozen
class Far:
    """How far a part is, told on the way."""

    calls: int
    failures: int


Listed = Mapping[Kind, tuple[Known, ...]]
"""What is to be gone around, for each kind of cache."""


@define
class Player:
    """Plays parts of one plan on a subject, and shortens what they find; goes around what is ``listed``."""

    plan: Plan
    subject: Subject
    listed: Listed = field(factory=dict[Kind, tuple[Known, ...]])
    until: float | None = None
    _sessions: dict[Kind, Session] = field(factory=dict[Kind, Session], init=False)

    def carry_out(self, what: Part | Failure, tell: Tell) -> Ended | Failure:
        """Play a part, or shorten a failure."""
        return self.play(what, tell) if isinstance(what, Part) else self.shorten(what, tell)

    def play(self, part: Part, tell: Tell) -> Ended:
        """Play a part; an interrupt, or the end of memory, keeps what was found so far.

        Tells ``Far``, and each ``Failure`` when it is found.
        """
        session = self.session(part.kind)
        session.on_progress = lambda known: tell(Far(known.calls, len(known.failures)))
        session.on_failure = lambda failure: self._failed(failure, tell)
        interrupted, stopped = False, ""
        try:
            session.steering.turn()
            self._play(part, session)
        except KeyboardInterrupt:
            ending()
            interrupted = True
        except StoppedError as error:
            stopped = str(error)
        return Ended(session.take(), interrupted, stopped)

    def _failed(self, failure: Failure, tell: Tell) -> None:
        if self.plan.database:
            reached(self.plan.database).save(failure)
        tell(failure)

    def shorten(self, failure: Failure, tell: Tell) -> Failure:
        """Give a failure with the shortest trace that is found; keep it for others.

        One that cannot be walked again (the target is gone, say) stays as it is.
        """
        tell(Far(0, 0))
        try:
            shortest = self.session(failure.trace.config.kind).shortest(failure)
        except StoppedError:
            return failure
        if self.plan.database:
            reached(self.plan.database).replace(failure, shortest)
        return shortest

    def session(self, kind: Kind) -> Session:
        """Give the session of a kind of cache."""
        if kind not in self._sessions:
            plan = self.plan
            ids = counted(plan.profile, kind, self.subject.capabilities, plan.spec)
            fixed = frozenset(plan.fixed)
            made = Session(self.subject, plan.profile, ids, plan.target, plan.modelled, plan.seed, fixed)
            made.steering.known += self.listed.get(kind, ())
            made.steering.learn, made.until = plan.learn, self.until
            self._sessions[kind] = made
        return self._sessions[kind]

    def _play(self, part: Part, session: Session) -> None:
        own: tuple[Trace, ...] | None = getattr(self.subject, "traces", None)
        if own is not None:  # it has answers to no others
            for trace in own if part.stage == "stored traces" else ():
                if trace.config.kind == part.kind and self._is_played(trace, part):
                    session.play(trace)
        elif part.machine is not None:
            machine = bind(part.machine, session, part.kind, dict(self.plan.fixed))
            play(machine, part.examples, part.steps, part.seed)
        elif part.stage == "shared traces":
            for trace in part.shared:
                if self._is_played(trace, part):
                    with suppress(UnknownObjectError):  # somebody else's text: nobody can be asked it
                        session.play_shared(trace)
        else:
            self._play_stored(part, session)

    def _play_stored(self, part: Part, session: Session) -> None:
        kind, fixed, capabilities = part.kind, self.plan.fixed, session.subject.capabilities
        policies = served(session.subject, capabilities)
        for entry in entries_for(kind, capabilities, self.plan.profile, policies):
            if self._is_played(entry.trace, part):
                session.play(entry.trace, entry.expect)
        window = fixed.get("sinks", 0) + 3 if kind in WINDOWED else None
        plain = Config(kind, window, kv_heads=1, groups=1)
        swept = () if kind in RECURRENT_KINDS else sweep(plain, policies, fixed)
        for config in swept:
            swept_by = Trace(config, (AppendWindow(length=2), AppendDecode(), AppendDecode(), LookAt()))
            if self._is_played(swept_by, part):
                session.sweep(swept_by)
        if "files" in capabilities and kind in SERIAL_KINDS:
            for config in (plain,) if "dense" in policies else swept[:1]:
                for trace in _spoiling(config):
                    if self._is_played(trace, part):
                        session.play(trace)

    def _is_played(self, trace: Trace, part: Part) -> bool:
        """Say whether a trace has the fields that are fixed, and does not begin as one that the part avoids."""
        chosen = all(getattr(trace.config, name) == value for name, value in self.plan.fixed.items())
        return chosen and not _begins(trace, part.avoided)


def _begins(trace: Trace, avoided: tuple[Trace, ...]) -> bool:
    """Say whether a trace begins with one that is avoided."""
    return any(_alike(trace, one) for one in avoided) or (
        len(avoided) >= _MANY and any(_has(trace, a) for a in avoided)
    )


_MANY = 6
"""After so many crashes what crashes is taken to be a call, not a trace."""


def _alike(trace: Trace, one: Trace) -> bool:
    return trace.config == one.config and trace.calls[: len(one.calls)] == one.calls


def _has(trace: Trace, one: Trace) -> bool:
    """Say whether a trace makes the call in which another one crashed, as late or later."""
    verb, first = one.calls[-1].verb if one.calls else "", len(one.calls) - 1
    return any(call.verb == verb for call in trace.calls[first:])


def _spoiling(config: Config) -> Iterator[Trace]:
    """Load a file that was spoilt, in each way: they are few, and most are a clause of their own."""
    for how in DAMAGES:
        spoilt = (SpoilFile(on="f1", how=how), Load(on="f1", as_="c1"))
        yield Trace(config, (AppendWindow(length=2), Save(as_="f1"), *spoilt))


Open = Callable[[], Subject]


@frozen(eq=False)
class Elsewhere:
    """What another process needs to play: the plan, how the target is opened there, and what is to be gone around."""

    plan: Plan
    open: Open
    listed: Listed = field(factory=dict[Kind, tuple[Known, ...]])
    boxes: str = ""
    """The folder in which each process notes its calls, under its number."""

    @property
    def player(self) -> Player:
        """Give the player of this process, which keeps its target open from one part to the next."""
        if _PLAYING.get("plan") != self.plan:
            close_here()
            if self.boxes:
                blackbox.begin(Path(self.boxes) / str(os.getpid()), stack=True)
            _PLAYING.update(plan=self.plan, player=Player(self.plan, self.open(), self.listed))
        player: Player = _PLAYING["player"]
        return player


_PLAYING: dict[str, Any] = {}


def close_here() -> None:
    """Let go of the target of this process."""
    if _PLAYING:
        _PLAYING.pop("plan")
        _PLAYING.pop("player").subject.close()


@frozen(eq=False)
class Task:
    """A part, or a failure to shorten, with what a process needs for it; or what is the result ``instead``."""

    elsewhere: Elsewhere
    what: Part | Failure
    instead: Ended | Failure | None = None

    @property
    def name(self) -> str:
        """Say what it is, and of which target."""
        return f"{self.elsewhere.plan.target} ({getattr(self.what, 'name', self.what)})"


def carry_out(task: Task, tell: Tell) -> Ended | Failure:
    """Play a part in this process, or shorten a failure; say so where the target cannot be opened here."""
    if task.instead is not None:
        return task.instead
    try:
        player = task.elsewhere.player
    except StoppedError as error:
        return Ended(Findings(), stopped=str(error)) if isinstance(task.what, Part) else task.what
    return player.carry_out(task.what, tell)
