"""The bf16-first boundary: when a cache converts, what its reads hold, what stays, and lists of layers."""

import gc
import random
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.base import quantized_scaled_dot_product_attention

from kvlaw.mlx_impl import Cache, CacheError, FullCache, RingCache, affine, bf16_first, dense, layers, make
from kvlaw.mlx_impl.codes import AffineStore

BITS, GROUP, DIM, SCALE = 4, 32, 64, 0.25


def normal(seed: int, *shape: int, dtype: mx.Dtype = mx.bfloat16) -> mx.array:
    return mx.random.normal(shape, key=mx.random.key(seed)).astype(dtype)


def pair(seed: int, length: int = 1, dim: int = DIM) -> tuple[mx.array, mx.array]:
    return normal(seed, 1, 2, length, dim), normal(seed + 10_000, 1, 2, length, dim)


def raw(array: Any) -> np.ndarray:
    return np.array(array.view(mx.uint16 if array.dtype.size == 2 else mx.uint32))


def equal(found: Any, expected: Any) -> None:
    """Compare two arrays or two triples of codes bit by bit."""
    if isinstance(expected, mx.array):
        assert isinstance(found, mx.array)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(raw(found), raw(expected))
        return
    assert len(found) == len(expected) == 3
    for mine, other in zip(found, expected, strict=True):
        equal(mine, other)


def quantized(array: mx.array) -> Any:
    return mx.quantize(array, group_size=GROUP, bits=BITS)


def first(start: Any, window: int | None = None) -> Cache:
    return make("ring" if window else "full", window, bits=BITS, group=GROUP, start=start)


# -- when it converts: five histories by hand -------------------------------------------------------------------------

HISTORIES: list[tuple[Any, int | None, list[int], list[tuple[str, int, int | None]]]] = [
    # start, window, lengths appended -> storage, floor, max append after each
    (0, None, [3, 1], [("affine", 0, None), ("affine", 0, None)]),
    (1, None, [1, 1], [("affine", 1, None), ("affine", 1, None)]),
    (5, None, [4, 1, 1], [("dense", 0, 1), ("affine", 5, None), ("affine", 5, None)]),
    (5, 8, [2, 2, 9, 1], [("dense", 0, 3), ("dense", 0, 1), ("affine", 13, None), ("affine", 13, None)]),
    (12, 8, [8, 3, 1, 1], [("dense", 0, 4), ("dense", 0, 1), ("affine", 12, None), ("affine", 12, None)]),
    ("never", 8, [9, 1, 300], [("dense", 0, None)] * 3),
    (None, 8, [9, 1], [("affine", 0, None)] * 2),
]


@pytest.mark.parametrize(("start", "window", "lengths", "expected"), HISTORIES)
@pytest.mark.parametrize("call", ["append_window", "append_known", "fetch_dense", "fetch_stored"])
def test_a_cache_converts_at_the_end_of_the_append_that_makes_it_due(
    start: Any, window: int | None, lengths: list[int], expected: Any, call: str
) -> None:
    cache = first(start, window)
    limit = start if start and start != "never" else None
    assert (cache.storage, cache.floor, cache.max_append) == ("affine" if start is None else "dense", 0, limit)
    identity = cache.identity
    for length, after in zip(lengths, expected, strict=True):
        getattr(cache, call)(*pair(length, length))
        assert (cache.storage, cache.floor, cache.max_append) == after
        assert (cache.due, cache.identity) == (False, identity)


@pytest.mark.parametrize("start", [1, 2, 7, 8, 9, 30])
@pytest.mark.parametrize("window", [None, 8])
def test_appending_as_much_as_it_takes_converts_and_one_less_does_not(start: int, window: int | None) -> None:
    for already in range(start):
        cache = first(start, window)
        if already:
            cache.append_window(*pair(1, already))
        assert cache.max_append == start - already
        if start - already > 1:
            short = cache.clone()
            short.append_window(*pair(2, start - already - 1))
            assert (short.storage, short.max_append) == ("dense", 1)
        cache.append_window(*pair(2, start - already))
        assert (cache.storage, cache.floor, cache.max_append) == ("affine", start, None)


# -- what it holds and reads: beside a plain cache --------------------------------------------------------------------


