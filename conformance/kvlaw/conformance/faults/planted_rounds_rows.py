"""Faults of rounds of a group of rows: what each row keeps, and what an open round of a group forbids."""

from collections.abc import Callable, Sequence
from typing import Any

from attrs import evolve

from kvlaw.conformance.faults.parts import Asked, WrongGroup
from kvlaw.conformance.faults.registry import fault
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.reference import index_group
from kvlaw.reference.layout import Cache
from kvlaw.reference.layout_group import GroupRead, RowGroup
from kvlaw.spec.calls import Phase

Counts = Sequence[int] | None

# Each row's own number.


@fault("one-keep-for-all-rows", breaks="ROUND-13", trace="full_rows ; begin_round ; decode ; roll_back 1,0")
class OneKeepForAllRows(WrongGroup):
    """Every row keeps what the first one is told to keep."""

    def roll_back(self, keep: Sequence[int]) -> None:
        super().roll_back([keep[0]] * len(keep))


@fault("the-least-keep-is-taken", breaks="ROUND-13", trace="full_rows ; begin_round ; decode ; roll_back 1,0")
class TheLeastKeepIsTaken(WrongGroup):
    """All rows go back to where the shortest one goes back."""

    def roll_back(self, keep: Sequence[int]) -> None:
        super().roll_back([min(keep)] * len(keep))


@fault("keeps-are-taken-in-reverse", breaks="ROUND-13", trace="full_rows ; begin_round ; decode ; roll_back 1,0")
class KeepsAreTakenInReverse(WrongGroup):
    """The numbers to keep are given to the rows from the last to the first."""

    def roll_back(self, keep: Sequence[int]) -> None:
        super().roll_back(list(keep)[::-1])


@fault("one-keep-is-the-first-rows", breaks="ROUND-13", trace="full_rows ; begin_round ; decode ; roll_back 0")
class OneKeepIsTheFirstRows(WrongGroup):
    """One number to keep is that of the first row; the others commit."""

    def roll_back(self, keep: Sequence[int]) -> None:
        most = index_group.appended_in_round(self.state)
        super().roll_back([*keep, *[most] * (self.count - 1)] if len(keep) == 1 and self.count else keep)


@fault(
    "rows-do-not-turn",
    breaks="ROUND-3",
    trace="full_rows ; decode ; begin_round ; decode ; roll_back 1,0 ; decode",
)
class RowsDoNotTurn(WrongGroup):
    """A roll back counts every row back, and leaves what one row takes back at the end of its columns."""

    def _close(self, keeps: Sequence[int]) -> None:
        before, rows = self.state, self.rows
        super()._close(keeps)
        if before.starts is not None and len(set(keeps)) > 1:
            there = tuple(range(self.columns))
            self.rows = tuple(evolve(row, planes=row.planes and row.planes.kept(there)) for row in rows)


@fault(
    "rows-turn-one-too-few",
    breaks="ROUND-3",
    trace="full_rows ; decode ; begin_round ; window 2 ; roll_back 2,0 ; decode",
)
class RowsTurnOneTooFew(WrongGroup):
    """A row that takes back more than the others turns by one column too few."""

    def _close(self, keeps: Sequence[int]) -> None:
        super()._close(keeps)
        turned = (*range(1, self.columns), 0)
        self.rows = tuple(
            evolve(row, planes=row.planes.kept(turned)) if row.planes is not None and keep < max(keeps) else row
            for row, keep in zip(self.rows, keeps, strict=True)
        )


