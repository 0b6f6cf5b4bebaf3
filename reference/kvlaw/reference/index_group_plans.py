"""What each operation does to the columns of a group of rows, in plain integers.

* `plan_decode`, `plan_block`: an append as a `RowsPlan` of columns to move, write and fetch.
* `plan_retract`, `plan_finalize`: take the newest columns from each row.
* `can_trim`, `plan_trim`: drop the newest positions of every row, moving no data.
* `can_filter`, `filtered`, `joined`: choose rows, and put rows together.
* `prepare_problem`, `prepared`, `reset_rows`: announce padding, and empty every row.

Columns after an append, and the column that a new one comes from, are functions of plain integers without loops
(`columns_after_...`, `..._source`); the plans only list them.

Source: `geometry.md` sections 3, 4 and 7, without rounds and without sinks.
"""

from collections.abc import Sequence

from attrs import evolve, frozen

from kvlaw.reference.index_group_state import (
    Group,
    Moved,
    active,
    appended_in_round,
    extracted,
    is_settled_padding,
    left_pad,
    overruns,
    rows,
    temporal_column,
    valid,
)
from kvlaw.reference.index_plans import capacity_for
from kvlaw.reference.index_state import STEP
from kvlaw.spec.cite import clause


@frozen
class RowsPlan:
    """Say what one append does to the columns of every row.

    sources: per row and per column after it, the column before it; None where one is new or written.
    write_at: the column of the first appended position, the same for every row.
    length: L, positions appended per row; they fill [write_at, write_at + length).
    fetch: columns after the write that a read of this append sees, in the order in which it sees them.
    after: the state after it.
    """

    sources: tuple[tuple[int | None, ...], ...]
    write_at: int
    length: int
    fetch: tuple[int, ...]
    after: Group


def _unmoved(group: Group) -> tuple[tuple[int | None, ...], ...]:
    return tuple(tuple(range(group.columns)) for _ in range(rows(group)))


def _moved_on(group: Group, steps: int) -> tuple[int, ...]:
    return tuple(offset + steps for offset in group.offsets)


# Decode: in place.


@clause("RING-7", "GROW-3")
def columns_after_decode(window: int | None, columns: int, write_index: int) -> int:
    """Count the columns after a decode: one that fits adds none, a ring drops what is beyond W."""
    if window is None:
        return columns if write_index < columns else capacity_for(write_index + 1)
    if columns >= window:
        return window
    return columns if write_index < columns else columns + min(STEP, window - columns)


@clause("RING-2", "RING-3")
def column_of_decode(window: int | None, write_index: int) -> int:
    """Give the column that a decode writes: the write index, wrapped to the first column at W."""
    return write_index if window is None or write_index < window else 0


@clause("RING-6")
def overshoot(window: int | None, columns: int) -> int:
    """Count the oldest columns beyond W, left by a block, that the next decode drops first."""
    return 0 if window is None else max(0, columns - window)


def decode_source(columns: int, dropped: int, at: int, column: int) -> int | None:
    """Give the column of `columns` before a decode whose data lies at `column` after it; None for new and written."""
    source = column + dropped
    return None if column == at or source >= columns else source


@clause("ROWS-22", "RING-3", "RING-6")
def after_decode(group: Group) -> Group:
    """Give the state after the append of one position per row in place."""
    return evolve(
        group,
        columns=columns_after_decode(group.window, group.columns, group.write_index),
        write_index=column_of_decode(group.window, group.write_index) + 1,
        rotated=group.rotated or (group.window is not None and group.write_index >= group.window),
        offsets=_moved_on(group, 1),
    )


@clause("RING-2", "RING-3", "RING-6", "RING-7", "GROW-1", "VIS-7")
def plan_decode(group: Group) -> RowsPlan:
    """Plan the append of one position per row in place, for a group of which `may_decode` holds."""
    at, dropped = column_of_decode(group.window, group.write_index), overshoot(group.window, group.columns)
    after = after_decode(group)
    kept = tuple(decode_source(group.columns, dropped, at, column) for column in range(after.columns))
    return RowsPlan((kept,) * rows(group), at, 1, tuple(range(active(after))), after)


# Retract: take the newest columns.


def retract_source(remaining: int, beyond: int, place: int) -> int:
    """Give the place before a retract of what lies at `place` in [0, remaining) after it.

    remaining: columns that count, less those cut from every row. beyond: how many more this row gives up; they turn
    round to its front, where they are dead.
    """
    return place - beyond if place >= beyond else place - beyond + remaining


