"""The gated delta rule, NumPy against mlx-lm's ``gated_delta_update``, bit for bit, on arbitrary inputs.

The ``ci`` budget of the campaign by default; KVLAW_LONG=1 runs the ``deep`` one (600 cases per format), as ``kvlaw
arithmetic --budget deep`` does. Where MLX's arithmetic is not the modelled one, the comparison is skipped: it is never
loosened.
"""

import os

import numpy as np
import pytest

from kvlaw.conformance.campaigns.campaign import Budget
from kvlaw.conformance.campaigns.cases import FINITE_NONZERO
from kvlaw.conformance.campaigns.recurrence import RecurrenceCase, compare, recurrence, recurrence_case
from kvlaw.reference.numerics import DTYPES, FAMILY_NAMES, Bits, DType
from kvlaw.reference.numerics.gated_delta import Padding, Projected, gated_delta

BUDGET: Budget = "deep" if os.environ.get("KVLAW_LONG") == "1" else "ci"


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_model_and_mlx_lm_give_the_same_bits(dtype: DType) -> None:
    campaign = recurrence()
    if not campaign.modelled():
        pytest.skip("mlx-lm is not installed, or MLX has not the modelled x86-64 CPU arithmetic: not observed")
    result = campaign.run(dtype, campaign.cases[BUDGET])
    assert result.tally.values > 1000 * result.cases, result.describe()
    assert result.tally.share(FINITE_NONZERO) >= 0.6, result.describe()
    assert result.tally.differing == 0, result.first_difference


@pytest.fixture(scope="module")
def deep() -> list[RecurrenceCase]:
    return [recurrence_case(number, "f16") for number in range(recurrence().cases["deep"])]


def test_the_long_campaign_draws_every_sort_of_case(deep: list[RecurrenceCase]) -> None:
    assert len(deep) >= 500
    assert {case.family for case in deep} == set(FAMILY_NAMES)
    assert {case.family_of for case in deep} == {"keys", "values", "gates", "state", "all"}
    assert {case.projected.keys.shape[1] for case in deep} == set(range(1, 13))
    assert {case.projected.keys.shape[3] for case in deep} == {4, 32, 128}
    assert {case.projected.values.shape[2] // case.projected.keys.shape[2] for case in deep} == {1, 2}
    assert 100 < sum(case.state is None for case in deep) < 300
    assert 150 < sum(case.padding is not None for case in deep) < 350


def test_a_case_is_drawn_from_its_number_alone() -> None:
    first, again, other = (recurrence_case(number, "bf16", seed=3) for number in (17, 17, 18))
    assert np.array_equal(first.projected.values, again.projected.values)
    assert first.describe() == again.describe() != other.describe()


def of_the_last_position_alone(projected: Projected, state: Bits | None, padding: Padding) -> tuple[Bits, Bits]:
    """The model on the last position alone: what a kernel does that forgets the state between positions."""
    outputs, _ = gated_delta(projected.inputs(), state, padding)
    last = projected.inputs().between(projected.inputs().length - 1, projected.inputs().length)
    return outputs, gated_delta(last, state, None if padding is None else padding[:, -1:])[1]


def test_a_state_that_misses_positions_is_found() -> None:
    result = recurrence(of_the_last_position_alone).run("f32", 10)
    assert result.tally.differing > 0
    assert result.first_difference is not None


def test_an_output_at_a_padded_position_is_not_compared() -> None:
    number = next(number for number in range(40) if recurrence_case(number, "f32").padding is not None)
    case = recurrence_case(number, "f32")

    def zero_where_padded(projected: Projected, state: Bits | None, padding: Padding) -> tuple[Bits, Bits]:
        assert padding is not None
        outputs, then = gated_delta(projected.inputs(), state, padding)
        return np.where(padding[..., np.newaxis, np.newaxis], outputs, np.uint32(0)), then

    assert compare(case, zero_where_padded).differing == 0
