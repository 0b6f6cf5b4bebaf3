"""Which fetched columns a query sees: None (all), ``"causal"`` (all up to its own), or a boolean array.

A mask is built from the geometry *before* its append and holds for the read of it.  Whether an array is needed, and
which, is decided in integers (``DecodeShape``, ``WindowShape``); the array is built once and leased by every layer that
stands at the same place, for as long as anyone holds the lease.

Array masks have the query axis and the fetch axis only, ``[L, S]``, and so meet scores ``[B, H, L, S]``.
"""

from functools import lru_cache
from typing import Literal
from weakref import WeakValueDictionary

import attrs
import mlx.core as mx

from kvlaw.mlx_impl.geometry import Geometry
from kvlaw.mlx_impl.plans import REMEMBERED
from kvlaw.spec.cite import clause


@attrs.frozen(cache_hash=True)
class DecodeShape:
    """``[1, width]`` in physical order: the ring begins at column ``oldest`` and its newest ``bound`` are seen."""

    width: int
    oldest: int
    bound: int

    @property
    def meaning(self) -> "Meaning":
        """Return what it is the mask of."""
        return "decode"

    @clause("MASK-10")
    def build(self) -> mx.array:
        """Rank the columns from the oldest, and see the newest ``bound``."""
        columns = mx.arange(self.width)[None]
        rank = (columns + (self.width - self.oldest)) % self.width if self.oldest else columns
        return rank >= self.width - self.bound


@attrs.frozen(cache_hash=True)
class WindowShape:
    """``[length, history + length]`` in temporal order: query i stands at column ``history + i``.

    It sees the first ``pinned`` columns and the newest ``bound - pinned``; all up to its own if ``bound`` is None.
    """

    history: int
    length: int
    bound: int | None
    pinned: int

    @property
    @clause("READ-15")
    def meaning(self) -> "Meaning":
        """Return whether it is plain causal."""
        return "causal" if self.bound is None else "masked"

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


@attrs.frozen(eq=False)
class Lease:
    """An array mask, bool ``[L, S]`` or of rows ``[B, 1, L, S]``, that several reads may hold, and what it means."""

    array: mx.array
    meaning: "Meaning"


Meaning = Literal["decode", "causal", "masked"]
"""What a mask is for: a query that stands alone, a window that only hides what is later, a window that hides more."""

Shape = DecodeShape | WindowShape | Literal["causal"] | None
Mask = Lease | Literal["causal"] | None
"""What a read holds: nothing hidden, plain causal, or a leased array."""

_leases: WeakValueDictionary[DecodeShape | WindowShape, Lease] = WeakValueDictionary()


@clause("MASK-12")
def decode_mask(geometry: Geometry, window: int | None, as_array: bool) -> Mask:
    """Return the mask of a decode at ``geometry``: None unless ``window`` hides something, or the array is wanted.

    Raises:
        WindowError: if the geometry cannot honour ``window``.
    """
    return _lease(decode_shape(geometry, window, as_array))


@clause("MASK-12")
def window_mask(geometry: Geometry, length: int, window: int | None, as_array: bool) -> Mask:
    """Return the mask of a window of ``length`` at ``geometry``: causal unless a query reaches past its bound.

    Raises:
        WindowError: if the geometry cannot honour ``window``.
    """
    return _lease(window_shape(geometry, length, window, as_array))


def hand_out(mask: Mask) -> Literal["causal"] | mx.array | None:
    """Return what a caller may keep: an array of its own, so that writing to it changes no lease (OWN-6)."""
    return mask.array[...] if isinstance(mask, Lease) else mask


@clause("READ-15")
def meaning_of(mask: Mask) -> Meaning:
    """Return what a mask means, however it is written."""
    if isinstance(mask, Lease):
        return mask.meaning
    return "decode" if mask is None else "causal"


@lru_cache(maxsize=REMEMBERED)
@clause("MASK-2", "MASK-5", "MASK-6", "MASK-11")
def decode_shape(geometry: Geometry, window: int | None, as_array: bool) -> Shape:
    """Decide on the mask of a decode."""
    bound = geometry.bound(window)
    width = geometry.decode_width
    if bound is not None and width > bound:
        return DecodeShape(width, geometry.decode_oldest, bound)
    return DecodeShape(width, 0, width) if as_array else None


@lru_cache(maxsize=REMEMBERED)
@clause("MASK-3", "MASK-5", "MASK-7", "MASK-11")
def window_shape(geometry: Geometry, length: int, window: int | None, as_array: bool) -> Shape:
    """Decide on the mask of a window."""
    bound = geometry.bound(window)
    history = geometry.history
    if bound is not None and history + length > bound:
        return WindowShape(history, length, bound, geometry.pinned)
    return WindowShape(history, length, None, 0) if as_array else "causal"


def _lease(shape: Shape) -> Mask:
    if not isinstance(shape, DecodeShape | WindowShape):
        return shape
    lease = _leases.get(shape)
    if lease is None:
        _leases[shape] = lease = Lease(shape.build(), shape.meaning)
    return lease
