"""Ways to spoil a file of caches, and a campaign over them: ``python mlx_impl/tests/spoilt_files.py [COUNT]``.

A spoilt file must be refused with a ``FileError``. One that is signed anew must be refused, or give caches that stand
where it says.
"""

import copy
import hashlib
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx

from kvlaw.mlx_impl import Cache, FileError, make
from kvlaw.mlx_impl.persistence import load, save

KINDS: dict[str, dict[str, Any]] = {
    "full": {"kind": "full"},
    "ring": {"kind": "ring", "window": 5, "sinks": 1},
    "affine": {"kind": "full", "bits": 4, "value_bits": 8, "group": 32},
    "affine ring": {"kind": "ring", "window": 4, "bits": 8, "group": 32},
    "first": {"kind": "full", "bits": 4, "group": 32, "start": 6},
    "first ring": {"kind": "ring", "window": 3, "bits": 2, "group": 32, "start": 4},
    "never": {"kind": "ring", "window": 4, "sinks": 2, "bits": 4, "group": 32, "start": "never"},
}
"""A cache of every kind and policy."""
BLANK = b"0" * 64


def random_pair(length: int, seed: int, *, batch: int = 1, dim: int = 32) -> tuple[mx.array, mx.array]:
    """Make keys and values ``[batch, 1, length, dim]``."""
    keys = (mx.random.key(seed), mx.random.key(seed + 100_000))
    one, other = (mx.random.normal((batch, 1, length, dim), mx.bfloat16, key=key) for key in keys)
    return one, other


def filled(config: dict[str, Any], lengths: tuple[int, ...]) -> Cache:
    """Build a cache and append windows and decodes to it."""
    cache = make(**config)
    for number, length in enumerate(lengths):
        (cache.append_decode if length == 1 else cache.append_window)(*random_pair(length, number))
    return cache


