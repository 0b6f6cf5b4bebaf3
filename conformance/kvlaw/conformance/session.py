"""What a check gathers while traces run: coverage by clause, failures by clause, counts of calls and rules.

``Session.play`` walks one stored trace; machines walk their own with ``Session.lockstep`` and report each step to
``Session.note``.  Nothing here chooses calls, and nothing raises because a cache fails.
"""

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager

from attrs import define, evolve, field

from kvlaw.conformance.compare import Divergence
from kvlaw.conformance.failures import Failure
from kvlaw.conformance.lockstep import Lockstep, Step
from kvlaw.conformance.minimise import Minimised, minimise
from kvlaw.reference.oracle import Profile, UnknownObjectError
from kvlaw.spec.calls import Append, Call, Clone, Load, Save, SpoilFile
from kvlaw.spec.config import Config
from kvlaw.spec.contract import Subject
from kvlaw.spec.trace import Trace


class StoppedError(BaseException):
    """The check itself cannot go on; the text says why. Hypothesis takes it for no failure of a trace."""


class TargetGoneError(StoppedError):
    """The target cannot be run any more."""


@contextmanager
def within_means() -> Generator[None]:
    """Say so where the suite itself runs out of memory or stack; what a target runs out of is its own outcome."""
    try:
        yield
    except MemoryError as error:
        raise StoppedError("the check ran out of memory; fix a smaller batch, heads, D or window") from error
    except RecursionError as error:
        raise StoppedError("the check ran out of stack; does the target set Python's recursion limit?") from error


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

    def add(self, other: "Findings") -> None:
        """Take in what another part found; of two failures of a clause the shorter one stays."""
        for failure in other.failures.values():
            self.found(failure)
        for clause, configs in other.swept.items():
            self.swept.setdefault(clause, []).extend(configs)
        for clause, blockers in other.hidden.items():
            self.hidden.setdefault(clause, set()).update(blockers)
        self.exercised.update(other.exercised)
        self.rules.update(other.rules)
        self.errors.update(other.errors)
        self.calls += other.calls
        self.traces += other.traces
        self.reads_compared += other.reads_compared
        self.reads_different += other.reads_different

    def copied(self) -> "Findings":
        """Give these findings alone."""
        alone = Findings()
        alone.add(self)
        return alone

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

    def lockstep(self) -> Lockstep:
        """Make a fresh lockstep run."""
        self.traces += 1
        return Lockstep(self.subject, self.profile, self.clauses, arithmetic=self.arithmetic)

    def play(self, trace: Trace, about: str = "") -> tuple[Step, ...]:
        """Walk a stored trace and note every step; where nobody knows the codes of arbitrary data, with known data.

        ``about`` is the clause for whose sake the trace is stored: a failure of another one hides it.
        """
        if trace.config.bits and not self.arithmetic:
            trace = evolve(trace, config=evolve(trace.config, stamp="code"))
        run = self.lockstep()
        with within_means():
            steps = run.run(trace)
        for index, step in enumerate(steps):
            self.note(trace.config, tuple(trace.calls[:index]), step)
        if about and steps[-1].divergences and about not in steps[-1].divergences[0].clauses:
            self.hidden.setdefault(about, set()).add(steps[-1].divergences[0].clause)
        self.close(run)
        return steps

    def sweep(self, trace: Trace) -> None:
        """Walk one of the traces that stand for every storage policy, and keep which of them fail by which clause."""
        for divergence in [d for step in self.play(trace) for d in step.divergences[:1]]:
            self.swept.setdefault(divergence.clause, []).append(trace.config)

    def note(self, config: Config, calls: tuple[Call, ...], step: Step) -> None:
        """Take one step into account: coverage, and the first divergence of its trace."""
        self.calls += step.call is not None
        self.exercised.update(step.exercised)
        if step.record.outcome == "error":
            self.errors[step.message] += 1
        if step.divergences:
            failure = self.attribute(Trace(config, calls), step.divergences[0])
            if self.found(failure) and self.on_failure is not None:
                self.on_failure(failure)
        if self.on_progress is not None and self.calls % 20 == 0:
            self.on_progress(self)

    def close(self, run: Lockstep) -> None:
        """Take a finished run's arithmetic into account."""
        self.reads_compared += run.arithmetic.reads
        self.reads_different += run.arithmetic.different

    def diverges(self, trace: Trace) -> tuple[Trace, Divergence] | None:
        """Walk a trace without noting anything; give it cut after the call that diverges, and the divergence."""
        try:
            with within_means():
                steps = Lockstep(self.subject, self.profile, self.clauses).run(trace)
        except UnknownObjectError:  # a call that nobody can be asked: no shorter form of a failure
            return None
        if not steps[-1].divergences:
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
                return self._charged(*found)
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
            if charged.clause != failure.clause or charged.trace != found[0]:
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
