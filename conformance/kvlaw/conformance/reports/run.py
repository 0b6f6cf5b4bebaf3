"""A run as reports read it: its events, gathered by target.

``gather`` takes the events of a whole run, in their order. Of a clause and a kind of cache the last failure counts. A
clause whose expected failure is not what it was (its witness is stale, changed or unknown) fails, whatever the search
found; a pass of a clause that was never exercised is none.
"""

from collections.abc import Iterable, Mapping

from attrs import evolve, field, frozen

from kvlaw.conformance.counting import counted
from kvlaw.conformance.events import (
    CUT_OFF,
    ClauseJudged,
    Event,
    FailureFound,
    Progressed,
    RunEnded,
    RunStarted,
    TargetEnded,
    TargetStarted,
    WitnessReplayed,
)


@frozen
class TargetReport:
    """What a run says of one target."""

    started: TargetStarted
    failures: tuple[FailureFound, ...] = ()
    clauses: tuple[ClauseJudged, ...] = ()
    witnesses: tuple[WitnessReplayed, ...] = ()
    ended: TargetEnded | None = None
    notes: tuple[str, ...] = ()
    """What has to be known of where the result comes from, if it comes of several runs."""

    @property
    def name(self) -> str:
        """The target, with its options."""
        return self.started.target

    @property
    def fixed(self) -> str:
        """What is fixed in every trace; nothing where that is left to the search."""
        return fixed_words(self.started.fixed)

    @property
    def title(self) -> str:
        """The target, with its options and what is fixed, as people read it; ``name`` is what it is known by."""
        known = not self.fixed or self.fixed in self.name  # of results put together the name says what differs
        return self.name if known else f"{self.name} ({self.fixed})"

    @property
    def end(self) -> TargetEnded:
        """How the check ended; a check that is going on has no verdict yet."""
        return self.ended or TargetEnded(self.name, "incomplete", 4)

    @property
    def played(self) -> str:
        """Say how much was played, and in how long; of a record that was cut off only what it tells."""
        end = self.end
        if end.counted and self.ended is not None:
            return f"{counted(end.traces, 'trace')}, {counted(end.calls, 'call')} in {end.seconds:.1f} s"
        known = [counted(number, word) for number, word in ((end.traces, "trace"), (end.calls, "call")) if number]
        told = f"at least {', '.join(known)}" if known else "how much is not known"
        return f"{told}; {CUT_OFF if self.ended is not None else 'the check goes on'}, so the rest is not known"

    @property
    def whole(self) -> bool:
        """Say whether all was played that was to be."""
        return not (self.end.interrupted or self.end.stopped)

    @property
    def why_not_whole(self) -> str:
        """Say why the check ended before its time; an empty text if it did not."""
        return self.end.stopped or ("interrupted" if self.end.interrupted else "")

    def failures_of(self, clause: str) -> tuple[FailureFound, ...]:
        """List the failures of a clause, one per kind of cache."""
        return tuple(failure for failure in self.failures if failure.clause == clause)

    def open_musts(self) -> tuple[str, ...]:
        """List the MUST clauses that were not judged although they apply."""
        from kvlaw.conformance.reports.outcomes import look_of

        return tuple(c.clause for c in self.clauses if c.level == "MUST" and look_of(c.outcome).open and not c.behind)

    def expected(self) -> tuple[WitnessReplayed, ...]:
        """List the expected failures that still fail as they are listed."""
        return tuple(witness for witness in self.witnesses if witness.holds)

    def wrong_witnesses(self) -> tuple[WitnessReplayed, ...]:
        """List the expected failures that are not what they were."""
        return tuple(witness for witness in self.witnesses if not witness.holds)

    def unreached(self) -> dict[str, list[str]]:
        """List the clauses that expected failures kept from being exercised, by the clauses of these failures."""
        found: dict[str, list[str]] = {}
        for clause in self.clauses:
            if clause.behind:
                found.setdefault(", ".join(clause.behind), []).append(clause.clause)
        return found


@frozen
class RunReport:
    """What a run says: how it was made, and of each target what came out."""

    started: RunStarted
    targets: tuple[TargetReport, ...] = field(default=(), converter=tuple[TargetReport, ...])
    ended: RunEnded | None = None


def fixed_words(fixed: Mapping[str, object]) -> str:
    """Say which configuration fields every trace has; nothing where none is fixed."""
    return f"fixed {fields_words(fixed)}" if fixed else ""


def fields_words(fixed: Mapping[str, object]) -> str:
    """Write configuration fields as on the command line, by name."""
    return " ".join(f"{name}={value}" for name, value in sorted(fixed.items()))


def gather(events: Iterable[Event]) -> RunReport:
    """Gather the events of a run."""
    run: RunReport | None = None
    reports: dict[str, TargetReport] = {}
    for event in events:
        if isinstance(event, RunStarted):
            run = RunReport(event)
        elif isinstance(event, TargetStarted):
            reports[event.target] = TargetReport(event)
        elif isinstance(event, RunEnded):
            run = None if run is None else evolve(run, ended=event)
        elif not isinstance(event, Progressed):
            reports[event.target] = _told(reports[event.target], event)
    if run is None:
        raise ValueError("a run begins with run_started")
    return evolve(run, targets=tuple(map(_all_judged, reports.values())))


def _all_judged(report: TargetReport) -> TargetReport:
    """Judge the clauses of failures whose check ended before it could."""
    judged = {clause.clause for clause in report.clauses}
    missing = {f.clause: f for f in report.failures if f.clause not in judged}
    more = (ClauseJudged(f.target, f.clause, f.title, f.level, "fail", 1) for f in missing.values())
    return evolve(report, clauses=(*report.clauses, *more))


def _told(report: TargetReport, event: FailureFound | WitnessReplayed | ClauseJudged | TargetEnded) -> TargetReport:
    if isinstance(event, FailureFound):
        others = tuple(f for f in report.failures if (f.clause, f.kind) != (event.clause, event.kind))
        return evolve(report, failures=(*others, event))
    if isinstance(event, WitnessReplayed):
        return evolve(report, witnesses=(*report.witnesses, event))
    if isinstance(event, ClauseJudged):
        vacuous = event.outcome == "pass" and not event.exercised
        judged = evolve(event, outcome="not exercised") if vacuous else event
        return evolve(report, clauses=(*report.clauses, judged))
    return evolve(report, ended=event)


__all__ = ["RunReport", "TargetReport", "fields_words", "fixed_words", "gather"]
