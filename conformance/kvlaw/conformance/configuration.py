"""The configuration of a project: which targets are checked, how, and where its expected failures are listed.

It stands in ``kvlaw.toml``, or in ``pyproject.toml`` under ``[tool.kvlaw]``, in the working folder or the nearest one
above that has it (``find``); ``read`` reads a named file. Keys that are not known are refused with what may be meant,
wrong values with their path (``tool.kvlaw.targets[0].set``), all as ``ConfigurationError``.

    [tool.kvlaw]
    spec = "1.0"                 # clauses of later versions don't count
    budget = "ci"

    [[tool.kvlaw.targets]]
    name = "ring"                # how expectations and `kvlaw check ring` call it; without, by its target
    target = "py:acme.cache:RingCache"
    set = { window = 8 }
    map = { window = "max_size" }
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast, get_args

import attrs
from attrs import field, frozen

from kvlaw.conformance.subjects.errors import nearest
from kvlaw.spec.clauses import Profile, load_clauses
from kvlaw.spec.config import Kind
from kvlaw.spec.structure import TraceError, load, shown

Budget = Literal["quick", "ci", "deep"]
FILE = "kvlaw.toml"
PROJECT = "pyproject.toml"
TABLE = "tool.kvlaw"
EXPECTATIONS = "kvlaw-expectations.toml"
"""Where expectations are looked for, beside the configuration, unless it says otherwise."""


class ConfigurationError(ValueError):
    """A configuration, or a file of expectations, that cannot be used: the text says where, and what would be right."""


@frozen
class TargetSettings:
    """One target: as ``kvlaw check`` takes it, with its ``--set`` and ``--map``, its kinds and its profile."""

    target: str
    name: str = ""
    set: dict[str, Any] = field(factory=dict[str, Any])
    map: dict[str, str] = field(factory=dict[str, str])
    kinds: tuple[Kind, ...] = ()
    profile: Profile | None = None

    @property
    def called(self) -> str:
        """What expectations and the command line call it."""
        return self.name or self.target


@frozen
class Configuration:
    """What a project says; ``path`` is where (None: there is no configuration)."""

    targets: tuple[TargetSettings, ...] = ()
    spec: str = ""
    budget: Budget = "ci"
    profile: Profile = "core"
    seed: int = 0
    expectations: str = ""
    allow_incomplete: bool = False
    path: Path | None = field(default=None, eq=False)

    @property
    def folder(self) -> Path:
        """The folder that paths are relative to."""
        return self.path.parent if self.path is not None else Path()

    @property
    def expectations_file(self) -> Path | None:
        """The file of expectations: the one that is named, or the usual one if it is there."""
        usual = self.folder / EXPECTATIONS
        if self.expectations:
            return self.folder / self.expectations
        return usual if self.path is not None and usual.is_file() else None

    def find(self, called: str) -> TargetSettings | None:
        """Find a configured target by its name, or by its target where only one has that."""
        named = [t for t in self.targets if t.called == called] or [t for t in self.targets if t.target == called]
        return named[0] if len(named) == 1 else None


_KEYS = tuple(a.name for a in attrs.fields(Configuration) if a.name != "path")


def find(folder: Path | None = None) -> Configuration:
    """Read the configuration of a folder, or of the nearest one above; an empty one if there is none."""
    start = Path.cwd() if folder is None else folder.absolute()
    for place in (start, *start.parents):
        for name in (FILE, PROJECT):
            path = place / name
            if _is_file(path) and (found := _table(path, named=False)) is not None:
                return _read(path, found)
    return Configuration()


def read(path: Path) -> Configuration:
    """Read the configuration in a file; raise ``ConfigurationError`` if there is none."""
    table = _table(path, named=True)
    if table is None:
        raise ConfigurationError(f"{path}: there is no [{TABLE}] in it; `kvlaw init TARGET` writes one")
    return _read(path, table)


def text_of(path: Path) -> str:
    """Read a text file; raise ``ConfigurationError`` that names it."""
    try:
        return path.read_bytes().decode("utf-8")  # with the line ends that it has
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: no text in UTF-8: {error.reason} at byte {error.start}") from None
    except (OSError, ValueError) as error:  # a zero byte in a name is a ValueError
        raise ConfigurationError(f"{path}: {getattr(error, 'strerror', None) or error}") from None


def parsed(text: str, path: Path) -> dict[str, Any]:
    """Read TOML; raise ``ConfigurationError`` that names the file."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path}: no valid TOML: {error}") from None
    except RecursionError:
        raise ConfigurationError(f"{path}: no valid TOML: nested too deeply") from None


