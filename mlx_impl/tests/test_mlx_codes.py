"""Affine storage: codes worked out by hand, codes of a dense twin, bytes, refusals, attention over codes."""

import random
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.base import quantized_scaled_dot_product_attention

from kvlaw.mlx_impl import Cache, CacheError, affine, make
from kvlaw.mlx_impl.codec import make_codec
from kvlaw.mlx_impl.kernels import KERNEL_SETS, TILE, Coded, KernelSet, make_kernels, tiled, unfused

FORMATS = [(2, None, 32, 96), (3, 5, 64, 128), (4, None, 64, 64), (4, 8, 128, 128), (6, 2, 32, 32), (8, 3, 64, 256)]
"""Bits of keys, of values, group, head dim."""


def normal(seed: int, *shape: int, dtype: mx.Dtype = mx.bfloat16) -> mx.array:
    return mx.random.normal(shape, key=mx.random.key(seed)).astype(dtype)


def raw(array: mx.array) -> np.ndarray:
    """Bits, so that -0 and NaN compare too."""
    return np.array(array.view(mx.uint16 if array.dtype.size == 2 else mx.uint32))


def same(found: Any, expected: Any) -> None:
    assert len(found) == len(expected) == 3
    for mine, other in zip(found, expected, strict=True):
        assert mine.dtype == other.dtype
        np.testing.assert_array_equal(raw(mine), raw(other))


# -- by hand ----------------------------------------------------------------------------------------------------------


def test_words_scales_and_biases_of_a_grid_are_those_worked_out_by_hand() -> None:
    codes = [0, 15, *range(16), *range(14)]  # both ends in the group of 32, so the grid is found again
    step = 0.25
    keys = mx.array([(code - 8) * step for code in codes], mx.bfloat16).reshape(1, 1, 1, 32)
    values = mx.array([(code - 8) * step * 4 for code in reversed(codes)], mx.bfloat16).reshape(1, 1, 1, 32)
    cache = make("ring", 4, bits=4, group=32)
    cache.append_decode(keys, values)
    assert cache.codes is not None
    for (words, scales, biases), order, gain in zip(cache.codes, (codes, codes[::-1]), (1, 4), strict=True):
        stream = sum(code << (4 * place) for place, code in enumerate(order))
        expected = [(stream >> (32 * word)) & 0xFFFFFFFF for word in range(4)]
        assert np.array(words[0, 0, 0]).tolist() == expected
        assert scales[0, 0, 0].tolist() == [step * gain]
        assert biases[0, 0, 0].tolist() == [-8 * step * gain]


def test_bytes_per_token_are_those_of_the_formula() -> None:
    sizes = {
        (4, None, 64, 64, 64, mx.bfloat16): 2 * (32 + 32 + 2 * 4),
        (8, 4, 32, 128, 64, mx.float32): 2 * (128 + 32 + 6 * 8),
        (3, 6, 32, 96, 32, mx.float16): 2 * (36 + 24 + 4 * 4),
    }
    for (bits, value_bits, group, key_dim, value_dim, dtype), expected in sizes.items():
        cache = make("full", bits=bits, value_bits=value_bits, group=group)
        assert (cache.bytes_per_token, cache.nbytes) == (0, 0)
        cache.append_window(normal(1, 3, 2, 5, key_dim, dtype=dtype), normal(2, 3, 2, 5, value_dim, dtype=dtype))
        assert cache.bytes_per_token == expected
        assert cache.nbytes == expected * 3 * 256


# -- beside a dense twin ----------------------------------------------------------------------------------------------


def step(rng: random.Random, caches: list[Cache], seed: int, dims: tuple[int, int]) -> list[Any]:
    """Do one random call to every cache; return their reads, none for a trim."""
    heads, dim = dims
    kind = rng.choice(["decode", "decode", "window", "known", "trim", "bypass"])
    if kind in {"trim", "bypass"}:
        n = rng.randrange(4)
        if kind == "trim" and not all(cache.can_trim(n) for cache in caches):
            return []
        try:
            assert [cache.trim(n, bypass=kind == "bypass") for cache in caches] == [n] * len(caches)
        except CacheError:
            with pytest.raises(CacheError):
                caches[-1].trim(n, bypass=kind == "bypass")
        return []
    length = 1 if kind == "decode" else rng.choice([1, 2, 3, 5, 7, 8, 9, 20])
    keys, values = normal(seed, 1, heads, length, dim), normal(seed + 1, 1, heads, length, dim)
    return [getattr(cache, f"append_{kind}")(keys, values) for cache in caches]


