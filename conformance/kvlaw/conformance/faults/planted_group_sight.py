"""Faults of what rows see: a row reads as if it were alone, whoever stands beside it (ROWS-1, ROWS-2, ROWS-7, MASK)."""

from attrs import evolve

from kvlaw.conformance.faults.parts import Asked, WrongGroup
from kvlaw.conformance.faults.registry import fault
from kvlaw.reference import index_group
from kvlaw.reference.layout import MaskValue
from kvlaw.reference.layout_group import GroupRead, Row
from kvlaw.spec.calls import Phase
from kvlaw.spec.config import LayerSpec


@fault("every-row-reads-the-first", breaks="ROWS-1", trace="full_rows ; decode", report="B49")
class EveryRowReadsTheFirst(WrongGroup):
    """All rows are served the columns of the first."""

    def act(self, asked: Asked) -> GroupRead:
        read = super().act(asked)
        first = read.rows[0]
        return evolve(read, rows=tuple(evolve(row, keys=first.keys, values=first.values) for row in read.rows))


@fault("packs-in-another-order", breaks="ROWS-1", trace="full_rows bits=4 start=1 ; decode x2")
class PacksInAnotherOrder(WrongGroup):
    """The rows of a group are packed in the opposite order of the rows that ask."""

    def act(self, asked: Asked) -> GroupRead:
        read = super().act(asked)
        if self.storage != "packed":
            return read
        pairs = zip(read.rows, reversed(read.rows), strict=True)
        return evolve(read, rows=tuple(evolve(own, keys=o.keys, values=o.values) for own, o in pairs))


@fault(
    "masks-by-the-longest-row",
    breaks="ROWS-1",
    trace="full_rows rows=1 ; window 1 ; cache as s1 ; window 3 on s1 ; merge c0 s1 as g1 ; decode on g1",
    report="B46",
)
class MasksByTheLongestRow(WrongGroup):
    """Every row is masked from the offset of the longest, so that dead columns of the others are seen."""

    def sees(self, b: int, length: int, phase: Phase, query: int, column: int, window: int | None) -> bool:
        longest = max(range(self.count), key=lambda row: self.offsets[row])
        return super().sees(longest, length, phase, query, column, window)


@fault(
    "an-idle-row-is-written-over",
    breaks="ROWS-2",
    trace="full_rows ; prepare lengths=1,2 right=1,0 ; window 1 x2 ; finalize ; decode",
    report="B48",
)
class AnIdleRowIsWrittenOver(WrongGroup):
    """Padding is written over the newest position of a row that gets no token in an append."""

    def act(self, asked: Asked) -> GroupRead:
        idle = [b for b in range(self.count) if not index_group.real(self.state, b, asked.length) and self.offsets[b]]
        read = super().act(asked)
        self.rows = tuple(self._spoilt(b) if b in idle else row for b, row in enumerate(self.rows))
        return read

    def _spoilt(self, b: int) -> Row:
        columns = list(range(self.columns))
        newest = self.write_index - index_group.overrun(self.state, b) - 1
        columns[newest] = self.write_index - 1
        return evolve(self.rows[b], planes=self.planes(b).kept(tuple(columns)))


@fault("a-group-forgets-its-sinks", breaks="ROWS-7", trace="ring_rows window=2 sinks=1 ; window 3", report="B22")
class AGroupForgetsItsSinks(WrongGroup):
    """A group is built with sinks, and overwrites them like any other position."""

    def __init__(self, layer: LayerSpec, rows: int = 0) -> None:
        super().__init__(evolve(layer, sinks=0), rows)


# Masks.


@fault("blocks-always-take-an-array", breaks="MASK-14", profile="layout", trace="full_rows ; window 2")
class BlocksAlwaysTakeAnArray(WrongGroup):
    """The mask of a window is an array, also where no row needs one."""

    def mask(self, length: int, phase: Phase, window: int | None = None, array: bool = False) -> MaskValue:
        return super().mask(length, phase, window, array or phase == "window")


@fault("decodes-always-take-an-array", breaks="MASK-15", profile="layout", trace="full_rows ; decode")
class DecodesAlwaysTakeAnArray(WrongGroup):
    """The mask of a decode is an array, also where no row needs one."""

    def mask(self, length: int, phase: Phase, window: int | None = None, array: bool = False) -> MaskValue:
        return super().mask(length, phase, window, array or phase == "decode")


class DecodeMaskFault(WrongGroup):
    """A group whose decodes see a column by the place that ``place`` gives it."""

    def sees(self, b: int, length: int, phase: Phase, query: int, column: int, window: int | None) -> bool:
        if phase == "window":
            return super().sees(b, length, phase, query, column, window)
        width = index_group.decode_width(self.state.window, index_group.active(self.state))
        obeyed = index_group.obeyed_window(self.state.window, window)
        return index_group.row_sees_decode(width, self.place(b, column), self.state.offsets[b], obeyed)

    def place(self, b: int, column: int) -> int:
        """Give the place in temporal order."""
        raise NotImplementedError


@fault(
    "masks-a-turned-ring-from-column-0",
    breaks="MASK-16",
    trace="ring_rows window=4 ; prepare left=3,0 ; window 4 ; decode",
    report="B46",
)
class MasksATurnedRingFromColumn0(DecodeMaskFault):
    """A decode hides as many columns as a row has dead ones, from the first one on, also when the ring has turned."""

    def place(self, b: int, column: int) -> int:
        return column


@fault(
    "a-turned-ring-hides-one-more",
    breaks="MASK-16",
    trace="ring_rows window=5 ; prepare left=3,0 ; window 5 ; decode ; window 1",
    report="B108",
)
class ATurnedRingHidesOneMore(WrongGroup):
    """After a turn of the ring the mask of a block hides one position of every row that still has padding."""

    def sees(self, b: int, length: int, phase: Phase, query: int, column: int, window: int | None) -> bool:
        seen = super().sees(b, length, phase, query, column, window)
        past = index_group.past_of_block(self.state)
        padded = phase == "window" and self.state.rotated and past > self.offsets[b]
        return seen and not (padded and column == past - self.offsets[b])


@fault(
    "padding-is-counted-when-it-joins",
    breaks="MASK-16",
    trace="ring_rows window=4 ; prepare left=2,0 ; window 4 ; window 1",
    report="B108",
)
class PaddingIsCountedWhenItJoins(WrongGroup):
    """The number of dead columns of a row is kept, and not lowered when the oldest columns of the ring go."""

    def sees(self, b: int, length: int, phase: Phase, query: int, column: int, window: int | None) -> bool:
        seen = super().sees(b, length, phase, query, column, window)
        return seen and not (phase == "window" and column < index_group.left_pad(self.state, b))


@fault(
    "a-packed-group-needs-no-mask",
    breaks="MASK-17",
    trace="full_rows bits=4 rows=1 ; decode ; cache as s1 ; window 2 on s1 ; merge c0 s1 as g1 ; decode on g1",
)
class APackedGroupNeedsNoMask(WrongGroup):
    """A decode over codes alone is not masked, whatever its rows have for padding."""

    def mask(self, length: int, phase: Phase, window: int | None = None, array: bool = False) -> MaskValue:
        mask = super().mask(length, phase, window, array)
        return None if phase == "decode" and self.storage in ("affine", "packed") else mask
