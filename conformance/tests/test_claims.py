"""Claims of hand-written traces: each is kept by the run that it tells, and by no other."""

import pytest

from kvlaw.conformance.adapter import AdapterSubject
from kvlaw.conformance.claims import Unkept, unkept
from kvlaw.conformance.lockstep import Lockstep
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.spec.clauses import load_clauses
from kvlaw.spec.text_form import parse


def claims_not_kept(text: str) -> list[Unkept]:
    written = parse(text)
    lockstep = Lockstep(AdapterSubject(ReferenceAdapter()), "layout", frozenset(load_clauses()))
    return unkept(written, lockstep.run(written.trace))


@pytest.mark.parametrize(
    "claim", ["fetches t1..t4", "columns 4", "offset 4", "write_index 4", "holds t1..t4", "ok", "can_trim none"]
)
def test_a_claim_about_a_dense_fetch_is_kept(claim: str) -> None:
    assert claims_not_kept(f"ring window=3 ; dense 4 -> {claim}") == []


@pytest.mark.parametrize(
    ("claim", "shown"),
    [
        ("fetches t2..t4", "t1..t4"),
        ("fetches t4,t1..t3", "t1..t4"),
        ("fetches nothing", "t1..t4"),
        ("columns 3", "4"),
        ("refused", "ok"),
    ],
)
def test_a_wrong_claim_about_a_dense_fetch_says_what_was_shown(claim: str, shown: str) -> None:
    assert claims_not_kept(f"ring window=3 ; dense 4 -> {claim}") == [Unkept(1, "dense 4", claim, shown)]


def test_a_fetch_may_be_wider_than_what_its_queries_see() -> None:
    text = "ring window=3 ; decode x4 ; window 2 -> fetches t3..t6 and sees t3..t5 | t4..t6"
    assert claims_not_kept(text) == []


def test_a_decode_fetches_in_physical_order() -> None:
    assert claims_not_kept("ring window=3 ; decode x4 ; decode -> fetches t4,t5,t3 and sees t3..t5") == []


def test_every_row_of_a_fetch_is_compared() -> None:
    assert claims_not_kept("full batch=2 ; dense 2 -> fetches t1,t2") == []


@pytest.mark.parametrize("claim", ["1", "refused", "offset 6", "holds t1..t6"])
def test_a_refused_call_answers_nothing_but_shows_its_state(claim: str) -> None:
    found = claims_not_kept(f"ring window=4 ; window 6 ; trim 1 -> {claim}")
    assert [(u.claimed, u.seen.split()[0]) for u in found] == ([("answer 1", "refused")] if claim == "1" else [])


@pytest.mark.parametrize("claim", ["sees t1..t2", "order t1..t2", "mask none"])
def test_a_refused_append_sees_nothing(claim: str) -> None:
    found = claims_not_kept(f"full ; window 2 ; decode malformed=lengths -> {claim}")
    assert [u.claimed for u in found] == [claim]
