"""Recurrent caches: a state is that of the positions that are left, bit for bit, whatever was taken back.

Every state is set beside that of a cache which got the kept positions alone, one after the other; what the recurrence
itself computes is set against NumPy in the conformance room (``test_recurrence_bits``), and by hand here.
"""

import random
from typing import Any

import attrs
import mlx.core as mx
import numpy as np
import pytest

from kvlaw.mlx_impl import CacheError, ConfigError, RecurrentCache, RecurrentRows, RowError, TrimError, merge_recurrent
from kvlaw.mlx_impl.errors import CountError, DTypeError, PaddingError, RoundError, ShapeError

KERNEL, CHANNELS, GROUPS, HEADS, KEY, VALUE, TOKENS = 4, 6, 2, 4, 8, 5, 200
DTYPES = (mx.float32, mx.bfloat16, mx.float16)
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
Arrays = tuple[mx.array, ...]


@attrs.frozen
class World:
    """What every token brings: [1, TOKENS, ...] of each array of an advance."""

    parts: Arrays

    @staticmethod
    def of(dtype: mx.Dtype) -> "World":
        rng = np.random.default_rng(7)

        def normal(*shape: int) -> mx.array:
            return mx.array(rng.standard_normal((1, TOKENS, *shape)).astype(np.float32)).astype(dtype)

        gates = [mx.array(rng.random((1, TOKENS, HEADS)).astype(np.float32)) for _ in range(2)]
        keys = [normal(GROUPS, KEY) * 0.3 for _ in range(2)]
        return World((normal(CHANNELS), *keys, normal(HEADS, VALUE), gates[0], gates[1].astype(dtype)))

    def tokens(self, *rows: list[int]) -> Arrays:
        """The arrays of rows of as many tokens each."""
        return tuple(mx.concatenate([part[:, mx.array(row)] for row in rows]) for part in self.parts)

    def alone(self, tokens: list[int]) -> RecurrentCache:
        """A cache that got these tokens one by one."""
        cache = RecurrentCache(KERNEL)
        for token in tokens:
            cache.advance(*self.tokens([token]))
        return cache


def raw(array: mx.array) -> np.ndarray:
    return np.array(array.view(mx.uint32 if array.dtype == mx.float32 else mx.uint16))


def held(cache: RecurrentCache | RecurrentRows, row: int = 0) -> list[bytes]:
    """The bytes of one row's state; zeros are as good as no state."""
    arrays = [part[row] for part in cache.state().values() if isinstance(part, mx.array)]
    return [raw(array).tobytes() for array in arrays if bool(mx.any(array != 0))]


# By hand --------------------------------------------------------------------------------------------------------------


def slots(*writes: tuple[int, float], channel: float = 1) -> Arrays:
    """One head of 3 slots and values of size 1: each position writes a number to a slot and reads it."""
    keys = mx.array(np.eye(3, dtype=np.float32)[[slot for slot, _ in writes]][None, :, None])
    values = mx.array([value for _, value in writes], mx.float32).reshape(1, -1, 1, 1)
    gates = mx.ones((1, len(writes), 1))
    inputs = mx.arange(1, len(writes) + 1, dtype=mx.float32).reshape(1, -1, 1) * channel
    return inputs, keys, keys, values, gates, gates


def shown(cache: RecurrentCache | RecurrentRows) -> dict[str, Any]:
    return {name: part.tolist() if isinstance(part, mx.array) else part for name, part in cache.state().items()}


def test_a_write_replaces_what_its_slot_held_and_the_tail_holds_the_newest_inputs() -> None:
    cache = RecurrentCache(3)
    assert shown(cache) == {"offset": 0}
    assert cache.advance(*slots((0, 5), (1, 7), (0, 2))).tolist() == [[[[5.0]], [[7.0]], [[2.0]]]]
    assert shown(cache) == {"offset": 3, "conv": [[[2.0], [3.0]]], "matrix": [[[[2.0, 7.0, 0.0]]]]}
    cache.advance(*slots((2, 9), channel=10))
    assert shown(cache) == {"offset": 4, "conv": [[[3.0], [10.0]]], "matrix": [[[[2.0, 7.0, 9.0]]]]}
    assert (cache.nbytes, cache.bytes_per_token, cache.rows) == (2 * 4 + 3 * 4, 0, 1)
    assert cache.identity == "recurrent(conv=3)"


