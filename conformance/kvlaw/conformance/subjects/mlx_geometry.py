"""The integers of the MLX groups beside those of the reference: the same place, and the same answer to every call.

`MIRRORED` names a rule of `index_group` and what compares it: given a group, what the rule said of it, and the other
arguments, it asks the geometry of the MLX groups that stands at the same place. Both must lead to the same place, move,
write and fetch the same columns, hide the same ones from each query, and refuse the same calls. Every function here
raises ViolationError where they do not.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from kvlaw.conformance.proofs.exhaustive.product import demand
from kvlaw.conformance.subjects.mlx_places import (
    NEW,
    fetched,
    geometries,
    laid_out,
    refused,
    rolled,
    same_columns,
    same_place,
)
from kvlaw.mlx_impl import group_geometry, group_masks, group_plans
from kvlaw.mlx_impl.errors import CacheError, PaddingError, RoundError, RowError
from kvlaw.mlx_impl.geometry import FullGeometry, RingGeometry
from kvlaw.mlx_impl.group_geometry import GroupCut, GroupGeometry
from kvlaw.mlx_impl.group_masks import GroupBlockShape, GroupDecodeShape
from kvlaw.reference import index_group as of
from kvlaw.reference.index_group import Group, MaskKind, Moved, Phase, RowsPlan

UNREST = (PaddingError, RoundError)
"""How a group says that padding is to come, or a round is open."""


# The calls.


def decode(group: Group, plan: RowsPlan) -> None:
    """Compare a decode."""
    for geometry in geometries(group):
        _append(geometry, geometry.append_in_place(), group, plan, "a decode")


def block(group: Group, plan: RowsPlan, length: int) -> None:
    """Compare a block, in a round also as a decode."""
    for geometry in geometries(group):
        _append(geometry, geometry.append_block(length), group, plan, f"a block of {length}")
        if group.starts is not None and length == 1:
            _append(geometry, geometry.append_in_place(), group, plan, "a decode in a round")


def _append(geometry: GroupGeometry, found: group_geometry.GroupPlan, group: Group, plan: RowsPlan, told: str) -> None:
    same_place(found.then, plan.after)
    demand(found.move.then == found.then.place and found.move.pins is None, f"MLX plans {told} of another place")
    before = tuple(range(group.columns))
    written = range(plan.write_at, plan.write_at + plan.length)
    same_columns(
        [laid_out(rolled(before, found.roll, b), found.move, plan.length) for b in range(geometry.rows)],
        [tuple(NEW if at in written else source for at, source in enumerate(row)) for row in plan.sources],
        plan.after,
        told,
    )
    fetch = fetched(found.move.fetch, plan.after.columns)
    demand(fetch == plan.fetch, f"MLX fetches columns {fetch} for {told}, not {plan.fetch}")


def finalize(group: Group, moved: Moved) -> None:
    """Compare what finalize leaves."""
    for geometry in geometries(group):
        _cut(geometry.finalized(), group, moved, "finalize")


def close(group: Group, moved: Moved, keeps: Sequence[int]) -> None:
    """Compare the end of a round, and that keeps beyond it are refused."""
    most = of.appended_in_round(group)
    for geometry in geometries(group):
        _cut(geometry.taken_back(keeps), group, moved, f"a roll back to {keeps}")
        for wrong in (most + 1, -1) if keeps else ():
            beyond = (wrong, *keeps[1:])
            demand(refused((RoundError,), geometry.taken_back, beyond), f"MLX keeps {beyond}")
        demand(refused((RoundError,), geometry.taken_back, (*keeps, 0, 0)), "MLX takes too many keeps")
        demand(refused((RoundError,), geometry.begun), "MLX begins a round in a round")


def _cut(cut: GroupCut, group: Group, moved: Moved, told: str) -> None:
    same_place(cut.then, moved.after)
    before = tuple(range(group.columns))
    found = [rolled(before, cut.roll, b)[: cut.columns] for b in range(len(group.offsets))]
    same_columns(found, moved.sources, moved.after, told)


def begin(group: Group, after: Group) -> None:
    """Compare the begin of a round, and that none is ended before."""
    for geometry in geometries(group):
        same_place(geometry.begun(), after)
        demand(refused((RoundError,), geometry.taken_back, 0), "MLX ends a round that is not open")


def trim(group: Group, after: Group, count: int) -> None:
    """Compare a trim."""
    for geometry in geometries(group):
        same_place(geometry.trim(count), after)


def can_trim(group: Group, able: bool, count: int) -> None:
    """Compare whether a trim is possible."""
    for geometry in geometries(group):
        demand(geometry.can_trim(count) == able, f"MLX says of a trim of {count} that it is {geometry.can_trim(count)}")
        demand(able or refused((CacheError,), geometry.trim, count), f"MLX trims {count}")


def reset(group: Group, after: Group) -> None:
    """Compare a group emptied."""
    for geometry in geometries(group):
        same_place(geometry.reset(), after)


def prepare(group: Group, problem: str | None, *lists: Sequence[int] | None) -> None:
    """Compare padding announced, or refused."""
    for geometry in geometries(group):
        if problem is None:
            same_place(geometry.prepared(*lists), of.prepared(group, *lists))
        else:
            demand(refused(UNREST, geometry.prepared, *lists), f"MLX prepares {lists}")


def select(group: Group, moved: Moved, chosen: Sequence[int]) -> None:
    """Compare rows chosen."""
    for geometry in geometries(group):
        then, first = geometry.filtered(tuple(chosen))
        same_place(then, moved.after)
        same_columns([tuple(range(first, group.columns)) for _ in chosen], moved.sources, moved.after, "a filter")


def merge(window: int | None, moved: Moved, parts: Sequence[tuple[Group, int]]) -> None:
    """Compare rows put together; one that stays as it lies has no plan."""
    sources = [next(geometries(group)) for group, row in parts if row == 0]
    if not parts or (len(parts) == 1 and sources[0].rows == 1):
        return  # a lone row stays as it lies
    start = FullGeometry() if window is None else RingGeometry(window)
    plan = group_plans.merge_plan(start, sources, [(False,) * source.rows for source in sources])
    same_place(plan.then, moved.after)
    found: list[list[int | None]] = [[None] * plan.columns for _ in parts]
    for piece in plan.dense_pieces:
        columns = range(sources[piece.source].place.columns)[piece.of[2]]
        for row in found[piece.to[0]]:
            row[piece.to[2]] = columns
    same_columns([tuple(row) for row in found], moved.sources, moved.after, "a merge")


def may_filter(group: Group, able: bool, chosen: Sequence[int]) -> None:
    """Compare whether these rows can be chosen."""
    found = not refused((RowError,), group_geometry.row_indices, chosen, len(group.offsets))
    demand(found == able, f"MLX filters by {chosen}: {found}")


def numbers(group: Group, _: bool) -> None:
    """Compare the numbers of each row, and that padding to come is in the way of a decode and a round."""
    for geometry in geometries(group):
        found = [
            (geometry.held(b), geometry.valid[b], geometry.overruns[b], geometry.left_pads[b]) for b in _rows(group)
        ]
        expected = [
            (of.held(group, b), of.valid(group, b), of.overrun(group, b), of.left_pad(group, b)) for b in _rows(group)
        ]
        demand(found == expected, f"MLX counts {found}, the reference {expected}")
        rests = of.is_settled_padding(group)
        demand(geometry.at_rest == rests, "MLX says of padding that it is to come, or not")
        demand(rests or refused((PaddingError,), geometry.append_in_place), "MLX decodes while padding is to come")
        demand(rests or refused((PaddingError,), geometry.begun), "MLX begins a round while padding is to come")


def _rows(group: Group) -> range:
    return range(len(group.offsets))


def extraction(group: Group, columns: tuple[int, ...], row: int) -> None:
    """Compare a row taken out, or that padding or a round is in the way."""
    rests = of.is_settled_padding(group) and group.starts is None
    for geometry in geometries(group):
        if not rests:
            demand(refused(UNREST, geometry.extracted, row), f"MLX takes row {row} out")
            continue
        place, ranges = geometry.extracted(row)
        found = tuple(column for start, stop in ranges for column in range(start, stop))
        demand(found == columns, f"MLX takes columns {found} of row {row} out, not {columns}")
        same_place(group_plans.lone(place), of.lone(of.alone(group, row)))


# Masks.


@cache
def entries(shape: GroupBlockShape | GroupDecodeShape) -> npt.NDArray[np.bool_]:
    """Build a mask ``[B, L, S]``."""
    return np.array(shape.build(), dtype=np.bool_)[:, 0]


def masks(group: Group, kind: MaskKind, length: int, phase: Phase, argument: int | None = None) -> None:
    """Compare the mask of an append with what the reference says of each real query of each row."""
    for geometry in geometries(group):
        shape: Any
        if phase == "decode":
            shape = group_masks.decode_shape.__wrapped__(geometry, argument, False)
            array = group_masks.decode_shape.__wrapped__(geometry, argument, True)
        else:
            shape = group_masks.block_shape.__wrapped__(geometry, length, argument, False)
            array = group_masks.block_shape.__wrapped__(geometry, length, argument, True)
        found = "none" if shape is None else "causal" if shape == "causal" else "array"
        demand(found == kind, f"MLX has mask {found} for a {phase}, not {kind}")
        for one in (array,) if found != "array" else (array, shape):
            _same_mask(entries(one), group, length, phase, argument)
        if phase == "window" and length == 1 and group.starts is not None:  # a decode in a round
            _same_mask(
                entries(group_masks.decode_shape.__wrapped__(geometry, argument, True)), group, 1, phase, argument
            )


def _same_mask(found: npt.NDArray[np.bool_], group: Group, length: int, phase: Phase, argument: int | None) -> None:
    width = found.shape[-1]
    for row in range(len(group.offsets)):
        for i in of.real(group, row, length):
            if phase == "decode":
                expected = [of.decode_visible(group, row, j, argument) for j in range(width)]
            else:
                expected = [of.block_visible(group, row, length, i, j, argument) for j in range(width)]
            demand(found[row, i].tolist() == expected, f"MLX hides other columns of row {row} from query {i}")


MIRRORED: dict[str, Callable[..., None]] = {
    "plan_decode": decode,
    "plan_block": block,
    "plan_finalize": finalize,
    "plan_close": close,
    "begun": begin,
    "plan_trim": trim,
    "can_trim": can_trim,
    "reset_rows": reset,
    "prepare_problem": prepare,
    "can_filter": may_filter,
    "filtered": select,
    "is_valid_group": numbers,
    "joined": merge,
    "extracted": extraction,
    "mask_kind": masks,
}
"""Per rule of the reference: what MLX must say; it is given the first argument, the result, and the other arguments."""
