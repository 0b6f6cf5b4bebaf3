"""Which fetched columns the queries of each row see: the masks of ``masks``, with an axis of rows.

Columns that hold no position of a row are hidden from it; all else is as in a serial cache.  As there, whether an array
is needed is decided in integers, and the array, bool ``[B, 1, L, S]``, is built once and leased by every layer that
stands at the same place.  Nothing here depends on precision.
"""

from functools import lru_cache
from typing import Literal
from weakref import WeakValueDictionary

import attrs
import mlx.core as mx

from kvlaw.mlx_impl.group_geometry import GroupGeometry
from kvlaw.mlx_impl.masks import Lease, Mask, Meaning
from kvlaw.mlx_impl.plans import REMEMBERED, Last, decode_plan
from kvlaw.spec.cite import clause


@attrs.frozen(cache_hash=True)
class GroupDecodeShape:
    """``[B, 1, 1, width]`` in physical order: a ring begins at column ``oldest``; row b sees from ``starts[b]`` on."""

    width: int
    oldest: int
    starts: tuple[int, ...]

    @property
    def meaning(self) -> Meaning:
        """Return what it is the mask of."""
        return "decode"

    @clause("MASK-15", "MASK-16")
    def build(self) -> mx.array:
        """Rank the columns from the oldest, and see those from each row's start on."""
        columns = mx.arange(self.width)
        rank = (columns + (self.width - self.oldest)) % self.width if self.oldest else columns
        return rank >= per_row(self.starts)


@attrs.frozen(cache_hash=True)
class GroupBlockShape:
    """``[B, 1, length, history + length]`` in temporal order: query i stands at column ``history + i``.

    It sees the newest ``bound`` columns up to its own, all if that is None, but never the first ``pads[b]``.
    """

    history: int
    length: int
    bound: int | None
    pads: tuple[int, ...]

    @property
    @clause("READ-15")
    def meaning(self) -> Meaning:
        """Return whether it is plain causal."""
        return "masked" if self.bound is not None or any(self.pads) else "causal"

    @clause("MASK-14", "MASK-16")
    def build(self) -> mx.array:
        """See what is not later, near, and no padding."""
        columns = mx.arange(self.history + self.length)
        queries = mx.arange(self.history, self.history + self.length)[:, None]
        seen = queries >= columns
        if self.bound is not None:
            seen = seen & (queries < columns + self.bound)
        return seen & (columns >= per_row(self.pads))


_AHEAD = 16
_plain: dict[GroupGeometry, GroupDecodeShape | None] = {}
_last = Last()
_leases: WeakValueDictionary[GroupBlockShape, Lease] = WeakValueDictionary()


@clause("MASK-12", "MASK-17")
def group_decode_mask(geometry: GroupGeometry, window: int | None, as_array: bool) -> Mask:
    """Return the mask of a decode at ``geometry``: None unless something is hidden, or the array is wanted.

    Raises:
        PaddingError: if padding is announced, so that no decode can come next.
    """
    if window is not None or as_array:
        return _decode_mask(decode_shape(geometry, window, as_array))
    asked, mask = _last.pair
    if asked is not geometry:
        mask = _decode_mask(_plain[geometry] if geometry in _plain else _shape_ahead(geometry))
        _last.pair = geometry, mask
    return mask


@clause("MASK-12", "MASK-17")
def group_block_mask(geometry: GroupGeometry, length: int, window: int | None, as_array: bool) -> Mask:
    """Return the mask of a block at ``geometry``: causal unless more is hidden, or the array is wanted."""
    shape = block_shape(geometry, length, window, as_array)
    if not isinstance(shape, GroupBlockShape):
        return shape
    lease = _leases.get(shape)
    if lease is None:
        _leases[shape] = lease = Lease(shape.build(), shape.meaning)
    return lease


@lru_cache(maxsize=REMEMBERED)
@clause("MASK-15")
def decode_shape(geometry: GroupGeometry, window: int | None, as_array: bool) -> GroupDecodeShape | None:
    """Decide on the mask of a decode.

    Raises:
        PaddingError: if padding is announced, so that no decode can come next.
    """
    geometry.refuse_padding("a decode mask")
    place = geometry.place
    width, bound = place.decode_width, place.bound(window)
    seen = [offset + 1 if bound is None else min(offset + 1, bound) for offset in geometry.offsets]
    starts = tuple(max(0, width - count) for count in seen)
    if any(starts):
        return GroupDecodeShape(width, place.decode_oldest, starts)
    return GroupDecodeShape(width, 0, starts) if as_array else None


@lru_cache(maxsize=REMEMBERED)
@clause("MASK-14", "PAD-4")
def block_shape(
    geometry: GroupGeometry, length: int, window: int | None, as_array: bool
) -> GroupBlockShape | Literal["causal"]:
    """Decide on the mask of a block."""
    left = geometry.retracted().then  # what the block is appended to
    bound, history = left.place.bound(window), left.place.history
    if bound is not None and history + length <= bound:
        bound = None
    pads = tuple(max(0, history - offset) for offset in left.offsets)
    if bound is not None or any(pads) or as_array:
        return GroupBlockShape(history, length, bound, pads)
    return "causal"


@lru_cache(maxsize=REMEMBERED)
def per_row(numbers: tuple[int, ...]) -> mx.array:
    """Return one number per row, ``[B, 1, 1, 1]``; nobody but this package holds it."""
    return mx.expand_dims(mx.array(numbers, mx.int32), (1, 2, 3))


def _shape_ahead(geometry: GroupGeometry) -> GroupDecodeShape | None:
    """Decide on the masks of the next decodes, as ``plans`` plans them, and forget all others if they are many."""
    if len(_plain) >= REMEMBERED:
        _plain.clear()
    place = geometry
    for _ in range(_AHEAD):
        _plain[place] = decode_shape(place, None, as_array=False)
        place = decode_plan(place).then
    return _plain[geometry]


def _decode_mask(shape: GroupDecodeShape | None) -> Mask:
    return None if shape is None else _decode_lease(shape)


@lru_cache(maxsize=8)
def _decode_lease(shape: GroupDecodeShape) -> Lease:
    """Build the mask of a decode once for all layers: a line per row, so that a few of them may outlive their step."""
    return Lease(shape.build(), shape.meaning)
