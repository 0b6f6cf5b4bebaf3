"""What a check gathers while traces run: coverage by clause, failures by clause, counts of calls and rules.

``Session.play`` walks one stored trace; machines walk their own with ``Session.lockstep`` and report each step to
``Session.note``.  Nothing here chooses calls, and nothing raises because a cache fails. Where failures are listed
(``steering``), a trace that meets one goes on without what sets it off (``Session.go_on``).
"""

import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager

import attrs
from attrs import define, evolve, field, frozen

from kvlaw.conformance.compare import Divergence
from kvlaw.conformance.expectations.detours import Detour
from kvlaw.conformance.expectations.entries import Expected
from kvlaw.conformance.expectations.marks import Mark, mark_of
from kvlaw.conformance.expectations.steering import MOST_DETOURS, MOST_LEARNT, Steering
from kvlaw.conformance.failures import Failure
from kvlaw.conformance.lockstep import Lockstep, Step
from kvlaw.conformance.minimise import Minimised, acted_on, minimise
from kvlaw.reference.oracle import Profile, UnknownObjectError
from kvlaw.spec.calls import Append, Call, Clone, Load, Save, SpoilFile
from kvlaw.spec.config import Config
from kvlaw.spec.contract import Subject
from kvlaw.spec.trace import Trace


class StoppedError(BaseException):
    """The check itself cannot go on; the text says why. Hypothesis takes it for no failure of a trace."""


class TargetGoneError(StoppedError):
    """The target cannot be run any more."""


class OutOfTimeError(StoppedError):
    """The time is over that was given to a check which lists failures; no other check has such an end."""


@contextmanager
def within_means() -> Generator[None]:
    """Say so where the suite itself runs out of memory or stack; what a target runs out of is its own outcome."""
    try:
        yield
    except MemoryError as error:
        raise StoppedError("the check ran out of memory; fix a smaller batch, heads, D or window") from error
    except RecursionError as error:
        raise StoppedError("the check ran out of stack; does the target set Python's recursion limit?") from error


@frozen
class Way:
    """A trace that goes on behind listed failures: its walk, its calls, what it asks no more, its detours so far."""

    run: Lockstep
    calls: tuple[Call, ...]
    avoided: frozenset[Mark]
    made: int


@define
class Findings:
    """What was found by some traces; those of parts that were played apart add up to those of the whole."""

    exercised: Counter[str] = field(factory=Counter[str], init=False)
    failures: dict[str, Failure] = field(factory=dict[str, Failure], init=False)
    swept: dict[str, list[Config]] = field(factory=dict[str, list[Config]], init=False)
    rules: Counter[str] = field(factory=Counter[str], init=False)
    calls: int = field(default=0, init=False)
    traces: int = field(default=0, init=False)
    reads_compared: int = field(default=0, init=False)
    reads_different: int = field(default=0, init=False)
    errors: Counter[str] = field(factory=Counter[str], init=False)
    hidden: dict[str, set[str]] = field(factory=dict[str, set[str]], init=False)
    """A clause to those whose failures ended a stored trace that is about it."""
    behind: dict[str, set[str]] = field(factory=dict[str, set[str]], init=False)
    """A clause to those whose listed failures stood before its situation."""
    alike: dict[str, set[str]] = field(factory=dict[str, set[str]], init=False)
    """A clause to the names of the failures that are listed for other clauses and break it as well."""
    met: Counter[str] = field(factory=Counter[str], init=False)
    """How often each listed failure was met."""
    detours: int = field(default=0, init=False)
    """How often a trace went on behind a listed failure."""
    outlived: list[Trace] = field(factory=list[Trace], init=False)
    """Shared traces that do not fail any more, or fail by what is found here as well."""
    learnt: list[Failure] = field(factory=list[Failure], init=False)
    """Failures that were found and not listed, where they were to be learnt."""

    def add(self, other: "Findings") -> None:
        """Take in what another part found; of two failures of a clause the shorter one stays."""
        for failure in other.failures.values():
            self.found(failure)
        for clause, configs in other.swept.items():
            self.swept.setdefault(clause, []).extend(configs)
        for mine, others in ((self.hidden, other.hidden), (self.behind, other.behind), (self.alike, other.alike)):
            for clause, blockers in others.items():
                mine.setdefault(clause, set()).update(blockers)
        self.met.update(other.met)
        self.detours += other.detours
        self.learnt += other.learnt
        self.outlived += other.outlived
        self.exercised.update(other.exercised)
        self.rules.update(other.rules)
        self.errors.update(other.errors)
        self.calls += other.calls
        self.traces += other.traces
        self.reads_compared += other.reads_compared
        self.reads_different += other.reads_different

    def found(self, failure: Failure) -> bool:
        """Keep a failure, unless a shorter one of its clause is known; say whether it is kept."""
        known = self.failures.get(failure.clause)
        shorter = known is None or _size(failure.trace) < _size(known.trace)
        if shorter:
            self.failures[failure.clause] = failure
        return shorter


