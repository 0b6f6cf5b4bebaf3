"""What the machines of groups share: who is in the world, padded prefills, and rows that come and go."""

from typing import ClassVar

from hypothesis import strategies as st

from kvlaw.conformance.machines.base import LockstepMachine
from kvlaw.conformance.machines.padding import Padded, padded
from kvlaw.reference.model import Model
from kvlaw.reference.oracle import Group
from kvlaw.spec.calls import (
    AppendWindow,
    BeginPrefill,
    CommitPrefill,
    EndPrefill,
    Filter,
    Finalize,
    MakeCache,
    Merge,
    Prepare,
)

Names = tuple[str, ...]


class RowRules(LockstepMachine):
    """The part of a machine that acts on groups of rows."""

    most_rows: ClassVar[int] = 5
    """How many rows a group may have before no more join."""

    # Who is there.

    def groups(self) -> list[str]:
        """List the groups."""
        return [name for name, thing in self.run_.oracle.world.items() if isinstance(thing, Group)]

    def group(self, name: str) -> Group:
        """Give a group's model; one without rows, if there is none of that name."""
        found = self.run_.oracle.world.get(name)
        return found if isinstance(found, Group) else Group.empty(self.config.layer.grouped, 0)

    def rows_in(self, names: Names) -> int:
        """Count the rows that these groups and caches would bring to a merge."""
        things = [self.run_.oracle.world.get(name) for name in names]
        return sum(len(thing.rows) if isinstance(thing, Group) else 1 for thing in things)

    @property
    def model(self) -> Model:
        """The longest row of ``c0``."""
        rows = self.group("c0").rows
        return max(rows, key=lambda row: row.offset) if rows else Model.empty(self.config.layer.serial)

    @property
    def pads_left(self) -> bool:
        """Left padding can be asked for."""
        return "left_padding" in self.can

    # What is done in several calls.

    def newcomers(self, count: int) -> Names:
        """Make fresh caches."""
        names: list[str] = []
        for _ in range(count):
            names.append(self.fresh("s"))
            self.do(MakeCache(as_=names[-1]))
        return tuple(name for name in names if name in self.run_.oracle.world)

    def together(self, names: Names, letter: str = "g") -> str | None:
        """Merge groups and caches; None if the trace is over, or one of them is not there."""
        made = self.fresh(letter)
        if self.over or not names or any(name not in self.run_.oracle.world for name in names):
            return None
        self.do(Merge(sources=names, as_=made))
        return made if made in self.run_.oracle.world else None

    def draw_padded(self, data: st.DataObject, name: str, count: int = 0) -> Padded:
        """Draw a padded prefill of a group; a group without rows gets ``count``."""
        group = self.group(name)
        untouched = not any(row.slots for row in group.rows)
        left = self.pads_left and untouched
        return data.draw(padded(len(group.rows) or count, group.layer.window, left=left), label="padded")

    def prefill_padded(self, data: st.DataObject, name: str, plan: Padded, *, bracket: bool, retire: bool) -> None:
        """Announce padding, append the chunks, and finalize: early now and then; a row may retire between chunks."""
        bracket = bracket and "bracket" in self.can
        if bracket:
            self.do(BeginPrefill(on=name))
        self.do(prepare_of(data, plan, name, left=self.pads_left))
        at, early = 0, data.draw(st.integers(0, 7), label="early") == 0
        for number, chunk in enumerate(plan.chunks):
            if self.over or (early and number == len(plan.chunks) - 1 and not any(plan.left)):
                break
            self.do(AppendWindow(length=chunk, on=name))
            at += chunk
            if bracket and plan.done(at) and data.draw(st.booleans()):
                self.do(CommitPrefill(rows=plan.done(at), on=name))
            if retire and len(plan.prompts) > 1 and "filter" in self.can and data.draw(st.integers(0, 2)) == 0:
                rows = some_rows(data, len(plan.prompts), least=1)
                self.do(Filter(rows=rows, on=name))
                plan = plan.kept(rows)
        if any(plan.right) or data.draw(st.booleans()):
            self.do(Finalize(on=name))
        if bracket:
            self.do(EndPrefill(on=name))


def some_rows(data: st.DataObject, count: int, *, least: int = 0) -> tuple[int, ...]:
    """Draw some of so many rows: mostly in order, else in another."""
    order = data.draw(st.permutations(range(count)))
    rows = order[: data.draw(st.integers(min(least, count), count))]
    return tuple(rows if data.draw(st.booleans()) else sorted(rows))


def prepare_of(data: st.DataObject, plan: Padded, name: str, *, left: bool) -> Prepare:
    """Announce padding with as few lists as say it, or with lists of zeros."""
    told = data.draw(st.booleans(), label="zeros")
    behind = plan.right if any(plan.right) or told else None
    before = plan.left if left and (any(plan.left) or told) else None
    lengths = plan.lengths if behind is not None or before is None or told else None
    return Prepare(left=before, lengths=lengths, right=behind, on=name)
