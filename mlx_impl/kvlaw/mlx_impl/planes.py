"""What a cache stores: planes of columns on axis 2, moved by a plan and never changed in place.

``Planes`` is the protocol: an append hands over dense keys and values, the planes store them in their own way, fetch,
and attend over what they fetched.  ``DensePlanes`` holds keys ``[B, H, S, Dk]`` and values ``[B, H, S, Dv]`` of one
dtype; ``codes.AffinePlanes`` holds codes of them.  ``moved`` carries out a plan on one array, of whatever kind.

An operation returns new planes and leaves the old ones as they are.  Buffers are donated by MLX when nobody else
holds them: a write in place costs one column unless a read or a clone still needs the old columns.
"""

from functools import cache, lru_cache
from typing import Any, Protocol, Self

import mlx.core as mx

from kvlaw.mlx_impl.geometry import Index, Plan, columns_index
from kvlaw.mlx_impl.inputs import Layout
from kvlaw.mlx_impl.masks import Lease, Mask
from kvlaw.spec.cite import clause

AXIS = 2
"""The axis of columns, in every plane."""

fused_attention = mx.fast.scaled_dot_product_attention

Keys = mx.array
Values = mx.array


class Planes(Protocol):
    """Stored columns of one kind."""

    @property
    def columns(self) -> int:
        """Return how many columns there are."""
        ...

    @property
    def arrays(self) -> dict[str, mx.array]:
        """Return the planes by name, as arrays that belong to the caller."""
        ...

    @property
    def nbytes(self) -> int:
        """Return the bytes of all planes."""
        ...

    def append(self, plan: Plan, keys: Keys, values: Values) -> tuple[Self, Self]:
        """Carry out ``plan``: return what is stored afterwards, and what the plan fetches of it."""
        ...

    def first(self, columns: int) -> Self:
        """Take the first ``columns`` columns."""
        ...

    def row(self, row: int) -> "Planes":
        """Take one row, ``[1, H, S, D]``."""
        ...

    def stored(self) -> tuple[Any, Any]:
        """Return keys and values as they are stored, for a caller to keep: two arrays, or two triples of codes."""
        ...

    def dense(self) -> tuple[Keys, Values]:
        """Return keys and values as arrays that belong to the caller."""
        ...

    def attend(self, queries: mx.array, scale: float, mask: Mask, sinks: mx.array | None) -> mx.array:
        """Attend ``queries`` over all columns."""
        ...


class DensePlanes:
    """Keys ``[B, H, S, Dk]`` and values ``[B, H, S, Dv]`` as they were appended."""

    __slots__ = ("__weakref__", "keys", "values")

    def __init__(self, keys: Keys, values: Values) -> None:
        self.keys = keys
        self.values = values

    @property
    def columns(self) -> int:
        """Return how many columns there are."""
        return self.keys.shape[2]

    @property
    def arrays(self) -> dict[str, mx.array]:
        """Return ``keys`` and ``values`` as arrays that belong to the caller."""
        return {"keys": self.keys[...], "values": self.values[...]}

    @property
    def nbytes(self) -> int:
        """Return the bytes of keys and values."""
        return self.keys.nbytes + self.values.nbytes

    @clause("GROW-2", "GROW-4", "OWN-1", "OWN-8")
    def append(self, plan: Plan, keys: Keys, values: Values) -> tuple["DensePlanes", "DensePlanes"]:
        """Carry out ``plan``: return what is stored afterwards, and what the plan fetches of it."""
        if plan.write is None:
            held = DensePlanes(_lay_out(self.keys, plan, keys), _lay_out(self.values, plan, values))
        else:  # what ``moved`` does, written out: the hot path
            held = DensePlanes(self.keys[...], self.values[...])  # array objects of our own: a write rebinds only these
            held.keys[plan.write] = keys
            held.values[plan.write] = values
        return held, held if plan.fetch is None else held.fetched(plan)

    def at(self, index: Index) -> "DensePlanes":
        """Take a range of columns."""
        return DensePlanes(self.keys[index], self.values[index])

    def fetched(self, plan: Plan) -> "DensePlanes":
        """Take the columns that ``plan`` fetches."""
        return _Taken(taken(self.keys, plan), taken(self.values, plan))

    def first(self, columns: int) -> "DensePlanes":
        """Take the first ``columns`` columns."""
        return self.at(columns_index(0, columns))

    def row(self, row: int) -> "DensePlanes":
        """Take one row, ``[1, H, S, D]``."""
        return DensePlanes(self.keys[row : row + 1], self.values[row : row + 1])

    def stored(self) -> tuple[Keys, Values]:
        """Return keys and values as arrays that belong to the caller."""
        return self.keys[...], self.values[...]

    def dense(self) -> tuple[Keys, Values]:
        """Return keys and values as arrays that belong to the caller."""
        return self.keys[...], self.values[...]

    def attend(self, queries: mx.array, scale: float, mask: Mask, sinks: mx.array | None) -> mx.array:
        """Attend ``queries`` over all columns with MLX's fused kernel."""
        hidden = mask.array if isinstance(mask, Lease) else mask
        return fused_attention(queries, self.keys, self.values, scale=scale, mask=hidden, sinks=sinks)


