"""Leave out of a script what its trace does not need: helpers that nothing calls, modules that nothing uses."""

import ast
from collections.abc import Iterable


def pruned(text: str) -> str:
    """Give a script without the functions, imports and empty dictionaries that nothing in it uses."""
    body = ast.parse(text).body
    functions = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}
    needed: set[str] = set()
    wanted = _names(node for node in body if not isinstance(node, ast.FunctionDef))
    while more := (wanted & functions.keys()) - needed:
        needed |= more
        wanted |= _names(functions[name] for name in more)
    idle = [node for node in body if _is_idle(node, wanted)]
    lines = text.splitlines(keepends=True)
    for node in reversed(idle):
        end = node.end_lineno or node.lineno
        while isinstance(node, ast.FunctionDef) and end < len(lines) and not lines[end].strip():
            end += 1
        del lines[node.lineno - 1 : end]
    return "".join(lines)


def _names(nodes: Iterable[ast.AST]) -> set[str]:
    """List the names that are read in statements."""
    walked = (inner for node in nodes for inner in ast.walk(node))
    return {inner.id for inner in walked if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load)}


def _is_idle(node: ast.stmt, used: set[str]) -> bool:
    if isinstance(node, ast.FunctionDef):
        return node.name not in used
    if isinstance(node, ast.Import):
        return all((alias.asname or alias.name.partition(".")[0]) not in used for alias in node.names)
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Dict) or node.value.keys:
        return False
    return all(isinstance(target, ast.Name) and target.id not in used for target in node.targets)


__all__ = ["pruned"]
