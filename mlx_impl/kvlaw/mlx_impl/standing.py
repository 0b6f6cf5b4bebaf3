"""Where a cache stands: its state, and all that can be asked of it without a change.

A ``Standing`` holds a geometry (integers), planes (arrays), the layout that the first append fixed, and how far its
precision is settled.  ``caches.Cache`` adds what changes it.
"""

from abc import ABC, abstractmethod
from typing import Any, Self

import attrs
import mlx.core as mx

from kvlaw.mlx_impl.codec import Codes
from kvlaw.mlx_impl.codes import AffinePlanes
from kvlaw.mlx_impl.counts import as_integer
from kvlaw.mlx_impl.errors import ConfigError
from kvlaw.mlx_impl.geometry import Geometry
from kvlaw.mlx_impl.inputs import Layout
from kvlaw.mlx_impl.masks import Mask
from kvlaw.mlx_impl.planes import Keys, Planes, Values
from kvlaw.mlx_impl.precision import Precision, Store
from kvlaw.spec.cite import clause


@attrs.frozen(eq=False)
class Content:
    """All that a cache holds, besides its configuration; ``converted`` says whether it is stored as codes."""

    geometry: Geometry
    planes: Planes | None
    layout: Layout | None
    converted: bool
    floor: int


class Standing(ABC):
    """The state of a cache, and every question about it that changes nothing."""

    __slots__ = (
        "__weakref__",
        "_boundary",
        "_floor",
        "_geometry",
        "_layout",
        "_mask",
        "_planes",
        "_start",
        "_store",
        "policy",
    )

    policy: Precision
    """When it holds codes, and which."""

    def __init__(self, start: Geometry, policy: Precision) -> None:
        self._start = start
        self.policy = policy
        self._clear()

    def _clear(self) -> None:
        self._geometry: Geometry = self._start
        self._store: Store = self.policy.first
        self._boundary: int | None = self.policy.boundary  # None as well once it has converted
        self._floor = 0
        self._planes: Planes | None = None
        self._layout: Layout | None = None
        self._mask: Mask = None  # the lease of the last mask, so that the other layers of a forward find it

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def identity(self) -> str:
        """Return the configuration as text: constant, and different for different configurations (ID-1..3)."""

    @property
    @clause("ID-4")
    def storage(self) -> str:
        """Return what kind of planes it holds now: ``dense`` or ``affine``."""
        return self._store.storage

    def __repr__(self) -> str:
        return f"<{self.identity} offset={self.offset} columns={self.columns}>"

    # -- where it stands ----------------------------------------------------------------------------------------------

    @property
    def offset(self) -> int:
        """Return how many positions were appended and not trimmed: the position of the next token."""
        return self._geometry.offset

    @property
    def size(self) -> int:
        """Return how many positions a reader is owed."""
        return self._geometry.size

    @property
    def columns(self) -> int:
        """Return how many columns are allocated."""
        return self._geometry.columns

    @property
    def write_index(self) -> int:
        """Return the column that the next decode writes, before it grows, cuts or rotates."""
        return self._geometry.write_index

    @property
    def rows(self) -> int:
        """Return the batch size B; 0 while empty."""
        return self._layout.batch if self._layout else 0

    @property
    def batch(self) -> int:
        """Return the batch size B; 0 while empty."""
        return self.rows

    @property
    @clause("GROW-7")
    def nbytes(self) -> int:
        """Return the bytes of all allocated columns of all rows."""
        return self._planes.nbytes if self._planes else 0

    @property
    def bytes_per_token(self) -> int:
        """Return the bytes of one position of one row; 0 while empty."""
        return self._store.bytes_per_token(self._layout) if self._layout else 0

    # -- precision ----------------------------------------------------------------------------------------------------

    @property
    @clause("PREC-5", "PREC-6")
    def floor(self) -> int:
        """Return the reuse floor: the offset at which it was converted, 0 if there is none."""
        return self._floor

    @property
    @clause("PREC-10")
    def max_append(self) -> int | None:
        """Return how many positions make it due, so that it is converted; one fewer does not; None: unbounded."""
        return None if self._boundary is None else self.policy.max_append(self.offset)

    @property
    def due(self) -> bool:
        """Say whether it holds half precision that is to be converted.

        No append leaves a cache due, unless the conversion itself failed.
        """
        return self._boundary is not None and not self.in_round and self.policy.due(self.offset)

    @property
    def codes(self) -> tuple[Codes, Codes] | None:
        """Return the codes of keys and of values, all allocated columns; None while it holds none."""
        return self._planes.stored() if isinstance(self._planes, AffinePlanes) else None

    @property
    @clause("ROUND-16")
    def in_round(self) -> bool:
        """Say whether a round is open, so that its positions can be taken back."""
        return self._geometry.in_round

    def can_trim(self, n: int) -> bool:
        """Say whether a plain trim of ``n`` would be done; an ``n`` that is no count cannot be."""
        count = as_integer(n)
        return count is not None and self._geometry.can_trim(count)

    # -- what it holds ------------------------------------------------------------------------------------------------

    def peek(self) -> tuple[Keys, Values]:
        """Return the columns that count, in physical order: right after an append, what it fetched.

        Codes are dequantized; right after a conversion these are not the half precision columns fetched before.

        Raises:
            ConfigError: if nothing was appended yet.
        """
        return self._active().dense()

    def peek_stored(self) -> tuple[Any, Any]:
        """Return the same columns as they are stored: two arrays, or two triples of codes.

        Raises:
            ConfigError: if nothing was appended yet.
        """
        return self._active().stored()

    def _active(self) -> Planes:
        if self._planes is None:
            raise ConfigError("a look at the columns of an empty cache", "append first", "READ-6")
        return self._planes.first(self._geometry.active)

    @clause("OWN-4")
    def state(self) -> dict[str, mx.array | int]:
        """Return the allocated planes by name (none while empty) and the integers of the geometry.

        The arrays belong to the caller and never change, whatever the cache does.
        """
        arrays = self._planes.arrays if self._planes else {}
        return {**arrays, **self._integers()}

    def _integers(self) -> dict[str, int]:
        integers = {"offset": self.offset, "columns": self.columns, "write_index": self.write_index}
        start = self._geometry.start
        integers |= {} if start is None else {"round_start": start}
        return {**integers, "floor": self.floor} if self.policy.codes else integers

    @property
    def place(self) -> Geometry:
        """Return where its columns stand."""
        return self._geometry

    @property
    def planes(self) -> Planes | None:
        """Return its columns, None while there are none; nobody changes them."""
        return self._planes

    @property
    def layout(self) -> Layout | None:
        """Return the shapes and dtype that it holds, None while it holds none."""
        return self._layout

    @property
    def content(self) -> Content:
        """Return all that it holds now."""
        return Content(self._geometry, self._planes, self._layout, self.storage == "affine", self._floor)

    def holding(
        self, geometry: Geometry, planes: Planes | None, layout: Layout | None, converted: bool, floor: int
    ) -> Self:
        """Return another cache of this configuration that holds these, and leave this one as it is."""
        twin = object.__new__(type(self))
        twin._start, twin.policy = self._start, self.policy
        twin._hold(geometry, planes, layout, converted, floor)
        return twin

    def hold(self, content: Content) -> None:
        """Hold ``content``, of a cache or a row of the same kind and policy."""
        self._hold(content.geometry, content.planes, content.layout, content.converted, content.floor)

    def _hold(
        self, geometry: Geometry, planes: Planes | None, layout: Layout | None, converted: bool, floor: int
    ) -> None:
        self._geometry, self._planes, self._layout = geometry, planes, layout
        policy = self.policy
        if converted and policy.codes:
            self._store, self._boundary, self._floor = policy.codes, None, floor
        else:
            self._store, self._boundary, self._floor = policy.first, policy.boundary, 0
        self._mask = None

    # -- copies -------------------------------------------------------------------------------------------------------

    @clause("OWN-2", "OWN-3", "PREC-14")
    def clone(self) -> Self:
        """Return an independent cache in the same state; the planes are shared until one of them writes."""
        twin = type(self).__new__(type(self))
        twin._start, twin.policy = self._start, self.policy  # noqa: SLF001  # the twin is a Cache as well
        twin.become(self)
        return twin

    def become(self, other: "Standing") -> None:
        """Take over the state of a cache of the same configuration, as it is now.

        Raises:
            ConfigError: if ``other`` is of another configuration.
        """
        if (other._start, other.policy) != (self._start, self.policy):  # noqa: SLF001  # of another Cache, as below
            raise ConfigError(f"{self!r} as {other!r}", "the configuration must be the same", "ID-3")
        self._planes, self._mask, self._store = other._planes, other._mask, other._store  # noqa: SLF001
        self._floor, self._boundary = other._floor, other._boundary  # noqa: SLF001
        self._geometry, self._layout = other._geometry, other._layout  # noqa: SLF001

    def __copy__(self) -> Self:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.clone()
