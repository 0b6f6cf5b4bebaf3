"""The terminal report of a check: one screen per failure, a table of clauses, the verdict and what to do next."""

from collections import Counter
from collections.abc import Callable
from itertools import groupby

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from kvlaw.conformance.failures import Failure
from kvlaw.conformance.lockstep import Step
from kvlaw.conformance.reports.expected import advice, but_for, expected_block, unreached
from kvlaw.conformance.reports.steps import step_table
from kvlaw.conformance.result import CheckResult, ClauseResult
from kvlaw.spec.clauses import Clause, load_clauses
from kvlaw.spec.text_form import write

Rerun = Callable[[Failure], tuple[Step, ...]]
_COLOURS = {
    "pass": "green",
    "fail": "bold red",
    "expected fail": "magenta",
    "not exercised": "yellow",
    "not applicable": "dim",
}


def print_check(console: Console, result: CheckResult, rerun: Rerun, *, verbose: bool = False) -> None:
    """Print the whole report; ``rerun`` replays a failure for its step table."""
    for clause in result.failed:
        for failure in clause.failures:
            console.print(failure_block(failure, rerun(failure)))
    listed = expected_block(result)
    if listed is not None:
        console.print(listed)
    console.print(clause_table(result, verbose=verbose))
    console.print(summary(result))


def failure_block(failure: Failure, steps: tuple[Step, ...]) -> RenderableType:
    """Show one failure: clause, target, trace, steps, law, and how to replay it."""
    clause = load_clauses()[failure.clause]
    others = ", ".join(failure.divergence.others[:6])
    calls = len(failure.trace.calls)
    size = f"{'shortest' if failure.minimal else 'a'} trace, {calls} call{'' if calls == 1 else 's'}"
    lines: list[RenderableType] = [
        Text.assemble((f"target  {failure.target}", ""), (f"   {size}", "dim")),
        Text(f"trace   {write(failure.trace)}"),
        Text(""),
        step_table(failure.trace, steps, target="the target shows"),
        *_unsteady(failure, steps),
        Text(""),
        *[Text(f"{'swept' if i == 0 else '':8}{told}") for i, told in enumerate(failure.seen)],
        *_law(clause),
        *([Text(f"also    {others}", style="dim")] if others else []),
        Text(f"replay  kvlaw replay {failure.id}", style="cyan"),
        Text(f"read    kvlaw spec show {failure.clause}", style="cyan"),
    ]
    title = f"[bold red]{failure.clause}[/]  {escape(clause.title)}  [dim]{clause.level}[/]"
    return Panel(Group(*lines), title=title, title_align="left", border_style="red")


def _unsteady(failure: Failure, steps: tuple[Step, ...]) -> list[RenderableType]:
    """Say so where the failure is not seen when its trace is run again."""
    if any(step.divergences for step in steps):
        return []
    first = failure.divergence
    seen = f"{first.field}: {first.expected} was wanted, {first.observed} was seen"
    return [
        Text(""),
        Text(f"unsteady  {seen}, but not when the trace was run again:", "yellow"),
        Text("the target does not answer the same calls in the same way each time", "yellow"),
    ]


def _law(clause: Clause) -> list[RenderableType]:
    if not clause.laws:
        return []
    law = clause.laws[0]
    return [Text(f"law     when {' '.join(law.when.split())}"), Text(f"        then {' '.join(law.then.split())}")]


def clause_table(result: CheckResult, *, verbose: bool = False) -> RenderableType:
    """Show the outcome of every clause, a line per family, or per clause when ``verbose``."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    if verbose:
        for head in ("clause", "level", "outcome", "exercised", "title"):
            table.add_column(head, justify="right" if head == "exercised" else "left")
        for r in result.clauses:
            outcome = Text(r.outcome, _COLOURS[r.outcome])
            table.add_row(r.clause.id, r.clause.level, outcome, str(r.exercised or ""), Text(r.why or r.clause.title))
        return table
    outcomes = [o for o in _COLOURS if o != "expected fail" or result.witnesses]
    for head in ("family", *outcomes):
        table.add_column(head, justify="left" if head == "family" else "right")
    for family, group in groupby(result.clauses, key=lambda r: r.clause.family):
        members = list(group)
        counts = Counter(r.outcome for r in members)
        cells = [Text(str(counts[o] or "-"), _COLOURS[o] if counts[o] else "dim") for o in outcomes]
        table.add_row(family, *cells, _named(members))
    return table


def _named(members: list[ClauseResult]) -> Text:
    named = [r.clause.id for r in members if r.outcome in ("fail", "expected fail", "not exercised")]
    return Text(" ".join(named), "dim")


def summary(result: CheckResult) -> RenderableType:
    """Say the verdict, what it rests on, and what to do next."""
    colour = {"conformant": "green", "violations": "red", "incomplete": "yellow"}[result.verdict]
    counts = Counter(r.outcome for r in result.clauses)
    told = ", ".join(f"{counts[o]} {o}" for o in _COLOURS if counts[o])
    lines = [
        Text.assemble(
            (result.verdict.upper() + but_for(result), f"bold {colour}"),
            f"  {result.target}  ({', '.join(result.kinds)}; profile {result.profile})",
        ),
        Text(f"clauses     {told}"),
        *[Text(f"behind      {line}", "yellow") for line in unreached(result)],
        Text(f"arithmetic  {result.arithmetic.word} ({result.arithmetic.reads} reads)"),
        Text(
            f"played      {result.traces} traces, {result.calls} calls in {result.seconds:.1f} s; "
            f"budget {result.budget}, seed {result.seed}"
        ),
        *[Text(f"trouble     {count} x {message}", "yellow") for message, count in list(result.errors.items())[:5]],
        *[Text(f"next        {line}", "cyan") for line in _next(result)],
    ]
    return Group(*lines)


def _next(result: CheckResult) -> list[str]:
    if result.interrupted:
        return ["interrupted: what was found so far is shown; run the same command again for the rest"]
    if result.stopped:
        return [f"stopped: {result.stopped}; what was found so far is shown"]
    if told := advice(result):
        return told
    if result.verdict == "violations":
        return ["kvlaw replay shows a failure again; kvlaw try 'TRACE' runs a trace of your own"]
    if result.verdict == "incomplete":
        missing = " ".join(r.clause.id for r in result.open if r.clause.level == "MUST")
        return [f"never exercised: {missing}", "try --budget deep, or --allow-incomplete if that is known and accepted"]
    return []
