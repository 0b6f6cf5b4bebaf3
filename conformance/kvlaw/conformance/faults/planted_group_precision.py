"""Faults of when the rows of a group convert: appends, trims, the prefill bracket, joins (PREC-16 to PREC-24)."""

from collections.abc import Sequence
from typing import Any

from attrs import evolve

from kvlaw.conformance.faults.parts import Asked, GroupAdapter, WrongGroup
from kvlaw.conformance.faults.registry import fault
from kvlaw.reference.codes import Codec
from kvlaw.reference.layout import Cache, Planes
from kvlaw.reference.layout_group import GroupRead, Row, RowGroup

Counts = Sequence[int] | None


class SettlingGroup(WrongGroup):
    """A group that faults can settle."""

    def settle_all(self) -> None:
        """Convert every row that is due."""
        self.rows = self.settled(range(self.count))


@fault(
    "rows-convert-at-the-end",
    breaks="PREC-16",
    profile="layout",
    trace="full_rows bits=4 start=1 ; decode",
    report="B60",
)
class RowsConvertAtTheEnd(SettlingGroup):
    """A row converts at the end of the append that makes it due, as a serial cache does."""

    def act(self, asked: Asked) -> GroupRead:
        read = super().act(asked)
        if not self.prefilling:
            self.settle_all()
        return read


@fault(
    "trims-convert-nothing", breaks="PREC-17", profile="layout", trace="full_rows bits=4 start=2 ; window 2 ; trim 1"
)
class TrimsConvertNothing(WrongGroup):
    """A row that is due is trimmed in half precision."""

    def trim(self, count: int) -> int:
        was, self.prefilling = self.prefilling, True
        try:
            return super().trim(count)
        finally:
            self.prefilling = was


@fault("refused-trims-convert", breaks="ERR-1", profile="layout", trace="full_rows bits=4 start=2 ; window 2 ; trim 3")
class RefusedTrimsConvert(SettlingGroup):
    """A trim converts the rows that are due, and finds then that it cannot be done."""

    def trim(self, count: int) -> int:
        if type(count) is int and not self.prefilling:
            self.settle_all()
        return super().trim(count)


# The bracket.


@fault(
    "the-bracket-is-not-heeded",
    breaks="PREC-18",
    trace="full_rows bits=4 start=1 ; begin_prefill ; decode x2",
    report="B60",
)
class TheBracketIsNotHeeded(WrongGroup):
    """Appends convert rows in the prefill bracket as they do outside it."""

    def act(self, asked: Asked) -> GroupRead:
        was, self.prefilling = self.prefilling, False
        try:
            return super().act(asked)
        finally:
            self.prefilling = was


@fault("the-bracket-begins-unsettled", breaks="PREC-18", trace="full_rows bits=4 start=1 ; decode ; begin_prefill")
class TheBracketBeginsUnsettled(WrongGroup):
    """Rows that are due when the bracket opens wait for its end."""

    def begin_prefill(self) -> None:
        self.prefilling = True


@fault(
    "a-commit-converts-every-row",
    breaks="PREC-19",
    trace="full_rows bits=4 start=1 ; begin_prefill ; decode ; commit_prefill 0",
)
class ACommitConvertsEveryRow(WrongGroup):
    """A commit converts all rows that are due, named or not."""

    def commit_prefill(self, rows: Sequence[int]) -> None:
        super().commit_prefill([*rows, *range(self.count)])


@fault(
    "commits-rows-that-are-not-there",
    breaks="PREC-19",
    profile="layout",
    trace="full_rows bits=4 start=1 ; commit_prefill 2",
)
class CommitsRowsThatAreNotThere(WrongGroup):
    """A commit passes over rows that are not there."""

    def commit_prefill(self, rows: Sequence[int]) -> None:
        super().commit_prefill([row for row in rows if 0 <= row < self.count])


@fault(
    "the-end-of-the-bracket-converts",
    breaks="PREC-20",
    profile="layout",
    trace="full_rows bits=4 start=1 ; begin_prefill ; decode ; end_prefill",
)
class TheEndOfTheBracketConverts(SettlingGroup):
    """When the bracket closes every row that is due converts."""

    def end_prefill(self) -> None:
        super().end_prefill()
        self.settle_all()


# Handed back, joined, extracted.


