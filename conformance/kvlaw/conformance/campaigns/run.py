"""All campaigns by a budget, one after the other, and what is printed of them: ``kvlaw arithmetic``.

``run_all`` goes through every campaign in every format, tells of each case, and keeps what was found when it is
interrupted. A campaign whose arithmetic is not the modelled one is not observed, which is no failure and no success.
"""

import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from attrs import frozen
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from kvlaw.conformance.campaigns.attention import dense_attention
from kvlaw.conformance.campaigns.attention_over_codes import (
    TILED,
    TILED_CAUSAL,
    UNFUSED,
    by_plain_operations,
    over_codes,
)
from kvlaw.conformance.campaigns.campaign import AnyCampaign, Budget, Result
from kvlaw.conformance.campaigns.codec import codec
from kvlaw.conformance.campaigns.recurrence import recurrence
from kvlaw.reference.numerics import DType

EXACT, DIFFERS, INCOMPLETE = 0, 1, 4


@frozen
class Part:
    """One campaign in one format, and how many cases are run of it."""

    campaign: AnyCampaign
    dtype: DType
    cases: int


OnCase = Callable[[Part, Result], None]


@frozen
class Report:
    """What came of all campaigns; ``unobserved`` names those whose arithmetic is not the modelled one."""

    budget: Budget
    seed: int
    results: tuple[Result, ...]
    unobserved: tuple[str, ...]
    interrupted: bool
    seconds: float

    @property
    def values(self) -> int:
        """All values that were compared."""
        return sum(result.tally.values for result in self.results)

    @property
    def differing(self) -> int:
        """All values that differ."""
        return sum(result.tally.differing for result in self.results)

    @property
    def word(self) -> str:
        """Say ``exact``, ``differs``, or that not everything was seen."""
        if self.differing:
            return "differs"
        return "interrupted" if self.interrupted else "not observed" if self.unobserved else "exact"

    @property
    def exit_code(self) -> int:
        """0 if everything was compared and nothing differs, 1 if something does, 4 if not everything was compared."""
        return DIFFERS if self.differing else EXACT if self.word == "exact" else INCOMPLETE


def campaigns() -> tuple[AnyCampaign, ...]:
    """Make all campaigns: our kernels in every kernel set, the operations of MLX beneath them, mlx-lm's recurrence.

    Where mlx-lm is not installed, which nothing else here needs, its recurrence is left out.
    """
    ours = (over_codes(setting) for setting in (UNFUSED, TILED_CAUSAL, TILED))
    return (codec(), dense_attention(), by_plain_operations(), *ours, *([recurrence()] if find_spec("mlx_lm") else []))


def parts(budget: Budget) -> tuple[Part, ...]:
    """List what a budget runs."""
    return tuple(Part(c, dtype, c.cases[budget]) for c in campaigns() for dtype in c.dtypes)


def run_all(budget: Budget, seed: int = 0, on_case: OnCase | None = None) -> Report:
    """Run all campaigns; ``on_case`` is told of each case, and an interrupt keeps what was found so far."""
    started = time.monotonic()
    results: list[Result] = []
    unobserved: list[str] = []
    interrupted = False
    try:
        for part in parts(budget):
            if not part.campaign.modelled():
                unobserved.append(f"{part.campaign.name} in {part.dtype}")
                continue
            results.append(Result(part.campaign.name, part.dtype))
            for results[-1] in part.campaign.steps(part.dtype, part.cases, seed=seed):
                if on_case is not None:
                    on_case(part, results[-1])
    except KeyboardInterrupt:
        interrupted = True
    return Report(budget, seed, tuple(results), tuple(unobserved), interrupted, time.monotonic() - started)


def show(console: Console, budget: Budget, seed: int, progress_on: Console) -> int:
    """Run all campaigns with a progress bar on ``progress_on``, print what came of them, and return the exit code."""
    from rich.progress import Progress

    console.print(f"comparing arithmetic with the NumPy model (budget {budget}, seed {seed})", style="dim")
    total = sum(part.cases for part in parts(budget))
    with Progress(console=progress_on, transient=True, disable=not progress_on.is_terminal) as progress:
        task = progress.add_task("starting", total=total)

        def tell(part: Part, result: Result) -> None:
            differing = f", {result.tally.differing} differ" if result.tally.differing else ""
            progress.update(task, advance=1, description=f"{part.campaign.name} in {part.dtype}{differing}")

        report = run_all(budget, seed, tell)
    console.print(summary(report))
    return report.exit_code


def summary(report: Report) -> RenderableType:
    """Show a line for each campaign and format, and the verdict."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for head in ("campaign", "format", "cases", "values", "differ"):
        table.add_column(head, justify="left" if head in ("campaign", "format") else "right")
    for result in report.results:
        differing = Text(f"{result.tally.differing:,}", "bold red" if result.tally.differing else "green")
        table.add_row(result.campaign, result.dtype, f"{result.cases:,}", f"{result.tally.values:,}", differing)
    colour = {"exact": "green", "differs": "red"}.get(report.word, "yellow")
    cases = sum(result.cases for result in report.results)
    found = f"  {report.differing:,} of {report.values:,} values differ, in {cases:,} cases and {report.seconds:.1f} s"
    verdict = Text.assemble((report.word.upper(), f"bold {colour}"), found)
    first = [Text(f"first       {result.first_difference}") for result in report.results if result.first_difference]
    return Group(table, verdict, *first, *_unobserved(report))


def _unobserved(report: Report) -> list[Text]:
    """Say what was not compared, and why."""
    lines: list[Any] = []
    if report.unobserved:
        lines = [Text(f"unobserved  {name}", "yellow") for name in report.unobserved]
        lines.append(Text("the running MLX does not compute as its x86-64 CPU wheel does, which is what is modelled"))
    if report.interrupted:
        lines.append(Text("interrupted: what was compared so far is shown", "yellow"))
    return lines
