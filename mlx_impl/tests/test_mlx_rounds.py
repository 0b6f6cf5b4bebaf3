"""Rounds: what is left after one is what there would be if the rejected tokens had never been.

Random rounds of every kind of cache and group, over the window and over the start of codes, are set beside a cache that
got the kept tokens alone. The bytes of a token are those that were drawn for it, or what ``mx.quantize`` makes of them;
which of the two a cache holds follows from its start and from the offsets at which rounds ended.

``KVLAW_LONG=1`` plays the campaign: about 50,000 rounds.
"""

import os
import random
from collections.abc import Sequence
from typing import Any

import attrs
import mlx.core as mx
import numpy as np
import pytest

from kvlaw.mlx_impl import Cache, CacheError, ConfigError, Read, RowGroup, layers, make, make_rows, merge
from kvlaw.mlx_impl.errors import RoundError

HEADS, DIM, GROUP, TOKENS = 2, 32, 32, 600
HISTORIES = 76 if os.environ.get("KVLAW_LONG") == "1" else 3
ROUNDS = 10
Columns = list[bytes]


def raw(array: mx.array) -> np.ndarray:
    return np.array(array.view({1: mx.uint8, 2: mx.uint16, 4: mx.uint32}[array.dtype.size]))


def columns_of(keys: Any, values: Any, row: int = 0) -> Columns:
    """Return the bytes of every column of one row, keys and values or their codes together."""
    planes = [keys, values] if isinstance(keys, mx.array) else [*keys, *values]
    arrays = [np.ascontiguousarray(raw(plane)[row].swapaxes(0, 1)) for plane in planes]  # [columns, H, ...]
    return [b"".join(array[column].tobytes() for array in arrays) for column in range(arrays[0].shape[0])]


@attrs.define(slots=False, eq=False)
class World:
    """A configuration, and the tokens drawn for it."""

    window: int | None
    bits: int | None = None
    start: Any = None
    dtype: mx.Dtype = mx.bfloat16
    sinks: int = 0

    def __attrs_post_init__(self) -> None:
        drawn = np.random.default_rng(5).standard_normal((2, 1, HEADS, TOKENS, DIM)).astype(np.float32)
        self.keys, self.values = (mx.array(plane).astype(self.dtype) for plane in drawn)
        self.half = columns_of(self.keys, self.values)
        codes = [mx.quantize(plane, group_size=GROUP, bits=self.bits or 8) for plane in (self.keys, self.values)]
        self.coded = columns_of(codes[0], codes[1])

    def __str__(self) -> str:
        return f"W={self.window} s={self.sinks} bits={self.bits} start={self.start} {str(self.dtype)[9:]}"

    def serial(self) -> Cache:
        kind = "full" if self.window is None else "ring"
        return make(kind, self.window, self.sinks, bits=self.bits, group=GROUP, start=self.start)

    def rows(self, count: int) -> RowGroup:
        kind = "full_rows" if self.window is None else "ring_rows"
        return make_rows(kind, self.window, count, bits=self.bits, group=GROUP, start=self.start)

    def tensors(self, rows: Sequence[Sequence[int]]) -> tuple[mx.array, mx.array]:
        return tuple(mx.concatenate([plane[:, :, mx.array(ids)] for ids in rows]) for plane in (self.keys, self.values))  # type: ignore[return-value]

    def bytes_of(self, tokens: Sequence[int], *, coded: bool) -> Columns:
        table = self.coded if coded else self.half
        return [table[token] for token in tokens]

    def held(self, tokens: list[int]) -> list[int]:
        """The pinned tokens, and the newest that make a window with them."""
        if self.window is None or len(tokens) <= self.window:
            return tokens
        return tokens[: self.sinks] + tokens[len(tokens) - (self.window - self.sinks) :]

    def alone(self, tokens: list[int]) -> Cache:
        """A cache that got these tokens and no others, as one window."""
        cache = self.serial()
        if tokens:
            cache.append_window(*self.tensors([tokens]))
        return cache

    def length(self, rng: random.Random) -> int:
        wide = self.window or 4
        return rng.choice((1, 1, max(1, wide - 1), wide, wide + 1, rng.randint(1, 2 * wide + 2)))


def queries(length: int, rows: int, dtype: mx.Dtype) -> mx.array:
    return mx.random.normal((rows, 2 * HEADS, length, DIM), key=mx.random.key(length)).astype(dtype)


