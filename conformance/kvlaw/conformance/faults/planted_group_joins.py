"""Faults of merges: rows come in as they were, and their sources stay as they are (ROWS-3 to ROWS-9)."""

from collections.abc import Sequence
from typing import Any

from attrs import evolve

from kvlaw.conformance.faults.parts import GroupAdapter
from kvlaw.conformance.faults.registry import fault
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.reference import index_group
from kvlaw.reference.layout import Cache, Refusal
from kvlaw.reference.layout_group import RowGroup
from kvlaw.spec.calls import AppendName
from kvlaw.spec.config import LayerSpec

_TWO = "rows=1 ; window 1 ; cache as s1 ; window 2 on s1 ; merge c0 s1 as g1"


@fault("merges-the-longest-first", breaks="ROWS-3", trace=f"ring_rows window=4 {_TWO}", report="B13")
class MergesTheLongestFirst(ReferenceAdapter):
    """The rows of a merge are ordered by length."""

    def merge(self, sources: Sequence[Any]) -> Any:
        return super().merge(sorted(sources, key=_longest, reverse=True))


def _longest(source: Any) -> int:
    return max(source.offsets, default=0) if isinstance(source, RowGroup) else int(source.offset)


@fault(
    "empty-rows-are-left-out",
    breaks="ROWS-3",
    trace="full_rows rows=1 ; window 1 ; cache as s1 ; merge c0 s1 as g1",
    report="B31",
)
class EmptyRowsAreLeftOut(ReferenceAdapter):
    """A merge leaves out what holds no positions."""

    def merge(self, sources: Sequence[Any]) -> Any:
        return super().merge([source for source in sources if _longest(source)] or sources)


@fault(
    "merges-the-head-of-a-row",
    breaks="ROWS-3",
    trace="ring_rows window=2 rows=0 ; cache as s1 ; window 3 on s1 ; merge s1 s1 as g1 ; decode on g1",
    report="B15",
)
class MergesTheHeadOfARow(ReferenceAdapter):
    """A row that is longer than the window joins with its oldest columns, not its newest."""

    def merge(self, sources: Sequence[Any]) -> Any:
        return super().merge([_headed(source) for source in sources])


def _headed(source: Any) -> Any:
    window = source.layer.window
    if not isinstance(source, Cache) or window is None or source.columns <= window or source.planes is None:
        return source
    twin = source.clone()
    twin.planes = source.planes.kept((*range(source.columns - window), *range(window)))
    return twin


@fault(
    "a-group-stays-tied-to-its-source",
    breaks="ROWS-4",
    trace="ring_rows window=3 rows=1 ; window 3 ; merge c0 as g1 ; decode x2 ; decode on g1",
    report="B84",
)
class AGroupStaysTiedToItsSource(GroupAdapter):
    """The rows of a merged group go on as views of the planes of their source."""

    def __init__(self) -> None:
        super().__init__()
        self.ties: list[tuple[RowGroup, RowGroup]] = []

    def merge(self, sources: Sequence[Any]) -> Any:
        group: RowGroup = super().merge(sources)
        if len(sources) == 1 and isinstance(sources[0], RowGroup):
            self.ties.append((sources[0], group))
        return group

    def append(self, cache: Any, keys: Any, values: Any, phase: AppendName, window: int | None, array: bool) -> Any:
        read = super().append(cache, keys, values, phase, window, array)
        for source, group in self.ties:
            if source is cache and source.columns == group.columns:
                group.rows = source.rows
        return read


@fault("merge-empties-its-sources", breaks="ROWS-4", trace="full_rows rows=1 ; decode ; merge c0 as g1 ; look c0")
class MergeEmptiesItsSources(ReferenceAdapter):
    """What was merged is moved into the new group, and its source is empty."""

    def merge(self, sources: Sequence[Any]) -> Any:
        group = super().merge(sources)
        for source in sources:
            source.reset()
        return group


@fault(
    "a-single-row-is-laid-out-anew",
    breaks="ROWS-5",
    profile="layout",
    trace="ring_rows window=4 rows=0 ; cache as s1 ; window 5 on s1 ; merge s1 as g1",
)
class ASingleRowIsLaidOutAnew(ReferenceAdapter):
    """A merge of one row makes it compact, as it does with several."""

    def merge(self, sources: Sequence[Any]) -> Any:
        group: RowGroup = super().merge(sources)
        if group.count == 1:
            columns = index_group.extracted(group.state, 0)
            after = evolve(group.state, columns=len(columns), write_index=len(columns), rotated=False)
            group.take(index_group.Moved((columns,), after), group.rows, group.shape)
        return group


