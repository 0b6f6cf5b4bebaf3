"""The exhaustive search finds every small change of the rules of groups; each is named by what is wrong."""

# A rule that is replaced may be any function, so lambdas have no types.
# pyright: reportUnknownLambdaType=false

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from attrs import evolve

from kvlaw.conformance.proofs.exhaustive.search import Space, search
from kvlaw.reference import index_group, index_group_masks, index_group_plans, index_group_state
from kvlaw.reference.index import Full, Ring
from kvlaw.reference.index_group import Group, Moved

MODULES = (index_group_state, index_group_plans, index_group_masks, index_group)
SMALL = (Space(1, 1), Space(2, 1), Space(None, 2, positions=2), Space(1, 2), Space(None, 2, positions=3), Space(2, 2))


# Planted changes of the rules, each named by what is wrong.


BEFORE = {name: getattr(index_group, name) for name in index_group.__all__ if callable(getattr(index_group, name))}
"""The rules as they are, also while one is replaced."""


def later(name: str, **changes: Callable[[Any], Any]) -> Callable[..., Any]:
    """Replace fields of the state that an operation leads to; a change is given the arguments of the operation."""

    def planted(group: Group, *arguments: Any) -> Any:
        found = BEFORE[name](group, *arguments)
        after = found if isinstance(found, Group) else found.after
        after = evolve(after, **{field: change(group) for field, change in changes.items()})
        return after if isinstance(found, Group) else evolve(found, after=after)

    return planted


def filter_in_old_order(group: Group, chosen: Sequence[int]) -> Moved:
    moved = BEFORE["filtered"](group, chosen)
    return evolve(moved, after=evolve(moved.after, offsets=tuple(group.offsets[row] for row in sorted(chosen))))


def retract_by_the_most(group: Group, tails: Sequence[int]) -> Moved:
    return BEFORE["plan_retract"](group, (max(tails, default=0),) * len(tails))


def head_of_a_row(group: Group, row: int) -> tuple[int, ...]:
    return BEFORE["order"](group)[: BEFORE["held"](group, row)]


def padding_of_a_row(group: Group, row: int) -> tuple[int, ...]:
    held = BEFORE["held"](group, row)
    return BEFORE["order"](group)[-held:] if held else ()


def alone_from_the_start(group: Group, row: int) -> Full | Ring:
    width = len(BEFORE["extracted"](group, row))
    if group.window is None:
        return Full(width, width)
    return Ring(group.window, columns=width, write_index=width, offset=width)


def joined_in_front(window: int | None, parts: Sequence[tuple[Group, int]]) -> Moved:
    moved = BEFORE["joined"](window, parts)
    return evolve(
        moved,
        sources=tuple(
            (*(column for column in row if column is not None), *[None] * row.count(None)) for row in moved.sources
        ),
    )


def lone_row_laid_out(window: int | None, parts: Sequence[tuple[Group, int]]) -> Moved:
    if len(parts) != 1:
        return BEFORE["joined"](window, parts)
    columns, width = BEFORE["extracted"](*parts[0]), BEFORE["held"](*parts[0])
    return Moved((columns,), Group(window, width, width, offsets=(BEFORE["valid"](*parts[0]),)))


def ends_from_the_padding(
    group: Group, left: Sequence[int] | None, lengths: Sequence[int] | None, right: Sequence[int] | None
) -> Group:
    after = BEFORE["prepared"](group, left, lengths, right)
    if after.ends is None or left is None:
        return after
    return evolve(after, ends=tuple(end + pad for end, pad in zip(after.ends, left, strict=True)))


