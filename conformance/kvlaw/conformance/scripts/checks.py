"""What a script asks at the call that breaks the law, by the field in which law and cache part."""

import re
from collections.abc import Callable

from kvlaw.conformance.events import FailureFound, StepShown, Strip
from kvlaw.conformance.reports.mishaps import mishap
from kvlaw.conformance.reports.wording import about
from kvlaw.conformance.scripts.made import ScriptError
from kvlaw.spec.calls import Call

Check = Callable[[FailureFound, StepShown, Call], list[str]]


def check_lines(failure: FailureFound, step: StepShown, call: Call | None) -> list[str]:
    """Write the lines that judge the last call, whose answer is ``answer``."""
    if failure.field not in CHECKS or call is None:
        raise ScriptError(
            f"law and cache part in {about(failure.field)}, and a script sees no more than a runtime does: "
            "what is answered, fetched, masked and visible, offsets, and what can be trimmed"
        )
    return CHECKS[failure.field](failure, step, call)


def _row(step: StepShown) -> int | None:
    found = re.match(r"row (\d+) ", step.field)
    return int(found[1]) if found else None


def _strip(step: StepShown, what: str) -> Strip:
    """Find the strip of the row that breaks the law."""
    row = _row(step)
    of = "" if row is None else f"row {row}"
    found = next((s for s in step.strips if s.what == what and s.of == of and s.law is not None), None)
    if found is None or found.more:
        raise ScriptError("the record does not tell which tokens the law wants")
    return found


def _sights(_failure: FailureFound, step: StepShown, _call: Call) -> list[str]:
    strip = _strip(step, "sees")
    law = sorted(strip.law or ())
    must = law if strip.must is None else sorted(strip.must)
    where = f"row={_row(step) or 0}, query={-1 if strip.column is None else strip.column}"
    same = (
        f"sorted(seen) == {law}"
        if law == must
        else f"len(set(seen)) == len(seen) and set({must}) <= set(seen) <= set({law})"
    )
    return [
        f"seen = sees(answer, {where})",
        f"end({same}, {step.expected!r}, told(seen))",
    ]


def _fetches(_failure: FailureFound, step: StepShown, _call: Call) -> list[str]:
    strip = _strip(step, "fetches")
    law, row = sorted(strip.law or ()), _row(step) or 0
    return [
        "keys, values = answer[0]",
        f"seen = [key if key == value else 0 for key, value in zip(tokens_of(keys, {row}), tokens_of(values, {row}))]",
        f"end(set({law}) <= set(seen) and len(seen) == len(set(seen)), {step.expected!r}, told(seen))",
    ]


def _torn(_failure: FailureFound, step: StepShown, call: Call) -> list[str]:
    if not call.appends and call.verb != "attend":
        raise ScriptError("law and cache part in the storage itself, and no runtime asks whose bytes lie there")
    return [
        "keys, values = answer[0]",
        f"mine, theirs = tokens_of(keys, {_row(step) or 0}), tokens_of(values, {_row(step) or 0})",
        f"kept_together = mine == theirs and all(sees(answer, row={_row(step) or 0}))",
        f'end(kept_together, {step.expected!r}, f"keys: {{told(mine)}}; values: {{told(theirs)}}")',
    ]


def _answer(failure: FailureFound, step: StepShown, _call: Call) -> list[str]:
    if not re.fullmatch(r"-?\d+", step.expected):
        raise ScriptError(f"the answer {failure.expected!r:.80} is no number")
    return [f'end(answer == {step.expected}, "answers {step.expected}", f"answers {{answer!r}}")']


def _offset(_failure: FailureFound, step: StepShown, call: Call) -> list[str]:
    if not re.fullmatch(r"\d+", step.expected):
        raise ScriptError(f"the offset {step.expected!r:.80} is no number")
    name, row = getattr(call, "as_", None) or call.on, _row(step)
    name = call.on if call.appends or call.verb in ("state", "mask", "merge") else name
    where = f"offsets(things[{name!r}])" + ("" if row is None else f"[{row}]")
    return [f"offset = {where}", f'end(offset == {step.expected}, "offset {step.expected}", f"offset {{offset}}")']


def _can_trim(_failure: FailureFound, step: StepShown, call: Call) -> list[str]:
    wanted = [int(word) for word in re.findall(r"\d+", step.expected)]
    name = getattr(call, "as_", None) if not call.appends else None
    return [
        f"able = can_trim(things[{name or call.on!r}])",
        f'end(able == {wanted}, "can trim {wanted}", f"can trim {{able}}")',
    ]


def _handed(_failure: FailureFound, step: StepShown, call: Call) -> list[str]:
    return [
        f"now = [host(array) for array in leaves(things[{call.on!r}])]",
        f"same = now == copies[{call.on!r}]",
        f'end(same, {step.expected!r}, "the same" if same else "other numbers in them")',
    ]


def _mask_width(_failure: FailureFound, step: StepShown, call: Call) -> list[str]:
    if not call.appends:
        raise ScriptError("the mask was not made for an append")
    return [
        "(keys, values), mask, length = answer",
        'shape = (1, 1, *mask.shape)[-2:] if hasattr(mask, "shape") else (length, keys.shape[2])',
        "fits = shape[1] == keys.shape[2] and shape[0] in (1, length)",
        f"end(fits, {step.expected!r}, f\"a mask of shape {{list(getattr(mask, 'shape', ()))}}\")",
    ]


def _outcome(failure: FailureFound, _step: StepShown, _call: Call) -> list[str]:
    if (met := mishap(failure)) is not None and met.word in ("hung", "crashed", "broke off"):
        raise ScriptError(f"{met.sentence}, and that would be the end of a script, too")
    if failure.observed.startswith("error"):
        raise ScriptError("the call was carried out, but what it made cannot be shown")
    return [f'end(True, {failure.expected!r}, "refused" if answer is None else "carried out")']


CHECKS: dict[str, Check] = {
    "outcome": _outcome,
    "answer": _answer,
    "sights": _sights,
    "dense_sights": _fetches,
    "offset": _offset,
    "can_trim": _can_trim,
    "handed": _handed,
    "mask_width": _mask_width,
    "torn": _torn,
}
"""Field to the lines that judge it."""

__all__ = ["CHECKS", "check_lines"]
