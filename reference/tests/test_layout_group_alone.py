"""Random histories of NumPy groups, each row beside a serial cache that is given its real tokens and nothing else.

After every call a row, handed back, has the bits of that serial cache in temporal order, its storage and its floor; and
every real query sees the same columns, bit for bit, as in the serial cache, in the same precision.
"""

import random
from typing import Any

import numpy as np
import pytest
from attrs import define, field

from kvlaw.reference import index, index_group
from kvlaw.reference.layout import Cache, Planes, Read
from kvlaw.reference.layout_group import GroupRead, RowGroup, merge
from kvlaw.spec.config import LayerSpec

HEADS, KEYS, VALUES = 1, 32, 64
KEPT = {"bits": 4, "value_bits": 2, "group": 32}

Tensors = tuple[Any, Any]


@define
class Row:
    alone: Cache
    left: int = 0
    room: int | None = None


@define
class World:
    group: RowGroup
    rng: random.Random
    bits: np.random.Generator
    rows: list[Row] = field(factory=list[Row])

    @property
    def settled(self) -> bool:
        return all(row.left == 0 and row.room is None for row in self.rows)

    def tensors(self, rows: int, length: int) -> Tensors:
        """Draw finite bf16 numbers of moderate size."""
        drawn = [self.bits.standard_normal((rows, HEADS, length, width), np.float32) for width in (KEYS, VALUES)]
        keys, values = ((plane.view(np.uint32) >> 16).astype(np.uint16) for plane in drawn)
        return keys, values


def queries_of(world: World, rows: int, length: int) -> Any:
    return world.tensors(rows, length)[0]


def real_columns(row: Row, length: int) -> list[int]:
    """List which of the next columns are real tokens, taking up the padding that was announced."""
    real = list[int]()
    for column in range(length):
        if row.left:
            row.left -= 1
        elif row.room is None or row.room > 0:
            real.append(column)
        row.room = row.room and row.room - 1
    return real


def shown(read: Read, query: int) -> list[bytes]:
    """Give the columns that a query sees, as bytes of key and value together, in no order."""
    width = read.keys.shape[2]
    if isinstance(read.mask, np.ndarray):
        entries = np.broadcast_to(read.mask, (1, 1, read.length, width))[0, 0, query]
    else:
        entries = np.arange(width) <= width - read.length + query
    return sorted(read.keys[0, :, c].tobytes() + read.values[0, :, c].tobytes() for c in range(width) if entries[c])


def do_append(world: World, length: int, decodes: bool, argument: int | None) -> None:
    keys, values = world.tensors(len(world.rows), length)
    append = world.group.append_decode if decodes else world.group.append_window
    read = append(keys, values, "bf16", argument, world.rng.random() < 0.3)
    output = read.attend(queries_of(world, len(world.rows), length), 0.25)
    assert np.isfinite((output.astype(np.uint32) << 16).view(np.float32)).all()  # padded queries too
    for b, row in enumerate(world.rows):
        if real := real_columns(row, length):
            own = Planes(keys[b : b + 1, :, real], values[b : b + 1, :, real])
            compare_reads(row, own, read.rows[b], real, decodes, argument)


def compare_reads(row: Row, own: Planes, read: Read, real: list[int], decodes: bool, argument: int | None) -> None:
    append = row.alone.append_decode if decodes else row.alone.append_window
    expected = append(own.keys, own.values, "bf16", argument)
    assert read.form == expected.form
    for query, column in enumerate(real):
        assert shown(read, column) == shown(expected, query)


def do_prepare(world: World) -> None:
    rng = world.rng
    left = [rng.choice((0, 1, 3)) for _ in world.rows] if world.group.write_index == 0 else None
    lengths = [pad + rng.choice((0, 1, 2, 5)) for pad in left or [0] * len(world.rows)]
    right = [rng.choice((0, 2)) for _ in world.rows] if rng.random() < 0.8 else None
    world.group.prepare(left, lengths, right)
    for b, row in enumerate(world.rows):
        row.left, row.room = left[b] if left else 0, lengths[b] if any(right or ()) else None


def do_finalize(world: World) -> None:
    world.group.finalize()
    for row in world.rows:
        row.room = None


def do_merge(world: World) -> None:
    """Put the group between a serial cache of its own policy and a row of its own that was taken out, raw."""
    joining = Cache(world.group.layer.serial)
    for _ in range(world.rng.randint(0, 3)):
        joining.append_window(*world.tensors(1, world.rng.randint(1, 6)), "bf16")
    sources, rows = list[RowGroup | Cache]([world.group]), list(world.rows)
    if world.rows and world.rng.random() < 0.5:
        chosen = world.rng.randrange(len(world.rows))
        sources.append(world.group.extract(chosen))
        rows.append(Row(world.rows[chosen].alone.clone()))
    if len(rows) < 4:
        sources.insert(0, joining)
        rows.insert(0, Row(joining.clone()))
    world.group, world.rows = merge(sources), rows


