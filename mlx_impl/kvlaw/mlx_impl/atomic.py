"""A file that is there whole or not at all: written beside its place, synced, and renamed."""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from kvlaw.spec.cite import clause

CHUNK = 1 << 22
"""Bytes that are written at a time."""


@clause("PERS-8")
def replace_file(path: Path, parts: Sequence[bytes | memoryview]) -> None:
    """Write ``parts`` behind each other to ``path``; until the rename, ``path`` is what it was.

    Whoever is killed before that leaves a file ``.NAME....tmp`` beside it, which nobody reads.

    Raises:
        OSError: if it cannot be written; then nothing is left beside it.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        try:
            for part in parts:
                _write(file, memoryview(part))
            os.fsync(file)
        finally:
            os.close(file)
        os.replace(beside, path)  # noqa: PTH105  # one call to the system, as in this whole module
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _write(file: int, data: memoryview) -> None:
    at = 0
    while at < len(data):
        at += os.write(file, data[at : at + CHUNK])


def _sync_folder(folder: Path) -> None:
    """Make a rename last; not every system lets a folder be opened or synced."""
    with contextlib.suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


__all__ = ["replace_file"]
