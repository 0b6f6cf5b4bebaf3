"""The exhaustive search finds every small change of the rules of rounds; each is named by what is wrong."""

# A rule that is replaced may be any function, so lambdas have no types.
# pyright: reportUnknownLambdaType=false

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from attrs import evolve

from kvlaw.conformance.proofs.exhaustive import appends, invariants, rounds
from kvlaw.conformance.proofs.exhaustive.search import Space, search
from kvlaw.reference import index_group, index_group_masks, index_group_plans, index_group_state
from kvlaw.reference.index_group import Group, Moved, RowsPlan

MODULES = (index_group_state, index_group_plans, index_group_masks, index_group)
SMALL = (Space(1, 1), Space(2, 1), Space(None, 1, positions=3), Space(1, 2), Space(None, 2, positions=3), Space(2, 2))

BEFORE = {name: getattr(index_group, name) for name in index_group.__all__ if callable(getattr(index_group, name))}
"""The rules as they are, also while one is replaced."""


# Planted changes of the rules, each named by what is wrong.


def closed_with(change: Callable[[tuple[int, ...], int], Sequence[int]]) -> Callable[..., Any]:
    """Close the round with other keeps, changed by what was appended."""

    def planted(group: Group, keeps: Sequence[int]) -> Moved:
        return BEFORE["plan_close"](group, tuple(change(tuple(keeps), BEFORE["appended_in_round"](group))))

    return planted


def later(name: str, **changes: Callable[[Any], Any]) -> Callable[..., Any]:
    """Replace fields of the state that an operation leads to; a change is given the group before it."""

    def planted(group: Group, *arguments: Any) -> Any:
        found = BEFORE[name](group, *arguments)
        after = found if isinstance(found, Group) else found.after
        after = evolve(after, **{field: change(group) for field, change in changes.items()})
        return after if isinstance(found, Group) else evolve(found, after=after)

    return planted


def in_place_in_a_round(group: Group, length: int) -> RowsPlan:
    in_place = group.starts is not None and length == 1
    return BEFORE["plan_decode"](group) if in_place else BEFORE["plan_block"](group, length)


def fetch_all_that_is_stored(group: Group, length: int) -> RowsPlan:
    plan = BEFORE["plan_block"](group, length)
    return plan if group.starts is None else evolve(plan, fetch=tuple(range(plan.after.write_index)))


def turned_by(change: Callable[[int], int]) -> Callable[..., Any]:
    """Turn the columns of rows with unequal tails by another number."""

    def planted(group: Group, keeps: Sequence[int]) -> Moved:
        moved = BEFORE["plan_close"](group, keeps)
        if len(set(keeps)) < 2:
            return moved
        order = BEFORE["order"](group)[: moved.after.columns]
        shifts = [change(max(keeps) - keep) % len(order) for keep in keeps]
        return evolve(
            moved, sources=tuple(order[len(order) - shift :] + order[: len(order) - shift] for shift in shifts)
        )

    return planted


def committed_to_the_window(group: Group, keeps: Sequence[int]) -> Moved:
    """Give back, at a commit, what is beyond W: the newest columns instead of the oldest."""
    moved, window = BEFORE["plan_close"](group, keeps), group.window
    if window is None or group.columns <= window or min(keeps, default=0) < BEFORE["appended_in_round"](group):
        return moved
    sources = tuple(row[:window] for row in moved.sources)
    return Moved(sources, evolve(moved.after, columns=window, write_index=window))


def closed_by_offsets(group: Group, keeps: Sequence[int]) -> Moved:
    moved = BEFORE["plan_close"](group, keeps)
    sources = tuple(tuple(range(group.columns)) for _ in group.offsets)
    return Moved(sources, evolve(group, offsets=moved.after.offsets, starts=None))


def closed_by_cutting(group: Group, keeps: Sequence[int]) -> Moved:
    appended = BEFORE["appended_in_round"](group)
    return BEFORE["plan_retract"](evolve(group, starts=None), [appended - keep for keep in keeps])


def filter_in_old_order(group: Group, chosen: Sequence[int]) -> Moved:
    moved = BEFORE["filtered"](group, chosen)
    if group.starts is None:
        return moved
    return evolve(moved, after=evolve(moved.after, starts=tuple(group.starts[row] for row in sorted(chosen))))


