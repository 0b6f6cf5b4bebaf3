"""Plans and masks of groups worked out by hand from the rules, case by case."""

import pytest
from attrs import evolve

from kvlaw.reference import index_group
from kvlaw.reference.index import Full, Ring
from kvlaw.reference.index_group import Group, Moved, RowsPlan

# What follows from the numbers.


@pytest.mark.parametrize(
    ("group", "active", "left_pad", "overrun", "valid", "held"),
    [
        (Group(4, 3, 3, offsets=(1, 3)), 3, (2, 0), (0, 0), (1, 3), (1, 3)),
        (Group(4, 4, 1, rotated=True, offsets=(2, 9)), 4, (2, 0), (0, 0), (2, 9), (2, 4)),
        (Group(4, 256, 3, offsets=(-2, 1)), 3, (5, 2), (0, 0), (-2, 1), (0, 1)),
        (Group(4, 6, 6, offsets=(7, 7), ends=(5, 9)), 6, (0, 0), (2, 0), (5, 7), (4, 4)),
        (Group(None, 256, 6, offsets=(6, 5), ends=(1, 5)), 6, (0, 1), (5, 0), (1, 5), (1, 5)),
    ],
)
def test_numbers_of_a_row(
    group: Group,
    active: int,
    left_pad: tuple[int, ...],
    overrun: tuple[int, ...],
    valid: tuple[int, ...],
    held: tuple[int, ...],
):
    assert index_group.active(group) == active
    assert tuple(index_group.left_pad(group, b) for b in (0, 1)) == left_pad
    assert tuple(index_group.overrun(group, b) for b in (0, 1)) == overrun
    assert tuple(index_group.valid(group, b) for b in (0, 1)) == valid
    assert tuple(index_group.held(group, b) for b in (0, 1)) == held


def test_temporal_order_of_a_group_begins_at_the_write_index_once_it_has_wrapped():
    assert index_group.order(Group(4, 4, 1, rotated=True, offsets=(9,))) == (1, 2, 3, 0)
    assert index_group.order(Group(4, 4, 4, rotated=True, offsets=(9,))) == (0, 1, 2, 3)
    assert index_group.order(Group(4, 4, 3, offsets=(3,))) == (0, 1, 2)


def test_real_tokens_lie_between_left_and_right_padding():
    group = Group(4, offsets=(-1, 0, -3), ends=(2, 0, 1))
    assert [index_group.real(group, b, 4) for b in range(3)] == [(1, 2), (), (3,)]
    later = Group(4, 4, 4, offsets=(3, 4, 4), ends=(2, 0, 9))  # two rows have passed their end
    assert [index_group.real(later, b, 2) for b in range(3)] == [(), (), (0, 1)]


@pytest.mark.parametrize(
    ("group", "settled", "decodes"),
    [
        (Group(4), True, False),
        (Group(4, offsets=(0, 3)), True, True),
        (Group(4, offsets=(-1, 3)), False, False),
        (Group(4, offsets=(0, 3), ends=(1, 4)), False, False),
    ],
)
def test_decodes_wait_for_padding_and_need_a_row(group: Group, settled: bool, decodes: bool):
    assert index_group.is_settled_padding(group) == settled
    assert index_group.may_decode(group) == decodes


