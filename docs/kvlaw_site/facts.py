"""What the site knows of the project, asked of its own tools once: clauses, citations, evidence, faults, lemmas."""

from collections.abc import Mapping
from functools import cache

from attrs import frozen

from kvlaw.conformance.faults.registry import Fault, load_faults
from kvlaw.conformance.proofs.lemmas import LEMMAS
from kvlaw.conformance.proofs.registry import Lemma
from kvlaw.conformance.spec_tools.citations import CODE, Citation
from kvlaw.conformance.spec_tools.evidence import Evidence
from kvlaw.conformance.spec_tools.gate import collect
from kvlaw.conformance.spec_tools.matrix import Row, trace_matrix
from kvlaw.spec.clauses import Clauses, load_clauses

_PLANTED = ("faults/", "proofs/")


@frozen
class Facts:
    """Everything that was asked.

    ``rows`` is the trace matrix by clause; ``faults`` and ``lemmas`` are the registers of what was planted and proved.
    """

    clauses: Clauses
    citations: tuple[Citation, ...]
    evidence: Evidence
    rows: Mapping[str, Row]
    faults: Mapping[str, Fault]
    lemmas: tuple[Lemma, ...]

    def cited_by(self, clause_id: str, room: str) -> tuple[Citation, ...]:
        """Give the code of a room that cites a clause, each name once; faults and lemmas have places of their own."""
        own = [c for c in self.citations if (c.clause, c.room) == (clause_id, room) and c.form in CODE]
        shown = [c for c in own if room != "conformance" or not c.path.startswith(_PLANTED)]
        return tuple({(c.path, c.name): c for c in reversed(shown)}.values())[::-1]

    def faults_of(self, clause_id: str) -> tuple[Fault, ...]:
        """Give the planted faults that name a clause."""
        return tuple(fault for fault in self.faults.values() if fault.breaks == clause_id)

    def lemmas_of(self, clause_id: str) -> tuple[Lemma, ...]:
        """Give the lemmas that prove integer rules of a clause."""
        return tuple(lemma for lemma in self.lemmas if clause_id in lemma.clauses)

    def caught_by(self, fault: str) -> frozenset[str]:
        """Give the clauses that caught a planted fault on its trace."""
        return next(seen.caught_by for seen in self.evidence.faults if seen.name == fault)


@cache
def facts() -> Facts:
    """Ask all tools; some eight seconds, most of them for the examples of the text on the oracle."""
    clauses = load_clauses()
    citations, evidence = collect(for_laws=False)
    rows = {row.clause.id: row for row in trace_matrix(clauses, citations, evidence)}
    return Facts(clauses, citations, evidence, rows, load_faults(), LEMMAS)
