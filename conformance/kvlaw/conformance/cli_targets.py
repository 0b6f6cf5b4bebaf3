"""The commands that take a target: ``kvlaw check`` and ``kvlaw try``.

Bad input is a usage error (exit code 2) or a target that could not be run (3), told in one message that names the thing
and the way out.
"""

import os
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import chdir, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import evolve, frozen

from kvlaw.conformance.cli_options import (
    Chosen,
    UnusableTargetError,
    Whole,
    chosen_by,
    console,
    errors,
    with_target_options,
)
from kvlaw.conformance.cli_project import Asked, open_named, opened_for, update, with_project_options
from kvlaw.conformance.cli_reports import recorded, recording_by, with_report_options
from kvlaw.conformance.interrupts import terminated
from kvlaw.conformance.limits import trace_too_large
from kvlaw.spec.trace import Trace, TraceError

if TYPE_CHECKING:
    from kvlaw.conformance.check import Plan, Progress, Report
    from kvlaw.conformance.expectations.learn import Learnt
    from kvlaw.conformance.failures import Failure
    from kvlaw.conformance.lockstep import Step
    from kvlaw.conformance.opening import Opened
    from kvlaw.conformance.processes import Pool
    from kvlaw.conformance.project import Job
    from kvlaw.conformance.recording import Recording
    from kvlaw.conformance.reports.run import TargetReport
    from kvlaw.conformance.result import CheckResult
    from kvlaw.reference.oracle import Profile
    from kvlaw.spec.contract import Subject

FAILS = 1
INCOMPLETE = 4


