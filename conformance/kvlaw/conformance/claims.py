"""Check the claims of a hand-written trace (``-> sees t1..t4``) against the steps of a run.

Used for the examples of the specification and for ``kvlaw try``. A claim about something that was not observed is open.
"""

from typing import Any

from attrs import frozen

from kvlaw.conformance.lockstep import Step
from kvlaw.spec.claims import OF_COLUMNS, OF_QUERIES
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
    found: list[Unkept] = []
    for index, claims in enumerate([written.opening, *written.claims]):
        for claim in claims:
            if index >= len(steps):
                found.append(Unkept(index, _name(written, index), _words(claim), "the run ended before this call"))
                continue
            seen = contradicts(claim, steps[index])
            if seen is not None:
                found.append(Unkept(index, _name(written, index), _words(claim), seen))
    return found


_ANSWERED = ("answer", "fetches", "mask", "form", *OF_QUERIES)
"""Claims about what a call answers: one that is not carried out answers nothing."""


def contradicts(claim: Claim, step: Step) -> str | None:
    """Say what was seen instead of what is claimed; None if the claim is kept or the thing was not observed."""
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
    if claim.what == "fetches":
        return _fetches(claim, record.read)
    if claim.what == "form":
        return _unequal(record.read.form if record.read is not None else None, claim.value)
    if claim.what == "mask":
        return _unequal(record.mask or (step.expectation.mask if record.read is None else None), claim.value)
    return _state(claim, record.after)


def _unequal(seen: Any, claimed: Any) -> str | None:
    return None if seen is None or seen == claimed else str(seen)


def _sees(claim: Claim, read: ReadRecord | None, *, ordered: bool) -> str | None:
    if read is None or read.visible is None:
        return None
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
    rows = () if read is None or read.fetched is None else read.fetched
    return next((format_tokens(ids) for ids in rows if ids != claim.value), None)


def _state(claim: Claim, after: CacheRecord | None) -> str | None:
    if after is None:
        return None
    if claim.what == "holds":
        return None if after.held is None or after.held == claim.value else format_tokens(after.held)
    if claim.what == "can_trim":
        if after.can_trim is None:
            return None
        able = tuple(n for n, flag in enumerate(after.can_trim) if flag)
        return None if able == tuple(claim.value) else f"can trim {able}"
    return _unequal(getattr(after, claim.what), claim.value)


def _name(written: Written, index: int) -> str:
    return write_call(written.trace.calls[index - 1]) if index else "the opening"


def _words(claim: Claim) -> str:
    if claim.what in OF_QUERIES:
        return f"{claim.what} " + " | ".join(format_tokens(ids) for ids in claim.value)
    if claim.what in OF_COLUMNS:
        return f"{claim.what} {format_tokens(claim.value)}"
    return claim.what if claim.value is None else f"{claim.what} {claim.value}"