@fault(
    "rows-turn-without-a-cut",
    breaks="ROUND-14",
    profile="layout",
    trace="ring_rows window=1 ; begin_round ; window 2 ; roll_back 1,0",
)
class RowsTurnWithoutACut(WrongGroup):
    """What all rows take back is not cut off: it turns to the front of every row, and stays there."""

    def _close(self, keeps: Sequence[int]) -> None:
        state = self.state
        most = index_group.appended_in_round(state)
        cut = most - max(keeps, default=most)
        super()._close(keeps)
        if cut and len(set(keeps)) > 1:
            columns = self.columns
            sources = tuple((*(None,) * cut, *range(columns)) for _ in range(self.count))
            after = evolve(self.state, columns=columns + cut, write_index=columns + cut)
            self.take(index_group.Moved(sources, after), self.rows, self.shape)


# What was there before.


class RoundBlocks(WrongGroup):
    """A group that plans its appends in a round as if it had another start."""

    def started(self, starts: tuple[int, ...], phase: Phase) -> tuple[int, ...] | None:
        """Give the starts by which an append is planned; None for no round."""
        del phase
        return starts

    def plan(self, phase: Phase, length: int) -> index_group.RowsPlan:
        state = self.state
        if state.starts is None:
            return super().plan(phase, length)
        self.state = evolve(state, starts=self.started(state.starts, phase))
        try:
            plan = super().plan(phase, length)
        finally:
            self.state = state
        return evolve(plan, after=evolve(plan.after, starts=state.starts))


@fault(
    "rounds-of-rows-leave-what-a-block-leaves",
    breaks="ROUND-4",
    trace="ring_rows window=2 ; begin_round ; window 2 ; window 1 ; roll_back 1 ; decode",
    report="B18",
)
class RoundsOfRowsLeaveWhatABlockLeaves(RoundBlocks):
    """A block in a round of a group keeps W - 1 columns, whatever was there before the round."""

    def started(self, starts: tuple[int, ...], phase: Phase) -> tuple[int, ...] | None:
        return starts if phase == "decode" else None


@fault(
    "rounds-of-rows-keep-a-window-in-all",
    breaks="ROUND-4",
    trace="ring_rows window=2 ; begin_round ; window 3 ; window 1 ; roll_back 1 ; decode",
)
class RoundsOfRowsKeepAWindowInAll(RoundBlocks):
    """A block in a round of a group keeps W columns, those of the round among them."""

    def started(self, starts: tuple[int, ...], phase: Phase) -> tuple[int, ...] | None:
        return self.state.offsets


@fault(
    "rounds-of-rows-drop-nothing",
    breaks="ROWS-22",
    profile="layout",
    trace="ring_rows window=1 ; window 2 ; begin_round ; decode",
)
class RoundsOfRowsDropNothing(RoundBlocks):
    """In a round a ring group keeps every column that it has."""

    def started(self, starts: tuple[int, ...], phase: Phase) -> tuple[int, ...] | None:
        return tuple(start - self.columns for start in starts)


# What an open round forbids.


def _without_a_round(group: Any, act: Callable[[], Any]) -> Any:
    """Act as if no round were open, and leave it open."""
    starts, group.state = group.state.starts, evolve(group.state, starts=None)
    try:
        return act()
    finally:
        group.state = evolve(group.state, starts=starts)


@fault("rows-are-trimmed-in-a-round", breaks="ROUND-9", profile="layout", trace="full_rows ; begin_round ; trim 0")
class RowsAreTrimmedInARound(WrongGroup):
    """A trim of a group in an open round is carried out."""

    def trim(self, count: int) -> int:
        return _without_a_round(self, lambda: super(RowsAreTrimmedInARound, self).trim(count))


@fault(
    "rows-are-extracted-in-a-round",
    breaks="ROUND-9",
    profile="layout",
    trace="full_rows ; begin_round ; extract 0 as e1",
)
class RowsAreExtractedInARound(WrongGroup):
    """A row may be extracted while its newest positions may still be taken back."""

    def extract(self, row: int) -> Cache:
        return _without_a_round(self, lambda: super(RowsAreExtractedInARound, self).extract(row))