PLANTS: dict[str, tuple[str, Callable[..., Any]]] = {
    # appends
    "a decode keeps what a block left beyond W": ("columns_after_decode", lambda w, columns, at: max(columns, at + 1)),
    "a decode grows a ring by one column beyond W": (
        "columns_after_decode",
        lambda w, columns, at: BEFORE["columns_after_decode"](w if w is None else w + 1, columns, at),
    ),
    "a decode wraps one column late": ("column_of_decode", lambda w, at: at if w is None or at <= w else 0),
    "a decode wraps to the second column": ("column_of_decode", lambda w, at: at if w is None or at < w else 1),
    "a decode drops the newest columns beyond W": ("overshoot", lambda w, columns: 0),
    "a decode forgets that it wrapped": ("plan_decode", later("plan_decode", rotated=lambda group: group.rotated)),
    "a decode leaves the offsets": ("plan_decode", later("plan_decode", offsets=lambda group: group.offsets)),
    "a block keeps W - 1 columns while ends are pending": (
        "keep_columns",
        lambda w, pending, counting: BEFORE["keep_columns"](w, False, counting),
    ),
    "a block keeps W columns always": (
        "keep_columns",
        lambda w, pending, counting: counting if w is None else min(counting, w),
    ),
    "a block keeps all columns": ("keep_columns", lambda w, pending, counting: counting),
    "a block fetches W columns of history": (
        "history",
        lambda w, counting: counting if w is None else min(counting, w),
    ),
    "a block fetches W - 2 columns of history": (
        "history",
        lambda w, counting: counting if w is None else max(0, min(counting, w - 2)),
    ),
    "a block allocates a column too many": (
        "columns_after_block",
        lambda w, columns, stored, length: BEFORE["columns_after_block"](w, columns, stored, length) + 1,
    ),
    # padding
    "a row that has passed its end is not turned": ("retract_source", lambda remaining, beyond, place: place),
    "a row turns by one column too many": (
        "retract_source",
        lambda remaining, beyond, place: (place - beyond - (beyond > 0)) % remaining,
    ),
    "a row turns the other way": ("retract_source", lambda remaining, beyond, place: (place + beyond) % remaining),
    "padding is cut by the row with the most": ("plan_retract", retract_by_the_most),
    "padding stays in the offsets": ("plan_retract", later("plan_retract", offsets=lambda group: group.offsets)),
    "a retract keeps the turn": ("plan_retract", later("plan_retract", rotated=lambda group: True)),
    "finalize keeps the ends": ("plan_finalize", later("plan_finalize", ends=lambda group: group.ends)),
    "finalize takes nothing off": (
        "plan_finalize",
        lambda group: Moved((tuple(range(group.columns)),) * len(group.offsets), evolve(group, ends=None)),
    ),
    "a block does not step over padding": ("overruns", lambda group: (0,) * len(group.offsets)),
    "ends count from behind the left padding": ("prepared", ends_from_the_padding),
    "left padding is allowed on tokens, and ends before the first position": ("prepare_problem", lambda *_: None),
    "padding is refused": ("prepare_problem", lambda *_: "no padding"),
    "left padding counts as used": ("is_settled_padding", lambda group: group.ends is None),
    "ends count as settled": ("is_settled_padding", lambda group: min(group.offsets, default=0) >= 0),
    "reset keeps the ends": ("reset_rows", later("reset_rows", ends=lambda group: group.ends)),
    "reset loses the rows": ("reset_rows", lambda group: Group(group.window)),
    "the token behind an end is real": (
        "row_is_real",
        lambda valid, end, index: valid + index >= 0 and (end is None or valid + index <= end),
    ),
    "left padding is real": ("row_is_real", lambda valid, end, index: end is None or valid + index < end),
    # trims, rows
    "a full ring can be trimmed": ("can_trim", lambda group, n: BEFORE["can_trim"](evolve(group, window=None), n)),
    "a trim asks the longest row": (
        "can_trim",
        lambda group, n: BEFORE["can_trim"](evolve(group, offsets=(max(group.offsets, default=0),)), n),
    ),
    "a trim of nothing is refused": ("can_trim", lambda group, n: n > 0 and BEFORE["can_trim"](group, n)),
    "a trim leaves the write index": ("plan_trim", later("plan_trim", write_index=lambda group: group.write_index)),
    "a trim leaves the offsets": ("plan_trim", later("plan_trim", offsets=lambda group: group.offsets)),
    "a filter forgets the ends": ("filtered", later("filtered", ends=lambda _: None)),
    "a filter leaves the offsets in their order": ("filtered", filter_in_old_order),
    "a filter drops the left padding of its first row": (
        "common_left_pad",
        lambda group, chosen: BEFORE["common_left_pad"](group, chosen[:1]),
    ),
    "a filter drops no left padding": ("common_left_pad", lambda group, chosen: 0),
    "a filter of a ring drops left padding": (
        "common_left_pad",
        lambda group, chosen: min((BEFORE["left_pad"](group, row) for row in chosen), default=0),
    ),
    "extraction takes the head": ("extracted", head_of_a_row),
    "extraction takes the right padding": ("extracted", padding_of_a_row),
    "an extracted row loses its offset": ("alone", alone_from_the_start),
    "a merge puts dead columns behind": ("joined", joined_in_front),
    "a merge lays out a lone row": ("joined", lone_row_laid_out),
    # numbers
    "a row holds one position less": ("row_held", lambda w, valid: max(0, BEFORE["row_held"](w, valid) - 1)),
    "a valid offset counts right padding": ("row_valid", lambda offset, end: offset),
    "the order of a turned ring begins at its first column": ("temporal_column", lambda w, at, rotated, place: place),
    # masks
    "a block shows left padding": (
        "row_sees_block",
        lambda past, offset, w, i, j: j <= past + i and (w is None or past + i - j < w),
    ),
    "a block shows one position more": (
        "row_sees_block",
        lambda past, offset, w, i, j: BEFORE["row_sees_block"](past, offset, w if w is None else w + 1, i, j),
    ),
    "a block hides the first token behind left padding": (
        "row_sees_block",
        lambda past, offset, w, i, j: BEFORE["row_sees_block"](past, offset, w, i, j) and j != past - offset,
    ),
    "a block's query does not see itself": (
        "row_sees_block",
        lambda past, offset, w, i, j: BEFORE["row_sees_block"](past, offset, w, i, j) and j != past + i,
    ),
    "the mask of a block forgets the step over padding": (
        "past_of_block",
        lambda group: BEFORE["history"](group.window, BEFORE["active"](group)),
    ),
    "the mask of a block steps over the padding of its first row": (
        "past_of_block",
        lambda group: BEFORE["history"](
            group.window, BEFORE["active"](group) - (BEFORE["overrun"](group, 0) if group.offsets else 0)
        ),
    ),
    "a decode shows left padding": ("row_sees_decode", lambda width, place, offset, w: w is None or width - place <= w),
    "a decode shows one column of padding": (
        "row_sees_decode",
        lambda width, place, offset, w: BEFORE["row_sees_decode"](width, place, offset + 1, w),
    ),
    "the mask of a decode is in temporal order": ("decode_place", lambda w, counting, at, column: column),
    "the mask of a decode is turned by the write index before it": (
        "decode_place",
        lambda w, counting, at, column: BEFORE["temporal_place"](w, at, w is not None and counting >= w, column),
    ),
    "no mask by the longest row": (
        "mask_kind",
        lambda group, length, phase, w=None: BEFORE["mask_kind"](
            evolve(group, offsets=(max(group.offsets),), ends=None), length, phase, w
        ),
    ),
    "always an array": ("mask_kind", lambda *_: "array"),
    "a window argument widens": ("obeyed_window", lambda w, argument: w if argument is None else argument),
    "a window argument is not obeyed": ("obeyed_window", lambda w, argument: w),
}


@pytest.mark.parametrize("wrong", PLANTS)
def test_a_changed_rule_is_found(wrong: str, monkeypatch: pytest.MonkeyPatch):
    name, rule = PLANTS[wrong]
    for module in MODULES:
        if hasattr(module, name):
            monkeypatch.setattr(module, name, rule)
    found = next((one for one in map(search, SMALL) if one.violation is not None), None)
    assert found is not None
    assert found.violation is not None
    assert found.violation.message
    assert len(found.violation.calls) <= 9
    assert not found.closed
