"""The server machines: their traces mix joins, rounds, departures, files and prefixes, and find what needs the mix."""

from collections.abc import Sequence
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import pytest

from kvlaw.conformance.adapter import AdapterSubject
from kvlaw.conformance.check import counted
from kvlaw.conformance.machines.base import LockstepMachine, bind, play
from kvlaw.conformance.machines.protocol import ProtocolMachine
from kvlaw.conformance.machines.rows_contract import RowsContractMachine
from kvlaw.conformance.machines.rows_protocol import RowsProtocolMachine
from kvlaw.conformance.machines.server import RowsServerMachine, ServerMachine
from kvlaw.conformance.session import Session
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.conformance.subjects.oracle_store import Store, Stored
from kvlaw.reference.layout_group import RowGroup
from kvlaw.reference.oracle import Profile
from kvlaw.spec.calls import AppendName, Call
from kvlaw.spec.config import ROW_KINDS, SERIAL_KINDS, Kind

STEPS = 4
TRACES: list[tuple[Call, ...]] = []
"""The calls of every trace of the machines that tell."""


def session(kind: Kind, adapter: type[ReferenceAdapter], profile: Profile = "layout") -> Session:
    subject = AdapterSubject(adapter(), seconds=600.0)
    return Session(subject, profile, counted(profile, kind, subject.capabilities), adapter.__name__)


def server_of(kind: Kind) -> type[LockstepMachine]:
    return RowsServerMachine if kind in ROW_KINDS else ServerMachine


@cache
def told(kind: Kind) -> tuple[tuple[Call, ...], ...]:
    """Play the server machine on the reference, and give the calls of its traces."""
    machine = server_of(kind)

    def teardown(self: LockstepMachine) -> None:
        TRACES.append(tuple(self.calls))
        machine.teardown(self)

    TRACES.clear()
    one = session(kind, ReferenceAdapter)
    play(bind(type(machine.__name__, (machine,), {"teardown": teardown}), one, kind, {}), 40, STEPS, 1)
    assert (one.failures, dict(one.errors)) == ({}, {})
    return tuple(trace for trace in TRACES if trace)


def back_and_used(trace: Sequence[Call], verbs: frozenset[str]) -> bool:
    """Say whether something that was loaded or lent was then asked one of these calls, or joined by them."""
    made = {getattr(call, "as_", None) for call in trace if call.verb in ("load", "reuse")}
    return any(call.verb in verbs and made & {call.on, *getattr(call, "sources", ())} for call in trace)


@pytest.mark.parametrize("kind", [*SERIAL_KINDS, *ROW_KINDS])
def test_typical_traces_mix_everything(kind: Kind) -> None:
    """Join, draft, leave, be kept, come again and go on: in one trace, and in many."""
    rows = kind in ROW_KINDS
    wanted = [{"begin_round"}, {"publish", "save"}, {"load", "reuse"}]
    wanted += [{"merge"}, {"extract", "hand_back"}, {"filter"}] if rows else []
    again = frozenset({"merge"} if rows else {"decode", "window"})
    traces = told(kind)
    whole = [t for t in traces if all({c.verb for c in t} & some for some in wanted) and back_and_used(t, again)]
    assert len(whole) >= len(traces) // 3
    assert any("compiled" in {call.verb for call in trace} for trace in traces)
    assert any("roll_back" in {call.verb for call in trace} for trace in whole)


class ForgetsTheRound(ReferenceAdapter):
    """A file holds what the cache held before its last round, which was committed."""

    def __init__(self) -> None:
        super().__init__()
        self.before: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def begin_round(self, cache: Any) -> None:
        twin = cache.clone()
        super().begin_round(cache)
        self.before[cache] = twin

    def append(self, cache: Any, keys: Any, values: Any, phase: AppendName, window: int | None, array: bool) -> Any:
        read = super().append(cache, keys, values, phase, window, array)
        if cache in self.before and self.in_round(cache) is False:
            super().append(self.before[cache], keys, values, phase, window, array)
        return read

    @staticmethod
    def in_round(cache: Any) -> bool | None:
        return None if isinstance(cache, RowGroup) else cache.round is not None

    def roll_back(self, cache: Any, keep: Sequence[int]) -> None:
        super().roll_back(cache, keep)
        self.before.pop(cache, None)

    def save_layers(self, caches: list[Any]) -> Any:
        stale = [self.before.get(cache, cache) if cache.round is None else cache for cache in caches]
        return super().save_layers(stale)


class SharesTheConversion(ReferenceAdapter):
    """What is lent shares with its entry whether and where it was converted."""

    class Sharing(Store):
        def lent(self, entry: Stored, length: int) -> list[Any]:
            twins = super().lent(entry, length)
            for twin, other in zip(twins, self.before.setdefault(id(entry), twins), strict=True):
                twin.floor = max(twin.floor, other.floor)
            return twins

        @property
        def before(self) -> dict[int, list[Any]]:
            return self.__dict__.setdefault("_before", {})

    store_type = Sharing


class LeavesWithRejectedTokens(ReferenceAdapter):
    """A row that leaves is taken of a copy of the group that did not hear of the last roll back."""

    def __init__(self) -> None:
        super().__init__()
        self.deaf: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def roll_back(self, cache: Any, keep: Sequence[int]) -> None:
        deaf = cache.clone() if isinstance(cache, RowGroup) else None
        super().roll_back(cache, keep)
        if deaf is not None:
            deaf.commit_round()
            self.deaf[cache] = deaf

    def append(self, cache: Any, keys: Any, values: Any, phase: AppendName, window: int | None, array: bool) -> Any:
        read = super().append(cache, keys, values, phase, window, array)
        if cache in self.deaf:
            super().append(self.deaf[cache], keys, values, phase, window, array)
        return read

    def extract(self, group: Any, row: int) -> Any:
        return super().extract(self.deaf.get(group, group), row)

    def hand_back(self, group: Any, row: int) -> Any:
        return super().hand_back(self.deaf.get(group, group), row)


class JoinsWithoutItsTail(ReferenceAdapter):
    """Of a cache that was loaded, a group takes all but what was read since."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def load_layers(self, file: Any, other: bool) -> list[Any]:
        caches = super().load_layers(file, other)
        self.loaded.update({cache: cache.clone() for cache in caches})
        return caches

    def merge(self, sources: Sequence[Any]) -> Any:
        return super().merge([self.loaded.get(source, source) for source in sources])


FAULTS: dict[str, tuple[type[ReferenceAdapter], Kind, dict[str, Any], type[LockstepMachine]]] = {
    "a file forgets a committed round": (ForgetsTheRound, "ring", {}, ProtocolMachine),
    "a prefix shares its conversion": (SharesTheConversion, "full", {"bits": 4, "start": 3}, ProtocolMachine),
    "a row leaves with rejected tokens": (LeavesWithRejectedTokens, "full_rows", {}, RowsProtocolMachine),
    "a loaded cache joins without its tail": (JoinsWithoutItsTail, "ring_rows", {}, RowsContractMachine),
}


def found_by(machine: type[LockstepMachine], name: str, traces: int) -> set[str]:
    """Play so many traces at most on a fault, and give the clauses that caught it."""
    adapter, kind, fixed, _ = FAULTS[name]
    for number in range(traces // 10):
        one = session(kind, adapter, "core")
        play(bind(machine, one, kind, fixed), 10, STEPS, number)
        if one.failures:
            return set(one.failures)
    return set()


@pytest.mark.parametrize("name", FAULTS)
def test_what_needs_the_mix_is_found(name: str) -> None:
    assert found_by(server_of(FAULTS[name][1]), name, 150)
