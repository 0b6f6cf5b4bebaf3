"""``builtin:mlx_lm.QuantizedKVCache``, and mlx-lm's conversion path: ``KVCache+convert``, ``RotatingKVCache+convert``.

``QuantizedKVCache`` is filled directly: codes from the first append on. The path of ``generate_step`` fills another
cache and calls ``maybe_quantize_kv_cache`` after every append: half precision first, then codes. Codes are attended as
mlx-lm's models do, with ``quantized_scaled_dot_product_attention``. Keys and values have one width of codes, and what
is fetched of codes is no dense fetch.
"""

from pathlib import Path
from typing import Any

from attrs import evolve

from kvlaw.conformance.subjects.duck import DuckRead
from kvlaw.conformance.subjects.mlx_lm import MlxLmAdapter
from kvlaw.conformance.subjects.mlx_lm_library import INSTALLED, Library
from kvlaw.spec.config import Config, LayerSpec
from kvlaw.spec.observations import StateView


def attend_codes(library: Library, read: DuckRead, queries: Any, scale: float, config: Config) -> Any:
    """Attend fetched codes as mlx-lm's models do."""
    attention: Any = library.base.quantized_scaled_dot_product_attention
    keys, values = read.answer
    return attention(queries, keys, values, scale=scale, mask=read.mask, group_size=config.group, bits=config.bits)


class QuantizedAdapter(MlxLmAdapter):
    """mlx-lm's cache of codes, filled directly."""

    policies = ("affine",)

    def __init__(self, clone: str | None = None, library: Library = INSTALLED) -> None:
        """Adapt ``QuantizedKVCache``."""
        super().__init__("QuantizedKVCache", clone, library=library)
        self._classes["full"] = self._library.KVCache  # a layer that is left alone
        self.shows = (self.shows - {"dense"}) | {"policy", "affine", "codes", "planes", "columns", "storage"}
        self.shows |= {"nbytes"} if hasattr(self._library.QuantizedKVCache, "nbytes") else set()
        self.capabilities = self.shows - {"sinks"}

    def readable(self, cache: Any) -> tuple[str, ...]:
        """List the numbers that can be read; ``nbytes`` raises while there are no codes yet (mlx-lm 0.32)."""
        empty = cache.keys is None
        return tuple(name for name in super().readable(cache) if not (empty and name == "nbytes"))

    def _made(self, layer: LayerSpec, config: Config) -> Any:
        if layer.bits is None:
            return super()._made(layer, config)
        return self._library.QuantizedKVCache(group_size=layer.group, bits=layer.bits)

    def show(self, cache: Any) -> StateView:
        """Show the state, and by the class what it holds."""
        return evolve(super().show(cache), storage="affine" if hasattr(cache, "bits") else "dense")

    def attend_codes(self, read: DuckRead, queries: Any, scale: float) -> Any:
        """Attend as mlx-lm's models do."""
        return attend_codes(self.library, read, queries, scale, self.config)


class Converting:
    """A cache that mlx-lm's ``maybe_quantize_kv_cache`` is called on after every append."""

    def __init__(self, cache: Any, layer: LayerSpec, library: Library = INSTALLED) -> None:
        """Wrap an empty cache; with ``start=never`` mlx-lm is given no bits."""
        self.caches, self.layer, self.library = [cache], layer, library

    def __getattr__(self, name: str) -> Any:
        """Ask the cache that is there now."""
        if name == "caches":  # while a copy is being made
            raise AttributeError(name)
        return getattr(self.caches[0], name)

    @property
    def storage(self) -> str:
        """What kind of cache is there now."""
        return "affine" if hasattr(self.caches[0], "bits") else "dense"

    def update_and_fetch(self, keys: Any, values: Any) -> Any:
        """Append, then convert as ``generate_step`` does."""
        answer = self.caches[0].update_and_fetch(keys, values)
        bits = self.layer.bits if isinstance(self.layer.start, int) else None
        self.library.convert(self.caches, self.layer.start, self.layer.group, bits)
        return answer


class ConvertingAdapter(MlxLmAdapter):
    """A cache of mlx-lm's under its conversion path."""

    policies = ("bf16_first",)

    def __init__(self, name: str, clone: str | None = None, library: Library = INSTALLED) -> None:
        """Adapt the class of that name."""
        super().__init__(name, clone, library=library)
        self.shows = (self.shows - {"dense"}) | {"policy", "bf16_first", "codes", "planes", "columns", "storage"}
        self.capabilities = self.shows if self.kinds == ("ring",) else self.shows - {"sinks"}

    def _made(self, layer: LayerSpec, config: Config) -> Any:
        made = super()._made(layer, config)
        return made if layer.bits is None else Converting(made, layer, self.library)

    def write(self, path: Path, caches: list[Any]) -> None:
        """Save what is there now; the runtime knows by itself which layers it converts."""
        self.__dict__.setdefault("_saved", {})[path] = [getattr(cache, "layer", None) for cache in caches]
        super().write(path, [cache.caches[0] if isinstance(cache, Converting) else cache for cache in caches])

    def read(self, path: Path, other: bool) -> list[Any]:
        """Load, and go on converting."""
        layers: list[LayerSpec | None] = self.__dict__["_saved"][path]
        found = super().read(path, other)
        pairs = zip(found, layers, strict=False)
        return [cache if layer is None else Converting(cache, layer, self.library) for cache, layer in pairs]

    def attend_codes(self, read: DuckRead, queries: Any, scale: float) -> Any:
        """Attend as mlx-lm's models do."""
        return attend_codes(self.library, read, queries, scale, self.config)
