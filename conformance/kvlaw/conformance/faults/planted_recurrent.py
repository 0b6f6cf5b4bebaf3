"""Faults of recurrent layers: what is kept of positions, taken back, moved with rows, and refused (REC-1 to REC-18)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import evolve
from numpy.typing import NDArray

from kvlaw.conformance.faults.registry import fault
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.conformance.subjects.oracle_files import FileFormat
from kvlaw.conformance.subjects.oracle_recurrent import RecurrentLayer
from kvlaw.reference.layout import Refusal
from kvlaw.reference.numerics import Bits, decode, encode
from kvlaw.reference.numerics.gated_delta import Inputs
from kvlaw.reference.recurrent import Numbers, Recurrent, Row
from kvlaw.spec.observations import StateView


def _counted(rows: Recurrent, inputs: Bits) -> NDArray[np.bool_]:
    """Say which columns of an advance count, [B, L]; of inputs of another rank, which are refused, none."""
    return rows.counts(inputs.shape[1]) if inputs.ndim == 3 else np.ones((0, 0), np.bool_)  # [B, L, C]


# Positions.


@fault("counts-from-the-second-position", breaks="REC-1", trace="recurrent ; advance 1")
class CountsFromTheSecondPosition(Recurrent):
    """The first position of a row is not counted."""

    @property
    def offsets(self) -> tuple[int, ...]:
        return tuple(max(0, offset - 1) if offset > 0 else offset for offset in super().offsets)


@fault("outputs-one-position-late", breaks="REC-2", trace="recurrent ; advance 3")
class OutputsOnePositionLate(Recurrent):
    """An output is that of the position before, the first of an advance is zeros."""

    def advance(self, inputs: Bits, projected: Inputs) -> Bits:
        outputs = super().advance(inputs, projected)
        return np.concatenate([np.zeros_like(outputs[:, :1]), outputs[:, :-1]], axis=1)


@fault("the-tail-stays-at-the-first", breaks="REC-3", trace="recurrent conv=2 ; advance 2")
class TheTailStaysAtTheFirst(Recurrent):
    """The tail holds the first inputs of the row for ever."""

    def tail(self, row: int) -> Bits:
        held = self.rows[row]
        self.rows[row] = held.first(self.kernel - 1)
        tail = super().tail(row)
        self.rows[row] = held
        return tail


@fault("chunks-begin-with-zeros", breaks="REC-4", trace="recurrent ; advance 1 ; advance 2", report="B75")
class ChunksBeginWithZeros(Recurrent):
    """An advance of several positions begins with a matrix of zeros."""

    def advance(self, inputs: Bits, projected: Inputs) -> Bits:
        if inputs.ndim == 3 and inputs.shape[1] > 1:  # [B, L, C]
            self.rows = [Row(row.inputs) for row in self.rows]
        return super().advance(inputs, projected)


@fault("bytes-by-the-position", breaks="REC-5", trace="recurrent ; advance 1 ; advance 1", profile="layout")
class BytesByThePosition(RecurrentLayer):
    """Bytes are reported for every position but the first, as of keys and values."""

    def show(self) -> StateView:
        view = super().show()
        return evolve(view, nbytes=(view.nbytes or 0) + 8 * max((*self.rows.offsets, 1)) - 8)


@fault("rows-share-their-bytes", breaks="REC-5", trace="recurrent_rows ; advance 1 ; advance 1", profile="layout")
class RowsShareTheirBytes(RecurrentLayer):
    """The bytes of a group halve with every position but the first."""

    def show(self) -> StateView:
        view = super().show()
        return evolve(view, nbytes=(view.nbytes or 0) >> (max((*self.rows.offsets, 1)) - 1))


# Rounds.


@fault("replays-one-more", breaks="REC-6", trace="recurrent ; begin_round ; advance 1 ; roll_back 0", report="B70")
class ReplaysOneMore(Recurrent):
    """A roll back plays one position more than it was told to keep."""

    def roll_back(self, keeps: Numbers) -> None:
        kept = [min(keep + 1, self.appended) if 0 <= keep <= self.appended else keep for keep in keeps]
        super().roll_back(kept)


@fault("the-tail-is-not-rolled-back", breaks="REC-6", trace="recurrent ; begin_round ; advance 2 ; roll_back 1")
class TheTailIsNotRolledBack(Recurrent):
    """A roll back restores the matrix alone."""

    left: dict[int, Bits]

    def roll_back(self, keeps: Numbers) -> None:
        before = {} if self.shapes is None else {b: self.tail(b) for b in range(len(self.rows))}
        super().roll_back(keeps)
        self.left = before

    def advance(self, inputs: Bits, projected: Inputs) -> Bits:
        self.left = {}
        return super().advance(inputs, projected)

    def tail(self, row: int) -> Bits:
        left: dict[int, Bits] = getattr(self, "left", {})
        return left[row] if row in left else super().tail(row)


@fault("commit-takes-the-last-back", breaks="REC-6", trace="recurrent ; begin_round ; advance 1 ; commit_round")
class CommitTakesTheLastBack(Recurrent):
    """A commit takes the newest position of a round back."""

    def commit_round(self) -> None:
        self.roll_back([max(0, self.appended - 1)] * len(self.rows))


@fault(
    "all-rows-keep-what-the-first-keeps",
    breaks="REC-6",
    trace="recurrent_rows ; begin_round ; advance 1 ; roll_back 0,1",
)
class AllRowsKeepWhatTheFirstKeeps(Recurrent):
    """Every row keeps as much of a round as row 0."""

    def roll_back(self, keeps: Numbers) -> None:
        super().roll_back([keeps[0]] * len(keeps) if keeps else keeps)


# Rows.


@fault("every-row-is-the-first", breaks="REC-7", trace="recurrent_rows ; advance 1")
class EveryRowIsTheFirst(Recurrent):
    """The first row's inputs are broadcast over the batch."""

    def tail(self, row: int) -> Bits:
        return super().tail(0)


