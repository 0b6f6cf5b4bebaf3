"""Every call of the alphabet, from one state of the product: what it must do, and where it leads."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import permutations, product

from attrs import evolve, frozen

from kvlaw.conformance.proofs.exhaustive.appends import block, decode
from kvlaw.conformance.proofs.exhaustive.product import Line, Product, demand, empty, moved, serial
from kvlaw.conformance.proofs.exhaustive.readings import Reader
from kvlaw.conformance.proofs.exhaustive.rounds import begun, closings
from kvlaw.reference import index_group_plans as plans
from kvlaw.reference import index_group_state as states
from kvlaw.reference.history import Padding
from kvlaw.reference.index_group_state import Moved

Move = tuple[str, Callable[[], Product | None]]
"""A call as text, and what makes and checks it: it gives the state after it, None where the call is refused."""


@frozen
class Alphabet:
    """Hold how far calls go.

    rows: a group has at most as many. longest: positions of the longest block, and of the longest padded prompt.
    positions: of a growing group, the most columns that are looked at; None for a ring.
    drafts: the most columns that are appended in one round, in any number of appends; 0 without rounds.
    """

    rows: int
    longest: int
    positions: int | None = None
    drafts: int = 0

    def moves(self, state: Product, reader: Reader) -> Iterator[Move]:
        """Give every call; making a wrong one raises ViolationError."""
        yield "reset", partial(_reset, state)
        yield "finalize", partial(_finalize, state)
        yield from _filters(state)
        if state.lines:
            yield from self._appends(state, reader)
        yield from self._paddings(state)
        if state.drafted is not None:
            yield from closings(state, state.drafted)
        if state.rests:
            yield from _trims(state)
            yield from self._merges(state)
            if self.drafts:
                yield "begin_round", partial(begun, state)

    def _appends(self, state: Product, reader: Reader) -> Iterator[Move]:
        room = self.longest if self.positions is None else min(self.longest, self.positions - state.given + state.cut)
        if state.drafted is not None:
            yield from _drafts(state, min(room, self.drafts - state.drafted), reader)
            return
        if not state.pads and room > 0:
            yield "decode", partial(decode, state, reader)
        for length in range(1, room + 1):
            yield f"window {length}", partial(block, state, length, reader)

    def _paddings(self, state: Product) -> Iterator[Move]:
        for count in (len(state.lines),) if state.lines else range(1, self.rows + 1):
            before = state if state.lines else empty(state.window, count)
            fits = state.given == 0 and state.rests
            for left in product(range(self.longest), repeat=count) if fits else ((0,) * count, (1,) * count):
                yield _preparation(state, before, left, None)
                for lengths in product(range(self.longest + 1), repeat=count) if state.rests else ():
                    yield _preparation(state, before, left, lengths)

    def _merges(self, state: Product) -> Iterator[Move]:
        window, own, rows = state.window, _parts(state), range(len(state.lines))
        for length in range(self.longest) if len(rows) < self.rows else ():
            fresh = _parts(serial(window, length))
            yield f"merge s{length} c", partial(_merged, window, [*fresh, *own])
            yield f"merge c s{length}", partial(_merged, window, [*own, *fresh])
        if own:
            yield "merge c", partial(_merged, window, own)
            yield from ((f"hand_back {row}", partial(_alone, state, row)) for row in rows)
            yield f"merge {' '.join(f'e{row}' for row in rows)}", partial(_merged_again, state)


def _drafts(state: Product, room: int, reader: Reader) -> Iterator[Move]:
    """Append in a round: a decode is the block of one position."""
    for length in range(1, room + 1):
        yield "decode" if length == 1 else f"window {length}", partial(block, state, length, reader)


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
    return Product(plan.after, lines, state.given - state.cut, state.drafted)


def _preparation(state: Product, before: Product, left: Sequence[int], lengths: Sequence[int] | None) -> Move:
    told = f"prepare left={_numbers(left)}" + ("" if lengths is None else f" lengths={_numbers(lengths)}")
    return told, partial(_prepared, state, before, left, lengths)


def _prepared(state: Product, before: Product, left: Sequence[int], lengths: Sequence[int] | None) -> Product | None:
    """Announce left padding, and right padding behind `lengths` if they are given."""
    right = None if lengths is None else (*(0 for _ in left[1:]), 1)
    problem = plans.prepare_problem(state.group, left, lengths, right)
    short = lengths is not None and any(length < pad for length, pad in zip(lengths, left, strict=True))
    refused = not state.rests or short or (any(left) and state.given > 0)
    demand((problem is not None) == refused, "is allowed" if refused else f"is refused: {problem}")
    if refused:
        return None
    after = plans.prepared(state.group, left, lengths, right)
    demand(plans.prepared(state.group, left, lengths, None).ends is None, "lengths without right padding pend")
    ends = (None,) * len(left) if lengths is None else lengths
    lines = [
        Line(line.row, Padding(pad, end), cells=line.cells)
        for line, pad, end in zip(before.lines, left, ends, strict=True)
    ]
    return Product(after, lines, state.given)


def _numbers(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers)) or "none"


# Trims.


def _trims(state: Product) -> Iterator[Move]:
    able = state.window is None or state.given < state.window
    for count in range(state.shortest + 1 if able else 0):
        yield f"trim {count}", partial(_trimmed, state, count)


def _trimmed(state: Product, count: int) -> Product:
    demand(plans.can_trim(state.group, count), "is refused")
    lines = [evolve(line, row=line.row.trimmed(count, state.window)) for line in state.lines]
    return Product(plans.plan_trim(state.group, count), lines, state.given - count)


# Rows chosen and put together.


def _carried(state: Product, plan: Moved) -> list[tuple[int, ...]]:
    demand(len(plan.sources) == len(state.lines), "a plan moves another number of rows")
    return [moved(line.cells, sources) for line, sources in zip(state.lines, plan.sources, strict=True)]


def _filters(state: Product) -> Iterator[Move]:
    rows = range(len(state.lines))
    for count in range(len(rows) + 1):
        for chosen in permutations(rows, count):
            yield f"filter {_numbers(chosen)}", partial(_filtered, state, chosen)
    for wrong in ((0, 0), (len(rows),), (-1,)):
        yield f"filter {_numbers(wrong)}", partial(_refused_filter, state, wrong)


def _refused_filter(state: Product, chosen: Sequence[int]) -> None:
    demand(not plans.can_filter(state.group, chosen), "is allowed")


def _filtered(state: Product, chosen: Sequence[int]) -> Product:
    demand(plans.can_filter(state.group, chosen), "is refused")
    plan = plans.filtered(state.group, chosen)
    demand(len(plan.sources) == len(chosen), "a filter keeps another number of rows")
    kept = [state.lines[row] for row in chosen]
    lines = [evolve(line, cells=moved(line.cells, sources)) for line, sources in zip(kept, plan.sources, strict=True)]
    if not chosen:
        demand(plan.after.columns == 0, "a group without rows has columns")
        return Product(plan.after, drafted=None if state.drafted is None else 0)
    common = 0
    if state.window is None and not state.pads:
        common = min(state.given - line.row.offset for line in kept)
    demand(plan.after.columns == state.group.columns - common, f"{plan.after.columns} columns after a filter")
    return Product(plan.after, lines, state.given - common, state.drafted)


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


def _merged_again(state: Product) -> Product:
    """Take every row out, and put them together again."""
    alone = [_alone(state, row) for row in range(len(state.lines))]
    return _merged(state.window, [part for cache in alone for part in _parts(cache)])
