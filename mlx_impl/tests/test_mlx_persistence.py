"""Files of caches: what is loaded goes on as what was saved, and what was spoilt is refused."""

import json
import os
import random
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from kvlaw.mlx_impl import Cache, CacheError, FileError, make, make_rows
from kvlaw.mlx_impl.atomic import replace_file
from kvlaw.mlx_impl.persistence import load, save

_spoilt = runpy.run_path(str(Path(__file__).with_name("spoilt_files.py")), run_name="spoilt_files")
KINDS: dict[str, dict[str, Any]] = _spoilt["KINDS"]
broken, campaign, filled = _spoilt["broken"], _spoilt["campaign"], _spoilt["filled"]
judged, parts_of = _spoilt["judged"], _spoilt["parts_of"]
random_pair, signed = _spoilt["random_pair"], _spoilt["signed"]
HISTORIES: tuple[tuple[int, ...], ...] = ((), (1,), (3,), (7,), (5, 1, 1), (4, 1, 1, 1, 1, 2), (2, 9, 1))


def bits(array: mx.array) -> Any:
    unsigned = {mx.bfloat16: mx.uint16, mx.float16: mx.uint16, mx.float32: mx.uint32}.get(array.dtype)
    return (array if unsigned is None else array.view(unsigned)).tolist()


def stored(cache: Cache) -> dict[str, Any]:
    """Every bit of a cache and every number of it, but for what stands in spare columns."""
    content = cache.content
    active = content.geometry.active
    planes = content.planes.first(active).arrays if content.planes and active else {}
    told = {name: bits(array) for name, array in planes.items()}
    numbers = (content.geometry, content.converted, content.floor, cache.identity, cache.storage, cache.nbytes)
    return {**told, "numbers": numbers, "policy": cache.policy, "batch": cache.batch}


def same_read(one: Any, other: Any, seed: int) -> bool:
    queries, _ = random_pair(one.length, seed)
    return bits(one.attend(queries, scale=0.5)) == bits(other.attend(queries, scale=0.5))


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("kind", list(KINDS))
def test_a_loaded_cache_goes_on_as_the_saved_one(kind: str, history: tuple[int, ...], tmp_path: Path) -> None:
    """Through wraps, the conversion and rounds, bit for bit: reads and what is stored."""
    source = filled(KINDS[kind], history)
    path = tmp_path / "c.safetensors"
    save(path, [source])
    before = stored(source)
    (loaded,) = load(path)
    assert stored(loaded) == before == stored(source)
    for number, length in enumerate((1, 2, 1, 1, 6, 1), 50):
        keys, values = random_pair(length, number)
        append = "append_decode" if length == 1 else "append_window"
        reads = [getattr(cache, append)(keys, values) for cache in (source, loaded)]
        assert same_read(*reads, seed=number + 200)
        if number % 2:
            for cache in (source, loaded):
                cache.begin_round()
                cache.append_window(*random_pair(4, number + 300))
                cache.roll_back(number % 3)
        assert stored(loaded) == stored(source)


@pytest.mark.parametrize("dtype", [mx.bfloat16, mx.float16, mx.float32])
def test_every_dtype_and_batch_comes_back(dtype: mx.Dtype, tmp_path: Path) -> None:
    cache = make("ring", 4)
    keys, values = (array.astype(dtype) for array in random_pair(6, 1, batch=3))
    cache.append_window(keys, values)
    save(tmp_path / "c", [cache])
    (loaded,) = load(tmp_path / "c")
    assert loaded.batch == 3
    assert stored(loaded) == stored(cache)
    assert loaded.state()["keys"].dtype == dtype  # an array


def test_a_list_comes_back_in_its_order_and_is_one_file(tmp_path: Path) -> None:
    caches = [filled(config, (4, 1, 1)) for config in KINDS.values()]
    save(tmp_path / "c", caches)
    assert [file.name for file in tmp_path.iterdir()] == ["c"]
    assert [stored(cache) for cache in load(tmp_path / "c")] == [stored(cache) for cache in caches]


def test_mlx_reads_the_tensors_of_such_a_file(tmp_path: Path) -> None:
    cache = filled(KINDS["full"], (3,))
    path = tmp_path / "c.safetensors"
    save(path, [cache])
    tensors: Any = mx.load(str(path))
    assert bits(tensors["0.keys"]) == bits(cache.peek()[0])


def test_positions_count_after_a_bypass_that_leaves_a_ring_short(tmp_path: Path) -> None:
    for window in (1, 2, 4):
        cache = filled({"kind": "ring", "window": window}, (9, 3))
        cache.trim(3, bypass=True)
        assert cache.columns == window - 1
        save(tmp_path / "c", [cache])
        (loaded,) = load(tmp_path / "c")
        assert stored(loaded) == stored(cache)


