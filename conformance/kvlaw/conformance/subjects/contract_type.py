"""Caches with the calls of our own contract: ``append_decode`` and ``append_window``, told apart by name.

``append_decode(keys, values, *, window=, as_array=)`` and ``append_window(...)`` answer a read with ``keys``,
``values``, ``mask`` and ``attend(queries, *, scale=)``; the rest is optional: ``fetch_dense(keys, values)``,
``mask(length, *, phase=, window=, as_array=)``, ``trim(n, *, bypass=)``, ``can_trim(n)``, ``clone()``, ``reset()``,
``state()``, ``begin_round()``, ``commit_round()`` and ``roll_back(keep)`` with ``in_round``, and the numbers
``offset``, ``size``, ``nbytes``, ``columns``, ``write_index``, ``bytes_per_token``, ``identity``, ``storage``.

A cache with a storage policy may have ``append_known(keys, values, ...)``, ``floor``, ``max_append`` (None:
unbounded) and ``codes`` (keys and values as triples words, scales, biases; None while it holds none); the ``keys``
and ``values`` of its reads may be such triples. ``append_compiled(keys, values, ...)`` decodes by a compiled step.

The bits of a known append are compared, query by query, with what each query gives alone (READ-13): by the optional
``attend_alone(queries, mask, *, scale=)`` of its read, for one query ``[B, H, 1, D]`` and a bool mask ``[B, 1, 1, S]``,
or by MLX's own attention where that is said to be what reads compute.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from attrs import evolve

from kvlaw.conformance.interface import UNSHOWN, UnsupportedError
from kvlaw.conformance.subjects.array_adapter import (
    WORDS,
    attribute,
    has,
    is_triple,
    plain,
    shown,
)
from kvlaw.conformance.subjects.arrays import Arrays
from kvlaw.conformance.subjects.round_calls import RoundCalls, takes_rounds
from kvlaw.spec.calls import AppendName, Phase
from kvlaw.spec.config import Config, LayerSpec
from kvlaw.spec.observations import StateView

CALLS = {
    "append_known": "known",
    "append_compiled": "compiled",
    "trim": "trim",
    "clone": "clone",
    "reset": "reset",
    "state": "state",
    "fetch_dense": "dense",
    "mask": "mask",
}
"""Optional method to the capability that it brings."""


def is_contract_type(cache: Any) -> bool:
    """Say whether a cache has the two appends."""
    return callable(getattr(cache, "append_decode", None)) and callable(getattr(cache, "append_window", None))


def takes(function: Any, name: str) -> bool:
    """Say whether a function takes an argument of that name."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
    return name in parameters or any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())


class ContractAdapter(RoundCalls):
    """Asks a cache by the calls of our contract."""

    def __init__(self, arrays: Arrays, make: Callable[[LayerSpec, Config], Any], example: Any) -> None:
        """Adapt caches that ``make`` builds; ``example`` is one, to look what is there."""
        super().__init__(arrays, make)
        self.takes_window = takes(example.append_window, "window")
        self.takes_array = takes(example.append_window, "as_array")
        self.shows = shown(example, *self.readable(example), *WORDS, "columns")
        able = {brings for method, brings in CALLS.items() if callable(getattr(example, method, None))}
        able |= {"phases", "attend", "mask"} | self.shows | ({"rounds"} if takes_rounds(example) else set())
        able |= {"window_argument"} if self.takes_window else set()
        able |= {"as_array"} if self.takes_array else set()
        if "trim" in able:
            able |= {"bypass"} if takes(example.trim, "bypass") else set()
            able |= {"can_trim"} if callable(getattr(example, "can_trim", None)) else set()
        able |= {name for name in ("codes", "max_append") if has(example, name)}
        if "state" in able or has(example, "keys"):
            able.add("planes")
        self.capabilities = frozenset(able - {"write_index"})
        self.shows |= self.capabilities

    def append(self, cache: Any, keys: Any, values: Any, phase: AppendName, window: int | None, array: bool) -> Any:
        """Append by the named call."""
        act: Any = getattr(cache, f"append_{phase}")
        return act(keys, values, **self._mask_arguments(window, array))

    def _mask_arguments(self, window: int | None, array: bool) -> dict[str, Any]:
        given: dict[str, Any] = {"window": window} if self.takes_window else {}
        return {**given, "as_array": array} if self.takes_array else given

    def fetched(self, read: Any) -> tuple[Any, Any] | None:
        """Give what the read attends."""
        return read.keys, read.values

    def read_mask(self, read: Any) -> Any:
        """Give the read's mask."""
        return attribute(read, "mask", UNSHOWN)

    def attend(self, read: Any, queries: Any, scale: float) -> Any:
        """Ask the read."""
        return read.attend(queries, scale=scale)

    def attend_alone(self, read: Any, queries: Any, scale: float, mask: npt.NDArray[np.bool_]) -> Any:
        """Ask the read for one query, or the library's attention if that is the cache's own."""
        asked: Any = getattr(read, "attend_alone", None)
        if callable(asked):
            return asked(queries, self.arrays.visible(mask), scale=scale)
        if self.computes != "mlx":
            raise UnsupportedError("its reads attend no query alone")
        keys, values = read.keys, read.values
        if is_triple(keys):
            return self.arrays.attend_codes(queries, keys, values, scale, mask, self.config)
        return self.arrays.attend(queries, keys, values, scale, mask)

    def fetch_dense(self, cache: Any, keys: Any, values: Any) -> tuple[Any, Any]:
        """Append and hand out the fetch."""
        return cache.fetch_dense(keys, values)

    def mask(self, cache: Any, length: int, phase: Phase, window: int | None, array: bool) -> Any:
        """Build the next append's mask."""
        return cache.mask(length, phase=phase, **self._mask_arguments(window, array))

    def show(self, cache: Any) -> StateView:
        """Show the state, and whether a round is open where that is said."""
        return evolve(super().show(cache), round=self.round_of(cache))

    def trim(self, cache: Any, n: Any, bypass: bool) -> Any:
        """Drop the newest positions."""
        return cache.trim(n, bypass=bypass) if bypass else cache.trim(n)

    def flags(self, cache: Any, offset: int) -> tuple[bool, ...] | None:
        """Ask the cache for each count."""
        return tuple(bool(cache.can_trim(n)) for n in range(offset + 2))

    def clone(self, cache: Any) -> Any:
        """Copy the cache."""
        return cache.clone()

    def state(self, cache: Any) -> Mapping[str, Any]:
        """Hand out the state."""
        state: Any = plain(cache, "state")
        return state

    def reset(self, cache: Any) -> None:
        """Empty the cache."""
        cache.reset()

    def planes(self, cache: Any) -> tuple[Any, Any] | None:
        """Take the codes, or the planes out of the state."""
        codes: Any = plain(cache, "codes") if "codes" in self.shows else None
        if codes is not None:
            return codes
        state: Any = self.state(cache) if "state" in self.shows else None
        if not isinstance(state, Mapping):
            return super().planes(cache)
        named = cast("Mapping[str, Any]", state)
        keys, values = named.get("keys"), named.get("values")
        return None if keys is None or values is None else (keys, values)
