"""Faults of rows that leave: extracted, handed back, filtered away (ROWS-12 to ROWS-18, ROWS-21, ROWS-28, ROWS-29)."""

from collections.abc import Sequence
from typing import Any

from attrs import evolve

from kvlaw.conformance.faults.parts import GroupAdapter, WrongGroup
from kvlaw.conformance.faults.registry import fault
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.reference import index, index_group
from kvlaw.reference.layout import Cache, Refusal
from kvlaw.reference.layout_group import RowGroup
from kvlaw.spec.calls import AppendName
from kvlaw.spec.observations import StateView


def _whole(group: RowGroup, row: int, cache: Cache) -> Cache:
    """Give an extracted cache all columns of the group, as they lie."""
    if cache.planes is not None:
        cache.planes = group.planes(row)
        columns, rotated = group.columns, group.state.rotated
        if isinstance(cache.state, index.Ring):
            cache.state = evolve(cache.state, columns=columns, write_index=group.write_index, rotated=rotated)
        else:
            cache.state = index.Full(columns, cache.offset)
    return cache


@fault(
    "extracts-the-head",
    breaks="ROWS-12",
    trace="ring_rows window=2 rows=1 ; window 3 ; extract 0 as e1 ; decode on e1",
    report="B15",
)
class ExtractsTheHead(WrongGroup):
    """A row is extracted with its oldest columns, as many as it is owed."""

    def extract(self, row: int) -> Cache:
        cache = super().extract(row)
        if cache.planes is not None:
            order = index_group.order(self.state)
            cache.planes = self.planes(row).kept(order[: cache.columns])
        return cache


@fault(
    "extracts-the-offset-of-the-longest",
    breaks="ROWS-12",
    trace="full_rows ; prepare left=1,0 ; window 2 ; extract 0 as e1",
    report="B16",
)
class ExtractsTheOffsetOfTheLongest(WrongGroup):
    """An extracted row stands at the offset of the longest row of its group."""

    def extract(self, row: int) -> Cache:
        cache = super().extract(row)
        if cache.planes is not None:
            cache.state = evolve(cache.state, offset=max(self.offsets))
        return cache


@fault(
    "a-padded-ring-is-extracted-at-its-width",
    breaks="PAD-11",
    trace="ring_rows window=1 ; prepare lengths=1,2 right=1,0 ; window 2 ; finalize ; extract 1 as e1",
)
class APaddedRingIsExtractedAtItsWidth(WrongGroup):
    """An extracted row counts the positions that it holds, where a ring has dropped older ones."""

    def extract(self, row: int) -> Cache:
        cache = super().extract(row)
        cache.state = evolve(cache.state, offset=cache.columns)
        return cache


@fault(
    "extracts-all-columns", breaks="ROWS-13", profile="layout", trace="ring_rows window=3 ; window 4 ; extract 0 as e1"
)
class ExtractsAllColumns(WrongGroup):
    """An extracted row keeps every column of its group, padding and overshoot included."""

    def extract(self, row: int) -> Cache:
        return _whole(self, row, super().extract(row))


@fault(
    "an-empty-row-cannot-be-extracted", breaks="ROWS-14", trace="full_rows ; look c0 ; extract 0 as e1", report="B42"
)
class AnEmptyRowCannotBeExtracted(WrongGroup):
    """A row without positions is not extracted."""

    def extract(self, row: int) -> Cache:
        if 0 <= row < self.count and not self.offsets[row]:
            raise Refusal("this row has nothing to extract")
        return super().extract(row)


@fault(
    "an-empty-row-is-extracted-at-the-width",
    breaks="ROWS-14",
    trace="full_rows rows=1 ; decode ; cache as s1 ; merge c0 s1 as g1 ; extract 1 on g1 as e1",
)
class AnEmptyRowIsExtractedAtTheWidth(WrongGroup):
    """An empty row is extracted at an offset that counts its dead columns."""

    def extract(self, row: int) -> Cache:
        cache = super().extract(row)
        cache.state = evolve(cache.state, offset=cache.offset or self.write_index)
        return cache


@fault("extract-takes-the-row-away", breaks="ROWS-15", trace="full_rows ; decode ; extract 0 as e1 ; look c0")
class ExtractTakesTheRowAway(WrongGroup):
    """A row that is extracted leaves its group."""

    def extract(self, row: int) -> Cache:
        cache = super().extract(row)
        self.filter([b for b in range(self.count) if b != row])
        return cache


