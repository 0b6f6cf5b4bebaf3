"""Groups of rows with mlx-lm's duck type, driven the way mlx-lm's batch generator drives them.

A group comes of serial caches by their ``merge``; groups come together by ``extend``, which takes the other one apart,
so that it is done on copies. ``prepare(left_padding=, lengths=, right_padding=)`` announces padding, ``finalize()``
takes what is on the right out again, ``extract(index)`` gives one row back as a serial cache, ``filter(indices)``
keeps some. One call appends to all rows; the mask is asked before it, for all rows.

Of a row its ``offset`` is shown, and what lies in its planes. While right padding is pending offsets count it as well,
so that nothing is said of them, nor of what can be trimmed; else a group that says that it can be trimmed is taken at
its word up to the least offset.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import evolve

from kvlaw.conformance.interface import NonsenseError, UnsupportedError
from kvlaw.conformance.subjects.array_adapter import attribute, number
from kvlaw.conformance.subjects.arrays import Arrays
from kvlaw.conformance.subjects.duck import DuckAdapter
from kvlaw.spec.config import DTYPES, Config, LayerSpec
from kvlaw.spec.observations import StateView

ROW_CALLS = ("extract", "filter", "prepare", "finalize", "extend")
"""What mlx-lm's batch generator asks of a group."""


class DuckGroup:
    """A group as its class makes it, and whether right padding is pending in it."""

    def __init__(self, cache: Any, pending: bool = False) -> None:
        """Wrap a group."""
        self.cache, self.pending = cache, pending

    def __getattr__(self, name: str) -> Any:
        """Ask the group."""
        if name == "cache" or name.startswith("__"):  # while a copy is being made, which is one of both
            raise AttributeError(name)
        return getattr(self.cache, name)


def is_duck_group(cache: Any) -> bool:
    """Say whether a cache is a group of rows of mlx-lm's duck type."""
    return all(callable(getattr(cache, name, None)) for name in ROW_CALLS[:-1])


