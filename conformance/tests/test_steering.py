"""Behind a listed failure exploration goes on: a second planted fault is found, and a listed one hides no other."""

from collections.abc import Iterable
from typing import Any, cast

import pytest
from attrs import evolve

from kvlaw.conformance import session as sessions
from kvlaw.conformance.adapter import AdapterSubject
from kvlaw.conformance.check import Plan, check, counted
from kvlaw.conformance.corpus import example_entries
from kvlaw.conformance.expectations.detours import Detour
from kvlaw.conformance.expectations.entries import Expected
from kvlaw.conformance.expectations.marks import mark_of
from kvlaw.conformance.expectations.outcomes import accounted
from kvlaw.conformance.expectations.witnesses import replayed
from kvlaw.conformance.faults.parts import GroupAdapter
from kvlaw.conformance.faults.registry import load_faults
from kvlaw.conformance.machines.base import bind, play
from kvlaw.conformance.machines.contract import ContractMachine
from kvlaw.conformance.machines.protocol import ProtocolMachine
from kvlaw.conformance.machines.rows_contract import RowsContractMachine
from kvlaw.conformance.machines.rows_protocol import RowsProtocolMachine
from kvlaw.conformance.machines.server import RowsServerMachine, ServerMachine
from kvlaw.conformance.result import CheckResult, ClauseResult
from kvlaw.conformance.session import Session
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.reference.layout import Cache, Planes, Read, Refusal
from kvlaw.reference.oracle import Oracle
from kvlaw.spec.clauses import load_clauses
from kvlaw.spec.config import Kind
from kvlaw.spec.observations import StateView
from kvlaw.spec.text_form import parse, write
from kvlaw.spec.trace import Trace

FAULTS = load_faults()


def constantly(answer: Any) -> Any:
    """Make a function that gives one answer, whatever it is asked."""

    def give(*_: object) -> Any:
        return answer

    return give


def trace(text: str) -> Trace:
    return parse(text).trace


def with_faults(*names: str) -> type[ReferenceAdapter]:
    """Make one target with several planted faults, of caches or of groups."""
    parts = [FAULTS[name].adapter for name in names]
    groups = [a.__dict__["group_type"] for a in parts if "group_type" in a.__dict__]
    caches = [a.__dict__["cache_type"] for a in parts if "cache_type" in a.__dict__]
    made: dict[str, Any] = {"group_type": type("Groups", tuple(groups), {})} if groups else {}
    made |= {"cache_type": type("Caches", tuple(caches), {})} if caches else {}
    base: type[ReferenceAdapter] = GroupAdapter if groups else ReferenceAdapter
    return cast("type[ReferenceAdapter]", type("Both", (base,), made))


def session(adapter: type[ReferenceAdapter], kind: Kind = "ring", listed: Iterable[tuple[str, str]] = ()) -> Session:
    """Open a session in which failures are listed, each by its clause and its trace."""
    subject = AdapterSubject(adapter())
    found = Session(subject, "core", counted("core", kind, subject.capabilities), "a cache", arithmetic=True)
    entries = [Expected("a cache", clause, trace(text)) for clause, text in listed]
    states = [(w.state, w.why) for w in replayed({kind: found}, entries, "core", "a cache")]
    assert states == [("holds", "")] * len(entries)
    return found


class CountsOneByte(ReferenceAdapter):
    """Says that it takes one byte."""

    def show(self, cache: Any) -> StateView:
        view = super().show(cache)
        return evolve(view, nbytes=1) if view.nbytes else view


class CountsOneByteAndTrims(CountsOneByte):
    """And trims a ring that has wrapped."""

    cache_type = FAULTS["trims-a-wrapped-ring"].adapter.cache_type


TRIM_4 = ("TRIM-4", "ring window=1 ; decode ; trim 1")
GROW_6 = ("GROW-6", "ring window=2 ; decode")
BLIND = "last-query-misses-itself"
CROSSING, FULL = ("VIS-5", "ring window=1 ; window 2"), ("VIS-5", "ring window=1 ; decode ; window 2")
ALONE = "ring window=3 ; window 4 ; trim 1"


