"""Who cites which clause, read from the source files with ``ast``; nothing is imported, so no MLX is needed.

A citation is a decorator (``@clause("RING-3")``, in proofs ``@lemma("RING-3")``), a string constant that is an id, or a
mention in a docstring.  ``inv:RING-3`` is an id of the inventory and no citation.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from attrs import frozen

from kvlaw.spec.clauses import FAMILIES

Form = Literal["clause", "lemma", "constant", "mention"]
ROOMS = ("spec", "reference", "mlx_impl", "conformance")
CODE: tuple[Form, ...] = ("clause", "constant")
"""The forms in which code that expects or does something cites a clause."""

_ID = re.compile(rf"(?<![\w:-])(?:{'|'.join(FAMILIES)})-[1-9]\d*(?![\w-])")


@frozen
class Citation:
    """One citation: the clause id, the room and file (relative to it), the line, who cites, and in which form."""

    clause: str
    room: str
    path: str
    line: int
    name: str
    form: Form

    @property
    def where(self) -> str:
        """Room, file and line, as messages write them."""
        return f"{self.room}/{self.path}:{self.line}"


def read_citations(rooms: Iterable[str] = ROOMS) -> tuple[Citation, ...]:
    """Read the citations in all Python files of the rooms, wherever they are installed."""
    found: list[Citation] = []
    for room in rooms:
        spec = find_spec(f"kvlaw.{room}")
        for folder in [] if spec is None else spec.submodule_search_locations or []:
            found += citations_in(Path(folder), room)
    return tuple(found)


def citations_in(folder: Path, room: str) -> Iterator[Citation]:
    """Read the citations in all Python files below a folder."""
    for path in sorted(folder.rglob("*.py")):
        yield from citations_of(path.read_text(encoding="utf-8"), room, path.relative_to(folder).as_posix())


def citations_of(source: str, room: str, path: str) -> Iterator[Citation]:
    """Read the citations of one file, in the order of its lines.

    Args:
        source: the Python text.
        room: the room it belongs to (``reference``).
        path: the file, relative to the room.
    """
    tree = ast.parse(source, path)
    found = [
        Citation(clause_id, room, path, line, name, form)
        for name, node in _definitions(tree)
        for clause_id, line, form in _cited(node)
    ]
    yield from sorted(found, key=lambda citation: citation.line)


_Definition = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _definitions(tree: ast.Module) -> Iterator[tuple[str, _Definition]]:
    """Give the module and every class and function in it, with dotted names."""
    waiting: list[tuple[str, _Definition]] = [("", tree)]
    while waiting:
        name, node = waiting.pop(0)
        yield name or "(module)", node
        inside = [x for x in _own(node) if isinstance(x, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)]
        waiting += [(f"{name}.{inner.name}".lstrip("."), inner) for inner in inside]


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """Walk what belongs to a definition itself, down to the definitions inside it."""
    for inner in ast.iter_child_nodes(node):
        yield inner
        if not isinstance(inner, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _own(inner)


def _cited(definition: _Definition) -> Iterator[tuple[str, int, Form]]:
    decorators = [] if isinstance(definition, ast.Module) else definition.decorator_list
    seen: set[ast.AST] = set()
    for node in decorators:
        form = _form(node)
        for constant in (x for x in ast.walk(node) if isinstance(x, ast.Constant)):
            seen.add(constant)
            if isinstance(constant.value, str) and _ID.fullmatch(constant.value):
                yield constant.value, constant.lineno, form
    docstring = _docstring(definition)
    for node in _own(definition):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or node in seen:
            continue
        if node is docstring:
            yield from _mentions(node.value, node.lineno)
        elif _ID.fullmatch(node.value):
            yield node.value, node.lineno, "constant"


def _mentions(text: str, first: int) -> Iterator[tuple[str, int, Form]]:
    for number, line in enumerate(text.split("\n"), first):
        for match in _ID.finditer(line):
            yield match[0], number, "mention"


def _form(decorator: ast.expr) -> Form:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return "clause" if name == "clause" else "lemma" if name == "lemma" else "constant"


def _docstring(definition: _Definition) -> ast.Constant | None:
    first = definition.body[0] if definition.body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        return first.value
    return None
