"""What a cache stores: planes of columns on axis 2, moved by a plan and never changed in place.

``Planes`` is the protocol: what arrives is first made into planes of the stored kind, then every move (write in place,
lay out anew, take the first columns) and every attention is asked of the planes.  ``DensePlanes`` holds keys
``[B, H, S, Dk]`` and values ``[B, H, S, Dv]`` of one dtype.

An operation returns new planes and leaves the old ones as they are.  Buffers are donated by MLX when nobody else
holds them: a write in place costs one column unless a read or a clone still needs the old columns.
"""

from typing import Protocol, Self

import mlx.core as mx

from kvlaw.mlx_impl.geometry import Plan
from kvlaw.spec.cite import clause

AXIS = 2
"""The axis of columns, in every plane."""

Keys = mx.array
Values = mx.array


class Planes(Protocol):
    """Stored columns of one kind."""

    storage: str

    @property
    def arrays(self) -> dict[str, mx.array]:
        """Return the planes by name, as arrays that belong to the caller."""
        ...

    @property
    def nbytes(self) -> int:
        """Return the bytes of all planes."""
        ...

    def move(self, plan: Plan, new: Self) -> Self:
        """Carry out ``plan`` with the columns ``new``."""
        ...

    def first(self, columns: slice | None) -> Self:
        """Take the columns of a range that begins at 0; all if None."""
        ...

    def dense(self) -> tuple[Keys, Values]:
        """Return keys and values as arrays that belong to the caller."""
        ...

    def attend(self, queries: mx.array, scale: float, mask: mx.array | str | None, sinks: mx.array | None) -> mx.array:
        """Attend ``queries`` over all columns."""
        ...


class DensePlanes:
    """Keys ``[B, H, S, Dk]`` and values ``[B, H, S, Dv]`` as they were appended."""

    __slots__ = ("keys", "values")

    storage = "dense"

    def __init__(self, keys: mx.array, values: mx.array) -> None:
        self.keys = keys
        self.values = values

    @property
    def arrays(self) -> dict[str, mx.array]:
        """Return ``keys`` and ``values`` as arrays that belong to the caller."""
        return {"keys": self.keys[...], "values": self.values[...]}

    @property
    def nbytes(self) -> int:
        """Return the bytes of keys and values."""
        return self.keys.nbytes + self.values.nbytes

    @staticmethod
    def begin(plan: Plan, new: "DensePlanes") -> "DensePlanes":
        """Carry out the first ``plan`` of an empty cache."""
        return DensePlanes(_lay_out(None, plan, new.keys), _lay_out(None, plan, new.values))

    @clause("GROW-2", "GROW-4")
    def move(self, plan: Plan, new: "DensePlanes") -> "DensePlanes":
        """Carry out ``plan`` with the columns ``new``."""
        if plan.write is None:
            return DensePlanes(_lay_out(self.keys, plan, new.keys), _lay_out(self.values, plan, new.values))
        place = (slice(None), slice(None), plan.write)
        keys, values = self.keys[...], self.values[...]  # array objects of our own: writing rebinds only these
        keys[place] = new.keys
        values[place] = new.values
        return DensePlanes(keys, values)

    def first(self, columns: slice | None) -> "DensePlanes":
        """Take the columns of a range that begins at 0; all if None."""
        if columns is None:
            return self
        return DensePlanes(self.keys[:, :, columns], self.values[:, :, columns])

    def dense(self) -> tuple[Keys, Values]:
        """Return keys and values as arrays that belong to the caller."""
        return self.keys[...], self.values[...]

    def attend(self, queries: mx.array, scale: float, mask: mx.array | str | None, sinks: mx.array | None) -> mx.array:
        """Attend ``queries`` over all columns with MLX's fused kernel."""
        return mx.fast.scaled_dot_product_attention(
            queries, self.keys, self.values, scale=scale, mask=mask, sinks=sinks
        )


def _lay_out(old: mx.array | None, plan: Plan, new: mx.array) -> mx.array:
    """Concatenate what ``plan`` keeps, the new columns, and zeros: always a copy, so nothing of the caller's is kept.

    A lone part would be handed on as it is; the empty one in front makes MLX copy it (OWN-8).
    """
    parts: list[mx.array] = []
    if old is not None:
        parts = [old[:, :, columns] for columns in plan.front]
    parts.append(new)
    if old is not None:
        parts += [old[:, :, columns] for columns in plan.back]
    if plan.spare:
        batch, heads, _, dim = new.shape
        parts.append(mx.zeros((batch, heads, plan.spare, dim), new.dtype))
    if len(parts) == 1:
        parts.insert(0, new[:, :, :0])
    return mx.concatenate(parts, AXIS)
