"""The documentation site: a Sphinx extension that shows the specification, and what stands behind each clause.

Nothing is written twice. The chapters, the tutorials, the changelog and CONTRIBUTING.md stay where they lie; everything
else that can be known is asked of the tools that already know it when the site is built.

* ``facts``: clauses, citations, evidence, faults and lemmas, asked of ``kvlaw.conformance`` once.
* ``places``: where on the site a clause, a chapter, a fault, a lemma and a line of code stand.
* ``texts``, ``borrowed``: pages whose text lies elsewhere in the repository.
* ``modules``: pages of the API.
* ``blocks``, ``lexers``: ``law`` and ``example`` blocks.  ``clause_parts``: badges, rationale, where a clause lives.
* ``mentions``: clause ids and chapters in any text become links.
* ``tables``: the index of clauses, the trace matrix, faults, lemmas, the glossary, as directives.
* ``ring_picture``: a ring before, at and after the wrap, drawn from the reference model.
* ``sources``: a page for each source file, with lines to link to.
* ``api``: names in annotations and docstrings.
* ``examples``: examples that do not hold on the oracle, and sessions that print something else, are warnings.

Without Sphinx: ``facts``, ``places``, ``texts``, ``sessions`` (console blocks of a page, run) and ``links`` (the built
HTML, checked).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

PARTS = (
    *("lexers", "borrowed", "blocks", "clause_parts", "mentions", "modules"),
    *("tables", "ring_picture", "sources", "api", "examples"),
)


def setup(app: "Sphinx") -> dict[str, Any]:
    """Register every part."""
    for part in PARTS:
        import_module(f"kvlaw_site.{part}").setup(app)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