@pytest.mark.parametrize(
    ("group", "possible"),
    [
        (Group(4), True),
        (Group(4, 4, 1, rotated=True, offsets=(9, 0)), True),
        (Group(4, 4, 0, rotated=True, offsets=(9, 0)), False),
        (Group(4, 4, 5, rotated=True, offsets=(9, 0)), False),
        (Group(4, 5, 1, rotated=True, offsets=(9, 0)), False),
        (Group(None, 4, 1, rotated=True, offsets=(9, 0)), False),
        (Group(4, 6, 6, offsets=(6, 0)), True),
        (Group(4, 6, 5, offsets=(5, 0)), False),
        (Group(4, 4, 3, offsets=(3, 0)), True),
        (Group(4, 2, 3, offsets=(3, 0)), False),
        (Group(4, 2, -1, offsets=(0, 0)), False),
        (Group(4, 3, 2, offsets=(3,)), False),  # it has lost a position before any was evicted
        (Group(4, 3, 3, offsets=(4,)), True),  # one short, as after a bypass trim
        (Group(4, 2, 2, offsets=(4,)), False),
        (Group(None, 256, 3, offsets=(3,)), True),
        (Group(None, 256, 3, offsets=(4,)), False),
        (Group(4, 6, 6, offsets=(6, 6), ends=(4, 9)), True),
        (Group(4, 6, 6, offsets=(6, 6), ends=(4,)), False),
        (Group(4, 4, 4, offsets=(6,), ends=(4,)), False),  # two columns of padding leave two of the four owed
        (Group(4, 2, 2, offsets=(3,), ends=(0,)), False),  # more padding than columns
    ],
)
def test_which_numbers_can_be_those_of_a_group(group: Group, possible: bool):
    assert index_group.is_valid_group(group) == possible


# Appends.


def test_a_decode_grows_a_ring_by_the_step_and_at_most_to_the_window():
    plan = index_group.plan_decode(Group(500, 256, 256, offsets=(2, 256)))
    assert (plan.write_at, plan.after) == (256, Group(500, 500, 257, offsets=(3, 257)))
    assert plan.sources == ((*range(256), *(None,) * 244),) * 2
    assert index_group.plan_decode(Group(500, offsets=(0,))).after.columns == 256
    assert index_group.plan_decode(Group(3, offsets=(0,))).after.columns == 3


def test_a_decode_drops_the_overshoot_of_a_block_and_wraps():
    plan = index_group.plan_decode(Group(3, 5, 5, offsets=(5, 4)))
    assert plan == RowsPlan(((None, 3, 4),) * 2, 0, 1, (0, 1, 2), Group(3, 3, 1, rotated=True, offsets=(6, 5)))


def test_a_decode_of_a_growing_group_grows_to_the_next_multiple_of_256():
    joined = Group(None, 3, 3, offsets=(3, 1))
    plan = index_group.plan_decode(joined)
    assert (plan.write_at, plan.fetch) == (3, (0, 1, 2, 3))
    assert plan.after == Group(None, 256, 4, offsets=(4, 2))
    assert plan.sources == ((0, 1, 2, *(None,) * 253),) * 2
    assert index_group.plan_decode(Group(None, 256, 256, offsets=(256,))).after.columns == 512
    assert index_group.plan_decode(Group(None, 253, 252, offsets=(252,))).after.columns == 253
    assert index_group.plan_decode(Group(None, 255, 255, offsets=(255,))).after.columns == 256


def test_a_block_lays_a_wrapped_ring_out_and_keeps_all_but_the_oldest():
    plan = index_group.plan_block(Group(4, 4, 1, rotated=True, offsets=(5, 2)), 2)
    assert plan.sources == ((2, 3, 0, None, None),) * 2
    assert (plan.write_at, plan.fetch, plan.after) == (3, (0, 1, 2, 3, 4), Group(4, 5, 5, offsets=(7, 4)))


def test_a_block_with_pending_ends_keeps_a_column_that_it_does_not_fetch():
    plan = index_group.plan_block(Group(4, 4, 1, rotated=True, offsets=(5, 2), ends=(6, 9)), 2)
    assert plan.sources == ((1, 2, 3, 0, None, None),) * 2
    assert (plan.write_at, plan.fetch) == (4, (1, 2, 3, 4, 5))
    assert plan.after == Group(4, 6, 6, offsets=(7, 4), ends=(6, 9))


def test_a_block_takes_the_right_padding_of_the_block_before_it_first():
    # offsets 6 and 6 with ends 5 and 3: overruns 1 and 3, so one column goes and row 1 turns by two
    plan = index_group.plan_block(Group(4, 6, 6, offsets=(6, 6), ends=(5, 3)), 1)
    assert plan.sources == ((1, 2, 3, 4, None), (4, 0, 1, 2, None))
    assert (plan.write_at, plan.fetch) == (4, (1, 2, 3, 4))
    assert plan.after == Group(4, 5, 5, offsets=(6, 4), ends=(5, 3))


