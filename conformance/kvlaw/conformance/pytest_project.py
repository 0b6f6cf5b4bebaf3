"""What a suite checks, by the project's configuration: the same as ``kvlaw check`` with the same target and options."""

from typing import TYPE_CHECKING, Any, cast

from attrs import evolve

from kvlaw.conformance.configuration import find
from kvlaw.conformance.opening import name_of
from kvlaw.conformance.project import Given, Job, Project, open_project

if TYPE_CHECKING:
    from kvlaw.conformance.pytest_items import Suite


def job_of(suite: "Suite") -> Job:
    """Give the one target of a suite; raise ``ValueError`` where there is none, or several."""
    project = open_project(find(suite.root), None)
    named = suite.target if isinstance(suite.target, str) or suite.target is None else name_of(suite.target)
    if named is None and not project.configuration.targets:
        named = ""  # there is nothing to check, which an item says when it runs
    given = Given(
        suite.settings,
        suite.mapping,
        cast("Any", suite.budget),
        cast("Any", suite.profile),
        suite.seed,
        suite.spec,
        suite.allow_incomplete,
    )
    job, *others = project.jobs(named, given)
    if others:
        called = ", ".join(each.called for each in (job, *others))
        raise ValueError(f"a suite checks one target, and these are several: name one of {called}")
    return evolve(job, given=None if isinstance(suite.target, str) else suite.target)


def configured(root: Any, target: str) -> str:
    """Give the target that is configured under a name, or else the name itself."""
    found = Project(find(root)).configured(target)
    return found.target if found is not None else target


__all__ = ["configured", "job_of"]
