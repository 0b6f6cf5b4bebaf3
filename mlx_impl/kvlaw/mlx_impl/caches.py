"""What every cache does: composed of a geometry (integers), planes (arrays) and a precision (when they are codes).

Every append reads the same: check the arrays, plan (integers), mask (from the state before), move (arrays), and only
then let the cache hold the new state.  What is refused, and an operation that fails, leaves everything as it was.

An append that makes a half precision cache due ends with its conversion.  The conversion is computed at once, so that
a model converts one layer at a time; its read holds the half precision columns until it is dropped.

``Cache`` is the whole behaviour; ``kinds`` has the kinds, each a starting geometry and an identity.
"""

from abc import ABC, abstractmethod
from typing import Any, Literal, Self

import mlx.core as mx

from kvlaw.mlx_impl.codec import Codes
from kvlaw.mlx_impl.codes import AffinePlanes
from kvlaw.mlx_impl.counts import as_count, as_integer
from kvlaw.mlx_impl.errors import ConfigError, CountError
from kvlaw.mlx_impl.evaluate import evaluate
from kvlaw.mlx_impl.geometry import Geometry, Plan, decode_plan, window_plan
from kvlaw.mlx_impl.inputs import Layout, admit
from kvlaw.mlx_impl.masks import Lease, Mask, decode_mask, hand_out, window_mask
from kvlaw.mlx_impl.planes import Keys, Planes, Values
from kvlaw.mlx_impl.precision import Precision, Store
from kvlaw.mlx_impl.reads import KnownRead, Read
from kvlaw.spec.cite import clause

Phase = Literal["decode", "window"]