def quantized(array: mx.array, bits: int, group: int) -> Any:
    return mx.quantize(array, group_size=group, bits=bits)


@pytest.mark.parametrize("window", [None, 1, 2, 7, 8])
@pytest.mark.parametrize("form", FORMATS)
def test_codes_are_those_of_quantizing_what_a_dense_twin_holds(form: Any, window: int | None) -> None:
    bits, value_bits, group, dim = form
    kind: Any = "ring" if window else "full"
    for history in range(3):
        rng = random.Random(f"{form} {window} {history}")
        dense, codes = make(kind, window), make(kind, window, bits=bits, value_bits=value_bits, group=group)
        for seed in range(0, 40, 2):
            reads = step(rng, [dense, codes], 1000 * history + seed, (2, dim))
            assert (dense.offset, dense.columns, dense.write_index) == (codes.offset, codes.columns, codes.write_index)
            if not reads:
                continue
            plain, read = reads
            same(read.keys, quantized(plain.keys, bits, group))
            same(read.values, quantized(plain.values, value_bits or bits, group))
            held: Any = dense.state()["keys"]
            active = dense.peek()[0].shape[2]
            assert codes.codes is not None
            same([part[:, :, :active] for part in codes.codes[0]], quantized(held[:, :, :active], bits, group))


@pytest.mark.parametrize("window", [None, 5])
def test_a_dense_fetch_of_codes_is_dequantized_in_the_same_order(window: int | None) -> None:
    kind: Any = "ring" if window else "full"
    dense, codes = make(kind, window), make(kind, window, bits=5, value_bits=8, group=32)
    for seed, length in enumerate([3, 1, 1, 4, 1, 1, 1]):
        keys, values = normal(seed, 2, 1, length, 64), normal(seed + 50, 2, 1, length, 64)
        fetched = codes.fetch_dense(keys, values)
        for mine, plain, bits in zip(fetched, dense.fetch_dense(keys, values), (5, 8), strict=True):
            expected = mx.dequantize(*quantized(plain, bits, 32), group_size=32, bits=bits)
            np.testing.assert_array_equal(raw(mine), raw(expected))
        for mine, again in zip(fetched, codes.peek(), strict=True):
            np.testing.assert_array_equal(raw(mine), raw(again))


def test_state_names_the_six_planes_and_they_never_change() -> None:
    cache = make("ring", 4, bits=8, group=32)
    cache.append_window(normal(1, 1, 1, 3, 32), normal(2, 1, 1, 3, 32))
    state: dict[str, Any] = cache.state()
    names = [f"{side}_{part}" for side in ("key", "value") for part in ("words", "scales", "biases")]
    assert [name for name, part in state.items() if isinstance(part, mx.array)] == names
    before = {name: raw(state[name]).copy() for name in names}
    read = cache.append_decode(normal(3, 1, 1, 1, 32), normal(4, 1, 1, 1, 32))
    first = [raw(part).copy() for part in read.keys]
    for seed in range(5, 12):
        cache.append_decode(normal(seed, 1, 1, 1, 32), normal(seed, 1, 1, 1, 32))
    cache.reset()
    for name in names:
        np.testing.assert_array_equal(raw(state[name]), before[name])
    for mine, then in zip(read.keys, first, strict=True):
        np.testing.assert_array_equal(raw(mine), then)


