"""The corpus: the shortest trace that shows each planted fault (``faults.jsonl``) and each mutant (``mutants.jsonl``).

It is the ``quick`` budget, the first thing that every budget runs, and the offline vectors: one JSON trace per line,
with ``id``, ``note`` (the fault in one sentence), ``target`` (whose fault it is) and ``expect`` (the clause broken).
``load_corpus`` reads it, ``entries_for`` keeps what a target can be asked, ``save`` writes a file anew.
"""

import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from kvlaw.conformance.demands import needs
from kvlaw.spec.calls import Append, Call, MakeCache, OpenList
from kvlaw.spec.clauses import load_clauses
from kvlaw.spec.config import POLICIES, Policy
from kvlaw.spec.text_form import parse
from kvlaw.spec.trace import Trace, TraceError

FILES = ("faults.jsonl", "mutants.jsonl")


@frozen
class Entry:
    """One stored trace: ``id``, the fault it shows in words, whose fault, the clause broken, and the trace."""

    id: str
    note: str
    target: str
    expect: str
    trace: Trace
    needs: frozenset[str] = field(init=False)

    @needs.default  # type: ignore[reportUnknownMemberType] # attrs' own decorator
    def _needs(self) -> frozenset[str]:
        return needed(self.trace)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of cache that the trace builds."""
        lists = [call.layers for call in self.trace.calls if isinstance(call, OpenList)]
        return frozenset({self.trace.config.kind, *(layer.kind for layers in lists for layer in layers)})

    def to_json(self) -> dict[str, Any]:
        """Write the entry as plain JSON values."""
        return {
            "id": self.id,
            "note": self.note,
            "target": self.target,
            "expect": self.expect,
            **self.trace.to_json(),
        }


def needed(trace: Trace) -> frozenset[str]:
    """List the capabilities without which a target cannot be asked a trace."""
    pinned = {"sinks"} if trace.config.sinks else set[str]()
    layers = [layer for call in trace.calls if isinstance(call, OpenList) for layer in call.layers]
    layers += [call.layer for call in trace.calls if isinstance(call, MakeCache) and call.layer is not None]
    pinned |= {"rows"} if trace.config.is_rows else set[str]()
    pinned |= {"recurrent"} if trace.config.is_recurrent else set[str]()
    pinned |= {"empty_group"} if trace.config.rows == 0 else set[str]()
    for layer in (trace.config, *layers):
        pinned |= set[str]() if layer.policy == "dense" else {"policy", layer.policy}
        pinned |= {"value_bits"} if layer.bits_of_values != layer.bits else set[str]()
    lists = {call.as_ for call in trace.calls if isinstance(call, OpenList)}
    whole = {"list_appends"} if any(_spoilt(call) and call.on in lists for call in trace.calls) else set[str]()
    return frozenset(pinned | whole | {name for call in trace.calls for name in _needs_of(call)})


def _spoilt(call: Call) -> bool:
    return isinstance(call, Append) and call.malformed is not None


def _needs_of(call: Call) -> set[str]:
    pinned = isinstance(call, OpenList) and any(layer.sinks for layer in call.layers)
    return {*needs(call), *(("sinks",) if pinned else ())}


def load_corpus(folder: Traversable | None = None) -> tuple[Entry, ...]:
    """Read every stored trace of a folder; without one those that came with the package, once.

    Raises:
        TraceError: for a line that cannot be read, with file and line, and for an id that stands twice.
    """
    return _shipped() if folder is None else _load(folder)


@cache
def _shipped() -> tuple[Entry, ...]:
    return _load(files(__name__))


def _load(folder: Traversable) -> tuple[Entry, ...]:
    found: dict[str, Entry] = {}
    for name in FILES:
        path = folder / name
        if not path.is_file():
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            entry = _entry(line, f"{name}:{number}")
            if found.setdefault(entry.id, entry) is not entry:
                raise TraceError(f"{name}:{number}: the id {entry.id!r} stands twice")
    return tuple(found.values())


def _entry(line: str, where: str) -> Entry:
    try:
        trace = Trace.loads(line)
        data = json.loads(line)
        words = {name: str(data[name]) for name in ("id", "note", "target", "expect")}
    except KeyError as error:
        raise TraceError(f"{where}: {error.args[0]} is missing") from None
    except TraceError as error:
        raise TraceError(f"{where}: {error}") from None
    return Entry(**words, trace=trace)


def entries_for(
    kind: str, capabilities: frozenset[str], profile: str = "core", policies: tuple[Policy, ...] = POLICIES
) -> tuple[Entry, ...]:
    """Give the stored traces that open a cache of ``kind`` and ask nothing that the target cannot do.

    Every trace is worth playing in either profile: in ``core`` it exercises what it exercises of the MUST clauses.
    A target that is not checked with dense storage gets the traces of dense caches under a policy that it has.
    """
    del profile
    stored = [e for e in (*load_corpus(), *example_entries()) if e.trace.config.kind == kind]
    stored = [e if e.trace.config.policy in policies else _policed(e, policies) for e in stored]
    return tuple(e for e in stored if e.trace.config.policy in policies and e.needs <= capabilities)


_UNDER: dict[Policy, dict[str, Any]] = {
    "affine": {"bits": 4, "group": 32},
    "bf16_first": {"bits": 4, "group": 32, "start": 2},
}
"""The policies under which the traces of dense caches are played where nothing is dense."""


def _policed(entry: Entry, policies: tuple[Policy, ...]) -> Entry:
    """Give the trace of a dense cache, as it may be built, under a policy."""
    if entry.trace.config.policy != "dense" or entry.trace.config.problem is not None:
        return entry
    policy: Policy = "affine" if "affine" in policies else "bf16_first"
    trace = evolve(entry.trace, config=evolve(entry.trace.config, **_UNDER[policy]))
    return evolve(entry, trace=trace)


@cache
def example_entries() -> tuple[Entry, ...]:
    """Give the examples of the specification as stored traces: an example is a trace like any other."""
    found: dict[Trace, Entry] = {}
    for clause in load_clauses().values():
        for number, example in enumerate(clause.examples, 1):
            trace = parse(example.text).trace
            entry = Entry(f"example-{clause.id}-{number}", clause.title, "builtin:oracle", clause.id, trace)
            found.setdefault(trace, entry)
    return tuple(found.values())


def save(entries: Iterable[Entry], name: str, folder: Path) -> None:
    """Write one file of the corpus anew, in the order of the ids."""
    if name not in FILES:
        raise ValueError(f"{name!r} is no file of the corpus; there are {', '.join(FILES)}")
    lines = [json.dumps(entry.to_json(), separators=(", ", ": ")) for entry in sorted(entries, key=lambda e: e.id)]
    (folder / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")


__all__ = ["FILES", "Entry", "entries_for", "example_entries", "load_corpus", "needed", "save"]
