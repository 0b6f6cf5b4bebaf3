"""When a cache turns to codes, worked out by hand from chapter 11."""

import pytest

from kvlaw.reference.index_policy import after_conversion, floor_after, is_due, positions_left
from kvlaw.reference.index_state import Full, Ring


@pytest.mark.parametrize(
    ("start", "offset", "due"),
    [
        (0, 0, False),  # an empty cache never is
        (0, 1, True),
        (1, 0, False),
        (1, 1, True),  # the start itself is reached
        (5, 4, False),
        (5, 5, True),
        (5, 7, True),
        (512, 511, False),
        (512, 512, True),
    ],
)
def test_a_cache_is_due_from_its_start_on_unless_it_is_empty(start: int, offset: int, due: bool) -> None:
    assert is_due(start, offset) is due


@pytest.mark.parametrize(
    ("start", "offset", "left"),
    [
        (5, 0, 5),
        (5, 3, 2),
        (5, 4, 1),
        (5, 5, None),
        (5, 9, None),
        (1, 0, 1),
        (0, 0, None),  # any number makes it due: by definition unbounded
        (0, 3, None),
    ],
)
def test_how_many_positions_make_it_due(start: int, offset: int, left: int | None) -> None:
    assert positions_left(start, offset) == left


@pytest.mark.parametrize(("start", "offset"), [(5, 0), (5, 3), (5, 4), (1, 0), (600, 599)])
def test_exactly_that_many_make_it_due_and_one_fewer_does_not(start: int, offset: int) -> None:
    left = positions_left(start, offset)
    assert left is not None
    assert is_due(start, offset + left)
    assert not is_due(start, offset + left - 1)


@pytest.mark.parametrize(("start", "offset", "floor"), [(5, 5, 5), (5, 7, 7), (1, 1, 1), (0, 1, 0), (0, 9, 0)])
def test_the_floor_is_the_offset_at_conversion_and_none_with_start_0(start: int, offset: int, floor: int) -> None:
    assert floor_after(start, offset) == floor


@pytest.mark.parametrize(
    "state",
    [
        Full(columns=256, offset=5),
        Ring(window=4, columns=4, write_index=2, rotated=True, offset=6),
        Ring(window=4, columns=4, write_index=2, offset=2),  # two spare columns
        Ring(window=4, sinks=1, columns=7, write_index=7, offset=9, block=4),  # what a bypass may cut stays
    ],
)
def test_a_conversion_leaves_the_geometry(state: Full | Ring) -> None:
    assert after_conversion(state) == state