def _retract_sources(group: Group, tails: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """List, per row and per remaining place, the physical column that a retract leaves there."""
    cut = min(tails, default=0)
    remaining = active(group) - cut
    return tuple(
        tuple(
            temporal_column(
                group.window, group.write_index, group.rotated, retract_source(remaining, tail - cut, place)
            )
            for place in range(remaining)
        )
        for tail in tails
    )


@clause("PAD-16")
def after_retract(group: Group, tails: Sequence[int]) -> Group:
    """Give the state after the newest `tails[b]` columns were taken from row b; the same one if all are 0."""
    if not any(tails):
        return group
    left = active(group) - min(tails)
    offsets = tuple(offset - tail for offset, tail in zip(group.offsets, tails, strict=True))
    return evolve(group, columns=left, write_index=left, rotated=False, offsets=offsets)


@clause("PAD-16")
def plan_retract(group: Group, tails: Sequence[int]) -> Moved:
    """Plan to take the newest `tails[b]` columns from row b, each at most `active`; nothing to do if all are 0.

    Columns are laid out in temporal order, none of them spare: those taken from all rows are gone, the others that a
    row gives up turn round to its front.
    """
    sources = _retract_sources(group, tails) if any(tails) else _unmoved(group)
    return Moved(sources, after_retract(group, tails))


@clause("PAD-7", "PAD-16")
def plan_finalize(group: Group) -> Moved:
    """Plan to take the right padding that was processed from every row, and to clear the ends."""
    moved = plan_retract(group, overruns(group))
    return evolve(moved, after=evolve(moved.after, ends=None))


# Rounds.


def begun(group: Group) -> Group:
    """Give the state with a round open."""
    return evolve(group, starts=group.offsets)


@clause("ROUND-13", "ROUND-14")
def plan_close(group: Group, keeps: Sequence[int]) -> Moved:
    """Plan to close the open round and to keep the first `keeps[b]` columns of it in row b.

    A growing group from which every row takes back as many lowers its write index; nothing moves.
    """
    appended = appended_in_round(group)
    tails = tuple(appended - keep for keep in keeps)
    closed = evolve(group, starts=None)
    if group.window is None and len(set(tails)) == 1:
        count = tails[0]
        after = evolve(closed, write_index=group.write_index - count, offsets=_moved_on(group, -count))
        return Moved(_unmoved(group), after)
    return plan_retract(closed, tails)


# Block: written behind the newest columns.


@clause("PAD-11", "RING-4", "ROUND-8")
def keep_columns(window: int | None, spared: int, counting: int) -> int:
    """Count the columns that a block keeps of `counting` ones, `spared` more of a ring than its first query may see.

    1 while ends are pending; in an open round 1 more than the columns of the round.
    """
    return counting if window is None else min(counting, window - 1 + spared)


def spared_columns(group: Group) -> int:
    """Count the columns that a block keeps beside those that its first query may see."""
    if group.starts is not None:
        return 1 + appended_in_round(group)
    return 0 if group.ends is None else 1


@clause("RING-4")
def history(window: int | None, counting: int) -> int:
    """Count the columns before a block of which its first query may see any."""
    return counting if window is None else min(counting, window - 1)


@clause("RING-5", "GROW-3")
def columns_after_block(window: int | None, columns: int, stored: int, length: int) -> int:
    """Count the columns after a block of `length` behind `stored` kept ones; a growing group has `columns` before."""
    if window is None and stored + length <= columns:
        return columns
    return capacity_for(stored + length) if window is None else stored + length


@clause("ROWS-22", "RING-4", "RING-5")
def after_block(group: Group, length: int) -> Group:
    """Give the state after the append of `length` >= 1 positions per row behind the newest columns."""
    before = after_retract(group, overruns(group))
    stored = keep_columns(group.window, spared_columns(group), active(before))
    columns = columns_after_block(group.window, before.columns, stored, length)
    return evolve(
        before, columns=columns, write_index=stored + length, rotated=False, offsets=_moved_on(before, length)
    )


@clause("PAD-5", "PAD-6", "RING-4", "RING-5", "VIS-7")
def plan_block(group: Group, length: int) -> RowsPlan:
    """Plan the append of `length` >= 1 positions per row: lay out, retract the overruns, drop the oldest, write."""
    after = after_block(group, length)
    stored = after.write_index - length
    blank: tuple[int | None, ...] = (None,) * (after.columns - stored)  # written, or spare: nothing that counts there
    tails = overruns(group)
    counting = active(group) - min(tails, default=0)
    sources = tuple((*row[counting - stored :], *blank) for row in _retract_sources(group, tails))
    fetch = tuple(range(stored - history(group.window, counting), after.write_index))
    return RowsPlan(sources, stored, length, fetch, after)


# Trims.


@clause("ROWS-20", "PAD-9")
def can_trim(group: Group, count: int) -> bool:
    """Tell whether every row can drop its newest `count` positions: padding settled, nothing evicted from a ring."""
    if group.starts is not None or not is_settled_padding(group) or not 0 <= count <= min(group.offsets, default=0):
        return False
    return group.window is None or max(active(group), *group.offsets, 0) < group.window


@clause("ROWS-19", "TRIM-1", "POS-4")
def plan_trim(group: Group, count: int) -> Group:
    """Give the state after a trim that `can_trim` allows; no data moves."""
    return evolve(group, write_index=group.write_index - count, offsets=_moved_on(group, -count))


# Rows: chosen, and put together.


@clause("ROWS-18")
def can_filter(group: Group, chosen: Sequence[int]) -> bool:
    """Tell whether these are rows of the group, each once."""
    return len(set(chosen)) == len(chosen) and all(0 <= row < rows(group) for row in chosen)


@clause("ROWS-21")
def common_left_pad(group: Group, chosen: Sequence[int]) -> int:
    """Count the leading columns that are dead in all of these rows, as far as a filter drops them."""
    if group.window is not None or not is_settled_padding(group):
        return 0
    return min((left_pad(group, row) for row in chosen), default=0)


@clause("ROWS-16", "ROWS-17", "PAD-10")
def filtered(group: Group, chosen: Sequence[int]) -> Moved:
    """Plan to keep the rows `chosen`, in this order; the sources of row i are columns of row `chosen[i]`."""
    if not chosen:
        return Moved((), Group(group.window, starts=None if group.starts is None else ()))
    dropped = common_left_pad(group, chosen)
    after = evolve(
        group,
        columns=group.columns - dropped,
        write_index=group.write_index - dropped,
        offsets=tuple(group.offsets[row] for row in chosen),
        ends=None if group.ends is None else tuple(group.ends[row] for row in chosen),
        starts=None if group.starts is None else tuple(group.starts[row] for row in chosen),
    )
    return Moved((tuple(range(dropped, group.columns)),) * len(chosen), after)


@clause("ROWS-5", "ROWS-6", "ROWS-9")
def joined(window: int | None, parts: Sequence[tuple[Group, int]]) -> Moved:
    """Plan a group of these rows, each of a group with settled padding; the sources of row i are columns of part i.

    A row that comes alone from a group of one row stays as it lies; otherwise each row is extracted, and the shorter
    ones get dead columns in front.
    """
    if len(parts) == 1 and rows(parts[0][0]) == 1:
        return Moved(_unmoved(parts[0][0]), parts[0][0])
    kept = [extracted(group, row) for group, row in parts]
    width = max(map(len, kept), default=0)
    after = Group(window, width, width, offsets=tuple(valid(group, row) for group, row in parts))
    return Moved(tuple((*(None,) * (width - len(columns)), *columns) for columns in kept), after)


# Padding announced, and everything emptied.


@clause("PAD-12", "PAD-9")
def prepare_problem(
    group: Group, left: Sequence[int] | None, lengths: Sequence[int] | None, right: Sequence[int] | None
) -> str | None:
    """Say why padding cannot be announced like this, or None."""
    given = {"left": left, "lengths": lengths, "right": right}
    lists = {name: numbers for name, numbers in given.items() if numbers is not None}
    count = rows(group) or max(map(len, lists.values()), default=0)
    for name, numbers in lists.items():
        if len(numbers) != count:
            return f"{name} has {len(numbers)} numbers for {count} rows"
        if min(numbers, default=0) < 0:
            return f"{name} has a number below 0: {min(numbers)}"
    if group.starts is not None:
        return "a round is open"
    if not is_settled_padding(group):
        return "earlier padding is not used up"
    if left is not None and any(left) and active(group) > 0:
        return f"left padding comes before the first token, and {active(group)} columns are there"
    return _end_problem(count, left, lengths, right)


def _end_problem(
    count: int, left: Sequence[int] | None, lengths: Sequence[int] | None, right: Sequence[int] | None
) -> str | None:
    if right is None or not any(right):
        return None
    if lengths is None:
        return "right padding needs the lengths before it"
    short = [row for row in range(count) if lengths[row] < (0 if left is None else left[row])]
    return f"row {short[0]} would end before its first position" if short else None


@clause("PAD-1", "PAD-2", "PAD-3", "PAD-14")
def prepared(
    group: Group, left: Sequence[int] | None, lengths: Sequence[int] | None, right: Sequence[int] | None
) -> Group:
    """Give the state after padding was announced that has no `prepare_problem`; no data moves."""
    count = rows(group) or max((len(numbers) for numbers in (left, lengths, right) if numbers is not None), default=0)
    before = group.offsets or (0,) * count
    offsets = tuple(offset - pad for offset, pad in zip(before, left or (0,) * count, strict=True))
    ends = None
    if right is not None and any(right) and lengths is not None:
        ends = tuple(offset + length for offset, length in zip(offsets, lengths, strict=True))
    return evolve(group, offsets=offsets, ends=ends)


@clause("ROWS-23", "PAD-13")
def reset_rows(group: Group) -> Group:
    """Give the state with every row emptied and the count of rows kept."""
    return Group(group.window, offsets=(0,) * rows(group))
