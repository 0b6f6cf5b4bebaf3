"""What appends to a group: the calls, what they return, and the masks of the append that comes next.

Every append reads the same: check the arrays, plan (integers), mask (from the state before), convert the rows that are
due, move (arrays), and only then let the group hold the new state.
"""

from typing import Literal

import mlx.core as mx

from kvlaw.mlx_impl.caches import Phase, window_argument
from kvlaw.mlx_impl.codes import AffinePlanes
from kvlaw.mlx_impl.counts import as_count
from kvlaw.mlx_impl.errors import CountError, RowError, ShapeError
from kvlaw.mlx_impl.group_geometry import GroupPlan
from kvlaw.mlx_impl.group_masks import group_block_mask, group_decode_mask
from kvlaw.mlx_impl.group_planes import MixedPlanes, begin, rolled
from kvlaw.mlx_impl.group_settle import settled_for_append
from kvlaw.mlx_impl.group_standing import GroupStanding
from kvlaw.mlx_impl.inputs import Layout, admit
from kvlaw.mlx_impl.masks import Lease, Mask, hand_out
from kvlaw.mlx_impl.planes import Keys, Planes, Values
from kvlaw.mlx_impl.plans import decode_plan, group_block_plan
from kvlaw.mlx_impl.reads import KnownRead, Read
from kvlaw.spec.cite import clause


