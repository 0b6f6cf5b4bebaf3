"""What planted faults are built of: one place to get between an append and the cache, or the group of rows."""

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.reference import index, index_group
from kvlaw.reference.layout import Cache, Read
from kvlaw.reference.layout_group import GroupRead, RowGroup
from kvlaw.spec.calls import Phase
from kvlaw.spec.observations import Bits


@frozen(eq=False)
class Asked:
    """One append as it was asked for: keys and values ``[B, H, L, D]``, and how they are to be read."""

    keys: Bits
    values: Bits
    dtype: str
    phase: Phase
    window: int | None
    array: bool

    @property
    def length(self) -> int:
        """Positions appended, if the tensors are what they should be."""
        return int(self.keys.shape[2])

    @property
    def well_formed(self) -> bool:
        """Both tensors have the four axes that tensors have."""
        return self.keys.ndim == self.values.ndim == 4


class WrongCache(Cache):
    """A reference cache whose appends go through ``act``, for faults to override."""

    def _append(self, keys: Bits, values: Bits, dtype: str, phase: Phase, window: int | None, array: bool) -> Read:
        return self.act(Asked(keys, values, dtype, phase, window, array))

    def act(self, asked: Asked) -> Read:
        """Append rightly."""
        return super()._append(asked.keys, asked.values, asked.dtype, asked.phase, asked.window, asked.array)

    @property
    def ring(self) -> index.Ring | None:
        """The ring's state, None for a growing cache."""
        return self.state if isinstance(self.state, index.Ring) else None


class WrongGroup(RowGroup):
    """A reference group whose appends go through ``act``, and their plans through ``bent``, for faults to override."""

    def _append(self, keys: Bits, values: Bits, dtype: str, phase: Phase, window: int | None, array: bool) -> GroupRead:
        return self.act(Asked(keys, values, dtype, phase, window, array))

    def act(self, asked: Asked) -> GroupRead:
        """Append rightly."""
        return super()._append(asked.keys, asked.values, asked.dtype, asked.phase, asked.window, asked.array)

    def plan(self, phase: Phase, length: int) -> index_group.RowsPlan:
        """Plan, then bend."""
        return self.bent(super().plan(phase, length), phase, length)

    def bent(self, plan: index_group.RowsPlan, phase: Phase, length: int) -> index_group.RowsPlan:
        """Bend nothing."""
        return plan


class GroupAdapter(ReferenceAdapter):
    """Groups of one wrong kind, those that a merge makes too."""

    def merge(self, sources: Sequence[Any]) -> Any:
        """Make a group of caches and groups, of the wrong kind."""
        return adopted(self.group_type, super().merge(sources))


def adopted(group_type: type[RowGroup], group: RowGroup) -> RowGroup:
    """Make a group of that type which holds what ``group`` holds."""
    twin = group_type(group.layer)
    twin.state, twin.rows, twin.shape, twin.prefilling = group.state, group.rows, group.shape, group.prefilling
    return twin
