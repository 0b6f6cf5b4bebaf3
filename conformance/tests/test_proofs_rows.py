"""The rows of lemmas are rows of groups: what lemmas say of one row is what the plans and masks of groups list.

Lemmas take a sibling as one number; here it is a row of its own, with an offset and an end that give that number.
"""

import itertools
from itertools import starmap

import pytest

from kvlaw.conformance.proofs.rows import RowAsItLies, RowInOrder, is_kept, is_whole, lies_well, owed, position_at
from kvlaw.reference import index_group
from kvlaw.reference.index_group import Group, column_of_decode, decode_source, overshoot, retract_source

IN_ORDER = [
    row
    for row in starmap(RowInOrder, itertools.product(range(1, 4), range(7), range(6), (None, *range(6))))
    if is_kept(row)
]
AS_THEY_LIE = [
    row
    for row in starmap(RowAsItLies, itertools.product(range(1, 4), range(6), range(6), (False, True), range(6)))
    if lies_well(row)
]


def with_sibling(row: RowInOrder, cut: int) -> Group:
    """Give a row as the second of a group whose first has passed `cut` columns of padding."""
    ends = None if row.end is None else (0, row.end)
    return Group(row.window, row.counting, row.counting, False, (cut, row.offset), ends)


def cuts(row: RowInOrder) -> range:
    return range(row.over + 1)


def test_a_row_says_of_itself_what_its_group_says():
    for row in IN_ORDER:
        group = with_sibling(row, 0)
        assert (index_group.overrun(group, 1), index_group.valid(group, 1)) == (row.over, row.valid)
        assert index_group.active(group) == row.counting
        taken = [position_at(row, place) for place in index_group.extracted(group, 1)]
        assert taken == [position for position in range(row.valid) if owed(row, position)]
        assert (taken == list(range(row.valid))[-row.window :]) == is_whole(row)


@pytest.mark.parametrize("length", [1, 2, 5])
def test_a_block_of_a_row_is_that_of_its_group(length: int):
    for row in IN_ORDER:
        for cut in cuts(row):
            group = with_sibling(row, cut)
            plan = index_group.plan_block(group, length)
            then = row.after_block(cut, length)
            assert (index_group.active(plan.after), plan.after.offsets[1]) == (then.counting, then.offset)
            assert plan.after == index_group.after_block(group, length)
            assert plan.write_at == row.stored(cut)
            assert len(plan.fetch) == row.past(cut) + length == index_group.past_of_block(group) + length
            left = row.counting - cut
            kept = [retract_source(left, row.over - cut, left - row.stored(cut) + c) for c in range(row.stored(cut))]
            assert plan.sources[1] == (*kept, *[None] * length)


def test_a_retract_of_a_row_is_that_of_its_group():
    for row in IN_ORDER:
        for cut in cuts(row):
            group = with_sibling(row, cut)
            moved = index_group.plan_retract(group, index_group.overruns(group))
            left = row.counting - cut
            sources = tuple(retract_source(left, row.over - cut, place) for place in range(left))
            assert moved.sources[1] == sources
            assert (moved.after.columns, moved.after.offsets[1]) == (left, row.valid)


def test_a_decode_of_a_row_is_that_of_its_group():
    for row in AS_THEY_LIE:
        group = row.beside(0)
        plan = index_group.plan_decode(group)
        after = RowAsItLies(
            row.window, plan.after.columns, plan.after.write_index, plan.after.rotated, plan.after.offsets[1]
        )
        assert after == row.decoded
        at = column_of_decode(row.window, row.write_index)
        assert plan.write_at == at
        dropped = overshoot(row.window, row.columns)
        assert plan.sources[1] == tuple(decode_source(row.columns, dropped, at, c) for c in range(after.columns))
        assert plan.fetch == tuple(range(after.counting))


def test_every_row_of_the_lemmas_is_of_a_valid_group():
    assert all(index_group.is_valid_group(with_sibling(row, 0)) for row in IN_ORDER)
    assert all(index_group.is_valid_group(row.group) for row in AS_THEY_LIE)
