"""``kvlaw replay``: stored failures, walked again one after the other, whatever becomes of the others."""

import shlex
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import evolve, frozen

from kvlaw.conformance.cli_options import (
    UNUSABLE,
    Chosen,
    UnusableTargetError,
    chosen_by,
    console,
    emit,
    errors,
    with_target_options,
)
from kvlaw.conformance.cli_project import open_named
from kvlaw.conformance.cli_targets import FAILS, pinned, show_steps, walk_or_end, with_spec
from kvlaw.spec.trace import TraceError

if TYPE_CHECKING:
    from kvlaw.conformance.compare import Divergence
    from kvlaw.conformance.lockstep import Step
    from kvlaw.conformance.opening import Opened
    from kvlaw.conformance.store import Stored
    from kvlaw.reference.oracle import Profile


@click.command()
@click.argument("names", nargs=-1)
@click.option("--all", "all_", is_flag=True, help="Replay every stored failure.")
@click.option("--script", is_flag=True, help="Print the one failure that is named as a Python script without kvlaw.")
@click.option("--target", help="Replay on this target instead of the one that is stored.")
@click.option(
    "--profile",
    type=click.Choice(["core", "layout"]),
    show_default="the one that is stored, else core",
    help="The clauses that count, as for kvlaw check.",
)
@with_spec
@with_target_options
def replay(**arguments: Any) -> None:
    """Replay stored failures, by file or id (the block of a failure names it).

    \b
    Each is replayed, whatever becomes of the others. The exit code is the highest of
      0 it keeps the law now    1 it fails still    2 its file cannot be read    3 its target could not be run
    """  # noqa: D301  # click looks for the control character itself
    settings, mapping = arguments.pop("settings"), arguments.pop("mapping")
    _replay(**arguments, chosen=chosen_by(settings, mapping))


def _replay(
    *,
    names: tuple[str, ...],
    all_: bool,
    script: bool,
    target: str | None,
    profile: "Profile | None",
    spec: str | None,
    chosen: Chosen,
) -> None:
    from kvlaw.conformance.store import all_stored

    counts = Counts(profile, pinned(spec))

    named = [*map(str, all_stored()), *names] if all_ else list(names)
    if not named:
        raise click.UsageError("nothing to replay: name a file or an id, or use --all after a check that failed")
    other = open_named(target, chosen)[0] if target else None
    if script:
        if len(set(named)) > 1:
            raise click.UsageError(f"--script prints one failure, and {len(set(named))} are named")
        emit(_script(named[0], other, counts, chosen))
        return
    codes = [_replayed(name, other, counts, chosen) for name in dict.fromkeys(named)]
    failing, broken = codes.count(FAILS), sum(code > FAILS for code in codes)
    told = f"{failing} of {len(codes)} {'fails' if failing == 1 else 'fail'}"
    console.print(told + (f", {broken} could not be replayed" if broken else ""))
    sys.exit(max(codes))


@frozen
class Counts:
    """Which clauses count: those of a profile (None: the one that is stored) and of a version."""

    profile: "Profile | None"
    spec: str

    def of(self, item: "Stored") -> "Profile":
        """Give the profile for a stored failure."""
        return self.profile or item.profile or "core"


def _replayed(name: str, other: "Opened | None", counts: "Counts", chosen: Chosen) -> int:
    """Replay one failure and show it; give its exit code."""
    from kvlaw.conformance.store import find, load

    try:
        item = load(find(name))
        opened = other or _opened_again(item, chosen)
        steps = walk_or_end(opened, item.trace, counts.of(item), counts.spec)
    except TraceError as error:
        return _told(name, click.UsageError(str(error)))
    except click.ClickException as error:
        return _told(name, error)
    console.print(f"{item.id} on {opened.name}", style="bold", markup=False, soft_wrap=True)
    show_steps(item.trace, steps, "the target")
    if any(s.divergences for s in steps):
        return FAILS
    return UNUSABLE if steps[-1].record.outcome == "unsupported" else 0


