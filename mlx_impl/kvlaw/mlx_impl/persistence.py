"""Caches in files: one safetensors file per list of caches, read back exactly or refused.

    length of the header (8 bytes, little endian) | header, JSON | tensors

The header's ``__metadata__`` holds texts: ``format``, ``version``, ``layers`` (JSON: what each cache is and where it
stands), ``fingerprint`` (JSON: texts of the caller), ``tensors`` (JSON: SHA-256 of each) and ``header`` (SHA-256 of the
whole header, in which its own digits are zeros).  ``header`` is checked always, ``tensors`` unless told otherwise, and
everything else that a file says of itself as well, before one cache is built: what is not possible is refused.

A file is written under another name in the same folder, synced, and then renamed.  Spare columns are not written.

``file_format`` lays bytes out and checks them, ``saved_layers`` says what is saved of a cache, ``atomic`` replaces a
file; ``mlx_lm_files`` reads the prompt-cache files of mlx-lm.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from kvlaw.mlx_impl.atomic import replace_file
from kvlaw.mlx_impl.caches import Cache
from kvlaw.mlx_impl.errors import FileError
from kvlaw.mlx_impl.file_format import Header, pack, unpack
from kvlaw.mlx_impl.layer_description import LayerDescription
from kvlaw.mlx_impl.mlx_lm_files import load_mlx_lm
from kvlaw.mlx_impl.recurrent import RecurrentCache
from kvlaw.mlx_impl.saved_layers import described, rebuilt
from kvlaw.spec.cite import clause

FORMAT = "kvlaw caches"
VERSION = 1
Fingerprint = Mapping[str, str]


@clause("PERS-1", "PERS-5", "PERS-13", "PERS-14", "PERS-15")
def save(
    path: str | os.PathLike[str], caches: Sequence[Cache | RecurrentCache], *, fingerprint: Fingerprint | None = None
) -> None:
    """Write caches, one per layer, to a file, which replaces one of that name at once or not at all.

    ``fingerprint`` says what the file is for: the caller's names and texts (model, tokenizer, configuration).

    Raises:
        FileError: if a round is open, if one is no cache that can be saved, or if the fingerprint is no texts.
        OSError: if it cannot be written; then a file that was there is as it was.
    """
    texts = _checked(fingerprint)
    layers, tensors = described(caches)
    metadata = {"format": FORMAT, "version": str(VERSION), "layers": json.dumps([layer.told for layer in layers])}
    if texts is not None:
        metadata["fingerprint"] = json.dumps(texts)
    replace_file(Path(path), pack(metadata, tensors))


@clause("PERS-1", "PERS-8", "PERS-9", "PERS-10", "PERS-11", "PERS-12", "PERS-16")
def load(path: str | os.PathLike[str], *, fingerprint: Fingerprint | None = None, verify: bool = True) -> list[Any]:
    """Read the caches of a file that ``save`` wrote, each of its own kind; they go on as the saved ones would have.

    With a ``fingerprint`` the file must have been saved with the same one.  ``verify`` checks the hash of every tensor;
    without it only that of the header is checked.

    Raises:
        FileError: if the file is not as it was written, of another version, of something else, or for another model.
        OSError: if it cannot be read.
    """
    wanted = _checked(fingerprint)
    with Path(path).open("rb") as file:
        header, tensors = unpack(file, FORMAT, verify=verify)
    if header.metadata.get("version") != str(VERSION):
        found = f"a file of version {header.metadata.get('version', 'unknown')!a:.20}"
        raise FileError(found, f"version {VERSION} can be read", "PERS-10")
    if wanted is not None and _texts(header) != wanted:
        raise FileError("a file of another model", f"it was saved for {_texts(header)!a:.200}", "PERS-16")
    return rebuilt(_layers(header), tensors)


def _layers(header: Header) -> list[LayerDescription]:
    told = header.json("layers")
    if not isinstance(told, list) or not told:
        raise FileError("a file without layers", "there must be at least one", "PERS-11")
    return [LayerDescription.of(layer) for layer in cast("list[object]", told)]


def _checked(fingerprint: Any) -> dict[str, str] | None:
    if fingerprint is None:
        return None
    if not isinstance(fingerprint, Mapping):
        raise FileError(f"a fingerprint {fingerprint!r:.60}", "names and texts are needed", "PERS-16")
    texts: dict[Any, Any] = dict(fingerprint)  # pyright: ignore[reportUnknownArgumentType]  # looked at below
    if not all(isinstance(text, str) for pair in texts.items() for text in pair):
        raise FileError(f"a fingerprint {texts!r:.60}", "names and texts are needed", "PERS-16")
    return texts


def _texts(header: Header) -> dict[str, str] | None:
    return _checked(header.json("fingerprint")) if "fingerprint" in header.metadata else None


__all__ = ["FORMAT", "VERSION", "Fingerprint", "load", "load_mlx_lm", "save"]
