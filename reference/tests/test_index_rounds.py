"""Rounds of serial caches and groups: plans worked out by hand, and random rounds against lists of tokens.

The tokens are the meaning: an append adds some, a roll back takes the newest away again. What a query sees of them, and
what a ring has to have kept, is sliced from the list; columns are moved by plans, so that a wrong one is a wrong token.
"""

import random

import pytest
from attrs import define, evolve, field

from kvlaw.reference import index_group
from kvlaw.reference.index import Full, Plan, Ring, State, after_roll_back, full_plan, plan_block, plan_decode
from kvlaw.reference.index import plan_in_round as in_round
from kvlaw.reference.index_group import Group

# By hand.

WIDE = Ring(4, columns=6, write_index=6, offset=6)  # one window of 6 into an empty ring


def test_a_decode_in_a_round_is_a_block_that_keeps_the_window():
    plan = in_round(WIDE, 1, 0)
    assert (plan.keep, plan.write_at, plan.fetch) == ((2, 3, 4, 5), 4, (1, 2, 3, 4))
    assert plan.after == Ring(4, columns=5, write_index=5, offset=7)


def test_the_next_append_of_a_round_keeps_what_the_round_brought_as_well():
    plan = in_round(Ring(4, columns=5, write_index=5, offset=7), 3, 1)
    assert (plan.keep, plan.write_at) == (None, 5)  # nothing goes: 4 of before the round and 1 of it
    assert plan.fetch == (2, 3, 4, 5, 6, 7)  # the newest 3 and the 3 new ones
    assert plan.after == Ring(4, columns=8, write_index=8, offset=10)


def test_a_turned_ring_is_laid_out_in_temporal_order():
    turned = Ring(4, columns=4, write_index=1, rotated=True, offset=9)
    plan = in_round(turned, 1, 0)
    assert (plan.keep, plan.write_at, plan.fetch) == ((1, 2, 3, 0), 4, (1, 2, 3, 4))
    assert plan.after == Ring(4, columns=5, write_index=5, offset=10)


def test_sinks_stay_in_front_and_are_fetched():
    pinned = Ring(3, 1, columns=5, write_index=5, offset=5)
    plan = in_round(pinned, 1, 0)
    assert (plan.keep, plan.write_at) == ((0, 3, 4), 3)  # t1, t4, t5: drops [1, 3)
    assert plan.fetch == (0, 2, 3)  # the query sees t1 and the newest 2
    assert plan.after == evolve(pinned, columns=4, write_index=4, offset=6)


def test_a_ring_below_its_window_keeps_all_and_drops_spare_columns():
    plan = in_round(Ring(300, columns=256, write_index=2, offset=2), 2, 0)
    assert (plan.keep, plan.write_at, plan.fetch) == ((0, 1), 2, (0, 1, 2, 3))


def test_a_window_of_one_keeps_one_column_that_is_not_fetched():
    plan = in_round(Ring(1, columns=1, write_index=1, offset=1), 1, 0)
    assert (plan.keep, plan.write_at, plan.fetch) == (None, 1, (1,))
    assert after_roll_back(plan.after, 1) == Ring(1, columns=1, write_index=1, offset=1)


def test_a_growing_cache_appends_in_a_round_as_ever():
    full = Full(columns=256, offset=5)
    assert in_round(full, 3, 2) == full_plan(full, 3)


@pytest.mark.parametrize(
    ("state", "count", "after"),
    [
        (Ring(4, columns=8, write_index=8, offset=10), 3, Ring(4, columns=5, write_index=5, offset=7)),
        (Ring(4, columns=4, write_index=1, rotated=True, offset=9), 0, None),
        (Ring(4, columns=3, write_index=3, offset=3), 3, Ring(4)),
        (Full(columns=256, offset=9), 4, Full(columns=256, offset=5)),
    ],
)
def test_a_roll_back_cuts_a_ring_and_lowers_the_offset_of_a_growing_cache(
    state: State, count: int, after: State | None
):
    assert after_roll_back(state, count) == (state if after is None else after)


def test_rows_with_unequal_tails_turn_what_one_gives_up_to_its_front():
    group = Group(4, 5, 5, offsets=(5, 5), starts=(3, 3))  # three columns each, and a window of two in the round
    plan = index_group.plan_close(group, (0, 1))
    assert plan.sources == ((3, 0, 1, 2), (0, 1, 2, 3))
    assert plan.after == Group(4, 4, 4, offsets=(3, 4))