class Cache(ABC):
    """Keys and values of one layer, ``[B, H, L, D]`` per append, positions counted from 0."""

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
        """Return how many positions may be appended before it is converted; None for any number."""
        return None if self._boundary is None else self.policy.max_append(self.offset)

    @property
    def due(self) -> bool:
        """Say whether it holds half precision that is to be converted.

        No append leaves a cache due, unless the conversion itself failed.
        """
        return self._boundary is not None and self.policy.due(self.offset)

    @property
    def codes(self) -> tuple[Codes, Codes] | None:
        """Return the codes of keys and of values, all allocated columns; None while it holds none."""
        return self._planes.stored() if isinstance(self._planes, AffinePlanes) else None

    @clause("PREC-1", "PREC-4", "PREC-8")
    def settle(self) -> bool:
        """Convert it if it is due, and say whether it was; what it held is freed unless a read still needs it."""
        if not self.due or self._planes is None or self.policy.codes is None:
            return False
        evaluate(*self._planes.arrays.values())  # first frees what the append replaced
        planes = self.policy.convert(self._planes)
        evaluate(*planes.arrays.values())
        self._planes, self._store = planes, self.policy.codes
        self._floor, self._boundary = self.policy.floor(self.offset), None
        return True

    # -- appends ------------------------------------------------------------------------------------------------------

    @clause("POS-2", "READ-1", "VIS-1")
    def append_decode(
        self, keys: mx.array, values: mx.array, *, window: int | None = None, as_array: bool = False
    ) -> Read:
        """Append one position per row, in place, and return its read.

        ``keys`` ``[B, H, 1, Dk]`` and ``values`` ``[B, H, 1, Dv]`` are borrowed.  ``window`` lets the query see fewer
        positions than the cache holds; ``as_array`` makes the read's mask an array.

        Raises:
            CacheError: if arrays or window are refused; then nothing has changed.
        """
        layout = self._layout
        if layout is None or not layout.fits_decode(keys, values):
            layout = self._admit(keys, values, decode=True)
        geometry = self._geometry
        plain = window is None and not as_array
        mask = None if plain else decode_mask(geometry, _window_argument(window), as_array)
        return Read(self._append(decode_plan(geometry), keys, values, layout, mask), mask, layout, 1)

    @clause("POS-2", "READ-1", "VIS-2", "VIS-8")
    def append_window(
        self, keys: mx.array, values: mx.array, *, window: int | None = None, as_array: bool = False
    ) -> Read:
        """Append L >= 1 positions per row as one block, and return its read.

        ``keys`` ``[B, H, L, Dk]`` and ``values`` ``[B, H, L, Dv]`` are borrowed.  ``window`` lets each query see fewer
        positions than the cache holds; ``as_array`` makes the read's mask an array.

        Raises:
            CacheError: if arrays or window are refused; then nothing has changed.
        """
        layout = self._layout
        if layout is None or not layout.fits_window(keys, values):
            layout = self._admit(keys, values)
        length = keys.shape[2]
        geometry = self._geometry
        if window is not None:
            window = _window_argument(window)
        mask = window_mask(geometry, length, window, as_array)
        return Read(self._append(window_plan(geometry, length), keys, values, layout, mask), mask, layout, length)

    @clause("POS-2", "READ-12", "READ-13")
    def append_known(
        self, keys: mx.array, values: mx.array, *, window: int | None = None, as_array: bool = False
    ) -> KnownRead:
        """Append L >= 1 decided positions per row as one block, each to be attended as if it came alone.

        What is stored and what each query sees is as of ``append_window``; the arithmetic of each query is that of a
        decode.

        Raises:
            CacheError: if arrays or window are refused; then nothing has changed.
        """
        layout = self._layout
        if layout is None or not layout.fits_window(keys, values):
            layout = self._admit(keys, values)
        length, geometry, window = keys.shape[2], self._geometry, _window_argument(window)
        mask, rows = (window_mask(geometry, length, window, array) for array in (as_array, True))
        assert isinstance(rows, Lease)  # noqa: S101  # asked for as an array
        planes = self._append(window_plan(geometry, length), keys, values, layout, mask)
        return KnownRead(planes, mask, layout, length, rows.array)

    @clause("READ-6", "READ-7", "READ-8", "OWN-5")
    def fetch_dense(self, keys: mx.array, values: mx.array) -> tuple[Keys, Values]:
        """Append, and return the keys and values that a read would fetch, for a graph that attends by itself.

        One position per row is written as a decode, more as a window.  Codes are dequantized.  The arrays returned
        belong to the caller.

        Raises:
            CacheError: if the arrays are refused; then nothing has changed.
        """
        return self._fetch(keys, values).dense()

    @clause("READ-6", "READ-10", "OWN-5")
    def fetch_stored(self, keys: mx.array, values: mx.array) -> tuple[Any, Any]:
        """Append as ``fetch_dense`` does, and return what is stored: two arrays, or two triples of codes.

        Raises:
            CacheError: if the arrays are refused; then nothing has changed.
        """
        return self._fetch(keys, values).stored()

    def _fetch(self, keys: mx.array, values: mx.array) -> Planes:
        layout = self._layout
        if layout is not None and layout.fits_decode(keys, values):
            return self._append(decode_plan(self._geometry), keys, values, layout, None)
        if layout is None or not layout.fits_window(keys, values):
            layout = self._admit(keys, values)
        length = keys.shape[2]
        plan = decode_plan(self._geometry) if length == 1 else window_plan(self._geometry, length)
        return self._append(plan, keys, values, layout, None)

    @clause("PREC-13")
    def _admit(self, keys: object, values: object, *, decode: bool = False) -> Layout:
        """Check the arrays of an append by what is held, or by what this cache can hold."""
        layout = admit(keys, values, self._layout, decode=decode)
        self.policy.check(layout)
        return layout

    def _append(self, plan: Plan, keys: mx.array, values: mx.array, layout: Layout, mask: Mask) -> Planes:
        """Move by ``plan``, then hold the new state, converted if it is due; return the fetched columns."""
        planes = self._planes
        append = self._store.begin if planes is None else planes.append
        held, fetched = append(plan, keys, values)
        self._planes, self._geometry, self._layout, self._mask = held, plan.then, layout, mask
        if self._boundary is not None:
            del planes, append, held  # so that a conversion finds nobody who keeps the columns before
            self.settle()
        return fetched

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

    # -- masks --------------------------------------------------------------------------------------------------------

    @clause("MASK-1", "MASK-12", "OWN-6", "ERR-7")
    def mask(
        self, length: int, *, phase: Phase, window: int | None = None, as_array: bool = False
    ) -> Literal["causal"] | mx.array | None:
        """Return the mask of the append that comes next, and change nothing.

        None hides nothing, ``"causal"`` hides later positions of the same append, an array is bool ``[L, S]`` over the
        S columns of the fetch, in their order.

        Raises:
            CountError: if ``length`` is no positive integer, not 1 for a decode, or ``window`` is below 1.
            WindowError: if this cache cannot honour ``window``.
        """
        length = as_count(length, "a mask for length", "ERR-4", least=1)
        window = _window_argument(window)
        if phase == "decode":
            if length != 1:
                raise CountError(f"a decode mask for length {length}", "a decode appends exactly 1 per row", "ERR-4")
            return hand_out(decode_mask(self._geometry, window, as_array))
        if phase == "window":
            return hand_out(window_mask(self._geometry, length, window, as_array))
        raise CountError(f"a mask for phase {phase!r}", "the phases are 'decode' and 'window'", "MASK-1")

    # -- trim, clone, state -------------------------------------------------------------------------------------------

    def can_trim(self, n: int) -> bool:
        """Say whether a plain trim of ``n`` would be done; an ``n`` that is no count cannot be."""
        count = as_integer(n)
        return count is not None and self._geometry.can_trim(count)

    @clause("TRIM-3", "TRIM-8", "ERR-5")
    def trim(self, n: int, *, bypass: bool = False) -> int:
        """Drop exactly the newest ``n`` positions and return ``n``.

        A growing cache can drop all it holds; a ring only while nothing was evicted (``offset < window``).  With
        ``bypass`` a ring drops, right after a window, up to all positions of that window; where no column is left it
        forgets shapes and dtype as well.

        Raises:
            CountError: if ``n`` is negative or no integer.
            TrimError: if it is not possible; then nothing has changed.
        """
        count = as_count(n, "trim of", "ERR-5")
        then = self._geometry.cut(count) if bypass else self._geometry.trim(count)
        planes, layout = self._planes, self._layout
        if planes is not None and then.columns < self.columns:
            planes, layout = (planes.first(then.columns), layout) if then.columns else (None, None)
        self._planes, self._geometry, self._layout = planes, then, layout
        return count

    @clause("OWN-2", "OWN-3", "PREC-14")
    def clone(self) -> Self:
        """Return an independent cache in the same state; the planes are shared until one of them writes."""
        twin = type(self).__new__(type(self))
        twin._start, twin.policy = self._start, self.policy  # noqa: SLF001  # the twin is a Cache as well
        twin.become(self)
        return twin

    def become(self, other: "Cache") -> None:
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

    @clause("OWN-7", "OWN-9", "PREC-6")
    def reset(self) -> None:
        """Return to the constructed, empty state, without floor; another shape or dtype may follow."""
        self._clear()

    @clause("OWN-4")
    def state(self) -> dict[str, mx.array | int]:
        """Return the allocated planes by name (none while empty) and the integers of the geometry.

        The arrays belong to the caller and never change, whatever the cache does.
        """
        arrays = self._planes.arrays if self._planes else {}
        return {**arrays, **self._integers()}

    def _integers(self) -> dict[str, int]:
        integers = {"offset": self.offset, "columns": self.columns, "write_index": self.write_index}
        return {**integers, "floor": self.floor} if self.policy.codes else integers


def _window_argument(window: object) -> int | None:
    """Check the window argument of a mask: None, or at least 1 (ERR-7)."""
    return None if window is None else as_count(window, "window argument", "ERR-7", least=1)
