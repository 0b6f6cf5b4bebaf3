"""Prompt-cache files of mlx-lm 0.31 and 0.32, read into caches that go on as mlx-lm's own.

The files of 0.32 are written by mlx-lm itself; those of 0.31 by what its source (0.31.3) says: the state of a cache is
its keys and values, cut to the offset where that is below the columns; what it counts is a tuple of texts.
"""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models import cache as library

from kvlaw.mlx_impl import Cache, FileError
from kvlaw.mlx_impl.persistence import load, load_mlx_lm, save

lm: Any = library
flatten: Any = tree_flatten
MAKE: dict[str, Callable[[], Any]] = {
    "growing": lm.KVCache,
    "concatenating": lm.ConcatenateKVCache,
    "ring": lambda: lm.RotatingKVCache(4),
    "ring with sinks": lambda: lm.RotatingKVCache(5, keep=2),
    "quantized": lambda: lm.QuantizedKVCache(group_size=32, bits=4),
}
HISTORIES = ((1,), (3,), (4, 1), (6, 1, 1), (3, 1, 1, 1, 1, 1), (9, 2), (257,))


def pair(length: int, seed: int) -> tuple[mx.array, mx.array]:
    keys = (mx.random.key(seed), mx.random.key(seed + 1000))
    one, other = (mx.random.normal((1, 2, length, 64), mx.bfloat16, key=key) for key in keys)
    return one, other


def filled(make: Callable[[], Any], history: tuple[int, ...]) -> Any:
    cache = make()
    for number, length in enumerate(history):
        cache.update_and_fetch(*pair(length, number))
    return cache


def write_032(path: Path, caches: list[Any]) -> None:
    lm.save_prompt_cache(str(path), caches, {"model": "m"})


def write_031(path: Path, caches: list[Any]) -> None:
    states, counts = [], []
    for cache in caches:
        planes = (cache.keys, cache.values)
        width = (cache.keys[0] if isinstance(cache.keys, tuple) else cache.keys).shape[2]
        if cache.offset < width:  # cut to the offset
            planes = tuple(cut(plane, cache.offset) for plane in planes)
        states.append(planes)
        if isinstance(cache, lm.RotatingKVCache):
            counts.append(tuple(map(str, (cache.keep, cache.max_size, cache.offset, cache._idx))))
        elif isinstance(cache, lm.QuantizedKVCache):
            counts.append(tuple(map(str, (cache.offset, cache.group_size, cache.bits))))
        else:
            counts.append("")
    names = [type(cache).__name__ for cache in caches]
    mx.save_safetensors(str(path), dict(flatten(states)), dict(flatten([counts, {"model": "m"}, names])))


def cut(plane: Any, offset: int) -> Any:
    if isinstance(plane, tuple):
        return tuple(part[..., :offset, :] for part in plane)
    return plane[..., :offset, :]


WRITERS = {"0.32": write_032, "0.31": write_031}


