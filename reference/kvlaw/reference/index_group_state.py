"""State of a group of rows, and where each position of a row stands in it, in plain integers.

All rows share the columns, the write index and whether it has wrapped; a row has an offset of its own, and an end while
right padding is pending. What follows from them is a function of one row's numbers, free of loops (`row_...`,
`temporal_...`), so that CrossHair can prove it for all sizes; the functions over a `Group` only call it.

A `window` of None is a growing group: the same rules with a window that nothing reaches, so it never rotates.

Source: `geometry.md` sections 1, 2, 4 and 7, without rounds and without sinks.
"""

from attrs import frozen

from kvlaw.reference.index_state import Full, Ring, State
from kvlaw.spec.cite import clause


@frozen
class Group:
    """Hold the geometry of a group.

    window: W, the newest positions a query sees; None in a growing group.
    columns: allocated columns, the same for every row.
    write_index: the column that the next decode writes, write_index <= columns.
    rotated: the write index has wrapped since the columns were last laid out in temporal order.
    offsets: per row, the next position; negative while announced left padding is unused.
    starts: per row, the offset at which the open round began; None if no round is open.
    ends: per row, the position before which its real tokens end; None if no right padding is pending.
    """

    window: int | None
    columns: int = 0
    write_index: int = 0
    rotated: bool = False
    offsets: tuple[int, ...] = ()
    ends: tuple[int, ...] | None = None
    starts: tuple[int, ...] | None = None


@frozen
class Moved:
    """Say what an operation does to the columns of every row.

    sources: per row after it, and per column after it, the column before it; None for a blank one.
    after: the state after it.
    """

    sources: tuple[tuple[int | None, ...], ...]
    after: Group


# One row's numbers.


@clause("PAD-16")
def row_left_pad(active: int, offset: int) -> int:
    """Count the dead leading columns of a row among `active` ones."""
    return max(0, active - offset)


@clause("PAD-2")
def row_overrun(offset: int, end: int | None) -> int:
    """Count the positions of right padding that a row has passed; none without an end."""
    return 0 if end is None else max(0, offset - end)


@clause("PAD-1", "PAD-2")
def row_valid(offset: int, end: int | None) -> int:
    """Give the next position of a row, its right padding left out; negative while left padding is unused."""
    return offset - row_overrun(offset, end)


@clause("POS-6")
def row_held(window: int | None, valid: int) -> int:
    """Count the newest positions that a reader of a row is owed."""
    return max(0, valid) if window is None else min(max(0, valid), window)


@clause("PAD-4", "PAD-6")
def row_is_real(valid: int, end: int | None, index: int) -> bool:
    """Tell whether column `index` of the next append is a real token of a row, not padding on either side."""
    position = valid + index
    return index >= 0 and position >= 0 and (end is None or position < end)


def columns_that_count(window: int | None, write_index: int, rotated: bool) -> int:
    """Count the columns that hold a position or padding; the rest is spare."""
    return window if rotated and window is not None else write_index


@clause("RING-3", "VIS-7")
def temporal_place(window: int | None, write_index: int, rotated: bool, column: int) -> int:
    """Give the place in temporal order of a physical column that counts."""
    if not rotated or window is None:
        return column
    return column - write_index if column >= write_index else column + window - write_index


@clause("RING-3", "VIS-7")
def temporal_column(window: int | None, write_index: int, rotated: bool, place: int) -> int:
    """Give the physical column of a place in temporal order; the inverse of `temporal_place`."""
    if not rotated or window is None:
        return place
    column = write_index + place
    return column if column < window else column - window


# A group.


def rows(group: Group) -> int:
    """Count the rows."""
    return len(group.offsets)


def active(group: Group) -> int:
    """Count the columns that count, the same for every row."""
    return columns_that_count(group.window, group.write_index, group.rotated)


def end_of(group: Group, row: int) -> int | None:
    """Give the pending end of a row."""
    return None if group.ends is None else group.ends[row]


