"""Where the integers of the MLX groups and of the reference stand at the same place, and what plans do to columns.

Every function that compares raises ViolationError.
"""

from collections.abc import Callable, Iterator, Sequence

from kvlaw.conformance.proofs.exhaustive.product import demand
from kvlaw.mlx_impl.errors import CacheError
from kvlaw.mlx_impl.geometry import FullGeometry, Index, Plan, RingGeometry
from kvlaw.mlx_impl.group_geometry import GroupGeometry, Roll
from kvlaw.reference import index_group as of
from kvlaw.reference.index_group import Group

NEW = -1
"""A column that is written."""

Columns = tuple[int | None, ...]


# The same place in both.


def geometries(group: Group) -> Iterator[GroupGeometry]:
    """Give the MLX geometries that stand where a group stands: of a ring that may have dropped columns, two."""
    active, drafted = of.active(group), of.appended_in_round(group)
    left = active - drafted - min(of.overruns(group), default=0)
    for more in (0, 7) if group.window is not None and left >= group.window else (0,):
        total = active + more
        start = None if group.starts is None else total - drafted
        if group.window is None:
            place = FullGeometry(active, group.columns, start)
        else:
            place = RingGeometry(group.window, 0, total, group.columns, group.write_index, group.rotated, 0, start)
        yield GroupGeometry(place, group.offsets, group.ends)


def same_place(found: GroupGeometry, group: Group) -> None:
    """Demand that a geometry stands where a group stands."""
    place, active = found.place, of.active(group)
    numbers = (place.columns, place.write_index, place.active, found.offsets, found.ends, found.window, place.in_round)
    columns, at = group.columns, group.write_index
    expected = (columns, at, active, group.offsets, group.ends, group.window, group.starts is not None)
    demand(numbers == expected, f"MLX stands at {found}, the reference at {group}")
    demand(not isinstance(place, RingGeometry) or place.rotated == group.rotated, f"MLX is turned: {found}")
    drafted = of.appended_in_round(group)
    demand(place.appended == drafted, f"MLX has {place.appended} columns in a round, not {drafted}")
    if group.window is not None:
        total = place.offset == active if active < group.window else place.offset >= active
        demand(total, f"MLX counts {place.offset} columns, {active} are there")


def refused(by: tuple[type[CacheError], ...], asked: Callable[..., object], *arguments: object) -> bool:
    """Tell whether a call is refused with one of these errors."""
    try:
        asked(*arguments)
    except by:
        return True
    return False


# Columns, as the planes move them.


def rolled(columns: Columns, roll: Roll | None, row: int) -> Columns:
    """Keep the first columns, and roll them right."""
    if roll is None:
        return columns
    first, shift = columns[: roll.columns], roll.shifts[row]
    return first[len(first) - shift :] + first[: len(first) - shift]


def laid_out(columns: Columns, plan: Plan, length: int) -> Columns:
    """Carry out an append."""
    new = (NEW,) * length
    if plan.write is not None:
        at = plan.write[2]
        demand(at.stop - at.start == length and at.stop <= len(columns), f"MLX writes {length} columns at {at}")
        return columns[: at.start] + new + columns[at.stop :]
    front = tuple(column for piece in plan.front for column in columns[piece[2]])
    back = tuple(column for piece in plan.back for column in columns[piece[2]])
    return (*front, *new, *back, *(None,) * plan.spare)


def fetched(fetch: Index | None, columns: int) -> tuple[int, ...]:
    """List the columns that a plan fetches."""
    return tuple(range(columns)) if fetch is None else tuple(range(columns))[fetch[2]]


def same_columns(found: Sequence[Columns], expected: Sequence[Columns], after: Group, told: str) -> None:
    """Demand that the columns that count come from the same ones."""
    counting = of.active(after)
    for b, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
        demand(len(mine) == after.columns, f"MLX has {len(mine)} columns after {told}")
        lie = (mine[:counting], theirs[:counting])
        demand(lie[0] == lie[1], f"row {b} of MLX holds columns {lie[0]} after {told}, not {lie[1]}")
