"""Faults of the end of a padded prompt: finalize, filters between the pieces, what is left behind (PAD-7 to PAD-16)."""

from collections.abc import Sequence

from attrs import evolve

from kvlaw.conformance.faults.parts import WrongGroup
from kvlaw.conformance.faults.registry import fault
from kvlaw.reference import index_group
from kvlaw.spec.calls import Phase

Counts = Sequence[int] | None


@fault(
    "finalize-takes-what-was-announced",
    breaks="PAD-7",
    trace="full_rows ; prepare lengths=1,2 right=2,1 ; window 2 ; finalize",
    report="B115",
)
class FinalizeTakesWhatWasAnnounced(WrongGroup):
    """Finalize takes off the right padding that was announced, whether it has come or not."""

    announced: tuple[int, ...] | None = None

    def prepare(self, left: Counts = None, lengths: Counts = None, right: Counts = None) -> None:
        super().prepare(left, lengths, right)
        self.announced = tuple(right) if right is not None and any(right) else None

    def finalize(self) -> None:
        if self.announced is None or len(self.announced) != self.count:
            super().finalize()
            return
        pairs = zip(self.announced, self.state.offsets, strict=True)
        tails = [min(n, offset, index_group.active(self.state)) for n, offset in pairs]
        moved = index_group.plan_retract(self.state, tails)
        self.take(evolve(moved, after=evolve(moved.after, ends=None)), self.rows, self.shape)


class FinalizeFault(WrongGroup):
    """A group whose finalize moves its columns by ``moved``."""

    def finalize(self) -> None:
        if self.state.ends is not None:
            self.take(self.moved(index_group.plan_finalize(self.state)), self.rows, self.shape)

    def moved(self, plan: index_group.Moved) -> index_group.Moved:
        """Bend the plan."""
        raise NotImplementedError


@fault(
    "finalize-moves-nothing",
    breaks="PAD-8",
    trace="full_rows ; prepare lengths=1,2 right=1,0 ; window 2 ; finalize ; decode",
    report="B115",
)
class FinalizeMovesNothing(FinalizeFault):
    """Finalize lowers the offsets, and leaves the padding where it is."""

    def moved(self, plan: index_group.Moved) -> index_group.Moved:
        return evolve(plan, sources=(tuple(range(plan.after.columns)),) * self.count)


@fault(
    "finalize-moves-one-column-short",
    breaks="PAD-8",
    trace="full_rows ; prepare lengths=1,3 right=2,0 ; window 3 ; finalize ; decode",
)
class FinalizeMovesOneColumnShort(FinalizeFault):
    """Finalize moves the columns of a row by one less than its padding."""

    def moved(self, plan: index_group.Moved) -> index_group.Moved:
        cut = min(index_group.overruns(self.state), default=0)
        short = [max(cut, over - 1) for over in index_group.overruns(self.state)]
        return evolve(plan, sources=index_group.plan_retract(self.state, short).sources)


@fault(
    "finalize-moves-one-column-too-far",
    breaks="PAD-8",
    trace="full_rows ; prepare lengths=1,2 right=1,0 ; window 2 ; finalize ; decode",
)
class FinalizeMovesOneColumnTooFar(FinalizeFault):
    """Finalize moves the columns of a padded row by one more than its padding."""

    def moved(self, plan: index_group.Moved) -> index_group.Moved:
        cut = min(index_group.overruns(self.state), default=0)
        overs = index_group.overruns(self.state)
        far = [over + 1 if over > cut and over + 1 <= index_group.active(self.state) else over for over in overs]
        return evolve(plan, sources=index_group.plan_retract(self.state, far).sources)


@fault(
    "finalize-keeps-the-columns-of-all",
    breaks="PAD-16",
    profile="layout",
    trace="ring_rows window=4 ; prepare lengths=1,2 right=2,1 ; window 3 ; finalize",
)
class FinalizeKeepsTheColumnsOfAll(FinalizeFault):
    """Finalize cuts nothing: also padding that all rows have moves to the left."""

    def moved(self, plan: index_group.Moved) -> index_group.Moved:
        width, order = index_group.active(self.state), index_group.order(self.state)
        sources = tuple(
            tuple(order[(place - over) % width] for place in range(width)) for over in index_group.overruns(self.state)
        )
        return evolve(plan, sources=sources, after=evolve(plan.after, columns=width, write_index=width))


# Filters between the pieces.


@fault(
    "ends-stay-at-their-old-places",
    breaks="PAD-10",
    trace="full_rows ; prepare lengths=2,1 right=0,1 ; filter 1,0 ; window 2",
    report="B45",
)
class EndsStayAtTheirOldPlaces(WrongGroup):
    """A filter moves the rows, and the ends stay where they were."""

    def filter(self, rows: Sequence[int]) -> None:
        ends = self.state.ends
        super().filter(rows)
        if ends is not None and self.count:
            self.state = evolve(self.state, ends=ends[: self.count])


@fault(
    "filter-forgets-the-ends",
    breaks="PAD-10",
    trace="full_rows ; prepare lengths=2,1 right=0,1 ; filter 1,0 ; window 2 ; finalize",
    report="B37",
)
class FilterForgetsTheEnds(WrongGroup):
    """A filter drops the ends that are pending."""

    def filter(self, rows: Sequence[int]) -> None:
        super().filter(rows)
        self.state = evolve(self.state, ends=None)


@fault(
    "filter-waits-for-the-padding",
    breaks="PAD-10",
    trace="full_rows ; prepare lengths=2,1 right=0,1 ; filter 1",
    report="B37",
)
class FilterWaitsForThePadding(WrongGroup):
    """A filter is refused while padding is pending."""

    def filter(self, rows: Sequence[int]) -> None:
        self.demand_settled_padding("a filter")
        super().filter(rows)


# What a ring keeps.


@fault(
    "keeps-one-column-less-while-ends-pend",
    breaks="PAD-11",
    profile="layout",
    trace="ring_rows window=2 ; window 2 ; prepare lengths=0,2 right=2,0 ; window 2 ; finalize ; extract 0 as e1",
)
class KeepsOneColumnLessWhileEndsPend(WrongGroup):
    """A block keeps W - 1 columns of the past, also for rows that get no token in it."""

    def bent(self, plan: index_group.RowsPlan, phase: Phase, length: int) -> index_group.RowsPlan:
        window = self.state.window
        if window is None or self.state.ends is None or plan.write_at < window or phase == "decode":
            return plan
        after = evolve(plan.after, columns=plan.after.columns - 1, write_index=plan.after.write_index - 1)
        return evolve(
            plan,
            sources=tuple(row[1:] for row in plan.sources),
            write_at=plan.write_at - 1,
            fetch=tuple(column - 1 for column in plan.fetch),
            after=after,
        )


@fault(
    "finalize-cuts-dense-rows-alone",
    breaks="PAD-16",
    profile="layout",
    trace="ring_rows window=4 bits=4 start=1 ; window 2 ; commit_prefill 0 ; prepare lengths=0,0 right=1,1 ; window 1"
    " ; finalize",
)
class FinalizeCutsDenseRowsAlone(WrongGroup):
    """In a mixed group finalize takes the columns that all have too much off the dense rows alone."""

    def finalize(self) -> None:
        before = self.rows
        super().finalize()
        if self.storage == "mixed":
            pairs = zip(self.rows, before, strict=True)
            self.rows = tuple(evolve(row, planes=old.planes) if row.coded else row for row, old in pairs)