def test_a_wrong_report_hides_all_behind_it_until_it_is_listed():
    blind = session(CountsOneByteAndTrims)
    blind.play(trace(ALONE))
    assert set(blind.failures) == {"GROW-6"}
    found = session(CountsOneByteAndTrims, listed=[GROW_6])
    found.play(trace(ALONE))
    assert set(found.failures) == {"TRIM-4"}
    assert write(found.failures["TRIM-4"].trace) == ALONE


def test_what_the_trace_of_a_listed_report_shows_behind_it_is_the_same_failure():
    """Its clause and its trace are those of the entry, so that nobody could list it beside that."""
    others = [
        ("PREC-6", "ring window=1 bits=4 start=0 ; decode ; reset"),
        ("PREC-2", "ring window=1 bits=4 start=0 ; decode ; reset ; decode"),
        ("PREC-10", "ring window=1 bits=4 start=1 ; decode ; reset"),
    ]
    kept = ("PREC-1", "ring window=1 bits=4 start=2 ; window 2 ; reset ; decode")
    found = session(FAULTS["reset-keeps-the-codec"].adapter, listed=[*others, kept])
    of_it = [known for known in found.steering.known if known.clause == "PREC-1"]
    assert [known.trigger.field for known in of_it] == ["storage", "form"]
    assert len({known.name for known in of_it}) == 1
    found.play(trace(kept[1]))
    assert set(found.failures) == set()


def test_a_report_is_masked_only_for_the_clause_and_the_field_that_are_listed():
    class AlsoClamps(CountsOneByte):
        def show(self, cache: Any) -> StateView:
            view = super().show(cache)
            return evolve(view, offset=1) if (view.offset or 0) > 1 else view

    found = session(AlsoClamps, listed=[GROW_6])
    found.play(trace("ring window=3 ; window 2"))
    assert [f.divergence.field for f in found.failures.values()] == ["offset"]


def test_a_call_that_sets_off_a_listed_failure_is_left_out_and_the_rest_is_played():
    """B09 in front of B01's kin: a trim of a wrapped ring, then values in the order of the ring."""
    both = with_faults("trims-a-wrapped-ring", "leaves-values-in-ring-order")
    whole = trace("ring window=3 ; window 3 ; decode ; trim 1 ; window 1")
    blind = session(both)
    blind.play(whole)
    assert set(blind.failures) == {"TRIM-4"}
    found = session(both, listed=[TRIM_4])
    found.play(whole)
    assert set(found.failures) == {"VIS-6"}
    assert write(found.failures["VIS-6"].trace) == "ring window=3 ; window 3 ; decode ; window 1"


def test_a_trace_goes_around_several_listed_failures_one_after_the_other():
    both = with_faults("trims-a-wrapped-ring", "last-query-misses-itself", "leaves-values-in-ring-order")
    whole = trace("ring window=3 ; window 4 ; decode x3 ; trim 1 ; window 2 ; decode ; window 1")
    found = session(both, listed=[TRIM_4, CROSSING, FULL])
    found.play(whole)
    assert set(found.failures) == {"VIS-6"}
    assert found.steering.detours == 3


def test_the_call_that_did_the_damage_is_left_out_where_a_later_read_shows_it():
    both = with_faults("steps-back-one-too-far", "leaves-values-in-ring-order")
    whole = trace("ring window=4 ; window 3 ; trim 1 ; decode ; decode x2 ; window 1")
    listed = ("TRIM-2", "ring window=3 ; window 2 ; trim 1 ; decode")
    assert set(_played(session(both), whole).failures) == {"TRIM-2"}
    assert set(_played(session(both, listed=[listed]), whole).failures) == {"VIS-6"}


def _played(found: Session, whole: Trace) -> Session:
    found.play(whole)
    return found


