"""How the text of a law becomes code: parsed, checked against the names of its scope, and compiled.

Refused (``LawError``): a syntax error, a name or an attribute that the scope does not have (a typing error would
otherwise make a law that never applies), and every double underscore.  In the compiled law each attribute is read
through ``observed``, so that a value which was not observed (None) stops the law instead of comparing unequal;
``x is None`` and ``x is not None`` may still be asked.
"""

import ast
from collections.abc import Callable
from types import CodeType
from typing import Any, Literal

from kvlaw.spec.calls import CALLS, BaseCall
from kvlaw.spec.config import Config
from kvlaw.spec.records import CacheRecord, ReadRecord, Record, Run, observed

Scope = Literal["step", "group", "trace", "pair"]


class LawError(ValueError):
    """A law whose text is no valid expression over the names of its scope."""


class Steps:
    """Stands for a sequence of records where types are followed through a law."""


_FUNCTIONS = (abs, all, any, bool, dict, enumerate, float, int, isinstance, len, list, max, min)
SAFE: dict[str, Any] = {f.__name__: f for f in (*_FUNCTIONS, range, reversed, set, sorted, str, sum, tuple, zip)}
"""What a law may use of Python's own functions."""

_BASE: dict[str, type | None] = {"config": Config, "W": None, "s": None}
_STATES: dict[str, type | None] = {"before": CacheRecord, "after": CacheRecord}
NAMES: dict[Scope, dict[str, type | None]] = {
    "step": {
        **_BASE,
        **_STATES,
        "call": BaseCall,
        "result": Record,
        "read": ReadRecord,
        **dict.fromkeys(("o", "L", "live", "live_before")),
    },
    "group": {**_BASE, **_STATES, "call": BaseCall, "result": Record, "rows": Steps},
    "trace": {**_BASE, "first": Record, "second": Record, "between": Steps, "run": Run},
    "pair": {**_BASE, "one": Run, "other": Run},
}
"""The names of each scope, with the class of their value where attributes are read from it."""

_LEADS_TO: dict[tuple[type, str], type] = {
    (Record, "call"): BaseCall,
    (Record, "read"): ReadRecord,
    (Record, "before"): CacheRecord,
    (Record, "after"): CacheRecord,
    (Record, "layers"): Steps,
    (Record, "rows"): Steps,
    (Run, "config"): Config,
    (Run, "steps"): Steps,
    (Run, "of"): Run,
}


def compile_law(text: str, scope: Scope, helpers: dict[str, Callable[..., Any]]) -> CodeType:
    """Compile one expression of a law; raise ``LawError`` that quotes the text and names what is wrong in it."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        raise LawError(f"{error.msg}: {text!r}") from None
    check = _Check(text, scope, helpers)
    check.learn(tree)
    return compile(ast.fix_missing_locations(check.visit(tree)), "<law>", "eval")


def run_law(code: CodeType, helpers: dict[str, Callable[..., Any]], names: dict[str, Any]) -> Any:
    """Evaluate a compiled law; generators inside it see ``names`` because they are its globals."""
    scope = {"__builtins__": SAFE, "_observed": observed, **helpers, **names}
    return eval(code, scope)  # noqa: S307  # the text of our own spec, checked by compile_law


class _Check(ast.NodeTransformer):
    """Checks the names and attributes of one law and routes attributes through ``observed``."""

    def __init__(self, text: str, scope: Scope, helpers: dict[str, Callable[..., Any]]) -> None:
        self.text = text
        self.scope: Scope = scope
        self.types = dict(NAMES[scope])
        self.known = {*self.types, *helpers, *SAFE}

    def learn(self, tree: ast.AST) -> None:
        """Collect the names that the law binds itself, with their classes where they run over steps."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.known.add(node.id)
            elif isinstance(node, ast.arg):
                self.known.add(node.arg)
            elif isinstance(node, ast.comprehension) and isinstance(node.target, ast.Name):
                self.types[node.target.id] = Record if self.type_of(node.iter) in (Run, Steps) else None

    def type_of(self, node: ast.AST) -> type | None:
        """Follow names and attributes to the class of a value, or None where it is not known."""
        match node:
            case ast.Name(id=name):
                return self.types.get(name)
            case ast.Attribute(value=value, attr=attr):
                owner = self.type_of(value)
                return None if owner is None else _LEADS_TO.get((owner, attr))
            case ast.Call(func=ast.Attribute(value=value, attr="of")):
                return self.type_of(value)
            case ast.Subscript(value=value, slice=ast.Slice()):
                return self.type_of(value)
            case ast.Subscript(value=value):
                return Record if self.type_of(value) is Steps else None
            case _:
                return None

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if "__" in node.id or node.id not in self.known:
            names = ", ".join([*NAMES[self.scope], *sorted(self.known - set(NAMES[self.scope]) - set(SAFE))])
            raise LawError(f"unknown name {node.id!r}; a {self.scope} law knows {names}: {self.text!r}")
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str) and "__" in node.value:
            raise LawError(f"a double underscore has no place in a law: {self.text!r}")
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        asks = len(node.ops) == 1 and isinstance(node.ops[0], ast.Is | ast.IsNot)
        if asks and isinstance(node.left, ast.Attribute) and ast.unparse(node.comparators[0]) == "None":
            self._attribute(node.left)
            node.left.value = self.visit(node.left.value)
            return node
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self._attribute(node)
        value = self.visit(node.value)
        return ast.Call(ast.Name("_observed", ast.Load()), [value, ast.Constant(node.attr)], [])

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id == "same_in" and node.args:
            for name in (a.value for a in node.args[2:] if isinstance(a, ast.Constant)):
                self._attribute(ast.Attribute(node.args[0], str(name), ast.Load()))
        return self.generic_visit(node)

    def _attribute(self, node: ast.Attribute) -> None:
        owner = self.type_of(node.value)
        if "__" in node.attr or (owner not in (None, Steps) and node.attr not in attributes(owner)):
            shown = ", ".join(sorted(attributes(owner))) if owner else "no double underscores"
            raise LawError(f"{ast.unparse(node)}: unknown attribute {node.attr!r}; known are {shown}: {self.text!r}")


def attributes(kind: type | None) -> frozenset[str]:
    """List the public attributes of a class; of ``BaseCall`` those of every call, and ``is_decode`` and its like."""
    if kind is BaseCall:
        names = {name for call in CALLS.values() for name in dir(call)} | {f"is_{verb}" for verb in CALLS}
    else:
        names = set(dir(kind))
    return frozenset(name for name in names if not name.startswith("_"))