@fault(
    "rows-are-handed-back-in-a-round",
    breaks="ROUND-9",
    profile="layout",
    trace="full_rows ; begin_round ; hand_back 0 as e1",
)
class RowsAreHandedBackInARound(WrongGroup):
    """A row may be handed back while its newest positions may still be taken back."""

    def hand_back(self, row: int) -> Cache:
        return _without_a_round(self, lambda: super(RowsAreHandedBackInARound, self).hand_back(row))


@fault("merges-open-rounds", breaks="ROUND-9", profile="layout", trace="full_rows ; begin_round ; merge c0 as g1")
class MergesOpenRounds(ReferenceAdapter):
    """A merge takes groups with an open round, and has none itself."""

    def merge(self, sources: Sequence[Any]) -> Any:
        twins = [source.clone() for source in sources]
        for twin in twins:
            if isinstance(twin, RowGroup):
                twin.state = evolve(twin.state, starts=None)
        return super().merge(twins)


@fault(
    "merges-caches-in-a-round",
    breaks="ROUND-9",
    profile="layout",
    trace="full_rows rows=1 ; cache as s1 ; begin_round on s1 ; merge s1 as g1",
)
class MergesCachesInARound(ReferenceAdapter):
    """A merge takes serial caches with an open round for rows."""

    def merge(self, sources: Sequence[Any]) -> Any:
        twins = [source.clone() for source in sources]
        for twin in twins:
            if isinstance(twin, Cache):
                twin.round = None
        return super().merge(twins)


@fault(
    "padding-is-announced-in-a-round",
    breaks="ROUND-9",
    profile="layout",
    trace="full_rows rows=1 ; begin_round ; prepare left=1",
)
class PaddingIsAnnouncedInARound(WrongGroup):
    """Padding may be announced while a round is open."""

    def prepare(self, left: Counts = None, lengths: Counts = None, right: Counts = None) -> None:
        _without_a_round(self, lambda: super(PaddingIsAnnouncedInARound, self).prepare(left, lengths, right))


@fault(
    "rounds-begin-before-the-padding-ends",
    breaks="PAD-9",
    profile="layout",
    trace="full_rows rows=1 ; prepare left=1 ; begin_round",
)
class RoundsBeginBeforeThePaddingEnds(WrongGroup):
    """A round may begin while padding is announced."""

    def begin_round(self) -> None:
        if self.state.starts is None and not index_group.is_settled_padding(self.state):
            self.state = index_group.begun(self.state)
        else:
            super().begin_round()


@fault(
    "too-many-keeps-are-cut",
    breaks="ROUND-7",
    profile="layout",
    trace="full_rows rows=1 ; begin_round ; roll_back 0,0",
)
class TooManyKeepsAreCut(WrongGroup):
    """Of more numbers to keep than there are rows the first are taken."""

    def roll_back(self, keep: Sequence[int]) -> None:
        super().roll_back(keep[: max(1, self.count)])


@fault("groups-keep-what-they-can", breaks="ROUND-7", profile="layout", trace="full_rows ; begin_round ; roll_back 0,1")
class GroupsKeepWhatTheyCan(WrongGroup):
    """A row that is told to keep more than was appended keeps all."""

    def roll_back(self, keep: Sequence[int]) -> None:
        most = index_group.appended_in_round(self.state)
        super().roll_back([min(kept, most) for kept in keep])


# Conversion of rows.


@fault(
    "rows-convert-in-a-round",
    breaks="ROUND-11",
    profile="layout",
    trace="full_rows bits=4 start=1 ; begin_round ; decode x2",
)
class RowsConvertInARound(WrongGroup):
    """An append in a round converts the rows that are due before it, as it does outside."""

    def act(self, asked: Asked) -> GroupRead:
        if self.state.starts is not None and not self.prefilling and asked.well_formed:
            self.rows = self.settled(range(self.count))
        return super().act(asked)


