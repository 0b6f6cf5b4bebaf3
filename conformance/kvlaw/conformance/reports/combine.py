"""Several runs put together: a result for each target, its shards and seeds as one, for a table of all.

What was played under the same conditions is put together: the same target, profile, kinds, fixed fields and versions.
Of a clause the counts add up, and the strongest outcome counts (``outcomes.LOOKS``); of its failures the shortest is
kept; the verdict is worked out again.  Results of one target under other conditions stay apart, each under a name that
says what differs.  Different seeds and budgets are told in a note, a shard that is missing makes the result incomplete,
and the same part twice is refused: its counts would be taken twice.
"""

import re
from collections.abc import Iterable, Sequence

from attrs import evolve, frozen

from kvlaw.conformance.events import (
    ClauseJudged,
    FailureFound,
    TargetEnded,
    TargetStarted,
    VerdictWord,
    WitnessReplayed,
)
from kvlaw.conformance.reports.outcomes import look_of
from kvlaw.conformance.reports.run import RunReport, TargetReport, fields_words
from kvlaw.conformance.reports.words import clean

EXIT_CODES: dict[VerdictWord, int] = {
    "conformant": 0,
    "violations": 1,
    "stale expectations": 1,
    "incomplete": 4,
    "unusable": 3,
}


class CombineError(ValueError):
    """Runs that cannot be put together: says which, and why."""


@frozen
class Part:
    """What one run says of a target, and under which versions."""

    report: TargetReport
    versions: tuple[tuple[str, str], ...]
    run: str

    @property
    def conditions(self) -> tuple[tuple[str, str], ...]:
        """What has to be the same in all parts of one result."""
        started = self.report.started
        facts = {
            "profile": started.profile,
            "spec": started.spec or dict(self.versions).get("spec", ""),  # unpinned: by the newest that it knew
            "kinds": " ".join(sorted(started.kinds)),
            "fixed": fields_words(started.fixed),
        }
        return (*facts.items(), *(version for version in self.versions if version[0] != "spec"))


def combine(runs: Sequence[tuple[str, RunReport]]) -> RunReport:
    """Put runs together, each under the name of its record.

    Raises:
        CombineError: if the same part of a check is in two of them.
    """
    parts = [Part(target, _versions(run), name) for name, run in runs for target in run.targets]
    by_target: dict[str, dict[tuple[tuple[str, str], ...], list[Part]]] = {}
    for part in parts:
        by_target.setdefault(part.report.name, {}).setdefault(part.conditions, []).append(part)
    targets = [one for name, groups in by_target.items() for one in _of_target(name, groups)]
    everywhere = _shared([_versions(run) for _, run in runs])
    first = runs[0][1].started
    versions = {name: version for name, version in first.versions.items() if (name, version) in everywhere}
    places = {run.started.platform for _, run in runs}
    platform = first.platform if len(places) == 1 else f"{len(places)} platforms"
    started = evolve(first, versions=versions, platform=platform, command=(), started=f"{len(runs)} runs")
    return RunReport(started, targets)


def _versions(run: RunReport) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(run.started.versions.items()))


def _shared(facts: Iterable[tuple[tuple[str, str], ...]]) -> frozenset[tuple[str, str]]:
    """List what holds in all of them."""
    first, *others = map(frozenset, facts)
    return first.intersection(*others)


def _of_target(name: str, groups: dict[tuple[tuple[str, str], ...], list[Part]]) -> Iterable[TargetReport]:
    """Give the results of one target, apart by their conditions where these differ."""
    shared = _shared(groups)
    for conditions, parts in groups.items():
        report = _together(parts)
        if len(groups) > 1:
            differs = ", ".join(
                f"{key} {value or 'nothing'}" for key, value in conditions if (key, value) not in shared
            )
            report = _renamed(report, f"{name} ({differs})")
        yield report


def _renamed(report: TargetReport, name: str) -> TargetReport:
    return evolve(
        report,
        started=evolve(report.started, target=name),
        clauses=tuple(evolve(c, target=name) for c in report.clauses),
        ended=evolve(report.end, target=name),
    )


def _together(parts: Sequence[Part]) -> TargetReport:
    """Make one result of parts that were played under the same conditions."""
    reports = [part.report for part in parts]
    if len(reports) == 1 and not reports[0].started.shard:
        return reports[0]
    _refuse_twice(parts)
    clauses = _clauses(reports)
    failures = _failures(reports)
    missing = _missing(reports)
    ends = [report.end for report in reports]
    stopped = "; ".join(dict.fromkeys(report.why_not_whole for report in reports if not report.whole))
    stopped = "; ".join(part for part in (stopped, missing) if part)
    ended = TargetEnded(
        reports[0].name,
        "conformant",
        0,
        calls=sum(end.calls for end in ends),
        traces=sum(end.traces for end in ends),
        seconds=round(sum(end.seconds for end in ends), 2),
        arithmetic=_arithmetic(ends),
        reads=sum(end.reads for end in ends),
        errors=_added(end.errors for end in ends),
        rules=_added(end.rules for end in ends),
        interrupted=any(end.interrupted for end in ends),
        detours=sum(end.detours for end in ends),
        modelled=any(end.modelled for end in ends),
        stopped=stopped,
    )
    witnesses = _witnesses(reports)
    started = evolve(reports[0].started, shard="", budget=_all(r.started.budget for r in reports))
    whole = TargetReport(started, failures, clauses, witnesses, ended, _notes(reports))
    verdict = "unusable" if all(end.verdict == "unusable" for end in ends) else verdict_of(whole)
    return evolve(whole, ended=evolve(ended, verdict=verdict, exit_code=EXIT_CODES[verdict]))


