"""What an append returns: the fetched columns and their mask, captured once and for all.

``KnownRead`` attends each of its positions by itself.

A ``Read`` can be attended any number of times.  It holds planes that nobody changes, so whatever its cache does later
(append, trim, reset, drop) leaves its answer as it is.
"""

from typing import Any, Literal

import mlx.core as mx

from kvlaw.mlx_impl.errors import DTypeError, ShapeError
from kvlaw.mlx_impl.inputs import Layout
from kvlaw.mlx_impl.masks import Lease, Mask, hand_out
from kvlaw.mlx_impl.planes import Planes
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
        fetch = f"fetch={self._planes.columns}, dtype={self._layout.dtype}"
        return f"{type(self).__name__}(length={self.length}, {fetch})"

    @property
    @clause("READ-10")
    def keys(self) -> Any:
        """Return the fetched keys, for the caller to keep.

        Half precision is an array ``[B, H, S, Dk]``; codes are a triple ``(words, scales, biases)``.
        """
        return self._planes.stored()[0]

    @property
    @clause("READ-10")
    def values(self) -> Any:
        """Return the fetched values, an array ``[B, H, S, Dv]`` or a triple as of ``keys``, for the caller to keep."""
        return self._planes.stored()[1]

    @property
    def mask(self) -> Literal["causal"] | mx.array | None:
        """Return None, ``"causal"`` or a bool array ``[L, S]``, of a group ``[B, 1, L, S]``, for the caller to keep."""
        return hand_out(self._mask)

    @property
    @clause("READ-16")
    def rows(self) -> "tuple[Read, ...]":
        """Return one read per row, each with the fetched columns, the mask and the storage of its row."""
        return tuple(self._of_row(row) for row in range(self._layout.batch))

    def _of_row(self, row: int) -> "Read":
        return Read(self._planes.row(row), row_of(self._mask, row), self._layout.of_rows(1), self.length)

    @clause("READ-2", "READ-3", "READ-4", "READ-9", "OWN-1")
    def attend(self, queries: mx.array, *, scale: float, sinks: mx.array | None = None) -> mx.array:
        """Attend ``queries`` ``[B, Hq, L, Dk]`` and return ``[B, Hq, L, Dv]``.

        ``scale`` multiplies the scores; ``sinks`` ``[Hq]`` are the learned sink logits of GPT-OSS, one per query head
        (not the pinned positions of a ring).

        Raises:
            ShapeError: if queries or sinks have another shape.
            DTypeError: if queries have another dtype than what was appended, or sinks are no floating array.
            ConfigError: if there are sinks, and the read is one of codes.
        """
        if not self._layout.fits_queries(queries, self.length):
            raise self._misfit(queries)
        if sinks is not None:
            _check_sinks(sinks, queries.shape[1])
        return self._planes.attend(queries, scale, self._mask, sinks)

    def _misfit(self, queries: object) -> DTypeError | ShapeError:
        """Say why ``queries`` do not fit."""
        layout = self._layout
        kind = queries.dtype if isinstance(queries, mx.array) else type(queries).__name__
        if not isinstance(queries, mx.array) or queries.dtype != layout.dtype:
            return DTypeError(f"queries of {kind}", f"an mx.array of {layout.dtype} is needed", "READ-9")
        needed = f"[{layout.batch}, a multiple of {layout.heads}, {self.length}, {layout.key_dim}]"
        return ShapeError(f"queries of shape {queries.shape}", f"the shape is {needed}", "READ-9")


class KnownRead(Read):
    """The read of decided tokens: each query is attended alone, as a decode would, under its own row of the mask."""

    __slots__ = ("_rows",)

    def __init__(self, planes: Planes, mask: Mask, layout: Layout, length: int, rows: mx.array) -> None:
        super().__init__(planes, mask, layout, length)
        self._rows = rows

    @clause("READ-12", "READ-13")
    def attend(self, queries: mx.array, *, scale: float, sinks: mx.array | None = None) -> mx.array:
        """Attend as a ``Read`` does, each of the L queries alone."""
        if not self._layout.fits_queries(queries, self.length):
            raise self._misfit(queries)
        alone = [slice(i, i + 1) for i in range(self.length)]
        parts = [self._alone(at).attend(queries[:, :, at], scale=scale, sinks=sinks) for at in alone]
        return mx.concatenate(parts, axis=2)

    def _of_row(self, row: int) -> Read:
        rows = self._rows[row : row + 1] if self._rows.ndim > 2 else self._rows
        layout = self._layout.of_rows(1)
        return KnownRead(self._planes.row(row), row_of(self._mask, row), layout, self.length, rows)

    def _alone(self, at: slice) -> Read:
        return Read(self._planes, Lease(self._rows[..., at, :], "decode"), self._layout, 1)


def row_of(mask: Mask, row: int) -> Mask:
    """Return the mask of one row of a group."""
    if isinstance(mask, Lease) and mask.array.ndim > 2:
        return Lease(mask.array[row : row + 1], mask.meaning)
    return mask


def _check_sinks(sinks: object, heads: int) -> None:
    if not isinstance(sinks, mx.array) or not mx.issubdtype(sinks.dtype, mx.floating):
        raise DTypeError("learned sinks", "a floating mx.array is needed", "READ-9")
    if sinks.shape != (heads,):
        raise ShapeError(f"learned sinks of shape {sinks.shape}", f"one per query head is needed: ({heads},)", "READ-9")
