"""A run made fit to be shown: every text cut, and every control character spelt out.

Texts come from foreign caches, and from records that anyone may have written.  What is left for each form to do is to
escape what is markup in it.  The JSON form alone tells texts as they came.
"""

from typing import Any, TypeVar, cast

import attrs

from kvlaw.conformance.reports.words import cut, spelt
from kvlaw.spec.trace import Trace

Value = TypeVar("Value")
MOST_TEXT, MOST_TRACE, MOST_ITEMS = 4000, 20_000, 2000
_LINES = ("prose", "rationale")
"""Texts that have several lines."""


def fit(value: Value) -> Value:
    """Give the same value with texts that can be shown."""
    return cast("Value", _fit(value, ""))


def _fit(value: Any, name: str) -> Any:
    if isinstance(value, str):
        return _text(value, name)
    if isinstance(value, tuple):
        items = cast("tuple[Any, ...]", value)
        return items if items and isinstance(items[0], int) else tuple(_fit(item, name) for item in items[:MOST_ITEMS])
    if isinstance(value, dict):
        pairs = list(cast("dict[Any, Any]", value).items())[:MOST_ITEMS]
        return {_fit(key, name): _fit(item, name) for key, item in pairs}
    kind: type[Any] = value.__class__
    if attrs.has(kind) and not isinstance(value, Trace):
        fields = attrs.fields(kind)
        return attrs.evolve(value, **{a.name: _fit(getattr(value, a.name), str(a.name)) for a in fields})
    return value


def _text(text: str, name: str) -> str:
    told = cut(text, MOST_TRACE if name == "text" else MOST_TEXT)
    return "\n".join(map(spelt, told.split("\n"))) if name in _LINES else spelt(told)


__all__ = ["fit"]
