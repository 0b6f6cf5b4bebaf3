"""Rows of several groups and serial caches in one new group; what cannot be merged is refused by name.

One row alone stays as it lies.  Several are taken out in temporal order and laid behind left padding, so that their
newest columns are aligned.  The sources are only read.
"""

from collections.abc import Sequence

import attrs

from kvlaw.mlx_impl.caches import Cache
from kvlaw.mlx_impl.errors import DTypeError, RowError, ShapeError
from kvlaw.mlx_impl.group_content import GroupContent
from kvlaw.mlx_impl.group_geometry import GroupGeometry, Place, empty, joined, lone
from kvlaw.mlx_impl.group_planes import (
    Flags,
    MixedPlanes,
    RowColumns,
    blank_codes,
    blank_dense,
    row_columns,
)
from kvlaw.mlx_impl.group_planes import joined as joined_planes
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
    place = content.geometry
    assert isinstance(place, Place)  # noqa: S101  # there is no third kind
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
        result = attrs.evolve(_laid_out(full, place, policy, layout), prefilling=prefilling)
    if not prefilling:
        return result
    from_outside = [not source.prefilling for source in full for _ in range(source.rows)]
    return settled(result, [row for row, outside in enumerate(from_outside) if outside])


def _laid_out(sources: Sequence[GroupContent], place: Place, policy: Precision, layout: Layout | None) -> GroupContent:
    rows = [_columns(source, row) for source in sources for row in range(source.rows)]
    offsets = tuple(offset for source in sources for offset in source.geometry.offsets)
    flags = tuple(flag for source in sources for flag in source.converted)
    floors = tuple(floor for source in sources for floor in source.floors)
    width = max((row.count for row in rows), default=0)
    if not width or layout is None:
        return GroupContent(policy, GroupGeometry(empty(place), offsets), None, None, flags, floors)
    planes = _planes(rows, flags, width, layout, policy)
    geometry = joined(place, offsets, width)
    return GroupContent(policy, geometry, planes, layout.of_rows(len(rows)), flags, floors)


def _columns(source: GroupContent, row: int) -> RowColumns:
    return row_columns(source.planes, row, source.geometry.columns_of(row))


def _planes(rows: Sequence[RowColumns], flags: Flags, width: int, layout: Layout, policy: Precision) -> Planes:
    """Lay out the rows of each storage."""
    dense = [row for row, coded in zip(rows, flags, strict=True) if not coded]
    coded = [row for row, coded in zip(rows, flags, strict=True) if coded]
    if not coded or policy.codes is None:
        return joined_planes(blank_dense(layout, len(dense), width), dense)
    codes = joined_planes(blank_codes(policy.codes, layout, len(coded), width), coded)
    if not dense:
        return codes
    return MixedPlanes(flags, joined_planes(blank_dense(layout, len(dense), width), dense), codes)


def _place(sources: Sequence[GroupContent]) -> Place:
    """Return where an empty group of the kind of all sources stands."""
    first = sources[0].geometry
    for other in sources:
        if other.geometry.window != first.window:
            asked = f"a merge of {_kind(first)} and {_kind(other.geometry)}"
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
