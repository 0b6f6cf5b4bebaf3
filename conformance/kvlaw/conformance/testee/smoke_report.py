"""The table of a smoke test."""

import shlex

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kvlaw.conformance.counting import counted
from kvlaw.conformance.testee.smoke_steps import Tried

_STYLES = {"ok": "green", "wrong": "bold red", "not tried": "yellow"}


def print_smoke(console: Console, target: str, steps: list[Tried]) -> int:
    """Print what was tried, and give the exit code."""
    wrong = [step for step in steps if step.word == "wrong"]
    console.print(_table(steps, remedies=bool(wrong)))
    if not wrong:
        told = f"{target} speaks the testee protocol; now: kvlaw check {shlex.quote(target)}"
        console.print(told, style="green", markup=False, soft_wrap=True)  # a command is pasted as one line
        return 0
    tried = sum(step.word != "not tried" for step in steps)
    told = f"{len(wrong)} of {counted(tried, 'step')} went wrong"
    left = f", {len(steps) - tried} could not be tried" if tried < len(steps) else ""
    console.print(f"{target}: {told}{left}", style="red", markup=False, soft_wrap=True)
    return 1


def _table(steps: list[Tried], *, remedies: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for head in ("tried", "", "came", *(("what to do",) if remedies else ())):
        table.add_column(head, overflow="fold")
    for step in steps:
        cells = [Text(step.what), Text(step.word, _STYLES[step.word]), Text(step.came)]
        table.add_row(*cells, *([Text(step.remedy, "cyan")] if remedies else []))
    return table


__all__ = ["print_smoke"]