def seen(view: Read, query: int, row: int = 0) -> Columns:
    """Return the bytes of the columns that one query sees, sorted."""
    fetched = columns_of(view.keys, view.values, row)
    width, mask = len(fetched), view.mask
    if mask is None:
        return sorted(fetched)
    if isinstance(mask, str):
        return sorted(fetched[: width - view.length + query + 1])
    entries = np.broadcast_to(np.array(mask), (row + 1, 1, view.length, width))[row, 0, query]
    return sorted(column for column, shown in zip(fetched, entries, strict=True) if shown)


@attrs.define
class Serial:
    """One cache, its tokens, and where its round began."""

    world: World
    rng: random.Random
    cache: Cache
    tokens: list[int] = attrs.field(factory=list)
    next: int = 0
    rounds: int = 0

    def draw(self, count: int) -> list[int]:
        self.next += count
        return list(range(self.next - count, self.next))

    def append(self) -> None:
        """Append in one of the ways that there are, and compare what its queries see."""
        name = self.rng.choice(("append_decode", "append_decode", "append_window", "append_known", "fetch_dense"))
        new = self.draw(1 if name == "append_decode" else self.world.length(self.rng))
        coded = self.cache.storage == "affine"
        read = getattr(self.cache, name)(*self.world.tensors([new]))
        before = len(self.tokens)
        self.tokens += new
        if name == "fetch_dense":
            return
        for query in range(len(new)):
            wanted = self.world.bytes_of(self.world.held(self.tokens[: before + query + 1]), coded=coded)
            assert seen(read, query) == sorted(wanted)

    def round(self) -> None:
        """Begin, append, take back, and compare with a cache that never had what was taken back."""
        begun, dense = len(self.tokens), self.cache.storage == "dense"
        self.cache.begin_round()
        for _ in range(self.rng.choice((0, 1, 1, 2, 4))):
            self.append()
            assert (self.cache.storage == "dense") is dense
            assert not any(self.cache.can_trim(n) for n in range(3))
            if self.world.window is not None:
                assert self.cache.columns <= self.world.window + len(self.tokens) - begun
        appended = len(self.tokens) - begun
        keep = self.rng.choice((0, appended, self.rng.randint(0, appended)))
        self.end(keep, appended)
        del self.tokens[begun + keep :]
        self.rounds += 1
        self.compare(laid_out=appended > 0)

    def end(self, keep: int, appended: int) -> None:
        if keep == appended and self.rng.random() < 0.5:
            self.cache.commit_round()
            return
        before = shown_of(self.cache)
        for wrong in (appended + 1, -1):
            with pytest.raises(RoundError, match="ROUND-7"):
                self.cache.roll_back(wrong)
        assert shown_of(self.cache) == before
        self.cache.roll_back(keep)

    def compare(self, *, laid_out: bool) -> None:
        alone, cache, world = self.world.alone(self.tokens), self.cache, self.world
        assert (cache.offset, cache.size, cache.storage) == (alone.offset, alone.size, alone.storage)
        if not self.tokens:
            assert cache.columns == 0 or world.window is None
            return
        if laid_out:  # after an empty round a ring may have turned
            held, stored = world.held(self.tokens), columns_of(*cache.peek_stored())
            pinned = stored[: min(world.sinks, len(held))]
            live = pinned + stored[len(stored) - len(held) + len(pinned) :]
            assert live == world.bytes_of(held, coded=cache.storage == "affine")
        self.compare_reads(cache.clone(), alone, "append_window", self.world.length(self.rng))
        if laid_out:
            self.compare_reads(cache.clone(), alone, "append_decode", 1)

    def compare_reads(self, one: Cache, other: Cache, name: str, length: int) -> None:
        """The next read is the same, bit for bit: columns, order, mask and output."""
        new = self.world.tensors([list(range(TOKENS - length, TOKENS))])
        reads = [getattr(cache.clone(), name)(*new) for cache in (one, other)]
        assert columns_of(reads[0].keys, reads[0].values) == columns_of(reads[1].keys, reads[1].values)
        masks = [read.mask if isinstance(read.mask, str | None) else read.mask.tolist() for read in reads]
        assert masks[0] == masks[1]
        asked = queries(length, 1, self.world.dtype)
        outputs = [raw(read.attend(asked, scale=0.2)).tobytes() for read in reads]
        assert outputs[0] == outputs[1]


def shown_of(cache: Cache | RowGroup) -> dict[str, Any]:
    state = {name: part.tolist() if isinstance(part, mx.array) else part for name, part in cache.state().items()}
    return {**state, "open": cache.in_round, "bytes": cache.nbytes, "storage": cache.storage}