@fault(
    "padding-in-the-tail",
    breaks="REC-8",
    trace="recurrent_rows conv=2 ; prepare lengths=1,2 right=1,0 ; advance 2",
    report="B36",
)
class PaddingInTheTail(Recurrent):
    """The tail is taken at the end of the block, padding and all."""

    behind: tuple[int, ...] = ()

    def advance(self, inputs: Bits, projected: Inputs) -> Bits:
        counted = _counted(self, inputs)
        outputs = super().advance(inputs, projected)
        self.behind = tuple(int(np.argmax(row[::-1])) if row.any() else 0 for row in counted)
        return outputs

    def tail(self, row: int) -> Bits:
        tail = super().tail(row)
        zeros = self.behind[row] if row < len(self.behind) else 0
        return np.concatenate([tail, np.zeros((zeros, tail.shape[1]), tail.dtype)])[zeros:]


@fault(
    "padding-clears-the-matrix",
    breaks="REC-8",
    trace="recurrent_rows ; advance 1 ; prepare lengths=0,1 right=1,0 ; advance 1",
    report="B115",
)
class PaddingClearsTheMatrix(Recurrent):
    """A row that gets padding alone is given a fresh state."""

    def advance(self, inputs: Bits, projected: Inputs) -> Bits:
        counted = _counted(self, inputs)
        outputs = super().advance(inputs, projected)
        for b, row in enumerate(counted):
            if not row.any() and self.rows[b].matrices:
                blank = np.zeros_like(self.rows[b].matrices[-1])
                self.rows[b] = Row(self.rows[b].inputs, (*self.rows[b].matrices[:-1], blank))
        return outputs


@fault(
    "padding-decays",
    breaks="REC-8",
    trace="recurrent_rows ; advance 1 ; prepare lengths=0,1 right=1,0 ; advance 1",
)
class PaddingDecays(Recurrent):
    """The decay of a padded column is applied, and only what it would write is left out."""

    def advance(self, inputs: Bits, projected: Inputs) -> Bits:
        counted = _counted(self, inputs)
        outputs = super().advance(inputs, projected)
        for b, row in enumerate(self.rows):
            if row.matrices:
                lost = decode(projected.decay[b][~counted[b]], "f32").prod(0)  # [H]
                faded = decode(row.matrices[-1], "f32") * lost[:, np.newaxis, np.newaxis]
                self.rows[b] = Row(row.inputs, (*row.matrices[:-1], encode(faded.astype(np.float32), "f32")))
        return outputs


@fault(
    "finalize-takes-off-a-position",
    breaks="REC-8",
    trace="recurrent_rows ; advance 1 ; prepare lengths=0,1 right=1,0 ; finalize",
)
class FinalizeTakesOffAPosition(Recurrent):
    """The end of a padded prefill takes off a position, as if padding had been stored."""

    def finalize(self) -> None:
        if self.ends is not None:
            self.rows = [row.first(max(0, len(row.inputs) - 1)) for row in self.rows]
        super().finalize()


@fault(
    "merges-in-reverse",
    breaks="REC-9",
    trace="recurrent_rows rows=1 ; cache as s1 ; advance 1 on s1 ; merge c0 s1 as g1",
)
class MergesInReverse(RecurrentLayer):
    """A merge puts the last source first."""

    def merged(self, sources: Sequence[RecurrentLayer]) -> RecurrentLayer:
        return super().merged(list(reversed(sources)))