def same(one: Any, other: Any) -> bool:
    if isinstance(one, mx.array):
        return bool(mx.array_equal(one, other))
    return all(same(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("version", list(WRITERS))
def test_what_is_read_goes_on_as_in_mlx_lm(version: str, history: tuple[int, ...], tmp_path: Path) -> None:
    """What every later append fetches is the same, bit for bit, through growth and wraps."""
    theirs = [filled(make, history) for make in MAKE.values()]
    path = tmp_path / "prompt.safetensors"
    WRITERS[version](path, theirs)
    ours = load_mlx_lm(path)
    assert [cache.offset for cache in ours] == [sum(history)] * len(theirs)
    assert [cache.identity for cache in ours] == [
        "full",
        "full",
        "ring(window=4,sinks=0)",
        "ring(window=5,sinks=2)",
        "full(bits=4,group=32)",
    ]
    for number, length in enumerate((1, 1, 3, 1, 1, 1, 1, 1, 7, 1), 50):
        keys, values = pair(length, number)
        for name, their, our in zip(MAKE, theirs, ours, strict=True):
            fetched = their.update_and_fetch(keys, values)
            assert same(fetched, our.fetch_stored(keys, values)), (name, number)


def test_what_was_read_can_be_saved_as_ours(tmp_path: Path) -> None:
    path = tmp_path / "prompt.safetensors"
    write_032(path, [filled(MAKE["ring"], (6, 1))])
    ours = load_mlx_lm(path)
    save(tmp_path / "c", ours)
    (again,) = load(tmp_path / "c")
    assert (again.offset, again.columns, again.write_index) == (ours[0].offset, ours[0].columns, ours[0].write_index)
    with pytest.raises(FileError, match="PERS-11"):
        load(path)
    with pytest.raises(FileError, match="PERS-11"):
        load_mlx_lm(tmp_path / "c")


def test_empty_caches_of_032_are_empty(tmp_path: Path) -> None:
    path = tmp_path / "prompt.safetensors"
    write_032(path, [MAKE["growing"](), MAKE["ring"]()])
    assert [(cache.offset, cache.columns) for cache in load_mlx_lm(path)] == [(0, 0), (0, 0)]


@pytest.mark.parametrize("make", [lambda: lm.ArraysCache(2), lambda: lm.ChunkedKVCache(8)])
def test_a_class_that_is_not_known_is_refused(make: Callable[[], Any], tmp_path: Path) -> None:
    cache = make()
    if isinstance(cache, lm.ArraysCache):
        cache[0] = cache[1] = mx.zeros((1, 2))
    else:
        cache.update_and_fetch(*pair(3, 0))
    path = tmp_path / "prompt.safetensors"
    write_032(path, [filled(MAKE["growing"], (3,)), cache])
    with pytest.raises(FileError, match=type(cache).__name__):
        load_mlx_lm(path)


def test_a_file_of_031_that_mlx_lm_032_takes_for_an_empty_list(tmp_path: Path) -> None:
    """B96: one layer without metadata of the caller's gives no layer and no error there; here it gives the layer."""
    path = tmp_path / "prompt.safetensors"
    cache = filled(MAKE["quantized"], (3,))
    counts = [tuple(map(str, (cache.offset, cache.group_size, cache.bits)))]
    states = [(cut(cache.keys, 3), cut(cache.values, 3))]
    mx.save_safetensors(str(path), dict(flatten(states)), dict(flatten([counts, {}, ["QuantizedKVCache"]])))
    assert lm.load_prompt_cache(str(path)) == []
    (ours,) = load_mlx_lm(path)
    assert ours.offset == 3


def test_a_file_of_028_that_counts_a_step_as_well_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "prompt.safetensors"
    cache = filled(MAKE["ring"], (3,))
    counts = [tuple(map(str, (cache.keep, cache.max_size, 256, cache.offset, cache._idx)))]
    states = [(cut(cache.keys, 3), cut(cache.values, 3))]
    mx.save_safetensors(str(path), dict(flatten(states)), dict(flatten([counts, {}, ["RotatingKVCache"]])))
    with pytest.raises(FileError, match="PERS-10"):
        load_mlx_lm(path)


def test_weights_and_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    mx.save_safetensors(str(path), {"0.0": mx.zeros((2, 2))})
    with pytest.raises(FileError, match="PERS-11"):
        load_mlx_lm(path)
    for data in (b"", b"\0" * 8, b"{}", b"\xff" * 100):
        path.write_bytes(data)
        with pytest.raises(FileError):
            load_mlx_lm(path)


@pytest.mark.parametrize("version", list(WRITERS))
def test_a_spoilt_file_never_crashes_and_is_never_empty(version: str, tmp_path: Path) -> None:
    """Without hashes an altered byte can pass; what is read then still stands where a cache can stand."""
    path = tmp_path / "prompt.safetensors"
    WRITERS[version](path, [filled(make, (6, 1)) for make in MAKE.values()])
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    rng = random.Random(3)
    spoilt = [data[:at] + bytes([data[at] ^ (1 << rng.randrange(7))]) + data[at + 1 :] for at in range(0, end, 3)]
    spoilt += [data[: rng.randrange(len(data))] for _ in range(60)]
    refused = 0
    for bad in spoilt:
        path.write_bytes(bad)
        try:
            caches = load_mlx_lm(path)
        except FileError:
            refused += 1
            continue
        assert len(caches) == len(MAKE)
        assert all(isinstance(cache, Cache) and cache.offset >= 0 for cache in caches)
    assert refused > len(spoilt) // 2


def test_a_layer_less_or_a_tensor_more_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "prompt.safetensors"
    write_032(path, [filled(MAKE["growing"], (3,)), filled(MAKE["ring"], (3,))])
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    changes: tuple[Callable[[dict[str, str]], object], ...] = (
        lambda texts: texts.pop("1.1"),
        lambda texts: texts.pop("1.0"),
        lambda texts: texts.update({"1.2": "KVCache"}),
        lambda texts: texts.update({"1.1": "KVCache"}),
        lambda texts: texts.clear(),
    )
    for change in changes:
        told = json.loads(json.dumps(header))
        change(told["__metadata__"])
        text = json.dumps(told).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + data[end:])
        with pytest.raises(FileError):
            load_mlx_lm(path)
    assert [path.name for path in tmp_path.iterdir()] == ["prompt.safetensors"]