def test_a_block_of_a_growing_group_writes_behind_the_write_index():
    plan = index_group.plan_block(Group(None, 256, 2, offsets=(2, 1)), 3)
    assert (plan.write_at, plan.fetch, plan.after) == (2, (0, 1, 2, 3, 4), Group(None, 256, 5, offsets=(5, 4)))
    assert plan.sources == ((0, 1, *(None,) * 254),) * 2
    assert index_group.plan_block(Group(None, 256, 254, offsets=(254,)), 3).after.columns == 512
    assert index_group.plan_block(Group(None, 253, 250, offsets=(250,)), 3).after.columns == 253  # they just fit


# Retract and finalize.


def test_finalize_cuts_what_all_rows_give_up_and_turns_the_rest_to_the_front():
    before = Group(8, 6, 6, offsets=(6, 6, 6), ends=(5, 4, 2))
    moved = index_group.plan_finalize(before)
    assert moved.sources == ((0, 1, 2, 3, 4), (4, 0, 1, 2, 3), (2, 3, 4, 0, 1))
    assert moved.after == Group(8, 5, 5, offsets=(5, 4, 2))


def test_finalize_of_a_lone_row_only_cuts():
    moved = index_group.plan_finalize(Group(3, 6, 6, offsets=(6,), ends=(4,)))
    assert moved == Moved(((0, 1, 2, 3),), Group(3, 4, 4, offsets=(4,)))


def test_an_early_finalize_takes_nothing_that_was_not_processed():
    before = Group(4, 4, 1, rotated=True, offsets=(5, 6), ends=(7, 6))
    assert index_group.plan_finalize(before) == Moved(((0, 1, 2, 3),) * 2, evolve(before, ends=None))


def test_finalize_of_rows_of_padding_alone_leaves_no_column():
    moved = index_group.plan_finalize(Group(4, 2, 2, offsets=(2, 2), ends=(0, 0)))
    assert moved == Moved(((), ()), Group(4, offsets=(0, 0)))


def test_a_retract_of_a_growing_group_leaves_no_spare_column():
    moved = index_group.plan_retract(Group(None, 256, 5, offsets=(5, 5)), (1, 2))
    assert moved == Moved(((0, 1, 2, 3), (3, 0, 1, 2)), Group(None, 4, 4, offsets=(4, 3)))


# Trims.


@pytest.mark.parametrize(
    ("group", "allowed"),
    [
        (Group(4), [0]),
        (Group(None), [0]),
        (Group(4, 3, 3, offsets=(3, 1)), [0, 1]),
        (Group(4, 4, 4, offsets=(2, 3)), []),  # four columns count, although no row has four positions
        (Group(4, 4, 1, rotated=True, offsets=(5, 5)), []),
        (Group(None, 256, 9, offsets=(9, 2)), [0, 1, 2]),
        (Group(4, 3, 3, offsets=(3, 0)), [0]),
        (Group(None, 256, 3, offsets=(3, 3), ends=(3, 4)), []),
        (Group(4, offsets=(-1, 0)), []),
        (Group(3, 2, 2, offsets=(5,)), []),  # a serial ring that a bypass trim left a column short has lost tokens
    ],
)
def test_a_group_is_trimmed_as_far_as_its_shortest_row_while_nothing_was_evicted(group: Group, allowed: list[int]):
    assert [count for count in range(-1, 7) if index_group.can_trim(group, count)] == allowed


def test_a_trim_moves_the_write_index_and_every_offset():
    assert index_group.plan_trim(Group(4, 4, 3, offsets=(3, 2)), 2) == Group(4, 4, 1, offsets=(1, 0))


# Rows out and in.


