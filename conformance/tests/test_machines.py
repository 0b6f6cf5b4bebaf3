"""The machines: every rule fires and every clause arises on the reference, which never diverges; seeds decide all."""

from collections import Counter
from typing import Any

import pytest
from attrs import fields
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from kvlaw.conformance.adapter import AdapterSubject
from kvlaw.conformance.check import EFFORTS, counted, machines
from kvlaw.conformance.failures import ConformanceFailure
from kvlaw.conformance.machines.base import LockstepMachine, bind, play
from kvlaw.conformance.machines.contract import ContractMachine, arguments, lengths
from kvlaw.conformance.machines.padding import Padded, padded
from kvlaw.conformance.machines.protocol import ProtocolMachine
from kvlaw.conformance.machines.recurrent import RecurrentContractMachine
from kvlaw.conformance.machines.rows_contract import RowsContractMachine
from kvlaw.conformance.machines.rows_protocol import RowsProtocolMachine
from kvlaw.conformance.machines.server import RowsServerMachine, ServerMachine
from kvlaw.conformance.session import Session
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.reference.oracle import Profile
from kvlaw.spec.calls import CALLS
from kvlaw.spec.clauses import load_clauses
from kvlaw.spec.config import KINDS, RECURRENT_KINDS, Config, Kind
from kvlaw.spec.text_form import write
from kvlaw.spec.trace import Trace

ROW_MACHINES: tuple[type[LockstepMachine], ...] = (RowsProtocolMachine, RowsContractMachine, RowsServerMachine)
MACHINES: tuple[type[LockstepMachine], ...] = (
    ProtocolMachine,
    ContractMachine,
    ServerMachine,
    *ROW_MACHINES,
    RecurrentContractMachine,
)
SERVERS = (ServerMachine, RowsServerMachine)
PROFILES: tuple[Profile, ...] = ("core", "layout")
Played = dict[tuple[Kind, Profile], Session]
IDLE = {"open", "rest"}
"""Rules that make no call to be counted."""


def rules_of(machine: type[LockstepMachine]) -> set[str]:
    """List the rules of a machine by asking Hypothesis."""
    kinds: dict[type[LockstepMachine], Kind] = {RecurrentContractMachine: "recurrent_rows"}
    kind = kinds.get(machine, "full_rows" if machine in ROW_MACHINES else "full")
    rules = bind(machine, session(kind, "layout"), kind, {})().rules
    return {rule.function.__name__ for rule in rules} - IDLE


def session(kind: Kind, profile: Profile, adapter: type[ReferenceAdapter] = ReferenceAdapter) -> Session:
    subject = AdapterSubject(adapter(), seconds=600.0)  # a busy machine must not make a trace end
    return Session(subject, profile, counted(profile, kind, subject.capabilities), "the reference", arithmetic=True)


VERBS: set[str] = set()
"""The verbs of all calls that the fixture below has made."""


def telling(machine: type[LockstepMachine]) -> type[LockstepMachine]:
    """Make a machine that remembers which calls it made."""

    def teardown(self: LockstepMachine) -> None:
        VERBS.update(call.verb for call in self.calls)
        machine.teardown(self)

    return type(machine.__name__, (machine,), {"teardown": teardown})


