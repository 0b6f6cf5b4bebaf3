"""``kvlaw init``: a first check, and from it a configuration, the expectations and a CI workflow."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvlaw.conformance.cli_options import (
    INTERRUPTED,
    Chosen,
    Number,
    Whole,
    chosen_by,
    console,
    errors,
    with_target_options,
)
from kvlaw.conformance.cli_targets import FAILS, progressing, ready
from kvlaw.conformance.counting import counted
from kvlaw.conformance.init.outlook import left_to_do

if TYPE_CHECKING:
    from kvlaw.conformance.expectations.learn import Learnt
    from kvlaw.conformance.failures import Failure
    from kvlaw.conformance.init.places import Places
    from kvlaw.conformance.project import Job


@click.command()
@click.argument("target")
@click.option("--name", metavar="NAME", help="What to call the target.  [default: as it is written]")
@click.option("--budget", type=click.Choice(["quick", "ci", "deep"]), default="ci", show_default=True)
@click.option("--profile", type=click.Choice(["core", "layout"]), default="core", show_default=True)
@click.option("--seed", type=Whole(min=0), default=0, show_default=True)
@click.option(
    "--minutes",
    type=Number(min=0, min_open=True, max=100_000),
    default=5,
    show_default=True,
    help="How long to look for failures; those that are found by then are listed.",
)
@click.option("--force", is_flag=True, help="Write files anew that are there already.")
@with_target_options
def init(**arguments: Any) -> None:
    """Check TARGET a first time, and set this folder up for kvlaw check.

    \b
    Writes, all or nothing:
      [tool.kvlaw] in pyproject.toml, or kvlaw.toml where there is none    the configuration
      kvlaw-expectations.toml      the failures that are there now, each with its shortest trace
      .github/workflows/kvlaw.yml  a workflow that runs kvlaw check

    \b
    Exit codes: 0 written; 1 too many failures to list, nothing written; 2 usage, or files that are there already;
    3 the target could not be run, nothing written; 4 written, but the time was over before all was played;
    130 interrupted, nothing written.
    """  # noqa: D301  # click looks for the control character itself
    settings, mapping = arguments.pop("settings"), arguments.pop("mapping")
    _init(**arguments, chosen=chosen_by(settings, mapping))


def _init(*, target: str, name: str | None, force: bool, minutes: float, chosen: Chosen, **how: Any) -> None:
    from kvlaw.conformance.configuration import ConfigurationError
    from kvlaw.conformance.init.places import places_in
    from kvlaw.conformance.project import Job

    if name is not None and not name.strip():
        raise click.UsageError("--name: a name is wanted")
    try:
        places = places_in(Path.cwd(), force=force)
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None
    job = Job(target, name or target, chosen.settings, chosen.mapping, (), how["profile"], how["budget"], how["seed"])
    learnt = _learn(job, minutes)
    if not learnt.late and not learnt.result.whole:
        why = learnt.result.stopped or "interrupted"
        errors.print(f"{why}: nothing is written", style="yellow", markup=False)
        sys.exit(INTERRUPTED if learnt.result.interrupted else FAILS)
    if not learnt.late and not learnt.settled:
        left = " ".join(clause.clause.id for clause in learnt.result.failed)
        line = f"{target} fails in too many ways to list them ({left}): repair some first; nothing is written"
        errors.print(line, style="red", markup=False, soft_wrap=True)
        sys.exit(FAILS)
    _write(places, job, learnt, minutes)


def _learn(job: "Job", minutes: float) -> "Learnt":
    from kvlaw.conformance.expectations.learn import Listener, learn
    from kvlaw.conformance.subjects.targets import members
    from kvlaw.spec.text_form import write

    if len(members(job.target)) > 1:
        listed = ", ".join(members(job.target))
        raise click.UsageError(f"{job.target} is several targets: name one, and add others by hand ({listed})")
    opened, plan = ready(job)
    limit = counted(minutes, "minute")
    told = f"checking {opened.name} until all that it breaks is known, for {limit} at most"
    console.print(f"{told} (budget {plan.budget}, seed {plan.seed})", style="dim", markup=False, soft_wrap=True)
    started = time.monotonic()

    def found(failure: "Failure") -> None:
        line = f"{time.monotonic() - started:5.0f} s  {failure.clause}  {write(failure.trace)}"
        console.print(line, style="dim", markup=False, soft_wrap=True)

    with progressing() as report:
        listener = Listener(report, found, lambda line: console.print(line, style="dim"))
        return learn(plan, opened.subject, job.called, listener, minutes * 60)


def _write(places: "Places", job: "Job", learnt: "Learnt", minutes: float) -> None:
    from kvlaw.conformance.configuration import ConfigurationError
    from kvlaw.conformance.files import write_all
    from kvlaw.conformance.init.contents import First, configuration_text, expectations_text, workflow_text

    result = learnt.result
    missing = () if learnt.late else tuple(r.clause.id for r in result.open if r.clause.level == "MUST")
    first = First(job, result.versions["spec"], learnt.added, missing)
    try:
        write_all(
            {
                places.configuration: configuration_text(places, first),
                places.expectations: expectations_text(first.entries),
                places.workflow: workflow_text(places),
            }
        )
    except ConfigurationError as error:
        raise click.UsageError(f"{error}; nothing is written") from None
    except OSError as error:
        raise click.UsageError(
            f"{error.filename or places.configuration}: {error.strerror}; nothing is written"
        ) from None
    listed = len(first.entries)
    but = f" but for {counted(listed, 'expected failure')}" if listed else ""
    said = f"{'incomplete' if missing else 'conformant'}{but}"
    said = f"{counted(listed, 'failure')} listed, and there may be others" if learnt.late else said
    console.print(f"{job.target}: {said}", style="bold", markup=False, soft_wrap=True)
    for path in (places.configuration, places.expectations, places.workflow):
        console.print(f"  wrote {path.relative_to(places.configuration.parent)}", markup=False, soft_wrap=True)
    for line in left_to_do(learnt, listed, minutes):
        console.print(line, style="yellow" if line.startswith("left") else "cyan", markup=False, soft_wrap=True)
    sys.exit(INCOMPLETE if learnt.late else 0)


INCOMPLETE = 4

__all__ = ["init"]
