"""Groups of rows by hand: where rows stand, what is refused, what is owned, what is carried from object to object."""

import gc
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from kvlaw.mlx_impl import (
    Cache,
    CacheError,
    ConfigError,
    CountError,
    DTypeError,
    KnownRead,
    PaddingError,
    RowError,
    RowGroup,
    ShapeError,
    TrimError,
    bf16_first,
    group_settle,
    make,
    make_rows,
    merge,
)
from kvlaw.mlx_impl.group_geometry import GroupGeometry
from kvlaw.mlx_impl.plans import decode_plan, group_block_plan

DIM, GROUP = 64, 32


def rows_of(*ids: list[int], dtype: mx.Dtype = mx.float32, heads: int = 1, dim: int = DIM) -> tuple[Any, Any]:
    """Make keys and values whose elements are the token id, values one half more; one list per row."""
    keys = mx.broadcast_to(mx.array(ids, mx.float32)[:, None, :, None], (len(ids), heads, len(ids[0]), dim))
    return keys.astype(dtype), (keys + 0.5).astype(dtype)


def drawn(seed: int, *shape: int, dtype: mx.Dtype = mx.bfloat16) -> mx.array:
    return mx.random.normal(shape, key=mx.random.key(seed)).astype(dtype)


def pair(seed: int, rows: int, length: int, dtype: mx.Dtype = mx.bfloat16) -> tuple[mx.array, mx.array]:
    return drawn(seed, rows, 2, length, DIM, dtype=dtype), drawn(seed + 1000, rows, 2, length, DIM, dtype=dtype)


def tokens(planes: dict[str, mx.array]) -> list[int]:
    """Read the tokens of a dense row, 0 for a blank column."""
    keys = planes["keys"][0, 0, :, 0].astype(mx.float32)
    return [int(number) for number in np.array(keys)]


def held(cache: Cache) -> list[int]:
    keys, values = cache.peek()
    assert bool(mx.all(keys + 0.5 == values))
    return [int(number) for number in np.array(keys[0, 0, :, 0])]


def plain(value: Any) -> Any:
    return np.array(value.astype(mx.float32)).tolist() if isinstance(value, mx.array) else value


def shown(group: RowGroup) -> dict[str, Any]:
    """Everything that a caller can observe of a group, as plain values."""
    state = {name: plain(part) for name, part in group.state().items()}
    masks = [plain(group.mask(3, phase="window", as_array=True))] if group.rows else []
    if group.may_decode and group.rows:
        masks.append(plain(group.mask(1, phase="decode", as_array=True)))
    trims = [group.can_trim(n) for n in range(8)]
    each = [(group.storage_of(b), group.floor_of(b), group.max_append_of(b)) for b in range(group.rows)]
    numbers = [group.rows, group.offsets, group.columns, group.write_index, group.nbytes, group.bytes_per_token]
    names = [group.identity, group.storage, group.prefilling, group.max_append, group.sizes]
    return {"state": state, "masks": masks, "trims": trims, "each": each, "numbers": numbers, "names": names}


def stands(group: RowGroup) -> tuple[int, int, tuple[int, ...]]:
    return group.columns, group.write_index, group.offsets


# -- where rows stand, worked out by hand -----------------------------------------------------------------------------


def test_a_padded_prompt_on_a_ring() -> None:
    group = make_rows("ring_rows", 4, 2)
    group.prepare(left=[1, 0], lengths=[4, 3], right=[0, 2])
    assert group.offsets == (-1, 0)
    group.append_window(*rows_of([90, 2, 3], [4, 5, 6]))
    assert stands(group) == (3, 3, (2, 3))
    group.append_window(*rows_of([7, 91], [92, 93]))
    assert stands(group) == (5, 5, (3, 3))
    assert tokens(group.row_planes(0)) == [90, 2, 3, 7, 91]
    group.finalize()
    assert stands(group) == (4, 4, (3, 3))
    assert tokens(group.row_planes(0)) == [90, 2, 3, 7]
    assert tokens(group.row_planes(1))[1:] == [4, 5, 6]
    assert group.left_padding == (1, 1)
    read = group.append_decode(*rows_of([11], [12]))
    assert stands(group) == (4, 1, (4, 4))
    assert tokens(group.row_planes(1)) == [12, 4, 5, 6]
    assert read.mask is None  # four columns, four positions: the padding is what was written over