def test_decay_comes_before_a_write_and_beta_says_how_much_of_it_is_written() -> None:
    inputs, keys, _, values, gates, _ = slots((0, 8), (0, 9))
    for cache in (RecurrentCache(3), RecurrentRows(3, 1)):
        outputs = cache.advance(inputs, keys, keys, values, gates * 0.5, gates * 0.25)
        assert outputs.flatten().tolist() == [2, 3]  # 8 / 4;  2 / 2 = 1, and 1 + (9 - 1) / 4


def test_the_window_of_a_convolution_is_the_tail_and_the_new_inputs() -> None:
    cache, inputs = RecurrentCache(3), slots((0, 1), (0, 1))[0]
    assert cache.window(inputs).tolist() == [[[0.0], [0.0], [1.0], [2.0]]]
    cache.advance(*slots((0, 1)))
    assert cache.window(inputs).tolist() == [[[0.0], [1.0], [1.0], [2.0]]]
    assert cache.offset == 1


def test_a_kernel_of_1_keeps_no_inputs() -> None:
    cache = RecurrentCache(1)
    cache.advance(*slots((0, 5), (1, 7)))
    assert cache.state()["conv"].shape == (1, 0, 1)  # type: ignore[union-attr]
    cache.begin_round()
    cache.advance(*slots((1, 3), (2, 8)))
    cache.roll_back(1)
    assert cache.state()["matrix"].tolist() == [[[[5.0, 3.0, 0.0]]]]  # type: ignore[union-attr]


def test_a_roll_back_by_hand() -> None:
    cache = RecurrentCache(3)
    cache.advance(*slots((0, 5)))
    cache.begin_round()
    cache.advance(*slots((1, 7), (0, 2), channel=10))
    cache.advance(*slots((2, 9), channel=100))
    assert (cache.offset, cache.in_round) == (4, True)
    cache.roll_back(1)
    assert (cache.offset, cache.in_round) == (2, False)
    assert shown(cache) == {"offset": 2, "conv": [[[1.0], [10.0]]], "matrix": [[[[5.0, 7.0, 0.0]]]]}


# Rounds ---------------------------------------------------------------------------------------------------------------


@every_dtype
def test_positions_may_be_split_anywhere(dtype: mx.Dtype) -> None:
    world, rng = World.of(dtype), random.Random(1)
    alone = world.alone(list(range(20)))
    for _ in range(6):
        cache, start = RecurrentCache(KERNEL), 0
        while start < 20:
            stop = min(20, start + rng.randint(1, 7))
            cache.advance(*world.tokens(list(range(start, stop))))
            start = stop
        assert held(cache) == held(alone)


@every_dtype
def test_every_keep_of_a_round_leaves_what_the_kept_positions_alone_leave(dtype: mx.Dtype) -> None:
    world = World.of(dtype)
    for before in (0, 2, 9):
        for keep in range(8):
            cache = world.alone(list(range(before)))
            cache.begin_round()
            cache.advance(*world.tokens([20, 21, 22, 23]))
            cache.advance(*world.tokens([24]))
            cache.advance(*world.tokens([25, 26]))
            cache.roll_back(keep)
            kept = [*range(before), *range(20, 20 + keep)]
            assert held(cache) == held(world.alone(kept))
            assert cache.offset == len(kept)
            cache.advance(*world.tokens([50, 51]))
            assert held(cache) == held(world.alone([*kept, 50, 51]))


def test_a_round_of_which_nothing_is_kept_restores_the_arrays_that_were() -> None:
    world = World.of(mx.float32)
    cache = world.alone([0, 1])
    before = cache.content[0]
    cache.begin_round()
    cache.advance(*world.tokens([2, 3]))
    cache.roll_back(0)
    assert cache.content[0] is before
    fresh = RecurrentCache(KERNEL)
    fresh.begin_round()
    fresh.advance(*world.tokens([2, 3]))
    fresh.roll_back(0)
    assert shown(fresh) == {"offset": 0}
    fresh.advance(*(part.astype(mx.float16) for part in world.tokens([2])))  # another dtype may follow


