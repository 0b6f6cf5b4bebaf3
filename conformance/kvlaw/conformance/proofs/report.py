"""`kvlaw prove`: prove every lemma, refute every twin, and say so in one table."""

import time

from attrs import field, frozen
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kvlaw.conformance.proofs.runner import LemmaResult, run


@frozen
class ProofReport:
    """All results of a run, and how long it took."""

    results: tuple[LemmaResult, ...] = field(converter=tuple)
    seconds: float

    @property
    def exit_code(self) -> int:
        """0 if every lemma was confirmed and every twin refuted, else 1."""
        return 0 if self.results and all(r.ok for r in self.results) else 1


def prove_all(jobs: int, console: Console | None = None) -> ProofReport:
    """Prove all lemmas, showing on `console` how far it is."""
    started = time.monotonic()
    done = 0
    with (console or Console(stderr=True, emoji=False)).status("starting the prover") as status:

        def tell(result: LemmaResult) -> None:
            nonlocal done
            done += 1
            status.update(f"{done} claims settled, the last: {result.name} {result.outcome}")

        results = run(tell, jobs=jobs)
    return ProofReport(tuple(results), time.monotonic() - started)


def print_proofs(console: Console, report: ProofReport) -> int:
    """Print a line per lemma with its twin, and give the exit code."""
    twins = {r.of: r for r in report.results if r.of is not None}
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for head in ("lemma", "clauses", "proof", "twin", "s"):
        table.add_column(head, justify="right" if head == "s" else "left")
    for lemma in (r for r in report.results if r.of is None):
        twin = twins.get(lemma.name)
        table.add_row(
            lemma.name,
            " ".join(lemma.clauses),
            _outcome(lemma),
            _outcome(twin) if twin else Text("missing", "bold red"),
            f"{lemma.seconds + (twin.seconds if twin else 0):.1f}",
        )
    console.print(table)
    for wrong in (r for r in report.results if not r.ok):
        told = wrong.counterexample or wrong.detail
        console.print(f"{wrong.name}: expected {wrong.expected}, {wrong.outcome}: {told}", style="red", markup=False)
    lemmas = [r for r in report.results if r.of is None]
    confirmed = sum(r.ok for r in lemmas)
    refuted = sum(r.ok for r in twins.values())
    console.print(
        f"{confirmed} of {len(lemmas)} lemmas confirmed over all paths, {refuted} of {len(twins)} twins refuted, "
        f"{report.seconds:.0f} s",
        style="bold green" if report.exit_code == 0 else "bold red",
    )
    return report.exit_code


def _outcome(result: LemmaResult) -> Text:
    return Text(result.outcome, "green" if result.ok else "bold red")
