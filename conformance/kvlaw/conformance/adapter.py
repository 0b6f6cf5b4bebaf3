"""How the suite talks to one kind of cache: subclass ``Adapter`` for an interface of your own.

Only ``build``, ``append`` and ``fetched`` are needed; every other method may be left out, and what it would show is then
*not observed* (state its capability in ``capabilities`` when you write it).  An exception in any method is a refusal of that
call.  ``AdapterSubject`` keeps the world of named objects and turns the adapter into a Subject.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from attrs import define, field, frozen

from kvlaw.conformance.stamps import spoil
from kvlaw.conformance.timelimit import TimeLimitError, time_limit
from kvlaw.spec.calls import (
    Append,
    Attend,
    Call,
    Clone,
    Drop,
    FetchDense,
    LookAt,
    MakeMask,
    OpenList,
    Phase,
    Reset,
    TakeState,
    Trim,
)
from kvlaw.spec.config import Config, LayerSpec
from kvlaw.spec.observations import Bits, MaskView, Observation, Payload, ReadView, StateView


class UnsupportedError(Exception):
    """The cache has no such call."""


class Adapter:
    """One kind of cache, as the suite asks it.

    ``tensor`` and ``bits`` turn arrays of bits into the cache's own arrays and back; all other methods take and give the
    cache's own arrays.  ``config`` is set before the first ``build``.
    """

    capabilities: ClassVar[frozenset[str]] = frozenset()
    config: Config = Config("full")

    def build(self, layer: LayerSpec) -> Any:
        """Make an empty cache; raise if such a cache cannot be built."""
        raise NotImplementedError

    def tensor(self, bits: Bits, dtype: str) -> Any:
        """Turn bits ``[B, H, L, D]`` into the cache's own array type."""
        raise NotImplementedError

    def bits(self, array: Any) -> npt.NDArray[Any]:
        """Turn one of the cache's arrays into a copy of its bits (masks: a bool array)."""
        raise NotImplementedError

    def append(self, cache: Any, keys: Any, values: Any, phase: Phase, window: int | None, array: bool) -> Any:
        """Append and give the read: anything that ``fetched``, ``read_mask`` and ``attend`` understand."""
        raise NotImplementedError

    def fetched(self, read: Any) -> tuple[Any, Any] | None:
        """Give the keys and values that the read attends, ``[B, Hkv, S, D]``, or None if it cannot show them."""
        raise NotImplementedError

    def read_mask(self, read: Any) -> Any:
        """Give the read's mask: None, ``"causal"`` or a bool array."""
        raise NotImplementedError

    def attend(self, read: Any, queries: Any, scale: float) -> Any:
        """Attend queries ``[B, H, L, D]``."""
        raise UnsupportedError

    def fetch_dense(self, cache: Any, keys: Any, values: Any) -> tuple[Any, Any]:
        """Append and hand out what a graph attends by itself."""
        raise UnsupportedError

    def mask(self, cache: Any, length: int, phase: Phase, window: int | None, array: bool) -> Any:
        """Build the mask of the append that comes next."""
        raise UnsupportedError

    def trim(self, cache: Any, n: Any, bypass: bool) -> int | None:
        """Drop the newest n positions; answer how many were dropped (None: not said)."""
        raise UnsupportedError

    def trim_layers(self, caches: list[Any], n: Any) -> int | None:
        """Drop the newest n positions of every layer, or of none."""
        raise UnsupportedError

    def can_trim_layers(self, caches: list[Any], n: int) -> bool | None:
        """Say whether every layer can trim n (None: not said)."""
        return None

    def append_layers(
        self, caches: list[Any], keys: Any, values: Any, phase: Phase, window: int | None, array: bool
    ) -> list[Any]:
        """Append to every layer, or to none; the plain way is one by one."""
        return [self.append(cache, keys, values, phase, window, array) for cache in caches]

    def clone(self, cache: Any) -> Any:
        """Make an independent copy."""
        raise UnsupportedError

    def state(self, cache: Any) -> Mapping[str, Any]:
        """Hand out the state's arrays by name."""
        raise UnsupportedError

    def reset(self, cache: Any) -> None:
        """Empty the cache."""
        raise UnsupportedError

    def show(self, cache: Any) -> StateView:
        """Show the state; leave out what cannot be shown."""
        return StateView()

    def poison(self, array: Any) -> None:
        """Overwrite one of the caller's own arrays in place."""


@frozen
class HeldRead:
    """A read in the world, with the queries that it was last asked."""

    read: Any
    payload: Payload


@frozen
class HeldArrays:
    """Handed-out arrays in the world, alive as the cache's own objects."""

    arrays: Mapping[str, Any]


