"""Clause ids, rows of the inventory, chapters and public reports in any text become links.

In code they stay text, but a literal that is a clause id and nothing else is linked.
"""

import re
from collections.abc import Callable
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

from kvlaw.spec.clauses import load_clauses
from kvlaw_site.places import CLAUSE, INVENTORY, Place, chapters, of_clause, of_inventory

_CHAPTER = re.compile(r"\bchapter (\d+)\b")
_REPORT = re.compile(r"\b(mlx-lm|mlx-vlm)(?: PR )?#(\d+)\b")
_ANY = re.compile("|".join(f"(?:{pattern.pattern})" for pattern in (CLAUSE, INVENTORY, _CHAPTER, _REPORT)))
_OWNERS = {"mlx-lm": "ml-explore/mlx-lm", "mlx-vlm": "Blaizzy/mlx-vlm"}
_CLOSED = (
    nodes.literal,
    nodes.literal_block,
    nodes.reference,
    nodes.title,
    nodes.raw,
    nodes.comment,
    nodes.FixedTextElement,
)


class Mentions(SphinxTransform):
    """Make the links of one page."""

    default_priority = 700

    def apply(self, **_: Any) -> None:
        """Replace the texts that mention something."""
        for text in list(self.document.findall(nodes.Text)):
            if not _inside(text, _CLOSED) and _ANY.search(text):
                text.parent.replace(text, linked(str(text), self.env.docname, _own_clause(text)))
        for literal in list(self.document.findall(nodes.literal)):
            if CLAUSE.fullmatch(literal.astext()) and not _inside(literal, (nodes.reference, nodes.title)):
                link = clause_link(literal.astext(), self.env.docname)
                if isinstance(link, nodes.reference):
                    link.children = []
                    literal.parent.replace(literal, link)
                    link += literal


def linked(text: str, page: str, own: str = "") -> list[nodes.Node]:
    """Cut a text at what it mentions, and link that; ``own`` is the clause that the text belongs to, and not linked."""
    found: list[nodes.Node] = []
    at = 0
    for match in _ANY.finditer(text):
        link = _link(match[0], page) if match[0] != own else None
        if link is not None:
            found += [nodes.Text(text[at : match.start()]), link]
            at = match.end()
    return [part for part in (*found, nodes.Text(text[at:])) if part.astext()]


def _link(told: str, page: str) -> nodes.Node | None:
    if CLAUSE.fullmatch(told):
        return clause_link(told, page)
    if INVENTORY.fullmatch(told):
        return link_to(of_inventory(told), told, page)
    if chapter := _CHAPTER.fullmatch(told):
        there = chapters().get(int(chapter[1]))
        return None if there is None else link_to(Place(there), told, page)
    name, number = told.replace(" PR ", "").split("#")
    uri = f"https://github.com/{_OWNERS[name]}/{'pull' if ' PR ' in told else 'issues'}/{number}"
    return nodes.reference("", told, refuri=uri)


def clause_link(clause_id: str, page: str) -> nodes.Node:
    """Link to a clause; its title is shown when one points at it.  An id that there is not stays text."""
    clauses = load_clauses()
    clause = clauses.by_id.get(clause_id) or clauses.retired.get(clause_id)
    if clause is None:
        return nodes.Text(clause_id)
    link = link_to(of_clause(clause_id, clause.chapter), clause_id, page, clause.title)
    link["classes"].append("kv-ref")
    return link


def told(text: str, page: str) -> list[nodes.Node]:
    """Read one sentence of a docstring: what stands in backticks is code, what it mentions is linked."""
    parts = re.split(r"(`+)(.+?)\1", text)
    made: list[nodes.Node] = []
    for plain, code in zip(parts[::3], (*parts[2::3], ""), strict=True):
        made += [*linked(plain, page), *([nodes.literal("", code)] if code else [])]
    return made


def link_to(
    place: Place, text: str, page: str, about: str = "", wrap: Callable[..., Any] | None = None
) -> nodes.reference:
    """Make a link on ``page`` to a place; ``wrap`` makes the node of its text (``nodes.literal``)."""
    inner: nodes.Node = nodes.Text(text) if wrap is None else wrap(text, text)
    link = nodes.reference("", "", inner, refuri=place.uri(page), internal=True)
    if about:
        link["reftitle"] = about
    return link


def _inside(node: nodes.Node, kinds: tuple[type, ...]) -> bool:
    parent = node.parent
    while parent is not None:
        if isinstance(parent, kinds):
            return True
        parent = parent.parent
    return False


def _own_clause(node: nodes.Node) -> str:
    parent = node.parent
    while parent is not None:
        if isinstance(parent, nodes.section) and parent["ids"] and CLAUSE.fullmatch(parent["ids"][0]):
            return str(parent["ids"][0])
        parent = parent.parent
    return ""


def setup(app: Sphinx) -> None:
    """Register the transform."""
    app.add_transform(Mentions)
