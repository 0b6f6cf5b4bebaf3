"""What was seen of the laws: on the oracle they must hold, on the planted faults they must break.

Runs come as records (``Lockstep.history``); who makes them is not this module's business.
"""

from collections.abc import Container, Iterable, Mapping
from typing import TypeAlias

from attrs import field, frozen

from kvlaw.conformance.pairs import Pair
from kvlaw.spec.clauses import Clauses
from kvlaw.spec.config import KINDS
from kvlaw.spec.laws import Law
from kvlaw.spec.records import Run
from kvlaw.spec.text_form import write
from kvlaw.spec.trace import Trace

LawKey: TypeAlias = tuple[str, int]
"""A law: its clause and its place among the laws of that clause, from 0."""


@frozen
class Runs:
    """The runs of one subject."""

    runs: tuple[Run, ...] = field(default=(), converter=tuple[Run, ...])
    pairs: tuple[Pair, ...] = field(default=(), converter=tuple[Pair, ...])


@frozen
class Fault:
    """One planted fault: the clause that it names, the clauses that caught it, and the runs that it gave."""

    name: str
    clause: str
    caught_by: frozenset[str]
    seen: Runs = field(factory=Runs)


@frozen
class FailedExample:
    """An example that does not hold on the oracle: the clause, the line in its chapter, and what came instead."""

    clause: str
    line: int
    message: str


@frozen
class Evidence:
    """All that was seen: runs of the oracle, the faults, examples that failed, how often each clause was exercised."""

    oracle: Runs = field(factory=Runs)
    faults: tuple[Fault, ...] = ()
    failed_examples: tuple[FailedExample, ...] = ()
    exercised: Mapping[str, int] = field(factory=dict[str, int])


@frozen
class Tally:
    """How often a law applied and how often it was false, and a trace on which it was."""

    applied: int = 0
    false: int = 0
    example: str = ""

    def add(self, verdict: bool, run: Run) -> "Tally":
        """Count one verdict."""
        if verdict:
            return Tally(self.applied + 1, self.false, self.example)
        return Tally(self.applied + 1, self.false + 1, self.example or describe(run))


def laws_of(clauses: Clauses) -> Mapping[LawKey, Law]:
    """List all laws in force."""
    return {(c.id, index): law for c in clauses.values() for index, law in enumerate(c.laws)}


def tally(
    laws: Mapping[LawKey, Law], subjects: Iterable[Runs], applies: Mapping[str, Container[str]] | None = None
) -> dict[LawKey, Tally]:
    """Ask every law about every run, and every pair law about the pairs made in its way.

    Args:
        laws: the laws by key.
        subjects: the runs, of one subject or of many.
        applies: the kinds that the clause of a law speaks of, by clause; of all if it is not there.
    """
    found = {key: Tally() for key in laws}
    bound = applies or {}
    for seen in subjects:
        for key, law in laws.items():
            kinds = bound.get(key[0], KINDS)
            for run in (run for run in seen.runs if run.config.kind in kinds):
                for _, verdict in law.over(run):
                    found[key] = found[key].add(verdict, run)
            for pair in (pair for pair in seen.pairs if pair.one.config.kind in kinds):
                verdict = law.over_pair(pair.one, pair.other) if law.runs == pair.how else None
                if verdict is not None:
                    found[key] = found[key].add(verdict, pair.one)
    return found


def describe(run: Run) -> str:
    """Write a run as a trace, shortly enough for a message."""
    text = write(Trace(run.config, tuple(step.call for step in run.steps if step.call is not None)))
    return text if len(text) <= 160 else text[:157] + "..."
