"""Pages whose text lies elsewhere in the repository.

Sphinx finds pages by their files, so each borrowed page has a stub: a file that names where its text lies.  The text
itself is read from there when Sphinx asks for it (``source-read``) and is never copied.  Stubs are written when a
build begins, into folders that git ignores, and removed where nothing stands behind them any more.

Relative links lead where they lead in the repository: to the page of a text, to the page of a source file, or, where
the site has neither, nowhere: then the words stay, and a link to something that does not exist is a warning.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from posixpath import normpath, relpath

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, SphinxRole

from kvlaw.spec.clauses import text_folder
from kvlaw.spec.markdown import links
from kvlaw_site.modules import API, api_modules, api_page
from kvlaw_site.places import DOCS, ROOMS, ROOT, Place, of_source

FOLDERS = ("spec", "guides", "project", "api")
ORDER = ("first-check", "ci", "read-a-failure", "testee", "vectors", "mlx-lm-releases")
"""The tutorials in the order in which one reads them; any others follow."""

_OWN = {"README.md": "index", "spec/README.md": "clauses"}
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
_CODE = re.compile(r"(`+).*?\1")


@cache
def borrowed() -> Mapping[str, Path]:
    """List the borrowed pages: their name, and the file with their text."""
    texts = Path(str(text_folder()))
    found = {f"spec/{path.stem}": path for path in sorted(texts.glob("*.md"))}
    found |= {f"guides/{path.stem}": path for path in sorted((ROOT / "conformance/docs").glob("*.md"))}
    found |= {"project/changelog": ROOT / "CHANGELOG.md", "project/contributing": ROOT / "CONTRIBUTING.md"}
    return found


def _repository_path(page: str, path: Path) -> str:
    """Say where a borrowed file lies in the repository, also where the package is an installed wheel."""
    return f"spec/kvlaw/spec/text/{path.name}" if page.startswith("spec/") else path.relative_to(ROOT).as_posix()


@cache
def _pages_by_path() -> Mapping[str, str]:
    """List the pages of the site by the path of their text in the repository."""
    own = [path.relative_to(DOCS) for path in DOCS.rglob("*.md")]
    pages = {f"docs/{path.as_posix()}": path.with_suffix("").as_posix() for path in own if path.parts[0] not in FOLDERS}
    return {**pages, **{_repository_path(page, path): page for page, path in borrowed().items()}, **_OWN}


def text_of(page: str) -> str:
    """Read the text of a borrowed page, with its relative links turned to pages of the site."""
    path = borrowed()[page]
    text = path.read_text(encoding="utf-8")
    at = _repository_path(page, path)
    targets = {target for target, _ in links(text, path.name) if not re.match(r"[a-z]+:|#", target)}
    lines = text.split("\n")
    inside = ""
    for number, line in enumerate(lines):
        ticks = re.match(r"`{3,}|~{3,}", line)
        if ticks and (not inside or line.startswith(inside)):
            inside = "" if inside else ticks[0]
        elif not inside and "](" in line:
            lines[number] = _outside_code(line, at, page, targets)
    return "\n".join(lines)


def _outside_code(line: str, at: str, page: str, targets: set[str]) -> str:
    """Turn the links of a line, but not what looks like one inside backticks."""
    parts: list[str] = []
    start = 0
    for code in _CODE.finditer(line):
        if "](" not in code[0]:
            continue
        parts += [_turned(line[start : code.start()], at, page, targets), code[0]]
        start = code.end()
    return "".join((*parts, _turned(line[start:], at, page, targets)))


def _turned(text: str, at: str, page: str, targets: set[str]) -> str:
    return _LINK.sub(lambda m: _link(m[1], m[2], at, page) if m[2] in targets else m[0], text)


def _link(words: str, target: str, at: str, page: str) -> str:
    path, _, anchor = target.partition("#")
    there = normpath(f"{Path(at).parent.as_posix()}/{path}")
    if found := _pages_by_path().get(there):
        to = relpath(f"{found}.md", str(Path(page).parent))
        return f"[{words}]({to}{'#' if anchor else ''}{anchor})"
    room, _, inner = there.partition("/")
    prefix = f"kvlaw/{room}/"
    if room in ROOMS and inner.startswith(prefix) and inner.endswith(".py") and (ROOT / there).is_file():
        return f'<a href="{of_source(room, inner.removeprefix(prefix)).uri(page)}">{words}</a>'
    return words if (ROOT / there).exists() else f"[{words}]({target})"


def _stubs() -> Iterator[tuple[Path, str]]:
    for page, path in borrowed().items():
        yield Path(f"{page}.md"), f"<!-- the text lies in {_repository_path(page, path)} -->\n"
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
