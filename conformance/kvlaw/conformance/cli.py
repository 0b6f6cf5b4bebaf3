"""The command line: ``kvlaw check``, ``try``, ``replay``, ``faults``, ``prove``, ``bench`` and ``spec``.

Every command imports what it needs when it runs, so that a vendor without MLX can check a cache of their own.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from kvlaw.spec.trace import TraceError

if TYPE_CHECKING:
    from kvlaw.conformance.check import Plan, Report
    from kvlaw.conformance.result import CheckResult
    from kvlaw.spec.contract import Subject

USAGE, UNUSABLE = 2, 3
console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)
_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


def main() -> None:
    """Run the command line; never show a traceback of ours for bad input."""
    cli(prog_name="kvlaw")


class UnusableTargetError(click.ClickException):
    """The target could not be run (exit code 3)."""

    exit_code = UNUSABLE

    def show(self, file: Any = None) -> None:
        """Print the reason."""
        errors.print(f"target could not be run: {self.message}", style="red", markup=False)


@click.group(context_settings=_CONTEXT)
@click.version_option(package_name="kvlaw")
def cli() -> None:
    """Check a KV cache against the laws it must obey.

    \b
    First steps:
      kvlaw check builtin:mlx_lm.RotatingKVCache        a cache of mlx-lm
      kvlaw check py:acme.cache:RingCache --set window=8   a cache of your own
      kvlaw try 'ring window=8 ; window 12 ; trim 2 -> refused ; decode'
      kvlaw spec show TRIM-4

    \b
    Exit codes: 0 conformant, 1 violations, 2 usage, 3 the target could not be run, 4 incomplete.
    """


target_options = [
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="Fix a configuration field (window=8) or an option of the target (clone=from_state). May be repeated.",
    ),
    click.option(
        "--map",
        "mapping",
        multiple=True,
        metavar="OURS=THEIRS",
        help="Pass a configuration field under another name, as in --map window=max_size.",
    ),
]


def with_target_options(command: Any) -> Any:
    """Add --set and --map."""
    for option in reversed(target_options):
        command = option(command)
    return command


def _pairs(items: tuple[str, ...], option: str) -> dict[str, Any]:
    pairs: dict[str, Any] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not name or not value:
            raise click.UsageError(f"{option} {item!r}: write NAME=VALUE, as in {option} window=8")
        pairs[name] = int(value) if value.lstrip("-").isdigit() else {"true": True, "false": False}.get(value, value)
    return pairs


def _open(
    target: str, settings: Mapping[str, Any], mapping: Mapping[str, Any]
) -> "tuple[Subject, tuple[Any, ...], dict[str, Any]]":
    """Open a target; give the subject, its kinds, and the settings that fix configuration fields."""
    from kvlaw.conformance.check import FIXABLE
    from kvlaw.conformance.subjects.targets import TargetError, open_target, target_kinds

    fixed = {k: v for k, v in settings.items() if k in FIXABLE}
    options = {k: str(v) for k, v in settings.items() if k not in FIXABLE}
    try:
        subject = open_target(target, options, {k: str(v) for k, v in mapping.items()})
        kinds = target_kinds(target, options)
    except TargetError as error:
        raise UnusableTargetError(str(error)) from None
    if "window" in fixed or "sinks" in fixed:
        kinds = tuple(k for k in kinds if k == "ring") or kinds
    return subject, kinds, fixed


@cli.command()
@click.argument("target")
@click.option(
    "--budget",
    type=click.Choice(["quick", "ci", "deep"]),
    default="ci",
    show_default=True,
    help="How much to play: the stored traces alone, some hundred machine traces more, or thousands.",
)
@click.option(
    "--profile",
    type=click.Choice(["core", "layout"]),
    default="core",
    show_default=True,
    help="core: what every cache owes its callers. layout: also order, masks and limits, which kvlaw fixes for interchange.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="The seed of the machines.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the result as JSON.")
@click.option("--allow-incomplete", is_flag=True, help="Exit 0 when MUST clauses were never exercised.")
@click.option("--verbose", "-v", is_flag=True, help="List every clause.")
@with_target_options
def check(
    target: str,
    budget: Any,
    profile: Any,
    seed: int,
    json_file: Path | None,
    allow_incomplete: bool,
    verbose: bool,
    settings: tuple[str, ...],
    mapping: tuple[str, ...],
) -> None:
    """Check TARGET and show which clauses it breaks, each on the shortest trace.

    \b
    TARGET is one of
      builtin:mlx_impl.full|ring                                  kvlaw's own caches
      builtin:mlx_lm.KVCache|RotatingKVCache|ConcatenateKVCache    mlx-lm's caches
      builtin:oracle                                              the NumPy reference
      py:module:attr        a class or factory of yours, or a kvlaw.conformance.Adapter
      fault:NAME            a planted fault (kvlaw faults lists them)
    """
    from kvlaw.conformance.check import Plan

    subject, kinds, fixed = _open(target, _pairs(settings, "--set"), _pairs(mapping, "--map"))
    modelled = subject_is_modelled(subject)
    console.print(f"checking {target} (profile {profile}, budget {budget}, seed {seed})", style="dim", markup=False)
    plan = Plan(target, kinds, profile, budget, seed, fixed, modelled)
    result = run_check(plan, subject)
    _finish_check(result, subject, json_file, verbose=verbose)
    code = result.exit_code
    sys.exit(0 if code == 4 and allow_incomplete else code)  # incomplete


def subject_is_modelled(subject: "Subject") -> bool:
    """Say whether the target's arithmetic is that of the NumPy model, by the canary where MLX computes."""
    from kvlaw.conformance.subjects import targets

    return targets.arithmetic_is_modelled(subject)


