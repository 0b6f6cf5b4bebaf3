"""How code names the clause that it realises: ``@clause("TRIM-4")``."""

from collections.abc import Callable
from typing import Any, TypeVar

Cited = TypeVar("Cited", bound=Callable[..., Any])

CITATIONS: dict[str, list[str]] = {}
"""Clause id to the qualified names of the code that cites it, in the order of definition."""


def clause(*ids: str) -> Callable[[Cited], Cited]:
    """Record that the decorated function or class realises the clauses ``ids``."""

    def record(cited: Cited) -> Cited:
        name = f"{cited.__module__}.{cited.__qualname__}"
        for clause_id in ids:
            CITATIONS.setdefault(clause_id, []).append(name)
        return cited

    return record
