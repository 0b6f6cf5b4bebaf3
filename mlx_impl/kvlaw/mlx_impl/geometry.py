"""Where positions stand: host integers only, immutable, no array in sight.

A ``Geometry`` says how many columns are allocated and which of them hold which positions.  It answers every append
with a ``Plan``: which columns to keep, how many to add, where to write, what to fetch, and the geometry afterwards.
``planes`` moves arrays by a plan; nothing else decides where a column goes.

``FullGeometry`` grows for ever in steps of 256 columns.  ``RingGeometry`` keeps the newest ``window`` positions, the
first ``sinks`` of all positions pinned at columns ``[0, sinks)`` (geometry.md sections 1, 3, 6 and 7).

``plans`` remembers plans, so that layers that stand at the same place share one.
"""

from abc import ABC, abstractmethod

import attrs

from kvlaw.mlx_impl.counts import as_integer
from kvlaw.mlx_impl.errors import RoundError, TrimError, WindowError
from kvlaw.spec.cite import clause

STEP = 256
"""Columns that a growing allocation gains at a time."""

Index = tuple[slice, slice, slice]
"""A range of columns of planes ``[B, H, S, D]``, ready to index with."""

ALL = slice(None)


@attrs.frozen
class Plan:
    """One append: either ``write`` in place, or lay out ``front``, the new columns, ``back`` and ``spare`` zeros.

    ``fetch`` is the range that a read of this append fetches, None for all columns, ``pins`` another that it fetches
    before that; ``then`` is the geometry after it.
    """

    then: "Geometry"
    write: Index | None = None
    front: tuple[Index, ...] = ()
    back: tuple[Index, ...] = ()
    spare: int = 0
    fetch: Index | None = None
    pins: Index | None = None


class Geometry(ABC):
    """What every kind has: ``offset`` positions appended, ``columns`` allocated, ``write_index`` the next to write.

    Columns before ``active`` count, the rest is spare.  ``start`` is the offset at which the open round began, None if
    none is open.  What is not abstract holds for a cache that evicts nothing.
    """

    offset: int
    columns: int
    write_index: int
    start: int | None

    @property
    def size(self) -> int:
        """Return how many positions a reader is owed (POS-6)."""
        return self.offset

    @property
    def active(self) -> int:
        """Return how many columns, from column 0, count."""
        return self.write_index

    @property
    def history(self) -> int:
        """Return how many old columns the fetch of a window begins with."""
        return self.active

    @property
    def decode_width(self) -> int:
        """Return how many columns the fetch of the next decode has."""
        return self.active + 1

    @property
    def decode_oldest(self) -> int:
        """Return the physical column of the oldest fetched position after the next decode."""
        return 0

    @property
    def pinned(self) -> int:
        """Return how many first positions stay visible for ever."""
        return 0

    @clause("MASK-4")
    def bound(self, window: int | None) -> int | None:
        """Return how many newest positions a query sees if a mask is asked for with ``window``; None for all.

        Raises:
            WindowError: if this cache cannot honour it (MASK-13).
        """
        return window

    @abstractmethod
    def append_in_place(self) -> Plan:
        """Plan an append of one position, in place."""

    @abstractmethod
    def append_block(self, length: int, spared: int = 0) -> Plan:
        """Plan an append of ``length`` >= 1 positions as one block that evicts ``spared`` columns fewer than it may."""

    @property
    def in_round(self) -> bool:
        """Say whether a round is open."""
        return self.start is not None

    @property
    def appended(self) -> int:
        """Return how many positions were appended in the open round."""
        return 0 if self.start is None else self.offset - self.start

    @clause("ROUND-7", "ROUND-16")
    def begun(self) -> "Geometry":
        """Open a round.

        Raises:
            RoundError: if one is open.
        """
        if self.start is not None:
            raise RoundError("a round in a round", f"one is open since position {self.start}", "ROUND-7")
        return self.at_start(self.offset)

    @clause("ROUND-7")
    def tail(self, keep: object) -> int:
        """Return how many positions a roll back that keeps ``keep`` takes back.

        Raises:
            RoundError: if no round is open, or ``keep`` is not from 0 to what was appended in it.
        """
        if self.start is None:
            raise RoundError("an end of a round", "no round is open", "ROUND-7")
        kept = as_integer(keep)
        if kept is None or not 0 <= kept <= self.appended:
            raise RoundError(f"a roll back that keeps {keep!r}", f"0 to {self.appended} can be kept", "ROUND-7")
        return self.appended - kept

    @abstractmethod
    def at_start(self, start: int | None) -> "Geometry":
        """Return the same place in a round that began at ``start``, or in none."""

    @abstractmethod
    def taken_back(self, count: int) -> "Geometry":
        """Close the round and take back its newest ``count`` positions; columns beyond are cut off."""

    @clause("ROUND-9")
    def refuse_round(self, asked: str) -> None:
        """Refuse what cannot be done in a round.

        Raises:
            RoundError: if one is open.
        """
        if self.start is not None:
            raise RoundError(f"{asked} in a round", "commit it or roll it back first", "ROUND-9")

    @abstractmethod
    def can_trim(self, count: int) -> bool:
        """Say whether the newest ``count`` positions can be dropped without moving a column."""

    @abstractmethod
    def trim(self, count: int) -> "Geometry":
        """Drop the newest ``count`` positions; no column moves.

        Raises:
            TrimError: if that is not possible.
        """

    @abstractmethod
    def cut(self, count: int) -> "Geometry":
        """Drop the newest ``count`` positions by bypass.

        Raises:
            TrimError: if that is not possible.
        """


