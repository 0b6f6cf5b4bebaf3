"""The command line: the commands of kvlaw, and the group of them all.

Every command imports what it needs when it runs, so that a vendor without MLX can check a cache of their own.
``cli_targets`` and ``cli_replay`` have the commands that take a target, ``cli_options`` their options;
this module has the others, and the group of them all.
"""

import sys
from contextlib import suppress
from io import BytesIO, TextIOWrapper
from typing import Literal

import click

from kvlaw.conformance.cli_docs import docs
from kvlaw.conformance.cli_init import init
from kvlaw.conformance.cli_options import UNUSABLE, Commands, Whole, console, errors
from kvlaw.conformance.cli_releases import releases
from kvlaw.conformance.cli_replay import replay
from kvlaw.conformance.cli_reports import report
from kvlaw.conformance.cli_targets import check, try_
from kvlaw.conformance.cli_testee import testee
from kvlaw.conformance.cli_vectors import vectors
from kvlaw.conformance.interrupts import heed_termination

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


def main() -> None:
    """Run the command line; never show a traceback of ours for bad input, or for output that cannot be written."""
    heed_termination()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        cli(prog_name="kvlaw")
    except OSError as error:  # a full disk behind stdout, say; click sees to a pipe that was closed
        with suppress(OSError):
            errors.print(f"kvlaw cannot go on: {error}", style="red", markup=False, soft_wrap=True)
        sys.stdout = sys.stderr = TextIOWrapper(BytesIO())  # what is left in their buffers is lost
        sys.exit(UNUSABLE)


@click.group(cls=Commands, context_settings=_CONTEXT)
@click.version_option(package_name="kvlaw")
def cli() -> None:
    """Check a KV cache against the laws it must obey.

    \b
    First steps:
      kvlaw check builtin:mlx_lm.RotatingKVCache           a cache of mlx-lm
      kvlaw check py:acme.cache:RingCache --set window=8   a cache of your own
      kvlaw try 'ring window=8 ; window 12 ; trim 2 -> refused ; decode'
      kvlaw init py:acme.cache:RingCache                   set a project up, from a first check
      kvlaw spec show TRIM-4

    \b
    Exit codes: 0 conformant, 1 violations, 2 wrong command line, 3 the target could not be run, 4 incomplete,
    130 interrupted, 143 ended by SIGTERM before there was a result.
    """  # noqa: D301  # click looks for the control character itself


for command in (check, init, try_, replay, report, testee, vectors, releases, docs):
    cli.add_command(command)


@cli.command()
@click.option("--mutants", is_flag=True, help="Also mutate our own geometry and mask modules (needs MLX).")
@click.option("--jobs", type=Whole(min=1), default=2, show_default=True, help="Processes that hunt mutants.")
def faults(mutants: bool, jobs: int) -> None:
    """Show that every planted fault is caught, by the clause that it breaks."""
    if sys.flags.optimize > 1:
        raise click.UsageError("python -OO strips the sentences that tell the planted faults: run without it")
    from kvlaw.conformance.faults.report import print_report, run_faults

    with errors.status("starting") as status:
        found = run_faults(mutants, lambda done: status.update(done.told), jobs)
    print_report(console, found)
    sys.exit(found.exit_code)


@cli.command()
@click.option("--jobs", type=Whole(min=1), default=2, show_default=True, help="Processes side by side.")
@click.option("--exhaustive", is_flag=True, help="Visit every state of small caches instead of proving lemmas.")
@click.option(
    "--budget",
    type=click.Choice(["ci", "deep"]),
    default="ci",
    show_default=True,
    help="With --exhaustive: two rows with windows up to 3, in a minute or two, or up to 4, in some minutes.",
)
def prove(jobs: int, exhaustive: bool, budget: Literal["ci", "deep"]) -> None:
    """Prove the index arithmetic for all sizes with CrossHair, and refute every lemma's twin.

    With --exhaustive: follow every call from every state that a serial cache, or a group of one or two rows, can be in,
    up to a shift of positions, until no call leads to a new one; what is stored, seen and extracted must be what
    history says. That covers histories of any length. Of a ring, blocks, padded prompts and rounds have up to W + 2
    columns; a round takes them in any number of appends, and each row then keeps any number of them. Exit code 1 says
    that some history is wrong, and a shortest one is shown.
    """
    if exhaustive:
        from kvlaw.conformance.proofs.exhaustive.report import explore, print_exhaustive

        sys.exit(print_exhaustive(console, explore(budget, errors, jobs)))
    if budget != "ci":
        raise click.UsageError("--budget is for --exhaustive; lemmas have none")
    from importlib.util import find_spec

    if find_spec("crosshair") is None:
        raise click.UsageError("CrossHair is not installed: pip install 'kvlaw[prove]'")
    from kvlaw.conformance.proofs.report import print_proofs, prove_all

    sys.exit(print_proofs(console, prove_all(jobs, errors)))


@cli.command()
@click.option(
    "--budget",
    type=click.Choice(["ci", "deep"]),
    default="ci",
    show_default=True,
    help="How much to compare: some million values in half a minute, or a hundred times as many in minutes.",
)
@click.option("--seed", type=Whole(min=0), default=0, show_default=True, help="The seed of the cases.")
def arithmetic(budget: Literal["ci", "deep"], seed: int) -> None:
    """Compare MLX's codec and attention, and our kernels, with the NumPy model, bit for bit.

    Codes, scales, biases and dequantized values; dense attention; attention over codes by every kernel set; mlx-lm's
    gated delta rule, if it is installed. Exit code 0 says that no bit differs, 1 that some do, 4 that the running MLX
    is not the modelled one (another platform or build) or that the comparison was interrupted.
    """
    from importlib.util import find_spec

    if find_spec("mlx") is None:
        raise click.UsageError("mlx is not installed: pip install mlx")
    from kvlaw.conformance.campaigns.run import show

    sys.exit(show(console, budget, seed, errors))


@cli.command()
@click.option("--rounds", type=Whole(min=20), default=40, show_default=True, help="Interleaved rounds per case.")
def bench(rounds: int) -> None:
    """Measure our caches against mlx-lm's, interleaved in one run, beside mlx-lm against itself."""
    from importlib.util import find_spec

    for module, package in (("mlx", "mlx"), ("mlx_lm", "mlx-lm")):
        if find_spec(module) is None:
            raise click.UsageError(f"{package} is not installed: pip install {package}")
    from kvlaw.conformance.bench.__main__ import main as run

    sys.exit(run(["--rounds", str(rounds)]))


@cli.group()
def spec() -> None:
    """Read and check the specification."""


@spec.command("show")
@click.argument("clause_id")
def spec_show(clause_id: str) -> None:
    """Show one clause: its text, laws, examples, and what realises it."""
    from kvlaw.conformance.spec_tools.show import show
    from kvlaw.spec.clauses import SpecError, load_clauses

    load_clauses()  # a text that cannot be read is no wrong word of the user's
    try:
        console.print(show(clause_id))
    except SpecError as error:
        raise click.UsageError(str(error)) from None


@spec.command("check")
def spec_check() -> None:
    """Check the specification itself: ids, laws, examples, faults, the inventory (no MLX, seconds)."""
    from kvlaw.conformance.spec_tools.gate import print_check, run_spec_check

    sys.exit(print_check(console, run_spec_check()))


@spec.command("trace")
def spec_trace() -> None:
    """Show, clause by clause, what realises and checks it: code, laws, examples, checks, faults, lemmas."""
    from kvlaw.conformance.spec_tools.gate import print_matrix

    print_matrix(console)


__all__ = ["cli", "main"]

if __name__ == "__main__":
    main()
