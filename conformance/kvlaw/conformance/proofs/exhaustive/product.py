"""A state of the product of a group's layout and its history, and its normal form up to a shift of positions.

Token ids begin at 1: in a normal form the id of a row's position p is p + 1. A column that holds no position of its row
(padding, spare, stale, or older than every window) holds 0, so whoever sees a 0 has seen what no query may see.
"""

from collections.abc import Sequence
from operator import sub

from attrs import evolve, field, frozen

from kvlaw.reference.history import Padding, Row
from kvlaw.reference.index_group_state import Group

DEAD = 0
"""The id of a column that no query of its row may see."""


class ViolationError(Exception):
    """Say what layout and history disagree on."""


def demand(holds: bool, message: str) -> None:
    """Raise ViolationError with `message` unless `holds`."""
    if not holds:
        raise ViolationError(message)


@frozen(cache_hash=True)
class Line:
    """One row: its history, and its columns.

    row: the tokens by position. padding: what is still to come. over: columns of right padding not yet taken off.
    cells: the id in each physical column.
    """

    row: Row = field(factory=Row)
    padding: Padding = field(factory=Padding)
    over: int = 0
    cells: tuple[int, ...] = ()

    @property
    def raw_offset(self) -> int:
        """Give the offset that the layout must have: padding counts, unused left padding negatively."""
        return self.row.offset - self.padding.before + self.over

    def newest(self, window: int | None) -> tuple[int, ...]:
        """Give the ids that a reader is owed."""
        return self.row.tokens if window is None else self.row.tokens[-window:]

    def appended(self, length: int) -> tuple["Line", tuple[int, ...], tuple[int, ...]]:
        """Append `length` columns to the history alone.

        Returns the line, the ids that the columns hold, and which of them are real tokens.
        """
        real = self.padding.real(length)
        ids = tuple(range(self.row.offset + 1, self.row.offset + 1 + len(real)))
        held = dict(zip(real, ids, strict=True))
        late = 0 if self.padding.until is None else max(0, length - self.padding.until)
        line = Line(self.row.appended(ids), self.padding.after(length), self.over + late, self.cells)
        return line, tuple(held.get(index, DEAD) for index in range(length)), real


@frozen(cache_hash=True)
class Product:
    """Hold the integers of a group, a line for each row, and the columns that every row was given.

    given: columns appended to all rows less those taken from all of them; it is counted without the layout.
    drafted: columns appended in the open round, the same number to every row; None if no round is open.
    """

    group: Group
    lines: tuple[Line, ...] = field(default=(), converter=tuple[Line, ...])
    given: int = 0
    drafted: int | None = None

    @property
    def window(self) -> int | None:
        """Give W, None for a growing group."""
        return self.group.window

    @property
    def pads(self) -> bool:
        """Tell whether padding is still to come, or right padding to be taken off, in any row."""
        return any(line.padding.pends for line in self.lines)

    @property
    def ends_pend(self) -> bool:
        """Tell whether right padding was announced and not finished."""
        return any(line.padding.until is not None for line in self.lines)

    @property
    def rests(self) -> bool:
        """Tell that no padding is to come or to be taken off, and that no round is open."""
        return not self.pads and self.drafted is None

    @property
    def owed(self) -> int | None:
        """Count the newest positions of a row that must be there: W, and in a round all of the round beside them."""
        return None if self.window is None else self.window + (self.drafted or 0)

    @property
    def cut(self) -> int:
        """Count the columns of right padding that all rows have passed."""
        return min((line.over for line in self.lines), default=0)

    @property
    def shortest(self) -> int:
        """Give the least offset of a row, 0 without rows."""
        return min((line.row.offset for line in self.lines), default=0)


def empty(window: int | None, rows: int) -> Product:
    """Give a new group of empty rows."""
    return Product(Group(window, offsets=(0,) * rows), (Line(),) * rows)


def serial(window: int | None, length: int) -> Product:
    """Give a serial cache as a group of one row: `length` positions, as far as it holds them, in temporal order."""
    kept = length if window is None else min(length, window)
    tokens = tuple(range(1, length + 1))
    group = Group(window, kept, kept, offsets=(length,))
    return Product(group, (Line(Row(tokens), cells=tokens[length - kept :]),), kept)


def moved(cells: Sequence[int], sources: Sequence[int | None]) -> tuple[int, ...]:
    """Move columns as a plan says; raises ViolationError where a source is no column."""
    for source in sources:
        demand(source is None or 0 <= source < len(cells), f"a plan moves column {source} of {len(cells)}")
    return tuple(DEAD if source is None else cells[source] for source in sources)


def shift_from(window: int) -> int:
    """Give the offset from which on only the newest positions of a row of a ring tell its states apart.

    2W + 2 is the most columns that a ring has here (W + L of a block of L = W + 2 while ends are pending, W + K in a
    round of K = W + 2): no number that a row is compared with is larger. In a round it is the offset at which the round
    began that counts, for a roll back leads there.
    """
    return 2 * window + 2


SPARE = 8
"""Spare columns of a growing group beyond which their number does not matter: no search fills as many."""


def normal_form(state: Product) -> Product:
    """Renumber the tokens of each row by position, shift positions down, and forget ids that no query may see."""
    window, group, drafted = state.window, state.group, state.drafted or 0
    if window is None:
        columns = min(group.columns, group.write_index + SPARE)
        lines = [_forgotten(line, 0, 0, columns) for line in state.lines]
        return evolve(state, group=evolve(group, columns=columns), lines=lines)
    shifts = [max(0, line.row.offset - drafted - shift_from(window)) for line in state.lines]
    lines = [
        _forgotten(line, max(0, line.row.offset - drafted - window), shift, group.columns)
        for line, shift in zip(state.lines, shifts, strict=True)
    ]
    if any(shifts):
        group = evolve(
            group,
            offsets=tuple(map(sub, group.offsets, shifts)),
            ends=None if group.ends is None else tuple(map(sub, group.ends, shifts)),
            starts=None if group.starts is None else tuple(map(sub, group.starts, shifts)),
        )
    passed = max((line.over for line in lines), default=0)
    return Product(group, lines, min(state.given, window + drafted + passed), state.drafted)


def _forgotten(line: Line, oldest: int, shift: int, columns: int) -> Line:
    """Give a line `shift` positions earlier, without ids that stand at no position from `oldest` on."""
    offset = line.row.offset
    cells = tuple([cell - shift if oldest < cell <= offset else DEAD for cell in line.cells[:columns]])
    if shift == 0:
        return line if cells == line.cells else Line(line.row, line.padding, line.over, cells)
    return Line(Row(tuple(range(1, offset - shift + 1))), line.padding, line.over, cells)
