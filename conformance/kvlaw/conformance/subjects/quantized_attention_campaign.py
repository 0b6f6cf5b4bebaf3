"""The campaign of attention over codes: NumPy against MLX, bit for bit, at every setting of the codec.

A case is drawn from its number, its format and a seed, and from nothing else. Running through the numbers, every 72
cases hold each number of bits with each size of group and each kind of mask; keys have the bits of the case, values as
many or another number. The rest is drawn: a family of inputs for queries, keys, values or all of them; L 1 to 9, S 1 to
256, the limits more often than the rest; one or two key-value heads with 1 to 4 query heads each; D and E among 64, 96,
128 and 256, as the group divides them. 256 keys are as many as a sum in bf16 can add up.

The kinds of mask: none; causal; bool, of shape [L, S] or [B, 1, L, S] (mlx-lm takes no other), with rows that see
nothing; ring, [L, S], the mask of a window on a ring of S slots that has wrapped at a random place, so that the columns
stand in the ring's order.

Nothing here imports MLX: the side that is compared with the reference is an argument, `mlx_codec` by default.
"""

from typing import Final

import attrs
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from kvlaw.conformance.subjects import mlx_codec
from kvlaw.conformance.subjects.codec_canary import AttendQuantized
from kvlaw.reference.numerics import DTYPES, FAMILY_NAMES, Bits, DType, Mask, decode, differing, family
from kvlaw.reference.numerics.affine import GROUPS, Codes, quantize
from kvlaw.reference.numerics.packing import CODE_BITS
from kvlaw.reference.numerics.quantized_attention import attend_quantized

LONG_CAMPAIGN: Final = 360
SHORT_CAMPAIGN: Final = 18
MASK_KINDS: Final = ("none", "causal", "bool", "ring")
MOST_KEYS: Final = 256

_HEAD_SIZES: Final = (64, 96, 128, 256)
_FAMILY_OF: Final = ("queries", "keys", "values", "all")
_FAMILY_OF_SHARES: Final = (0.4, 0.3, 0.2, 0.1)


@attrs.frozen(eq=False)
class QuantizedCase:
    """One comparison: the inputs of an attention over codes, and where they come from."""

    index: int
    seed: int
    dtype: DType
    key_bits: int
    value_bits: int
    group: int
    family: str
    family_of: str
    mask_kind: str
    scale: float
    queries: Bits
    keys: Codes
    values: Codes
    mask: Mask

    def describe(self) -> str:
        """Say in one line what the case is and how to draw it again."""
        codec = f"keys of {self.key_bits} bits, values of {self.value_bits}, groups of {self.group}"
        shapes = f"queries {list(self.queries.shape)}, key words {list(self.keys.words.shape)}"
        drawn = f"{self.family_of} from {self.family!r}, mask {self.mask_kind}, scale {self.scale:g}"
        return f"case {self.index} of {self.dtype}, seed {self.seed}: {codec}; {shapes}; {drawn}"

    def attended_by(self, attend: AttendQuantized) -> Bits:
        """Return what ``attend`` makes of the case, bits [B, H, L, E]."""
        return attend(
            self.queries,
            self.keys,
            self.values,
            scale=self.scale,
            mask=self.mask,
            dtype=self.dtype,
            key_bits=self.key_bits,
            value_bits=self.value_bits,
            group=self.group,
        )


@attrs.frozen
class QuantizedResult:
    """What a campaign of attention over codes in one format has shown."""

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
        return (
            f"{self.dtype}: {self.cases} cases of attention over codes, {self.values} values, "
            f"{self.finite_nonzero_share:.1%} finite and non-zero, {self.differing} differ (NaN = NaN)"
        )


def run_quantized_campaign(
    dtype: DType, cases: int = SHORT_CAMPAIGN, *, seed: int = 0, attend: AttendQuantized = mlx_codec.attend_quantized
) -> QuantizedResult:
    """Compare ``attend`` with the reference in ``cases`` cases, numbered from 0, and sum up.

    All cases are run, whether they differ or not. The caller asks the canary first.
    """
    values = finite_nonzero = differences = 0
    first_difference = None
    for index in range(cases):
        case = quantized_case(index, dtype, seed=seed)
        outputs, differs = compare_quantized(case, attend)
        numbers = decode(outputs, dtype)
        values += outputs.size
        finite_nonzero += int((np.isfinite(numbers) & (numbers != 0)).sum())
        differences += int(differs.sum())
        if first_difference is None and differs.any():
            first_difference = f"{case.describe()}: {int(differs.sum())} of {outputs.size} values differ"
    return QuantizedResult(dtype, cases, values, finite_nonzero, differences, first_difference)


