"""``builtin:mlx_impl.full`` and ``builtin:mlx_impl.ring``: our MLX caches, which show everything there is to see."""

from typing import Any

from kvlaw.conformance.interface import Tensors
from kvlaw.conformance.subjects.contract_type import ContractAdapter
from kvlaw.conformance.subjects.mlx_arrays import MlxArrays
from kvlaw.spec.calls import AppendName
from kvlaw.spec.config import Config, Kind, LayerSpec


def make_cache(layer: LayerSpec, _config: Config) -> Any:
    """Build a cache; a growing one with a window or sinks cannot be asked for."""
    from kvlaw.mlx_impl import FullCache, RingCache

    if layer.kind == "ring":
        window: Any = layer.window  # also None and 0: to refuse those is the cache's business
        return RingCache(window, layer.sinks)
    if layer.problem:
        raise ValueError(layer.problem)
    return FullCache()


class MlxImplAdapter(ContractAdapter):
    """Our caches, alone and as a list of layers."""

    def __init__(self, kind: Kind) -> None:
        """Adapt caches of one kind (a list of layers may have both)."""
        example = LayerSpec("full") if kind == "full" else LayerSpec("ring", 8)
        super().__init__(MlxArrays(cpu=True), make_cache, make_cache(example, self.config))
        self.kinds, self.computes = (kind,), "mlx"
        self.capabilities |= {"sinks", "lists", "list_appends"}

    def append_layers(
        self, caches: list[Any], tensors: Tensors, phase: AppendName, window: int | None, array: bool
    ) -> list[Any]:
        """Append to clones; they take the places of the layers when every one accepted."""
        from kvlaw.mlx_impl import layers

        twins: list[Any] = layers.clone(caches)
        pairs = zip(twins, tensors, strict=True)
        reads = [self.append(twin, keys, values, phase, window, array) for twin, (keys, values) in pairs]
        caches[:] = twins
        return reads

    def trim_layers(self, caches: list[Any], n: Any) -> Any:
        """Drop the newest positions of all layers."""
        from kvlaw.mlx_impl import layers

        return layers.trim(caches, n)

    def can_trim_layers(self, caches: list[Any], n: int) -> bool | None:
        """Say whether every layer can trim."""
        from kvlaw.mlx_impl import layers

        return layers.can_trim(caches, n)
