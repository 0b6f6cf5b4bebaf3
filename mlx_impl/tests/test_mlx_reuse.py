"""The store of prefixes: what is found, what is lent, and what makes room."""

import random
import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from kvlaw.mlx_impl import Cache, CacheError, ConfigError, CountError, layers, make
from kvlaw.mlx_impl.errors import RoundError
from kvlaw.mlx_impl.reuse import PrefixStore

_spoilt = runpy.run_path(str(Path(__file__).with_name("spoilt_files.py")), run_name="spoilt_files")
KINDS: dict[str, dict[str, Any]] = _spoilt["KINDS"]
MUCH = 1 << 30


def pair(tokens: Sequence[int]) -> tuple[mx.array, mx.array]:
    """Make keys and values that say which tokens they are of."""
    ids = mx.array(list(tokens), mx.float32)[None, None, :, None]
    keys = mx.broadcast_to(ids, (1, 1, len(tokens), 32)).astype(mx.float32)
    return keys, keys + 0.5


def holding(config: dict[str, Any], tokens: Sequence[int]) -> Cache:
    cache = make(**config)
    if tokens:
        cache.append_window(*pair(tokens))
    return cache


def seen(cache: Cache, token: int) -> list[int]:
    """Decode a token and list what its query sees."""
    cache.append_decode(*pair([token]))
    keys, _ = cache.peek()
    listed: Any = keys[0, 0, :, 0].tolist()
    return sorted(round(number) for number in listed)


FULL: dict[str, Any] = {"kind": "full"}


@pytest.mark.parametrize(
    ("prompt", "length"),
    [
        ([1, 2, 3, 4, 9], 4),
        ([1, 2, 3, 4], 3),  # one token is left to be read
        ([1, 2, 9, 4], 2),
        ([1], 0),
        ([9, 2, 3], 0),
        ([], 0),
        ([1, 9], 1),
        ([1, 2, 3, 4, 5, 6], 4),
    ],
)
def test_the_common_prefix_is_lent_but_for_the_last_token(prompt: list[int], length: int) -> None:
    store = PrefixStore(MUCH)
    assert store.put([1, 2, 3, 4], [holding(FULL, [1, 2, 3, 4])])
    found = store.get(prompt)
    if length == 0:
        assert found is None
        return
    assert found is not None
    (cache,), count = found
    assert count == cache.offset == length
    assert seen(cache, 77) == [*prompt[:length], 77]


def test_a_layer_that_cannot_be_cut_is_lent_whole_or_not_at_all() -> None:
    ring: dict[str, Any] = {"kind": "ring", "window": 3}
    store = PrefixStore(MUCH)
    store.put([1, 2], [holding(FULL, [1, 2]), holding(ring, [1, 2])])
    store.put([1, 2, 3, 4], [holding(FULL, [1, 2, 3, 4]), holding(ring, [1, 2, 3, 4])])
    assert len(store) == 2  # the longer one cannot be cut to what the shorter one gives
    lengths = {}
    for prompt in ([1, 2, 3, 4, 9], [1, 2, 3, 9], [1, 2, 9], [1, 9], [1, 2]):
        found = store.get(prompt)
        lengths[tuple(prompt)] = found and (found[1], [cache.offset for cache in found[0]])
    assert lengths == {
        (1, 2, 3, 4, 9): (4, [4, 4]),
        (1, 2, 3, 9): (2, [2, 2]),
        (1, 2, 9): (2, [2, 2]),
        (1, 9): (1, [1, 1]),
        (1, 2): (1, [1, 1]),
    }


def test_nothing_below_a_floor_is_lent() -> None:
    config: dict[str, Any] = {"kind": "full", "bits": 8, "group": 32, "start": 3}
    store = PrefixStore(MUCH)
    cache = holding(config, [1, 2])
    cache.append_window(*pair([3, 4]))
    assert cache.floor == 4
    cache.append_window(*pair([5, 6]))
    store.put([1, 2, 3, 4, 5, 6], [cache])
    assert store.get([1, 2, 3, 9]) is None
    found = store.get([1, 2, 3, 4, 9])
    assert found is not None
    assert (found[1], found[0][0].floor, found[0][0].storage) == (4, 4, "affine")


def test_a_longer_entry_replaces_what_it_gives_too_and_keeps_what_it_does_not() -> None:
    config: dict[str, Any] = {"kind": "full", "bits": 8, "group": 32, "start": 3}
    store = PrefixStore(MUCH)
    for tokens in ([1, 2], [1, 2, 3, 4]):
        store.put(tokens, [holding(config, tokens)])
    assert len(store) == 2  # half precision below the floor of the longer one
    assert [found and found[1] for found in (store.get([1, 2, 9]), store.get([1, 2, 3, 4, 9]))] == [2, 4]
    plain = PrefixStore(MUCH)
    for tokens in ([1, 2], [1, 2, 3, 4], [1, 2, 3, 4], [1, 5]):
        plain.put(tokens, [holding(FULL, tokens)])
    assert len(plain) == 2
    other = PrefixStore(MUCH)
    other.put([1, 2], [holding(FULL, [1, 2])], "a")
    other.put([1, 2, 3], [holding(FULL, [1, 2, 3])], "b")
    other.put([1, 2, 3], [holding(KINDS["affine"], [1, 2, 3])], "a")
    assert len(other) == 3


