"""What is written of a failure that is listed anew: a reason of one sentence, and its trace step by step.

The sentence says which law is broken, and how; the steps stand in the file as comments, and below them when and by what
the failure was found.
"""

from datetime import UTC, datetime

from attrs import frozen

from kvlaw.conformance.check import Plan, replay
from kvlaw.conformance.events import StepShown
from kvlaw.conformance.expectations.entries import Expected, observed_of
from kvlaw.conformance.failures import Failure
from kvlaw.conformance.reports.wording import aside, demanded, shown, told
from kvlaw.conformance.result import CheckResult
from kvlaw.conformance.session import StoppedError
from kvlaw.spec.clauses import load_clauses
from kvlaw.spec.contract import Subject
from kvlaw.spec.text_form import write_call

HEADS = ("call", "the law says", "the target shows")
_WIDEST = 60
_MOST_STEPS = 40


@frozen
class Teller:
    """Tells the failures that a check of a target has found."""

    plan: Plan
    subject: Subject
    result: CheckResult

    def expected(self, failure: Failure, called: str) -> Expected:
        """List a failure; ``called`` is what entries call the target."""
        observed = observed_of(failure.divergence)
        comments = (*self._steps(failure), "", self._found())
        return Expected(called, failure.clause, failure.trace, observed, reason(failure), comments=comments)

    def _steps(self, failure: Failure) -> tuple[str, ...]:
        from kvlaw.conformance.reports.steps import told as steps_of

        try:
            steps = replay(self.subject, self.plan.profile, failure.trace, spec=self.plan.spec)
        except StoppedError:  # there is not the memory to tell it step by step
            return ()
        return table(steps_of(failure.trace, steps))

    def _found(self) -> str:
        versions = self.result.versions
        about = [f"{name} {versions[name]}" for name in ("mlx", "mlx-lm") if name in versions and self._uses(name)]
        day = datetime.now(UTC).date().isoformat()
        by = (
            f"found on {day} by kvlaw {versions.get('kvlaw', '')} (budget {self.result.budget}, seed {self.result.seed}"
        )
        return f"{by}; with {', '.join(about)})" if about else f"{by})"

    def _uses(self, library: str) -> bool:
        """Tell whether a target has to do with a library, as far as its name and its settings say."""
        return "array=numpy" not in self.plan.target and not (library == "mlx-lm" and "mlx_lm" not in self.plan.target)


def reason(failure: Failure) -> str:
    """Say in one sentence which law is broken, at which call, and how."""
    first, title = failure.divergence, load_clauses()[failure.clause].title
    call = write_call(failure.trace.calls[-1]) if failure.trace.calls else ""
    at = f"at `{call}`" if call else "as it is opened"
    wanted, seen = (_short(told(first.field, value, call)) for value in (first.expected, first.observed))
    return f"{title}: {at} the law says {wanted}, the target shows {seen}"


def _short(text: str, most: int = 120) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 3]}..."


def table(steps: tuple[StepShown, ...]) -> tuple[str, ...]:
    """Draw the steps of a trace in plain text; of a long one the last."""
    rows: list[tuple[str, ...]] = [("", *HEADS)]
    for number, step in enumerate(steps[-_MOST_STEPS:], max(0, len(steps) - _MOST_STEPS)):
        mark = ">" if step.diverges else " "
        rows.append((f"{mark}{number or ''}", step.call, demanded(step), shown(step)))
        if more := aside(step):
            rows.append(("", "", "", f"({more})"))
    cells = [(row[0], *(_short(cell, _WIDEST) for cell in row[1:])) for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    return tuple("  ".join(map(str.ljust, row, widths)).rstrip() for row in cells)


__all__ = ["HEADS", "Teller", "reason", "table"]
