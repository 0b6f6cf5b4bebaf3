"""What must hold of a group in every state: I1 to I6 of `geometry.md`, extraction, and what may be called next."""

from kvlaw.conformance.proofs.exhaustive.product import DEAD, Line, Product, demand
from kvlaw.reference import index_group_plans as plans
from kvlaw.reference import index_group_state as states
from kvlaw.reference.index_state import Full, Ring


def check_state(state: Product) -> None:
    """Compare the numbers, the order and the extraction of every row with history; raises ViolationError."""
    _check_columns(state)
    demand(states.rows(state.group) == len(state.lines), "the group has lost or gained a row")
    for b, line in enumerate(state.lines):
        _check_numbers(state, b, line)
        _check_order(state, b, line)
        _check_alone(state, b, line)
    _check_calls(state)


def _check_columns(state: Product) -> None:
    group, window = state.group, state.window
    counting = states.active(group)
    demand(0 <= group.write_index <= group.columns, f"write index {group.write_index} of {group.columns} columns")
    demand(not group.rotated or group.columns == window, f"turned with {group.columns} columns (I5)")
    demand(states.is_valid_group(group), f"no valid group: {group}")
    demand((group.ends is not None) == state.ends_pend, "ends pend, or not, against what was announced")
    demand(
        (group.starts is not None) == (state.drafted is not None), "a round is open, or not, against what was called"
    )
    drafted = (state.drafted or 0) if state.lines else 0
    demand(states.appended_in_round(group) == drafted, f"a round of {states.appended_in_round(group)}, not {drafted}")
    if window is None:
        demand(counting <= state.given, f"{counting} columns count, {state.given} were given (I4)")
        return
    demand(min(counting, window) == min(state.given, window), f"{counting} columns count, not {state.given} (I4)")
    full = group.rotated or group.write_index == group.columns
    demand(counting < window or full, "spare columns from W columns on (I5)")


def _check_numbers(state: Product, b: int, line: Line) -> None:
    group = state.group
    offset = line.row.offset - line.padding.before
    demand(group.offsets[b] == line.raw_offset, f"row {b} has offset {group.offsets[b]}, not {line.raw_offset}")
    demand(states.valid(group, b) == offset, f"row {b} has valid offset {states.valid(group, b)}, not {offset}")
    demand(states.overrun(group, b) == line.over, f"row {b} overruns by {states.overrun(group, b)}, not {line.over}")
    demand(states.held(group, b) == len(line.newest(state.window)), f"row {b} holds {states.held(group, b)}")
    if group.starts is not None and state.drafted is not None:
        begun = line.row.offset - state.drafted
        demand(group.starts[b] == begun, f"the round of row {b} began at {group.starts[b]}, not {begun}")
    if line.padding.until is not None:
        end = offset + line.padding.until
        demand(states.end_of(group, b) == end, f"row {b} ends at {states.end_of(group, b)}, not {end}")


def _check_order(state: Product, b: int, line: Line) -> None:
    """I1: before its overrun the last columns of a row are its newest positions; dead ones lie in front.

    In a round these are the newest W from before it, and all of it.
    """
    counting = states.active(state.group)
    order = states.order(state.group)
    demand(len(line.cells) == state.group.columns, f"row {b} has {len(line.cells)} of {state.group.columns} columns")
    demand(sorted(order) == list(range(counting)), f"temporal order {order} of {counting} columns")
    lie = tuple(line.cells[column] for column in order)[: counting - line.over]
    newest = line.newest(state.owed)
    demand(not newest or lie[-len(newest) :] == newest, f"row {b} holds {lie}, not {newest} last (I1)")
    pad = states.left_pad(state.group, b)
    demand(pad == max(0, counting - line.raw_offset), f"row {b} has {pad} dead columns in front")
    demand(all(cell == DEAD for cell in lie[:pad]), f"row {b} shows a position in its left padding: {lie}")


def _check_alone(state: Product, b: int, line: Line) -> None:
    """Extraction takes exactly the newest positions; the bracket does not matter to what it would take."""
    columns = states.extracted(state.group, b)
    newest = line.newest(state.window)
    taken = tuple(line.cells[column] for column in columns)
    demand(taken == newest, f"row {b} is extracted as {taken}, not {newest}")
    cache, offset, width = states.alone(state.group, b), line.row.offset, len(newest)
    if state.window is None:
        demand(cache == Full(width, offset), f"row {b} is extracted as {cache}")
    else:
        expected = Ring(state.window, columns=width, write_index=width, offset=offset)
        demand(cache == expected, f"row {b} is extracted as {cache}")
    real = line.padding.real(3)
    demand(states.real(state.group, b, 3) == real, f"row {b} is given real tokens {states.real(state.group, b, 3)}")


def _check_calls(state: Product) -> None:
    group, window = state.group, state.window
    demand(states.is_settled_padding(group) == (not state.pads), "padding is settled, or not, against history")
    decodes = bool(state.lines) and not state.pads
    demand(states.may_decode(group) == decodes, f"a decode is {'refused' if decodes else 'allowed'}")
    for count in range(-1, state.shortest + 2):
        able = state.rests and 0 <= count <= state.shortest and (window is None or state.given < window)
        demand(plans.can_trim(group, count) == able, f"a trim of {count} is {'refused' if able else 'allowed'}")
