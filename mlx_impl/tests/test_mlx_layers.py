"""Lists of layers: all or none."""

from typing import Any

import pytest

from kvlaw.mlx_impl import CacheError, ConfigError, CountError, FullCache, RingCache, TrimError, layers


@pytest.fixture
def model(stamp: Any) -> Any:
    caches = [FullCache(), RingCache(4), RingCache(9, 2)]
    for cache in caches:
        cache.append_window(*stamp([1, 2, 3]))
    return caches


def test_a_list_trims_as_one(model: Any) -> None:
    assert layers.offset(model) == 3
    assert layers.can_trim(model, 2)
    assert layers.trim(model, 2) == 2
    assert [cache.offset for cache in model] == [1, 1, 1]


def test_what_one_layer_refuses_no_layer_does(model: Any, stamp: Any, show: Any) -> None:
    for cache in model:
        cache.append_decode(*stamp([4]))
    before = [show(cache) for cache in model]
    assert not layers.can_trim(model, 1)
    with pytest.raises(TrimError, match="window 4"):
        layers.trim(model, 1)
    assert [show(cache) for cache in model] == before


def test_bypass_acts_on_all_or_none(model: Any, stamp: Any) -> None:
    assert layers.trim(model, 3, bypass=True) == 3
    for cache in model:
        cache.append_window(*stamp([1, 2]))
    model[2].append_decode(*stamp([3]))
    with pytest.raises(TrimError, match="TRIM-12"):
        layers.trim(model, 1, bypass=True)
    assert [cache.offset for cache in model] == [2, 2, 3]
    assert layers.offset(model) == 2


def test_appends_go_to_all_layers_or_to_none(model: Any, stamp: Any, ids: Any, show: Any) -> None:
    reads = layers.append_window(model, [stamp([4, 5])] * 3)
    assert [ids(read.keys) for read in reads] == [[1, 2, 3, 4, 5]] * 3
    reads = layers.append_decode(model, [stamp([6])] * 3)
    assert [ids(read.keys) for read in reads] == [[1, 2, 3, 4, 5, 6], [6, 3, 4, 5], [1, 2, 3, 4, 5, 6]]
    assert [cache.offset for cache in model] == [6, 6, 6]
    before = [show(cache) for cache in model]
    with pytest.raises(CacheError, match="ERR-2"):
        layers.append_window(model, [stamp([7]), stamp([7]), stamp([7], heads=2)])
    with pytest.raises(CacheError, match="MASK-13"):
        layers.append_decode(model, [stamp([7])] * 3, window=4)
    with pytest.raises(ConfigError, match="one per layer"):
        layers.append_decode(model, [stamp([7])] * 2)
    assert [show(cache) for cache in model] == before


def test_a_cache_becomes_only_its_like(model: Any) -> None:
    with pytest.raises(ConfigError, match="ID-3"):
        model[1].become(RingCache(5))
    model[1].become(RingCache(4))
    assert model[1].offset == 0


def test_bad_lists_and_counts_are_refused(model: Any) -> None:
    with pytest.raises(CountError, match="ERR-5"):
        layers.trim(model, -1)
    with pytest.raises(ConfigError, match="of its own"):
        layers.trim([model[0], model[0]], 1)
    assert model[0].offset == 3
    assert layers.trim([], 2) == 0
    assert layers.offset([]) == 0


def test_clone_reset_state_and_bytes(model: Any, show: Any) -> None:
    twins = layers.clone(model)
    assert [show(cache) for cache in twins] == [show(cache) for cache in model]
    assert layers.nbytes(model) == sum(cache.nbytes for cache in model) > 0
    assert [part["offset"] for part in layers.state(model)] == [3, 3, 3]
    layers.reset(model)
    assert layers.nbytes(model) == 0
    assert layers.offset(twins) == 3
