"""The part of a result that comes of listed failures: outcomes of clauses, and what was not reached behind them."""

from collections import Counter
from collections.abc import Iterable

from attrs import evolve

from kvlaw.conformance.expectations.steering import Steering
from kvlaw.conformance.expectations.witnesses import Witness, met
from kvlaw.conformance.result import CheckResult, ClauseResult


def accounted(result: CheckResult, steerings: Iterable[Steering], witnesses: Iterable[Witness]) -> CheckResult:
    """Enter the listed failures, and what they kept from being exercised, into a result."""
    steerings = list(steerings)
    counts = sum((s.met for s in steerings), Counter[str]())
    replayed = met(witnesses, counts.__getitem__)
    clauses = tuple(_outcome(clause, replayed, steerings) for clause in result.clauses)
    learnt = tuple(failure for s in steerings for failure in s.learnt)
    detours = sum(s.detours for s in steerings)
    return evolve(result, clauses=clauses, witnesses=replayed, learnt=learnt, detours=detours)


def _outcome(result: ClauseResult, witnesses: tuple[Witness, ...], steerings: list[Steering]) -> ClauseResult:
    """Give a clause its outcome: a listed failure is no pass, and a clause behind one is no gap of the search."""
    clause = result.clause.id
    expected = tuple(w for w in witnesses if w.holds and w.expected.clause == clause)
    learnt = tuple(f for s in steerings for f in s.learnt if f.clause == clause)
    failures = (*learnt, *(f for f in result.failures if f not in learnt))
    if failures:
        return evolve(result, outcome="fail", failures=failures, expected=expected)
    if expected:
        return evolve(result, outcome="expected fail", why="", expected=expected)
    behind = sorted({blocker for s in steerings for blocker in s.hidden.get(clause, ())})
    if result.outcome != "not exercised" or not behind:
        return result
    return evolve(result, behind=tuple(behind), why=f"not reached behind {', '.join(behind)}")


__all__ = ["accounted"]
