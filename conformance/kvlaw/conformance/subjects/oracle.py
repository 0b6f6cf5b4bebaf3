"""``builtin:oracle``: the NumPy reference caches as a subject, and the adapter on which planted faults are built."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from attrs import evolve, frozen

from kvlaw.conformance.adapter import Adapter
from kvlaw.conformance.interface import RecurrentStep, Tensors, UnsupportedError
from kvlaw.conformance.subjects.oracle_files import FileFormat, StoredFile, layer_of, spoil
from kvlaw.conformance.subjects.oracle_recurrent import RecurrentLayer
from kvlaw.conformance.subjects.oracle_store import Store
from kvlaw.reference import index_group
from kvlaw.reference.layout import Cache, Planes, Read, Refusal
from kvlaw.reference.layout_group import GroupRead, RowGroup, merge
from kvlaw.spec.calls import AppendName, Damage, Phase
from kvlaw.spec.config import KINDS, POLICIES, LayerSpec
from kvlaw.spec.contract import CAPABILITIES
from kvlaw.spec.observations import Bits, StateView, Unbounded


def _all_or_none(caches: list[Any], act: Callable[[Any], Any]) -> list[Any]:
    """Act on clones first; take them over when every layer accepted."""
    twins = [cache.clone() for cache in caches]
    answers = [act(twin) for twin in twins]
    for cache, twin in zip(caches, twins, strict=True):
        cache.state, cache.planes, cache.dtype = twin.state, twin.planes, twin.dtype
        cache.codec, cache.floor, cache.round = twin.codec, twin.floor, twin.round
    return answers


def rows_of(cache: Any) -> Any:
    """Give what carries out the calls that all kinds have: a recurrent layer's rows, else the cache itself."""
    return cache.rows if isinstance(cache, RecurrentLayer) else cache


def _shown_group(group: RowGroup) -> StateView:
    most = max((*group.offsets, 0))
    return StateView(
        columns=group.columns,
        write_index=group.write_index,
        nbytes=group.nbytes,
        bytes_per_token=group.bytes_per_token,
        identity=group.identity,
        storage=group.storage,
        can_trim=tuple(group.can_trim(n) for n in range(most + 2)),
        max_append=group.max_append,
        rows=group.count,
        round="none" if group.state.starts is None else "open",
    )


