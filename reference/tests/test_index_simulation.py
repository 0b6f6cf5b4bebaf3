"""Random histories of rings and growing caches against lists of tokens that know nothing of `index`.

`World.tokens` is the meaning: token ids, one per retained position. `World.cells` is the buffer, moved by plans, so
a wrong column shows as a wrong token. Re-appended positions get new ids, so a dropped token that comes back shows too.
"""

import random

import pytest
from attrs import define, field

from kvlaw.reference.index import (
    Full,
    Plan,
    Ring,
    active,
    block_visible,
    can_bypass,
    can_trim,
    column_position,
    decode_visible,
    full_plan,
    full_visible,
    is_valid,
    live,
    mask_kind,
    max_columns,
    plan_block,
    plan_bypass,
    plan_decode,
    plan_trim,
    position_column,
    temporal_columns,
)

ZERO = 0  # a cell that was allocated and never written; token ids start at 1


@define
class World:
    """One cache, moved by plans (`cells`), and what was done to it (`tokens`, one id per retained position)."""

    window: int
    sinks: int
    ring: Ring
    tokens: list[int] = field(factory=list[int])
    cells: list[int] = field(factory=list[int])
    next_id: int = 1
    evicted: bool = False

    def new_tokens(self, count: int) -> list[int]:
        ids = list(range(self.next_id, self.next_id + count))
        self.next_id += count
        return ids

    def seen_by(self, query: int, window_argument: int | None) -> list[int]:
        """List the tokens the law shows to the query at position `query`, oldest first, by slicing the history."""
        past = self.tokens[: query + 1]
        if window_argument is not None and window_argument < self.window:
            return past[-window_argument:]
        if len(past) <= self.window:
            return past
        return past[: self.sinks] + past[len(past) - (self.window - self.sinks) :]


def carry_out(cells: list[int], plan: Plan[Ring] | Plan[Full], new: list[int]) -> list[int]:
    cells = cells + [ZERO] * plan.add
    if plan.keep is not None:
        cells = [cells[column] for column in plan.keep]
    assert 0 <= plan.write_at <= len(cells)
    cells[plan.write_at : plan.write_at + plan.length] = new
    return cells


def arguments(world: World, rng: random.Random) -> list[int | None]:
    narrow = [rng.randint(1, world.window)] if world.sinks == 0 else []
    return [None, world.window, world.window + 3, *narrow]


def check_invariants(world: World) -> None:
    ring, cells, offset = world.ring, world.cells, len(world.tokens)
    assert is_valid(ring)
    assert (ring.offset, ring.columns) == (offset, len(cells))
    stored = [cells[column] for column in temporal_columns(ring)]
    assert len(stored) == len(set(stored)) == active(ring)
    # I1: the newest live positions end the temporal order, in order; sinks begin it. A bypass trim may leave one less.
    pinned = min(world.sinks, offset)
    newest = min(live(ring), active(ring)) - pinned
    assert stored[:pinned] == world.tokens[:pinned]
    assert stored[len(stored) - newest :] == world.tokens[offset - newest :]
    assert active(ring) >= min(offset, world.window - 1)
    # I2: each active column holds the position of the closed form, and spare columns hold none.
    for column in range(len(cells)):
        position = column_position(ring, column)
        if position is None:
            assert column not in temporal_columns(ring)
        else:
            assert cells[column] == world.tokens[position]
            assert position_column(ring, position) == column
    for position in range(-1, offset + 2):
        column = position_column(ring, position)
        held = 0 <= position < offset and world.tokens[position] in stored
        assert (column is not None) == held
    # I4 and I5.
    if offset < world.window:
        assert not world.evicted
        assert stored == world.tokens
    if ring.rotated:
        assert ring.columns == world.window
    if active(ring) >= world.window:
        assert active(ring) == ring.columns


def check_evicted(world: World) -> None:
    stored = {world.cells[column] for column in temporal_columns(world.ring)}
    world.evicted = world.evicted or not stored.issuperset(world.tokens)


def do_decode(world: World, rng: random.Random) -> None:
    before, plan = world.ring, plan_decode(world.ring)
    new = world.new_tokens(1)
    world.cells = carry_out(world.cells, plan, new)
    world.tokens += new
    world.ring = plan.after
    fetched = [world.cells[column] for column in plan.fetch]
    query = len(world.tokens) - 1
    assert fetched[plan.fetch.index(plan.write_at)] == new[0]
    assert sorted(fetched) == world.seen_by(query, None)
    if len(world.tokens) <= world.window:
        assert fetched == world.tokens
    assert world.ring.columns <= max_columns(before, 1, "decode")
    for argument in arguments(world, rng):
        mask = [decode_visible(before, column, argument) for column in range(len(fetched))]
        seen = sorted(token for token, shown in zip(fetched, mask, strict=True) if shown)
        assert seen == world.seen_by(query, argument)
        assert mask_kind(before, 1, "decode", argument) == ("none" if all(mask) else "array")


