"""One row of a NumPy group: planes of its own, in its own precision, moved by the integers that the group shares."""

from collections.abc import Sequence
from typing import cast

import numpy as np
from attrs import evolve, frozen

from kvlaw.reference import index_policy
from kvlaw.reference.codes import Codec
from kvlaw.reference.layout import Cache, Planes
from kvlaw.reference.numerics.formats import DType, bits_dtype
from kvlaw.spec.cite import clause
from kvlaw.spec.config import LayerSpec
from kvlaw.spec.observations import Bits


@frozen
class Shape:
    """What all rows of a group have in common once something was appended: dtype, heads and widths."""

    dtype: str
    heads: int
    key_width: int
    value_width: int

    @classmethod
    def of(cls, keys: Bits, values: Bits, dtype: str) -> "Shape":
        """Read it off the tensors ``[B, H, L, D]`` of an append."""
        return cls(dtype, keys.shape[1], keys.shape[3], values.shape[3])

    @classmethod
    def of_cache(cls, cache: Cache) -> "Shape | None":
        """Read it off a serial cache; None if nothing was appended."""
        if cache.planes is None:
            return None
        keys, values, codec = cache.planes.keys, cache.planes.values, cache.codec
        if codec is None:
            return cls.of(keys, values, cache.dtype)
        return cls(cache.dtype, keys.shape[1], codec.key_width, codec.value_width)

    def codec(self, layer: LayerSpec) -> Codec:
        """Make the codec of a layer for such tensors."""
        return Codec(layer, cast("DType", self.dtype), self.key_width, self.value_width)

    def blank(self, count: int) -> Planes:
        """Make planes of zeros, ``[1, H, count, D]``."""
        kind = bits_dtype(cast("DType", self.dtype))
        return Planes(*(np.zeros((1, self.heads, count, width), kind) for width in (self.key_width, self.value_width)))

    def bytes_per_position(self, layer: LayerSpec, coded: bool) -> int:
        """Count the bytes that a position of one row takes."""
        if coded:
            codec = self.codec(layer)
            return self.heads * (codec.column_bytes("keys") + codec.column_bytes("values"))
        column = self.blank(1)
        return column.keys.nbytes + column.values.nbytes


@frozen(eq=False)
class Row:
    """Hold what one row has alone.

    planes: ``[1, H, columns, D]``, or columns of codes; None while nothing is allocated.
    coded: the planes hold codes, or will from the first append on.
    floor: the reuse floor of its conversion, 0 without.
    """

    planes: Planes | None = None
    coded: bool = False
    floor: int = 0

    def moved(self, sources: Sequence[int | None], shape: Shape, layer: LayerSpec) -> "Row":
        """Lay the columns out anew: column i takes what ``sources[i]`` held, zeros where that is None."""
        planes = self.planes
        if planes is None:
            blank = shape.blank(len(sources))
            return evolve(self, planes=encoded(shape.codec(layer), blank) if self.coded else blank)
        return evolve(self, planes=planes.each(lambda plane: _gathered(plane, sources)))

    @clause("PREC-7")
    def written(self, start: int, new: Planes, shape: Shape, layer: LayerSpec) -> "Row":
        """Write new columns from ``start`` on, in the precision of the row."""
        planes = shape.blank(0) if self.planes is None else self.planes
        return evolve(self, planes=planes.written(start, encoded(shape.codec(layer), new) if self.coded else new))

    @clause("PREC-27")
    def converted(self, offset: int, start: int, shape: Shape, layer: LayerSpec) -> "Row":
        """Turn every column as laid out to codes; the floor is the valid offset, none with start 0."""
        planes = None if self.planes is None else encoded(shape.codec(layer), self.planes)
        return Row(planes, coded=True, floor=index_policy.floor_after(start, offset))


def encoded(codec: Codec, planes: Planes) -> Planes:
    """Quantize planes of tensors into columns of codes."""
    return Planes(codec.encode("keys", planes.keys), codec.encode("values", planes.values))


def _gathered(plane: Bits, sources: Sequence[int | None]) -> Bits:
    laid = np.zeros_like(plane, shape=(*plane.shape[:2], len(sources), plane.shape[3]))
    pairs = [(new, old) for new, old in enumerate(sources) if old is not None]
    if pairs:
        laid[:, :, [new for new, _ in pairs]] = plane[:, :, [old for _, old in pairs]]
    return laid