def test_extraction_takes_the_newest_positions_in_temporal_order():
    ring = Group(4, 4, 1, rotated=True, offsets=(9, 2))
    assert [index_group.extracted(ring, b) for b in (0, 1)] == [(1, 2, 3, 0), (3, 0)]
    assert [index_group.alone(ring, b) for b in (0, 1)] == [
        Ring(4, columns=4, write_index=4, offset=9),
        Ring(4, columns=2, write_index=2, offset=2),
    ]
    growing = Group(None, 256, 5, offsets=(5, 0))
    assert [index_group.extracted(growing, b) for b in (0, 1)] == [(0, 1, 2, 3, 4), ()]
    assert [index_group.alone(growing, b) for b in (0, 1)] == [Full(5, 5), Full(0, 0)]


def test_extraction_after_a_bypass_trim_takes_what_is_left():
    ring = index_group.lone(Ring(3, columns=2, write_index=2, offset=5))
    assert index_group.extracted(ring, 0) == (0, 1)
    assert index_group.alone(ring, 0) == Ring(3, columns=2, write_index=2, offset=5)


def test_a_filter_reorders_rows_and_leaves_a_ring_as_it_lies():
    before = Group(4, 4, 1, rotated=True, offsets=(2, 9, 3), ends=(3, 9, 4))
    moved = index_group.filtered(before, (2, 0))
    assert moved == Moved(((0, 1, 2, 3),) * 2, evolve(before, offsets=(3, 2), ends=(4, 3)))
    settled = Group(4, 3, 3, offsets=(1, 3))
    assert index_group.filtered(settled, (0,)).after == Group(4, 3, 3, offsets=(1,))


def test_a_filter_drops_the_left_padding_that_all_rows_of_a_growing_group_have():
    moved = index_group.filtered(Group(None, 256, 7, offsets=(2, 7, 4)), (2, 0))
    assert moved.sources == (tuple(range(3, 256)),) * 2
    assert moved.after == Group(None, 253, 4, offsets=(4, 2))


@pytest.mark.parametrize(
    "group",
    [Group(None, 256, 7, offsets=(2, 7), ends=(3, 8)), Group(None, 256, 7, offsets=(2, -1))],
)
def test_a_filter_drops_no_padding_while_it_is_pending_or_unused(group: Group):
    moved = index_group.filtered(group, (0,))
    assert (moved.sources, moved.after.columns, moved.after.write_index) == ((tuple(range(256)),), 256, 7)


def test_a_filter_to_no_rows_is_a_group_without_rows():
    assert index_group.filtered(Group(4, 4, 2, rotated=True, offsets=(5, 6), ends=(5, 7)), ()) == Moved((), Group(4))


@pytest.mark.parametrize(
    ("chosen", "allowed"), [((), True), ((1, 0), True), ((0, 0), False), ((2,), False), ((-1,), False)]
)
def test_a_filter_names_rows_that_are_there_once(chosen: tuple[int, ...], allowed: bool):
    assert index_group.can_filter(Group(4, offsets=(0, 0)), chosen) == allowed


def test_a_join_of_several_rows_aligns_them_at_the_newest_column():
    wrapped = Group(4, 4, 1, rotated=True, offsets=(9, 2))
    moved = index_group.joined(
        4, [(wrapped, 1), (Group(4, 256, 0, offsets=(0,)), 0), (Group(4, 6, 6, offsets=(6,)), 0)]
    )
    assert moved.sources == ((None, None, 3, 0), (None, None, None, None), (2, 3, 4, 5))
    assert moved.after == Group(4, 4, 4, offsets=(2, 0, 6))


@pytest.mark.parametrize(
    "serial",
    [
        Ring(4, columns=4, write_index=1, rotated=True, offset=9),
        Ring(4, columns=7, write_index=7, offset=7, block=7),
        Ring(300, columns=256, write_index=2, offset=2),
        Full(256, 3),
    ],
)
def test_a_row_that_joins_alone_stays_as_it_lies(serial: Ring | Full):
    window = serial.window if isinstance(serial, Ring) else None
    moved = index_group.joined(window, [(index_group.lone(serial), 0)])
    assert moved.sources == (tuple(range(serial.columns)),)
    assert (moved.after.columns, moved.after.offsets) == (serial.columns, (serial.offset,))
    assert moved.after.write_index == (serial.write_index if isinstance(serial, Ring) else serial.offset)
    assert moved.after.rotated == (isinstance(serial, Ring) and serial.rotated)


