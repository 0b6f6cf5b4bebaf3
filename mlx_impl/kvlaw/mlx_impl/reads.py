"""What an append returns: the fetched columns and their mask, captured once and for all.

A ``Read`` can be attended any number of times.  It holds planes that nobody changes, so whatever its cache does later
(append, trim, reset, drop) leaves its answer as it is.
"""

from typing import Literal

import mlx.core as mx

from kvlaw.mlx_impl.errors import DTypeError, ShapeError
from kvlaw.mlx_impl.inputs import Layout
from kvlaw.mlx_impl.masks import Lease, Mask, hand_out
from kvlaw.mlx_impl.planes import Keys, Planes, Values
from kvlaw.spec.cite import clause


class Read:
    """One append, ready to be attended by queries ``[B, Hq, L, Dk]``, ``Hq`` a multiple of the KV heads."""

    __slots__ = ("_layout", "_mask", "_planes", "length")

    _mask: Mask

    def __init__(self, planes: Planes, mask: Mask, layout: Layout, length: int) -> None:
        self._planes = planes
        self._mask = mask
        self._layout = layout
        self.length = length

    def __repr__(self) -> str:
        keys = self.keys
        return f"Read(length={self.length}, fetch={keys.shape[2]}, dtype={keys.dtype})"

    @property
    def keys(self) -> Keys:
        """Return the fetched keys ``[B, H, S, Dk]``, an array that belongs to the caller."""
        return self._planes.dense()[0]

    @property
    def values(self) -> Values:
        """Return the fetched values ``[B, H, S, Dv]``, an array that belongs to the caller."""
        return self._planes.dense()[1]

    @property
    def mask(self) -> Literal["causal"] | mx.array | None:
        """Return None, ``"causal"`` or a bool array ``[L, S]`` that belongs to the caller."""
        return hand_out(self._mask)

    @clause("READ-2", "READ-3", "READ-4", "READ-9", "OWN-1")
    def attend(self, queries: mx.array, *, scale: float, sinks: mx.array | None = None) -> mx.array:
        """Attend ``queries`` ``[B, Hq, L, Dk]`` and return ``[B, Hq, L, Dv]``.

        ``scale`` multiplies the scores; ``sinks`` ``[Hq]`` are the learned sink logits of GPT-OSS, one per query head
        (not the pinned positions of a ring).

        Raises:
            ShapeError: if queries or sinks have another shape.
            DTypeError: if queries have another dtype than the fetched keys, or sinks are no floating array.
        """
        if not self._layout.fits_queries(queries, self.length):
            raise self._misfit(queries)
        if sinks is not None:
            _check_sinks(sinks, queries.shape[1])
        mask = self._mask
        return self._planes.attend(queries, scale, mask.array if isinstance(mask, Lease) else mask, sinks)

    def _misfit(self, queries: object) -> DTypeError | ShapeError:
        """Say why ``queries`` do not fit."""
        layout = self._layout
        kind = queries.dtype if isinstance(queries, mx.array) else type(queries).__name__
        if not isinstance(queries, mx.array) or queries.dtype != layout.dtype:
            return DTypeError(f"queries of {kind}", f"an mx.array of {layout.dtype} is needed", "READ-9")
        needed = f"[{layout.batch}, a multiple of {layout.heads}, {self.length}, {layout.key_dim}]"
        return ShapeError(f"queries of shape {queries.shape}", f"the shape is {needed}", "READ-9")


def _check_sinks(sinks: object, heads: int) -> None:
    if not isinstance(sinks, mx.array) or not mx.issubdtype(sinks.dtype, mx.floating):
        raise DTypeError("learned sinks", "a floating mx.array is needed", "READ-9")
    if sinks.shape != (heads,):
        raise ShapeError(f"learned sinks of shape {sinks.shape}", f"one per query head is needed: ({heads},)", "READ-9")
