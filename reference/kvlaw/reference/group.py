"""The oracle's model of a group: a ``Model`` for each row, its padding, and the geometry that the rows share.

A row knows nothing of the others: its meaning is its own history, and what is padding follows from what was announced
for it alone. The geometry (``index_group``) says where columns lie; ``slots`` of a row's model are the ids by column.
"""

from attrs import evolve, field, frozen

from kvlaw.reference import index_group
from kvlaw.reference.history import Padding
from kvlaw.reference.model import Model
from kvlaw.spec.calls import Phase
from kvlaw.spec.cite import clause
from kvlaw.spec.config import LayerSpec
from kvlaw.spec.observations import Unbounded

Sources = tuple[tuple[int | None, ...], ...]


@frozen
class Group:
    """Rows that share one geometry; ``prefilling`` says that the prefill bracket is open."""

    layer: LayerSpec
    rows: tuple[Model, ...] = field(default=(), converter=tuple[Model, ...])
    paddings: tuple[Padding, ...] = field(default=(), converter=tuple[Padding, ...])
    state: index_group.Group = field(factory=lambda: index_group.Group(None))
    prefilling: bool = False
    version: int = 0

    @classmethod
    def empty(cls, layer: LayerSpec, count: int) -> "Group":
        """Make a group of empty rows."""
        rows = (Model.empty(layer.serial),) * count
        return cls(layer, rows, (Padding(),) * count, index_group.Group(layer.window, offsets=(0,) * count))

    @property
    def pends(self) -> bool:
        """Padding is still to come, or right padding to be taken off, in any row."""
        return any(padding.pends for padding in self.paddings)

    @property
    def shortest(self) -> int:
        """The offset of the shortest row, 0 without rows."""
        return min((row.offset for row in self.rows), default=0)

    @property
    @clause("PREC-25")
    def storage(self) -> str:
        """What the group holds as a whole."""
        if self.layer.policy != "bf16_first":
            return self.layer.policy
        converted = [row.converted for row in self.rows]
        return "packed" if converted and all(converted) else "mixed" if any(converted) else "dense"

    @property
    @clause("PREC-28")
    def max_append(self) -> int | Unbounded:
        """The least of the rows' own."""
        bounds = [bound for row in self.rows if (bound := row.max_append) != "unbounded"]
        return min(bounds) if bounds else "unbounded"

    def held(self, number: int) -> tuple[int, ...]:
        """Give a row's ids by column: those that stand at one of its positions; 0 for padding, stale and spare ones."""
        row = self.rows[number]
        own = frozenset(row.row.tokens)
        return tuple(token if token in own else 0 for token in row.slots)

    def moved(self, sources: Sources, state: index_group.Group) -> "Group":
        """Move every row's columns to where the geometry says."""
        rows = tuple(_moved(row, columns) for row, columns in zip(self.rows, sources, strict=True))
        return evolve(self, rows=rows, state=state, version=self.version + 1)

    def was(self, **changes: object) -> "Group":
        """Remember of every row that something happened."""
        return evolve(self, rows=tuple(row.was(**changes) for row in self.rows))

    # Precision.

    @clause("PREC-16", "PREC-18", "PREC-19", "PREC-26", "PREC-27")
    def settled(self, numbers: tuple[int, ...]) -> "Group":
        """Convert those of these rows that are due."""
        rows = tuple(_settled(row) if b in numbers else row for b, row in enumerate(self.rows))
        return evolve(self, rows=rows)

    def advanced(self, numbers: tuple[int, ...]) -> "Group":
        """Convert those of these rows that are due, unless the prefill bracket or a round is open."""
        return self if self.prefilling or self.in_round else self.settled(numbers)

    # Rounds.

    @property
    def in_round(self) -> bool:
        """A round is open."""
        return self.state.starts is not None

    def begun(self) -> "Group":
        """Convert what is due, and open a round."""
        group = self.advanced(tuple(range(len(self.rows))))
        rows = tuple(row.begun() for row in group.rows)
        return evolve(group, rows=rows, state=index_group.begun(group.state), version=self.version + 1)

    @clause("ROUND-11", "ROUND-13")
    def closed(self, keeps: tuple[int, ...]) -> "Group":
        """Close the round, keep in each row the first positions of it, and convert what is due then."""
        plan = index_group.plan_close(self.state, keeps)
        most = max(keeps, default=0)
        rows = tuple(_taken_back(row, keep, most) for row, keep in zip(self.rows, keeps, strict=True))
        group = evolve(self, rows=rows).moved(plan.sources, plan.after)
        return group.advanced(tuple(range(len(rows))))

    # Appends.

    def real(self, length: int) -> tuple[tuple[int, ...], ...]:
        """List for each row which of the next columns are its real tokens."""
        return tuple(padding.real(length) for padding in self.paddings)

    def plan(self, phase: Phase, length: int) -> index_group.RowsPlan:
        """Plan one append; in an open round each is a block."""
        phase = "window" if self.in_round else phase
        return index_group.plan_decode(self.state) if phase == "decode" else index_group.plan_block(self.state, length)

    @clause("ROWS-2", "PAD-6", "POS-2")
    def appended(
        self, phase: Phase, tokens: tuple[tuple[int, ...], ...], unread: bool
    ) -> tuple["Group", "Group", index_group.RowsPlan]:
        """Append tokens, one tuple per row; give the group as it was read, the group after it, and the plan."""
        length = len(tokens[0])
        real = self.real(length)
        before = self.advanced(tuple(b for b, columns in enumerate(real) if columns))
        plan = before.plan(phase, length)
        moved = before.moved(plan.sources, plan.after)
        rows = tuple(
            _appended(row, given, columns, phase, plan.write_at, unread)
            for row, given, columns in zip(moved.rows, tokens, real, strict=True)
        )
        paddings = tuple(padding.after(length) for padding in self.paddings)
        return before, evolve(moved, rows=rows, paddings=paddings), plan

    # Padding.

    @clause("PAD-1", "PAD-2", "PAD-3", "PAD-14")
    def prepared(
        self, left: tuple[int, ...] | None, lengths: tuple[int, ...] | None, right: tuple[int, ...] | None
    ) -> "Group":
        """Announce the padding of a prefill."""
        count = next((len(given) for given in (left, lengths, right) if given is not None), len(self.rows))
        group = self if self.rows else evolve(Group.empty(self.layer, count), prefilling=self.prefilling)
        before = left or (0,) * count
        ends: tuple[int | None, ...] = lengths if lengths is not None and any(right or ()) else (None,) * count
        paddings = tuple(Padding(*pair) for pair in zip(before, ends, strict=True))
        padded = any(padding.pends for padding in paddings)
        group = group.was(padded=True, told=False) if padded else group.was(told=lengths is not None)
        state = index_group.prepared(group.state, left, lengths, right)
        return evolve(group, paddings=paddings, state=state, version=self.version + 1)

    @clause("PAD-7", "PAD-8", "PAD-16")
    def finalized(self) -> "Group":
        """Take off the right padding that was appended."""
        if all(padding.until is None for padding in self.paddings):
            return self
        plan = index_group.plan_finalize(self.state)
        paddings = tuple(evolve(padding, until=None) for padding in self.paddings)
        return evolve(self.moved(plan.sources, plan.after), paddings=paddings).was(finalized=True)

    # Membership.

    @clause("ROWS-16", "ROWS-17", "ROWS-21", "PAD-10")
    def filtered(self, numbers: tuple[int, ...]) -> "Group":
        """Keep these rows, in this order."""
        plan = index_group.filtered(self.state, numbers)
        kept = evolve(
            self,
            rows=tuple(self.rows[b] for b in numbers),
            paddings=tuple(self.paddings[b] for b in numbers),
        )
        return kept.moved(plan.sources, plan.after).was(filtered=True)

    @clause("ROWS-19")
    def trimmed(self, count: int) -> "Group":
        """Drop the newest ``count`` positions of every row."""
        group = self.advanced(tuple(range(len(self.rows))))
        rows = tuple(row.trimmed(count) for row in group.rows)
        able = index_group.can_trim(group.state, count)
        state = index_group.plan_trim(group.state, count) if able else group.state
        return evolve(group, rows=rows, state=state, version=self.version + 1)

    @clause("ROWS-23", "PAD-13")
    def reset(self) -> "Group":
        """Empty every row; what was in them must never be seen again."""
        fresh = Group.empty(self.layer, len(self.rows))
        return evolve(fresh, rows=tuple(row.reset() for row in self.rows), version=self.version + 1)


