"""Pages whose text lies elsewhere in the repository.

Sphinx finds pages by their files, so each borrowed page has a stub: a file that names where its text lies.  The text
itself is read from there when Sphinx asks for it (``source-read``) and is never copied.  Stubs are written when a
build begins, into folders that git ignores, and removed where nothing stands behind them any more.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, SphinxRole

from kvlaw_site.modules import API, api_modules, api_page
from kvlaw_site.places import Place
from kvlaw_site.texts import FOLDERS, borrowed, repository_path, text_of

ORDER = ("first-check", "ci", "read-a-failure", "testee", "vectors", "mlx-lm-releases")
"""The tutorials in the order in which one reads them; any others follow."""


def _stubs() -> Iterator[tuple[Path, str]]:
    for page, path in borrowed().items():
        yield Path(f"{page}.md"), f"<!-- the text lies in {repository_path(page, path)} -->\n"
    for module in (module for room in API for module in api_modules(room)):
        yield Path(f"api/{module}.rst"), api_page(module)


def write_stubs(app: Sphinx) -> None:
    """Write the stubs that are missing or differ, and remove those of pages that are no more."""
    folder = Path(app.srcdir)
    wanted = dict(_stubs())
    for path, text in wanted.items():
        stub = folder / path
        stub.parent.mkdir(parents=True, exist_ok=True)
        if not stub.is_file() or stub.read_text(encoding="utf-8") != text:
            stub.write_text(text, encoding="utf-8")
    for name in FOLDERS:
        for stub in (folder / name).glob("*.*"):
            if stub.relative_to(folder) not in wanted:
                stub.unlink()


def read_source(app: Sphinx, page: str, content: list[str]) -> None:
    """Give Sphinx the text of a borrowed page in place of its stub, and say what it depends on."""
    if page in borrowed():
        app.env.note_dependency(str(borrowed()[page]))
        content[0] = text_of(page)


class Guides(SphinxDirective):
    """The tables of contents of the tutorials: those that are there, in the order in which one reads them."""

    def run(self) -> list[nodes.Node]:
        """Make a toctree of them."""
        names = [page.removeprefix("guides/") for page in borrowed() if page.startswith("guides/")]
        known = [name for name in ORDER if name in names]
        listed = "\n".join(f"guides/{name}" for name in (*known, *(n for n in names if n not in known)))
        return self.parse_text_to_nodes(f"```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```")


class Guide(SphinxRole):
    """Link to a page of ``conformance/docs`` if it is there; where it is not its words stay: ``words <name>``."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Make the link."""
        match = re.fullmatch(r"(.+) <([\w-]+)>", self.text)
        if match is None:
            message = self.inliner.reporter.error(f"write words <name>, not {self.text!r}", line=self.lineno)
            return [self.inliner.problematic(self.rawtext, self.rawtext, message)], [message]
        page = f"guides/{match[2]}"
        if page not in borrowed():
            return [nodes.Text(match[1])], []
        return [nodes.reference("", match[1], refuri=Place(page).uri(self.env.docname), internal=True)], []


def setup(app: Sphinx) -> None:
    """Register both steps, and what lists and links tutorials."""
    app.add_role("guide", Guide())
    app.add_directive("guides", Guides)
    app.connect("builder-inited", write_stubs)
    app.connect("source-read", read_source)
