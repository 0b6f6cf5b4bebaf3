"""Files and stores of models with recurrent layers: what comes back goes on bit for bit, what was spoilt is refused."""

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from kvlaw.mlx_impl import CacheError, ConfigError, FileError, FullCache, RecurrentCache, RecurrentRows, RingCache
from kvlaw.mlx_impl.delta_rule import gated_delta
from kvlaw.mlx_impl.mlx_lm_recurrent import RecurrentDropIn
from kvlaw.mlx_impl.persistence import load, save
from kvlaw.mlx_impl.reuse import PrefixStore

_spoilt = runpy.run_path(str(Path(__file__).with_name("spoilt_files.py")), run_name="spoilt_files")
parts_of, signed = _spoilt["parts_of"], _spoilt["signed"]
HEADS, KEY, VALUE, CHANNELS = 2, 4, 3, 5


def step(length: int, seed: int, dtype: mx.Dtype = mx.bfloat16) -> tuple[mx.array, ...]:
    keys = mx.random.split(mx.random.key(seed), 6)
    shapes = [(1, length, CHANNELS), *[(1, length, HEADS, KEY)] * 2, (1, length, HEADS, VALUE)]
    inputs, queries, key, values = (
        mx.random.normal(shape, key=k).astype(dtype) for shape, k in zip(shapes, keys, strict=False)
    )
    decay, beta = (mx.random.uniform(shape=(1, length, HEADS), key=k) for k in keys[4:])
    return inputs, queries, key, values, decay, beta.astype(dtype)


def filled(kernel: int, *lengths: int, dtype: mx.Dtype = mx.bfloat16) -> RecurrentCache:
    cache = RecurrentCache(kernel)
    for number, length in enumerate(lengths):
        cache.advance(*step(length, number, dtype))
    return cache


def bits(cache: RecurrentCache) -> dict[str, Any]:
    wide = {mx.bfloat16: mx.uint16, mx.float16: mx.uint16, mx.float32: mx.uint32}
    state = cache.state()
    arrays = {name: a.view(wide[a.dtype]).tolist() for name, a in state.items() if isinstance(a, mx.array) and a.size}
    return {**arrays, "offset": cache.offset, "identity": cache.identity, "bytes": cache.nbytes}


@pytest.mark.parametrize("dtype", [mx.bfloat16, mx.float16, mx.float32])
@pytest.mark.parametrize(("kernel", "history"), [(4, ()), (4, (1,)), (4, (3, 1, 6)), (1, (2,)), (2, (1, 1))])
def test_a_loaded_state_goes_on_as_the_saved_one(
    kernel: int, history: tuple[int, ...], dtype: mx.Dtype, tmp_path: Path
) -> None:
    source = filled(kernel, *history, dtype=dtype)
    before = bits(source)
    save(tmp_path / "c", [source])
    (loaded,) = load(tmp_path / "c")
    assert bits(loaded) == before == bits(source)
    for number, length in enumerate((1, 4, 2), 50):
        outputs = [cache.advance(*step(length, number, dtype)) for cache in (source, loaded)]
        assert mx.array_equal(outputs[0], outputs[1])
        for cache in (source, loaded):
            cache.begin_round()
            cache.advance(*step(3, number + 9, dtype))
            cache.roll_back(number % 3)
        assert bits(loaded) == bits(source)


def test_a_hybrid_model_comes_back_whole(tmp_path: Path) -> None:
    keys = mx.random.normal((1, 2, 3, 32), key=mx.random.key(1)).astype(mx.bfloat16)
    full, ring, state = FullCache(), RingCache(2), filled(4, 3)
    for cache in (full, ring):
        cache.append_window(keys, keys)
    save(tmp_path / "c", [full, state, ring], fingerprint={"model": "m"})
    loaded = load(tmp_path / "c", fingerprint={"model": "m"})
    assert [type(cache) for cache in loaded] == [FullCache, RecurrentCache, RingCache]
    assert bits(loaded[1]) == bits(state)
    assert [cache.offset for cache in loaded] == [3, 3, 3]
    with pytest.raises(FileError, match="PERS-16"):
        load(tmp_path / "c", fingerprint={"model": "another"})


def test_a_round_and_a_group_are_not_saved(tmp_path: Path) -> None:
    state = filled(4, 2)
    state.begin_round()
    with pytest.raises(FileError, match="PERS-15"):
        save(tmp_path / "c", [state])
    with pytest.raises(FileError, match="PERS-1"):
        save(tmp_path / "c", [RecurrentRows(4, 2)])  # type: ignore[list-item]
    assert not (tmp_path / "c").exists()


LIES: dict[str, dict[str, Any]] = {
    "another kernel": {"config": {"kind": "recurrent", "conv": 3}},
    "no kernel": {"config": {"kind": "recurrent"}},
    "a kernel of 0": {"config": {"kind": "recurrent", "conv": 0}},
    "a window": {"config": {"kind": "recurrent", "conv": 4, "window": 8}},
    "a place of a ring": {"place": {"offset": 5, "columns": 5}},
    "no place": {"place": {}},
    "converted": {"converted": True},
    "a floor": {"floor": 2},
    "no shapes": {"shapes": None, "dtype": None},
    "four shapes": {"shapes": [1, CHANNELS, HEADS, VALUE]},
    "another batch": {"shapes": [2, CHANNELS, HEADS, VALUE, KEY]},
    "no channels": {"shapes": [1, 0, HEADS, VALUE, KEY]},
    "key and value dims changed over": {"shapes": [1, CHANNELS, HEADS, KEY, VALUE]},
    "another dtype": {"dtype": "F16"},
    "a dtype of codes": {"dtype": "U32"},
    "another kind": {"config": {"kind": "full", "window": None, "sinks": 0}},
}