def _script(name: str, other: "Opened | None", counts: "Counts", chosen: Chosen) -> str:
    """Walk one failure, and write it as a script; end with the message that says why that cannot be."""
    from kvlaw.conformance.failures import Failure
    from kvlaw.conformance.reports.steps import first_divergence
    from kvlaw.conformance.scripts.made import ScriptError
    from kvlaw.conformance.scripts.write import check_duck, write_script
    from kvlaw.conformance.store import find, load
    from kvlaw.conformance.telling import failure_found

    try:
        item = load(find(name))
        if item.crashed:
            raise click.UsageError(f"{item.id} ends the process in which it runs: no script can tell what came of it")
        opened, profile = other or _opened_again(item, chosen), counts.of(item)
        check_duck(opened.subject, opened.name)
        steps = walk_or_end(opened, item.trace, profile, counts.spec)
        first = first_divergence(steps)
        if first is None:
            first, steps = _as_found(item, steps, opened.name)
        return write_script(failure_found(Failure(first.clause, item.trace, first, opened.name, profile), steps))
    except (TraceError, ScriptError) as error:
        raise click.UsageError(str(error)) from None


def _as_found(item: "Stored", steps: "tuple[Step, ...]", name: str) -> "tuple[Divergence, tuple[Step, ...]]":
    """Ask what was asked when the failure was found, of a target that keeps the law now: the script will pass."""
    gone = f"{item.id} does not fail any more on {name}"
    last, found = steps[-1], item.found
    if found is None:
        raise click.UsageError(f"{gone}, and its file does not say how it did: there is nothing to ask in a script")
    if len(steps) <= len(item.trace.calls) or last.record.outcome == "unsupported" or not _fits(found, last):
        raise click.UsageError(f"{gone}, since its last call cannot be asked: there is nothing to show")
    errors.print(f"{gone}: the script exits with 0 there", style="yellow", markup=False, soft_wrap=True)
    return found, (*steps[:-1], evolve(last, divergences=(found,)))


def _fits(found: "Divergence", step: "Step") -> bool:
    """Say whether there is the row, the layer and the query in which law and target parted."""
    law = step.expectation
    for part, parts in ((found.row, law.rows), (found.layer, law.layers)):
        if part is not None and part >= len(parts):
            return False
        law = parts[part] if part is not None else law
    return found.query is None or not law.sights or found.query < len(law.sights)


def _told(name: str, error: click.ClickException) -> int:
    """Say why one failure is not replayed."""
    about = Path(name).stem if name not in error.message else ""
    unusable = isinstance(error, UnusableTargetError)
    lines = [about, "the target could not be run" if unusable else "", error.message]
    errors.print(": ".join(line for line in lines if line), style="red", markup=False, soft_wrap=True)
    return error.exit_code


def _opened_again(item: "Stored", chosen: Chosen) -> "Opened":
    """Open the target of a stored failure, made as it was then; options that are given win."""
    if not item.words:
        raise click.UsageError(f"{item.id}: the file names no target; use --target")
    name, *words = item.words
    then = chosen_by(
        tuple(word for option, word in pairwise(words) if option == "--set"),
        tuple(word for option, word in pairwise(words) if option == "--map"),
    )
    try:
        opened = Chosen({**then.settings, **chosen.settings}, {**then.mapping, **chosen.mapping}).open(name)
    except click.UsageError as error:
        if chosen.settings or chosen.mapping:
            raise
        raise UnusableTargetError(error.message) from None  # the file says so, not the command line
    return _contained(opened) if item.crashed and hasattr(opened.subject, "adapter") else opened


def _contained(opened: "Opened") -> "Opened":
    """Open a target again in a process of its own, which a call of it has ended before."""
    serve = (sys.executable, "-c", "from kvlaw.conformance.cli import main; main()", "testee", "serve")
    served = Chosen({}, {}).open(f"cmd:{shlex.join((*serve, *shlex.split(opened.name)))}")
    return evolve(opened, subject=served.subject)


__all__ = ["replay"]
