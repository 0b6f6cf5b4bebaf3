"""The console blocks of a page, tried: what ``kvlaw try`` prints is compared, any other command of ours is read.

A block shows commands behind ``$`` with what they print below them; a line ``...`` stands for any lines.  Commands are
run in this process, with 80 columns, as ``conformance/tests/test_readme.py`` runs those of the README.  No Sphinx here.
"""

import re
import shlex
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from importlib.metadata import PackageNotFoundError, version
from io import StringIO

import click
from attrs import frozen

from kvlaw.conformance import cli
from kvlaw.conformance.cli_options import console, errors
from kvlaw.spec.markdown import Fence, sections

MLX_LM = "0.32.2"
"""The release of mlx-lm whose behaviour the pages show."""

_COLUMNS = 80
_SHELL = {"|", ">", ">>", "<", "&&", "||", ";", "&", "2>"}


@frozen
class Session:
    """One command of a page with the lines below it, and the line of the page at which it stands."""

    command: str
    shown: tuple[str, ...]
    line: int

    @property
    def words(self) -> list[str]:
        """What the shell would hand to the command, without comments, up to what is the shell's own."""
        words = shlex.split(self.command, comments=True)
        end = next((number for number, word in enumerate(words) if word in _SHELL), len(words))
        return words[:end]


def sessions(text: str, name: str) -> Iterator[Session]:
    """Read the console blocks of a page."""
    for section in sections(text, name):
        for fence in section.body:
            if isinstance(fence, Fence) and fence.info.split(" ")[0] == "console":
                yield from _cut(fence)


def _cut(fence: Fence) -> Iterator[Session]:
    command, line = "", fence.number
    shown: list[str] = []
    for part in fence.lines:
        if command.endswith("\\"):
            command = command[:-1] + part.text.strip()
        elif part.text.startswith("$ "):
            if command:
                yield Session(command, tuple(shown), line)
            command, line, shown = part.text[2:], part.number, []
        else:
            shown.append(part.text)
    if command:
        yield Session(command, tuple(shown), line)


def problem(session: Session) -> str | None:
    """Say what is wrong with a session; None if nothing is, or if it is not for us to say."""
    words = session.words
    if not words or words[0] != "kvlaw":
        return None
    wrong = _misread(words[1:])
    if wrong or words[1:2] != ["try"] or not _can_run(words):
        return wrong
    printed = run(words[1:])
    return None if not session.shown or matches(session.shown, printed) else "it prints\n" + "\n".join(printed)


def _can_run(words: list[str]) -> bool:
    """Tell whether the page's target is here: mlx-lm in the release that the pages show, or none of mlx-lm."""
    if not any("mlx_lm" in word for word in words):
        return not any(word.startswith(("py:", "cmd:", "release:")) for word in words)
    try:
        return version("mlx-lm") == MLX_LM
    except PackageNotFoundError:
        return False


def _misread(words: list[str]) -> str | None:
    """Say what our command line does not understand: the command or an option.  What is asked for is not looked at."""
    command: click.Command = cli.cli
    context = click.Context(command, info_name="kvlaw")
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        found = command.get_command(context, name)
        if found is None:
            return f"there is no command {' '.join(words[: len(words) - len(rest)])!r}"
        command, context = found, click.Context(found, info_name=name, parent=context)
    try:
        command.make_parser(context).parse_args(rest)
    except click.UsageError as error:
        return error.format_message()
    return None


def run(words: list[str]) -> list[str]:
    """Run a command of ours in this process; give what it prints, line by line."""
    printed = StringIO()
    kept = [vars(one)["_width"] for one in (console, errors)]  # what it was asked for, not what it happens to be
    console.width = errors.width = _COLUMNS
    try:
        with redirect_stdout(printed), redirect_stderr(printed):
            cli.cli.main(words, prog_name="kvlaw", standalone_mode=False)
    except (SystemExit, click.exceptions.Exit):
        pass
    except click.ClickException as error:
        printed.write(error.format_message())
    finally:
        for one, width in zip((console, errors), kept, strict=True):
            vars(one)["_width"] = width
    return [line.rstrip() for line in printed.getvalue().splitlines()]


def matches(shown: tuple[str, ...], printed: list[str]) -> bool:
    """Tell whether the lines of a page are what was printed; ``...`` stands for any lines."""
    lines = ["(?:.*\n)*?" if line == "..." else re.escape(line.rstrip()) + "\n" for line in shown]
    return re.fullmatch("".join(lines), "".join(f"{line}\n" for line in printed)) is not None
