"""Caches with mlx-lm's duck type, driven the way mlx-lm's models drive them.

``make_mask(N, window_size=, return_array=)`` is asked before ``update_and_fetch(keys, values)``, whose answer is
attended. There is one append: whether it is a decode or a window is not said (no ``phases``), and what it returns is
both the read and the dense fetch. The arrays are held as the cache's own objects: if the cache changes them later, so
does the read.

A cache without ``make_mask`` leaves masks to the runtime: one query sees all that is fetched; of several, each sees
what is not later than itself, in a ring its newest W of those, counted back from the end of the fetch.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
from attrs import evolve, frozen

from kvlaw.conformance.interface import NonsenseError, UnsupportedError
from kvlaw.conformance.subjects.array_adapter import (
    WORDS,
    attribute,
    has,
    is_triple,
    plain,
    shown,
)
from kvlaw.conformance.subjects.arrays import Arrays
from kvlaw.conformance.subjects.contract_type import takes
from kvlaw.conformance.subjects.round_calls import RoundCalls, takes_rounds
from kvlaw.spec.calls import AppendName, Phase
from kvlaw.spec.config import Config, LayerSpec
from kvlaw.spec.observations import StateView


def _from_state(cache: Any) -> Any:
    make: Any = cast("Any", type(cache)).from_state
    return make(plain(cache, "state"))


CLONES: dict[str, Callable[[Any], Any]] = {
    "method": lambda cache: cache.clone(),
    "deepcopy": copy.deepcopy,
    "from_state": _from_state,
}
"""The ways to copy a cache, by the name of the option ``clone``."""


@frozen(eq=False)
class DuckRead:
    """What ``update_and_fetch`` answered, and the mask that was built before it."""

    answer: Any
    mask: Any


def is_duck(cache: Any) -> bool:
    """Say whether a cache has mlx-lm's append."""
    return callable(getattr(cache, "update_and_fetch", None))