class Converted:
    """A plain cache, converted by hand after an append; codes are looked up in the dense twin that it keeps."""

    def __init__(self, start: Any, window: int | None) -> None:
        self.plain = make("ring" if window else "full", window)
        self.start, self.floor, self.codes = start, 0, False

    def append(self, call: str, seed: int, length: int) -> tuple[Any, Any, Any]:
        """Append, and return the read of the plain cache and what its keys and values are to be."""
        read = getattr(self.plain, call)(*pair(seed, length))
        seen = [quantized(part) if self.codes else part for part in (read.keys, read.values)]
        offset = self.plain.offset
        if not self.codes and self.start != "never" and offset >= self.start and offset != 0:
            self.codes, self.floor = True, offset if self.start > 0 else 0
        return read, *seen

    def held(self) -> list[Any]:
        """What the columns that count are to hold."""
        return [quantized(part) if self.codes else part for part in self.plain.peek()]


def attended(queries: mx.array, keys: Any, values: Any, mask: Any) -> mx.array:
    """Attend by MLX and mlx-lm."""
    if isinstance(keys, mx.array):
        return mx.fast.scaled_dot_product_attention(queries, keys, values, scale=SCALE, mask=mask)
    return quantized_scaled_dot_product_attention(mx.array(queries), keys, values, SCALE, mask, GROUP, BITS)


def trim_both(rng: random.Random, plain: Cache, cache: Cache) -> None:
    n, bypass = rng.choice([0, 1, 2, 5]), rng.random() < 0.4
    assert plain.can_trim(n) == cache.can_trim(n)
    try:
        assert plain.trim(n, bypass=bypass) == n
    except CacheError:
        with pytest.raises(CacheError):
            cache.trim(n, bypass=bypass)
        return
    assert cache.trim(n, bypass=bypass) == n


@pytest.mark.parametrize("start", [0, 1, 3, 7, 8, 9, 20, "never"])
@pytest.mark.parametrize("window", [None, 1, 8])
def test_bf16_first_equals_a_plain_cache_converted_after_each_append(start: Any, window: int | None) -> None:
    for history in range(4):
        rng = random.Random(f"{start} {window} {history}")
        cache, model = first(start, window), Converted(start, window)
        for seed in range(14):
            if rng.random() < 0.25:
                trim_both(rng, model.plain, cache)
            else:
                call = rng.choice(["append_decode", "append_decode", "append_window"])
                length = 1 if call == "append_decode" else rng.choice([1, 2, 3, 7, 8, 9])
                read = getattr(cache, call)(*pair(seed, length))
                plain, keys, values = model.append(call, seed, length)
                equal(read.keys, keys)
                equal(read.values, values)
                queries = normal(seed + 500, 1, 4, length, DIM)
                equal(read.attend(queries, scale=SCALE), attended(queries, keys, values, plain.mask))
            plain = model.plain
            assert (cache.offset, cache.columns, cache.write_index) == (plain.offset, plain.columns, plain.write_index)
            assert cache.floor == model.floor
            assert cache.storage == ("affine" if model.codes else "dense")
            assert cache.nbytes == plain.nbytes // plain.bytes_per_token * cache.bytes_per_token if plain.rows else True
            if plain.rows and plain.columns and plain.offset:
                for found, expected in zip(cache.peek_stored(), model.held(), strict=True):
                    equal(found, expected)


@pytest.mark.parametrize("window", [None, 300])
def test_a_conversion_takes_every_column_where_it_lies_spare_ones_included(window: int | None) -> None:
    cache, plain = first(9, window), make("ring" if window else "full", window)
    for one in (cache, plain):
        one.append_window(*pair(1, 5))
        for seed in range(2, 6):
            one.append_decode(*pair(seed))
    held: dict[str, Any] = plain.state()
    assert (cache.storage, cache.offset, held["columns"]) == ("affine", 9, 256 + (5 if window else 0))
    assert cache.codes is not None
    for found, name in zip(cache.codes, ("keys", "values"), strict=True):
        equal(found, quantized(held[name]))


