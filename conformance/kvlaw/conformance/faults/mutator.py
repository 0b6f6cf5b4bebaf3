"""Every small change of a module's source: the mutants that a test suite for index arithmetic must kill.

``mutations`` takes source text and gives one ``Mutation`` per change, which compiles the whole changed module:

* integer constants and sums by one more and one less, ``+`` for ``-``, ``&`` for ``|``, a dropped minus sign;
* ``<`` for ``<=``, ``==`` for ``<=`` and ``>=``, ``is`` for ``is not``, ...; ``min`` for ``max``; True for False;
* ``and`` for ``or``, one side of either alone, a negated condition;
* neighbouring arguments swapped; an assignment, a call or a guard dropped.

Left alone, since they do not decide anything: annotations, docstrings, decorators, base classes, texts, what is
raised or asserted, ``strict=`` of a ``zip``, overloads, and functions that return text.  A mutation's ``id`` names
function, old and new code, not the line, so it survives moved lines.
"""

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from types import CodeType

from attrs import frozen

Replace = tuple[ast.AST, ast.AST | None]
"""A node and what stands in its place (None: a dropped statement)."""

_COMPARE: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.NotEq),
    ast.LtE: (ast.Lt, ast.Eq),
    ast.Gt: (ast.GtE, ast.NotEq),
    ast.GtE: (ast.Gt, ast.Eq),
    ast.Eq: (ast.LtE, ast.GtE),
    ast.NotEq: (ast.Lt, ast.Gt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
_BINARY: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.Mult: ast.Add,
    ast.Mod: ast.FloorDiv,
}
_SWAPPED = {"min": "max", "max": "min"}
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)


@frozen(eq=False)
class Mutation:
    """One change of a module: its id, its line, and what it changes where."""

    id: str
    line: int
    _tree: ast.Module
    _owner: ast.AST
    _old: ast.AST
    _new: ast.AST

    def code(self, filename: str = "<mutant>") -> CodeType:
        """Compile the module with the change, and leave the tree as it was."""
        _put(self._owner, self._old, self._new)
        try:
            return compile(ast.fix_missing_locations(self._tree), filename, "exec")
        finally:
            _put(self._owner, self._new, self._old)


def _put(owner: ast.AST, old: ast.AST, new: ast.AST) -> None:
    """Put a node in the place of another, in whichever field of the owner that stands."""
    for name, value in ast.iter_fields(owner):
        if value is old:
            setattr(owner, name, new)
            return
        places = [i for i, item in enumerate(value) if item is old] if isinstance(value, list) else []  # type: ignore[reportUnknownVariableType] # a list of nodes
        if places:
            value[places[0]] = new
            return
    raise LookupError(f"{type(owner).__name__} does not hold the {type(old).__name__} that is to be replaced")


@frozen
class _Site:
    """A node that decides something, its owner, the function or class and the statement that it stands in."""

    node: ast.AST
    owner: ast.AST
    scope: str
    statement: ast.AST


def mutations(source: str) -> tuple[Mutation, ...]:
    """List every small change of ``source``, in the order of its text."""
    tree = ast.parse(source)
    sites = [site for statement in tree.body for site in _within(_Site(statement, tree, "module", statement))]
    owners = {id(site.node): site.owner for site in sites}
    counts: Counter[str] = Counter()
    found: list[Mutation] = []
    for site in sites:
        for old, new in _changes(site.node):
            name = _name(site, old, new)
            counts[name] += 1
            unique = name if counts[name] == 1 else f"{name} (#{counts[name]})"
            owner = owners.get(id(old), site.node)
            found.append(Mutation(unique, getattr(old, "lineno", 0), tree, owner, old, new or ast.Pass()))
    return tuple(found)


def _name(site: _Site, old: ast.AST, new: ast.AST | None) -> str:
    where = f" in {_shown(site.statement)}" if isinstance(old, ast.Constant) else ""
    return f"{site.scope}: {_shown(old)} -> {'dropped' if new is None else _shown(new)}{where}"


def _shown(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())[:100]


# Where.


def _within(site: _Site) -> Iterator[_Site]:
    """Walk what decides something, from the outside in."""
    node, scope = site.node, site.scope
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        scope = node.name if scope == "module" else f"{scope}.{node.name}"
    if _silent(node) or (scope == "module" and _is_alias(node)):
        return
    yield _Site(node, site.owner, scope, site.statement)
    for child, owner in _children(node):
        outer = isinstance(child, ast.stmt) or isinstance(node, ast.If | ast.For | ast.FunctionDef)
        yield from _within(_Site(child, owner, scope, child if outer else site.statement))


