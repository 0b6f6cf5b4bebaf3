"""``builtin:mlx_lm.ArraysCache``: the cache of mlx-lm's recurrent layers, and every cache with its duck type.

Such a cache holds two arrays and computes nothing.  A step is what the linear attention of mlx-lm's Qwen3-Next makes of
it (``models/qwen3_next.py``): the mask of padding, zeros in place of padded inputs, the tail behind the last position
that counts, and mlx-lm's own recurrence.  It says neither at which position it stands nor which rounds are open; a
group is made by ``merge``, as mlx-lm's batch generator makes it, and what is padded on the left is said beforehand.

Before 0.30.4 such a cache had neither ``merge`` nor ``prepare``: a group is then a cache that was made for it.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

from attrs import define

from kvlaw.conformance.interface import RecurrentStep, UnsupportedError
from kvlaw.conformance.subjects.array_adapter import ArrayAdapter
from kvlaw.conformance.subjects.mlx_arrays import MlxArrays
from kvlaw.conformance.subjects.mlx_lm_library import INSTALLED, Library, restored
from kvlaw.spec.config import Config, LayerSpec
from kvlaw.spec.observations import StateView

Make = Callable[[], Any]
LIKE = {"merge": "extend", "extract": "extract", "filter": "filter", "padding": "prepare", "nbytes": "nbytes"}
"""What is asked of a group, and the attribute of the cache without which it cannot be."""


def arrays_cache(name: str = "ArraysCache", library: Library = INSTALLED) -> Any:
    """Make mlx-lm's cache of two arrays, by the name of its class."""
    make: Any = getattr(library.cache, name)
    return make() if name == "MambaCache" else make(size=2)


@define(eq=False)
class Rows:
    """A group: a cache that was merged, and of how many rows it was made."""

    cache: Any
    count: int


