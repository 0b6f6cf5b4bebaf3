"""Masks, by hand: when there is none, when it is causal, and every bit of the arrays."""

import weakref
from typing import Any

import mlx.core as mx
import pytest

from kvlaw.mlx_impl import Cache, FullCache, RingCache, WindowError


def rows(mask: Any) -> list[str]:
    """Write a mask array as one string of x and . per query."""
    assert isinstance(mask, mx.array)
    assert mask.dtype == mx.bool_
    listed: Any = mask.tolist()
    return ["".join(".x"[visible] for visible in row) for row in listed]


def filled(cache: Cache, stamp: Any, *lengths: int) -> Cache:
    """Append decodes (1) and windows (more) of these lengths."""
    for length in lengths:
        keys, values = stamp([1] * length)
        (cache.append_decode if length == 1 else cache.append_window)(keys, values)
    return cache


def test_full_without_a_window_argument(stamp: Any) -> None:
    cache = filled(FullCache(), stamp, 2)
    assert cache.mask(1, phase="decode") is None
    assert cache.mask(1, phase="window") == "causal"
    assert cache.mask(300, phase="window") == "causal"
    assert rows(cache.mask(1, phase="decode", as_array=True)) == ["xxx"]
    assert rows(cache.mask(2, phase="window", as_array=True)) == ["xxx.", "xxxx"]


def test_full_with_a_window_argument(stamp: Any) -> None:
    cache = filled(FullCache(), stamp, 2)
    assert cache.mask(1, phase="decode", window=3) is None
    assert rows(cache.mask(1, phase="decode", window=2)) == [".xx"]
    assert cache.mask(2, phase="window", window=4) == "causal"
    assert rows(cache.mask(2, phase="window", window=3)) == ["xxx.", ".xxx"]
    assert rows(cache.mask(3, phase="window", window=1)) == ["..x..", "...x.", "....x"]
    assert rows(cache.mask(1, phase="decode", window=9, as_array=True)) == ["xxx"]


def test_ring_window_is_causal_until_a_query_reaches_past_the_window(stamp: Any) -> None:
    cache = RingCache(4)
    assert cache.mask(4, phase="window") == "causal"
    assert rows(cache.mask(5, phase="window")) == ["x....", "xx...", "xxx..", "xxxx.", ".xxxx"]
    filled(cache, stamp, 2)
    assert cache.mask(2, phase="window") == "causal"
    assert rows(cache.mask(3, phase="window")) == ["xxx..", "xxxx.", ".xxxx"]
    assert rows(cache.mask(2, phase="window", window=3)) == ["xxx.", ".xxx"]
    filled(cache, stamp, 9)  # only 3 old columns are fetched now
    assert cache.mask(1, phase="window") == "causal"
    assert rows(cache.mask(2, phase="window", window=99)) == ["xxxx.", ".xxxx"]
    assert rows(cache.mask(1, phase="window", window=2)) == ["..xx"]


def test_ring_decode_mask_is_in_physical_order(stamp: Any) -> None:
    cache = RingCache(4)
    assert cache.mask(1, phase="decode", window=1) is None  # it sees one, itself
    filled(cache, stamp, 1, 1)
    assert cache.mask(1, phase="decode") is None
    assert rows(cache.mask(1, phase="decode", window=2)) == [".xx"]
    filled(cache, stamp, 1, 1)  # columns 0..3, the next goes to column 0
    assert rows(cache.mask(1, phase="decode", window=1)) == ["x..."]
    assert rows(cache.mask(1, phase="decode", window=3)) == ["x.xx"]
    filled(cache, stamp, 1)  # the next goes to column 1
    assert rows(cache.mask(1, phase="decode", window=2)) == ["xx.."]
    filled(cache, stamp, 1, 1)  # the next goes to column 3
    assert rows(cache.mask(1, phase="decode", window=3)) == [".xxx"]
    filled(cache, stamp, 5)  # temporal order and overshoot: the decode drops it and writes column 0
    assert rows(cache.mask(1, phase="decode", window=2)) == ["x..x"]
    assert cache.mask(1, phase="decode", window=4) is None
    assert rows(cache.mask(1, phase="decode", as_array=True)) == ["xxxx"]


