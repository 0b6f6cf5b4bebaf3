"""Faults of each row's own boundary: by its own offset, with a floor of its own (PREC-25 to PREC-29)."""

from collections.abc import Iterable, Sequence

from attrs import evolve

from kvlaw.conformance.faults.parts import Asked, GroupAdapter, WrongGroup
from kvlaw.conformance.faults.registry import fault
from kvlaw.reference import index_group
from kvlaw.reference.layout_group import GroupRead, Row, RowGroup
from kvlaw.spec.observations import Unbounded

_MIXED = "full_rows bits=4 start=2 ; prepare left=1,0 ; window 2 ; decode"

# What a group reports.


@fault("a-mixed-group-is-packed", breaks="PREC-25", profile="layout", trace=_MIXED, report="B60")
class AMixedGroupIsPacked(WrongGroup):
    """A group reports packed storage as soon as one row has converted."""

    @property
    def storage(self) -> str:
        return "packed" if super().storage == "mixed" else super().storage


@fault("a-group-of-codes-is-packed", breaks="PREC-25", profile="layout", trace="full_rows bits=4")
class AGroupOfCodesIsPacked(WrongGroup):
    """A group that holds codes from the first token on reports packed storage."""

    @property
    def storage(self) -> str:
        return "packed" if super().storage == "affine" else super().storage


# Whose offset decides.


@fault(
    "a-siblings-token-converts",
    breaks="PREC-26",
    trace="full_rows bits=4 start=1 ; prepare lengths=1,2 right=1,0 ; window 1 ; window 1",
    report="B60",
)
class ASiblingsTokenConverts(WrongGroup):
    """A row that is due converts at an append that brings a token to a sibling alone."""

    def act(self, asked: Asked) -> GroupRead:
        if not self.prefilling and asked.well_formed:
            self.rows = self.settled(range(self.count))
        return super().act(asked)


@fault(
    "padding-makes-a-row-due",
    breaks="PREC-26",
    trace="full_rows bits=4 start=3 ; prepare left=2,0 ; window 3 ; decode",
    report="B49",
)
class PaddingMakesARowDue(WrongGroup):
    """A row becomes due by the columns that it was given, padding included."""

    def is_due(self, b: int) -> bool:
        start, row = self.layer.start, self.rows[b]
        return isinstance(start, int) and not row.coded and 0 < max(start, 1) <= index_group.active(self.state)


@fault(
    "rows-convert-together", breaks="PREC-26", trace="full_rows bits=4 start=3 ; prepare left=2,0 ; window 3 ; decode"
)
class RowsConvertTogether(WrongGroup):
    """All rows convert as soon as one is due."""

    def settled(self, chosen: Iterable[int]) -> tuple[Row, ...]:
        listed = list(chosen)
        rows = super().settled(listed)
        if rows == self.rows or self.shape is None or not isinstance(self.layer.start, int):
            return rows
        converted = [
            row if row.coded else row.converted(self.offsets[b], self.layer.start, self.shape, self.layer)
            for b, row in enumerate(rows)
        ]
        return tuple(converted)


@fault(
    "the-last-row-is-waited-for",
    breaks="PREC-26",
    trace=_MIXED,
    report="B60",
)
class TheLastRowIsWaitedFor(WrongGroup):
    """No row converts before all are due."""

    def is_due(self, b: int) -> bool:
        return all(super(TheLastRowIsWaitedFor, self).is_due(row) or self.rows[row].coded for row in range(self.count))


# Floors.


@fault("one-floor-for-all", breaks="PREC-27", trace="full_rows bits=4 start=1 ; prepare left=2,0 ; window 3 ; decode")
class OneFloorForAll(WrongGroup):
    """Every row that converts gets the offset of the longest as its floor."""

    def settled(self, chosen: Iterable[int]) -> tuple[Row, ...]:
        rows = super().settled(chosen)
        longest = max(self.offsets, default=0)
        pairs = zip(rows, self.rows, strict=True)
        return tuple(evolve(row, floor=longest) if row.floor and not old.coded else row for row, old in pairs)


