"""Reports on the command line: where ``kvlaw check`` writes them, and ``kvlaw report``, which makes them of records."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvlaw.conformance.cli_options import INTERRUPTED, errors

if TYPE_CHECKING:
    from kvlaw.conformance.recording import Recording

_FILE = click.Path(path_type=Path)


def with_report_options(command: Any) -> Any:
    """Add ``--report``, ``--json`` and ``--events``."""
    events = click.option(
        "--events",
        "events_file",
        type=_FILE,
        help="Record what happens, a line of JSON for each event as it comes; kvlaw report reads it.",
    )
    as_json = click.option("--json", "json_file", type=_FILE, help="Write the result as JSON (--report json=FILE).")
    reports = click.option(
        "--report",
        "reports",
        multiple=True,
        metavar="FORM=FILE",
        help="Write a report: html, junit, markdown (md), json or terminal. May be repeated.",
    )
    return reports(as_json(events(command)))


def recording_by(reports: tuple[str, ...], json_file: Path | None, events_file: Path | None) -> "Recording":
    """Read ``--report``, ``--json`` and ``--events``; refuse what cannot be written before anything is run."""
    from kvlaw.conformance.outputs import OutputError
    from kvlaw.conformance.recording import Recording

    wanted = [_report(item) for item in reports] + ([("json", json_file)] if json_file is not None else [])
    record = Recording(("kvlaw", *sys.argv[1:]), wanted, events_file, _complain)
    try:
        record.check()
    except OutputError as error:
        raise click.UsageError(str(error)) from None
    return record


@contextmanager
def recorded(record: "Recording") -> Generator[None]:
    """End a record, however the run ends: by the user's interrupt or by a target that cannot be run as well."""
    from kvlaw.conformance.outputs import OutputError

    try:
        yield
    except KeyboardInterrupt:
        record.end(INTERRUPTED, interrupted=True)
        raise
    except click.ClickException as error:
        record.end(error.exit_code, why=error.message)
        raise
    except OutputError as error:
        raise click.UsageError(str(error)) from None


def _report(item: str) -> tuple[str, Path]:
    from kvlaw.conformance.reports.forms import form_named

    name, equals, path = item.partition("=")
    if not equals or not name or not path:
        raise click.UsageError(f"--report {item!r}: write FORM=FILE, as in --report html=report.html")
    try:
        return form_named(name), Path(path)
    except ValueError as error:
        raise click.UsageError(f"--report {item}: {error}") from None


def _complain(text: str) -> None:
    errors.print(text, style="red", markup=False, soft_wrap=True)


__all__ = ["recorded", "recording_by", "with_report_options"]
