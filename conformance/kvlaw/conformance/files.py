"""Several files, written all or none: each beside its place first, then all moved there; half of it is undone."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path


def write_all(contents: Mapping[Path, str]) -> None:
    """Write files completely, or leave everything as it was.

    Raises:
        OSError: if one cannot be written; none is then.
    """
    before: dict[Path, bytes | None] = {}
    partial = {path: path.with_name(f".{path.name}.{os.getpid()}.partial") for path in contents}
    made: list[Path] = []
    try:
        for path, text in contents.items():
            made += _folders(path.parent)
            partial[path].write_text(text, encoding="utf-8", newline="")
        for path in contents:
            before[path] = path.read_bytes() if path.exists() else None
            partial[path].replace(path)
    except BaseException:  # an interrupt as well
        _undo(before, partial, made)
        raise


def _folders(folder: Path) -> list[Path]:
    """Make a folder and those above it that are missing; list what was made, the uppermost first."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()][::-1]
    for place in missing:
        place.mkdir()
    return missing


def _undo(before: Mapping[Path, bytes | None], partial: Mapping[Path, Path], made: list[Path]) -> None:
    for path, was in before.items():
        with suppress(OSError):
            if was is not None:
                path.write_bytes(was)
            elif partial[path].exists() is False:  # it was moved to its place
                path.unlink()
    for path in partial.values():
        with suppress(OSError):
            path.unlink(missing_ok=True)
    for place in reversed(made):
        with suppress(OSError):
            place.rmdir()


__all__ = ["write_all"]
