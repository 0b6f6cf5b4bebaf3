"""The meaning of recurrent rows: a row is the list of its tokens, and its state follows from them.

There is no tail, no matrix and no snapshot here: ``kvlaw.spec.slots`` says what a list of tokens leaves in either.
So a round that is taken back is a list cut short, and padding is what never enters one.  A cache of one sequence is one
row.
"""

from collections.abc import Sequence

from attrs import evolve, field, frozen

from kvlaw.reference.history import Padding
from kvlaw.spec.cite import clause
from kvlaw.spec.config import LayerSpec

Tokens = tuple[int, ...]
Counts = tuple[int, ...]


@frozen
class RecurrentModel:
    """Rows of one recurrent layer.

    ``holds`` says whether there are arrays: none before the first advance.  ``starts`` are, in an open round, how many
    tokens each row had when it began, and ``held`` whether there were arrays; ``appended`` counts its columns.
    ``related`` says that a twin, a source or a row of it may go its own way, ``emptied`` that it was reset.
    """

    layer: LayerSpec
    rows: tuple[Tokens, ...] = ((),)
    paddings: tuple[Padding, ...] = (Padding(),)
    holds: bool = False
    starts: Counts | None = None
    held: bool = False
    appended: int = 0
    related: bool = False
    emptied: bool = False
    version: int = field(default=0)

    @classmethod
    def empty(cls, layer: LayerSpec, count: int = 1) -> "RecurrentModel":
        """Make rows without a token."""
        return cls(layer, ((),) * count, (Padding(),) * count)

    @property
    def is_rows(self) -> bool:
        """It is a group of rows."""
        return self.layer.is_rows

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.rows)

    @property
    def in_round(self) -> bool:
        """A round is open."""
        return self.starts is not None

    @property
    def pends(self) -> bool:
        """Padding is announced that is still to come, or whose end is not yet said."""
        return any(padding.pends for padding in self.paddings)

    def offset(self, row: int) -> int:
        """The next position of a row; unused left padding counts below 0."""
        before = self.paddings[row].before
        return -before if before else len(self.rows[row])

    @property
    def furthest(self) -> int:
        """The next position of the row that is furthest."""
        return max((self.offset(b) for b in range(self.count)), default=0)

    # Positions.

    def real(self, length: int) -> tuple[Counts, ...]:
        """List of each row which of the next columns are its tokens."""
        return tuple(padding.real(length) for padding in self.paddings)

    @clause("REC-1", "REC-8")
    def advanced(self, tokens: tuple[Tokens, ...]) -> "RecurrentModel":
        """Give each row those of its tokens that are no padding."""
        length = len(tokens[0])
        own = (tuple(given[i] for i in real) for given, real in zip(tokens, self.real(length), strict=True))
        rows = tuple(row + more for row, more in zip(self.rows, own, strict=True))
        paddings = tuple(padding.after(length) for padding in self.paddings)
        appended = self.appended + length if self.in_round else 0
        return self._after(rows=rows, paddings=paddings, holds=True, appended=appended)

    # Padding.

    @clause("REC-8")
    def prepared(self, left: Counts | None, lengths: Counts | None, right: Counts | None) -> "RecurrentModel":
        """Announce the padding of the columns that come next."""
        count = self.count or next((len(given) for given in (left, lengths, right) if given is not None), 0)
        ends: Sequence[int | None] = lengths if lengths is not None and any(right or ()) else (None,) * count
        paddings = tuple(Padding(*pair) for pair in zip(left or (0,) * count, ends, strict=True))
        return self._after(rows=self.rows or ((),) * count, paddings=paddings)

    @clause("REC-8")
    def finalized(self) -> "RecurrentModel":
        """Say that every row is at the end of its right padding."""
        return self._after(paddings=tuple(evolve(padding, until=None) for padding in self.paddings))

    # Rounds.

    def begun(self) -> "RecurrentModel":
        """Open a round."""
        return self._after(starts=tuple(map(len, self.rows)), held=self.holds, appended=0)

    @clause("REC-6")
    def closed(self, keeps: Counts) -> "RecurrentModel":
        """Close the round and keep in each row the first tokens of it."""
        kept = zip(self.rows, self.starts or (), keeps, strict=True)
        rows = tuple(row[: start + keep] for row, start, keep in kept)
        return self._after(rows=rows, holds=self.holds if any(keeps) else self.held, starts=None, appended=0)

    # Rows.

    @clause("REC-11")
    def filtered(self, numbers: Counts) -> "RecurrentModel":
        """Keep these rows, in this order."""
        return self._after(
            rows=tuple(self.rows[b] for b in numbers),
            paddings=tuple(self.paddings[b] for b in numbers),
            starts=None if self.starts is None else tuple(self.starts[b] for b in numbers),
            holds=self.holds and bool(numbers),
            held=self.held and bool(numbers),
        )

    @clause("REC-10")
    def extracted(self, number: int) -> "RecurrentModel":
        """Make the cache of one row."""
        row = self.rows[number]
        return RecurrentModel(self.layer.serial, (row,), holds=self.holds and bool(row), related=True)

    @clause("REC-16")
    def reset(self) -> "RecurrentModel":
        """Empty every row."""
        return evolve(RecurrentModel.empty(self.layer, self.count), emptied=True, version=self.version + 1)

    def with_relatives(self) -> "RecurrentModel":
        """Remember that others were made of it."""
        return evolve(self, related=True)

    def _after(self, **changes: object) -> "RecurrentModel":
        return evolve(self, version=self.version + 1, **changes)


@clause("REC-9")
def merged(sources: Sequence[RecurrentModel]) -> RecurrentModel:
    """Make a group of the rows of its sources, in their order."""
    rows = tuple(row for source in sources for row in source.rows)
    holds = any(source.holds for source in sources)
    return RecurrentModel(sources[0].layer.grouped, rows, (Padding(),) * len(rows), holds, related=True)