def test_a_committed_round_leaves_what_no_round_leaves() -> None:
    world = World.of(mx.bfloat16)
    cache = world.alone([0])
    cache.begin_round()
    cache.advance(*world.tokens([1, 2, 3]))
    cache.commit_round()
    assert held(cache) == held(world.alone([0, 1, 2, 3]))


def test_a_round_runs_again_through_the_kernel_that_it_was_run_through() -> None:
    calls: list[int] = []

    def run(*parts: Any) -> tuple[mx.array, mx.array]:
        calls.append(parts[0].shape[1])
        return mx.zeros(parts[2].shape), parts[5] + parts[2].sum()

    cache = RecurrentCache(2)
    cache.begin_round()
    cache.advance(*slots((0, 5), (0, 6), (0, 7)), run=run)
    cache.roll_back(2)
    assert calls == [3, 2]
    assert cache.state()["matrix"].tolist() == [[[[11.0, 11.0, 11.0]]]]  # type: ignore[union-attr]


def test_what_a_caller_does_with_its_arrays_changes_no_round() -> None:
    cache, arrays = RecurrentCache(3), slots((0, 5), (1, 7))
    cache.begin_round()
    cache.advance(*arrays)
    for array in arrays:
        array[...] = 99
    cache.state()["matrix"][...] = 99  # type: ignore[index]
    cache.roll_back(1)
    assert shown(cache) == {"offset": 1, "conv": [[[0.0], [1.0]]], "matrix": [[[[5.0, 0.0, 0.0]]]]}


def test_a_clone_has_the_round_and_goes_its_own_way() -> None:
    world = World.of(mx.float32)
    cache = world.alone([0])
    cache.begin_round()
    cache.advance(*world.tokens([1, 2]))
    twin = cache.clone()
    cache.roll_back(0)
    twin.advance(*world.tokens([3]))
    twin.roll_back(2)
    assert held(cache) == held(world.alone([0]))
    assert held(twin) == held(world.alone([0, 1, 2]))
    twin.reset()
    assert (shown(twin), twin.in_round, cache.offset) == ({"offset": 0}, False, 1)


# Rows -----------------------------------------------------------------------------------------------------------------


@every_dtype
def test_a_row_of_random_histories_is_what_it_would_be_alone(dtype: mx.Dtype) -> None:
    world = World.of(dtype)
    for number in range(8):
        play_rows(world, random.Random(number))


def play_rows(world: World, rng: random.Random) -> None:
    """Rows advance, are padded, merged, filtered and taken back, each set beside its tokens alone."""
    fresh = iter(range(TOKENS))
    group, tokens = RecurrentRows(KERNEL, 2), [[], []]
    for _ in range(6):
        act = rng.choice(("advance", "round", "round", "prefill", "merge", "filter", "extract"))
        if act == "advance":
            tokens = advance(world, group, tokens, [[next(fresh) for _ in range(2)] for _ in tokens])
        elif act == "prefill":
            tokens = prefill(world, rng, group, tokens, fresh)
        elif act == "round":
            tokens = take_back(world, rng, group, tokens, fresh)
        elif act == "merge":
            joining = [next(fresh) for _ in range(rng.randint(0, 2))]
            group, tokens = merge_recurrent([world.alone(joining), group]), [joining, *tokens]
        elif act == "filter":
            kept = rng.sample(range(len(tokens)), rng.randint(1, len(tokens)))
            group.filter(kept)
            tokens = [tokens[row] for row in kept]
        else:
            row = rng.randrange(len(tokens))
            assert held(group.extract(row)) == held(world.alone(tokens[row]))
        assert group.offsets == tuple(map(len, tokens))
        for row, alone in enumerate(tokens):
            assert held(group, row) == held(world.alone(alone)), (act, row)


def advance(world: World, group: RecurrentRows, tokens: list[list[int]], news: list[list[int]]) -> list[list[int]]:
    group.advance(*world.tokens(*news))
    return [old + new for old, new in zip(tokens, news, strict=True)]


def take_back(world: World, rng: random.Random, group: RecurrentRows, tokens: list[list[int]], fresh: Any):
    group.begin_round()
    drafted: list[list[int]] = [[] for _ in tokens]
    for _ in range(rng.randint(0, 2)):
        drafted = advance(world, group, drafted, [[next(fresh), next(fresh)] for _ in tokens])
    keeps = [rng.randint(0, len(drafted[0])) for _ in tokens]
    group.roll_back(keeps)
    return [old + new[:keep] for old, new, keep in zip(tokens, drafted, keeps, strict=True)]


