"""The ring against a list simulation: which tokens a query sees, where columns stand, what a trim leaves."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import pytest

from kvlaw.mlx_impl import CacheError, Read, RingCache, TrimError

STEP = 256


class ListRing:
    """geometry.md section 3 on a Python list of token ids; 0 is a column that was never written."""

    def __init__(self, window: int, sinks: int) -> None:
        self.window, self.sinks = window, sinks
        self.columns: list[int] = []
        self.write_index = 0
        self.rotated = False
        self.tokens: list[int] = []  # the token at every position
        self.block_left = 0

    def temporal(self) -> list[int]:
        if not self.rotated:
            return self.columns[: self.write_index]
        pins = self.columns[: self.sinks]
        return pins + self.columns[self.write_index :] + self.columns[self.sinks : self.write_index]

    def decode(self, token: int) -> list[int]:
        columns, window = self.columns, self.window
        if not self.rotated and self.write_index == len(columns) < window:
            columns += [0] * min(STEP, window - len(columns))
        if len(columns) > window:
            del columns[self.sinks : self.sinks + len(columns) - window]
            self.write_index = window
        if self.write_index == window:
            self.write_index, self.rotated = self.sinks, True
        columns[self.write_index] = token
        self.write_index += 1
        self.tokens.append(token)
        self.block_left = 0
        return list(columns if self.rotated else columns[: self.write_index])

    def block(self, new: Sequence[int]) -> list[int]:
        order = self.temporal()
        while len(order) > self.window - 1:
            del order[self.sinks]
        self.columns = order + list(new)
        self.write_index, self.rotated = len(self.columns), False
        self.tokens += new
        self.block_left = len(new)
        return list(self.columns)

    def trim(self, count: int) -> None:
        self.write_index -= count
        del self.tokens[len(self.tokens) - count :]
        self.block_left = 0 if count else self.block_left

    def bypass(self, count: int) -> None:
        if count:
            self.write_index -= count
            del self.columns[self.write_index :]
            del self.tokens[len(self.tokens) - count :]
            self.block_left -= count

    def may_see(self, position: int, window: int) -> set[int]:
        """The tokens that a query at ``position`` sees by the law, of all that the ring was ever given."""
        near = range(max(0, position - (window - self.sinks) + 1), position + 1)
        positions = near if position >= window else range(position + 1)
        return {self.tokens[at] for at in [*range(min(self.sinks, position + 1)), *positions]}


def seen(read: Read, ids: Callable[..., list[int]]) -> tuple[list[int], list[list[int]]]:
    """The fetched ids, and the ids that each query of the read sees, by its mask."""
    fetched = ids(read.keys, read.values)
    mask, width, length = read.mask, len(fetched), read.length
    if mask is None:
        return fetched, [fetched] * length
    if isinstance(mask, mx.array):
        assert mask.dtype == mx.bool_
        assert mask.shape == (length, width)
        rows: Any = mask.tolist()
    else:
        assert mask == "causal"
        rows = [[column <= width - length + query for column in range(width)] for query in range(length)]
    return fetched, [[token for token, visible in zip(fetched, row, strict=True) if visible] for row in rows]


class Driver:
    """Calls the cache and the lists alike; looks at once, or only at the end."""

    def __init__(self, rng: random.Random, stamp: Any, ids: Any, *, lazy: bool) -> None:
        self.rng, self.stamp, self.ids, self.lazy = rng, stamp, ids, lazy
        window = rng.randint(1, 8)
        self.sinks = rng.choice([0, 0, rng.randrange(window)])
        self.cache = RingCache(window, self.sinks)
        self.lists = ListRing(window, self.sinks)
        self.shape = {"batch": rng.randint(1, 2), "heads": rng.randint(1, 2), "value_dim": rng.randint(1, 3)}
        self.next_token = 1
        self.checks: list[Callable[[], None]] = []
        self.reads = 0

    def run(self, calls: int) -> None:
        for _ in range(calls):
            self.rng.choice([self.append_decode, self.append_window, self.fetch, self.trim, self.bypass, self.clone])()
            self.later(self.check_state())
        for check in self.checks:
            check()

    def later(self, check: Callable[[], None]) -> None:
        if self.lazy:
            self.checks.append(check)
        else:
            check()

    def take(self, length: int) -> list[int]:
        self.next_token += length
        return list(range(self.next_token - length, self.next_token))

    def narrower(self) -> int | None:
        window = self.cache.window
        return self.rng.choice(
            [None, None, window, window + 3, self.rng.randint(1, window) if not self.sinks else None]
        )

    def append_decode(self) -> None:
        tokens, window, as_array = self.take(1), self.narrower(), self.rng.random() < 0.3
        read = self.cache.append_decode(*self.stamp(tokens, **self.shape), window=window, as_array=as_array)
        self.later(self.check_read(read, self.lists.decode(tokens[0]), window, as_array=as_array))

    def append_window(self) -> None:
        tokens, window, as_array = self.take(self.rng.randint(1, 2 * self.cache.window + 3)), self.narrower(), False
        offset, history = self.cache.offset, min(len(self.lists.temporal()), self.cache.window - 1)
        read = self.cache.append_window(*self.stamp(tokens, **self.shape), window=window)
        bound = min(window or self.cache.window, self.cache.window)
        assert (read.mask == "causal" if isinstance(read.mask, str) else False) == (history + len(tokens) <= bound)
        assert self.cache.offset == offset + len(tokens)
        self.later(self.check_read(read, self.lists.block(tokens), window, as_array=as_array))

    def fetch(self) -> None:
        tokens = self.take(self.rng.randint(1, 4))
        keys, values = self.cache.fetch_dense(*self.stamp(tokens, **self.shape))
        expected = self.lists.decode(tokens[0]) if len(tokens) == 1 else self.lists.block(tokens)
        self.later(lambda: self.same(self.ids(keys, values), expected))

    def trim(self) -> None:
        count = self.rng.randint(0, self.cache.offset + 1)
        possible = self.cache.offset < self.cache.window and count <= self.cache.offset
        assert self.cache.can_trim(count) == possible
        if possible:
            assert self.cache.trim(count) == count
            self.lists.trim(count)
        else:
            with pytest.raises(TrimError):
                self.cache.trim(count)

    def bypass(self) -> None:
        count = self.rng.randint(0, 5)
        if count <= self.lists.block_left:
            assert self.cache.trim(count, bypass=True) == count
            self.lists.bypass(count)
        else:
            with pytest.raises(TrimError):
                self.cache.trim(count, bypass=True)

    def clone(self) -> None:
        self.cache = self.cache.clone()

    def check_read(self, read: Read, fetch: list[int], window: int | None, *, as_array: bool) -> Callable[[], None]:
        bound = min(window or self.cache.window, self.cache.window)
        first = len(self.lists.tokens) - read.length
        law = [self.lists.may_see(first + query, bound) & set(fetch) for query in range(read.length)]
        assert not as_array or isinstance(read.mask, mx.array)

        def check() -> None:
            self.reads += 1
            fetched, visible = seen(read, self.ids)
            assert fetched == fetch
            assert [sorted(row) for row in visible] == [sorted(row) for row in law]

        return check

    def check_state(self) -> Callable[[], None]:
        state, columns = self.cache.state(), list(self.lists.columns)
        assert (state["offset"], state["columns"]) == (len(self.lists.tokens), len(columns))
        assert state["write_index"] == self.lists.write_index
        if "keys" not in state:
            return lambda: None
        return lambda: self.same(self.ids(state["keys"], state["values"]), columns)

    @staticmethod
    def same(found: list[int], expected: list[int]) -> None:
        assert found == expected


@pytest.mark.parametrize("lazy", [False, True], ids=["look-every", "look-last"])
def test_random_histories_show_the_tokens_of_the_list_simulation(stamp: Any, ids: Any, lazy: Any) -> None:
    reads = 0
    for seed in range(150):
        driver = Driver(random.Random(seed), stamp, ids, lazy=lazy)
        driver.run(12)
        reads += driver.reads
    assert reads > 500


def test_decode_writes_in_place_and_wraps_to_the_sinks(stamp: Any, ids: Any) -> None:
    cache = RingCache(4, sinks=1)
    reads = [cache.append_decode(*stamp([token])) for token in range(1, 8)]
    # t1 pinned at column 0; t5, t6, t7 took columns 1, 2, 3
    assert ids(reads[-1].keys, reads[-1].values) == [1, 5, 6, 7]
    assert cache.write_index == 4
    assert ids(cache.append_decode(*stamp([8])).keys) == [1, 8, 6, 7]
    assert (cache.offset, cache.size, cache.columns, cache.write_index) == (8, 4, 4, 2)


def test_a_window_re_lays_a_wrapped_ring_and_decode_then_drops_the_overshoot(stamp: Any, ids: Any) -> None:
    cache = RingCache(4)
    for token in range(1, 7):
        cache.append_decode(*stamp([token]))
    assert ids(cache.state()["keys"]) == [5, 6, 3, 4]
    assert ids(cache.append_window(*stamp([7, 8])).keys) == [4, 5, 6, 7, 8]
    # W = 4 of [4, 5, 6, 7, 8] stay; the oldest of them, t5, is overwritten by t9
    assert ids(cache.append_decode(*stamp([9])).keys) == [9, 6, 7, 8]


def test_the_first_window_is_stored_uncut(stamp: Any, ids: Any) -> None:
    cache = RingCache(3)
    read = cache.append_window(*stamp(range(1, 8)))
    assert ids(read.keys) == [1, 2, 3, 4, 5, 6, 7]
    assert (cache.columns, cache.size, cache.offset) == (7, 3, 7)
    assert ids(cache.append_window(*stamp([8])).keys) == [6, 7, 8]


def test_a_one_token_window_concatenates_and_a_decode_does_not(stamp: Any, ids: Any) -> None:
    by_window, by_decode = RingCache(3), RingCache(3)
    for cache in (by_window, by_decode):
        cache.append_window(*stamp([1, 2, 3]))
        cache.append_decode(*stamp([4]))
    assert ids(by_window.append_window(*stamp([5])).keys) == [3, 4, 5]
    assert ids(by_decode.append_decode(*stamp([5])).keys) == [4, 5, 3]


@pytest.mark.parametrize(("window", "decodes", "columns"), [(600, 1, 256), (600, 257, 512), (600, 513, 600), (7, 1, 7)])
def test_decode_grows_by_at_most_256_columns(stamp: Any, window: Any, decodes: Any, columns: Any) -> None:
    cache = RingCache(window)
    for token in range(decodes):
        cache.append_decode(*stamp([token % 60 + 1]))
    assert cache.columns == columns


def test_a_ring_one_column_short_after_bypass_grows_again(stamp: Any, ids: Any) -> None:
    cache = RingCache(3)
    for token in range(1, 5):
        cache.append_decode(*stamp([token]))
    cache.append_window(*stamp([5, 6]))
    assert cache.trim(2, bypass=True) == 2
    assert (cache.columns, cache.offset) == (2, 4)
    assert ids(cache.append_decode(*stamp([7])).keys) == [3, 4, 7]


def test_bypass_may_drop_the_whole_of_a_first_window(stamp: Any, ids: Any) -> None:
    cache = RingCache(2)
    cache.append_window(*stamp([1, 2, 3]))
    assert cache.trim(1, bypass=True) == 1
    assert cache.trim(2, bypass=True) == 2
    assert (cache.offset, cache.columns, cache.nbytes, cache.bytes_per_token, cache.rows) == (0, 0, 0, 0, 0)
    assert "keys" not in cache.state()
    read = cache.append_window(*stamp([4, 5], heads=2, dtype=mx.float16))  # it takes shapes and dtype anew
    assert ids(read.keys) == [4, 5]
    cache.trim(2, bypass=True)
    assert ids(cache.append_decode(*stamp([6])).keys) == [6]


def test_a_plain_trim_of_nothing_leaves_the_window_to_bypass(stamp: Any) -> None:
    cache = RingCache(8)
    cache.append_window(*stamp([1, 2, 3]))
    assert cache.trim(0) == 0
    assert cache.trim(3, bypass=True) == 3


def test_a_plain_trim_of_everything_keeps_shapes_and_dtype(stamp: Any) -> None:
    cache = RingCache(4)
    cache.append_window(*stamp([1, 2, 3]))
    assert cache.trim(3) == 3
    with pytest.raises(CacheError, match="ERR-3"):
        cache.append_decode(*stamp([4], dtype=mx.float16))


def test_bypass_ends_with_the_next_call_that_changes_the_ring(stamp: Any) -> None:
    cache = RingCache(8)
    cache.append_window(*stamp([1, 2, 3]))
    cache.trim(1)
    with pytest.raises(TrimError, match="TRIM-12"):
        cache.trim(1, bypass=True)
    cache.append_window(*stamp([4, 5]))
    with pytest.raises(TrimError, match="2 positions of a window"):
        cache.trim(3, bypass=True)
    cache.append_decode(*stamp([6]))
    with pytest.raises(TrimError, match="TRIM-12"):
        cache.trim(1, bypass=True)
    assert cache.trim(0, bypass=True) == 0


def test_identity_names_the_configuration() -> None:
    assert RingCache(8).identity == "ring(window=8,sinks=0)"
    assert RingCache(8, 3).identity == "ring(window=8,sinks=3)"


@pytest.mark.parametrize(
    ("window", "sinks"), [(0, 0), (-1, 0), (True, 0), (2.0, 0), ("8", 0), (4, 4), (4, -1), (4, 1.0)]
)
def test_impossible_rings_are_refused(window: Any, sinks: Any) -> None:
    with pytest.raises(CacheError, match="ERR-6"):
        RingCache(window, sinks)
