"""The campaign of dense attention.

Running through the numbers, the families of `kvlaw.reference.numerics.inputs` and the kinds of mask take turns, such
that every 210 cases hold every pair of them; sizes are drawn, the limits of their ranges more often than the rest: L 1
to 9, S 1 to 300, D 64, 96 or 128, one or two key-value heads with 1 to 4 query heads each.

The kinds of mask: none; causal; bool and additive, in the shapes [L, S], [B, 1, L, S] and [B, H, L, S], with rows that
see nothing among them; ring, the mask [1, S] of a decode whose window is smaller than the wrapped ring it reads, so
that the newest keys stand at any slot and the visible ones may lie around the end; learned sink logits alone, and with
a bool mask.

Nothing here imports MLX: the side that is compared with the reference is an argument, `mlx_arithmetic.attend` by
default.
"""

from typing import Final, TypeAlias

from numpy.random import Generator

from kvlaw.conformance.campaigns import masks
from kvlaw.conformance.campaigns.campaign import Campaign
from kvlaw.conformance.campaigns.cases import Attend, AttentionCase, Drawn, generator, often_at_a_limit, tally
from kvlaw.conformance.campaigns.masks import DrawMask, Sizes
from kvlaw.conformance.subjects import mlx_arithmetic
from kvlaw.conformance.subjects.canary import arithmetic_is_modelled
from kvlaw.reference import numerics
from kvlaw.reference.numerics import FAMILY_NAMES, Bits, DType, encode

DenseCase: TypeAlias = AttentionCase[Bits]

_FAMILY_OF: Final = ("queries", "keys", "values", "all")
_FAMILY_OF_SHARES: Final = (0.4, 0.3, 0.2, 0.1)
_MASKS: Final[dict[str, DrawMask]] = {
    "none": masks.no_mask,
    "causal": masks.causal,
    "bool": masks.any_rows_of_all_shapes,
    "additive": masks.additive,
    "ring": masks.ring,
    "sinks": masks.no_mask,
    "bool and sinks": masks.any_rows_of_all_shapes,
}
MASK_KINDS: Final = tuple(_MASKS)


def dense_attention(attend: Attend = mlx_arithmetic.attend) -> Campaign[DenseCase]:
    """Make the campaign that compares ``attend`` with the reference."""
    return Campaign(
        "attention",
        attention_case,
        lambda case: tally(case, attend, numerics.attend),
        arithmetic_is_modelled,
        {"ci": 60, "deep": 2100},
    )


def attention_case(number: int, dtype: DType, seed: int = 0) -> DenseCase:
    """Draw case ``number`` of the campaign in ``dtype``."""
    rng = generator(number, dtype, seed)
    mask_kind = MASK_KINDS[number % len(MASK_KINDS)]
    sizes = _sizes(rng, decode_only=mask_kind == "ring")
    family_of = str(rng.choice(_FAMILY_OF, p=_FAMILY_OF_SHARES))
    drawn = Drawn(number, seed, dtype, FAMILY_NAMES[number % len(FAMILY_NAMES)], family_of)
    queries = drawn.operand("queries", rng, (sizes.batch, sizes.heads, sizes.length, sizes.head_size))
    key_shape = (sizes.batch, sizes.key_heads, sizes.width, sizes.head_size)
    keys, values = drawn.operand("keys", rng, key_shape), drawn.operand("values", rng, key_shape)
    scale, mask = drawn.scale(rng, sizes.head_size), _MASKS[mask_kind](rng, sizes, dtype)
    with_sinks = mask_kind in {"sinks", "bool and sinks"}
    sinks = encode(rng.standard_normal(sizes.heads), dtype) if with_sinks else None
    told = f"queries {list(queries.shape)}, keys {list(keys.shape)}"
    return AttentionCase(drawn, mask_kind, scale, queries, keys, values, mask, {"sink_logits": sinks}, told)


def _sizes(rng: Generator, *, decode_only: bool) -> Sizes:
    """Draw sizes; a decode has one query."""
    key_heads = int(rng.integers(1, 3))
    head_size = int(rng.choice([64, 96, 128]))
    return Sizes(
        batch=int(rng.integers(1, 3)),
        heads=key_heads * int(rng.integers(1, 5)),
        key_heads=key_heads,
        length=1 if decode_only else often_at_a_limit(rng, 1, 9),
        width=often_at_a_limit(rng, 1, 300),
        head_size=head_size,
        value_size=head_size,
    )