def test_what_was_dropped_is_not_in_the_file(tmp_path: Path) -> None:
    for rounds in (False, True):
        cache = make("full")
        marked = mx.full((1, 1, 3, 32), 123.0, mx.float32)
        cache.append_window(mx.ones_like(marked), mx.ones_like(marked))
        if rounds:
            cache.begin_round()
        cache.append_window(marked, marked)
        cache.roll_back(0) if rounds else cache.trim(3)
        save(tmp_path / "c", [cache])
        assert b"\x00\x00\xf6\x42" not in (tmp_path / "c").read_bytes()  # 123.0
        assert b"\x00\x00\x80\x3f" in (tmp_path / "c").read_bytes()  # 1.0


def test_saving_leaves_the_cache_and_loading_the_file(tmp_path: Path) -> None:
    cache = filled(KINDS["first ring"], (3,))
    save(tmp_path / "c", [cache])
    data = (tmp_path / "c").read_bytes()
    one, other = load(tmp_path / "c")[0], load(tmp_path / "c")[0]
    one.append_window(*random_pair(5, 7))
    cache.append_decode(*random_pair(1, 8))
    assert stored(other) == stored(load(tmp_path / "c")[0])
    assert (tmp_path / "c").read_bytes() == data


def test_what_cannot_be_saved_is_refused_and_leaves_the_file(tmp_path: Path) -> None:
    path = tmp_path / "c"
    cache = filled(KINDS["ring"], (3,))
    save(path, [cache])
    cache.begin_round()
    for caches in ([], [cache], [make_rows("full_rows", rows=1)], ["c"]):
        with pytest.raises(FileError):
            save(path, caches)  # pyright: ignore[reportArgumentType]  # no caches at all
    assert load(path)[0].offset == 3
    assert [file.name for file in tmp_path.iterdir()] == ["c"]


@pytest.mark.parametrize("fingerprint", [{"model": "b"}, {}, {"model": "a", "tokenizer": "t"}])
def test_a_file_of_another_model_is_refused(fingerprint: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "c"
    save(path, [make("full")], fingerprint={"model": "a"})
    with pytest.raises(FileError, match="PERS-16"):
        load(path, fingerprint=fingerprint)
    assert load(path)[0].offset == 0
    assert load(path, fingerprint={"model": "a"})[0].offset == 0
    save(path, [make("full")])
    with pytest.raises(FileError, match="PERS-16"):
        load(path, fingerprint=fingerprint)


def test_a_fingerprint_is_texts(tmp_path: Path) -> None:
    for wrong in ({"model": 1}, {1: "a"}, "model"):
        with pytest.raises(FileError, match="PERS-16"):
            save(tmp_path / "c", [make("full")], fingerprint=wrong)  # pyright: ignore[reportArgumentType]  # no texts
    save(tmp_path / "c", [make("full")], fingerprint={'"header":"': "0" * 64, "ü": "\ud7ff"})
    assert load(tmp_path / "c", fingerprint={'"header":"': "0" * 64, "ü": "\ud7ff"})


def test_every_header_byte_every_length_and_every_tensor_count(tmp_path: Path) -> None:
    """A part of the campaign that ``spoilt_files.py`` runs over 10,000 files."""
    path = tmp_path / "c"
    save(path, [filled(KINDS["affine"], (3,)), filled(KINDS["ring"], (3, 1))])
    data = path.read_bytes()
    count = 0
    for name, spoilt in broken(data, random.Random(1), 100):
        path.write_bytes(spoilt)
        assert judged(path, name) == "refused", name
        count += 1
    assert count > int.from_bytes(data[:8], "little") + 150


def test_files_that_are_spoilt_in_any_way_are_refused_or_stand_as_they_say(tmp_path: Path) -> None:
    seen = campaign(900, tmp_path, seed=7)
    assert set(seen) <= {"refused", "as it says"}
    assert seen["refused"] > 800


def test_without_verifying_only_tensors_go_unchecked(tmp_path: Path) -> None:
    path = tmp_path / "c"
    save(path, [filled(KINDS["ring"], (3,))])
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(FileError, match="PERS-9"):
        load(path)
    assert load(path, verify=False)[0].offset == 3
    path.write_bytes(data[:-1])
    with pytest.raises(FileError, match="PERS-8"):
        load(path, verify=False)


FORGERIES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "a later version": (lambda told: told.update(version="2"), "PERS-10"),
    "an earlier version": (lambda told: told.update(version="0"), "PERS-10"),
    "no version": (lambda told: told.pop("version"), "PERS-10"),
    "another format": (lambda told: told.update(format="mlx"), "PERS-11"),
    "no layers": (lambda told: told.update(layers="[]"), "PERS-11"),
    "layers that are none": (lambda told: told.update(layers="7"), "PERS-11"),
    "no hashes": (lambda told: told.update(tensors="{}"), "PERS-9"),
}


@pytest.mark.parametrize("name", list(FORGERIES))
def test_a_file_that_is_signed_anew_is_read_with_care(name: str, tmp_path: Path) -> None:
    change, clause = FORGERIES[name]
    path = tmp_path / "c"
    save(path, [filled(KINDS["full"], (3,))])
    header, body = parts_of(path.read_bytes())
    change(header["__metadata__"])
    path.write_bytes(signed(header, body))
    with pytest.raises(FileError, match=clause):
        load(path)


STANDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("full", {"offset": 300}),  # beyond its columns
    ("ring", {"offset": 5}),  # 4 columns count, 5 are needed
    ("ring", {"write_index": 6, "columns": 7}),  # beyond the window, and not at the end
    ("ring", {"rotated": 1}),  # only a full ring has
    ("ring", {"rotated": 2}),
    ("ring", {"block": 5}),  # more than it holds
    ("ring", {"columns": 2**40}),
)


@pytest.mark.parametrize(("kind", "place"), STANDS)
def test_a_place_where_no_cache_stands_is_refused(kind: str, place: dict[str, int], tmp_path: Path) -> None:
    path = tmp_path / "c"
    save(path, [filled(KINDS[kind], (4,))])
    header, body = parts_of(path.read_bytes())
    layers = json.loads(header["__metadata__"]["layers"])
    layers[0]["place"] |= place
    header["__metadata__"]["layers"] = json.dumps(layers)
    path.write_bytes(signed(header, body))
    with pytest.raises(FileError, match="PERS-9"):
        load(path)


@pytest.mark.parametrize(
    ("kind", "length", "change"),
    [
        ("first", 3, {"floor": 3}),  # half precision has no floor
        ("first", 7, {"floor": 5}),  # a conversion before its start
        ("first", 7, {"converted": False, "floor": 0}),  # due, and not converted
        ("full", 3, {"converted": True}),
        ("full", 3, {"floor": 1}),
        ("never", 3, {"converted": True}),
        ("affine", 3, {"converted": False}),
    ],
)
def test_a_storage_that_no_policy_leads_to_is_refused(
    kind: str, length: int, change: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "c"
    save(path, [filled(KINDS[kind], (length,))])
    header, body = parts_of(path.read_bytes())
    layers = json.loads(header["__metadata__"]["layers"])
    layers[0] |= change
    header["__metadata__"]["layers"] = json.dumps(layers)
    path.write_bytes(signed(header, body))
    with pytest.raises(FileError, match="PERS-9"):
        load(path)


def test_a_name_that_stands_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c"
    text = b'{"__metadata__":{"format":"a","format":"kvlaw caches"}}'
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    with pytest.raises(FileError, match="twice"):
        load(path)


def test_a_missing_file_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "c")
    with pytest.raises(OSError, match="No such file"):
        save(tmp_path / "no folder" / "c", [make("full")])
    assert not issubclass(FileError, OSError)
    assert issubclass(FileError, CacheError)


# -- killed writers ---------------------------------------------------------------------------------------------------

STEPS = ("open", "write", "fsync", "close", "replace")


def _killed_at(step: str, number: int, after: bool, path: Path, parts: list[bytes]) -> bool:
    """Replace a file in a forked process that kills itself at one call to the system; say whether it did."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        return os.WIFSIGNALED(status)
    real, seen = getattr(os, step), [0]

    def fatal(*arguments: Any, **named: Any) -> Any:
        seen[0] += 1
        if seen[0] == number and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        if seen[0] == number and step == "write":
            arguments = (arguments[0], arguments[1][: len(arguments[1]) // 2])  # a write that came half-way
        answer = real(*arguments, **named)
        if seen[0] == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    setattr(os, step, fatal)
    try:
        replace_file(path, parts)
    finally:
        os._exit(0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_a_writer_that_is_killed_at_any_step_loses_nothing(step: str, after: bool, tmp_path: Path) -> None:
    path, other = tmp_path / "c", tmp_path / "d"
    save(path, [filled(KINDS["ring"], (3,))])
    save(other, [filled(KINDS["ring"], (7,))])
    old, new = path.read_bytes(), other.read_bytes()
    parts = [new[:100], new[100:900], new[900:]]
    killed = 0
    for number in range(1, 6):
        path.write_bytes(old)
        if not _killed_at(step, number, after, path, parts):
            break
        killed += 1
        assert path.read_bytes() in (old, new)
        assert load(path)[0].offset in (3, 7)
        if (step, after) == ("replace", True):
            assert path.read_bytes() == new
        if step in ("open", "write") and number == 1:
            assert path.read_bytes() == old
    assert killed >= (3 if step == "write" else 2 if step in ("open", "fsync", "close") else 1)


def test_a_write_that_fails_leaves_no_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c"
    save(path, [make("full")])

    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        save(path, [filled(KINDS["full"], (3,))])
    monkeypatch.undo()
    assert [file.name for file in tmp_path.iterdir()] == ["c"]
    assert load(path)[0].offset == 0


_WRITER = """
import sys
from spoilt_files import KINDS, filled
from kvlaw.mlx_impl.persistence import save
caches = [[filled(KINDS["ring"], (n,))] for n in (3, 7)]
print("ready", flush=True)
while True:
    for one in caches:
        save(sys.argv[1], one)
"""


def test_a_process_that_is_killed_while_it_saves_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "c"
    folders = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    for wait in (0.0, 0.011, 0.023):
        command = [sys.executable, "-c", _WRITER, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": folders}) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
            while not path.exists():
                time.sleep(0.001)
            time.sleep(wait)
            writer.kill()
        assert load(path)[0].offset in (3, 7)
