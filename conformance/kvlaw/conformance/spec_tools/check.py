"""Everything by which text, code, checks and faults can be out of step, as a list of problems.

``check`` looks at the text (a law, an example, a rationale for every clause; links; the inventory), at the citations
(unknown, repeated and retired ids; MUST clauses that no oracle code cites) and at the evidence (laws that never
applied, that the oracle breaks, that no fault broke; examples that do not hold; faults that their clause missed).
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from attrs import frozen

from kvlaw.conformance.spec_tools.citations import CODE, Citation
from kvlaw.conformance.spec_tools.evidence import Evidence, LawKey, laws_of, tally
from kvlaw.spec.clauses import FAMILIES, INVENTORY_FILE, Clauses
from kvlaw.spec.inventory import INVENTORY_IDS, Placement
from kvlaw.spec.laws import Law
from kvlaw.spec.markdown import Fence, Section, anchors, links, sections

Kind = Literal[
    "unreadable",
    "no law",
    "no example",
    "no rationale",
    "broken link",
    "inventory",
    "unknown id",
    "repeated id",
    "retired id",
    "no check",
    "no fault",
    "fault not caught",
    "false example",
    "law never applied",
    "law false on the oracle",
    "law never broken",
]

_MENTION = re.compile(rf"(?<![\w:-])(?:{'|'.join(FAMILIES)})-[1-9]\d*(?![\w-])")


@frozen
class Problem:
    """One thing that is out of step: what kind, where it stands, and what is wrong."""

    kind: Kind
    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.kind}: {self.message}"


def check(
    clauses: Clauses, inventory: Mapping[str, Placement], citations: Iterable[Citation], evidence: Evidence
) -> list[Problem]:
    """List all problems, those of the text first; an empty list means that everything is in step."""
    cited = tuple(citations)
    return [
        *text_problems(clauses),
        *inventory_problems(clauses, inventory),
        *citation_problems(clauses, cited),
        *fault_problems(clauses, evidence),
        *example_problems(clauses, evidence),
        *law_problems(clauses, evidence),
    ]


def text_problems(clauses: Clauses) -> Iterator[Problem]:
    """Look at the text alone: clauses that lack something, links and ids that lead nowhere."""
    for clause in clauses.values():
        if not clause.laws:
            yield Problem("no law", clause.where, f"{clause.id} has no law")
        if not clause.examples:
            yield Problem("no example", clause.where, f"{clause.id} has no example")
        if not clause.rationale:
            yield Problem("no rationale", clause.where, f"{clause.id} does not say why")
    for name, text in clauses.chapters.items():
        yield from _link_problems(clauses, name, text)
        for section in sections(text, name):
            yield from _mention_problems(clauses, name, section)


def _link_problems(clauses: Clauses, name: str, text: str) -> Iterator[Problem]:
    for target, line in links(text, name):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = posixpath.normpath(path) if path else name
        if file not in clauses.chapters and file != INVENTORY_FILE:
            yield Problem("broken link", f"{name}:{line}", f"{target!r}: there is no chapter {file}")
        elif anchor and anchor not in anchors(clauses.chapters.get(file, ""), file):
            yield Problem("broken link", f"{name}:{line}", f"{target!r}: {file} has no such heading")


def _mention_problems(clauses: Clauses, name: str, section: Section) -> Iterator[Problem]:
    own = section.title.partition(":")[0]  # a retired clause may speak of itself
    for line in (x for part in section.body for x in (part.lines if isinstance(part, Fence) else (part,))):
        for match in _MENTION.finditer(line.text):
            if match[0] != own:
                yield from _id_problems(clauses, match[0], f"{name}:{line.number}")


def _id_problems(clauses: Clauses, clause_id: str, where: str) -> Iterator[Problem]:
    if clause_id in clauses.retired:
        yield Problem("retired id", where, f"{clause_id} was given up in {clauses.retired[clause_id].retired}")
    elif clause_id not in clauses:
        yield Problem("unknown id", where, f"there is no clause {clause_id}")


def inventory_problems(clauses: Clauses, inventory: Mapping[str, Placement]) -> Iterator[Problem]:
    """Look for inventory ids without a place, and for places that are no clauses."""
    for inventory_id in INVENTORY_IDS:
        placement = inventory.get(inventory_id)
        if placement is None:
            yield Problem("inventory", INVENTORY_FILE, f"{inventory_id} has no row")
            continue
        where = f"{INVENTORY_FILE}:{placement.line}"
        if not placement.places:
            yield Problem("inventory", where, f"{inventory_id} has no place")
        for clause_id in placement.clauses:
            yield from _id_problems(clauses, clause_id, where)


def citation_problems(clauses: Clauses, citations: tuple[Citation, ...]) -> Iterator[Problem]:
    """Look for ids that the code cites wrongly, and for MUST clauses that no oracle code cites."""
    decorated: set[tuple[str, str, str, str]] = set()
    for citation in citations:
        yield from _id_problems(clauses, citation.clause, citation.where)
        key = (citation.room, citation.path, citation.name, citation.clause)
        if citation.form == "clause":
            if key in decorated:
                yield Problem("repeated id", citation.where, f"{citation.name} cites {citation.clause} twice")
            decorated.add(key)
    checked = {c.clause for c in citations if c.room == "reference" and c.form in CODE}
    for clause in clauses.of_profile("core").values():
        if clause.id not in checked:
            yield Problem("no check", clause.where, f"{clause.id} is MUST, but no code of the oracle cites it")


def fault_problems(clauses: Clauses, evidence: Evidence) -> Iterator[Problem]:
    """Look for MUST clauses that no planted fault shows to bite, and for faults that their clause did not catch."""
    for fault in evidence.faults:
        yield from _id_problems(clauses, fault.clause, f"fault {fault.name}")
        if fault.clause not in fault.caught_by:
            caught = f"by {', '.join(sorted(fault.caught_by))} only" if fault.caught_by else "by nothing"
            yield Problem("fault not caught", f"fault {fault.name}", f"it names {fault.clause}, but is caught {caught}")
    biting = {fault.clause for fault in evidence.faults if fault.clause in fault.caught_by}
    for clause in clauses.of_profile("core").values():
        if clause.id not in biting:
            yield Problem("no fault", clause.where, f"{clause.id} is MUST, but catches no planted fault that names it")


def example_problems(clauses: Clauses, evidence: Evidence) -> Iterator[Problem]:
    """Give the examples that do not hold on the oracle."""
    for failed in evidence.failed_examples:
        where = f"{clauses.find(failed.clause).chapter}:{failed.line}"
        yield Problem("false example", where, f"{failed.clause}: {failed.message}")


def law_problems(clauses: Clauses, evidence: Evidence) -> Iterator[Problem]:
    """Look for laws that never applied to the oracle, that it breaks, or that no fault broke."""
    laws = laws_of(clauses)
    applies = {clause.id: clause.applies for clause in clauses.values()}
    on_oracle = tally(laws, [evidence.oracle], applies)
    unbroken = dict(laws)
    for fault in evidence.faults:  # a law that was broken once need not be asked again
        broken = {key for key, seen in tally(unbroken, [fault.seen], applies).items() if seen.false}
        unbroken = {key: law for key, law in unbroken.items() if key not in broken}
    for key, law in laws.items():
        where, name = clauses[key[0]].where, name_law(key, law)
        if not on_oracle[key].applied:
            yield Problem("law never applied", where, f"{name}: no run of the oracle met its 'when'")
        if on_oracle[key].false:
            yield Problem("law false on the oracle", where, f"{name}: {on_oracle[key].example}")
        if key in unbroken:
            yield Problem("law never broken", where, f"{name}: every planted fault kept it")


def name_law(key: LawKey, law: Law) -> str:
    """Name a law in messages: ``RING-3, law 2 (step)``."""
    return f"{key[0]}, law {key[1] + 1} ({law.scope})"