def test_rows_with_equal_tails_are_cut():
    group = Group(4, 6, 6, offsets=(7, 3), starts=(5, 1))
    plan = index_group.plan_close(group, (1, 1))
    assert plan.sources == ((0, 1, 2, 3, 4),) * 2
    assert plan.after == Group(4, 5, 5, offsets=(6, 2))


def test_a_growing_group_moves_nothing_for_equal_tails():
    group = Group(None, 256, 5, offsets=(5, 3), starts=(3, 1))
    plan = index_group.plan_close(group, (0, 0))
    assert plan.sources == (tuple(range(256)),) * 2
    assert plan.after == Group(None, 256, 3, offsets=(3, 1))


def test_a_growing_group_turns_rows_for_unequal_tails_and_drops_its_spare_columns():
    group = Group(None, 256, 5, offsets=(5, 5), starts=(3, 3))
    plan = index_group.plan_close(group, (2, 0))
    assert plan.sources == ((0, 1, 2, 3, 4), (3, 4, 0, 1, 2))
    assert plan.after == Group(None, 5, 5, offsets=(5, 3))


def test_a_committed_round_leaves_columns_as_they_are():
    group = Group(4, 9, 9, offsets=(9, 5), starts=(5, 1))
    assert index_group.plan_close(group, (4, 4)).after == Group(4, 9, 9, offsets=(9, 5))
    assert index_group.plan_close(Group(4, starts=()), ()).after == Group(4)


def test_a_round_of_a_group_keeps_the_window_and_the_round():
    group = index_group.begun(Group(4, 4, 1, rotated=True, offsets=(9, 2)))
    first = index_group.plan_block(group, 1)
    assert first.sources == ((1, 2, 3, 0, None),) * 2
    assert (first.write_at, first.fetch) == (4, (1, 2, 3, 4))
    second = index_group.plan_block(first.after, 2)
    assert (second.write_at, second.fetch) == (5, (2, 3, 4, 5, 6))
    assert second.after == Group(4, 7, 7, offsets=(12, 5), starts=(9, 2))


# At random.


@define
class Serial:
    """One cache moved by plans, its tokens, and where the open round began."""

    state: State
    tokens: list[int] = field(factory=list[int])
    cells: list[int] = field(factory=list[int])
    start: int | None = None
    next_id: int = 1

    def append(self, length: int, *, decodes: bool) -> None:
        new = list(range(self.next_id, self.next_id + length))
        self.next_id += length
        plan = self.plan(length, decodes=decodes)
        cells = self.cells + [0] * plan.add
        cells = cells if plan.keep is None else [cells[column] for column in plan.keep]
        cells[plan.write_at : plan.write_at + length] = new
        self.cells, self.state = cells, plan.after
        self.tokens += new
        self.check_fetch([cells[column] for column in plan.fetch], length)

    def plan(self, length: int, *, decodes: bool) -> Plan[Ring] | Plan[Full]:
        if self.start is not None:
            return in_round(self.state, length, len(self.tokens) - self.start)
        if isinstance(self.state, Full):
            return full_plan(self.state, length)
        return plan_decode(self.state) if decodes else plan_block(self.state, length)

    def check_fetch(self, fetched: list[int], length: int) -> None:
        """Every query finds what it sees; a block fetches no more than its first query needs, and the new ones."""
        offset = len(self.tokens)
        for query in range(offset - length, offset):
            assert set(self.seen_by(query)) <= set(fetched)
        if isinstance(self.state, Ring) and self.start is not None:
            assert len(fetched) == min(offset - length, self.state.window - 1) + length
            assert fetched == sorted(fetched)
            assert fetched[-length:] == self.tokens[-length:]

    def seen_by(self, query: int) -> list[int]:
        past = self.tokens[: query + 1]
        if isinstance(self.state, Full) or len(past) <= self.state.window:
            return past
        return past[: self.state.sinks] + past[len(past) - (self.state.window - self.state.sinks) :]

    def end(self, keep: int) -> None:
        assert self.start is not None
        count = len(self.tokens) - self.start - keep
        assert count >= 0
        del self.tokens[len(self.tokens) - count :]
        self.state, self.start = after_roll_back(self.state, count), None
        if isinstance(self.state, Ring):
            self.cells = self.cells[: self.state.columns]

    def check(self) -> None:
        assert self.state.offset == len(self.tokens)
        if isinstance(self.state, Full):
            assert self.cells[: self.state.offset] == self.tokens
            return
        stored = [self.cells[column] for column in temporal(self.state)]
        sinks = self.tokens[: self.state.sinks]
        needed = sinks + self.tokens[len(sinks) :][max(0, len(self.tokens) - self.state.window) :]
        assert len(stored) == len(set(stored))
        assert set(needed) <= set(stored) <= set(self.tokens)