class GroupAppends(GroupStanding):
    """Keys and values of one layer for B rows, ``[B, H, L, D]`` per append."""

    __slots__ = ()

    # -- appends ------------------------------------------------------------------------------------------------------

    @clause("POS-2", "VIS-1", "ROWS-1")
    def append_decode(
        self, keys: mx.array, values: mx.array, *, window: int | None = None, as_array: bool = False
    ) -> Read:
        """Append one position per row, in place, and return its read.

        ``keys`` ``[B, H, 1, Dk]`` and ``values`` ``[B, H, 1, Dv]`` are borrowed.  ``window`` lets the queries see fewer
        positions than the group holds; ``as_array`` makes the read's mask an array.

        Raises:
            PaddingError: if padding is announced.
            CacheError: if arrays or window are refused; then nothing has changed.
        """
        layout = self._layout
        if layout is None or not layout.fits_decode(keys, values):
            layout = self._admit(keys, values, decode=True)
        geometry = self._geometry
        plan = decode_plan(geometry)
        mask = group_decode_mask(geometry, window if window is None else window_argument(window), as_array)
        return Read(self._append(plan, keys, values, layout, mask), mask, layout, 1)

    @clause("POS-2", "VIS-2", "ROWS-1", "PAD-5")
    def append_window(
        self, keys: mx.array, values: mx.array, *, window: int | None = None, as_array: bool = False
    ) -> Read:
        """Append L >= 1 columns to every row as one block, and return its read.

        ``keys`` ``[B, H, L, Dk]`` and ``values`` ``[B, H, L, Dv]`` are borrowed.  Columns that ``prepare`` announced as
        padding are no positions of their row.

        Raises:
            CacheError: if arrays or window are refused; then nothing has changed.
        """
        layout = self._layout
        if layout is None or not layout.fits_window(keys, values):
            layout = self._admit(keys, values)
        length, geometry = keys.shape[2], self._geometry
        mask = group_block_mask(geometry, length, window if window is None else window_argument(window), as_array)
        planes = self._append(group_block_plan(geometry, length), keys, values, layout, mask)
        return Read(planes, mask, layout, length)

    @clause("POS-2", "READ-12", "READ-18")
    def append_known(
        self, keys: mx.array, values: mx.array, *, window: int | None = None, as_array: bool = False
    ) -> Read:
        """Append L >= 1 decided columns to every row as one block, each to be attended as if it came alone.

        What is stored and seen is as of ``append_window``.  Only where all rows hold codes is each attended alone, by
        one call for all rows; any other group reads it as a window.

        Raises:
            CacheError: if arrays or window are refused; then nothing has changed.
        """
        layout = self._layout
        if layout is None or not layout.fits_window(keys, values):
            layout = self._admit(keys, values)
        length, geometry = keys.shape[2], self._geometry
        bound = window_argument(window)
        mask = group_block_mask(geometry, length, bound, as_array)
        rows = group_block_mask(geometry, length, bound, as_array=True)
        assert isinstance(rows, Lease)  # noqa: S101  # asked for as an array
        planes = self._append(group_block_plan(geometry, length), keys, values, layout, mask)
        if not isinstance(planes, AffinePlanes):
            return Read(planes, mask, layout, length)
        return KnownRead(planes, mask, layout, length, rows.array)

    @clause("READ-6", "READ-17", "OWN-5", "PAD-5")
    def fetch_dense(self, keys: mx.array, values: mx.array) -> tuple[Keys, Values]:
        """Append, and return the keys and values that a read would fetch, for a graph that attends by itself.

        One position per row is written as a decode, unless padding is announced; all else as a window.  Codes are
        dequantized.  The arrays returned belong to the caller.

        Raises:
            CacheError: if the arrays are refused; then nothing has changed.
        """
        layout, geometry = self._layout, self._geometry
        if layout is not None and geometry.at_rest and layout.fits_decode(keys, values):  # the hot path
            return self._append(decode_plan(geometry), keys, values, layout, None).dense()
        return self._fetch(keys, values).dense()

    @clause("READ-10", "READ-17", "OWN-5", "PAD-5")
    def fetch_alike(self, keys: mx.array, values: mx.array) -> tuple[object, object]:
        """Append as ``fetch_dense`` does, and return what is stored if all rows have it alike, else all dequantized.

        Raises:
            CacheError: if the arrays are refused; then nothing has changed.
        """
        planes = self._fetch(keys, values)
        return planes.dense() if isinstance(planes, MixedPlanes) else planes.stored()

    @clause("READ-7", "READ-8", "PAD-5")
    def _fetch(self, keys: mx.array, values: mx.array) -> Planes:
        layout, geometry = self._layout, self._geometry
        if layout is None or not layout.fits_window(keys, values):
            layout = self._admit(keys, values)
        length = keys.shape[2]
        as_decode = length == 1 and geometry.at_rest
        plan = decode_plan(geometry) if as_decode else group_block_plan(geometry, length)
        return self._append(plan, keys, values, layout, None)

    @clause("ROWS-11", "ROWS-30", "PREC-13")
    def _admit(self, keys: object, values: object, *, decode: bool = False) -> Layout:
        """Check the arrays of an append by what is held, or by what this group can hold."""
        if not self.rows:
            raise RowError("an append to a group without rows", "merge or prepare rows first", "ROWS-11")
        layout = admit(keys, values, self._layout, decode=decode)
        if layout.batch != self.rows:
            raise ShapeError(f"an append of {layout.batch} rows", f"the group has {self.rows}", "ROWS-30", "ERR-2")
        self.policy.check(layout)
        return layout

    def _append(self, plan: GroupPlan, keys: mx.array, values: mx.array, layout: Layout, mask: Mask) -> Planes:
        """Settle, move by ``plan``, then hold the new state; return the fetched columns."""
        planes, converted, floors = self._planes, self._converted, self._floors
        if self._waiting:
            content = settled_for_append(self.content)
            planes, converted, floors = content.planes, content.converted, content.floors
        if planes is None:
            held, fetched = begin(converted, self.policy.codes, plan.move, keys, values)
        else:
            held, fetched = (rolled(planes, plan.roll) if plan.roll else planes).append(plan.move, keys, values)
        self._planes, self._geometry, self._layout, self._mask = held, plan.then, layout, mask
        self._positions = None
        if converted is not self._converted:
            self._converted, self._floors, self._waiting = converted, floors, not all(converted)
        return fetched

    # -- masks --------------------------------------------------------------------------------------------------------

    @clause("MASK-12", "MASK-14", "MASK-15", "OWN-6", "ERR-7", "ROWS-11")
    def mask(
        self, length: int, *, phase: Phase, window: int | None = None, as_array: bool = False
    ) -> Literal["causal"] | mx.array | None:
        """Return the mask of the append that comes next, and change nothing.

        None hides nothing, ``"causal"`` hides later positions of the same append, an array is bool ``[B, 1, L, S]``
        over the S columns of the fetch, in their order.

        Raises:
            CountError: if ``length`` is no positive integer, not 1 for a decode, or ``window`` is below 1.
            RowError: if there are no rows.
            PaddingError: for a decode, if padding is announced.
        """
        length = as_count(length, "a mask for length", "ERR-4", least=1)
        window = window_argument(window)
        if not self.rows:
            raise RowError("a mask of a group without rows", "merge or prepare rows first", "ROWS-11")
        if phase == "decode":
            if length != 1:
                raise CountError(f"a decode mask for length {length}", "a decode appends exactly 1 per row", "ERR-4")
            return hand_out(group_decode_mask(self._geometry, window, as_array))
        if phase == "window":
            return hand_out(group_block_mask(self._geometry, length, window, as_array))
        raise CountError(f"a mask for phase {phase!r}", "the phases are 'decode' and 'window'", "MASK-1")
