"""Plans, remembered: layers that stand at the same place share one, and a decode is planned some steps ahead.

A model takes every layer through the same positions, so all but the first find the plan of an append made.  When the
first one comes, a step of the model after the last, the code that plans has left every processor cache and costs as
much as several layers; so it plans a few decodes at once.

The layers of a forward come one after the other, each with the geometry *object* that the plan before gave to all of
them.  What was asked ``Last`` is therefore known again by identity, which costs less than the hash of many rows.
"""

from functools import lru_cache
from typing import Any, overload

from kvlaw.mlx_impl.geometry import Geometry, Plan
from kvlaw.mlx_impl.group_geometry import GroupGeometry, GroupPlan

REMEMBERED = 256
"""How many decisions of one sort are remembered."""

_AHEAD = 16
_decodes: dict[Geometry | GroupGeometry, Any] = {}


class Last:
    """What was asked last, and the answer: replaced as one pair, so that no thread meets half of one."""

    __slots__ = ("pair",)

    pair: tuple[object, Any]

    def __init__(self) -> None:
        self.pair = None, None


_last = Last()


@overload
def decode_plan(geometry: Geometry) -> Plan: ...
@overload
def decode_plan(geometry: GroupGeometry) -> GroupPlan: ...


def decode_plan(geometry: Geometry | GroupGeometry) -> Plan | GroupPlan:
    """Return the plan of a decode at ``geometry``.

    Raises:
        PaddingError: if padding of rows is in the way.
    """
    asked, plan = _last.pair
    if asked is not geometry:
        plan = _decodes.get(geometry) or _plan_ahead(geometry)
        _last.pair = geometry, plan
    return plan


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
