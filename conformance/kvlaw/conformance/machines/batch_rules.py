"""What machines of continuous batching share: the batch that is being decoded, who joins it and who leaves it."""

from hypothesis import strategies as st

from kvlaw.conformance.machines.compiled_rules import GeneratesCompiled
from kvlaw.conformance.machines.round_rules import DraftRules
from kvlaw.conformance.machines.row_rules import Names, RowRules
from kvlaw.reference.oracle import Group
from kvlaw.spec.calls import AppendDecode, AppendWindow, Clone, Drop, Extract, Filter, HandBack, LookAt

CROWD = 9
"""How many objects there may be before what was replaced is let go of."""


class BatchRules(RowRules, GeneratesCompiled, DraftRules):
    """The part of a machine that keeps a batch, and whoever is away from it."""

    def __init__(self) -> None:
        """Start with the batch that is opened first, and nobody away."""
        super().__init__()
        self.batch = "c0"
        self.away: list[str] = []

    @property
    def here(self) -> Group:
        """The batch."""
        return self.group(self.batch)

    def found_again(self) -> bool:
        """Take another group for the batch, where a detour has left it out."""
        world = self.run_.oracle.world
        groups = [name for name, thing in world.items() if isinstance(thing, Group)]
        self.away = [name for name in self.away if name in world]
        self.batch = self.batch if self.batch in groups else next(reversed(groups), "")
        return bool(self.batch)

    @property
    def running(self) -> bool:
        """There are rows to be decoded."""
        return not self.over and bool(self.here.rows)

    @property
    def empties(self) -> bool:
        """Say whether the last row may leave."""
        return "retire" in self.used and "empty_group" in self.can

    def join(self, names: Names) -> None:
        """Make the new batch of the old one and of who comes; the old one is let go of, or looked at later."""
        old, made = self.batch, self.together(names)
        if made is None:
            return
        self.batch = made
        for name in names:
            if "keep_old" not in self.used or len(self.run_.oracle.world) > CROWD:
                self.do(Drop(on=name))
            elif name == old:
                self.do(LookAt(on=name))
        self.away = [name for name in self.away if name in self.run_.oracle.world and name not in names]

    def part_ways(self, count: int) -> str:
        """Clone the batch, let both go their own ways, and name the clone."""
        name = self.fresh("c")
        self.do(Clone(as_=name, on=self.batch))
        self.do(AppendWindow(length=count, on=name, **self.passing))
        self.do(AppendDecode(on=self.batch, **self.passing))
        self.do(AppendDecode(on=name, **self.passing))
        return name

    def take_out(self, data: st.DataObject, *, back: bool) -> str:
        """Take a row out as a cache of its own, mostly keep the others only, and give its name."""
        row = data.draw(st.integers(0, len(self.here.rows) - 1))
        name = self.fresh("e")
        make = HandBack if back and "back" in self.used and "hand_back" in self.can else Extract
        self.do(make(row=row, as_=name, on=self.batch))
        self.away.append(name)
        others = tuple(b for b in range(len(self.here.rows)) if b != row)
        if "filter" in self.can and (others or self.empties) and data.draw(st.integers(0, 3)):
            self.do(Filter(rows=others, on=self.batch))
        return name


__all__ = ["CROWD", "BatchRules"]