def test_a_clone_goes_its_own_way() -> None:
    cache = make("full", bits=4, group=32)
    cache.append_window(normal(1, 1, 1, 3, 32), normal(2, 1, 1, 3, 32))
    twin = cache.clone()
    twin.append_decode(normal(3, 1, 1, 1, 32), normal(3, 1, 1, 1, 32))
    cache.append_decode(normal(4, 1, 1, 1, 32), normal(4, 1, 1, 1, 32))
    for one, seed in ((twin, 3), (cache, 4)):
        assert one.codes is not None
        same([part[:, :, 3:4] for part in one.codes[0]], quantized(normal(seed, 1, 1, 1, 32), 4, 32))


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dims", [(96, 64), (64, 96), (32, 64)])
@pytest.mark.parametrize("start", [None, 0, 9, "never"])
def test_a_head_dim_of_no_whole_groups_is_refused_and_nothing_changes(
    dims: tuple[int, int], start: Any, show: Callable[[Cache], dict[str, object]]
) -> None:
    cache = make("full", bits=4, group=64, start=start)
    before = show(cache)
    keys, values = normal(1, 1, 1, 3, dims[0]), normal(2, 1, 1, 3, dims[1])
    for append in (cache.append_window, cache.append_known, cache.fetch_dense, cache.fetch_stored):
        with pytest.raises(CacheError, match="PREC-13"):
            append(keys, values)
        assert show(cache) == before
    cache.append_window(normal(1, 1, 1, 3, 64), normal(2, 1, 1, 3, 128))  # another shape may follow
    assert cache.offset == 3


@pytest.mark.parametrize(
    "policy",
    [{"bits": 7}, {"bits": 1}, {"bits": True}, {"bits": 4.0}, {"bits": 4, "value_bits": 16}, {"bits": 4, "group": 16},
     {"bits": 4, "group": 96}, {"bits": 4, "start": -1}, {"bits": 4, "start": "later"}, {"bits": 4, "start": 2.0},
     {"start": 3}, {"value_bits": 4}],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["full", "ring"])
def test_an_impossible_policy_is_refused_when_built(kind: Any, policy: dict[str, Any]) -> None:
    with pytest.raises(CacheError, match="PREC-13"):
        make(kind, 8 if kind == "ring" else None, **policy)


@pytest.mark.parametrize(
    "asked", [("full", 8, 0), ("full", None, 1), ("ring", None, 0), ("ring", 0, 0), ("rows", 1, 0)]
)
def test_a_kind_that_there_is_not_is_refused(asked: Any) -> None:
    with pytest.raises(CacheError, match="ERR-6"):
        make(*asked, bits=4)


def test_learned_sinks_are_refused_over_codes() -> None:
    read = make("full", bits=4, group=32).append_window(normal(1, 1, 1, 3, 32), normal(2, 1, 1, 3, 32))
    with pytest.raises(CacheError, match="READ-9"):
        read.attend(normal(3, 1, 2, 3, 32), scale=1, sinks=mx.zeros((2,)))


# -- attention --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [mx.bfloat16, mx.float16, mx.float32])
@pytest.mark.parametrize("heads", [(1, 1), (2, 2), (4, 2), (6, 1)])
@pytest.mark.parametrize("form", [(4, 64, 64), (8, 32, 96), (3, 64, 128)])
def test_attention_is_mlx_lms_bit_for_bit(form: Any, heads: tuple[int, int], dtype: mx.Dtype) -> None:
    bits, group, dim = form
    queries_heads, shared = heads
    for window, lengths in ((None, [5, 1, 3, 1]), (4, [3, 1, 1, 1, 6, 1, 2])):
        cache = make("ring" if window else "full", window, bits=bits, group=group)
        for seed, length in enumerate(lengths):
            shape = (2, shared, length, dim)
            keys, values = normal(seed, *shape, dtype=dtype), normal(seed + 50, *shape, dtype=dtype)
            queries = normal(seed + 99, 2, queries_heads, length, dim, dtype=dtype)
            for as_array in (False, True):
                one = cache.clone()
                append = one.append_decode if length == 1 and seed % 2 else one.append_window
                read = append(keys, values, as_array=as_array)
                for scale in (dim**-0.5, 1.0):
                    mask: Any = read.mask  # mlx-lm's signature forgets that it takes "causal"
                    expected = quantized_scaled_dot_product_attention(
                        mx.array(queries), read.keys, read.values, scale, mask, group, bits
                    )
                    np.testing.assert_array_equal(raw(read.attend(queries, scale=scale)), raw(expected))
            cache.append_window(keys, values)