def test_sinks_stay_visible_in_windows(stamp: Any) -> None:
    cache = RingCache(4, sinks=2)
    assert rows(cache.mask(6, phase="window")) == ["x.....", "xx....", "xxx...", "xxxx..", "xx.xx.", "xx..xx"]
    filled(cache, stamp, 1, 1, 1, 1, 1)  # [t1, t2, t5, t4]: a window fetches t1, t2, t5 and its own
    assert rows(cache.mask(3, phase="window")) == ["xxxx..", "xx.xx.", "xx..xx"]
    assert cache.mask(1, phase="decode") is None
    assert rows(cache.mask(1, phase="decode", as_array=True)) == ["xxxx"]


def test_a_window_argument_cannot_narrow_a_ring_with_sinks(stamp: Any, show: Any) -> None:
    cache = filled(RingCache(4, sinks=1), stamp, 3)
    before = show(cache)
    for act in (
        lambda: cache.mask(1, phase="decode", window=3),
        lambda: cache.append_decode(*stamp([9]), window=3),
        lambda: cache.append_window(*stamp([9, 9]), window=1),
    ):
        with pytest.raises(WindowError, match="MASK-13"):
            act()
    assert show(cache) == before
    assert cache.mask(1, phase="decode", window=4) is None


@pytest.mark.parametrize("make", [FullCache, lambda: RingCache(5), lambda: RingCache(5, 2)])
def test_a_read_carries_the_mask_that_was_announced(stamp: Any, make: Any) -> None:
    cache = make()
    for length, phase in [(3, "window"), (1, "decode"), (1, "decode"), (4, "window"), (1, "window"), (1, "decode")]:
        announced = cache.mask(length, phase=phase)
        append = cache.append_decode if phase == "decode" else cache.append_window
        mask = append(*stamp([1] * length)).mask
        if isinstance(announced, mx.array):
            assert mask.tolist() == announced.tolist()
        else:
            assert mask == announced


def test_layers_at_the_same_place_share_one_array(stamp: Any) -> None:
    first, second = RingCache(4), RingCache(4)
    reads = [cache.append_window(*stamp([1] * 6)) for cache in (first, second)]
    assert reads[0]._mask is reads[1]._mask
    assert reads[0]._mask is not None


def test_a_layer_finds_the_array_of_the_layer_below_whose_read_is_gone(stamp: Any) -> None:
    first, second = RingCache(4), RingCache(4)
    for cache in (first, second):
        cache.append_window(*stamp([1] * 6))
    assert first._mask is second._mask
    held = weakref.ref(first._mask)
    first.append_decode(*stamp([1]))
    assert held() is not None
    second.append_decode(*stamp([1]))
    assert held() is None


def test_attention_is_the_same_whatever_form_the_mask_takes(stamp: Any) -> None:
    mx.random.seed(1)
    keys, values = mx.random.normal((1, 2, 9, 8)), mx.random.normal((1, 2, 9, 8))
    for make in (FullCache, lambda: RingCache(5), lambda: RingCache(20, 3)):
        outputs: list[tuple[mx.array, mx.array]] = []
        for as_array in (False, True):
            cache = make()
            cache.append_window(keys[:, :, :4], values[:, :, :4])
            window = cache.append_window(keys[:, :, 4:8], values[:, :, 4:8], as_array=as_array)
            decode = cache.append_decode(keys[:, :, 8:], values[:, :, 8:], as_array=as_array)
            outputs.append((window.attend(keys[:, :, 4:8], scale=1.0), decode.attend(keys[:, :, 8:], scale=1.0)))
        for compact, array in zip(*outputs, strict=True):
            assert compact.tolist() == array.tolist()