@fault("a-merge-drops-empty-rows", breaks="REC-9", trace="recurrent_rows rows=1 ; merge c0 as g1", report="B31")
class AMergeDropsEmptyRows(RecurrentLayer):
    """A row without a position does not come along."""

    def merged(self, sources: Sequence[RecurrentLayer]) -> RecurrentLayer:
        made = super().merged(sources)
        made.rows.filter([b for b, offset in enumerate(made.rows.offsets) if offset])
        return made


@fault("empty-rows-are-not-counted", breaks="REC-9", trace="recurrent_rows rows=0 ; cache as s1 ; merge s1 as g1")
class EmptyRowsAreNotCounted(RecurrentLayer):
    """A group counts the rows that have a position."""

    def show(self) -> StateView:
        view = super().show()
        return view if view.rows is None else evolve(view, rows=sum(offset > 0 for offset in self.rows.offsets))


@fault("extracts-the-first", breaks="REC-10", trace="recurrent_rows ; advance 1 ; extract 1 as e1")
class ExtractsTheFirst(RecurrentLayer):
    """An extraction takes row 0, whichever is asked for."""

    def extract(self, row: int) -> RecurrentLayer:
        super().extract(row)
        return super().extract(0)


@fault("filters-in-order", breaks="REC-11", trace="recurrent_rows ; advance 1 ; filter 1,0")
class FiltersInOrder(Recurrent):
    """A filter keeps rows in the order in which they stood."""

    def filter(self, rows: Numbers) -> None:
        super().filter(rows if len(set(rows)) != len(rows) else sorted(rows))


@fault("a-filter-to-nothing-keeps-all", breaks="REC-11", trace="recurrent_rows ; filter none", profile="layout")
class AFilterToNothingKeepsAll(Recurrent):
    """An empty list of rows is taken for no filter."""

    def filter(self, rows: Numbers) -> None:
        if rows:
            super().filter(rows)


@fault(
    "a-filter-forgets-the-ends",
    breaks="REC-8",
    trace="recurrent_rows ; prepare lengths=1,0 right=0,1 ; filter 1,0 ; advance 1",
)
class AFilterForgetsTheEnds(Recurrent):
    """A filter leaves the ends of rows in the order in which the rows stood."""

    def filter(self, rows: Numbers) -> None:
        ends = self.ends
        super().filter(rows)
        if ends is not None and self.ends is not None:
            self.ends = ends[: len(self.rows)]


@fault("a-filter-forgets-left-padding", breaks="REC-11", trace="recurrent_rows ; prepare left=1,0 ; filter 1,0")
class AFilterForgetsLeftPadding(Recurrent):
    """A filter leaves the left padding in the order in which the rows stood."""

    def filter(self, rows: Numbers) -> None:
        pads = list(self.pads)
        super().filter(rows)
        self.pads = pads[: len(self.rows)]


@fault("a-clone-forgets-left-padding", breaks="REC-12", trace="recurrent_rows ; prepare left=1,0 ; clone as c1")
class ACloneForgetsLeftPadding(Recurrent):
    """A clone is given no padding that is still to come."""

    def clone(self) -> Recurrent:
        twin = super().clone()
        twin.pads = [0] * len(twin.rows)
        return twin


@fault("a-reset-keeps-left-padding", breaks="REC-16", trace="recurrent_rows ; prepare left=1,0 ; reset")
class AResetKeepsLeftPadding(Recurrent):
    """A reset leaves what was announced."""

    def reset(self) -> None:
        pads = list(self.pads)
        super().reset()
        self.pads = pads


@fault("finalize-ends-left-padding", breaks="REC-8", trace="recurrent_rows ; prepare left=1,0 ; finalize")
class FinalizeEndsLeftPadding(Recurrent):
    """The end of right padding is taken for that of left padding, too."""

    def finalize(self) -> None:
        super().finalize()
        self.pads = [0] * len(self.rows)


@fault(
    "lengths-alone-end-states",
    breaks="REC-1",
    trace="recurrent_rows ; prepare lengths=0,0 ; advance 1",
    profile="layout",
)
class LengthsAloneEndRows(Recurrent):
    """Lengths end rows without any right padding (PAD-3)."""

    def prepare(self, left: Numbers | None, lengths: Numbers | None, right: Numbers | None) -> None:
        super().prepare(left, lengths, right)
        if lengths and not any(right or ()):
            self.ends = [len(row.inputs) + length for row, length in zip(self.rows, lengths, strict=True)]


@fault(
    "a-refused-advance-uses-padding",
    breaks="REC-14",
    trace="recurrent_rows ; prepare left=1,0 ; advance 1 malformed=rank",
    profile="layout",
)
class ARefusedAdvanceUsesPadding(Recurrent):
    """Padding is used up before tensors are looked at."""

    def advance(self, inputs: Bits, projected: Inputs) -> Bits:
        try:
            return super().advance(inputs, projected)
        except Refusal:
            self.pads = [max(0, pad - 1) for pad in self.pads]
            raise