def temporal(ring: Ring) -> list[int]:
    """List the columns from the oldest position to the newest, pinned ones first."""
    if not ring.rotated:
        return list(range(ring.write_index))
    return [*range(ring.sinks), *range(ring.write_index, ring.columns), *range(ring.sinks, ring.write_index)]


@pytest.mark.parametrize("window", [None, *range(1, 8)])
def test_random_rounds_keep_what_the_law_shows(window: int | None):
    rng = random.Random(window or 0)
    for _ in range(150):
        sinks = rng.randrange(window) if window else 0
        world = Serial(Full() if window is None else Ring(window, sinks))
        wide = window or 5
        for _ in range(25):
            match rng.choice(("decode", "decode", "window", "begin", "end", "end")):
                case "begin":
                    world.start = len(world.tokens) if world.start is None else world.start
                case "end" if world.start is not None:
                    most = len(world.tokens) - world.start
                    world.end(rng.choice((0, most, rng.randint(0, most))))
                case "decode":
                    world.append(1, decodes=True)
                case _:
                    world.append(rng.choice((1, wide, wide + 1, rng.randint(1, 2 * wide + 2))), decodes=False)
            world.check()


@define
class Rows:
    """A group moved by plans, and each row's tokens; 0 stands for a column that is no position of its row."""

    group: Group
    tokens: list[list[int]]
    cells: list[list[int]]
    next_id: int = 1

    def append(self, length: int, *, decodes: bool) -> None:
        fits = decodes and self.group.starts is None
        plan = index_group.plan_decode(self.group) if fits else index_group.plan_block(self.group, length)
        for b, sources in enumerate(plan.sources):
            new = list(range(self.next_id, self.next_id + length))
            self.next_id += length
            moved = [0 if source is None else self.cells[b][source] for source in sources]
            moved[plan.write_at : plan.write_at + length] = new
            self.cells[b] = moved
            self.tokens[b] += new
            fetched = [moved[column] for column in plan.fetch]
            for query in range(len(self.tokens[b]) - length, len(self.tokens[b])):
                assert set(self.seen_by(b, query)) <= set(fetched)
        self.group = plan.after

    def seen_by(self, row: int, query: int) -> list[int]:
        past = self.tokens[row][: query + 1]
        return past if self.group.window is None else past[-self.group.window :]

    def end(self, rng: random.Random) -> None:
        most = index_group.appended_in_round(self.group)
        keeps = [rng.choice((0, most, rng.randint(0, most))) for _ in self.tokens]
        keeps = keeps if rng.random() < 0.7 else keeps[:1] * len(keeps)
        moved = index_group.plan_close(self.group, keeps)
        for b, (sources, keep) in enumerate(zip(moved.sources, keeps, strict=True)):
            del self.tokens[b][len(self.tokens[b]) - (most - keep) :]
            self.cells[b] = [0 if source is None else self.cells[b][source] for source in sources]
        self.group = moved.after

    def check(self) -> None:
        assert index_group.is_valid_group(self.group)
        for b, own in enumerate(self.tokens):
            assert self.group.offsets[b] == len(own)
            held = [self.cells[b][column] for column in index_group.order(self.group)]
            needed = own if self.group.window is None else own[-self.group.window :]
            assert held[len(held) - len(needed) :] == needed  # the newest, in order, at the end


@pytest.mark.parametrize("window", [None, *range(1, 7)])
def test_random_rounds_of_rows_keep_each_row(window: int | None):
    rng = random.Random(100 + (window or 0))
    for _ in range(100):
        count = rng.randint(1, 4)
        world = Rows(Group(window, offsets=(0,) * count), [[] for _ in range(count)], [[] for _ in range(count)])
        wide = window or 5
        for _ in range(20):
            match rng.choice(("decode", "decode", "window", "begin", "end", "end")):
                case "begin" if world.group.starts is None:
                    world.group = index_group.begun(world.group)
                case "end" if world.group.starts is not None:
                    world.end(rng)
                case "decode":
                    world.append(1, decodes=True)
                case _:
                    world.append(rng.choice((1, wide, wide + 1, rng.randint(1, 2 * wide + 2))), decodes=False)
            world.check()
