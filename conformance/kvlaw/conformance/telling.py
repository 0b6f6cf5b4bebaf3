"""From results to events: what a check finds, told as plain values.

``Failure``, ``Step`` and ``CheckResult`` hold what the suite works with; events hold what reports need of it, so that
reports can be made where neither the target nor the suite's state is.
"""

import platform
from collections.abc import Iterator
from datetime import UTC, datetime

from kvlaw.conformance.check import Plan, Progress, versions
from kvlaw.conformance.events import (
    SCHEMA,
    ClauseJudged,
    Event,
    FailureFound,
    LawText,
    Progressed,
    RunStarted,
    StepShown,
    TargetEnded,
    TargetStarted,
    WitnessReplayed,
)
from kvlaw.conformance.expectations.witnesses import Witness
from kvlaw.conformance.failures import Failure
from kvlaw.conformance.guard import without_secrets
from kvlaw.conformance.lockstep import Step
from kvlaw.conformance.reports.run import TargetReport, gather
from kvlaw.conformance.reports.steps import told
from kvlaw.conformance.reports.words import cut
from kvlaw.conformance.result import CheckResult
from kvlaw.spec.clauses import load_clauses
from kvlaw.spec.text_form import write


def run_started(command: tuple[str, ...]) -> RunStarted:
    """Tell by what, where and when a run is made."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return RunStarted(SCHEMA, versions(), platform.platform(), tuple(map(without_secrets, command)), now)


def target_started(plan: Plan, capabilities: frozenset[str]) -> TargetStarted:
    """Tell what is to be checked, and how."""
    fixed, able = dict(plan.fixed), tuple(sorted(capabilities))
    shard = _shard(plan.shard)
    return TargetStarted(
        plan.target, plan.kinds, plan.profile, plan.budget, plan.seed, plan.seeds, fixed, able, shard, plan.spec
    )


def _shard(shard: tuple[int, int]) -> str:
    return "" if shard == (1, 1) else f"{shard[0]}/{shard[1]}"


def progressed(target: str, progress: Progress) -> Progressed:
    """Tell how far a check is."""
    done, parts = progress.done, progress.parts
    return Progressed(target, progress.kind, progress.stage, progress.calls, progress.failures, done, parts)


def failure_found(failure: Failure, steps: tuple[Step, ...] = (), built: str = "") -> FailureFound:
    """Tell a failure; ``steps`` are those of its trace, walked once more, ``built`` the call that makes its cache."""
    clause, first = load_clauses()[failure.clause], failure.divergence
    shown: tuple[StepShown, ...] = told(failure.trace, steps, failure.profile)
    return FailureFound(
        target=failure.target,
        clause=failure.clause,
        id=failure.id,
        trace=failure.trace,
        text=write(failure.trace),
        field=first.field,
        expected=cut(first.expected),
        observed=cut(first.observed),
        title=clause.title,
        level=clause.level,
        prose=clause.prose,
        laws=tuple(LawText(law.scope, " ".join(law.when.split()), " ".join(law.then.split())) for law in clause.laws),
        rationale=clause.rationale,
        where=clause.where,
        others=first.others,
        steps=shown,
        profile=failure.profile,
        seed=failure.seed,
        minimal=failure.minimal,
        steady=not steps or any(step.divergences for step in steps),
        seen=failure.seen,
        built=built,
    )


def judged(result: CheckResult, exit_code: int | None = None) -> Iterator[Event]:
    """Tell what came out: for each clause, and as a whole; ``exit_code`` is that of the command line."""
    for witness in result.witnesses:
        yield _witness(result.target, witness)
    for one in result.clauses:
        clause = one.clause
        expected = tuple(witness.expected.id for witness in one.expected)
        yield ClauseJudged(
            result.target,
            clause.id,
            clause.title,
            clause.level,
            one.outcome,
            one.exercised,
            cut(one.why),
            expected,
            one.behind,
        )
    yield TargetEnded(
        target=result.target,
        verdict=result.verdict,
        exit_code=result.exit_code if exit_code is None else exit_code,
        calls=result.calls,
        traces=result.traces,
        seconds=round(result.seconds, 2),
        arithmetic=result.arithmetic.word,
        reads=result.arithmetic.reads,
        errors={cut(message): count for message, count in list(result.errors.items())[:_MOST_ERRORS]},
        rules=result.rules,
        interrupted=result.interrupted,
        stopped=cut(result.stopped),
        detours=result.detours,
        modelled=result.arithmetic.modelled,
    )


def _witness(target: str, witness: Witness) -> WitnessReplayed:
    entry, failure = witness.expected, witness.failure
    return WitnessReplayed(
        target,
        entry.clause,
        entry.id,
        witness.state,
        cut(entry.reason),
        cut(entry.link),
        cut(witness.why),
        text=entry.text,
        observed=cut(entry.observed),
        listed=entry.where,
        listed_for=entry.target,
        breaks="" if failure is None else failure.clause,
        met=witness.met,
    )


def report_of(result: CheckResult) -> TargetReport:
    """Give a result as reports read it; of failures without their steps."""
    started = TargetStarted(
        result.target, result.kinds, result.profile, result.budget, result.seed, shard=_shard(result.shard)
    )
    failures = [failure_found(failure) for one in result.failed for failure in one.failures]
    events = (RunStarted(SCHEMA, result.versions), started, *failures, *judged(result))
    return gather(events).targets[0]


_MOST_ERRORS = 50
"""How many different messages of errors are told."""

__all__ = ["failure_found", "judged", "progressed", "report_of", "run_started", "target_started"]
