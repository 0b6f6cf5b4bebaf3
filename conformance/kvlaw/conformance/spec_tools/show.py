"""One clause as a reader wants it: header, prose, laws, examples, rationale, and who cites it."""

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.markdown import Markdown
from rich.padding import Padding
from rich.rule import Rule
from rich.syntax import Syntax
from rich.text import Text

from kvlaw.conformance.spec_tools.citations import Citation, read_citations
from kvlaw.conformance.spec_tools.evidence import Evidence
from kvlaw.spec.clauses import Clause, Clauses, load_clauses
from kvlaw.spec.laws import Law, Scope


def show(
    clause_id: str,
    clauses: Clauses | None = None,
    citations: Iterable[Citation] | None = None,
    evidence: Evidence | None = None,
) -> RenderableType:
    """Lay out one clause.

    Args:
        clause_id: ``RING-3``; a retired one is shown as such.
        clauses: the text; without it the one that came with the package.
        citations: who cites clauses; without it what ``read_citations`` finds.
        evidence: where planted faults are taken from, if it is there.

    Raises:
        SpecError: if there is no such clause; says what there is instead.
    """
    clause = (load_clauses() if clauses is None else clauses).find(clause_id.upper())
    cited = read_citations() if citations is None else citations
    parts: list[RenderableType] = [*_header(clause), _indented(Markdown(clause.prose.replace("\n", "  \n")))]
    for law in clause.laws:
        parts += [
            Text(f"\nlaw, {SCOPES[law.scope]}", style="bold"),
            _indented(Syntax(_law(law), "python", word_wrap=True)),
        ]
    for example in clause.examples:
        parts += [Text("\nexample", style="bold"), _indented(Text(example.text))]
    for name, text in (("why", clause.rationale), ("seen in", clause.seen)):
        if text:
            parts += [Text(f"\n{name}", style="bold"), _indented(Markdown(text))]
    return Group(*parts, *_cited(clause, cited, evidence))


SCOPES: dict[Scope, str] = {
    "step": "of every step",
    "group": "of every step of a group",
    "trace": "of any two moments of a run",
    "pair": "of two runs",
}


def _header(clause: Clause) -> Iterable[RenderableType]:
    yield Rule(Text(f"{clause.id}: {clause.title}", style="bold"), align="left")
    facts = [clause.level, f"since {clause.since}", f"for {', '.join(sorted(clause.applies))}"]
    facts += [f"needs {', '.join(sorted(clause.needs))}"] if clause.needs else []
    facts += [f"RETIRED in {clause.retired}"] if clause.retired else []
    yield Text(" · ".join([*facts, clause.where]), style="dim")
    yield Text()


def _law(law: Law) -> str:
    runs = f"runs: {law.runs}\n" if law.runs else ""
    return f"{runs}when: {law.when}\nthen: {law.then}"


def _cited(clause: Clause, citations: Iterable[Citation], evidence: Evidence | None) -> Iterable[RenderableType]:
    own = [c for c in citations if c.clause == clause.id and c.form != "mention"]
    lines = [f"{c.where}  {c.name}" + (" (lemma)" if c.form == "lemma" else "") for c in own]
    faults = evidence.faults if evidence is not None else ()
    lines += [f"fault {fault.name}" for fault in faults if fault.clause == clause.id]
    if lines:
        yield Text("\ncited by", style="bold")
        yield _indented(Text("\n".join(lines)))


def _indented(inner: RenderableType) -> RenderableType:
    return Padding(inner, (0, 0, 0, 2))