@fault(
    "an-extracted-row-lends-its-planes",
    breaks="ROWS-15",
    trace="ring_rows window=2 rows=1 ; window 2 ; extract 0 as e1 ; decode x2 on e1 ; decode",
    report="B84",
)
class AnExtractedRowLendsItsPlanes(GroupAdapter):
    """The cache that is made of a row writes into the planes of the row."""

    def __init__(self) -> None:
        super().__init__()
        self.lent: list[tuple[RowGroup, int, Any]] = []

    def extract(self, group: Any, row: int) -> Any:
        cache = super().extract(group, row)
        self.lent.append((group, row, cache))
        return cache

    def append(self, cache: Any, keys: Any, values: Any, phase: AppendName, window: int | None, array: bool) -> Any:
        read = super().append(cache, keys, values, phase, window, array)
        for group, row, lent in self.lent:
            if lent is cache and cache.columns == group.columns:
                rows = list(group.rows)
                rows[row] = evolve(rows[row], planes=cache.planes)
                group.rows = tuple(rows)
        return read


@fault("hands-back-padding", breaks="ROWS-28", trace="full_rows ; prepare left=1,0 ; window 2 ; hand_back 0 as h1")
class HandsBackPadding(WrongGroup):
    """A row is handed back as it lies, with its dead columns as positions."""

    def hand_back(self, row: int) -> Cache:
        cache = _whole(self, row, super().hand_back(row))
        cache.state = evolve(cache.state, offset=max(cache.offset, self.write_index))
        return cache


@fault("rows-are-counted-from-the-end", breaks="ROWS-29", profile="layout", trace="full_rows ; extract -1 as e1")
class RowsAreCountedFromTheEnd(WrongGroup):
    """Row -1 is the last one."""

    def check_row(self, row: int) -> None:
        super().check_row(row % self.count if type(row) is int and -self.count <= row < 0 else row)

    def extract(self, row: int) -> Cache:
        return super().extract(row % self.count if -self.count <= row < 0 else row)


# Filters.


@fault(
    "filter-keeps-the-old-order",
    breaks="ROWS-16",
    trace="ring_rows window=4 ; prepare left=1,0 ; window 2 ; filter 1,0",
    report="B31",
)
class FilterKeepsTheOldOrder(WrongGroup):
    """A filter keeps the rows that are named, in the order that they had."""

    def filter(self, rows: Sequence[int]) -> None:
        super().filter(sorted(rows))


@fault("filter-keeps-the-old-count", breaks="ROWS-16", trace="full_rows ; filter 1", report="B116")
class FilterKeepsTheOldCount(ReferenceAdapter):
    """A group goes on telling the number of rows with which it was opened, whatever a filter took away."""

    def show(self, cache: Any) -> StateView:
        view = super().show(cache)
        return evolve(view, rows=self.config.row_count) if isinstance(cache, RowGroup) else view


@fault("filter-keeps-a-last-row", breaks="ROWS-17", trace="full_rows ; filter none", report="B37")
class FilterKeepsALastRow(WrongGroup):
    """A filter that names no rows keeps the first."""

    def filter(self, rows: Sequence[int]) -> None:
        super().filter(rows or [0])


@fault("filter-counts-from-the-end", breaks="ROWS-18", profile="layout", trace="full_rows ; filter -1", report="B31")
class FilterCountsFromTheEnd(WrongGroup):
    """A negative row of a filter is counted from the end."""

    def filter(self, rows: Sequence[int]) -> None:
        super().filter([row % self.count if -self.count <= row < 0 else row for row in rows])


@fault("filter-takes-a-row-twice", breaks="ROWS-18", profile="layout", trace="full_rows ; filter 0,0")
class FilterTakesARowTwice(WrongGroup):
    """A row that a filter names twice is kept once."""

    def filter(self, rows: Sequence[int]) -> None:
        super().filter(list(dict.fromkeys(rows)))


@fault(
    "filter-leaves-the-padding-that-all-have",
    breaks="ROWS-21",
    profile="layout",
    trace="full_rows ; prepare left=1,0 ; window 2 ; filter 0",
    report="B37",
)
class FilterLeavesThePaddingThatAllHave(WrongGroup):
    """A growing group keeps the left padding of the longest row that it ever had."""

    def filter(self, rows: Sequence[int]) -> None:
        before = self.state
        if before.window is None and index_group.can_filter(before, rows) and rows:
            unsettled = evolve(before, ends=before.ends or before.offsets)  # a filter drops nothing while ends pend
            moved = index_group.filtered(unsettled, rows)
            ends = None if before.ends is None else moved.after.ends
            moved = evolve(moved, after=evolve(moved.after, ends=ends))
            self.take(moved, [self.rows[row] for row in rows], self.shape)
        else:
            super().filter(rows)
