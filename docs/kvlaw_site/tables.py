"""Directives that show what is registered elsewhere: clauses, the trace matrix, faults, lemmas, terms."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from kvlaw.conformance.faults.registry import Fault
from kvlaw.spec.clauses import Clause, load_clauses
from kvlaw.spec.markdown import Line, sections
from kvlaw_site.facts import facts
from kvlaw_site.mentions import clause_link, link_to, told
from kvlaw_site.places import Place, chapter_page, of_definition, of_fault, of_lemma, of_planted, of_source

Cell = list[nodes.Node]


class ClauseIndex(SphinxDirective):
    """All clauses, or those of a level or a version, by chapter: id, title, level, kinds."""

    option_spec: ClassVar = {"level": directives.unchanged, "since": directives.unchanged, "anchors": directives.flag}

    def run(self) -> list[nodes.Node]:
        """Make a table for each chapter that has one of them."""
        chosen = [clause for clause in load_clauses().values() if self._is_chosen(clause)]
        if not chosen:
            raise self.error("no clause is like that")
        made: list[nodes.Node] = []
        for file in dict.fromkeys(clause.chapter for clause in chosen):
            made += self._chapter(file, [clause for clause in chosen if clause.chapter == file])
        return made

    def _is_chosen(self, clause: Clause) -> bool:
        wanted = ((self.options.get(name), getattr(clause, name)) for name in ("level", "since"))
        return all(asked in {None, value} for asked, value in wanted)

    def _chapter(self, file: str, chosen: list[Clause]) -> Iterator[nodes.Node]:
        page = self.env.docname
        title = sections(load_clauses().chapters[file], file)[0].title
        yield nodes.rubric("", "", link_to(Place(chapter_page(file)), title, page))
        rows = [(self._id(clause), self._cells(clause, page)) for clause in chosen]
        yield table(("clause", "what it asks for", "level", "since", "kinds"), rows, "kv-clauses")

    def _id(self, clause: Clause) -> str:
        return clause.id if "anchors" in self.options else ""

    @staticmethod
    def _cells(clause: Clause, page: str) -> list[Cell]:
        kinds = ", ".join(sorted(clause.applies))
        facts_of = (clause.level, clause.since, kinds)
        return [[clause_link(clause.id, page)], told(clause.title, page), *([nodes.Text(text)] for text in facts_of)]


class Matrix(SphinxDirective):
    """The trace matrix: for each clause how much of each kind stands behind it."""

    def run(self) -> list[nodes.Node]:
        """Make the table."""
        known, page = facts(), self.env.docname
        rows = [(f"row-{clause_id}", self._cells(clause_id, page)) for clause_id in known.rows]
        headings = ("clause", "level", "oracle code", "our code", "laws", "examples", "exercised", "faults", "lemmas")
        return [table(headings, rows, "kv-matrix")]

    @staticmethod
    def _cells(clause_id: str, page: str) -> list[Cell]:
        known = facts()
        row = known.rows[clause_id]
        oracle, ours = (known.cited_by(clause_id, room) for room in ("reference", "mlx_impl"))
        return [
            [clause_link(clause_id, page)],
            [nodes.Text(row.clause.level)],
            *(_counted([(c.name, of_source(c.room, c.path, c.line)) for c in cited], page) for cited in (oracle, ours)),
            *([nodes.Text(str(n) if n else "")] for n in (len(row.clause.laws), len(row.clause.examples), row.checked)),
            _counted([(name, of_fault(name)) for name in row.faults], page),
            _counted([(lemma.name, of_lemma(lemma.name)) for lemma in known.lemmas_of(clause_id)], page),
        ]


def _counted(named: list[tuple[str, Place]], page: str) -> Cell:
    """Count links, and list them when one opens the count."""
    if not named:
        return []
    opened: Cell = [nodes.raw("", f"<details><summary>{len(named)}</summary>", format="html")]
    for name, place in named:
        opened += [link_to(place, name, page, wrap=nodes.literal), nodes.raw("", "<br>", format="html")]
    return [*opened, nodes.raw("", "</details>", format="html")]


class Faults(SphinxDirective):
    """Every planted fault: the clause that it breaks, what is wrong, the shortest trace, who catches it."""

    def run(self) -> list[nodes.Node]:
        """Make a table for each family of clauses."""
        known, page = facts(), self.env.docname
        made: list[nodes.Node] = []
        for family in known.clauses.families:
            own = [fault for fault in known.faults.values() if fault.breaks.partition("-")[0] == family]
            if own:
                rows = [(of_fault(fault.name).anchor, self._cells(fault, page)) for fault in own]
                headings = ("fault", "what is wrong", "shortest trace", "caught by")
                made += [nodes.rubric("", f"{family}: {len(own)} faults"), table(headings, rows, "kv-faults")]
        return made

    @staticmethod
    def _cells(fault: Fault, page: str) -> list[Cell]:
        known = facts()
        others = sorted(known.caught_by(fault.name) - {fault.breaks}, key=list(known.clauses).index)
        caught: Cell = [nodes.strong("", "", clause_link(fault.breaks, page))]
        for clause_id in others:
            caught += [nodes.Text(", "), clause_link(clause_id, page)]
        shown = link_to(of_planted(fault.name), fault.name, page, wrap=nodes.literal)
        sentence = f"{fault.sentence}." + (f" (report {fault.report})" if fault.report else "")
        return [[shown], told(sentence, page), [nodes.literal("", fault.text, classes=["kv-trace"])], caught]


class Lemmas(SphinxDirective):
    """Every lemma: the clauses whose integer rules it proves, what it says, its twin that must be refuted."""

    def run(self) -> list[nodes.Node]:
        """Make the table."""
        page = self.env.docname
        rows: list[tuple[str, list[Cell]]] = []
        for lemma in facts().lemmas:
            clauses: Cell = []
            for clause_id in lemma.clauses:
                clauses += [*([nodes.Text(", ")] if clauses else []), clause_link(clause_id, page)]
            source: nodes.Node = link_to(of_definition(lemma.claim.function), lemma.name, page, wrap=nodes.literal)
            twin = lemma.twin.sentence if lemma.twin else ""
            cells: list[Cell] = [[source], clauses, told(lemma.sentence, page), told(twin, page)]
            rows.append((of_lemma(lemma.name).anchor, cells))
        return [table(("lemma", "clauses", "what is proved", "the twin that is refuted"), rows, "kv-lemmas")]


class Terms(SphinxDirective):
    """The glossary: the table of terms of chapter 0, sorted, one entry a term."""

    def run(self) -> list[nodes.Node]:
        """Read the table with the tools of the spec, and let the page's own parser read its cells."""
        entries: list[str] = []
        for term, meaning, elsewhere in sorted(terms(), key=lambda entry: entry[0].strip("`").lower()):
            other = f"\n\n  *Elsewhere:* {elsewhere}" if elsewhere else ""
            entries.append(f"{term}\n: {meaning}{other}\n")
        return self.parse_text_to_nodes("\n".join(entries))


