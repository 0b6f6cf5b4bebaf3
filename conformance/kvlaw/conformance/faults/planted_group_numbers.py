"""Faults of old rules that only a group can break so: refusals, masks, trims, resets (MASK, TRIM, OWN, ERR, PREC)."""

from typing import Any

import numpy as np
from attrs import evolve

from kvlaw.conformance.faults.parts import Asked, GroupAdapter, WrongGroup
from kvlaw.conformance.faults.registry import fault
from kvlaw.reference import index_group
from kvlaw.reference.layout import MaskValue, Planes
from kvlaw.reference.layout_group import GroupRead
from kvlaw.spec.calls import AppendName, Phase
from kvlaw.spec.config import LayerSpec
from kvlaw.spec.observations import Bits


@fault("one-row-of-tensors-for-all", breaks="ROWS-30", profile="layout", trace="full_rows ; decode malformed=batch")
class OneRowOfTensorsForAll(WrongGroup):
    """Tensors of another number of rows are cut or repeated until they fit the group."""

    def act(self, asked: Asked) -> GroupRead:
        if asked.well_formed and self.count and asked.keys.shape[0] != self.count:
            asked = evolve(asked, keys=self._fitted(asked.keys), values=self._fitted(asked.values))
        return super().act(asked)

    def _fitted(self, tensor: Bits) -> Bits:
        return np.concatenate([tensor] * self.count)[: self.count]


@fault("groups-pass-over-narrower-windows", breaks="MASK-8", trace="ring_rows window=3 ; window 2 w=1")
class GroupsPassOverNarrowerWindows(WrongGroup):
    """The window argument of a read of a group is looked at and not obeyed."""

    def mask(self, length: int, phase: Phase, window: int | None = None, array: bool = False) -> MaskValue:
        narrow = window is not None and window >= 1
        return super().mask(length, phase, None if narrow else window, array)


@fault("masks-of-groups-come-late", breaks="MASK-12", trace="ring_rows window=2 ; mask 2 ; window 2")
class MasksOfGroupsComeLate(WrongGroup):
    """A mask that is asked of a group by itself is that of the append after the next."""

    _appending = False

    def act(self, asked: Asked) -> GroupRead:
        self._appending = True
        try:
            return super().act(asked)
        finally:
            self._appending = False

    def mask(self, length: int, phase: Phase, window: int | None = None, array: bool = False) -> MaskValue:
        if self._appending or length < 1 or not self.count:
            return super().mask(length, phase, window, array)
        before = self.state
        self.state = index_group.plan_block(before, length).after
        try:
            return super().mask(length, phase, window, array)
        finally:
            self.state = before


@fault("a-trim-of-rows-moves-no-write-index", breaks="TRIM-8", trace="full_rows ; window 2 ; trim 1 ; decode")
class ATrimOfRowsMovesNoWriteIndex(WrongGroup):
    """A trim lowers the offsets, and the columns of what was dropped stay where the next tokens go behind."""

    def trim(self, count: int) -> int:
        before = self.state
        dropped = super().trim(count)
        offsets = self.state.offsets
        self.state = evolve(before, offsets=offsets)
        return dropped


@fault("reset-leaves-the-columns", breaks="ROWS-23", profile="layout", trace="ring_rows window=2 ; decode ; reset")
class ResetLeavesTheColumns(WrongGroup):
    """A reset counts from 0 again and keeps the planes."""

    def reset(self) -> None:
        rows, shape, state = getattr(self, "rows", ()), getattr(self, "shape", None), getattr(self, "state", None)
        super().reset()
        if state is not None and shape is not None and self.layer.bits is None:
            self.rows, self.shape = rows, shape
            self.state = evolve(self.state, columns=state.columns)


@fault("a-trimmed-group-is-dense-again", breaks="PREC-6", trace="full_rows bits=4 start=1 ; decode x2 ; trim 2")
class ATrimmedGroupIsDenseAgain(WrongGroup):
    """A group that is trimmed below its start waits for it again."""

    def trim(self, count: int) -> int:
        dropped = super().trim(count)
        if self.layer.start is not None and not any(self.offsets):
            self.reset()
        return dropped


# What rows are shown, and what they are handed.


@fault("a-row-counts-up-to-its-window", breaks="POS-3", trace="ring_rows window=2 ; window 3")
class ARowCountsUpToItsWindow(WrongGroup):
    """The offset of a row is the number of positions that it holds."""

    @property
    def offsets(self) -> tuple[int, ...]:
        return tuple(min(offset, self.state.window or offset) for offset in super().offsets)


