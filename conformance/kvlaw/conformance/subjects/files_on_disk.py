"""Files that a target writes itself, in a folder of the suite's own, and how a safetensors file is spoilt.

``FilesOnDisk`` gives every file a path of its own and removes it when nobody holds it any more.
"""

import json
import shutil
import weakref
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from attrs import field, frozen

from kvlaw.conformance.blackbox import room
from kvlaw.conformance.interface import Adapter, UnsupportedError
from kvlaw.spec.calls import Damage


@frozen(eq=False)
class Folder:
    """A folder that is removed, with all that is in it, when nobody holds it any more."""

    path: Path

    def __attrs_post_init__(self) -> None:
        """Promise to remove it."""
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


@frozen(eq=False)
class FileOnDisk:
    """A file, and the folder that it lies in, which lives as long."""

    path: Path
    folder: Folder = field(repr=False)


class FilesOnDisk(Adapter):
    """The part of an adapter that saves and loads by path; ``write`` and ``read`` are the target's."""

    def save_layers(self, caches: list[Any]) -> FileOnDisk:
        """Save to a new path."""
        folder = self._folder()
        count = self.__dict__["_count"] = self.__dict__.get("_count", 0) + 1
        file = FileOnDisk(folder.path / f"{count}.safetensors", folder)
        weakref.finalize(file, file.path.unlink, missing_ok=True)
        self.write(file.path, caches)
        return file

    def load_layers(self, file: FileOnDisk, other: bool) -> list[Any]:
        """Load from the path."""
        return self.read(file.path, other)

    def damage(self, file: FileOnDisk, how: Damage) -> None:
        """Spoil the file in its place."""
        file.path.write_bytes(self.spoilt(file.path.read_bytes(), how))

    def _folder(self) -> "Folder":
        """Make a folder when the first file is saved."""
        if "_files" not in self.__dict__:
            self.__dict__["_files"] = Folder(Path(mkdtemp(prefix="kvlaw-", dir=room())))
        return self.__dict__["_files"]

    def write(self, path: Path, caches: list[Any]) -> None:
        """Write caches."""
        raise UnsupportedError

    def read(self, path: Path, other: bool) -> list[Any]:
        """Read caches; ``other``: for another model."""
        raise UnsupportedError

    def spoilt(self, data: bytes, how: Damage) -> bytes:
        """Give a file's bytes spoilt; another version is the target's business."""
        return spoil(data, how)


def spoil(data: bytes, how: Damage) -> bytes:
    """Spoil a safetensors file in a way that has nothing to do with what it is of."""
    end = 8 + int.from_bytes(data[:8], "little")
    match how:
        case "truncate":
            return data[: len(data) - max(1, len(data) // 8)]
        case "empty":
            return b""
        case "extra":
            return data + b"more"
        case "header":
            return _misnamed(data, end)
        case "tensor":
            return _flipped(data, end)
        case "foreign":
            return framed({"weight": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}) + bytes(16)
        case _:
            raise UnsupportedError(f"no {how} of this file is known")


def told_by(data: bytes) -> dict[str, Any]:
    """Read the header of a safetensors file."""
    return json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])


def framed(header: dict[str, Any]) -> bytes:
    """Frame the header of a safetensors file."""
    text = json.dumps(header, separators=(",", ":")).encode()
    return len(text).to_bytes(8, "little") + text


_OTHER = {"BF16": "F16", "F16": "BF16", "F32": "I32", "U32": "I32"}


def _largest(header: dict[str, Any]) -> dict[str, Any] | None:
    tensors: list[dict[str, Any]] = [
        told for name, told in header.items() if name != "__metadata__" and told["data_offsets"][1]
    ]
    return max(tensors, key=lambda told: told["data_offsets"][1] - told["data_offsets"][0], default=None)


def _misnamed(data: bytes, end: int) -> bytes:
    """Call the largest tensor one of another dtype; without tensors, alter the last digit of the header."""
    header = told_by(data)
    largest = _largest(header)
    if largest is not None:
        largest["dtype"] = _OTHER.get(largest["dtype"], "U8")
        return framed(header) + data[end:]
    at = max(i for i in range(8, end) if chr(data[i]).isdigit())
    return data[:at] + (b"8" if data[at : at + 1] == b"7" else b"7") + data[at + 1 :]


def _flipped(data: bytes, end: int) -> bytes:
    """Flip a bit of the first column of the largest tensor; without tensors, add a byte."""
    largest = _largest(told_by(data))
    if largest is None:
        return data + b"\0"
    at = end + int(largest["data_offsets"][0])
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


__all__ = ["FileOnDisk", "FilesOnDisk", "framed", "spoil", "told_by"]
