"""Where ``kvlaw init`` writes, and what it must not overwrite.

A project with a ``pyproject.toml`` gets its configuration there, any other folder a ``kvlaw.toml``.
"""

import os
from pathlib import Path

from attrs import frozen

from kvlaw.conformance.configuration import EXPECTATIONS, FILE, PROJECT, TABLE, ConfigurationError, parsed, text_of

WORKFLOW = Path(".github") / "workflows" / "kvlaw.yml"


@frozen
class Places:
    """The three files of a project folder."""

    configuration: Path
    expectations: Path
    workflow: Path

    @property
    def in_project(self) -> bool:
        """The configuration is a part of a ``pyproject.toml``."""
        return self.configuration.name == PROJECT


def places_in(folder: Path, *, force: bool) -> Places:
    """Choose the files in a folder.

    Raises:
        ConfigurationError: if one is there already and not to be replaced, or if nothing can be written there.
    """
    project = folder / PROJECT
    configuration = project if project.is_file() and not (folder / FILE).exists() else folder / FILE
    places = Places(configuration, folder / EXPECTATIONS, folder / WORKFLOW)
    there = [path for path in (places.expectations, places.workflow) if path.exists()]
    there += [configuration] if _says_something(configuration) else []
    if there and not force:
        *first, last = (str(path.relative_to(folder)) + _part(path) for path in there)
        names, are, them = (f"{', '.join(first)} and {last}", "are", "them") if first else (last, "is", "it")
        raise ConfigurationError(f"{names} {are} there already: use --force to write {them} anew, or edit {them}")
    for path in (places.configuration, places.expectations, places.workflow):
        _check_writable(path)
    return places


def _part(path: Path) -> str:
    return f" with [{TABLE}]" if path.name == PROJECT else ""


def _says_something(path: Path) -> bool:
    """Tell whether there is a configuration in a file."""
    if path.name != PROJECT:
        return path.exists()
    tools = parsed(text_of(path), path).get("tool", {})
    return isinstance(tools, dict) and "kvlaw" in tools


def _check_writable(path: Path) -> None:
    """Refuse a place that cannot be written, before a check of some minutes."""
    if path.exists() and not path.is_file():
        raise ConfigurationError(f"{path} is no file: move it out of the way")
    near = next(place for place in (path, *path.parents) if place.exists())
    if near != path and not near.is_dir():
        raise ConfigurationError(f"{near} is no folder: {path} cannot be made")
    folder = path.parent if path.exists() else near
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigurationError(f"{path} cannot be written: the folder {folder} is read-only")


__all__ = ["WORKFLOW", "Places", "places_in"]
