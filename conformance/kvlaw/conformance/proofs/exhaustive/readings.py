"""What the queries of an append see: every entry of its masks against the law of visibility."""

from collections.abc import Iterator, Sequence
from functools import cache
from operator import sub

from attrs import field, frozen

from kvlaw.conformance.proofs.exhaustive.product import ViolationError, demand
from kvlaw.reference import index_group_masks as masks
from kvlaw.reference.history import sees
from kvlaw.reference.index_group_state import Group, appended_in_round
from kvlaw.reference.index_masks import MaskKind
from kvlaw.reference.index_plans import Phase

Entries = tuple[tuple[bool, ...], ...]


@cache
def law(query: int, window: int | None) -> tuple[int, ...]:
    """List the ids that the query at a position sees, oldest first."""
    return tuple(position + 1 for position in range(query + 1) if sees(query, position, window))


@frozen
class Reading:
    """Hold one append as its queries see it.

    before: the group before it. fetch: the columns that it reads. offsets: per row, tokens before it; unused: left
    padding before them.
    fetched: per row, the ids in `fetch`. reals: per row, which of its `length` columns are real tokens.
    """

    before: Group
    phase: Phase
    length: int
    fetch: tuple[int, ...]
    offsets: tuple[int, ...]
    unused: tuple[int, ...]
    fetched: tuple[tuple[int, ...], ...]
    reals: tuple[tuple[int, ...], ...]

    def entries(self, row: int, argument: int | None) -> Entries:
        """Ask the layout for the mask of a row, query by column of the fetch."""
        if self.phase == "decode":
            return (tuple([masks.decode_visible(self.before, row, column, argument) for column in self.fetch]),)
        width = range(len(self.fetch))
        return tuple(
            [
                tuple([masks.block_visible(self.before, row, self.length, i, j, argument) for j in width])
                for i in range(self.length)
            ]
        )

    @property
    def geometry(self) -> tuple[object, ...]:
        """Give all that a mask may depend on: of an end only the right padding that was passed."""
        group = self.before
        ends = group.offsets if group.ends is None else map(min, group.offsets, group.ends)
        drafted = None if group.starts is None else appended_in_round(group)
        place = (group.columns, group.write_index, group.rotated)
        return (self.phase, self.length, place, group.offsets, tuple(ends), drafted)


Masks = tuple[tuple[int | None, tuple[Entries, ...], MaskKind], ...]
"""Per window argument: the entries of every row, and the kind of the mask."""


@frozen
class Reader:
    """Check readings. Readings of the same geometry have the same masks, which are asked of the layout once."""

    known: dict[tuple[object, ...], Masks] = field(factory=dict[tuple[object, ...], Masks])

    def check(self, reading: Reading) -> None:
        """Compare what each real query sees with the law, and the kind of the mask; raises ViolationError."""
        key, first = reading.geometry, False
        if key not in self.known:
            self.known[key], first = _masks(reading), True
        window = reading.before.window
        for argument, entries, kind in self.known[key]:
            narrow = argument if window is None else window if argument is None else min(argument, window)
            name = "" if argument is None else f", window argument {argument},"
            for row, entry in enumerate(entries):
                _check_row(reading, row, entry, narrow, name)
            if first:
                _check_kind(reading, entries, kind, narrow, name)


def _masks(reading: Reading) -> Masks:
    return tuple(
        (
            argument,
            tuple([reading.entries(row, argument) for row in range(len(reading.offsets))]),
            masks.mask_kind(reading.before, reading.length, reading.phase, argument),
        )
        for argument in (None, *_arguments(reading))
    )


def _arguments(reading: Reading) -> Iterator[int]:
    """List the window arguments worth asking: all that narrow, and one that does not."""
    window = reading.before.window
    yield from range(1, len(reading.fetch) + 2 if window is None else window)
    if window is not None:
        yield window + 1


def _check_row(reading: Reading, row: int, entries: Entries, window: int | None, name: str) -> None:
    fetched = reading.fetched[row]
    for number, i in enumerate(reading.reals[row]):
        seen = tuple([cell for cell, shown in zip(fetched, entries[i], strict=True) if shown])
        query = reading.offsets[row] + number
        if reading.phase == "decode":  # in physical order
            seen = tuple(sorted(seen))
        if seen != law(query, window):
            raise ViolationError(f"row {row}{name} sees {seen} at position {query}, not {law(query, window)}")


def _check_kind(reading: Reading, entries: Sequence[Entries], kind: MaskKind, narrow: int | None, name: str) -> None:
    """A mask is none or causal exactly by the rule of MASK-14 and MASK-15, and then every real query sees just that."""
    width = len(reading.fetch)
    past = width - reading.length
    fits = (narrow is None or width <= narrow) and all(past <= at for at in map(sub, reading.offsets, reading.unused))
    expected = "array" if not fits else "none" if reading.phase == "decode" else "causal"
    demand(kind == expected, f"a {reading.phase}{name} has mask {kind}, not {expected}")
    for row, entry in enumerate(entries) if fits else ():
        for i in reading.reals[row]:
            plain = tuple(j <= past + i for j in range(width))
            demand(entry[i] == plain, f"a {reading.phase}{name} has mask {kind}, but query {i} of row {row} has not")