def test_codes_from_the_first_append_differ_in_the_first_read_only() -> None:
    codes, converted = first(None), first(0)
    reads = [cache.append_window(*pair(1, 5)) for cache in (codes, converted)]
    equal(reads[0].keys, quantized(reads[1].keys))
    queries = normal(3, 1, 2, 5, DIM)
    outputs = [raw(read.attend(queries, scale=SCALE)) for read in reads]
    assert not np.array_equal(outputs[0], outputs[1])
    assert codes.codes is not None
    assert converted.codes is not None
    for mine, other in zip(codes.codes, converted.codes, strict=True):
        equal([part[:, :, :5] for part in mine], [part[:, :, :5] for part in other])
    reads = [cache.append_decode(*pair(2)) for cache in (codes, converted)]
    equal(reads[0].attend(queries[:, :, :1], scale=SCALE), reads[1].attend(queries[:, :, :1], scale=SCALE))


def test_a_read_taken_before_a_conversion_keeps_its_half_precision() -> None:
    cache, plain = first(6), FullCache()
    reads = [[one.append_window(*pair(1, 4)), one.append_window(*pair(2, 2))] for one in (cache, plain)]
    for seed in range(3):
        cache.append_decode(*pair(seed))
    cache.reset()
    for mine, other, length in zip(*reads, (4, 2), strict=True):
        queries = normal(7, 1, 2, length, DIM)
        equal(mine.attend(queries, scale=SCALE), other.attend(queries, scale=SCALE))
        equal(mine.keys, other.keys)


def test_a_dense_fetch_after_the_conversion_is_dequantized_and_the_converting_one_is_not() -> None:
    cache, plain = first(4, 6), RingCache(6)
    for seed, length in enumerate([3, 1, 1, 1, 1, 4]):
        for found, half in zip(
            cache.fetch_dense(*pair(seed, length)), plain.fetch_dense(*pair(seed, length)), strict=True
        ):
            codes = mx.dequantize(*quantized(half), group_size=GROUP, bits=BITS)
            equal(found, half if seed < 2 else codes)


# -- it never goes back -----------------------------------------------------------------------------------------------


def test_a_trim_below_start_leaves_codes_and_floor() -> None:
    cache = first(5)
    cache.append_window(*pair(1, 7))
    assert cache.trim(7) == 7
    assert (cache.offset, cache.storage, cache.floor, cache.max_append) == (0, "affine", 7, None)
    read = cache.append_window(*pair(2, 2))
    equal(read.keys, quantized(pair(2, 2)[0]))
    assert cache.floor == 7


def test_a_bypass_that_leaves_no_column_leaves_codes_and_floor_but_forgets_shapes() -> None:
    cache = first(3, 8)
    cache.append_window(*pair(1, 4))
    assert cache.trim(4, bypass=True) == 4
    assert (cache.columns, cache.storage, cache.floor, cache.bytes_per_token) == (0, "affine", 4, 0)
    before = cache.state()
    with pytest.raises(CacheError, match="PREC-13"):
        cache.append_decode(*pair(1, 1, 48))
    assert cache.state() == before
    equal(cache.append_decode(*pair(2, 1, 32)).keys, quantized(pair(2, 1, 32)[0]))
    assert (cache.floor, cache.offset) == (4, 1)


def test_a_reset_makes_it_dense_again_without_floor(show: Callable[[Cache], dict[str, object]]) -> None:
    cache = first(3, 8)
    cache.append_window(*pair(1, 4))
    cache.reset()
    assert show(cache) == show(first(3, 8))
    assert (cache.storage, cache.floor, cache.max_append) == ("dense", 0, 3)
    cache.append_window(*pair(1, 5))
    assert (cache.storage, cache.floor) == ("affine", 5)


def test_a_clone_carries_storage_codes_and_floor_and_converts_by_itself() -> None:
    cache = first(5)
    cache.append_window(*pair(1, 4))
    twin = cache.clone()
    twin.append_decode(*pair(2))
    assert (cache.storage, cache.floor, cache.max_append) == ("dense", 0, 1)
    assert (twin.storage, twin.floor, twin.max_append) == ("affine", 5, None)
    equal(cache.peek_stored()[0], pair(1, 4)[0])
    third = twin.clone()
    assert (third.storage, third.floor) == ("affine", 5)
    assert twin.codes is not None
    assert third.codes is not None
    for mine, other in zip(third.codes, twin.codes, strict=True):
        equal(mine, other)


