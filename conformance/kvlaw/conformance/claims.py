"""Check the claims of a hand-written trace (``-> sees t1..t4``) against the steps of a run.

Used for the examples of the specification and for ``kvlaw try``. A claim about something that was not observed is open;
one about what cannot be there (a row that a group lacks, a query of a row that got no token) is not kept.
"""

from collections.abc import Iterator
from typing import Any

from attrs import evolve, frozen

from kvlaw.conformance.lockstep import Step
from kvlaw.spec.claims import OF_CALLS, OF_COLUMNS, OF_QUERIES, OF_STATES, write_claims
from kvlaw.spec.records import CacheRecord, ReadRecord
from kvlaw.spec.text_form import Claim, Written, format_tokens, write_call


@frozen
class Unkept:
    """A claim that a run does not keep: at which step (0 is the opening), what was claimed and what was seen."""

    step: int
    call: str
    claimed: str
    seen: str


def unkept(written: Written, steps: tuple[Step, ...]) -> list[Unkept]:
    """List the claims that ``steps`` (of the run of ``written.trace``) do not keep."""
    return [claim for claim in _judged(written, steps) if claim.seen]


def unobserved(written: Written, steps: tuple[Step, ...]) -> list[Unkept]:
    """List the claims about something that was not observed: they are neither kept nor broken."""
    return [claim for claim in _judged(written, steps) if not claim.seen]


def _judged(written: Written, steps: tuple[Step, ...]) -> Iterator[Unkept]:
    """Give the claims that are not kept, and those that are open, of which nothing was seen."""
    for index, claims in enumerate([written.opening, *written.claims]):
        for claim in claims:
            seen = _judge(claim, steps[index]) if index < len(steps) else "the run ended before this call"
            if seen is not None:
                yield Unkept(index, _name(written, index), _words(claim), seen)


_ANSWERED = ("answer", "fetches", "mask", "form", "reads", *OF_QUERIES)
"""Claims about what a call answers: one that is not carried out answers nothing."""
_OF_THE_WHOLE = (*OF_CALLS, "can_trim", "max_append")
"""Claims that a list of layers answers as a whole."""
_OF_ROWS = (*OF_QUERIES, *OF_COLUMNS, *OF_STATES, "reads", "mask", "form", "offset", "size", "floor")
"""Claims that every row of a group must keep."""
_SHARED = ("can_trim", "columns", "write_index", "nbytes", "bytes_per_token", "identity")
"""Claims about what all rows of a group have in common: no row answers them."""
_OPEN = ""
"""Nothing was seen by which a claim could be judged."""


def contradicts(claim: Claim, step: Step) -> str | None:
    """Say what was seen instead of what is claimed; None if the claim is kept or the thing was not observed."""
    return _judge(claim, step) or None


def _judge(claim: Claim, step: Step) -> str | None:
    """Say what was seen instead of what is claimed, or None if it is kept; ``_OPEN`` if nothing was seen."""
    if claim.layer is not None:
        return _of_layer(claim, claim.layer, step)
    if claim.row is not None:
        return _of_row(claim, claim.row, step)
    if (step.record.group or step.record.rows) and claim.what in _OF_ROWS:
        return _of_rows(claim, step)
    if step.layers and claim.what not in _OF_THE_WHOLE:
        told = [_of_layer(claim, number, step) for number in range(len(step.layers))]
        return next(filter(None, told), _OPEN if _OPEN in told else None)
    return _of_one(claim, step)


def _of_layer(claim: Claim, number: int, step: Step) -> str | None:
    """Judge a claim about one layer of a list, by what that layer showed."""
    if number >= len(step.layers):
        return _of_none(claim, step, f"layer {number}", number < len(step.expectation.layers))
    seen = _of_one(claim, evolve(step, record=step.layers[number], layers=()))
    return f"layer {number}: {seen}" if seen else seen