POLICIES = (
    (None, None, mx.float32),
    (4, None, mx.bfloat16),
    (8, 0, mx.bfloat16),
    (8, 5, mx.float32),
    (4, 11, mx.bfloat16),
    (8, "never", mx.bfloat16),
)
SERIAL = [
    World(window, *policy, sinks=sinks)
    for window, sinks in ((None, 0), (1, 0), (2, 0), (4, 0), (4, 1), (7, 3))
    for policy in POLICIES
]
GROUPS = [World(window, *policy) for window in (None, 1, 2, 4, 7) for policy in POLICIES]


@pytest.mark.parametrize("world", SERIAL, ids=str)
def test_a_round_leaves_what_the_kept_tokens_alone_leave(world: World) -> None:
    for seed in range(HISTORIES):
        play = Serial(world, random.Random(seed), world.serial())
        while play.rounds < ROUNDS and play.next < TOKENS // 2:
            for _ in range(play.rng.choice((0, 0, 1, 2))):
                play.append()
            play.round()
    mx.clear_cache()


@attrs.define
class Rows:
    """A group, the tokens of its rows, and what of them is codes by now."""

    world: World
    rng: random.Random
    group: RowGroup
    tokens: list[list[int]]
    coded: list[bool]
    next: int = 0
    rounds: int = 0

    def settle(self) -> None:
        """Note which rows are due by now."""
        start = self.world.start
        for row, tokens in enumerate(self.tokens):
            due = isinstance(start, int) and len(tokens) >= max(1, start)
            self.coded[row] = self.coded[row] or due

    def append(self, *, in_round: bool) -> None:
        name = self.rng.choice(("append_decode", "append_decode", "append_window", "append_known"))
        length = 1 if name == "append_decode" else self.world.length(self.rng)
        if not in_round:
            self.settle()  # a row converts at its next append
        new = [list(range(self.next + b * length, self.next + (b + 1) * length)) for b in range(len(self.tokens))]
        self.next += len(new) * length
        read = getattr(self.group, name)(*self.world.tensors(new))
        for row, (view, ids) in enumerate(zip(read.rows, new, strict=True)):
            before = len(self.tokens[row])
            self.tokens[row] += ids
            for query in range(length):
                held = self.world.held(self.tokens[row][: before + query + 1])
                assert seen(view, query) == sorted(self.world.bytes_of(held, coded=self.coded[row]))

    def round(self) -> None:
        begun = [len(tokens) for tokens in self.tokens]
        self.settle()
        self.group.begin_round()
        for _ in range(self.rng.choice((0, 1, 1, 2, 3))):
            self.append(in_round=True)
        if len(self.tokens) > 1 and self.rng.random() < 0.15:
            order = self.rng.sample(range(len(self.tokens)), self.rng.randint(1, len(self.tokens)))
            self.group.filter(order)
            self.tokens, begun = [self.tokens[b] for b in order], [begun[b] for b in order]
            self.coded = [self.coded[b] for b in order]
        appended = len(self.tokens[0]) - begun[0]
        keeps = [self.rng.choice((0, appended, self.rng.randint(0, appended))) for _ in self.tokens]
        keeps = keeps if self.rng.random() < 0.8 else keeps[:1] * len(keeps)
        self.end(keeps, appended)
        self.tokens = [own[: at + keep] for own, at, keep in zip(self.tokens, begun, keeps, strict=True)]
        self.settle()
        self.rounds += 1
        self.compare()

    def end(self, keeps: list[int], appended: int) -> None:
        if set(keeps) == {appended} and self.rng.random() < 0.5:
            self.group.commit_round()
        elif len(set(keeps)) == 1 and self.rng.random() < 0.5:
            self.group.roll_back(keeps[0])
        else:
            before = shown_of(self.group)
            for wrong in ([*keeps[1:], appended + 1], [-1, *keeps[1:]], [*keeps, 0, 0]):
                with pytest.raises(RoundError, match="ROUND-7"):
                    self.group.roll_back(wrong)
            assert shown_of(self.group) == before
            self.group.roll_back(keeps)

    def compare(self) -> None:
        group, world = self.group, self.world
        assert group.offsets == tuple(map(len, self.tokens))
        length = world.length(self.rng)
        new = [list(range(TOKENS - length, TOKENS))] * len(self.tokens)
        asked = queries(length, len(new), world.dtype)
        read = group.clone().append_window(*world.tensors(new))
        output = np.array(read.attend(asked, scale=0.2).astype(mx.float32))
        for row, tokens in enumerate(self.tokens):
            assert (group.storage_of(row) == "affine") is (
                self.coded[row] or (bool(world.bits) and world.start is None)
            )
            taken = group.extract(row)
            held = world.held(tokens)
            assert (taken.offset, taken.columns, taken.write_index) == (len(tokens), len(held), len(held))
            if held:
                wanted = world.bytes_of(held, coded=taken.storage == "affine")
                assert columns_of(*taken.peek_stored()) == wanted
            alone = group.hand_back(row).append_window(*world.tensors(new[:1]))
            for query in range(length):
                assert seen(read.rows[row], query) == seen(alone, query)
            lonely = np.array(alone.attend(asked[row : row + 1], scale=0.2).astype(mx.float32))
            exact = world.dtype == mx.float32
            np.testing.assert_allclose(output[row : row + 1], lonely, atol=1e-5 if exact else 0.05)


