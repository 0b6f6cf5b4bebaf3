"""From a configuration and what a command line says to the targets that are checked: each a ``Job``.

Without a target on the command line the configured ones are checked; a target that is configured, by its name or as it
is written, is checked as configured. Options of the command line win. Expectations belong to a job by what their
``target`` says; those for a target that is neither configured nor checked are ``misplaced``.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from kvlaw.conformance.configuration import EXPECTATIONS, Budget, Configuration, ConfigurationError, TargetSettings
from kvlaw.conformance.expectations.entries import Expected
from kvlaw.conformance.expectations.file import read_file
from kvlaw.spec.clauses import Profile
from kvlaw.spec.config import Kind


@frozen
class Given:
    """What the command line says; None is nothing."""

    settings: Mapping[str, Any] = field(factory=dict[str, Any])
    mapping: Mapping[str, str] = field(factory=dict[str, str])
    budget: Budget | None = None
    profile: Profile | None = None
    seed: int | None = None
    spec: str | None = None
    allow_incomplete: bool = False


@frozen
class Job:
    """One target to check: how it is made, how it is checked, and what is listed for it under the name ``called``.

    ``given`` is the target itself, where a suite gives it as an object.
    """

    target: str
    called: str
    settings: dict[str, Any]
    mapping: dict[str, str]
    kinds: tuple[Kind, ...]
    profile: Profile
    budget: Budget
    seed: int
    spec: str = ""
    allow_incomplete: bool = False
    expected: tuple[Expected, ...] = ()
    given: Any = None


@frozen
class Project:
    """A configuration with its expectations, and the file in which those stand or would stand."""

    configuration: Configuration
    file: Path | None = None
    expected: tuple[Expected, ...] = ()

    @property
    def where(self) -> Path:
        """The file of expectations, or where one would be made."""
        return self.file or self.configuration.folder / EXPECTATIONS

    def jobs(self, target: str | None, given: Given) -> tuple[Job, ...]:
        """Make the jobs of a command line; raise ``ConfigurationError`` if there is nothing to check."""
        chosen = self._chosen(target)
        jobs = [job for settings in chosen for job in self._members(settings, given)]
        there = {job.called for job in jobs} | {name for t in self.configuration.targets for name in _names(t)}
        return tuple(evolve(job, expected=self._listed(job, there, first=job is jobs[0])) for job in jobs)

    def configured(self, target: str) -> TargetSettings | None:
        """Find a configured target by its name, as it is written, or by its full name."""
        from kvlaw.conformance.opening import full_name

        found = self.configuration.find
        return found(target) or found(full_name(target))

    def _chosen(self, target: str | None) -> tuple[TargetSettings, ...]:
        if target is not None:
            return (self.named(target),)
        if not self.configuration.targets:
            where = self.configuration.path
            lacks = f"{where} names no targets" if where is not None else "there is no configuration here or above"
            raise ConfigurationError(f"no target: {lacks}; name one (kvlaw check TARGET), or run `kvlaw init TARGET`")
        return self.configuration.targets

    def named(self, target: str) -> TargetSettings:
        """Find a configured target, or take another as it is written; raise ``ConfigurationError`` if it is none."""
        from kvlaw.conformance.opening import full_name
        from kvlaw.conformance.subjects.targets import is_written, members, unknown

        if (known := self.configured(target)) is not None:
            return known
        names = tuple(settings.called for settings in self.configuration.targets)
        if names and not is_written(full_name(target)) and members(target) == (target,):
            raise ConfigurationError(unknown(target, names))
        return TargetSettings(target)

    def _members(self, settings: TargetSettings, given: Given) -> list[Job]:
        from kvlaw.conformance.subjects.targets import members

        said, names = self.configuration, members(settings.target)
        return [
            Job(
                target=name,
                called=settings.called if len(names) == 1 else name,
                settings={**settings.set, **given.settings},
                mapping={**settings.map, **given.mapping},
                kinds=settings.kinds,
                profile=given.profile or settings.profile or said.profile,
                budget=given.budget or said.budget,
                seed=said.seed if given.seed is None else given.seed,
                spec=said.spec if given.spec is None else given.spec,
                allow_incomplete=given.allow_incomplete or said.allow_incomplete,
            )
            for name in names
        ]

    def _listed(self, job: Job, there: set[str], *, first: bool) -> tuple[Expected, ...]:
        """Give the expectations of a job; the first one also gets those for targets that are not there."""
        known = there if self.configuration.targets else there | self._unjudged(there)
        lost = (entry for entry in self.expected if first and entry.target not in known)
        return (*(entry for entry in self.expected if entry.target == job.called), *lost)

    def _unjudged(self, there: set[str]) -> set[str]:
        """List targets that expectations name, and that may be there: nothing is configured that would say so."""
        from kvlaw.conformance.subjects.targets import known_targets

        names = {entry.target for entry in self.expected} - there
        return {name for name in names if not name.startswith("builtin:") or name in known_targets()}


def _names(target: TargetSettings) -> tuple[str, ...]:
    from kvlaw.conformance.subjects.targets import members

    names = members(target.target)
    return (target.called,) if len(names) == 1 else (target.called, *names)


def open_project(configuration: Configuration, expectations: Path | None, *, may_lack: bool = False) -> Project:
    """Read the expectations of a configuration, or those in the file that is named instead.

    ``may_lack`` says that a file which is not there is one that will be written.
    """
    file = expectations or configuration.expectations_file
    if file is None or (may_lack and not file.exists()):
        return Project(configuration, file)
    if not os.path.lexists(file):
        way = "`kvlaw check --update-expectations` makes it from what fails now; an empty file lists nothing"
        raise ConfigurationError(f"{file}: there is no such file of expectations: {way}")
    return Project(configuration, file, read_file(file))


__all__ = ["Given", "Job", "Project", "open_project"]
