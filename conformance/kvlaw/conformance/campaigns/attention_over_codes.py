"""The campaigns of attention over codes: every kernel set at every setting of the codec that it reads.

`over_codes` makes one of the four: ``unfused`` by MLX's plain operations, as mlx-lm has them, and each kernel set by
kvlaw's own kernels. A tiled set has keys and values of 4 or 8 bits in bf16 and f16, ``unfused`` every number of bits
and format. Running through the numbers, each number of a key's bits meets each size of group and each kind of mask:
once in 144 cases, for a tiled set in 48. Values have as many bits or another number. The rest is drawn: a family of
inputs for queries, keys, values or all of them, or scores as low as a format has them; L 1 to 9; one or two key-value
heads with 1 to 4 query heads each; D and E among 64, 96, 128 and 256, as the group divides them.

S goes up to 1,100, the limits more often than the rest: ``unfused`` mostly stays within 256, as many as a sum in bf16
can add up, and a tiled set mostly has two or three tiles of 512.

The kinds of mask: none; causal, by name and as an array; any, bool rows some of which see nothing; ring, the mask of a
window on a full ring that has wrapped, in the ring's order; window, the same in the order of the positions, behind
pinned ones. Decodes, one query that stands alone: with no mask, before the wrap, and with that of a smaller window on a
wrapped ring.

Nothing here imports MLX: the side that is compared with the reference is an argument.
"""

from itertools import pairwise
from typing import Any, Final, TypeAlias

import attrs
from numpy.random import Generator

from kvlaw.conformance.campaigns import masks
from kvlaw.conformance.campaigns.campaign import Budget, Campaign
from kvlaw.conformance.campaigns.cases import Attend, AttentionCase, Drawn, generator, often_at_a_limit, tally
from kvlaw.conformance.campaigns.masks import DrawMask, Sizes
from kvlaw.conformance.subjects import mlx_codec, mlx_kernels
from kvlaw.conformance.subjects.canary import arithmetic_is_modelled, codec_is_modelled
from kvlaw.reference.numerics import DTYPES, FAMILY_NAMES, Bits, DType
from kvlaw.reference.numerics.affine import GROUPS, Codes, quantize
from kvlaw.reference.numerics.packing import CODE_BITS
from kvlaw.reference.numerics.quantized_attention import TILED_BITS, TILED_DTYPES, KernelSet, attend_quantized

CodesCase: TypeAlias = AttentionCase[Codes]

_HEAD_SIZES: Final = (64, 96, 128, 256)
_FAMILY_OF: Final = ("queries", "keys", "values", "all", "scores")
_FAMILY_OF_SHARES: Final = (0.4, 0.2, 0.2, 0.1, 0.1)
_MASKS: Final[dict[str, DrawMask]] = {
    "none": masks.no_mask,
    "causal": masks.causal,
    "causal array": masks.causal_array,
    "any": masks.any_rows,
    "ring": masks.ring,
    "window": masks.window,
    "decode": masks.no_mask,
    "ring decode": masks.ring,
}
MASK_KINDS: Final = tuple(_MASKS)


