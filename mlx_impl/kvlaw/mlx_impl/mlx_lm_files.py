"""Prompt-cache files of mlx-lm, read into our caches: those that its versions 0.31 and 0.32 write.

Neither says by which version it was written. They are told apart by the third part of their metadata: 0.32 has the
names of its scalars there, of which the first is an empty text; 0.31 has the names of the classes.

* 0.32: metadata, classes, scalars; a cache's state is its tensors and scalars (``0.0`` keys, ``0.1`` values, ...);
* 0.31: what a cache counts as texts (``meta_state``), metadata, classes; a state is keys and values alone.

What is not known is refused: an unknown class, a number that is missing, a place where no cache can stand. There are no
hashes in such files, so that an altered byte of a tensor cannot be told.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import mlx.core as mx

from kvlaw.mlx_impl.caches import Cache
from kvlaw.mlx_impl.errors import FileError
from kvlaw.mlx_impl.file_format import NAMES, read_header, read_tensors, whole
from kvlaw.mlx_impl.layer_description import LayerDescription
from kvlaw.mlx_impl.saved_layers import rebuilt
from kvlaw.spec.cite import clause

NUMBERS: dict[str, tuple[str, ...]] = {
    "KVCache": ("offset",),
    "ConcatenateKVCache": (),
    "RotatingKVCache": ("offset", "keep", "max_size", "_idx"),
    "QuantizedKVCache": ("offset", "group_size", "bits"),
}
"""What a cache of each class counts, in the order of its state in 0.32, behind keys and values."""
_OLD_NUMBERS: dict[str, tuple[str, ...]] = {
    "KVCache": (),
    "ConcatenateKVCache": (),
    "RotatingKVCache": ("keep", "max_size", "offset", "_idx"),
    "QuantizedKVCache": ("offset", "group_size", "bits"),
}
"""The same in the ``meta_state`` of 0.31."""
Tensors = Mapping[str, mx.array]


@clause("PERS-10", "PERS-11", "PERS-13")
def load_mlx_lm(path: str | os.PathLike[str]) -> list[Cache]:
    """Read the caches of a prompt-cache file of mlx-lm 0.31 or 0.32: growing, rotating and quantized ones.

    Raises:
        FileError: if it is no such file, or holds a cache of another class.
        OSError: if it cannot be read.
    """
    with Path(path).open("rb") as file:
        _, header, named = read_header(file)
        texts = header.metadata
        is_new = texts.get("2.0") == ""
        classes = _classes(texts, "1" if is_new else "2")
        tensors = read_tensors(file, named, None)
    read = _new_layer if is_new else _old_layer
    layers: list[LayerDescription] = []
    kept: dict[str, mx.array] = {}
    used: set[str] = set()
    for number, name in enumerate(classes):
        numbers = read(number, name, texts, tensors, used)
        layer, found = _described(number, name, numbers, _planes(number, tensors, used))
        layers.append(layer)
        kept |= found
    if used != set(tensors):
        raise FileError(f"tensors {sorted(set(tensors) - used)!a:.80}", "they belong to no layer", "PERS-13")
    return rebuilt(layers, kept)


def _classes(texts: Mapping[str, str], part: str) -> list[str]:
    """List the classes of the layers, which are numbered without a gap."""
    numbers = sorted(int(m[1]) for key in texts if (m := re.fullmatch(rf"{part}\.(\d{{1,6}})", key)))
    if not numbers or numbers != list(range(len(numbers))):
        raise FileError(
            "a file that names no caches", "a prompt-cache file of mlx-lm 0.31 or 0.32 is needed", "PERS-11"
        )
    names = [texts[f"{part}.{number}"] for number in numbers]
    for name in names:
        if name not in NUMBERS:
            raise FileError(f"a cache of class {name!a:.40}", f"{', '.join(NUMBERS)} can be read", "PERS-11")
    return names


Numbers = dict[str, int]


def _new_layer(number: int, name: str, texts: Mapping[str, str], tensors: Tensors, used: set[str]) -> Numbers:
    """Read what a cache of 0.32 counts: scalars of its state."""
    kinds = {texts[key]: texts.get(f"{key[:-2]}.1", "") for key in texts if re.fullmatch(r"2\.\d+\.0", key)}
    found: Numbers = {}
    for place, counted in enumerate(NUMBERS[name], 2):
        key = f"{number}.{place}"
        if kinds.get(key) != "scalar" or key not in tensors or tensors[key].size != 1:
            raise FileError(f"layer {number} without its {counted}", "a prompt-cache file of 0.32 has it", "PERS-11")
        used.add(key)
        found[counted] = whole(tensors[key].item(), counted)
    for side in ("0", "1"):  # of an empty cache
        key = f"{number}.{side}"
        if kinds.get(key) == "none" and key in tensors:
            used.add(key)
    return found


def _old_layer(number: int, name: str, texts: Mapping[str, str], _tensors: Tensors, _used: set[str]) -> Numbers:
    """Read what a cache of 0.31 counts: its ``meta_state``."""
    keys = [key for key in texts if re.fullmatch(rf"0\.{number}(\.\d+)*", key)]
    names = _OLD_NUMBERS[name]
    wanted = {f"0.{number}.{place}" for place in range(len(names))} if names else {f"0.{number}"}
    if set(keys) != wanted or not all(re.fullmatch(r"\d{1,12}", texts[key]) for key in keys if names):
        told = f"layer {number}, a {name}, that counts {len(keys)} things"
        raise FileError(told, f"a prompt-cache file of 0.31 counts {', '.join(names) or 'none'}", "PERS-10")
    return {counted: int(texts[f"0.{number}.{place}"]) for place, counted in enumerate(names)}


def _planes(number: int, tensors: Tensors, used: set[str]) -> dict[str, mx.array]:
    """Take the keys and values of a layer: two tensors, or two triples."""
    dense = {f"{number}.0": "keys", f"{number}.1": "values"}
    parts = enumerate(("words", "scales", "biases"))
    coded = {f"{number}.{s}.{p}": f"{side}_{part}" for p, part in parts for s, side in enumerate(("key", "value"))}
    names = {key: name for key, name in (dense | coded).items() if key in tensors and key not in used}
    used.update(names)
    return {name: tensors[key] for key, name in names.items()}


@attrs.frozen
class _Sizes:
    """Shapes of a layer's planes."""

    columns: int
    shapes: list[int]
    dtype: str


