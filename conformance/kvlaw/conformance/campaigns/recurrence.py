"""The campaign of the gated delta rule: outputs and state of drawn positions, gates included.

Running through the numbers, the families of `kvlaw.reference.numerics.inputs` take turns, and with them what is drawn
from the family: keys and queries, values, what the gates are made of, the state before, or all. Sizes are drawn: 1 or 2
rows, 1 to 12 positions, 1 or 2 key heads with 1 or 2 value heads each, keys of 4, 32 or 128, values of 1 to 24. A state
is there or not, and so is padding; what is computed at a padded position is not compared, the state behind it is.

Nothing here imports MLX: the side that is compared with the reference is an argument, mlx-lm's by default.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

import attrs
import numpy as np
from numpy.random import Generator

from kvlaw.conformance.campaigns.campaign import Campaign, Tally
from kvlaw.conformance.campaigns.cases import FINITE_NONZERO, generator, often_at_a_limit
from kvlaw.conformance.subjects.mlx_lm_recurrence import gated_delta_update, recurrence_is_modelled
from kvlaw.reference.numerics import FAMILY_NAMES, Bits, DType, decode, differing, family
from kvlaw.reference.numerics.gated_delta import Padding, Projected, gated_delta

Update: TypeAlias = Callable[[Projected, Bits | None, Padding], tuple[Bits, Bits]]
OUTPUTS: Final = "outputs"
STATE: Final = "elements of state"
_FAMILY_OF: Final = ("keys", "values", "gates", "state", "all")


@attrs.frozen(eq=False)
class RecurrenceCase:
    """One comparison: what a model projects for some positions, the state before and the padding among them."""

    number: int
    seed: int
    family: str
    family_of: str
    projected: Projected
    state: Bits | None
    padding: Padding

    def describe(self) -> str:
        """Say in one line what the case is and how to draw it again."""
        dtype, shapes = self.projected.dtype, f"keys {self.projected.keys.shape}, values {self.projected.values.shape}"
        given = f"{'no ' * (self.state is None)}state, {'no ' * (self.padding is None)}padding"
        drawn = f"{self.family_of} from {self.family!r}"
        return f"case {self.number} of {dtype}, seed {self.seed}: {shapes}, {given}; {drawn}"


def recurrence(update: Update = gated_delta_update) -> Campaign[RecurrenceCase]:
    """Make the campaign that compares ``update`` with the reference."""
    return Campaign(
        "recurrence",
        recurrence_case,
        lambda case: compare(case, update),
        recurrence_is_modelled,
        {"ci": 30, "deep": 600},
    )


def recurrence_case(number: int, dtype: DType, seed: int = 0) -> RecurrenceCase:
    """Draw case ``number`` of the campaign in ``dtype``."""
    rng = generator(number, dtype, seed)
    name, family_of = FAMILY_NAMES[number % len(FAMILY_NAMES)], str(rng.choice(_FAMILY_OF))
    batch, length = int(rng.integers(1, 3)), often_at_a_limit(rng, 1, 12)
    key_heads, key_size = int(rng.integers(1, 3)), int(rng.choice([4, 32, 128]))
    heads, value_size = key_heads * int(rng.integers(1, 3)), often_at_a_limit(rng, 1, 24)

    def part(role: str, *shape: int, of: DType = dtype) -> Bits:
        return family(name if family_of in {role, "all"} else "normal", rng, shape, of)

    projected = Projected(
        queries=part("keys", batch, length, key_heads, key_size),
        keys=part("keys", batch, length, key_heads, key_size),
        values=part("values", batch, length, heads, value_size),
        decay=part("gates", batch, length, heads),
        beta=part("gates", batch, length, heads),
        log_rates=part("gates", heads, of="f32"),
        bias=part("gates", heads),
        dtype=dtype,
    )
    state = part("state", batch, heads, value_size, key_size, of="f32") if rng.random() < 0.7 else None
    return RecurrenceCase(number, seed, name, family_of, projected, state, _padding(rng, batch, length))


def _padding(rng: Generator, batch: int, length: int) -> Padding:
    """Draw which positions count: all, or each with a chance of 0.7."""
    return rng.random((batch, length)) < 0.7 if rng.random() < 0.4 else None


def compare(case: RecurrenceCase, update: Update) -> Tally:
    """Compute a case on both sides; ValueError if the shapes differ."""
    expected = gated_delta(case.projected.inputs(), case.state, case.padding)
    observed = update(case.projected, case.state, case.padding)
    if any(seen.shape != owed.shape for seen, owed in zip(observed, expected, strict=True)):
        shapes = [array.shape for array in (*observed, *expected)]
        raise ValueError(f"{case.describe()}: outputs and state of shapes {shapes[:2]}, expected {shapes[2:]}")
    dtype = case.projected.dtype
    counted = np.ones(expected[0].shape[:2], np.bool_) if case.padding is None else case.padding
    outputs = expected[0][counted]
    wrong = differing(observed[0][counted], outputs, dtype).sum() + differing(observed[1], expected[1], "f32").sum()
    noted = _finite_nonzero(outputs, dtype) + _finite_nonzero(expected[1], "f32")
    return Tally({OUTPUTS: outputs.size, STATE: expected[1].size}, {FINITE_NONZERO: noted}, int(wrong))


def _finite_nonzero(bits: Bits, dtype: DType) -> int:
    values = decode(bits, dtype)
    return int((np.isfinite(values) & (values != 0)).sum())