def of(cache: type[Cache]) -> type[ReferenceAdapter]:
    return type("Of", (ReferenceAdapter,), {"cache_type": cache})


@pytest.mark.parametrize(
    ("text", "listed", "unlisted"),
    [
        ("ring window=4 ; window 6 ; decode", [CROSSING], set()),  # the listed one, in a larger ring
        ("ring window=4 ; window 6 w=5", [CROSSING], set()),  # and asked in another way, which does not matter
        ("ring window=4 ; begin_round ; window 6", [CROSSING], set()),
        ("ring window=4 ; clone as c1 ; window 6 on c1", [CROSSING], set()),
        ("ring window=4 bits=8 dtype=f16 batch=2 ; window 6", [CROSSING], set()),
        ("ring window=4 ; decode x4 ; window 2", [CROSSING], set()),  # behind the wrap it looks the same
        ("ring window=4 ; decode x4 ; window 2", [CROSSING, FULL], set()),
        ("ring window=4 ; window 6", [FULL], set()),
        ("ring window=4 ; window 6", [], {"VIS-5"}),
    ],
)
def test_a_listed_failure_is_told_from_another_one_of_its_clause(
    text: str, listed: list[tuple[str, str]], unlisted: set[str]
):
    assert set(_played(session(with_faults(BLIND), listed=listed), trace(text)).failures) == unlisted


class OneTooWide(Cache):
    """Windows let one position too many in, decodes do not."""

    def sees(self, length: int, phase: Any, query: int, column: int, window: int | None) -> bool:
        own = super().sees(length, phase, query, column, window)
        return own or (phase == "window" and super().sees(length, phase, query, column + self.more, window))

    @property
    def more(self) -> int:
        return 1


class LooksAheadLater(OneTooWide):
    """The first window lets one position too many in, later ones the next: another fault, behind the first."""

    @property
    def more(self) -> int:
        return -1 if self.offset else 1


WIDE = ("RING-11", "ring window=2 ; window 3")
TAUGHT = [
    ("ring window=3 ; window 5", set[str]()),  # in a larger ring
    ("ring window=2 ; decode ; window 2", set[str]()),  # VIS-2, in a trace that only passes the window
    ("ring window=3 ; decode x4 ; window 2", set[str]()),  # behind the wrap
    ("ring window=3 ; clone as c1 ; decode ; decode on c1 ; window 3", set[str]()),  # where ids have gaps
]


@pytest.mark.parametrize(("text", "unlisted"), TAUGHT)
def test_one_fault_that_breaks_several_clauses_is_listed_once(text: str, unlisted: set[str]):
    assert _played(session(of(OneTooWide)), trace(text)).failures, "it has to fail where nothing is listed"
    assert set(_played(session(of(OneTooWide), listed=[WIDE]), trace(text)).failures) == unlisted


def test_one_that_looks_otherwise_is_another_one():
    """Where the listed fault lets an old position in, another that lets a coming one in is found at the same call."""
    text = trace("ring window=3 ; decode x4 ; window 2")
    assert set(_played(session(of(LooksAheadLater), listed=[WIDE]), text).failures) == {"VIS-2"}
    assert not _played(session(of(OneTooWide), listed=[WIDE]), text).failures


def test_a_clause_that_a_listed_failure_breaks_as_well_is_no_pass(monkeypatch: pytest.MonkeyPatch):
    few = [e for e in example_entries() if e.trace.config.kind == "ring"][:12]
    monkeypatch.setattr("kvlaw.conformance.parts.entries_for", constantly(few))
    monkeypatch.setattr("kvlaw.conformance.parts.sweep", constantly(()))
    entry = Expected("a cache", WIDE[0], trace(WIDE[1]), "", "known")
    plan = Plan("a cache", ("ring",), "core", "quick", modelled=True, expected=(entry,))
    blind = check(evolve(plan, expected=()), AdapterSubject(of(OneTooWide)()))
    assert {"VIS-2", "RING-11"} <= {c.clause.id for c in blind.failed}
    found = check(plan, AdapterSubject(of(OneTooWide)()))
    outcomes = {c.clause.id: (c.outcome, c.why) for c in found.clauses}
    assert not found.failed
    assert outcomes["VIS-2"] == ("expected fail", "broken as RING-11, which is listed")


