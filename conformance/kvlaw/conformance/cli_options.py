"""How the command line names a target: ``--set``, ``--map``; and how it ends when nothing can be run."""

import os
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click
from attrs import frozen
from rich.console import Console

if TYPE_CHECKING:
    from kvlaw.conformance.opening import Opened
    from kvlaw.conformance.subjects.errors import TargetError

UNUSABLE = 3
INTERRUPTED = 130
NARROWEST = 40


def _width() -> int | None:
    """Read the width that COLUMNS asks for, no less than a table needs; None leaves it to the terminal."""
    asked = os.environ.get("COLUMNS", "")
    return max(NARROWEST, int(asked[:5])) if asked.isascii() and asked.isdigit() else None


class Screen(Console):
    """A console whose reader may go, as in ``kvlaw check | head``: what else is printed is lost, and nothing else."""

    def on_broken_pipe(self) -> None:
        """Print no more; what is being done goes on, and ends with the exit code that it would have had."""
        self.quiet = True
        _let_go(self.file)


def _let_go(stream: IO[str]) -> None:
    """Lose what is left in a stream, and what will be written to it: nobody reads it any more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def emit(text: str) -> None:
    """Print text as it is, as far as anybody reads it."""
    try:
        click.echo(text, nl=False)
    except BrokenPipeError:
        _let_go(sys.stdout)


console = Screen(highlight=False, emoji=False, width=_width())
errors = Screen(stderr=True, highlight=False, emoji=False, width=_width())


class Whole(click.IntRange):
    """Integers in a range; a word that is none is told to be no integer."""

    name = "integer"


class Number(click.FloatRange):
    """Numbers in a range; a word that is none is told to be no number."""

    name = "number"


class UnusableTargetError(click.ClickException):
    """The target could not be run (exit code 3)."""

    exit_code = UNUSABLE

    def show(self, file: Any = None) -> None:
        """Print the reason."""
        errors.print(f"the target could not be run: {self.message}", style="red", markup=False, soft_wrap=True)


def refusal(error: "TargetError") -> click.ClickException:
    """Say how a command ends with a target: the command line is wrong (2), or what it names cannot be run (3)."""
    from kvlaw.conformance.subjects.errors import MisnamedError

    return (click.UsageError if isinstance(error, MisnamedError) else UnusableTargetError)(str(error))


class UnfitError(UnusableTargetError):
    """Nothing can be run: kvlaw's own texts, traces or planted faults cannot be read (exit code 3)."""

    def show(self, file: Any = None) -> None:
        """Print what is wrong, and where."""
        line = f"kvlaw itself is broken, so nothing can be run: {self.message}"
        errors.print(line, style="red", markup=False, soft_wrap=True)


class Commands(click.Group):
    """Commands that end with a message where kvlaw's own specification, stored traces or planted faults are broken."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        from kvlaw.conformance.interrupts import TERMINATED, ending, terminated
        from kvlaw.conformance.subjects.errors import FaultError
        from kvlaw.spec.markdown import SpecError
        from kvlaw.spec.structure import TraceError

        try:
            Path.cwd()  # failures are kept there, modules found there
        except OSError:
            raise click.UsageError("the working folder is not there any more: go to another one") from None
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ending()
            errors.print("interrupted", style="yellow")
            ctx.exit(TERMINATED if terminated() else INTERRUPTED)
        except (FaultError, SpecError, TraceError) as error:
            raise UnfitError(str(error)) from error


@frozen
class Chosen:
    """What the options say of a target: ``--set`` and ``--map``."""

    settings: dict[str, Any]
    mapping: dict[str, str]

    def open(self, target: Any) -> "Opened":
        """Open a target, or end with the message that says why it cannot be."""
        from kvlaw.conformance.opening import SettingError, open_any
        from kvlaw.conformance.subjects.errors import TargetError

        try:
            return open_any(target, self.settings, self.mapping)
        except SettingError as error:
            raise click.UsageError(str(error)) from None
        except TargetError as error:
            raise refusal(error) from None


def with_target_options(command: Any) -> Any:
    """Add ``--set`` and ``--map``."""
    mapping = click.option(
        "--map",
        "mapping",
        multiple=True,
        metavar="OURS=THEIRS",
        help="Pass a configuration field under another name, as in --map window=max_size. May be repeated.",
    )
    settings = click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="Fix a configuration field (window=8) or an option of the target (clone=from_state). May be repeated.",
    )
    return settings(mapping(command))


def chosen_by(settings: tuple[str, ...], mapping: tuple[str, ...]) -> Chosen:
    """Read ``--set`` and ``--map``; end with a usage error that shows how they are written."""
    named = _pairs(mapping, "--map", "window=max_size")
    return Chosen(_pairs(settings, "--set", "window=8"), {name: str(value) for name, value in named.items()})


_DIGITS = 4000
"""Python itself refuses to read integers of more than 4,300 digits."""


def _pairs(items: tuple[str, ...], option: str, example: str) -> dict[str, Any]:
    pairs: dict[str, Any] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not name or not value:
            raise click.UsageError(f"{option} {item!r}: write NAME=VALUE, as in {option} {example}")
        if name in pairs:
            raise click.UsageError(f"{option} {name} is given twice")
        number = value.removeprefix("-").isdecimal() and value.isascii() and len(value) <= _DIGITS
        pairs[name] = int(value) if number else {"true": True, "false": False}.get(value, value)
    return pairs


__all__ = [
    "INTERRUPTED",
    "UNUSABLE",
    "Chosen",
    "Commands",
    "Number",
    "UnusableTargetError",
    "Whole",
    "chosen_by",
    "console",
    "emit",
    "errors",
    "refusal",
    "with_target_options",
]