def padding_in_a_round(group: Group, *lists: Sequence[int] | None) -> str | None:
    return BEFORE["prepare_problem"](evolve(group, starts=None), *lists)


PLANTS: dict[str, tuple[str, Callable[..., Any]]] = {
    # what is kept
    "a roll back keeps one too many": (
        "plan_close",
        closed_with(lambda keeps, n: [min(n, keep + 1) for keep in keeps]),
    ),
    "a roll back keeps one too few": ("plan_close", closed_with(lambda keeps, n: [max(0, keep - 1) for keep in keeps])),
    "a roll back to 0 is a commit": ("plan_close", closed_with(lambda keeps, n: [keep or n for keep in keeps])),
    "a roll back takes back what it should keep": (
        "plan_close",
        closed_with(lambda keeps, n: [n - keep for keep in keeps]),
    ),
    "the keeps of rows are swapped": ("plan_close", closed_with(lambda keeps, n: keeps[::-1])),
    "every row keeps what the first keeps": ("plan_close", closed_with(lambda keeps, n: keeps[:1] * len(keeps))),
    "every row keeps the most": ("plan_close", closed_with(lambda keeps, n: [max(keeps, default=0)] * len(keeps))),
    "every row keeps the least": ("plan_close", closed_with(lambda keeps, n: [min(keeps, default=0)] * len(keeps))),
    # where it lies afterwards
    "a row that keeps less is not turned": ("plan_close", turned_by(lambda shift: 0)),
    "a row that keeps less turns the other way": ("plan_close", turned_by(lambda shift: -shift)),
    "a row that keeps less turns by one too many": ("plan_close", turned_by(lambda shift: shift + (shift > 0))),
    "a roll back leaves the columns": ("plan_close", closed_by_offsets),
    "a roll back of a growing group cuts columns off": ("plan_close", closed_by_cutting),
    "a roll back leaves the offsets": ("plan_close", later("plan_close", offsets=lambda group: group.offsets)),
    "a commit gives the newest columns back": ("plan_close", committed_to_the_window),
    "a round that ends stays open": ("plan_close", later("plan_close", starts=lambda group: group.starts)),
    "a round that ends keeps the turn": ("plan_close", later("plan_close", rotated=lambda group: True)),
    # appends in a round
    "a decode in a round writes in place": ("plan_block", in_place_in_a_round),
    "a block in a round keeps W - 1 columns": ("spared_columns", lambda group: int(group.ends is not None)),
    "a block in a round keeps W columns": (
        "spared_columns",
        lambda group: int(group.ends is not None or group.starts is not None),
    ),
    "a block in a round keeps W - 1 and those of the round": (
        "spared_columns",
        lambda group: BEFORE["spared_columns"](group) - (group.starts is not None),
    ),
    "a block in a round keeps one more": (
        "spared_columns",
        lambda group: BEFORE["spared_columns"](group) + (group.starts is not None),
    ),
    "a block in a round begins it anew": (
        "after_block",
        later("after_block", starts=lambda group: None if group.starts is None else group.offsets),
    ),
    "a block in a round closes it": ("after_block", later("after_block", starts=lambda group: None)),
    "a block in a round fetches all that is stored": ("plan_block", fetch_all_that_is_stored),
    "the mask of a block in a round counts what is stored": (
        "past_of_block",
        lambda group: (
            BEFORE["past_of_block"](group)
            if group.starts is None
            else BEFORE["keep_columns"](group.window, BEFORE["spared_columns"](group), BEFORE["active"](group))
        ),
    ),
    "a query in a round does not see what was there before": (
        "block_visible",
        lambda group, row, length, i, j, w=None: (
            BEFORE["block_visible"](group, row, length, i, j, w)
            and j >= BEFORE["past_of_block"](group) - (BEFORE["appended_in_round"](group) or 9)
        ),
    ),
    # begin, and what else may be called
    "a round begins one column early": (
        "begun",
        lambda group: evolve(group, starts=tuple(max(0, offset - 1) for offset in group.offsets)),
    ),
    "a round begins where the longest row is": (
        "begun",
        lambda group: evolve(group, starts=(max(group.offsets, default=0),) * len(group.offsets)),
    ),
    "begin opens nothing": ("begun", lambda group: group),
    "begin lays the columns out": (
        "begun",
        lambda group: evolve(group, starts=group.offsets, rotated=False),
    ),
    "a round is counted by its second row": (
        "appended_in_round",
        lambda group: group.offsets[-1] - group.starts[0] if group.starts else 0,
    ),
    "a trim is allowed in a round": ("can_trim", lambda group, n: BEFORE["can_trim"](evolve(group, starts=None), n)),
    "padding is allowed in a round": ("prepare_problem", padding_in_a_round),
    "a filter forgets the round": ("filtered", later("filtered", starts=lambda _: None)),
    "a filter leaves the begins of rows in their order": ("filtered", filter_in_old_order),
    "a filter to no rows closes the round": (
        "filtered",
        lambda group, chosen: BEFORE["filtered"](group if chosen else evolve(group, starts=None), chosen),
    ),
    "reset leaves the round open": (
        "reset_rows",
        later("reset_rows", starts=lambda group: None if group.starts is None else (0,) * len(group.offsets)),
    ),
}


