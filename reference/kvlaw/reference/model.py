"""The oracle's model of one cache: its history, the geometry of ``index``, and which token each column holds.

A model also remembers what happened to it (``Past``), because a clause is exercised only when its situation arose.
"""

from typing import Any

from attrs import evolve, field, frozen

from kvlaw.reference import index, index_policy
from kvlaw.reference.history import Row, Sight, sight
from kvlaw.spec.calls import Phase
from kvlaw.spec.cite import clause
from kvlaw.spec.config import LayerSpec, Storage
from kvlaw.spec.observations import Unbounded


@frozen
class Past:
    """What happened to a cache so far, as far as clauses ask about it.

    ``converted``: by its last append; ``padding``: the tokens of columns that were padding of this row; ``turned``:
    those that a roll back took from this row and not from all, so that they lie in dead columns;
    ``lent``: a cache was made of this row, or this is that cache; ``joined_others``: it was a source of a merge;
    ``idle``: an append brought it no token; ``told``: lengths were announced, and no padding.
    """

    styles: frozenset[str] = frozenset()
    trimmed: bool = False
    rewritten: bool = False
    unread: frozenset[int] = frozenset()
    refused: bool = False
    reset: bool = False
    related: bool = False
    dropped: frozenset[int] = frozenset()
    longest: int = 0
    peak: int = 0
    grew: bool = False
    converted: bool = False
    padded: bool = False
    padding: frozenset[int] = frozenset()
    joined: bool = False
    joined_others: bool = False
    lent: bool = False
    filtered: bool = False
    finalized: bool = False
    rounds: bool = False
    rolled: bool = False
    turned: frozenset[int] = frozenset()
    idle: bool = False
    told: bool = False


