"""Replay a file of vectors on one of our own targets, and write its results: what a native test does, in Python.

It takes the tensors out of the file, by the tables, and shows what the target shows; so it is also the test of the
file.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kvlaw.conformance.vectors.form import BEYOND, VERSION, Ask, Vector, VectorsError, read_lines, read_vectors
from kvlaw.spec.calls import Advance, Append, FetchDense
from kvlaw.spec.contract import Subject
from kvlaw.spec.observations import Observation, Payload
from kvlaw.spec.structure import Json
from kvlaw.spec.wire_tensors import WireError, decode_tensor
from kvlaw.spec.wire_views import write_observation

Tables = Mapping[str, Mapping[str, npt.NDArray[Any]]]


def replay(path: Path, subject: Subject, name: str) -> Iterator[str]:
    """Replay the vectors of a file, those whose needs the subject has, and write its results, line by line.

    Raises:
        VectorsError: if the file cannot be read.
    """
    vectors = read_vectors(path)
    header, *bodies = map(json.loads, read_lines(path))
    try:
        tables: Tables = {
            b["table"]: {side: decode_tensor(b[side], side) for side in _SIDES} for b in bodies if _SIDE in b
        }
    except (KeyError, WireError) as error:
        raise VectorsError(f"{path}: a table cannot be read: {error}") from None
    able = subject.capabilities - frozenset(BEYOND)
    told = {"kvlaw": "results", "version": VERSION, "vectors": header, "target": name, "capabilities": sorted(able)}
    yield _line(told)
    for vector in vectors.vectors:
        if vector.needs <= able:
            yield _line(_replayed(vector, subject, tables))
    subject.close()


_SIDE = "keys"
_SIDES = (_SIDE, "values")


def _replayed(vector: Vector, subject: Subject, tables: Tables) -> Json:
    dtype = vector.config.dtype
    opened = subject.open(vector.config)
    seen: list[Observation] = []
    for ask in vector.asks if opened.ok else ():
        seen.append(subject.apply(ask.call, _payload(vector, ask, tables), ask.look))
        if seen[-1].outcome in ("error", "unsupported"):
            break
    observations = [write_observation(one, dtype) for one in seen]
    return {"id": vector.id, "open": write_observation(opened, dtype), "observations": observations}


def _payload(vector: Vector, ask: Ask, tables: Tables) -> Payload | None:
    """Take the tensors of an ask from the file."""
    dtype = vector.config.dtype
    if ask.tensors is not None:
        given = {name: decode_tensor(tensor, name) for name, tensor in ask.tensors.items()}
        if isinstance(ask.call, Advance):
            return Payload(dtype=dtype, step=given)
        return Payload(keys=given["keys"], values=given["values"], dtype=str(ask.tensors["keys"]["dtype"]))
    if not isinstance(ask.call, Append | FetchDense):
        return Payload(tuple(t for t in ask.tokens if isinstance(t, int)), dtype=dtype)  # of a publish
    keys, values = (_taken(tables[vector.table][side], ask) for side in _SIDES)
    return Payload(keys=keys, values=values, dtype=dtype)


def _taken(table: npt.NDArray[Any], ask: Ask) -> npt.NDArray[Any]:
    """Take the rows of a table ``[ids, B, Hkv, D]`` for tokens: ``[B, Hkv, L, D]``, of a group row by row."""
    rows = [item for item in ask.tokens if isinstance(item, tuple)]
    if rows:
        return np.concatenate([table[list(row)].transpose(1, 2, 0, 3) for row in rows])
    return np.ascontiguousarray(table[list(ask.tokens)].transpose(1, 2, 0, 3))


def _line(body: Json) -> str:
    return json.dumps(body, separators=(",", ":")) + "\n"


__all__ = ["replay"]
