"""Expected failures in a report: one compact block, and what to do where they are not what they were."""

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from kvlaw.conformance.counting import counted
from kvlaw.conformance.events import WitnessReplayed
from kvlaw.conformance.reports.outcomes import look_of
from kvlaw.conformance.reports.run import TargetReport

UPDATE = "kvlaw check --update-expectations"


def expected_block(report: TargetReport) -> RenderableType:
    """Show the expected failures: the clause, its state, how often it was met again, the reason and the link."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for head in ("clause", "state", "met", "reason and link"):
        table.add_column(head, justify="right" if head == "met" else "left", overflow="fold")
    for witness in report.witnesses:
        told = Text(" ".join(part for part in (witness.reason, witness.link) if part))
        told.append(f"\n{witness.text}" if witness.holds and witness.text else "", "dim")
        state = Text(witness.state, "green" if witness.holds else "red")
        table.add_row(Text(witness.clause), state, str(witness.met or ""), told)
    wrong = [line for witness in report.wrong_witnesses() for line in _wrong(witness)]
    colour = "red" if wrong else "green"
    title = f"[bold {colour}]expected failures[/]  {len(report.expected())} of {len(report.witnesses)} hold"
    return Panel(Group(table, *wrong), title=title, title_align="left", border_style=colour)


def _wrong(witness: WitnessReplayed) -> list[RenderableType]:
    return [
        Text(""),
        Text(f"{witness.clause} is {witness.state}: {witness.message}", "red"),
        *[Text(f"  {line}", "dim") for line in (witness.listed or witness.listed_for, witness.text) if line],
    ]


def but_for(report: TargetReport) -> str:
    """Say behind the verdict how many failures it leaves out of account; nothing if there are none."""
    count = len(report.expected())
    if not count or report.end.verdict in ("violations", "stale expectations"):
        return ""
    return f" but for {counted(count, 'expected failure')}"


def unreached(report: TargetReport) -> list[str]:
    """Say what expected failures kept from being reached."""
    return [f"{' '.join(clauses)} not reached behind {blocker}" for blocker, clauses in report.unreached().items()]


def as_listed(report: TargetReport) -> str:
    """Say which clauses fail as an entry of another clause says, and have none of their own."""
    of = {witness.id: witness.clause for witness in report.witnesses}
    found: dict[str, list[str]] = {}
    for clause in report.clauses:
        names = [of[entry] for entry in clause.expected if entry in of]
        if look_of(clause.outcome).word == "expected" and names and clause.clause not in names:
            found.setdefault(", ".join(dict.fromkeys(names)), []).append(clause.clause)
    return "; ".join(f"{' '.join(clauses)} as {names}" for names, clauses in found.items())


_ADVICE = {
    "stale": f"a listed failure passes now: take its entry out, or let `{UPDATE}` do it",
    "changed": f"a listed failure fails otherwise now: look at it, then `{UPDATE}` refreshes its entry",
    "unknown": "an entry names what is not checked: correct or remove it",
    "twice": "an entry stands twice: remove one",
    "misplaced": "an entry is for a target that is not there: correct its target, or remove it",
}


def advice(report: TargetReport) -> list[str]:
    """Say what to do about failures that are not as listed, or not listed; nothing where none is listed."""
    states = {witness.state for witness in report.wrong_witnesses()}
    told = [line for state, line in _ADVICE.items() if state in states]
    failed = " ".join(c.clause for c in report.clauses if look_of(c.outcome).case == "failed")
    unlisted = f"not listed: {failed}; repair it, or list it with `{UPDATE}` if it is known"
    return [*told, *([unlisted] if report.witnesses and failed else [])]


__all__ = ["UPDATE", "advice", "as_listed", "but_for", "expected_block", "unreached"]
