"""Plans, remembered: layers that stand at the same place share one, and a decode is planned some steps ahead.

A model takes every layer through the same positions, so all but the first find the plan of an append made.  When the
first one comes, a step of the model after the last, the code that plans has left every processor cache and costs as
much as several layers; so it plans a few decodes at once.
"""

from functools import lru_cache
from typing import Any, overload

from kvlaw.mlx_impl.geometry import Geometry, Plan
from kvlaw.mlx_impl.group_geometry import GroupGeometry, GroupPlan

REMEMBERED = 256
"""How many decisions of one sort are remembered."""

_AHEAD = 16
_decodes: dict[Geometry | GroupGeometry, Any] = {}


@overload
def decode_plan(geometry: Geometry) -> Plan: ...
@overload
def decode_plan(geometry: GroupGeometry) -> GroupPlan: ...


def decode_plan(geometry: Geometry | GroupGeometry) -> Plan | GroupPlan:
    """Return the plan of a decode at ``geometry``.

    Raises:
        PaddingError: if padding of rows is in the way.
    """
    return _decodes.get(geometry) or _plan_ahead(geometry)


@lru_cache(maxsize=REMEMBERED)
def window_plan(geometry: Geometry, length: int) -> Plan:
    """Return the plan of a window of ``length`` positions at ``geometry``."""
    return geometry.append_block(length)


@lru_cache(maxsize=REMEMBERED)
def group_block_plan(geometry: GroupGeometry, length: int) -> GroupPlan:
    """Return the plan of a block of ``length`` columns at ``geometry``."""
    return geometry.append_block(length)


def _plan_ahead(geometry: Geometry | GroupGeometry) -> Plan | GroupPlan:
    """Plan the next decodes, and forget all others if they are many."""
    if len(_decodes) >= REMEMBERED:
        _decodes.clear()
    place: Any = geometry
    for _ in range(_AHEAD):
        _decodes[place] = plan = place.append_in_place()
        place = plan.then
    return _decodes[geometry]