@attrs.frozen
class Setting:
    """What the cases of one kernel set are drawn from; ``widths`` are the limits of S, ascending, with shares."""

    kernel_set: KernelSet
    bits: tuple[int, ...]
    widths: tuple[int, ...]
    shares: tuple[float, ...]
    any_mask: DrawMask = masks.any_rows

    def codec(self, number: int) -> tuple[int, int]:
        """Return a key's bits and the group of the case ``number``: each pair once in ``codecs`` cases."""
        return self.bits[number % len(self.bits)], GROUPS[number // len(self.bits) % len(GROUPS)]

    def mask_kind(self, number: int) -> str:
        """Return the kind of mask of the case ``number``, such that each meets each codec."""
        codecs = len(self.bits) * len(GROUPS)
        return MASK_KINDS[(number + number // codecs) % len(MASK_KINDS)]

    def width(self, rng: Generator) -> int:
        """Draw S: first a range between two limits, then from it."""
        ranges = tuple(pairwise(self.widths))
        least, most = ranges[int(rng.choice(len(ranges), p=self.shares))]
        return often_at_a_limit(rng, least + 1, most)

    def draw(self, number: int, dtype: DType, seed: int = 0) -> CodesCase:
        """Draw case ``number`` in ``dtype``."""
        rng = generator(number, dtype, seed)
        settings, mask_kind = self._settings(number, rng), self.mask_kind(number)
        name, family_of = str(rng.choice(FAMILY_NAMES)), str(rng.choice(_FAMILY_OF, p=_FAMILY_OF_SHARES))
        drawn = Drawn(number, seed, dtype, name, family_of)
        sizes = _sizes(rng, settings["group"], self.width(rng), alone=settings["alone"])
        queries, keys, values = _operands(drawn, rng, sizes)
        draw_mask = self.any_mask if mask_kind == "any" else _MASKS[mask_kind]
        return AttentionCase(
            drawn,
            mask_kind,
            drawn.scale(rng, sizes.head_size),
            queries,
            quantize(keys, dtype=dtype, bits=settings["key_bits"], group=settings["group"]),
            quantize(values, dtype=dtype, bits=settings["value_bits"], group=settings["group"]),
            draw_mask(rng, sizes, dtype),
            settings,
            f"{_told(settings)}; queries {list(queries.shape)}, keys {list(keys.shape)}, values {list(values.shape)}",
        )

    def _settings(self, number: int, rng: Generator) -> dict[str, Any]:
        """Choose the further arguments of `attend_quantized`."""
        key_bits, group = self.codec(number)
        return {
            "key_bits": key_bits,
            "value_bits": key_bits if rng.random() < 0.5 else int(rng.choice(self.bits)),
            "group": group,
            "kernel_set": self.kernel_set,
            "alone": self.mask_kind(number).endswith("decode"),
        }


def _told(settings: dict[str, Any]) -> str:
    codec = "keys of {key_bits} bits, values of {value_bits}, groups of {group}".format(**settings)
    return f"{settings['kernel_set']}, {codec}"


def _operands(drawn: Drawn, rng: Generator, sizes: Sizes) -> tuple[Bits, Bits, Bits]:
    """Draw queries [B, H, L, D], keys [B, G, S, D] and values [B, G, S, E]."""
    rows = (sizes.batch, sizes.key_heads, sizes.width)
    queries = drawn.operand("queries", rng, (sizes.batch, sizes.heads, sizes.length, sizes.head_size))
    keys = drawn.operand("keys", rng, (*rows, sizes.head_size))
    return queries, keys, drawn.operand("values", rng, (*rows, sizes.value_size))


def _sizes(rng: Generator, group: int, width: int, *, alone: bool) -> Sizes:
    """Draw the other sizes; S is at least L. Beyond 256 keys there is one row of a batch, to save time."""
    key_heads = int(rng.integers(1, 3))
    length = 1 if alone else often_at_a_limit(rng, 1, 9)
    head_size, value_size = (int(size) for size in rng.choice([size for size in _HEAD_SIZES if size % group == 0], 2))
    return Sizes(
        batch=int(rng.integers(1, 3)) if width <= 256 else 1,
        heads=key_heads * int(rng.integers(1, 5)),
        key_heads=key_heads,
        length=length,
        width=max(width, length),
        head_size=head_size,
        value_size=value_size,
    )


UNFUSED: Final = Setting("unfused", CODE_BITS, (0, 256, 1100), (0.85, 0.15))
TILED_CAUSAL: Final = Setting("tiled_causal", TILED_BITS, (0, 512, 1024, 1100), (0.2, 0.5, 0.3))
TILED: Final = attrs.evolve(TILED_CAUSAL, kernel_set="tiled")


_CASES: Final[dict[KernelSet, dict[Budget, int]]] = {
    "unfused": {"ci": 36, "deep": 432},
    "tiled_causal": {"ci": 24, "deep": 480},
    "tiled": {"ci": 48, "deep": 480},
}


def over_codes(setting: Setting, attend: Attend = mlx_kernels.attend_quantized) -> Campaign[CodesCase]:
    """Make the campaign that compares ``attend`` with the reference by one kernel set."""
    return Campaign(
        f"attention over codes, {setting.kernel_set}",
        setting.draw,
        lambda case: tally(case, attend, attend_quantized),
        codes_are_modelled,
        _CASES[setting.kernel_set],
        DTYPES if setting.kernel_set == "unfused" else TILED_DTYPES,
    )


def by_plain_operations() -> Campaign[CodesCase]:
    """Make the campaign of MLX's plain operations, with masks of rows of a batch besides."""
    setting = attrs.evolve(UNFUSED, any_mask=masks.any_rows_of_the_batch)
    made = over_codes(setting, mlx_codec.attend_quantized)
    return attrs.evolve(made, name="attention over codes, plain operations")


def codes_are_modelled() -> bool:
    """Ask both canaries: products with codes are checked by the one, exponentials and softmax by the other."""
    return arithmetic_is_modelled() and codec_is_modelled()


__all__ = [
    "MASK_KINDS",
    "TILED",
    "TILED_CAUSAL",
    "UNFUSED",
    "CodesCase",
    "Setting",
    "by_plain_operations",
    "over_codes",
]
