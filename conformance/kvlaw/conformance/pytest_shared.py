"""One check for all workers of pytest-xdist: the first that needs it makes it, the others wait and read its result.

The result lies in the run's own temporary folder, which pytest makes, keeps private and clears away; a lock of the
operating system on a file beside it lets one worker in and falls open if that worker dies. Clauses are written by id.
Without xdist, or where there are no such locks, every process makes its own check.
"""

import pickle
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from kvlaw.conformance.result import CheckResult
from kvlaw.spec.clauses import Clause, load_clauses

Make = Callable[[], CheckResult]


def place(request: pytest.FixtureRequest) -> Path | None:
    """Give the file in which the result of a suite is shared, or None in a run of one process."""
    if not hasattr(request.config, "workerinput"):
        return None
    temporary: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
    node: Any = request.node
    name = f"{node.path}::{getattr(node.cls, '__qualname__', '')}::{node.originalname}"
    return temporary.getbasetemp().parent / f"kvlaw-{blake2b(name.encode(), digest_size=8).hexdigest()}.result"


def shared(path: Path | None, make: Make) -> CheckResult:
    """Read the result that another worker has left at ``path``, or make it and leave it there."""
    if path is None:
        return make()
    with _alone(path.with_suffix(".lock")):
        found = _read(path)
        if found is not None:
            return found
        result = make()
        if result.whole:
            _write(path, result)
        return result


@contextmanager
def _alone(path: Path) -> Generator[None]:
    """Let one worker in at a time."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with path.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class _Writer(pickle.Pickler):
    """Writes a clause, which has compiled laws, as its id."""

    def persistent_id(self, obj: object) -> str | None:
        """Give the id of a clause."""
        return obj.id if isinstance(obj, Clause) else None


class _Reader(pickle.Unpickler):
    """Takes clauses from the specification."""

    def persistent_load(self, pid: str) -> Clause:
        """Find a clause by its id."""
        return load_clauses().find(pid)


def _read(path: Path) -> CheckResult | None:
    with suppress(FileNotFoundError, EOFError, pickle.UnpicklingError), path.open("rb") as file:
        found: CheckResult = _Reader(file).load()  # a worker of this run wrote it
        return found
    return None


def _write(path: Path, result: CheckResult) -> None:
    partial = path.with_suffix(".partial")
    with suppress(OSError):  # a full disk costs time, not the result
        with partial.open("wb") as file:
            _Writer(file).dump(result)
        partial.replace(path)


__all__ = ["place", "shared"]
