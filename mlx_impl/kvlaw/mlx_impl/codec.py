"""Affine codes: what quantizing keys and values gives, for how many bits and in which groups.

A ``Codec`` is the configuration: bits of a key's code, bits of a value's code, and the group, how many elements along
the head dim share a scale and a bias.  Codes are group-local, so a column quantized alone is the column quantized in a
block; they are made once, as a column is written (or converted), and only moved ever after: quantizing what was
dequantized would change them.
"""

from collections.abc import Sequence

import attrs
import mlx.core as mx

from kvlaw.mlx_impl.counts import as_integer
from kvlaw.mlx_impl.errors import ConfigError, ShapeError
from kvlaw.mlx_impl.inputs import Layout
from kvlaw.spec.cite import clause

BITS = (2, 3, 4, 5, 6, 8)
"""How wide a code can be."""

GROUPS = (32, 64, 128)
"""How many elements can share a scale and a bias."""

Codes = tuple[mx.array, mx.array, mx.array]
"""Words uint32 ``[B, H, S, D * bits / 32]``, scales and biases ``[B, H, S, D / group]`` of the dtype appended."""


@attrs.frozen
class Codec:
    """Bits of keys and of values, and the group; ``make_codec`` checks them."""

    bits: int
    value_bits: int
    group: int

    @property
    def describe(self) -> str:
        """Write the codec as an identity does: ``bits=4,group=64``."""
        values = "" if self.value_bits == self.bits else f",value_bits={self.value_bits}"
        return f"bits={self.bits}{values},group={self.group}"

    @clause("GROW-9")
    def bytes_per_token(self, layout: Layout) -> int:
        """Return the bytes of the codes of one position of one row: words, scales and biases."""
        words = (layout.key_dim * self.bits + layout.value_dim * self.value_bits) // 8
        groups = (layout.key_dim + layout.value_dim) // self.group
        return layout.heads * (words + groups * 2 * layout.dtype.size)

    @clause("PREC-13")
    def check(self, layout: Layout) -> None:
        """Check that both head dims are made of whole groups.

        Raises:
            ShapeError: if one is not.
        """
        for name, dim in (("keys", layout.key_dim), ("values", layout.value_dim)):
            if dim % self.group:
                possible = f"a multiple of the group of {self.group} is needed"
                raise ShapeError(f"{name} of head dim {dim} as codes", possible, "PREC-13")

    def encode_keys(self, keys: mx.array) -> Codes:
        """Quantize keys ``[B, H, L, Dk]``."""
        return encode(keys, self.bits, self.group)

    def encode_values(self, values: mx.array) -> Codes:
        """Quantize values ``[B, H, L, Dv]``."""
        return encode(values, self.value_bits, self.group)

    def decode_keys(self, codes: Codes) -> mx.array:
        """Dequantize keys."""
        return mx.dequantize(*codes, group_size=self.group, bits=self.bits)

    def decode_values(self, codes: Codes) -> mx.array:
        """Dequantize values."""
        return mx.dequantize(*codes, group_size=self.group, bits=self.value_bits)


def encode(array: mx.array, bits: int, group: int) -> Codes:
    """Quantize an array along its last axis."""
    return as_codes(mx.quantize(array, group_size=group, bits=bits))


def as_codes(parts: Sequence[mx.array]) -> Codes:
    """Name three arrays: words, scales, biases."""
    words, scales, biases = parts
    return words, scales, biases


@clause("PREC-13")
def make_codec(bits: object, value_bits: object = None, group: object = 64) -> Codec:
    """Make a codec of integers that are possible; values have as many bits as keys unless told otherwise.

    Raises:
        ConfigError: if bits are not 2, 3, 4, 5, 6 or 8, or the group is not 32, 64 or 128.
    """
    keys = _one_of(BITS, bits, "codes of bits")
    values = keys if value_bits is None else _one_of(BITS, value_bits, "codes of value_bits")
    return Codec(keys, values, _one_of(GROUPS, group, "codes of group"))


def _one_of(possible: tuple[int, ...], asked: object, what: str) -> int:
    found = as_integer(asked)
    if found not in possible:
        raise ConfigError(f"{what} {asked!r}", f"one of {', '.join(map(str, possible))} is needed", "PREC-13")
    return found