def terms() -> list[tuple[str, str, str]]:
    """Read the terms of chapter 0: the rows of its table ``term | meaning | elsewhere``."""
    file, text = next((name, text) for name, text in load_clauses().chapters.items() if name.startswith("00-"))
    lines = [part.text for section in sections(text, file) for part in section.body if isinstance(part, Line)]
    start = lines.index("| term | meaning | elsewhere |") + 2
    rows = [line for line in lines[start : lines.index("", start)] if line.startswith("|")]
    return [(a, b, c) for a, b, c in (_cut(row) for row in rows)]


def _cut(row: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


class Counted(SphinxDirective):
    """One sentence with the numbers of what there is."""

    def run(self) -> list[nodes.Node]:
        """Count."""
        known = facts()
        clauses = list(known.clauses.values())
        levels = Counter(clause.level for clause in clauses)
        laws, examples = sum(len(c.laws) for c in clauses), sum(len(c.examples) for c in clauses)
        counted = (
            f"{len(clauses)} clauses ({levels['MUST']} MUST, {levels['LAYOUT']} LAYOUT) "
            f"with {laws} laws and {examples} examples; "
            f"{len(known.faults)} planted faults, each caught by the clause that it breaks; {len(known.lemmas)} lemmas."
        )
        return [nodes.paragraph("", counted, classes=["kv-counted"])]


def table(headings: Iterable[str], rows: list[tuple[str, list[Cell]]], kind: str) -> nodes.Node:
    """Make a table; a row with a name has that as its anchor."""
    names = tuple(headings)
    group = nodes.tgroup("", *(nodes.colspec(colwidth=1) for _ in names), cols=len(names))
    group += nodes.thead("", nodes.row("", *(nodes.entry("", nodes.paragraph("", name)) for name in names)))
    body = nodes.tbody()
    for anchor, cells in rows:
        row = nodes.row("", *(nodes.entry("", nodes.paragraph("", "", *cell)) for cell in cells))
        if anchor:
            row["ids"].append(anchor)
        body += row
    group += body
    return nodes.table("", group, classes=["kv-table", kind])


def setup(app: Sphinx) -> None:
    """Register the directives."""
    named: dict[str, type[SphinxDirective]] = {
        "clause-index": ClauseIndex,
        "trace-matrix": Matrix,
        "fault-index": Faults,
        "lemma-index": Lemmas,
        "terms": Terms,
        "counted": Counted,
    }
    for name, directive in named.items():
        app.add_directive(name, directive)
