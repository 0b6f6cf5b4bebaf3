"""Random histories of groups, every row beside the same row alone in a serial cache, bit for bit.

The expected bytes of a token are its keys, or what ``mx.quantize`` makes of them; which of the two, and the floor, a
serial cache says that gets the row's own tokens and nothing else.  Inside a prefill bracket that cache gets what was
appended since the last commit as one window.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import mlx.core as mx
import numpy as np
import pytest

from kvlaw.mlx_impl import Cache, Read, RowGroup, make, make_rows, merge

HEADS, DIM, GROUP = 2, 32, 32
Bytes = tuple[bytes, ...]


def raw(array: mx.array) -> np.ndarray:
    return np.array(array.view({1: mx.uint8, 2: mx.uint16, 4: mx.uint32}[array.dtype.size]))


@attrs.frozen
class World:
    """A configuration, and the tokens drawn for it."""

    window: int | None
    bits: int | None
    start: Any
    dtype: mx.Dtype

    def serial(self) -> Cache:
        kind = "full" if self.window is None else "ring"
        return make(kind, self.window, bits=self.bits, group=GROUP, start=self.start)

    def rows(self, count: int) -> RowGroup:
        kind = "full_rows" if self.window is None else "ring_rows"
        return make_rows(kind, self.window, count, bits=self.bits, group=GROUP, start=self.start)

    def tensors(self, rows: Sequence[Sequence[int]]) -> tuple[mx.array, mx.array]:
        """Draw keys and values of token ids; the same id is the same token."""
        keys, values = [], []
        for ids in rows:
            drawn = [np.random.default_rng(token).standard_normal((2, HEADS, DIM)) for token in ids]
            stacked = np.stack(drawn, axis=2).astype(np.float32)
            keys.append(stacked[0])
            values.append(stacked[1])
        return mx.array(np.stack(keys)).astype(self.dtype), mx.array(np.stack(values)).astype(self.dtype)

    def stored(self, token: int, *, coded: bool) -> Bytes:
        """Return the bytes of one token: of keys and values, or of their codes."""
        pair = self.tensors([[token]])
        if not coded:
            return tuple(raw(array).tobytes() for array in pair)
        parts = [mx.quantize(array, group_size=GROUP, bits=self.bits or 0) for array in pair]
        return tuple(raw(part).tobytes() for codes in parts for part in codes)


def columns_of(keys: Any, values: Any) -> list[Bytes]:
    """Return the bytes of every column of one row."""
    planes = [keys, values] if isinstance(keys, mx.array) else [*keys, *values]
    arrays = [raw(plane) for plane in planes]
    return [tuple(a[:, :, column].tobytes() for a in arrays) for column in range(arrays[0].shape[2])]


def visible_of(view: Read, length: int) -> list[list[int]]:
    """Return the fetched columns that each query of one row sees."""
    keys = view.keys if isinstance(view.keys, mx.array) else view.keys[1]
    width = keys.shape[2]
    mask = view.mask
    if mask is None:
        return [list(range(width))] * length
    if isinstance(mask, str):
        return [list(range(width - length + i + 1)) for i in range(length)]
    assert mask.shape == (1, 1, length, width)
    return [np.flatnonzero(row).tolist() for row in np.array(mask)[0, 0]]


class Row:
    """What is known of a row: its tokens, and the same row alone."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.tokens: list[int] = []
        self.alone = world.serial()
        self.waiting: list[int] = []  # appended inside a bracket, since the last commit

    def append(self, tokens: Sequence[int], *, prefilling: bool, decode: bool = False) -> None:
        self.tokens += tokens
        if not tokens:
            return
        if prefilling:
            self.waiting += tokens
            return
        self.commit()
        call = self.alone.append_decode if decode else self.alone.append_window
        call(*self.world.tensors([tokens]))

    def commit(self) -> None:
        tokens, self.waiting = self.waiting, []
        if tokens:
            self.alone.append_window(*self.world.tensors([tokens]))

    def trim(self, count: int) -> None:
        if not count:
            return
        del self.tokens[-count:]
        left = max(0, count - len(self.waiting))
        del self.waiting[len(self.waiting) - (count - left) :]
        self.alone.trim(left)

    def copy(self) -> "Row":
        twin = Row(self.world)
        twin.tokens, twin.waiting, twin.alone = list(self.tokens), list(self.waiting), self.alone.clone()
        return twin

    @property
    def coded(self) -> bool:
        """Whether an append reads it as codes."""
        return self.alone.storage == "affine"

    def held(self) -> list[int]:
        return self.tokens if self.world.window is None else self.tokens[-self.world.window :]

    def seen_from(self, position: int) -> list[int]:
        first = 0 if self.world.window is None else max(0, position + 1 - self.world.window)
        return self.tokens[first : position + 1]