@fault(
    "sized-by-all-that-rows-have-seen",
    breaks="ROWS-6",
    profile="layout",
    trace="ring_rows window=2 rows=1 ; window 1 ; cache as s1 ; window 3 on s1 ; merge c0 s1 as g1",
    report="B13",
)
class SizedByAllThatRowsHaveSeen(ReferenceAdapter):
    """A merged group has as many columns as its longest row has seen tokens, not as it holds."""

    def merge(self, sources: Sequence[Any]) -> Any:
        group: RowGroup = super().merge(sources)
        more = max(group.offsets, default=0) - group.columns
        if group.count > 1 and more > 0:
            kept = (*(None,) * more, *range(group.columns))
            after = evolve(group.state, columns=len(kept), write_index=len(kept))
            group.take(index_group.Moved((kept,) * group.count, after), group.rows, group.shape)
        return group


# What does not go together.


@fault("merges-nothing", breaks="ROWS-8", profile="layout", trace="ring_rows window=4 rows=1 ; merge as g1")
class MergesNothing(ReferenceAdapter):
    """A merge of no source makes a group without rows."""

    def merge(self, sources: Sequence[Any]) -> Any:
        return super().merge(sources) if sources else RowGroup(self.config.layer)


@fault(
    "codes-join-dense-rows",
    breaks="ROWS-8",
    profile="layout",
    trace="full_rows rows=1 bits=4 start=1 ; decode ; extract 0 as e1 ; decode ; extract 0 as e2 ; merge e1 e2 as g1",
)
class CodesJoinDenseRows(ReferenceAdapter):
    """Dense rows are taken into a group of codes as they are, and kept dense."""

    def merge(self, sources: Sequence[Any]) -> Any:
        layers = {source.layer.policy for source in sources}
        if layers == {"dense", "affine"}:
            coded = next(source for source in sources if source.layer.policy == "affine")
            group = super().merge([coded])
            group.layer = evolve(group.layer, start="never")
            return super().merge([source for source in sources if source.layer.policy == "dense"] + [group])
        return super().merge(sources)


@fault(
    "takes-padded-sources",
    breaks="PAD-9",
    profile="layout",
    trace="full_rows ; prepare lengths=2,1 right=0,1 ; window 2 ; merge c0 as g1",
    report="B39",
)
class TakesPaddedSources(ReferenceAdapter):
    """A group whose padding pends is merged as if its prompt had ended."""

    def merge(self, sources: Sequence[Any]) -> Any:
        return super().merge([_finalized(source) for source in sources])


def _finalized(source: Any) -> Any:
    if not isinstance(source, RowGroup):
        return source
    twin = source.clone()
    twin.finalize()
    return twin


# Empty rows.


@fault(
    "an-empty-row-joins-at-the-width",
    breaks="ROWS-9",
    trace="full_rows rows=1 ; window 2 ; cache as s1 ; merge c0 s1 as g1",
    report="B30",
)
class AnEmptyRowJoinsAtTheWidth(ReferenceAdapter):
    """An empty row that joins stands at the width of the group, as if its dead columns were positions."""

    def merge(self, sources: Sequence[Any]) -> Any:
        group: RowGroup = super().merge(sources)
        offsets = tuple(offset or group.columns for offset in group.offsets)
        group.state = evolve(group.state, offsets=offsets)
        return group


@fault(
    "an-empty-source-is-refused",
    breaks="ROWS-3",
    trace="ring_rows window=4 rows=1 ; window 1 ; cache as s1 ; merge c0 s1 as g1",
    report="B30",
)
class AnEmptySourceIsRefused(ReferenceAdapter):
    """A merge asks every source for its shape, and refuses one that has none."""

    def merge(self, sources: Sequence[Any]) -> Any:
        if any(not source.columns for source in sources):
            raise Refusal("a source without tensors has no shape")
        return super().merge(sources)


class LaxMerge(GroupAdapter):
    """Takes sources by a layer that ``taken`` makes of theirs, and leaves the sources as they were."""

    def merge(self, sources: Sequence[Any]) -> Any:
        layers = [source.layer for source in sources]
        for source in sources:
            source.layer = self.taken(source.layer)
        try:
            return super().merge(sources)
        finally:
            for source, layer in zip(sources, layers, strict=True):
                source.layer = layer

    def taken(self, layer: LayerSpec) -> LayerSpec:
        """Give the layer that is looked at."""
        raise NotImplementedError


