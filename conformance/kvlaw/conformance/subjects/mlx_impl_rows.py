"""``builtin:mlx_impl.full_rows``, ``.affine_ring_rows``, ``.bf16_first_full_rows``: our MLX groups of rows.

The serial caches beside them are ours as well. They come in every kernel set, as the serial targets do.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from attrs import evolve

from kvlaw.conformance.subjects.contract_rows import ContractRowsAdapter
from kvlaw.conformance.subjects.mlx_arrays import MlxArrays
from kvlaw.conformance.subjects.mlx_impl import EXAMPLES, POLICY, CompiledAppends, make_cache, policy_of
from kvlaw.conformance.subjects.mlx_impl_files import OurFiles
from kvlaw.conformance.subjects.mlx_impl_store import OurStore
from kvlaw.reference.numerics.quantized_attention import TILED_BITS, TILED_DTYPES, KernelSet
from kvlaw.spec.config import Config, Kind, LayerSpec, Policy


def make_group(layer: LayerSpec, rows: int, config: Config, kernel_set: KernelSet = "unfused") -> Any:
    """Build a group of empty rows of any configuration: to refuse an impossible one is its business."""
    from kvlaw.mlx_impl import make_rows

    build: Any = make_rows
    return build(layer.kind, layer.window, rows, sinks=layer.sinks, **policy_of(layer, config, kernel_set))


class MlxImplRowsAdapter(CompiledAppends, OurFiles, OurStore, ContractRowsAdapter):
    """Our groups of rows, and our caches beside them."""

    def __init__(self, kind: Kind, policy: Policy = "dense", kernel_set: KernelSet = "unfused") -> None:
        """Adapt groups of one kind, one kind of storage policy and one kernel set."""
        layer = evolve(LayerSpec("full_rows") if kind == "full_rows" else LayerSpec("ring_rows", 8), **EXAMPLES[policy])
        make, make_rows = (partial(build, kernel_set=kernel_set) for build in (make_cache, make_group))
        super().__init__(MlxArrays(cpu=True), make, make_rows, make_group(layer, 2, self.config))
        self.kernel_set = kernel_set
        if kernel_set != "unfused":
            self.code_bits, self.dtypes = TILED_BITS, TILED_DTYPES
        self.kinds, self.computes = (kind,), "mlx"
        self.policies = (policy,)
        self.capabilities = (self.capabilities - POLICY) | {"sinks", "merge", "compiled"}
        self.capabilities |= {"files", "fingerprint", "reuse"}  # of the serial caches
        if policy != "dense":
            self.capabilities |= POLICY - {"affine", "bf16_first"} | {policy}

    def merge(self, sources: Sequence[Any]) -> Any:
        """Make a group of groups and caches."""
        from kvlaw.mlx_impl import merge

        return merge(list(sources))


__all__ = ["MlxImplRowsAdapter", "make_group"]
