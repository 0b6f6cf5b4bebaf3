"""Where things stand: the repository on disk, and the pages and anchors of the site.

A place on the site is a page's name without ``.html`` and an anchor; ``uri`` says how one page links to it.
"""

import ast
import inspect
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from posixpath import relpath
from typing import Any

from attrs import frozen

from kvlaw.spec.clauses import FAMILIES, text_folder

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
ROOMS = ("spec", "reference", "mlx_impl", "conformance")
CLAUSE = re.compile(rf"(?<![\w:-])(?:{'|'.join(FAMILIES)})-[1-9]\d*(?![\w-])")
INVENTORY = re.compile(r"(?<![\w-])inv:[A-Z]+-[1-9]\d*(?![\w-])")


@frozen
class Place:
    """A page of the site and an anchor on it; without an anchor its top."""

    page: str
    anchor: str = ""

    def uri(self, from_page: str) -> str:
        """Write it as a link on another page, or on the same one."""
        there = f"{relpath(self.page, str(Path(from_page).parent))}.html"
        if self.page == from_page:
            return f"#{self.anchor}"
        return f"{there}#{self.anchor}" if self.anchor else there


def chapter_page(file: str) -> str:
    """Give the page of a chapter by its file name."""
    return f"spec/{file.removesuffix('.md')}"


@cache
def chapters() -> dict[int, str]:
    """Give the page of each chapter by its number."""
    names = sorted(f.name for f in text_folder().iterdir() if re.match(r"\d\d-.*\.md", f.name))
    return {int(name[:2]): chapter_page(name) for name in names}


def of_clause(clause_id: str, chapter: str) -> Place:
    """Give the place of a clause: its permalink."""
    return Place(chapter_page(chapter), clause_id)


def of_inventory(inventory_id: str) -> Place:
    """Give the place of a row of the inventory (``inv:RING-3``)."""
    return Place("spec/inventory", inventory_id.replace(":", "-"))


def of_fault(name: str) -> Place:
    """Give the place of a planted fault in their index."""
    return Place("faults", f"fault-{name}")


def of_lemma(name: str) -> Place:
    """Give the place of a lemma in their index."""
    return Place("lemmas", f"lemma-{name}")


def of_source(room: str, path: str, line: int = 0) -> Place:
    """Give the place of a line of a source file, whose path is relative to the room's package."""
    return Place(f"source/{room}/{path.removesuffix('.py')}", f"L-{line}" if line else "")


def of_definition(defined: Callable[..., Any] | type) -> Place:
    """Give the place where a function or class of ours is defined."""
    _, line = inspect.getsourcelines(defined)
    return Place(source_of(defined.__module__).page, f"L-{line}")


@cache
def _planted() -> Mapping[str, Place]:
    """Find each planted fault in its file: the class that ``@fault("name", ...)`` stands on."""
    found: dict[str, Place] = {}
    for path in sorted((room_folder("conformance") / "faults").glob("planted_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for mark in node.decorator_list if isinstance(node, ast.ClassDef) else ():
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "fault":
                    name = ast.literal_eval(mark.args[0])
                    found[name] = of_source("conformance", f"faults/{path.name}", mark.lineno)
    return found


@cache
def source_of(module: str) -> Place:
    """Give the place of a module's source file."""
    _, room, *inner = module.split(".")
    path = "/".join(inner)
    return of_source(room, path if (room_folder(room) / f"{path}.py").is_file() else f"{path}/__init__".lstrip("/"))


def of_planted(name: str) -> Place:
    """Give the place of the code of a planted fault."""
    return _planted()[name]


def room_folder(room: str) -> Path:
    """Give the folder of a room's package, in a checkout or in an installed wheel."""
    spec = find_spec(f"kvlaw.{room}")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"kvlaw.{room} is not installed")
    return Path(spec.submodule_search_locations[0])


@cache
def source_files() -> list[tuple[str, str, Path]]:
    """List every source file: room, path relative to the room's package, and where it lies."""
    folders = [(room, room_folder(room)) for room in ROOMS]
    return [
        (room, path.relative_to(folder).as_posix(), path)
        for room, folder in folders
        for path in sorted(folder.rglob("*.py"))
    ]