def verdict_of(report: TargetReport) -> VerdictWord:
    """Work out the verdict: violations before stale expectations before incomplete before conformant."""
    if any(look_of(c.outcome).case == "failed" for c in report.clauses):
        return "violations"
    if report.wrong_witnesses():
        return "stale expectations"
    return "incomplete" if report.open_musts() or not report.whole or not report.clauses else "conformant"


def _refuse_twice(parts: Sequence[Part]) -> None:
    seen: dict[tuple[int, str, str], str] = {}
    for part in parts:
        started = part.report.started
        for seed in _seeds(started):
            key = (seed, started.budget, started.shard)
            if key in seen:
                what = f"shard {started.shard} of seed {seed}" if started.shard else f"seed {seed}"
                raise CombineError(
                    f"{clean(seen[key])} and {clean(part.run)} are both {clean(started.target)}, {clean(what)}, "
                    f"budget {clean(started.budget)}: its counts would be taken twice; leave one out"
                )
            seen[key] = part.run
    for (seed, budget, shard), some in seen.items():
        whole = seen.get((seed, budget, "")) if shard else None
        if whole is not None:
            raise CombineError(
                f"{clean(some)} is shard {clean(shard)} of what {clean(whole)} has whole: its counts would be taken "
                "twice; leave one out"
            )


def _seeds(started: TargetStarted) -> range:
    return range(started.seed, started.seed + min(max(started.seeds, 1), 100_000))


def _missing(reports: Sequence[TargetReport]) -> str:
    """Say which shards of a seed are not there."""
    there: dict[tuple[int, str, str], set[str]] = {}
    for started in (report.started for report in reports if report.started.shard):
        number, _, count = started.shard.partition("/")
        there.setdefault((started.seed, started.budget, count), set()).add(number)
    absent = [
        f"{number}/{count}" + (f" of seed {seed}" if len(there) > 1 else "")
        for (seed, _, count), numbers in there.items()
        if re.fullmatch(r"[0-9]{1,9}", count)
        for number in map(str, range(1, min(int(count), 10_000) + 1))
        if number not in numbers
    ]
    return f"shard {', '.join(absent[:10])} is missing" if absent else ""


def _clauses(reports: Sequence[TargetReport]) -> tuple[ClauseJudged, ...]:
    found: dict[str, ClauseJudged] = {}
    for clause in (clause for report in reports for clause in report.clauses):
        known = found.get(clause.clause)
        found[clause.clause] = clause if known is None else _stronger(known, clause)
    return tuple(found.values())


def _stronger(one: ClauseJudged, other: ClauseJudged) -> ClauseJudged:
    strong = other if look_of(other.outcome).rank > look_of(one.outcome).rank else one
    exercised, expected = one.exercised + other.exercised, tuple(dict.fromkeys((*one.expected, *other.expected)))
    behind = tuple(sorted({*one.behind, *other.behind})) if strong.outcome == "not exercised" else ()
    why = f"not reached behind {', '.join(behind)}" if behind else strong.why
    return evolve(strong, exercised=exercised, expected=expected, behind=behind, why=why)


def _failures(reports: Sequence[TargetReport]) -> tuple[FailureFound, ...]:
    """Keep the shortest failure of each clause and kind."""
    best: dict[tuple[str, str], FailureFound] = {}
    for failure in (failure for report in reports for failure in report.failures):
        known = best.get((failure.clause, failure.kind))
        if known is None or len(failure.trace.calls) < len(known.trace.calls):
            best[failure.clause, failure.kind] = failure
    return tuple(best.values())


def _witnesses(reports: Sequence[TargetReport]) -> tuple[WitnessReplayed, ...]:
    """Keep each expected failure once: as it is not, if one of the runs says so, and met as often as in all of them."""
    found: dict[tuple[str, str], WitnessReplayed] = {}
    for witness in (witness for report in reports for witness in report.witnesses):
        known = found.get((witness.clause, witness.id), witness)
        kept = known if not known.holds else witness
        met = witness.met + (known.met if known is not witness else 0)
        found[witness.clause, witness.id] = evolve(kept, met=met)
    return tuple(found.values())


def _arithmetic(ends: Sequence[TargetEnded]) -> str:
    words = {end.arithmetic for end in ends}
    differs = next((word for word in sorted(words) if word.startswith("differs")), "")
    return differs or ("exact" if "exact" in words else "not observed")


def _added(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in counts:
        for name, count in one.items():
            total[name] = total.get(name, 0) + count
    return total


def _notes(reports: Sequence[TargetReport]) -> tuple[str, ...]:
    starts = [report.started for report in reports]
    notes = [f"put together of {len(reports)} runs"] if len(reports) > 1 else []
    shards = sorted({started.shard for started in starts if started.shard})
    notes += [f"shards {', '.join(shards)}"] if shards else []
    seeds = sorted({seed for started in starts for seed in _seeds(started)})
    few = ", ".join(map(str, seeds)) if len(seeds) <= 8 else f"{len(seeds)} of {seeds[0]} to {seeds[-1]}"
    notes += [f"seeds {few}"] if len(seeds) > 1 else []
    budgets = sorted({started.budget for started in starts})
    return (*notes, *([f"budgets {', '.join(budgets)}"] if len(budgets) > 1 else []))


def _all(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(words))


__all__ = ["CombineError", "combine", "verdict_of"]
