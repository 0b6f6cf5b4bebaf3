"""Calls on a NumPy group of rows: one `Group` of integers, and planes for each row that move with it.

Every operation is check, plan, move, count, as in `layout`; a refusal (`Refusal`) comes before any change. A row is
read, converted and handed out by itself, so nothing here can mix rows up except the integers.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from attrs import evolve, frozen

from kvlaw.reference import index_group
from kvlaw.reference.layout import Cache, MaskValue, Planes, Read, Refusal
from kvlaw.reference.layout_group_state import GroupState
from kvlaw.reference.layout_row import Row, Shape
from kvlaw.spec.calls import Phase
from kvlaw.spec.cite import clause
from kvlaw.spec.config import LayerSpec
from kvlaw.spec.observations import Bits


@frozen(eq=False)
class GroupRead:
    """One append's read: each row's as it would be alone, and the mask of all, ``[B, 1, L, S]`` if it is an array."""

    rows: tuple[Read, ...]
    mask: MaskValue

    def attend(self, queries: Bits, scale: float) -> Bits:
        """Attend queries ``[B, H, L, D]``, each row over its own fetch; refuse another shape or dtype (READ-9)."""
        if queries.ndim != 4 or queries.shape[0] != len(self.rows):  # [B, H, L, D]
            raise Refusal(f"queries {list(queries.shape)}: this read has {len(self.rows)} rows (READ-9)")
        return np.concatenate([row.attend(queries[b : b + 1], scale) for b, row in enumerate(self.rows)])


class RowGroup(GroupState):
    """A group of rows, each like a cache of its own, that share one geometry."""

    # Appends.

    def append_decode(
        self, keys: Bits, values: Bits, dtype: str, window: int | None = None, array: bool = False
    ) -> GroupRead:
        """Append one position to every row and read it; refused while padding is pending or unused (PAD-9)."""
        if keys.ndim == 4 and keys.shape[2] != 1:  # [B, H, L, D]
            raise Refusal(f"a decode appends 1 position per row, not {keys.shape[2]} (ERR-4)")
        return self._append(keys, values, dtype, "decode", window, array)

    @clause("DEC-5", "DEC-6", "DEC-7", "DEC-10")
    def append_compiled(
        self, keys: Bits, values: Bits, dtype: str, window: int | None = None, array: bool = False
    ) -> GroupRead:
        """Decode as a compiled step may: not in a round, without padding to come, and rows that are stored alike."""
        if self.state.starts is not None:
            raise Refusal("no compiled decode while a round is open (DEC-6)")
        if not index_group.may_decode(self.state):
            raise Refusal("no compiled decode while padding is pending or unused (DEC-7)")
        if not self.state.columns:
            raise Refusal("no compiled decode of an empty group (DEC-5)")
        settled = self.settled(() if self.prefilling else range(self.count))
        if len({row.coded for row in settled}) > 1:
            raise Refusal("no compiled decode of rows that are stored in two ways (DEC-10)")
        return self.append_decode(keys, values, dtype, window, array)

    def append_window(
        self, keys: Bits, values: Bits, dtype: str, window: int | None = None, array: bool = False
    ) -> GroupRead:
        """Append L positions to every row, causal inside, padding included, and read them."""
        return self._append(keys, values, dtype, "window", window, array)

    def append_known(
        self, keys: Bits, values: Bits, dtype: str, window: int | None = None, array: bool = False
    ) -> GroupRead:
        """Append L decided positions; on this arithmetic a query alone answers as in its window (READ-18)."""
        return self._append(keys, values, dtype, "window", window, array)

    @clause("READ-8", "READ-17")
    def fetch_dense(self, keys: Bits, values: Bits, dtype: str) -> tuple[Planes, ...]:
        """Append and hand out, row by row, what a read would fetch, as tensors ``[1, H, S, D]``.

        One position is written as a decode, but as a block while padding is pending or unused.
        """
        alone = keys.ndim == 4 and keys.shape[2] == 1 and index_group.may_decode(self.state)  # [B, H, L, D]
        read = self._append(keys, values, dtype, "decode" if alone else "window", None, False)
        return tuple(_restored(row) for row in read.rows)

    @clause("PREC-16", "READ-16")
    def _append(self, keys: Bits, values: Bits, dtype: str, phase: Phase, window: int | None, array: bool) -> GroupRead:
        self.check_tensors(keys, values, dtype)
        length = int(keys.shape[2])
        mask = self.mask(length, phase, window, array)
        plan, shape = self.plan(phase, length), self.shape or Shape.of(keys, values, dtype)
        given = [b for b in range(self.count) if index_group.real(self.state, b, length)]
        rows = self.settled(() if self.prefilling or self.state.starts is not None else given)
        self.rows = tuple(
            row.moved(plan.sources[b], shape, self.layer).written(
                plan.write_at, _row_of(keys, values, b), shape, self.layer
            )
            for b, row in enumerate(rows)
        )
        self.state, self.shape = plan.after, shape
        return GroupRead(tuple(self._read(b, plan, mask) for b in range(self.count)), mask)

    def _read(self, b: int, plan: index_group.RowsPlan, mask: MaskValue) -> Read:
        fetch, shape = self.planes(b).kept(plan.fetch), cast("Shape", self.shape)
        codec = shape.codec(self.layer) if self.rows[b].coded else None
        own = mask[b : b + 1] if isinstance(mask, np.ndarray) else mask
        return Read(fetch.keys, fetch.values, own, plan.length, shape.dtype, codec)

    # The bracket of a prefill.

    @clause("PREC-18")
    def begin_prefill(self) -> None:
        """Convert every row that is due and open the bracket; nothing to do if it is open."""
        if not self.prefilling:
            self.rows, self.prefilling = self.settled(range(self.count)), True

    @clause("PREC-19")
    def commit_prefill(self, rows: Sequence[int]) -> None:
        """Convert those of the listed rows that are due; refuse rows that are not there."""
        for row in rows:
            self.check_row(row)
        self.rows = self.settled(rows)

    @clause("PREC-20")
    def end_prefill(self) -> None:
        """Close the bracket, converting nothing."""
        self.prefilling = False

    # Trims and padding.

    @clause("ROWS-20")
    def can_trim(self, count: int) -> bool:
        """Say whether ``trim(count)`` would be carried out."""
        return index_group.can_trim(self.state, count)

    @clause("ROWS-19", "PREC-17")
    def trim(self, count: int) -> int:
        """Drop the newest ``count`` positions of every row, or refuse; rows that are due convert first."""
        if type(count) is not int or count < 0:
            raise Refusal(f"a trim drops a whole number of positions, 0 or more, not {count!r} (ERR-5)")
        self.demand_rest("a trim")
        if not self.can_trim(count):
            raise Refusal(f"{count} positions cannot be dropped from rows at {list(self.offsets)} (TRIM-7, ROWS-20)")
        self.rows = self.rows if self.prefilling else self.settled(range(self.count))
        self.state = index_group.plan_trim(self.state, count)
        return count

    @clause("PAD-1", "PAD-2", "PAD-3", "PAD-12", "PAD-14")
    def prepare(
        self,
        left: Sequence[int] | None = None,
        lengths: Sequence[int] | None = None,
        right: Sequence[int] | None = None,
    ) -> None:
        """Announce padding, per row: columns on the left, real ones with the left ones before, columns on the right."""
        if problem := index_group.prepare_problem(self.state, left, lengths, right):
            rest = self.state.starts is None and index_group.is_settled_padding(self.state)
            raise Refusal(f"{problem} ({'PAD-12' if rest else 'PAD-9, ROUND-9'})")
        self.state = index_group.prepared(self.state, left, lengths, right)
        self.rows = self.rows or (self.empty_row(),) * self.count

    @clause("PAD-7", "PAD-16", "PREC-24")
    def finalize(self) -> None:
        """Take the right padding that was processed off every row, and clear the ends."""
        if self.state.ends is not None:
            self.take(index_group.plan_finalize(self.state), self.rows, self.shape)

    # Rounds.

    @clause("ROUND-7", "ROUND-11")
    def begin_round(self) -> None:
        """Convert the rows that are due, unless the prefill bracket is open, and open a round."""
        if self.state.starts is not None:
            raise Refusal("a round is open; commit it or roll it back (ROUND-7)")
        self.demand_settled_padding("a round")
        self.rows = self.rows if self.prefilling else self.settled(range(self.count))
        self.state = index_group.begun(self.state)

    @clause("ROUND-1")
    def commit_round(self) -> None:
        """Close the round and keep all of it."""
        self._close((index_group.appended_in_round(self.state),) * self.count)

    @clause("ROUND-2", "ROUND-7", "ROUND-13")
    def roll_back(self, keep: Sequence[int]) -> None:
        """Close the round and keep the first ``keep`` positions of it: one number, or one per row."""
        keeps = tuple(keep) * self.count if len(keep) == 1 else tuple(keep)
        most = index_group.appended_in_round(self.state)
        if self.state.starts is not None and (
            len(keep) not in (1, self.count) or not all(0 <= kept <= most for kept in keep)
        ):
            raise Refusal(
                f"keep {list(keep)}: one number from 0 to {most}, or one for each of {self.count} rows (ROUND-7)"
            )
        self._close(keeps)

    def _close(self, keeps: Sequence[int]) -> None:
        if self.state.starts is None:
            raise Refusal("no round is open (ROUND-7)")
        self.take(index_group.plan_close(self.state, keeps), self.rows, self.shape)
        self.rows = self.rows if self.prefilling else self.settled(range(self.count))

    # Rows out, and fewer rows.

    @clause("ROWS-12", "ROWS-13", "ROWS-14", "ROWS-15", "PREC-23")
    def extract(self, row: int) -> Cache:
        """Copy a row into a serial cache of raw storage, compact and in temporal order, that never converts."""
        return self._alone(row, raw_layer(self.layer, self._checked_out(row).coded))

    @clause("ROWS-15", "ROWS-28", "PREC-21")
    def hand_back(self, row: int) -> Cache:
        """Copy a row into a serial cache of the group's own policy that goes on as if it had always been alone."""
        self._checked_out(row)
        cache = self._alone(row, self.layer.serial)
        if cache.planes is not None:
            cache.settle()
        return cache

    def _checked_out(self, row: int) -> Row:
        self.check_row(row)
        self.demand_rest("to take a row out")
        return self.rows[row]

    def _alone(self, row: int, layer: LayerSpec) -> Cache:
        """Make a serial cache of a row; a row without positions keeps only that it is converted."""
        cache, own = Cache(layer), self.rows[row]
        columns = index_group.extracted(self.state, row)
        cache.state, cache.floor = index_group.alone(self.state, row), own.floor
        if self.shape is not None:
            cache.codec = self.shape.codec(layer) if own.coded and (columns or layer.start is not None) else None
            cache.planes = self.planes(row).kept(columns) if columns else None
            cache.dtype = self.shape.dtype if columns else ""
        return cache

    @clause("ROWS-16", "ROWS-17", "ROWS-18", "ROWS-21", "PAD-10")
    def filter(self, rows: Sequence[int]) -> None:
        """Keep these rows, in this order; refuse a row that is repeated or not there."""
        if not index_group.can_filter(self.state, rows):
            raise Refusal(f"rows {list(rows)}: each of 0 to {self.count - 1} at most once (ROWS-18)")
        self.take(index_group.filtered(self.state, rows), [self.rows[row] for row in rows], self.shape)

    # Copies.

    @clause("ROWS-24")
    def clone(self) -> "RowGroup":
        """Make an independent group that equals this one."""
        twin = type(self)(self.layer)
        twin.state, twin.shape, twin.prefilling = self.state, self.shape, self.prefilling
        twin.rows = tuple(evolve(row, planes=row.planes and row.planes.each(np.copy)) for row in self.rows)
        return twin

    @clause("OWN-4", "OWN-10")
    def take_state(self) -> tuple[Mapping[str, npt.NDArray[Any]], ...]:
        """Hand out, row by row, copies of the state's arrays."""
        return tuple(
            {
                **({} if row.planes is None else {"keys": row.planes.keys.copy(), "values": row.planes.values.copy()}),
                "offset": np.array(offset),
            }
            for row, offset in zip(self.rows, self.offsets, strict=True)
        )


def raw_layer(layer: LayerSpec, coded: bool) -> LayerSpec:
    """Give the serial layer that holds what a row holds and never changes precision (PREC-23)."""
    if coded:
        return evolve(layer.serial, start=None)
    return LayerSpec(layer.serial.kind, layer.window)


def _row_of(keys: Bits, values: Bits, b: int) -> Planes:
    return Planes(keys[b : b + 1], values[b : b + 1])


def _restored(read: Read) -> Planes:
    if read.codec is None:
        return Planes(read.keys, read.values)
    return Planes(read.codec.decode("keys", read.keys), read.codec.decode("values", read.values))
