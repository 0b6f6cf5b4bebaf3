"""Recurrent rows in NumPy, by hand: which positions a row has, its tail, and what its slots hold.

The probe: one head of 3 slots; a position writes its number to the slot ``number % 3`` and reads that slot, and its
convolution input is its number. So a matrix tells which position last wrote each slot.
"""

from typing import Any

import numpy as np
import pytest

from kvlaw.reference.layout import Refusal
from kvlaw.reference.numerics import Bits, decode, encode
from kvlaw.reference.numerics.gated_delta import Inputs
from kvlaw.reference.recurrent import Recurrent, merge


def positions(*rows: list[int]) -> tuple[Bits, Inputs]:
    numbers = np.array(rows, np.float32)
    slots = np.eye(3, dtype=np.float32)[numbers.astype(int) % 3][:, :, None]
    keys, values = encode(slots, "f32"), encode(numbers[..., None, None], "f32")
    ones = encode(np.ones((*numbers.shape, 1)), "f32")
    return encode(numbers[..., None], "f32"), Inputs(keys, keys, values, ones, ones, "f32")


def shown(group: Recurrent) -> list[tuple[list[float], list[float]]]:
    """The tail and the slots of every row."""
    state = group.state()
    assert state is not None
    tails, matrices = (decode(part, "f32") for part in state)
    return [(tail[:, 0].tolist(), matrix[0, 0].tolist()) for tail, matrix in zip(tails, matrices, strict=True)]


def group_of(*rows: list[int], kernel: int = 3) -> Recurrent:
    made: list[Recurrent] = []
    for row in rows:
        made.append(Recurrent.of_empty_rows(kernel, 1))
        if row:
            made[-1].advance(*positions(row))
    return merge(made)


def test_a_row_holds_its_newest_inputs_and_the_newest_write_of_each_slot() -> None:
    group = group_of([1, 2, 4], [5])
    assert shown(group) == [([2, 4], [0, 4, 2]), ([0, 5], [0, 0, 5])]
    outputs = group.advance(*positions([6, 7], [8, 9]))
    assert decode(outputs, "f32")[..., 0, 0].tolist() == [[6, 7], [8, 9]]
    assert shown(group) == [([6, 7], [6, 7, 2]), ([8, 9], [9, 0, 8])]
    assert group.offsets == (5, 3)


def test_a_round_keeps_its_first_positions_row_by_row() -> None:
    group = group_of([1], [2])
    group.begin_round()
    group.advance(*positions([4, 5], [7, 8]))
    group.advance(*positions([6], [9]))
    group.roll_back([2, 0])
    assert shown(group) == [([4, 5], [0, 4, 5]), ([0, 2], [0, 0, 2])]
    assert group.offsets == (3, 1)


def test_padding_is_read_as_zeros_and_enters_no_row() -> None:
    group = Recurrent.of_empty_rows(3, 2)
    group.prepare([2, 0], [4, 1], [0, 3])
    inputs, projected = positions([91, 92, 1], [2, 93, 94])
    assert decode(group.window(inputs), "f32")[..., 0].tolist() == [[0, 0, 0, 0, 1], [0, 0, 2, 0, 0]]
    assert group.counts(3).tolist() == [[False, False, True], [True, False, False]]
    outputs = group.advance(inputs, projected)
    assert decode(outputs, "f32")[..., 0, 0].tolist() == [[0, 0, 1], [2, 0, 0]]
    group.advance(*positions([4, 95], [96, 97]))
    assert group.offsets == (2, 1)
    group.finalize()
    assert shown(group) == [([1, 4], [0, 4, 0]), ([0, 2], [0, 0, 2])]
    group.advance(*positions([5], [6]))
    assert shown(group) == [([4, 5], [0, 4, 5]), ([2, 6], [6, 0, 2])]


def test_rows_come_and_go_with_all_that_they_hold() -> None:
    group = group_of([1, 2], [4], [])
    assert shown(group.extract(1)) == [([0, 4], [0, 4, 0])]
    assert group.extract(2).state() is None
    group.filter([2, 0])
    assert shown(group) == [([0, 0], [0, 0, 0]), ([1, 2], [0, 1, 2])]
    twin = group.clone()
    twin.advance(*positions([6], [7]))
    assert shown(group)[1] == ([1, 2], [0, 1, 2])
    group.reset()
    assert (group.state(), group.offsets, twin.offsets) == (None, (0, 0), (1, 3))


def test_what_cannot_be_is_refused_and_changes_nothing() -> None:
    opened, padded, bare = group_of([1], [2]), group_of([1], [2]), group_of([1], [2])
    opened.begin_round()
    opened.advance(*positions([4], [5]))
    padded.prepare(None, [1, 2], [1, 0])
    wrong: list[tuple[Recurrent, Any]] = [
        (opened, opened.begin_round),
        (opened, lambda: opened.roll_back([2, 0])),
        (opened, lambda: opened.roll_back([1])),
        (opened, lambda: opened.extract(0)),
        (opened, lambda: merge([opened])),
        (padded, padded.begin_round),
        (padded, lambda: padded.prepare(None, [1, 2], [1, 0])),
        (bare, bare.commit_round),
        (bare, lambda: bare.prepare([1, 0], None, None)),
        (bare, lambda: bare.prepare(None, None, [1, 0])),
        (bare, lambda: bare.prepare(None, [1], [1])),
        (bare, lambda: bare.extract(2)),
        (bare, lambda: bare.filter([0, 0])),
        (bare, lambda: bare.advance(*positions([1]))),
        (bare, lambda: merge([bare, group_of([1], kernel=4)])),
    ]
    for group, act in wrong:
        before = (shown(group), group.offsets, group.starts, group.padded)
        with pytest.raises(Refusal):
            act()
        assert (shown(group), group.offsets, group.starts, group.padded) == before
    with pytest.raises(Refusal):
        Recurrent.of_empty_rows(0, 1)