def _shown_row(group: RowGroup, b: int) -> StateView:
    planes = group.planes(b) if group.columns else None
    return StateView(
        offset=group.offsets[b],
        size=index_group.held(group.state, b),
        storage=group.row_storage(b),
        floor=group.floor(b),
        max_append=group.max_append_of(b),
        keys=None if planes is None else planes.keys.copy(),
        values=None if planes is None else planes.values.copy(),
        form=group.row_storage(b),
        columns=group.columns,
    )


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
    kinds = KINDS
    cache_type: type[Cache] = Cache
    group_type: type[RowGroup] = RowGroup
    recurrent_type: type[RecurrentLayer] = RecurrentLayer
    file_format: type[FileFormat] = FileFormat
    store_type: type[Store] = Store
    store: Store

    def build(self, layer: LayerSpec) -> Any:
        """Make a reference cache."""
        return self.recurrent_type(layer) if layer.is_recurrent else self.cache_type(layer)

    def tensor(self, bits: Bits, dtype: str) -> Any:
        """Wrap a copy of the bits."""
        return Tensor(bits.copy(), dtype)

    def bits(self, array: Any) -> npt.NDArray[Any]:
        """Give a copy of the bits."""
        return np.array(array.bits if isinstance(array, Tensor) else array)

    def append(self, cache: Any, keys: Any, values: Any, phase: AppendName, window: int | None, array: bool) -> Any:
        """Append by the named call."""
        act: Any = getattr(cache, f"append_{phase}")
        return act(keys.bits, values.bits, keys.dtype, window, array)

    def append_layers(
        self, caches: list[Any], tensors: Tensors, phase: AppendName, window: int | None, array: bool
    ) -> list[Any]:
        """Append to clones first; take them over when every layer accepted."""
        given = iter(tensors)

        def append(twin: Cache) -> Any:
            keys, values = next(given)
            return self.append(twin, keys, values, phase, window, array)

        return _all_or_none(caches, append)

    def advance(self, cache: RecurrentLayer, step: RecurrentStep) -> Any:
        """Run positions."""
        return cache.advance(step)

    def fetched(self, read: Any) -> tuple[Any, Any] | None:
        """Give what the read attends; of a group's read, row by row (``fetched_rows``)."""
        if isinstance(read, GroupRead):
            return None
        if read.codec is None:
            return read.keys, read.values
        sides = (read.codec.split("keys", read.keys), read.codec.split("values", read.values))
        return tuple((c.words, c.scales, c.biases) for c in sides)

    def fetched_rows(self, read: Any) -> list[Any]:
        """Give what each row of a group's read attends."""
        return [self.fetched(row) for row in read.rows]

    def read_mask(self, read: Read) -> Any:
        """Give the read's mask."""
        return read.mask

    def attend(self, read: Read, queries: Any, scale: float) -> Any:
        """Attend in MLX's CPU arithmetic."""
        return read.attend(queries.bits, scale)

    def attend_alone(self, read: Any, queries: Any, scale: float, mask: npt.NDArray[np.bool_]) -> Any:
        """Attend one query over the read's fetch, by the model and not by the read."""
        if isinstance(read, GroupRead):
            raise UnsupportedError
        return Read(read.keys, read.values, mask, 1, read.dtype, read.codec).attend(queries.bits, scale)

    def fetch_dense(self, cache: Any, keys: Any, values: Any) -> tuple[Any, Any]:
        """Append and hand out the fetch."""
        planes = cache.fetch_dense(keys.bits, values.bits, keys.dtype)
        if isinstance(planes, tuple):
            rows = cast("tuple[Planes, ...]", planes)
            return np.concatenate([row.keys for row in rows]), np.concatenate([row.values for row in rows])
        return planes.keys, planes.values

    def mask(self, cache: Any, length: int, phase: Phase, window: int | None, array: bool) -> Any:
        """Build the next append's mask."""
        return cache.mask(length, phase, window, array)

    def trim(self, cache: Any, n: Any, bypass: bool) -> int | None:
        """Drop the newest positions."""
        return cache.trim(n) if isinstance(cache, RowGroup | RecurrentLayer) else cache.trim(n, bypass)

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
        if isinstance(cache, RowGroup):
            return {f"{name}.{b}": array for b, row in enumerate(cache.take_state()) for name, array in row.items()}
        return cache.take_state()

    def reset(self, cache: Any) -> None:
        """Empty the cache."""
        rows_of(cache).reset()

    def show(self, cache: Any) -> StateView:
        """Show everything."""
        if isinstance(cache, RecurrentLayer):
            return cache.show()
        if isinstance(cache, RowGroup):
            return _shown_group(cache)
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
            round="none" if cache.round is None else "open",
        )
        planes = cache.planes
        return view if planes is None else evolve(view, keys=planes.keys.copy(), values=planes.values.copy())

    # A group of rows.

    def build_rows(self, layer: LayerSpec, rows: int) -> Any:
        """Make a group of empty rows."""
        return self.recurrent_type(layer, rows) if layer.is_recurrent else self.group_type(layer, rows)

    def merge(self, sources: Sequence[Any]) -> Any:
        """Make a group of caches and groups."""
        first = next((source for source in sources if isinstance(source, RecurrentLayer)), None)
        if first is not None and not all(isinstance(source, RecurrentLayer) for source in sources):
            raise Refusal("a merge of a recurrent state and columns (REC-15)")
        return merge(sources) if first is None else first.merged(sources)

    def extract(self, group: Any, row: int) -> Any:
        """Make a cache of one row's raw storage."""
        return group.extract(row)

    def hand_back(self, group: Any, row: int) -> Any:
        """Make a cache of one row."""
        return group.hand_back(row)

    def filter(self, group: Any, rows: Sequence[int]) -> None:
        """Keep these rows."""
        rows_of(group).filter(rows)

    def prepare(
        self, group: Any, left: Sequence[int] | None, lengths: Sequence[int] | None, right: Sequence[int] | None
    ) -> None:
        """Announce padding."""
        rows_of(group).prepare(left, lengths, right)

    def finalize(self, group: Any) -> None:
        """Take the right padding off."""
        rows_of(group).finalize()

    def begin_prefill(self, group: Any) -> None:
        """Open the bracket."""
        group.begin_prefill()

    def commit_prefill(self, group: Any, rows: Sequence[int]) -> None:
        """Settle these rows."""
        group.commit_prefill(rows)

    def end_prefill(self, group: Any) -> None:
        """Close the bracket."""
        group.end_prefill()

    def show_rows(self, group: Any) -> list[StateView]:
        """Show everything of each row."""
        if isinstance(group, RecurrentLayer):
            return [group.show_row(b) for b in range(len(group.rows.rows))]
        return [_shown_row(group, b) for b in range(group.count)]

    # Files.

    def save_layers(self, caches: list[Any]) -> Any:
        """Write the layers."""
        return StoredFile(self.file_format().write(caches))

    def load_layers(self, file: StoredFile, other: bool) -> list[Any]:
        """Read the layers; nothing is built of what is not as it was written."""
        form = self.file_format()
        return [form.build(told, self.build(layer_of(told))) for told in form.read(file.data, other)]

    def damage(self, file: StoredFile, how: Damage) -> None:
        """Spoil a file."""
        file.data = spoil(file.data, how)

    # Reuse.

    def empty_store(self) -> None:
        """Forget everything that was published."""
        self.store = self.store_type()

    def publish(self, caches: list[Any], tokens: Sequence[int], space: str) -> None:
        """Store the layers of a model."""
        self.store.put(caches, tuple(tokens), space)

    def reuse(self, caches: list[Any], tokens: Sequence[int], space: str) -> tuple[list[Any] | None, int]:
        """Find what a prompt begins with."""
        return self.store.get(caches, tuple(tokens), space)

    # Rounds.

    def begin_round(self, cache: Any) -> None:
        """Open a round."""
        rows_of(cache).begin_round()

    def commit_round(self, cache: Any) -> None:
        """Keep the round."""
        rows_of(cache).commit_round()

    def roll_back(self, cache: Any, keep: Sequence[int]) -> None:
        """Take back all but the first positions of the round."""
        cache.roll_back(keep)

    def begin_round_layers(self, caches: list[Any]) -> None:
        """Open a round of every layer."""
        _all_or_none(caches, lambda cache: cache.begin_round())

    def commit_round_layers(self, caches: list[Any]) -> None:
        """Keep the round of every layer."""
        _all_or_none(caches, lambda cache: cache.commit_round())

    def roll_back_layers(self, caches: list[Any], keep: Sequence[int]) -> None:
        """Take back all but the first positions of every layer's round."""
        _all_or_none(caches, lambda cache: cache.roll_back(keep))

    def poison(self, array: Any) -> None:
        """Overwrite the caller's array."""
        array.bits[...] = 0x7F
