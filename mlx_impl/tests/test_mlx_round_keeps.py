"""How many positions a group keeps of a round: one number, a list of one, or one number per row."""

from typing import Any

import pytest

from kvlaw.mlx_impl import RowGroup, make_rows
from kvlaw.mlx_impl.errors import RoundError


def drafted(kind: Any, stamp: Any, rows: int = 2) -> RowGroup:
    """Make a group with a round in which two positions were appended to each row at offset 1."""
    group = make_rows(kind, 2 if kind == "ring_rows" else None, rows)
    group.append_decode(*stamp([1], batch=rows))
    group.begin_round()
    group.append_window(*stamp([2, 3], batch=rows))
    return group


@pytest.mark.parametrize("kind", ["full_rows", "ring_rows"])
@pytest.mark.parametrize(
    ("keep", "offsets"),
    [(0, (1, 1)), (1, (2, 2)), ([1], (2, 2)), ((0,), (1, 1)), ([2, 0], (3, 1)), ((1, 2), (2, 3))],
)
def test_each_row_keeps_its_number_or_the_one_for_all(kind: Any, keep: Any, offsets: Any, stamp: Any) -> None:
    group = drafted(kind, stamp)
    group.roll_back(keep)
    assert group.offsets == offsets
    assert not group.in_round


@pytest.mark.parametrize("keep", ["1", "11", None, 1.5, True, [], [1, "1"], [1, None], [1, 1, 1], [3], [0, 3], [0, -1]])
def test_what_is_no_number_per_row_is_refused(keep: Any, stamp: Any) -> None:
    group = drafted("full_rows", stamp)
    with pytest.raises(RoundError, match="ROUND-7"):
        group.roll_back(keep)
    assert group.offsets == (3, 3)
    assert group.in_round
