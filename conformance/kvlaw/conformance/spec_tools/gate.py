"""What the commands ``kvlaw spec check`` and ``kvlaw spec trace`` run: everything read, played and printed."""

from functools import cache

from rich.console import Console
from rich.text import Text

from kvlaw.conformance.spec_tools.check import Problem, check
from kvlaw.conformance.spec_tools.citations import Citation, read_citations
from kvlaw.conformance.spec_tools.evidence import Evidence
from kvlaw.conformance.spec_tools.gather import gather
from kvlaw.conformance.spec_tools.matrix import render_matrix, trace_matrix, write_matrix
from kvlaw.spec.clauses import load_clauses
from kvlaw.spec.inventory import load_inventory
from kvlaw.spec.markdown import SpecError


@cache
def collect(*, for_laws: bool = True) -> tuple[tuple[Citation, ...], Evidence]:
    """Read the citations and play the evidence, once; without ``for_laws`` what the matrix needs, in a third of it."""
    from kvlaw.conformance.faults.registry import load_faults, subject
    from kvlaw.conformance.subjects.targets import open_target

    planted = [(fault, subject(fault.name)) for fault in load_faults().values()]
    return read_citations(), gather(load_clauses(), open_target("builtin:oracle"), planted, for_laws=for_laws)


def run_spec_check() -> list[Problem]:
    """Check the specification; a text that cannot be read is the only problem then."""
    try:
        clauses, inventory = load_clauses(), load_inventory()
    except SpecError as error:
        return [Problem("unreadable", "text", str(error))]
    citations, evidence = collect()
    return check(clauses, inventory, citations, evidence)


def print_check(console: Console, problems: list[Problem]) -> int:
    """Print the problems, or what was found in step; give the exit code."""
    for problem in problems:
        console.print(Text(str(problem)), soft_wrap=True)
    if problems:
        console.print(Text(f"spec check: {len(problems)} problems", style="bold red"))
        return 1
    clauses = load_clauses()
    laws, examples = (sum(len(getattr(c, what)) for c in clauses.values()) for what in ("laws", "examples"))
    must = len(clauses.of_profile("core"))
    counts = f"{len(clauses)} clauses ({must} MUST), {laws} laws, {examples} examples"
    done = f"spec check: {counts}: text, code, faults and inventory are in step"
    console.print(Text(done, style="green"), soft_wrap=True)
    return 0


def print_matrix(console: Console) -> None:
    """Print the matrix: as a table on a terminal, as markdown elsewhere."""
    rows = trace_matrix(load_clauses(), *collect(for_laws=False))
    if console.is_terminal:
        console.print(render_matrix(rows))
    else:
        console.print(write_matrix(rows), end="", soft_wrap=True, markup=False)