def test_only_a_cache_of_the_same_policy_can_be_taken_over() -> None:
    policies = [None, affine(4), affine(8), affine(4, 8), affine(4, None, 32), bf16_first(0, 4), bf16_first("never", 4),
                affine(4, kernels="tiled", dtype=mx.bfloat16)]  # fmt: skip
    for i, mine in enumerate(policies):
        for j, other in enumerate(policies):
            if i == j:
                FullCache(policy=mine).become(FullCache(policy=other))
                continue
            with pytest.raises(CacheError, match="ID-3"):
                FullCache(policy=mine).become(FullCache(policy=other))


# -- names ------------------------------------------------------------------------------------------------------------


def test_the_identity_names_the_policy() -> None:
    assert FullCache().identity == FullCache(policy=dense()).identity == "full"
    assert FullCache(policy=affine(4)).identity == "full(bits=4,group=64)"
    assert make("full", bits=4, value_bits=4, group=32, start=0).identity == "full(bits=4,group=32,start=0)"
    ring = RingCache(8, policy=bf16_first("never", 4, 8))
    assert ring.identity == "ring(window=8,sinks=0,bits=4,value_bits=8,group=64,start=never)"
    assert make("ring", 8, 2).identity == "ring(window=8,sinks=2)"


def test_a_head_dim_that_fits_no_group_is_refused_before_it_would_convert() -> None:
    cache = first(9, 8)
    with pytest.raises(CacheError, match="PREC-13"):
        cache.append_decode(*pair(1, 1, 48))
    assert (cache.offset, cache.rows, cache.storage) == (0, 0, "dense")


# -- memory, failures, lists ------------------------------------------------------------------------------------------


def test_a_conversion_frees_the_half_precision_columns() -> None:
    cache = first(512)
    cache.append_window(*pair(1, 511))
    mx.eval(*[part for part in cache.state().values() if isinstance(part, mx.array)])
    gc.collect()
    mx.clear_cache()
    dense_bytes, held = cache.nbytes, mx.get_active_memory()
    cache.append_decode(*pair(2))
    gc.collect()
    assert mx.get_active_memory() - held <= cache.nbytes - dense_bytes + 4096
    assert cache.nbytes < dense_bytes / 3


def test_a_failed_conversion_leaves_a_cache_that_is_due_and_can_be_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    caches = [first(4), first(None), first(4), make("full")]
    for cache in caches:
        cache.append_window(*pair(1, 3))

    def fail(self: AffineStore, planes: Any) -> Any:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(AffineStore, "convert", fail)
        with pytest.raises(MemoryError):
            caches[2].append_decode(*pair(2))
    caches[0].append_decode(*pair(2))
    assert layers.due(caches) == [2]
    assert (caches[2].offset, caches[2].storage, caches[2].floor, caches[2].max_append) == (4, "dense", 0, None)
    assert layers.settle(caches) == 1
    assert (layers.due(caches), layers.settle(caches)) == ([], 0)
    assert (caches[2].storage, caches[2].floor) == ("affine", 4)
    for mine, other in zip(caches[2].codes or (), caches[0].codes or (), strict=True):
        equal(mine, other)


def test_a_list_answers_by_the_layer_that_comes_first() -> None:
    caches = [first(9), make("ring", 4), first(5, 4), first("never"), first(None)]
    assert layers.max_append_tokens(caches) == 5
    layers.append_window(caches, [pair(1, 3)] * 5)
    assert layers.max_append_tokens(caches) == 2
    layers.append_known(caches, [pair(2, 2)] * 5)
    assert [cache.storage for cache in caches] == ["dense", "dense", "affine", "dense", "affine"]
    assert layers.max_append_tokens(caches) == 4
    layers.append_decode(caches, [pair(3)] * 5)
    assert [cache.floor for cache in caches] == [0, 0, 5, 0, 0]
    layers.append_window(caches, [pair(4, 3)] * 5)
    assert layers.max_append_tokens(caches) is None
    assert layers.max_append_tokens([]) is None


def test_a_list_that_refuses_converts_no_layer() -> None:
    caches = [first(3), make("full", bits=4, group=64)]
    wrong = normal(1, 1, 2, 4, 96)
    with pytest.raises(CacheError, match="PREC-13"):
        layers.append_window(caches, [pair(1, 4), (wrong, wrong)])
    assert [(cache.offset, cache.storage, cache.floor) for cache in caches] == [(0, "dense", 0), (0, "affine", 0)]
