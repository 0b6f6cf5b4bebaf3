"""Faults of padding while it comes: announced, appended, hidden (PAD-1 to PAD-6, PAD-9, PAD-12 to PAD-15)."""

from collections.abc import Sequence

import numpy as np
from attrs import evolve, frozen

from kvlaw.conformance.faults.parts import Asked, WrongGroup
from kvlaw.conformance.faults.registry import fault
from kvlaw.reference import index_group
from kvlaw.reference.layout import Refusal
from kvlaw.reference.layout_group import GroupRead
from kvlaw.spec.calls import Phase
from kvlaw.spec.observations import Bits

Counts = Sequence[int] | None


@fault("left-padding-is-counted", breaks="PAD-1", trace="full_rows ; prepare left=1,0 ; window 2", report="B48")
class LeftPaddingIsCounted(WrongGroup):
    """Columns of left padding are positions of their row."""

    def prepare(self, left: Counts = None, lengths: Counts = None, right: Counts = None) -> None:
        before = self.state.offsets
        super().prepare(left, lengths, right)
        if before:
            self.state = evolve(self.state, offsets=before)


@fault(
    "the-shortest-length-ends-all",
    breaks="PAD-2",
    trace="full_rows ; prepare lengths=1,2 right=1,0 ; window 2",
    report="B36",
)
class TheShortestLengthEndsAll(WrongGroup):
    """All rows end where the shortest ends."""

    def prepare(self, left: Counts = None, lengths: Counts = None, right: Counts = None) -> None:
        super().prepare(left, lengths, right)
        if self.state.ends is not None:
            self.state = evolve(self.state, ends=(min(self.state.ends),) * self.count)


@fault(
    "right-padding-is-counted",
    breaks="PAD-2",
    profile="layout",
    trace="full_rows ; prepare lengths=1,2 right=1,0 ; window 2",
    report="B115",
)
class RightPaddingIsCounted(WrongGroup):
    """What comes behind the end of a row is counted as its positions until the prompt is done."""

    @property
    def offsets(self) -> tuple[int, ...]:
        return self.state.offsets


@fault("lengths-alone-end-rows", breaks="PAD-3", trace="full_rows ; prepare lengths=2,1 ; window 2", report="B36")
class LengthsAloneEndRows(WrongGroup):
    """Lengths end rows, whether any right padding was announced or not."""

    def prepare(self, left: Counts = None, lengths: Counts = None, right: Counts = None) -> None:
        super().prepare(left, lengths, right or (None if lengths is None else [1] * len(lengths)))


@fault("padding-is-seen", breaks="PAD-4", trace="full_rows ; prepare left=1,0 ; window 2", report="B46")
class PaddingIsSeen(WrongGroup):
    """Masks hide what comes later and what is too old, and show left padding."""

    def sees(self, b: int, length: int, phase: Phase, query: int, column: int, window: int | None) -> bool:
        if phase == "decode":
            return super().sees(b, length, phase, query, column, window)
        obeyed = index_group.obeyed_window(self.state.window, window)
        past = index_group.past_of_block(self.state)
        return index_group.row_sees_block(past, past, obeyed, query, column)


@fault(
    "a-piece-of-one-is-a-decode",
    breaks="PAD-5",
    trace="full_rows ; prepare lengths=2,1 right=0,1 ; window 1",
    report="B39",
)
class APieceOfOneIsADecode(WrongGroup):
    """A window of one position is taken for a decode, and refused while padding is pending."""

    def act(self, asked: Asked) -> GroupRead:
        if asked.well_formed and asked.length == 1 and self.state.ends is not None:
            raise Refusal("no decode while padding is pending")
        return super().act(asked)


@fault(
    "an-append-needs-a-token-for-every-row",
    breaks="PAD-6",
    trace="full_rows ; prepare lengths=0,1 right=1,0 ; window 1",
    report="B48",
)
class AnAppendNeedsATokenForEveryRow(WrongGroup):
    """An append that is padding for a row is refused."""

    def act(self, asked: Asked) -> GroupRead:
        if asked.well_formed and not all(index_group.real(self.state, b, asked.length) for b in range(self.count)):
            raise Refusal("a row would get no token")
        return super().act(asked)


@fault(
    "ends-are-cut-short-by-padding",
    breaks="PAD-2",
    trace="full_rows ; prepare lengths=1,3 right=2,0 ; window 2 ; window 1",
)
class EndsAreCutShortByPadding(WrongGroup):
    """The overrun of a row is taken off all rows before the next piece."""

    def act(self, asked: Asked) -> GroupRead:
        over = max((index_group.overrun(self.state, b) for b in range(self.count)), default=0)
        if over and self.state.ends is not None:
            cut = [min(over, max(0, offset)) for offset in self.state.offsets]
            self.take(index_group.plan_retract(self.state, cut), self.rows, self.shape)
        return super().act(asked)


# What has to wait.


