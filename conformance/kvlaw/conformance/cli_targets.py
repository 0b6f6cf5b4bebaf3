"""The commands that take a target: ``kvlaw check`` and ``kvlaw try``.

Bad input is a usage error (exit code 2) or a target that could not be run (3), told in one message that names the thing
and the way out.
"""

import json
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvlaw.conformance.cli_options import Chosen, UnusableTargetError, chosen_by, console, errors, with_target_options
from kvlaw.conformance.limits import trace_too_large
from kvlaw.spec.trace import Trace, TraceError

if TYPE_CHECKING:
    from kvlaw.conformance.check import Report
    from kvlaw.conformance.failures import Failure
    from kvlaw.conformance.lockstep import Step
    from kvlaw.conformance.opening import Opened
    from kvlaw.conformance.result import CheckResult
    from kvlaw.reference.oracle import Profile

FAILS = 1
INCOMPLETE = 4


profile_option = click.option(
    "--profile",
    type=click.Choice(["core", "layout"]),
    default="core",
    show_default=True,
    help="core: what every cache owes its callers. layout: also order, masks and limits, fixed for interchange.",
)


@click.command()
@click.argument("target")
@click.option(
    "--budget",
    type=click.Choice(["quick", "ci", "deep"]),
    default="ci",
    show_default=True,
    help="How much to play: the stored traces alone, some hundred machine traces more, or thousands.",
)
@profile_option
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The seed of the machines.")
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write the result as JSON.",
)
@click.option("--allow-incomplete", is_flag=True, help="Exit 0 when MUST clauses were never exercised.")
@click.option("--verbose", "-v", is_flag=True, help="List every clause.")
@with_target_options
def check(**arguments: Any) -> None:
    """Check TARGET and show which clauses it breaks, each on the shortest trace.

    \b
    TARGET is one of
      builtin:mlx_impl.full|ring                                   kvlaw's own caches
      builtin:mlx_impl.full_rows|ring_rows                         kvlaw's own groups of rows
      builtin:mlx_impl.recurrent|recurrent_rows                    kvlaw's own state of recurrent layers
      builtin:mlx_lm.KVCache|RotatingKVCache|ConcatenateKVCache    mlx-lm's caches
      builtin:mlx_lm.BatchKVCache|BatchRotatingKVCache             mlx-lm's groups of rows
      builtin:mlx_lm.ArraysCache                                   mlx-lm's state of recurrent layers
      builtin:oracle                                               the NumPy reference
      builtin:mlx_impl, builtin:mlx_lm                             all of them, one after the other
      py:module:attr        a class or factory of yours, or a kvlaw.conformance.Adapter
      release:mlx-lm==0.28.0:RotatingKVCache   a cache of a release of mlx-lm (kvlaw releases fetch 0.28.0)
      vectors:results.jsonl                    what a native test observed (kvlaw vectors --help)
      fault:NAME            a planted fault (kvlaw faults lists them)

    \b
    Options of a py: target, by --set
      array=numpy                        hand over NumPy arrays instead of MLX's
      clone=method|deepcopy|from_state   how a cache is copied; without it, by its method clone(), or not at all
      kind=full|ring                     which kind it is, where the signature doesn't tell
      kind=full_rows|ring_rows           check the groups that its caches are merged into
      seconds=10                         the time limit of one call

    \b
    Option of kvlaw's own caches of codes, by --set
      kernels=tiled|tiled_causal|unfused   the kernel set of their reads (READ-15)

    \b
    Option of mlx-lm's serial caches, by --set
      step=naive_compile   decode by mx.compile around update_and_fetch, too
    """  # noqa: D301  # click looks for the control character itself
    settings, mapping = arguments.pop("settings"), arguments.pop("mapping")
    _check(**arguments, chosen=chosen_by(settings, mapping))


