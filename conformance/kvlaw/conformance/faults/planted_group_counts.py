"""Faults of what a group counts: rows, columns, bytes, trims, its name (ROWS-10, ROWS-11, ROWS-19 to ROWS-27)."""

from typing import Any

from attrs import evolve

from kvlaw.conformance.faults.parts import Asked, GroupAdapter, WrongGroup
from kvlaw.conformance.faults.registry import fault
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.reference import index_group
from kvlaw.reference.layout_group import GroupRead, RowGroup
from kvlaw.spec.calls import AppendName, Phase
from kvlaw.spec.observations import StateView

# Rows.


@fault("a-look-leaves-a-row-behind", breaks="ROWS-10", trace="full_rows rows=0 ; look c0", report="B116")
class ALookLeavesARowBehind(ReferenceAdapter):
    """To show a group without rows, one is made in it, and stays."""

    def show(self, cache: Any) -> StateView:
        view = super().show(cache)
        if isinstance(cache, RowGroup) and not cache.count:
            cache.prepare(lengths=[0])
        return view


@fault("an-append-makes-rows", breaks="ROWS-11", profile="layout", trace="full_rows rows=0 ; decode")
class AnAppendMakesRows(WrongGroup):
    """A group without rows takes as many as the tensors have."""

    def act(self, asked: Asked) -> GroupRead:
        if not self.count and asked.well_formed:
            self.prepare(lengths=[0] * asked.keys.shape[0])
        return super().act(asked)


@fault("empty-rows-do-not-count", breaks="ROWS-25", trace="full_rows", report="B30")
class EmptyRowsDoNotCount(ReferenceAdapter):
    """The number of rows is that of the rows that hold positions."""

    def show(self, cache: Any) -> StateView:
        view = super().show(cache)
        return evolve(view, rows=sum(map(bool, cache.offsets))) if isinstance(cache, RowGroup) else view


@fault("rows-trimmed-empty-do-not-count", breaks="ROWS-25", trace="full_rows ; decode ; trim 1", report="B30")
class RowsTrimmedEmptyDoNotCount(ReferenceAdapter):
    """A row from which everything was trimmed is no longer counted."""

    def show(self, cache: Any) -> StateView:
        view = super().show(cache)
        trimmed = isinstance(cache, RowGroup) and cache.columns > 0
        return evolve(view, rows=sum(map(bool, cache.offsets))) if trimmed else view


@fault("reset-drops-the-rows", breaks="ROWS-23", profile="layout", trace="full_rows ; reset", report="B112")
class ResetDropsTheRows(WrongGroup):
    """A reset leaves a group without rows."""

    def reset(self) -> None:
        super().reset()
        self.filter([])


@fault("clones-have-one-row", breaks="ROWS-24", trace="full_rows ; clone as c1", report="B100")
class ClonesHaveOneRow(WrongGroup):
    """A clone has the first row alone."""

    def clone(self) -> RowGroup:
        twin = super().clone()
        twin.filter([0] if twin.count else [])
        return twin


@fault(
    "clones-of-groups-share-planes",
    breaks="ROWS-24",
    trace="ring_rows window=2 rows=1 ; window 2 ; clone as c1 ; decode x2 ; decode on c1",
    report="B84",
)
class ClonesOfGroupsSharePlanes(GroupAdapter):
    """A clone has offsets of its own, and the planes of its original."""

    def __init__(self) -> None:
        super().__init__()
        self.twins: list[tuple[RowGroup, RowGroup]] = []

    def clone(self, cache: Any) -> Any:
        twin = super().clone(cache)
        if isinstance(cache, RowGroup):
            self.twins += [(cache, twin), (twin, cache)]
        return twin

    def append(self, cache: Any, keys: Any, values: Any, phase: AppendName, window: int | None, array: bool) -> Any:
        read = super().append(cache, keys, values, phase, window, array)
        for one, other in self.twins:
            if one is cache and one.columns == other.columns and one.count == other.count:
                other.rows = one.rows
        return read


# Trims.


@fault("trims-one-row", breaks="ROWS-19", trace="full_rows ; window 2 ; trim 1", report="B43")
class TrimsOneRow(WrongGroup):
    """A trim drops positions of the first row, and leaves the others."""

    def trim(self, count: int) -> int:
        before = self.state
        dropped = super().trim(count)
        offsets = (*self.state.offsets[:1], *before.offsets[1:])
        self.state = evolve(before, offsets=offsets)
        return dropped


