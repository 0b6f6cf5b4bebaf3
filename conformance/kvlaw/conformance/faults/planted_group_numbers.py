"""Faults of old rules that only a group can break so: refusals, masks, trims, resets (MASK, TRIM, OWN, ERR, PREC)."""

import numpy as np
from attrs import evolve

from kvlaw.conformance.faults.parts import Asked, WrongGroup
from kvlaw.conformance.faults.registry import fault
from kvlaw.reference import index_group
from kvlaw.reference.layout import MaskValue
from kvlaw.reference.layout_group import GroupRead
from kvlaw.spec.calls import Phase
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
