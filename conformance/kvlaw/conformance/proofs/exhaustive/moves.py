"""Every call of the alphabet, from one state of the product: what it must do, and where it leads."""

from collections.abc import Iterator, Sequence
from itertools import permutations, product

from attrs import evolve, frozen

from kvlaw.conformance.proofs.exhaustive.appends import block, decode
from kvlaw.conformance.proofs.exhaustive.product import Line, Product, demand, empty, moved, serial
from kvlaw.conformance.proofs.exhaustive.readings import Reader
from kvlaw.reference import index_group_plans as plans
from kvlaw.reference import index_group_state as states
from kvlaw.reference.history import Padding
from kvlaw.reference.index_group_state import Moved

Move = tuple[str, Product]
"""A call as text, and the state after it."""


@frozen
class Alphabet:
    """Hold how far calls go.

    rows: a group has at most as many. longest: positions of the longest block, and of the longest padded prompt.
    positions: of a growing group, the most columns that are looked at; None for a ring.
    """

    rows: int
    longest: int
    positions: int | None = None

    def moves(self, state: Product, reader: Reader) -> Iterator[Move]:
        """Give every call with the state that it leads to; raises ViolationError at the first that is wrong."""
        yield "reset", _reset(state)
        yield "finalize", _finalize(state)
        yield from _filters(state)
        if state.lines:
            yield from self._appends(state, reader)
        if state.pads:
            _check_refused_padding(state)
            return
        yield from self._paddings(state)
        yield from _trims(state)
        yield from self._merges(state)

    def _room(self, state: Product) -> int:
        return self.longest if self.positions is None else min(self.longest, self.positions - state.given + state.cut)

    def _appends(self, state: Product, reader: Reader) -> Iterator[Move]:
        if not state.pads and self._room(state) > 0:
            yield "decode", decode(state, reader)
        for length in range(1, self._room(state) + 1):
            yield f"window {length}", block(state, length, reader)

    def _paddings(self, state: Product) -> Iterator[Move]:
        for count in {len(state.lines)} if state.lines else range(1, self.rows + 1):
            rows = state if state.lines else empty(state.window, count)
            lefts = product(range(self.longest), repeat=count) if state.given == 0 else [(0,) * count]
            for left in lefts:
                yield from _prepared(state, rows, left, None)
                for lengths in product(range(self.longest + 1), repeat=count):
                    yield from _prepared(state, rows, left, lengths)

    def _merges(self, state: Product) -> Iterator[Move]:
        lengths = range(self.longest)
        for length in lengths if len(state.lines) < self.rows else ():
            fresh = serial(state.window, length)
            yield f"merge s{length} c", _merged(state.window, [*_parts(fresh), *_parts(state)])
            yield f"merge c s{length}", _merged(state.window, [*_parts(state), *_parts(fresh)])
        if not state.lines:
            return
        yield "merge c", _merged(state.window, _parts(state))
        alone = [_alone(state, row) for row in range(len(state.lines))]
        yield from ((f"hand_back {row}", cache) for row, cache in enumerate(alone))
        again = [part for cache in alone for part in _parts(cache)]
        yield f"merge {' '.join(f'e{row}' for row in range(len(alone)))}", _merged(state.window, again)


# Padding.


def _reset(state: Product) -> Product:
    return Product(plans.reset_rows(state.group), (Line(),) * len(state.lines))


def _finalize(state: Product) -> Product:
    plan = plans.plan_finalize(state.group)
    lines = [
        evolve(line, cells=cells, padding=evolve(line.padding, until=None), over=0)
        for line, cells in zip(state.lines, _carried(state, plan), strict=True)
    ]
    demand(state.ends_pend or plan.after == state.group, "finalize without ends changes the group")
    demand(plan.after.columns <= state.group.columns, "finalize adds columns")
    return Product(plan.after, lines, state.given - state.cut)