@pytest.mark.parametrize("world", GROUPS, ids=str)
def test_a_round_of_rows_leaves_each_row_what_its_kept_tokens_alone_leave(world: World) -> None:
    always = world.bits is not None and world.start is None
    for seed in range(HISTORIES):
        rng = random.Random(seed)
        count = rng.choice((1, 2, 3))
        play = Rows(world, rng, world.rows(count), [[] for _ in range(count)], [always] * count)
        while play.rounds < ROUNDS and play.next < TOKENS // 2:
            for _ in range(rng.choice((0, 0, 1, 2))):
                play.append(in_round=False)
            play.round()
    mx.clear_cache()


# By hand.


def test_a_round_of_a_ring_step_by_step(stamp: Any, ids: Any) -> None:
    ring = make("ring", 4)
    ring.append_window(*stamp([1, 2, 3, 4, 5]))
    ring.begin_round()
    assert ids(ring.append_decode(*stamp([6])).keys) == [3, 4, 5, 6]
    assert ids(ring.state()["keys"]) == [2, 3, 4, 5, 6]
    assert ids(ring.append_window(*stamp([7, 8])).keys) == [4, 5, 6, 7, 8]
    assert ids(ring.state()["keys"]) == [2, 3, 4, 5, 6, 7, 8]
    ring.roll_back(1)
    assert ids(ring.state()["keys"]) == [2, 3, 4, 5, 6]
    assert ring.offset == 6
    assert ids(ring.append_decode(*stamp([9])).keys) == [9, 4, 5, 6]


def test_all_of_a_first_round_can_be_taken_back_and_another_dtype_may_follow(stamp: Any) -> None:
    ring = make("ring", 3)
    ring.begin_round()
    ring.append_window(*stamp([1, 2, 3, 4]))
    ring.roll_back(0)
    assert (ring.offset, ring.columns, ring.rows) == (0, 0, 0)
    ring.append_decode(*stamp([5], heads=3, dtype=mx.bfloat16))
    assert ring.offset == 1


@pytest.mark.parametrize("kind", ["full", "ring"])
def test_what_is_no_round_is_refused_and_changes_nothing(kind: Any, stamp: Any) -> None:
    cache = make(kind, 4 if kind == "ring" else None)
    cache.append_window(*stamp([1, 2]))
    before = shown_of(cache)
    for ask in (cache.commit_round, lambda: cache.roll_back(0)):
        with pytest.raises(RoundError, match="no round is open"):
            ask()
    assert shown_of(cache) == before
    cache.begin_round()
    cache.append_decode(*stamp([3]))
    before = shown_of(cache)
    asks: list[Any] = [cache.begin_round, lambda: cache.trim(0), lambda: cache.trim(1, bypass=True)]
    wrongs: list[Any] = [2, -1, 1.5, None, True, [0, 0], "1"]
    asks += [lambda wrong=wrong: cache.roll_back(wrong) for wrong in wrongs]
    for ask in asks:
        with pytest.raises(CacheError, match="ROUND-"):
            ask()
    assert shown_of(cache) == before


def test_a_group_in_a_round_is_not_taken_apart(stamp: Any) -> None:
    group = make_rows("ring_rows", 4, 2)
    group.append_window(*stamp([1, 2], batch=2))
    group.begin_round()
    group.append_decode(*stamp([3], batch=2))
    before = shown_of(group)
    asks: list[Any] = [group.begin_round, lambda: group.trim(0), lambda: group.extract(0), lambda: group.hand_back(1)]
    asks += [lambda: merge([group]), lambda: group.prepare(lengths=[0, 0], right=[1, 1])]
    for ask in asks:
        with pytest.raises(CacheError, match="ROUND-"):
            ask()
    assert shown_of(group) == before
    serial = make("ring", 4)
    serial.begin_round()
    with pytest.raises(CacheError, match="ROUND-9"):
        merge([serial])
    group.commit_round()
    assert group.offsets == (3, 3)


