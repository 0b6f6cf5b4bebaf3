"""Plans of `index` worked out by hand: growth at the allocation step, wrap, overshoot, sinks, bypass, limits."""

import pytest

from kvlaw.reference.index import (
    Full,
    Plan,
    Ring,
    active,
    can_bypass,
    can_narrow,
    can_trim,
    column_position,
    full_plan,
    is_valid,
    live,
    mask_kind,
    max_columns,
    plan_block,
    plan_bypass,
    plan_decode,
    plan_trim,
    position_column,
    temporal_columns,
    visible,
)


def decoded(ring: Ring, count: int) -> Ring:
    for _ in range(count):
        ring = plan_decode(ring).after
    return ring


@pytest.mark.parametrize(
    ("offset", "added", "columns"),
    [(0, 256, 256), (254, 0, 256), (255, 0, 256), (256, 244, 500), (257, 0, 500)],
)
def test_ring_decode_grows_by_the_step_up_to_the_window(offset: int, added: int, columns: int):
    plan = plan_decode(decoded(Ring(window=500), offset))
    assert (plan.add, plan.keep, plan.write_at, plan.after.columns) == (added, None, offset, columns)
    assert plan.fetch == tuple(range(offset + 1))


@pytest.mark.parametrize(("length", "columns"), [(1, 256), (255, 256), (256, 256), (257, 512), (512, 512), (513, 768)])
def test_full_growth_from_empty_rounds_up_to_the_step(length: int, columns: int):
    assert full_plan(Full(), length) == Plan(
        add=columns, keep=None, write_at=0, length=length, fetch=tuple(range(length)), after=Full(columns, length)
    )


def test_full_growth_cuts_stale_columns_of_a_trim():
    plan = full_plan(plan_trim(Full(columns=256, offset=256), 2), 3)
    assert plan.keep == (*range(254), *range(256, 514))
    assert (plan.add, plan.write_at, plan.after) == (258, 254, Full(columns=512, offset=257))


def test_full_growth_at_a_multiple_of_the_step_cuts_stale_columns_too():
    plan = full_plan(plan_trim(Full(columns=512, offset=512), 256), 257)
    assert plan.keep == (*range(256), *range(512, 1024))
    assert (plan.add, plan.after) == (512, Full(columns=768, offset=513))


def test_full_append_that_fits_leaves_the_buffer():
    plan = full_plan(Full(columns=256, offset=255), 1)
    assert (plan.add, plan.keep, plan.write_at, plan.after) == (0, None, 255, Full(columns=256, offset=256))


def test_ring_before_at_and_after_the_wrap():
    ring = decoded(Ring(window=4), 4)
    assert ring == Ring(window=4, columns=4, write_index=4, offset=4)
    wrapped = plan_decode(ring)
    assert (wrapped.add, wrapped.keep, wrapped.write_at, wrapped.fetch) == (0, None, 0, (0, 1, 2, 3))
    assert wrapped.after == Ring(window=4, columns=4, write_index=1, rotated=True, offset=5)
    assert temporal_columns(wrapped.after) == (1, 2, 3, 0)
    assert [column_position(wrapped.after, column) for column in range(5)] == [4, 1, 2, 3, None]
    assert [position_column(wrapped.after, position) for position in range(6)] == [None, 1, 2, 3, 0, None]


def test_ring_with_sinks_wraps_to_the_first_unpinned_column():
    ring = decoded(Ring(window=5, sinks=2), 7)
    assert ring == Ring(window=5, sinks=2, columns=5, write_index=4, rotated=True, offset=7)
    assert temporal_columns(ring) == (0, 1, 4, 2, 3)
    assert [column_position(ring, column) for column in range(5)] == [0, 1, 5, 6, 4]


def test_window_lays_a_wrapped_ring_out_and_keeps_all_but_the_oldest():
    plan = plan_block(decoded(Ring(window=4), 6), 2)
    assert (plan.add, plan.keep, plan.write_at, plan.fetch) == (0, (3, 0, 1), 3, (0, 1, 2, 3, 4))
    assert plan.after == Ring(window=4, columns=5, write_index=5, offset=8, block=2)


def test_window_of_a_wrapped_ring_keeps_its_sinks():
    plan = plan_block(decoded(Ring(window=5, sinks=2), 7), 1)
    assert plan.keep == (0, 1, 2, 3)
    assert plan.after == Ring(window=5, sinks=2, columns=5, write_index=5, offset=8, block=1)


def test_first_window_is_stored_uncut_and_the_next_decode_drops_the_overshoot():
    plan = plan_block(Ring(window=4), 7)
    assert (plan.keep, plan.write_at, plan.after.columns) == (None, 0, 7)
    decode = plan_decode(plan.after)
    assert (decode.add, decode.keep, decode.write_at, decode.fetch) == (0, (3, 4, 5, 6), 0, (0, 1, 2, 3))
    assert decode.after == Ring(window=4, columns=4, write_index=1, rotated=True, offset=8)


def test_overshoot_is_dropped_behind_the_sinks():
    decode = plan_decode(plan_block(Ring(window=4, sinks=1), 7).after)
    assert (decode.keep, decode.write_at) == ((0, 4, 5, 6), 1)
    assert [column_position(decode.after, column) for column in range(4)] == [0, 7, 5, 6]


def test_window_drops_spare_columns():
    plan = plan_block(decoded(Ring(window=8), 3), 2)
    assert (plan.keep, plan.write_at, plan.after.columns) == ((0, 1, 2), 3, 5)


def test_window_of_one_token_concatenates():
    plan = plan_block(decoded(Ring(window=4), 4), 1)
    assert (plan.keep, plan.write_at) == ((1, 2, 3), 3)
    assert plan.after == Ring(window=4, columns=4, write_index=4, offset=5, block=1)