def _check(*, target: str, json_file: Path | None, allow_incomplete: bool, **how: Any) -> None:
    from kvlaw.conformance.subjects.targets import members

    names = members(target)
    results = [_check_one(name, **how) for name in names]
    if json_file is not None:
        told = [result.to_json() for result in results]
        _write_json(json_file, told if len(names) > 1 else told[0])
    if len(names) > 1:
        verdicts = Counter(result.verdict for result in results)
        said = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
        console.print(f"{target}: {len(names)} targets, {said}", markup=False)
    codes = {_code(result, allow_incomplete=allow_incomplete) for result in results}
    sys.exit(next(code for code in (FAILS, INCOMPLETE, *sorted(codes)) if code in codes))


def judge_target(
    target: str, *, profile: "Profile", chosen: Chosen, json_file: Path | None, allow_incomplete: bool, verbose: bool
) -> None:
    """Check a target that has answers to the stored traces only, and leave with the exit code."""
    how: dict[str, Any] = {"budget": "quick", "profile": profile, "seed": 0, "verbose": verbose, "chosen": chosen}
    _check(target=target, json_file=json_file, allow_incomplete=allow_incomplete, **how)


def _code(result: "CheckResult", *, allow_incomplete: bool) -> int:
    code = result.exit_code
    return 0 if code == INCOMPLETE and allow_incomplete and result.whole else code


def _check_one(
    target: str, *, budget: Any, profile: "Profile", seed: int, verbose: bool, chosen: Chosen
) -> "CheckResult":
    """Check one target and show what came of it."""
    from kvlaw.conformance.check import Plan, probe
    from kvlaw.conformance.check import check as run
    from kvlaw.conformance.subjects.targets import arithmetic_is_modelled

    opened = chosen.open(target)
    if trouble := probe(opened.subject, opened.kinds, opened.fixed):
        raise UnusableTargetError(f"{opened.name} cannot open {trouble}")
    modelled = arithmetic_is_modelled(opened.subject)
    console.print(
        f"checking {opened.name} (profile {profile}, budget {budget}, seed {seed})", style="dim", markup=False
    )
    with _progress() as report:
        plan = Plan(opened.name, opened.kinds, profile, budget, seed, opened.fixed, modelled)
        result = run(plan, opened.subject, report)
    _print(result, opened, verbose=verbose)
    return result


@contextmanager
def _progress() -> Generator["Report"]:
    """Show what is going on, on a terminal; print nothing elsewhere."""
    from kvlaw.conformance.check import Progress

    with errors.status("starting") as status:

        def report(progress: Progress) -> None:
            failed = f", {progress.failures} clauses broken" if progress.failures else ""
            status.update(f"{progress.kind}: {progress.stage}, {progress.calls} calls{failed}")

        yield report


def _write_json(path: Path, told: Any) -> None:
    try:
        path.write_text(json.dumps(told, indent=1) + "\n")
    except OSError as error:
        errors.print(
            f"--json {path}: {error.strerror}; the result is shown, but not written", style="red", markup=False
        )


def _print(result: "CheckResult", opened: "Opened", *, verbose: bool) -> None:
    from kvlaw.conformance.check import replay as walk
    from kvlaw.conformance.reports.terminal import print_check
    from kvlaw.conformance.store import save

    def rerun(failure: "Failure") -> "tuple[Step, ...]":
        try:
            save(failure)
        except OSError as error:
            errors.print(f"{failure.id} is not kept for replay: {error}", style="yellow", markup=False)
        return walk(opened.subject, plan_profile, failure.trace)

    plan_profile: Any = result.profile
    print_check(console, result, rerun, verbose=verbose)


