"""Where the rows of a group stand: host integers only, immutable, no array in sight.

Rows are aligned: one serial ``place`` says which columns are allocated, written next and rotated, and counts the
columns as a serial cache counts positions; each row adds its own offset.  A row that holds less than the group has
columns is dead on the left.  So every rule about columns is the serial one, and a serial cache is a group of one row.

Offsets are raw: below 0 while announced left padding is unused, and beyond the row's *end* once right padding was
appended.  Right padding, the newest ``overrun`` columns of a row, is taken back before the next block and by
``finalized`` (geometry.md sections 1 to 5 and 7).
"""

from collections.abc import Sequence
from typing import cast

import attrs

from kvlaw.mlx_impl.counts import as_integer
from kvlaw.mlx_impl.errors import PaddingError, RoundError, RowError, TrimError
from kvlaw.mlx_impl.geometry import FullGeometry, Plan, RingGeometry
from kvlaw.spec.cite import clause

Place = FullGeometry | RingGeometry
"""What all rows of a group share."""

Range = tuple[int, int]
"""Columns ``[start, stop)``."""


@attrs.frozen
class Roll:
    """Keep the first ``columns`` columns, and roll those of row b right by ``shifts[b]``."""

    columns: int
    shifts: tuple[int, ...]


@attrs.frozen
class GroupPlan:
    """One append to all rows: ``roll`` first, if rows had unequal padding at their ends, then ``move``."""

    then: "GroupGeometry"
    move: Plan
    roll: Roll | None = None


@attrs.frozen
class GroupCut:
    """What is left when rows lose their newest columns: the first ``columns``, rolled by ``roll`` if unequal."""

    then: "GroupGeometry"
    columns: int
    roll: Roll | None = None


@clause("PAD-9")
def _at_rest(geometry: "GroupGeometry") -> bool:
    return geometry.ends is None and min(geometry.offsets, default=0) >= 0