def parts_of(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Part a file into its header and what follows."""
    end = 8 + int.from_bytes(data[:8], "little")
    return json.loads(data[8:end]), data[end:]


def signed(header: dict[str, Any], body: bytes) -> bytes:
    """Put a file together again, and sign its header."""
    header["__metadata__"]["header"] = BLANK.decode()
    text = json.dumps(header, separators=(",", ":")).encode()
    text = text.replace(BLANK, hashlib.sha256(text).hexdigest().encode(), 1)
    return len(text).to_bytes(8, "little") + text + body


def flipped(data: bytes, at: int, mask: int) -> bytes:
    """Flip bits of one byte."""
    return data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :]


def broken(data: bytes, rng: random.Random, flips: int) -> Iterator[tuple[str, bytes]]:
    """Spoil a file without signing it: every header byte, every length class, ``flips`` bytes of the tensors."""
    end = 8 + int.from_bytes(data[:8], "little")
    for at in range(end):
        yield f"header byte {at}", flipped(data, at, rng.choice((1, 2, 4, 8, 16, 32, 64, 128, 255)))
    told, _ = parts_of(data)
    edges = {end + at for name, tensor in told.items() if name != "__metadata__" for at in tensor["data_offsets"]}
    edges |= {0, 8, end, len(data), *range(9)}
    lengths = {edge + near for edge in edges for near in (-1, 0, 1)} | {rng.randrange(len(data)) for _ in range(20)}
    for length in sorted(n for n in lengths if 0 <= n < len(data)):
        yield f"cut to {length}", data[:length]
    for at in (rng.randrange(end, len(data)) for _ in range(flips if len(data) > end else 0)):
        yield f"tensor byte {at}", flipped(data, at, 1 << rng.randrange(8))
    yield "a byte more", data + b"\0"
    yield "twice", data + data
    yield "blocks swapped", data[len(data) // 2 :] + data[: len(data) // 2]
    yield "zeros", bytes(len(data))
    for seed in range(5):
        yield f"noise {seed}", random.Random(seed).randbytes(len(data))  # a fixed sequence is wanted


WORDS: tuple[Any, ...] = (-1, 0, 1, 2, 3, 5, 2**31, 2**63, 2**70, 1.5, True, None, "x", "never", "ring", [], {}, [1, 2])


def forged(data: bytes, rng: random.Random, count: int) -> Iterator[tuple[str, bytes]]:
    """Spoil a file and sign it anew: another value at ``count`` places of its header, or a field less or more."""
    header, body = parts_of(data)
    for number in range(count):
        told = copy.deepcopy(header)
        told["__metadata__"]["layers"] = json.loads(told["__metadata__"]["layers"])
        place = rng.choice(
            [place for place in _places(told) if place not in (("__metadata__",), ("__metadata__", "layers"))]
        )
        what = _changed(told, place, rng)
        told["__metadata__"]["layers"] = json.dumps(told["__metadata__"]["layers"])
        yield f"forged {number}: {'.'.join(map(str, place))} {what}", signed(told, body)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        if key not in ("header", "tensors"):
            yield (*path, key)
            yield from _places(inner, (*path, key))


def _changed(told: Any, place: tuple[Any, ...], rng: random.Random) -> str:
    *path, last = place
    owner = told
    for key in path:
        owner = owner[key]
    old = owner[last]
    kind = rng.choice(("value", "value", "value", "near", "less", "more"))
    if kind == "less":
        owner.pop(last)
    elif kind == "more" and isinstance(owner, dict):
        owner[f"{last}2"] = old
    elif kind == "near" and type(old) is int:
        owner[last] = old + rng.choice((-1, 1))
    else:
        owner[last] = rng.choice([word for word in WORDS if word != old or type(word) is not type(old)])
    if place[0] == "__metadata__" and len(place) == 2 and place[1] != "layers" and last in owner:
        owner[last] = str(owner[last])
    return kind


def judged(path: Path, name: str) -> str:
    """Load a spoilt file: ``refused``, or what is wrong with what came of it."""
    try:
        caches = load(path)
    except FileError:
        return "refused"
    except BaseException as error:  # noqa: BLE001  # whatever it is, it is the finding
        return f"crash: {type(error).__name__}: {error}"
    if not caches:
        return "silently empty"
    if not name.startswith("forged"):
        return "wrong load"
    return "as it says" if _stands_as_told(path, caches) else "wrong load"


def _stands_as_told(path: Path, caches: list[Cache]) -> bool:
    header, _ = parts_of(path.read_bytes())
    layers = json.loads(header["__metadata__"]["layers"])
    places = [(layer["place"]["offset"], layer["place"]["columns"], layer["floor"]) for layer in layers]
    return bool(places) and places == [(cache.offset, cache.columns, cache.floor) for cache in caches]


def campaign(count: int, folder: Path, seed: int = 0) -> Counter[str]:
    """Spoil files of every kind until ``count`` were loaded; count what came of them, by word."""
    rng, seen = random.Random(seed), Counter[str]()  # a fixed sequence is wanted
    path = folder / "spoilt.safetensors"
    while seen.total() < count:
        kinds = rng.sample(list(KINDS), rng.randint(1, 3))
        lengths = rng.choice(((), (3,), (7,), (5, 1, 1), (4, 1, 1, 1, 1, 2)))
        whole = folder / "whole.safetensors"
        save(whole, [filled(KINDS[kind], lengths) for kind in kinds], fingerprint={"model": "m"})
        data = whole.read_bytes()
        spoilt = [*broken(data, rng, 60), *forged(data, rng, 120)]
        rng.shuffle(spoilt)
        for name, bad in spoilt[: min(900, count - seen.total())]:
            path.write_bytes(bad)
            verdict = judged(path, name)
            seen[verdict if verdict in ("refused", "as it says") else f"{verdict} ({name}, {kinds})"] += 1
    return seen


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        for verdict, times in campaign(int((*sys.argv, "10000")[1]), Path(made)).most_common():
            print(times, verdict)  # noqa: T201  # what the campaign is for
