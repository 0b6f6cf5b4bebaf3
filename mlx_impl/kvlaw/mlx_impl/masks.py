"""Which fetched columns a query sees: None (all), ``"causal"`` (all up to its own), or a boolean array.

A mask is built from the geometry *before* its append and holds for the read of it.  ``decode_mask`` and
``window_mask`` decide in integers whether an array is needed at all and describe it as a value; the array itself is
built once and leased by every layer that asks while anyone still holds the lease.

Array masks have the query axis and the fetch axis only, ``[L, S]``, and so meet scores ``[B, H, L, S]``.
"""

from abc import ABC, abstractmethod
from typing import Literal
from weakref import WeakValueDictionary

import attrs
import mlx.core as mx

from kvlaw.mlx_impl.geometry import Geometry
from kvlaw.spec.cite import clause


class Lease(ABC):
    """An array mask as a value: equal leases mean the same array, and ``lease`` makes them one object."""

    array: mx.array

    @abstractmethod
    def build(self) -> mx.array:
        """Build the array: bool ``[L, S]``, True where the query sees the column."""


Mask = Lease | Literal["causal"] | None
"""What a read holds: nothing hidden, plain causal, or a leased array."""


@attrs.frozen(cache_hash=True)
class DecodeLease(Lease):
    """``[1, width]`` in physical order: the ring begins at column ``oldest`` and its newest ``bound`` are seen."""

    width: int
    oldest: int
    bound: int
    array: mx.array = attrs.field(init=False, eq=False)

    @clause("MASK-10")
    def build(self) -> mx.array:
        """Rank the columns from the oldest, and see the newest ``bound``."""
        columns = mx.arange(self.width)[None]
        age_rank = (columns + (self.width - self.oldest)) % self.width if self.oldest else columns
        return age_rank >= self.width - self.bound


@attrs.frozen(cache_hash=True)
class WindowLease(Lease):
    """``[length, history + length]`` in temporal order: query i stands at column ``history + i``.

    It sees the first ``pinned`` columns and the newest ``bound - pinned``; all up to its own if ``bound`` is None.
    """

    history: int
    length: int
    bound: int | None
    pinned: int
    array: mx.array = attrs.field(init=False, eq=False)

    @clause("VIS-2", "VIS-9")
    def build(self) -> mx.array:
        """See what is not later, and near or pinned."""
        columns = mx.arange(self.history + self.length)[None]
        queries = mx.arange(self.history, self.history + self.length)[:, None]
        past = queries >= columns
        if self.bound is None:
            return past
        near = queries < columns + (self.bound - self.pinned)
        return past & (near | (columns < self.pinned) if self.pinned else near)


_leases: WeakValueDictionary[Lease, Lease] = WeakValueDictionary()


def lease(mask: Lease) -> Lease:
    """Return the one lease that equals ``mask`` and still lives, or build its array."""
    held = _leases.get(mask)
    if held is None:
        object.__setattr__(mask, "array", mask.build())
        _leases[mask] = held = mask
    return held


@clause("MASK-2", "MASK-5", "MASK-6", "MASK-11", "MASK-12")
def decode_mask(geometry: Geometry, window: int | None, *, as_array: bool = False) -> Mask:
    """Return the mask of a decode at ``geometry``: None unless ``window`` hides something, or the array is wanted.

    Raises:
        WindowError: if the geometry cannot honour ``window``.
    """
    bound = geometry.bound(window)
    width = geometry.decode_width
    hides = bound is not None and width > bound
    if not hides and not as_array:
        return None
    return lease(DecodeLease(width, geometry.decode_oldest if hides else 0, bound if hides and bound else width))


@clause("MASK-3", "MASK-5", "MASK-7", "MASK-11", "MASK-12")
def window_mask(geometry: Geometry, length: int, window: int | None, *, as_array: bool = False) -> Mask:
    """Return the mask of a window of ``length`` at ``geometry``: causal unless a query reaches past its bound.

    Raises:
        WindowError: if the geometry cannot honour ``window``.
    """
    bound = geometry.bound(window)
    history = geometry.history
    hides = bound is not None and history + length > bound
    if not hides and not as_array:
        return "causal"
    pinned = geometry.pinned if hides else 0
    return lease(WindowLease(history, length, bound if hides else None, pinned))


def hand_out(mask: Mask) -> Literal["causal"] | mx.array | None:
    """Return what a caller may keep: an array of its own, so that writing to it changes no lease (OWN-6)."""
    return mask.array[...] if isinstance(mask, Lease) else mask