def left_pad(group: Group, row: int) -> int:
    """Count the dead leading columns of a row: a formula, nothing that is stored."""
    return row_left_pad(active(group), group.offsets[row])


def overrun(group: Group, row: int) -> int:
    """Count the newest columns of a row that are right padding."""
    return row_overrun(group.offsets[row], end_of(group, row))


def overruns(group: Group) -> tuple[int, ...]:
    """List the overrun of every row."""
    return tuple(overrun(group, row) for row in range(rows(group)))


@clause("POS-2")
def valid(group: Group, row: int) -> int:
    """Give the next position of a row, padding left out."""
    return row_valid(group.offsets[row], end_of(group, row))


@clause("POS-6")
def held(group: Group, row: int) -> int:
    """Count the newest positions that a reader of a row is owed."""
    return row_held(group.window, valid(group, row))


def order(group: Group) -> tuple[int, ...]:
    """List the physical columns that count, oldest first."""
    return tuple(
        temporal_column(group.window, group.write_index, group.rotated, place) for place in range(active(group))
    )


@clause("ROWS-12", "ROWS-13")
def extracted(group: Group, row: int) -> tuple[int, ...]:
    """List the physical columns that hold the positions of a row, oldest first.

    They are the last ones before its overrun: as many as it is owed, or, of a ring that a bypass trim left one column
    short, as many as there are.
    """
    end = active(group) - overrun(group, row)
    return order(group)[end - min(end, held(group, row)) : end]


def real(group: Group, row: int, length: int) -> tuple[int, ...]:
    """List which of the next `length` columns are real tokens of a row."""
    at, end = valid(group, row), end_of(group, row)
    return tuple(index for index in range(length) if row_is_real(at, end, index))


@clause("PAD-9")
def is_settled_padding(group: Group) -> bool:
    """Tell that no row has a pending end or unused left padding."""
    return group.ends is None and all(offset >= 0 for offset in group.offsets)


@clause("PAD-9", "ROWS-11")
def appended_in_round(group: Group) -> int:
    """Count the columns that were appended in the open round, the same for every row; 0 without one."""
    return 0 if group.starts is None or not group.offsets else group.offsets[0] - group.starts[0]


def may_decode(group: Group) -> bool:
    """Tell whether one position per row can be written in place: there are rows, and their padding is settled."""
    return rows(group) > 0 and is_settled_padding(group)


@clause("ROWS-5")
def lone(state: State) -> Group:
    """Give a serial cache as a group of one row, as it lies."""
    if isinstance(state, Full):
        return Group(None, state.columns, state.offset, offsets=(state.offset,))
    return Group(state.window, state.columns, state.write_index, state.rotated, (state.offset,))


@clause("ROWS-13", "ROWS-14")
def alone(group: Group, row: int) -> State:
    """Give the serial cache that extracting a row makes: its columns in temporal order, none spare."""
    columns, offset = len(extracted(group, row)), max(0, valid(group, row))
    if group.window is None:
        return Full(columns, offset)
    return Ring(group.window, columns=columns, write_index=columns, offset=offset)


def is_valid_group(group: Group) -> bool:
    """Tell whether the numbers can be those of a group: what every operation keeps (I5, and what I1 needs)."""
    if group.ends is not None and len(group.ends) != rows(group):
        return False
    return _has_valid_columns(group) and all(_holds_enough(group, row) for row in range(rows(group)))


def _has_valid_columns(group: Group) -> bool:
    window = group.window
    if group.rotated:
        return group.columns == window and 1 <= group.write_index <= group.columns
    if window is not None and group.columns > window:
        return group.write_index == group.columns
    return 0 <= group.write_index <= group.columns


def _holds_enough(group: Group, row: int) -> bool:
    """All that a reader is owed; of a serial ring that a bypass trim left one column short, all but one."""
    before = active(group) - overrun(group, row)
    short = 1 if group.window is not None and valid(group, row) >= group.window else 0
    return held(group, row) - short <= before
