"""``append_compiled``: one decode of one cache, its write carried out by a compiled graph.

It is a decode in all that it stores and shows.  Its read attends as a compiled step does: over the whole allocation
under a mask, where the phase is ``fixed``.
"""

from collections.abc import Callable
from functools import lru_cache

import mlx.core as mx

from kvlaw.mlx_impl.caches import window_argument
from kvlaw.mlx_impl.codec import Codec
from kvlaw.mlx_impl.decode_steps import DecodeSlot, Target, finite_tail, guarded, prepare_decode_step, widened
from kvlaw.mlx_impl.group_masks import group_decode_mask
from kvlaw.mlx_impl.groups import RowGroup
from kvlaw.mlx_impl.inputs import Layout, admit
from kvlaw.mlx_impl.masks import Lease, Mask, decode_mask
from kvlaw.mlx_impl.planes import Planes
from kvlaw.mlx_impl.plans import REMEMBERED
from kvlaw.mlx_impl.reads import Read
from kvlaw.mlx_impl.traced import stored, updated
from kvlaw.spec.cite import clause

Update = Callable[[mx.array, mx.array, list[mx.array]], list[mx.array]]


class CompiledRead(Read):
    """The read of a compiled decode: the fetch of the decode, attended in the whole allocation that holds it."""

    __slots__ = ("_hidden", "_whole")

    _hidden: Mask

    def __init__(self, planes: Planes, mask: Mask, layout: Layout, whole: Planes, hidden: Mask) -> None:
        super().__init__(planes, mask, layout, 1)
        self._whole, self._hidden = whole, hidden

    @clause("DEC-2")
    def attend(self, queries: mx.array, *, scale: float, sinks: mx.array | None = None) -> mx.array:
        """Attend as a ``Read`` does."""
        if sinks is not None or not self._layout.fits_queries(queries, 1):
            return super().attend(queries, scale=scale, sinks=sinks)
        return self._whole.attend(queries, scale, self._hidden, None)


@clause("DEC-1", "DEC-2", "DEC-3", "DEC-4", "DEC-5", "DEC-6", "DEC-7", "DEC-9", "DEC-10")
def append_compiled(
    cache: Target, keys: mx.array, values: mx.array, *, window: int | None = None, as_array: bool = False
) -> Read:
    """Append one position per row, keys ``[B, H, 1, Dk]`` and values ``[B, H, 1, Dv]``, and return its read.

    ``window`` and ``as_array`` are those of ``append_decode``.

    Raises:
        CacheError: if the arrays or the window are refused, the cache is empty, in a round, or has padding announced.
    """
    tail = finite_tail(cache)
    step = prepare_decode_step(cache, whole=True, guarded=tail is not None and not tail)
    layout, store = step.layout, cache.policy.codes
    if not layout.fits_decode(keys, values):
        admit(keys, values, layout, decode=True)
    mask = _mask(cache, None if window is None else window_argument(window), as_array)
    inputs = step.decode_inputs()
    hidden = Lease(inputs[-1], "decode") if step.decode_slot.masked else None
    if isinstance(mask, Lease):
        hidden = Lease(widened(mask.array, step.columns), "decode")
    outputs = _update(step.decode_slot, store.codec if store else None)(keys, values, inputs)
    whole = step.planes_of(outputs)
    fetched = step.fetched(whole)
    if step.decode_slot.guarded:
        whole = step.planes_of(guarded(outputs, inputs[len(outputs)]))
    step.commit_decode_step(outputs)
    return CompiledRead(fetched, mask, layout, whole, hidden)


def _mask(cache: Target, window: int | None, as_array: bool) -> Mask:
    """Return the mask of the decode that comes next."""
    if isinstance(cache, RowGroup):
        return group_decode_mask(cache.content.geometry, window, as_array)
    return decode_mask(cache.place, window, as_array)


@lru_cache(maxsize=REMEMBERED)
def _update(slot: DecodeSlot, codec: Codec | None) -> Update:
    """Compile the write of one column."""

    def update(keys: mx.array, values: mx.array, inputs: list[mx.array]) -> list[mx.array]:
        return updated(inputs, stored(slot, codec, keys, values))

    return mx.compile(update)
