"""``builtin:oracle``: the NumPy reference caches as a subject, and the adapter on which planted faults are built."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import evolve, frozen

from kvlaw.conformance.adapter import Adapter
from kvlaw.conformance.interface import Tensors
from kvlaw.reference.layout import Cache, Read, Refusal
from kvlaw.spec.calls import AppendName, Phase
from kvlaw.spec.config import POLICIES, LayerSpec
from kvlaw.spec.contract import CAPABILITIES
from kvlaw.spec.observations import Bits, StateView, Unbounded


@frozen(eq=False)
class Tensor:
    """Bits with their dtype, the oracle's own array type."""

    bits: Bits
    dtype: str


class ReferenceAdapter(Adapter):
    """The reference caches, asked as the suite asks every cache."""

    capabilities = frozenset(CAPABILITIES)
    policies = POLICIES
    computes = "model"
    cache_type: type[Cache] = Cache

    def build(self, layer: LayerSpec) -> Any:
        """Make a reference cache."""
        return self.cache_type(layer)

    def tensor(self, bits: Bits, dtype: str) -> Any:
        """Wrap a copy of the bits."""
        return Tensor(bits.copy(), dtype)

    def bits(self, array: Any) -> npt.NDArray[Any]:
        """Give a copy of the bits."""
        return np.array(array.bits if isinstance(array, Tensor) else array)

    def append(self, cache: Any, keys: Any, values: Any, phase: AppendName, window: int | None, array: bool) -> Any:
        """Append by the named call."""
        acts = {"decode": cache.append_decode, "window": cache.append_window, "known": cache.append_known}
        return acts[phase](keys.bits, values.bits, keys.dtype, window, array)

    def append_layers(
        self, caches: list[Any], tensors: Tensors, phase: AppendName, window: int | None, array: bool
    ) -> list[Any]:
        """Append to clones first; take them over when every layer accepted."""
        twins = [cache.clone() for cache in caches]
        pairs = zip(twins, tensors, strict=True)
        reads = [self.append(twin, keys, values, phase, window, array) for twin, (keys, values) in pairs]
        for cache, twin in zip(caches, twins, strict=True):
            cache.state, cache.planes, cache.dtype = twin.state, twin.planes, twin.dtype
            cache.codec, cache.floor = twin.codec, twin.floor
        return reads

    def fetched(self, read: Read) -> tuple[Any, Any] | None:
        """Give what the read attends."""
        if read.codec is None:
            return read.keys, read.values
        sides = (read.codec.split("keys", read.keys), read.codec.split("values", read.values))
        return tuple((c.words, c.scales, c.biases) for c in sides)

    def read_mask(self, read: Read) -> Any:
        """Give the read's mask."""
        return read.mask

    def attend(self, read: Read, queries: Any, scale: float) -> Any:
        """Attend in MLX's CPU arithmetic."""
        return read.attend(queries.bits, scale)

    def attend_alone(self, read: Read, queries: Any, scale: float, mask: npt.NDArray[np.bool_]) -> Any:
        """Attend one query over the read's fetch, by the model and not by the read."""
        return Read(read.keys, read.values, mask, 1, read.dtype, read.codec).attend(queries.bits, scale)

    def fetch_dense(self, cache: Any, keys: Any, values: Any) -> tuple[Any, Any]:
        """Append and hand out the fetch."""
        planes = cache.fetch_dense(keys.bits, values.bits, keys.dtype)
        return planes.keys, planes.values

    def mask(self, cache: Any, length: int, phase: Phase, window: int | None, array: bool) -> Any:
        """Build the next append's mask."""
        return cache.mask(length, phase, window, array)

    def trim(self, cache: Any, n: Any, bypass: bool) -> int | None:
        """Drop the newest positions."""
        return cache.trim(n, bypass)

    def trim_layers(self, caches: list[Any], n: Any) -> int | None:
        """Ask every layer first, then trim all."""
        if not all(cache.can_trim(n) for cache in caches):
            raise Refusal(f"not every layer can drop {n} positions (TRIM-13)")
        return min(cache.trim(n) for cache in caches)

    def can_trim_layers(self, caches: list[Any], n: int) -> bool | None:
        """Say whether every layer can trim."""
        return all(cache.can_trim(n) for cache in caches)

    def max_append_layers(self, caches: list[Any]) -> int | Unbounded | None:
        """Give the least of the layers."""
        bounds = [cache.max_append for cache in caches if cache.max_append != "unbounded"]
        return min(bounds, default="unbounded")

    def clone(self, cache: Any) -> Any:
        """Copy the cache."""
        return cache.clone()

    def state(self, cache: Any) -> Mapping[str, Any]:
        """Hand out copies of the state."""
        return cache.take_state()

    def reset(self, cache: Any) -> None:
        """Empty the cache."""
        cache.reset()

    def show(self, cache: Any) -> StateView:
        """Show everything."""
        flags = tuple(cache.can_trim(n) for n in range(cache.offset + 2))
        view = StateView(
            cache.offset,
            cache.size,
            cache.nbytes,
            cache.columns,
            cache.bytes_per_token,
            cache.layer.identity,
            cache.storage,
            flags,
            cache.write_index,
            form=cache.storage if cache.planes is not None else "dense",
            floor=cache.floor,
            max_append=cache.max_append,
        )
        planes = cache.planes
        return view if planes is None else evolve(view, keys=planes.keys.copy(), values=planes.values.copy())

    def poison(self, array: Any) -> None:
        """Overwrite the caller's array."""
        array.bits[...] = 0x7F