@pytest.mark.parametrize("policy", [{}, {"bits": 8, "group": 32}])
@pytest.mark.parametrize("window", [None, 3, 8])
def test_a_known_append_stores_as_a_window_and_attends_each_query_alone(
    window: int | None, policy: dict[str, Any]
) -> None:
    kind: Any = "ring" if window else "full"
    known, block = make(kind, window, **policy), make(kind, window, **policy)
    for seed, length in enumerate([4, 1, 6]):
        keys, values = normal(seed, 1, 2, length, 32), normal(seed + 9, 1, 2, length, 32)
        queries = normal(seed + 20, 1, 4, length, 32)
        read, other = known.append_known(keys, values), block.append_window(keys, values, as_array=True)
        assert known.state().keys() == block.state().keys()
        for name, part in known.state().items():
            theirs: Any = block.state()[name]
            assert raw(part).tolist() == raw(theirs).tolist() if isinstance(part, mx.array) else part == theirs
        rows, outputs = other.mask, read.attend(queries, scale=0.25)
        assert isinstance(rows, mx.array)
        for i in range(length):
            alone, row = queries[:, :, i : i + 1], rows[i : i + 1]
            if policy:
                one = quantized_scaled_dot_product_attention(alone, other.keys, other.values, 0.25, row, 32, 8)
            else:
                one = mx.fast.scaled_dot_product_attention(alone, other.keys, other.values, scale=0.25, mask=row)
            np.testing.assert_array_equal(raw(outputs[:, :, i : i + 1]), raw(one))


def test_a_known_append_equals_decodes_on_a_growing_cache_of_codes() -> None:
    known, single = (make("full", bits=4, group=32) for _ in range(2))
    for cache in (known, single):
        cache.append_window(normal(1, 1, 1, 5, 32), normal(2, 1, 1, 5, 32))
    keys, values, queries = (normal(seed, 1, 1, 4, 32) for seed in (3, 4, 5))
    whole = known.append_known(keys, values).attend(queries, scale=0.5)
    for i in range(4):
        at = slice(i, i + 1)
        one = single.append_decode(keys[:, :, at], values[:, :, at]).attend(queries[:, :, at], scale=0.5)
        np.testing.assert_array_equal(raw(whole[:, :, at]), raw(one))


# -- kernel sets ------------------------------------------------------------------------------------------------------


def test_the_meaning_of_the_mask_chooses_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []

    def spy(name: str) -> Any:
        def kernel(*arguments: Any) -> mx.array:
            called.append(name)
            return unfused(*arguments)

        return kernel

    monkeypatch.setitem(KERNEL_SETS, "spies", KernelSet("spies", spy("decode"), spy("causal"), spy("masked")))
    cache = make("ring", 4, bits=4, group=32, kernels="spies", dtype=mx.bfloat16)
    array = {"as_array": True}
    calls: list[tuple[str, int, dict[str, Any], str]] = [
        ("decode", 1, {}, "decode"),
        ("decode", 1, array, "decode"),
        ("window", 1, {}, "causal"),  # one position, but by name a window
        ("window", 1, array, "causal"),
        ("window", 2, {}, "masked"),  # behind a history of 3 the second reaches past the window of 4
        ("window", 3, array, "masked"),
        ("decode", 1, {"window": 2}, "decode"),
        ("known", 2, {}, "decode decode"),
    ]
    for name, length, options, expected in calls:
        called.clear()
        keys = normal(7, 1, 1, length, 32)
        read = getattr(cache, f"append_{name}")(keys, keys, **options)
        read.attend(normal(8, 1, 1, length, 32), scale=1)
        assert " ".join(called) == expected, (name, length, options)


@pytest.mark.parametrize("name", ["tiled", "tiled_causal"])
def test_tiled_kernels_are_refused_at_construction_where_unsupported(name: str) -> None:
    for bits in (4, 8):
        for group in (32, 64, 128):
            for dtype in (mx.bfloat16, mx.float16):
                policy = affine(bits, None, group, kernels=name, dtype=dtype)
                assert policy.codes is not None
                assert policy.codes.kernels.name == name
    wrong: list[dict[str, Any]] = [{"bits": 3}, {"bits": 4, "value_bits": 6}]
    wrong += [{"bits": 4, "dtype": mx.float32}, {"bits": 8, "dtype": None}]
    for options in wrong:
        merged: dict[str, Any] = {"kernels": name, "dtype": mx.bfloat16, **options}
        with pytest.raises(CacheError, match="READ-15"):
            make("full", **merged)
    with pytest.raises(CacheError, match="READ-15"):
        make("full", bits=4, kernels="flash")
    cache = make("full", bits=4, kernels=name, dtype=mx.bfloat16)
    with pytest.raises(CacheError, match="READ-15"):
        cache.append_window(normal(1, 1, 1, 2, 64, dtype=mx.float16), normal(1, 1, 1, 2, 64, dtype=mx.float16))
    assert cache.offset == 0