@fault("hands-back-what-is-due", breaks="PREC-21", trace="full_rows bits=4 start=1 ; decode ; hand_back 0 as h1")
class HandsBackWhatIsDue(WrongGroup):
    """A row is handed back in half precision although it has reached its start."""

    def hand_back(self, row: int) -> Cache:
        cache = super().extract(row)
        cache.layer = self.layer.serial
        return cache


@fault(
    "joins-a-bracket-unsettled",
    breaks="PREC-22",
    profile="layout",
    trace="full_rows rows=1 bits=4 start=1 ; decode ; extract 0 as e1 ; begin_prefill ; merge c0 e1 as g1",
)
class JoinsABracketUnsettled(GroupAdapter):
    """A row that is due joins an open bracket in half precision."""

    def merge(self, sources: Sequence[Any]) -> Any:
        brackets = [source.prefilling for source in sources if isinstance(source, RowGroup)]
        closed = [_closed(source) for source in sources]
        group = super().merge(closed)
        group.prefilling = any(brackets)
        return group


def _closed(source: Any) -> Any:
    if not isinstance(source, RowGroup):
        return source
    twin = source.clone()
    twin.prefilling = False
    return twin


@fault(
    "every-merge-converts",
    breaks="PREC-22",
    profile="layout",
    trace="full_rows rows=1 bits=4 start=1 ; decode ; merge c0 as g1",
)
class EveryMergeConverts(GroupAdapter):
    """A merge converts every row that is due, bracket or not."""

    def merge(self, sources: Sequence[Any]) -> Any:
        group: RowGroup = super().merge(sources)
        group.rows = group.settled(range(group.count))
        return group


@fault(
    "extracted-rows-go-on-converting",
    breaks="PREC-23",
    profile="layout",
    trace="full_rows bits=4 start=2 ; decode ; extract 0 as e1",
)
class ExtractedRowsGoOnConverting(WrongGroup):
    """An extracted row has the policy of its group, and converts when it is due."""

    def extract(self, row: int) -> Cache:
        return super().hand_back(row)


# What moves rows.


@fault("filters-convert", breaks="PREC-24", trace="full_rows bits=4 start=1 ; decode ; filter 0")
class FiltersConvert(SettlingGroup):
    """A filter converts the rows that are due."""

    def filter(self, rows: Sequence[int]) -> None:
        super().filter(rows)
        self.settle_all()


@fault(
    "prepare-converts", breaks="PREC-24", trace="full_rows bits=4 start=1 ; decode ; prepare lengths=1,1", report="B61"
)
class PrepareConverts(SettlingGroup):
    """The announcement of a prompt converts the rows that are due."""

    def prepare(self, left: Counts = None, lengths: Counts = None, right: Counts = None) -> None:
        super().prepare(left, lengths, right)
        self.settle_all()


@fault(
    "finalize-leaves-the-scales",
    breaks="PREC-7",
    profile="layout",
    trace="full_rows bits=4 stamp=random ; prepare lengths=1,2 right=1,0 ; window 2 ; finalize",
    report="B55",
)
class FinalizeLeavesTheScales(WrongGroup):
    """Finalize moves the words of codes, and leaves their scales and biases where they were."""

    def finalize(self) -> None:
        before = self.rows
        super().finalize()
        if self.shape is not None and self.columns:
            codec = self.shape.codec(self.layer)
            pairs = zip(self.rows, before, strict=True)
            self.rows = tuple(_with_scales_of(row, old, codec, self.columns) for row, old in pairs)


def _with_scales_of(row: Row, old: Row, codec: Codec, columns: int) -> Row:
    if not row.coded or row.planes is None or old.planes is None:
        return row
    keys, values = row.planes.keys.copy(), row.planes.values.copy()
    words = codec.split("keys", keys).words.shape[-1], codec.split("values", values).words.shape[-1]
    keys[..., words[0] :] = old.planes.keys[:, :, :columns, words[0] :]
    values[..., words[1] :] = old.planes.values[:, :, :columns, words[1] :]
    return evolve(row, planes=Planes(keys, values))


@fault(
    "the-bracket-stays-open",
    breaks="PREC-16",
    profile="layout",
    trace="full_rows bits=4 start=1 ; begin_prefill ; decode ; end_prefill ; decode",
    report="B60",
)
class TheBracketStaysOpen(WrongGroup):
    """The end of the bracket is not noted, and no append converts a row any more."""

    def end_prefill(self) -> None:
        """Forget it."""