@pytest.mark.parametrize("lie", LIES)
def test_what_cannot_be_is_refused(lie: str, tmp_path: Path) -> None:
    path = tmp_path / "c"
    save(path, [filled(4, 5)])
    header, body = parts_of(path.read_bytes())
    (layer,) = json.loads(header["__metadata__"]["layers"])
    header["__metadata__"]["layers"] = json.dumps([{**layer, **LIES[lie]}])
    path.write_bytes(signed(header, body))
    with pytest.raises(FileError, match="PERS-9"):
        load(path)


def test_every_spoilt_byte_of_a_small_file_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "c"
    save(path, [filled(2, 3)])
    data = path.read_bytes()
    for at in range(0, len(data), 7):
        path.write_bytes(data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :])
        with pytest.raises(FileError):
            load(path)
    for length in range(0, len(data), 11):
        path.write_bytes(data[:length])
        with pytest.raises(FileError):
            load(path)


def test_a_store_lends_a_state_whole_or_not_at_all() -> None:
    keys = mx.random.normal((1, 2, 3, 32), key=mx.random.key(1)).astype(mx.bfloat16)
    full, state = FullCache(), filled(4, 3)
    full.append_window(keys, keys)
    store = PrefixStore(1 << 20)
    assert store.put((1, 2, 3), [full, state])
    assert store.nbytes == full.nbytes + state.nbytes
    assert store.get((1, 2, 3)) is None  # 2 of its tokens would do, and a state cannot be cut
    assert store.get((1, 2, 9, 4)) is None
    found = store.get((1, 2, 3, 4), like=[full, state])
    assert found is not None
    (_, lent), length = found
    assert (length, bits(lent)) == (3, bits(state))
    lent.advance(*step(2, 7))
    again = store.get((1, 2, 3, 4))
    assert again is not None
    assert bits(again[0][1]) == bits(state)
    assert store.get((1, 2, 3, 4), like=[full, RecurrentCache(3)]) is None


def test_a_store_takes_caches_of_any_iterable_once_and_no_groups() -> None:
    store = PrefixStore(1 << 20)
    assert store.put((1, 2), iter([filled(4, 2)]))  # type: ignore[arg-type] # a caller's mistake that can be served
    found = store.get((1, 2, 3))
    assert found is not None
    assert (found[0][0].offset, found[1]) == (2, 2)
    with pytest.raises(ConfigError, match="a store of RecurrentRows"):
        store.put((), [RecurrentRows(4, 1)])  # type: ignore[list-item]
    assert len(store) == 1


def test_a_kernel_that_gives_no_float32_matrix_is_refused() -> None:
    cache = filled(4, 2)
    before = bits(cache)
    wrong: dict[str, Callable[[mx.array], mx.array | None]] = {
        "bfloat16": lambda matrix: matrix.astype(mx.bfloat16),
        "None": lambda _: None,
        "matrix \\[1, 2, 3\\]": lambda matrix: matrix[..., 0],
    }
    for said, spoil in wrong.items():

        def run(*given: Any, spoil: Callable[[mx.array], mx.array | None] = spoil) -> Any:
            outputs, matrix = gated_delta(*given)
            return outputs, spoil(matrix)

        with pytest.raises(CacheError, match=said):
            cache.advance(*step(1, 5), run=run)
    assert bits(cache) == before


def test_what_a_model_puts_back_must_fit() -> None:
    drop_in = RecurrentDropIn(RecurrentCache(4))
    drop_in[0], drop_in[1] = mx.zeros((1, 9, 6)), mx.zeros((1, 2, 4, 3))
    with pytest.raises(CacheError, match="3 inputs"):
        drop_in.advance(1)
    drop_in[0], drop_in[1] = mx.zeros((1, 3, 6)), mx.zeros((1, 2, 4, 3), mx.bfloat16)
    with pytest.raises(CacheError, match="float32"):
        drop_in.advance(1)
    assert (drop_in.empty(), drop_in.offset) == (True, 0)
    drop_in[0], drop_in[1] = mx.zeros((1, 3, 6)), mx.zeros((1, 2, 4, 3))
    drop_in.advance(1)
    assert drop_in.offset == 1


def test_a_store_of_states_keeps_prefixes_of_each_other_and_counts_their_bytes() -> None:
    store = PrefixStore(1 << 20)
    short, long = filled(4, 2), filled(4, 2, 3)
    store.put((1, 2), [short])
    store.put((1, 2, 3, 4, 5), [long])
    assert len(store) == 2  # the longer one cannot be cut to the shorter
    assert store.nbytes == 2 * short.nbytes
    found = store.get((1, 2, 9))
    assert found is not None
    assert (found[1], bits(found[0][0])) == (2, bits(short))
    tight = PrefixStore(short.nbytes)
    assert tight.put((1, 2), [short])
    assert tight.put((1, 2, 3, 4, 5), [long])
    assert (len(tight), tight.get((1, 2, 9))) == (1, None)