@define
class AdapterSubject:
    """A Subject made of an adapter: keeps the named objects, turns exceptions into refusals, bounds the time of a call."""

    adapter: Adapter
    seconds: float = 10.0
    name: str = "py"
    world: dict[str, Any] = field(factory=dict)

    @property
    def capabilities(self) -> frozenset[str]:
        """What the adapter can do and show."""
        return self.adapter.capabilities

    def open(self, config: Config) -> Observation:
        """Forget everything and make ``c0``."""
        self.world = {}
        self.adapter.config = config
        return self._guard(lambda: self._built("c0", config.layer))

    def close(self) -> None:
        """Let go of everything."""
        self.world = {}

    def apply(self, call: Call, payload: Payload | None, look: bool) -> Observation:
        """Carry out one call."""
        return self._guard(lambda: self._apply(call, payload or Payload(), look))

    def _guard(self, act: Callable[[], Observation]) -> Observation:
        try:
            with time_limit(self.seconds), _quiet():
                return act()
        except UnsupportedError as error:
            return Observation("unsupported", message=str(error) or "the target has no such call")
        except TimeLimitError as error:
            return Observation("error", message=str(error))
        except Exception as error:  # noqa: BLE001  # whatever a foreign cache raises is its answer
            return Observation("refused", message=f"{type(error).__name__}: {error}")

    def _built(self, name: str, layer: LayerSpec) -> Observation:
        self.world[name] = cache = self.adapter.build(layer)
        return Observation(state=self.adapter.show(cache))

    def _apply(self, call: Call, payload: Payload, look: bool) -> Observation:
        if isinstance(call, OpenList):
            self.world[call.as_] = layers = [self.adapter.build(layer) for layer in call.layers]
            return self._list_shown(layers, look)
        if isinstance(call, Drop):
            del self.world[call.on]
            return Observation()
        target = self.world[call.on]
        if isinstance(target, HeldRead):
            return self._again(target, call, payload, look)
        if isinstance(target, HeldArrays):
            return Observation(arrays=self._copies(target.arrays)) if look else Observation()
        if isinstance(target, list):
            return self._on_list(target, call, payload, look)  # type: ignore[reportUnknownArgumentType] # a list of caches, of any type
        return self._on_cache(target, call, payload, look)

    def _again(self, target: HeldRead, call: Call, payload: Payload, look: bool) -> Observation:
        asked = payload if payload.queries.size else target.payload
        if isinstance(call, Attend) and call.malformed is not None:
            queries = spoil(
                Payload((), asked.queries, asked.queries, asked.queries, asked.dtype), call.malformed, decode_call=True
            )
            self.adapter.attend(target.read, self.adapter.tensor(queries.keys, queries.dtype), asked.scale)
            return Observation()
        if isinstance(target.read, list):
            return (
                Observation(layers=tuple(Observation(read=self._shown(r, asked)) for r in target.read))
                if look
                else Observation()
            )  # type: ignore[reportUnknownVariableType] # reads, of any type
        return Observation(read=self._shown(target.read, asked)) if look else Observation()

    def _on_cache(self, cache: Any, call: Call, payload: Payload, look: bool) -> Observation:
        adapter = self.adapter
        if isinstance(call, Append):
            return self._append(cache, call, payload, look)
        if isinstance(call, FetchDense):
            return self._dense(cache, call, payload, look)
        if isinstance(call, MakeMask):
            return self._mask(cache, call, look)
        if isinstance(call, Trim):
            answer = adapter.trim(cache, call.n, call.bypass)
            return Observation(answer=_count(answer), state=self._state(cache, look))
        if isinstance(call, Clone):
            self.world[call.as_] = twin = adapter.clone(cache)
            return Observation(state=self._state(twin, look))
        if isinstance(call, TakeState):
            self.world[call.as_] = held = HeldArrays(dict(adapter.state(cache)))
            return Observation(arrays=self._copies(held.arrays) if look else None, state=self._state(cache, look))
        if isinstance(call, Reset):
            adapter.reset(cache)
        elif not isinstance(call, LookAt):
            raise UnsupportedError(f"a cache cannot be asked to {call.verb}")
        return Observation(state=self._state(cache, look))

    def _tensors(self, payload: Payload, call: Append | FetchDense) -> tuple[Any, Any, Payload]:
        given = payload
        if call.malformed is not None:
            given = spoil(payload, call.malformed, decode_call=call.verb == "decode")
        return self.adapter.tensor(given.keys, given.dtype), self.adapter.tensor(given.values, given.dtype), given

    def _append(self, cache: Any, call: Append, payload: Payload, look: bool) -> Observation:
        keys, values, _ = self._tensors(payload, call)
        phase: Phase = "decode" if call.verb == "decode" else "window"
        read = self.adapter.append(cache, keys, values, phase, call.window, call.array)
        if self.adapter.config.poison:
            self.adapter.poison(keys)
            self.adapter.poison(values)
        if call.as_:
            self.world[call.as_] = HeldRead(read, payload)
        shown = self._shown(read, payload) if look and not call.unread and call.malformed is None else None
        return Observation(read=shown, state=self._state(cache, look))

    def _dense(self, cache: Any, call: FetchDense, payload: Payload, look: bool) -> Observation:
        keys, values, _ = self._tensors(payload, call)
        fetched = self.adapter.fetch_dense(cache, keys, values)
        arrays = {"keys": fetched[0], "values": fetched[1]}
        if self.adapter.config.poison:
            self.adapter.poison(keys)
            self.adapter.poison(values)
        if call.as_:
            self.world[call.as_] = HeldArrays(arrays)
        copies = self._copies(arrays) if look else None
        read = ReadView(copies["keys"], copies["values"]) if copies and call.malformed is None else None
        return Observation(read=read, arrays=copies, state=self._state(cache, look))

    def _mask(self, cache: Any, call: MakeMask, look: bool) -> Observation:
        mask = self.adapter.mask(cache, call.length, call.phase, call.window, call.array)
        if call.as_:
            self.world[call.as_] = HeldArrays({} if mask is None or isinstance(mask, str) else {"mask": mask})
        view = MaskView.of(mask if mask is None or isinstance(mask, str) else self.adapter.bits(mask)) if look else None
        return Observation(mask=view, state=self._state(cache, look))

    def _shown(self, read: Any, payload: Payload) -> ReadView:
        adapter = self.adapter
        fetched = adapter.fetched(read)
        mask = adapter.read_mask(read) if "mask" in adapter.capabilities else None
        view = None
        if "mask" in adapter.capabilities:
            view = MaskView.of(mask if mask is None or isinstance(mask, str) else adapter.bits(mask))
        output = None
        if "attend" in adapter.capabilities and payload.queries.size:
            output = adapter.bits(adapter.attend(read, adapter.tensor(payload.queries, payload.dtype), payload.scale))
        if fetched is None:
            return ReadView(mask=view, output=output)
        return ReadView(adapter.bits(fetched[0]), adapter.bits(fetched[1]), view, output)

    def _state(self, cache: Any, look: bool) -> StateView | None:
        return self.adapter.show(cache) if look else None

    def _copies(self, arrays: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
        return {
            name: self.adapter.bits(array) if not isinstance(array, int) else np.array(array)
            for name, array in arrays.items()
        }

    # Lists of layers.

    def _on_list(self, caches: list[Any], call: Call, payload: Payload, look: bool) -> Observation:
        adapter = self.adapter
        if isinstance(call, Append):
            keys, values, _ = self._tensors(payload, call)
            phase: Phase = "decode" if call.verb == "decode" else "window"
            reads = adapter.append_layers(caches, keys, values, phase, call.window, call.array)
            if call.as_:
                self.world[call.as_] = HeldRead(reads, payload)
            shown = [
                self._shown(r, payload) if look and not call.unread and call.malformed is None else None for r in reads
            ]
            layers = tuple(Observation(read=r, state=self._state(c, look)) for r, c in zip(shown, caches, strict=True))
            return Observation(layers=layers, state=self._list_state(caches, look))
        answer = None
        if isinstance(call, Trim):
            answer = _count(adapter.trim_layers(caches, call.n))
        elif isinstance(call, Clone):
            self.world[call.as_] = caches = [adapter.clone(c) for c in caches]
        elif isinstance(call, Reset):
            for cache in caches:
                adapter.reset(cache)
        elif not isinstance(call, LookAt):
            raise UnsupportedError(f"a list of layers cannot be asked to {call.verb}")
        shown_list = self._list_shown(caches, look)
        return Observation(answer=answer, layers=shown_list.layers, state=shown_list.state)

    def _list_shown(self, caches: list[Any], look: bool) -> Observation:
        return Observation(
            layers=tuple(Observation(state=self._state(c, look)) for c in caches), state=self._list_state(caches, look)
        )

    def _list_state(self, caches: list[Any], look: bool) -> StateView | None:
        if not look or not caches:
            return None
        offset = self.adapter.show(caches[0]).offset
        flags = [self.adapter.can_trim_layers(caches, n) for n in range((offset or 0) + 2)]
        said = None if any(flag is None for flag in flags) else tuple(bool(flag) for flag in flags)
        return StateView(offset=offset, can_trim=said)


def _count(answer: Any) -> int | None:
    return None if answer is None else int(answer)


@contextmanager
def _quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield
