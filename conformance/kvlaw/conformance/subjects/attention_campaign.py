"""The attention campaign: NumPy against MLX, bit for bit, over inputs that arithmetic goes wrong on.

A case is drawn from its number, its format and a seed, and from nothing else, so that a case which differs is repeated
by its number alone. Running through the numbers, the families of `kvlaw.reference.numerics.inputs` and the kinds of
mask take turns, such that every 210 cases hold every pair of them; sizes are drawn, the limits of their ranges more
often than the rest: L 1 to 9, S 1 to 300, D 64, 96 or 128, one or two key-value heads with 1 to 4 query heads each.

The kinds of mask: none; causal; bool and additive, in the shapes [L, S], [B, 1, L, S] and [B, H, L, S], with rows that
see nothing among them; ring, the mask [S] of a decode whose window is smaller than the wrapped ring it reads, so that
the newest keys stand at any slot and the visible ones may lie around the end; learned sink logits alone, and with a
bool mask.

`attention_case` draws a case, `compare` runs one on both sides, `run_campaign` runs many and sums up. Nothing here
imports MLX: the side that is compared with the reference is an argument, `mlx_arithmetic.attend` by default.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

import attrs
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from kvlaw.conformance.subjects import mlx_arithmetic
from kvlaw.conformance.subjects.canary import Attend
from kvlaw.reference import numerics
from kvlaw.reference.numerics import DTYPES, FAMILY_NAMES, Bits, DType, Mask, decode, differing, encode, family

LONG_CAMPAIGN: Final = 2100
SHORT_CAMPAIGN: Final = 60

_Draw: TypeAlias = Callable[[Generator, "_Sizes", DType], Mask]


@attrs.frozen
class _Sizes:
    """The sizes of one case: B, H, G, L, S and D of `kvlaw.reference.numerics.attend`."""

    batch: int
    heads: int
    key_heads: int
    length: int
    width: int
    head_size: int


@attrs.frozen(eq=False)
class AttentionCase:
    """One comparison: the inputs of an attention, and where they come from."""

    index: int
    seed: int
    dtype: DType
    family: str
    family_of: str
    mask_kind: str
    scale: float
    queries: Bits
    keys: Bits
    values: Bits
    mask: Mask
    sink_logits: Bits | None

    def describe(self) -> str:
        """Say in one line what the case is and how to draw it again."""
        shapes = f"queries {list(self.queries.shape)}, keys {list(self.keys.shape)}"
        drawn = f"{self.family_of} from {self.family!r}, mask {self.mask_kind}, scale {self.scale:g}"
        return f"case {self.index} of {self.dtype}, seed {self.seed}: {shapes}; {drawn}"

    def attended_by(self, attend: Attend) -> Bits:
        """Return what ``attend`` makes of the case, bits [B, H, L, D]."""
        return attend(
            self.queries,
            self.keys,
            self.values,
            scale=self.scale,
            mask=self.mask,
            dtype=self.dtype,
            sink_logits=self.sink_logits,
        )


@attrs.frozen
class CampaignResult:
    """What a campaign in one format has shown."""

    dtype: DType
    cases: int
    values: int
    finite_nonzero: int
    differing: int
    first_difference: str | None

    @property
    def finite_nonzero_share(self) -> float:
        """The share of compared values that are finite and not 0: the others say little about arithmetic."""
        return self.finite_nonzero / self.values if self.values else 0.0

    def describe(self) -> str:
        """Sum the campaign up in one line."""
        found = f"{self.differing} differ (NaN = NaN)"
        return (
            f"{self.dtype}: {self.cases} cases, {self.values} values, "
            f"{self.finite_nonzero_share:.1%} finite and non-zero, {found}"
        )


def run_campaigns(cases: int = SHORT_CAMPAIGN, *, seed: int = 0) -> tuple[CampaignResult, ...]:
    """Run `run_campaign` with as many ``cases`` in each of the three formats."""
    return tuple(run_campaign(dtype, cases, seed=seed) for dtype in DTYPES)


def run_campaign(dtype: DType, cases: int, *, seed: int = 0, attend: Attend = mlx_arithmetic.attend) -> CampaignResult:
    """Compare ``attend`` with the reference in ``cases`` cases, numbered from 0, and sum up.

    All cases are run, whether they differ or not. The caller asks the canary first: on a machine whose arithmetic is
    not the modelled one, differences mean nothing.
    """
    values = finite_nonzero = differences = 0
    first_difference = None
    for index in range(cases):
        case = attention_case(index, dtype, seed=seed)
        outputs, differs = compare(case, attend)
        values += outputs.size
        finite_nonzero += _count_finite_nonzero(outputs, dtype)
        differences += int(differs.sum())
        if first_difference is None and differs.any():
            first_difference = f"{case.describe()}: {int(differs.sum())} of {outputs.size} values differ"
    return CampaignResult(dtype, cases, values, finite_nonzero, differences, first_difference)


def compare(case: AttentionCase, attend: Attend = mlx_arithmetic.attend) -> tuple[Bits, NDArray[np.bool_]]:
    """Return the outputs of ``attend`` and where they differ from the reference; ValueError if the shapes do."""
    outputs = case.attended_by(attend)
    expected = case.attended_by(numerics.attend)
    if outputs.shape != expected.shape:
        raise ValueError(f"{case.describe()}: outputs of shape {outputs.shape}, expected {expected.shape}")
    return outputs, differing(outputs, expected, case.dtype)


def attention_case(index: int, dtype: DType, *, seed: int = 0) -> AttentionCase:
    """Draw case number ``index`` of the campaign in ``dtype``."""
    rng = np.random.default_rng([seed, DTYPES.index(dtype), index])
    name = FAMILY_NAMES[index % len(FAMILY_NAMES)]
    mask_kind = MASK_KINDS[index % len(MASK_KINDS)]
    sizes = _sizes(rng, decode_only=mask_kind == "ring")
    family_of = str(rng.choice(_FAMILY_OF, p=_FAMILY_OF_SHARES))
    queries, keys, values = _operands(rng, sizes, dtype, name, family_of)
    with_sinks = mask_kind in {"sinks", "bool and sinks"}
    return AttentionCase(
        index=index,
        seed=seed,
        dtype=dtype,
        family=name,
        family_of=family_of,
        mask_kind=mask_kind,
        scale=_scale(rng, sizes.head_size),
        queries=queries,
        keys=keys,
        values=values,
        mask=_DRAW_MASK[mask_kind](rng, sizes, dtype),
        sink_logits=encode(rng.standard_normal(sizes.heads), dtype) if with_sinks else None,
    )


def _sizes(rng: Generator, *, decode_only: bool) -> _Sizes:
    """Draw sizes; a decode has one query."""
    key_heads = int(rng.integers(1, 3))
    return _Sizes(
        batch=int(rng.integers(1, 3)),
        heads=key_heads * int(rng.integers(1, 5)),
        key_heads=key_heads,
        length=1 if decode_only else _often_at_a_limit(rng, 1, 9),
        width=_often_at_a_limit(rng, 1, 300),
        head_size=int(rng.choice([64, 96, 128])),
    )


def _often_at_a_limit(rng: Generator, lowest: int, highest: int) -> int:
    """Draw from [lowest, highest], each of the two limits in one of ten cases besides."""
    chance = rng.random()
    if chance < 0.2:
        return lowest if chance < 0.1 else highest
    return int(rng.integers(lowest, highest + 1))


def _operands(rng: Generator, sizes: _Sizes, dtype: DType, name: str, family_of: str) -> tuple[Bits, Bits, Bits]:
    """Draw queries, keys and values: those that ``family_of`` names from the family, the others standard normal."""
    query_shape = (sizes.batch, sizes.heads, sizes.length, sizes.head_size)
    key_shape = (sizes.batch, sizes.key_heads, sizes.width, sizes.head_size)

    def operand(role: str, shape: tuple[int, ...]) -> Bits:
        return family(name if family_of in {role, "all"} else "normal", rng, shape, dtype)

    return operand("queries", query_shape), operand("keys", key_shape), operand("values", key_shape)


def _scale(rng: Generator, head_size: int) -> float:
    """Draw a scale: mostly that of the head size, else 1 or one that no format holds exactly."""
    return float(rng.choice([head_size**-0.5, 1.0, 0.3], p=[0.6, 0.2, 0.2]))


def _no_mask(_rng: Generator, _sizes: _Sizes, _dtype: DType) -> Mask:
    """Leave every key visible."""
    return None


def _causal(_rng: Generator, _sizes: _Sizes, _dtype: DType) -> Mask:
    """Ask for the causal mask by name."""
    return "causal"


def _bool(rng: Generator, sizes: _Sizes, _dtype: DType) -> Mask:
    """Draw a bool mask in which about one row in ten sees nothing."""
    shape = _mask_shape(rng, sizes)
    seeing_rows = rng.random((*shape[:-1], 1)) < 0.9
    return (rng.random(shape) < 0.6) & seeing_rows


def _additive(rng: Generator, sizes: _Sizes, dtype: DType) -> Mask:
    """Draw an additive mask: normal numbers, about a third of them -infinity, in few cases all of a row."""
    shape = _mask_shape(rng, sizes)
    addends = np.where(rng.random(shape) < 0.3, -np.inf, rng.standard_normal(shape))
    addends[..., 0] = np.where(rng.random(shape[:-1]) < 0.95, 0, addends[..., 0])
    return encode(addends, dtype)


def _ring(rng: Generator, sizes: _Sizes, _dtype: DType) -> Mask:
    """Draw the mask [S] of a decode with a smaller window on a full ring of S slots, wrapped at a random position."""
    offset = sizes.width + int(rng.integers(0, 3 * sizes.width))
    window = int(rng.integers(1, sizes.width + 1))
    position_in_slot = np.empty(sizes.width, np.int64)
    for position in range(offset - sizes.width, offset):
        position_in_slot[position % sizes.width] = position
    return position_in_slot >= offset - window


def _mask_shape(rng: Generator, sizes: _Sizes) -> tuple[int, ...]:
    """Draw one of the three shapes of an array mask."""
    leading = ((), (sizes.batch, 1), (sizes.batch, sizes.heads))[int(rng.integers(3))]
    return (*leading, sizes.length, sizes.width)


def _count_finite_nonzero(bits: Bits, dtype: DType) -> int:
    """Count the values that are finite and not 0."""
    values = decode(bits, dtype)
    return int((np.isfinite(values) & (values != 0)).sum())


_FAMILY_OF: Final = ("queries", "keys", "values", "all")
_FAMILY_OF_SHARES: Final = (0.4, 0.3, 0.2, 0.1)
_DRAW_MASK: Final[dict[str, _Draw]] = {
    "none": _no_mask,
    "causal": _causal,
    "bool": _bool,
    "additive": _additive,
    "ring": _ring,
    "sinks": _no_mask,
    "bool and sinks": _bool,
}
MASK_KINDS: Final = tuple(_DRAW_MASK)
