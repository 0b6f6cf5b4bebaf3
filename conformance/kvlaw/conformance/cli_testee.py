"""``kvlaw testee``: try a testee's glue (``smoke``), and speak its side of the protocol for any of ours (``serve``)."""

import sys

import click

from kvlaw.conformance.cli_options import chosen_by, console, refusal, with_target_options
from kvlaw.conformance.cli_project import named


@click.group()
def testee() -> None:
    """Caches in other languages, asked over stdin and stdout (kvlaw check 'cmd:./testee --flag')."""


@testee.command()
@click.argument("target")
@with_target_options
def smoke(target: str, settings: tuple[str, ...], mapping: tuple[str, ...]) -> None:
    """Try whether TARGET, as in 'cmd:./testee --flag', speaks the testee protocol, before any law is judged.

    \b
    Exit codes: 0 it does, 1 it does not, and what to do is said; 3 it could not be started.
    """  # noqa: D301  # click looks for the control character itself
    from kvlaw.conformance.opening import FIXABLE
    from kvlaw.conformance.subjects.errors import TargetError
    from kvlaw.conformance.subjects.targets import launch_of
    from kvlaw.conformance.testee.smoke import Smoke
    from kvlaw.conformance.testee.smoke_report import print_smoke

    target, chosen = named(target, chosen_by(settings, mapping))
    if not target.startswith("cmd:"):
        raise click.UsageError(f"{target}: only processes are tried, as in kvlaw testee smoke 'cmd:./testee --flag'")
    own = {name: value for name, value in chosen.settings.items() if name not in ("kind", *FIXABLE)}
    options = {name: str(value) for name, value in own.items()}
    try:
        launch, seconds = launch_of(target.removeprefix("cmd:"), options, chosen.mapping)
        steps = Smoke(launch, seconds).run()
    except TargetError as error:
        raise refusal(error) from None
    sys.exit(print_smoke(console, target, steps))


@testee.command()
@click.argument("target")
@with_target_options
def serve(target: str, settings: tuple[str, ...], mapping: tuple[str, ...]) -> None:
    """Answer the testee protocol on stdin and stdout for TARGET, as in builtin:mlx_impl.ring or py:acme:Ring."""
    from kvlaw.conformance.testee.serve import serve as answer

    known, chosen = named(target, chosen_by(settings, mapping))
    if known.startswith("cmd:"):
        raise click.UsageError(f"{known} is served by itself: serve a builtin:, py: or fault: target")
    opened = chosen.open(known)
    answer(opened.subject, opened.name, opened.kinds)


__all__ = ["testee"]