def test_ring_of_one_position_keeps_no_history():
    ring = decoded(Ring(window=1), 3)
    assert ring == Ring(window=1, columns=1, write_index=1, rotated=True, offset=3)
    plan = plan_block(ring, 2)
    assert (plan.keep, plan.write_at, plan.fetch) == ((), 0, (0, 1))
    assert not active(plan_bypass(plan.after, 2))


def test_trim_moves_no_data_and_stale_columns_are_never_laid_out_again():
    ring = plan_trim(plan_block(Ring(window=8), 6).after, 2)
    assert ring == Ring(window=8, columns=6, write_index=4, offset=4)
    assert plan_block(ring, 1).keep == (0, 1, 2, 3)
    assert plan_decode(ring).write_at == 4


def test_trim_of_nothing_changes_nothing():
    ring = plan_block(Ring(window=8), 6).after
    assert plan_trim(ring, 0) == ring


@pytest.mark.parametrize(("offset", "allowed"), [(0, 1), (3, 4), (4, 0), (5, 0)])
def test_ring_trim_limit(offset: int, allowed: int):
    ring = decoded(Ring(window=4), offset)
    assert [n for n in range(-1, 8) if can_trim(ring, n)] == list(range(allowed))


def test_bypass_drops_the_end_of_the_newest_window_only():
    ring = plan_block(decoded(Ring(window=4), 6), 3).after
    assert [n for n in range(-1, 6) if can_bypass(ring, n)] == [0, 1, 2, 3]
    cut = plan_bypass(ring, 2)
    assert cut == Ring(window=4, columns=4, write_index=4, offset=7, block=1)
    assert [n for n in range(-1, 6) if can_bypass(cut, n)] == [0, 1]
    assert not can_bypass(decoded(cut, 1), 1)


def test_bypass_of_a_whole_window_leaves_what_the_next_query_needs():
    ring = plan_bypass(plan_block(decoded(Ring(window=4), 6), 3).after, 3)
    assert ring == Ring(window=4, columns=3, write_index=3, offset=6)
    assert is_valid(ring)
    assert (active(ring), live(ring)) == (3, 4)
    plan = plan_decode(ring)
    assert (plan.add, plan.write_at, plan.fetch) == (1, 3, (0, 1, 2, 3))


@pytest.mark.parametrize(
    ("query", "window", "sinks", "seen"),
    [
        (0, 1, 0, [0]),
        (5, 1, 0, [5]),
        (5, 3, 0, [3, 4, 5]),
        (2, 4, 2, [0, 1, 2]),
        (3, 4, 2, [0, 1, 2, 3]),
        (6, 4, 2, [0, 1, 5, 6]),
        (6, 4, 3, [0, 1, 2, 6]),
        (6, None, 0, [0, 1, 2, 3, 4, 5, 6]),
    ],
)
def test_law_of_visibility(query: int, window: int | None, sinks: int, seen: list[int]):
    assert [key for key in range(-2, query + 3) if visible(query, key, window, sinks)] == seen


def test_mask_kinds_of_a_ring():
    ring = Ring(window=4)
    assert mask_kind(ring, 4, "window") == "causal"
    assert mask_kind(ring, 5, "window") == "array"
    assert mask_kind(ring, 4, "window", 3) == "array"
    assert mask_kind(ring, 5, "window", 9) == "array"
    full_ring = decoded(ring, 9)
    assert mask_kind(full_ring, 1, "window") == "causal"
    assert mask_kind(full_ring, 2, "window") == "array"
    assert mask_kind(full_ring, 1, "decode") == mask_kind(full_ring, 1, "decode", 4) == "none"
    assert mask_kind(full_ring, 1, "decode", 3) == "array"
    assert mask_kind(decoded(ring, 2), 1, "decode", 3) == "none"


def test_window_arguments_that_can_be_asked():
    assert [can_narrow(Ring(4), w) for w in (None, 0, 1, 4, 9)] == [True, False, True, True, True]
    assert [can_narrow(Ring(4, 1), w) for w in (None, 0, 1, 3, 4, 9)] == [True, False, False, False, True, True]
    assert [can_narrow(Full(), w) for w in (None, 0, 1, 9)] == [True, False, True, True]


@pytest.mark.parametrize(
    "state",
    [
        Ring(window=0),
        Ring(window=4, sinks=-1),
        Ring(window=4, sinks=4),
        Ring(window=4, columns=2, write_index=3, offset=3),
        Ring(window=4, columns=4, write_index=2, offset=3),
        Ring(window=4, columns=4, write_index=2, offset=9),
        Ring(window=4, columns=6, write_index=4, offset=9),
        Ring(window=4, columns=6, write_index=6, offset=5),
        Ring(window=4, columns=3, write_index=1, rotated=True, offset=9),
        Ring(window=4, sinks=2, columns=4, write_index=2, rotated=True, offset=9),
        Ring(window=4, columns=4, write_index=4, offset=9, block=2),
        Ring(window=4, columns=4, write_index=2, rotated=True, offset=9, block=1),
        Ring(window=4, columns=4, write_index=3, offset=3, block=1),
        Ring(window=4, columns=3, write_index=3, offset=3, block=-1),
        Full(columns=2, offset=3),
        Full(columns=2, offset=-1),
    ],
)
def test_states_that_no_history_reaches(state: Ring | Full):
    assert not is_valid(state)


def test_memory_bounds():
    ring = decoded(Ring(window=4), 9)
    assert (max_columns(ring, 1, "decode"), max_columns(ring, 7, "window")) == (4, 10)
    assert max_columns(Full(columns=256, offset=10), 300, "window") == 566
