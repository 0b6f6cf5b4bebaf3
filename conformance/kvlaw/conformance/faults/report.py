"""Who caught what: every planted fault, and every mutant if asked for, as one report and one table.

The report fails (``exit_code`` 1) if a fault is missed or is charged to clauses among which the one that it breaks is
not, if its trace fails on the unmodified reference, if the corpus does not hold the trace, or if a mutant survives, is
wrongly listed as equivalent, or is listed but does not exist.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from attrs import field, frozen
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kvlaw.conformance.corpus import load_corpus
from kvlaw.conformance.faults.hunt import Catch, catch, reference_fails
from kvlaw.conformance.faults.mutants import Kill, MutantHunt, hunt_mutants
from kvlaw.conformance.faults.registry import Fault, load_faults
from kvlaw.spec.clauses import load_clauses

OnEvent = Callable[["Row | Kill"], None]


@frozen
class Row:
    """One planted fault and what came of it; ``problem`` says what is wrong with it, or is empty."""

    fault: Fault
    catch: Catch
    problem: str = ""

    @property
    def told(self) -> str:
        """Tell in a few words what was settled last."""
        return f"planted fault {self.fault.name}"


@frozen
class FaultReport:
    """What came of all planted faults, and of all mutants if they were asked for."""

    rows: tuple[Row, ...] = field(converter=tuple)
    mutants: MutantHunt | None = None

    @property
    def problems(self) -> tuple[str, ...]:
        """Everything that is wrong, one line each."""
        planted = (f"{row.fault.name}: {row.problem}" for row in self.rows if row.problem)
        return (*planted, *(_mutant_problems(self.mutants) if self.mutants else ()))

    @property
    def exit_code(self) -> int:
        """0 if every fault is caught and every mutant accounted for, else 1."""
        return 1 if self.problems else 0


def run_faults(mutants: bool = False, on_event: OnEvent | None = None, jobs: int = 1) -> FaultReport:
    """Hunt every planted fault, and every mutant (which needs MLX) in so many processes.

    ``on_event`` is told of each as it is done.
    """
    tell: OnEvent = on_event or _nobody
    clauses, stored = load_clauses(), {entry.id: entry for entry in load_corpus()}
    rows: list[Row] = []
    for fault in load_faults().values():
        found = catch(fault, clauses)
        problem = _problem(found) or reference_fails(fault.trace, clauses)
        if not problem and stored.get(fault.name) != fault.entry:
            problem = "the corpus does not hold its trace: run python -m kvlaw.conformance.faults.rebuild"
        rows.append(Row(fault, found, problem))
        tell(rows[-1])
    return FaultReport(rows, hunt_mutants(tell, jobs=jobs) if mutants else None)


def _nobody(_event: Row | Kill) -> None:
    """Tell nobody."""


def _problem(found: Catch) -> str:
    if found.caught:
        return ""
    if not found.by:
        return f"missed: {found.breaks} was not found broken in {found.calls} calls"
    return f"charged to {', '.join((found.by, *found.others))}, not to {found.breaks}"


def _mutant_problems(hunt: MutantHunt) -> Iterator[str]:
    yield from (f"{kill.name}: {kill.word}" for kill in hunt.kills if not kill.fine)
    yield from (f"{name}: listed as equivalent, but no mutant is called so" for name in hunt.stale)
    yield from (f"{name}: the unchanged implementation fails this stored trace" for name in hunt.unfit)


def print_report(console: Console, report: FaultReport) -> None:
    """Print the table of planted faults, the sums over mutants, and what is wrong."""
    console.print(render(report))
    caught = sum(not row.problem for row in report.rows)
    beside = sum(row.catch.word == "caught beside" for row in report.rows)
    console.print(
        Text(f"{caught} of {len(report.rows)} planted faults caught, {beside} of them beside a more specific clause")
    )
    if report.mutants is not None:
        console.print(Text(_sums(report.mutants)))
    for problem in report.problems:
        console.print(Text(problem, style="red"), soft_wrap=True)


def _sums(hunt: MutantHunt) -> str:
    words = Counter(kill.word for kill in hunt.kills)
    traces = len({kill.trace for kill in hunt.kills if kill.trace})
    counts = ", ".join(f"{count} {word}" for word, count in sorted(words.items()))
    return f"{len(hunt.kills)} mutants of the MLX implementation: {counts} (by {traces} traces)"


def render(report: FaultReport) -> Table:
    """Make the table: the fault in a sentence, what it breaks, who caught it after how many calls."""
    table = Table("fault", "breaks", "caught by", "calls", box=None, padding=(0, 2, 0, 0))
    for row in report.rows:
        said = Text(row.fault.sentence)
        said.append(f"  {row.fault.name}", style="dim")
        by = Text(row.catch.by or "nobody", style="" if row.catch.caught else "red")
        table.add_row(said, row.fault.breaks, by, str(row.catch.calls))
    return table
