"""Decodes and blocks of the product: columns moved and written as planned, history appended, memory bounded."""

from attrs import evolve

from kvlaw.conformance.proofs.exhaustive.product import Line, Product, demand, moved
from kvlaw.conformance.proofs.exhaustive.readings import Reader, Reading
from kvlaw.reference import index_group_plans as plans
from kvlaw.reference.index_group_plans import RowsPlan
from kvlaw.reference.index_plans import Phase
from kvlaw.reference.index_state import STEP


def decode(state: Product, reader: Reader) -> Product:
    """Append one position per row in place; raises ViolationError."""
    group, window = state.group, state.window
    plan = plans.plan_decode(group)
    after = _appended(state, plan, "decode", 1, reader)
    reach = state.given + 1 if window is None else min(state.given + 1, window)
    demand(len(plan.fetch) == reach, f"a decode fetches {len(plan.fetch)} columns, not {reach}")
    most = _of_growing(state, group.write_index + 1) if window is None else window
    demand(after.group.columns <= most, f"{after.group.columns} columns after a decode, {most} are enough")
    return after


def block(state: Product, length: int, reader: Reader) -> Product:
    """Append `length` positions per row behind the newest columns, less the right padding; raises ViolationError.

    In an open round every append is one, a decode too.
    """
    window = state.window
    plan = plans.plan_block(state.group, length)
    left = evolve(
        state,
        given=state.given - state.cut,
        lines=[Line(line.row, line.padding, 0, line.cells) for line in state.lines],
    )
    after = _appended(left, plan, "window", length, reader)
    past = left.given if window is None else min(left.given, window - 1)
    demand(len(plan.fetch) == past + length, f"a block fetches {len(plan.fetch)} columns, not {past + length}")
    columns, write_index = after.group.columns, after.group.write_index
    if window is None:
        most = _of_growing(state, past + length)
    else:
        kept = past if state.drafted is None and not state.ends_pend else min(left.given, window + (state.drafted or 0))
        most = kept + length
        laid = write_index == columns and not after.group.rotated
        demand(laid, f"write index {write_index} of {columns} columns after a block (I6)")
    demand(columns <= most, f"{columns} columns after a block, {most} are enough")
    return after


def _of_growing(state: Product, needed: int) -> int:
    """Bound the columns of a growing group: those that are there if they are enough and none was taken off."""
    columns, rounded = state.group.columns, -(-needed // STEP) * STEP
    if needed <= columns and all(line.over == 0 for line in state.lines):
        return columns
    return max(columns, rounded)


def _appended(state: Product, plan: RowsPlan, phase: Phase, length: int, reader: Reader) -> Product:
    """Move and write the columns of every row, append to its history, and check what its queries see."""
    _check_plan(state, plan, length)
    at, end = plan.write_at, plan.write_at + length
    lines: list[Line] = []
    reals: list[tuple[int, ...]] = []
    for line, sources in zip(state.lines, plan.sources, strict=True):
        cells = moved(line.cells, sources)
        after, ids, real = line.appended(length)
        lines.append(Line(after.row, after.padding, after.over, cells[:at] + ids + cells[end:]))
        reals.append(real)
    reader.check(
        Reading(
            state.group,
            phase,
            length,
            plan.fetch,
            tuple([line.row.offset for line in state.lines]),
            tuple([line.padding.before for line in state.lines]),
            tuple([tuple([line.cells[column] for column in plan.fetch]) for line in lines]),
            tuple(reals),
        )
    )
    return Product(plan.after, lines, state.given + length, None if state.drafted is None else state.drafted + length)


def _check_plan(state: Product, plan: RowsPlan, length: int) -> None:
    columns = plan.after.columns
    demand(plan.length == length, f"a plan writes {plan.length} positions, not {length}")
    demand(0 <= plan.write_at <= columns - length, f"a plan writes {length} at {plan.write_at} of {columns} columns")
    demand(all(0 <= column < columns for column in plan.fetch), f"a plan fetches {plan.fetch} of {columns} columns")
    demand(len(plan.sources) == len(state.lines), "a plan moves another number of rows")
    demand(all(len(row) == columns for row in plan.sources), f"a plan has not {columns} columns for every row")
