"""A clause on its chapter's page: a permalink, badges instead of the line of fields, its rationale, where it lives."""

import re
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

from kvlaw.conformance.spec_tools.citations import Citation
from kvlaw.spec.clauses import Clause, load_clauses
from kvlaw.spec.contract import CAPABILITIES
from kvlaw_site.facts import Facts, facts
from kvlaw_site.mentions import link_to, told
from kvlaw_site.places import INVENTORY, Place, of_definition, of_fault, of_inventory, of_lemma, of_source

_HEADING = re.compile(r"([A-Z]+-[1-9]\d*): ")
_CHAPTER_0 = "spec/00-introduction"
_LEVELS = Place(_CHAPTER_0, "levels-profiles-and-capabilities")


class ClauseParts(SphinxTransform):
    """Turn the sections of a chapter that are clauses into what a reader wants."""

    default_priority = 600

    def apply(self, **_: Any) -> None:
        """Look for clauses on the pages of chapters alone, and for rows in the inventory."""
        if not self.env.docname.startswith("spec/"):
            return
        for row in self.document.findall(nodes.row):
            if INVENTORY.fullmatch(named := row.children[0].astext()):
                row["ids"].append(of_inventory(named).anchor)
        clauses = load_clauses()
        for section in list(self.document.findall(nodes.section)):
            heading = _HEADING.match(section.children[0].astext())
            clause = heading and (clauses.by_id.get(heading[1]) or clauses.retired.get(heading[1]))
            if clause:
                self._clause(section, clause)

    def _clause(self, section: nodes.section, clause: Clause) -> None:
        page = self.env.docname
        section["ids"] = [clause.id, *section["ids"]]
        section["classes"].append("kv-clause")
        self.document.ids[clause.id] = section
        labels = self.env.domains.standard_domain
        labels.labels[clause.id.lower()] = (page, clause.id, f"{clause.id}: {clause.title}")
        labels.anonlabels[clause.id.lower()] = (page, clause.id)
        for paragraph in [child for child in section.children if isinstance(child, nodes.paragraph)]:
            if paragraph.astext().startswith("level:"):
                section.replace(paragraph, badges(clause, page))
            elif re.match(r"Rationale:|Seen in:", paragraph.astext()):
                section.replace(paragraph, list(_reasons(paragraph)))
        section.extend(where_it_lives(clause, page))


def badges(clause: Clause, page: str) -> nodes.Node:
    """Show the fields of a clause."""
    line = nodes.paragraph(classes=["kv-badges"])
    if clause.retired:
        line += _badge(f"retired in {clause.retired}", "retired", "it binds no cache any more")
    level = _badge(clause.level, clause.level.lower())
    line += nodes.reference("", "", level, refuri=_LEVELS.uri(page), internal=True, reftitle="what the levels mean")
    line += nodes.reference(
        "",
        "",
        _badge(f"since {clause.since}", "since"),
        refuri=Place("project/changelog", f"specification-{clause.since.replace('.', '-')}").uri(page),
        internal=True,
        reftitle="what came with this version of the specification",
    )
    line.extend(_badge(kind, "kind", "a kind of cache that it binds") for kind in sorted(clause.applies))
    line.extend(
        _badge(f"needs {word}", "needs", f"binds a cache if {CAPABILITIES[word]}") for word in sorted(clause.needs)
    )
    return line


def _badge(text: str, kind: str, about: str = "") -> nodes.inline:
    shown = nodes.inline("", text, classes=["kv-badge", f"kv-badge-{kind}"])
    if not about:
        return shown
    return nodes.inline(
        "",
        "",
        nodes.raw("", f'<span title="{escape(about)}">', format="html"),
        shown,
        nodes.raw("", "</span>", format="html"),
    )


