"""The record of a run: its events as lines of JSON, written as they happen, and read with care.

Each line is one event, with its class in the field ``event``; fields at their default are left out.  A line is flushed
when it is written, so that a run that dies leaves what it had found.  A record is whole if it begins with
``run_started`` and ends with ``run_ended``, which counts the lines before it; ``read_events`` refuses any other, and
says what is missing and how to go on.  ``rescue`` reads as much as there is of a record that was cut off, as the
record of an interrupted run.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, cast

from attrs import define, field

from kvlaw.conformance.events import (
    CUT_OFF,
    EVENTS,
    SCHEMA,
    Event,
    FailureFound,
    RunEnded,
    RunStarted,
    TargetEnded,
    TargetStarted,
)
from kvlaw.conformance.guard import printable
from kvlaw.conformance.subjects.errors import nearest
from kvlaw.spec.structure import Json, TraceError, dump, load, shown
from kvlaw.spec.trace import read_json

MOST_BYTES = 1 << 30
"""A record that is larger is none of ours, and would not fit into memory."""


class StreamError(ValueError):
    """A record of a run that cannot be read: says what is missing or wrong, and how to go on."""


def to_json(event: Event) -> Json:
    """Write an event as plain JSON values."""
    return {"event": event.event, **dump(event)}


def to_line(event: Event) -> str:
    """Write an event as one line of JSON, without its end."""
    return json.dumps(to_json(event), ensure_ascii=True, allow_nan=False)


def from_json(data: object, where: str = "the event") -> Event:
    """Read what ``to_json`` wrote; raise ``StreamError`` for anything else."""
    if not isinstance(data, dict):
        raise StreamError(f"{where}: an object is wanted, not {shown(data)}")
    body = cast("Json", data)
    name = body.get("event")
    if not isinstance(name, str) or name not in EVENTS:
        hint = nearest(name, EVENTS) if isinstance(name, str) else ""
        raise StreamError(f"{where}: unknown event {shown(name)}{hint}; known are {', '.join(EVENTS)}")
    if name == RunStarted.event and body.get("schema") != SCHEMA:
        said = shown(body.get("schema"))
        raise StreamError(f"{where}: the record says schema {said}; this kvlaw reads schema {SCHEMA}")
    try:
        return load(EVENTS[name], {key: value for key, value in body.items() if key != "event"}, where)
    except TraceError as error:
        raise StreamError(printable(str(error))) from None


@define
class EventFile:
    """A record that is being written; events go to ``write``, which flushes each line."""

    path: Path
    _file: IO[str]
    count: int = field(default=0, init=False)

    @classmethod
    def open(cls, path: Path) -> "EventFile":
        """Begin a record, in the place of an older one; raise ``OSError`` if that cannot be."""
        return cls(path, path.open("w", encoding="utf-8", newline="\n"))

    def write(self, event: Event) -> None:
        """Write one event."""
        self._file.write(to_line(event) + "\n")
        self._file.flush()
        self.count += 1

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_events(path: Path) -> tuple[Event, ...]:
    """Read a whole record.

    Raises:
        StreamError: if the file cannot be read, is no record, or was cut off or put together of several.
    """
    text = _text(path)
    lines = _lines(text)
    torn = not text.endswith("\n")
    events: list[Event] = []
    for number, line in enumerate(lines, 1):
        try:
            events.append(_event(line, f"{path}: line {number}"))
        except StreamError as error:
            if torn and 1 < number == len(lines):
                raise _cut(path, f"line {number} is torn off in its middle", number - 1) from None
            raise error from None
    _check_frame(path, events)
    _check_order(path, events)
    return tuple(events)


def rescue(path: Path) -> tuple[Event, ...]:
    """Read what there is of a record that was cut off, and end it as that of an interrupted run.

    Raises:
        StreamError: if not even its beginning can be read, or if a line before the last one is broken.
    """
    lines = _lines(_text(path))
    events: list[Event] = []
    for number, line in enumerate(lines, 1):
        try:
            events.append(_event(line, f"{path}: line {number}"))
        except StreamError:
            if number < len(lines):
                raise
    events = [event for event in events if not isinstance(event, RunEnded)]
    if not events or not isinstance(events[0], RunStarted):
        raise StreamError(f"{path}: its first line is no run_started: nothing of it can be rescued")
    events += [_cut_short(started, events) for started in _open_targets(events)]
    ended = (*events, RunEnded(_exit_code(events), len(events), interrupted=True))
    _check_order(path, ended)
    return ended


def _exit_code(events: Sequence[Event]) -> int:
    return 1 if any(isinstance(event, FailureFound) for event in events) else 4


def _open_targets(events: Sequence[Event]) -> Iterator[TargetStarted]:
    ended = {event.target for event in events if isinstance(event, TargetEnded)}
    yield from (event for event in events if isinstance(event, TargetStarted) and event.target not in ended)


def _cut_short(started: TargetStarted, events: Sequence[Event]) -> TargetEnded:
    """End the check of a target whose end was not recorded."""
    failed = any(isinstance(event, FailureFound) and event.target == started.target for event in events)
    calls = max((getattr(e, "calls", 0) for e in events if getattr(e, "target", None) == started.target), default=0)
    return TargetEnded(
        started.target,
        "violations" if failed else "incomplete",
        1 if failed else 4,
        calls=calls,
        interrupted=True,
        stopped=CUT_OFF,
    )


def _text(path: Path) -> str:
    try:
        if path.is_dir():
            raise StreamError(f"{path} is a folder: name the file that kvlaw check --events wrote")
        if path.stat().st_size > MOST_BYTES:
            raise StreamError(f"{path} is larger than {MOST_BYTES >> 20} MiB: no record of a run")
        text = path.read_bytes().decode()
    except OSError as error:
        raise StreamError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        if isinstance(error, StreamError):
            raise
        reason = error.reason if isinstance(error, UnicodeDecodeError) else error
        raise StreamError(f"{path}: no text in UTF-8: {reason}; kvlaw check --events writes records") from None
    if not text.strip():
        raise StreamError(f"{path} is empty: the run was over before it had begun; run kvlaw check --events again")
    return text


def _lines(text: str) -> list[str]:
    """Part a text at its newlines alone: JSON may hold the other ends of lines that Unicode knows."""
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def _event(line: str, where: str) -> Event:
    try:
        data: Any = read_json(line)
    except TraceError as error:
        raise StreamError(f"{where}: {error}; kvlaw check --events writes one event in a line") from None
    return from_json(data, where)


def _cut(path: Path, what: str, events: int) -> StreamError:
    return StreamError(
        f"{path}: {what}: the record was cut off after {events} whole events, so what it says is not the whole run. "
        "Run the check again, or use --partial to see what had been found as that of an interrupted run"
    )


def _check_frame(path: Path, events: Sequence[Event]) -> None:
    """Refuse a record without its first or last line, with lines missing between them, or of several runs."""
    first, last = events[0], events[-1]
    if not isinstance(first, RunStarted):
        raise StreamError(f"{path}: line 1 is {first.event}, not run_started: its beginning is missing")
    for number, event in enumerate(events[1:], 2):
        if isinstance(event, RunStarted):
            raise StreamError(
                f"{path}: line {number} begins another run: keep each run in its own file, "
                "and give them all to kvlaw report --combine"
            )
    ends = [number for number, event in enumerate(events, 1) if isinstance(event, RunEnded)]
    if not ends:
        raise _cut(path, "there is no run_ended", len(events))
    if ends[0] != len(events):
        raise StreamError(f"{path}: line {ends[0]} ends the run, and {len(events) - ends[0]} lines stand behind it")
    if isinstance(last, RunEnded) and last.events != len(events) - 1:
        there = len(events) - 1
        raise StreamError(
            f"{path}: run_ended counts {last.events} events before it, and there are {there}: lines were "
            f"{'lost' if there < last.events else 'added'}; take the file as the run wrote it"
        )


def _check_order(path: Path, events: Sequence[Event]) -> None:
    """Refuse events of a target outside its check, a check that has no end, and a target that is checked twice."""
    open_now, seen = "", set[str]()
    for number, event in enumerate(events, 1):
        target = getattr(event, "target", None)
        if isinstance(event, TargetStarted):
            if open_now or event.target in seen:
                what = "is checked twice" if event.target in seen else f"begins before {printable(open_now)} has ended"
                raise StreamError(f"{path}: line {number}: {printable(event.target)} {what}")
            open_now = event.target
            seen.add(event.target)
        elif target is not None and target != open_now:
            raise StreamError(f"{path}: line {number}: {event.event} of {printable(target)}, whose check is not open")
        if isinstance(event, TargetEnded):
            open_now = ""
    if open_now:
        raise StreamError(f"{path}: the check of {printable(open_now)} has no target_ended: lines are missing")


__all__ = ["EventFile", "StreamError", "from_json", "read_events", "rescue", "to_json", "to_line"]
