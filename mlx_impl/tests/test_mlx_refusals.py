"""Everything that is refused leaves everything as it was, and says which clause refuses it."""

from typing import Any, cast

import mlx.core as mx
import numpy as np
import pytest

from kvlaw.mlx_impl import Cache, CacheError, CountError, DTypeError, FullCache, RingCache, ShapeError, TrimError


def zeros(*shape: int, dtype: mx.Dtype = mx.float32) -> mx.array:
    return mx.zeros(shape, dtype)


GOOD = zeros(2, 3, 1, 4)

BAD_APPENDS: dict[str, tuple[Any, Any, type[CacheError], str]] = {
    "keys of rank 3": (zeros(3, 1, 4), GOOD, ShapeError, "ERR-2"),
    "values of rank 5": (GOOD, zeros(1, 2, 3, 1, 4), ShapeError, "ERR-2"),
    "no position": (zeros(2, 3, 0, 4), zeros(2, 3, 0, 4), ShapeError, "ERR-4"),
    "another batch": (zeros(1, 3, 1, 4), zeros(1, 3, 1, 4), ShapeError, "ERR-2"),
    "other heads": (zeros(2, 1, 1, 4), zeros(2, 1, 1, 4), ShapeError, "ERR-2"),
    "another key dim": (zeros(2, 3, 1, 5), GOOD, ShapeError, "ERR-2"),
    "another value dim": (GOOD, zeros(2, 3, 1, 3), ShapeError, "ERR-2"),
    "an empty head dim": (zeros(2, 3, 1, 0), GOOD, ShapeError, "ERR-2"),
    "keys and values of other batch": (GOOD, zeros(1, 3, 1, 4), ShapeError, "ERR-2"),
    "keys and values of other heads": (GOOD, zeros(2, 2, 1, 4), ShapeError, "ERR-2"),
    "keys and values of other length": (GOOD, zeros(2, 3, 2, 4), ShapeError, "ERR-2"),
    "another dtype": (GOOD.astype(mx.bfloat16), GOOD.astype(mx.bfloat16), DTypeError, "ERR-3"),
    "two dtypes": (GOOD, GOOD.astype(mx.float16), DTypeError, "ERR-3"),
    "integers": (GOOD.astype(mx.int32), GOOD.astype(mx.int32), DTypeError, "ERR-3"),
    "float64": (GOOD.astype(mx.complex64), GOOD, DTypeError, "ERR-3"),
    "numpy": (np.zeros((2, 3, 1, 4), np.float32), GOOD, DTypeError, "ERR-2"),
    "None": (GOOD, None, DTypeError, "ERR-2"),
}


def fill(cache: Cache) -> Cache:
    for token in range(1, 4):
        cache.append_decode(GOOD + token, GOOD + token)
    return cache


CACHES = {
    "full": lambda: fill(FullCache()),
    "ring": lambda: fill(RingCache(8)),
    "wrapped ring": lambda: fill(RingCache(2)),
    "ring with sinks": lambda: fill(RingCache(3, 1)),
}


@pytest.fixture(params=CACHES)
def cache(request: pytest.FixtureRequest) -> Cache:
    return CACHES[request.param]()


@pytest.mark.parametrize("bad", BAD_APPENDS)
@pytest.mark.parametrize("how", ["append_decode", "append_window", "fetch_dense"])
def test_bad_arrays_are_refused(cache: Any, show: Any, how: Any, bad: Any) -> None:
    keys, values, error, clause = BAD_APPENDS[bad]
    before = show(cache)
    with pytest.raises(error, match=clause) as refusal:
        getattr(cache, how)(keys, values)
    assert refusal.value.clauses
    assert show(cache) == before
    assert cache.append_decode(GOOD, GOOD).keys.shape[1] == 3  # and it goes on


@pytest.mark.parametrize(
    "bad", [name for name in BAD_APPENDS if not name.startswith("another") and name != "other heads"]
)
def test_an_empty_cache_refuses_what_nothing_could_hold(show: Any, bad: Any) -> None:
    keys, values, error, _ = BAD_APPENDS[bad]
    cache = FullCache()
    before = show(cache)
    with pytest.raises(error):
        cache.append_window(keys, values)
    assert show(cache) == before
    cache.append_decode(GOOD.astype(mx.float16), GOOD.astype(mx.float16))  # nothing was remembered of it


