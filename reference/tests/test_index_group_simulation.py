"""Random histories of groups against lists of tokens, one per row, that know nothing of `index_group`.

A `Row` here is what happened to one sequence: its tokens, how much announced padding is still to come, how much was
processed. `cells` are its columns, moved by plans, so a wrong source shows as a wrong token. `World.total` counts the
columns by hand: fetch widths, trims and memory follow from it without asking the geometry.
"""

import random

import pytest
from attrs import define, evolve, field

from kvlaw.reference import index, index_group
from kvlaw.reference.index_group import Group, Moved, RowsPlan

BLANK = 0  # real tokens are positive ids, padding negative ones


@define
class Row:
    tokens: list[int] = field(factory=list[int])
    left: int = 0  # announced left padding that has not come yet
    room: int | None = None  # columns before the row's right padding; None if none is pending
    over: int = 0  # columns of right padding that lie at its end
    cells: list[int] = field(factory=list[int])

    def copied(self) -> "Row":
        return evolve(self, tokens=list(self.tokens), cells=list(self.cells))

    def window(self, window: int | None, query: int) -> list[int]:
        past = self.tokens[: query + 1]
        return past if window is None else past[-window:]


@define
class World:
    window: int | None
    rng: random.Random
    group: Group
    rows: list[Row] = field(factory=list[Row])
    total: int = 0  # columns that every row was given, less those taken from all of them
    next_id: int = 1

    @classmethod
    def of(cls, window: int | None, count: int, rng: random.Random) -> "World":
        return cls(window, rng, Group(window, offsets=(0,) * count), [Row() for _ in range(count)])

    @property
    def reach(self) -> float:
        return float("inf") if self.window is None else self.window

    @property
    def pending(self) -> bool:
        return any(row.room is not None for row in self.rows)

    @property
    def settled(self) -> bool:
        return not self.pending and all(row.left == 0 for row in self.rows)

    def new_id(self) -> int:
        self.next_id += 1
        return self.next_id

    def move(self, moved: Moved | RowsPlan, order: list[int] | None = None) -> None:
        chosen = self.rows if order is None else [self.rows[b].copied() for b in order]
        for row, sources in zip(chosen, moved.sources, strict=True):
            assert len(sources) == moved.after.columns
            row.cells = [BLANK if source is None else row.cells[source] for source in sources]
        self.rows, self.group = chosen, moved.after


def next_columns(row: Row, length: int) -> list[bool]:
    """Say of each of the next columns whether it is a real token, taking up the padding that was announced."""
    real = list[bool]()
    for _ in range(length):
        if row.left:
            row.left -= 1
            real.append(False)
        else:
            real.append(row.room is None or row.room > 0)
            row.over += not real[-1]
        if row.room:
            row.room -= 1
    return real


def append(world: World, plan: RowsPlan, real: list[list[bool]]) -> list[list[int]]:
    """Carry out an append; give each row's fetch."""
    world.move(plan)
    for row, flags in zip(world.rows, real, strict=True):
        new = [world.new_id() if flag else -world.new_id() for flag in flags]
        row.cells[plan.write_at : plan.write_at + plan.length] = new
        row.tokens += [token for token in new if token > 0]
    world.total += plan.length
    return [[row.cells[column] for column in plan.fetch] for row in world.rows]


def arguments(world: World) -> list[int | None]:
    return [None, world.rng.randint(1, 8 if world.window is None else world.window + 2)]


def narrower(window: int | None, argument: int | None) -> int | None:
    return min((w for w in (window, argument) if w is not None), default=None)