@fault(
    "trims-past-the-shortest-row",
    breaks="ROWS-19",
    trace="full_rows ; prepare left=1,0 ; window 2 ; trim 2",
    report="B43",
)
class TrimsPastTheShortestRow(WrongGroup):
    """A trim is bounded by the longest row."""

    def can_trim(self, count: int) -> bool:
        return index_group.is_settled_padding(self.state) and 0 <= count <= max(self.offsets, default=0)


@fault("can-trim-stops-one-short", breaks="ROWS-20", profile="layout", trace="full_rows ; decode ; trim 1")
class CanTrimStopsOneShort(GroupAdapter):
    """A group says that it cannot trim all of its shortest row, and does it."""

    def show(self, cache: Any) -> StateView:
        view = super().show(cache)
        if not isinstance(cache, RowGroup) or not cache.count or view.can_trim is None:
            return view
        least = min(cache.offsets)
        return evolve(view, can_trim=tuple(able and n < least for n, able in enumerate(view.can_trim)))


@fault(
    "the-shortest-row-says-what-a-ring-can-trim",
    breaks="ROWS-20",
    profile="layout",
    trace="ring_rows window=2 ; prepare left=1,0 ; window 2",
    report="B43",
)
class TheShortestRowSaysWhatARingCanTrim(WrongGroup):
    """A ring group can trim as long as its shortest row has not reached the window."""

    def can_trim(self, count: int) -> bool:
        least = min(self.offsets, default=0)
        settled = index_group.is_settled_padding(self.state)
        return settled and 0 <= count <= least and (self.state.window is None or least < self.state.window)


# Columns and bytes.


@fault(
    "blocks-drop-nothing", breaks="ROWS-22", profile="layout", trace="ring_rows window=2 ; window 2 x2", report="B103"
)
class BlocksDropNothing(WrongGroup):
    """A block keeps every column that was there, and reads the newest."""

    def bent(self, plan: index_group.RowsPlan, phase: Phase, length: int) -> index_group.RowsPlan:
        if phase == "decode" or self.state.window is None or self.state.ends is not None:
            return plan
        more = index_group.active(self.state) - plan.write_at
        order = index_group.order(self.state)
        after = evolve(plan.after, columns=plan.after.columns + more, write_index=plan.after.write_index + more)
        return evolve(
            plan,
            sources=((*order, *(None,) * length),) * self.count,
            write_at=plan.write_at + more,
            fetch=tuple(column + more for column in plan.fetch),
            after=after,
        )


@fault(
    "keeps-w-columns-without-ends", breaks="ROWS-22", profile="layout", trace="ring_rows window=2 ; window 2 ; window 1"
)
class KeepsWColumnsWithoutEnds(WrongGroup):
    """A block keeps W columns of the past where no padding is pending, one more than its queries see."""

    def bent(self, plan: index_group.RowsPlan, phase: Phase, length: int) -> index_group.RowsPlan:
        window = self.state.window
        if phase == "decode" or window is None or self.state.ends or index_group.active(self.state) < window:
            return plan
        order = index_group.order(self.state)
        return evolve(
            plan,
            sources=((*order[len(order) - window :], *(None,) * length),) * self.count,
            write_at=window,
            fetch=tuple(range(1, window + length)),
            after=evolve(plan.after, columns=window + length, write_index=window + length),
        )


@fault("grows-two-steps-at-once", breaks="ROWS-22", profile="layout", trace="full_rows ; decode")
class GrowsTwoStepsAtOnce(WrongGroup):
    """A growing group that runs out of columns adds twice as many as the next step needs."""

    def bent(self, plan: index_group.RowsPlan, phase: Phase, length: int) -> index_group.RowsPlan:
        if self.state.window is not None or plan.after.columns <= self.columns:
            return plan
        after = evolve(plan.after, columns=plan.after.columns + 256)
        return evolve(plan, sources=tuple((*row, *(None,) * 256) for row in plan.sources), after=after)


@fault("bytes-of-one-row", breaks="ROWS-26", profile="layout", trace="full_rows ; decode", report="B102")
class BytesOfOneRow(WrongGroup):
    """The bytes of a group are those of its first row."""

    @property
    def nbytes(self) -> int:
        return self.columns * self.bytes_per_token


@fault("a-group-has-the-name-of-its-rows", breaks="ROWS-27", profile="layout", trace="full_rows")
class AGroupHasTheNameOfItsRows(WrongGroup):
    """A group has the identity of the serial cache that its rows would be."""

    @property
    def identity(self) -> str:
        return self.layer.serial.identity
