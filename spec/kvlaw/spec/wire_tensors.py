"""Tensors on the wire: ``{"dtype": "bf16", "shape": [1, 2, 3, 64], "base64": "..."}``, little endian, last axis first.

``bf16``, ``f16`` and ``f32`` are bits, as everywhere (uint16, uint32); booleans are bytes of 0 and 1; ``u8`` to
``u64``, ``i8`` to ``i64`` and ``f64`` are for handed-out arrays of numbers. A tensor that cannot be one (an unknown
dtype, a shape that does not fit its bytes) is a ``WireError`` that names the field.
"""

import binascii
import math
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from kvlaw.spec.structure import Json, shown

NUMPY: dict[str, str] = {
    "bf16": "<u2",
    "f16": "<u2",
    "f32": "<u4",
    "bool": "|b1",
    "u8": "|u1",
    "u16": "<u2",
    "u32": "<u4",
    "u64": "<u8",
    "i8": "|i1",
    "i16": "<i2",
    "i32": "<i4",
    "i64": "<i8",
    "f64": "<f8",
}
"""Every dtype of the wire, and the NumPy dtype of its bytes."""
_NAMES = {np.dtype(code): name for name, code in NUMPY.items() if name not in ("bf16", "f16", "f32")}
MOST_AXES = 8
MOST_LENGTH = 1 << 31
"""The most axes of a tensor, and the largest length of one."""


class WireError(ValueError):
    """A message that is none of the protocol: the text names the field, what stands there, and what is wanted."""


def encode_tensor(array: npt.NDArray[Any], dtype: str | None = None) -> Json:
    """Write an array, of the dtype that its bits are of or, without one, of its own."""
    array = np.asarray(array)
    if array.dtype.kind == "f" and array.dtype.itemsize < 8:  # as bits
        dtype, array = f"f{8 * array.dtype.itemsize}", np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    name = dtype or _NAMES.get(little.dtype.newbyteorder("<") if little.dtype.itemsize > 1 else little.dtype)
    if name is None:
        raise WireError(f"an array of {array.dtype} has no form on the wire; there are {', '.join(NUMPY)}")
    return {"dtype": name, "shape": list(array.shape), "base64": b64encode(little.tobytes()).decode("ascii")}


def decode_tensor(data: object, where: str, usual: str | None = None) -> npt.NDArray[Any]:
    """Read a tensor; without a ``dtype`` it has the ``usual`` one. Raises ``WireError``."""
    body = as_object(data, where)
    name, shape = body.get("dtype", usual), body.get("shape")
    if not isinstance(name, str) or name not in NUMPY:
        raise WireError(f"{where}.dtype: {shown(name)} is none; there are {', '.join(NUMPY)}")
    lengths = _shape(shape, f"{where}.shape")
    raw = _bytes(body.get("base64"), math.prod(lengths) * np.dtype(NUMPY[name]).itemsize, where, lengths, name)
    try:
        array = np.frombuffer(raw, NUMPY[name]).reshape(lengths)
    except ValueError:  # no elements, and axes whose product is too large all the same
        raise WireError(f"{where}.shape: no tensor, not even an empty one, has axes of {list(lengths)}") from None
    if name == "bool" and array.size and int(array.view(np.uint8).max()) > 1:
        raise WireError(f"{where}: a byte of a bool is 0 or 1, and one is {int(array.view(np.uint8).max())}")
    return array.astype(array.dtype.newbyteorder("="), copy=True)


def as_object(data: object, where: str) -> Mapping[str, object]:
    """Take JSON data that must be an object."""
    if not isinstance(data, dict):
        raise WireError(f"{where}: an object is wanted, not {shown(data)}")
    return cast("Json", data)


def as_list(data: object, where: str) -> list[object]:
    """Take JSON data that must be a list."""
    if not isinstance(data, list):
        raise WireError(f"{where}: a list is wanted, not {shown(data)}")
    return cast("list[object]", data)


def _shape(data: object, where: str) -> tuple[int, ...]:
    lengths = as_list(data, where)
    if len(lengths) > MOST_AXES:
        raise WireError(f"{where}: {len(lengths)} axes; a tensor has {MOST_AXES} at most")
    for length in lengths:
        if type(length) is not int or not 0 <= length <= MOST_LENGTH:
            raise WireError(f"{where}: {shown(length)} is no length of an axis")
    return cast("tuple[int, ...]", tuple(lengths))


def _told(number: int) -> str:
    return str(number) if number < 10**15 else "more than 10^15"


def _bytes(data: object, wanted: int, where: str, lengths: tuple[int, ...], name: str) -> bytes:
    if not isinstance(data, str):
        raise WireError(f"{where}.base64: text is wanted, not {shown(data)}")
    characters = 4 * ((wanted + 2) // 3)
    told = f"{name} {list(lengths)} takes {_told(wanted)} bytes"
    if len(data) != characters:  # refused before anything is allocated
        raise WireError(f"{where}.base64: {told}, which are {_told(characters)} characters, not {len(data)}")
    try:
        raw = b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise WireError(f"{where}.base64: no base64: {error}") from None
    if len(raw) != wanted:
        raise WireError(f"{where}.base64: {told}, not {len(raw)}")
    return raw


__all__ = ["NUMPY", "WireError", "as_list", "as_object", "decode_tensor", "encode_tensor"]
