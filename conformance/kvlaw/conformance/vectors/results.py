"""A file of results: what a native test observed when it replayed vectors.

JSON lines again. The header says ``kvlaw`` (``results``), ``version``, ``vectors`` (the header of the vectors that were
replayed, as it stands there), ``target`` (a name for the report) and ``capabilities``: what the cache has, as the
``needs`` of vectors name it. Then a line for each vector whose ``needs`` the cache has, in any order: its ``id``, what
``open`` answered, and ``observations``, one for each ask, as ``wire_views`` has them. A vector that could not be
replayed to its end has the observations up to there, and the last of them says what happened (``error``, with a
``message``).
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import attrs
from attrs import frozen

from kvlaw.conformance.guard import printable
from kvlaw.conformance.subjects.errors import nearest
from kvlaw.conformance.vectors.form import (
    BEYOND,
    Vector,
    Vectors,
    VectorsError,
    check_header,
    parsed,
    read_lines,
)
from kvlaw.spec.contract import CAPABILITIES
from kvlaw.spec.observations import Observation, ReadView, StateView
from kvlaw.spec.structure import Json, shown
from kvlaw.spec.wire_tensors import WireError, as_list, as_object
from kvlaw.spec.wire_views import read_observation

HEADER = ("kvlaw", "version", "vectors", "target", "capabilities")
RESULT = ("id", "open", "observations")


@frozen(eq=False)
class Recorded:
    """What was observed of one vector: of its opening, and of each ask."""

    vector: Vector
    opened: Observation
    observations: tuple[Observation, ...]

    @property
    def whole(self) -> bool:
        """Say whether every ask has an observation, up to the first that could not be made."""
        cut = any(o.outcome in ("error", "unsupported") for o in (self.opened, *self.observations[-1:]))
        return cut or not self.opened.ok or len(self.observations) == len(self.vector.asks)


@frozen(eq=False)
class Results:
    """A whole file of results, of the vectors that it names."""

    target: str
    vectors: Vectors
    capabilities: frozenset[str]
    recorded: Mapping[str, Recorded]

    @property
    def missing(self) -> tuple[str, ...]:
        """The vectors that the cache can be asked, and of which not all was observed."""
        able = (v for v in self.vectors.vectors if v.needs <= self.capabilities)
        return tuple(v.id for v in able if v.id not in self.recorded or not self.recorded[v.id].whole)


def header_of(path: Path) -> Json:
    """Read the header of a file of results; raise ``VectorsError`` if it is none."""
    header = parsed(path, 1, read_lines(path)[0])
    check_header(path, header, "results", "a native test that replays vectors")
    for name in header:
        if name not in HEADER:
            raise VectorsError(
                f"{path}:1: unknown field {name!r}{nearest(name, HEADER)}; known are {', '.join(HEADER)}"
            )
    replayed = header.get("vectors")
    if not isinstance(replayed, dict):
        raise VectorsError(f"{path}:1: vectors is missing: the header of the vectors that were replayed, as it stands")
    check_header(path, cast("Json", replayed), "vectors", "kvlaw vectors export")
    return header


def read_results(path: Path, vectors: Vectors) -> Results:
    """Read a file of results of these vectors.

    Raises:
        VectorsError: for a file that cannot be read, results of other vectors, and unknown or repeated ids.
    """
    header = header_of(path)
    replayed = header["vectors"].get("sha256")
    if replayed != vectors.sha256:
        raise VectorsError(
            f"{path} has results of other vectors (SHA-256 {shown(replayed):.14}...) than these of kind "
            f"{vectors.kind}, profile {vectors.profile} ({vectors.sha256:.12}...): replay what `kvlaw vectors export` "
            "makes now, or name the file that was replayed: --vectors FILE"
        )
    known = {vector.id: vector for vector in vectors.vectors}
    found: dict[str, Recorded] = {}
    for number, line in enumerate(read_lines(path)[1:], 2):
        recorded = _recorded(path, number, parsed(path, number, line), known)
        if found.setdefault(recorded.vector.id, recorded) is not recorded:
            raise VectorsError(f"{path}:{number}: {recorded.vector.id} has results twice")
    target = header.get("target")
    name = printable(target) if isinstance(target, str) and target.strip() else path.name
    return Results(name, vectors, _capabilities(path, header), found)


def _recorded(path: Path, number: int, body: Json, known: Mapping[str, Vector]) -> Recorded:
    for name in body:
        if name not in RESULT:
            said = f"unknown field {name!r}{nearest(name, RESULT)}; known are {', '.join(RESULT)}"
            raise VectorsError(f"{path}:{number}: {said}")
    vector = known.get(body["id"]) if isinstance(body.get("id"), str) else None
    if vector is None:
        raise VectorsError(f"{path}:{number}: no vector has the id {shown(body.get('id'))}")
    dtype = vector.config.dtype
    try:
        told = as_list(body.get("observations", []), "observations")
        opened = _observation(body.get("open"), "open", dtype)
        seen = tuple(_observation(one, f"observations[{i}]", dtype) for i, one in enumerate(told))
    except WireError as error:
        raise VectorsError(f"{path}:{number} ({vector.id}): {error}") from None
    if len(seen) > len(vector.asks):
        more = f"{len(seen)} observations of {len(vector.asks)} asks"
        raise VectorsError(f"{path}:{number} ({vector.id}): {more}")
    return Recorded(vector, opened, seen)


def _observation(data: object, where: str, dtype: str) -> Observation:
    """Read one observation; a word that is no field of it is refused, since what it says would be lost."""
    for name, kind in _unknown(data, Observation, where):
        raise WireError(f"unknown field {name!r}{nearest(name.rpartition('.')[2], _names(kind))}")
    return read_observation(data, dtype, where)


def _unknown(data: object, kind: type[Any], where: str) -> Iterator[tuple[str, type[Any]]]:
    for name, value in as_object(data, where).items():
        at = f"{where}.{name}"
        if name not in _names(kind):
            yield at, kind
        elif name in _INSIDE and value is not None:
            yield from _unknown(value, _INSIDE[name], at)
        elif name in ("rows", "layers") and isinstance(value, list):
            for number, part in enumerate(cast("list[object]", value)):
                yield from _unknown(part, Observation, f"{at}[{number}]")


_INSIDE: Mapping[str, type[Any]] = {"read": ReadView, "state": StateView}


def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in attrs.fields(kind))


def _capabilities(path: Path, header: Json) -> frozenset[str]:
    given: object = header.get("capabilities", [])
    if not isinstance(given, list) or not all(isinstance(name, str) for name in cast("list[object]", given)):
        raise VectorsError(f"{path}:1: capabilities: a list of words is wanted, not {shown(cast('object', given))}")
    names = cast("list[str]", given)
    for name in names:
        if name not in CAPABILITIES:
            raise VectorsError(f"{path}:1: unknown capability {name!r}{nearest(name, CAPABILITIES)}")
        if name in BEYOND:
            raise VectorsError(f"{path}:1: vectors ask nothing of the capability {name}: {BEYOND[name]}; leave it out")
    return frozenset(names)


__all__ = ["Recorded", "Results", "header_of", "read_results"]
