"""A failure in plain text, and as commands: what every form of a report says of it."""

import shlex
from collections.abc import Iterator

from kvlaw.conformance.events import FailureFound
from kvlaw.conformance.reports.legend import legend
from kvlaw.conformance.reports.mishaps import mishap
from kvlaw.conformance.reports.wording import aside, demanded, shown, told
from kvlaw.conformance.reports.words import clean, spelt

MOST_STEPS = 200


def title(failure: FailureFound) -> str:
    """Say what happened: that a call came to no answer, or else which rule was broken."""
    met = mishap(failure)
    return failure.title if met is None else met.sentence


def charged(failure: FailureFound) -> str:
    """Say to which rule a call is charged that came to no answer; nothing for other failures."""
    return "" if mishap(failure) is None else f"charged to {failure.clause}: {failure.title}"


def headline(failure: FailureFound) -> str:
    """Say in one line what is broken."""
    more = charged(failure)
    return f"{title(failure)} ({more})" if more else f"{failure.clause}: {failure.title}"


def sentence(failure: FailureFound) -> str:
    """Say in one sentence what went wrong where."""
    last = next((step for step in reversed(failure.steps) if step.diverges), None)
    where = f"At `{clean(last.call, 200)}`" if last is not None else "At the end of the trace"
    wanted, came = _values(failure)
    return f"{where} the law says: {clean(wanted, 400)}. The target shows: {clean(came, 400)}."


def _values(failure: FailureFound) -> tuple[str, str]:
    """Give the demand that was not met, and what came instead."""
    last = next((step for step in reversed(failure.steps) if step.diverges), None)
    if last is not None:
        return demanded(last), shown(last)
    return told(failure.field, failure.expected), told(failure.field, failure.observed)


def try_command(failure: FailureFound) -> str:
    """Give the command that walks the same trace on the same target, wherever kvlaw and the target are installed."""
    profile = ["--profile", failure.profile] if failure.profile != "core" else []
    name, _, options = failure.target.partition(" --")
    words = ["kvlaw", "try", failure.text, "--target", name, *profile]
    return clean(shlex.join(words) + (f" --{options}" if options else ""), 4000)


def text_block(failure: FailureFound, *, titled: bool = True, fixed: str = "") -> str:
    """Tell a failure in plain text, with all that is needed to understand it and to see it again.

    Not ``titled`` where its title stands already; ``fixed`` is what every trace of the check has.
    """
    head = [f"{failure.clause} ({failure.level}): {title(failure)}"] if titled else []
    return "\n".join(map(spelt, [*head, *_lines(failure, fixed)]))


def _lines(failure: FailureFound, fixed: str) -> Iterator[str]:
    wanted, came = _values(failure)
    more = charged(failure)
    yield from [more] if more else []
    yield f"target    {clean(failure.target)}{f' ({clean(fixed)})' if fixed else ''}"
    yield f"trace     {clean(failure.text)}   ({failure.size})"
    yield from [f"built     by {clean(failure.built)}"] if failure.built else []
    yield f"expected  {clean(wanted)}"
    yield f"observed  {clean(came)}"
    if not failure.steady:
        yield "unsteady  the same trace did not fail when it was run again"
    yield ""
    yield from step_lines(failure)
    yield from ["", *failure.prose.splitlines(), ""]
    yield from (f"{'words' if number == 0 else '':9} {words}" for number, words in enumerate(legend_lines(failure)))
    if failure.others:
        yield f"also      {shared_rule(failure)}"
    yield from (f"alike     fails in the same way with {clean(swept(one))}" for one in failure.seen[:20])
    yield f"replay    {failure.replay}"
    yield f"or        {try_command(failure)}"
    yield f"read      {failure.read}   ({failure.where})"


def legend_lines(failure: FailureFound, *, calls: bool = True) -> list[str]:
    """Write out the shorthand of a failure, one a line; the names of ``calls`` where these are not explained."""
    return [f"{short}: {meaning}" for short, meaning in legend(failure, calls=calls)]


def shared_rule(failure: FailureFound) -> str:
    """Say which other rules ask for the same, and why they may stand there as kept; nothing where there is none."""
    asked = ", ".join(failure.others[:6])
    return f"asked for by {asked}, which may still count as pass: a failure is charged to one clause" if asked else ""


def swept(policy: str) -> str:
    """Write out the head dimensions behind a storage policy."""
    return policy.replace(": D=", ", head dimension ")


def step_lines(failure: FailureFound) -> Iterator[str]:
    """Tell the steps of a trace: what was called, what the law says, what the target shows."""
    skipped = max(0, len(failure.steps) - MOST_STEPS)
    if skipped:
        yield f"    ({skipped} steps before these are not shown)"
    for number, step in enumerate(failure.steps):
        if number < skipped:
            continue
        yield f"{'>' if step.diverges else ' '}{number:<3} {clean(step.call, 300)}"
        yield f"       law     {clean(demanded(step), 600)}"
        yield f"       target  {clean(shown(step), 600)}"
        if more := aside(step):
            yield f"               ({clean(more, 600)})"


__all__ = [
    "charged",
    "headline",
    "legend_lines",
    "sentence",
    "shared_rule",
    "step_lines",
    "swept",
    "text_block",
    "title",
    "try_command",
]
