"""The exhaustive search of serial caches: pinned positions, bypass trims and rounds; it finds every planted change."""

# A rule that is replaced may be any function, so lambdas have no types.
# pyright: reportUnknownLambdaType=false

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from kvlaw.conformance.proofs.exhaustive import serial as serials
from kvlaw.conformance.proofs.exhaustive.search import Space, search
from kvlaw.conformance.proofs.exhaustive.serial import Serial, check_serial, new, normal_form
from kvlaw.conformance.proofs.exhaustive.serial_moves import SerialAlphabet
from kvlaw.reference import index_masks, index_plans, index_rounds, index_state
from kvlaw.reference.index import Full, Plan, Ring

MODULES = (index_state, index_plans, index_masks, index_rounds)
RINGS = tuple(Space(window, 1, serial=True) for window in (1, 2, 3))
SPACES = (*RINGS, Space(None, 1, positions=3, serial=True))


@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.name)
def test_no_history_is_wrong(space: Space):
    found = search(space)
    assert found.violation is None
    assert found.closed
    assert found.transitions > found.states


def test_every_situation_of_a_serial_ring_is_visited(monkeypatch: pytest.MonkeyPatch):
    visited: list[Serial] = []

    def check(at: Serial) -> None:
        visited.append(at)
        check_serial(at)

    monkeypatch.setattr(serials, "check_serial", check)
    assert search(Space(3, 1, serial=True)).closed
    assert {at.sinks for at in visited} == {0, 1, 2}
    assert {at.drafted for at in visited} == {None, 0, 1, 2, 3, 4, 5}
    assert {at.length - (at.drafted or 0) for at in visited if at.drafted} == set(
        range(9)
    )  # shifted from 2W + 2 = 8 on
    for pinned in (0, 1, 2):
        rings = [(at, at.state) for at in visited if isinstance(at.state, Ring) and at.sinks == pinned]
        assert any(ring.rotated and ring.write_index == pinned + 1 and at.drafted == 0 for at, ring in rings)
        assert any(at.short and at.drafted == 2 for at, _ in rings)
        assert any(ring.columns == 3 + 5 and at.drafted == 5 for at, ring in rings)


def test_a_round_may_begin_one_position_short_and_end_so():
    """A bypass trim leaves W - 1 positions; a round that keeps nothing leaves those, one that keeps something W."""
    short = Serial(Ring(2, 0, 1, 1, offset=2), (2,), 2, short=True)
    told = dict(SerialAlphabet(4, None, 4).moves(evolve(short, drafted=0)))
    after = told["window 2"]()
    assert (after.owed, after.cells) == ((2, 3, 4), (2, 3, 4))
    told = dict(SerialAlphabet(4, None, 4).moves(after))
    assert {call for call in told if "ro" in call} == {"commit_round", "roll_back 0", "roll_back 1", "roll_back 2"}
    back = normal_form(told["roll_back 0"]())
    assert (back.owed, back.cells, back.length) == ((2,), (2,), 2)
    kept = normal_form(told["roll_back 1"]())
    assert (kept.owed, kept.cells, kept.length) == ((2, 3), (2, 3), 3)


def test_pinned_positions_are_not_shifted():
    far = Serial(Ring(2, 1, 2, 2, True, 20), (1, 20), 20)
    near = Serial(Ring(2, 1, 2, 2, True, 6), (1, 6), 6)
    assert normal_form(far) == near == normal_form(near)
    assert normal_form(evolve(far, drafted=3)).length == 6 + 3


def test_pinned_positions_count_in_what_is_owed():
    assert Serial(Ring(3, 2), length=7).owed == (1, 2, 7)
    assert Serial(Ring(3, 2), length=7, drafted=2).owed == (1, 2, 5, 6, 7)
    assert Serial(Full(), length=3).owed == (1, 2, 3)
    assert new(3, 2).owed == ()


# Planted changes of the rules, each named by what is wrong.

BEFORE: dict[str, Callable[..., Any]] = {
    name: rule for module in MODULES for name, rule in vars(module).items() if callable(rule)
}
"""The rules as they are, also while one is replaced."""


