"""The exhaustive search of groups in rounds: which states and calls it visits."""

import pytest
from attrs import evolve

from kvlaw.conformance.proofs.exhaustive import search as searches
from kvlaw.conformance.proofs.exhaustive.invariants import check_state
from kvlaw.conformance.proofs.exhaustive.moves import Alphabet
from kvlaw.conformance.proofs.exhaustive.product import Line, Product, normal_form
from kvlaw.conformance.proofs.exhaustive.readings import Reader, Reading
from kvlaw.conformance.proofs.exhaustive.search import Space, search
from kvlaw.reference.history import Row
from kvlaw.reference.index_group import Group


def test_rounds_of_several_appends_are_visited(monkeypatch: pytest.MonkeyPatch):
    visited: list[Product] = []

    def check(state: Product) -> None:
        visited.append(state)
        check_state(state)

    monkeypatch.setattr(searches, "check_state", check)
    assert search(Space(2, 2)).closed
    rounds = [state for state in visited if state.drafted is not None and len(state.lines) == 2]
    assert {state.drafted for state in rounds} == {0, 1, 2, 3, 4}
    begun = {tuple(line.row.offset - (state.drafted or 0) for line in state.lines) for state in rounds}
    assert begun == {(a, b) for a in range(7) for b in range(7)}  # shifted from 2W + 2 = 6 on
    assert any(state.drafted == 0 and state.group.rotated and state.group.write_index == 1 for state in rounds)
    assert any(state.drafted == 0 and state.group.columns > 2 for state in rounds)
    assert any(state.drafted == 4 and state.group.columns == 6 == min(state.group.offsets) for state in rounds)
    assert any(state.drafted == 3 and state.group.columns > min(state.group.offsets) == 3 for state in rounds)


def test_a_round_ends_in_every_way():
    lines = [Line(Row((1, 2, 3)), cells=(1, 2, 3)), Line(Row((1, 2, 3)), cells=(1, 2, 3))]
    state = Product(Group(2, 3, 3, offsets=(3, 3), starts=(1, 1)), lines, 3, 2)
    told = dict(Alphabet(2, 4, drafts=4).moves(state, Reader()))
    assert {call for call in told if "round" in call or "roll" in call} == {
        "commit_round",
        *(f"roll_back {first},{second}" for first in range(3) for second in range(3)),
    }
    after = told["roll_back 0,1"]()
    assert after is not None
    # What both take back is cut off; row 0 gives up one more column, which turns to its front.
    assert after.group == Group(2, 2, 2, offsets=(1, 2))
    assert [line.row.tokens for line in after.lines] == [(1,), (1, 2)]
    assert [line.cells for line in normal_form(after).lines] == [(0, 1), (1, 2)]


def test_a_round_takes_appends_in_any_pieces():
    state = Product(Group(2, offsets=(0,), starts=(0,)), [Line()], 0, 0)
    alphabet = Alphabet(1, 4, drafts=3)
    told = {call for call, _ in alphabet.moves(state, Reader())}
    assert {call for call in told if call.startswith(("decode", "window"))} == {"decode", "window 2", "window 3"}
    assert not any(call.startswith(("trim", "merge", "hand_back", "begin")) for call in told)
    later = Product(Group(2, 2, 2, offsets=(2,), starts=(0,)), [Line(Row((1, 2)), cells=(1, 2))], 2, 2)
    told = {call for call, _ in alphabet.moves(later, Reader())}
    assert {call for call in told if call.startswith(("decode", "window"))} == {"decode"}


def test_without_rounds_none_begins():
    told = [
        call for call, _ in Space(1, 1, drafts=0).alphabet.moves(Product(Group(1, offsets=(0,)), [Line()]), Reader())
    ]
    assert "begin_round" not in told
    assert "begin_round" in [call for call, _ in Space(1, 1).alphabet.moves(Product(Group(1)), Reader())]


def test_a_round_is_told_apart_by_where_it_began():
    """W = 1 shifts from 4 on: what a roll back to 0 leaves is 9 or 4 positions, which nothing tells apart."""
    cells = (9, 10, 11)
    far = Product(Group(1, 3, 3, offsets=(11,), starts=(9,)), [Line(Row(range(1, 12)), cells=cells)], 9, 2)
    near = Product(Group(1, 3, 3, offsets=(6,), starts=(4,)), [Line(Row(range(1, 7)), cells=(4, 5, 6))], 3, 2)
    assert normal_form(far) == near == normal_form(near)


def test_a_mask_may_depend_on_the_round():
    reading = Reading(Group(2, 2, 2, offsets=(2,)), "window", 1, (1, 2), (2,), (0,), ((2, 3),), ((0,),))
    in_round = evolve(reading, before=evolve(reading.before, starts=(1,)))
    assert (
        len(
            {reading.geometry, in_round.geometry, evolve(in_round, before=evolve(reading.before, starts=(2,))).geometry}
        )
        == 3
    )