def _silent(node: ast.AST) -> bool:
    """Say whether a node decides nothing: text, what is raised or asserted, imports, functions that return text."""
    if isinstance(node, ast.FunctionDef):
        overload = any(isinstance(d, ast.Name) and d.id == "overload" for d in node.decorator_list)
        return overload or (isinstance(node.returns, ast.Name) and node.returns.id == "str")
    if isinstance(node, ast.keyword):
        return node.arg == "strict"
    return isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom) or _is_text(node)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_alias(node: ast.AST) -> bool:
    """Say whether a module's assignment only names a type."""
    if not isinstance(node, ast.Assign):
        return False
    made = node.value.func if isinstance(node.value, ast.Call) else None
    return isinstance(node.value, ast.Subscript | ast.BinOp) or (isinstance(made, ast.Name) and made.id == "TypeVar")


def _children(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Give the children that decide something, each with the node that holds it."""
    if isinstance(node, ast.FunctionDef):
        yield from ((d, node.args) for d in [*node.args.defaults, *node.args.kw_defaults] if d is not None)
        yield from ((statement, node) for statement in node.body)
    elif isinstance(node, ast.ClassDef):
        yield from ((statement, node) for statement in node.body)
    elif isinstance(node, ast.AnnAssign):
        yield from [] if node.value is None else [(node.value, node)]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
        yield node.args[0], node
    else:
        yield from ((child, node) for child in ast.iter_child_nodes(node))


# What.


def _changes(node: ast.AST) -> Iterator[Replace]:
    for kind, change in _BY_KIND.items():
        if isinstance(node, kind):
            yield from change(node)


def _constant(node: ast.Constant) -> Iterator[Replace]:
    if isinstance(node.value, bool):
        yield node, ast.Constant(not node.value)
    elif isinstance(node.value, int):
        yield node, ast.Constant(node.value + 1)
        yield node, ast.Constant(node.value - 1)


def _compare(node: ast.Compare) -> Iterator[Replace]:
    for place, op in enumerate(node.ops):
        for other in _COMPARE.get(type(op), ()):
            ops = [*node.ops[:place], other(), *node.ops[place + 1 :]]
            yield node, ast.Compare(node.left, ops, node.comparators)


def _binary(node: ast.BinOp) -> Iterator[Replace]:
    if type(node.op) in _BINARY:
        yield node, ast.BinOp(node.left, _BINARY[type(node.op)](), node.right)
    literal = any(isinstance(side, ast.Constant) for side in (node.left, node.right))
    if isinstance(node.op, _ARITHMETIC) and not literal:
        yield node, ast.BinOp(node, ast.Add(), ast.Constant(1))
        yield node, ast.BinOp(node, ast.Sub(), ast.Constant(1))


def _unary(node: ast.UnaryOp) -> Iterator[Replace]:
    if isinstance(node.op, ast.USub | ast.Not):
        yield node, node.operand


def _logic(node: ast.BoolOp) -> Iterator[Replace]:
    yield node, ast.BoolOp(ast.And() if isinstance(node.op, ast.Or) else ast.Or(), node.values)
    for place in range(len(node.values)):
        kept = [*node.values[:place], *node.values[place + 1 :]]
        yield node, kept[0] if len(kept) == 1 else ast.BoolOp(node.op, kept)


def _call(node: ast.Call) -> Iterator[Replace]:
    if isinstance(node.func, ast.Name) and node.func.id in _SWAPPED:
        yield node, ast.Call(ast.Name(_SWAPPED[node.func.id], ast.Load()), node.args, node.keywords)
        return  # the order of their arguments is nothing
    if any(isinstance(argument, ast.Starred) for argument in node.args):
        return
    for i in range(len(node.args) - 1):
        args = [*node.args[:i], node.args[i + 1], node.args[i], *node.args[i + 2 :]]
        if ast.dump(node.args[i]) != ast.dump(node.args[i + 1]):
            yield node, ast.Call(node.func, args, node.keywords)


def _condition(node: ast.If | ast.IfExp | ast.While) -> Iterator[Replace]:
    if not isinstance(node.test, ast.UnaryOp):
        yield node.test, ast.UnaryOp(ast.Not(), node.test)
    if isinstance(node, ast.If):
        yield from _guard(node)


def _statement(node: ast.stmt) -> Iterator[Replace]:
    yield node, None


def _guard(node: ast.If) -> Iterator[Replace]:
    """Drop a condition that leaves early."""
    if not node.orelse and isinstance(node.body[-1], ast.Return | ast.Raise | ast.Continue):
        yield node, None


def _assigned(node: ast.Assign | ast.AnnAssign) -> Iterator[Replace]:
    if node.value is not None:
        yield node, None


_BY_KIND: dict[type[ast.AST], Callable[..., Iterator[Replace]]] = {
    ast.Constant: _constant,
    ast.Compare: _compare,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _logic,
    ast.Call: _call,
    ast.If: _condition,
    ast.IfExp: _condition,
    ast.While: _condition,
    ast.AugAssign: _statement,
    ast.Expr: _statement,
    ast.Assign: _assigned,
}