def test_poison_is_left_out_behind_a_listed_failure_of_borrowed_arrays():
    class Borrows(Cache):
        def append_window(self, keys: Any, values: Any, dtype: str, window: Any = None, array: Any = False) -> Read:
            read = super().append_window(keys, values, dtype, window, array)
            if self.offset == keys.shape[2]:
                self.planes = Planes(keys, values)
            return read

    both = of(type("Both", (Borrows, FAULTS["trims-a-wrapped-ring"].adapter.cache_type), {}))
    whole = trace("ring window=2 poison ; window 2 ; decode ; trim 1")
    blind = _played(session(both), whole)
    assert set(blind.failures) == {"OWN-8"}
    listed = ("OWN-8", write(blind.failures["OWN-8"].trace))
    found = _played(session(both, listed=[listed]), whole)
    assert set(found.failures) == {"TRIM-4"}
    assert not found.failures["TRIM-4"].trace.config.poison


ROWS = {
    "an-empty-row-cannot-be-extracted": ("ROWS-14", "full_rows rows=1 ; extract 0 as e1"),
    "filter-keeps-a-last-row": ("ROWS-17", "full_rows rows=1 ; filter none"),
}


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        (
            "an-empty-row-cannot-be-extracted",
            "every-row-reads-the-first",
            "full_rows ; extract 0 as e1 ; look c0 ; decode",
        ),
        (
            "filter-keeps-a-last-row",
            "every-row-reads-the-first",
            "full_rows ; filter none ; prepare lengths=1,1 right=0,0 ; decode",
        ),
        (
            "an-empty-row-cannot-be-extracted",
            "masks-by-the-longest-row",
            "full_rows rows=1 ; extract 0 as e0 ; decode ; cache as s ; window 3 on s ; merge c0 s as g ; decode on g",
        ),
    ],
)
def test_two_faults_of_groups(first: str, second: str, text: str):
    if second not in FAULTS:
        second = next(name for name, f in FAULTS.items() if f.adapter.__name__ == "MasksByTheLongestRowAdapter")
    both = with_faults(first, second)
    clause, witness = ROWS[first]
    assert set(_played(session(both, "full_rows"), trace(text)).failures) == {clause}
    found = _played(session(both, "full_rows", [(clause, witness)]), trace(text))
    assert set(found.failures) == {FAULTS[second].breaks}


# Machines.


def machine_finds(
    adapter: type[ReferenceAdapter], kind: Kind, machine: Any, listed: list[tuple[str, str]], examples: int
) -> Session:
    found = session(adapter, kind, listed)
    play(bind(machine, found, kind, {}), examples, 8, 0)
    return found


def test_a_machine_goes_on_behind_a_listed_failure(monkeypatch: pytest.MonkeyPatch):
    """Every window has a blind last query; behind that a machine that decodes instead meets a second fault."""
    both = with_faults(BLIND, "takes-the-oldest-twice")
    found = machine_finds(both, "ring", ContractMachine, [CROSSING, FULL], 30)
    assert "VIS-3" in found.failures
    assert found.steering.detours > 0
    monkeypatch.setattr(sessions, "MOST_DETOURS", 0)
    ends = machine_finds(both, "ring", ContractMachine, [CROSSING, FULL], 30)
    assert sum(found.exercised.values()) > 1.3 * sum(ends.exercised.values())