def prefill(world: World, rng: random.Random, group: RecurrentRows, tokens: list[list[int]], fresh: Any):
    """Prompts of their own lengths, padded on either side, in chunks; padding columns bring tokens of their own."""
    pads = [0 if any(tokens) else rng.randint(0, 3) for _ in tokens]
    prompts = [[next(fresh) for _ in range(rng.randint(0, 4))] for _ in tokens]
    columns = max(pad + len(prompt) for pad, prompt in zip(pads, prompts, strict=True)) + rng.randint(1, 2)
    ends = [pad + len(prompt) for pad, prompt in zip(pads, prompts, strict=True)]
    started = bool(group.state().keys() - {"offsets"})
    if started:
        pads, ends = [0] * len(tokens), [len(prompt) for prompt in prompts]
    group.prepare(left=pads, lengths=ends, right=[columns - end for end in ends])
    wide = [
        [190] * pad + prompt + [191] * (columns - pad - len(prompt)) for pad, prompt in zip(pads, prompts, strict=True)
    ]
    start = 0
    while start < columns:
        stop = min(columns, start + rng.randint(1, 4))
        group.advance(*world.tokens(*(row[start:stop] for row in wide)))
        start = stop
    group.finalize()
    return [old + prompt for old, prompt in zip(tokens, prompts, strict=True)]


def test_padding_is_zeros_to_the_convolution_and_nothing_to_the_state() -> None:
    group = RecurrentRows(3, 2)
    group.prepare(left=[1, 0], lengths=[2, 2], right=[1, 1])
    inputs, *others = slots((0, 5), (1, 7), (2, 9))
    both = [mx.concatenate([part, part]) for part in (inputs, *others)]
    assert group.window(both[0])[:, :, 0].tolist() == [[0, 0, 0, 2, 0], [0, 0, 1, 2, 0]]
    assert group.padding(3).tolist() == [[False, True, False], [True, True, False]]  # type: ignore[union-attr]
    group.advance(*both)
    assert group.offsets == (1, 2)
    assert shown(group)["conv"] == [[[0.0], [2.0]], [[1.0], [2.0]]]
    assert shown(group)["matrix"] == [[[[0.0, 7.0, 0.0]]], [[[5.0, 7.0, 0.0]]]]
    with pytest.raises(PaddingError):
        group.begin_round()
    group.finalize()
    assert group.padding(3) is None


def test_left_padding_alone_is_over_when_it_is_used_up() -> None:
    world = World.of(mx.float32)
    group = RecurrentRows(KERNEL, 2)
    group.prepare(left=[3, 0])
    assert (group.offsets, group.offset) == ((-3, 0), 0)
    group.advance(*world.tokens([90, 91], [0, 1]))
    refused(group, PaddingError, group.begin_round)
    assert group.offsets == (-1, 2)
    group.advance(*world.tokens([92, 5], [2, 3]))
    assert group.padding(2) is None
    group.begin_round()
    group.advance(*world.tokens([6], [4]))
    group.commit_round()
    assert (group.offsets, group.offset) == ((2, 5), 5)
    assert [held(group, row) for row in (0, 1)] == [held(world.alone([5, 6])), held(world.alone([0, 1, 2, 3, 4]))]


def test_a_filter_in_a_round_keeps_what_can_be_taken_back() -> None:
    world = World.of(mx.float32)
    group = merge_recurrent([world.alone([0]), world.alone([1, 2]), world.alone([])])
    group.begin_round()
    group.advance(*world.tokens([3, 4], [5, 6], [7, 8]))
    group.filter([2, 0])
    group.roll_back([2, 1])
    assert group.offsets == (2, 2)
    assert [held(group, row) for row in (0, 1)] == [held(world.alone([7, 8])), held(world.alone([0, 3]))]
    group.begin_round()
    group.advance(*world.tokens([1], [1]))
    group.filter([])
    group.roll_back(1)
    assert (shown(group), group.nbytes, group.in_round) == ({"offsets": ()}, 0, False)
    group.prepare(left=[1, 0])  # two empty rows, of any dtype
    group.advance(*(part.astype(mx.float16) for part in world.tokens([0], [1])))
    assert group.offsets == (0, 1)


