"""Columns as affine codes: what a cache with a storage policy holds, moved like any other columns.

A column of codes is one row of uint32: its words, then the scales and the biases of its groups (``join_codes``). So the
planes of ``layout`` move codes with the same integers as tensors; only what is written and what is read differs.
"""

from typing import Literal

import numpy as np
from attrs import frozen

from kvlaw.reference.numerics.affine import Codes, dequantize, quantize
from kvlaw.reference.numerics.attention import Mask
from kvlaw.reference.numerics.formats import DType, bits_dtype
from kvlaw.reference.numerics.quantized_attention import KernelSet, attend_quantized
from kvlaw.spec.cite import clause
from kvlaw.spec.config import LayerSpec
from kvlaw.spec.observations import Bits, join_codes

Side = Literal["keys", "values"]


@frozen
class Codec:
    """The affine codec of one cache: its policy, and the dtype and widths of its tensors."""

    layer: LayerSpec
    dtype: DType
    key_width: int
    value_width: int

    def bits(self, side: Side) -> int:
        """Bits of a code of one side."""
        return (self.layer.bits if side == "keys" else self.layer.bits_of_values) or 0

    def width(self, side: Side) -> int:
        """Elements of a column of one side."""
        return self.key_width if side == "keys" else self.value_width

    @property
    def fits(self) -> bool:
        """The group divides both head dims (PREC-13)."""
        return self.key_width % self.layer.group == 0 and self.value_width % self.layer.group == 0

    @clause("PREC-7", "PREC-9")
    def encode(self, side: Side, plane: Bits) -> Bits:
        """Quantize columns ``[B, H, S, D]``, each by itself, into columns of codes."""
        codes = quantize(plane, dtype=self.dtype, bits=self.bits(side), group=self.layer.group)
        return join_codes(codes.words, codes.scales, codes.biases)

    def split(self, side: Side, columns: Bits) -> Codes:
        """Take columns of codes apart into words, scales and biases."""
        words, groups = self.width(side) * self.bits(side) // 32, self.width(side) // self.layer.group
        parts = np.split(columns, [words, words + groups], axis=-1)
        half = bits_dtype(self.dtype)
        return Codes(parts[0].astype(np.uint32), parts[1].astype(half), parts[2].astype(half))

    @clause("READ-14")
    def decode(self, side: Side, columns: Bits) -> Bits:
        """Dequantize columns of codes into tensors."""
        return dequantize(self.split(side, columns), dtype=self.dtype, bits=self.bits(side), group=self.layer.group)

    def attend(
        self,
        queries: Bits,
        keys: Bits,
        values: Bits,
        scale: float,
        mask: Mask,
        *,
        kernel_set: KernelSet = "unfused",
        alone: bool = False,
    ) -> Bits:
        """Attend queries ``[B, H, L, D]`` over columns of codes; ``alone``: a decode, or a known append's."""
        return attend_quantized(
            queries,
            self.split("keys", keys),
            self.split("values", values),
            scale=scale,
            mask=mask,
            dtype=self.dtype,
            key_bits=self.bits("keys"),
            value_bits=self.bits("values"),
            group=self.layer.group,
            kernel_set=kernel_set,
            alone=alone,
        )

    def column_bytes(self, side: Side) -> int:
        """Bytes of one column of one head: its words, and a scale and a bias for each group (GROW-9)."""
        groups = self.width(side) // self.layer.group
        return self.width(side) * self.bits(side) // 8 + groups * 2 * np.dtype(bits_dtype(self.dtype)).itemsize