@frozen
class Model:
    """One cache.

    ``row`` is its meaning, ``state`` and ``slots`` its layout (ids by column, 0 for a column never
    written).

    ``round`` is the offset at which the open round began, None if none is open.

    ``converted`` says that its storage has changed to codes, ``floor`` is the reuse floor that this left.

    ``lenient`` marks a ring that another design built although it cannot be built (RING-14): then a query must see its
    own position, and nothing is said of the others. ``version`` counts the acts, to tell whether a read's owner has
    moved.
    """

    layer: LayerSpec
    row: Row = field(factory=Row)
    state: index.State = field(factory=index.Full)
    slots: tuple[int, ...] = ()
    past: Past = field(factory=Past)
    lenient: bool = False
    version: int = 0
    converted: bool = False
    floor: int = 0
    round: int | None = None

    @classmethod
    def empty(cls, layer: LayerSpec, lenient: bool = False) -> "Model":
        """Build the model of a new cache."""
        ring = layer.window is not None and not lenient
        state = index.Ring(layer.window or 1, layer.sinks) if ring else index.Full()
        return cls(layer, state=state, lenient=lenient)

    @property
    def offset(self) -> int:
        """The next position."""
        return self.row.offset

    @property
    def storage(self) -> Storage:
        """What it holds now."""
        always = self.layer.bits is not None and self.layer.start is None
        return "affine" if always or self.converted else "dense"

    @property
    def max_append(self) -> int | Unbounded:
        """How many positions make it due: an append of that many converts, of one fewer does not (PREC-10)."""
        start = self.layer.start
        if not isinstance(start, int) or self.converted:
            return "unbounded"
        left = index_policy.positions_left(start, self.offset)
        return "unbounded" if left is None else left

    def settled(self) -> "Model":
        """Convert what is due: at the end of an append or a round, on the offset that it left (PREC-1, PREC-5)."""
        start = self.layer.start
        if self.round is not None:
            return self
        if not isinstance(start, int) or self.converted or not index_policy.is_due(start, self.offset):
            return self
        floor = index_policy.floor_after(start, self.offset)
        return evolve(self, state=index_policy.after_conversion(self.state), converted=True, floor=floor)

    @property
    def live(self) -> int:
        """Positions that count."""
        return self.offset if self.layer.window is None else min(self.offset, self.layer.window)

    @property
    def needed(self) -> int:
        """Positions that the next query needs besides its own, so that they must be held."""
        if self.layer.window is None:
            return self.offset
        oldest = max(self.row.floor, self.offset - (self.layer.window - self.layer.sinks) + 1)
        pinned = min(self.layer.sinks, self.offset)
        return pinned + max(0, self.offset - max(oldest, pinned))

    @property
    def held(self) -> int | None:
        """Newest positions that are surely held beside the pinned ones; None: all of them are (RING-1)."""
        window, sinks = self.layer.window, self.layer.sinks
        return None if window is None or self.offset <= window else window - sinks

    def plan(self, phase: Phase, length: int) -> index.Plan[Any]:
        """Plan one append."""
        if self.round is not None:
            return index.plan_in_round(self.state, length, self.offset - self.round)
        if isinstance(self.state, index.Full):
            return index.full_plan(self.state, length)
        return index.plan_decode(self.state) if phase == "decode" else index.plan_block(self.state, length)

    def appended(self, phase: Phase, tokens: tuple[int, ...], unread: bool) -> tuple["Model", index.Plan[Any]]:
        """Append tokens; give the model after it and the plan that was carried out."""
        plan = self.plan(phase, len(tokens))
        slots = [*self.slots, *[0] * plan.add]
        slots = slots if plan.keep is None else [slots[column] for column in plan.keep]
        end = plan.write_at + plan.length
        slots = [*slots[: plan.write_at], *tokens, *slots[end:]]
        past = evolve(
            self.past,
            styles=self.past.styles | {phase},
            rewritten=self.past.trimmed or self.past.rewritten,
            unread=self.past.unread | (frozenset(tokens) if unread else frozenset()),
            longest=max(self.past.longest, len(tokens)),
            peak=max(self.past.peak, self.offset + len(tokens)),
            grew=plan.add > 0 and self.offset > 0,
        )
        after = evolve(self, row=self.row.appended(tokens), state=plan.after, slots=tuple(slots), past=past)
        return evolve(after, version=self.version + 1).converting(), plan

    def trimmed(self, count: int, bypass: bool = False) -> "Model":
        """Drop the newest positions as a cache of our design does (``bypass`` cuts columns)."""
        gone = frozenset(self.row.tokens[self.offset - count :])
        past = evolve(self.past, trimmed=self.past.trimmed or count > 0, dropped=self.past.dropped | gone)
        row, slots = self.row.trimmed(count, None if bypass else self.held), self.slots
        if bypass and isinstance(self.state, index.Ring):
            state: index.State = index.plan_bypass(self.state, count)
            slots = slots[: state.columns]
        elif index.can_trim(self.state, count):
            state = index.plan_trim(self.state, count)
        else:
            state = self.state  # another design's answer: its layout is not modelled
        return evolve(self, row=row, state=state, slots=slots, past=past, version=self.version + 1)

    # Rounds.

    def begun(self) -> "Model":
        """Open a round."""
        return evolve(self, round=self.offset, version=self.version + 1)

    @property
    def appended_in_round(self) -> int:
        """Positions that were appended in the open round."""
        return 0 if self.round is None else self.offset - self.round

    def taken_back(self, keep: int) -> "Model":
        """Close the round and keep the first ``keep`` positions that were appended in it, as a history has them."""
        count = self.appended_in_round - keep
        gone = frozenset(self.row.tokens[self.offset - count :])
        past = evolve(self.past, dropped=self.past.dropped | gone, rolled=self.past.rolled or count > 0, rounds=True)
        row = self.row.trimmed(count)
        return evolve(self, row=row, past=evolve(past, converted=False), round=None, version=self.version + 1)

    @clause("ROUND-1", "ROUND-2", "ROUND-4", "ROUND-11")
    def closed(self, keep: int) -> "Model":
        """Close the round, keep its first ``keep`` positions, and convert what is due then."""
        state = index.after_roll_back(self.state, self.appended_in_round - keep)
        slots = self.slots[: state.columns] if isinstance(state, index.Ring) else self.slots
        return evolve(self.taken_back(keep), state=state, slots=slots).converting()

    def converting(self) -> "Model":
        """Convert what is due, and remember whether that was so."""
        settled = self.settled()
        return settled.was(converted=settled.converted and not self.converted)

    def was(self, **changes: Any) -> "Model":
        """Remember something that happened."""
        return evolve(self, past=evolve(self.past, **changes))

    def reset(self) -> "Model":
        """Empty the cache; what was in it must never be seen again."""
        gone = self.past.dropped | frozenset(self.row.tokens)
        fresh = Model.empty(self.layer, self.lenient)
        past = self.past
        past = Past(reset=True, dropped=gone, longest=past.longest, related=past.related, lent=past.lent)
        return evolve(fresh, past=past, version=self.version + 1)

    def sights(self, length: int, window_argument: int | None) -> tuple[Sight, ...]:
        """List what each query of the newest ``length`` positions sees."""
        bounds = [w for w in (self.layer.window, window_argument) if w is not None]
        start = self.offset - length
        if self.lenient:
            return tuple(Sight((self.row.tokens[q],), self.row.tokens[: q + 1]) for q in range(start, self.offset))
        window = min(bounds) if bounds else None
        return tuple(sight(self.row, q, window, self.layer.sinks) for q in range(start, self.offset))
