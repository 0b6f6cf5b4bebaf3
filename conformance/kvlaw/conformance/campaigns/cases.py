"""Cases of attention, dense or over codes: where the inputs come from, and both sides' outputs for them.

Queries, keys, values or all of them are drawn from one of the families of `kvlaw.reference.numerics.inputs`, the others
are standard normal. A further draw, ``"scores"``, makes every score the lowest finite value of the format, where a
masked one may stand no higher.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

import attrs
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from kvlaw.conformance.campaigns.campaign import Tally
from kvlaw.reference.numerics import DTYPES, Bits, DType, Mask, decode, differing, encode, family, lowest

Attend: TypeAlias = Callable[..., Bits]
RowsT = TypeVar("RowsT")
Role: TypeAlias = Literal["queries", "keys", "values"]
FINITE_NONZERO: Final = "finite and not 0"
"""What is noted of outputs: the others say little about arithmetic."""


@attrs.frozen
class Drawn:
    """What of a case is drawn before its inputs: number and seed, format, family and what is drawn from it."""

    number: int
    seed: int
    dtype: DType
    family: str
    family_of: str

    def operand(self, role: Role, rng: Generator, shape: tuple[int, ...]) -> Bits:
        """Draw queries, keys or values of ``shape``."""
        if self.family_of == "scores" and role != "values":
            return self._for_the_lowest_scores(role, shape)
        of_family = self.family_of in {role, "all"}
        return family(self.family if of_family else "normal", rng, shape, self.dtype)

    def _for_the_lowest_scores(self, role: Role, shape: tuple[int, ...]) -> Bits:
        """Make keys of ones and queries that are the lowest value in one place: products and sums are exact."""
        values = np.full(shape, float(role == "keys"), np.float32)
        if role == "queries":
            values[..., 0] = lowest(self.dtype)
        return encode(values, self.dtype)

    def scale(self, rng: Generator, head_size: int) -> float:
        """Draw a scale: mostly that of the head size, else 1 or one that no format holds exactly."""
        drawn = float(rng.choice([head_size**-0.5, 1.0, 0.3], p=[0.6, 0.2, 0.2]))
        return 1.0 if self.family_of == "scores" else drawn


@attrs.frozen(eq=False)
class AttentionCase(Generic[RowsT]):
    """One comparison: the inputs of an attention; ``settings`` are the further arguments of the functions compared."""

    drawn: Drawn
    mask_kind: str
    scale: float
    queries: Bits
    keys: RowsT
    values: RowsT
    mask: Mask
    settings: Mapping[str, Any]
    told: str
    """Shapes and settings in words."""

    @property
    def dtype(self) -> DType:
        """The format of inputs and outputs."""
        return self.drawn.dtype

    def describe(self) -> str:
        """Say in one line what the case is and how to draw it again."""
        drawn = self.drawn
        inputs = f"{drawn.family_of} from {drawn.family!r}, mask {self.mask_kind}, scale {self.scale:g}"
        return f"case {drawn.number} of {drawn.dtype}, seed {drawn.seed}: {self.told}; {inputs}"

    def attended_by(self, attend: Attend) -> Bits:
        """Return what ``attend`` makes of the case, bits [B, H, L, E]."""
        given = {"scale": self.scale, "mask": self.mask, "dtype": self.dtype, **self.settings}
        return attend(self.queries, self.keys, self.values, **given)


def compare(case: AttentionCase[Any], attend: Attend, model: Attend) -> tuple[Bits, NDArray[np.bool_]]:
    """Return the outputs of ``attend`` and where they differ from the ``model``; ValueError if the shapes do."""
    outputs, expected = case.attended_by(attend), case.attended_by(model)
    if outputs.shape != expected.shape:
        raise ValueError(f"{case.describe()}: outputs of shape {outputs.shape}, expected {expected.shape}")
    return outputs, differing(outputs, expected, case.dtype)


def tally(case: AttentionCase[Any], attend: Attend, model: Attend) -> Tally:
    """Count what `compare` finds."""
    outputs, differs = compare(case, attend, model)
    values = decode(outputs, case.dtype)
    finite_nonzero = int((np.isfinite(values) & (values != 0)).sum())
    return Tally({"outputs": outputs.size}, {FINITE_NONZERO: finite_nonzero}, int(differs.sum()))


def generator(number: int, dtype: DType, seed: int) -> Generator:
    """Return the generator from which a case is drawn."""
    return np.random.default_rng([seed, DTYPES.index(dtype), number])


def often_at_a_limit(rng: Generator, least: int, most: int) -> int:
    """Draw from [least, most], each of the two limits in one of ten cases besides."""
    chance = rng.random()
    if chance < 0.2:
        return least if chance < 0.1 else most
    return int(rng.integers(least, most + 1))
