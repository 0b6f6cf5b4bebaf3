"""The terminal report of a check: one screen per failure, a table of clauses, the verdict and what to do next."""

from collections import Counter
from collections.abc import Iterator, Sequence

from attrs import field, frozen
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from kvlaw.conformance.events import ClauseJudged, FailureFound, TargetStarted
from kvlaw.conformance.reports.expected import advice, as_listed, but_for, expected_block, unreached
from kvlaw.conformance.reports.failure_text import charged, legend_lines, shared_rule, swept
from kvlaw.conformance.reports.failure_text import title as told_title
from kvlaw.conformance.reports.fit import fit
from kvlaw.conformance.reports.mishaps import mishap
from kvlaw.conformance.reports.outcomes import LOOKS, VERDICTS, look_of
from kvlaw.conformance.reports.run import RunReport, TargetReport
from kvlaw.conformance.reports.steps import step_table
from kvlaw.conformance.reports.unasked import arithmetic, families, not_offered
from kvlaw.conformance.reports.unbroken import Kept, whole, wrapped
from kvlaw.conformance.reports.wording import told

_ALWAYS = ("pass", "fail", "not exercised")
"""The outcomes that have a column of the table whether they came out or not."""
_NEVER = "not applicable"
"""The outcome that has no column: families of which no clause applies have no line, so that its numbers would not add
up; what is not applicable is counted and told below."""


def print_run(console: Console, run: RunReport, *, verbose: bool = False) -> None:
    """Print the report of every target."""
    for target in run.targets:
        print_target(console, target, verbose=verbose)
    if len(run.targets) > 1:
        verdicts = Counter(target.end.verdict for target in run.targets)
        said = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
        console.print(f"{len(run.targets)} targets, {said}", markup=False)


def print_target(console: Console, report: TargetReport, *, verbose: bool = False) -> None:
    """Print the whole report of a target."""
    report = fit(report)
    for failure in report.failures:
        console.print(failure_block(failure, verbose=verbose, fixed=report.fixed))
    if report.witnesses:
        console.print(expected_block(report))
    console.print(clause_table(report.clauses, verbose=verbose))
    console.print(summary(report))


def failure_block(failure: FailureFound, *, verbose: bool = False, fixed: str = "") -> RenderableType:
    """Show one failure: what happened, target, trace, steps, the rule in words, and how to replay it.

    ``verbose`` shows the rule also as it is executed; ``fixed`` is what every trace of the check has.
    """
    failure = fit(failure)
    met = mishap(failure)
    clause = f"[bold red]{escape(failure.clause)}[/]" if met is None else f"charged to {escape(failure.clause)}"
    title = f"{clause}  [dim]{escape(failure.level)}[/]"
    title = title if met is None else f"[bold red]the target {escape(met.word)}[/]  {title}"
    lines: list[RenderableType] = [
        Text(told_title(failure), "bold"),
        *([Text(more)] if (more := charged(failure)) else []),
        _Labelled(_head(failure, fixed)),
        Text(""),
        *([step_table(failure.steps, target="the target shows")] if failure.steps else [_untold(failure)]),
        *_unsteady(failure),
        Text(""),
        _Labelled(_foot(failure, verbose=verbose)),
    ]
    return Panel(Group(*lines), title=title, title_align="left", border_style="red")


@frozen
class _Labelled:
    """Texts behind their labels; what wraps stays behind them."""

    rows: tuple[tuple[str, Text], ...] = field(converter=tuple[tuple[str, Text], ...])
    width: int = 7

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        indent = self.width + 1
        for label, text in self.rows:
            for number, line in enumerate(wrapped(console, text, max(8, options.max_width - indent))):
                yield Text.assemble(("" if number else label).ljust(indent), line)


def _head(failure: FailureFound, fixed: str) -> Iterator[tuple[str, Text]]:
    """Tell what failed on what; the trace stands last, and alone, so that it can be copied."""
    more = [(f"   {whole(part)}", "dim") for part in (fixed, failure.size) if part]
    yield "target", Text.assemble(failure.target, *more)
    yield from [("built", Text(f"by {failure.built}"))] if failure.built else []
    yield "trace", Text(failure.text)


def _foot(failure: FailureFound, *, verbose: bool) -> Iterator[tuple[str, Text]]:
    """Tell the rule and the words of a failure, and how to see it again."""
    yield from [("rule", Text(failure.prose))] if failure.prose else []
    laws = [line for law in failure.laws for line in (f"when {law.when}", f"then {law.then}")] if verbose else []
    yield from (("" if number else "law", Text(line, "dim")) for number, line in enumerate(laws))
    words = "; ".join(legend_lines(failure))
    yield from [("words", Text(words, "dim"))] if words else []
    yield from [("also", Text(shared_rule(failure), "dim"))] if failure.others else []
    yield from (("" if number else "alike", Text(swept(policy))) for number, policy in enumerate(failure.seen))
    yield "replay", Text(failure.replay, "cyan")
    yield "read", Text(failure.read, "cyan")


def _untold(failure: FailureFound) -> RenderableType:
    """Show the two values alone, where the check ended before the steps were told."""
    values = (("expected", failure.expected), ("observed", failure.observed))
    return _Labelled(((name, Text(told(failure.field, value))) for name, value in values), width=8)


def _unsteady(failure: FailureFound) -> list[RenderableType]:
    """Say so where the failure is not seen when its trace is run again."""
    if failure.steady:
        return []
    wanted, came = told(failure.field, failure.expected), told(failure.field, failure.observed)
    return [
        Text(""),
        Text(f"unsteady  wanted: {wanted}; seen: {came}; but not when the trace was run again:", "yellow"),
        Text("the target does not answer the same calls in the same way each time", "yellow"),
    ]


