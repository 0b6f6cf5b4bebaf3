"""Compiled decode: ``step = compile_step(model, caches); logits = step(tokens)``.

``mx.compile`` keeps the graph of a function for the shapes that it saw; a position that is a host integer would be
kept with it.  So a step is prepared on the host (``decode_steps``), its positions go in as arrays (``traced``), and
what comes out is committed.  Growing caches, and rings that are not full, take whole allocations and a mask
(``fixed``): one trace serves the 256 positions of an allocation.  A full ring needs one trace for ever.

A step gives the bits that the model gives without ``mx.compile``, and leaves the caches as a decode would.  Attention
over hidden columns weighs them exactly 0 where scores are finite and softmax and products sum in the order of columns,
as MLX's CPU kernels do.  What was trimmed or taken back may lie there and be no number: then the step is another.

The model's weights are constants of the graph: make another step when they change.

MLX compiles on the CPU with g++; without it on the path it traces anew and silently at every step.  ``compiled`` says
which it was.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any
from weakref import ref

import attrs
import mlx.core as mx

from kvlaw.mlx_impl.caches import Cache
from kvlaw.mlx_impl.decode_steps import DecodeStep, Shared, Target, finite_tail, prepare_decode_step
from kvlaw.mlx_impl.errors import ConfigError
from kvlaw.mlx_impl.evaluate import evaluate
from kvlaw.mlx_impl.geometry import Geometry, RingGeometry
from kvlaw.mlx_impl.groups import RowGroup
from kvlaw.mlx_impl.kinds import RingCache
from kvlaw.mlx_impl.planes import Planes
from kvlaw.mlx_impl.traced import LayerPlan, TracedLayer
from kvlaw.spec.cite import clause

Key = tuple[str, ...]
"""The slot keys of all layers."""


@attrs.frozen(eq=False)
class Left:
    """What a step left of a layer: its planes, where it stood, and whether it kept columns out."""

    planes: "ref[Planes | None]"
    place: Geometry
    guarded: bool

    def is_of(self, cache: Target) -> bool:
        """Say whether a cache holds that still, so that nobody else came in."""
        return self.planes() is cache.planes and self.place is cache.place


class CompiledStep:
    """One decode of a model, compiled; made by ``compile_step``."""

    def __init__(self, model: Callable[..., Any], caches: Sequence[Any]) -> None:
        self._model, self._wrapped = model, list(caches)
        self._compiled: dict[Key, Callable[..., Any]] = {}
        self._known: list[Left] = []
        mx.default_stream(mx.default_device())  # what is traced before there is one is traced again
        self.traces: Counter[tuple[Key, tuple[int, ...]]] = Counter()
        """How often the model was traced, by slot keys and by columns of each layer."""
        self.calls: Counter[tuple[Key, tuple[int, ...]]] = Counter()
        """How many steps there were, counted in the same way."""
        if len({id(cache) for cache in self._caches()}) != len(self._wrapped):
            raise ConfigError("a compiled step of a list of layers", "every layer needs a cache of its own", "ERR-8")

    @property
    def compiled(self) -> bool | None:
        """Say whether a graph was used again: None while no step could have, False where MLX does not compile."""
        if any(count > self.traces[at] for at, count in self.calls.items()):
            return True
        return False if any(count > 1 for count in self.calls.values()) else None

    @clause("DEC-1", "DEC-5", "DEC-6", "DEC-7", "DEC-10", "ERR-8")
    def __call__(self, *arrays: mx.array) -> Any:
        """Call ``model(*arrays, cache=layers)`` for one position per row, and return what it returns: arrays.

        Raises:
            CacheError: if a cache is empty, in a round, or has padding announced; then no layer has changed.
        """
        caches = self._caches()
        guards = self._guards(caches)
        steps = [prepare_decode_step(cache, whole=True, guarded=g) for cache, g in zip(caches, guards, strict=True)]
        key = tuple(step.decode_slot.key for step in steps)
        at = key, tuple(step.capacity for step in steps)
        run = self._compiled.get(key)
        if run is None:
            plans = [self._plan(step, i) for i, step in enumerate(steps)]
            self._compiled[key] = run = mx.compile(self._traced(key, plans))
        before, shared = self.traces[at], Shared()
        positions = [_position(step.position, shared) for step in steps]
        outputs, planes = run(arrays, positions, [step.decode_inputs(shared) for step in steps])
        if self.traces[at] != before:
            evaluate(outputs, planes)  # so that a compiler that fails leaves every layer as it was
        for step, of_layer in zip(steps, planes, strict=True):
            step.commit_decode_step(of_layer)
        self.calls[at] += 1
        self._known = [Left(ref(c.planes), c.place, s.decode_slot.guarded) for c, s in zip(caches, steps, strict=True)]
        return outputs

    def _caches(self) -> list[Target]:
        """Return the caches as they are now; a drop-in may hold another one than before."""
        return [_target(wrapped) for wrapped in self._wrapped]

    def _guards(self, caches: list[Target]) -> list[bool]:
        """Say which layers have to keep columns out that are no numbers; asked once, while nobody else comes in."""
        known = self._known or [None] * len(caches)
        here = [found is not None and found.is_of(cache) for found, cache in zip(known, caches, strict=True)]
        tails = [None if known_ else finite_tail(cache) for known_, cache in zip(here, caches, strict=True)]
        evaluate(*(tail for tail in tails if tail is not None))
        return [
            found.guarded if found is not None and known_ else tail is not None and not tail
            for found, known_, tail in zip(known, here, tails, strict=True)
        ]

    def _plan(self, step: DecodeStep, index: int) -> LayerPlan:
        cache, wrapped = self._caches()[index], self._wrapped[index]
        store, place = cache.policy.codes, cache.place
        window = place.window if isinstance(place, RingGeometry) else None
        sinks = cache.sinks if isinstance(cache, RingCache) else 0
        same = store is not None and store.codec.bits == store.codec.value_bits
        takes_codes = same and (wrapped is cache or _hands_out_codes(wrapped))
        return LayerPlan(step.decode_slot, step.layout, store.codec if store else None, window, sinks, takes_codes)

    def _traced(self, key: Key, plans: list[LayerPlan]) -> Callable[..., Any]:
        model, traces = self._model, self.traces

        def trace(
            arrays: tuple[mx.array, ...], positions: list[mx.array], inputs: list[list[mx.array]]
        ) -> tuple[Any, list[list[mx.array]]]:
            layers = [TracedLayer(*parts) for parts in zip(plans, positions, inputs, strict=True)]
            outputs = model(*arrays, cache=layers)
            planes = [layer.outputs for layer in layers]
            if None in planes:
                raise ConfigError("a compiled step", f"layer {planes.index(None)} appended nothing", "DEC-1")
            traces[key, tuple(planes[0].shape[2] for planes in inputs)] += 1
            return outputs, planes  # pyright: ignore[reportReturnType]  # none is None

        return trace


@clause("DEC-1", "DEC-2", "DEC-3", "DEC-4", "DEC-8", "DEC-9")
def compile_step(model: Callable[..., Any], caches: Sequence[Any]) -> CompiledStep:
    """Compile the decode of a model whose layers hold ``caches``: caches, groups of rows, or drop-ins for mlx-lm.

    ``model(*arrays, cache=layers)`` takes one position per row; each of its layers calls ``update_and_fetch`` once, and
    takes positions from ``offset``: int32 ``[]``, of a group ``[B]``.

    Raises:
        ConfigError: if one is no cache of ours, or in the list twice.
    """
    return CompiledStep(model, caches)


@cache
def compiles() -> bool:
    """Say whether ``mx.compile`` keeps graphs here; it does not without g++, nor where it is disabled."""
    traced: list[int] = []
    mx.default_stream(mx.default_device())  # as in ``CompiledStep``

    def trace(array: mx.array) -> mx.array:
        traced.append(1)
        return array + array

    graph = mx.compile(trace)
    for number in (1, 2):
        graph(mx.array(number, mx.int32))
    return len(traced) == 1


def _target(wrapped: Any) -> Target:
    cache = wrapped if isinstance(wrapped, Cache | RowGroup) else getattr(wrapped, "cache", None)
    if isinstance(cache, Cache | RowGroup):
        return cache
    raise ConfigError(f"a compiled step of a {type(wrapped).__name__}", "caches and groups of rows decode", "DEC-1")


def _position(at: int | mx.array, shared: Shared) -> mx.array:
    return at if isinstance(at, mx.array) else shared.position(at)


def _hands_out_codes(drop_in: object) -> bool:
    """Say whether a drop-in is of the sort that has ``bits`` while it hands out codes."""
    return hasattr(type(drop_in), "bits")
