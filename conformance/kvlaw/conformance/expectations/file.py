"""Files of expectations: TOML, one ``[[expected]]`` table for each failure that is known.

    # A comment of the maintainer's, which stays.
    [[expected]]
    target = "ring"
    clause = "TRIM-4"
    trace = "ring window=1 ; decode ; trim 1"
    observed = "outcome: ok"
    reason = "trims are not refused before 2.0"
    link = "https://example.org/issues/12"

``trace`` is the witness in its text form; ``file`` names a file with it instead (JSON, as ``.kvlaw/failures`` has
them), relative to this file. ``reason`` must say something. Below the trace of an entry that kvlaw adds its steps stand
as comments. ``read_file`` reads, ``edited`` gives the text after some entries were removed, refreshed and added; all
else in it, comments and order, stays as it is.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tomlkit
from attrs import define, field, frozen
from tomlkit.exceptions import TOMLKitError

from kvlaw.conformance.configuration import ConfigurationError, list_of, parsed, structured, text_of
from kvlaw.conformance.expectations.entries import Expected
from kvlaw.conformance.reports.words import spelt
from kvlaw.conformance.store import load as load_stored
from kvlaw.spec.text_form import parse
from kvlaw.spec.trace import Trace, TraceError

HEAD = """\
# Known failures of this project's caches: each breaks a clause of the law on its trace, and is replayed first.
# kvlaw check turns red when one of them passes, fails otherwise, or when a failure is found that is not listed here.
# kvlaw check --update-expectations adds, refreshes and removes entries; comments, reasons and links are yours.
"""
_HEADER = re.compile(r"^[ \t]*\[\[[ \t]*expected[ \t]*\]\][ \t]*(#.*)?$")
_OURS = re.compile(r"^#\s+call\s{2,}the law says\s{2,}the target shows$")
"""The line with which our own comments in an entry begin; they end where the comments end."""


@frozen
class _Entry:
    target: str
    clause: str
    reason: str
    trace: str | None = None
    file: str | None = None
    observed: str = ""
    link: str = ""


@frozen
class _File:
    expected: tuple[_Entry, ...] = ()


@define
class Edits:
    """What is to be changed in a file: entries by their place, and new ones behind them."""

    removed: set[int] = field(factory=set[int])
    refreshed: dict[int, Mapping[str, str]] = field(factory=dict[int, Mapping[str, str]])
    added: list[Expected] = field(factory=list[Expected])
    comments: dict[int, tuple[str, ...]] = field(factory=dict[int, tuple[str, ...]])
    """What takes the place of our own comments in refreshed entries."""

    def __bool__(self) -> bool:
        return bool(self.removed or self.refreshed or self.added)


def read_file(path: Path) -> tuple[Expected, ...]:
    """Read the expectations in a file, in their order; raise ``ConfigurationError`` for anything malformed."""
    text = text_of(path)
    data = parsed(text, path)
    lines = [number for number, line in enumerate(text.splitlines(), 1) if _HEADER.match(line)]
    try:
        entries = list_of(data.get("expected", []), "expected")
        for index, entry in enumerate(entries):
            structured(_Entry, entry, f"expected[{index}]")
        read: _File = structured(_File, data, "the file")
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from None
    places = [f"{path}:{line}" for line in lines] if len(lines) == len(entries) else []
    places = places or [f"{path}: expected[{index}]" for index in range(len(entries))]
    return tuple(_expected(entry, path, where) for entry, where in zip(read.expected, places, strict=True))


def _expected(entry: _Entry, path: Path, where: str) -> Expected:
    for name in ("target", "clause", "reason"):
        if not getattr(entry, name).strip():
            raise ConfigurationError(f"{where}: {name}: something must stand there")
    if (entry.trace is None) == (entry.file is None):
        raise ConfigurationError(f"{where}: one of trace and file is wanted: the trace itself, or a file that has it")
    trace = _trace(entry, path, where)
    return Expected(entry.target, entry.clause, trace, entry.observed, entry.reason, entry.link, where)


def _trace(entry: _Entry, path: Path, where: str) -> Trace:
    try:
        if entry.trace is not None:
            return parse(entry.trace).trace
        return load_stored(path.parent / str(entry.file)).trace
    except (TraceError, ValueError) as error:  # a zero byte in a name is a ValueError
        name = "trace" if entry.trace is not None else "file"
        raise ConfigurationError(f"{where}: {name}: {error}") from None


def edited(text: str, edits: Edits) -> str:
    """Give the text of a file after edits; raise ``ConfigurationError`` for a file in another form than ours."""
    ends = "\r\n" if "\r\n" in text else "\n"
    segments = _segments(text.replace("\r\n", "\n"))
    kept: list[str] = []
    number = -1
    for is_entry, segment in segments:
        number += is_entry
        if is_entry and number in edits.removed:
            continue
        if is_entry and number in edits.refreshed:
            fresh = _refreshed(segment, edits.refreshed[number])
            kept.append(_commented(fresh, edits.comments.get(number, ())))
        else:
            kept.append(segment)
    body = re.sub(r"\n{3,}", "\n\n", "".join(kept)).strip("\n") if edits.removed else "".join(kept).rstrip("\n")
    added = [written(entry) for entry in edits.added]
    whole = "\n\n".join(part for part in (body, *added) if part) + "\n"
    return whole.replace("\n", ends)


def written(entry: Expected) -> str:
    """Write an entry as a table, without a line behind it."""
    document = tomlkit.document()
    table = tomlkit.table()
    values = {"target": entry.target, "clause": entry.clause, "trace": entry.text, "observed": entry.observed}
    for name, value in {**values, "reason": entry.reason, "link": entry.link}.items():
        if value:
            table.add(name, value)
    array: Any = tomlkit.aot()
    array.append(table)
    document.add("expected", array)
    lines = tomlkit.dumps(document).rstrip("\n").split("\n")
    if not entry.link:  # it stands amid the entry, and goes with it
        lines.insert(len(lines) - bool(entry.reason), '# link = "https://..."')
    text = "\n".join(lines)
    return _commented(text, entry.comments) if entry.comments else text


def _commented(entry: str, comments: tuple[str, ...]) -> str:
    """Put our comments below the trace of an entry, in the place of those that stand there; others' stay."""
    lines = entry.split("\n")
    ours = next((i for i, line in enumerate(lines) if _OURS.match(line)), len(lines))
    end = next((i for i in range(ours, len(lines)) if not lines[i].startswith("#")), len(lines))
    lines = lines[:ours] + lines[end:]
    at = next((i + 1 for i, line in enumerate(lines) if re.match(r"\s*(trace|file)\s*=", line)), len(lines))
    lines[at:at] = [f"# {spelt(line)}".rstrip() for line in comments]
    text = "\n".join(lines)
    return text if tomllib.loads(text) == tomllib.loads(entry) else entry  # they are not to stand in a text of lines


def _segments(text: str) -> list[tuple[bool, str]]:
    """Cut a file into entries, each with the comments right above it, and what stands between them."""
    lines = text.splitlines(keepends=True)
    heads = [i for i, line in enumerate(lines) if _HEADER.match(line.rstrip("\r\n"))]
    starts = [_lead(lines, head) for head in heads]
    segments: list[tuple[bool, str]] = []
    done = 0
    for head, start, following in zip(heads, starts, [*starts[1:], len(lines)][: len(heads)], strict=True):
        end = max((i + 1 for i in range(head, following) if not _is_idle(lines[i])), default=head + 1)
        segments += [(False, "".join(lines[done:start])), (True, "".join(lines[start:end]))]
        done = end
    segments.append((False, "".join(lines[done:])))
    _check_form(text, [segment for is_entry, segment in segments if is_entry])
    return segments


def _lead(lines: list[str], head: int) -> int:
    """Find where the comments right above a table begin."""
    while head > 0 and lines[head - 1].lstrip().startswith("#"):
        head -= 1
    return head


def _is_idle(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _check_form(text: str, entries: list[str]) -> None:
    """Refuse a file whose entries are not those that a reader of TOML finds."""
    try:
        found = [tomllib.loads(entry)["expected"][0] for entry in entries]
    except (tomllib.TOMLDecodeError, KeyError):
        found = None
    if found != tomllib.loads(text).get("expected", []):
        raise ConfigurationError(
            "the entries are not written as [[expected]] tables one below the other: edit it by hand"
        )


def _refreshed(segment: str, values: Mapping[str, str]) -> str:
    """Change values of one entry, and leave its comments."""
    try:
        document = tomlkit.parse(segment)
    except TOMLKitError as error:
        raise ConfigurationError(f"an entry cannot be edited: {error}") from None
    entries: Any = document["expected"]
    table = entries[0]
    for name, value in values.items():
        table[name] = value
    for name in ("file",) if "trace" in values and "file" in table else ():
        del table[name]
    out = tomlkit.dumps(document)
    return out if out.endswith("\n") else out + "\n"


def check_written(text: str, entries: Iterable[Expected]) -> bool:
    """Tell whether a text has just these entries, so that nothing is lost in writing."""
    try:
        read: list[dict[str, Any]] = tomllib.loads(text).get("expected", [])
    except tomllib.TOMLDecodeError:
        return False
    wanted = [(e.target, e.clause) for e in entries]
    return [(e.get("target"), e.get("clause")) for e in read] == wanted


__all__ = ["HEAD", "Edits", "check_written", "edited", "read_file", "written"]