@fault("filter-forgets-the-floors", breaks="PREC-27", trace="full_rows bits=4 start=1 ; decode x2 ; filter 0")
class FilterForgetsTheFloors(WrongGroup):
    """A filter keeps codes, and no floors."""

    def filter(self, rows: Sequence[int]) -> None:
        super().filter(rows)
        self.rows = tuple(evolve(row, floor=0) for row in self.rows)


@fault("floors-stay-at-their-old-places", breaks="PREC-27", trace=f"{_MIXED} ; filter 1,0")
class FloorsStayAtTheirOldPlaces(WrongGroup):
    """A filter moves rows, and their floors stay where they were."""

    def filter(self, rows: Sequence[int]) -> None:
        floors = [row.floor for row in self.rows]
        super().filter(rows)
        self.rows = tuple(evolve(row, floor=floor) for row, floor in zip(self.rows, floors, strict=False))


@fault("trims-lower-the-floors", breaks="PREC-27", trace="full_rows bits=4 start=1 ; decode x2 ; trim 2")
class TrimsLowerTheFloors(WrongGroup):
    """A trim below its floor lowers the floor of a row."""

    def trim(self, count: int) -> int:
        dropped = super().trim(count)
        self.rows = tuple(evolve(row, floor=min(row.floor, o)) for row, o in zip(self.rows, self.offsets, strict=True))
        return dropped


# How many tokens are left.


@fault(
    "padding-counts-towards-the-start",
    breaks="PREC-28",
    trace="full_rows bits=4 start=3 ; prepare left=1,0 ; window 2",
    report="B60",
)
class PaddingCountsTowardsTheStart(WrongGroup):
    """The tokens that make a row due are counted from the columns of its group."""

    def max_append_of(self, b: int) -> int | Unbounded:
        left, padding = super().max_append_of(b), index_group.left_pad(self.state, b)
        return left if left == "unbounded" else max(1, left - padding)


@fault(
    "the-first-row-bounds-the-group",
    breaks="PREC-28",
    profile="layout",
    trace="full_rows bits=4 start=3 ; prepare left=1,0 ; window 2",
)
class TheFirstRowBoundsTheGroup(WrongGroup):
    """The tokens that make a group due are those of its first row."""

    @property
    def max_append(self) -> int | Unbounded:
        return self.max_append_of(0) if self.count else "unbounded"


# What is read.


@fault(
    "the-append-after-the-start-is-dense", breaks="PREC-29", trace="full_rows bits=4 start=1 ; decode x2", report="B60"
)
class TheAppendAfterTheStartIsDense(GroupAdapter):
    """A row converts at the append after the one that made it due, but behind its read."""

    class Late(WrongGroup):
        """Reads first, converts then."""

        def act(self, asked: Asked) -> GroupRead:
            was, due = self.prefilling, [b for b in range(self.count) if self.is_due(b)]
            real = [b for b in due if asked.well_formed and index_group.real(self.state, b, asked.length)]
            offsets, self.prefilling = self.offsets, True
            try:
                read = super().act(asked)
            finally:
                self.prefilling = was
            start = self.layer.start
            if not was and self.shape is not None and isinstance(start, int):
                rows: list[Row] = list(self.rows)
                for b in real:
                    rows[b] = rows[b].converted(offsets[b], start, self.shape, self.layer)
                self.rows = tuple(rows)
            return read

    group_type: type[RowGroup] = Late


@fault(
    "a-converted-row-begins-anew",
    breaks="PREC-26",
    trace="full_rows bits=4 start=1 rows=1 ; decode ; trim 1 ; cache as s1 ; merge c0 s1 as g1 ; decode on g1",
)
class AConvertedRowBeginsAnew(WrongGroup):
    """Rows that hold no position are stored in half precision at their first append, converted or not."""

    def act(self, asked: Asked) -> GroupRead:
        if not self.columns and asked.well_formed and self.layer.start is not None:
            self.rows = tuple(evolve(row, coded=False) for row in self.rows)
        return super().act(asked)
