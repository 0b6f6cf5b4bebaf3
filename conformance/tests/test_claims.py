"""Claims of hand-written traces: each is kept by the run that it tells, and by no other."""

import pytest

from kvlaw.conformance.adapter import AdapterSubject
from kvlaw.conformance.claims import Unkept, unkept, unobserved
from kvlaw.conformance.interface import Adapter
from kvlaw.conformance.lockstep import Lockstep, Step
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.spec.clauses import load_clauses
from kvlaw.spec.observations import StateView
from kvlaw.spec.text_form import Written, parse


def walk(written: Written, adapter: Adapter) -> tuple[Step, ...]:
    return Lockstep(AdapterSubject(adapter), "layout", frozenset(load_clauses())).run(written.trace)


def claims_not_kept(text: str) -> list[Unkept]:
    written = parse(text)
    return unkept(written, walk(written, ReferenceAdapter()))


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


LIST = "full ; list full + ring window=4 as l"


@pytest.mark.parametrize(
    "claim",
    [
        "layer 0 sees t1..t6 and layer 1 sees t3..t6",
        "layer 0 fetches t1..t6 and layer 1 fetches t1..t6",
        "layer 0 mask causal and layer 1 mask array",
        "layer 0 identity full and layer 1 identity ring(window=4,sinks=0)",
        "layer 1 holds t1..t6 and layer 1 columns 6",
        "layer 1 size 4 and layer 0 size 6",
        "layer 0 can_trim 0..6 and layer 1 can_trim none and can_trim none",
        "offset 6 and layer 1 offset 6",
        "form dense and storage dense",
        "fetches t1..t6",
    ],
)
def test_claims_about_layers_are_kept(claim: str) -> None:
    assert claims_not_kept(f"{LIST} ; window 6 on l -> {claim}") == []


@pytest.mark.parametrize(
    ("claim", "seen"),
    [
        ("sees t1..t6", "layer 1: t3..t6"),
        ("sees t3..t6", "layer 0: t1..t6"),
        ("layer 1 sees t1..t6", "layer 1: t3..t6"),
        ("layer 0 fetches t2..t6", "layer 0: t1..t6"),
        ("mask none", "layer 0: causal"),
        ("layer 1 mask causal", "layer 1: array"),
        ("columns 9", "layer 0: 256"),
        ("layer 1 holds t3..t6", "layer 1: t1..t6"),
        ("layer 1 identity full", "layer 1: ring(window=4,sinks=0)"),
        ("identity full", "layer 1: ring(window=4,sinks=0)"),
        ("size 6", "layer 1: 4"),
        ("offset 7", "layer 0: 6"),
        ("can_trim 0..6", "can trim ()"),
    ],
)
def test_a_wrong_claim_about_layers_is_not_kept(claim: str, seen: str) -> None:
    found = claims_not_kept(f"{LIST} ; window 6 on l -> {claim}")
    assert [(u.claimed, u.seen) for u in found] == [(claim, seen)]


def test_reads_and_copies_of_a_list_have_its_layers() -> None:
    text = f"{LIST} ; window 6 as r on l ; clone as m on l ; decode on m -> layer 1 sees t4..t7 ; attend r -> "
    assert claims_not_kept(f"{text} layer 0 sees t1..t6 and layer 1 sees t3..t6") == []
    assert [u.seen for u in claims_not_kept(f"{text} layer 1 sees t1..t6")] == ["layer 1: t3..t6"]


def test_a_list_that_refuses_is_asked_as_a_whole_and_shows_its_layers() -> None:
    text = f"{LIST} ; window 6 on l ; trim 1 on l -> refused and"
    assert claims_not_kept(f"{text} offset 6 and layer 1 offset 6 and layer 1 columns 6") == []
    assert [u.seen for u in claims_not_kept(f"{text} layer 0 offset 5")] == ["layer 0: 6"]


class Shy(ReferenceAdapter):
    """Shows no columns."""

    capabilities = ReferenceAdapter.capabilities - {"planes", "columns", "attend"}

    def show(self, cache: object) -> StateView:
        return StateView(offset=super().show(cache).offset)

    def fetched(self, read: object) -> None:
        return None


@pytest.mark.parametrize("claim", ["sees t1..t3", "fetches t1", "holds t1", "columns 3", "size 2"])
def test_what_is_not_observed_is_told_and_not_broken(claim: str) -> None:
    for text in (f"full ; window 3 -> {claim}", f"full ; list full + full as l ; window 3 on l -> {claim}"):
        written = parse(text)
        steps = walk(written, Shy())
        assert unkept(written, steps) == []
        assert [u.claimed for u in unobserved(written, steps)] == [claim]
        assert unobserved(written, walk(written, ReferenceAdapter())) == []


