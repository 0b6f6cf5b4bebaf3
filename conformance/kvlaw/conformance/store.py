"""The failure store: every failing trace a check finds, as a JSON file that ``kvlaw replay`` reads.

Files stand in ``.kvlaw/failures`` of the working folder, named by the failure's id. They are written completely or not
at all, and read with the same care as any trace. ``target`` says on what it was found, with the options of the command
line by which the target was made, ``profile`` which clauses counted.
"""

import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path

from attrs import asdict, frozen

from kvlaw.conformance.compare import Divergence
from kvlaw.conformance.failures import Failure, is_crash
from kvlaw.conformance.guard import printable
from kvlaw.spec.clauses import PROFILES, Profile, load_clauses
from kvlaw.spec.nearest import nearest
from kvlaw.spec.structure import load as structured
from kvlaw.spec.structure import shown
from kvlaw.spec.trace import Trace, TraceError

FOLDER = Path(".kvlaw") / "failures"
_LISTED = 5
"""So many are named where none is found."""


@frozen
class Stored:
    """A stored failure: its id, target, clause and trace, and the profile by which it fails.

    A trace that was written by hand has no target and no profile. ``found`` is how law and target parted when it was
    found; older files do not say so.
    """

    id: str
    target: str
    clause: str
    trace: Trace
    profile: Profile | None = None
    found: Divergence | None = None

    @property
    def crashed(self) -> bool:
        """Whether it ended the process in which it was found."""
        return self.found is not None and is_crash(self.found)

    @property
    def words(self) -> list[str]:
        """The target and its options, as words of a command line."""
        return shlex.split(self.target)


def save(failure: Failure, folder: Path = FOLDER) -> Path:
    """Write a failure; an older file of the same id is replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    _keep_out_of_git(folder.parent)
    path = folder / f"{failure.id}.json"
    note = f"expected {failure.divergence.expected}; observed {failure.divergence.observed}"
    data = {
        **failure.trace.to_json(),
        "id": failure.id,
        "target": failure.target,
        "profile": failure.profile,
        "expect": failure.clause,
        "note": note,
        "found": asdict(failure.divergence),
    }
    partial = path.with_suffix(f".{os.getpid()}.partial")  # pytest workers may find the same failure
    partial.write_text(json.dumps(data, indent=1) + "\n")
    partial.replace(path)
    return path


def _keep_out_of_git(folder: Path) -> None:
    """Let git ignore our own folder: failures are found again, and are nobody's sources."""
    ignored = folder / ".gitignore"
    if folder.name == FOLDER.parent.name and not ignored.exists():
        ignored.write_text("*\n")


def load(path: Path) -> Stored:
    """Read a stored failure, or any file with one trace; raise ``TraceError`` that names the file."""
    try:
        return _read(path.read_text(encoding="utf-8"), path.stem)
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise TraceError(f"{path}: no text in UTF-8: {error.reason} at byte {error.start}") from None
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from None


def _read(text: str, name: str) -> Stored:
    trace, data = Trace.loads(text), json.loads(text)
    target, profile = data.get("target", ""), data.get("profile")
    if not isinstance(target, str):
        raise TraceError(f"target: text is wanted, as on the command line, not {shown(target)}")
    if profile not in (None, *PROFILES):
        raise TraceError(f"profile: {shown(profile)} is not one of {', '.join(PROFILES)}")
    try:
        shlex.split(target)
    except ValueError as error:
        raise TraceError(f"target: {shown(target)} cannot be read as words: {error}") from None
    named = printable(str(data.get("id", name)))
    return Stored(named, target, str(data.get("expect", "")), trace, profile, _found(data.get("found")))


def _found(data: object) -> Divergence | None:
    """Read how law and target parted; None for what no check has written."""
    if data is None:
        return None
    try:
        found = structured(Divergence, data, "found")
    except TraceError:
        return None
    whole = all(number is None or number >= 0 for number in (found.row, found.layer, found.query))
    return found if whole and found.clause in load_clauses() else None


def find(name: str, folder: Path = FOLDER) -> Path:
    """Find a stored failure by file name or id, or by what only its id begins with.

    Raises ``TraceError`` that lists what is there.
    """
    for path in (Path(name), folder / f"{name}.json"):
        if _is(path, Path.is_file):
            return path
    alike = [path for path in all_stored(folder) if name and path.stem.startswith(f"{name}-")]
    if len(alike) == 1:
        return alike[0]
    if _is(Path(name), Path.is_dir):
        raise TraceError(f"{name} is a folder: name a file with one trace, or the id of a stored failure")
    there = [path.stem for path in all_stored(folder)]
    more = f" and {len(there) - _LISTED} more" if len(there) > _LISTED else ""
    listed = ", ".join(there[:_LISTED]) + more or "nothing"
    raise TraceError(f"no file and no stored failure is called {name!r}{nearest(name, there)}; {folder} holds {listed}")


def _is(path: Path, what: Callable[[Path], bool]) -> bool:
    """Ask what a path is; one that cannot be (too long, with a zero byte) is nothing."""
    try:
        return what(path)
    except (OSError, ValueError):
        return False


def all_stored(folder: Path = FOLDER) -> list[Path]:
    """List every stored failure."""
    return sorted(folder.glob("*.json"))
