"""What happened in a run, told in token ids: the terms in which laws, failures and step tables speak.

The harness decodes raw observations into these values (``kvlaw.conformance.decode``).  Token ids start at 1; 0 stands
for a column whose bytes are no token's (spare, zero, or foreign).  ``None`` means not observed.
"""

from collections.abc import Iterator
from typing import Any

import attrs
from attrs import evolve, field, frozen

from kvlaw.spec.calls import BaseCall, Call
from kvlaw.spec.config import Config
from kvlaw.spec.observations import Form, MaskKind, Outcome, Unbounded

Tokens = tuple[int, ...]


@frozen
class ReadRecord:
    """What a read showed.

    ``visible[row][query]`` lists the ids that the query sees, in fetch order; ``fetched[row]`` the id of each fetched
    column; ``width`` the fetch width S; ``mask_shape`` the shape of an array mask; ``torn`` the columns whose key and
    value (or whose heads) belong to different tokens, as ``(row, column, what)``; ``output`` a digest of its bits;
    ``apart`` the queries of a known append whose bits are not those that they give when they are asked alone.
    ``answers`` are, of an advance, the ids whose values its outputs are (row 0), -1 where it is no token's.
    """

    visible: tuple[tuple[Tokens, ...], ...] | None = None
    fetched: tuple[Tokens, ...] | None = None
    width: int | None = None
    mask: MaskKind | None = None
    mask_shape: tuple[int, ...] | None = None
    torn: tuple[tuple[int, int, str], ...] = ()
    output: str | None = None
    form: Form | None = None
    apart: tuple[int, ...] | None = None
    answers: Tokens | None = None


@frozen
class CacheRecord:
    """What a cache showed of its state: numbers as reported; ``held``, the ids of its columns in order (row 0).

    ``tail`` lists, of a recurrent layer, the ids of its convolution's inputs, oldest first, ``slots`` those whose
    values its matrix holds, by slot (``kvlaw.spec.slots``); 0 is nothing, -1 no token's.
    """

    offset: int | None = None
    size: int | None = None
    nbytes: int | None = None
    columns: int | None = None
    bytes_per_token: int | None = None
    identity: str | None = None
    storage: str | None = None
    can_trim: tuple[bool, ...] | None = None
    write_index: int | None = None
    held: Tokens | None = None
    torn: tuple[tuple[int, int, str], ...] = ()
    digest: str | None = None
    form: Form | None = None
    floor: int | None = None
    max_append: int | Unbounded | None = None
    rows: int | None = None
    round: str | None = None
    tail: Tokens | None = None
    slots: Tokens | None = None


@frozen
class Record:
    """One step of a run.

    ``before`` and ``after`` are the states of the cache acted upon.  ``live`` lists the ids that stand at positions
    0, 1, 2, ... of that cache after the step, by the answers that were given (appends, trims, resets); ``live_before``
    the same before it.  ``handed`` tells handed-out arrays apart by name and digest.  ``layers`` has one record per
    layer for a call on a list.

    ``rows`` has one record per row for a call on a ``group`` (``of_group``), like that of a cache with one sequence:
    ``tokens`` are the real tokens that the row got, ``real`` the columns of the append in which they stand (the others
    are its padding), and only its real queries are in ``read.visible``.
    """

    call: Call | None
    outcome: Outcome
    answer: int | None = None
    read: ReadRecord | None = None
    mask: MaskKind | None = None
    before: CacheRecord | None = None
    after: CacheRecord | None = None
    live_before: Tokens = ()
    live: Tokens = ()
    handed: tuple[tuple[str, str], ...] = ()
    tokens: Tokens = ()
    layers: tuple["Record", ...] = ()
    rows: tuple["Record", ...] = ()
    real: tuple[int, ...] | None = None
    of_group: bool = False
    group: bool = False

    @property
    def refused(self) -> bool:
        """The call was turned down."""
        return self.outcome == "refused"

    @property
    def ok(self) -> bool:
        """The call was carried out."""
        return self.outcome == "ok"


@frozen
class Run:
    """A whole run: the configuration, the outcome of opening, and its steps, each on the object of its call."""

    config: Config
    opened: Outcome = "ok"
    steps: tuple[Record, ...] = field(default=(), converter=tuple)

    def __iter__(self) -> Iterator[Record]:
        """Walk over the steps."""
        return iter(self.steps)

    def of(self, name: str) -> "Run":
        """Keep the steps that act on one object."""
        return evolve(self, steps=tuple(s for s in self.steps if s.call is not None and s.call.on == name))


class Unobserved(Exception):
    """A law met a value that was not observed, so that it does not apply."""


def observed(owner: Any, name: str) -> Any:
    """Read an attribute for a law; raise ``Unobserved`` where a record (or what it belongs to) shows nothing.

    A call has the attributes of its kind only: ``call.n`` of a decode stops the law as well.
    """
    if owner is None or (isinstance(owner, BaseCall) and not hasattr(owner, name)):
        raise Unobserved
    value = getattr(owner, name)
    if value is None and isinstance(owner, Record | ReadRecord | CacheRecord):
        raise Unobserved
    return value


def _defaults(record: Any) -> list[tuple[str, object]]:
    return [(attribute.name, attribute.default) for attribute in attrs.fields(record.__class__)]


def compared(one: Any, other: Any) -> tuple[str, ...]:
    """List the fields that two records of one class both observed, of those that can be unobserved."""
    if one is None or other is None:
        return ()
    optional = [name for name, default in _defaults(one) if default is None]
    return tuple(n for n in optional if getattr(one, n) is not None and getattr(other, n) is not None)


def same(one: Any, other: Any) -> bool:
    """Tell whether two records of one class are equal in every field that both sides observed."""
    if one is None or other is None:
        return True
    names = [name for name, default in _defaults(one) if default is not None]
    return all(getattr(one, name) == getattr(other, name) for name in (*names, *compared(one, other)))
