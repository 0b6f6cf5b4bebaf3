"""Play what ``kvlaw spec check`` needs as evidence: every example on the oracle, every planted fault on its trace.

Traces are the examples of the text and those of the faults; no MLX, no search.  Pair laws get their second runs from
the traces of the clauses that have pair laws, on the oracle and on the faults that break those clauses.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Protocol

from attrs import evolve, frozen

from kvlaw.conformance.claims import unkept
from kvlaw.conformance.lockstep import Lockstep, Step
from kvlaw.conformance.pairs import Pair, Told, make_pair, play_on
from kvlaw.conformance.spec_tools.evidence import Evidence, FailedExample, Fault, Runs
from kvlaw.reference.oracle import Profile
from kvlaw.spec.calls import AppendDecode, AppendWindow, Call, LookAt, MakeMask
from kvlaw.spec.clauses import Clause, Clauses
from kvlaw.spec.contract import Subject
from kvlaw.spec.laws import PAIRS
from kvlaw.spec.records import Run
from kvlaw.spec.text_form import Written, parse
from kvlaw.spec.trace import Trace


class Planted(Protocol):
    """What is asked of a planted fault (``faults.registry.Fault``)."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def breaks(self) -> str:
        """The clause that it breaks."""
        ...

    @property
    def profile(self) -> Profile:
        """The profile in which it must be caught."""
        ...

    @property
    def trace(self) -> Trace:
        """The shortest trace that shows it."""
        ...


@frozen
class Played:
    """One trace played in lockstep."""

    steps: tuple[Step, ...]
    run: Run

    @property
    def charged(self) -> frozenset[str]:
        """The clause charged with the first divergence, and those listed beside it (``faults.hunt``)."""
        found = [divergence for step in self.steps for divergence in step.divergences]
        return frozenset(found[0].clauses if found else ())


def gather(
    clauses: Clauses, oracle: Subject, faults: Iterable[tuple[Planted, Subject]], *, for_laws: bool = True
) -> Evidence:
    """Play everything.

    Args:
        clauses: the text, whose examples are played.
        oracle: the subject on which everything must hold.
        faults: every planted fault with its subject.
        for_laws: whether to play as well what the laws alone are asked about: faults beyond their trace, and pairs.
    """
    planted = list(faults)
    examples = [(clause, line, parse(text)) for clause in clauses.values() for line, text in _examples(clause)]
    failed: list[FailedExample] = []
    runs: list[Run] = []
    exercised: Counter[str] = Counter()
    for clause, line, written in examples:
        played = play(clauses, oracle, written.trace)
        runs.append(played.run)
        exercised.update(clause_id for step in played.steps for clause_id in step.exercised)
        failed += [FailedExample(clause.id, line, message) for message in _failures(written, played)]
    for fault, _ in planted:
        played = play(clauses, oracle, fault.trace)
        runs.append(played.run)
        exercised.update(clause_id for step in played.steps for clause_id in step.exercised)
    pairs = _pairs(oracle, [w.trace for c, _, w in examples if for_laws and _has_pair_law(c)])
    played_faults = tuple(_play_fault(clauses, *f, for_laws=for_laws) for f in planted)
    return Evidence(Runs(runs, pairs), played_faults, tuple(failed), dict(exercised))


def play(clauses: Clauses, subject: Subject, trace: Trace, profile: Profile = "layout") -> Played:
    """Play one trace in lockstep, up to its first divergence."""
    kind, chosen = trace.config.kind, clauses.of_profile(profile)
    ids = frozenset(c.id for c in chosen.values() if c.applicable(kind, subject.capabilities))
    lockstep = Lockstep(subject, profile, ids)
    return Played(lockstep.run(trace), lockstep.history())


def _examples(clause: Clause) -> Iterator[tuple[int, str]]:
    for example in clause.examples:
        yield example.line, example.text


def _failures(written: Written, played: Played) -> Iterator[str]:
    for claim in unkept(written, played.steps):
        yield f"{claim.call} -> {claim.claimed}: the oracle says {claim.seen}"
    for clause_id in sorted(played.charged):
        yield f"the reference caches break {clause_id} on it"


def _has_pair_law(clause: Clause) -> bool:
    return any(law.scope == "pair" for law in clause.laws)


def _pairs(subject: Subject, traces: Iterable[Trace]) -> Iterator[Pair]:
    for trace in traces:
        for how in PAIRS:
            pair = make_pair(how, trace, subject)
            if pair is not None:
                yield pair


def _play_fault(clauses: Clauses, fault: Planted, subject: Subject, *, for_laws: bool) -> Fault:
    """Play a fault on its trace, as the suite does; then to the end and further; then on the examples of its clause."""
    played = play(clauses, subject, fault.trace, fault.profile)
    if not for_laws:
        return Fault(fault.name, fault.breaks, played.charged)
    clause = clauses.by_id.get(fault.breaks)
    examples = [] if clause is None else [parse(text).trace for _, text in _examples(clause)]
    runs = [play_on(t.config, map(Told, t.calls), subject) for t in (*_longer(fault.trace), *examples)]
    pairs = _pairs(subject, [fault.trace, *examples] if clause is not None and _has_pair_law(clause) else [])
    return Fault(fault.name, fault.breaks, played.charged, Runs((played.run, *runs), pairs))


def _longer(trace: Trace) -> tuple[Trace, Trace]:
    """Go on after the shortest trace: look at all that it made; append what the last mask was for, or a decode."""
    made = [str(name) for call in trace.calls if (name := getattr(call, "as_", None))]
    looks = [LookAt(on=name) for name in (*made, "c0")]
    following: Call = AppendDecode()
    match trace.calls:
        case (*_, MakeMask(phase="window", length=length)) if length > 0:
            following = AppendWindow(length=length)
        case _:
            pass
    return evolve(trace, calls=(*trace.calls, *looks)), evolve(trace, calls=(*trace.calls, following, LookAt()))