def test_a_ring_keeps_its_window_while_right_padding_is_pending() -> None:
    group = make_rows("ring_rows", 2, 2)
    group.append_window(*rows_of([1, 2], [3, 4]))
    group.prepare(lengths=[1, 0], right=[0, 1])
    read = group.append_window(*rows_of([5], [90]))
    assert stands(group) == (3, 3, (3, 2))
    assert read.keys.shape[2] == 2  # one old column and the new one, as without padding
    group.finalize()
    assert stands(group) == (3, 3, (3, 2))
    assert held(group.extract(0)) == [2, 5]
    assert held(group.extract(1)) == [3, 4]


def test_growing_rows_of_unequal_length() -> None:
    first, second = make("full"), make("full")
    first.append_window(*rows_of([1]))
    second.append_window(*rows_of([2, 3, 4]))
    group = merge([first, second])
    assert stands(group) == (3, 3, (1, 3))
    assert group.left_padding == (2, 0)
    assert tokens(group.row_planes(0)) == [0, 0, 1]
    read = group.append_decode(*rows_of([5], [6]))
    assert stands(group) == (256, 4, (2, 4))
    assert plain(read.mask)[0][0] == [[False, False, True, True]]
    assert plain(read.mask)[1][0] == [[True] * 4]
    group.filter([0])
    assert stands(group) == (254, 2, (2,))
    assert tokens(group.row_planes(0))[:2] == [1, 5]
    assert group.append_decode(*rows_of([7])).mask is None


def test_a_growing_group_drops_nothing_while_padding_is_to_come() -> None:
    group = make_rows("full_rows", rows=2)
    group.prepare(left=[3, 1], lengths=[4, 2], right=[0, 1])
    group.append_window(*rows_of([90, 91], [92, 2]))
    group.filter([1])
    assert stands(group) == (256, 2, (1,))
    assert group.left_padding == (1,)


@pytest.mark.parametrize(("window", "columns"), [(None, 256), (4, 3)])
def test_one_row_stays_as_it_lies(window: int | None, columns: int) -> None:
    cache = make("ring" if window else "full", window)
    cache.append_window(*rows_of([1, 2, 3]))
    for source in (cache, RowGroup.around(cache)):
        group = merge([make_rows("ring_rows" if window else "full_rows", window), source])
        assert stands(group) == (columns, 3, (3,))
    for _ in range(3):
        cache.append_decode(*rows_of([4]))
    if window:
        assert stands(merge([cache])) == (4, 2, (6,))
        assert tokens(merge([cache]).row_planes(0)) == [4, 4, 3, 4]


def test_rows_of_a_ring_join_in_temporal_order() -> None:
    turned = make("ring", 3)
    for token in (1, 2, 3, 4):
        turned.append_decode(*rows_of([token]))
    short = make("ring", 3)
    short.append_window(*rows_of([5]))
    group = merge([short, turned, make("ring", 3), turned])
    assert stands(group) == (3, 3, (1, 4, 0, 4))
    assert [tokens(group.row_planes(b)) for b in range(4)] == [[0, 0, 5], [2, 3, 4], [0, 0, 0], [2, 3, 4]]
    read = group.append_decode(*rows_of([6], [7], [8], [9]))
    seen = [[True, False, True], [True] * 3, [True, False, False], [True] * 3]
    assert [row[0][0] for row in plain(read.mask)] == seen
    assert [held(group.extract(b)) for b in range(4)] == [[5, 6], [3, 4, 7], [8], [3, 4, 9]]


def test_a_ring_that_lost_a_position_by_bypass_is_no_row() -> None:
    cache = make("ring", 4)
    cache.append_window(*rows_of([1, 2, 3, 4]))
    cache.append_window(*rows_of([5, 6, 7]))
    cache.trim(3, bypass=True)  # columns 2, 3, 4 of positions 0 to 3
    for sources in ([cache], [cache, cache], [make_rows("ring_rows", 4, 1), cache]):
        with pytest.raises(RowError, match="ROWS-8"):
            merge(sources)
    cache.append_decode(*rows_of([8]))  # the window is whole again
    assert held(merge([cache, cache]).extract(1)) == [2, 3, 4, 8]


def test_a_block_behind_unequal_padding_continues_each_row_at_its_end() -> None:
    group = make_rows("full_rows", rows=2)
    group.prepare(lengths=[3, 1], right=[0, 2])
    group.append_window(*rows_of([1, 2], [4, 90]))
    read = group.append_window(*rows_of([3], [91]))
    assert group.columns == 256
    assert plain(read.rows[0].keys[0, 0, :, 0]) == [1, 2, 3]
    assert [row[0][0] for row in plain(read.mask)] == [[True] * 3, [False, True, True]]
    group.finalize()
    assert stands(group) == (3, 3, (3, 1))
    assert held(group.extract(1)) == [4]