def test_a_decode_of_two_positions_is_refused(cache: Any, show: Any) -> None:
    before = show(cache)
    with pytest.raises(ShapeError, match="ERR-4"):
        cache.append_decode(zeros(2, 3, 2, 4), zeros(2, 3, 2, 4))
    assert show(cache) == before


@pytest.mark.parametrize("window", [0, -1, True, 2.0, "2"])
def test_bad_window_arguments_are_refused(cache: Any, show: Any, window: Any) -> None:
    before = show(cache)
    for act in (
        lambda: cache.append_decode(GOOD, GOOD, window=window),
        lambda: cache.append_window(GOOD, GOOD, window=window),
        lambda: cache.mask(1, phase="decode", window=window),
        lambda: cache.mask(2, phase="window", window=window),
    ):
        with pytest.raises(CountError, match="ERR-7"):
            act()
    assert show(cache) == before


@pytest.mark.parametrize(
    ("length", "phase"), [(0, "window"), (-1, "window"), (True, "window"), (2, "decode"), (1.0, "decode")]
)
def test_masks_for_no_append_are_refused(cache: Any, length: Any, phase: Any) -> None:
    with pytest.raises(CountError, match="ERR-4"):
        cache.mask(length, phase=phase)


def test_masks_for_no_phase_are_refused(cache: Any) -> None:
    with pytest.raises(CountError, match="decode"):
        cache.mask(1, phase="known")


@pytest.mark.parametrize("count", [-1, True, 1.0, "1", None])
@pytest.mark.parametrize("bypass", [False, True])
def test_bad_counts_are_refused(cache: Any, show: Any, count: Any, bypass: Any) -> None:
    before = show(cache)
    with pytest.raises(CountError, match="ERR-5"):
        cache.trim(count, bypass=bypass)
    assert show(cache) == before
    assert not cache.can_trim(count)


def test_a_numpy_integer_is_an_integer() -> None:
    cache, two = fill(FullCache()), cast("int", np.int64(2))
    assert cache.trim(two) == 2
    assert cache.offset == 1


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_ring_whose_offset_has_reached_its_window_refuses_to_trim(show: Any, count: Any) -> None:
    cache = fill(RingCache(3))
    before = show(cache)
    assert not cache.can_trim(count)
    with pytest.raises(TrimError, match="TRIM-7"):
        cache.trim(count)
    assert show(cache) == before


@pytest.mark.parametrize(
    ("queries", "error"),
    [
        (zeros(2, 3, 4), ShapeError),
        (zeros(1, 3, 1, 4), ShapeError),
        (zeros(2, 4, 1, 4), ShapeError),
        (zeros(2, 0, 1, 4), ShapeError),
        (zeros(2, 3, 2, 4), ShapeError),
        (zeros(2, 3, 1, 5), ShapeError),
        (zeros(2, 3, 1, 4, dtype=mx.bfloat16), DTypeError),
        (np.zeros((2, 3, 1, 4), np.float32), DTypeError),
        (None, DTypeError),
    ],
)
def test_queries_that_do_not_fit_are_refused(queries: Any, error: Any) -> None:
    read = fill(FullCache()).append_decode(GOOD, GOOD)
    with pytest.raises(error, match="READ-9"):
        read.attend(queries, scale=1.0)


@pytest.mark.parametrize(
    ("sinks", "error"), [(zeros(5), ShapeError), (mx.zeros((6,), mx.int32), DTypeError), ([0.0] * 6, DTypeError)]
)
def test_learned_sinks_that_do_not_fit_are_refused(sinks: Any, error: Any) -> None:
    read = fill(FullCache()).append_decode(GOOD, GOOD)
    with pytest.raises(error, match="READ-9"):
        read.attend(zeros(2, 6, 1, 4), scale=1.0, sinks=sinks)
    assert read.attend(zeros(2, 6, 1, 4), scale=1.0, sinks=zeros(6)).shape == (2, 6, 1, 4)


def test_a_cache_without_an_identity_cannot_be_built() -> None:
    class Nameless(Cache):
        pass

    with pytest.raises(TypeError, match="identity"):
        cast("Any", Nameless)()


def test_a_refusal_says_what_was_asked_what_is_possible_and_why() -> None:
    with pytest.raises(CacheError) as refusal:
        RingCache(4, 7)
    assert str(refusal.value) == "a ring with sinks 7: a window of 4 can pin 0 to 3 sinks [ERR-6, RING-14]"
    assert isinstance(refusal.value, ValueError)