class _Taken(DensePlanes):
    """Columns that were taken out of what is held, as array objects that no one else has: they need no others."""

    __slots__ = ()

    @clause("OWN-5")
    def dense(self) -> tuple[Keys, Values]:
        """Hand on keys and values to a caller who attends by itself; nothing reads these planes after that."""
        return self.keys, self.values


class DenseStore:
    """Where a cache begins that stores keys and values as they were appended."""

    __slots__ = ()

    storage = "dense"

    def begin(self, plan: Plan, keys: Keys, values: Values) -> tuple[DensePlanes, DensePlanes]:
        """Carry out the first ``plan`` of an empty cache."""
        held = DensePlanes(_lay_out(None, plan, keys), _lay_out(None, plan, values))
        return held, held if plan.fetch is None else held.fetched(plan)

    def bytes_per_token(self, layout: Layout) -> int:
        """Return the bytes of one position of one row."""
        return layout.bytes_per_token


DENSE_STORE = DenseStore()


def moved(old: mx.array | None, plan: Plan, new: mx.array) -> mx.array:
    """Carry out ``plan`` on one array: write ``new`` in place, or lay out; ``old`` stays as it is."""
    if plan.write is None or old is None:
        return _lay_out(old, plan, new)
    held = old[...]
    held[plan.write] = new
    return held


@clause("ROUND-6", "ROUND-8")
def taken(array: mx.array, plan: Plan) -> mx.array:
    """Take the columns that ``plan`` fetches out of one array: a range, behind the pinned ones if they lie apart."""
    found = array if plan.fetch is None else array[plan.fetch]
    return found if plan.pins is None else mx.concatenate([array[plan.pins], found], AXIS)


def _lay_out(old: mx.array | None, plan: Plan, new: mx.array) -> mx.array:
    """Concatenate what ``plan`` keeps, the new columns, and zeros: a copy, so nothing of the caller's is kept (OWN-8).

    The empty part in front has two uses: a lone part would be handed on as it is, not copied; and as an operation more
    for MLX's CPU scheduler it keeps fewer of the others in flight, which was measured to lower the peak by some 3 %.
    """
    batch, heads, _, dim = new.shape
    parts = [mx.stop_gradient(_nothing(batch, heads, dim, new.dtype))]
    if old is not None:
        parts += [old[index] for index in plan.front]
    parts.append(new)
    if old is not None:
        parts += [old[index] for index in plan.back]
    if plan.spare:
        parts.append(_zeros(new, plan.spare))
    return mx.concatenate(parts, AXIS)


def _zeros(like: mx.array, columns: int) -> mx.array:
    """Return zero columns that occupy no memory of their own."""
    batch, heads, _, dim = like.shape
    return mx.broadcast_to(_zero(like.dtype), (batch, heads, columns, dim))


@lru_cache(maxsize=64)
def _nothing(batch: int, heads: int, dim: int, dtype: mx.Dtype) -> mx.array:
    return mx.zeros((batch, heads, 0, dim), dtype)


@cache
def _zero(dtype: mx.Dtype) -> mx.array:
    return mx.zeros((1, 1, 1, 1), dtype)
