"""Bytes of a safetensors file: laid out with hashes, and read back only if everything fits.

``pack`` lays out, ``unpack`` checks: the header is JSON without a name twice, its hash is right, the tensors lie behind
each other without a gap to the very end of the file, each as long as dtype and shape say, and each has its hash.  MLX
sees no byte of a file that was not checked.
"""

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping
from typing import Any, BinaryIO, cast

import attrs
import mlx.core as mx
import numpy as np

from kvlaw.mlx_impl.counts import as_integer
from kvlaw.mlx_impl.errors import FileError
from kvlaw.mlx_impl.evaluate import evaluate
from kvlaw.spec.cite import clause

MOST_HEADER = 100_000_000
"""The longest header that safetensors allows."""

BLANK = "0" * 64
DTYPES: dict[str, tuple[mx.Dtype, Any, mx.Dtype]] = {
    "BF16": (mx.bfloat16, np.uint16, mx.uint16),
    "F16": (mx.float16, np.uint16, mx.uint16),
    "F32": (mx.float32, np.uint32, mx.uint32),
    "U32": (mx.uint32, np.uint32, mx.uint32),
    "I32": (mx.int32, np.int32, mx.int32),
    "I64": (mx.int64, np.int64, mx.int64),
    "BOOL": (mx.bool_, np.bool_, mx.bool_),
}
"""The dtypes of tensors in files of caches: MLX's, and those as which NumPy and MLX copy them."""
NAMES: dict[mx.Dtype, str] = {kinds[0]: name for name, kinds in DTYPES.items()}
Tensors = Mapping[str, mx.array]


@attrs.frozen
class Header:
    """The metadata of a file: names and texts."""

    metadata: dict[str, str]

    def json(self, name: str) -> object:
        """Read one text as JSON.

        Raises:
            FileError: if it is not there or no JSON.
        """
        text = self.metadata.get(name)
        if text is None:
            raise FileError(f"a file without {name}", "it is not whole, or something else", "PERS-11")
        return _json(text, name)


