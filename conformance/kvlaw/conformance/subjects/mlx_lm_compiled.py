"""Compiled decodes of mlx-lm's caches (option ``step=naive_compile``): ``mx.compile`` around ``update_and_fetch``.

This is what a runtime writes that takes care of the arrays alone: keys and values go through the compiled step as its
inputs and outputs, the cache's Python code runs while it is traced. Whatever that code keeps in integers of the host
(offset, write position) is counted once per trace; mlx-lm itself compiles no step with a cache in it.
"""

from collections.abc import Callable
from typing import Any, cast
from weakref import WeakKeyDictionary

from kvlaw.conformance.interface import UnsupportedError
from kvlaw.conformance.subjects.duck import DuckAdapter, DuckRead
from kvlaw.spec.calls import AppendName

Step = Callable[[Any, Any], Any]


class NaiveSteps(DuckAdapter):
    """The part of an adapter of mlx-lm's caches that decodes by a compiled step, one for each cache."""

    def takes_steps(self) -> None:
        """Be asked for compiled decodes from now on."""
        self._steps: WeakKeyDictionary[Any, tuple[dict[str, Any], Step]] = WeakKeyDictionary()
        self.capabilities |= {"compiled"}

    def append(self, cache: Any, keys: Any, values: Any, phase: AppendName, window: int | None, array: bool) -> Any:
        """Append, a compiled decode by the step of this cache."""
        if phase != "compiled":
            return super().append(cache, keys, values, phase, window, array)
        if cache.keys is None:
            raise UnsupportedError("there are no arrays yet that could go through a step")
        mask = self.mask(cache, 1, "decode", window, array)
        arrays, step = self._step(cache)
        arrays["keys"], arrays["values"] = cache.keys, cache.values
        answer = step(keys, values)
        cache.keys, cache.values = arrays["keys"], arrays["values"]
        return DuckRead(answer, mask)

    def _step(self, cache: Any) -> tuple[dict[str, Any], Step]:
        """Give the step of a cache, and the arrays that go through it."""
        found = self._steps.get(cache)
        if found is None:
            self._steps[cache] = found = _compiled(cache)
        return found


def _compiled(cache: Any) -> tuple[dict[str, Any], Step]:
    """Compile a step around a cache."""
    import mlx.core as mx

    arrays: dict[str, Any] = {"keys": cache.keys, "values": cache.values}

    def update(keys: Any, values: Any) -> Any:
        cache.keys, cache.values = arrays["keys"], arrays["values"]
        fetched = cache.update_and_fetch(keys, values)
        arrays["keys"], arrays["values"] = cache.keys, cache.values
        return fetched

    compiled: Any = mx.compile
    return arrays, cast("Step", compiled(update, inputs=arrays, outputs=arrays))


__all__ = ["NaiveSteps"]
