"""Groups of rows: sequences of their own that are appended to, read and decoded together.

A ``RowGroup`` holds B aligned rows of one kind.  Each row is stored, seen and positioned as it would be alone; the rows
share their columns, so that one append writes all of them and one call attends all of them.  Rows join by ``merge``,
leave by ``extract``, ``hand_back`` and ``filter``, and prompts of different lengths are padded: ``prepare`` announces
how, ``finalize`` takes the right padding off again.

Every call reads the same: check, plan (integers), move (arrays), and only then let the group hold what came out.  What
is refused, and an operation that fails, leaves everything as it was.
"""

from collections.abc import Sequence
from typing import Literal, Self

import attrs
import mlx.core as mx

from kvlaw.mlx_impl.caches import Cache
from kvlaw.mlx_impl.counts import as_count, as_integer
from kvlaw.mlx_impl.errors import ConfigError, RowError
from kvlaw.mlx_impl.geometry import FullGeometry, RingGeometry
from kvlaw.mlx_impl.group_appends import GroupAppends
from kvlaw.mlx_impl.group_content import (
    GroupContent,
    emptied,
    filtered,
    finalized,
    prepared,
    taken_back,
    taken_out,
)
from kvlaw.mlx_impl.group_merge import content_of, merged
from kvlaw.mlx_impl.group_settle import settled, settled_at_once
from kvlaw.mlx_impl.precision import Start, make_precision
from kvlaw.spec.cite import clause


class RowGroup(GroupAppends):
    """Keys and values of one layer for B rows, ``[B, H, L, D]`` per append; made by ``make_rows`` and ``merge``."""

    __slots__ = ()

    @classmethod
    @clause("ROWS-5")
    def around(cls, cache: Cache) -> Self:
        """Make a group of one row of a serial cache, everything as it lies; the cache stays usable.

        Raises:
            RowError: if it has sinks, or a batch of several rows.
        """
        return cls(merged([content_of(cache)]))

    # -- padding ------------------------------------------------------------------------------------------------------

    @clause("PAD-1", "PAD-2", "PAD-12", "PAD-14", "PREC-24")
    def prepare(
        self,
        left: Sequence[int] | None = None,
        lengths: Sequence[int] | None = None,
        right: Sequence[int] | None = None,
    ) -> None:
        """Announce the padding of the columns that come next, one number per row in each list.

        ``left`` columns before a row's first token, only while there are no columns; ``right`` columns behind its last
        one, and with them ``lengths``, the columns before those.  A group without rows gets as many empty ones.

        Raises:
            PaddingError: if the lists do not fit the rows or each other, or padding is announced already.
        """
        self._hold(prepared(self.content, left, lengths, right))

    @clause("PAD-7", "PAD-8", "PREC-24")
    def finalize(self) -> None:
        """Take off the right padding that was appended, and forget where rows were to end."""
        self._hold(finalized(self.content))

    # -- precision ----------------------------------------------------------------------------------------------------

    @clause("PREC-18")
    def begin_prefill(self) -> None:
        """Convert all due rows, and none from now to ``end_prefill``, but by ``commit_prefill``; again: nothing."""
        if not self._prefilling:
            self._hold(attrs.evolve(settled(self.content), prefilling=True))

    @clause("PREC-19")
    def commit_prefill(self, rows: Sequence[int]) -> None:
        """Convert those of ``rows`` that are due.

        Raises:
            RowError: if one is no row.
        """
        self._hold(settled(self.content, [self._row(row) for row in rows]))

    @clause("PREC-20")
    def end_prefill(self) -> None:
        """Close the bracket; rows convert again as they are due."""
        self._prefilling = False

    # -- trim, reset --------------------------------------------------------------------------------------------------

    @clause("ROWS-19", "TRIM-3", "ERR-5", "PREC-17")
    def trim(self, n: int) -> int:
        """Drop exactly the newest ``n`` positions of every row and return ``n``.

        Raises:
            CountError: if ``n`` is negative or no integer.
            PaddingError: if padding is announced.
            TrimError: if a row holds fewer, or a ring is full; then nothing has changed.
        """
        count = as_count(n, "trim of", "ERR-5")
        then = self._geometry.trim(count)
        self._hold(attrs.evolve(settled_at_once(self.content), geometry=then))
        return count

    @clause("ROWS-23", "OWN-7", "OWN-9", "PAD-13", "PREC-6")
    def reset(self) -> None:
        """Empty every row and forget padding, bracket and floors; another shape or dtype may follow."""
        self._hold(emptied(self.content))

    # -- rounds -------------------------------------------------------------------------------------------------------

    @clause("ROUND-7", "ROUND-11", "ROUND-16")
    def begin_round(self) -> None:
        """Open a round of all rows, those that are due converted first.

        Raises:
            PaddingError: if padding is announced.
            RoundError: if one is open.
        """
        then = self._geometry.begun()
        self._hold(attrs.evolve(settled_at_once(self.content), geometry=then))

    @clause("ROUND-1", "ROUND-11")
    def commit_round(self) -> None:
        """Close the round and keep all of it.

        Raises:
            RoundError: if no round is open.
        """
        self.roll_back(self._geometry.place.appended)

    @clause("ROUND-2", "ROUND-10", "ROUND-11", "ROUND-13", "ROUND-14")
    def roll_back(self, keep: int | Sequence[int]) -> None:
        """Close the round and keep its first ``keep`` positions: one number for all rows, or one per row.

        Raises:
            RoundError: if no round is open, or a number is not from 0 to what was appended in it.
        """
        self._hold(settled_at_once(taken_back(self.content, keep)))

    # -- rows come and go ---------------------------------------------------------------------------------------------

    @clause("ROWS-12", "ROWS-13", "ROWS-14", "ROWS-15", "ROWS-29", "PREC-23")
    def extract(self, row: int) -> Cache:
        """Return a row as a serial cache of its own, compact, in the storage that it has now and keeps.

        Raises:
            RowError: if there is no such row.
            PaddingError: if padding is announced.
        """
        return self._taken_out(row, raw=True)

    @clause("ROWS-15", "ROWS-28", "ROWS-29", "PREC-21")
    def hand_back(self, row: int) -> Cache:
        """Return a row as a serial cache with the group's policy, converted if it is due, that goes on alone.

        Raises:
            RowError: if there is no such row.
            PaddingError: if padding is announced.
        """
        cache = self._taken_out(row, raw=False)
        cache.settle()
        return cache

    def _taken_out(self, row: int, *, raw: bool) -> Cache:
        number = row if type(row) is int and 0 <= row < self.rows else self._row(row)
        content = (self.policy, self._geometry, self._planes, self._layout, self._converted, self._floors)
        return taken_out(*content, number, raw=raw)

    @clause("ROWS-16", "ROWS-17", "ROWS-18", "PAD-10")
    def filter(self, rows: Sequence[int]) -> None:
        """Keep ``rows``, in the order given.

        Raises:
            RowError: if one is no row, or comes twice.
        """
        self._hold(filtered(self.content, rows))