def in_place_in_a_round(state: Any, length: int, appended: int) -> Plan[Any]:
    if length == 1 and isinstance(state, Ring):
        return BEFORE["plan_decode"](state)
    return BEFORE["plan_in_round"](state, length, appended)


def fetch_all(state: Any, length: int, appended: int) -> Plan[Any]:
    plan = BEFORE["plan_in_round"](state, length, appended)
    return evolve(plan, fetch=tuple(range(plan.write_at + length)))


def fetch_the_newest(state: Any, length: int, appended: int) -> Plan[Any]:
    plan = BEFORE["plan_in_round"](state, length, appended)
    return evolve(plan, fetch=tuple(range(plan.write_at + length))[-len(plan.fetch) :])


PLANTS: dict[str, tuple[str, Callable[..., Any]]] = {
    "a roll back keeps one too many": (
        "after_roll_back",
        lambda state, count: BEFORE["after_roll_back"](state, max(0, count - 1)),
    ),
    "a roll back keeps one too few": (
        "after_roll_back",
        lambda state, count: BEFORE["after_roll_back"](state, count + 1),
    ),
    "a roll back takes nothing back": ("after_roll_back", lambda state, count: state),
    "a roll back only moves the offset": (
        "after_roll_back",
        lambda state, count: evolve(state, offset=state.offset - count),
    ),
    "a roll back cuts columns of a growing cache off": (
        "after_roll_back",
        lambda state, count: evolve(BEFORE["after_roll_back"](state, count), columns=state.columns - count),
    ),
    "a roll back leaves the write index": (
        "after_roll_back",
        lambda state, count: evolve(
            BEFORE["after_roll_back"](state, count),
            **({"write_index": state.write_index} if isinstance(state, Ring) else {}),
        ),
    ),
    "a decode in a round writes in place": ("plan_in_round", in_place_in_a_round),
    "a round keeps W columns": ("kept_in_round", lambda window, counting, appended: min(counting, window)),
    "a round keeps W - 1 columns": ("kept_in_round", lambda window, counting, appended: min(counting, window - 1)),
    "a round keeps W - 1 and its own": (
        "kept_in_round",
        lambda window, counting, appended: min(counting, window - 1 + appended),
    ),
    "a round keeps one more": (
        "kept_in_round",
        lambda window, counting, appended: min(counting, window + 1 + appended),
    ),
    "a round keeps all": ("kept_in_round", lambda window, counting, appended: counting),
    "a round drops pinned positions": (
        "round_source",
        lambda ring, index, dropped: BEFORE["temporal_column"](ring, index + dropped),
    ),
    "a round drops the newest": ("round_source", lambda ring, index, dropped: BEFORE["temporal_column"](ring, index)),
    "a round lays columns out as they are": (
        "round_source",
        lambda ring, index, dropped: index if index < ring.sinks else index + dropped,
    ),
    "a read in a round fetches all that is stored": ("plan_in_round", fetch_all),
    "a read in a round fetches no pinned positions": ("plan_in_round", fetch_the_newest),
    "a round leaves a block that a bypass trim may cut": (
        "after_round_block",
        lambda ring, length, appended: evolve(BEFORE["after_round_block"](ring, length, appended), block=length),
    ),
    "a round keeps the turn": (
        "after_round_block",
        lambda ring, length, appended: evolve(
            BEFORE["after_round_block"](ring, length, appended), rotated=ring.rotated
        ),
    ),
    "a block shows pinned positions only near": (
        "block_visible",
        lambda ring, length, i, j, w=None: BEFORE["block_visible"](evolve(ring, sinks=0), length, i, j, w),
    ),
}


@pytest.mark.parametrize("wrong", PLANTS)
def test_a_changed_rule_is_found(wrong: str, monkeypatch: pytest.MonkeyPatch):
    name, rule = PLANTS[wrong]
    for module in MODULES:
        if hasattr(module, name):
            monkeypatch.setattr(module, name, rule)
    found = next((one.violation for one in map(search, SPACES) if one.violation is not None), None)
    assert found is not None
    assert "begin_round" in found.calls or name == "block_visible"
    assert len(found.calls) <= 6
