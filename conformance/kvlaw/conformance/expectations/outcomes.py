"""The part of a result that comes of listed failures: outcomes of clauses, and what was not reached behind them."""

from collections.abc import Iterable

from attrs import evolve

from kvlaw.conformance.expectations.witnesses import Witness, met
from kvlaw.conformance.result import CheckResult, ClauseResult
from kvlaw.conformance.session import Findings


def accounted(result: CheckResult, findings: Findings, witnesses: Iterable[Witness]) -> CheckResult:
    """Enter the listed failures, and what they kept from being exercised, into a result."""
    replayed = met(witnesses, findings.met.__getitem__)
    clauses = tuple(_outcome(clause, replayed, findings) for clause in result.clauses)
    learnt = tuple({failure.id: failure for failure in findings.learnt}.values())
    return evolve(result, clauses=clauses, witnesses=replayed, learnt=learnt, detours=findings.detours)


def _outcome(result: ClauseResult, witnesses: tuple[Witness, ...], findings: Findings) -> ClauseResult:
    """Give a clause its outcome: a listed failure is no pass, and a clause behind one is no gap of the search."""
    clause = result.clause.id
    expected = tuple(w for w in witnesses if w.holds and w.expected.clause == clause)
    alike = findings.alike.get(clause, set[str]())
    others = tuple(w for w in witnesses if w.holds and w.expected.id in alike)
    learnt = tuple({f.id: f for f in findings.learnt if f.clause == clause}.values())
    failures = (*learnt, *(f for f in result.failures if f not in learnt))
    if failures:
        return evolve(result, outcome="fail", failures=failures, expected=expected)
    if expected:
        return evolve(result, outcome="expected fail", why="", expected=expected)
    if others:
        names = tuple(dict.fromkeys(w.expected.clause for w in others))
        why = f"broken as {', '.join(names)}, which {'is' if len(names) == 1 else 'are'} listed"
        return evolve(result, outcome="expected fail", why=why, expected=others)
    behind = sorted(findings.behind.get(clause, ()))
    if result.outcome != "not exercised" or not behind:
        return result
    return evolve(result, behind=tuple(behind), why=f"not reached behind {', '.join(behind)}")


__all__ = ["accounted"]
