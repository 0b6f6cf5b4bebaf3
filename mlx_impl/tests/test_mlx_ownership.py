"""What was handed out never changes, what was handed in is not kept, clones do not touch each other."""

import copy
from collections.abc import Iterator
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from kvlaw.mlx_impl import Cache, FullCache, Read, RingCache

MAKES = {"full": FullCache, "ring": lambda: RingCache(4), "ring with sinks": lambda: RingCache(4, 1)}


@pytest.fixture(params=MAKES)
def make(request: Any) -> Any:
    return MAKES[request.param]


def history(cache: Cache, stamp: Any) -> Iterator[Read]:
    """Decodes, a window past the ring's end, and decodes again."""
    for token in (1, 2):
        yield cache.append_decode(*stamp([token]))
    yield cache.append_window(*stamp([3, 4, 5]))
    for token in (6, 7, 8, 9):
        yield cache.append_decode(*stamp([token]))


def copied(array: Any) -> np.ndarray:
    return np.array(array)


def plain(mask: Any) -> Any:
    return mask.tolist() if isinstance(mask, mx.array) else mask


def test_reads_answer_the_same_whatever_their_cache_does(make: Any, stamp: Any) -> None:
    mx.random.seed(3)
    cache = make()
    reads: list[tuple[Read, mx.array]] = []
    answers: list[tuple[np.ndarray, np.ndarray]] = []
    for read in history(cache, stamp):
        queries = mx.random.normal((1, 2, read.length, 2))
        reads.append((read, queries))
        answers.append((copied(read.keys), copied(read.attend(queries, scale=1.0))))
    clone = cache.clone()
    clone.append_window(*stamp([50]))
    if cache.can_trim(5):
        cache.trim(5)
    cache.append_decode(*stamp([51]))
    cache.reset()
    del cache
    for (read, queries), (keys, output) in zip(reads, answers, strict=True):
        np.testing.assert_array_equal(copied(read.keys), keys)
        np.testing.assert_array_equal(copied(read.attend(queries, scale=1.0)), output)


def test_reads_evaluated_only_at_the_end_show_their_own_moment(make: Any, stamp: Any, ids: Any) -> None:
    lazy = [(read, read.attend(mx.ones((1, 1, read.length, 2)), scale=1.0)) for read in history(make(), stamp)]
    eager = [
        (ids(read.keys, read.values), copied(read.attend(mx.ones((1, 1, read.length, 2)), scale=1.0)))
        for read in history(make(), stamp)
    ]
    for (read, output), (tokens, expected) in zip(reversed(lazy), reversed(eager), strict=True):
        assert ids(read.keys, read.values) == tokens
        np.testing.assert_array_equal(copied(output), expected)


def test_handed_out_arrays_never_change(make: Any, stamp: Any) -> None:
    cache = make()
    held: list[tuple[mx.array, np.ndarray]] = []
    for tokens in ([1], [2], [3, 4, 5], [6], [7], [8]):
        keys, values = cache.fetch_dense(*stamp(tokens))
        mask = cache.mask(2, phase="window", as_array=True)
        state = [part for part in cache.state().values() if isinstance(part, mx.array)]
        held += [(array, copied(array)) for array in (keys, values, mask, *state)]
    cache.reset()
    for array, before in held:
        np.testing.assert_array_equal(copied(array), before)


def test_writing_to_what_was_handed_out_changes_nothing(make: Any, stamp: Any, show: Any) -> None:
    cache = make()
    for length in (6, 1, 1):
        read = (cache.append_window if length > 1 else cache.append_decode)(*stamp([7] * length))
        before, keys, mask = show(cache), copied(read.keys), plain(read.mask)
        dense = cache.clone().fetch_dense(*stamp([9]))
        masks = [cache.mask(3, phase="window", as_array=True), read.mask]
        for array in [read.keys, read.values, *cache.state().values(), *dense, *masks]:
            if isinstance(array, mx.array):
                array[...] = 0
        assert show(cache) == before
        np.testing.assert_array_equal(copied(read.keys), keys)
        assert plain(read.mask) == mask