def test_rows_may_be_filtered_before_they_have_a_state() -> None:
    world = World.of(mx.float32)
    group = RecurrentRows(KERNEL, 3)
    group.filter([2, 0])
    assert (shown(group), group.nbytes, group.bytes_per_token, group.offset) == ({"offsets": (0, 0)}, 0, 0, 0)
    group.begin_round()
    group.filter([0])
    group.advance(*world.tokens([1, 2]))
    group.filter([0])
    group.roll_back(1)
    assert held(group) == held(world.alone([1]))
    assert RecurrentRows().offset == 0
    assert group.bytes_per_token == 0


def test_sources_of_a_merge_and_a_group_behind_an_extraction_stay_as_they_are() -> None:
    world = World.of(mx.float32)
    one, other = world.alone([0, 1]), world.alone([2])
    group = merge_recurrent([one, other])
    row = group.extract(1)
    row.advance(*world.tokens([9]))
    group.advance(*world.tokens([3], [4]))
    assert held(one) == held(world.alone([0, 1]))
    assert held(row) == held(world.alone([2, 9]))
    assert held(group, 1) == held(world.alone([2, 4]))


# What is refused ------------------------------------------------------------------------------------------------------


def refused(cache: RecurrentCache | RecurrentRows, error: type[CacheError], act: Any) -> None:
    before, round_before = shown(cache), cache.in_round
    with pytest.raises(error):
        act()
    assert (shown(cache), cache.in_round) == (before, round_before)


def test_a_state_is_never_trimmed() -> None:
    for cache in (RecurrentCache(), RecurrentRows(4, 1)):
        assert not any(cache.can_trim(n) for n in range(3))
        refused(cache, TrimError, lambda cache=cache: cache.trim(0))
        refused(cache, CountError, lambda cache=cache: cache.trim(-1))


@pytest.mark.parametrize("part", range(6))
def test_arrays_that_do_not_fit_are_refused(part: int) -> None:
    world = World.of(mx.float32)
    cache, good = world.alone([0]), list(world.tokens([1, 2]))
    advance_by: Any = cache.advance

    def spoilt(array: Any) -> Any:
        return lambda: advance_by(*good[:part], array, *good[part + 1 :])

    refused(cache, ShapeError, spoilt(good[part][:, :1]))
    refused(cache, ShapeError, spoilt(mx.concatenate([good[part], good[part]], axis=1)))
    refused(cache, ShapeError, spoilt(good[part][..., 0]))
    refused(cache, ShapeError, spoilt(good[part][..., None]))
    refused(cache, ShapeError, spoilt(good[part][None]))
    refused(cache, DTypeError, spoilt(good[part].astype(mx.int32)))
    refused(cache, DTypeError, spoilt(None))


def test_arrays_that_fit_each_other_alone_are_refused() -> None:
    world = World.of(mx.float32)
    cache, arrays = world.alone([0]), world.tokens([1, 2])
    queries, keys, values = 1, 2, 3

    def together(asked: tuple[int, ...], *parts: int, axis: int) -> None:
        picked = mx.array(parts)
        given: Any = [mx.take(part, picked, axis) if n in asked else part for n, part in enumerate(arrays)]
        refused(cache, ShapeError, lambda: cache.advance(*given))

    for asked in ((queries, keys), (queries, keys, values)):
        together(asked, 0, axis=1)
        together(asked, 0, 1, 1, axis=1)
        together(asked, 0, 0, axis=0)
    together((queries, keys), 0, 1, 1, axis=2)  # 4 heads over 3


def test_another_shape_or_dtype_than_what_is_held_is_refused() -> None:
    world = World.of(mx.float32)
    cache, group, good = world.alone([0]), RecurrentRows(KERNEL, 3), world.tokens([1])
    refused(cache, DTypeError, lambda: cache.advance(good[0].astype(mx.float16), *good[1:]))
    refused(cache, ShapeError, lambda: cache.advance(*world.tokens([1], [2])))
    refused(cache, ShapeError, lambda: cache.advance(good[0][..., :3], *good[1:]))
    refused(cache, ShapeError, lambda: cache.advance(*(part[:, :0] for part in good)))
    refused(group, ShapeError, lambda: group.advance(*world.tokens([1], [2])))
    refused(group, ShapeError, lambda: group.advance(*world.tokens([1], [2], [3], [4])))
    filled = merge_recurrent([cache])
    refused(filled, DTypeError, lambda: filled.advance(good[0].astype(mx.float16), *good[1:]))
    refused(filled, ShapeError, lambda: filled.advance(good[0][..., :3], *good[1:]))