class ArraysAdapter(ArrayAdapter):
    """Caches of two arrays, asked as mlx-lm's models and its batch generator do."""

    kinds = ("recurrent", "recurrent_rows")

    def __init__(self, make: Make = arrays_cache, clone: str | None = None, library: Library = INSTALLED) -> None:
        """Adapt what ``make`` builds; ``clone`` says how it is copied (``deepcopy``, or ``from_state``)."""
        super().__init__(MlxArrays(cpu=True), self._made)
        self._new, self._clone, self._run = make, clone or "deepcopy", library.recurrence
        example = make()
        groups = {"rows"} if hasattr(example, "extend") else set[str]()
        able = {name for name, needed in LIKE.items() if hasattr(example, needed)}
        self.capabilities = self.shows = frozenset({"recurrent", "clone"} | groups | able)
        self.kinds = ("recurrent", "recurrent_rows") if groups else ("recurrent",)

    def _made(self, layer: LayerSpec, _config: Config) -> Any:
        if not layer.is_recurrent:
            raise UnsupportedError(f"the target has no {layer.kind} caches")
        if layer.problem:
            raise ValueError(layer.problem)
        return self._new()

    def advance(self, cache: Any, step: RecurrentStep) -> Any:
        """Run positions as mlx-lm's linear attention does."""
        import mlx.core as mx

        run: Any = self._run
        cache = _inside(cache)
        kept, length = self.config.kernel - 1, step.inputs.shape[1]
        mask = cache.make_mask(length) if hasattr(cache, "make_mask") else None
        inputs, tail = step.inputs, cache[0]
        if tail is None:
            tail = mx.zeros((inputs.shape[0], kept, inputs.shape[2]), inputs.dtype)
        if mask is not None:
            inputs = mx.where(mask[..., None], inputs, 0)
        read = mx.concatenate([tail, inputs], axis=1)
        if getattr(cache, "lengths", None) is not None:
            ends = mx.clip(cache.lengths, 0, length)
            positions = (ends[:, None] + mx.arange(kept))[..., None]
            cache[0] = mx.take_along_axis(read, positions, axis=1)
        else:
            cache[0] = mx.contiguous(read[:, read.shape[1] - kept :])
        padding = () if mask is None else (mask,)
        outputs, cache[1] = run(step.queries, step.keys, step.values, step.decay, step.beta, cache[1], *padding)
        if hasattr(cache, "advance"):
            cache.advance(length)
        return outputs

    def clone(self, cache: Any) -> Any:
        """Copy it, or make another of its state."""
        if self._clone == "deepcopy":
            return deepcopy(cache)
        twin = restored(_inside(cache))
        return Rows(twin, cache.count) if isinstance(cache, Rows) else twin

    # What is shown.

    def show(self, cache: Any) -> StateView:
        """Show its bytes and its arrays; of several rows each shows its own."""
        inside = _inside(cache)
        counted = {"nbytes": inside.nbytes} if "nbytes" in self.shows else {}
        if isinstance(cache, Rows):
            return StateView(rows=self._count(cache), **counted)
        return StateView(**counted, **self._arrays(cache, slice(None)))

    def show_rows(self, group: Rows) -> Sequence[StateView]:
        """Show each row's part of the arrays."""
        inside, count = group.cache, self._count(group)
        return [StateView(**self._arrays(inside, slice(b, b + 1))) for b in range(count)]

    def _arrays(self, cache: Any, rows: slice) -> dict[str, Any]:
        if cache[0] is None or cache[1] is None:
            return {}
        parts = {"tail": cache[0][rows], "matrix": cache[1][rows]}
        self.arrays.settle(list(parts.values()))
        return {name: self.arrays.bits(part) for name, part in parts.items()}

    def _count(self, group: Rows) -> int:
        """Count the rows: as the cache says, else by its arrays, else as many as it was made of."""
        inside = group.cache
        if hasattr(inside, "batch_size"):
            return int(inside.batch_size)
        if hasattr(inside, "make_mask") and not isinstance(getattr(inside, "cache", None), list):
            return int(inside.cache.rows)
        return group.count if inside[0] is None else int(inside[0].shape[0])

    # Rows.

    def build_rows(self, layer: LayerSpec, rows: int) -> Any:
        """Merge as many empty caches; before 0.31.2, whose ``merge`` takes none, a cache for them all is made."""
        if rows < 1:
            raise UnsupportedError("a group is made of caches: there is none of no rows")
        if self._merges_empty():
            return self.merge([self._made(layer, self.config) for _ in range(rows)])
        return Rows(self._made(layer, self.config), rows)

    def _merges_empty(self) -> bool:
        """Say whether a group can be made by merging caches that are empty."""
        try:
            self.merge([self._new(), self._new()])
        except Exception:  # whatever a release makes of it
            return False
        return True

    def merge(self, sources: Sequence[Any]) -> Any:
        """Merge caches; a group is extended by what follows it."""
        whole, *groups = map(_as_group, sources)
        for group in groups:
            whole.extend(group)
        return Rows(whole, sum(source.count if isinstance(source, Rows) else 1 for source in sources))

    def extract(self, group: Rows, row: int) -> Any:
        """Take a row out."""
        return group.cache.extract(row)

    def filter(self, group: Rows, rows: Sequence[int]) -> None:
        """Keep rows, by the array of numbers that mlx-lm's generator gives."""
        import mlx.core as mx

        group.cache.filter(mx.array(list(rows), mx.int32))
        group.count = len(rows)

    def prepare(
        self, group: Any, left: Sequence[int] | None, lengths: Sequence[int] | None, right: Sequence[int] | None
    ) -> None:
        """Announce padding."""
        given = {"left_padding": left, "lengths": lengths, "right_padding": right}
        group.cache.prepare(**{name: list(counts) for name, counts in given.items() if counts is not None})

    def finalize(self, group: Any) -> None:
        """End the padding."""
        group.cache.finalize()


def _inside(cache: Any) -> Any:
    return cache.cache if isinstance(cache, Rows) else cache


def _as_group(source: Any) -> Any:
    """Give a source of a merge as a group of its own."""
    if isinstance(source, Rows):
        return deepcopy(source.cache)
    if not hasattr(source, "merge"):
        raise UnsupportedError("this release makes no group of caches that hold something")
    return source.merge([source])  # of the class


__all__ = ["ArraysAdapter", "arrays_cache"]