@pytest.mark.parametrize(
    ("kind", "machine"),
    [
        ("ring", ProtocolMachine),
        ("ring", ServerMachine),
        ("full_rows", RowsProtocolMachine),
        ("full_rows", RowsContractMachine),
        ("full_rows", RowsServerMachine),
    ],
)
def test_every_machine_bears_detours(kind: Kind, machine: Any, monkeypatch: pytest.MonkeyPatch):
    """A target of which one call in five fails somewhere: no machine stumbles over what a detour left out."""
    real = Session.note

    def note(self: Session, config: Any, calls: Any, step: Any, *rest: Any, **named: Any) -> Any:
        asked = real(self, config, calls, step, *rest, **named)
        if asked is None and calls and not step.ends and len(calls) % 5 == 4:
            gone = len(calls) * 7 % len(calls) if len(calls) > 1 else 0
            return Detour(Trace(config, (*calls[:gone], *calls[gone + 1 :])), mark_of(calls[gone], Oracle().world))
        return asked

    def take(self: Any, step: Any) -> None:
        original(self, step)
        self.over = self.over or self.detour is not None

    original = machine.take
    monkeypatch.setattr(Session, "note", note)
    monkeypatch.setattr(machine, "take", take)
    found = machine_finds(ReferenceAdapter, kind, machine, [], 12)
    assert found.failures == {}  # of the reference, whatever is left out of a trace
    assert found.calls > 60


def test_a_listed_failure_costs_a_small_factor_of_calls():
    both = with_faults("trims-a-wrapped-ring")
    plain = machine_finds(of(Cache), "ring", ContractMachine, [], 30)
    listed = machine_finds(both, "ring", ContractMachine, [TRIM_4], 30)
    assert listed.failures == {}
    assert listed.calls < 2 * plain.calls


# A whole check.


def test_a_check_tells_listed_failures_from_others(monkeypatch: pytest.MonkeyPatch):
    few = [e for e in example_entries() if e.trace.config.kind == "ring"][:12]
    few += [FAULTS[name].entry for name in ("trims-a-wrapped-ring", "takes-the-oldest-twice")]
    monkeypatch.setattr("kvlaw.conformance.parts.entries_for", constantly(few))
    monkeypatch.setattr("kvlaw.conformance.parts.sweep", constantly(()))
    entry = Expected("a cache", "TRIM-4", trace(TRIM_4[1]), "outcome: ok", "known")
    plan = Plan("a cache", ("ring",), "core", "quick", modelled=True, expected=(entry,))
    found = check(plan, AdapterSubject(with_faults("trims-a-wrapped-ring", "takes-the-oldest-twice")()))
    (clause,) = [c for c in found.clauses if c.outcome == "expected fail"]
    assert clause.clause.id == "TRIM-4"
    assert [w.state for w in clause.expected] == ["holds"]
    assert clause.expected[0].met > 0
    assert "VIS-3" in {c.clause.id for c in found.failed}
    assert (found.verdict, found.exit_code) == ("violations", 1)
    assert found.to_json()["clauses"]["TRIM-4"]["expected"] == [entry.id]


def test_what_a_listed_failure_keeps_from_being_reached_is_said():
    class NeverLoads(ReferenceAdapter):
        def load(self, *arguments: Any, **named: Any) -> Any:
            raise Refusal("no file is loaded")

    blind = session(NeverLoads)
    blind.play(trace("ring window=2 ; decode ; save as f1 ; load f1 as c1"))
    ((clause, failure),) = blind.failures.items()
    found = session(NeverLoads, listed=[(clause, write(failure.trace))])
    found.play(trace("ring window=2 ; window 3 ; save as f1 ; load f1 as c1 ; decode on c1"), about="PERS-6")
    assert found.failures == {}
    assert found.steering.hidden["PERS-6"] == {clause}  # what the trace is stored for
    result = accounted(_unreached("PERS-6"), found.take(), ())
    (only,) = result.clauses
    assert (only.behind, only.why) == ((clause,), f"not reached behind {clause}")
    assert result.verdict == "conformant"
    assert accounted(_unreached("PERS-6"), blind.take(), ()).verdict == "incomplete"


def _unreached(clause: str) -> CheckResult:
    return CheckResult("a cache", "core", "quick", 0, {}, [ClauseResult(load_clauses()[clause], "not exercised")])
