"""A file of vectors: a header, the tensors of each token, and one line for each trace.

The file is JSON lines, the same bytes wherever and however often it is made:

* the header: ``kvlaw`` (``vectors``), ``version`` of this form, ``kind``, ``profile``, ``spec``, how many ``vectors``
  follow, and ``sha256`` of everything behind the header;
* a table for each sort of keys and values: its ``table`` name, and ``keys`` and ``values`` ``[ids, B, Hkv, D]``, in
  which row t holds what token t appends (row 0 is of no token);
* a vector: its ``id``, ``config``, what it ``needs`` of a cache, the ``table`` of its tokens, what ``open`` must
  answer, and its ``asks``: the calls, each with the ``tokens`` that it appends (or, where these are spoilt or go to a
  recurrent layer, with the ``tensors`` themselves), whether to ``look``, and what to ``expect``.

``expect`` is there for suites that assert by themselves: ``outcome``, ``offset``, and ``sees``, of each query the ids
that it sees, as pairs of first and last. It is left out where the law allows more than one answer, and behind such an
ask. A group has it by row, a list by layer.
"""

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from attrs import field, frozen

from kvlaw.reference.oracle import Profile
from kvlaw.spec.calls import CALLS, Advance, AppendDecode, AppendWindow, Call, FetchDense, Publish
from kvlaw.spec.clauses import PROFILES
from kvlaw.spec.config import KINDS, Config, Kind
from kvlaw.spec.structure import Json, dump, load, shown
from kvlaw.spec.trace import Trace, TraceError, read_json

VERSION = 1
SHOWN = ("kind", "window", "sinks", "rows", "dtype", "batch", "kv_heads", "head_dim", "value_dim", "look", "poison")
"""The fields of a configuration that every vector spells out."""
Tokens = tuple[int, ...] | tuple[tuple[int, ...], ...]
"""The ids of an append in order; of a group by row."""


BEYOND = {
    "attend": "they have no queries",
    "policy": "they are of dense storage",
    "affine": "they are of dense storage",
    "bf16_first": "they are of dense storage",
    "value_bits": "they are of dense storage",
    "codes": "they are of dense storage",
}
"""Capabilities of which vectors ask nothing, and why."""


HANDED = (AppendDecode, AppendWindow, FetchDense, Advance, Publish)
"""The calls that come with the tokens of what is appended, or published: their classes and those below."""


class VectorsError(ValueError):
    """A file of vectors or of results that cannot be read: what is wrong, where, and what to do."""


@frozen
class Ask:
    """One call, the tokens that it appends, whether the answer shows anything, and what it must be.

    ``tensors`` are those of the call by name, where no table has them.
    """

    call: Call
    tokens: Tokens = ()
    look: bool = True
    expect: Mapping[str, Any] | None = field(default=None, eq=False)
    tensors: Mapping[str, Any] | None = field(default=None, eq=False)

    def to_json(self) -> Json:
        """Write the ask as plain JSON values."""
        tokens: Json = {"tokens": self.tokens} if isinstance(self.call, HANDED) else {}
        tensors: Json = {} if self.tensors is None else {"tensors": dict(self.tensors)}
        expect: Json = {} if self.expect is None else {"expect": dict(self.expect)}
        return {**dump(self.call), **tokens, **tensors, **({} if self.look else {"look": False}), **expect}


@frozen
class Vector:
    """One trace as a native test replays it."""

    id: str
    config: Config
    asks: tuple[Ask, ...]
    needs: frozenset[str] = frozenset()
    table: str = ""
    opens: Mapping[str, Any] | None = field(default=None, eq=False)

    @property
    def trace(self) -> Trace:
        """The trace itself, without the looks that end one whose objects are looked at last."""
        every = self.config.look == "every"
        return Trace(self.config, tuple(ask.call for ask in self.asks if every or not ask.look))

    def to_json(self) -> Json:
        """Write the vector as plain JSON values."""
        spelt = {name: getattr(self.config, name) for name in SHOWN if getattr(self.config, name) is not None}
        return {
            "id": self.id,
            "config": {**dump(self.config), **spelt},
            "needs": sorted(self.needs),
            "table": self.table,
            "open": dict(self.opens or {}),
            "asks": [ask.to_json() for ask in self.asks],
        }


@frozen
class Vectors:
    """The vectors of one kind of cache under one profile; ``sha256`` tells them from others."""

    kind: Kind
    profile: Profile
    spec: str
    vectors: tuple[Vector, ...]
    sha256: str = ""


def lines(vectors: Vectors, tables: Mapping[str, Json]) -> Iterator[str]:
    """Write a file of vectors, line by line."""
    body = [_line({"table": name, **table}) for name, table in tables.items()]
    body += [_line(vector.to_json()) for vector in vectors.vectors]
    header = {
        "kvlaw": "vectors",
        "version": VERSION,
        "kind": vectors.kind,
        "profile": vectors.profile,
        "spec": vectors.spec,
        "vectors": len(vectors.vectors),
        "sha256": digest(body),
    }
    yield _line(header)
    yield from body