@attrs.frozen(cache_hash=True)
class FullGeometry(Geometry):
    """Columns ``[0, offset)`` hold positions ``[0, offset)``."""

    offset: int = 0
    columns: int = 0
    start: int | None = None

    @property
    def write_index(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]  # derived: never assigned
        """Return the offset: a growing cache writes where its positions end."""
        return self.offset

    def append_in_place(self) -> Plan:
        """Plan an append of one position: a block of one."""
        return self.append_block(1)

    @clause("GROW-1", "GROW-3")
    def append_block(self, length: int, spared: int = 0) -> Plan:
        """Write behind the offset; beyond the allocation, grow to the next multiple of ``STEP`` first."""
        end = self.offset + length
        if end <= self.columns:
            then = FullGeometry(end, self.columns, self.start)
            return Plan(then, write=columns_index(self.offset, end), fetch=_prefix(end, self.columns))
        columns = -(-end // STEP) * STEP
        front = _ranges((0, self.offset))  # stale columns beyond the offset are cut
        then = FullGeometry(end, columns, self.start)
        return Plan(then, front=front, spare=columns - end, fetch=_prefix(end, columns))

    @clause("TRIM-1", "TRIM-6")
    def can_trim(self, count: int) -> bool:
        """Say whether at least ``count`` positions are held, outside a round."""
        return self.start is None and 0 <= count <= self.offset

    def at_start(self, start: int | None) -> "FullGeometry":
        """Return the same place in another round, or in none."""
        return FullGeometry(self.offset, self.columns, start)

    @clause("ROUND-14")
    def taken_back(self, count: int) -> "FullGeometry":
        """Lower the offset; the columns stay."""
        return FullGeometry(self.offset - count, self.columns)

    def trim(self, count: int) -> "FullGeometry":
        """Lower the offset; the columns stay."""
        self.refuse_round(f"a trim of {count}")
        if not self.can_trim(count):
            possible = f"a growing cache of offset {self.offset} can drop 0 to {self.offset}"
            raise TrimError(f"trim of {count}", possible, "TRIM-6", "TRIM-7")
        return FullGeometry(self.offset - count, self.columns)

    def cut(self, count: int) -> "FullGeometry":
        """Trim: nothing is in the way of a growing cache."""
        return self.trim(count)


@attrs.frozen(cache_hash=True)
class RingGeometry(Geometry):
    """A ring of ``window`` positions, the first ``sinks`` positions pinned at columns ``[0, sinks)``.

    ``rotated`` says that the write index has wrapped since the last block.  ``block`` counts the columns of the last
    block that a bypass trim may still cut; a decode and a plain trim end that.
    """

    window: int
    sinks: int = 0
    offset: int = 0
    columns: int = 0
    write_index: int = 0
    rotated: bool = False
    block: int = 0
    start: int | None = None

    @property
    def size(self) -> int:
        """Return at most the window."""
        return min(self.offset, self.window)

    @property
    def active(self) -> int:
        """Return the window once the write index has wrapped."""
        return self.window if self.rotated else self.write_index

    @property
    @clause("RING-4")
    def history(self) -> int:
        """Return at most window - 1: with it the first query of a window sees its whole window."""
        return min(self.active, self.window - 1)

    @property
    def decode_width(self) -> int:
        """Return at most the window."""
        return min(self.active + 1, self.window)

    @property
    def decode_oldest(self) -> int:
        """Return, on a full ring, the column after the one that the decode writes (W means 0); in a round the first.

        Only narrower masks ask, and a ring with sinks has none.
        """
        if self.active < self.window or self.start is not None:
            return 0
        return (0 if self.write_index >= self.window else self.write_index) + 1

    @property
    def pinned(self) -> int:
        """Return the sinks."""
        return self.sinks

    @clause("MASK-8", "MASK-9", "MASK-13")
    def bound(self, window: int | None) -> int:
        """Return ``window``, at most the ring's own; with sinks it cannot be narrowed."""
        if window is None or window >= self.window:
            return self.window
        if self.sinks:
            asked, possible = f"window argument {window}", f"with {self.sinks} sinks only {self.window} or more"
            raise WindowError(asked, f"{possible} can be honoured", "MASK-13")
        return window

    @clause("RING-2", "RING-3", "RING-6", "RING-7", "RING-9")
    def append_in_place(self) -> Plan:
        """Plan, in this order: grow, drop the overshoot of a window, or write in place, wrapping first.

        In a round a decode is a block too.
        """
        if self.start is not None:
            return self.append_block(1)
        if self.write_index == self.columns < self.window:
            return self._grow(min(STEP, self.window - self.columns))
        if self.columns > self.window:
            return self._drop_overshoot()
        wrap = self.write_index == self.window
        at = self.sinks if wrap else self.write_index
        then = self._after(1, self.columns, at + 1, rotated=self.rotated or wrap)
        return Plan(then, write=columns_index(at, at + 1), fetch=_prefix(then.active, then.columns))

    def _grow(self, added: int) -> Plan:
        then = self._after(1, self.columns + added, self.columns + 1, rotated=False)
        fetch = _prefix(then.active, then.columns)
        return Plan(then, front=_ranges((0, self.columns)), spare=added - 1, fetch=fetch)

    def _drop_overshoot(self) -> Plan:
        """Keep the pins and the newest ``window - sinks - 1`` columns; the new one replaces the oldest of the rest."""
        oldest = self.sinks + self.columns - self.window
        then = self._after(1, self.window, self.sinks + 1, rotated=True)
        return Plan(then, front=_ranges((0, self.sinks)), back=_ranges((oldest + 1, self.columns)))

    @clause("RING-4", "RING-5", "RING-9", "RING-15", "ROUND-8", "ROUND-15")
    def append_block(self, length: int, spared: int = 0) -> Plan:
        """Re-lay in temporal order, keep the pins and the newest ``history`` and ``spared`` in all, append.

        In a round the newest ``window`` from before it are kept, and all that was appended in it.
        """
        spared = spared if self.start is None else self.appended + 1
        kept = min(self.active, self.window - 1 + spared)
        columns, unseen = kept + length, kept - self.history
        then = self._after(length, columns, columns, rotated=False, block=length if self.start is None else 0)
        front = _without(self._temporal(), self.sinks, self.active - kept)
        if not unseen:
            return Plan(then, front=front)
        pins = columns_index(0, self.sinks) if self.sinks else None
        return Plan(then, front=front, fetch=columns_index(self.sinks + unseen, columns), pins=pins)

    def _temporal(self) -> list[tuple[int, int]]:
        if not self.rotated:
            return [(0, self.write_index)]
        return [(0, self.sinks), (self.write_index, self.window), (self.sinks, self.write_index)]

    def _after(self, length: int, columns: int, write_index: int, *, rotated: bool, block: int = 0) -> "RingGeometry":
        offset = self.offset + length
        return RingGeometry(self.window, self.sinks, offset, columns, write_index, rotated, block, self.start)

    def at_start(self, start: int | None) -> "RingGeometry":
        """Return the same place in another round, or in none."""
        return attrs.evolve(self, start=start)

    @clause("ROUND-2", "ROUND-14")
    def taken_back(self, count: int) -> "RingGeometry":
        """Cut off the newest columns: behind a block they lie in temporal order."""
        if not count:
            return self.at_start(None)
        columns = self.columns - count
        return RingGeometry(self.window, self.sinks, self.offset - count, columns, columns)

    @clause("TRIM-2", "TRIM-6")
    def can_trim(self, count: int) -> bool:
        """Say whether nothing was evicted and at least ``count`` positions are held, outside a round."""
        return self.start is None and self.offset < self.window and 0 <= count <= self.offset

    def trim(self, count: int) -> "RingGeometry":
        """Move the write index and the offset back; dropping nothing changes nothing."""
        self.refuse_round(f"a trim of {count}")
        if not self.can_trim(count):
            raise TrimError(f"trim of {count}", self._trim_limit(), "TRIM-6", "TRIM-7")
        return self._after(-count, self.columns, self.write_index - count, rotated=False) if count else self

    def _trim_limit(self) -> str:
        if self.offset < self.window:
            return f"a ring of offset {self.offset} can drop 0 to {self.offset}"
        return f"a ring of window {self.window} can drop nothing once its offset has reached it ({self.offset})"

    @clause("TRIM-11", "TRIM-12")
    def cut(self, count: int) -> "RingGeometry":
        """Drop the newest columns of the block just appended."""
        self.refuse_round(f"a bypass trim of {count}")
        if not 0 <= count <= self.block:
            left = f"{self.block} positions of a window just appended are left"
            raise TrimError(f"bypass trim of {count}", left, "TRIM-12")
        columns = self.columns - count
        return self._after(-count, columns, columns, rotated=False, block=self.block - count) if count else self


def columns_index(start: int, stop: int) -> Index:
    """Return the index of columns ``[start, stop)``."""
    return (ALL, ALL, slice(start, stop))


def _prefix(stop: int, columns: int) -> Index | None:
    return None if stop == columns else (ALL, ALL, slice(stop))  # MLX reads no start faster than a 0


def _ranges(*pairs: tuple[int, int]) -> tuple[Index, ...]:
    """Write ranges of columns as indices: empty ones left out, adjoining ones joined."""
    joined: list[tuple[int, int]] = []
    for start, stop in pairs:
        if start >= stop:
            continue
        if joined and joined[-1][1] == start:
            start = joined.pop()[0]  # noqa: PLW2901  # the range grows to the left
        joined.append((start, stop))
    return tuple(columns_index(start, stop) for start, stop in joined)


def _without(order: list[tuple[int, int]], at: int, count: int) -> tuple[Index, ...]:
    """Leave out ``count`` columns from place ``at`` of a temporal ``order``."""
    kept: list[tuple[int, int]] = []
    place = 0
    for start, stop in order:
        first, last = at - place, at + count - place  # the dropped columns, as places in this range
        length = stop - start
        kept.append((start, start + min(max(first, 0), length)))
        kept.append((start + min(max(last, 0), length), stop))
        place += length
    return _ranges(*kept)
