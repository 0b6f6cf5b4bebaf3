"""A file that is given where a target is wanted: which target may be meant.

A file of Python is parsed, never imported, so that nothing runs that nobody asked for.
"""

import ast
from pathlib import Path

from kvlaw.conformance.subjects.errors import nearest

_MOST_BYTES = 1 << 22
_MOST_NAMES = 5
_CALLS = {"update_and_fetch", "append_decode", "append", "build"}
_OTHER = 3


def meant_by_path(text: str) -> str:
    """Say which target a path means, as in ``./ring.py:Ring`` or ``ring.py``; nothing for what is no path."""
    path, attribute = _parted(text.removeprefix("py:"))
    if path.suffix == ".py":
        return _of_module(path, attribute)
    if attribute or not _is_file(path):
        return ""
    scheme = "vectors:" if path.suffix in (".jsonl", ".ndjson") else "cmd:"
    where = str(path) if scheme == "vectors:" or path.is_absolute() else f"./{path}"
    return f"; did you mean '{scheme}{where}'?"


def _parted(text: str) -> tuple[Path, str]:
    """Part a path and what is named in it."""
    path, _, attribute = text.partition(":")
    return Path(path), attribute


def _of_module(path: Path, attribute: str) -> str:
    names = _names(path)
    if names is None:
        return f": there is no file {path} that could be read; write py:module:attribute"
    first = attribute.partition(".")[0]
    if attribute and first not in names:
        hint = nearest(first, names).replace("; did you mean", ", but").rstrip("?") if names else ""
        return f": {path} defines no {attribute!r}{hint}; write py:module:attribute"
    module, elsewhere = _module(path)
    given = [attribute] if attribute else _likely(names)[:_MOST_NAMES]
    if not given:
        return f": {path} defines no class and no function; write py:{module}:NAME of what it makes"
    targets = " or ".join(f"'py:{module}:{name}'" for name in given)
    return f"; did you mean {targets}?{elsewhere}"


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False


def _names(path: Path) -> dict[str, int] | None:
    """List what a file defines at its top, each with its rank as a target; None: there is no file."""
    if not _is_file(path):
        return None
    try:
        if path.stat().st_size > _MOST_BYTES:
            return {}
        tree = ast.parse(path.read_bytes())
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return {}
    return {name: rank for node in tree.body for name, rank in _ranked(node)}


def _ranked(node: ast.stmt) -> list[tuple[str, int]]:
    """Rank what a statement defines: classes that look like caches, other classes, functions, anything else."""
    if isinstance(node, ast.ClassDef):
        calls = {inner.name for inner in node.body if isinstance(inner, ast.FunctionDef)}
        return [(node.name, 1 if calls.isdisjoint(_CALLS) else 0)]
    if isinstance(node, ast.FunctionDef):
        return [(node.name, 2)]
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [(target.id, _OTHER) for target in targets if isinstance(target, ast.Name)]


def _likely(names: dict[str, int]) -> list[str]:
    """List the classes that are no file's own, those of caches first; without any the functions."""
    public = sorted((rank, place, name) for place, (name, rank) in enumerate(names.items()) if name[0] != "_")
    return [name for rank, _, name in public if rank < (2 if public[0][0] < 2 else _OTHER)]


def _module(path: Path) -> tuple[str, str]:
    """Name the module of a file as it is imported from here, and say where it is found if that is not from here."""
    here = Path.cwd()
    parts = path.with_suffix("").parts
    try:
        parts = path.absolute().resolve().relative_to(here.resolve()).with_suffix("").parts
    except ValueError:
        return path.stem, f" with PYTHONPATH={path.parent}"
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts), ""


__all__ = ["meant_by_path"]
