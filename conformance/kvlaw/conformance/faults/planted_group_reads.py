"""Faults of what is read of a group: mixed storage, dense fetches, known appends, what is handed out (READ, OWN)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from attrs import evolve

from kvlaw.conformance.faults.parts import Asked, GroupAdapter, WrongGroup
from kvlaw.conformance.faults.registry import fault
from kvlaw.reference.layout import Planes, Read
from kvlaw.reference.layout_group import GroupRead, RowGroup
from kvlaw.spec.calls import AppendName
from kvlaw.spec.observations import Bits


@fault(
    "a-mixed-group-reads-tensors",
    breaks="READ-16",
    trace="full_rows bits=4 start=2 ; prepare left=1,0 ; window 2 ; decode",
    report="B55",
)
class AMixedGroupReadsTensors(WrongGroup):
    """In a mixed group the rows of codes are dequantized, to be read with the others."""

    def act(self, asked: Asked) -> GroupRead:
        read = super().act(asked)
        return evolve(read, rows=tuple(map(_dequantized, read.rows))) if self.storage == "mixed" else read


def _dequantized(read: Read) -> Read:
    if read.codec is None:
        return read
    keys, values = read.codec.decode("keys", read.keys), read.codec.decode("values", read.values)
    return evolve(read, keys=keys, values=values, codec=None)


# Dense fetches.


@fault("a-dense-fetch-of-rows-drops-its-own", breaks="READ-17", trace="full_rows ; dense 1")
class ADenseFetchOfRowsDropsItsOwn(WrongGroup):
    """A dense fetch of a group hands out the positions that were there before it."""

    def fetch_dense(self, keys: Bits, values: Bits, dtype: str) -> tuple[Planes, ...]:
        planes = super().fetch_dense(keys, values, dtype)
        length = int(keys.shape[2])
        return tuple(row.kept(tuple(range(row.keys.shape[2] - length))) for row in planes)


@fault("a-dense-fetch-of-the-first-row", breaks="READ-17", trace="full_rows ; dense 1", report="B39")
class ADenseFetchOfTheFirstRow(WrongGroup):
    """A dense fetch hands out the first row in the place of every row."""

    def fetch_dense(self, keys: Bits, values: Bits, dtype: str) -> tuple[Planes, ...]:
        planes = super().fetch_dense(keys, values, dtype)
        return planes[:1] * len(planes)


@fault(
    "a-mixed-fetch-comes-by-storage",
    breaks="READ-17",
    trace="full_rows bits=4 start=2 ; prepare left=0,1 ; window 2 ; dense 1",
)
class AMixedFetchComesByStorage(WrongGroup):
    """A dense fetch of a mixed group has the rows of half precision first, and then those of codes."""

    def fetch_dense(self, keys: Bits, values: Bits, dtype: str) -> tuple[Planes, ...]:
        planes = super().fetch_dense(keys, values, dtype)
        return tuple(planes[b] for b in sorted(range(self.count), key=lambda b: self.rows[b].coded))


# Known appends.


@fault(
    "known-rows-share-a-mask",
    breaks="READ-18",
    profile="layout",
    trace="full_rows bits=4 ; known 2",
)
class KnownRowsShareAMask(WrongGroup):
    """The positions of a known append to a group of codes are attended with the mask row of the last."""

    def append_known(
        self, keys: Bits, values: Bits, dtype: str, window: int | None = None, array: bool = False
    ) -> GroupRead:
        read = super().append_known(keys, values, dtype, window, array)
        if self.storage not in ("affine", "packed"):
            return read
        length = read.rows[0].length
        mask = np.ones((len(read.rows), 1, length, read.rows[0].keys.shape[2]), np.bool_)
        return GroupRead(tuple(evolve(row, mask=mask[b : b + 1]) for b, row in enumerate(read.rows)), mask)


# What is handed out.


class PositionsAdapter(GroupAdapter):
    """Hands out the positions of the rows of a group beside its state."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[tuple[RowGroup, Any]] = []

    def state(self, cache: Any) -> Mapping[str, Any]:
        state = dict(super().state(cache))
        if isinstance(cache, RowGroup):
            state["positions"] = positions = np.array(cache.state.offsets, np.int32)
            self.shown.append((cache, positions))
        return state


@fault("positions-move-on", breaks="OWN-10", trace="full_rows ; state as s1 ; decode ; look s1", report="B40")
class PositionsMoveOn(PositionsAdapter):
    """The positions that a group hands out are those that it counts with, moved on in place by every append."""

    def append(self, cache: Any, keys: Any, values: Any, phase: AppendName, window: int | None, array: bool) -> Any:
        read = super().append(cache, keys, values, phase, window, array)
        for group, positions in self.shown:
            if group is cache and len(positions) == group.count:
                positions[...] = group.state.offsets
        return read


@fault(
    "reads-of-groups-follow-them",
    breaks="OWN-1",
    trace="ring_rows window=2 ; window 2 ; decode as r1 ; decode x2 ; attend r1",
    report="B84",
)
class ReadsOfGroupsFollowThem(WrongGroup):
    """A read that was kept shows the columns as they are now."""

    def act(self, asked: Asked) -> GroupRead:
        read = super().act(asked)
        for old in self.__dict__.setdefault("reads", []):
            for row, new in zip(old.rows, read.rows, strict=True):
                if row.keys.shape == new.keys.shape:
                    row.keys[...], row.values[...] = new.keys, new.values
        copies = tuple(evolve(row, keys=row.keys.copy(), values=row.values.copy()) for row in read.rows)
        kept = evolve(read, rows=copies)
        self.__dict__["reads"].append(kept)
        return kept


@fault(
    "queries-of-other-rows",
    breaks="READ-9",
    profile="layout",
    trace="full_rows ; decode as r1 ; attend r1 malformed=batch",
)
class QueriesOfOtherRows(WrongGroup):
    """Queries of more rows than the group has are cut to those that it has."""

    def act(self, asked: Asked) -> GroupRead:
        read = super().act(asked)
        return _Cutting(read.rows, read.mask)


class _Cutting(GroupRead):
    """A read that cuts its queries."""

    def attend(self, queries: Bits, scale: float) -> Bits:
        rows = len(self.rows)
        given = queries[:rows] if queries.ndim == 4 else queries  # [B, H, L, D]
        given = np.concatenate([given] * rows)[:rows] if given.ndim == 4 and len(given) < rows else given
        return super().attend(given, scale)
