"""Rounds of the product: opened, and closed with what each row keeps; what was taken back was never there."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product

from attrs import evolve

from kvlaw.conformance.proofs.exhaustive.product import Line, Product, demand, moved
from kvlaw.reference import index_group_plans as plans
from kvlaw.reference import index_group_state as states
from kvlaw.reference.index_group_state import Group


def begun(state: Product) -> Product:
    """Open a round at rest; raises ViolationError."""
    after = plans.begun(state.group)
    demand(evolve(after, starts=None) == state.group, "a round that begins changes more than that it is open")
    return evolve(state, group=after, drafted=0)


def closings(state: Product, drafted: int) -> Iterator[tuple[str, Callable[[], Product]]]:
    """Give every end of a round of `drafted` columns: commit, and roll back to each number per row."""
    count = len(state.lines)
    yield "commit_round", partial(_closed, state, (drafted,) * count, drafted)
    for keeps in product(range(drafted + 1), repeat=count):
        told = ",".join(map(str, keeps)) or "0"
        yield f"roll_back {told}", partial(_closed, state, keeps, drafted)


def _closed(state: Product, keeps: Sequence[int], drafted: int) -> Product:
    """Keep the first `keeps[b]` columns of the round in row b, in a history in which the others never were."""
    tails = [drafted - keep for keep in keeps]
    plan = plans.plan_close(state.group, keeps)
    demand(len(plan.sources) == len(state.lines), "a plan moves another number of rows")
    _check_place(state, plan.after, tails)
    lines = [
        Line(line.row.trimmed(tail), cells=moved(line.cells, sources))
        for line, tail, sources in zip(state.lines, tails, plan.sources, strict=True)
    ]
    return Product(plan.after, lines, state.given - min(tails, default=0))


def _check_place(state: Product, after: Group, tails: Sequence[int]) -> None:
    """ROUND-14: what all rows take back is cut off; a growing group only moves its write index if tails are equal."""
    if not any(tails):
        demand(after == evolve(state.group, starts=None), "a round of which all is kept moves columns")
        return
    at = states.active(state.group) - min(tails)
    columns = state.group.columns if state.window is None and len(set(tails)) == 1 else at
    found = (after.write_index, after.columns)
    demand(found == (at, columns), f"write index {found[0]} of {found[1]} columns after a roll back, not {at, columns}")