@fault(
    "decodes-while-padding-is-pending",
    breaks="PAD-9",
    profile="layout",
    trace="full_rows ; prepare lengths=2,1 right=0,1 ; decode",
)
class DecodesWhilePaddingIsPending(WrongGroup):
    """A decode is carried out in the middle of a padded prompt."""

    def demand_settled_padding(self, asked: str) -> None:
        if asked != "a decode":
            super().demand_settled_padding(asked)


@fault(
    "extracts-before-finalize",
    breaks="PAD-9",
    profile="layout",
    trace="full_rows ; prepare lengths=2,1 right=0,1 ; window 2 ; extract 1 as e1",
)
class ExtractsBeforeFinalize(WrongGroup):
    """A row is taken out while its padding is pending."""

    def demand_settled_padding(self, asked: str) -> None:
        if not asked.startswith("to take"):
            super().demand_settled_padding(asked)


# What cannot be announced.


class PrepareFault(WrongGroup):
    """A group whose ``prepare`` mends what is asked for before it looks at it."""

    def prepare(self, left: Counts = None, lengths: Counts = None, right: Counts = None) -> None:
        super().prepare(*(None if given is None else self.mended(given) for given in (left, lengths, right)))

    def mended(self, given: Sequence[int]) -> Sequence[int]:
        """Mend one list."""
        raise NotImplementedError


@fault("negative-padding-is-none", breaks="PAD-12", profile="layout", trace="full_rows ; prepare left=-1,0")
class NegativePaddingIsNone(PrepareFault):
    """A negative number of padding columns is taken for none."""

    def mended(self, given: Sequence[int]) -> Sequence[int]:
        return [max(0, number) for number in given]


@fault("missing-padding-is-none", breaks="PAD-12", profile="layout", trace="full_rows ; prepare left=1")
class MissingPaddingIsNone(PrepareFault):
    """Rows for which no number is given have none, and numbers of rows that are not there are passed over."""

    def mended(self, given: Sequence[int]) -> Sequence[int]:
        return [*given, *[0] * self.count][: self.count] if self.count else given


@fault(
    "pads-rows-that-hold-tokens",
    breaks="PAD-12",
    profile="layout",
    trace="full_rows ; decode ; prepare left=1,0",
)
class PadsRowsThatHoldTokens(WrongGroup):
    """Left padding is announced to rows that hold positions, whose numbers change by it."""

    def prepare(self, left: Counts = None, lengths: Counts = None, right: Counts = None) -> None:
        if left is not None and len(left) == self.count and index_group.active(self.state) and min(left) >= 0:
            offsets = tuple(offset - pad for offset, pad in zip(self.state.offsets, left, strict=True))
            self.state = evolve(self.state, offsets=offsets)
        else:
            super().prepare(left, lengths, right)


# What forgets, and what makes rows.


@fault("reset-keeps-the-padding", breaks="PAD-13", trace="full_rows ; prepare left=1,0 ; reset ; decode", report="B112")
class ResetKeepsThePadding(WrongGroup):
    """A reset empties the rows, and their left padding is still to come."""

    def reset(self) -> None:
        before = getattr(self, "state", None)
        super().reset()
        if before is not None:
            self.state = evolve(self.state, offsets=tuple(min(0, offset) for offset in before.offsets))


@fault("reset-keeps-the-ends", breaks="PAD-13", trace="full_rows ; prepare lengths=1,2 right=1,0 ; reset ; window 2")
class ResetKeepsTheEnds(WrongGroup):
    """A reset empties the rows, and the ends of their prompts are still pending."""

    def reset(self) -> None:
        before = getattr(self, "state", None)
        super().reset()
        if before is not None:
            self.state = evolve(self.state, ends=before.ends)


@fault("prepare-makes-no-rows", breaks="PAD-14", profile="layout", trace="full_rows rows=0 ; prepare lengths=1,1")
class PrepareMakesNoRows(WrongGroup):
    """Padding that is announced to a group without rows is announced to nobody."""

    def prepare(self, left: Counts = None, lengths: Counts = None, right: Counts = None) -> None:
        if self.count:
            super().prepare(left, lengths, right)


# Queries of padding.


@fault("padding-answers-no-number", breaks="PAD-15", trace="full_rows ; prepare left=1,0 ; window 2")
class PaddingAnswersNoNumber(WrongGroup):
    """The query of a padding column that sees nothing answers NaN."""

    def act(self, asked: Asked) -> GroupRead:
        real = [index_group.real(self.state, b, asked.length) for b in range(self.count)]
        read = super().act(asked)
        return _NanRead(read.rows, read.mask, tuple(real))


@frozen(eq=False)
class _NanRead(GroupRead):
    """A read whose queries without a token answer NaN."""

    real: tuple[tuple[int, ...], ...] = ()

    def attend(self, queries: Bits, scale: float) -> Bits:
        output = super().attend(queries, scale).copy()
        for b, columns in enumerate(self.real):
            idle = [i for i in range(output.shape[2]) if i not in columns]
            output[b][:, idle] = np.array(0x7FC0, output.dtype)
        return output