@fault(
    "rows-begin-in-half-precision",
    breaks="ROUND-11",
    profile="layout",
    trace="full_rows bits=4 start=1 ; decode ; begin_round",
)
class RowsBeginInHalfPrecision(WrongGroup):
    """Rows that are due go into a round in half precision."""

    def begin_round(self) -> None:
        was, self.prefilling = self.prefilling, True
        try:
            super().begin_round()
        finally:
            self.prefilling = was


@fault(
    "rounds-begin-outside-the-bracket",
    breaks="ROUND-11",
    profile="layout",
    trace="full_rows bits=4 start=1 ; begin_prefill ; decode ; begin_round",
)
class RoundsBeginOutsideTheBracket(WrongGroup):
    """Rows that are due convert when a round begins, in the prefill bracket too."""

    def begin_round(self) -> None:
        was, self.prefilling = self.prefilling, False
        try:
            super().begin_round()
        finally:
            self.prefilling = was


@fault(
    "rows-convert-by-what-is-taken-back",
    breaks="ROUND-11",
    profile="layout",
    trace="full_rows bits=4 start=1 ; begin_round ; decode ; roll_back 0",
)
class RowsConvertByWhatIsTakenBack(WrongGroup):
    """The end of a round converts the rows that are due, and takes back then."""

    def _close(self, keeps: Sequence[int]) -> None:
        if self.state.starts is not None and not self.prefilling:
            self.rows = self.settled(range(self.count))
        super()._close(keeps)


@fault(
    "rows-wait-for-the-next-append",
    breaks="ROUND-11",
    profile="layout",
    trace="full_rows bits=4 start=1 ; begin_round ; decode ; commit_round",
)
class RowsWaitForTheNextAppend(WrongGroup):
    """The end of a round converts no row; the next append converts them."""

    def _close(self, keeps: Sequence[int]) -> None:
        was, self.prefilling = self.prefilling, True
        try:
            super()._close(keeps)
        finally:
            self.prefilling = was


# Whether a round is open.


@fault("a-filter-ends-the-round", breaks="ROUND-16", profile="layout", trace="full_rows ; begin_round ; filter 0")
class AFilterEndsTheRound(WrongGroup):
    """A filter closes the round of the rows that are left."""

    def filter(self, rows: Sequence[int]) -> None:
        super().filter(rows)
        self.state = evolve(self.state, starts=None)


@fault(
    "clones-of-groups-have-no-round", breaks="ROUND-16", profile="layout", trace="full_rows ; begin_round ; clone as c1"
)
class ClonesOfGroupsHaveNoRound(WrongGroup):
    """A clone of a group with an open round has none."""

    def clone(self) -> RowGroup:
        twin = super().clone()
        twin.state = evolve(twin.state, starts=None)
        return twin


@fault(
    "reset-leaves-the-round-of-a-group", breaks="ROUND-16", profile="layout", trace="full_rows ; begin_round ; reset"
)
class ResetLeavesTheRoundOfAGroup(WrongGroup):
    """A reset empties the rows, and the round that was open goes on."""

    def reset(self) -> None:
        was_open = self.state.starts is not None
        super().reset()
        self.state = index_group.begun(self.state) if was_open else self.state


@fault(
    "filtered-rows-keep-the-starts-of-others",
    breaks="ROUND-2",
    trace="full_rows ; prepare left=1,0 ; window 2 ; begin_round ; filter 1,0 ; roll_back 0",
)
class FilteredRowsKeepTheStartsOfOthers(WrongGroup):
    """A filter in a round leaves the starts of the rows where they were; a roll back goes to them."""

    def filter(self, rows: Sequence[int]) -> None:
        starts = self.state.starts
        super().filter(rows)
        if starts is not None and self.count:
            self.state = evolve(self.state, starts=starts[: self.count])

    def _close(self, keeps: Sequence[int]) -> None:
        starts = self.state.starts
        super()._close(keeps)
        if starts is not None:
            self.state = evolve(self.state, offsets=tuple(s + k for s, k in zip(starts, keeps, strict=True)))
