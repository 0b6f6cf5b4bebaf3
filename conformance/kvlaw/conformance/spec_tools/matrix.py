"""The matrix of ``kvlaw spec trace``: for every clause, what stands behind it.

Oracle code, laws, examples, how often a check exercised it, planted faults that it catches, lemmas that prove its
integer rules.  An empty cell in a MUST row is a hole (``check`` names those that fail CI).
"""

from collections.abc import Iterable

from attrs import frozen
from rich.table import Table

from kvlaw.conformance.spec_tools.citations import CODE, Citation
from kvlaw.conformance.spec_tools.evidence import Evidence
from kvlaw.spec.clauses import Clause, Clauses


@frozen
class Row:
    """One clause and what stands behind it."""

    clause: Clause
    oracle: tuple[str, ...]
    checked: int
    faults: tuple[str, ...]
    lemmas: tuple[str, ...]

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as text: id, level, oracle, laws, examples, checks, faults, lemmas; empty where there is nothing."""
        counts = (len(self.oracle), len(self.clause.laws), len(self.clause.examples), self.checked)
        return (
            self.clause.id,
            self.clause.level,
            *(str(count) if count else "" for count in counts),
            ", ".join(self.faults),
            ", ".join(self.lemmas),
        )


HEADINGS = ("clause", "level", "oracle code", "laws", "examples", "checks", "faults", "lemmas")


def trace_matrix(clauses: Clauses, citations: Iterable[Citation], evidence: Evidence) -> tuple[Row, ...]:
    """Build one row per clause in force, in the order of the text."""
    cited = tuple(citations)
    return tuple(_row(clause, cited, evidence) for clause in clauses.values())


def _row(clause: Clause, citations: tuple[Citation, ...], evidence: Evidence) -> Row:
    own = [c for c in citations if c.clause == clause.id]
    return Row(
        clause,
        tuple(dict.fromkeys(c.name for c in own if c.room == "reference" and c.form in CODE)),
        evidence.exercised.get(clause.id, 0),
        tuple(f.name for f in evidence.faults if clause.id == f.clause and clause.id in f.caught_by),
        tuple(c.name for c in own if c.form == "lemma"),
    )


def render_matrix(rows: Iterable[Row]) -> Table:
    """Lay the matrix out for a terminal."""
    table = Table(*HEADINGS, title="what stands behind each clause", header_style="bold", pad_edge=False)
    for column in table.columns[2:6]:
        column.justify = "right"
    for row in rows:
        table.add_row(*row.cells)
    return table


def write_matrix(rows: Iterable[Row]) -> str:
    """Write the matrix as a markdown table, for files and pipes."""
    lines = [HEADINGS, ("---",) * len(HEADINGS), *(row.cells for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
