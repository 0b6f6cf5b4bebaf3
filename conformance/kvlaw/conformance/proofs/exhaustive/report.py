"""`kvlaw prove --exhaustive`: search every space of a budget, and say so in one table."""

import time

from attrs import field, frozen
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kvlaw.conformance.proofs.exhaustive.parallel import search_all
from kvlaw.conformance.proofs.exhaustive.search import SPACES, Budget, Coverage, Space

COVERED = (
    "Every call from every state, up to a shift of positions. Blocks, padded prompts and rounds of rings have up to "
    "W + 2 columns, those of growing groups as many as fit. A round takes them in any number of appends, and ends by a "
    "commit or a roll back to any number of them in each row."
)
"""What searches that have reached their fixpoint have looked at."""

EXACT, WRONG, INTERRUPTED = 0, 1, 130


@frozen
class ExhaustiveReport:
    """Hold what each search has seen; searches that an interrupt prevented are missing."""

    budget: Budget
    covered: tuple[Coverage, ...] = field(converter=tuple)
    seconds: float

    @property
    def exit_code(self) -> int:
        """0 if every space of the budget was searched to its end and nothing is wrong, 1 for a violation, or 130."""
        if any(one.violation is not None for one in self.covered):
            return WRONG
        return EXACT if len(self.covered) == len(SPACES[self.budget]) and self.closed else INTERRUPTED

    @property
    def closed(self) -> bool:
        """Tell whether every search that was begun has reached its fixpoint."""
        return all(one.closed for one in self.covered)


def explore(budget: Budget, console: Console | None = None, jobs: int = 1) -> ExhaustiveReport:
    """Search every space of a budget, `jobs` side by side, showing on `console` how far it is.

    An interrupt ends it with what was seen.
    """
    started = time.monotonic()
    with (console or Console(stderr=True, emoji=False)).status("starting") as status:

        def tell(space: Space, states: int, transitions: int) -> None:
            status.update(f"{space.name}: {states:,} states, {transitions:,} transitions")

        covered = search_all(SPACES[budget], tell, jobs)
    return ExhaustiveReport(budget, covered, time.monotonic() - started)


def print_exhaustive(console: Console, report: ExhaustiveReport) -> int:
    """Print a line per space and each shortest history that is wrong, and give the exit code."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for head in ("caches", "states", "transitions", "s", "outcome"):
        table.add_column(head, justify="left" if head in ("caches", "outcome") else "right")
    for one in report.covered:
        table.add_row(one.space.name, f"{one.states:,}", f"{one.transitions:,}", f"{one.seconds:.1f}", _outcome(one))
    console.print(table)
    for one in report.covered:
        if one.violation is not None:
            calls = " ; ".join(one.violation.calls)
            console.print(f"{one.space.name}: {calls}: {one.violation.message}", style="red", markup=False)
    states, transitions = sum(one.states for one in report.covered), sum(one.transitions for one in report.covered)
    total = f"{states:,} states, {transitions:,} transitions, {report.seconds:.0f} s"
    said = {
        EXACT: ("every history keeps the law", "bold green"),
        WRONG: ("not every history keeps the law", "bold red"),
        INTERRUPTED: ("interrupted before the end", "bold yellow"),
    }
    words, style = said[report.exit_code]
    console.print(f"{words}: {total}", style=style)
    if report.exit_code == EXACT:
        console.print(COVERED)
    return report.exit_code


def _outcome(one: Coverage) -> Text:
    if one.violation is not None:
        return Text("violation", "bold red")
    return Text("fixpoint", "green") if one.closed else Text("interrupted", "bold yellow")
