"""Files of our MLX caches, and other versions of them."""

import hashlib
import json
from pathlib import Path
from typing import Any

from kvlaw.conformance.subjects.files_on_disk import FilesOnDisk, framed, told_by
from kvlaw.spec.calls import Damage

OURS, OTHERS = {"model": "ours", "tokenizer": "ours"}, {"model": "another", "tokenizer": "ours"}
_BLANK = "0" * 64


class OurFiles(FilesOnDisk):
    """The part of an adapter that saves and loads our caches."""

    def write(self, path: Path, caches: list[Any]) -> None:
        """Save for our model."""
        from kvlaw.mlx_impl import persistence

        persistence.save(path, caches, fingerprint=OURS)

    def read(self, path: Path, other: bool) -> list[Any]:
        """Load for our model or for another."""
        from kvlaw.mlx_impl import persistence

        return list(persistence.load(path, fingerprint=OTHERS if other else OURS))

    def spoilt(self, data: bytes, how: Damage) -> bytes:
        """Spoil a file; another version of it is signed anew, and counts positions from another one."""
        if how not in ("version", "older"):
            return super().spoilt(data, how)
        header = told_by(data)
        body = data[8 + int.from_bytes(data[:8], "little") :]
        layers = json.loads(header["__metadata__"]["layers"])
        layers[0]["place"]["offset"] += 1
        version = {"version": "2", "layers": json.dumps(layers)} if how == "version" else {"version": "0"}
        return _signed({**header, "__metadata__": {**header["__metadata__"], **version, "header": _BLANK}}) + body


def _signed(header: dict[str, Any]) -> bytes:
    blank = framed(header)
    return blank[:8] + blank[8:].replace(_BLANK.encode(), hashlib.sha256(blank[8:]).hexdigest().encode(), 1)


__all__ = ["OurFiles"]
