"""Vectors of the stored traces: what the oracle was asked when it walked them, and what it had to answer.

Every trace is walked once, in lockstep as a check walks it; ``Listening`` notes what the subject is asked. Vectors are
of dense caches; a trace that appends a thousand positions would need a large table, and is left out.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from attrs import evolve

from kvlaw.conformance.adapter import AdapterSubject
from kvlaw.conformance.check import counted, versions
from kvlaw.conformance.corpus import Entry, entries_for
from kvlaw.conformance.lockstep import Lockstep, Step
from kvlaw.conformance.questions import stamper_of
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.conformance.vectors.form import HANDED, Ask, Tokens, Vector, Vectors, VectorsError, digest, lines
from kvlaw.reference.expectation import Expectation
from kvlaw.reference.history import Sight
from kvlaw.reference.oracle import Profile
from kvlaw.spec.calls import Advance, Append, Attend, Call, FetchDense
from kvlaw.spec.config import Config, Kind
from kvlaw.spec.observations import Observation, Payload
from kvlaw.spec.structure import Json
from kvlaw.spec.text_form import parse
from kvlaw.spec.trace import Trace
from kvlaw.spec.wire_tensors import encode_tensor

LONGEST = 600
"""The most positions that a vector appends."""


def export(kind: Kind, profile: Profile) -> tuple[str, ...]:
    """Make the lines of a file of vectors."""
    vectors = made(kind, profile)
    return tuple(lines(vectors, _tables(vectors.vectors)))


@cache
def made(kind: Kind, profile: Profile) -> Vectors:
    """Make the vectors of a kind of cache, with the digest of their file."""
    listening = Listening()
    clauses = counted(profile, kind, listening.capabilities)
    found: dict[tuple[Config, tuple[Ask, ...]], Vector] = {}
    stored = entries_for(kind, listening.capabilities - {"policy"}, profile, ("dense",))
    for entry in (*stored, *_beside(kind)):
        if _fits(entry.trace):
            vector = _vector(entry, listening, profile, clauses)
            found.setdefault((vector.config, vector.asks), vector)
    ordered = tuple(sorted(found.values(), key=lambda vector: vector.id))
    vectors = Vectors(kind, profile, versions()["spec"], ordered)
    _, *body = lines(vectors, _tables(ordered))
    return evolve(vectors, sha256=digest(body))


BESIDE: Mapping[str, tuple[str, ...]] = {
    "full": ("full ; dense 2 as d1 ; decode ; look d1",),
    "ring": (
        "ring window=4 ; window 2 ; save as f1 ; damage f1 how=foreign ; load f1 as c1",
        "ring window=4 ; window 2 ; save as f1 ; load f1 as c1 other ; load f1 as c1",
        "ring window=4 ; window 2 ; publish space=a ; reuse t1..t2,t9 space=b as c1 ; reuse t1..t2,t9 space=a as c2",
    ),
    "full_rows": ("full_rows ; cache as c1 ; window 2 on c1 ; trim -1 on c1",),
    "ring_rows": ("ring_rows window=4 ; cache as c1 ; window 2 on c1 ; trim -1 on c1",),
    "recurrent_rows": ("recurrent_rows ; advance 2 ; trim 1",),
}
"""Traces of clauses that in a check the machines exercise, and no stored trace of the kind does."""


def _beside(kind: Kind) -> tuple[Entry, ...]:
    traces = enumerate(map(parse, BESIDE.get(kind, ())), 1)
    return tuple(Entry(f"{kind}-{number}", "", "", "", written.trace) for number, written in traces)


def _fits(trace: Trace) -> bool:
    """Say whether a trace is short enough, and asks no queries, of which vectors have none."""
    asks = any(isinstance(call, Attend) and call.malformed is not None for call in trace.calls)
    return not asks and sum(max(0, call.appends) for call in trace.calls) <= LONGEST


class Listening(AdapterSubject):
    """The oracle as a subject that notes what it is asked."""

    def __init__(self) -> None:
        """Make it; nothing in it hangs."""
        super().__init__(ReferenceAdapter(), seconds=600.0)
        self.asks: list[Ask] = []

    def open(self, config: Config) -> Observation:
        """Begin a list of asks."""
        self.asks = []
        return super().open(config)

    def apply(self, call: Call, payload: Payload | None, look: bool) -> Observation:
        """Note the call."""
        given = payload or Payload()
        rows = _rows(given) if self.adapter.config.is_rows else 1
        tokens = given.tokens if isinstance(call, HANDED) else ()
        self.asks.append(Ask(call, _by_row(tokens, rows), look, tensors=_tensors(call, given)))
        return super().apply(call, payload, look)


def _tensors(call: Call, payload: Payload) -> Json | None:
    """Give the tensors of a call that no table has: those of an advance, and spoilt ones."""
    if isinstance(call, Advance):
        dtypes = {"decay": "f32"}
        named = sorted(payload.step.items())
        return {name: encode_tensor(bits, dtypes.get(name, payload.dtype)) for name, bits in named}
    if not isinstance(call, Append | FetchDense) or call.malformed is None:
        return None
    return {name: encode_tensor(getattr(payload, name), payload.dtype) for name in ("keys", "values")}


def _rows(payload: Payload) -> int:
    """Count the rows of the tensors of a call to a group."""
    first = payload.step.get("inputs", payload.keys)
    return int(first.shape[0]) if first.ndim > 1 else 1


def _by_row(tokens: tuple[int, ...], rows: int) -> Tokens:
    """Part the tokens of a call to a group of several rows by row; those of a cache stay as they are."""
    if rows < 2:
        return tokens
    length = len(tokens) // rows
    return tuple(tokens[row * length : (row + 1) * length] for row in range(rows))


def _vector(entry: Entry, listening: Listening, profile: Profile, clauses: frozenset[str]) -> Vector:
    trace = evolve(entry.trace, config=evolve(entry.trace.config, stamp="code"))  # whose bytes no machine rounds
    steps = Lockstep(listening, profile, clauses).run(trace)
    if steps[-1].divergences:  # a stored trace that the oracle itself does not keep is no vector
        raise VectorsError(f"{entry.id}: the oracle breaks {steps[-1].divergences[0].clause}")
    certain, asks = True, list[Ask]()
    opened = _expected(steps[0], look=True)
    for ask, step in zip(listening.asks, steps[1:], strict=True):
        certain = certain and len(step.expectation.outcomes) == 1
        asks.append(evolve(ask, expect=_expected(step, look=ask.look) if certain else None))
    table = "" if trace.config.is_recurrent else _table_of(trace.config)
    return Vector(entry.id, trace.config, tuple(asks), entry.needs, table, opened)


# What must be answered.


def _expected(step: Step, *, look: bool) -> Json:
    """Say what a step must answer, as far as there is one answer."""
    outcome = step.expectation.outcomes[0]
    if not look or outcome != "ok":
        return {"outcome": outcome}
    return {"outcome": outcome, **_shown(step.expectation)}


def _shown(expectation: Expectation) -> Json:
    told: Json = {}
    if (offset := expectation.value("offset")) is not None:
        told["offset"] = offset
    if expectation.sights and all(sight.required == sight.allowed for sight in expectation.sights):
        told["sees"] = [_ranges(sight) for sight in expectation.sights]
    for name in ("rows", "layers"):
        parts: tuple[Expectation, ...] = getattr(expectation, name)
        if parts:
            told[name] = [_shown(part) for part in parts]
    return told


def _ranges(sight: Sight) -> list[list[int]]:
    """List the ids that a query sees as pairs of first and last."""
    pairs: list[list[int]] = []
    for token in sorted(sight.required):
        if pairs and token == pairs[-1][1] + 1:
            pairs[-1][1] = token
        else:
            pairs.append([token, token])
    return pairs


# The tensors of tokens.


def _table_of(config: Config) -> str:
    """Name the table of a configuration's tokens by all that decides their bytes."""
    return f"{config.dtype}-{config.batch}x{config.kv_heads}x{config.head_dim}+{config.value_dim}"


def _tables(vectors: Iterable[Vector]) -> Mapping[str, Json]:
    """Make the tables that vectors name, each up to the last token that one of them appends."""
    most: dict[str, int] = {}
    configs: dict[str, Config] = {}
    for vector in vectors:
        configs.setdefault(vector.table, vector.config)
        used = (_last(ask.tokens) for ask in vector.asks if ask.tensors is None)
        most[vector.table] = max(most.get(vector.table, 0), *used, 0)
    return {name: _table(configs[name], most[name]) for name in sorted(configs) if most[name]}


def _table(config: Config, most: int) -> Json:
    stamper = stamper_of(config)
    tables = {side: stamper.table(side, most)[: most + 1] for side in ("keys", "values")}
    return {side: encode_tensor(table, config.dtype) for side, table in tables.items()}


def _last(tokens: Tokens) -> int:
    flat: list[Any] = [t for item in tokens for t in (item if isinstance(item, tuple) else (item,))]
    return max(flat, default=0)


__all__ = ["LONGEST", "export", "made"]