def test_plans_and_masks_are_shared_by_layers_at_the_same_place() -> None:
    layers = [make_rows("ring_rows", 4, 2) for _ in range(2)]
    for group in layers:
        group.prepare(left=[1, 0])
        group.append_window(*rows_of([1, 2], [3, 4]))
        group.append_decode(*rows_of([5], [6]))
    assert layers[0]._geometry is layers[1]._geometry
    assert layers[0]._mask is layers[1]._mask is not None


def test_a_plan_ahead_is_the_plan() -> None:
    place: GroupGeometry = make_rows("ring_rows", 5, 3)._geometry
    for _ in range(20):
        plan = decode_plan(place)
        assert plan == place.append_in_place()
        place = plan.then
    assert place.offsets == (20, 20, 20)
    assert group_block_plan(place, 3) is group_block_plan(place, 3)


# -- one row is the serial cache, in every bit ------------------------------------------------------------------------


def flat(stored: Any) -> list[mx.array]:
    """List two arrays, or the arrays of two triples of codes."""
    return [part for side in stored for part in ([side] if isinstance(side, mx.array) else side)]


POLICIES: dict[str, dict[str, Any]] = {
    "dense": {},
    "8 bits": {"bits": 8},
    "4 bits, group 32": {"bits": 4, "group": GROUP},
    "bf16 first": {"bits": 4, "start": 6},
    "tiled": {"bits": 4, "kernels": "tiled", "dtype": mx.bfloat16},
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("window", [None, 8])
def test_a_lone_row_answers_as_the_serial_cache(window: int | None, policy: dict[str, Any]) -> None:
    cache = make("ring" if window else "full", window, **policy)
    cache.append_window(*pair(1, 1, 3))
    group = RowGroup.around(cache)
    for step, (length, call) in enumerate(
        [(2, "append_window"), (1, "append_decode"), (3, "append_known"), (9, "append_window"), (1, "append_decode")]
    ):
        new = pair(10 + step, 1, length)
        alone, read = getattr(cache, call)(*new), getattr(group, call)(*new)
        if call == "append_known" and not isinstance(read, KnownRead):
            continue  # read as a window
        queries = drawn(step, 1, 4, length, DIM)
        found, expected = (np.array(r.attend(queries, scale=0.3).astype(mx.float32)) for r in (read, alone))
        np.testing.assert_array_equal(found, expected)
    assert group.identity.replace("_rows", "") == cache.identity
    back = group.hand_back(0)
    assert (back.identity, back.storage, back.floor) == (cache.identity, cache.storage, cache.floor)
    for one, other in zip(flat(back.peek_stored()), flat(cache.peek_stored()), strict=True):
        oldest = cache.write_index if window else 0  # the ring was written past its end
        np.testing.assert_array_equal(plain(one), np.roll(plain(other), -oldest, axis=2))


@pytest.mark.parametrize("kernels", ["unfused", "tiled_causal", "tiled"])
def test_padded_queries_are_finite_and_move_nothing(kernels: str) -> None:
    outputs = []
    for padding in (1.0, 1e4):
        group = make_rows("full_rows", rows=2, bits=4, kernels=kernels, dtype=mx.bfloat16)
        group.prepare(left=[3, 0], lengths=[5, 2], right=[0, 3])
        keys, values = pair(7, 2, 5)
        real = mx.array([[0, 0, 0, 1, 1], [1, 1, 0, 0, 0]])[:, None, :, None]
        keys, values = (mx.where(real, a, padding).astype(mx.bfloat16) for a in (keys, values))
        output = group.append_window(keys, values).attend(drawn(3, 2, 4, 5, DIM), scale=0.1)
        assert np.isfinite(plain(output)).all()
        outputs.append([plain(output[0, :, 3:]), plain(output[1, :, :2])])
    assert outputs[0] == outputs[1]


# -- precision --------------------------------------------------------------------------------------------------------


def settling(rows: int = 2, start: Any = 3, window: int | None = 8) -> RowGroup:
    return make_rows("ring_rows" if window else "full_rows", window, rows, bits=4, group=GROUP, start=start)


def flags(group: RowGroup) -> list[tuple[str, int]]:
    return [(group.storage_of(b), group.floor_of(b)) for b in range(group.rows)]


def test_a_boundary_of_rows_step_by_step() -> None:
    group = settling()
    group.prepare(lengths=[4, 2], right=[0, 2])
    group.append_window(*pair(1, 2, 4))
    assert (group.max_append, group.max_append_of(0), group.max_append_of(1)) == (1, None, 1)
    group.finalize()
    assert (group.storage, flags(group)) == ("dense", [("dense", 0), ("dense", 0)])
    read = group.append_decode(*pair(2, 2, 1))
    assert (group.storage, flags(group)) == ("mixed", [("affine", 4), ("dense", 0)])
    assert [isinstance(row.keys, tuple) for row in read.rows] == [True, False]
    with pytest.raises(ConfigError, match="READ-16"):
        _ = read.keys
    read = group.append_decode(*pair(3, 2, 1))
    assert (group.storage, flags(group)) == ("packed", [("affine", 4), ("affine", 3)])
    assert isinstance(read.keys, tuple)
    assert group.codes is not None


def test_a_sibling_that_only_gets_padding_does_not_convert() -> None:
    group = settling(start=2)
    group.prepare(lengths=[3, 6], right=[3, 0])
    group.append_window(*pair(1, 2, 3))
    for step in (1, 2):  # at its end, and beyond it
        group.append_window(*pair(1 + step, 2, step))
        assert flags(group) == [("dense", 0), ("affine", 3)]
    group.finalize()
    group.append_decode(*pair(4, 2, 1))
    assert flags(group) == [("affine", 3), ("affine", 3)]


def test_moments_at_which_rows_convert() -> None:
    def filled() -> RowGroup:
        group = settling()
        group.append_window(*pair(1, 2, 4))
        return group

    group = filled()
    with pytest.raises(TrimError):
        group.trim(5)
    assert flags(group) == [("dense", 0)] * 2
    assert group.trim(2) == 2
    assert flags(group) == [("affine", 4)] * 2

    group = filled()
    group.begin_prefill()
    assert (group.prefilling, flags(group)) == (True, [("affine", 4)] * 2)

    group = settling()
    group.begin_prefill()
    group.append_window(*pair(1, 2, 3))
    group.append_window(*pair(2, 2, 2))
    assert group.trim(1) == 1
    assert flags(group) == [("dense", 0)] * 2
    group.commit_prefill([1])
    assert flags(group) == [("dense", 0), ("affine", 4)]
    group.end_prefill()
    assert flags(group) == [("dense", 0), ("affine", 4)]
    group.append_decode(*pair(3, 2, 1))
    assert flags(group) == [("affine", 4), ("affine", 4)]

    group = filled()
    group.extract(0)
    group.filter([1, 0])
    group.prepare(lengths=[1, 0], right=[0, 1])
    group.finalize()
    twin = group.clone()
    assert flags(group) == flags(twin) == flags(merge([group, group]))[:2] == [("dense", 0)] * 2
    back = group.hand_back(0)
    assert (back.storage, back.floor, back.policy) == ("affine", 4, group.policy)
    assert flags(group) == [("dense", 0)] * 2
    group.reset()
    assert (group.storage, group.rows, group.offsets, group.columns) == ("dense", 2, (0, 0), 0)


def test_a_due_row_converts_as_it_joins_an_open_bracket() -> None:
    group = settling(rows=1)
    group.append_window(*pair(1, 1, 4))
    outside = group.extract(0)
    assert (outside.storage, outside.policy.codes) == ("dense", None)
    group.begin_prefill()
    assert flags(merge([group, outside])) == [("affine", 4)] * 2
    group.reset()
    assert flags(merge([group, outside])) == [("dense", 0)] * 2
    fresh = settling(rows=1)
    fresh.begin_prefill()
    fresh.append_window(*pair(2, 1, 5))
    joined = merge([fresh, outside])
    assert (joined.prefilling, flags(joined)) == (True, [("dense", 0), ("affine", 4)])


def test_raw_rows_join_a_group_that_says_when_they_convert() -> None:
    group = settling(rows=1)
    group.append_window(*pair(1, 1, 3))
    half = group.extract(0)
    group.append_decode(*pair(2, 1, 1))
    codes = group.extract(0)
    assert (codes.storage, codes.floor, codes.identity) == ("affine", 3, "ring(window=8,sinks=0,bits=4,group=32)")
    mixed = merge([half, settling(rows=0), codes])
    assert (mixed.storage, flags(mixed), mixed.offsets) == ("mixed", [("dense", 0), ("affine", 3)], (3, 4))
    assert mixed.identity == group.identity
    twice = merge([mixed, mixed])
    assert flags(twice) == [("dense", 0), ("affine", 3)] * 2
    for b, source in enumerate([half, codes, half, codes]):
        for found, expected in zip(flat(twice.extract(b).peek_stored()), flat(source.peek_stored()), strict=True):
            np.testing.assert_array_equal(plain(found), plain(expected))
    with pytest.raises(RowError, match="ROWS-8"):
        merge([half, codes])
    assert merge([half, half]).storage == "dense"
    assert merge([codes, codes]).storage == "affine"


def test_a_dense_fetch_of_a_mixed_group_restores_the_codes_of_its_converted_rows() -> None:
    group = settling(rows=2, start=3)
    group.prepare(lengths=[4, 2], right=[0, 2])
    keys, values = pair(1, 2, 4)
    group.append_window(keys, values)
    group.finalize()
    new = pair(2, 2, 1)
    fetched = group.fetch_dense(*new)
    assert group.storage == "mixed"
    for array, old, fresh in zip(fetched, (keys, values), new, strict=True):
        whole = mx.concatenate([old, fresh], axis=2)
        codes = mx.quantize(whole[:1], group_size=GROUP, bits=4)
        np.testing.assert_array_equal(plain(array[:1]), plain(mx.dequantize(*codes, group_size=GROUP, bits=4)))
        np.testing.assert_array_equal(plain(array[1, :, 2:4]), plain(old[1, :, :2]))
        np.testing.assert_array_equal(plain(array[1, :, 4:]), plain(fresh[1]))


def test_known_appends_are_attended_one_by_one_only_over_codes() -> None:
    for group, alone in ((settling(), False), (make_rows("full_rows", rows=2, bits=4), True)):
        group.append_window(*pair(1, 2, 3))
        read = group.append_known(*pair(2, 2, 3))
        assert isinstance(read, KnownRead) is (alone or group.storage == "packed")
    group = make_rows("full_rows", rows=2, bits=4, kernels="tiled", dtype=mx.bfloat16)
    group.prepare(left=[2, 0])
    group.append_window(*pair(3, 2, 4))
    twin = group.clone()
    new, queries = pair(4, 2, 3), drawn(5, 2, 4, 3, DIM)
    output = group.append_known(*new).attend(queries, scale=0.2)
    assert output.shape == (2, 4, 3, DIM)
    last = twin.append_window(*[a[:, :, :2] for a in new])
    del last
    single = twin.append_decode(*[a[:, :, 2:] for a in new]).attend(queries[:, :, 2:], scale=0.2)
    np.testing.assert_array_equal(plain(output[:, :, 2:]), plain(single))


def test_a_conversion_that_fails_leaves_the_group_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    group = settling()
    group.append_window(*pair(1, 2, 4))
    before = shown(group)

    def fail(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(group_settle, "evaluate", fail)
        for call in (lambda: group.append_decode(*pair(2, 2, 1)), lambda: group.trim(1), group.begin_prefill):
            with pytest.raises(MemoryError):
                call()
    assert shown(group) == before
    group.append_decode(*pair(2, 2, 1))
    assert group.storage == "packed"


def test_nothing_but_a_conversion_waits_for_an_array(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(group_settle, "evaluate", fail)
    monkeypatch.setattr("kvlaw.mlx_impl.caches.evaluate", fail)
    policies: list[dict[str, Any]] = [{}, {"bits": 4}, {"bits": 4, "start": 99}]
    for policy in policies:
        group = make_rows("ring_rows", 4, 2, **policy)
        group.prepare(left=[1, 0], lengths=[3, 2], right=[0, 1])
        group.append_window(*pair(1, 2, 3))
        group.finalize()
        group.append_decode(*pair(2, 2, 1))
        group.begin_prefill()
        group.commit_prefill([0])
        group.end_prefill()
        merged = merge([group, group.extract(0), group.hand_back(1)])
        merged.filter([2, 0])
        assert merged.rows == 2


# -- the configuration goes with the rows -----------------------------------------------------------------------------


def test_kernel_set_and_policy_are_carried() -> None:
    group = make_rows("ring_rows", 8, 2, bits=4, start=3, kernels="tiled", dtype=mx.bfloat16)
    group.append_window(*pair(1, 2, 4))
    group.append_decode(*pair(2, 2, 1))
    assert group.storage == "packed"
    policy = bf16_first(3, 4, kernels="tiled", dtype=mx.bfloat16)
    empty = group.clone()
    empty.filter([])
    for found in (group, empty, group.hand_back(0), merge([group, empty]), merge([group.extract(0), empty])):
        assert found.policy == policy
    codes = group.extract(1).policy.codes
    assert codes is not None
    assert codes.kernels.name == "tiled"
    with pytest.raises(RowError, match="ROWS-7"):
        merge([group, make("ring", 8, bits=4, start=3)])


def test_numbers_that_schedulers_ask() -> None:
    ring, full = make_rows("ring_rows", 4, 2), make_rows("full_rows", rows=2)
    assert (ring.bytes_per_token, ring.max_tokens, full.max_tokens, ring.max_append) == (0, 4, None, None)
    for group in (ring, full):
        group.append_window(*rows_of([1, 2], [3, 4]))
        assert group.bytes_per_token == 2 * DIM * 4
        assert group.can_publish(0, 2)
        assert not group.can_publish(0, 1)
    assert ring.projected_bytes(9) == 4 * 2 * DIM * 4
    assert full.projected_bytes(9) == 9 * 2 * DIM * 4
    ring.prepare(lengths=[0, 1], right=[1, 0])
    assert not ring.can_publish(0, 2)
    assert (full.identity, ring.identity) == ("full_rows", "ring_rows(window=4,sinks=0)")


# -- what is refused changes nothing ----------------------------------------------------------------------------------

Act = Callable[[RowGroup], Any]
REFUSED: list[tuple[str, Act, type[CacheError], str]] = [
    ("rows of arrays", lambda g: g.append_window(*rows_of([1], [2], [3])), ShapeError, "ROWS-30|ERR-2"),
    ("dtype", lambda g: g.append_decode(*rows_of([1], [2], dtype=mx.float16)), DTypeError, "ERR-3"),
    ("heads", lambda g: g.append_decode(*rows_of([1], [2], heads=2)), ShapeError, "ERR-2"),
    ("a decode of two", lambda g: g.append_decode(*rows_of([1, 2], [3, 4])), ShapeError, "ERR-4"),
    ("window argument", lambda g: g.append_decode(*rows_of([1], [2]), window=0), CountError, "ERR-7"),
    ("mask of nothing", lambda g: g.mask(0, phase="window"), CountError, "ERR-4"),
    ("trim of too much", lambda g: g.trim(3), TrimError, "ROWS-20"),
    ("trim of less than nothing", lambda g: g.trim(-1), CountError, "ERR-5"),
    ("extract row 2", lambda g: g.extract(2), RowError, "ROWS-29"),
    ("hand back row -1", lambda g: g.hand_back(-1), RowError, "ROWS-29"),
    ("commit row 2", lambda g: g.commit_prefill([0, 2]), RowError, "ROWS-29"),
    ("filter a row twice", lambda g: g.filter([0, 0]), RowError, "ROWS-18"),
    ("filter row 2", lambda g: g.filter([2]), RowError, "ROWS-29"),
    ("filter True", lambda g: g.filter([True]), RowError, "ROWS-29"),
    ("left padding of columns", lambda g: g.prepare(left=[1, 0]), PaddingError, "PAD-12"),
    ("right padding without lengths", lambda g: g.prepare(right=[1, 0]), PaddingError, "PAD-12"),
    ("too few lengths", lambda g: g.prepare(lengths=[1], right=[1, 0]), PaddingError, "PAD-12"),
    ("negative right padding", lambda g: g.prepare(lengths=[1, 1], right=[1, -1]), PaddingError, "PAD-12"),
    ("a number as padding", lambda g: g.prepare(left=1), PaddingError, "PAD-12"),  # pyright: ignore[reportArgumentType]
    ("half a column", lambda g: g.prepare(lengths=[1, 0.5], right=[1, 0]), PaddingError, "PAD-12"),  # pyright: ignore[reportArgumentType]
    ("merge of nothing", lambda g: merge([]), RowError, "ROWS-8"),
    ("merge with another kind", lambda g: merge([g, make("full")]), RowError, "ROWS-7"),
    ("merge with another window", lambda g: merge([g, make("ring", 5)]), RowError, "ROWS-7"),
    ("merge with sinks", lambda g: merge([g, make("ring", 4, 1)]), RowError, "ROWS-7"),
    ("merge with codes", lambda g: merge([g, make("ring", 4, bits=4)]), RowError, "ROWS-8"),
    ("merge with a number", lambda g: merge([g, 1]), RowError, "ROWS-8"),  # pyright: ignore[reportArgumentType]
]


@pytest.mark.parametrize(("act", "error", "match"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_a_refused_call_changes_nothing(act: Act, error: type[CacheError], match: str) -> None:
    group = make_rows("ring_rows", 4, 2)
    group.append_window(*rows_of([1, 2], [3, 4]))
    before, positions = shown(group), group.positions
    with pytest.raises(error, match=match):
        act(group)
    assert shown(group) == before
    assert group.positions is positions


WAITS: dict[str, Act] = {
    "decode": lambda g: g.append_decode(*rows_of([1], [2])),
    "decode mask": lambda g: g.mask(1, phase="decode"),
    "trim": lambda g: g.trim(0),
    "extract": lambda g: g.extract(0),
    "hand back": lambda g: g.hand_back(0),
    "prepare": lambda g: g.prepare(lengths=[1, 1]),
    "merge": lambda g: merge([make("ring", 4), g]),
}


@pytest.mark.parametrize("act", WAITS.values(), ids=WAITS)
@pytest.mark.parametrize("padding", [{"left": [2, 0]}, {"lengths": [1, 2], "right": [1, 0]}], ids=["left", "right"])
def test_what_has_to_wait_for_padding_is_refused(act: Act, padding: dict[str, list[int]]) -> None:
    group = make_rows("ring_rows", 4, 2)
    group.prepare(**padding)
    group.append_window(*rows_of([1], [2]))
    before = shown(group)
    with pytest.raises(PaddingError, match="PAD-9"):
        act(group)
    assert shown(group) == before
    group.append_window(*rows_of([3], [4]))
    group.finalize()
    act(group)


def test_other_refusals_of_merge_and_of_groups_without_rows() -> None:
    half = make("full")
    half.append_window(*rows_of([1], dtype=mx.bfloat16))
    single, wide = make("full"), make("full")
    single.append_window(*rows_of([1]))
    wide.append_window(*rows_of([1], dim=32))
    for one, other, error in ((half, single, DTypeError), (single, wide, ShapeError)):
        for sources in ([one, other], [other, one]):
            with pytest.raises(error, match="ROWS-8"):
                merge(sources)
    batch = make("full")
    batch.append_window(*rows_of([1], [2]))
    with pytest.raises(RowError, match="ROWS-8"):
        RowGroup.around(batch)
    with pytest.raises(RowError, match="ROWS-8"):
        merge([settling(start=3), settling(start=4)])
    with pytest.raises(ShapeError, match="PREC-13"):
        merge([make_rows("full_rows", bits=4, start=3, group=64), wide])
    with pytest.raises(ShapeError, match="ROWS-30"):
        make_rows("full_rows", rows=2).append_window(*rows_of([1]))
    group = make_rows("full_rows")
    for act in (lambda: group.append_window(*rows_of([1])), lambda: group.mask(1, phase="window")):
        with pytest.raises(RowError, match="ROWS-11"):
            act()
    with pytest.raises(PaddingError, match="PAD-12"):
        group.prepare(left="")  # pyright: ignore[reportArgumentType]
    assert (group.trim(0), group.rows, group.offsets, group.columns, group.nbytes) == (0, 0, (), 0, 0)
    group.reset()
    group.filter([])
    assert merge([group, group]).rows == 0


def test_a_merge_of_rows_that_were_trimmed_empty_allocates_nothing_and_takes_another_dtype() -> None:
    group = make_rows("full_rows", rows=2)
    group.append_decode(*rows_of([1], [2]))
    group.trim(1)
    made = merge([group])
    assert (made.rows, made.columns, made.nbytes, made.bytes_per_token, made.row_planes(0)) == (2, 0, 0, 0, {})
    made.append_decode(*rows_of([3], [4], dtype=mx.bfloat16))
    assert (made.offsets, made.bytes_per_token) == ((1, 1), 2 * DIM * 2)


def test_a_full_ring_has_no_left_padding() -> None:
    group = make_rows("ring_rows", 4, 2)
    group.append_window(*rows_of([1, 2, 3, 4], [5, 6, 7, 8]))
    group.append_decode(*rows_of([9], [10]))
    assert (group.offsets, group.left_padding) == ((5, 5), (0, 0))


@pytest.mark.parametrize(
    "build",
    [
        lambda: make_rows("ring_rows", 0),
        lambda: make_rows("ring_rows"),
        lambda: make_rows("full_rows", 4),
        lambda: make_rows("ring_rows", 4, sinks=1),
        lambda: make_rows("ring_rows", 4, sinks=-1),
        lambda: make_rows("ring_rows", 4, -1),
        lambda: make_rows("ring_rows", 4, 1.5),  # pyright: ignore[reportArgumentType]
        lambda: make_rows("ring_rows", 4, start=3),
        lambda: make_rows("ring", 4),  # pyright: ignore[reportArgumentType]
        lambda: make_rows("full"),  # pyright: ignore[reportArgumentType]
        lambda: make_rows("rows", 4),  # pyright: ignore[reportArgumentType]
    ],
)
def test_a_group_that_cannot_be_is_refused(build: Callable[[], RowGroup]) -> None:
    with pytest.raises(ConfigError, match=r"ERR-6|PREC-13"):
        build()


# -- what is handed out never changes ---------------------------------------------------------------------------------


def test_positions_are_one_snapshot_per_step() -> None:
    group = make_rows("full_rows", rows=2)
    group.prepare(left=[2, 0])
    before = group.positions
    assert before is group.positions
    group.append_window(*rows_of([90, 91, 1], [2, 3, 4]))
    after = group.positions
    assert after is not before
    calls: list[Callable[[], Any]] = [group.finalize, group.begin_prefill, group.end_prefill]
    for stay in (*calls, lambda: group.extract(0), lambda: group.trim(0)):
        stay()
        assert group.positions is after
    group.prepare(lengths=[1, 0], right=[0, 1])
    group.append_window(*rows_of([5], [92]))
    assert group.positions.tolist() == [2, 4]
    group.finalize()
    assert group.positions.tolist() == [2, 3]
    group.trim(1)
    assert group.positions.tolist() == [1, 2]
    assert (before.dtype, before.tolist(), after.tolist(), group.positions.tolist()) == (
        mx.int32,
        [-2, 0],
        [1, 3],
        [1, 2],
    )


@pytest.mark.parametrize("policy", [{}, {"bits": 4, "group": GROUP}, {"bits": 4, "group": GROUP, "start": 5}])
@pytest.mark.parametrize("window", [None, 4])
def test_what_was_handed_out_stays_as_it_was(window: int | None, policy: dict[str, Any]) -> None:
    kind = "ring_rows" if window else "full_rows"
    group = make_rows(kind, window, 2, **policy)
    group.append_window(*pair(1, 2, 3))
    other = merge([group.extract(0), group])
    kept: list[tuple[mx.array, Any]] = []
    reads: list[tuple[Any, mx.array, Any]] = []

    def keep(*arrays: Any) -> None:
        kept.extend((array, plain(array)) for array in arrays if isinstance(array, mx.array))

    for step in range(4):
        keep(*group.state().values(), *group.row_planes(1).values(), group.positions)
        keep(group.mask(2, phase="window", as_array=True), *group.fetch_dense(*pair(5 + step, 2, 1)))
        read, queries = group.append_window(*pair(9 + step, 2, 2)), drawn(step, 2, 2, 2, DIM)
        reads.append((read, queries, plain(read.attend(queries, scale=0.1))))
    before = shown(other)
    twin = group.clone()
    twin.append_decode(*pair(20, 2, 1))
    group.append_decode(*pair(21, 2, 1))
    alone = group.extract(1)
    alone.append_decode(*pair(22, 1, 1))
    group.filter([1])
    group.append_decode(*pair(23, 1, 1))
    group.reset()
    for array, was in kept:
        assert plain(array) == was
    for read, queries, was in reads:
        assert plain(read.attend(queries, scale=0.1)) == was
    assert shown(other) == before
    assert twin.offsets == (16, 16)


def test_sources_of_a_merge_go_on_by_themselves() -> None:
    cache, group = make("ring", 4), make_rows("ring_rows", 4, 1)
    cache.append_window(*rows_of([1, 2, 3]))
    group.append_window(*rows_of([4, 5]))
    merged, lone = merge([cache, group]), merge([group])
    for source in (merged, lone, cache, group):
        count = source.rows
        source.append_decode(*rows_of(*[[50 + count]] * count))
    assert held(merged.extract(0)) == [1, 2, 3, 52]
    assert held(merged.extract(1)) == [4, 5, 52]
    assert held(cache) == [1, 2, 3, 51]
    assert held(lone.extract(0)) == held(group.extract(0)) == [4, 5, 51]


# -- memory -----------------------------------------------------------------------------------------------------------


def compute(group: Any) -> None:
    mx.eval([part for part in group.state().values() if isinstance(part, mx.array)])


@pytest.mark.parametrize(("heads", "start"), [(1, 0), (1, 5), (4, 0), (4, 5)])
def test_an_extracted_row_keeps_no_other_row_alive(heads: int, start: int) -> None:
    group = make_rows("full_rows", rows=16)
    keys = mx.zeros((16, heads, 512, 64))
    group.append_window(keys, keys)
    if start:
        group.trim(start)
    compute(group)
    cache = group.extract(3)
    compute(cache)
    del group, keys
    gc.collect()
    mx.clear_cache()
    before = mx.get_active_memory()
    size = cache.nbytes
    del cache
    gc.collect()
    assert before - mx.get_active_memory() <= size * 1.1 + 10_000


@pytest.mark.parametrize("policy", [{}, {"bits": 8}])
def test_a_decode_writes_in_place(policy: dict[str, Any]) -> None:
    group = make_rows("full_rows", rows=8, **policy)
    keys = mx.zeros((8, 4, 1000, 64))
    group.append_window(keys, keys)
    group.append_decode(keys[:, :, :1], keys[:, :, :1])
    compute(group)
    del keys
    step = mx.ones((8, 4, 1, 64))
    mx.eval(step)
    gc.collect()
    mx.clear_cache()
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    for _ in range(3):
        group.append_decode(step, step)
        compute(group)
    assert mx.get_peak_memory() - before < group.nbytes * 0.1
