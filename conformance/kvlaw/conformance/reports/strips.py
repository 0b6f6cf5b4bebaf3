"""One step of a walk as strips of cells: what a query sees, what lies in the slots, by the law and by the target.

Only what binds is told as the law's: the order of slots is a choice of the layout profile, so that in the core profile
a strip of slots shows the target's alone.
"""

from collections.abc import Iterator, Sequence

from attrs import evolve

from kvlaw.conformance.events import Ids, Strip, What
from kvlaw.conformance.lockstep import Step
from kvlaw.reference.expectation import Expectation
from kvlaw.spec.clauses import Profile, load_clauses
from kvlaw.spec.records import Record

MOST_CELLS = 600
"""Longer strips are cut."""


def strips(step: Step, profile: Profile) -> tuple[Strip, ...]:
    """Draw a step: of a group each row, of a list each layer."""
    first = step.divergences[0] if step.divergences else None
    parts: list[tuple[str, Expectation, Record]] = [("", step.expectation, step.record)]
    parts += _parts("layer", step.expectation.layers, step.layers)
    parts += _parts("row", step.expectation.rows, step.record.rows)
    drawn: list[Strip] = []
    for of, expectation, record in parts:
        here = first is not None and of in ("", f"row {first.row}", f"layer {first.layer}")
        drawn += _strips(of, expectation, record, profile, first.query if first is not None and here else None)
    return tuple(drawn)


def _parts(
    word: str, expectations: Sequence[Expectation], records: Sequence[Record]
) -> list[tuple[str, Expectation, Record]]:
    pairs = zip(expectations, records, strict=False)
    return [(f"{word} {number}", expectation, record) for number, (expectation, record) in enumerate(pairs)]


def _strips(of: str, expectation: Expectation, record: Record, profile: Profile, query: int | None) -> Iterator[Strip]:
    seen = _seen(of, expectation, record, query)
    if seen is not None:
        yield seen
    answers = record.read.answers if record.read is not None else None
    if answers is not None or expectation.value("answers") is not None:
        yield _cut("reads", of, _binding(expectation, "answers", profile), answers)
    after = record.after
    if after is not None and (after.held is not None or after.slots is not None):
        name = "held" if after.held is not None else "slots"
        yield _cut("slots", of, _binding(expectation, name, profile), getattr(after, name))


def _seen(of: str, expectation: Expectation, record: Record, query: int | None) -> Strip | None:
    """Draw what the query in question sees, by default the last one; of a dense fetch what it fetches."""
    sights, read = expectation.sights, record.read
    visible = read.visible[0] if read is not None and read.visible else ()
    count = len(visible) or len(sights)
    if expectation.is_dense:
        fetched = read.fetched[0] if read is not None and read.fetched else None
        return _cut("fetches", of, sights[-1].allowed if sights else None, fetched)
    if not count or (sights and visible and len(sights) != len(visible)):
        return None
    index = count - 1 if query is None else min(query, count - 1)
    law = sights[index].allowed if sights else None
    must = sights[index].required if sights and sights[index].required != law else None
    if law is not None and must is None and expectation.order:
        law = expectation.order[index]
    column = expectation.real[index] if expectation.real is not None else index
    strip = _cut("sees", of, law, visible[index] if visible else None, must)
    return evolve(strip, query=None if index == count - 1 else index, column=column)


def _binding(expectation: Expectation, name: str, profile: Profile) -> Ids | None:
    """Give an expected value if a clause of the profile asks for it."""
    chosen = load_clauses().of_profile(profile)
    for expected in expectation.expected:
        if expected.field == name and any(clause in chosen for clause in expected.clauses):
            return tuple(expected.value)
    return None


def _cut(what: What, of: str, law: Ids | None, shown: Ids | None, must: Ids | None = None) -> Strip:
    """Make a strip, without the empty slots at its end and without what is beyond the most cells."""
    whole = [ids for ids in (law, must, shown) if ids is not None]
    length = max((len(ids) if what != "slots" else _used(ids) for ids in whole), default=0)
    most = min(length, MOST_CELLS)
    cells = [None if ids is None else ids[:most] for ids in (law, must, shown)]
    return Strip(what, of, law=cells[0], must=cells[1], shown=cells[2], more=length - most)


def _used(slots: Ids) -> int:
    """Count slots up to the last one that holds something."""
    return next((n for n in range(len(slots), 0, -1) if slots[n - 1]), 0)


__all__ = ["MOST_CELLS", "strips"]
