"""A row of a group as lemmas speak of it, and the position that each of its columns holds.

What happens to a row depends on the others by one number at a time: the columns that are cut from all rows, or the
shortest row. A lemma takes that number as any that can be, so it speaks of groups of any number of rows.

* `RowInOrder`: a row of a ring by the places of its columns in temporal order; what appends as a block, right padding
  and extraction need. A growing group is one with a window that nothing reaches.
* `RowAsItLies`: a row of a ring by its physical columns; what decodes and trims need. No padding pends.

`is_kept` and `is_whole` are the invariants that every operation keeps: what reads need, and what extraction needs. Only
a serial ring that lost a column to a bypass trim is not whole.
"""

from attrs import frozen

from kvlaw.reference.index_group import (
    Group,
    active,
    after_decode,
    columns_that_count,
    history,
    keep_columns,
    row_overrun,
    row_valid,
    temporal_place,
)


@frozen
class RowInOrder:
    """Hold the numbers of a row: W, columns that count, the raw offset, and the pending end."""

    window: int
    counting: int
    offset: int
    end: int | None

    @property
    def over(self) -> int:
        """Count the right padding that was passed."""
        return row_overrun(self.offset, self.end)

    @property
    def valid(self) -> int:
        """Give the next position."""
        return row_valid(self.offset, self.end)

    def past(self, cut: int) -> int:
        """Count the columns of a block's fetch that were there before it; it takes `cut` ones of padding off first."""
        return history(self.window, self.counting - cut)

    def stored(self, cut: int) -> int:
        """Count the columns that a block keeps."""
        return keep_columns(self.window, self.end is not None, self.counting - cut)

    def after_block(self, cut: int, length: int) -> "RowInOrder":
        """Give the row after a block."""
        return RowInOrder(self.window, self.stored(cut) + length, self.valid + length, self.end)

    @property
    def alone(self) -> Group:
        """Give the row, its padding settled, as a group."""
        return Group(self.window, self.counting, self.counting, False, (self.offset,))

    def beside(self, sibling: int) -> Group:
        """Give the row, its padding settled, behind one with the offset `sibling`, as a group."""
        return Group(self.window, self.counting, self.counting, False, (sibling, self.offset))


@frozen
class RowAsItLies:
    """Hold the numbers of a row whose padding is settled, and of its group."""

    window: int
    columns: int
    write_index: int
    rotated: bool
    offset: int

    @property
    def group(self) -> Group:
        """Give the row as a group."""
        return Group(self.window, self.columns, self.write_index, self.rotated, (self.offset,))

    @property
    def counting(self) -> int:
        """Count the columns that hold a position or padding."""
        return columns_that_count(self.window, self.write_index, self.rotated)

    @property
    def decoded(self) -> "RowAsItLies":
        """Give the row after a decode."""
        group = after_decode(self.group)
        return RowAsItLies(self.window, group.columns, group.write_index, group.rotated, group.offsets[0])

    def beside(self, sibling: int) -> Group:
        """Give the row behind one with the offset `sibling`, as a group."""
        return Group(self.window, self.columns, self.write_index, self.rotated, (sibling, self.offset))


def is_kept(row: RowInOrder) -> bool:
    """Tell whether a row holds what it owes: all positions, or W - 1 of them at least (a bypass trim leaves so many).

    With its right padding left out.
    """
    if row.window < 1 or row.counting < 0 or (row.end is not None and row.end < 0):
        return False
    return row.over <= row.counting and holds_enough(row.window, row.counting - row.over, row.valid)


def is_whole(row: RowInOrder) -> bool:
    """Tell whether a row holds all that it owes: its newest min(offset, W) positions."""
    room = row.counting - row.over
    return is_kept(row) and (row.valid <= room or row.window <= room)


def holds_enough(window: int, counting: int, offset: int) -> bool:
    """Tell whether `counting` columns are enough for a row at `offset`."""
    return offset <= counting or (offset >= window and counting >= window - 1)


def lies_well(row: RowAsItLies) -> bool:
    """Tell whether the numbers can be those of a group: write index and columns, I5, and what `is_kept` says."""
    if row.window < 1 or row.offset < 0 or not 0 <= row.write_index <= row.columns:
        return False
    if row.rotated:
        return row.columns == row.window and row.write_index >= 1
    if row.write_index < row.columns and (row.columns > row.window or row.write_index >= row.window):
        return False
    return holds_enough(row.window, row.write_index, row.offset)


def owed(row: RowInOrder, position: int) -> bool:
    """Tell whether a position is one of the newest min(offset, W) of a row, as far as it holds them."""
    if not 0 <= position < row.valid:
        return False
    return row.valid - position <= row.window and row.valid - position <= row.counting - row.over


def position_at(row: RowInOrder, place: int) -> int:
    """Give the position at a place in temporal order (I2); it is only meant where it is `owed`."""
    return row.offset - row.counting + place


def position_in(group: Group, column: int) -> int | None:
    """Give the position that a physical column holds of the row of a group, or None for a spare or dead column."""
    if not 0 <= column < active(group):
        return None
    place = temporal_place(group.window, group.write_index, group.rotated, column)
    position = group.offsets[0] - active(group) + place
    return position if position >= 0 else None