@pytest.fixture(scope="module")
def played() -> Played:
    """Play the ci budget on the reference: half of it in layout, all of what servers do, an eighth of it in core."""
    effort, found = EFFORTS["ci"], Played()
    for kind in KINDS:
        for profile in PROFILES:
            found[kind, profile] = one = session(kind, profile)
            for machine, examples, steps in machines(kind, effort):
                part = 8 if profile == "core" else 1 if machine in SERVERS else 2
                play(bind(telling(machine), one, kind, {}), examples // part, steps, 0)
    return found


def test_the_reference_never_diverges(played: Played):
    for one in played.values():
        assert one.failures == {}
        assert one.errors == {}
        assert one.reads_different == 0


def test_every_rule_fires(played: Played):
    wanted = {f"{m.__name__}.{rule}" for m in MACHINES for rule in rules_of(m)}
    assert len(wanted) > 50
    for number in range(1, 4):  # what the traces of one seed miss, those of another have
        if not (missing := wanted - fired_by(played)):
            break
        for kind in KINDS:
            for machine, examples, steps in machines(kind, EFFORTS["ci"]):
                if any(name.startswith(f"{machine.__name__}.") for name in missing):
                    play(bind(machine, played[kind, "layout"], kind, {}), examples, steps, number)
    assert wanted - fired_by(played) == set()


def fired_by(played: Played) -> set[str]:
    """List the rules that fired several times."""
    return {name for one in played.values() for name, times in one.rules.items() if times >= 3}


def test_every_act_of_a_server_is_played(played: Played):
    times = sum((one.rules for one in played.values()), Counter[str]())
    acts = {f"{m.__name__}.{act}" for m in SERVERS for act in m.ACTS}
    assert len(acts) > 15
    assert {act for act in acts if times[act] < 3} == set()


def not_arisen(played: Played, kind: Kind) -> set[str]:
    arose = set(played[kind, "layout"].exercised) | set(played[kind, "core"].exercised)
    return set(played[kind, "layout"].clauses) - arose


def rarely_asked(clauses: set[str]) -> set[str]:
    """List the clauses that few calls of a trace speak of."""
    return {clause for clause in clauses if clause.startswith(("PERS-", "REUSE-", "DEC-"))}


def test_every_clause_arises_without_a_stored_trace(played: Played):
    for kind in KINDS:
        missing = not_arisen(played, kind)
        if missing - rarely_asked(missing):  # what the traces of one seed miss, those of another have
            for machine, examples, steps in machines(kind, EFFORTS["ci"]):
                play(bind(machine, played[kind, "layout"], kind, {}), examples, steps, 1)
            missing = not_arisen(played, kind)
        rare = rarely_asked(missing)
        assert missing - rare == set(), kind
        assert all(load_clauses()[clause].examples for clause in rare)  # which are played on every target


def test_every_call_of_the_language_is_made(played: Played):
    assert set(CALLS) == VERBS


def test_core_asks_nothing_that_only_our_design_refuses(played: Played):
    layout_only = {
        "ContractMachine.odd_argument",
        "RowsContractMachine.odd_argument",
        "RowsContractMachine.pad_wrongly",
        "RecurrentContractMachine.spoilt",
        "RecurrentContractMachine.forbidden",
        "RecurrentContractMachine.misfit",
    }
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
        if attribute.name not in ("kind", "seed", "rows", "conv"):
            assert len({getattr(c, attribute.name) for c in configs}) > 1, attribute.name
    assert any(c.problem for c in configs)


class Doubles(ReferenceAdapter):
    """Answers twice what it trims."""

    def trim(self, cache: Any, n: Any, bypass: bool) -> int | None:
        return 2 * (super().trim(cache, n, bypass) or 0)


def test_in_raise_mode_a_divergence_is_a_failed_test_with_the_shortest_trace():
    machine = bind(ContractMachine, session("full", "layout", Doubles), "full", {}, raising=True)
    with pytest.raises(ConformanceFailure) as caught:
        play(machine, 100, 6, 0)
    assert caught.value.clause == "TRIM-3"
    assert "expected 1, observed 2" in str(caught.value)


def test_in_record_mode_a_divergence_ends_the_trace_and_the_others_go_on():
    one = session("full", "layout", Doubles)
    play(bind(ContractMachine, one, "full", {}), 50, 10, 0)
    assert set(one.failures) == {"TRIM-3"}
    assert one.exercised["OWN-3"] > 0


class Lacks(ReferenceAdapter):
    """Can append and show its fetch, and nothing else; that it keeps rows is what a group is."""

    capabilities = frozenset({"rows"})

    def __getattribute__(self, name: str) -> Any:
        serial = ("trim", "clone", "reset", "state", "mask", "fetch_dense", "trim_layers", "can_trim_layers")
        rows = ("merge", "extract", "hand_back", "filter", "prepare", "finalize", "begin_prefill", "commit_prefill")
        if name in (*serial, *rows):
            raise AssertionError(f"{name} was asked of a cache that lacks it")
        return super().__getattribute__(name)


class LacksAllButAState(Lacks):
    """Can advance, and nothing else."""

    capabilities = frozenset({"rows", "recurrent"})


@pytest.mark.parametrize("kind", KINDS)
def test_a_cache_is_asked_nothing_that_it_lacks(kind: Kind):
    for machine, _, _ in machines(kind, EFFORTS["ci"]):
        one = session(kind, "core", LacksAllButAState if kind in RECURRENT_KINDS else Lacks)
        play(bind(machine, one, kind, {}), 25, 10, 0)
        assert (one.failures, dict(one.errors)) == ({}, {})
        assert one.calls > 100


def test_recurrent_layers_are_of_every_kernel_and_never_of_arbitrary_bits():
    Recorder.told = []
    for number in range(3):
        play(bind(RecurrentRecorder, session("recurrent", "layout"), "recurrent", {}), 80, 1, number)
    configs = [trace.config for trace in Recorder.told]
    assert {1, 2, 3, 4, 5} <= {config.kernel for config in configs}
    assert {config.stamp for config in configs} == {"code"}  # sums of slots are exact for these alone
    assert any(config.problem for config in configs)


class RecurrentRecorder(RecurrentContractMachine):
    """Keeps every trace of recurrent layers that it plays."""

    def teardown(self) -> None:
        Recorder.told.append(Trace(self.config, tuple(self.calls)))
        super().teardown()


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


def test_groups_are_of_no_and_of_several_rows_and_have_one_sequence_in_a_row():
    Recorder.told = []
    play(bind(RowsRecorder, session("ring_rows", "core"), "ring_rows", {}), 60, 1, 0)
    configs = [trace.config for trace in Recorder.told]
    assert {config.row_count for config in configs} == {0, 1, 2, 3, 4}
    assert {config.batch for config in configs} == {1}
    assert len({config.window for config in configs}) > 3


class RowsRecorder(RowsContractMachine):
    """Keeps every trace of groups that it plays."""

    def teardown(self) -> None:
        Recorder.told.append(Trace(self.config, tuple(self.calls)))
        super().teardown()


@settings(max_examples=300, deadline=None, database=None)
@given(st.data(), st.integers(1, 4), st.sampled_from((None, 1, 4)), st.booleans())
def test_a_padded_prefill_adds_up(data: st.DataObject, count: int, window: int | None, left: bool):
    plan = data.draw(padded(count, window, left=left))
    total = sum(plan.chunks)
    assert min(plan.chunks) >= 1
    parts = zip(plan.left, plan.prompts, plan.right, strict=True)
    assert {sum(part) for part in parts} == {total}
    assert min(*plan.left, *plan.prompts, *plan.right) >= 0
    assert left or not any(plan.left)


def test_padded_prefills_are_of_every_shape():
    seen: list[Padded] = []

    @settings(max_examples=400, deadline=None, database=None, phases=[Phase.generate])
    @seed(0)
    @given(padded(3, 4, left=True))
    def collect(plan: Padded) -> None:
        seen.append(plan)

    collect()
    assert {0, 1, 3, 4, 5, 9} <= {prompt for plan in seen for prompt in plan.prompts}
    shapes = {
        "left": [p for p in seen if any(p.left) and not any(p.right)],
        "right": [p for p in seen if any(p.right) and not any(p.left)],
        "both": [p for p in seen if any(p.right) and any(p.left)],
        "none": [p for p in seen if not any((*p.left, *p.right))],
        "a last chunk that is padding for every row": [p for p in seen if max(p.lengths) < sum(p.chunks[:-1])],
        "a first chunk that is": [p for p in seen if min(p.left) >= p.chunks[0]],
        "chunks of one": [p for p in seen if set(p.chunks) == {1} and len(p.chunks) > 2],
        "one chunk": [p for p in seen if len(p.chunks) == 1],
        "chunks below and above the window": [p for p in seen if 1 in p.chunks and max(p.chunks) > 4],
    }
    assert [shape for shape, plans in shapes.items() if not plans] == []


def test_rows_of_a_prefill_are_done_when_their_prompt_is():
    plan = Padded(prompts=(3, 0, 2), left=(0, 1, 2), right=(2, 4, 1), chunks=(2, 3))
    assert plan.lengths == (3, 1, 4)
    assert (plan.done(0), plan.done(1), plan.done(3), plan.done(4)) == ((), (1,), (0, 1), (0, 1, 2))
    kept = plan.kept((2, 0))
    assert (kept.prompts, kept.left, kept.right, kept.chunks) == ((2, 3), (2, 0), (1, 2), (2, 3))