def clause_table(clauses: Sequence[ClauseJudged], *, verbose: bool = False) -> RenderableType:
    """Show the outcome of every clause, a line per family, or per clause when ``verbose``."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    if verbose:
        for head in ("clause", "level", "outcome", "exercised", "title"):
            table.add_column(head, justify="right" if head == "exercised" else "left")
        for r in clauses:
            outcome = Text(r.outcome, look_of(r.outcome).colour)
            told = Text(r.why or r.title)
            table.add_row(Text(r.clause), Text(r.level), outcome, str(r.exercised or ""), told)
        return table
    outcomes = _columns(clauses)
    for head in ("family", *outcomes):  # whose words are never cut, however narrow the terminal
        table.add_column(head, justify="left" if head == "family" else "right", min_width=max(map(len, head.split())))
    for family, members in families(clauses):
        counts = Counter(r.outcome for r in members)
        cells = [Text(str(counts[o] or "-"), look_of(o).colour if counts[o] else "dim") for o in outcomes]
        table.add_row(Text(family), *cells, _named(members))
    return table


def _columns(clauses: Sequence[ClauseJudged]) -> list[str]:
    """List the outcomes that have a column: the usual ones, and those that came out."""
    came = {r.outcome for r in clauses}
    return [outcome for outcome in LOOKS if outcome != _NEVER and (outcome in _ALWAYS or outcome in came)]


def _named(members: list[ClauseJudged]) -> Text:
    named = [r.clause for r in members if r.outcome not in ("pass", "not applicable")]
    return Text(" ".join(named), "dim")


def summary(report: TargetReport) -> RenderableType:
    """Say the verdict, what it rests on, and what to do next."""
    started, ended = report.started, report.end
    counts = Counter(r.outcome for r in report.clauses)
    told = ", ".join(whole(f"{counts[o]} {o}") for o in LOOKS if counts[o])
    about = [report.title.removeprefix(report.name).strip()]
    about += [f"({', '.join(started.kinds)}; profile {started.profile})"]
    verdict = Text.assemble(
        (whole(ended.verdict.upper() + but_for(report)), f"bold {VERDICTS[ended.verdict][0]}"),
        f"  {report.name}  {'  '.join(whole(part) for part in about if part)}",
    )
    conditions = whole(f"budget {started.budget}, seed {started.seed}")
    rows = [
        ("clauses", Text(told)),
        *[("not offered", Text(f"{line}; -v lists them)")) for line in [not_offered(report)] if line],
        *[("blocked", Text(line, "yellow")) for line in blocked(report)],
        *[("as listed", Text(line)) for line in [as_listed(report)] if line],
        *[("behind", Text(line, "yellow")) for line in unreached(report)],
        *[("arithmetic", Text(line)) for line in [arithmetic(report)] if line],
        ("played", Text(f"{report.played}; {conditions}")),
        *[("trouble", Text(f"{count} x {message}", "yellow")) for message, count in list(ended.errors.items())[:5]],
        *[("note", Text(note, "yellow")) for note in report.notes],
        *[("next", Text(line, "cyan")) for line in next_steps(report)],
    ]
    return Group(Kept(verdict), _Labelled(rows, width=11))


def blocked(report: TargetReport) -> list[str]:
    """Say which failure keeps which clauses from being judged, in a line each."""
    why: dict[str, list[str]] = {}
    for clause in report.clauses:
        if clause.outcome == "blocked":
            why.setdefault(clause.why.removeprefix("blocked "), []).append(clause.clause)
    return [
        f"{' '.join(clauses)} {blocker}, whose failure hides {'it' if len(clauses) == 1 else 'them'}"
        for blocker, clauses in why.items()
    ]


SEVERAL = "several failures may have one cause: mend the first one and check again"


def next_steps(report: TargetReport) -> list[str]:
    """Say what to do next."""
    return [*([SEVERAL] if len(report.failures) > 1 else []), *_next(report)]


def _next(report: TargetReport) -> list[str]:
    ended = report.end
    if ended.interrupted and not ended.stopped:
        return ["interrupted: what was found so far is shown; run the same command again for the rest"]
    if ended.stopped:
        return [f"stopped: {ended.stopped}; what was found so far is shown"]
    if told := advice(report):
        return told
    if report.started.shard:
        return [f"share {report.started.shard}: the verdict is that of all shares: kvlaw report --combine"]
    if ended.verdict == "violations" and _takes_no_mlx(report):
        return ["its first append failed; it was handed MLX arrays, and --set array=numpy hands over NumPy's"]
    if ended.verdict == "violations":
        return ["kvlaw replay shows a failure again; kvlaw try 'TRACE' runs a trace of your own"]
    if ended.verdict == "incomplete":
        missing = " ".join(report.open_musts())
        accepted = "or --allow-incomplete if that is known and accepted"
        return [f"never exercised: {missing}", f"try {_more_effort(report.started)}, {accepted}"]
    return []


def _more_effort(started: TargetStarted) -> str:
    """Name the next larger budgets; where there is none, other seeds."""
    order: tuple[str, ...] = ("quick", "ci", "deep")
    played = max((order.index(budget) for budget in started.budget.split(", ") if budget in order), default=0)
    larger = [f"--budget {budget}" for budget in order[played + 1 :]]
    return ", then ".join(larger) or f"--seeds {max(2, 2 * started.seeds)}"


def _takes_no_mlx(report: TargetReport) -> bool:
    """Tell whether a cache fails its first append, perhaps since it was handed arrays of a library it does not use."""
    if not report.name.startswith("py:") or "array=" in report.name:
        return False
    return any(len(f.trace.calls) == 1 and f.observed.startswith("refused") for f in report.failures)


__all__ = ["clause_table", "failure_block", "next_steps", "print_run", "print_target", "summary"]
