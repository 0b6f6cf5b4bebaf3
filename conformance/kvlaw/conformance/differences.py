"""What the comparison takes and what it finds: decoded observations, and differences before they are charged."""

from collections.abc import Callable
from typing import TypeAlias

from attrs import frozen

from kvlaw.conformance.decode import Columns
from kvlaw.reference.expectation import Expected
from kvlaw.reference.model import Model
from kvlaw.spec.observations import Observation
from kvlaw.spec.records import CacheRecord, ReadRecord, Tokens


@frozen
class Shown:
    """An observation with its decoded parts, as the comparison takes it."""

    observation: Observation
    read: ReadRecord | None = None
    dense: Columns | None = None
    after: CacheRecord | None = None
    handed_same: bool | None = None
    probes: tuple[tuple[int, str, str], ...] | None = None
    counted: bool = False
    nonsense: str | None = None
    foretold: tuple[tuple[Tokens, ...], ...] | None = None
    respelt: tuple[int, ...] | None = None
    """The spare columns that are not the codes of what stood in them before a conversion; None: not shown."""
    moved: bool = False
    """Of the arrays that were handed out, the positions of rows have changed, and nothing else."""
    infinite: tuple[int, ...] | None = None
    """The queries of padding whose outputs are no finite numbers; None: not shown, or there are none."""


@frozen
class Difference:
    """A difference before it is charged: what it is by nature, and the clauses that speak of such."""

    field: str
    expected: str
    observed: str
    nature: tuple[str, ...] = ()
    query: int | None = None


Check: TypeAlias = Callable[[Expected, Shown, Model | None], "list[Difference] | None"]
"""Compares one expected value with what was shown; None if it was not observed."""
