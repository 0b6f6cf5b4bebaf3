"""``kvlaw vectors``: export stored traces for a native test suite, judge what it observed, replay them in Python."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvlaw.conformance.cli_options import Chosen, UnusableTargetError, chosen_by, emit, with_target_options
from kvlaw.conformance.cli_project import open_named
from kvlaw.conformance.cli_targets import judge_target
from kvlaw.spec.config import KINDS

if TYPE_CHECKING:
    from kvlaw.reference.oracle import Profile
    from kvlaw.spec.config import Kind

_FILE = click.Path(dir_okay=False, path_type=Path)
_THERE = click.Path(exists=True, dir_okay=False, path_type=Path)
_OUT = click.option("-o", "out", type=_FILE, help="Write to this file, not to stdout.")


@click.group()
def vectors() -> None:
    """Check a cache where no Python is: vectors for a native test suite, and the judging of its results.

    \b
    kvlaw vectors export --kind ring -o vectors.jsonl    once, kept beside the native test
    (the native test replays them and writes results.jsonl)
    kvlaw vectors judge results.jsonl                    the report and the exit code of a check
    """  # noqa: D301  # click looks for the control character itself


@vectors.command()
@click.option("--kind", type=click.Choice(KINDS), required=True, help="The kind of cache.")
@click.option(
    "--profile",
    type=click.Choice(["core", "layout"]),
    default="core",
    show_default=True,
    help="Whose answers are expected: those that every cache owes, or those that are fixed for interchange as well.",
)
@_OUT
def export(kind: "Kind", profile: "Profile", out: Path | None) -> None:
    """Write the vectors of a kind of cache: the same bytes each time, on every machine."""
    from kvlaw.conformance.vectors.export import export as exported

    _write(exported(kind, profile), out)


@vectors.command()
@click.argument("results", type=_THERE)
@click.option("--vectors", "replayed", type=_THERE, help="The vectors that were replayed, if not those exported now.")
@click.option(
    "--profile",
    type=click.Choice(["core", "layout"]),
    show_default="that of the vectors",
    help="The clauses that count, as for kvlaw check.",
)
@click.option("--json", "json_file", type=_FILE, help="Write the result as JSON.")
@click.option("--allow-incomplete", is_flag=True, help="Exit 0 when MUST clauses were never exercised.")
@click.option("--verbose", "-v", is_flag=True, help="List every clause.")
def judge(results: Path, replayed: Path | None, profile: "Profile | None", **how: Any) -> None:
    """Judge RESULTS of a native test that replayed vectors, and show which clauses its cache breaks.

    The same as kvlaw check vectors:RESULTS, with the exit codes of a check. A vector without results makes it
    incomplete.
    """
    from kvlaw.conformance.vectors.form import VectorsError
    from kvlaw.conformance.vectors.results import header_of

    try:
        told = header_of(results)["vectors"].get("profile")
    except VectorsError as error:
        raise UnusableTargetError(str(error)) from None
    settings: dict[str, Any] = {} if replayed is None else {"vectors": str(replayed)}
    chosen = Chosen(settings, {})
    known: Profile = profile or (told if told in ("core", "layout") else "core")
    judge_target(f"vectors:{results}", profile=known, chosen=chosen, **how)


@vectors.command()
@click.argument("target")
@click.argument("file", type=_FILE)
@_OUT
@with_target_options
def replay(target: str, file: Path, out: Path | None, settings: tuple[str, ...], mapping: tuple[str, ...]) -> None:
    """Replay the vectors of FILE on TARGET, and write its results: what a native test does, in Python."""
    from kvlaw.conformance.vectors.form import VectorsError
    from kvlaw.conformance.vectors.replaying import replay as replayed

    opened, _ = open_named(target, chosen_by(settings, mapping))
    try:
        lines = list(replayed(file, opened.subject, opened.name))
    except VectorsError as error:
        raise click.UsageError(str(error)) from None
    _write(lines, out)


def _write(lines: Iterable[str], out: Path | None) -> None:
    """Write lines, completely or not at all, or to stdout."""
    text = "".join(lines)
    if out is None:
        emit(text)
        return
    try:
        out.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise click.UsageError(f"-o {out}: {error.strerror or error}") from None


__all__ = ["vectors"]