def _prepared(state: Product, rows: Product, left: Sequence[int], lengths: Sequence[int] | None) -> Iterator[Move]:
    """Announce left padding, and right padding behind `lengths` if they are given."""
    right = None if lengths is None else (*(0 for _ in left[1:]), 1)
    problem = plans.prepare_problem(state.group, left, lengths, right)
    short = lengths is not None and any(length < pad for length, pad in zip(lengths, left, strict=True))
    told = f"prepare left={_numbers(left)}" + ("" if lengths is None else f" lengths={_numbers(lengths)}")
    demand((problem is not None) == short, f"{told} is {'allowed' if short else f'refused: {problem}'}")
    if short:
        return
    after = plans.prepared(state.group, left, lengths, right)
    ends = (None,) * len(left) if lengths is None else lengths
    lines = [evolve(line, padding=Padding(pad, end)) for line, pad, end in zip(rows.lines, left, ends, strict=True)]
    demand(lengths is None or plans.prepared(state.group, left, lengths, None).ends is None, "lengths alone pad")
    yield told, Product(after, lines, state.given)


def _check_refused_padding(state: Product) -> None:
    none = (0,) * len(state.lines)
    demand(plans.prepare_problem(state.group, none, none, none) is not None, "padding is announced twice")


def _numbers(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers)) or "none"


# Trims.


def _trims(state: Product) -> Iterator[Move]:
    for count in range(state.shortest + 1):
        if plans.can_trim(state.group, count):  # `check_state` has compared which are possible
            lines = [evolve(line, row=line.row.trimmed(count, state.window)) for line in state.lines]
            yield f"trim {count}", Product(plans.plan_trim(state.group, count), lines, state.given - count)


# Rows chosen and put together.


def _carried(state: Product, plan: Moved) -> list[tuple[int, ...]]:
    demand(len(plan.sources) == len(state.lines), "a plan moves another number of rows")
    return [moved(line.cells, sources) for line, sources in zip(state.lines, plan.sources, strict=True)]


def _filters(state: Product) -> Iterator[Move]:
    for count in range(len(state.lines) + 1):
        for chosen in permutations(range(len(state.lines)), count):
            demand(plans.can_filter(state.group, chosen), f"filter {_numbers(chosen)} is refused")
            yield f"filter {_numbers(chosen)}", _filtered(state, chosen)


def _filtered(state: Product, chosen: Sequence[int]) -> Product:
    plan = plans.filtered(state.group, chosen)
    demand(len(plan.sources) == len(chosen), "a filter keeps another number of rows")
    kept = [state.lines[row] for row in chosen]
    lines = [evolve(line, cells=moved(line.cells, sources)) for line, sources in zip(kept, plan.sources, strict=True)]
    if not chosen:
        demand(plan.after.columns == 0, "a group without rows has columns")
        return Product(plan.after)
    common = 0
    if state.window is None and not state.pads:
        common = min(state.given - line.row.offset for line in kept)
    demand(plan.after.columns == state.group.columns - common, f"{plan.after.columns} columns after a filter")
    return Product(plan.after, lines, state.given - common)


Part = tuple[Product, int]


def _parts(state: Product) -> list[Part]:
    return [(state, row) for row in range(len(state.lines))]


def _merged(window: int | None, parts: Sequence[Part]) -> Product:
    """Make a new group of rows; a single row of a single source stays as it lies."""
    plan = plans.joined(window, [(source.group, row) for source, row in parts])
    demand(len(plan.sources) == len(parts), "a merge makes another number of rows")
    lines: list[Line] = []
    for (source, row), sources in zip(parts, plan.sources, strict=True):
        line = source.lines[row]
        lines.append(Line(line.row, cells=moved(line.cells, sources)))
    if len(parts) == 1 and len(parts[0][0].lines) == 1:
        demand(plan.after == parts[0][0].group, "a lone row does not stay as it lies")
        return Product(plan.after, lines, parts[0][0].given)
    width = max((len(source.lines[row].newest(window)) for source, row in parts), default=0)
    demand(plan.after.columns == plan.after.write_index == width, f"{plan.after.columns} columns, {width} are held")
    return Product(plan.after, lines, width)


def _alone(state: Product, row: int) -> Product:
    """Take a row out as a serial cache, and see that as a group of one row."""
    line = state.lines[row]
    columns = states.extracted(state.group, row)
    cells = tuple(line.cells[column] for column in columns)
    group = states.lone(states.alone(state.group, row))
    return Product(group, (Line(line.row, cells=cells),), len(line.newest(state.window)))