@attrs.frozen(cache_hash=True)
class GroupGeometry:
    """The columns that all rows share, and where each row stands in them.

    ``ends`` are the offsets at which the rows' real tokens end, None unless right padding was announced.  ``at_rest``
    says that no padding is announced that is still to come or to be taken back.
    """

    place: Place
    offsets: tuple[int, ...] = ()
    ends: tuple[int, ...] | None = None
    at_rest: bool = attrs.field(init=False, eq=False, repr=False, default=attrs.Factory(_at_rest, takes_self=True))

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    def rows(self) -> int:
        """Return how many rows there are."""
        return len(self.offsets)

    @property
    def window(self) -> int | None:
        """Return the window of a ring, None for a growing group."""
        return self.place.window if type(self.place) is RingGeometry else None

    @property
    def overruns(self) -> tuple[int, ...]:
        """Return how many newest columns of each row are right padding."""
        if self.ends is None:
            return (0,) * self.rows
        return tuple(max(0, offset - end) for offset, end in zip(self.offsets, self.ends, strict=True))

    @property
    @clause("PAD-2")
    def valid(self) -> tuple[int, ...]:
        """Return the offset of each row without its right padding."""
        if self.ends is None:
            return self.offsets
        return tuple(map(min, self.offsets, self.ends))

    @property
    @clause("PAD-16")
    def left_pads(self) -> tuple[int, ...]:
        """Return how many leading columns of each row hold none of its positions."""
        active = self.place.active
        return tuple(max(0, active - offset) for offset in self.offsets)

    def held(self, row: int) -> int:
        """Return how many positions a reader of ``row`` is owed."""
        valid = max(0, self.valid[row])
        return valid if self.window is None else min(valid, self.window)

    @clause("PREC-16")
    def goes_on(self, row: int) -> bool:
        """Say whether the next column of a row, behind its left padding, is a token, not right padding."""
        return self.ends is None or self.offsets[row] < self.ends[row]

    # -- appends ------------------------------------------------------------------------------------------------------

    @clause("ROWS-1", "ROWS-22")
    def append_in_place(self) -> GroupPlan:
        """Plan an append of one position per row, in place.

        Raises:
            PaddingError: if padding is announced: only blocks can be appended then.
        """
        self.refuse_padding("a decode")
        move = self.place.append_in_place()
        return GroupPlan(self._after(move.then, (0,) * self.rows, 1), move)

    @clause("ROWS-1", "ROWS-22", "PAD-5", "PAD-6", "PAD-11")
    def append_block(self, length: int) -> GroupPlan:
        """Plan an append of ``length`` >= 1 columns as one block, behind what is left without right padding."""
        cut = self.retracted()
        # Right padding must evict no position that is still owed, so one more column is kept while it may come.
        move = cut.then.place.append_block(length, 0 if self.ends is None else 1)
        return GroupPlan(self._after(move.then, self.overruns, length), move, cut.roll)

    def _after(self, place: object, tails: tuple[int, ...], length: int) -> "GroupGeometry":
        assert isinstance(place, Place)  # noqa: S101  # a plan of a place ends in a place of the same kind
        offsets = tuple(offset - tail + length for offset, tail in zip(self.offsets, tails, strict=True))
        return GroupGeometry(place, offsets, self.ends)

    # -- padding ------------------------------------------------------------------------------------------------------

    def refuse_padding(self, asked: str) -> None:
        """Refuse what needs a group at rest.

        Raises:
            PaddingError: if ends are pending or left padding is unused.
        """
        if self.ends is not None:
            raise PaddingError(f"{asked} while right padding is pending", "finalize first", "PAD-9")
        if min(self.offsets, default=0) < 0:
            unused = [max(0, -offset) for offset in self.offsets]
            raise PaddingError(f"{asked} while left padding is unused: {unused}", "append it first", "PAD-9")

    @clause("PAD-9", "ROUND-9")
    def refuse_unrest(self, asked: str) -> None:
        """Refuse what needs a group without announced padding and without an open round.

        Raises:
            RoundError: if a round is open.
            PaddingError: if padding is announced.
        """
        self.place.refuse_round(asked)
        self.refuse_padding(asked)

    @clause("PAD-1", "PAD-2", "PAD-3", "PAD-12", "PAD-14")
    def prepared(self, left: object, lengths: object, right: object) -> "GroupGeometry":
        """Announce the padding of the columns that come next, per row; a group without rows gets as many empty ones.

        ``lengths`` are the columns before the right padding, the left padding included; they matter only where there is
        right padding.

        Raises:
            PaddingError: if lists do not fit the rows or each other, or padding cannot begin now.
        """
        self.refuse_unrest("a preparation")
        lists = [_padding(name, found) for name, found in (("left", left), ("lengths", lengths), ("right", right))]
        counts = {len(found) for found in lists if found is not None}
        rows = self.rows or max(counts, default=0)
        if counts - {rows}:
            raise PaddingError(f"a preparation of {sorted(counts)} rows", f"one number per row: {rows}", "PAD-12")
        pads, given, behind = lists
        offsets = self._padded_left(pads or (0,) * rows)
        if not any(behind or ()):
            return GroupGeometry(self.place, offsets)
        if given is None:
            raise PaddingError("right padding without lengths", "the lengths of all rows are needed", "PAD-12")
        if any(length < pad for length, pad in zip(given, pads or (), strict=False)):
            raise PaddingError(f"lengths {list(given)}", f"left padding {list(pads or ())} counts in them", "PAD-12")
        ends = tuple(offset + length for offset, length in zip(offsets, given, strict=True))
        return GroupGeometry(self.place, offsets, ends)

    def _padded_left(self, pads: tuple[int, ...]) -> tuple[int, ...]:
        if any(pads) and self.place.active:
            possible = f"only empty rows can be padded on the left; there are {self.place.active} columns"
            raise PaddingError(f"left padding {list(pads)}", possible, "PAD-12")
        return tuple(offset - pad for offset, pad in zip(self.offsets or (0,) * len(pads), pads, strict=True))

    @clause("PAD-16")
    def retracted(self) -> GroupCut:
        """Take the right padding off all rows; the ends stay."""
        return self.without(self.overruns)

    def without(self, tails: tuple[int, ...]) -> GroupCut:
        """Take the newest ``tails[b]`` columns off row b."""
        if not any(tails):
            return GroupCut(self, self.place.columns)
        cut = min(tails)
        columns = self.place.active - cut  # after a block: columns lie in temporal order
        offsets = tuple(offset - tail for offset, tail in zip(self.offsets, tails, strict=True))
        then = GroupGeometry(_first(self.place, columns, cut), offsets, self.ends)
        shifts = tuple(tail - cut for tail in tails)
        return GroupCut(then, columns, Roll(columns, shifts) if any(shifts) else None)

    @clause("PAD-7", "PAD-8")
    def finalized(self) -> GroupCut:
        """Take the right padding off all rows, and forget the ends."""
        cut = self.retracted()
        return attrs.evolve(cut, then=attrs.evolve(cut.then, ends=None))

    # -- rounds -------------------------------------------------------------------------------------------------------

    def begun(self) -> "GroupGeometry":
        """Open a round of all rows.

        Raises:
            PaddingError: if padding is announced.
            RoundError: if one is open.
        """
        self.refuse_padding("a round")
        return attrs.evolve(self, place=self.place.begun())

    @clause("ROUND-7", "ROUND-13", "ROUND-14")
    def taken_back(self, keep: object) -> GroupCut:
        """Close the round and keep its first positions in each row: one number, or one per row.

        Raises:
            RoundError: if no round is open, or one number is not from 0 to what was appended in it.
        """
        tails = self._tails(keep)
        closed = attrs.evolve(self, place=self.place.at_start(None))
        if self.window is None and len(set(tails)) == 1:
            place = self.place.taken_back(tails[0])
            offsets = tuple(offset - tails[0] for offset in self.offsets)
            return GroupCut(attrs.evolve(self, place=place, offsets=offsets), place.columns)
        return closed.without(tails)

    def _tails(self, keep: object) -> tuple[int, ...]:
        if not isinstance(keep, Sequence) or isinstance(keep, str):
            return (self.place.tail(keep),) * self.rows
        keeps = cast("Sequence[object]", keep)
        if len(keeps) not in (1, self.rows):
            possible = f"one number, or one for each of {self.rows} rows"
            raise RoundError(f"a roll back with {len(keeps)} keeps", possible, "ROUND-7", "ROUND-13")
        tails = tuple(self.place.tail(kept) for kept in keeps)
        return tails * self.rows if len(keeps) == 1 else tails

    # -- trim, reset --------------------------------------------------------------------------------------------------

    @clause("ROWS-20")
    def can_trim(self, count: int) -> bool:
        """Say whether every row can drop its newest ``count`` positions without moving a column."""
        return self.at_rest and self.place.can_trim(count) and count <= min(self.offsets, default=0)

    @clause("ROWS-19", "TRIM-7")
    def trim(self, count: int) -> "GroupGeometry":
        """Drop the newest ``count`` positions of every row.

        Raises:
            PaddingError: if padding is announced.
            TrimError: if a row has fewer, or a ring is full.
        """
        self.refuse_unrest(f"a trim of {count}")
        if not self.can_trim(count):
            raise TrimError(f"trim of {count}", self._trim_limit(), "ROWS-20", "TRIM-7")
        place = self.place.trim(count)
        return GroupGeometry(place, tuple(offset - count for offset in self.offsets))

    def _trim_limit(self) -> str:
        if not self.place.can_trim(0):
            return f"a ring group of {self.place.active} columns and window {self.window} can drop nothing"
        return f"rows of offsets {list(self.offsets)} can drop 0 to {min(self.offsets, default=0)}"

    @clause("ROWS-23", "PAD-13")
    def reset(self) -> "GroupGeometry":
        """Empty every row."""
        return GroupGeometry(empty(self.place), (0,) * self.rows)

    # -- rows come and go ---------------------------------------------------------------------------------------------

    @clause("ROWS-16", "ROWS-17", "ROWS-21", "PAD-10")
    def filtered(self, rows: Sequence[int]) -> tuple["GroupGeometry", int]:
        """Keep ``rows``, in this order; return the first column that is kept too.

        A growing group at rest drops the left padding that is common to the rows it keeps.
        """
        if not rows:
            start = 0 if self.place.in_round else None
            return GroupGeometry(empty(self.place).at_start(start)), 0
        offsets = tuple(self.offsets[row] for row in rows)
        ends = None if self.ends is None else tuple(self.ends[row] for row in rows)
        place, pads = self.place, self.left_pads
        if isinstance(place, RingGeometry) or not self.at_rest:
            return GroupGeometry(place, offsets, ends), 0
        first = min(pads[row] for row in rows)
        start = None if place.start is None else place.start - first
        return GroupGeometry(FullGeometry(place.offset - first, place.columns - first, start), offsets), first

    @clause("ROWS-12", "ROWS-13")
    def extracted(self, row: int) -> tuple[Place, tuple[Range, ...]]:
        """Return where ``row`` stands alone, and which columns it then holds, in temporal order.

        Raises:
            PaddingError: if padding is announced.
        """
        self.refuse_unrest("an extraction")
        ranges = self.columns_of(row)
        columns = sum(stop - start for start, stop in ranges)
        if isinstance(self.place, FullGeometry):
            return FullGeometry(columns, columns), ranges
        return RingGeometry(self.place.window, 0, self.offsets[row], columns, columns), ranges

    def columns_of(self, row: int) -> tuple[Range, ...]:
        """Return the columns that hold the positions of ``row``, without padding, in temporal order."""
        return _newest(self.place, min(self.held(row), self.place.active))


