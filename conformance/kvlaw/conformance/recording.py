"""Where the events of a run go: into its record as they happen, and at its end into reports.

``Recording`` begins its record with the first target, so that a wrong command line leaves an older record as it is.
However the run ends (by itself, by the user's interrupt, by a target that cannot be run) its record gets an end, and
the reports are written of what there is.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from attrs import define, field

from kvlaw.conformance.event_file import EventFile
from kvlaw.conformance.events import Event, FailureFound, Progressed, RunEnded, TargetEnded, TargetStarted
from kvlaw.conformance.outputs import OutputError, check_apart, check_writable, write_whole
from kvlaw.conformance.reports.forms import FORMS
from kvlaw.conformance.reports.run import RunReport, gather

Complain = Callable[[str], None]
Reports = Sequence[tuple[str, Path]]
THROTTLE = 1.0
"""Seconds between two events of progress in one stage."""


@define
class Recording:
    """The events of one run; ``tell`` takes them one by one.

    ``reports`` are forms and files, ``record`` the file of the events themselves; ``complain`` is told what could not
    be written although it could when the run began.
    """

    command: tuple[str, ...]
    reports: Reports = ()
    record: Path | None = None
    complain: Complain = print
    on_event: Callable[[Event], None] | None = None
    events: list[Event] = field(factory=list[Event], init=False)
    _file: EventFile | None = field(default=None, init=False)
    _open: TargetStarted | None = field(default=None, init=False)
    _failed: set[tuple[str, str, str]] = field(factory=set[tuple[str, str, str]], init=False)
    _told: dict[tuple[str, str, str], float] = field(factory=dict[tuple[str, str, str], float], init=False)
    """When progress was last told, by target, kind and stage: several processes play several stages at a time."""

    def check(self) -> None:
        """Raise ``OutputError`` if one of the files cannot be written; they stay where they are by now.

        A target may go to another folder.
        """
        paths = [path for _, path in self.reports] + ([self.record] if self.record else [])
        for path in paths:
            check_writable(path)
        check_apart(paths)
        self.reports = [(name, path.absolute()) for name, path in self.reports]
        self.record = self.record.absolute() if self.record is not None else None

    def tell(self, event: Event) -> None:
        """Take an event: of progress what is new or a second old, of a failure its first trace and its shortest."""
        if self.on_event is not None:
            self.on_event(event)
        if isinstance(event, Progressed) and not self._is_news(event):
            return
        if isinstance(event, FailureFound) and not self._is_new(event):
            return
        if not self.events:
            self._begin()
        if isinstance(event, TargetStarted):
            self._open = event
        elif isinstance(event, TargetEnded):
            self._open = None
        self._keep(event)

    def end(self, exit_code: int, *, interrupted: bool = False, why: str = "") -> None:
        """End the run once, and a check that is still open, and write the reports; without a target leave nothing."""
        if not self.events or self.ended:
            return
        if self._open is not None:
            self._keep(self._broken_off(self._open, exit_code, interrupted, why))
        self._keep(RunEnded(exit_code, len(self.events), interrupted))
        if self._file is not None:
            self._file.close()
        run = self.run
        for name, path in self.reports:
            try:
                write_whole(path, FORMS[name](run))
            except OSError as error:
                self.complain(f"--report {name}={path}: {error.strerror or error}; the report is not written")

    @property
    def ended(self) -> bool:
        """The run is over."""
        return bool(self.events) and isinstance(self.events[-1], RunEnded)

    @property
    def run(self) -> RunReport:
        """What the run says so far."""
        return gather(self.events)

    def _is_news(self, event: Progressed) -> bool:
        now, stage = time.monotonic(), (event.target, event.kind, event.stage)
        if now - self._told.get(stage, -THROTTLE) < THROTTLE:
            return False
        self._told[stage] = now
        return True

    def _is_new(self, event: FailureFound) -> bool:
        place = (event.target, event.clause, event.kind)
        known = place in self._failed
        self._failed.add(place)
        return event.minimal or bool(event.steps) or not known

    def _begin(self) -> None:
        from kvlaw.conformance.telling import run_started

        if self.record is not None:
            try:
                self._file = EventFile.open(self.record)
            except OSError as error:
                raise OutputError(f"{self.record} cannot be written: {error.strerror or error}") from None
        self._keep(run_started(self.command))

    def _keep(self, event: Event) -> None:
        self.events.append(event)
        if self._file is None:
            return
        try:
            self._file.write(event)
        except OSError as error:  # the disk is full, say: the check goes on, and the record is known to be cut off
            self.complain(f"--events {self.record}: {error.strerror or error}; the rest of the run is not recorded")
            with suppress(OSError):  # what it still holds is lost
                self._file.close()
            self._file = None

    def _broken_off(self, started: TargetStarted, exit_code: int, interrupted: bool, why: str) -> TargetEnded:
        """End a check that did not come to its own end."""
        failed = any(isinstance(event, FailureFound) and event.target == started.target for event in self.events)
        unusable = "unusable" if why and not failed else "incomplete"
        verdict = "violations" if failed else unusable
        return TargetEnded(started.target, verdict, exit_code, interrupted=interrupted, stopped=why)


def unusable(
    name: str, profile: str, budget: str, seed: int, settings: Mapping[str, int | float | str | bool]
) -> TargetStarted:
    """Begin the check of a target that turns out not to run: nothing is known of it but its name."""
    return TargetStarted(name, (), profile, budget, seed, fixed=dict(settings))


__all__ = ["Recording", "unusable"]