class DuckRowsAdapter(DuckAdapter):
    """Asks groups, and the serial caches beside them, by mlx-lm's calls."""

    def __init__(
        self, arrays: Arrays, make: Callable[[LayerSpec, Config], Any], example: Any, clone: str | None = None
    ) -> None:
        """Adapt groups of the serial caches that ``make`` builds; ``example`` is one of these, to look at."""
        group = DuckGroup(self.empty_group([example, example]))
        super().__init__(arrays, make, group, clone)
        able = {"rows", "merge"} | {name for name in ("extract", "filter") if callable(getattr(group, name, None))}
        if all(callable(getattr(group, name, None)) for name in ("prepare", "finalize")):
            able |= {"padding", "left_padding"}
        kind: type[Any] = group.cache.__class__
        able |= {"state"} if hasattr(kind, "state") else set[str]()  # which may raise while it is empty
        self.capabilities = (self.capabilities - {"size", "max_append", "floor"}) | able
        self.shows |= able

    # Making groups.

    def group_of(self, serial: Sequence[Any]) -> Any:
        """Make a group of serial caches, as mlx-lm's batch generator does."""
        return serial[0].merge(list(serial))

    def empty_group(self, serial: Sequence[Any]) -> Any:
        """Make a group of serial caches that are empty."""
        return self.group_of(serial)

    def build_rows(self, layer: LayerSpec, rows: int) -> Any:
        """Make empty serial caches, and a group of them."""
        if not rows:
            raise UnsupportedError("a group comes of the caches of its rows")
        return DuckGroup(self.empty_group([self.build(layer.serial) for _ in range(rows)]))

    def merge(self, sources: Sequence[Any]) -> Any:
        """Merge the serial caches among the sources, and extend one group by the other."""
        parts = list(self._parts(sources))
        if not parts:
            raise UnsupportedError("a group comes of the caches of its rows")
        together = parts[0]
        for other in parts[1:]:
            together.extend(other.cache)
            together.pending = together.pending or other.pending
        return together

    def _parts(self, sources: Sequence[Any]) -> Iterator[DuckGroup]:
        """Give groups of their own: copies of those among the sources, and one of every run of serial caches."""
        for grouped, run in groupby(sources, lambda source: isinstance(source, DuckGroup)):
            if grouped:
                yield from (deepcopy(group) for group in run)
            else:
                yield DuckGroup(self.group_of(list(run)))

    def extract(self, group: DuckGroup, row: int) -> Any:
        """Give a row as a serial cache."""
        return group.extract(row)

    # Changing groups.

    def filter(self, group: DuckGroup, rows: Sequence[int]) -> None:
        """Keep rows; a runtime that keeps none lets go of the group, and one that is not there is read past the end."""
        if not rows:
            raise UnsupportedError("a group that keeps no row is let go of")
        if not all(0 <= row < self.row_count(group) for row in rows):
            raise UnsupportedError("an index beyond the rows is not checked, and reads whatever lies there")
        group.filter(list(rows))

    def prepare(
        self,
        group: DuckGroup,
        left: Sequence[int] | None,
        lengths: Sequence[int] | None,
        right: Sequence[int] | None,
    ) -> None:
        """Announce padding; no left padding is none to tell of, since even that is refused once rows hold tokens."""
        given = {"left_padding": left if any(left or ()) else None, "lengths": lengths, "right_padding": right}
        group.prepare(**{name: list(counts) for name, counts in given.items() if counts is not None})
        group.pending = group.pending or (right is not None and any(right))

    def finalize(self, group: DuckGroup) -> None:
        """Take the right padding out."""
        group.finalize()
        group.pending = False

    # Looking at groups.

    def row_count(self, group: DuckGroup) -> int:
        """Count the rows."""
        return len(self._offsets(group))

    def clone(self, cache: Any) -> Any:
        """Copy a group or a serial cache."""
        return (
            DuckGroup(super().clone(cache.cache), cache.pending)
            if isinstance(cache, DuckGroup)
            else super().clone(cache)
        )

    def show(self, cache: Any) -> StateView:
        """Show a serial cache, or what a group shows as a whole."""
        if not isinstance(cache, DuckGroup):
            return super().show(cache)
        planes = self.planes(cache)
        return StateView(
            columns=0 if planes is None else int(planes[0].shape[2]),
            nbytes=number(cache, "nbytes") if "nbytes" in self.readable(cache) else None,
            can_trim=self._flags_of_rows(cache),
            rows=self.row_count(cache),
            round=self.round_of(cache),
        )

    def show_rows(self, group: DuckGroup) -> list[StateView]:
        """Show each row's offset and planes."""
        offsets = self._offsets(group)
        views = [StateView(offset=None if group.pending else int(offset)) for offset in offsets]
        planes = self.planes(group) if "planes" in self.shows else None
        if planes is None or not all(self._is_rows_plane(plane, len(views)) for plane in planes):
            return views
        self.arrays.settle(planes)
        keys, values = (self.arrays.bits(plane) for plane in planes)
        return [evolve(view, keys=keys[row : row + 1], values=values[row : row + 1]) for row, view in enumerate(views)]

    def _offsets(self, group: DuckGroup) -> npt.NDArray[np.int64]:
        offset: Any = attribute(group, "offset")
        whole = self.arrays.is_array(offset) and self.arrays.dtype_of(offset) not in DTYPES
        if not whole or len(offset.shape) != 1:  # [B]
            raise NonsenseError(f"offset is {offset!r:.60}, not one whole number for each row")
        self.arrays.settle([offset])
        return np.asarray(self.arrays.bits(offset)).astype(np.int64)

    def _flags_of_rows(self, group: DuckGroup) -> tuple[bool, ...] | None:
        if "can_trim" not in self.shows or group.pending:
            return None
        offsets: list[int] = self._offsets(group).tolist()
        able, least = bool(group.is_trimmable()), min(offsets, default=0)
        return tuple(able and n <= least for n in range(max([0, *offsets]) + 2))

    def _is_rows_plane(self, plane: Any, rows: int) -> bool:
        """Say whether an array is laid out as ``[rows, Hkv, columns, D]``."""
        c = self.config
        if not self.arrays.is_array(plane) or len(plane.shape) != 4:
            return False
        return tuple(plane.shape[:2]) == (rows, c.kv_heads) and plane.shape[3] in (c.head_dim, c.value_dim)