@clause("ROWS-6")
def joined(start: Place, offsets: tuple[int, ...], columns: int) -> GroupGeometry:
    """Return where rows of ``offsets`` stand once they are joined in ``columns`` columns, newest last."""
    if isinstance(start, FullGeometry):
        return GroupGeometry(FullGeometry(columns, columns), offsets)
    total = max(columns, *offsets)  # a full ring has fewer columns than its offset says
    return GroupGeometry(RingGeometry(start.window, 0, total, columns, columns), offsets)


def empty(place: Place) -> Place:
    """Return where an empty cache of the same kind stands."""
    return FullGeometry() if isinstance(place, FullGeometry) else RingGeometry(place.window)


@clause("ROWS-29")
def row_index(row: object, rows: int) -> int:
    """Return ``row`` as an ``int`` that is the index of a row.

    Raises:
        RowError: if it is none.
    """
    found = as_integer(row)
    if found is None or not 0 <= found < rows:
        possible = f"the rows are 0 to {rows - 1}" if rows else "the group has no rows"
        raise RowError(f"row {row!r}", possible, "ROWS-29")
    return found


@clause("ROWS-18")
def row_indices(asked: Sequence[object], rows: int) -> tuple[int, ...]:
    """Return rows as distinct indices, in the order given.

    Raises:
        RowError: if one is no row, or comes twice.
    """
    found = tuple(row_index(row, rows) for row in asked)
    if len(set(found)) != len(found):
        raise RowError(f"rows {list(found)}", "each row can be named once", "ROWS-18")
    return found


def _padding(name: str, found: object) -> tuple[int, ...] | None:
    """Check one list of a preparation."""
    if found is None:
        return None
    if not isinstance(found, Sequence) or isinstance(found, str):
        raise PaddingError(f"{name} {found!r}", "a sequence of one number per row is needed", "PAD-12")
    entries = cast("Sequence[object]", found)
    numbers = [as_integer(entry) for entry in entries]
    if any(number is None or number < 0 for number in numbers):
        raise PaddingError(f"{name} {list(entries)}", "integers of at least 0 are needed", "PAD-12")
    return tuple(number for number in numbers if number is not None)


def _first(place: Place, columns: int, cut: int) -> Place:
    """Return the place in which only the first ``columns`` columns, ``cut`` fewer, are left."""
    if isinstance(place, FullGeometry):
        return FullGeometry(columns, columns)
    return RingGeometry(place.window, 0, place.offset - cut, columns, columns)


def _newest(place: Place, count: int) -> tuple[Range, ...]:
    """Return the newest ``count`` active columns, in temporal order."""
    last = place.write_index
    if isinstance(place, FullGeometry) or count <= last:
        return ((last - count, last),) if count else ()
    older = (place.window - (count - last), place.window)
    return (older, (0, last)) if last else (older,)
