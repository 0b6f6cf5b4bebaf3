"""The definition of visibility, against positions worked out by hand and against slices of lists."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kvlaw.reference.history import Row, Sight, sees, sight


def seen(query: int, window: int | None, sinks: int = 0) -> list[int]:
    """List the positions below 20 that a query sees."""
    return [key for key in range(20) if sees(query, key, window, sinks)]


def test_a_growing_cache_shows_everything_up_to_the_query():
    assert seen(0, None) == [0]
    assert seen(5, None) == [0, 1, 2, 3, 4, 5]


def test_a_ring_shows_the_newest_window_of_the_query():
    assert seen(3, 4) == [0, 1, 2, 3]
    assert seen(4, 4) == [1, 2, 3, 4]
    assert seen(9, 4) == [6, 7, 8, 9]
    assert seen(7, 1) == [7]


def test_sinks_are_seen_for_ever_and_counted_in_the_window():
    assert seen(3, 4, 2) == [0, 1, 2, 3]  # below the window nothing is hidden
    assert seen(4, 4, 2) == [0, 1, 3, 4]
    assert seen(9, 4, 2) == [0, 1, 8, 9]
    assert seen(9, 4, 3) == [0, 1, 2, 9]
    assert seen(9, 8, 1) == [0, 3, 4, 5, 6, 7, 8, 9]


def test_no_query_sees_a_position_before_the_first_or_after_itself():
    assert not sees(3, -1, None)
    assert not sees(3, 4, None)
    assert not sees(3, 4, 8, 2)


@given(st.integers(0, 40), st.integers(1, 12), st.data())
@settings(max_examples=200, deadline=None, derandomize=True)
def test_visible_positions_are_a_slice_of_the_past(query: int, window: int, data: st.DataObject):
    sinks = data.draw(st.integers(0, window - 1))
    past = list(range(query + 1))
    wanted = past if len(past) <= window else past[:sinks] + past[len(past) - (window - sinks) :]
    assert [key for key in range(query + 5) if sees(query, key, window, sinks)] == wanted


def test_a_rewritten_position_shows_its_new_token():
    row = Row((1, 2, 3, 4)).trimmed(2).appended((5, 6, 7))
    assert row.tokens == (1, 2, 5, 6, 7)
    assert sight(row, 3, None) == Sight((1, 2, 5, 6), (1, 2, 5, 6))
    assert sight(row, 4, 2) == Sight((6, 7), (6, 7))


def test_what_a_ring_had_evicted_before_a_cut_may_be_missing_but_not_what_it_held():
    row = Row(tuple(range(1, 13))).trimmed(2, window=8)  # 12 positions in a ring of 8: 0 to 3 are evicted
    assert (row.offset, row.floor) == (10, 4)
    row = row.appended((13,))  # its query at 10 sees positions 3 to 10
    found = sight(row, 10, 8)
    assert found == Sight((5, 6, 7, 8, 9, 10, 13), (4, 5, 6, 7, 8, 9, 10, 13))
    assert found.admits((5, 6, 7, 8, 9, 10, 13))
    assert found.admits((4, 5, 6, 7, 8, 9, 10, 13))
    assert not found.admits((6, 7, 8, 9, 10, 13))
    assert not found.admits((3, 4, 5, 6, 7, 8, 9, 10, 13))


def test_a_trim_of_nothing_loses_nothing():
    row = Row(tuple(range(1, 13)))
    assert row.trimmed(0, window=8) == row


def test_pinned_positions_survive_a_cut():
    row = (
        Row(tuple(range(1, 13))).trimmed(1, window=4).appended((13,))
    )  # positions 0 to 7 are evicted, but for the sink
    assert sight(row, 11, 4, 1) == Sight((1, 10, 11, 13), (1, 10, 11, 13))
    assert sight(row, 9, 4, 1) == Sight((1, 9, 10), (1, 8, 9, 10))


def test_a_sight_admits_each_token_once_in_any_order():
    found = Sight((3, 4, 5), (3, 4, 5))
    assert found.admits((4, 5, 3))
    assert not found.admits((3, 4, 5, 5))
    assert not found.admits((3, 4))
    assert not found.admits((3, 4, 5, 6))
    assert not found.admits((0, 3, 4, 5))