def test_a_lone_row_keeps_its_left_padding():
    survivor = Group(4, 3, 3, offsets=(1,))
    assert index_group.joined(4, [(survivor, 0)]) == Moved(((0, 1, 2),), survivor)


def test_one_row_of_several_is_extracted():
    pair = Group(4, 4, 1, rotated=True, offsets=(9, 2))
    assert index_group.joined(4, [(pair, 1)]) == Moved(((3, 0),), Group(4, 2, 2, offsets=(2,)))


def test_a_join_of_empty_rows_allocates_nothing():
    empty = Group(None, 256, 0, offsets=(0,))
    assert index_group.joined(None, [(empty, 0), (empty, 0)]) == Moved(((), ()), Group(None, offsets=(0, 0)))
    assert index_group.joined(4, []) == Moved((), Group(4))


# Padding announced, and rows emptied.


def test_prepare_counts_left_padding_below_zero_and_sets_ends_only_for_right_padding():
    empty = Group(4, offsets=(0, 0))
    assert index_group.prepared(empty, (2, 0), None, None) == Group(4, offsets=(-2, 0))
    assert index_group.prepared(empty, (2, 0), (5, 3), (0, 2)) == Group(4, offsets=(-2, 0), ends=(3, 3))
    assert index_group.prepared(empty, None, (5, 3), (0, 0)) == empty
    assert index_group.prepared(empty, None, (5, 3), None) == empty
    begun = Group(4, 3, 3, offsets=(3, 1))
    assert index_group.prepared(begun, None, (2, 0), (0, 2)) == evolve(begun, ends=(5, 1))
    assert index_group.prepared(Group(4), (1, 0, 0), None, None) == Group(4, offsets=(-1, 0, 0))


@pytest.mark.parametrize(
    ("group", "left", "lengths", "right", "said"),
    [
        (Group(4, 3, 3, offsets=(3, 0)), (0, 1), None, None, "left padding"),
        (Group(4, offsets=(0, 0)), (1,), None, None, "1 numbers for 2 rows"),
        (Group(4), (1, 2), (3,), (1, 0), "1 numbers for 2 rows"),
        (Group(4, offsets=(0, 0)), (-1, 0), None, None, "below 0"),
        (Group(4, offsets=(0, 0)), None, (1, -1), None, "below 0"),
        (Group(4, offsets=(0, 0)), None, None, (0, 1), "needs the lengths"),
        (Group(4, offsets=(0, 0)), (0, 2), (3, 1), (1, 0), "row 1"),
        (Group(4, offsets=(0, 0), ends=(1, 1)), None, None, None, "earlier padding"),
        (Group(4, offsets=(-1, 0)), None, None, None, "earlier padding"),
    ],
)
def test_impossible_padding(
    group: Group,
    left: tuple[int, ...] | None,
    lengths: tuple[int, ...] | None,
    right: tuple[int, ...] | None,
    said: str,
):
    assert said in (index_group.prepare_problem(group, left, lengths, right) or "")


@pytest.mark.parametrize(
    ("group", "left", "lengths", "right"),
    [
        (Group(4, 3, 3, offsets=(3, 0)), (0, 0), None, None),
        (Group(4, 4, 0, offsets=(0, 0)), (2, 1), (2, 5), (1, 0)),
        (Group(4, offsets=(0, 0)), (0, 2), (3, 1), (0, 0)),  # lengths are not used
        (Group(4), None, None, None),
    ],
)
def test_possible_padding(
    group: Group, left: tuple[int, ...] | None, lengths: tuple[int, ...] | None, right: tuple[int, ...] | None
):
    assert index_group.prepare_problem(group, left, lengths, right) is None


