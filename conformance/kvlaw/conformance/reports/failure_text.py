"""A failure in plain text, and as commands: what every form of a report says of it."""

import shlex
from collections.abc import Iterator

from kvlaw.conformance.events import FailureFound
from kvlaw.conformance.reports.words import clean, spelt

MOST_STEPS = 200


def headline(failure: FailureFound) -> str:
    """Say in one line what is broken."""
    return f"{failure.clause}: {failure.title}"


def sentence(failure: FailureFound) -> str:
    """Say in one sentence what went wrong where."""
    last = next((step for step in reversed(failure.steps) if step.diverges), None)
    where = f"At `{clean(last.call, 200)}`" if last is not None else "At the end of the trace"
    part = clean(last.field if last is not None else failure.field, 80)
    law, shown = clean(failure.expected, 400), clean(failure.observed, 400)
    return f"{where} ({part}) the law says: {law}. The cache shows: {shown}."


def try_command(failure: FailureFound) -> str:
    """Give the command that walks the same trace on the same target, wherever kvlaw and the target are installed."""
    profile = ["--profile", failure.profile] if failure.profile != "core" else []
    name, _, options = failure.target.partition(" --")
    words = ["kvlaw", "try", failure.text, "--target", name, *profile]
    return clean(shlex.join(words) + (f" --{options}" if options else ""), 4000)


def law_lines(failure: FailureFound) -> list[str]:
    """Give the executable laws of the clause, line by line."""
    return [line for law in failure.laws for line in (f"when {law.when}", f"then {law.then}")]


def text_block(failure: FailureFound) -> str:
    """Tell a failure in plain text, with all that is needed to understand it and to see it again."""
    return "\n".join(map(spelt, _lines(failure)))


def _lines(failure: FailureFound) -> Iterator[str]:
    yield f"{failure.clause} ({failure.level}): {failure.title}"
    yield f"target    {clean(failure.target)}"
    yield f"trace     {clean(failure.text)}   ({failure.size})"
    yield f"expected  {clean(failure.field)}: {clean(failure.expected)}"
    yield f"observed  {clean(failure.field)}: {clean(failure.observed)}"
    if not failure.steady:
        yield "unsteady  the same trace did not fail when it was run again"
    yield ""
    yield from step_lines(failure)
    yield from ["", *failure.prose.splitlines(), ""]
    yield from (f"law       {line}" for line in law_lines(failure))
    if failure.others:
        yield f"also      {', '.join(failure.others[:6])}"
    yield from (f"swept     {clean(told)}" for told in failure.seen[:20])
    yield f"replay    {failure.replay}"
    yield f"or        {try_command(failure)}"
    yield f"read      {failure.read}   ({failure.where})"


def step_lines(failure: FailureFound) -> Iterator[str]:
    """Tell the steps of a trace: what was called, what the law says, what the target shows."""
    skipped = max(0, len(failure.steps) - MOST_STEPS)
    if skipped:
        yield f"    ({skipped} steps before these are not shown)"
    for number, step in enumerate(failure.steps):
        if number < skipped:
            continue
        yield f"{'>' if step.diverges else ' '}{number:<3} {clean(step.call, 300)}"
        yield f"       law     {clean(step.law, 600)}"
        yield f"       target  {clean(step.shown, 600)}"
        if step.diverges:
            yield f"       law     {clean(step.field)}: {clean(step.expected)}"
            yield f"       target  {clean(step.field)}: {clean(step.observed)}"


__all__ = ["headline", "law_lines", "sentence", "step_lines", "text_block", "try_command"]