@clause("ROWS-3", "ROWS-4", "ROWS-7", "ROWS-8", "ROWS-9", "ROWS-10")
def merge(sources: Sequence[Cache | RowGroup]) -> RowGroup:
    """Return a new group of all rows of groups and serial caches, in order; the sources stay as they are.

    Raises:
        RowError: if there is no source, one is neither, or they differ in kind, window or policy.
        PaddingError: if padding is announced in one.
        ShapeError, DTypeError: if their arrays do not fit each other, or the policy.
    """
    return RowGroup(merged([_content(source) for source in sources]))


def _content(source: object) -> GroupContent:
    if isinstance(source, RowGroup):
        return source.content
    if isinstance(source, Cache):
        return content_of(source)
    raise RowError(f"a merge of {type(source).__name__}", "groups and serial caches can be merged", "ROWS-8")


@clause("ERR-6", "PREC-13")
def make_rows(
    kind: Literal["full_rows", "ring_rows"],
    window: int | None = None,
    rows: int = 0,
    *,
    sinks: int = 0,
    bits: int | None = None,
    value_bits: int | None = None,
    group: int = 64,
    start: Start = None,
    kernels: str = "unfused",
    dtype: mx.Dtype | None = None,
) -> RowGroup:
    """Build a group of ``rows`` empty rows of ``kind``, with the storage policy that ``make`` builds.

    Raises:
        ConfigError: if there is no such group.
    """
    policy = make_precision(bits, value_bits, group, start, kernels, dtype)
    count, found = as_integer(rows), as_integer(window)
    if count is None or count < 0:
        raise ConfigError(f"a group of {rows!r} rows", "an integer of at least 0 is needed", "ERR-6")
    if as_integer(sinks) != 0:
        raise ConfigError(f"a group with sinks {sinks!r}", "only serial rings take them", "ERR-6")
    if kind == "full_rows":
        if window is not None:
            raise ConfigError("a growing group with a window", "only a ring takes one", "ERR-6")
        return RowGroup.of_empty_rows(FullGeometry(), policy, count)
    if kind != "ring_rows":
        raise ConfigError(f"a group of kind {kind!r}", "the kinds are 'full_rows' and 'ring_rows'", "ERR-6")
    if found is None or found < 1:
        raise ConfigError(f"a ring group of window {window!r}", "a window of at least 1 is needed", "ERR-6")
    return RowGroup.of_empty_rows(RingGeometry(found), policy, count)