class DuckAdapter(RoundCalls):
    """Asks a cache by mlx-lm's calls."""

    def __init__(
        self, arrays: Arrays, make: Callable[[LayerSpec, Config], Any], example: Any, clone: str | None = None
    ) -> None:
        """Adapt caches that ``make`` builds; ``example`` is one, to look at; ``clone`` names a way to copy."""
        super().__init__(arrays, make)
        self.computes = "mlx" if arrays.attends else "own"
        self.cloned = CLONES[clone or "method"]
        self.takes_window = self.takes_array = False
        able: set[str] = {"dense"} | ({"attend"} if arrays.attends else set())
        if callable(getattr(example, "make_mask", None)):
            self.takes_window = takes(example.make_mask, "window_size")
            self.takes_array = takes(example.make_mask, "return_array")
            able |= {"mask"} | ({"window_argument"} if self.takes_window else set())
            able |= {"as_array"} if self.takes_array else set()
        able |= _trims(example) | ({"reset"} if callable(getattr(example, "reset", None)) else set())
        able |= {"rounds"} if takes_rounds(example) else set()
        able |= {"clone"} if clone or callable(getattr(example, "clone", None)) else set()
        able |= {"state"} if has(example, "state") else set()
        able |= {"planes", "columns"} if self._has_planes(example) else set()
        able |= {"max_append"} if has(example, "max_append") else set()
        self.shows = shown(example, *self.readable(example), *WORDS, "columns") | able
        self.capabilities = self.shows - {"write_index"}

    def takes_codes(self) -> None:
        """Take triples for codes: what is fetched of codes is no dense fetch, and no library's attention takes it."""
        super().takes_codes()
        self.capabilities -= {"dense", "attend"}

    def _has_planes(self, example: Any) -> bool:
        if not (has(example, "keys") and has(example, "values")):
            return False
        return all(x is None or self.arrays.is_array(x) for x in (attribute(example, n) for n in ("keys", "values")))

    def mask(self, cache: Any, length: int, phase: Phase, window: int | None, array: bool) -> Any:
        """Build the next append's mask."""
        return cache.make_mask(length, **self._mask_arguments(window, array))

    def _mask_arguments(self, window: int | None, array: bool) -> dict[str, Any]:
        """Pass what models pass: both arguments, always."""
        given: dict[str, Any] = {"window_size": window} if self.takes_window else {}
        return {**given, "return_array": array} if self.takes_array else given

    def append(self, cache: Any, keys: Any, values: Any, phase: AppendName, window: int | None, array: bool) -> Any:
        """Ask for the mask, then append."""
        if "mask" in self.capabilities:
            mask = self.mask(cache, keys.shape[2], "decode" if phase == "decode" else "window", window, array)
            return DuckRead(cache.update_and_fetch(keys, values), mask)
        if window is not None or array:
            raise UnsupportedError("this cache builds no masks")
        answer = cache.update_and_fetch(keys, values)
        return DuckRead(answer, self._runtime_mask(answer, keys.shape[2]))

    def _runtime_mask(self, answer: Any, length: int) -> Any:
        window = self.config.window
        if length == 1:
            return None
        shape = getattr(answer[0], "shape", ()) if isinstance(answer, tuple | list) and answer else ()  # type: ignore[reportUnknownArgumentType] # a foreign answer
        if window is None or len(shape) != 4:
            return "causal"
        width = int(shape[2])
        own, column = np.arange(width - length, width)[:, None], np.arange(width)[None]
        return (column <= own) & (column > own - window)

    def fetched(self, read: DuckRead) -> tuple[Any, Any] | None:
        """Give what the append returned."""
        if read.answer is None:
            raise NonsenseError("update_and_fetch answered None instead of keys and values")
        return read.answer

    def read_mask(self, read: DuckRead) -> Any:
        """Give the mask that was built before the append."""
        return read.mask

    def attend(self, read: DuckRead, queries: Any, scale: float) -> Any:
        """Attend what was fetched."""
        keys, values = read.answer
        if is_triple(keys):
            return self.attend_codes(read, queries, scale)
        return self.arrays.attend(queries, keys, values, scale, read.mask)

    def attend_codes(self, read: DuckRead, queries: Any, scale: float) -> Any:
        """Attend fetched codes; a runtime that has no such attention cannot."""
        raise UnsupportedError("no attention over codes is known for this cache")

    def fetch_dense(self, cache: Any, keys: Any, values: Any) -> tuple[Any, Any]:
        """Append and hand out what it returns."""
        return cache.update_and_fetch(keys, values)

    def trim(self, cache: Any, n: Any, bypass: bool) -> Any:
        """Drop the newest positions, without asking whether that is possible."""
        return cache.trim(n, bypass=bypass) if bypass else cache.trim(n)

    def flags(self, cache: Any, offset: int) -> tuple[bool, ...] | None:
        """Say what the cache says it can trim: by count, or as a whole up to its offset."""
        if callable(getattr(cache, "can_trim", None)):
            return tuple(bool(cache.can_trim(n)) for n in range(offset + 2))
        able = bool(cache.is_trimmable())
        return tuple(able and n <= offset for n in range(offset + 2))

    def show(self, cache: Any) -> StateView:
        """Show the state, and whether a round is open where that is said."""
        return evolve(super().show(cache), round=self.round_of(cache))

    def clone(self, cache: Any) -> Any:
        """Copy the cache."""
        return self.cloned(cache)

    def state(self, cache: Any) -> Mapping[str, Any]:
        """Hand out the live arrays of the state."""
        return dict(_leaves("state", plain(cache, "state"), self.arrays))

    def reset(self, cache: Any) -> None:
        """Empty the cache."""
        cache.reset()


def _trims(example: Any) -> set[str]:
    if not callable(getattr(example, "trim", None)):
        return set()
    able = {"trim"} | ({"bypass"} if takes(example.trim, "bypass") else set[str]())
    says = any(callable(getattr(example, name, None)) for name in ("is_trimmable", "can_trim"))
    return able | ({"can_trim"} if says else set[str]())


def _leaves(name: str, value: Any, arrays: Arrays) -> list[tuple[str, Any]]:
    """Name every array and number in nested lists, tuples and mappings."""
    if isinstance(value, Mapping):
        return [leaf for key, item in value.items() for leaf in _leaves(f"{name}.{key}", item, arrays)]  # type: ignore[reportUnknownVariableType] # a foreign state
    if isinstance(value, tuple | list):
        return [leaf for i, item in enumerate(value) for leaf in _leaves(f"{name}[{i}]", item, arrays)]  # type: ignore[reportUnknownArgumentType] # as above
    return [(name, value)] if arrays.is_array(value) or isinstance(value, int | float) else []
