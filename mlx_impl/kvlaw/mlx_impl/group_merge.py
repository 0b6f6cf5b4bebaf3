"""Rows of several groups and serial caches in one new group; what cannot be merged is refused by name.

One row alone stays as it lies.  Several are taken out in temporal order and laid behind left padding, so that their
newest columns are aligned.  The sources are only read.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import attrs

from kvlaw.mlx_impl.caches import Cache
from kvlaw.mlx_impl.errors import DTypeError, RowError, ShapeError
from kvlaw.mlx_impl.group_content import GroupContent
from kvlaw.mlx_impl.group_geometry import GroupGeometry, Place, empty
from kvlaw.mlx_impl.group_planes import MixedPlanes, blank_codes, blank_dense, filled
from kvlaw.mlx_impl.group_plans import Flags, MergePlan, lone, merge_plan
from kvlaw.mlx_impl.group_settle import settled
from kvlaw.mlx_impl.inputs import Layout
from kvlaw.mlx_impl.planes import Planes
from kvlaw.mlx_impl.plans import REMEMBERED
from kvlaw.mlx_impl.precision import Precision
from kvlaw.spec.cite import clause


@clause("ROWS-7")
def content_of(cache: Cache) -> GroupContent:
    """Return a serial cache as the content of a group of one row, everything as it lies; ``merged`` checks it."""
    held = cache.content
    geometry: Any = held.geometry  # one of the two kinds of place
    return GroupContent(cache.policy, lone(geometry), held.planes, held.layout, (held.converted,), (held.floor,))


@clause("ROWS-3", "ROWS-4", "ROWS-7", "ROWS-8", "PREC-22", "PREC-24", "PREC-27")
def merged(sources: Sequence[GroupContent]) -> GroupContent:
    """Return all rows of ``sources``, in order, as the content of a new group.

    Raises:
        RowError: if there is no source, they differ in kind, window or policy, or a serial one has sinks or a batch.
        PaddingError: if padding is announced in one.
        ShapeError, DTypeError: if they differ in heads, head dims or dtype, or the policy cannot store them.
    """
    if not sources:
        raise RowError("a merge of nothing", "at least one source is needed", "ROWS-8")
    made = _agreed(tuple([(one.geometry, one.converted, one.policy, one.layout, one.prefilling) for one in sources]))
    if made.lone is not None:
        result = attrs.evolve(sources[made.lone], policy=made.policy, prefilling=made.prefilling)
    else:
        plan, policy, layout = made.plan, made.policy, made.layout
        planes = None if layout is None else _planes(plan, sources, layout, policy)
        floors = tuple([floor for source in sources for floor in source.floors])
        result = GroupContent(policy, plan.then, planes, layout, plan.flags, floors, made.prefilling)
    return settled(result, made.outside) if made.prefilling else result


Facts = tuple[GroupGeometry, Flags, Precision, Layout | None, bool]
"""What decides about a source: where it stands, its storage, policy and layout, and whether its bracket is open."""


@attrs.frozen(eq=False)
class _Agreement:
    """What sources make together, but for the arrays.

    ``layout`` is None while no row has a column.  ``lone`` is the source that stays as it lies, since there is no other
    row.  ``outside`` are the rows from sources whose bracket is not open.
    """

    plan: MergePlan
    policy: Precision
    layout: Layout | None
    prefilling: bool
    lone: int | None
    outside: tuple[int, ...]


@lru_cache(maxsize=REMEMBERED)
def _agreed(sources: tuple[Facts, ...]) -> _Agreement:
    """Check sources against each other, once for all layers of a model."""
    geometries, flags, policies, layouts, brackets = zip(*sources, strict=True)
    start = _place(geometries)
    for geometry, layout in zip(geometries, layouts, strict=True):
        geometry.refuse_unrest("a merge")
        if geometry.place.pinned:
            raise RowError(f"a ring of {geometry.place.pinned} sinks as a row", "rows have no sinks", "ROWS-7")
        if geometry.rows == 1 and geometry.place.active < geometry.held(0):
            possible = "a row holds all the positions it is owed"
            raise RowError("a ring cut short by a bypass trim as a row", possible, "ROWS-8", "ROWS-12")
        if layout and layout.batch != geometry.rows:
            raise RowError(f"a cache of batch {layout.batch} as a row", "a row has batch 1", "ROWS-8")
    policy, layout = _policy(policies), _layout(layouts)
    if layout:
        policy.check(layout)
    plan = merge_plan(start, geometries, flags)
    rows = [number for number, found in enumerate(flags) for _ in found]
    outside = tuple(row for row, number in enumerate(rows) if not brackets[number])
    layout = layout.of_rows(len(rows)) if layout and plan.columns else None
    return _Agreement(plan, policy, layout, any(brackets), rows[0] if len(rows) == 1 else None, outside)


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


def _place(sources: Sequence[GroupGeometry]) -> Place:
    """Return where an empty group of the kind of all sources stands."""
    first = sources[0]
    for other in sources:
        if other.window != first.window:
            asked = f"a merge of {_kind(first)} and {_kind(other)}"
            raise RowError(asked, "all must be of one kind", "ROWS-7")
    return empty(first.place)


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
