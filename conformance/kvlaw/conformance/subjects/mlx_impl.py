"""``builtin:mlx_impl.full``, ``.affine_ring``, ``.bf16_first_full``: our MLX caches, which show everything.

Those with a storage policy come in every kernel set (``--set kernels=tiled``).
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

from attrs import evolve

from kvlaw.conformance.interface import Tensors, UnsupportedError
from kvlaw.conformance.subjects.contract_type import ContractAdapter
from kvlaw.conformance.subjects.mlx_arrays import MlxArrays
from kvlaw.conformance.subjects.mlx_impl_files import OurFiles
from kvlaw.conformance.subjects.mlx_impl_store import OurStore
from kvlaw.reference.numerics.quantized_attention import TILED_BITS, TILED_DTYPES, KernelSet
from kvlaw.spec.calls import AppendName
from kvlaw.spec.config import Config, Kind, LayerSpec, Policy
from kvlaw.spec.observations import Unbounded

POLICY = frozenset({"policy", "affine", "bf16_first", "value_bits", "codes", "floor", "max_append"})
"""What only caches with a storage policy can do and show."""
EXAMPLES: dict[Policy, dict[str, Any]] = {
    "dense": {},
    "affine": {"bits": 8},
    "bf16_first": {"bits": 8, "start": 4},
}


def make_cache(layer: LayerSpec, config: Config, kernel_set: KernelSet = "unfused") -> Any:
    """Build a cache of any configuration: to refuse an impossible one is its business."""
    from kvlaw.mlx_impl import make

    build: Any = make
    return build(layer.kind, layer.window, layer.sinks, **policy_of(layer, config, kernel_set))


def policy_of(layer: LayerSpec, config: Config, kernel_set: KernelSet) -> dict[str, Any]:
    """Give the arguments that say how a cache stores and reads."""
    import mlx.core as mx

    policy = {"bits": layer.bits, "value_bits": layer.value_bits, "group": layer.group, "start": layer.start}
    dtype = {"bf16": mx.bfloat16, "f16": mx.float16, "f32": mx.float32}[config.dtype]
    return policy if kernel_set == "unfused" else {**policy, "kernels": kernel_set, "dtype": dtype}


class CompiledAppends(ContractAdapter):
    """The part of an adapter of our caches that decodes by a compiled step."""

    def append(self, cache: Any, keys: Any, values: Any, phase: AppendName, window: int | None, array: bool) -> Any:
        """Append by the named call, a compiled decode by our function for that."""
        if phase != "compiled":
            return super().append(cache, keys, values, phase, window, array)
        from kvlaw.mlx_impl.compiled_append import append_compiled

        demand_compiler()
        return append_compiled(cache, keys, values, window=window, as_array=array)


def demand_compiler() -> None:
    """Raise ``UnsupportedError`` where MLX would trace anew at every step, so that nothing compiled is seen."""
    from kvlaw.mlx_impl.compiled import compiles

    if not compiles():
        raise UnsupportedError("MLX compiles nothing here: is g++ on the path, and MLX_DISABLE_COMPILE not set?")


class MlxImplAdapter(CompiledAppends, OurFiles, OurStore, ContractAdapter):
    """Our caches, alone and as a list of layers."""

    def __init__(self, kind: Kind, policy: Policy = "dense", kernel_set: KernelSet = "unfused") -> None:
        """Adapt caches of one kind, one kind of storage policy and one kernel set (a list may have other policies).

        With a tiled kernel set they are checked with the bits and dtypes that it reads.
        """
        example = evolve(LayerSpec("full") if kind == "full" else LayerSpec("ring", 8), **EXAMPLES[policy])
        make = partial(make_cache, kernel_set=kernel_set)
        super().__init__(MlxArrays(cpu=True), make, make(example, self.config))
        self.kernel_set = kernel_set
        if kernel_set != "unfused":
            self.code_bits, self.dtypes = TILED_BITS, TILED_DTYPES
        self.kinds, self.computes = (kind,), "mlx"
        self.policies = (policy,)
        self.capabilities = (self.capabilities - POLICY) | {
            "sinks",
            "lists",
            "list_appends",
            "files",
            "fingerprint",
            "reuse",
            "compiled",
        }
        if policy != "dense":
            self.capabilities |= POLICY - {"affine", "bf16_first"} | {policy}

    def append_layers(
        self, caches: list[Any], tensors: Tensors, phase: AppendName, window: int | None, array: bool
    ) -> list[Any]:
        """Append to all layers or to none."""
        from kvlaw.mlx_impl import layers

        act: Any = getattr(layers, f"append_{phase}")
        if phase == "compiled":
            demand_compiler()
        return list(act(caches, tensors, window=window, as_array=array))

    def max_append_layers(self, caches: list[Any]) -> int | Unbounded | None:
        """Ask the list."""
        from kvlaw.mlx_impl import layers

        left = layers.max_append_tokens(caches)
        return "unbounded" if left is None else left

    def trim_layers(self, caches: list[Any], n: Any) -> Any:
        """Drop the newest positions of all layers."""
        from kvlaw.mlx_impl import layers

        return layers.trim(caches, n)

    def begin_round_layers(self, caches: list[Any]) -> None:
        """Open a round of all layers."""
        from kvlaw.mlx_impl import layers

        layers.begin_round(caches)

    def commit_round_layers(self, caches: list[Any]) -> None:
        """Keep the round of all layers."""
        from kvlaw.mlx_impl import layers

        layers.commit_round(caches)

    def roll_back_layers(self, caches: list[Any], keep: Sequence[int]) -> None:
        """Take back all but the first positions of all layers."""
        from kvlaw.mlx_impl import layers

        layers.roll_back(caches, keep[0] if len(keep) == 1 else cast("Any", keep))

    def can_trim_layers(self, caches: list[Any], n: int) -> bool | None:
        """Say whether every layer can trim."""
        from kvlaw.mlx_impl import layers

        return layers.can_trim(caches, n)