def plant(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, rule = PLANTS[wrong]
    for module in MODULES:
        if hasattr(module, name):
            monkeypatch.setattr(module, name, rule)


@pytest.mark.parametrize("wrong", PLANTS)
def test_a_changed_rule_of_rounds_is_found(wrong: str, monkeypatch: pytest.MonkeyPatch):
    plant(wrong, monkeypatch)
    found = next((one for one in map(search, SMALL) if one.violation is not None), None)
    assert found is not None
    assert found.violation is not None
    assert "begin_round" in found.violation.calls
    assert len(found.violation.calls) <= 6


# Without the checks of numbers and columns: what queries see and what extraction takes are enough to tell.

ONE = "group of 1 empty rows ; begin_round ; "
OF_ONE = "group of 0 empty rows ; merge s1 c ; begin_round ; "
TWO = "group of 2 empty rows ; begin_round ; "


@pytest.mark.parametrize(
    ("wrong", "space", "told"),
    [
        # `geometry.md`, section 10, decision 8: the token of before the round was overwritten.
        (
            "a decode in a round writes in place",
            Space(1, 1),
            OF_ONE + "decode ; roll_back 0: row 0 is extracted as (), not (1,)",
        ),
        # Decision 20: W - 1 columns of before the round are one too few, and so are W - 1 and those of the round.
        (
            "a block in a round keeps W - 1 columns",
            Space(1, 1),
            OF_ONE + "decode ; roll_back 0: row 0 is extracted as (), not (1,)",
        ),
        (
            "a block in a round keeps W - 1 and those of the round",
            Space(1, 1),
            OF_ONE + "decode ; roll_back 0: row 0 is extracted as (), not (1,)",
        ),
        # W columns are enough for one append, not for two: t4 pushes t1 out of t1, t2, t3, and t1 is to be kept.
        (
            "a block in a round keeps W columns",
            Space(2, 1),
            ONE + "window 3 ; decode ; roll_back 1: row 0 is extracted as (), not (1,)",
        ),
        # Row 0 keeps nothing, but its column of row 1's length counts.
        (
            "the keeps of rows are swapped",
            Space(None, 2, positions=3),
            TWO + "decode ; roll_back 0,1: row 0 is extracted as (0,), not ()",
        ),
        # The newest column of row 0 is that of t2, which it has taken back.
        (
            "a row that keeps less is not turned",
            Space(1, 2),
            TWO + "window 2 ; roll_back 1,2: row 0 is extracted as (0,), not (1,)",
        ),
    ],
)
def test_sight_and_extraction_alone_find_it(wrong: str, space: Space, told: str, monkeypatch: pytest.MonkeyPatch):
    for module, name in (
        *((invariants, name) for name in ("_check_columns", "_check_numbers", "_check_order", "_check_calls")),
        (rounds, "_check_place"),
        (appends, "demand"),
    ):
        monkeypatch.setattr(module, name, lambda *_: None)
    plant(wrong, monkeypatch)
    found = search(space).violation
    assert found is not None
    assert f"{' ; '.join(found.calls)}: {found.message}" == told
