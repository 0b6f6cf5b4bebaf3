"""What the oracle expects of one call: values by field, each with the clauses that ask for it."""

from typing import Any

from attrs import field, frozen

from kvlaw.reference.history import Sight
from kvlaw.spec.observations import Form, MaskKind, Outcome


@frozen
class Expected:
    """One expected value: the observed field, the value, and its clauses, the most specific first.

    Fields: ``outcome``, the numbers of a ``StateView`` by name (``nbytes_min``, ``nbytes_max``, ``columns_max`` are
    bounds), ``can_trim``, ``layers_can_trim`` (what each layer says, taken together), ``held`` (ids by column),
    ``spare`` (the columns that a conversion turns into the codes of what stood in them),
    ``rows`` (how many), ``row_dense`` and ``mask_rows`` (a row's part of a dense fetch and of a mask, without padding),
    ``sights`` (a ``Sight`` per query), ``order`` (ids per query in fetch order), ``fetched`` (ids of a dense fetch in
    order), ``mask`` (kind), ``mask_width`` ((L, S)), ``apart`` (the queries of a known append that
    answer otherwise than alone: none), ``finite`` (the queries of padding, whose outputs are numbers), ``handed``
    (must not have changed).
    """

    field: str
    value: Any
    clauses: tuple[str, ...]


@frozen
class Expectation:
    """What one call must answer.

    ``outcomes`` are the outcomes that keep the law (of which ``charged`` says by which clauses); ``ends`` says that the
    law leaves what follows open, so that the trace cannot be judged further; ``layers`` has one expectation per layer
    of a list, ``rows`` one per row of a group; ``real`` lists the columns of an append that are real tokens of the row.
    ``sights`` and ``order`` are kept beside the expected values for the harness, which works out probe
    outputs from them.
    """

    outcomes: tuple[Outcome, ...] = ("ok",)
    charged: tuple[str, ...] = ()
    expected: tuple[Expected, ...] = field(default=(), converter=tuple)
    ends: bool = False
    layers: tuple["Expectation", ...] = ()
    rows: tuple["Expectation", ...] = ()
    real: tuple[int, ...] | None = None
    sights: tuple[Sight, ...] = ()
    order: tuple[tuple[int, ...], ...] | None = None
    fetched: tuple[int, ...] | None = None
    mask: MaskKind | None = None
    answer: int | None = None
    live_before: tuple[int, ...] = ()
    live: tuple[int, ...] = ()
    form: Form = "dense"

    def value(self, name: str) -> Any:
        """Give the expected value of a field, or None."""
        return next((e.value for e in self.expected if e.field == name), None)

    @property
    def is_dense(self) -> bool:
        """The call hands out keys and values (now, or when the arrays are looked at again)."""
        return any(e.field in ("dense_sights", "row_dense") for e in self.expected)