class History:
    """A group, the rows that it should have, and calls drawn at random."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.random = random.Random(seed)
        self.group = world.rows(self.random.randrange(4))
        self.rows = [Row(world) for _ in range(self.group.rows)]
        self.prefilling = False
        self.beside: list[tuple[Any, list[Row], bool]] = []  # what was taken out or cloned, with its bracket
        self.script: list[list[int | None]] | None = None  # columns that are still to come, None for padding
        self.right = False
        self.next = 1

    # -- appends

    def draw(self, count: int) -> list[int]:
        self.next += count
        return list(range(self.next - count, self.next))

    def append(self, length: int, call: str) -> None:
        columns: list[list[int | None]] = []
        for row in range(len(self.rows)):
            fresh: list[int | None] = [*self.draw(length)]
            if self.script is not None:
                fresh = self.script[row][:length]
            columns.append(fresh)
        tensors = self.world.tensors([[self.draw(1)[0] if t is None else t for t in row] for row in columns])
        before = [(len(row.tokens), row.coded) for row in self.rows]
        for row, fresh in zip(self.rows, columns, strict=True):
            real = [token for token in fresh if token is not None]
            row.append(real, prefilling=self.prefilling, decode=call == "append_decode")
        if self.script is not None:
            self.script = [row[length:] for row in self.script]
        phase = "decode" if call == "append_decode" else "window"
        as_array = self.random.random() < 0.2
        mask = self.group.mask(length, phase=phase, as_array=as_array)
        if call == "fetch_dense":
            self.check_dense(self.group.fetch_dense(*tensors), columns, before)
            return
        read = getattr(self.group, call)(*tensors, as_array=as_array)
        assert (mask if isinstance(mask, str | None) else mask.tolist()) == (
            read.mask if isinstance(read.mask, str | None) else read.mask.tolist()
        )
        self.check_read(read, columns, before)

    def check_read(self, read: Read, columns: Any, before: Any) -> None:
        queries = mx.random.normal((len(self.rows), 2 * HEADS, read.length, DIM), key=mx.random.key(self.next))
        queries = queries.astype(self.world.dtype)
        output = np.array(read.attend(queries, scale=0.2).astype(mx.float32))
        assert np.isfinite(output).all()
        for b, (row, view) in enumerate(zip(self.rows, read.rows, strict=True)):
            real = [i for i, token in enumerate(columns[b]) if token is not None]
            if not real:
                continue
            offset, coded = before[b]
            assert isinstance(view.keys, mx.array) is not coded
            fetched, visible = columns_of(view.keys, view.values), visible_of(view, read.length)
            for nth, i in enumerate(real):
                expected = row.seen_from(offset + nth)
                wanted = [self.world.stored(token, coded=coded) for token in expected]
                assert sorted(fetched[column] for column in visible[i]) == sorted(wanted)
                alone = self.attended(expected, queries[b : b + 1, :, i : i + 1], coded=coded)
                exact = self.world.dtype == mx.float32
                np.testing.assert_allclose(output[b : b + 1, :, i : i + 1], alone, atol=1e-4 if exact else 0.25)

    def attended(self, tokens: list[int], queries: mx.array, *, coded: bool) -> np.ndarray:
        """Attend in double precision over the tokens, or over what their codes stand for."""
        pair = list(self.world.tensors([tokens]))
        if coded:
            codes = [mx.quantize(array, group_size=GROUP, bits=self.world.bits or 0) for array in pair]
            pair = [mx.dequantize(*part, group_size=GROUP, bits=self.world.bits or 0) for part in codes]
        keys, values, asked = (np.array(a.astype(mx.float32)).astype(np.float64) for a in (*pair, queries))
        keys, values = np.repeat(keys, 2, axis=1), np.repeat(values, 2, axis=1)  # two query heads share a head
        scores = np.exp(0.2 * asked @ np.swapaxes(keys, 2, 3))
        return (scores / scores.sum(-1, keepdims=True)) @ values

    def check_dense(self, pair: Any, columns: Any, before: Any) -> None:
        """A dense fetch has, in each row, at least all that its queries see."""
        for b, row in enumerate(self.rows):
            real = sum(token is not None for token in columns[b])
            if not real:
                continue
            offset, coded = before[b]
            fetched = columns_of(*(array[b : b + 1] for array in pair))
            for nth in range(real):
                for token in row.seen_from(offset + nth):
                    keys, values = self.world.tensors([[token]])
                    if coded:
                        bits = self.world.bits or 0
                        keys, values = (
                            mx.dequantize(*mx.quantize(a, group_size=GROUP, bits=bits), group_size=GROUP, bits=bits)
                            for a in (keys, values)
                        )
                    assert columns_of(keys, values)[0] in fetched

    # -- everything else

    def prepare(self) -> None:
        count = len(self.rows) or self.random.randrange(1, 4)
        if not self.rows:
            self.rows = [Row(self.world) for _ in range(count)]
        fresh = self.group.columns == 0
        left = [self.random.choice([0, 0, 1, 3]) if fresh else 0 for _ in range(count)]
        real = [self.random.choice([0, 1, 2, 5, 9]) for _ in range(count)]
        total = max(a + b for a, b in zip(left, real, strict=True)) + self.random.choice([0, 0, 1, 4])
        right = [total - a - b for a, b in zip(left, real, strict=True)]
        lengths = [a + b for a, b in zip(left, real, strict=True)]
        self.group.prepare(left if any(left) else None, lengths, right)
        self.right = any(right)
        if total:
            self.script = [[*[None] * a, *self.draw(b), *[None] * c] for a, b, c in zip(left, real, right, strict=True)]
        elif not self.right:
            self.script = None

    def step(self) -> None:
        if self.script is not None:
            self.padded_step()
            return
        calls = [self.decode] * 4 + [self.window] * 3 + [self.trim, self.filter, self.take_out, self.put_together]
        calls += [self.bracket, self.prepare, self.reset, self.clone]
        self.random.choice(calls)()

    def padded_step(self) -> None:
        assert self.script is not None
        left = len(self.script[0]) if self.script else 0
        unused = any(offset < 0 for offset in self.group.offsets)
        if self.random.random() < 0.15:
            order = self.order()
            if order:
                self.group.filter(order)
                self.rows = [self.rows[b] for b in order]
                self.script = [self.script[b] for b in order]
                return
        if left and (unused or self.random.random() < 0.8):
            call = self.random.choice(["append_window", "append_window", "append_known", "fetch_dense"])
            self.append(self.random.randint(1, left), call)
            if not self.right and not self.script[0]:
                self.script = None
            return
        self.group.finalize()
        self.script, self.right = None, False

    def decode(self) -> None:
        if self.rows:
            for _ in range(self.random.choice([1, 1, 3])):
                self.append(1, self.random.choice(["append_decode", "append_decode", "fetch_dense"]))

    def window(self) -> None:
        if self.rows:
            length = self.random.choice([1, 2, 3, 7])
            self.append(length, self.random.choice(["append_window", "append_known", "fetch_dense"]))

    def trim(self) -> None:
        shortest = min((len(row.tokens) for row in self.rows), default=0)
        possible = [n for n in range(shortest + 2) if self.group.can_trim(n)]
        if self.world.window is None:
            assert possible == list(range(shortest + 1))
        if possible:
            count = self.random.choice(possible)
            assert self.group.trim(count) == count
            for row in self.rows:
                row.trim(count)

    def order(self) -> list[int]:
        return self.random.sample(range(len(self.rows)), self.random.randint(0, len(self.rows)))

    def filter(self) -> None:
        order = self.order()
        self.group.filter(order)
        self.rows = [self.rows[b] for b in order]

    def take_out(self) -> None:
        if self.rows:
            b = self.random.randrange(len(self.rows))
            row = self.rows[b].copy()
            cache = self.group.extract(b)
            assert cache.offset == len(row.tokens)
            assert cache.columns == cache.write_index == len(row.held())
            assert (cache.storage == "affine") is row.coded or cache.storage == "dense"
            row.commit()
            self.beside.append((cache, [row], False))

    def put_together(self) -> None:
        sources = self.random.sample(self.beside, min(len(self.beside), self.random.randrange(3)))
        sources.insert(self.random.randrange(len(sources) + 1), (self.group, self.rows, self.prefilling))
        if sum(len(rows) for _, rows, _ in sources) > 6:
            return
        group = merge([source for source, _, _ in sources])
        self.beside.append((self.group, self.rows, self.prefilling))
        rows: list[Row] = []
        for _, found, prefilling in sources:
            copies = [row.copy() for row in found]
            if not prefilling:
                for row in copies:
                    row.commit()
            rows += copies
        self.group, self.rows = group, rows
        self.prefilling = any(prefilling for _, _, prefilling in sources)
        assert group.prefilling is self.prefilling
        if not self.prefilling:
            for row in rows:
                row.commit()

    def bracket(self) -> None:
        if not self.prefilling:
            self.group.begin_prefill()
            self.prefilling = True
            return
        if self.random.random() < 0.6:
            order = self.order()
            self.group.commit_prefill(order)
            for b in order:
                self.rows[b].commit()
            return
        self.group.end_prefill()
        self.prefilling = False
        for row in self.rows:
            row.commit()

    def reset(self) -> None:
        if self.random.random() < 0.3:
            self.group.reset()
            self.rows = [Row(self.world) for _ in self.rows]
            self.prefilling = False

    def clone(self) -> None:
        self.beside.append((self.group, [row.copy() for row in self.rows], self.prefilling))
        self.group = self.group.clone()

    # -- what must hold after every call

    def check(self) -> None:
        group = self.group
        assert group.rows == len(self.rows)
        padded = self.script is not None
        if not padded:
            assert group.offsets == tuple(len(row.tokens) for row in self.rows)
            assert group.may_decode
            for b, row in enumerate(self.rows):
                self.check_row(b, row)
            assert group.nbytes == self.expected_bytes()
        flags = [group.storage_of(b) for b in range(group.rows)]
        if self.world.bits and self.world.start is not None:
            mixed = "packed" if "dense" not in flags else "mixed"
            assert group.storage == ("dense" if "affine" not in flags else mixed)

    def check_row(self, b: int, row: Row) -> None:
        """Hand it back: it is the row alone, bit for bit."""
        alone = row.copy()
        alone.commit()
        cache, expected = self.group.hand_back(b), alone.alone
        assert (cache.offset, cache.storage, cache.floor) == (expected.offset, expected.storage, expected.floor)
        assert (cache.identity, cache.max_append) == (expected.identity, expected.max_append)
        assert self.group.max_append_of(b) == expected.max_append
        held = alone.held()
        assert cache.size == cache.columns == len(held)
        if held:
            wanted = [self.world.stored(token, coded=cache.storage == "affine") for token in held]
            assert columns_of(*cache.peek_stored()) == wanted
            if self.world.window is None:
                assert columns_of(*expected.peek_stored()) == wanted

    def expected_bytes(self) -> int:
        group, dense = self.group, 2 * HEADS * DIM * self.world.dtype.size
        coded = 2 * HEADS * (DIM * (self.world.bits or 0) // 8 + 2 * self.world.dtype.size)
        each = [coded if group.storage_of(b) == "affine" else dense for b in range(group.rows)]
        return group.columns * sum(each)


WORLDS = [
    World(window, bits, start, dtype)
    for window in (None, 1, 2, 4, 8)
    for bits, start, dtype in (
        (None, None, mx.float32),
        (None, None, mx.bfloat16),
        (4, None, mx.bfloat16),
        (8, None, mx.float32),
        (8, 0, mx.bfloat16),
        (4, 5, mx.float32),
        (8, 9, mx.bfloat16),
        (4, "never", mx.bfloat16),
    )
]


def histories(world: World, count: int, calls: int) -> Iterator[None]:
    for seed in range(count):
        history = History(world, seed)
        for _ in range(calls):
            history.step()
            history.check()
        yield


@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_every_row_of_a_group_is_the_row_alone(world: World) -> None:
    for _ in histories(world, 4, 25):
        pass
    mx.clear_cache()
