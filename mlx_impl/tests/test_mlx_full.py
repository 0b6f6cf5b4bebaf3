"""The growing cache: every position in order, growth, trims, masks."""

import random
from typing import Any

import mlx.core as mx
import pytest

from kvlaw.mlx_impl import FullCache, TrimError


def test_random_histories_keep_every_position_in_order(stamp: Any, ids: Any) -> None:
    for seed in range(60):
        rng = random.Random(seed)
        cache, token, columns = FullCache(), 0, 0
        held: list[int] = []
        for _ in range(10):
            what = rng.choice(["decode", "window", "fetch", "trim"])
            length = 1 if what == "decode" else rng.choice([1, 2, 5, 255, 256, 257])
            if what == "trim":
                count = rng.randint(0, len(held))
                assert cache.can_trim(count)
                assert cache.trim(count, bypass=rng.random() < 0.5) == count
                held = held[: len(held) - count]
                continue
            new = [(token + i) % 61 + 1 for i in range(length)]
            token, held = token + length, held + new
            keys, values = stamp(new)
            if what == "fetch":
                fetched = cache.fetch_dense(keys, values)
            else:
                read = (cache.append_decode if what == "decode" else cache.append_window)(keys, values)
                assert read.mask == (None if what == "decode" else "causal")
                fetched = read.keys, read.values
            assert ids(*fetched) == held
            assert (cache.offset, cache.size, cache.write_index) == (len(held),) * 3
            columns = columns if len(held) <= columns else -(-len(held) // 256) * 256
            assert cache.columns == columns
            assert ids(*(cache.state()[name] for name in ("keys", "values")))[: len(held)] == held


@pytest.mark.parametrize(
    ("lengths", "columns"),
    [([1], 256), ([256], 256), ([257], 512), ([256, 1], 512), ([200, 100], 512), ([256, 300], 768)],
)
def test_capacity_is_the_next_multiple_of_256(stamp: Any, lengths: Any, columns: Any) -> None:
    cache = FullCache()
    for length in lengths:
        cache.append_window(*stamp([1] * length))
    assert cache.columns == columns


def test_growth_after_a_trim_cuts_the_stale_columns(stamp: Any, ids: Any) -> None:
    cache = FullCache()
    cache.append_window(*stamp([1] * 512))
    cache.trim(256)
    cache.append_window(*stamp([2] * 300))
    assert cache.columns == 768
    assert ids(cache.state()["keys"]) == [1] * 256 + [2] * 300 + [0] * 212


def test_bytes_count_rows_heads_and_both_head_dims(stamp: Any) -> None:
    cache = FullCache()
    assert (cache.nbytes, cache.bytes_per_token, cache.rows, cache.batch) == (0, 0, 0, 0)
    cache.append_decode(*stamp([1], batch=2, heads=3, key_dim=4, value_dim=5, dtype=mx.bfloat16))
    assert cache.bytes_per_token == 3 * (4 + 5) * 2
    assert cache.nbytes == 2 * 256 * 3 * (4 + 5) * 2
    assert (cache.rows, cache.batch) == (2, 2)


def test_identity_and_storage() -> None:
    assert (FullCache().identity, FullCache().storage) == ("full", "dense")


def test_trim_beyond_the_offset_is_refused(stamp: Any, show: Any) -> None:
    cache = FullCache()
    cache.append_window(*stamp([1, 2, 3]))
    before = show(cache)
    with pytest.raises(TrimError, match=r"trim of 4: .* 0 to 3 \[TRIM-6, TRIM-7\]"):
        cache.trim(4)
    assert show(cache) == before
    assert not cache.can_trim(4)
    assert not cache.can_trim(-1)
    assert cache.can_trim(3)
