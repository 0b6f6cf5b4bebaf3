"""What a group holds, as one value, and what each call makes of it: pure functions from content to content.

Nothing here changes anything, so a call that is refused, or fails, leaves its group as it was.
"""

from collections.abc import Sequence
from functools import lru_cache

import attrs

from kvlaw.mlx_impl.caches import Cache
from kvlaw.mlx_impl.group_geometry import GroupCut, GroupGeometry, row_indices
from kvlaw.mlx_impl.group_planes import lifted, place_in_part, rolled, take_rows
from kvlaw.mlx_impl.group_plans import ExtractPlan, Flags, extract_plan, filter_plan
from kvlaw.mlx_impl.inputs import Layout
from kvlaw.mlx_impl.kinds import FullCache, RingCache
from kvlaw.mlx_impl.planes import Planes
from kvlaw.mlx_impl.plans import REMEMBERED
from kvlaw.mlx_impl.precision import Precision, dense
from kvlaw.spec.cite import clause


@attrs.frozen(eq=False)
class GroupContent:
    """All that a group holds.

    Row b is stored as codes if ``converted[b]``, and has the reuse floor ``floors[b]``.  ``prefilling`` says that a
    prefill bracket is open.
    """

    policy: Precision
    geometry: GroupGeometry
    planes: Planes | None
    layout: Layout | None
    converted: Flags
    floors: tuple[int, ...]
    prefilling: bool = False

    @property
    def rows(self) -> int:
        """Return how many rows there are."""
        return len(self.converted)


def fresh(policy: Precision, geometry: GroupGeometry, *, prefilling: bool = False) -> GroupContent:
    """Return the content of a group of empty rows."""
    rows = geometry.rows
    return GroupContent(policy, geometry, None, None, (always(policy),) * rows, (0,) * rows, prefilling)


def always(policy: Precision) -> bool:
    """Say whether a policy stores codes from the first append on."""
    return policy.codes is not None and policy.start is None


@clause("ROWS-16", "ROWS-17", "ROWS-18", "PREC-24", "PREC-27")
def filtered(content: GroupContent, asked: Sequence[object]) -> GroupContent:
    """Keep rows, in the order given.

    Raises:
        RowError: if a row is not there or named twice.
    """
    rows = row_indices(asked, content.rows)
    geometry, first = filter_plan(content.geometry, rows)
    if not rows:
        return fresh(content.policy, geometry, prefilling=content.prefilling)
    planes, layout = content.planes, content.layout
    if planes is not None and (first or rows != tuple(range(content.rows))):
        planes = take_rows(planes, rows, first) if geometry.place.columns else None
    return GroupContent(
        content.policy,
        geometry,
        planes,
        layout.of_rows(len(rows)) if layout else None,
        tuple(content.converted[row] for row in rows),
        tuple(content.floors[row] for row in rows),
        content.prefilling,
    )


def prepared(content: GroupContent, left: object, lengths: object, right: object) -> GroupContent:
    """Announce padding; a group without rows gets as many empty ones as the lists are long.

    Raises:
        PaddingError: if that is not possible.
    """
    geometry = content.geometry.prepared(left, lengths, right)
    if geometry.rows != content.rows:
        return fresh(content.policy, geometry, prefilling=content.prefilling)
    return attrs.evolve(content, geometry=geometry)


def finalized(content: GroupContent) -> GroupContent:
    """Take back the right padding that was appended, and forget the ends."""
    if content.geometry.ends is None:
        return content
    cut = content.geometry.finalized()
    return attrs.evolve(content, geometry=cut.then, planes=cut_planes(content.planes, cut))


def taken_back(content: GroupContent, keep: object) -> GroupContent:
    """Close the round and keep its first positions in each row.

    Raises:
        RoundError: if no round is open, or a number is not from 0 to what was appended in it.
    """
    cut = content.geometry.taken_back(keep)
    planes = cut_planes(content.planes, cut)
    return attrs.evolve(content, geometry=cut.then, planes=planes, layout=content.layout if planes else None)


def cut_planes(planes: Planes | None, cut: GroupCut) -> Planes | None:
    """Carry out a cut."""
    if planes is None:
        return None
    if cut.roll:
        return rolled(planes, cut.roll)
    if not cut.columns:
        return None
    return planes if cut.columns == planes.columns else planes.first(cut.columns)


def emptied(content: GroupContent) -> GroupContent:
    """Empty every row."""
    return fresh(content.policy, content.geometry.reset())


@clause("ROWS-12", "ROWS-13", "ROWS-14", "ROWS-15", "PREC-23")
def taken_out(
    policy: Precision,
    geometry: GroupGeometry,
    planes: Planes | None,
    layout: Layout | None,
    converted: Flags,
    floors: tuple[int, ...],
    row: int,
    *,
    raw: bool,
) -> Cache:
    """Return a row as a serial cache of the group's policy, or of ``raw`` storage, which never changes precision.

    Raises:
        PaddingError: if padding is announced.
    """
    plan, empty, alone = _exit(policy, geometry, layout, converted, row, raw)
    part = lifted(planes, row, plan, alone.heads) if alone and planes is not None else None
    return empty.holding(plan.then, part, alone if part else None, converted[row], floors[row])


@lru_cache(maxsize=REMEMBERED)
def _exit(
    policy: Precision, geometry: GroupGeometry, layout: Layout | None, converted: Flags, row: int, raw: bool
) -> tuple[ExtractPlan, Cache, Layout | None]:
    """Plan how a row is taken out, once for all layers: its columns, an empty cache of its policy, and its layout."""
    plan = extract_plan(geometry, row, place_in_part(converted, row))
    empty = _empty(geometry.window, policy, converted[row] if raw else None)
    return plan, empty, layout.of_rows(1) if plan.pieces and layout else None


@lru_cache(maxsize=REMEMBERED)
def _empty(window: int | None, policy: Precision, raw: bool | None) -> Cache:
    """Return an empty serial cache to make clones of, which takes less time than to build another."""
    if raw is not None:
        policy = Precision(policy.codes, None, policy.dtype) if raw else dense()
    return FullCache(policy=policy) if window is None else RingCache(window, policy=policy)