def structured(kind: type[Any], data: object, where: str) -> Any:
    """Build a value from what TOML gives; unknown keys are refused with what may be meant."""
    _known(kind, data, where)
    try:
        return load(kind, data, where)
    except TraceError as error:
        raise ConfigurationError(str(error).replace("an object is wanted", "a table is wanted")) from None


def _known(kind: type[Any], data: object, where: str) -> None:
    names = tuple(a.name for a in attrs.fields(kind) if a.name != "path")
    for key in table_of(data, where):
        if key not in names:
            known = ", ".join(names)
            meant = nearest(key, names) or ";"
            raise ConfigurationError(f"{where}.{key}: there is no such key{meant} known are {known}")


def table_of(value: object, where: str) -> dict[str, Any]:
    """Take a value that must be a table."""
    if not isinstance(value, dict):
        raise ConfigurationError(f"{where}: a table is wanted, not {_shown(value)}")
    return cast("dict[str, Any]", value)


def list_of(value: object, where: str) -> list[Any]:
    """Take a value that must be a list of tables."""
    if not isinstance(value, list):
        raise ConfigurationError(f"{where}: a list of tables is wanted, not {_shown(value)}")
    return cast("list[Any]", value)


def _shown(value: object) -> str:
    return "a table" if isinstance(value, Mapping) else shown(value)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a folder that may not be entered
        return False


def _table(path: Path, *, named: bool) -> dict[str, Any] | None:
    """Give the table of a file; None for a project's file without one, broken or not, that nobody named."""
    text = text_of(path)
    if path.name != PROJECT:
        return parsed(text, path)
    if not named and "kvlaw" not in text:
        return None
    tools = parsed(text, path).get("tool", {})
    table = cast("dict[str, Any]", tools).get("kvlaw") if isinstance(tools, dict) else None
    return None if table is None else table_of(table, f"{path}: {TABLE}")


def _read(path: Path, table: dict[str, Any]) -> Configuration:
    where = TABLE if path.name == PROJECT else "kvlaw"
    try:
        _check_targets(table, where)
        found: Configuration = structured(Configuration, table, where)
        _check_values(found, where)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {str(error).removeprefix('kvlaw.')}") from None
    return attrs.evolve(found, path=path)


def _check_targets(table: dict[str, Any], where: str) -> None:
    for index, target in enumerate(list_of(table.get("targets", []), f"{where}.targets")):
        at = f"{where}.targets[{index}]"
        _known(TargetSettings, target, at)
        for name in ("set", "map"):
            _check_settings(table_of(target.get(name, {}), f"{at}.{name}"), f"{at}.{name}", texts=name == "map")


def _check_settings(settings: dict[str, Any], where: str, *, texts: bool) -> None:
    """Refuse settings that no ``--set`` and no ``--map`` could write."""
    for name, value in settings.items():
        if texts and not isinstance(value, str):
            raise ConfigurationError(f"{where}.{name}: the name of a parameter is wanted, not {_shown(value)}")
        if not isinstance(value, str | int | float | bool):
            raise ConfigurationError(f"{where}.{name}: a number, text, true or false is wanted, not {_shown(value)}")


def _check_values(found: Configuration, where: str) -> None:
    if found.spec and found.spec not in load_clauses().versions:
        versions = ", ".join(load_clauses().versions)
        raise ConfigurationError(f"{where}.spec: there is no version {found.spec!r}; this kvlaw knows {versions}")
    if found.seed < 0:
        raise ConfigurationError(f"{where}.seed: a seed goes from 0 on, not {found.seed}")
    called: dict[str, int] = {}
    for index, target in enumerate(found.targets):
        if not target.target.strip():
            raise ConfigurationError(f"{where}.targets[{index}].target: a target is wanted, as for kvlaw check")
        first = called.setdefault(target.called, index)
        if first != index:
            raise ConfigurationError(
                f"{where}.targets[{index}]: {target.called!r} is called like targets[{first}]: give each its own name"
            )


BUDGETS: tuple[Budget, ...] = get_args(Budget)

__all__ = [
    "BUDGETS",
    "EXPECTATIONS",
    "FILE",
    "PROJECT",
    "TABLE",
    "Configuration",
    "ConfigurationError",
    "TargetSettings",
    "find",
    "list_of",
    "parsed",
    "read",
    "structured",
    "table_of",
    "text_of",
]
