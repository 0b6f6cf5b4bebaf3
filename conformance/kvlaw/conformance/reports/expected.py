"""Listed failures in the terminal report: one compact block, and what to do where they are not what they were."""

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from kvlaw.conformance.expectations.witnesses import Witness
from kvlaw.conformance.result import CheckResult

_COLOURS = {"holds": "green", "stale": "red", "changed": "red", "unknown": "red", "twice": "red", "misplaced": "red"}
UPDATE = "kvlaw check --update-expectations"


def expected_block(result: CheckResult) -> RenderableType | None:
    """Show the listed failures: the clause, its state, the reason, the link; None if nothing is listed."""
    if not result.witnesses:
        return None
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for head in ("clause", "state", "met", "reason and link"):
        table.add_column(head, justify="right" if head == "met" else "left", overflow="fold")
    for witness in result.witnesses:
        entry = witness.expected
        told = Text(" ".join(part for part in (entry.reason, entry.link) if part))
        state = Text(witness.state, _COLOURS[witness.state])
        table.add_row(Text(entry.clause), state, str(witness.met or ""), told)
    wrong = [line for witness in result.outdated for line in _wrong(witness)]
    colour = "red" if wrong else "green"
    title = f"[bold {colour}]expected failures[/]  {len(result.expected)} of {len(result.witnesses)} hold"
    return Panel(Group(table, *wrong), title=title, title_align="left", border_style=colour)


def _wrong(witness: Witness) -> list[RenderableType]:
    entry = witness.expected
    return [
        Text(""),
        Text(f"{entry.clause} is {witness.state}: {witness.why}", "red"),
        Text(f"  {entry.where or entry.target}", "dim"),
        Text(f"  {entry.text}", "dim"),
    ]


def but_for(result: CheckResult) -> str:
    """Say behind the verdict how many failures it leaves out of account; nothing if there are none."""
    count = len(result.expected)
    if not count or result.verdict == "violations":
        return ""
    return f" but for {count} expected failure{'' if count == 1 else 's'}"


def unreached(result: CheckResult) -> list[str]:
    """Say what listed failures kept from being reached."""
    by_blocker: dict[str, list[str]] = {}
    for clause in result.behind:
        by_blocker.setdefault(", ".join(clause.behind), []).append(clause.clause.id)
    return [f"{' '.join(clauses)} not reached behind {blocker}" for blocker, clauses in by_blocker.items()]


def advice(result: CheckResult) -> list[str]:
    """Say what to do about failures that are not as listed, or not listed."""
    states = {witness.state for witness in result.outdated}
    said = [
        ("stale", f"a listed failure passes now: take its entry out, or let `{UPDATE}` do it"),
        ("changed", f"a listed failure fails otherwise now: look at it, then `{UPDATE}` refreshes its entry"),
        ("unknown", "an entry names what is not checked: correct or remove it"),
        ("twice", "an entry stands twice: remove one"),
        ("misplaced", "an entry is for a target that is not there: correct its target, or remove it"),
    ]
    told = [line for state, line in said if state in states]
    listed = bool(result.witnesses)
    return [*told, *([_unlisted(result)] if listed and result.failed else [])]


def _unlisted(result: CheckResult) -> str:
    clauses = " ".join(clause.clause.id for clause in result.failed)
    return f"not listed: {clauses}; repair it, or list it with `{UPDATE}` if it is known"


def states(witnesses: Iterable[Witness]) -> dict[str, int]:
    """Count witnesses by state."""
    counts: dict[str, int] = {}
    for witness in witnesses:
        counts[witness.state] = counts.get(witness.state, 0) + 1
    return counts


__all__ = ["UPDATE", "advice", "but_for", "expected_block", "states", "unreached"]
