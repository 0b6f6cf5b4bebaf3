"""How the command line takes a project: ``--config``, ``--expectations`` and ``--update-expectations``."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import evolve, frozen

from kvlaw.conformance.cli_options import Chosen, console, errors, refusal

if TYPE_CHECKING:
    from kvlaw.conformance.configuration import TargetSettings
    from kvlaw.conformance.expectations.learn import Learnt
    from kvlaw.conformance.opening import Opened
    from kvlaw.conformance.project import Given, Job, Project
    from kvlaw.spec.clauses import Profile

_FILE = click.Path(path_type=Path)


def with_project_options(command: Any) -> Any:
    """Add ``--config``, ``--expectations`` and ``--update-expectations``."""
    update = click.option(
        "--update-expectations",
        "update",
        is_flag=True,
        help="Check until all that is found is listed: add new failures, refresh changed ones, remove those that pass.",
    )
    expectations = click.option(
        "--expectations",
        type=_FILE,
        metavar="FILE",
        help="The file of expected failures.  [default: what the configuration says]",
    )
    config = click.option(
        "--config",
        type=_FILE,
        metavar="FILE",
        help="The configuration.  [default: kvlaw.toml or pyproject.toml, here or above]",
    )
    return config(expectations(update(command)))


@frozen
class Asked:
    """What a command line asks for: a target or all that are configured, and how the configuration is overridden."""

    target: str | None
    given: "Given"
    project: "Project"
    update: bool = False

    @classmethod
    def of(cls, arguments: dict[str, Any], chosen: Chosen) -> "Asked":
        """Read the configuration and the expectations; end with a usage error if they cannot be used."""
        from kvlaw.conformance.configuration import ConfigurationError, find, read
        from kvlaw.conformance.project import Given, open_project

        names = ("budget", "profile", "seed", "spec", "allow_incomplete")
        given = Given(chosen.settings, chosen.mapping, **{name: arguments[name] for name in names})
        update: bool = arguments["update"]
        try:
            configuration = read(arguments["config"]) if arguments["config"] is not None else find()
            project = open_project(configuration, arguments["expectations"], may_lack=update)
        except ConfigurationError as error:
            raise click.UsageError(str(error)) from None
        return cls(arguments["target"], given, project, update)

    def jobs(self) -> "tuple[Job, ...]":
        """Make the jobs; end with a usage error if there is nothing to check."""
        from kvlaw.conformance.configuration import ConfigurationError

        try:
            jobs = self.project.jobs(self.target, self.given)
        except ConfigurationError as error:
            raise click.UsageError(str(error)) from None
        for job in jobs:
            _check_name(job)
        if not self.update:
            return jobs
        return tuple(evolve(job, expected=tuple(e for e in job.expected if e.target == job.called)) for job in jobs)


def open_named(target: str, chosen: Chosen) -> "tuple[Opened, Profile | None]":
    """Open a target as it is configured, and give the profile that is configured for it."""
    known = _configured(target)
    return _with_its_options(known, chosen).open(known.target), known.profile


def named(target: str, chosen: Chosen) -> tuple[str, Chosen]:
    """Find a target by the name that it is configured under, or as it is written, with the options that it has.

    Options of the command line win.
    """
    known = _configured(target)
    return known.target, _with_its_options(known, chosen)


def _with_its_options(known: "TargetSettings", chosen: Chosen) -> Chosen:
    settings = {**known.set, **chosen.settings}
    if len(known.kinds) == 1:
        settings.setdefault("kind", known.kinds[0])
    return Chosen(settings, {**known.map, **chosen.mapping})


def _configured(target: str) -> "TargetSettings":
    from kvlaw.conformance.configuration import ConfigurationError, find
    from kvlaw.conformance.project import Project

    try:
        return Project(find()).named(target)
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None


def _check_name(job: "Job") -> None:
    """End with a usage error for a name or an option that no target can have, before anything is played."""
    from kvlaw.conformance.opening import check_named
    from kvlaw.conformance.subjects.targets import TargetError

    try:
        check_named(job.target, job.settings, job.mapping)
    except TargetError as error:
        raise refusal(error) from None


def opened_for(job: "Job") -> "Opened":
    """Open the target of a job as those of its kinds that are asked for."""
    kinds = job.kinds
    settings = dict(job.settings)
    if len(kinds) == 1:
        settings.setdefault("kind", kinds[0])
    opened = Chosen(settings, job.mapping).open(job.target if job.given is None else job.given)
    if "kind" in settings or not kinds:
        return opened
    lacking = [kind for kind in kinds if kind not in opened.kinds]
    if lacking:
        served = ", ".join(opened.kinds)
        raise click.UsageError(f"kinds: {job.called} is checked as {served}, not as {', '.join(lacking)}")
    return evolve(opened, kinds=tuple(kind for kind in opened.kinds if kind in kinds))


def update(project: "Project", learnt: "Sequence[Learnt]") -> None:
    """Write what was learnt into the file of expectations; say what changed, and what was not settled."""
    from kvlaw.conformance.configuration import ConfigurationError
    from kvlaw.conformance.expectations.rewrite import rewrite

    where = project.where
    if not all(found.result.whole for found in learnt):
        line = f"{where} is left as it is: the check was not finished"
        errors.print(line, style="yellow", markup=False, soft_wrap=True)
        return
    try:
        told = rewrite(project, learnt)
    except (ConfigurationError, OSError) as error:
        raise click.UsageError(f"{where} is left as it is: {getattr(error, 'strerror', None) or error}") from None
    console.print(f"{where}: {told}", style="cyan", markup=False, soft_wrap=True)
    for found in learnt:
        if not found.settled:
            line = f"{found.result.target}: still other failures in round {found.rounds}; run it again, or repair some"
            errors.print(line, style="yellow", markup=False, soft_wrap=True)


__all__ = ["Asked", "named", "open_named", "opened_for", "update", "with_project_options"]
