"""The machines: every rule fires and every clause arises on the reference, which never diverges; seeds decide all."""

from typing import Any

import pytest
from attrs import fields

from kvlaw.conformance.adapter import AdapterSubject
from kvlaw.conformance.check import EFFORTS, counted
from kvlaw.conformance.failures import ConformanceFailure
from kvlaw.conformance.machines.base import LockstepMachine, bind, play
from kvlaw.conformance.machines.contract import ContractMachine, arguments, lengths
from kvlaw.conformance.machines.protocol import ProtocolMachine
from kvlaw.conformance.session import Session
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.reference.oracle import Profile
from kvlaw.spec.calls import CALLS
from kvlaw.spec.config import KINDS, Config, Kind
from kvlaw.spec.text_form import write
from kvlaw.spec.trace import Trace

MACHINES: tuple[type[LockstepMachine], ...] = (ProtocolMachine, ContractMachine)
PROFILES: tuple[Profile, ...] = ("core", "layout")
Played = dict[tuple[Kind, Profile], Session]
IDLE = {"open", "rest"}
"""Rules that make no call to be counted."""


def rules_of(machine: type[LockstepMachine]) -> set[str]:
    """List the rules of a machine by asking Hypothesis."""
    rules = bind(machine, session("full", "layout"), "full", {})().rules
    return {rule.function.__name__ for rule in rules} - IDLE


def session(kind: Kind, profile: Profile, adapter: type[ReferenceAdapter] = ReferenceAdapter) -> Session:
    subject = AdapterSubject(adapter())
    return Session(subject, profile, counted(profile, kind, subject.capabilities), "the reference", arithmetic=True)


VERBS: set[str] = set()
"""The verbs of all calls that the fixture below has made."""


class Telling(LockstepMachine):
    """Remembers which calls it made."""

    def teardown(self) -> None:
        VERBS.update(call.verb for call in self.calls)
        super().teardown()


class TellingProtocol(Telling, ProtocolMachine):
    pass


class TellingContract(Telling, ContractMachine):
    pass


@pytest.fixture(scope="module")
def played() -> Played:
    """Play the ci budget on the reference, without any stored trace: all of it in layout, a quarter of it in core."""
    effort, found = EFFORTS["ci"], Played()
    for kind in KINDS:
        for profile in PROFILES:
            found[kind, profile] = one = session(kind, profile)
            part = 1 if profile == "layout" else 4
            play(bind(TellingProtocol, one, kind, {}), effort.protocol // part, effort.steps, 0)
            play(bind(TellingContract, one, kind, {}), effort.contract // part, effort.steps, 0)
    return found


def test_the_reference_never_diverges(played: Played):
    for one in played.values():
        assert one.failures == {}
        assert one.errors == {}
        assert one.reads_different == 0


def test_every_rule_fires(played: Played):
    fired = {name for one in played.values() for name, times in one.rules.items() if times >= 5}
    wanted = {f"Telling{m.__name__.removesuffix('Machine')}.{rule}" for m in MACHINES for rule in rules_of(m)}
    assert len(wanted) > 15
    assert wanted - fired == set()


def test_every_clause_arises_without_a_stored_trace(played: Played):
    for kind in KINDS:
        arose = set(played[kind, "layout"].exercised) | set(played[kind, "core"].exercised)
        assert played[kind, "layout"].clauses - arose == set(), kind


def test_every_call_of_the_language_is_made(played: Played):
    assert set(CALLS) == VERBS


def test_core_asks_nothing_that_only_our_design_refuses(played: Played):
    layout_only = {"TellingContract.odd_argument"}
    for (_, profile), one in played.items():
        if profile == "core":
            assert not layout_only & set(one.rules)


class Recorder(ContractMachine):
    """Keeps every trace that it plays."""

    told: list[Trace] = []  # noqa: RUF012  # one list for all traces, on purpose

    def teardown(self) -> None:
        self.told.append(Trace(self.config, tuple(self.calls)))
        super().teardown()


def traces(number: int, **fixed: Any) -> list[str]:
    Recorder.told = []
    play(bind(Recorder, session("ring", "layout"), "ring", fixed), 12, 8, number)
    return [write(trace) for trace in Recorder.told]


def test_a_seed_decides_every_call():
    assert traces(3) == traces(3)
    assert traces(3) != traces(4)


def test_fixed_fields_are_in_every_trace():
    traces(1, window=6, dtype="f16", head_dim=96)
    assert {(t.config.window, t.config.dtype, t.config.head_dim) for t in Recorder.told} == {(6, "f16", 96)}
    traces(1, sinks=9)
    assert all(t.config.sinks == 9 and t.config.problem is None for t in Recorder.told)


def test_configurations_differ_in_every_field_that_matters():
    traces(0)
    for _ in range(3):
        play(bind(Recorder, session("ring", "layout"), "ring", {}), 60, 2, len(Recorder.told))
    configs = [trace.config for trace in Recorder.told]
    for attribute in fields(Config):
        if attribute.name not in ("kind", "seed"):
            assert len({getattr(c, attribute.name) for c in configs}) > 1, attribute.name
    assert any(c.problem for c in configs)


class Doubles(ReferenceAdapter):
    """Answers twice what it trims."""

    def trim(self, cache: Any, n: Any, bypass: bool) -> int | None:
        return 2 * (super().trim(cache, n, bypass) or 0)


def test_in_raise_mode_a_divergence_is_a_failed_test_with_the_shortest_trace():
    machine = bind(ContractMachine, session("full", "layout", Doubles), "full", {}, raising=True)
    with pytest.raises(ConformanceFailure) as caught:
        play(machine, 40, 6, 0)
    assert caught.value.clause == "TRIM-3"
    assert "expected 1, observed 2" in str(caught.value)


def test_in_record_mode_a_divergence_ends_the_trace_and_the_others_go_on():
    one = session("full", "layout", Doubles)
    play(bind(ContractMachine, one, "full", {}), 50, 10, 0)
    assert set(one.failures) == {"TRIM-3"}
    assert one.exercised["OWN-3"] > 0


class Lacks(ReferenceAdapter):
    """Can append and show its fetch, and nothing else."""

    capabilities = frozenset()

    def __getattribute__(self, name: str) -> Any:
        if name in ("trim", "clone", "reset", "state", "mask", "fetch_dense", "trim_layers", "can_trim_layers"):
            raise AssertionError(f"{name} was asked of a cache that lacks it")
        return super().__getattribute__(name)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_cache_is_asked_nothing_that_it_lacks(machine: type[LockstepMachine], kind: Kind):
    one = session(kind, "core", Lacks)
    play(bind(machine, one, kind, {}), 25, 10, 0)
    assert (one.failures, dict(one.errors)) == ({}, {})
    assert one.calls > 100


def test_lengths_stand_around_the_window_and_the_allocation_step():
    assert lengths(4, 0) == [1, 2, 3, 4, 5, 9]
    assert lengths(1, 0) == [1, 2, 3]
    assert lengths(None, 0) == [1, 2, 3, 5]
    assert lengths(None, 250) == [1, 2, 3, 5, 6, 7]


def test_window_arguments_stand_around_the_window():
    assert set(arguments(4, narrow=True)) == {None, 4, 5, 1, 3}
    assert set(arguments(4, narrow=False)) == {None, 4, 5}
    assert set(arguments(1, narrow=True)) == {None, 1, 2}
    assert set(arguments(None, narrow=True)) == {None, 1, 2, 3, 8}