@fault(
    "sinks-are-merged-away",
    breaks="ROWS-7",
    profile="layout",
    trace="ring_rows window=2 rows=0 ; cache ring window=2 sinks=1 as s1 ; merge s1 as g1",
    report="B22",
)
class SinksAreMergedAway(LaxMerge):
    """A ring with sinks joins a group, which pins none."""

    def taken(self, layer: LayerSpec) -> LayerSpec:
        return evolve(layer, sinks=0)


@fault(
    "starts-are-merged-away",
    breaks="ROWS-8",
    profile="layout",
    trace="full_rows bits=4 start=2 ; cache full bits=4 start=3 as s1 ; merge c0 s1 as g1",
)
class StartsAreMergedAway(LaxMerge):
    """Rows of another start join, and take that of the group."""

    def taken(self, layer: LayerSpec) -> LayerSpec:
        return evolve(layer, start=self.config.start) if layer.policy == "bf16_first" else layer


@fault(
    "codecs-are-merged-away",
    breaks="ROWS-8",
    profile="layout",
    trace="full_rows bits=4 ; cache full bits=8 as s1 ; merge c0 s1 as g1",
    report="B127",
)
class CodecsAreMergedAway(LaxMerge):
    """Rows of other bits join, as long as they are empty."""

    def taken(self, layer: LayerSpec) -> LayerSpec:
        return evolve(layer, bits=self.config.bits, value_bits=self.config.value_bits) if layer.bits else layer


@fault(
    "windows-are-merged-away",
    breaks="ROWS-8",
    profile="layout",
    trace="ring_rows window=2 ; cache ring window=3 as s1 ; merge c0 s1 as g1",
)
class WindowsAreMergedAway(LaxMerge):
    """A ring of another window joins, and takes that of the group."""

    def taken(self, layer: LayerSpec) -> LayerSpec:
        return evolve(layer, window=self.config.window) if layer.window is not None else layer


@fault(
    "dense-rows-join-that-codes-cannot-hold",
    breaks="ROWS-8",
    profile="layout",
    trace="full_rows bits=4 group=128 start=2 ; cache full as s1 ; decode on s1 ; merge c0 s1 as g1",
)
class DenseRowsJoinThatCodesCannotHold(GroupAdapter):
    """Dense rows join a group whose codes cannot hold their head dims; it is told when they convert."""

    def merge(self, sources: Sequence[Any]) -> Any:
        coded = [source for source in sources if source.layer.bits is not None]
        dense = [source for source in sources if source.layer.bits is None]
        if not dense or not any(source.layer.policy == "bf16_first" for source in coded):
            return super().merge(sources)
        group = super().merge(dense)
        group.layer = coded[0].layer.grouped
        return group


@fault(
    "a-turned-row-joins-as-it-lies",
    breaks="ROWS-6",
    profile="layout",
    trace="ring_rows window=3 rows=1 ; decode x4 ; merge c0 c0 as g1",
)
class ATurnedRowJoinsAsItLies(GroupAdapter):
    """Of a ring that has turned the columns join in their physical order."""

    def merge(self, sources: Sequence[Any]) -> Any:
        return super().merge(sources if len(sources) == 1 else [_unturned(source) for source in sources])


def _unturned(source: Any) -> Any:
    twin = source.clone()
    if getattr(twin.state, "rotated", False):
        twin.state = evolve(twin.state, rotated=False, write_index=twin.columns)
    return twin


@fault(
    "neighbours-of-one-width-join-as-one",
    breaks="ROWS-6",
    profile="layout",
    trace="full_rows rows=3 ; prepare left=0,0,1 ; window 2 ; merge c0 c0 as g1",
)
class NeighboursOfOneWidthJoinAsOne(GroupAdapter):
    """Rows of a source that hold the same columns are copied in one go, all from the last of them."""

    def merge(self, sources: Sequence[Any]) -> Any:
        group: RowGroup = super().merge(sources)
        rows = list(group.rows)
        for b in range(len(rows) - 1, 0, -1):
            if len(sources) > 1 and group.offsets[b - 1] == group.offsets[b]:
                rows[b - 1] = evolve(rows[b - 1], planes=rows[b].planes)
        group.rows = tuple(rows)
        return group
