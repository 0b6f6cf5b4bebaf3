"""The duck type of mlx-lm's caches, without a model."""

import copy
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.models.base import create_attention_mask
from mlx_lm.models.cache import (
    ArraysCache,
    ConcatenateKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
    can_trim_prompt_cache,
    trim_prompt_cache,
)

from kvlaw.mlx_impl import ConfigError, CountError, FullCache, RingCache, TrimError
from kvlaw.mlx_impl.mlx_lm import DropIn, make_cache, replace


def test_the_length_of_an_append_decides(stamp: Any, ids: Any) -> None:
    cache = DropIn(RingCache(3))
    assert ids(*cache.update_and_fetch(*stamp([1, 2, 3, 4]))) == [1, 2, 3, 4]
    assert ids(*cache.update_and_fetch(*stamp([5]))) == [5, 3, 4]
    assert ids(*cache.keys_and_values()) == [5, 3, 4]
    assert (cache.offset, cache.size()) == (5, 3)


def test_state_is_what_mlx_evaluates_and_bits_is_not_there(stamp: Any) -> None:
    caches = [DropIn(FullCache()), DropIn(RingCache(3, 1))]
    mx.eval([cache.state for cache in caches])
    assert [cache.empty() for cache in caches] == [True, True]
    assert [cache.keys for cache in caches] == [None, None]
    for cache in caches:
        cache.update_and_fetch(*stamp([1, 2]))
        assert not cache.empty()
        assert not hasattr(cache, "bits")
        assert bool(cache)
    mx.eval([cache.state for cache in caches])
    assert [cache.nbytes for cache in caches] == [2 * 256 * 2 * 4, 2 * 2 * 2 * 4]
    planes: Any = [plane for cache in caches for plane in (cache.keys, cache.values)]
    assert [plane.shape[2] for plane in planes] == [256, 256, 2, 2]


def test_sizes_of_a_ring_are_shown_and_a_growing_cache_has_none() -> None:
    assert (DropIn(RingCache(5, 2)).max_size, DropIn(RingCache(5, 2)).keep) == (5, 2)
    assert not hasattr(DropIn(FullCache()), "max_size")
    assert not hasattr(DropIn(FullCache()), "keep")


@pytest.mark.parametrize("window_size", [None, 3, 8, 50])
@pytest.mark.parametrize("return_array", [False, True])
@pytest.mark.parametrize("make", [KVCache, lambda: RotatingKVCache(8)])
def test_masks_mean_what_mlx_lms_mean(stamp: Any, make: Any, window_size: int | None, return_array: bool) -> None:
    theirs: Any = make()
    caches: tuple[Any, Any] = (replace(theirs), theirs)
    compared = 0
    for length in [1, 2, 1, 4, 1, 1, 9, 1, 1, 3]:
        h = mx.zeros((1, length, 4))
        masks = [
            create_attention_mask(h, cache, window_size=window_size, return_array=return_array) for cache in caches
        ]
        keys, values = stamp([1] * length)
        widths = [cache.update_and_fetch(keys, values)[0].shape[2] for cache in caches]
        assert widths[0] == widths[1]
        if window_size == 50 and isinstance(theirs, RotatingKVCache) and length > 1:
            continue  # mlx-lm lets a wider argument widen the ring; ours is W (MASK-9)
        compared += 1
        assert meaning(masks[0], length, widths[0]) == meaning(masks[1], length, widths[0])
        if return_array and length > 1:
            assert isinstance(masks[0], mx.array)
    assert compared >= 6


def meaning(mask: Any, length: int, width: int) -> Any:
    if mask is None:
        return [[True] * width] * length
    if isinstance(mask, str):
        return [[column <= width - length + query for column in range(width)] for query in range(length)]
    return mx.broadcast_to(mask, (length, width)).tolist()


def test_trim_answers_what_it_dropped(stamp: Any) -> None:
    cache = DropIn(RingCache(8))
    cache.update_and_fetch(*stamp([1, 2, 3]))
    assert cache.is_trimmable()
    assert cache.trim(2) == 2
    assert cache.trim(5) == 1  # no more than there is, as mlx-lm answers
    assert cache.offset == 0
    with pytest.raises(CountError, match="ERR-5"):
        cache.trim(-1)


def test_a_wrapped_ring_is_not_trimmable_and_refuses(stamp: Any) -> None:
    cache = DropIn(RingCache(3))
    cache.update_and_fetch(*stamp([1, 2, 3]))
    assert not cache.is_trimmable()
    with pytest.raises(TrimError, match="TRIM-4"):
        cache.trim(1)
    assert cache.offset == 3
    full = DropIn(FullCache())
    full.update_and_fetch(*stamp([1, 2, 3]))
    assert not can_trim_prompt_cache([full, cache])
    assert trim_prompt_cache([full, cache], 2) == 0
    assert full.offset == 3


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_servers_copy_caches(stamp: Any, ids: Any, duplicate: Any) -> None:
    cache = DropIn(RingCache(3))
    cache.update_and_fetch(*stamp([1, 2]))
    twin = duplicate(cache)
    twin.update_and_fetch(*stamp([3]))
    assert (cache.offset, twin.offset) == (2, 3)
    assert ids(*cache.update_and_fetch(*stamp([9]))) == [1, 2, 9]


@pytest.mark.parametrize("other", [ConcatenateKVCache(), QuantizedKVCache(), ArraysCache(2)])
def test_other_kinds_are_refused_by_name(other: Any) -> None:
    class Model:
        @staticmethod
        def make_cache() -> list[Any]:
            return [KVCache(), other]

    with pytest.raises(ConfigError, match=type(other).__name__):
        make_cache(Model())


def test_a_cache_that_holds_tokens_is_not_replaced(stamp: Any) -> None:
    cache = KVCache()
    cache.update_and_fetch(*stamp([1]))
    with pytest.raises(ConfigError, match="holds tokens"):
        replace(cache)
