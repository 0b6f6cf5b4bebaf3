"""The failure store: every failing trace a check finds, as a JSON file that ``kvlaw replay`` reads.

Files stand in ``.kvlaw/failures`` of the working folder, named by the failure's id. They are written completely or not
at all, and read with the same care as any trace. ``target`` says on what it was found, with the options of the command
line by which the target was made.
"""

import json
import os
import shlex
from pathlib import Path

from attrs import frozen

from kvlaw.conformance.failures import Failure
from kvlaw.spec.trace import Trace, TraceError

FOLDER = Path(".kvlaw") / "failures"


@frozen
class Stored:
    """A stored failure: its id, target, clause and trace."""

    id: str
    target: str
    clause: str
    trace: Trace

    @property
    def words(self) -> list[str]:
        """The target and its options, as words of a command line."""
        return shlex.split(self.target)


def save(failure: Failure, folder: Path = FOLDER) -> Path:
    """Write a failure; an older file of the same id is replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{failure.id}.json"
    note = f"expected {failure.divergence.expected}; observed {failure.divergence.observed}"
    data = {
        **failure.trace.to_json(),
        "id": failure.id,
        "target": failure.target,
        "expect": failure.clause,
        "note": note,
    }
    partial = path.with_suffix(f".{os.getpid()}.partial")  # pytest workers may find the same failure
    partial.write_text(json.dumps(data, indent=1) + "\n")
    partial.replace(path)
    return path


def load(path: Path) -> Stored:
    """Read a stored failure, or any file with one trace; raise ``TraceError`` that names the file."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: {error}") from None
    try:
        trace = Trace.loads(text)
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from None
    data = json.loads(text)
    return Stored(str(data.get("id", path.stem)), str(data.get("target", "")), str(data.get("expect", "")), trace)


def find(name: str, folder: Path = FOLDER) -> Path:
    """Find a stored failure by file name or id, or raise ``TraceError`` that lists what is there."""
    for path in (Path(name), folder / f"{name}.json"):
        if path.is_file():
            return path
    there = ", ".join(sorted(p.stem for p in folder.glob("*.json"))) or "nothing"
    raise TraceError(f"no file and no stored failure is called {name!r}; {folder} holds {there}")


def all_stored(folder: Path = FOLDER) -> list[Path]:
    """List every stored failure."""
    return sorted(folder.glob("*.json"))