# Copies, trims, refusals.


@fault(
    "a-clone-shares-its-list",
    breaks="REC-12",
    trace="recurrent ; clone as c1 ; advance 1 on c1 ; look c0",
    report="B100",
)
class ACloneSharesItsList(Recurrent):
    """A clone keeps its rows in the list of its source."""

    def clone(self) -> Recurrent:
        twin = super().clone()
        twin.rows, twin.shapes = self.rows, self.shapes
        return twin


@fault("answers-a-trim", breaks="REC-13", trace="recurrent ; advance 1 ; trim 1")
class AnswersATrim(RecurrentLayer):
    """A trim answers the count that it was asked for, and does nothing."""

    def trim(self, n: Any) -> int:
        return n if isinstance(n, int) and n >= 0 else super().trim(n)


@fault("says-it-can-trim", breaks="REC-13", trace="recurrent", profile="layout")
class SaysItCanTrim(RecurrentLayer):
    """It says that it can trim what it holds."""

    def show(self) -> StateView:
        view = super().show()
        return evolve(view, can_trim=tuple(n < len(view.can_trim or ()) - 1 for n in range(len(view.can_trim or ()))))


@fault(
    "a-refused-advance-drops-a-position",
    breaks="REC-14",
    trace="recurrent ; advance 1 ; advance 1 malformed=rank",
    profile="layout",
)
class ARefusedAdvanceDropsAPosition(Recurrent):
    """An advance takes the newest position off before it looks at what it was given."""

    def advance(self, inputs: Bits, projected: Inputs) -> Bits:
        try:
            return super().advance(inputs, projected)
        except Refusal:
            self.rows = [row.first(max(0, len(row.inputs) - 1)) for row in self.rows]
            raise


@fault("takes-what-does-not-fit", breaks="REC-15", trace="recurrent ; advance 1 malformed=rank", profile="layout")
class TakesWhatDoesNotFit(RecurrentLayer):
    """Tensors that do not fit are passed over in silence."""

    def advance(self, step: Any) -> Bits:
        try:
            return super().advance(step)
        except Refusal:
            return np.zeros((1, 1, 1, 1), np.uint16)


@fault("rounds-begin-twice", breaks="REC-15", trace="recurrent ; begin_round ; begin_round", profile="layout")
class RoundsBeginTwice(Recurrent):
    """A round that is begun while one is open takes its place."""

    def begin_round(self) -> None:
        self.starts = None
        super().begin_round()


@fault("a-reset-forgets-nothing", breaks="REC-16", trace="recurrent ; advance 1 ; reset")
class AResetForgetsNothing(Recurrent):
    """A reset closes the round, and leaves the rows as they are."""

    def reset(self) -> None:
        self.starts = None


@fault("a-reset-leaves-the-matrix", breaks="REC-16", trace="recurrent ; advance 1 ; reset ; advance 1")
class AResetLeavesTheMatrix(Recurrent):
    """A reset forgets the tail alone."""

    def reset(self) -> None:
        left = [Row((), row.matrices[-1:]) for row in self.rows]
        super().reset()
        self.rows = left


class ForgetsTheTail(FileFormat):
    """Writes a file without the inputs of the convolution."""

    def layer(self, cache: Any, arrays: list[np.ndarray[Any, Any]]) -> dict[str, Any]:
        told = super().layer(cache, arrays)
        if isinstance(cache, RecurrentLayer) and len(arrays) > 1:
            arrays[-2] = np.zeros_like(arrays[-2])
        return told


@fault("a-file-without-the-tail", breaks="REC-18", trace="recurrent ; advance 1 ; save as f1 ; load f1 as c1")
class AFileWithoutTheTail(ReferenceAdapter):
    """A file holds the matrix, and zeros for the tail."""

    file_format = ForgetsTheTail


class BelievesArrays(FileFormat):
    """Checks no array."""

    def check_body(self, header: dict[str, Any], body: bytes) -> None:
        pass


@fault(
    "an-altered-state-is-loaded",
    breaks="REC-18",
    trace="recurrent ; advance 1 ; save as f1 ; damage f1 how=tensor ; load f1 as c1",
)
class AnAlteredStateIsLoaded(ReferenceAdapter):
    """The arrays of a file are taken as they are."""

    file_format = BelievesArrays


@fault("an-identity-without-its-kernel", breaks="REC-17", trace="recurrent", profile="layout")
class AnIdentityWithoutItsKernel(RecurrentLayer):
    """The identity is the kind alone."""

    def show(self) -> StateView:
        return evolve(super().show(), identity=self.layer.kind)