@pytest.mark.parametrize("lengths", [(1, 1, 1, 1, 1, 1), (3, 1), (6, 2, 1), (1, 7), (256,)])
@pytest.mark.parametrize("evaluated", [False, True])
def test_arrays_of_an_append_are_borrowed(make: Any, stamp: Any, show: Any, lengths: Any, evaluated: Any) -> None:
    mine, theirs = make(), make()
    for length in lengths:
        tokens = [length % 50 + 1] * length
        keys, values = stamp(tokens)
        if evaluated:
            mx.eval(keys, values)
        name = "append_decode" if length == 1 else "append_window"
        read = getattr(mine, name)(keys, values)
        keys[...] = -1
        values *= 0
        mx.eval(keys, values)
        expected = getattr(theirs, name)(*stamp(tokens))
        np.testing.assert_array_equal(copied(read.keys), copied(expected.keys))
        np.testing.assert_array_equal(copied(read.values), copied(expected.values))
    assert show(mine) == show(theirs)


def test_a_numpy_view_of_an_appended_array_does_not_reach_the_storage(make: Any, stamp: Any, show: Any) -> None:
    cache = make()
    keys, values = stamp([1, 2, 3])
    mx.eval(keys, values)
    read = cache.append_window(keys, values)
    mx.eval(read.keys, read.values)
    before = show(cache)
    np.asarray(keys)[...] = 77
    assert copied(keys).max() == 77
    assert show(cache) == before


def test_clones_start_equal_and_part(make: Any, stamp: Any, show: Any, ids: Any) -> None:
    cache = make()
    list(history(cache, stamp))
    clone = cache.clone()
    before = show(cache)
    assert show(clone) == before
    assert type(clone) is type(cache)
    clone.append_decode(*stamp([40]))
    clone.append_window(*stamp([41, 42]))
    assert show(cache) == before
    after = show(clone)
    cache.append_decode(*stamp([50]))
    cache.reset()
    assert show(clone) == after
    assert 50 not in ids(clone.append_decode(*stamp([43])).keys)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_copying_is_cloning(make: Any, stamp: Any, show: Any, duplicate: Any) -> None:
    cache = make()
    cache.append_window(*stamp([1, 2]))
    twin = duplicate(cache)
    before = show(cache)
    twin.append_decode(*stamp([3]))
    assert show(cache) == before


def test_a_clone_taken_after_a_window_may_still_drop_it(stamp: Any) -> None:
    cache = RingCache(2)
    cache.append_window(*stamp([1, 2, 3]))
    assert cache.clone().trim(3, bypass=True) == 3
    assert cache.offset == 3


def test_reset_forgets_everything_even_the_dtype(make: Any, stamp: Any, show: Any) -> None:
    cache = make()
    list(history(cache, stamp))
    cache.reset()
    assert show(cache) == show(make())
    cache.append_decode(*stamp([1], batch=2, heads=3, dtype=mx.float16))
    assert cache.rows == 2


def test_appends_whose_reads_are_never_asked_leave_the_same_state(make: Any, stamp: Any, show: Any) -> None:
    asked, unasked = make(), make()
    for read in history(asked, stamp):
        mx.eval(read.attend(mx.ones((1, 1, read.length, 2)), scale=1.0))
    list(history(unasked, stamp))
    assert show(asked) == show(unasked)


@pytest.mark.parametrize("make", [FullCache, lambda: RingCache(1 << 15)])
def test_a_decode_writes_in_place_unless_somebody_still_reads(make: Any) -> None:
    cache = make()
    block = mx.ones((1, 4, (1 << 15) - 8, 64), mx.bfloat16)
    one = mx.ones((1, 4, 1, 64), mx.bfloat16)
    mx.eval(one, *cache.fetch_dense(block, block))
    del block
    mx.eval(*cache.fetch_dense(one, one))  # a ring lays out its full width here
    plane = cache.nbytes // 2

    def extra(hold: object) -> int:
        mx.clear_cache()
        start = mx.get_active_memory()
        mx.reset_peak_memory()
        mx.eval(cache.append_decode(one, one).attend(one, scale=1.0))
        return mx.get_peak_memory() - start

    assert extra(None) < plane // 2
    assert extra(cache.clone()) >= 2 * plane
    assert extra(None) < plane // 2
