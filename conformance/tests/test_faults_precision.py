"""Planted faults of storage policies: each clause has one and is charged first; the base of the faults is right."""

from functools import cache

import pytest

from kvlaw.conformance.adapter import AdapterSubject
from kvlaw.conformance.corpus import load_corpus
from kvlaw.conformance.faults.hunt import Catch, catch, reference_fails
from kvlaw.conformance.faults.planted_precision import BoundaryFault
from kvlaw.conformance.faults.registry import load_faults, subject
from kvlaw.conformance.lockstep import Lockstep
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.spec.clauses import load_clauses
from kvlaw.spec.text_form import parse

CLAUSES = load_clauses()
NEW = {clause.id for clause in CLAUSES.values() if clause.since == "1.1"}
FAULTS = {
    name: planted
    for name, planted in load_faults().items()
    if planted.breaks in NEW and not planted.trace.config.is_rows
}


@cache
def caught(name: str) -> Catch:
    return catch(FAULTS[name], CLAUSES)


def test_the_clauses_of_storage_policies_are_those_of_the_issue() -> None:
    assert {f"PREC-{n}" for n in range(1, 16)} | {f"READ-{n}" for n in range(10, 16)} | {"GROW-9"} == NEW


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_each_fault_is_charged_first_to_the_clause_that_it_breaks(name: str) -> None:
    found = caught(name)
    assert found.word == "caught", found
    assert found.calls == len(FAULTS[name].trace.calls)  # the last call of the shortest trace shows it
    assert reference_fails(FAULTS[name].trace, CLAUSES) == ""


def test_every_clause_has_a_fault_and_a_must_one_is_caught_in_core() -> None:
    assert {planted.breaks for planted in FAULTS.values()} == NEW
    for planted in FAULTS.values():
        level = CLAUSES[planted.breaks].level
        assert planted.profile == "layout" or level == "MUST", planted.name
    core = {planted.breaks for planted in FAULTS.values() if planted.profile == "core"}
    assert core == {clause_id for clause_id in NEW if CLAUSES[clause_id].level == "MUST"}


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_a_shorter_trace_does_not_show_it(name: str) -> None:
    """The traces are shortest: without its last call nothing diverges."""
    trace = FAULTS[name].trace
    if not trace.calls:
        return
    clauses = frozenset(c.id for c in CLAUSES.of_profile(FAULTS[name].profile).values())
    lockstep = Lockstep(subject(name), FAULTS[name].profile, clauses)
    steps = [lockstep.open(trace.config), *(lockstep.step(call) for call in trace.calls[:-1])]
    assert not [step.divergences for step in steps if step.divergences]


def test_the_corpus_holds_their_traces() -> None:
    stored = {entry.id: entry for entry in load_corpus()}
    for name, planted in FAULTS.items():
        assert stored[name] == planted.entry


def test_the_base_of_the_faults_converts_as_the_reference_does() -> None:
    """``BoundaryFault`` is no fault by itself: what a fault overrides is all that is wrong with it."""

    class Right(ReferenceAdapter):
        cache_type = BoundaryFault

    text = (
        "ring window=3 bits=4 start=4 ; window 3 ; decode x2 ; trim 1 bypass ; window 2 ; clone as c1 ; reset ; decode"
    )
    clauses = frozenset(c.id for c in CLAUSES.of_profile("layout").values())
    for trace in (text, "full bits=4 start=0 ; decode ; trim 1 ; decode", "full bits=3 start=never ; window 4"):
        steps = Lockstep(AdapterSubject(Right()), "layout", clauses).run(parse(trace).trace)
        assert steps[-1].divergences == (), trace
