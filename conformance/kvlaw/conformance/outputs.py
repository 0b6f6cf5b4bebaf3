"""Files that a run writes: refused before it starts where they cannot be written, and then written whole or not at all.

A text is written beside its place, under another name, and put there by a rename; what is no regular file (a pipe,
``/dev/stdout``) is written as it is.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from kvlaw.conformance.guard import printable


class OutputError(ValueError):
    """A file that cannot be written: says which, and why."""


def check_writable(path: Path) -> None:
    """Raise ``OutputError`` if a file cannot be written; change nothing."""
    told = printable(str(path))
    try:
        place = _place(path)
        if place.is_dir():
            raise OutputError(f"{told} is a folder: name a file in it")
        if not place.parent.is_dir():
            raise OutputError(f"{told}: there is no folder {printable(str(place.parent))}; make it first")
        if place.exists() and not os.access(place, os.W_OK):
            raise OutputError(f"{told} cannot be written: Permission denied")
        if place.is_file() or not place.exists():
            trial = _beside(place)
            trial.touch()
            trial.unlink()
    except OSError as error:
        raise OutputError(f"{told} cannot be written: {error.strerror or error}") from None
    except ValueError as error:
        if isinstance(error, OutputError):
            raise
        raise OutputError(f"{told} cannot be the name of a file: {error}") from None


def check_apart(paths: Iterable[Path]) -> None:
    """Raise ``OutputError`` if two outputs have the same place."""
    seen: set[Path] = set()
    for path in paths:
        place = _place(path)
        if place in seen and (place.is_file() or not place.exists()):
            raise OutputError(f"{printable(str(path))} is given twice: each report needs a file of its own")
        seen.add(place)


def write_whole(path: Path, text: str) -> None:
    """Write a text; raise ``OSError`` and leave an older file as it is if that cannot be."""
    place = _place(path)
    if place.exists() and not place.is_file():
        place.write_text(text, encoding="utf-8", errors="backslashreplace")
        return
    partial = _beside(place)
    try:
        partial.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
        partial.replace(place)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _place(path: Path) -> Path:
    """Follow links, so that a rename replaces what they name."""
    return Path(os.path.realpath(path))


def _beside(place: Path) -> Path:
    return place.with_name(f".kvlaw.{os.getpid()}.{place.name[-60:]}.partial")


__all__ = ["OutputError", "check_apart", "check_writable", "write_whole"]