def _described(
    number: int, name: str, numbers: Numbers, planes: dict[str, mx.array]
) -> tuple[LayerDescription, dict[str, mx.array]]:
    """Describe a layer as ours, and give the columns that hold its positions."""
    coded = name == "QuantizedKVCache"
    wanted = (
        {f"{s}_{p}" for s in ("key", "value") for p in ("words", "scales", "biases")} if coded else {"keys", "values"}
    )
    if planes and (set(planes) != wanted or any(plane.ndim != 4 for plane in planes.values())):  # [B, H, S, D]
        raise FileError(f"layer {number} of {sorted(planes)!a:.80}", "keys and values are needed", "PERS-13")
    sizes = _sizes(planes, numbers.get("bits", 0)) if planes else None
    columns = sizes.columns if sizes else 0
    config, place = _stand(name, numbers, columns)
    told = LayerDescription.of(
        {
            "config": config,
            "place": place,
            "converted": coded,
            "floor": 0,
            "shapes": sizes.shapes if sizes else None,
            "dtype": sizes.dtype if sizes else None,
        }
    )
    active = columns if place.get("rotated") else place.get("write_index", place["offset"])
    kept = {f"{number}.{part}": plane[:, :, :active] for part, plane in planes.items()} if active else {}
    return told, kept


def _sizes(planes: dict[str, mx.array], bits: int) -> _Sizes:
    if "keys" in planes:
        keys, values = planes["keys"], planes["values"]
        dims, dtype = (keys.shape[3], values.shape[3]), keys.dtype
    else:
        keys, values = planes["key_words"], planes["value_words"]
        dims, dtype = (
            (keys.shape[3] * 32 // (bits or 1), values.shape[3] * 32 // (bits or 1)),
            planes["key_scales"].dtype,
        )
    return _Sizes(keys.shape[2], [*keys.shape[:2], *dims], NAMES.get(dtype, "I32"))


def _stand(name: str, numbers: Numbers, columns: int) -> tuple[dict[str, Any], dict[str, int]]:
    """Say what a cache of mlx-lm is among ours, and where it stands."""
    offset = numbers.get("offset", columns)
    if name != "RotatingKVCache":
        codes = {"bits": numbers["bits"], "group": numbers["group_size"]} if name == "QuantizedKVCache" else {}
        return {"kind": "full", **codes}, {"offset": offset, "columns": columns}
    written = numbers["_idx"]
    rotated = int(written < columns and written < offset)
    place = {"offset": offset, "columns": columns, "write_index": written, "rotated": rotated, "block": 0}
    return {"kind": "ring", "window": numbers["max_size"], "sinks": numbers["keep"]}, place


__all__ = ["load_mlx_lm"]