@clause("PERS-9")
def pack(metadata: Mapping[str, str], tensors: Tensors) -> list[bytes | memoryview]:
    """Lay out a file, in parts that are to be written one behind the other."""
    evaluate(*tensors.values())
    parts: list[bytes | memoryview] = []
    told: dict[str, Any] = {}
    hashes: dict[str, str] = {}
    at = 0
    for name, tensor in tensors.items():
        data = _bytes_of(tensor)
        told[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, at + len(data)]}
        hashes[name] = hashlib.sha256(data).hexdigest()
        at += len(data)
        parts.append(data)
    texts = {**metadata, "tensors": json.dumps(hashes), "header": BLANK}
    header = json.dumps({"__metadata__": texts, **told}, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return [len(header).to_bytes(8, "little") + _signed(header), *parts]


def _bytes_of(tensor: mx.array) -> bytes:
    if tensor.dtype == mx.uint32:
        return np.array(tensor).tobytes()
    return np.array(tensor.view(DTYPES[NAMES[tensor.dtype]][2])).tobytes()


def _digest(header: bytes) -> str:
    return hashlib.sha256(header).hexdigest()


def _signed(header: bytes) -> bytes:
    """Put the hash of a header in the place of its zeros."""
    sign = f'"header":"{BLANK}"'.encode()
    if header.count(sign) != 1:
        raise FileError("a header that holds its own sign twice", "texts of the caller cannot be that", "PERS-9")
    return header.replace(sign, f'"header":"{_digest(header)}"'.encode())


@clause("PERS-8", "PERS-9", "PERS-11", "PERS-12")
def unpack(file: BinaryIO, kind: str, *, verify: bool) -> tuple[Header, dict[str, mx.array]]:
    """Read a file whose metadata say that it is of ``kind``, and check all of it.

    Raises:
        FileError: if it is not as it was written, or of another kind.
    """
    text, header, named = read_header(file)
    if header.metadata.get("format") != kind:
        found = f"a file of {header.metadata.get('format', 'something else')!a:.60}"
        raise FileError(found, f"{kind!r} can be read", "PERS-11")
    _check_sign(text, header)
    hashes = header.json("tensors")
    if not isinstance(hashes, dict) or set(cast("dict[str, object]", hashes)) != set(named):
        raise FileError("tensors without their hashes", "there must be one of each", "PERS-9")
    return header, read_tensors(file, named, cast("dict[str, object]", hashes) if verify else None)


def read_header(file: BinaryIO) -> tuple[bytes, Header, dict[str, object]]:
    """Read the header of a safetensors file: its bytes, its metadata, and what it says of each tensor.

    Raises:
        FileError: if it is none.
    """
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or not 2 <= length <= min(size - 8, MOST_HEADER):
        possible = "no header fits into it: it is cut short, or something else"
        raise FileError(f"a file of {size} bytes", possible, "PERS-8")
    text = file.read(length)
    told = _json(text, "its header")
    if not isinstance(told, dict):
        raise FileError("a header that is no object", "it is something else", "PERS-11")
    named = cast("dict[str, object]", told)
    return text, Header(_texts(named.pop("__metadata__", None))), named


def _json(text: str | bytes, what: str) -> object:
    """Read JSON in which no name stands twice."""
    try:
        return json.loads(text if isinstance(text, str) else text.decode(), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:  # what is no UTF-8 is a ValueError as well
        raise FileError(f"{what} that cannot be read", f"{error}"[:120], "PERS-9") from None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    named = dict(pairs)
    if len(named) != len(pairs):
        raise ValueError("a name stands twice")
    return named


def _texts(found: object) -> dict[str, str]:
    if not isinstance(found, dict):
        raise FileError("a file without metadata", "it is something else", "PERS-11")
    texts = cast("dict[str, object]", found)
    if not all(isinstance(text, str) for text in texts.values()):
        raise FileError("metadata that are no texts", "it is something else", "PERS-11")
    return cast("dict[str, str]", texts)


def _check_sign(text: bytes, header: Header) -> None:
    found = header.metadata.get("header", "")
    sign = f'"header":"{found}"'.encode(errors="replace")
    blank = f'"header":"{BLANK}"'.encode()
    if not re.fullmatch("[0-9a-f]{64}", found) or text.count(sign) != 1 or _digest(text.replace(sign, blank)) != found:
        raise FileError("a header that is not as it was written", "its hash is another", "PERS-9")


def read_tensors(file: BinaryIO, told: dict[str, object], hashes: dict[str, object] | None) -> dict[str, mx.array]:
    """Read the tensors behind a header, to the end of the file; each must have its hash, if there are any.

    Raises:
        FileError: if one is not where or what it should be, or something is left over.
    """
    body = file.read()
    places = {name: _place(name, place) for name, place in told.items()}
    at = 0
    for name, (dtype, shape, start, end) in sorted(places.items(), key=lambda item: item[1][2:]):
        if start != at or end - start != math.prod(shape) * np.dtype(DTYPES[dtype][1]).itemsize:
            raise FileError(f"tensor {name!a:.40}", "it does not lie where it should, or is not as long", "PERS-9")
        if end > len(body):
            raise FileError(f"tensor {name!a:.40} of {end - start} bytes", "the file ends before", "PERS-8")
        if hashes is not None and hashlib.sha256(memoryview(body)[start:end]).hexdigest() != hashes[name]:
            raise FileError(f"tensor {name!a:.40}", "it is not as it was written: its hash is another", "PERS-9")
        at = end
    if at != len(body):
        raise FileError(f"{len(body) - at} bytes behind the last tensor", "nothing belongs there", "PERS-12")
    return {n: _array(dtype, shape, memoryview(body)[start:end]) for n, (dtype, shape, start, end) in places.items()}


def _place(name: str, place: object) -> tuple[str, list[int], int, int]:
    """Read dtype, shape and place of one tensor."""
    fields = cast("dict[str, Any]", place) if isinstance(place, dict) else {}
    shape, offsets = fields.get("shape"), fields.get("data_offsets")
    known = set(fields) == {"dtype", "shape", "data_offsets"} and fields["dtype"] in tuple(DTYPES)
    sizes = cast("list[Any]", shape) if isinstance(shape, list) else None
    ends = cast("list[Any]", offsets) if isinstance(offsets, list) else []
    if not known or sizes is None or len(ends) != 2:
        raise FileError(f"tensor {name!a:.40}", "its description is not one of a cache's tensor", "PERS-9")
    if any(type(n) is not int or n < 0 for n in (*sizes, *ends)):
        raise FileError(f"tensor {name!a:.40}", "its description has no whole numbers", "PERS-9")
    return str(fields["dtype"]), sizes, ends[0], ends[1]


def _array(dtype: str, shape: list[int], data: memoryview) -> mx.array:
    kind, plain, unsigned = DTYPES[dtype]
    array = mx.array(np.frombuffer(data, plain).reshape(shape))
    return array if kind == unsigned else array.view(kind)


def whole(value: object, what: str) -> int:
    """Read a whole number of at least 0 out of a file.

    Raises:
        FileError: if it is none.
    """
    found = as_integer(value)
    if found is None or found < 0:
        raise FileError(f"{what} {value!r:.40}", "a whole number is needed", "PERS-9")
    return found