@fault(
    "one-mask-for-all-rows",
    breaks="MASK-16",
    trace="full_rows rows=1 ; window 2 ; cache as s1 ; decode on s1 ; merge c0 s1 as g1 ; decode on g1",
    report="B45",
)
class OneMaskForAllRows(WrongGroup):
    """The mask of the first row is that of all."""

    def mask(self, length: int, phase: Phase, window: int | None = None, array: bool = False) -> MaskValue:
        mask = super().mask(length, phase, window, array)
        return mask if mask is None or isinstance(mask, str) else np.repeat(mask[:1], self.count, 0)


@fault("reset-empties-the-first-row", breaks="OWN-7", trace="full_rows ; decode ; reset")
class ResetEmptiesTheFirstRow(WrongGroup):
    """A reset empties the first row alone."""

    def reset(self) -> None:
        rows, shape, state = getattr(self, "rows", ()), getattr(self, "shape", None), getattr(self, "state", None)
        super().reset()
        if state is not None and shape is not None:
            self.rows, self.shape, self.state = rows, shape, evolve(state, offsets=(0, *state.offsets[1:]))


@fault("the-callers-arrays-are-the-rows", breaks="OWN-8", trace="full_rows poison ; window 2 ; decode")
class TheCallersArraysAreTheRows(WrongGroup):
    """The first append to a group keeps the caller's arrays as its planes."""

    def act(self, asked: Asked) -> GroupRead:
        read, first = super().act(asked), not any(self.offsets)
        self.first = asked if first or not hasattr(self, "first") else self.first
        return read

    def planes(self, b: int) -> Planes:
        planes, first = super().planes(b), getattr(self, "first", None)
        if first is None or self.layer.bits is not None or self.state.window is not None or first.keys.shape[0] <= b:
            return planes
        keys, values = planes.keys.copy(), planes.values.copy()
        keys[:, :, : first.length], values[:, :, : first.length] = first.keys[b : b + 1], first.values[b : b + 1]
        return Planes(keys, values)


@fault("trims-of-rows-by-less-than-nothing", breaks="TRIM-9", trace="full_rows ; window 2 ; trim -1")
class TrimsOfRowsByLessThanNothing(WrongGroup):
    """A negative trim moves the offsets of a group on."""

    def trim(self, count: int) -> int:
        if type(count) is int and count < 0 and self.count:
            self.state = evolve(self.state, offsets=tuple(offset - count for offset in self.state.offsets))
            return -count
        return super().trim(count)


@fault("a-trim-of-nothing-empties-a-group", breaks="ROWS-19", trace="full_rows ; decode ; trim 0")
class ATrimOfNothingEmptiesAGroup(WrongGroup):
    """A trim by 0 is taken for one that says no number, and drops all that the shortest row has."""

    def trim(self, count: int) -> int:
        dropped = super().trim(count)
        return dropped if count or type(count) is not int else dropped + super().trim(min(self.offsets, default=0))


@fault("a-decode-of-rows-takes-several", breaks="ERR-4", profile="layout", trace="full_rows ; decode malformed=two")
class ADecodeOfRowsTakesSeveral(WrongGroup):
    """A decode of a group with two positions per row writes them as a block."""

    def append_decode(
        self, keys: Bits, values: Bits, dtype: str, window: int | None = None, array: bool = False
    ) -> GroupRead:
        block = keys.ndim == 4 and keys.shape[2] > 1  # [B, H, L, D]
        return (super().append_window if block else super().append_decode)(keys, values, dtype, window, array)


@fault("a-group-of-an-empty-window", breaks="ERR-6", profile="layout", trace="ring_rows window=0")
class AGroupOfAnEmptyWindow(WrongGroup):
    """A window of 0 is taken for 1 when a group is built."""

    def __init__(self, layer: LayerSpec, rows: int = 0) -> None:
        super().__init__(evolve(layer, window=1) if layer.window == 0 else layer, rows)


@fault(
    "dense-fetches-of-rows-are-views",
    breaks="OWN-5",
    trace="ring_rows window=2 ; window 2 ; dense 1 as d ; decode x2 ; look d",
)
class DenseFetchesOfRowsAreViews(GroupAdapter):
    """A dense fetch of a group hands out arrays that the next fetches are written into."""

    def __init__(self) -> None:
        super().__init__()
        self.handed: list[tuple[Any, Any]] = []

    def fetch_dense(self, cache: Any, keys: Any, values: Any) -> tuple[Any, Any]:
        pair = super().fetch_dense(cache, keys, values)
        self.handed.append(pair)
        return pair

    def append(self, cache: Any, keys: Any, values: Any, phase: AppendName, window: int | None, array: bool) -> Any:
        read = super().append(cache, keys, values, phase, window, array)
        for old in self.handed if isinstance(read, GroupRead) else ():
            for plane, rows in zip(old, ([r.keys for r in read.rows], [r.values for r in read.rows]), strict=True):
                if plane.shape == (len(rows), *rows[0].shape[1:]) and plane.dtype == rows[0].dtype:
                    plane[...] = np.concatenate(rows)
        return read