def run_check(plan: "Plan", subject: "Subject") -> "CheckResult":
    """Check with a progress line; refuse a target that can open nothing."""
    from kvlaw.conformance.check import check as run
    from kvlaw.spec.config import Config

    first = plan.kinds[0]
    opening = Config(first, window=plan.fixed.get("window", 4) if first == "ring" else None)
    observation = subject.open(opening)
    if not observation.ok:
        raise UnusableTargetError(f"{plan.target} cannot open {opening.describe()}: {observation.message}")
    with _progress() as report:
        return run(plan, subject, report)


@contextmanager
def _progress() -> "Iterator[Report]":
    """Show what is going on, on a terminal; print nothing elsewhere."""
    from kvlaw.conformance.check import Progress

    with errors.status("starting") as status:

        def report(progress: Progress) -> None:
            failed = f", {progress.failures} clauses broken" if progress.failures else ""
            status.update(f"{progress.kind}: {progress.stage}, {progress.calls} calls{failed}")

        yield report


def _finish_check(result: "CheckResult", subject: "Subject", json_file: Path | None, *, verbose: bool) -> None:
    from kvlaw.conformance.check import applicable
    from kvlaw.conformance.lockstep import Lockstep, Step
    from kvlaw.conformance.reports.terminal import print_check
    from kvlaw.conformance.store import save
    from kvlaw.spec.clauses import load_clauses

    chosen = load_clauses().of_profile(result.profile)

    def rerun(failure: Any) -> tuple[Step, ...]:
        save(failure)
        kind = failure.trace.config.kind
        ids = frozenset(c.id for c in chosen.values() if not applicable(c, kind, subject.capabilities))
        return Lockstep(subject, result.profile, ids).run(failure.trace)  # type: ignore[arg-type] # a profile by construction

    print_check(console, result, rerun, verbose=verbose)
    if json_file is not None:
        json_file.write_text(json.dumps(result.to_json(), indent=1) + "\n")


@cli.command("try")
@click.argument("trace")
@click.option(
    "--target",
    default="builtin:oracle",
    show_default=True,
    help="The cache to try it on; without one, the oracle answers.",
)
@click.option("--profile", type=click.Choice(["core", "layout"]), default="layout", show_default=True)
@with_target_options
def try_(trace: str, target: str, profile: Any, settings: tuple[str, ...], mapping: tuple[str, ...]) -> None:
    """Run one hand-written TRACE and show, step by step, what the law says and what the target shows.

    \b
    A trace opens with a kind and its configuration, then calls, parted by ';':
      ring window=8 sinks=2 ; window 12 ; trim 2 -> refused ; decode -> sees t1,t2,t8..t13
    calls:  decode, window N, dense N, mask N [decode], trim N [bypass], clone as NAME, state as NAME,
            reset, attend NAME, look NAME, drop NAME, list full + ring window=4 as NAME
    claims: refused, ok, a number (the answer), sees, order, holds, mask, offset, columns, size, can_trim
    """
    from kvlaw.conformance.claims import unkept
    from kvlaw.spec.text_form import parse

    try:
        written = parse(trace)
    except TraceError as error:
        raise click.UsageError(str(error)) from None
    subject, _, _ = _open(target, _pairs(settings, "--set"), _pairs(mapping, "--map"))
    steps = _play(subject, written.trace, profile)
    broken = unkept(written, steps)
    _show_steps(written.trace, steps, target)
    for claim in broken:
        console.print(f"claim not kept: {claim.call} -> {claim.claimed}; seen: {claim.seen}", style="red", markup=False)
    sys.exit(1 if broken or any(s.divergences for s in steps) else 0)


