"""The result of a check as JSON to script with: one object, or a list of them for several targets."""

import json
import re
from collections.abc import Mapping
from typing import Any

from kvlaw.conformance.events import ClauseJudged, FailureFound, WitnessReplayed
from kvlaw.conformance.reports.run import RunReport, TargetReport
from kvlaw.spec.trace import dump


def json_report(run: RunReport) -> str:
    """Write what a run found."""
    found = [target_json(target, run.started.versions) for target in run.targets]
    return json.dumps(found[0] if len(found) == 1 else found, indent=1) + "\n"


def target_json(report: TargetReport, versions: Mapping[str, str]) -> dict[str, Any]:
    """Write the result of one target as plain JSON values."""
    started, ended = report.started, report.end
    notes = {"notes": list(report.notes)} if report.notes else {}
    return {
        "target": report.name,
        **({"fixed": dict(started.fixed)} if started.fixed else {}),
        "verdict": ended.verdict,
        "profile": started.profile,
        "kinds": list(started.kinds),
        "versions": dict(versions),
        "seed": started.seed,
        "budget": started.budget,
        "arithmetic": ended.arithmetic,
        "clauses": {c.clause: _clause(c, report.failures_of(c.clause)) for c in report.clauses},
        "calls": ended.calls,
        "traces": ended.traces if ended.counted else None,
        "seconds": ended.seconds if ended.counted else None,
        "errors": ended.errors,
        **_shard(started.shard),
        **_expected(report),
        **({} if report.whole else {"stopped": report.why_not_whole}),
        **notes,
    }


def _shard(shard: str) -> dict[str, Any]:
    """Write a share as two numbers, and none at all where all was played."""
    if not re.fullmatch(r"[0-9]{1,9}/[0-9]{1,9}", shard):
        return {"shard": shard} if shard else {}
    return {"shard": [int(number) for number in shard.split("/")]}


def _clause(judged: ClauseJudged, failures: tuple[FailureFound, ...]) -> dict[str, Any]:
    traces = [_failure(failure) for failure in failures]
    out = {"level": judged.level, "outcome": judged.outcome, "exercised": judged.exercised, "traces": traces}
    more = {"why": judged.why, "expected": list(judged.expected), "behind": list(judged.behind)}
    return out | {name: value for name, value in more.items() if value}


def _expected(report: TargetReport) -> dict[str, Any]:
    """Write what became of expected failures, where any are listed."""
    if not report.witnesses:
        return {}
    return {"expected_failures": list(map(_witness, report.witnesses)), "detours": report.end.detours}


def _witness(witness: WitnessReplayed) -> dict[str, Any]:
    told = {
        "id": witness.id,
        "target": witness.listed_for or witness.target,
        "clause": witness.clause,
        "state": witness.state,
        "trace": witness.text,
        "observed": witness.observed,
        "reason": witness.reason,
        "link": witness.link,
        "where": witness.listed,
        "met": witness.met,
    }
    more = {"why": witness.message, "breaks": witness.breaks}
    return told | {name: value for name, value in more.items() if value}


def _failure(failure: FailureFound) -> dict[str, Any]:
    return {
        "config": dump(failure.trace.config),
        "calls": [dump(call) for call in failure.trace.calls],
        "id": failure.id,
        "expected": failure.expected,
        "observed": failure.observed,
        **({"swept": list(failure.seen)} if failure.seen else {}),
    }


__all__ = ["json_report", "target_json"]