def _shard(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[int, int]:
    """Read ``--shard 2/3``."""
    if value is None:
        return 1, 1
    share, slash, of = value.partition("/")
    numbers = share.isdecimal() and of.isdecimal() and len(value) < 12 and bool(slash)
    if not numbers or not 1 <= int(share) <= int(of):
        raise click.BadParameter(f"{value!r}: write I/N, with I from 1 to N, as in --shard 2/3")
    return int(share), int(of)


def _database(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    """Open ``--database`` before anything is played."""
    from kvlaw.conformance.database import DatabaseError, open_database

    try:
        if value:
            open_database(value)
    except DatabaseError as error:
        raise click.BadParameter(str(error)) from None
    return str(Path(value).absolute()) if value and "://" not in value else value  # a target may go to another folder


def _spec(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """See that there is such a version of the specification."""
    from kvlaw.spec.clauses import SpecError, load_clauses

    versions = load_clauses().versions
    try:
        load_clauses().of_version(value or "")
    except SpecError:
        raise click.BadParameter(f"{value!r}: the versions are {', '.join(versions)}") from None
    return value


def with_spec(command: Any) -> Any:
    """Add ``--spec``."""
    return click.option(
        "--spec",
        callback=_spec,
        metavar="VERSION",
        show_default="what the configuration says, else the newest",
        help="Hold the target to the clauses of that version of the specification only.",
    )(command)


def pinned(spec: str | None) -> str:
    """Give the version whose clauses count: the one that is asked for, else the one that is configured."""
    from kvlaw.conformance.configuration import ConfigurationError, find

    try:
        return find().spec if spec is None else spec
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None


@click.command()
@click.argument("target", required=False)
@click.option(
    "--budget",
    type=click.Choice(["quick", "ci", "deep"]),
    show_default="what the configuration says, else ci",
    help="How much to play: the stored traces alone, some hundred machine traces more, or thousands.",
)
@click.option(
    "--profile",
    type=click.Choice(["core", "layout"]),
    show_default="what the configuration says, else core",
    help="core: what every cache owes its callers. layout: also order, masks and limits, fixed for interchange.",
)
@click.option(
    "--seed",
    type=Whole(min=0),
    show_default="what the configuration says, else 0",
    help="The seed of the machines.",
)
@click.option("--jobs", type=Whole(min=1), default=1, show_default=True, help="Processes that play side by side.")
@click.option(
    "--seeds",
    type=Whole(min=1, max=10_000),
    default=1,
    show_default=True,
    help="Play the machines from so many seeds, counted from --seed.",
)
@click.option(
    "--shard",
    callback=_shard,
    metavar="I/N",
    help="Play the I-th of N shares, for a CI matrix; kvlaw report --combine --exit-code judges them all.",
)
@click.option(
    "--database",
    callback=_database,
    metavar="URL",
    default="",
    help="Share failing traces: a folder, or redis://HOST:PORT/NUMBER.",
)
@with_spec
@with_report_options
@click.option("--allow-incomplete", is_flag=True, help="Exit 0 when MUST clauses were never exercised.")
@click.option("--verbose", "-v", is_flag=True, help="List every clause, and show broken laws as they are executed.")
@click.option("--quiet", "-q", is_flag=True, help="Show no progress on stderr.")
@with_project_options
@with_target_options
def check(**arguments: Any) -> None:
    """Check TARGET and show which clauses it breaks, each on the shortest trace.

    Without TARGET the targets of the configuration are checked: kvlaw.toml, or [tool.kvlaw] in pyproject.toml, here or
    in the nearest folder above. Failures that are listed in the file of expectations are replayed first, and gone
    around; the run is red when one of them is not as listed, or when another is found.

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
      cmd:./testee --flag   a process in any language that speaks the testee protocol (kvlaw testee smoke tries it)
      release:mlx-lm==0.28.0:RotatingKVCache   a cache of a release of mlx-lm (kvlaw releases fetch 0.28.0)
      vectors:results.jsonl                    what a native test observed (kvlaw vectors --help)
      fault:NAME            a planted fault (kvlaw faults lists them)

    \b
    Options of a cmd: target, by --set
      seconds=10   the time limit of one call      hello=20   that of the start
      log=FILE     write down every line that is sent and received

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
    record = recording_by(arguments.pop("reports"), arguments.pop("json_file"), arguments.pop("events_file"))
    asked = Asked.of(arguments, chosen_by(settings, mapping))
    how = {name: arguments[name] for name in ("seeds", "shard", "database")}
    if asked.update and (arguments["jobs"], how["seeds"], how["shard"]) != (1, 1, (1, 1)):
        raise click.UsageError(
            "--update-expectations learns in one process, from one whole check: leave out --jobs, --seeds and --shard"
        )
    _check(asked, arguments["jobs"], how, record, Shown(arguments["verbose"], arguments["quiet"]))


@frozen
class Shown:
    """What is shown besides: every clause, and how far the check is."""

    verbose: bool = False
    quiet: bool = False


def _check(asked: Asked, processes: int, how: dict[str, Any], record: "Recording", show: Shown) -> None:
    from kvlaw.conformance.processes import Pool

    jobs, here = asked.jobs(), Path.cwd()  # a target may go to another folder
    if (path := asked.project.configuration.path) is not None:
        console.print(f"configured by {os.path.relpath(path)}", style="dim", markup=False, soft_wrap=True)
    done: list[tuple[Job, tuple[CheckResult, Learnt | None]]] = []
    with recorded(record), Pool(processes) as pool:
        for job in jobs:
            done.append((job, _check_one(job, asked, pool, how, record, show)))
            if done[-1][1][0].interrupted:  # the user has seen enough
                break
        codes = {_code(result, allow_incomplete=job.allow_incomplete) for job, (result, _) in done}
        code = next(code for code in (FAILS, INCOMPLETE, *sorted(codes)) if code in codes)
        record.end(code, interrupted=any(result.interrupted for _, (result, _) in done))
    if asked.update:
        with chdir(here):
            update(asked.project, [learnt for _, (_, learnt) in done if learnt is not None])
    if len(jobs) > 1:
        verdicts = Counter(result.verdict for _, (result, _) in done)
        left = {"not checked": len(jobs) - len(done)} if len(done) < len(jobs) else {}
        said = ", ".join(f"{count} {verdict}" for verdict, count in (verdicts | Counter(left)).items())
        line = f"{asked.target or asked.project.configuration.path}: {len(jobs)} targets, {said}"
        console.print(line, markup=False, soft_wrap=True)
    sys.exit(code)


def judge_target(
    target: str, *, profile: "Profile", chosen: Chosen, json_file: Path | None, allow_incomplete: bool, verbose: bool
) -> None:
    """Check a target that has answers to the stored traces only, and leave with the exit code."""
    from kvlaw.conformance.configuration import Configuration
    from kvlaw.conformance.project import Given, Project

    given = Given(chosen.settings, chosen.mapping, "quick", profile, 0, allow_incomplete=allow_incomplete)
    asked = Asked(target, given, Project(Configuration()))
    how = {"seeds": 1, "shard": (1, 1), "database": ""}
    _check(asked, 1, how, recording_by((), json_file, None), Shown(verbose))


def _code(result: "CheckResult", *, allow_incomplete: bool) -> int:
    code, allowed = result.exit_code, allow_incomplete or result.shard != (1, 1)
    return 0 if code == INCOMPLETE and allowed and result.whole else code


def _check_one(
    job: "Job", asked: Asked, pool: "Pool", how: dict[str, Any], record: "Recording", show: Shown
) -> "tuple[CheckResult, Learnt | None]":
    """Check one target, tell what happens, and show what came of it; or check until all that is found is listed."""
    from kvlaw.conformance.blackbox import watched
    from kvlaw.conformance.check import Processes
    from kvlaw.conformance.check import check as run
    from kvlaw.conformance.expectations.learn import Listener, learn
    from kvlaw.conformance.recording import unusable
    from kvlaw.conformance.rerunning import Rerun, built_by
    from kvlaw.conformance.store import FOLDER
    from kvlaw.conformance.telling import failure_found, judged, progressed, target_started

    folder = FOLDER.absolute()  # a target may go to another one
    try:
        opened, plan = ready(job, **how)
    except UnusableTargetError:
        record.tell(unusable(job.target, job.profile, job.budget, job.seed, job.settings))
        raise
    console.print(f"checking {opened.name} ({_told(plan)})", style="dim", markup=False, soft_wrap=True)
    record.tell(target_started(plan, opened.subject.capabilities))

    def report(progress: "Progress") -> None:
        record.tell(progressed(opened.name, progress))

    own = hasattr(opened.subject, "adapter")  # it runs in this process, and may end it
    with _progress(record, quiet=show.quiet), watched(opened.name) if own else nullcontext():
        listener = Listener(report, None, _say)
        learnt = learn(plan, opened.subject, job.called, listener) if asked.update else None
        processes = Processes(pool, partial(_subject, job)) if pool.jobs > 1 else None
        result = (
            run(plan, opened.subject, report, processes, lambda failure: record.tell(failure_found(failure)))
            if learnt is None
            else learnt.result
        )
    hurried, rerun = terminated(), Rerun(opened.subject, plan)
    for failure in (failure for clause in result.failed for failure in clause.failures):
        told, steps = failure, ()
        _keep(failure, folder)
        try:
            told, steps = (failure, ()) if hurried else rerun.again(failure)
        except KeyboardInterrupt:  # the result is there: it is shown, without the steps that are left
            hurried, result = True, evolve(result, interrupted=True)
        record.tell(failure_found(told, steps, built_by(opened.subject, told.trace.config)))
    for event in judged(result, _code(result, allow_incomplete=job.allow_incomplete)):
        record.tell(event)
    _print(record.run.targets[-1], verbose=show.verbose)
    return result, learnt


def _say(line: str) -> None:
    console.print(line, style="dim", markup=False, soft_wrap=True)


def _subject(job: "Job") -> "Subject":
    """Open a target in another process, where it may turn out that it cannot be."""
    from kvlaw.conformance.session import TargetGoneError

    try:
        return opened_for(job).subject
    except click.ClickException as error:
        raise TargetGoneError(f"the target could not be run in a process of its own: {error.message}") from None


def _told(plan: "Plan") -> str:
    """Tell what a check plays."""
    from kvlaw.conformance.reports.run import fixed_words

    said = [told] if (told := fixed_words(plan.fixed)) else []
    said += [f"profile {plan.profile}", f"budget {plan.budget}", f"seed {plan.seed}"]
    said += [f"{plan.seeds} seeds"] if plan.seeds > 1 else []
    said += [f"shard {plan.shard[0]} of {plan.shard[1]}"] if plan.shard != (1, 1) else []
    said += [f"spec {plan.spec}"] if plan.spec else []
    return ", ".join(said)


def ready(job: "Job", **how: Any) -> "tuple[Opened, Plan]":
    """Open the target of a job, of which a cache of each kind can be opened, and plan its check."""
    from kvlaw.conformance.check import Plan, probe
    from kvlaw.conformance.subjects.targets import arithmetic_is_modelled

    opened = opened_for(job)
    if trouble := probe(opened.subject, opened.kinds, opened.fixed):
        raise UnusableTargetError(f"{opened.name} cannot open {trouble}")
    plan = Plan(
        opened.name,
        opened.kinds,
        job.profile,
        job.budget,
        job.seed,
        opened.fixed,
        arithmetic_is_modelled(opened.subject),
        spec=job.spec,
        expected=job.expected,
        called=job.called,
        **how,
    )
    return opened, plan


@contextmanager
def progressing() -> Generator["Report"]:
    """Show how far a check is that is not recorded."""
    from kvlaw.conformance.cli_progress import shown
    from kvlaw.conformance.telling import progressed

    with shown() as show:
        yield lambda progress: show(progressed("", progress))


@contextmanager
def _progress(record: "Recording", *, quiet: bool) -> Generator[None]:
    """Show how far a check is that is recorded."""
    from kvlaw.conformance.cli_progress import shown

    with shown(quiet=quiet) as show:
        record.on_event = show
        try:
            yield
        finally:
            record.on_event = None


def _print(report: "TargetReport", *, verbose: bool) -> None:
    from kvlaw.conformance.reports.terminal import print_target

    print_target(console, report, verbose=verbose)


def _keep(failure: "Failure", folder: Path) -> None:
    """Keep a failure for replay."""
    from kvlaw.conformance.store import save

    try:
        save(failure, folder)
    except OSError as error:
        errors.print(f"{failure.id} is not kept for replay: {error}", style="yellow", markup=False)


@click.command("try")
@click.argument("trace")
@click.option(
    "--target",
    default="builtin:oracle",
    show_default=True,
    help="The cache to try it on, as for kvlaw check; without one, the oracle answers.",
)
@click.option(
    "--profile",
    type=click.Choice(["core", "layout"]),
    show_default="layout for kvlaw's own caches and the oracle, core for others",
    help="The clauses that count, as for kvlaw check.",
)
@with_spec
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
    A trace that is copied from a report, from a file of expectations or from .kvlaw/failures is taken as it stands
    there, also as a table of steps; '-' reads it from the standard input.

    \b
    A trace is walked if it appends at most 16,384 positions, and no call has more than 16,777,216 scores
    (batch x query heads x queries x fetched columns).
    """  # noqa: D301  # click looks for the control character itself
    settings, mapping = arguments.pop("settings"), arguments.pop("mapping")
    _try(**arguments, chosen=chosen_by(settings, mapping))


def _try(*, trace: str, target: str, profile: "Profile | None", spec: str | None, chosen: Chosen) -> None:
    from kvlaw.conformance.claims import unkept, unobserved
    from kvlaw.conformance.pasted import read

    try:
        written = read(sys.stdin.buffer.read().decode(errors="replace") if trace == "-" else trace)
    except TraceError as error:
        raise click.UsageError(str(error)) from None
    if problem := trace_too_large(written.trace):
        raise click.UsageError(problem)
    opened, configured = open_named(target, chosen)
    own: Profile = "layout" if opened.target.startswith(("builtin:oracle", "builtin:mlx_impl.")) else "core"
    steps = walk_or_end(opened, written.trace, profile or configured or own, pinned(spec))
    broken = unkept(written, steps)
    show_steps(written.trace, steps, opened.target)
    for claim in broken:
        line = f"claim not kept: {claim.call} -> {claim.claimed}; seen: {claim.seen}"
        console.print(line, style="red", markup=False, soft_wrap=True)
    for claim in unobserved(written, steps):
        line = f"claim not observed: {claim.call} -> {claim.claimed}; {opened.target} does not show it"
        console.print(line, style="yellow", markup=False, soft_wrap=True)
    sys.exit(1 if broken or any(s.divergences for s in steps) else 0)


def walk_or_end(opened: "Opened", trace: Trace, profile: "Profile", spec: str = "") -> "tuple[Step, ...]":
    """Walk a trace, showing how far it is, or end with the message that says which call cannot be made.

    ``spec`` is the version of the specification whose clauses count, without one the newest.
    """
    from kvlaw.conformance.blackbox import tell_lines
    from kvlaw.conformance.check import replay as walk
    from kvlaw.conformance.session import StoppedError, TargetGoneError
    from kvlaw.reference.oracle import UnknownObjectError

    if problem := trace_too_large(trace):
        raise click.UsageError(problem)
    tell_lines()
    try:
        with errors.status("walking") as status:
            calls = len(trace.calls)

            def tell(number: int) -> None:
                status.update(f"walking: call {number} of {calls}")

            return walk(opened.subject, profile, trace, tell, spec)
    except UnknownObjectError as error:
        raise click.UsageError(str(error)) from None
    except TargetGoneError as error:
        raise UnusableTargetError(str(error)) from None
    except StoppedError:
        raise click.UsageError(
            "the trace is too large for this machine's memory: make shorter calls, or smaller batch, heads and D"
        ) from None


def show_steps(trace: Trace, steps: "tuple[Step, ...]", target: str) -> None:
    """Print a walk as a table, and which clause it breaks."""
    from kvlaw.conformance.reports.mishaps import mishap_of
    from kvlaw.conformance.reports.steps import first_divergence, step_table, told
    from kvlaw.spec.clauses import load_clauses
    from kvlaw.spec.text_form import write_call

    console.print(step_table(told(trace, steps), target=f"{target} shows"))
    if steps[-1].record.outcome == "unsupported":
        line = f"not asked further: {steps[-1].message}"
        console.print(line, style="yellow", markup=False, soft_wrap=True)
    divergence = first_divergence(steps)
    if divergence is None:
        return
    call = write_call(steps[-1].call) if steps[-1].call is not None else "the opening"
    met = mishap_of(divergence.field, divergence.expected, divergence.observed, call)
    rule = f"{divergence.clause}: {load_clauses()[divergence.clause].title}"
    line = f"breaks {rule}" if met is None else f"{met.sentence}; charged to {rule}"
    console.print(line, style="bold red", markup=False, soft_wrap=met is not None)


__all__ = [
    "FAILS",
    "check",
    "judge_target",
    "pinned",
    "progressing",
    "ready",
    "show_steps",
    "try_",
    "walk_or_end",
    "with_spec",
]