def _settled(row: Model) -> Model:
    after = row.settled()
    return after.was(converted=True) if after.converted and not row.converted else after


def _taken_back(row: Model, keep: int, most: int) -> Model:
    """Take back what one row does not keep of a round; what another keeps in its place is dead here."""
    begun = row.offset - row.appended_in_round
    after = row.taken_back(keep)
    return after.was(turned=after.past.turned | frozenset(row.row.tokens[begun + keep : begun + most]))


def _moved(row: Model, columns: tuple[int | None, ...]) -> Model:
    return evolve(row, slots=tuple(0 if column is None else row.slots[column] for column in columns))


def _appended(
    row: Model, tokens: tuple[int, ...], real: tuple[int, ...], phase: Phase, write_at: int, unread: bool
) -> Model:
    end = write_at + len(tokens)
    own = tuple(tokens[i] for i in real)
    past = row.past
    after = evolve(
        past,
        styles=past.styles | {phase},
        rewritten=past.trimmed or past.rewritten,
        unread=past.unread | (frozenset(own) if unread else frozenset()),
        longest=max(past.longest, len(tokens)),
        peak=max(past.peak, row.offset + len(own)),
        padding=past.padding | (frozenset(tokens) - frozenset(own)),
        idle=past.idle or not own,
        converted=False,
    )
    slots = (*row.slots[:write_at], *tokens, *row.slots[end:])
    return evolve(row, row=row.row.appended(own), slots=slots, past=after, version=row.version + 1)


__all__ = ["Group", "Sources"]
