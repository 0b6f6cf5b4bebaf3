"""What every cache does: composed of a geometry (integers), planes (arrays) and a precision (when they are codes).

Every append reads the same: check the arrays, plan (integers), mask (from the state before), move (arrays), and only
then let the cache hold the new state.  What is refused, and an operation that fails, leaves everything as it was.

An append that makes a half precision cache due ends with its conversion.  The conversion is computed at once, so that
a model converts one layer at a time; its read holds the half precision columns until it is dropped.

``standing.Standing`` has the state and all questions about it; ``Cache`` has what changes it, and the masks of the
append that comes next; ``kinds`` has the kinds, each a starting geometry and an identity.
"""

from typing import Any, Literal

import mlx.core as mx

from kvlaw.mlx_impl.counts import as_count
from kvlaw.mlx_impl.errors import CountError
from kvlaw.mlx_impl.evaluate import evaluate
from kvlaw.mlx_impl.geometry import Geometry, Plan
from kvlaw.mlx_impl.inputs import Layout, admit
from kvlaw.mlx_impl.masks import Lease, Mask, decode_mask, hand_out, window_mask
from kvlaw.mlx_impl.planes import Keys, Planes, Values
from kvlaw.mlx_impl.plans import decode_plan, window_plan
from kvlaw.mlx_impl.reads import KnownRead, Read
from kvlaw.mlx_impl.standing import Standing
from kvlaw.spec.cite import clause

Phase = Literal["decode", "window"]


class Cache(Standing):
    """Keys and values of one layer, ``[B, H, L, D]`` per append, positions counted from 0."""

    __slots__ = ()

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
        mask = None if plain else decode_mask(geometry, window_argument(window), as_array)
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
            window = window_argument(window)
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
        length, geometry, window = keys.shape[2], self._geometry, window_argument(window)
        mask = window_mask(geometry, length, window, as_array)
        rows = window_mask(geometry, length, window, as_array=True)
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

    @clause("DEC-1", "DEC-8")
    def hold_step(self, planes: Planes, geometry: Geometry) -> None:
        """Hold what a graph made of a decode (``decode_steps``); a cache that is due is converted then."""
        self._planes, self._geometry, self._mask = planes, geometry, None
        if self._boundary is not None:
            del planes  # so that a conversion finds nobody who keeps the columns before
            self.settle()

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
        window = window_argument(window)
        if phase == "decode":
            if length != 1:
                raise CountError(f"a decode mask for length {length}", "a decode appends exactly 1 per row", "ERR-4")
            return hand_out(decode_mask(self._geometry, window, as_array))
        if phase == "window":
            return hand_out(window_mask(self._geometry, length, window, as_array))
        raise CountError(f"a mask for phase {phase!r}", "the phases are 'decode' and 'window'", "MASK-1")

    # -- trim, settle, reset ------------------------------------------------------------------------------------------

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

    # -- rounds -------------------------------------------------------------------------------------------------------

    @clause("ROUND-7", "ROUND-16")
    def begin_round(self) -> None:
        """Open a round: what is appended from here on can be taken back.

        Raises:
            RoundError: if one is open.
        """
        self._geometry = self._geometry.begun()

    @clause("ROUND-1", "ROUND-11")
    def commit_round(self) -> None:
        """Close the round and keep all of it; a cache that is due is converted then.

        Raises:
            RoundError: if no round is open.
        """
        self.roll_back(self._geometry.appended)

    @clause("ROUND-2", "ROUND-4", "ROUND-10", "ROUND-11", "ROUND-14")
    def roll_back(self, keep: int) -> None:
        """Close the round and keep its first ``keep`` positions; a cache that is due is converted then.

        Kept columns stay as they were written.  A ring of which no column is left forgets shapes and dtype as well.

        Raises:
            RoundError: if no round is open, or ``keep`` is not from 0 to what was appended in it.
        """
        geometry = self._geometry
        then = geometry.taken_back(geometry.tail(keep))
        planes, layout = self._planes, self._layout
        if planes is not None and then.columns < self.columns:
            planes, layout = (planes.first(then.columns), layout) if then.columns else (None, None)
        self._planes, self._geometry, self._layout = planes, then, layout
        self.settle()

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

    @clause("OWN-7", "OWN-9", "PREC-6")
    def reset(self) -> None:
        """Return to the constructed, empty state, without floor; another shape or dtype may follow."""
        self._clear()


def window_argument(window: object) -> int | None:
    """Check the window argument of a mask: None, or at least 1 (ERR-7)."""
    return None if window is None else as_count(window, "window argument", "ERR-7", least=1)
