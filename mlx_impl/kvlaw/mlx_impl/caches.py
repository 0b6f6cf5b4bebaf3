"""The caches: one protocol, composed of a geometry (integers) and planes (arrays).

Every append reads the same: check the arrays, plan (integers), mask (from the state before), move (arrays), and only
then let the cache hold the new state.  What is refused, and an operation that fails, leaves everything as it was.

``Cache`` is the whole behaviour; a kind is a starting geometry and an identity: ``FullCache`` grows, ``RingCache``
keeps the newest ``window`` positions.
"""

from abc import ABC, abstractmethod
from typing import Any, Literal, Self, cast

import mlx.core as mx

from kvlaw.mlx_impl.counts import as_count, as_integer
from kvlaw.mlx_impl.errors import ConfigError, CountError
from kvlaw.mlx_impl.geometry import FullGeometry, Geometry, Plan, RingGeometry
from kvlaw.mlx_impl.inputs import Layout, admit
from kvlaw.mlx_impl.masks import Mask, decode_mask, hand_out, window_mask
from kvlaw.mlx_impl.planes import DensePlanes, Keys, Values
from kvlaw.mlx_impl.plans import decode_plan, window_plan
from kvlaw.mlx_impl.reads import Read
from kvlaw.spec.cite import clause

Phase = Literal["decode", "window"]


class Cache(ABC):
    """Keys and values of one layer, ``[B, H, L, D]`` per append, positions counted from 0."""

    __slots__ = ("__weakref__", "_geometry", "_layout", "_mask", "_planes", "_start")

    def __init__(self, start: Geometry) -> None:
        self._start = start
        self._clear()

    def _clear(self) -> None:
        self._geometry: Geometry = self._start
        self._planes: DensePlanes | None = None
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
        """Return what kind of planes it holds now."""
        return DensePlanes.storage

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
        return self._layout.bytes_per_token if self._layout else 0

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
            layout = admit(keys, values, layout, decode=True)
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
            layout = admit(keys, values, layout)
        length = keys.shape[2]
        geometry = self._geometry
        if window is not None:
            window = _window_argument(window)
        mask = window_mask(geometry, length, window, as_array)
        return Read(self._append(window_plan(geometry, length), keys, values, layout, mask), mask, layout, length)

    @clause("READ-6", "READ-7", "READ-8", "OWN-5")
    def fetch_dense(self, keys: mx.array, values: mx.array) -> tuple[Keys, Values]:
        """Append, and return the keys and values that a read would fetch, for a graph that attends by itself.

        One position per row is written as a decode, more as a window.  The arrays returned belong to the caller.

        Raises:
            CacheError: if the arrays are refused; then nothing has changed.
        """
        layout = self._layout
        if layout is not None and layout.fits_decode(keys, values):
            return self._append(decode_plan(self._geometry), keys, values, layout, None).dense()
        if layout is None or not layout.fits_window(keys, values):
            layout = admit(keys, values, layout)
        length = keys.shape[2]
        plan = decode_plan(self._geometry) if length == 1 else window_plan(self._geometry, length)
        return self._append(plan, keys, values, layout, None).dense()

    def _append(self, plan: Plan, keys: mx.array, values: mx.array, layout: Layout, mask: Mask) -> DensePlanes:
        """Move by ``plan``, then hold the new state; return the fetched columns."""
        planes = self._planes
        append = DensePlanes.begin if planes is None else planes.append
        held, fetched = append(plan, keys, values)
        self._planes, self._geometry, self._layout, self._mask = held, plan.then, layout, mask
        return fetched

    def peek(self) -> tuple[Keys, Values]:
        """Return the columns that count, in physical order; right after an append, what it fetched.

        Raises:
            ConfigError: if nothing was appended yet.
        """
        if self._planes is None:
            raise ConfigError("a look at the columns of an empty cache", "append first", "READ-6")
        return self._planes.first(self._geometry.active).dense()

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

    @clause("OWN-2", "OWN-3")
    def clone(self) -> Self:
        """Return an independent cache in the same state; the planes are shared until one of them writes."""
        twin = type(self).__new__(type(self))
        twin._start = self._start  # noqa: SLF001  # the twin is a Cache as well
        twin.become(self)
        return twin

    def become(self, other: "Cache") -> None:
        """Take over the state of a cache of the same configuration, as it is now.

        Raises:
            ConfigError: if ``other`` is of another configuration.
        """
        if other._start != self._start:  # noqa: SLF001  # the state of another Cache, here and below
            raise ConfigError(f"{self!r} as {other!r}", "the configuration must be the same", "ID-3")
        self._planes, self._mask = other._planes, other._mask  # noqa: SLF001
        self._geometry, self._layout = other._geometry, other._layout  # noqa: SLF001

    def __copy__(self) -> Self:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.clone()

    @clause("OWN-7", "OWN-9")
    def reset(self) -> None:
        """Return to the constructed, empty state; another shape or dtype may follow."""
        self._clear()

    @clause("OWN-4")
    def state(self) -> dict[str, mx.array | int]:
        """Return the allocated planes by name (none while empty) and the integers of the geometry.

        The arrays belong to the caller and never change, whatever the cache does.
        """
        arrays = self._planes.arrays if self._planes else {}
        return {**arrays, **self._integers()}

    def _integers(self) -> dict[str, int]:
        return {"offset": self.offset, "columns": self.columns, "write_index": self.write_index}


class FullCache(Cache):
    """A growing cache: every position is kept."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(FullGeometry())

    @property
    @clause("ID-1", "ID-2", "ID-3")
    def identity(self) -> str:
        """Return ``full``."""
        return "full"


class RingCache(Cache):
    """A sliding-window ring: the newest ``window`` positions are kept, and the first ``sinks`` of all for ever.

    Sinks count in the window.  ``0 <= sinks < window``.

    Raises:
        ConfigError: if the window is below 1 or sinks are not below the window (ERR-6).
    """

    __slots__ = ()

    @clause("ERR-6", "RING-14")
    def __init__(self, window: int, sinks: int = 0) -> None:
        found, pinned = as_integer(window), as_integer(sinks)
        if found is None or found < 1:
            raise ConfigError(f"a ring of window {window!r}", "a window of at least 1 is needed", "ERR-6")
        if pinned is None or not 0 <= pinned < found:
            possible = f"a window of {found} can pin 0 to {found - 1} sinks"
            raise ConfigError(f"a ring with sinks {sinks!r}", possible, "ERR-6", "RING-14")
        super().__init__(RingGeometry(found, pinned))

    @property
    def window(self) -> int:
        """Return how many positions the ring keeps."""
        return self._ring.window

    @property
    def sinks(self) -> int:
        """Return how many first positions are pinned."""
        return self._ring.sinks

    @property
    def _ring(self) -> RingGeometry:
        return cast("RingGeometry", self._geometry)

    @property
    @clause("ID-1", "ID-2", "ID-3")
    def identity(self) -> str:
        """Return ``ring(window=W,sinks=s)``."""
        return f"ring(window={self.window},sinks={self.sinks})"

    def _integers(self) -> dict[str, int]:
        ring = self._ring
        return {
            **super()._integers(),
            "window": ring.window,
            "sinks": ring.sinks,
            "rotated": int(ring.rotated),
            "block": ring.block,
        }


def _window_argument(window: object) -> int | None:
    """Check the window argument of a mask: None, or at least 1 (ERR-7)."""
    return None if window is None else as_count(window, "window argument", "ERR-7", least=1)