def _of_rows(claim: Claim, step: Step) -> str | None:
    """Judge a claim about every row of a group; of queries, about every row that has one."""
    rows = step.record.rows
    if not rows:
        return _of_none(claim, step, "row", bool(step.expectation.rows))
    asked = [b for b, row in enumerate(rows) if claim.what not in OF_QUERIES or row.real != ()]
    told = [_of_row(claim, number, step) for number in asked or range(len(rows))]
    return next(filter(None, told), _OPEN if _OPEN in told else None)


def _of_row(claim: Claim, number: int, step: Step) -> str | None:
    """Judge a claim about one row of a group, by what that row showed."""
    if claim.what in _SHARED:
        return f"{claim.what} is the group's: claim it without row {number}"
    rows = step.record.rows
    if number >= len(rows):
        return _of_none(claim, step, f"row {number}", number < len(step.expectation.rows))
    row = rows[number]
    if claim.what in OF_QUERIES and row.ok and row.real == ():
        return f"row {number} got no token: it has no query"
    seen = _of_one(claim, evolve(step, record=row))
    return f"row {number}: {seen}" if seen else seen


def _of_none(claim: Claim, step: Step, what: str, due: bool) -> str:
    """Judge a claim about a layer or row that was not shown; if it was due, it is there all the same."""
    if claim.what in _ANSWERED and step.record.outcome != "ok":
        return f"{step.record.outcome} {step.message}".strip()
    return _OPEN if due else f"there is no {what}"


def _of_one(claim: Claim, step: Step) -> str | None:
    record = step.record
    came = f"{record.outcome} {step.message}".strip()
    if claim.what in ("refused", "ok"):
        return None if record.outcome == claim.what else came
    if claim.what in _ANSWERED and record.outcome != "ok":
        return came
    if claim.what == "answer":
        return _unequal(record.answer, claim.value)
    if claim.what in OF_QUERIES:
        return _sees(claim, record.read, ordered=claim.what == "order")
    if claim.what == "reads":
        return _listed(record.read.answers if record.read is not None else None, claim)
    if claim.what == "fetches":
        return _fetches(claim, record.read)
    if claim.what == "form":
        return _unequal(record.read.form if record.read is not None else None, claim.value)
    if claim.what == "mask":
        made = record.read.mask if record.read is not None else step.expectation.mask
        return _unequal(record.mask or made, claim.value)
    return _state(claim, record.after)


def _unequal(seen: Any, claimed: Any) -> str | None:
    return _OPEN if seen is None else None if seen == claimed else str(seen)


def _sees(claim: Claim, read: ReadRecord | None, *, ordered: bool) -> str | None:
    if read is None or read.visible is None:
        return _OPEN
    wanted: tuple[tuple[int, ...], ...] = claim.value
    for row in read.visible:
        told = row[-len(wanted) :] if len(wanted) == 1 else row
        kept = len(told) == len(wanted) and all(
            ids == want if ordered else sorted(ids) == sorted(want) for ids, want in zip(told, wanted, strict=False)
        )
        if not kept:
            return " | ".join(format_tokens(ids) for ids in told)
    return None


def _fetches(claim: Claim, read: ReadRecord | None) -> str | None:
    if read is None or read.fetched is None:
        return _OPEN
    return next((format_tokens(ids) for ids in read.fetched if ids != claim.value), None)


def _state(claim: Claim, after: CacheRecord | None) -> str | None:
    if after is None:
        return _OPEN
    if claim.what == "holds" or claim.what in OF_STATES:
        return _listed(after.held if claim.what == "holds" else getattr(after, claim.what), claim)
    if claim.what == "can_trim":
        if after.can_trim is None:
            return _OPEN
        able = tuple(n for n, flag in enumerate(after.can_trim) if flag)
        return None if able == tuple(claim.value) else f"can trim {able}"
    return _unequal(getattr(after, claim.what), claim.value)


def _listed(seen: tuple[int, ...] | None, claim: Claim) -> str | None:
    return _unequal(None if seen is None else format_tokens(seen), format_tokens(claim.value))


def _name(written: Written, index: int) -> str:
    return write_call(written.trace.calls[index - 1]) if index else "the opening"


def _words(claim: Claim) -> str:
    return f"answer {claim.value}" if claim.what == "answer" else write_claims((claim,))
