"""What a model finds in place of its caches while a decode of it is traced: ``TracedLayer``.

It has the duck type of mlx-lm's caches, for one position: ``offset`` is an array, ``update_and_fetch`` writes into the
graph, ``make_mask`` hands out the mask that came in.  All that depends on the position are arrays that came in.
"""

from typing import Any

import attrs
import mlx.core as mx

from kvlaw.mlx_impl.codec import Codec, as_codes
from kvlaw.mlx_impl.decode_steps import DecodeSlot, guarded
from kvlaw.mlx_impl.errors import ConfigError, CountError, ShapeError, WindowError
from kvlaw.mlx_impl.inputs import Layout
from kvlaw.spec.cite import clause

AXES = (2,)
"""The axis of columns."""


@attrs.frozen(eq=False)
class LayerPlan:
    """What a graph knows of one layer while it is traced: constants of all steps that it serves."""

    slot: DecodeSlot
    layout: Layout
    codec: Codec | None
    window: int | None
    sinks: int
    takes_codes: bool


@clause("DEC-3")
def stored(slot: DecodeSlot, codec: Codec | None, keys: mx.array, values: mx.array) -> list[mx.array]:
    """Return the planes of one new column, as the cache stores it."""
    if codec is None or slot.storage == "dense":
        return [keys, values]
    return [*codec.encode_keys(keys), *codec.encode_values(values)]


@clause("DEC-2", "DEC-4")
def updated(inputs: list[mx.array], new: list[mx.array]) -> list[mx.array]:
    """Write one column into the planes that ``inputs`` begin with, at the index that comes next."""
    at = inputs[len(new)]
    return [mx.slice_update(old, column, at, AXES) for old, column in zip(inputs, new, strict=False)]


class TracedLayer:
    """One layer of a traced decode; asked once for what its queries attend over."""

    def __init__(self, plan: LayerPlan, position: mx.array, inputs: list[mx.array]) -> None:
        slot = plan.slot
        rest = inputs[slot.planes :]
        self._plan, self._planes = plan, inputs[: slot.planes]
        self._write = None if slot.phase == "concat" else rest[0]
        self._mask = rest[-1] if slot.masked else None
        self._last: tuple[Any, Any] | None = None
        self.offset = position
        self.outputs: list[mx.array] | None = None
        if slot.storage == "affine" and plan.takes_codes:
            self.bits, self.group_size = slot.bits, slot.group

    @clause("DEC-2", "DEC-3", "DEC-4")
    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[Any, Any]:
        """Append keys and values ``[B, H, 1, D]`` and return what the queries of this step attend over.

        Raises:
            ShapeError: if the arrays are not one position per row of what the cache holds.
            ConfigError: if it was asked before.
        """
        plan = self._plan
        if self.outputs is not None:
            raise ConfigError("a second append in one traced step", "a compiled decode appends once", "DEC-1")
        if not plan.layout.fits_decode(keys, values):
            raise ShapeError(f"a compiled decode of keys {keys.shape}", f"it holds {plan.layout.describe()}", "ERR-2")
        new = stored(plan.slot, plan.codec, keys, values)
        if self._write is None:
            self.outputs = new
            self._fetched = [mx.concatenate(list(pair), 2) for pair in zip(self._planes, new, strict=True)]
        else:
            self._fetched = self.outputs = updated([*self._planes, self._write], new)
            if plan.slot.guarded:
                self._fetched = guarded(self.outputs, self._write)
        self._last = self._handed()
        return self._last

    def _handed(self) -> tuple[Any, Any]:
        """Return the fetch as the model takes it: codes, or arrays."""
        plan = self._plan
        if plan.codec is None or plan.slot.storage == "dense":
            return self._fetched[0], self._fetched[1]
        keys, values = as_codes(self._fetched[:3]), as_codes(self._fetched[3:])
        if plan.takes_codes:
            return keys, values
        return plan.codec.decode_keys(keys), plan.codec.decode_values(values)

    def keys_and_values(self) -> tuple[Any, Any]:
        """Return what was last fetched, for layers that reuse it.

        Raises:
            ConfigError: if nothing was.
        """
        if self._last is None:
            raise ConfigError("the last fetch again", "nothing was fetched in this step", "READ-6")
        return self._last

    @clause("DEC-2", "MASK-4", "MASK-8")
    def make_mask(self, N: int, window_size: int | None = None, return_array: bool = False) -> mx.array | None:
        """Return the mask of the one position that comes next, None if nothing is hidden.

        Raises:
            CountError: if ``N`` is not 1.
            WindowError: if this cache cannot honour ``window_size``.
        """
        if N != 1:
            raise CountError(f"a traced mask for length {N}", "a compiled decode appends exactly 1 per row", "ERR-4")
        plan = self._plan
        if window_size is None or (plan.window is not None and window_size >= plan.window):
            return self._mask
        if plan.sinks:
            possible = f"with {plan.sinks} sinks only {plan.window} or more can be honoured"
            raise WindowError(f"window argument {window_size}", possible, "MASK-13")
        near = self._near(window_size)
        return near if self._mask is None else self._mask & near

    def _near(self, window: int) -> mx.array:
        """See the newest ``window`` columns, counted back from the one that is written."""
        columns = self._planes[0].shape[2]
        if self._write is None:
            return (mx.arange(columns + 1) > columns - window)[None]
        age = self._write - mx.arange(columns)
        return ((age % columns if self._plan.slot.phase == "ring" else age) < window)[None]
