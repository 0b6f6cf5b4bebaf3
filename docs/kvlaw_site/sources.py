"""A page for each source file of the four rooms, with an anchor for each line and its clauses as links."""

from html import escape
from posixpath import relpath

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers.python import PythonLexer
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxRole

from kvlaw.spec.clauses import load_clauses
from kvlaw_site.places import CLAUSE, Place, of_clause, of_source, source_files

_PAGE = """\
<!doctype html>
<html lang="en" class="no-js kv-source">
<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>{title} - kvlaw</title>
<link rel="stylesheet" href="{static}/pygments.css"><link rel="stylesheet" href="{static}/styles/furo.css">
<link rel="stylesheet" href="{static}/kvlaw.css">
</head>
<body>
<script>document.body.dataset.theme = localStorage.getItem("theme") || "auto";</script>
<header class="kv-source-head"><a href="{home}">kvlaw</a> <span>{title}</span></header>
<main class="kv-source-body">
{clauses}
{code}
</main>
</body>
</html>
"""


def source_page(place: Place, title: str, source: str) -> str:
    """Make the page of one source file."""
    formatter: HtmlFormatter[str] = HtmlFormatter(linenos="inline", lineanchors="L", anchorlinenos=True)
    code = highlight(source, PythonLexer(stripnl=False), formatter)
    cited = [i for i in dict.fromkeys(CLAUSE.findall(source)) if i in load_clauses()]
    return _PAGE.format(
        title=escape(title),
        static=relpath("_static", place.page.rpartition("/")[0]),
        home=Place("index").uri(place.page),
        clauses=f"<p>Clauses: {', '.join(_link(i, place) for i in cited)}</p>" if cited else "",
        code=CLAUSE.sub(lambda match: _link(match[0], place), code),
    )


def _link(clause_id: str, place: Place) -> str:
    clause = load_clauses().by_id.get(clause_id)
    if clause is None:
        return clause_id
    there = of_clause(clause_id, clause.chapter).uri(place.page)
    return f'<a class="kv-ref" href="{there}" title="{escape(clause.title)}">{clause_id}</a>'


def write_sources(app: Sphinx, error: Exception | None) -> None:
    """Write all pages when a build has ended well."""
    if error is not None or app.builder.format != "html":
        return
    for room, path, file in source_files():
        place = of_source(room, path)
        to = app.outdir / f"{place.page}.html"
        to.parent.mkdir(parents=True, exist_ok=True)
        page = source_page(place, f"{room}/{path}", file.read_text(encoding="utf-8"))
        to.write_text(page, encoding="utf-8")


class Source(SphinxRole):
    """Link to a source file, by its room and its path in it: ``conformance/interface.py``."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Make the link."""
        room, _, path = self.text.partition("/")
        if (room, path) not in {(r, p) for r, p, _ in source_files()}:
            message = self.inliner.reporter.error(f"there is no source file {self.text!r}", line=self.lineno)
            return [self.inliner.problematic(self.rawtext, self.rawtext, message)], [message]
        uri = of_source(room, path).uri(self.env.docname)
        return [nodes.reference("", "", nodes.literal("", self.text), refuri=uri, internal=True)], []


def setup(app: Sphinx) -> None:
    """Register the role and the last step of a build."""
    app.add_role("src", Source())
    app.connect("build-finished", write_sources)
