"""Every call of a serial cache, rounds included: what it must do, what its queries must see, and where it leads."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from attrs import evolve, frozen

from kvlaw.conformance.proofs.exhaustive.product import DEAD, demand, moved
from kvlaw.conformance.proofs.exhaustive.serial import Serial, new
from kvlaw.reference import index_masks as masks
from kvlaw.reference import index_plans as plans
from kvlaw.reference import index_rounds as rounds
from kvlaw.reference.history import sees
from kvlaw.reference.index_plans import Phase, Plan
from kvlaw.reference.index_state import Full, Ring


@frozen
class SerialAlphabet:
    """Hold how far calls go.

    longest: positions of the longest window. positions: of a growing cache, the most that are looked at, None for a
    ring. drafts: the most positions of one round, in any number of appends.
    """

    longest: int
    positions: int | None
    drafts: int

    def moves(self, at: Serial) -> Iterator[tuple[str, Callable[[], Serial]]]:
        """Give every call; making a wrong one raises ViolationError."""
        yield "reset", partial(new, at.window, at.sinks)
        yield from self._appends(at)
        if at.drafted is not None:
            yield "commit_round", partial(_closed, at, at.drafted, at.drafted)
            for keep in range(at.drafted + 1):
                yield f"roll_back {keep}", partial(_closed, at, keep, at.drafted)
            return
        if self.drafts:
            yield "begin_round", partial(evolve, at, drafted=0)
        for count in range(at.length + 1 if at.window is None or at.length < at.window else 0):
            yield f"trim {count}", partial(_trimmed, at, count)
        for count in range(1, at.block + 1):
            yield f"bypass {count}", partial(_bypassed, at, count)

    def _appends(self, at: Serial) -> Iterator[tuple[str, Callable[[], Serial]]]:
        room = self.longest if self.positions is None else min(self.longest, self.positions - at.length)
        if at.drafted is not None:
            room = min(room, self.drafts - at.drafted)
        if room > 0:
            yield "decode", partial(_appended, at, 1, "decode")
        for length in range(1, room + 1):
            yield f"window {length}", partial(_appended, at, length, "window")


def _plan(at: Serial, length: int, phase: Phase) -> Plan[Any]:
    if at.drafted is not None:
        return rounds.plan_in_round(at.state, length, at.drafted)
    if isinstance(at.state, Full):
        return plans.full_plan(at.state, length)
    return plans.plan_decode(at.state) if phase == "decode" else plans.plan_block(at.state, length)


def _appended(at: Serial, length: int, phase: Phase) -> Serial:
    """Carry a plan out in the order of its fields, and check what is fetched and seen of it."""
    plan = _plan(at, length, phase)
    grown = at.cells + (DEAD,) * plan.add
    kept = grown if plan.keep is None else moved(grown, plan.keep)
    end = plan.write_at + length
    demand(plan.length == length and 0 <= plan.write_at <= len(kept), f"a plan writes at {plan.write_at}")
    cells = kept[: plan.write_at] + tuple(range(at.length + 1, at.length + length + 1)) + kept[end:]
    demand(all(0 <= column < len(cells) for column in plan.fetch), f"a plan fetches {plan.fetch} of {len(cells)}")
    _check_width(at, plan, length, phase)
    _check_sight(at, tuple(cells[column] for column in plan.fetch), length, phase)
    block = length if phase == "window" and at.drafted is None and at.window is not None else 0
    drafted = None if at.drafted is None else at.drafted + length
    return Serial(plan.after, cells, at.length + length, drafted, block, at.short and drafted is not None)


def _check_width(at: Serial, plan: Plan[Any], length: int, phase: Phase) -> None:
    """A round changes no width of a read; in it a ring has room for W columns and those of the round."""
    window = at.window
    past = at.length if window is None else min(at.length, window - 1)
    demand(len(plan.fetch) == past + length, f"{len(plan.fetch)} columns are fetched, not {past + length}")
    most = plans.max_columns(at.state, length, phase)
    if window is not None and at.drafted is not None:
        most = min(at.length, window + at.drafted) + length
        laid = plan.after.write_index == plan.after.columns and not plan.after.rotated
        demand(laid, "an append in a round does not end the columns (I6)")
    demand(plan.after.columns <= most, f"{plan.after.columns} columns, {most} are enough")


def _check_sight(at: Serial, fetched: tuple[int, ...], length: int, phase: Phase) -> None:
    """Compare what each query sees with the law, for each window argument, and the kind of the mask."""
    window, width = at.window, len(fetched)
    for argument in (None, *range(1, width + 2 if window is None else window + 2)):
        able = argument is None or window is None or argument >= window or at.sinks == 0
        demand(masks.can_narrow(at.state, argument) == able, f"window argument {argument}")
        if not able:
            continue
        obeyed = argument if window is None else min(window, window if argument is None else argument)
        kind = masks.mask_kind(at.state, length, phase, argument)
        plain = obeyed is None or width <= obeyed
        expected = "array" if not plain else "none" if phase == "decode" else "causal"
        demand(kind == expected, f"a {phase} with window argument {argument} has mask {kind}, not {expected}")
        for i in range(length):
            shown = tuple(sorted(fetched[j] for j in range(width) if _shows(at, length, phase, i, j, argument)))
            query = at.length + i
            law = tuple(key + 1 for key in range(query + 1) if sees(query, key, obeyed, at.sinks))
            demand(shown == law, f"sees {shown} at position {query} with window argument {argument}, not {law}")


def _shows(at: Serial, length: int, phase: Phase, i: int, j: int, argument: int | None) -> bool:
    if isinstance(at.state, Full):
        return masks.full_visible(at.state, length, i, j, argument)
    if phase == "decode" and at.drafted is None:
        return masks.decode_visible(at.state, j, argument)
    return masks.block_visible(at.state, length, i, j, argument)


def _closed(at: Serial, keep: int, drafted: int) -> Serial:
    """Keep the first `keep` positions of the round, in a history in which the others never were (ROUND-14)."""
    tail = drafted - keep
    after = rounds.after_roll_back(at.state, tail)
    columns = at.state.columns - (tail if isinstance(at.state, Ring) else 0)
    demand(after.columns == columns, f"{after.columns} columns after a roll back, not {columns}")
    demand(tail > 0 or after == at.state, "a round of which all is kept moves columns")
    short = at.short and keep == 0
    return evolve(at, state=after, cells=at.cells[:columns], length=at.length - tail, drafted=None, short=short)


def _trimmed(at: Serial, count: int) -> Serial:
    block = at.block if count == 0 else 0
    return evolve(at, state=plans.plan_trim(at.state, count), length=at.length - count, block=block)


def _bypassed(at: Serial, count: int) -> Serial:
    """Cut the newest positions of a window off; W - 1 of those before it are there, all that the next query sees."""
    assert isinstance(at.state, Ring)  # only a ring has a block
    after, left = plans.plan_bypass(at.state, count), at.block - count
    short = left == 0 and at.length - count >= at.state.window
    length = at.length - count
    return Serial(after, at.cells[: after.columns], length, None, left, short)