def test_namespaces_and_configurations_do_not_mix() -> None:
    store = PrefixStore(MUCH)
    store.put([1, 2, 3], [holding(FULL, [1, 2, 3])], "a")
    assert store.get([1, 2, 9]) is None
    assert store.get([1, 2, 9], "b") is None
    assert store.get([1, 2, 9], "a", like=[make("ring", 4)]) is None
    assert store.get([1, 2, 9], "a", like=[make("full"), make("full")]) is None
    found = store.get([1, 2, 9], "a", like=[make("full")])
    assert found is not None
    assert found[1] == 2


def test_what_is_lent_and_what_was_put_belong_to_nobody_else() -> None:
    store = PrefixStore(MUCH)
    source = holding({"kind": "ring", "window": 3}, [1, 2, 3])
    store.put([1, 2, 3], [source])
    assert seen(source, 50) == [2, 3, 50]
    one, other = store.get([1, 2, 3, 9]), store.get([1, 2, 3, 9])
    assert one is not None
    assert other is not None
    assert seen(one[0][0], 60) == [2, 3, 60]
    assert seen(other[0][0], 61) == [2, 3, 61]
    assert seen(one[0][0], 62) == [3, 60, 62]
    again = store.get([1, 2, 9])
    assert again is None  # a full ring cannot be cut
    assert store.get([1, 2, 3, 9]) is not None


def test_what_cannot_be_put_is_refused() -> None:
    store = PrefixStore(MUCH)
    cache = holding(FULL, [1, 2])
    for tokens, caches in (([1], [cache]), ([1, 2], []), ([1, 2], [cache, holding(FULL, [1])])):
        with pytest.raises(ConfigError, match="REUSE-6"):
            store.put(tokens, caches)
    cache.begin_round()
    with pytest.raises(RoundError, match="REUSE-9"):
        store.put([1, 2], [cache])
    with pytest.raises(CountError):
        PrefixStore(-1)
    assert not store.put([], [make("full")])
    assert len(store) == 0


def test_the_least_recently_used_makes_room_by_real_bytes() -> None:
    size = holding(FULL, [1]).nbytes
    store = PrefixStore(2 * size)
    for tokens in ([1, 2], [3, 4]):
        assert store.put(tokens, [holding(FULL, tokens)])
    assert store.nbytes == 2 * size
    assert store.get([1, 9]) is not None  # used last
    assert store.put([5, 6], [holding(FULL, [5, 6])])
    assert store.nbytes == 2 * size
    assert [store.get([first, 99]) is not None for first in (1, 3, 5)] == [True, False, True]
    assert not store.put([7, 8], [holding(FULL, [7, 8]) for _ in range(3)])  # never fits
    assert len(store) == 2
    store.clear()
    assert (len(store), store.nbytes) == (0, 0)


def test_planes_that_entries_share_count_once() -> None:
    cache = holding({"kind": "ring", "window": 4}, [1, 2, 3, 4])
    store = PrefixStore(MUCH)
    store.put([1, 2, 3, 4], [cache], "a")
    store.put([1, 2, 3, 4], [cache], "b")
    assert store.nbytes == cache.nbytes


@pytest.mark.parametrize("seed", range(6))
def test_random_stores_lend_what_a_plain_search_finds(seed: int) -> None:
    """Beside a store that keeps all that was ever put, and searches it by the words of chapter 16."""
    rng = random.Random(seed)  # a fixed sequence is wanted
    store, known = PrefixStore(MUCH), list[tuple[list[int], list[Cache], str]]()
    configs = [[KINDS[name] for name in names] for names in (("full",), ("full", "ring"), ("first",), ("affine ring",))]
    for _ in range(60):
        config, space = rng.choice(configs), rng.choice(("", "b"))
        tokens = [rng.randint(1, 2) for _ in range(rng.randint(1, 9))]
        if rng.random() < 0.5:
            caches = [holding(c, tokens) for c in config]
            store.put(tokens, caches, space)
            known.append((tokens, layers.clone(caches), space))
            continue
        like = [make(**c) for c in config]
        found = store.get(tokens, space, like=like)
        best = 0
        for held, caches, where in known:
            shared = next(
                (i for i, (a, b) in enumerate(zip(held, tokens, strict=False)) if a != b), min(len(held), len(tokens))
            )
            n = min(shared, len(tokens) - 1)
            same = where == space and [c.identity for c in caches] == [c.identity for c in like]
            able = n == len(held) or layers.can_trim(caches, len(held) - n)
            if same and able and n >= max(c.floor for c in caches):
                best = max(best, n)
        assert (found[1] if found else 0) == best
        if found:
            assert [cache.offset for cache in found[0]] == [best] * len(config)


def test_refusals_are_cache_errors() -> None:
    assert issubclass(RoundError, CacheError)