def _play(subject: "Subject", trace: Any, profile: Any) -> Any:
    from kvlaw.conformance.check import applicable
    from kvlaw.conformance.lockstep import Lockstep
    from kvlaw.conformance.minimise import is_sound
    from kvlaw.reference.oracle import UnknownObjectError
    from kvlaw.spec.clauses import load_clauses

    chosen = load_clauses().of_profile(profile)
    ids = frozenset(c.id for c in chosen.values() if not applicable(c, trace.config.kind, subject.capabilities))
    try:
        return Lockstep(subject, profile, ids).run(trace)
    except UnknownObjectError as error:
        raise click.UsageError(str(error)) from None
    finally:
        if not is_sound(trace):
            errors.print("this trace names an object before it exists, or asks it what it cannot do", style="yellow")


def _show_steps(trace: Any, steps: Any, target: str) -> None:
    from kvlaw.conformance.reports.steps import first_divergence, step_table
    from kvlaw.spec.clauses import load_clauses

    console.print(step_table(trace, steps, target=f"{target} shows"))
    divergence = first_divergence(steps)
    if divergence is not None:
        title = load_clauses()[divergence.clause].title
        console.print(f"breaks {divergence.clause}: {title}", style="bold red", markup=False)


@cli.command()
@click.argument("names", nargs=-1)
@click.option("--all", "all_", is_flag=True, help="Replay every stored failure.")
@click.option("--target", help="Replay on this target instead of the one that is stored.")
@click.option("--profile", type=click.Choice(["core", "layout"]), default="core", show_default=True)
@with_target_options
def replay(
    names: tuple[str, ...],
    all_: bool,
    target: str | None,
    profile: Any,
    settings: tuple[str, ...],
    mapping: tuple[str, ...],
) -> None:
    """Replay stored failures, by file or id (the block of a failure names it)."""
    from kvlaw.conformance.store import all_stored, find, load

    try:
        stored = [load(p) for p in all_stored()] if all_ else [load(find(name)) for name in names]
    except TraceError as error:
        raise click.UsageError(str(error)) from None
    if not stored:
        raise click.UsageError("nothing to replay: name a file or an id, or use --all after a check that failed")
    failing = 0
    for item in stored:
        name = target or item.target
        if not name:
            raise click.UsageError(f"{item.id}: the file names no target; use --target")
        subject, _, _ = _open(name, _pairs(settings, "--set"), _pairs(mapping, "--map"))
        steps = _play(subject, item.trace, profile)
        console.print(f"{item.id} on {name}", style="bold", markup=False)
        _show_steps(item.trace, steps, name)
        failing += any(s.divergences for s in steps)
    console.print(f"{failing} of {len(stored)} still fail")
    sys.exit(1 if failing else 0)


@cli.command()
@click.option("--mutants", is_flag=True, help="Also mutate our own geometry and mask modules (needs MLX).")
def faults(mutants: bool) -> None:
    """Show that every planted fault is caught, by the clause that it breaks."""
    from kvlaw.conformance.faults.report import print_report, run_faults

    report = run_faults(mutants=mutants)
    print_report(console, report)
    sys.exit(report.exit_code)


@cli.command()
@click.option("--jobs", type=int, default=2, show_default=True, help="Lemmas proved side by side.")
def prove(jobs: int) -> None:
    """Prove the index arithmetic for all sizes with CrossHair, and refute every lemma's twin."""
    try:
        import crosshair  # type: ignore[import-not-found]
    except ImportError:
        raise click.UsageError("CrossHair is not installed: pip install 'kvlaw[prove]'") from None
    from kvlaw.conformance.proofs.report import print_proofs, prove_all

    sys.exit(print_proofs(console, prove_all(jobs)))


@cli.command()
@click.option(
    "--rounds", type=click.IntRange(min=3), default=20, show_default=True, help="Interleaved rounds per case."
)
def bench(rounds: int) -> None:
    """Measure our caches against mlx-lm's, interleaved in one run, beside mlx-lm against itself."""
    from kvlaw.conformance.bench.report import print_bench, run_bench

    sys.exit(print_bench(console, run_bench(rounds)))


@cli.group()
def spec() -> None:
    """Read and check the specification."""


@spec.command("show")
@click.argument("clause_id")
def spec_show(clause_id: str) -> None:
    """Show one clause: its text, laws, examples, and what realises it."""
    from kvlaw.conformance.spec_tools.show import show
    from kvlaw.spec.clauses import SpecError

    try:
        console.print(show(clause_id))
    except (KeyError, SpecError) as error:
        raise click.UsageError(str(error.args[0])) from None


@spec.command("check")
def spec_check() -> None:
    """Check the specification itself: ids, laws, examples, faults, the inventory (no MLX, seconds)."""
    from kvlaw.conformance.spec_tools.gate import print_check as print_spec_check
    from kvlaw.conformance.spec_tools.gate import run_spec_check

    sys.exit(print_spec_check(console, run_spec_check()))


@spec.command("trace")
def spec_trace() -> None:
    """Show, clause by clause, what realises and checks it: code, laws, examples, checks, faults, lemmas."""
    from kvlaw.conformance.spec_tools.gate import print_matrix

    print_matrix(console)


if __name__ == "__main__":
    main()