def digest(body: list[str]) -> str:
    """Give the SHA-256 of the lines behind a header."""
    return sha256("".join(body).encode()).hexdigest()


def read_vectors(path: Path) -> Vectors:
    """Read a file of vectors.

    Raises:
        VectorsError: if it cannot be read, is another file, of another version, cut short or altered.
    """
    found = read_lines(path)
    header = parsed(path, 1, found[0])
    check_header(path, header, "vectors", "kvlaw vectors export")
    told = header.get("sha256")
    if digest(found[1:]) != told:
        raise VectorsError(f"{path} was altered or cut short since it was exported: its SHA-256 is not {shown(told)}")
    kind, profile = header.get("kind"), header.get("profile")
    if kind not in KINDS or profile not in PROFILES:
        raise VectorsError(f"{path}:1: no kind {shown(kind)} of profile {shown(profile)} is known")
    bodies = ((number, parsed(path, number, line)) for number, line in enumerate(found[1:], 2))
    vectors = tuple(_vector(path, number, body) for number, body in bodies if "id" in body)
    return Vectors(kind, profile, str(header.get("spec")), vectors, cast("str", told))


def _vector(path: Path, number: int, body: Json) -> Vector:
    try:
        config = load(Config, body["config"], "config")
        asks = tuple(_ask(ask, f"ask {i}") for i, ask in enumerate(body["asks"], 1))
        return Vector(str(body["id"]), config, asks, frozenset(body["needs"]), str(body["table"]), body["open"])
    except KeyError as error:
        raise VectorsError(f"{path}:{number}: {error.args[0]} is missing") from None
    except (AttributeError, TypeError, TraceError) as error:
        raise VectorsError(f"{path}:{number}: {error}") from None


def _ask(body: Json, where: str) -> Ask:
    kind = CALLS[body["call"]]
    beside = _BESIDE if issubclass(kind, HANDED) else _BESIDE[1:]
    own = {name: value for name, value in body.items() if name not in ("call", *beside)}
    call = load(kind, own, where)
    if not issubclass(kind, HANDED):
        return Ask(call, (), bool(body.get("look", True)), body.get("expect"), body.get("tensors"))
    given: list[Any] = body.get("tokens", [])
    tokens: Any = tuple(tuple(cast("list[int]", t)) if isinstance(t, list) else t for t in given)
    return Ask(call, tokens, bool(body.get("look", True)), body.get("expect"), body.get("tensors"))


_BESIDE = ("tokens", "tensors", "look", "expect")


# Lines of JSON, as both files have them.


def read_lines(path: Path) -> list[str]:
    """Read the lines of a file, each with its end; raise ``VectorsError`` for no text, or a last line cut short."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise VectorsError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise VectorsError(f"{path}: no text in UTF-8: {error.reason} at byte {error.start}") from None
    except ValueError as error:  # a name that no file can have
        raise VectorsError(f"{str(path)!r}: {error}") from None
    found = text.splitlines(keepends=True) if "\n" in text else [text] * bool(text)
    if not found:
        raise VectorsError(f"{path} is empty")
    if not found[-1].endswith("\n"):
        raise VectorsError(f"{path}:{len(found)}: the last line is cut short (no end of line): write the file again")
    return found


def parsed(path: Path, number: int, line: str) -> Json:
    """Read one line, which must be an object."""
    try:
        body = read_json(line)
    except TraceError as error:
        raise VectorsError(f"{path}:{number}: {error}") from None
    if not isinstance(body, dict):
        raise VectorsError(f"{path}:{number}: an object is wanted, not {shown(body)}")
    return cast("Json", body)


def check_header(path: Path, header: Json, what: str, way: str) -> None:
    """Raise ``VectorsError`` unless a header is that of a file of vectors, or of results, of this version."""
    if header.get("kvlaw") != what:
        is_ = f"a file of kvlaw {header['kvlaw']}" if isinstance(header.get("kvlaw"), str) else "no such file"
        raise VectorsError(f"{path}:1: {what} are wanted, and this is {is_}; {way} makes one")
    if type(header.get("version")) is not int or header["version"] != VERSION:
        raise VectorsError(
            f"{path}:1: {what} of version {shown(header.get('version'))}; this kvlaw reads version {VERSION}"
        )


def _line(body: Json) -> str:
    return json.dumps(body, separators=(",", ":"), allow_nan=False) + "\n"


__all__ = [
    "BEYOND",
    "HANDED",
    "VERSION",
    "Ask",
    "Vector",
    "Vectors",
    "VectorsError",
    "check_header",
    "digest",
    "lines",
    "parsed",
    "read_lines",
    "read_vectors",
]