def do_decode(world: World) -> None:
    before, plan = world.group, index_group.plan_decode(world.group)
    columns = before.columns
    fetches = append(world, plan, [[True]] * len(world.rows))
    assert len(plan.fetch) == min(world.total, world.reach)
    for b, (row, fetch) in enumerate(zip(world.rows, fetches, strict=True)):
        if world.total <= world.reach:
            assert fetch[len(fetch) - len(row.tokens) :] == row.tokens
        for argument in arguments(world):
            seen = [cell for c, cell in enumerate(fetch) if index_group.decode_visible(before, b, c, argument)]
            assert sorted(seen) == row.window(narrower(world.window, argument), len(row.tokens) - 1)
    for argument in arguments(world):
        hidden = [
            not index_group.decode_visible(before, b, c, argument)
            for b in range(len(world.rows))
            for c in range(len(plan.fetch))
        ]
        assert index_group.mask_kind(before, 1, "decode", argument) == ("array" if any(hidden) else "none")
    if world.window is None:
        needed = plan.write_at + 1
        assert world.group.columns == (columns if needed <= columns else -(-needed // 256) * 256)
    else:
        assert world.group.columns <= world.window


def do_block(world: World, length: int) -> None:
    before, plan, pending = world.group, index_group.plan_block(world.group, length), world.pending
    starts = [len(row.tokens) for row in world.rows]
    left_before = [row.left for row in world.rows]
    world.total -= min((row.over for row in world.rows), default=0)
    for row in world.rows:
        row.over = 0
    real = [next_columns(row, length) for row in world.rows]
    for b, flags in enumerate(real):
        assert index_group.real(before, b, length) == tuple(i for i, flag in enumerate(flags) if flag)
    width = int(min(world.total, world.reach - 1)) + length
    kept = int(min(world.total, world.reach if pending else world.reach - 1))
    fetches = append(world, plan, real)
    assert len(plan.fetch) == width
    for b, (row, fetch) in enumerate(zip(world.rows, fetches, strict=True)):
        for argument in arguments(world):
            for i, flag in enumerate(real[b]):
                seen = [
                    cell for j, cell in enumerate(fetch) if index_group.block_visible(before, b, length, i, j, argument)
                ]
                query = starts[b] + i - left_before[b]
                if flag:
                    assert seen == row.window(narrower(world.window, argument), query)
                assert not any(cell < 0 for cell in seen) or not flag
    for argument in arguments(world):
        causal = all(
            index_group.block_visible(before, b, length, i, j, argument) == (j <= width - length + i)
            for b in range(len(world.rows))
            for i in range(length)
            for j in range(width)
        )
        assert index_group.mask_kind(before, length, "window", argument) == ("causal" if causal else "array")
    assert not world.group.rotated
    if world.window is None:
        assert plan.write_at == kept
        assert world.group.columns >= kept + length
        assert world.group.columns in (before.columns, -(-(kept + length) // 256) * 256)
    else:
        assert world.group.columns == world.group.write_index == kept + length  # I6 and the memory bound


def expected_trim(world: World, count: int) -> bool:
    shortest = min((len(row.tokens) for row in world.rows), default=0)
    return world.settled and 0 <= count <= shortest and world.total < world.reach


def do_trim(world: World) -> None:
    longest = max((len(row.tokens) for row in world.rows), default=0)
    for count in range(-1, longest + 2):
        assert index_group.can_trim(world.group, count) == expected_trim(world, count)
    count = world.rng.randint(0, min((len(row.tokens) for row in world.rows), default=0))
    if expected_trim(world, count):
        world.group, world.total = index_group.plan_trim(world.group, count), world.total - count
        for row in world.rows:
            row.tokens = row.tokens[: len(row.tokens) - count]


def do_filter(world: World) -> None:
    count = len(world.rows)
    least = min(count, 0 if world.rng.random() < 0.1 else 1)
    chosen = world.rng.sample(range(count), world.rng.randint(least, count))
    assert index_group.can_filter(world.group, chosen)
    settled = world.settled
    world.move(index_group.filtered(world.group, chosen), chosen)
    if not chosen:
        assert world.group == Group(world.window)
        world.total = 0
    elif world.window is None and settled:
        world.total = max(len(row.tokens) for row in world.rows)  # the padding of all survivors is gone


def do_prepare(world: World) -> None:
    rng, count = world.rng, len(world.rows) or world.rng.randint(1, 3)
    most = 5 if world.window is None else 2 * world.window + 3
    left = [rng.choice((0, 0, 1, rng.randint(0, most))) for _ in range(count)] if rng.random() < 0.5 else None
    pads = left or [0] * count
    lengths = [pad + rng.choice((0, 1, rng.randint(0, most))) for pad in pads]
    right = [rng.choice((0, 1, rng.randint(0, most))) for _ in range(count)] if rng.random() < 0.7 else None
    problem = index_group.prepare_problem(world.group, left, lengths, right)
    refused = not world.settled or (any(pads) and world.total > 0)
    assert (problem is not None) == refused
    if refused:
        return
    world.group = index_group.prepared(world.group, left, lengths, right)
    if not world.rows:
        world.rows = [Row() for _ in range(count)]
    for row, pad, length in zip(world.rows, pads, lengths, strict=True):
        row.left, row.room = pad, length if any(right or ()) else None


def do_finalize(world: World) -> None:
    world.move(index_group.plan_finalize(world.group))
    if any(row.over for row in world.rows):
        world.total -= min(row.over for row in world.rows)
    for row in world.rows:
        row.room, row.over = None, 0


def do_merge(world: World) -> None:
    """Put the group, in some place among some serial caches, into a new one."""
    sources = list[tuple[list[tuple[Group, int]], list[Row], int]]()
    for _ in range(world.rng.randint(0, 2)):
        serial, row = serial_cache(world)
        sources.append(([(index_group.lone(serial), 0)], [row], len(row.tokens)))
    if world.rng.random() < 0.8 and len(world.rows) < 4:
        parts = [(world.group, b) for b in range(len(world.rows))]
        sources.insert(world.rng.randint(0, len(sources)), (parts, world.rows, world.total))
    parts = [part for found, _, _ in sources for part in found]
    world.rows = [row for _, found, _ in sources for row in found]
    widest = int(max((min(len(row.tokens), world.reach) for row in world.rows), default=0))
    total = next((total for found, _, total in sources if found), 0)
    moved = index_group.joined(world.window, parts)
    world.move(moved)
    if len(parts) == 1:
        assert moved.after == parts[0][0]
        assert moved.sources == (tuple(range(moved.after.columns)),)
        world.total = total
    else:
        assert moved.after.offsets == tuple(len(row.tokens) for row in world.rows)
        assert evolve(moved.after, offsets=()) == Group(world.window, widest, widest)
        world.total = widest


def serial_cache(world: World) -> tuple[index.State, Row]:
    """Make a serial cache of random age, wrapped or not."""
    state: index.State = index.Full() if world.window is None else index.Ring(world.window)
    row = Row()
    for _ in range(world.rng.randint(0, 8)):
        length = world.rng.choice((1, 1, world.rng.randint(1, 9)))
        if isinstance(state, index.Full):
            plan: index.Plan[index.Full] | index.Plan[index.Ring] = index.full_plan(state, length)
        elif length == 1 and world.rng.random() < 0.7:
            plan = index.plan_decode(state)
        else:
            plan = index.plan_block(state, length)
        cells = row.cells + [BLANK] * plan.add
        cells = cells if plan.keep is None else [cells[column] for column in plan.keep]
        new = [world.new_id() for _ in range(length)]
        cells[plan.write_at : plan.write_at + length] = new
        row.cells, state = cells, plan.after
        row.tokens += new
    return state, row


def check(world: World) -> None:
    group = world.group
    assert index_group.is_valid_group(group)
    assert index_group.rows(group) == len(world.rows)
    assert index_group.is_settled_padding(group) == world.settled
    assert index_group.may_decode(group) == (world.settled and bool(world.rows))
    active, order = index_group.active(group), index_group.order(group)
    assert active <= world.total  # I4
    assert (active < world.reach) == (world.total < world.reach)
    if group.rotated:  # I5
        assert group.columns == world.window
    elif group.columns > group.write_index:
        assert active < world.reach
    for b, row in enumerate(world.rows):
        assert len(row.cells) == group.columns
        assert index_group.overrun(group, b) == row.over
        assert index_group.valid(group, b) == (-row.left if row.left else len(row.tokens))
        held = int(min(len(row.tokens), world.reach))
        assert index_group.held(group, b) == held
        newest = row.tokens[len(row.tokens) - held :]
        stored = [row.cells[column] for column in order]
        before_overrun = stored[: len(stored) - row.over]
        assert before_overrun[len(before_overrun) - held :] == newest  # I1
        assert [row.cells[column] for column in index_group.extracted(group, b)] == newest
        live = frozenset(newest)
        for place, cell in enumerate(before_overrun):  # I2
            position = group.offsets[b] - active + place
            expected = position >= len(row.tokens) - held and position >= 0
            assert (cell in live) == expected
            if expected:
                assert cell == row.tokens[position]
            if place < index_group.left_pad(group, b):
                assert cell not in live
        if world.settled:
            check_alone(world, b, newest)


def check_alone(world: World, b: int, newest: list[int]) -> None:
    alone = index_group.alone(world.group, b)
    assert index.is_valid(alone)
    assert (alone.offset, alone.columns) == (len(world.rows[b].tokens), len(newest))
    assert index_group.lone(alone).write_index == len(newest)


def act(world: World, name: str) -> None:
    """Carry out one call, if the group may be asked for it now."""
    rng, longest = world.rng, 9 if world.window is None else 2 * world.window + 3
    if name == "block" and world.rows:
        do_block(world, rng.choice((1, 1, rng.randint(1, longest))))
    elif name == "decode" and world.rows and world.settled:
        do_decode(world)
    elif name == "merge" and world.settled:
        do_merge(world)
    elif name == "prepare":
        if rng.random() < 0.3 or not world.rows:
            world.group = index_group.reset_rows(world.group)
            world.rows, world.total = [Row() for _ in world.rows], 0
        do_prepare(world)
    elif name in ALWAYS:
        ALWAYS[name](world)


ALWAYS = {"trim": do_trim, "filter": do_filter, "finalize": do_finalize}
CALLS = ("decode", "block", "trim", "filter", "merge", "prepare", "finalize")
STYLES = ((4, 3, 1, 1, 1, 2, 2), (8, 1, 1, 1, 1, 1, 1), (1, 4, 1, 1, 1, 4, 2), (2, 2, 2, 2, 3, 1, 1))


def run(window: int | None, rng: random.Random, calls: int) -> None:
    world = World.of(window, rng.randint(0, 3), rng)
    for name in rng.choices(CALLS, rng.choice(STYLES), k=calls):
        act(world, name)
        check(world)


@pytest.mark.parametrize("window", [None, 1, 2, 3, 4, 5, 6])
def test_every_row_of_a_group_is_shown_what_the_law_shows_it_alone(window: int | None):
    rng = random.Random(f"group {window}")
    for _ in range(300):
        run(window, rng, 16)


@pytest.mark.parametrize("window", [None, 1, 2, 3, 5])
def test_a_group_of_one_row_moves_like_the_serial_cache(window: int | None):
    rng = random.Random(f"alone {window}")
    for _ in range(100):
        serial: index.State = index.Full() if window is None else index.Ring(window)
        group = Group(window, offsets=(0,))
        for _ in range(12):
            length = rng.choice((1, 1, rng.randint(1, 9), 255, 256) if window is None else (1, 1, rng.randint(1, 9)))
            decodes = length == 1 and rng.random() < 0.7
            if isinstance(serial, index.Full):
                plan: index.Plan[index.Full] | index.Plan[index.Ring] = index.full_plan(serial, length)
            else:
                plan = index.plan_decode(serial) if decodes else index.plan_block(serial, length)
            moved = index_group.plan_decode(group) if decodes else index_group.plan_block(group, length)
            serial, group = plan.after, moved.after
            assert group == index_group.lone(serial)
            assert (moved.write_at, moved.length) == (plan.write_at, plan.length)
            assert moved.fetch == plan.fetch
            count = rng.randint(0, 3)
            assert index_group.can_trim(group, count) == index.can_trim(serial, count)
            if rng.random() < 0.2 and index.can_trim(serial, count):
                serial, group = index.plan_trim(serial, count), index_group.plan_trim(group, count)