def test_reset_keeps_the_count_of_rows():
    before = Group(4, 4, 1, rotated=True, offsets=(9, 2, -1), ends=(9, 3, 4))
    assert index_group.reset_rows(before) == Group(4, offsets=(0, 0, 0))


# Masks.


def test_a_block_hides_dead_columns_and_what_is_older_than_the_window():
    group = Group(3, 3, 3, offsets=(3, 1))
    shown = [[[j for j in range(4) if index_group.block_visible(group, b, 2, i, j)] for i in range(2)] for b in (0, 1)]
    assert shown == [[[0, 1, 2], [1, 2, 3]], [[1, 2], [1, 2, 3]]]
    assert index_group.mask_kind(group, 2, "window") == "array"
    assert not any(index_group.block_visible(group, 0, 2, i, j) for i in (-1, 2) for j in range(4))  # no such query


def test_a_block_after_right_padding_counts_from_the_valid_offset():
    group = Group(4, 4, 4, offsets=(4, 4), ends=(3, 1))  # one column goes; three are left, of row 1 one is live
    shown = [[[j for j in range(5) if index_group.block_visible(group, b, 2, i, j)] for i in range(2)] for b in (0, 1)]
    assert shown == [[[0, 1, 2, 3], [1, 2, 3, 4]], [[2, 3], [2, 3, 4]]]


def test_a_decode_hides_dead_columns_where_they_lie():
    full = Group(4, 4, 1, rotated=True, offsets=(9, 2))  # in time 1 2 3 0; the decode overwrites column 1
    assert [[c for c in range(5) if index_group.decode_visible(full, b, c)] for b in (0, 1)] == [
        [0, 1, 2, 3],
        [0, 1, 3],
    ]
    assert [c for c in range(4) if index_group.decode_visible(full, 0, c, 2)] == [0, 1]
    short = Group(4, 4, 2, offsets=(2, 0))
    assert [[c for c in range(4) if index_group.decode_visible(short, b, c)] for b in (0, 1)] == [[0, 1, 2], [2]]


@pytest.mark.parametrize(
    ("group", "length", "phase", "argument", "kind"),
    [
        (Group(4, offsets=(0, 0)), 4, "window", None, "causal"),
        (Group(4, offsets=(0, 0)), 5, "window", None, "array"),
        (Group(4, 2, 2, offsets=(2, 2)), 2, "window", None, "causal"),
        (Group(4, 2, 2, offsets=(2, 1)), 2, "window", None, "array"),
        (Group(4, 2, 2, offsets=(2, 2)), 2, "window", 3, "array"),
        (Group(None, 256, 2, offsets=(2, 2)), 9, "window", None, "causal"),
        (Group(None, 256, 2, offsets=(2, 1)), 9, "window", None, "array"),
        (Group(None, 256, 2, offsets=(2, 2)), 2, "window", 4, "causal"),
        (Group(4, offsets=(-1, 0)), 2, "window", None, "array"),
        (Group(4, 4, 4, offsets=(4, 4), ends=(2, 2)), 2, "window", None, "causal"),
        (Group(4, 4, 2, offsets=(2, 2)), 1, "decode", None, "none"),
        (Group(4, 4, 2, offsets=(2, 1)), 1, "decode", None, "array"),
        (Group(4, 4, 1, rotated=True, offsets=(9, 3)), 1, "decode", None, "none"),  # the dead column is overwritten
        (Group(4, 4, 1, rotated=True, offsets=(9, 2)), 1, "decode", None, "array"),
        (Group(4, 4, 1, rotated=True, offsets=(9, 9)), 1, "decode", 3, "array"),
        (Group(4, 4, 1, rotated=True, offsets=(9, 9)), 1, "decode", 7, "none"),
    ],
)
def test_a_mask_is_an_array_only_where_it_hides_something(
    group: Group, length: int, phase: index_group.Phase, argument: int | None, kind: str
):
    assert index_group.mask_kind(group, length, phase, argument) == kind
