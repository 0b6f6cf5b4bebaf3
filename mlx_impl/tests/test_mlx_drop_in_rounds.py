"""Rounds of the drop-ins for mlx-lm: what its own ``trim_prompt_cache`` cannot take back, ours do."""

from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.models.cache import KVCache, RotatingKVCache, trim_prompt_cache

from kvlaw.mlx_impl import CacheError
from kvlaw.mlx_impl.errors import RoundError
from kvlaw.mlx_impl.mlx_lm import DropIn, replace
from kvlaw.mlx_impl.mlx_lm_rows import RowsDropIn
from kvlaw.mlx_impl.precision import make_precision


def coded(first: int, count: int) -> tuple[mx.array, mx.array]:
    """Draw keys and values that codes can hold, one seed per token."""
    planes = [mx.random.normal((1, 1, 1, 32), key=mx.random.key(first + i)) for i in range(count)]
    keys = mx.concatenate(planes, axis=2)
    return keys, -keys


def test_a_full_ring_takes_drafts_back(stamp: Any, ids: Any) -> None:
    ring = replace(RotatingKVCache(4))
    ring.update_and_fetch(*stamp([1, 2, 3, 4, 5, 6]))
    ring.begin_round()
    assert ring.in_round
    assert ids(ring.update_and_fetch(*stamp([7, 8, 9]))[0]) == [4, 5, 6, 7, 8, 9]
    ring.roll_back(1)
    assert (ring.offset, ring.in_round) == (7, False)
    assert sorted(ids(ring.update_and_fetch(*stamp([10]))[0])) == [5, 6, 7, 10]


def test_no_trim_in_a_round_but_behind_it(stamp: Any) -> None:
    cache = replace(KVCache())
    cache.update_and_fetch(*stamp([1, 2, 3]))
    cache.begin_round()
    cache.update_and_fetch(*stamp([4]))
    assert not cache.is_trimmable()
    with pytest.raises(CacheError, match="ROUND-9"):
        cache.trim(1)
    assert trim_prompt_cache([cache], 1) == 0
    assert (cache.offset, cache.in_round) == (4, True)
    cache.commit_round()
    assert (trim_prompt_cache([cache], 1), cache.offset) == (1, 3)


def test_what_is_no_round_is_refused(stamp: Any) -> None:
    cache = replace(RotatingKVCache(4))
    for ask in (cache.commit_round, lambda: cache.roll_back(0)):
        with pytest.raises(RoundError, match="ROUND-7"):
            ask()
    cache.begin_round()
    cache.update_and_fetch(*stamp([1, 2]))
    for ask in (cache.begin_round, lambda: cache.roll_back(3)):
        with pytest.raises(RoundError, match="ROUND-7"):
            ask()
    assert (cache.offset, cache.in_round) == (2, True)


def test_codes_wait_for_the_end_of_a_round() -> None:
    cache = replace(RotatingKVCache(8), make_precision(8, None, 32, 4))
    cache.update_and_fetch(*coded(0, 3))
    cache.begin_round()
    fetched = cache.update_and_fetch(*coded(3, 3))
    assert isinstance(fetched[0], mx.array)
    assert not hasattr(cache, "bits")
    cache.roll_back(1)
    assert (cache.offset, cache.cache.storage) == (4, "affine")
    words = cache.update_and_fetch(*coded(9, 1))[0]
    assert len(words) == 3
    assert words[0].shape[2] == 5
    assert hasattr(cache, "bits")


def joined(stamp: Any) -> RowsDropIn:
    rows = [replace(RotatingKVCache(4)), replace(RotatingKVCache(4))]
    rows[0].update_and_fetch(*stamp([1, 2, 3, 4, 5]))
    rows[1].update_and_fetch(*stamp([6]))
    return DropIn.merge(rows)


@pytest.mark.parametrize("keep", [[2, 0], (2, 0), mx.array([2, 0])])
def test_rows_keep_their_own_numbers(keep: Any, stamp: Any) -> None:
    group = joined(stamp)
    group.begin_round()
    group.update_and_fetch(*stamp([7, 8, 9], batch=2))
    for ask in (lambda: group.trim(1), lambda: group.extract(0), lambda: group.extend(joined(stamp))):
        with pytest.raises(CacheError, match="ROUND-9"):
            ask()
    group.roll_back(keep)
    assert group.offset.tolist() == [7, 1]
    assert [group.extract(row).offset for row in (0, 1)] == [7, 1]


def test_one_number_is_every_rows(stamp: Any) -> None:
    group = joined(stamp)
    group.begin_round()
    group.update_and_fetch(*stamp([7, 8, 9], batch=2))
    with pytest.raises(RoundError, match="ROUND-7"):
        group.roll_back([1, 1, 1])
    group.roll_back(1)
    assert (group.offset.tolist(), group.in_round) == ([6, 2], False)
    group.begin_round()
    group.commit_round()