def _reasons(paragraph: nodes.paragraph) -> Iterator[nodes.Node]:
    """Cut a paragraph at ``Rationale:`` and ``Seen in:``, each of which opens a line, and set the words apart."""
    now = nodes.paragraph(classes=["kv-reason"])
    for child in paragraph.children:
        word = re.match(r"(Rationale|Seen in):\s*", child.astext()) if isinstance(child, nodes.Text) else None
        if word and now.children:
            yield now
            now = nodes.paragraph(classes=["kv-reason"])
        if word:
            now += [nodes.strong("", f"{word[1]}:"), nodes.Text(f" {child.astext()[word.end() :]}")]
        else:
            now += child.deepcopy()
    yield now


def where_it_lives(clause: Clause, page: str) -> Iterator[nodes.Node]:
    """Show what stands behind a clause: code, checks, faults and lemmas; closed until one opens it."""
    if clause.retired:
        return
    parts = list(_parts(clause, facts(), page))
    summary = " · ".join(count for count, _, _ in parts)
    yield nodes.raw("", f'<details class="kv-lives"><summary><b>Where it lives</b> {summary}</summary>', format="html")
    fields = nodes.definition_list(classes=["kv-lives-list"])
    for _, name, inner in parts:
        fields += nodes.definition_list_item(
            "", nodes.term("", "", nodes.strong("", name)), nodes.definition("", inner)
        )
    yield fields
    yield nodes.raw("", "</details>", format="html")


def _parts(clause: Clause, known: Facts, page: str) -> Iterator[tuple[str, str, nodes.Node]]:
    """Give what is counted in the summary, a name and a list, for each part that there is."""
    rooms = (("reference", "oracle", "The oracle expects it in"), ("mlx_impl", "ours", "Our MLX caches keep it in"))
    for room, short, name in rooms:
        if cited := known.cited_by(clause.id, room):
            yield f"{short} {len(cited)}", name, _list(_code(cited, page))
    row = known.rows[clause.id]
    if cited := known.cited_by(clause.id, "conformance"):
        yield f"checks {len(cited)}", "The suite looks at it in", _list(_code(cited, page))
    played = "times in the examples of the text and the stored traces of the faults"
    matrix = link_to(Place("matrix", f"row-{clause.id}"), "trace matrix", page)
    count = nodes.paragraph("", "", nodes.Text(f"{row.checked} {played}: "), matrix)
    yield f"exercised {row.checked}×", "Exercised", count
    if faults := known.faults_of(clause.id):
        yield f"faults {len(faults)}", "Planted faults that it must catch", _list(_faults(faults, page))
    if lemmas := known.lemmas_of(clause.id):
        yield f"lemmas {len(lemmas)}", "Lemmas that prove its integer rules", _list(_lemmas(lemmas, page))


def _code(citations: Iterable[Citation], page: str) -> Iterator[list[nodes.Node]]:
    for c in citations:
        yield [
            link_to(of_source(c.room, c.path, c.line), c.name, page, wrap=nodes.literal),
            nodes.Text(f" {c.room}/{c.path}:{c.line}"),
        ]


def _faults(faults: Iterable[Any], page: str) -> Iterator[list[nodes.Node]]:
    for fault in faults:
        yield [
            link_to(of_fault(fault.name), fault.name, page, wrap=nodes.literal),
            nodes.Text(" "),
            *told(f"{fault.sentence}. ", page),
            nodes.literal("", fault.text, classes=["kv-trace"]),
        ]


def _lemmas(lemmas: Iterable[Any], page: str) -> Iterator[list[nodes.Node]]:
    for lemma in lemmas:
        there = of_definition(lemma.claim.function)
        yield [
            link_to(of_lemma(lemma.name), lemma.name, page, wrap=nodes.literal),
            nodes.Text(" "),
            *told(f"{lemma.sentence} (", page),
            link_to(there, "source", page),
            nodes.Text(")"),
        ]


def _list(items: Iterable[list[nodes.Node]]) -> nodes.bullet_list:
    made = nodes.bullet_list()
    for item in items:
        made += nodes.list_item("", nodes.paragraph("", "", *item))
    return made


def setup(app: Sphinx) -> None:
    """Register the transform."""
    app.add_transform(ClauseParts)
