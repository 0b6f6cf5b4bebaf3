"""Rows of several groups and serial caches in one new group; what cannot be merged is refused by name.

One row alone stays as it lies.  Several are taken out in temporal order and laid behind left padding, so that their
newest columns are aligned.  The sources are only read.
"""

from collections.abc import Sequence
from typing import Any

import attrs

from kvlaw.mlx_impl.caches import Cache
from kvlaw.mlx_impl.errors import DTypeError, RowError, ShapeError
from kvlaw.mlx_impl.group_content import GroupContent
from kvlaw.mlx_impl.group_geometry import GroupGeometry, Place
from kvlaw.mlx_impl.group_planes import MixedPlanes, blank_codes, blank_dense, filled
from kvlaw.mlx_impl.group_plans import MergePlan, beginning, lone, merge_plan
from kvlaw.mlx_impl.group_settle import settled
from kvlaw.mlx_impl.inputs import Layout
from kvlaw.mlx_impl.planes import Planes
from kvlaw.mlx_impl.precision import Precision
from kvlaw.spec.cite import clause


@clause("ROWS-7")
def content_of(cache: Cache) -> GroupContent:
    """Return a serial cache as the content of a group of one row, everything as it lies.

    Raises:
        RowError: if it has sinks, or a batch of several rows.
    """
    content = cache.content
    place: Any = content.geometry  # one of the two kinds of place
    if place.pinned:
        raise RowError(f"{cache.identity} as a row", "rows have no sinks", "ROWS-7")
    if cache.batch > 1:
        raise RowError(f"a cache of batch {cache.batch} as a row", "a row has batch 1", "ROWS-8")
    flags, floors = (content.converted,), (content.floor,)
    return GroupContent(cache.policy, lone(place), content.planes, content.layout, flags, floors)


@clause("ROWS-3", "ROWS-4", "ROWS-7", "ROWS-8", "PREC-22", "PREC-24", "PREC-27")
def merged(sources: Sequence[GroupContent]) -> GroupContent:
    """Return all rows of ``sources``, in order, as the content of a new group.

    Raises:
        RowError: if there is no source, or they differ in kind, window or policy.
        PaddingError: if padding is announced in one.
        ShapeError, DTypeError: if they differ in heads, head dims or dtype, or the policy cannot store them.
    """
    if not sources:
        raise RowError("a merge of nothing", "at least one source is needed", "ROWS-8")
    place = _place(sources)
    for source in sources:
        source.geometry.refuse_unrest("a merge")
    policy = _policy([source.policy for source in sources])
    layout = _layout([source.layout for source in sources])
    if layout:
        policy.check(layout)
    prefilling = any(source.prefilling for source in sources)
    full = [source for source in sources if source.rows]
    if len(full) == 1 and full[0].rows == 1:
        result = attrs.evolve(full[0], policy=policy, prefilling=prefilling)
    else:
        result = _laid_out(full, place, policy, layout, prefilling)
    if not prefilling:
        return result
    from_outside = [not source.prefilling for source in full for _ in range(source.rows)]
    return settled(result, [row for row, outside in enumerate(from_outside) if outside])


def _laid_out(
    sources: Sequence[GroupContent], start: Place, policy: Precision, layout: Layout | None, prefilling: bool
) -> GroupContent:
    plan = merge_plan(start, tuple([(source.geometry, source.converted) for source in sources]))
    floors = tuple([floor for source in sources for floor in source.floors])
    planes = None
    if layout and plan.columns:
        planes, layout = _planes(plan, sources, layout, policy), layout.of_rows(len(floors))
    return GroupContent(policy, plan.then, planes, layout if planes else None, plan.flags, floors, prefilling)


def _planes(plan: MergePlan, sources: Sequence[GroupContent], layout: Layout, policy: Precision) -> Planes:
    """Lay out the rows of each storage."""
    parts = [source.planes for source in sources]
    if not plan.coded or policy.codes is None:
        return filled(blank_dense(layout, plan.dense, plan.columns), plan.dense_pieces, parts)
    codes = filled(blank_codes(policy.codes, layout, plan.coded, plan.columns), plan.coded_pieces, parts)
    if not plan.dense:
        return codes
    dense = filled(blank_dense(layout, plan.dense, plan.columns), plan.dense_pieces, parts)
    return MixedPlanes(plan.flags, dense, codes)


def _place(sources: Sequence[GroupContent]) -> Place:
    """Return where an empty group of the kind of all sources stands."""
    first = sources[0].geometry
    for other in sources:
        if other.geometry.window != first.window:
            asked = f"a merge of {_kind(first)} and {_kind(other.geometry)}"
            raise RowError(asked, "all must be of one kind", "ROWS-7")
    return beginning(first.window)


def _kind(geometry: GroupGeometry) -> str:
    return "growing rows" if geometry.window is None else f"rows of window {geometry.window}"


def _policy(policies: Sequence[Precision]) -> Precision:
    """Return the policy of the group: that of the sources that change precision, or the one that all have."""
    raw = [policy for policy in policies if policy.start is None]
    changing = [policy for policy in policies if policy.start is not None]
    chosen = changing[0] if changing else raw[0]
    for other in changing:
        if other.start != chosen.start:
            raise RowError(f"a merge of start={chosen.start} and start={other.start}", "one is needed", "ROWS-8")
        _same_codes(chosen, other)
    for other in raw:
        if other.codes is not None and chosen.codes is not None:
            _same_codes(chosen, other)
        elif not changing and (other.codes is None) != (chosen.codes is None):
            raise RowError("a merge of half precision and codes", "no source says when rows convert", "ROWS-8")
    return chosen


def _same_codes(one: Precision, other: Precision) -> None:
    if (one.codes, one.dtype) == (other.codes, other.dtype):
        return
    shown = [f"{policy.fields} ({policy.codes.kernels.name if policy.codes else 'dense'})" for policy in (one, other)]
    raise RowError(f"a merge of {shown[0]} and {shown[1]}", "one codec and one kernel set are needed", "ROWS-7")


def _layout(layouts: Sequence[Layout | None]) -> Layout | None:
    """Return the layout that all sources with arrays have, for one row."""
    first, *others = [layout.of_rows(1) for layout in layouts if layout] or [None]
    for other in others:
        assert first is not None  # noqa: S101  # none has others
        assert other is not None  # noqa: S101  # as above
        if other.dtype != first.dtype:
            raise DTypeError(f"a merge of {first.dtype} and {other.dtype}", "one dtype is needed", "ROWS-8", "ERR-3")
        if (other.keys_step, other.values_step) != (first.keys_step, first.values_step):
            raise ShapeError(f"a merge of {first.describe()} and {other.describe()}", "one is needed", "ROWS-8")
    return first