@click.command("try")
@click.argument("trace")
@click.option(
    "--target",
    default="builtin:oracle",
    show_default=True,
    help="The cache to try it on; without one, the oracle answers.",
)
@click.option(
    "--profile",
    type=click.Choice(["core", "layout"]),
    show_default="layout for kvlaw's own caches and the oracle, core for others",
    help="The clauses that count, as for kvlaw check.",
)
@with_target_options
def try_(**arguments: Any) -> None:
    """Run one hand-written TRACE and show, step by step, what the law says and what the target shows.

    \b
    A trace opens with a kind and its configuration, then calls, parted by ';':
      ring window=8 sinks=2 ; window 12 ; trim 2 -> refused ; decode -> sees t1,t2,t8..t13
    calls:  decode, window N, dense N, mask N [decode], trim N [bypass], clone as NAME, state as NAME,
            reset, attend NAME, look NAME, drop NAME, list full + ring window=4 as NAME
    behind: on NAME (another object than the first cache, c0), as NAME (for a read), w=4 (window argument), array, x5
    claims: refused, ok, a number (the answer), sees, order, fetches, holds, mask, offset, columns, size, can_trim
            on a list of layers a claim speaks of every layer, or of one: layer 1 sees t3..t6

    \b
    A trace is walked if it appends at most 16,384 positions, and no call has more than 16,777,216 scores
    (batch x query heads x queries x fetched columns).
    """  # noqa: D301  # click looks for the control character itself
    settings, mapping = arguments.pop("settings"), arguments.pop("mapping")
    _try(**arguments, chosen=chosen_by(settings, mapping))


def _try(*, trace: str, target: str, profile: "Profile | None", chosen: Chosen) -> None:
    from kvlaw.conformance.claims import unkept, unobserved
    from kvlaw.spec.text_form import parse

    try:
        written = parse(trace)
    except TraceError as error:
        raise click.UsageError(str(error)) from None
    if problem := trace_too_large(written.trace):
        raise click.UsageError(problem)
    opened = chosen.open(target)
    own: Profile = "layout" if target.startswith(("builtin:oracle", "builtin:mlx_impl.")) else "core"
    steps = walk_or_end(opened, written.trace, profile or own)
    broken = unkept(written, steps)
    show_steps(written.trace, steps, opened.name.split()[0])
    for claim in broken:
        line = f"claim not kept: {claim.call} -> {claim.claimed}; seen: {claim.seen}"
        console.print(line, style="red", markup=False, soft_wrap=True)
    for claim in unobserved(written, steps):
        line = f"claim not observed: {claim.call} -> {claim.claimed}; {opened.name.split()[0]} does not show it"
        console.print(line, style="yellow", markup=False, soft_wrap=True)
    sys.exit(1 if broken or any(s.divergences for s in steps) else 0)


def walk_or_end(opened: "Opened", trace: Trace, profile: "Profile") -> "tuple[Step, ...]":
    """Walk a trace, showing how far it is, or end with the message that says which call cannot be made."""
    from kvlaw.conformance.check import replay as walk
    from kvlaw.conformance.session import StoppedError
    from kvlaw.reference.oracle import UnknownObjectError

    if problem := trace_too_large(trace):
        raise click.UsageError(problem)
    try:
        with errors.status("walking") as status:
            calls = len(trace.calls)
            return walk(opened.subject, profile, trace, lambda n: status.update(f"walking: call {n} of {calls}"))
    except UnknownObjectError as error:
        raise click.UsageError(str(error)) from None
    except StoppedError:
        raise click.UsageError(
            "the trace is too large for this machine's memory: make shorter calls, or smaller batch, heads and D"
        ) from None


def show_steps(trace: Trace, steps: "tuple[Step, ...]", target: str) -> None:
    """Print a walk as a table, and which clause it breaks."""
    from kvlaw.conformance.reports.steps import first_divergence, step_table
    from kvlaw.spec.clauses import load_clauses

    console.print(step_table(trace, steps, target=f"{target} shows"))
    if steps[-1].record.outcome == "unsupported":
        line = f"not asked further: {steps[-1].message}"
        console.print(line, style="yellow", markup=False, soft_wrap=True)
    divergence = first_divergence(steps)
    if divergence is not None:
        title = load_clauses()[divergence.clause].title
        console.print(f"breaks {divergence.clause}: {title}", style="bold red", markup=False)


__all__ = ["FAILS", "check", "judge_target", "show_steps", "try_", "walk_or_end"]
