"""Faults of compiled decodes: what a trace freezes, and what it is run on that it was not made for (DEC)."""

from typing import Any

import numpy as np
from attrs import evolve

from kvlaw.conformance.faults.parts import Asked, WrongCache, WrongGroup
from kvlaw.conformance.faults.planted_ring import shifted
from kvlaw.conformance.faults.registry import fault
from kvlaw.reference import index_group
from kvlaw.reference.layout import MaskValue, Read
from kvlaw.reference.layout_group import GroupRead
from kvlaw.spec.calls import Phase
from kvlaw.spec.observations import Bits


class WrongStep(WrongCache):
    """A cache that knows while a compiled step is run on it, and runs it by ``step``."""

    compiling = False

    def append_compiled(
        self, keys: Bits, values: Bits, dtype: str, window: int | None = None, array: bool = False
    ) -> Read:
        """Run a step."""
        self.compiling = True
        try:
            return self.step(Asked(keys, values, dtype, "decode", window, array))
        finally:
            self.compiling = False

    def step(self, asked: Asked) -> Read:
        """Run it rightly."""
        return super().append_compiled(asked.keys, asked.values, asked.dtype, asked.window, asked.array)


class WrongGroupStep(WrongGroup):
    """A group that runs a compiled step as a decode, whatever forbids it, unless ``step`` is overridden."""

    compiling = False

    def append_compiled(
        self, keys: Bits, values: Bits, dtype: str, window: int | None = None, array: bool = False
    ) -> GroupRead:
        """Run a step."""
        self.compiling = True
        try:
            return self.step(Asked(keys, values, dtype, "decode", window, array))
        finally:
            self.compiling = False

    def step(self, asked: Asked) -> GroupRead:
        """Run it rightly."""
        return super().append_compiled(asked.keys, asked.values, asked.dtype, asked.window, asked.array)


@fault("counts-no-compiled-step", breaks="DEC-1", trace="full ; window 1 ; compiled x2", report="B105")
class CountsNoCompiledStep(WrongStep):
    """A compiled step leaves the offset where it stood when it was traced."""

    def step(self, asked: Asked) -> Read:
        before = self.state
        read = super().step(asked)
        self.state = before
        return read


@fault("freezes-its-write-position", breaks="DEC-2", trace="full ; window 1 ; compiled x2", report="B105")
class FreezesItsWritePosition(WrongStep):
    """Every compiled step after the first writes the column that the first one wrote."""

    frozen: int | None = None

    def plan(self, phase: Phase, length: int) -> Any:
        """Plan, but write where the first step wrote."""
        plan = super().plan(phase, length)
        if not self.compiling:
            return plan
        if self.frozen is None:
            self.frozen = plan.write_at
        return evolve(plan, write_at=self.frozen)


class TooWide(Read):
    """A read that attends one column more than was fetched."""

    def attend(self, queries: Bits, scale: float) -> Bits:
        """Attend with a column of nothing, which every query sees."""
        keys, values = (np.concatenate([side, np.zeros_like(side[:, :, :1])], 2) for side in (self.keys, self.values))
        return Read(keys, values, None, self.length, self.dtype).attend(queries, scale)


@fault("attends-to-spare-columns", breaks="DEC-3", trace="full ; window 1 ; compiled")
class AttendsToSpareColumns(WrongStep):
    """A compiled step attends to a column that is allocated and holds nothing."""

    def step(self, asked: Asked) -> Read:
        read = super().step(asked)
        whole = read.codec is None and read.mask is None
        return TooWide(read.keys, read.values, None, 1, read.dtype) if whole else read


@fault("compiled-step-shifts", breaks="DEC-4", profile="layout", trace="ring window=3 ; window 3 ; compiled x2")
class CompiledStepShifts(WrongStep):
    """A compiled step into a full ring shifts the columns and writes at the end."""

    def plan(self, phase: Phase, length: int) -> Any:
        """Plan, then shift."""
        plan = super().plan(phase, length)
        ring = self.ring
        return shifted(ring, plan) if self.compiling and ring is not None and ring.rotated else plan


@fault("compiles-an-empty-cache", breaks="DEC-5", profile="layout", trace="full ; compiled")
class CompilesAnEmptyCache(WrongStep):
    """A compiled step is run on an empty cache."""

    def step(self, asked: Asked) -> Read:
        return super().step(asked) if self.planes is not None else self.act(asked)


@fault("compiles-in-a-round", breaks="DEC-6", profile="layout", trace="full ; window 1 ; begin_round ; compiled")
class CompilesInARound(WrongStep):
    """A compiled step is run while a round is open."""

    def step(self, asked: Asked) -> Read:
        return super().step(asked) if self.round is None else self.act(asked)


@fault(
    "compiles-into-padding",
    breaks="DEC-7",
    profile="layout",
    trace="full_rows rows=1 ; window 1 ; prepare right=1 lengths=1 ; compiled",
)
class CompilesIntoPadding(WrongGroupStep):
    """A compiled step is run on a group while its padding is pending."""

    def step(self, asked: Asked) -> GroupRead:
        pends = not index_group.may_decode(self.state) and bool(self.state.columns)
        return self.act(evolve(asked, phase="window")) if pends else super().step(asked)


@fault(
    "compiles-into-unused-padding",
    breaks="DEC-7",
    profile="layout",
    trace="full_rows rows=1 ; prepare left=1 ; compiled",
)
class CompilesIntoUnusedPadding(WrongGroupStep):
    """A compiled step is run on a group whose left padding has not come yet."""

    def step(self, asked: Asked) -> GroupRead:
        unused = any(offset < 0 for offset in self.state.offsets)
        return self.act(evolve(asked, phase="window")) if unused else super().step(asked)


@fault(
    "compiled-step-does-not-convert",
    breaks="DEC-8",
    profile="layout",
    trace="full bits=4 start=2 ; window 1 ; compiled",
)
class CompiledStepDoesNotConvert(WrongStep):
    """A compiled step that reaches the start leaves half precision as it is."""

    def settle(self) -> None:
        """Settle, but not in a step."""
        if not self.compiling:
            super().settle()


@fault(
    "masks-as-the-first-row",
    breaks="DEC-9",
    trace="full_rows rows=1 ; window 1 ; cache as s1 ; merge c0 s1 as g1 ; compiled on g1",
)
class MasksAsTheFirstRow(WrongGroupStep):
    """A compiled step hides from every row what it was traced to hide from the first."""

    def mask(self, length: int, phase: Phase, window: int | None = None, array: bool = False) -> MaskValue:
        """Take the first row's mask for all."""
        mask = super().mask(length, phase, window, array)
        return np.repeat(mask[:1], len(mask), axis=0) if self.compiling and isinstance(mask, np.ndarray) else mask


@fault(
    "compiles-a-mixed-group",
    breaks="DEC-10",
    profile="layout",
    trace="full_rows bits=4 start=3 rows=2 ; prepare left=0,2 ; window 3 ; decode ; compiled",
)
class CompilesAMixedGroup(WrongGroupStep):
    """A compiled step is run on rows that are stored in two ways."""

    def step(self, asked: Asked) -> GroupRead:
        mixed = (
            len({row.coded for row in self.rows}) > 1
            and index_group.may_decode(self.state)
            and self.state.starts is None
        )
        return self.act(asked) if mixed else super().step(asked)