def do_window(world: World, rng: random.Random, length: int) -> None:
    before, plan = world.ring, plan_block(world.ring, length)
    offset = len(world.tokens)
    new = world.new_tokens(length)
    world.cells = carry_out(world.cells, plan, new)
    world.tokens += new
    world.ring = plan.after
    fetched = [world.cells[column] for column in plan.fetch]
    width = min(offset, world.window - 1) + length
    assert fetched == world.cells
    assert (
        fetched
        == world.tokens[: world.sinks][:width]
        + world.tokens[offset + length - width + world.sinks :][: max(0, width - world.sinks)]
    )
    assert world.ring.columns == min(active(before), world.window - 1) + length <= max_columns(before, length, "window")
    for argument in arguments(world, rng):
        causal = True
        for i in range(length):
            mask = [block_visible(before, length, i, j, argument) for j in range(width)]
            seen = [token for token, shown in zip(fetched, mask, strict=True) if shown]
            assert seen == world.seen_by(offset + i, argument)
            causal = causal and mask == [j <= width - length + i for j in range(width)]
        assert mask_kind(before, length, "window", argument) == ("causal" if causal else "array")


def do_trim(world: World, rng: random.Random) -> None:
    offset = len(world.tokens)
    for count in (-1, offset + 1):
        assert not can_trim(world.ring, count)
    assert all(can_trim(world.ring, count) == (offset < world.window) for count in range(offset + 1))
    count = rng.randint(0, offset)
    if can_trim(world.ring, count):
        world.ring = plan_trim(world.ring, count)
        del world.tokens[offset - count :]


def do_bypass(world: World, rng: random.Random, left: int) -> int:
    """Cut some of the `left` positions of the newest window; give what is left of it."""
    assert [can_bypass(world.ring, count) for count in range(-1, left + 2)] == [False] + [True] * (left + 1) + [False]
    count = rng.choice((left, rng.randint(0, left)))
    world.ring = plan_bypass(world.ring, count)
    if count:
        del world.tokens[-count:]
        del world.cells[-count:]
    return left - count


def run(window: int, sinks: int, rng: random.Random, calls: int) -> None:
    world = World(window=window, sinks=sinks, ring=Ring(window, sinks))
    left = 0
    weights = rng.choice(((4, 2, 1, 2), (8, 1, 1, 1), (1, 4, 1, 3), (3, 1, 3, 1)))
    for _ in range(calls):
        match rng.choices(("decode", "window", "trim", "bypass"), weights)[0]:
            case "decode":
                do_decode(world, rng)
                left = 0
            case "window":
                left = rng.choice((1, window - 1 or 1, window, window + 1, rng.randint(1, 2 * window + 3)))
                do_window(world, rng, left)
            case "trim":
                before = len(world.tokens)
                do_trim(world, rng)
                left = left if len(world.tokens) == before else 0
            case _:
                left = do_bypass(world, rng, left)
        check_evicted(world)
        check_invariants(world)


@pytest.mark.parametrize("window", range(1, 9))
def test_ring_without_sinks_shows_what_the_law_shows(window: int):
    rng = random.Random(window)
    for _ in range(40):
        run(window, 0, rng, 30)


@pytest.mark.parametrize("window", range(2, 9))
def test_ring_with_sinks_shows_what_the_law_shows(window: int):
    rng = random.Random(100 + window)
    for sinks in range(1, window):
        for _ in range(12):
            run(window, sinks, rng, 30)


def test_full_shows_what_the_law_shows():
    rng = random.Random(1)
    for _ in range(60):
        full, tokens, cells, next_id = Full(), list[int](), list[int](), 1
        for _ in range(12):
            if rng.random() < 0.25:
                count = rng.randint(0, len(tokens))
                assert [can_trim(full, n) for n in (-1, 0, count, len(tokens), len(tokens) + 1)] == [
                    False,
                    True,
                    True,
                    True,
                    False,
                ]
                full = plan_trim(full, count)
                tokens = tokens[: len(tokens) - count]
            else:
                length = rng.choice((1, 1, 2, 7, 254, 255, 256, 257))
                before, plan = full, full_plan(full, length)
                new = list(range(next_id, next_id + length))
                next_id += length
                cells = carry_out(cells, plan, new)
                offset, full, tokens = len(tokens), plan.after, tokens + new
                assert [cells[column] for column in plan.fetch] == tokens
                assert full.columns <= max_columns(before, length, "decode")
                check_full_masks(before, offset, length, rng)
            assert is_valid(full)
            assert (full.offset, full.columns) == (len(tokens), len(cells))


def check_full_masks(before: Full, offset: int, length: int, rng: random.Random) -> None:
    width = offset + length
    for argument in (None, 1, rng.randint(1, width), width - 1 or 1, width):
        rows = [
            [full_visible(before, length, i, j, argument) for j in range(width)] for i in {0, length // 2, length - 1}
        ]
        for i, row in zip({0, length // 2, length - 1}, rows, strict=True):
            newest = offset + i + 1 if argument is None else min(argument, offset + i + 1)
            assert [j for j, shown in enumerate(row) if shown] == list(range(offset + i + 1 - newest, offset + i + 1))
        hides = argument is not None and argument < width
        assert mask_kind(before, length, "window", argument) == ("array" if hides else "causal")
        if length == 1:
            assert mask_kind(before, 1, "decode", argument) == ("array" if hides else "none")