def compare_quantized(
    case: QuantizedCase, attend: AttendQuantized = mlx_codec.attend_quantized
) -> tuple[Bits, NDArray[np.bool_]]:
    """Return the outputs of ``attend`` and where they differ from the reference; ValueError if the shapes do."""
    outputs = case.attended_by(attend)
    expected = case.attended_by(attend_quantized)
    if outputs.shape != expected.shape:
        raise ValueError(f"{case.describe()}: outputs of shape {outputs.shape}, expected {expected.shape}")
    return outputs, differing(outputs, expected, case.dtype)


def quantized_case(index: int, dtype: DType, *, seed: int = 0) -> QuantizedCase:
    """Draw case number ``index`` of the campaign in ``dtype``."""
    rng = np.random.default_rng([seed, DTYPES.index(dtype), index])
    key_bits, group = _codec(index)
    value_bits = key_bits if rng.random() < 0.5 else int(rng.choice(CODE_BITS))
    mask_kind = MASK_KINDS[(index + index // _CODECS) % len(MASK_KINDS)]
    name, family_of = str(rng.choice(FAMILY_NAMES)), str(rng.choice(_FAMILY_OF, p=_FAMILY_OF_SHARES))
    batch, key_heads = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    heads = key_heads * int(rng.integers(1, 5))
    length, width = _often_at_a_limit(rng, 1, 9), _often_at_a_limit(rng, 1, MOST_KEYS)
    if mask_kind in {"causal", "ring"}:
        width = max(width, length)
    head_size, value_size = (int(size) for size in rng.choice([size for size in _HEAD_SIZES if size % group == 0], 2))

    def operand(role: str, *shape: int) -> Bits:
        return family(name if family_of in {role, "all"} else "normal", rng, shape, dtype)

    return QuantizedCase(
        index=index,
        seed=seed,
        dtype=dtype,
        key_bits=key_bits,
        value_bits=value_bits,
        group=group,
        family=name,
        family_of=family_of,
        mask_kind=mask_kind,
        scale=float(rng.choice([head_size**-0.5, 1.0, 0.3], p=[0.6, 0.2, 0.2])),
        queries=operand("queries", batch, heads, length, head_size),
        keys=quantize(operand("keys", batch, key_heads, width, head_size), dtype=dtype, bits=key_bits, group=group),
        values=quantize(
            operand("values", batch, key_heads, width, value_size), dtype=dtype, bits=value_bits, group=group
        ),
        mask=_mask(mask_kind, rng, batch, length, width),
    )


def _codec(index: int) -> tuple[int, int]:
    """Return bits and group of the case number ``index``: each pair once in eighteen cases."""
    return CODE_BITS[index % len(CODE_BITS)], GROUPS[index // len(CODE_BITS) % len(GROUPS)]


def _often_at_a_limit(rng: Generator, lowest: int, highest: int) -> int:
    """Draw from [lowest, highest], each of the two limits in one of ten cases besides."""
    chance = rng.random()
    if chance < 0.2:
        return lowest if chance < 0.1 else highest
    return int(rng.integers(lowest, highest + 1))


def _mask(kind: str, rng: Generator, batch: int, length: int, width: int) -> Mask:
    """Draw a mask of the named kind for ``length`` queries and ``width`` keys."""
    if kind == "bool":
        shape = (length, width) if rng.random() < 0.5 else (batch, 1, length, width)
        return (rng.random(shape) < 0.6) & (rng.random((*shape[:-1], 1)) < 0.9)
    if kind == "ring":
        return _ring_mask(rng, length, width)
    return "causal" if kind == "causal" else None


def _ring_mask(rng: Generator, length: int, width: int) -> NDArray[np.bool_]:
    """Draw the mask [L, S] of the newest ``length`` positions on a full ring of ``width`` slots.

    The window is drawn so that the oldest query's whole window is still on the ring: at most S - L + 1.
    """
    offset = width + int(rng.integers(0, 3 * width))
    window = int(rng.integers(1, width - length + 2))
    slots = np.arange(width)
    newest_in_slot = offset - 1 - (offset - 1 - slots) % width
    queries = np.arange(offset - length, offset)[:, np.newaxis]
    return (newest_in_slot <= queries) & (newest_in_slot > queries - window)


_CODECS: Final = len(CODE_BITS) * len(GROUPS)
