"""How rows move between groups and serial caches: host integers only, remembered, no array in sight.

The layers of a model stand at the same place, so all but the first find the plan of a merge, an extraction or a filter
made; what is left for them are the arrays.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby

import attrs

from kvlaw.mlx_impl.geometry import ALL, FullGeometry, Index, RingGeometry
from kvlaw.mlx_impl.group_geometry import GroupGeometry, Place, Range, empty, joined
from kvlaw.mlx_impl.plans import REMEMBERED
from kvlaw.spec.cite import clause

Flags = tuple[bool, ...]
"""Per row: whether it holds codes."""


@attrs.frozen
class Piece:
    """Columns ``of`` the rows that a source has in one storage, and where they go ``to`` among the new ones in it."""

    source: int
    of: Index
    to: Index


@attrs.frozen
class MergePlan:
    """A merge of rows behind left padding: where they stand ``then``, ``columns`` wide, and pieces of each storage.

    ``dense`` and ``coded`` count the rows of each storage.
    """

    then: GroupGeometry
    flags: Flags
    columns: int
    dense: int
    coded: int
    dense_pieces: tuple[Piece, ...]
    coded_pieces: tuple[Piece, ...]


@lru_cache(maxsize=REMEMBERED)
@clause("ROWS-4", "ROWS-6")
def merge_plan(start: Place, sources: tuple[tuple[GroupGeometry, Flags], ...]) -> MergePlan:
    """Plan a merge of all rows of ``sources`` into a group that begins as ``start``."""
    flags = tuple(flag for _, found in sources for flag in found)
    offsets = tuple(offset for geometry, _ in sources for offset in geometry.offsets)
    columns = max(
        (_count(geometry.columns_of(row)) for geometry, _ in sources for row in range(geometry.rows)), default=0
    )
    then = joined(start, offsets, columns) if columns else GroupGeometry(empty(start), offsets)
    dense, coded = (tuple(_pieces(sources, storage, columns)) for storage in (False, True))
    return MergePlan(then, flags, columns, flags.count(False), flags.count(True), dense, coded)


def _pieces(sources: tuple[tuple[GroupGeometry, Flags], ...], coded: bool, columns: int) -> Iterator[Piece]:
    """Cut the rows of one storage into pieces; neighbours of one source whose columns lie alike are one."""
    rows = [
        (source, place, geometry.columns_of(row))
        for source, (geometry, flags) in enumerate(sources)
        for place, row in enumerate(row for row, flag in enumerate(flags) if flag is coded)
    ]
    first = 0
    for (source, ranges), run in groupby(rows, key=lambda row: (row[0], row[2])):
        places = [place for _, place, _ in run]
        at, count = columns - _count(ranges), len(places)
        for start, stop in ranges:
            of = (slice(places[0], places[0] + count), ALL, slice(start, stop))
            yield Piece(source, of, (slice(first, first + count), ALL, slice(at, at + stop - start)))
            at += stop - start
        first += count


@attrs.frozen
class ExtractPlan:
    """A row taken out: where it stands ``then``, and its columns, in temporal order, as ranges of its part."""

    then: Place
    columns: int
    pieces: tuple[Index, ...]


@lru_cache(maxsize=REMEMBERED)
@clause("ROWS-12", "ROWS-13")
def extract_plan(geometry: GroupGeometry, row: int, place: int) -> ExtractPlan:
    """Plan to take out ``row``, which is number ``place`` of its part.

    Raises:
        PaddingError: if padding is announced.
    """
    then, ranges = geometry.extracted(row)
    pieces = tuple((slice(place, place + 1), ALL, slice(start, stop)) for start, stop in ranges)
    return ExtractPlan(then, _count(ranges), pieces)


@lru_cache(maxsize=REMEMBERED)
def filter_plan(geometry: GroupGeometry, rows: tuple[int, ...]) -> tuple[GroupGeometry, int]:
    """Plan to keep ``rows``; return where they then stand, and the first column that is kept."""
    return geometry.filtered(rows)


@lru_cache(maxsize=REMEMBERED)
@clause("ROWS-5")
def lone(place: Place) -> GroupGeometry:
    """Return a serial cache as a group of one row, everything as it lies."""
    return GroupGeometry(place, (place.offset,))


@lru_cache(maxsize=REMEMBERED)
def beginning(window: int | None) -> Place:
    """Return where an empty group of a kind stands."""
    return FullGeometry() if window is None else RingGeometry(window)


def _count(ranges: tuple[Range, ...]) -> int:
    return sum(stop - start for start, stop in ranges)