WAITING = "ring_rows window=4 ; window 2 ; prepare lengths=0,1 right=1,0 ; window 1"
"""Row 0 holds t1,t2 and gets no token in the last append, row 1 holds t3,t4 and gets t6."""


@pytest.mark.parametrize(
    "claim",
    [
        "row 0 offset 2 and row 1 offset 3",
        "row 1 sees t3,t4,t6 and row 1 order t3,t4,t6",
        "sees t3,t4,t6",
        "row 0 fetches t1,t2,_ and row 1 fetches t3,t4,t6",
        "row 0 holds t1,t2,_ and row 1 size 3",
        "row 0 mask causal and row 0 form dense and row 0 storage dense",
        "row 1 floor 0 and row 0 max_append unbounded",
        "rows 2 and columns 3 and write_index 3 and can_trim none",
    ],
)
def test_claims_about_rows_are_kept(claim: str) -> None:
    assert claims_not_kept(f"{WAITING} -> {claim}") == []


@pytest.mark.parametrize(
    ("claim", "seen"),
    [
        ("offset 3", "row 0: 2"),
        ("row 1 sees t3,t6", "row 1: t3..t4,t6"),
        ("sees t1..t2", "row 1: t3..t4,t6"),
        ("row 0 sees t9", "row 0 got no token: it has no query"),
        ("row 0 sees nothing", "row 0 got no token: it has no query"),
        ("row 0 order t1..t2", "row 0 got no token: it has no query"),
        ("row 1 holds t3..t4", "row 1: t3..t4,t6"),
        ("row 1 max_append 1", "row 1: unbounded"),
        ("row 2 offset 2", "there is no row 2"),
    ],
)
def test_a_wrong_claim_about_rows_is_not_kept(claim: str, seen: str) -> None:
    found = claims_not_kept(f"{WAITING} -> {claim}")
    assert [(u.claimed, u.seen) for u in found] == [(claim, seen)]


@pytest.mark.parametrize(
    "claim", ["can_trim none", "columns 3", "write_index 3", "nbytes 3072", "bytes_per_token 512", "identity ring_rows"]
)
def test_what_the_rows_share_is_claimed_of_the_group(claim: str) -> None:
    what = claim.split(maxsplit=1)[0]
    found = claims_not_kept(f"{WAITING} -> row 0 {claim}")
    assert [u.seen for u in found] == [f"{what} is the group's: claim it without row 0"]


@pytest.mark.parametrize("claim", ["sees t5", "order t6", "sees nothing"])
def test_where_no_row_got_a_token_nothing_is_seen(claim: str) -> None:
    text = "full_rows ; prepare lengths=0,0 right=1,1 ; window 1 -> "
    assert [u.seen for u in claims_not_kept(text + claim)] == ["row 0 got no token: it has no query"]


def test_rows_that_are_not_there_keep_no_claim() -> None:
    assert [u.seen for u in claims_not_kept("full_rows rows=0 -> offset 0")] == ["there is no row"]
    assert [u.seen for u in claims_not_kept("full_rows rows=0 -> row 0 offset 0")] == ["there is no row 0"]
    found = claims_not_kept("full_rows rows=0 ; decode -> sees t1")
    assert [u.seen.split()[0] for u in found] == ["refused"]


def test_a_later_look_at_a_read_has_the_rows_of_its_group() -> None:
    text = "full_rows ; window 2 as r ; decode ; attend r -> "
    assert claims_not_kept(f"{text} row 0 sees t1 | t1,t2 and row 1 sees t3 | t3,t4") == []
    assert [u.seen for u in claims_not_kept(f"{text} sees t1,t2")] == ["row 1: t3..t4"]


class NoRows(ReferenceAdapter):
    """Shows groups, and nothing of their rows."""

    def show_rows(self, group: object) -> list[StateView]:
        return []


@pytest.mark.parametrize("claim", ["row 0 offset 2", "offset 2"])
def test_rows_that_are_not_shown_leave_a_claim_open(claim: str) -> None:
    written = parse(f"full_rows -> {claim}")
    steps = walk(written, NoRows())
    assert unkept(written, steps) == []
    assert [u.claimed for u in unobserved(written, steps)] == [claim]
