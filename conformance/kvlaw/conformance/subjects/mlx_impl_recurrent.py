"""``builtin:mlx_impl.recurrent`` and ``.recurrent_rows``: our recurrent caches and groups, which show everything."""

from collections.abc import Sequence
from typing import Any

from attrs import evolve

from kvlaw.conformance.interface import RecurrentStep, UnsupportedError
from kvlaw.conformance.subjects.mlx_arrays import MlxArrays
from kvlaw.conformance.subjects.mlx_impl_files import OurFiles
from kvlaw.conformance.subjects.round_calls import RoundCalls
from kvlaw.conformance.subjects.row_calls import RowCalls
from kvlaw.spec.config import Config, Kind, LayerSpec
from kvlaw.spec.observations import StateView

SHOWN = frozenset(
    {"recurrent", "identity", "nbytes", "bytes_per_token", "trim", "can_trim", "clone", "reset", "rounds"}
)
"""What our recurrent caches can do and show."""
FILES = frozenset({"files", "fingerprint"})
OF_ROWS = frozenset({"rows", "merge", "extract", "filter", "padding", "left_padding", "empty_group"})


def refuse_what_has_no_name(layer: LayerSpec) -> None:
    """Refuse a window, sinks or bits: there are no such parameters. To refuse a kernel is the cache's business."""
    if layer.problem and layer.kernel >= 1:
        raise ValueError(layer.problem)


def make_recurrent(layer: LayerSpec, _config: Config) -> Any:
    """Build a cache of any configuration: to refuse an impossible one is its business."""
    from kvlaw.mlx_impl import RecurrentCache

    if not layer.is_recurrent:
        raise UnsupportedError(f"the target has no {layer.kind} caches")
    refuse_what_has_no_name(layer)
    return RecurrentCache(layer.kernel)


class MlxImplRecurrentAdapter(OurFiles, RowCalls, RoundCalls):
    """Our recurrent caches; with ``recurrent_rows`` groups, and the caches beside them."""

    def __init__(self, kind: Kind) -> None:
        """Adapt caches or groups."""
        super().__init__(MlxArrays(cpu=True), make_recurrent)
        self.kinds = (kind,)
        self.capabilities = SHOWN | (OF_ROWS if kind == "recurrent_rows" else FILES)
        self.shows = self.capabilities

    def advance(self, cache: Any, step: RecurrentStep) -> Any:
        """Run positions."""
        return cache.advance(step.inputs, step.queries, step.keys, step.values, step.decay, step.beta)

    def trim(self, cache: Any, n: Any, bypass: bool) -> Any:
        """Ask for what it refuses."""
        return cache.trim(n, bypass=bypass)

    def clone(self, cache: Any) -> Any:
        """Copy it."""
        return cache.clone()

    def reset(self, cache: Any) -> None:
        """Empty it."""
        cache.reset()

    # What is shown.

    def show(self, cache: Any) -> StateView:
        """Show what is not of one row; of a serial cache its row as well."""
        view = StateView(
            nbytes=cache.nbytes,
            bytes_per_token=cache.bytes_per_token,
            identity=cache.identity,
            can_trim=tuple(cache.can_trim(n) for n in range(cache.offset + 2)),
            round=self.round_of(cache),
        )
        if hasattr(cache, "offsets"):
            return evolve(view, rows=cache.rows)
        return evolve(view, offset=cache.offset, **self._arrays(cache, slice(None)))

    def show_rows(self, group: Any) -> Sequence[StateView]:
        """Show each row."""
        return [
            StateView(offset=offset, **self._arrays(group, slice(b, b + 1))) for b, offset in enumerate(group.offsets)
        ]

    def _arrays(self, cache: Any, rows: slice) -> dict[str, Any]:
        state: dict[str, Any] = cache.state()
        if "conv" not in state:
            return {}
        parts = {"tail": state["conv"][rows], "matrix": state["matrix"][rows]}
        self.arrays.settle(list(parts.values()))
        return {name: self.arrays.bits(part) for name, part in parts.items()}

    # Rows.

    def build_rows(self, layer: LayerSpec, rows: int) -> Any:
        """Make a group of empty rows."""
        from kvlaw.mlx_impl import RecurrentRows

        refuse_what_has_no_name(layer)
        return RecurrentRows(layer.kernel, rows)

    def merge(self, sources: Sequence[Any]) -> Any:
        """Make a group of groups and caches."""
        from kvlaw.mlx_impl import merge_recurrent

        return merge_recurrent(list(sources))


__all__ = ["MlxImplRecurrentAdapter", "make_recurrent", "refuse_what_has_no_name"]
