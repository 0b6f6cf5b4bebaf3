"""Reports on the command line: where ``kvlaw check`` writes them, and ``kvlaw report``, which makes them of records."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvlaw.conformance.cli_options import INTERRUPTED, UNUSABLE, console, emit, errors

if TYPE_CHECKING:
    from kvlaw.conformance.recording import Recording
    from kvlaw.conformance.reports.forms import Form
    from kvlaw.conformance.reports.run import RunReport

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
    from kvlaw.conformance.guard import describe
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
    except BaseException as error:  # ours: the run is over all the same, and what it found is told
        record.end(UNUSABLE, why=describe(error))
        raise


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


@click.command()
@click.argument("records", nargs=-1, required=True, type=_FILE)
@click.option("--format", "form", metavar="FORM", help="terminal (the default), junit, json, markdown (md) or html.")
@click.option("--output", "-o", type=_FILE, help="Write to a file instead of stdout.")
@click.option("--combine", is_flag=True, help="Put several records together, shards and seeds of one target as one.")
@click.option("--exit-code", "exit_code", is_flag=True, help="Exit with the code of the verdict, as kvlaw check does.")
@click.option("--partial", is_flag=True, help="Take a record that was cut off for that of an interrupted run.")
@click.option("--script", metavar="ID", help="Print one failure as a Python script that needs no kvlaw.")
@click.option("--allow-incomplete", is_flag=True, help="With --exit-code: 0 when MUST clauses were never exercised.")
@click.option("--verbose", "-v", is_flag=True, help="List every clause (terminal).")
def report(records: tuple[Path, ...], *, combine: bool, partial: bool, **how: Any) -> None:
    """Make a report of RECORDS, which kvlaw check --events wrote.

    \b
    Examples:
      kvlaw report run.ndjson                                      as kvlaw check shows it
      kvlaw report run.ndjson --format html -o report.html
      kvlaw report --combine a.ndjson b.ndjson --format html -o matrix.html
      kvlaw report run.ndjson --script TRIM-4-8fa06d7f > repro.py

    The exit code is 0 if the report was made, whatever it says; with --exit-code that of the worst verdict.
    """  # noqa: D301  # click looks for the control character itself
    exit_code, allow_incomplete = how.pop("exit_code"), how.pop("allow_incomplete")
    run = _read(records, combine=combine, partial=partial)
    _shown(run, **how)
    if exit_code:
        sys.exit(_worst(run, allow_incomplete=allow_incomplete))


def _shown(run: "RunReport", *, form: str | None, output: Path | None, script: str | None, verbose: bool) -> None:
    if script is not None:
        if form is not None:
            raise click.UsageError("--script prints a script, not a report: leave --format out")
        _write(_script(run, script), output)
    elif form is None and output is None:
        from kvlaw.conformance.reports.terminal import print_run

        print_run(console, run, verbose=verbose)
    else:
        _write(_form(form or "terminal")(run), output)


def _worst(run: "RunReport", *, allow_incomplete: bool) -> int:
    """Give the exit code of a run: violations before what could not be run, before incomplete, before conformant."""
    codes = {
        0 if allow_incomplete and target.end.verdict == "incomplete" and target.whole else target.end.exit_code
        for target in run.targets
    }
    return next((code for code in (1, UNUSABLE, 4, *sorted(codes, reverse=True)) if code in codes), UNUSABLE)


def _form(name: str) -> "Form":
    from kvlaw.conformance.reports.forms import FORMS, form_named

    try:
        return FORMS[form_named(name)]
    except ValueError as error:
        raise click.UsageError(f"--format: {error}") from None


def _read(records: tuple[Path, ...], *, combine: bool, partial: bool) -> "RunReport":
    from kvlaw.conformance.event_file import StreamError, read_events, rescue
    from kvlaw.conformance.reports.combine import CombineError
    from kvlaw.conformance.reports.combine import combine as together
    from kvlaw.conformance.reports.run import gather

    if len(records) > 1 and not combine:
        raise click.UsageError(f"{len(records)} records are given: use --combine to put them together")
    try:
        runs = [(str(path), gather(rescue(path) if partial else read_events(path))) for path in records]
        return together(runs) if combine else runs[0][1]
    except (StreamError, CombineError) as error:
        raise click.UsageError(str(error)) from None


def _write(text: str, output: Path | None) -> None:
    from kvlaw.conformance.outputs import OutputError, check_writable, write_whole

    if output is None:
        emit(text)
        return
    try:
        check_writable(output)
        write_whole(output, text)
    except OutputError as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.UsageError(f"{output} cannot be written: {error.strerror or error}") from None


def _script(run: "RunReport", name: str) -> str:
    from kvlaw.conformance.scripts.made import ScriptError
    from kvlaw.conformance.scripts.write import write_script
    from kvlaw.conformance.subjects.errors import nearest

    failures = {failure.id: failure for target in run.targets for failure in target.failures}
    if name not in failures:
        hint = nearest(name, failures)
        raise click.UsageError(f"no failure is called {name!r}{hint}; there are {', '.join(failures) or 'none'}")
    try:
        return write_script(failures[name])
    except ScriptError as error:
        raise click.UsageError(f"{name}: {error}") from None


__all__ = ["recorded", "recording_by", "report", "with_report_options"]
