"""How rows move between groups and serial caches: host integers only, remembered, no array in sight.

The layers of a model stand at the same place, so all but the first find the plan of a merge, an extraction or a filter
made; what is left for them are the arrays.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby

import attrs

from kvlaw.mlx_impl.geometry import ALL, Index
from kvlaw.mlx_impl.group_geometry import GroupGeometry, Place, Range, joined
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


@clause("ROWS-4", "ROWS-6")
def merge_plan(start: Place, geometries: Sequence[GroupGeometry], flags: Sequence[Flags]) -> MergePlan:
    """Plan a merge of all rows of sources into a group that begins as ``start``."""
    offsets = tuple(offset for geometry in geometries for offset in geometry.offsets)
    held = [geometry.columns_of(row) for geometry in geometries for row in range(geometry.rows)]
    columns = max(map(_count, held), default=0)
    then = joined(start, offsets, columns) if columns else GroupGeometry(start, offsets)
    dense, coded = (tuple(_pieces(geometries, flags, storage, columns)) for storage in (False, True))
    every = tuple(flag for found in flags for flag in found)
    return MergePlan(then, every, columns, every.count(False), every.count(True), dense, coded)


def _pieces(geometries: Sequence[GroupGeometry], flags: Sequence[Flags], coded: bool, columns: int) -> Iterator[Piece]:
    """Cut the rows of one storage into pieces; neighbours of one source whose columns lie alike are one."""
    rows = [
        (source, place, geometry.columns_of(row))
        for source, (geometry, found) in enumerate(zip(geometries, flags, strict=True))
        for place, row in enumerate(row for row, flag in enumerate(found) if flag is coded)
    ]
    first = 0
    for (source, ranges), run in groupby(rows, key=lambda row: (row[0], row[2])):
        places = [place for _, place, _ in run]
        at, count = columns - _count(ranges), len(places)
        for start, stop in ranges:
            every = count == flags[source].count(coded)
            of = (ALL if every else slice(places[0], places[0] + count), ALL, slice(start, stop))
            yield Piece(source, of, (slice(first, first + count), ALL, slice(at, at + stop - start)))
            at += stop - start
        first += count


@attrs.frozen
class ExtractPlan:
    """A row taken out: where it stands ``then``, and its columns, in temporal order, as ``pieces`` of its part.

    There are ``columns`` of them; a lone piece begins at column ``first``, and is ``partial`` if there are more.  Two
    that are all columns of the ``row`` are joined by rolling it right by ``turn``.
    """

    then: Place
    row: slice
    pieces: tuple[Index, ...]
    columns: int
    first: int
    partial: bool
    turn: int


@lru_cache(maxsize=REMEMBERED)
@clause("ROWS-12", "ROWS-13")
def extract_plan(geometry: GroupGeometry, row: int, place: int) -> ExtractPlan:
    """Plan to take out ``row``, which is number ``place`` of its part.

    Raises:
        PaddingError: if padding is announced.
    """
    then, ranges = geometry.extracted(row)
    at, columns = slice(place, place + 1), _count(ranges)
    pieces = tuple((at, ALL, slice(start, stop)) for start, stop in ranges)
    first = ranges[0][0] if ranges else 0
    every = columns == geometry.place.columns
    turn = columns - first if len(ranges) > 1 and every else 0
    return ExtractPlan(then, at, pieces, columns, first, len(ranges) == 1 and not every, turn)


@lru_cache(maxsize=REMEMBERED)
def filter_plan(geometry: GroupGeometry, rows: tuple[int, ...]) -> tuple[GroupGeometry, int]:
    """Plan to keep ``rows``; return where they then stand, and the first column that is kept."""
    return geometry.filtered(rows)


@lru_cache(maxsize=REMEMBERED)
@clause("ROWS-5")
def lone(place: Place) -> GroupGeometry:
    """Return a serial cache as a group of one row, everything as it lies."""
    return GroupGeometry(place, (place.offset,))


def _count(ranges: tuple[Range, ...]) -> int:
    return sum(stop - start for start, stop in ranges)