@define
class Session(Findings):
    """One check of one subject under one profile."""

    subject: Subject
    profile: Profile
    clauses: frozenset[str]
    target: str = ""
    arithmetic: bool = False
    seed: int = 0
    fixed: frozenset[str] = frozenset()
    stage: str = ""
    on_progress: Callable[["Session"], None] | None = None
    on_failure: Callable[[Failure], object] | None = None
    until: float | None = None
    """When to stop, by the monotonic clock."""
    steering: Steering = field(init=False)
    _taken: int = field(default=0, init=False)

    @steering.default  # type: ignore[reportUnknownMemberType] # attrs' own decorator
    def _steering(self) -> Steering:
        return Steering(self.walk, self.attribute)

    def take(self) -> Findings:
        """Give what was found since this was asked last, and begin anew; what is listed stays known."""
        for clause, blockers in self.steering.hidden.items():
            self.behind.setdefault(clause, set()).update(blockers)
        for clause, names in self.steering.alike.items():
            self.alike.setdefault(clause, set()).update(names)
        self.met.update(self.steering.met)
        self.detours += self.steering.detours
        self.learnt += self.steering.learnt[self._taken :]
        self._taken = len(self.steering.learnt)
        self.steering.forget()
        taken, fresh = Findings(), Findings()
        taken.add(self)
        for found in attrs.fields(Findings):
            setattr(self, found.name, getattr(fresh, found.name))
        return taken

    def lockstep(self) -> Lockstep:
        """Make a fresh lockstep run."""
        self.traces += 1
        return self._lockstep()

    def _lockstep(self, *, noted: bool = True) -> Lockstep:
        masks = self.steering.masks(noted=noted) if self.steering.known else None
        arithmetic = noted and self.arithmetic
        return Lockstep(self.subject, self.profile, self.clauses, arithmetic=arithmetic, masks=masks)

    def walk(self, trace: Trace) -> tuple[Step, ...] | None:
        """Walk a trace without noting anything; None if nobody can be asked it."""
        self._in_time()
        try:
            with within_means():
                return self._lockstep(noted=False).run(trace)
        except UnknownObjectError:
            return None

    def play(self, trace: Trace, about: str = "") -> tuple[Step, ...]:
        """Walk a stored trace and note every step; where nobody knows the codes of arbitrary data, with known data.

        ``about`` is the clause for whose sake the trace is stored: a failure of another one hides it.
        """
        if trace.config.bits and not self.arithmetic:
            trace = evolve(trace, config=evolve(trace.config, stamp="code"))
        run = self.lockstep()
        with within_means():
            steps = run.run(trace)
        detour = None
        for index, step in enumerate(steps):
            detour = self.note(trace.config, tuple(trace.calls[:index]), step, trace.calls, about)
        self.close(run)
        if detour is not None:
            self._play_on(detour, about)
        return steps

    def play_shared(self, trace: Trace) -> None:
        """Play a trace that others have found, and say of it whether it need not be kept: only what is listed stays."""
        steps = self.play(trace)
        if steps[-1].divergences and self.steering.known:
            cut = Trace(trace.config, trace.calls[: len(steps) - 1])
            if self.steering.listed(self.attribute(cut, steps[-1].divergences[0])) is not None:
                return
        self.outlived.append(trace)

    def _play_on(self, detour: Detour, about: str) -> None:
        """Play a stored trace around listed failures, to its end."""
        way = self.go_on(detour, frozenset(), about=about)
        while way is not None:
            with within_means():
                steps = way.run.finish()
            onward = None
            for step in steps:
                onward = self.note(way.run.config, way.calls, step, about=about)
            self.close(way.run)
            way = None if onward is None else self.go_on(onward, way.avoided, way.made, about)

    def sweep(self, trace: Trace) -> None:
        """Walk one of the traces that stand for every storage policy, and keep which of them fail by which clause."""
        for divergence in [d for step in self.play(trace) for d in step.divergences[:1]]:
            self.swept.setdefault(divergence.clause, []).append(trace.config)

    def note(
        self,
        config: Config,
        calls: tuple[Call, ...],
        step: Step,
        whole: tuple[Call, ...] | None = None,
        about: str = "",
    ) -> Detour | None:
        """Take one step into account: coverage, and the first divergence of its trace.

        Gives the way around a divergence that is a listed failure, for the ``whole`` of the trace's calls if there are
        more than were made.
        """
        self._in_time()
        self.calls += step.call is not None
        self.exercised.update(step.exercised)
        if step.record.outcome == "error":
            self.errors[step.message] += 1
        detour = None
        if step.divergences:
            failure = self.attribute(Trace(config, calls), step.divergences[0])
            detour = self._around(failure, Trace(config, calls if whole is None else whole), step, about)
        if self.on_progress is not None and self.calls % 20 == 0:
            self.on_progress(self)
        return detour

    def _in_time(self) -> None:
        if self.until is not None and time.monotonic() > self.until:
            raise OutOfTimeError("its time is over")

    def _around(self, failure: Failure, whole: Trace, step: Step, about: str) -> Detour | None:
        """Give the way around a failure that is listed; keep one that is not."""
        met = self.steering.listed(failure)
        if met is None:
            self._keep(failure)
            if about not in ("", failure.clause):
                self.hidden.setdefault(about, set()).add(failure.clause)
            return None
        if about:
            self.steering.keeps((about,), met[0])
        return self.steering.detour(whole, *met, step)

    def go_on(self, detour: Detour, avoided: frozenset[Mark], made: int = 0, about: str = "") -> Way | None:
        """Walk a detour, and the detours from it; None where the trace ends, or has gone around too much.

        ``made`` counts the detours that the trace had before.
        """
        while made < MOST_DETOURS:
            made += 1
            avoided |= frozenset[Mark]() if detour.avoided is None else {detour.avoided}
            run = self._lockstep()
            calls, step, onward = self._walk_on(run, detour.trace, avoided, about)
            if not step.over:
                return Way(run, calls, avoided, made)
            self.close(run)
            if onward is None:
                return None
            detour = onward
        return None

    def _walk_on(
        self, run: Lockstep, trace: Trace, avoided: frozenset[Mark], about: str
    ) -> tuple[tuple[Call, ...], Step, Detour | None]:
        """Make those calls of a trace that can be made and are not to be avoided; give them, and the last step."""
        with within_means():
            step = run.open(trace.config)
        calls: list[Call] = []
        detour = self.note(trace.config, (), step, trace.calls, about)
        for index, call in enumerate(trace.calls, 1):
            if step.over:
                break
            there = all(name in run.oracle.world for name in acted_on(call))
            if not there or mark_of(call, run.oracle.world) in avoided:
                continue
            with within_means():
                step = run.step(call)
            calls.append(step.call or call)
            whole = (*calls, *trace.calls[index:])
            detour = self.note(trace.config, tuple(calls), step, whole, about)
        run.names = len(calls)  # the reads that were named before keep their names
        return tuple(calls), step, detour

    def close(self, run: Lockstep) -> None:
        """Take a finished run's arithmetic into account."""
        self.reads_compared += run.arithmetic.reads
        self.reads_different += run.arithmetic.different

    def _keep(self, failure: Failure) -> None:
        """Keep a failure, the smallest of each clause; or all of them, shortened, where they are to be learnt."""
        if self.steering.learn and len(self.steering.learnt) < MOST_LEARNT:
            short = self.shortest(failure)
            new = self.steering.learns(short, Expected(self.target, short.clause, short.trace).id)
            if new and self.on_failure is not None:
                self.on_failure(short)
            return
        if self.found(failure) and self.on_failure is not None:
            self.on_failure(failure)

    def diverges(self, trace: Trace) -> tuple[Trace, Divergence] | None:
        """Walk a trace without noting anything; give it cut after the call that diverges, and the divergence."""
        steps = self.walk(trace)
        if steps is None or not steps[-1].divergences:  # or a call that nobody can be asked: no shorter form of one
            return None
        return Trace(trace.config, trace.calls[: len(steps) - 1]), steps[-1].divergences[0]

    def attribute(self, trace: Trace, divergence: Divergence) -> Failure:
        """Charge a divergence by control runs: looking as one goes says more, and only poison speaks of OWN-8.

        The same calls are walked again with every look and every read asked, and without poison; the plainest run that
        still diverges is the failure.  One that needs the poison is charged to OWN-8, whatever it looked like, and one
        that needs no file to nobody's files: in its control run clones stand for what was saved and loaded.
        """
        plain = _without_files(trace) if divergence.clause.startswith("PERS") else None
        cloned = self.diverges(plain) if plain is not None and "clone" in self.subject.capabilities else None
        if cloned is not None:
            return self.attribute(*cloned)
        config, read = trace.config, tuple(_read(call) for call in trace.calls)
        calm = evolve(config, poison=False)
        controls = (
            Trace(evolve(calm, look="every"), read),
            Trace(evolve(calm, look="every"), trace.calls),
            Trace(calm, trace.calls),
            Trace(evolve(config, look="every"), trace.calls),
        )
        for control in dict.fromkeys(controls):
            if control == trace:
                continue
            found = self.diverges(control)
            if found is not None:
                return self.attribute(*found) if found[1].clause.startswith("PERS") else self._charged(*found)
        return self._charged(trace, divergence)

    def _charged(self, trace: Trace, divergence: Divergence) -> Failure:
        if trace.config.poison and "OWN-8" in self.clauses and divergence.clause != "OWN-8":
            others = tuple(c for c in divergence.clauses if c != "OWN-8")
            divergence = evolve(divergence, clause="OWN-8", others=others)
        return Failure(divergence.clause, trace, divergence, self.target, self.profile, seed=self.seed)

    def shortest(self, failure: Failure, most: int = 600) -> Failure:
        """Shorten a failing trace, keeping the clause that it is charged to."""
        last: dict[Trace, Failure] = {}

        def fails(candidate: Trace) -> bool:
            found = self.diverges(candidate)
            if found is None:
                return False
            charged = self.attribute(*found)
            if charged.clause != failure.clause or charged.trace != found[0] or self.steering.listed(charged):
                return False
            last[candidate] = evolve(charged, minimal=True)
            return True

        result: Minimised = minimise(failure.trace, fails, most, self.fixed)
        return last.get(result.trace, evolve(failure, minimal=result.complete))


def _without_files(trace: Trace) -> Trace | None:
    """Give the same trace with clones in the place of files; None if a file in it is more than a copy."""
    if any(isinstance(call, SpoilFile) or (isinstance(call, Load) and call.other) for call in trace.calls):
        return None
    return evolve(trace, calls=tuple(_cloned(call) for call in trace.calls))


def _cloned(call: Call) -> Call:
    return Clone(on=call.on, as_=call.as_) if isinstance(call, Save | Load) else call


def _read(call: Call) -> Call:
    """Give the same call with its read asked."""
    return evolve(call, unread=False) if isinstance(call, Append) and call.unread else call


def _size(trace: Trace) -> tuple[int, int]:
    return len(trace.calls), sum(call.appends for call in trace.calls) + (trace.config.window or 0)
