"""Lists of layers: all or none."""

from typing import Any

import mlx.core as mx
import pytest

from kvlaw.mlx_impl import (
    CacheError,
    ConfigError,
    CountError,
    FullCache,
    RecurrentCache,
    RingCache,
    TrimError,
    layers,
)
from kvlaw.mlx_impl.errors import RoundError


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


def advance(cache: RecurrentCache, *numbers: int) -> None:
    """One slot that holds the newest number, and a tail of the 2 newest."""
    column = mx.array(numbers, mx.float32)[None, :, None]
    ones = mx.ones((1, len(numbers), 1))
    cache.advance(column, ones[..., None], ones[..., None], column[..., None], ones, ones)


def test_a_list_with_a_recurrent_layer_takes_a_round_back_as_one(stamp: Any, ids: Any) -> None:
    full, recurrent = FullCache(), RecurrentCache(3)
    model = [full, recurrent]
    full.append_window(*stamp([1, 2, 3]))
    advance(recurrent, 1, 2, 3)
    before = recurrent.state()["conv"]
    layers.begin_round(model)
    full.append_window(*stamp([4, 5, 6]))
    advance(recurrent, 4, 5)
    with pytest.raises(RoundError, match="0 to 2"):  # the recurrent layer lacks a position: neither layer acts
        layers.roll_back(model, 3)
    with pytest.raises(RoundError, match=r"stand at \[5, 6\]"):  # and what came of the failed step cannot be kept
        layers.commit_round(model)
    assert (full.in_round, full.offset, recurrent.in_round, recurrent.offset) == (True, 6, True, 5)
    layers.roll_back(model, 1)
    assert (layers.offset(model), full.offset) == (4, 4)
    assert ids(full.peek()[0]) == [1, 2, 3, 4]
    state = recurrent.state()
    assert (state["conv"].tolist(), state["matrix"].tolist()) == ([[[3.0], [4.0]]], [[[[4.0]]]])  # type: ignore[union-attr]
    assert before.tolist() == [[[2.0], [3.0]]]  # type: ignore[union-attr]
    layers.begin_round(model)
    layers.commit_round(model)
    assert not any(cache.in_round for cache in model)


def test_a_list_with_a_recurrent_layer_cannot_be_trimmed(stamp: Any) -> None:
    full, recurrent = FullCache(), RecurrentCache(3)
    model = [full, recurrent]
    full.append_window(*stamp([1, 2]))
    advance(recurrent, 1, 2)
    assert not layers.can_trim(model, 0)
    with pytest.raises(TrimError, match="REC-13"):
        layers.trim(model, 1)
    assert (full.offset, recurrent.offset) == (2, 2)
    assert (layers.due(model), layers.settle(model), layers.max_append_tokens(model)) == ([], 0, None)
    assert layers.nbytes(model) == full.nbytes + recurrent.nbytes
    twins = layers.clone(model)
    layers.reset(model)
    assert ([cache.offset for cache in twins], layers.offset(model)) == ([2, 2], 0)
    assert layers.state(model)[1] == {"offset": 0}