def exact_attention(queries: mx.array, coded: Coded, scale: float, visible: np.ndarray) -> np.ndarray:
    """Attention over the dequantized columns in float64."""
    codec = coded.codec
    keys = np.array(codec.decode_keys(coded.keys).astype(mx.float32), np.float64)
    values = np.array(codec.decode_values(coded.values).astype(mx.float32), np.float64)
    repeats = queries.shape[1] // keys.shape[1]
    keys, values = (np.repeat(part, repeats, axis=1) for part in (keys, values))
    scores = np.array(queries.astype(mx.float32), np.float64) @ keys.swapaxes(2, 3) * scale
    scores = np.where(visible, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ values


@pytest.mark.parametrize("columns", [40, TILE, TILE + 1, 2 * TILE + 100])
@pytest.mark.parametrize("how", ["none", "causal", "array"])
def test_tiled_attention_is_attention_over_the_dequantized_columns(how: str, columns: int) -> None:
    length, codec = 7, make_codec(8, 4, 32)
    keys, values = normal(1, 1, 2, columns, 32, dtype=mx.float16), normal(2, 1, 2, columns, 32, dtype=mx.float16)
    coded = Coded(codec.encode_keys(keys), codec.encode_values(values), codec)
    queries = normal(3, 1, 4, length, 32, dtype=mx.float16)
    rows = np.arange(columns - length, columns)[:, None] >= np.arange(columns)
    if how == "none":
        rows = np.ones((length, columns), bool)
    if how == "array":  # the first tile hides everything from the last queries
        rows &= np.arange(columns) >= np.arange(length)[:, None] * (columns // length)
    visible: Any = rows
    mask: Any = {"none": None, "causal": "causal", "array": mx.array(visible)}[how]
    found = np.array(tiled(queries, coded, 0.2, mask).astype(mx.float32))
    expected = exact_attention(queries, coded, 0.2, rows)
    assert np.abs(found - expected).max() <= 4e-3 * np.abs(values.astype(mx.float32)).max()  # numerics.md, section 8
    assert expected.std() > 0.05


def test_tiled_attention_points_at_single_columns_exactly() -> None:
    """Pointers into every tile: the output is the stored value, bit for bit (numerics.md, section 4)."""
    columns, bits = 2 * TILE + 20, 11
    codec = make_codec(8, None, 32)
    binary = (np.arange(columns)[:, None] >> np.arange(32)) & 1
    signs = mx.array(np.where(binary[:, :bits] == 1, 1.0, -1.0), mx.bfloat16)
    ends = mx.array([[-128.0, 127.0]] * columns, mx.bfloat16)
    keys = mx.concatenate([signs, ends, mx.zeros((columns, 32 - bits - 2), mx.bfloat16)], axis=1)[None, None]
    grid = np.random.default_rng(1).integers(-100, 100, (columns, 32))
    grid[:, 0], grid[:, 1] = -128, 127
    values = mx.array(grid, mx.bfloat16)[None, None]
    coded = Coded(codec.encode_keys(keys), codec.encode_values(values), codec)
    targets = [0, 1, TILE - 1, TILE, columns - 4, columns - 3, columns - 2]
    queries = mx.concatenate([64 * signs[mx.array(targets)], mx.zeros((7, 32 - bits), mx.bfloat16)], axis=1)[None, None]
    output = tiled(queries, coded, 1, "causal")
    expected = values[:, :, mx.array(targets)]  # all of them seen: query i stands at columns - 7 + i
    np.testing.assert_array_equal(np.array(output.astype(mx.float32)), np.array(expected.astype(mx.float32)))


def test_tiled_sets_keep_unfused_decodes_and_tiled_causal_keeps_masked_windows_unfused() -> None:
    codec = make_codec(4)
    kernels = {name: make_kernels(name, codec, mx.bfloat16) for name in KERNEL_SETS}
    found = {name: (one.decode, one.causal, one.masked) for name, one in kernels.items()}
    assert found == {
        "unfused": (unfused, unfused, unfused),
        "tiled_causal": (unfused, tiled, unfused),
        "tiled": (unfused, tiled, tiled),
    }