def test_no_round_begins_while_padding_is_to_come(stamp: Any) -> None:
    group = make_rows("full_rows", rows=2)
    group.prepare(lengths=[2, 1], right=[0, 1])
    with pytest.raises(CacheError, match="PAD-9"):
        group.begin_round()
    group.append_window(*stamp([1, 2], batch=2))
    group.finalize()
    group.begin_round()
    assert group.in_round


def test_a_clone_has_the_round_and_a_reset_ends_it(stamp: Any) -> None:
    cache = make("ring", 2)
    cache.append_window(*stamp([1, 2, 3]))
    cache.begin_round()
    cache.append_decode(*stamp([4]))
    twin = cache.clone()
    twin.append_decode(*stamp([5]))
    twin.roll_back(2)
    cache.roll_back(0)
    assert (twin.offset, cache.offset) == (5, 3)
    assert not twin.in_round
    cache.begin_round()
    cache.reset()
    assert not cache.in_round
    cache.begin_round()


def test_an_empty_group_may_have_rounds() -> None:
    group = make_rows("ring_rows", 4, 0)
    group.begin_round()
    group.roll_back(0)
    group.begin_round()
    group.commit_round()
    assert not group.in_round


def test_a_round_of_layers_is_all_or_nothing(stamp: Any) -> None:
    found = [make("full"), make("ring", 2), make("ring", 4, 1)]
    layers.append_window(found, [stamp([1, 2, 3])] * 3)
    layers.begin_round(found)
    layers.append_window(found, [stamp([4, 5])] * 3)
    before = [shown_of(cache) for cache in found]
    for ask in (lambda: layers.begin_round(found), lambda: layers.roll_back(found, 3), lambda: layers.trim(found, 1)):
        with pytest.raises(CacheError, match="ROUND-"):
            ask()
    with pytest.raises(ConfigError, match="a cache of its own"):
        layers.commit_round([found[0], found[0]])
    assert [shown_of(cache) for cache in found] == before
    found[2].commit_round()  # one layer is out of step: no layer acts
    before = [shown_of(cache) for cache in found]
    for ask in (lambda: layers.commit_round(found), lambda: layers.roll_back(found, 0)):
        with pytest.raises(RoundError, match="no round"):
            ask()
    assert [shown_of(cache) for cache in found] == before
    layers.roll_back(found[:2], 1)
    assert [cache.offset for cache in found] == [4, 4, 5]


def test_a_step_that_fails_halfway_can_only_be_rolled_back(stamp: Any) -> None:
    found = [make("full"), make("ring", 2), make("full")]
    layers.append_window(found, [stamp([1, 2, 3])] * 3)
    layers.begin_round(found)
    layers.append_window(found, [stamp([4, 5])] * 3)
    for cache in found[:2]:  # a model moves its layers by itself, and fails before the last
        cache.append_decode(*stamp([6]))
    before = [shown_of(cache) for cache in found]
    one = [stamp([7])] * 3
    acts = {
        "a commit": lambda: layers.commit_round(found),
        "an append": lambda: layers.append_decode(found, one),
        "0 to 2": lambda: layers.roll_back(found, 3),
    }
    for said, act in acts.items():
        with pytest.raises(RoundError, match=said):
            act()
    assert [shown_of(cache) for cache in found] == before
    layers.roll_back(found, 2)
    assert [cache.offset for cache in found] == [5, 5, 5]
    layers.append_decode(found, one)
    other = [make("full"), make("full")]
    other[0].append_decode(*stamp([1]))  # outside a round a caller may do as he likes
    layers.append_decode(other, one[:2])


def test_codes_are_made_once(stamp: Any) -> None:
    """A kept column has the very codes of its append, through any number of rounds."""
    world = World(4, 4)
    ring = world.serial()
    ring.append_window(*world.tensors([[0, 1, 2, 3]]))
    for token in range(4, 20):
        ring.begin_round()
        ring.append_window(*world.tensors([[token, 300, 301]]))
        ring.roll_back(1)
    assert columns_of(*ring.peek_stored())[-4:] == world.bytes_of([16, 17, 18, 19], coded=True)


def test_a_conversion_waits_for_the_end_of_a_round() -> None:
    world = World(8, 8, 4)
    ring = world.serial()
    ring.append_window(*world.tensors([[0, 1, 2]]))
    ring.begin_round()
    ring.append_window(*world.tensors([[3, 4, 5]]))
    assert (ring.storage, ring.floor) == ("dense", 0)
    early = ring.clone()
    early.roll_back(0)
    assert (early.storage, early.floor, early.max_append) == ("dense", 0, 1)
    ring.roll_back(2)
    assert (ring.storage, ring.floor) == ("affine", 5)
    assert columns_of(*ring.peek_stored()) == world.bytes_of(range(5), coded=True)