def test_rounds_that_cannot_begin_or_end_so_are_refused() -> None:
    world = World.of(mx.float32)
    for cache in (world.alone([0]), merge_recurrent([world.alone([0]), world.alone([1])])):
        width = cache.rows
        refused(cache, RoundError, cache.commit_round)
        refused(cache, RoundError, lambda cache=cache: cache.roll_back(0))
        cache.begin_round()
        cache.advance(*world.tokens(*[[2, 3]] * width))
        refused(cache, RoundError, cache.begin_round)
        for keep in (-1, 3, 1.0, True, None):
            refused(cache, RoundError, lambda cache=cache, keep=keep: cache.roll_back(keep))  # type: ignore[arg-type]


def test_what_an_open_round_of_rows_forbids() -> None:
    world = World.of(mx.float32)
    group: Any = merge_recurrent([world.alone([0]), world.alone([1])])
    group.begin_round()
    group.advance(*world.tokens([2, 3], [4, 5]))
    for act in (
        lambda: group.roll_back([1]),
        lambda: group.roll_back([1, 3]),
        lambda: group.extract(0),
        lambda: merge_recurrent([group]),
        lambda: group.prepare(left=[0, 0]),
    ):
        refused(group, RoundError, act)


def test_rows_that_are_not_there_and_merges_of_what_does_not_fit_are_refused() -> None:
    world = World.of(mx.float32)
    group = merge_recurrent([world.alone([0]), world.alone([1])])
    for act in (
        lambda: group.extract(2),
        lambda: group.extract(True),
        lambda: group.filter([0, 0]),
        lambda: group.filter([-1]),
        lambda: merge_recurrent([]),
        lambda: merge_recurrent([group, RecurrentCache(3)]),
        lambda: merge_recurrent([group, object()]),  # type: ignore[list-item]
    ):
        refused(group, RowError, act)
    refused(group, DTypeError, lambda: merge_recurrent([group, World.of(mx.float16).alone([0])]))
    inputs, *others = world.tokens([2])
    two, narrow = RecurrentCache(KERNEL), RecurrentCache(KERNEL)
    two.advance(*world.tokens([2], [3]))
    narrow.advance(inputs[..., :3], *others)
    refused(group, RowError, lambda: merge_recurrent([group, two]))
    refused(group, ShapeError, lambda: merge_recurrent([group, narrow]))
    refused(group, ShapeError, lambda: merge_recurrent([narrow, group]))
    prepare: Any = group.prepare
    for lists in ({"left": [1, 0]}, {"right": [1, 0]}, {"lengths": [1]}, {"left": [0.5, 0]}, {"left": 1}):
        refused(group, PaddingError, lambda lists=lists: prepare(**lists))
    group.prepare(lengths=[1, 2], right=[1, 0])
    refused(group, PaddingError, lambda: group.extract(0))
    refused(group, PaddingError, lambda: group.prepare(lengths=[1, 2], right=[1, 0]))


def test_a_convolution_reads_4_positions_unless_told_otherwise() -> None:
    assert (RecurrentCache().identity, RecurrentRows().identity) == ("recurrent(conv=4)", "recurrent_rows(conv=4)")
    assert (RecurrentRows().rows, RecurrentRows(3, 2).rows) == (0, 2)


def test_what_cannot_be_built_is_refused() -> None:
    for kernel in (0, -1, 2.0, True, None):
        with pytest.raises(ConfigError):
            RecurrentCache(kernel)  # type: ignore[arg-type]
    for rows in (-1, 1.5, None):
        with pytest.raises(ConfigError):
            RecurrentRows(4, rows)  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        RecurrentCache(3).become(RecurrentCache(4))
    with pytest.raises(ConfigError):
        RecurrentCache(4).become(RecurrentCache(3))
