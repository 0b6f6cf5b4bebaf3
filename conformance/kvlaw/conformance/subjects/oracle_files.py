"""Files of the NumPy reference caches: a header in JSON, its hash before it, and the arrays behind it.

    magic (8 bytes) | length of the header (8) | SHA-256 of the header (32) | header | arrays

``FileFormat`` writes and reads them; planted faults override its parts. ``spoil`` makes of such a file what a crash, a
bad disk, another version or another program would have left.
"""

import hashlib
import json
import math
from typing import Any, cast

import numpy as np
from attrs import asdict, define

from kvlaw.conformance.subjects.oracle_recurrent import RecurrentLayer
from kvlaw.reference import index
from kvlaw.reference.codes import Codec
from kvlaw.reference.layout import Cache, Planes, Refusal
from kvlaw.spec.calls import Damage
from kvlaw.spec.config import LayerSpec

MAGIC = b"KVLAWREF"
VERSION = 2
OURS, OTHERS = "our model", "another model"
_FIXED = 48


@define
class StoredFile:
    """The bytes of a file."""

    data: bytes


class FileFormat:
    """How lists of reference caches are written and read; every part may be overridden."""

    def write(self, caches: list[Any]) -> bytes:
        """Write the layers of a list; refuse one in an open round (PERS-15)."""
        if any(cache.round is not None for cache in caches):
            raise Refusal("a cache in an open round is not saved (PERS-15)")
        arrays: list[np.ndarray[Any, Any]] = []
        layers = [self.layer(cache, arrays) for cache in caches]
        body = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
        header = {"version": VERSION, "model": OURS, "layers": layers, "body": self.digest(body)}
        return framed(header) + body

    def layer(self, cache: Any, arrays: list[np.ndarray[Any, Any]]) -> dict[str, Any]:
        """Describe one layer, and put its arrays in line."""
        if isinstance(cache, RecurrentLayer):
            return cache.told(arrays)
        told: dict[str, Any] = {
            "layer": asdict(cache.layer),
            "state": asdict(cache.state),
            "dtype": cache.dtype,
            "floor": cache.floor,
            "codec": None
            if cache.codec is None
            else [cache.codec.dtype, cache.codec.key_width, cache.codec.value_width],
        }
        if cache.planes is not None:
            planes = [_without_spare(plane, cache) for plane in (cache.planes.keys, cache.planes.values)]
            told["planes"] = [[list(plane.shape), plane.dtype.name] for plane in planes]
            arrays += planes
        return told

    def read(self, data: bytes, other: bool = False) -> list[dict[str, Any]]:
        """Check a file, and give what it says of each layer, arrays included (``keys`` and ``values``).

        Nothing is built of a file that is not as it was written.
        """
        header, body = self.parted(data)
        self.check_version(header)
        if other and header.get("model") != OTHERS:
            self.refuse_model(header)
        self.check_body(header, body)
        return self.layers_of(header, body)

    def parted(self, data: bytes) -> tuple[dict[str, Any], bytes]:
        """Part header and body."""
        if len(data) < _FIXED or not data.startswith(MAGIC):
            raise Refusal("not a file of reference caches (PERS-8, PERS-11)")
        end = _FIXED + int.from_bytes(data[8:16], "little")
        text = data[_FIXED:end]
        self.check_header(data[16:_FIXED], text)
        return json.loads(text), data[end:]

    def check_header(self, digest: bytes, text: bytes) -> None:
        """Refuse a header that has not its hash."""
        if hashlib.sha256(text).digest() != digest:
            raise Refusal("the header is not as it was written (PERS-9)")

    def check_version(self, header: dict[str, Any]) -> None:
        """Refuse other versions."""
        if header.get("version") != VERSION:
            raise Refusal(f"version {header.get('version')}; version {VERSION} can be read (PERS-10)")

    def refuse_model(self, header: dict[str, Any]) -> None:
        """Refuse what was saved for another model."""
        raise Refusal(f"saved for {header.get('model')} (PERS-16)")

    def digest(self, body: bytes) -> str:
        """Hash the arrays."""
        return hashlib.sha256(body).hexdigest()

    def check_body(self, header: dict[str, Any], body: bytes) -> None:
        """Refuse arrays that have not their hash."""
        if header.get("body") != self.digest(body):
            raise Refusal("the arrays are not as they were written (PERS-8, PERS-9)")

    def layers_of(self, header: dict[str, Any], body: bytes) -> list[dict[str, Any]]:
        """Give what a header says of each layer, with its arrays."""
        if not header.get("layers"):
            raise Refusal("there are no caches in this file (PERS-11)")
        at = 0
        layers: list[dict[str, Any]] = header["layers"]
        for told in layers:
            for name, (shape, dtype) in zip(("keys", "values"), told.get("planes", []), strict=False):
                count = math.prod(shape)
                array: Any = np.frombuffer(body, dtype, count, at) if count else np.zeros(0, dtype)
                told[name] = array.reshape(shape).copy()
                at += told[name].nbytes
        return layers

    def build(self, told: dict[str, Any], made: Any) -> Any:
        """Let an empty cache of the layer's configuration hold what was saved."""
        if isinstance(made, RecurrentLayer):
            made.hold(told)
            return made
        kind = index.Full if told["layer"]["window"] is None else index.Ring
        made.state, made.dtype, made.floor = kind(**told["state"]), told["dtype"], told["floor"]
        made.planes = Planes(told["keys"], told["values"]) if "keys" in told else None
        if told["codec"] is not None:
            made.codec = Codec(made.layer, *told["codec"])
        return made


def layer_of(told: dict[str, Any]) -> LayerSpec:
    """Give the configuration of a saved layer."""
    return LayerSpec(**told["layer"])


def framed(header: dict[str, Any], digest: bytes | None = None) -> bytes:
    """Frame a header, with its hash or with another one."""
    text = json.dumps(header).encode()
    return MAGIC + len(text).to_bytes(8, "little") + (digest or hashlib.sha256(text).digest()) + text


def _without_spare(plane: np.ndarray[Any, Any], cache: Cache) -> np.ndarray[Any, Any]:
    """Blank the columns that hold no position: what was trimmed or taken back is not in a file (PERS-17)."""
    state = cache.state
    active = plane.shape[2] if isinstance(state, index.Ring) and state.rotated else cache.write_index
    kept = plane.copy()
    kept[:, :, active:] = 0
    return kept


def spoil(data: bytes, how: Damage) -> bytes:
    """Spoil a file in one way."""
    end = _FIXED + int.from_bytes(data[8:16], "little")
    header: dict[str, Any] = json.loads(data[_FIXED:end])
    first = cast("dict[str, Any]", header["layers"][0])
    match how:
        case "truncate":
            return data[: len(data) - max(1, len(data) // 8)]
        case "empty":
            return b""
        case "extra":
            return data + b"more"
        case "header":
            first["state"]["offset"] += 1
            return framed(header, data[16:_FIXED]) + data[end:]
        case "tensor":
            last = bytes([data[-1] ^ 1]) if len(data) > end else b"\0"
            return data[: max(end, len(data) - 1)] + last
        case "version":
            first["state"]["offset"] += 1  # which counts something else there
            return framed({**header, "version": VERSION + 1}) + data[end:]
        case "older":
            header["caches"] = header.pop("layers")
            return framed({**header, "layers": [], "version": VERSION - 1}) + data[end:]
        case "foreign":
            return framed({"version": VERSION, "layers": [], "model": OURS, "body": header["body"]}) + data[end:]


__all__ = ["FileFormat", "StoredFile", "framed", "layer_of", "spoil"]