def do_filter(world: World) -> None:
    chosen = world.rng.sample(range(len(world.rows)), world.rng.randint(1, len(world.rows)))
    world.group.filter(chosen)
    world.rows = [world.rows[b] for b in chosen]


def do_trim(world: World) -> None:
    count = world.rng.randint(0, min((row.alone.offset for row in world.rows), default=0))
    if world.group.can_trim(count):
        world.group.trim(count)
        for row in world.rows:
            row.alone.trim(count)


def held(cache: Cache) -> list[bytes]:
    """Give the bytes of the positions that count, oldest first."""
    if cache.planes is None:
        return []
    columns = range(cache.offset) if isinstance(cache.state, index.Full) else index.temporal_columns(cache.state)
    newest = list(columns)[len(columns) - cache.size :]
    keys, values = cache.planes.keys, cache.planes.values
    return [keys[0, :, column].tobytes() + values[0, :, column].tobytes() for column in newest]


def check(world: World) -> None:
    group = world.group
    assert group.count == len(world.rows)
    assert group.offsets == tuple(-row.left or row.alone.offset for row in world.rows)
    if not world.settled:
        return
    for b, row in enumerate(world.rows):
        cache = group.hand_back(b)
        assert (cache.offset, cache.size, cache.storage) == (row.alone.offset, row.alone.size, row.alone.storage)
        assert (cache.floor, cache.max_append) == (row.alone.floor, row.alone.max_append)
        assert held(cache) == held(row.alone)
        check_raw(group, b, row)


def check_raw(group: RowGroup, b: int, row: Row) -> None:
    raw = group.extract(b)
    assert (raw.storage, raw.floor) == (group.row_storage(b), group.floor(b))
    assert (raw.columns, raw.write_index, raw.max_append) == (row.alone.size, row.alone.size, "unbounded")
    if raw.storage == row.alone.storage:  # the row is no more due
        assert held(raw) == held(row.alone)


def step(world: World, name: str) -> None:
    rng = world.rng
    argument = rng.choice((None, None, rng.randint(1, 6)))
    if name == "window":
        do_append(world, rng.choice((1, 2, rng.randint(1, 9))), False, argument)
    elif name == "finalize":
        do_finalize(world)
    elif name == "filter" and len(world.rows) > 1:
        do_filter(world)
    elif world.settled and name in SETTLED:
        SETTLED[name](world)
    elif world.settled and name == "decode":
        do_append(world, 1, True, argument)


SETTLED = {"trim": do_trim, "merge": do_merge, "prepare": do_prepare}
CALLS = ("decode", "window", "trim", "merge", "prepare", "filter", "finalize")

LAYERS = [
    LayerSpec("full_rows"),
    LayerSpec("ring_rows", 1),
    LayerSpec("ring_rows", 4),
    LayerSpec("full_rows", **KEPT),
    LayerSpec("ring_rows", 3, **KEPT),
    LayerSpec("full_rows", **KEPT, start=0),
    LayerSpec("full_rows", **KEPT, start=5),
    LayerSpec("ring_rows", 1, **KEPT, start=2),
    LayerSpec("ring_rows", 3, **KEPT, start=0),
    LayerSpec("ring_rows", 4, **KEPT, start=3),
    LayerSpec("ring_rows", 4, **KEPT, start=9),
    LayerSpec("ring_rows", 4, **KEPT, start="never"),
]


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.describe())
def test_a_row_of_a_group_has_the_bits_of_the_same_row_alone(layer: LayerSpec):
    rng = random.Random(layer.describe())
    for seed in range(25):
        count = rng.randint(1, 3)
        rows = [Row(Cache(layer.serial)) for _ in range(count)]
        world = World(RowGroup(layer, count), rng, np.random.default_rng(seed), rows)
        for name in rng.choices(CALLS, rng.choice(((5, 4, 1, 2, 2, 1, 2), (2, 5, 2, 1, 4, 1, 2))), k=14):
            step(world, name)
            check(world)


def test_a_known_append_reads_like_a_window_and_a_dense_fetch_hands_out_what_it_reads():
    layer = LayerSpec("ring_rows", 3, **KEPT, start=3)
    world = World(RowGroup(layer, 2), random.Random(0), np.random.default_rng(0))
    first, second = world.tensors(2, 2), world.tensors(2, 2)
    world.group.prepare(lengths=(1, 2), right=(1, 0))
    world.group.append_window(*first, "bf16")
    world.group.finalize()
    world.group.append_window(*second, "bf16")  # offsets 3 and 4, both due by the next token
    twin = world.group.clone()
    again = world.tensors(2, 2)
    read: GroupRead = world.group.append_known(*again, "bf16")
    fetched = twin.fetch_dense(*again, "bf16")
    assert [row.form for row in read.rows] == ["affine", "affine"]
    assert index_group.active(twin.state) == index_group.active(world.group.state)
    for row, planes in zip(read.rows, fetched, strict=True):
        assert row.codec is not None
        assert np.array_equal(row.codec.decode("keys", row.keys), planes.keys)
        assert np.array_equal(row.codec.decode("values", row.values), planes.values)
