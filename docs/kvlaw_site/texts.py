"""Texts of the site that lie elsewhere in the repository, and where their links lead.  No Sphinx here.

Relative links lead where they lead in the repository: to the page of a text, to the page of a source file, or, where
the site has neither, nowhere: then the words stay, and a link to something that does not exist is left as it is, which
is a warning.
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from posixpath import normpath, relpath

from kvlaw.spec.clauses import text_folder
from kvlaw.spec.markdown import links
from kvlaw_site.places import DOCS, ROOMS, ROOT, of_source

FOLDERS = ("spec", "guides", "project", "api")
"""The folders of borrowed pages."""

_OWN = {"README.md": "index", "spec/README.md": "clauses"}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_CODE = re.compile(r"(`+).*?\1")


@cache
def borrowed() -> Mapping[str, Path]:
    """List the borrowed pages: their name, and the file with their text."""
    texts = Path(str(text_folder()))
    found = {f"spec/{path.stem}": path for path in sorted(texts.glob("*.md"))}
    found |= {f"guides/{path.stem}": path for path in sorted((ROOT / "conformance/docs").glob("*.md"))}
    found |= {"project/changelog": ROOT / "CHANGELOG.md", "project/contributing": ROOT / "CONTRIBUTING.md"}
    return found


def repository_path(page: str, path: Path) -> str:
    """Say where a borrowed file lies in the repository, also where the package is an installed wheel."""
    return f"spec/kvlaw/spec/text/{path.name}" if page.startswith("spec/") else path.relative_to(ROOT).as_posix()


@cache
def _pages_by_path() -> Mapping[str, str]:
    """List the pages of the site by the path of their text in the repository."""
    own = [path.relative_to(DOCS) for path in DOCS.rglob("*.md")]
    pages = {f"docs/{path.as_posix()}": path.with_suffix("").as_posix() for path in own if path.parts[0] not in FOLDERS}
    return {**pages, **{repository_path(page, path): page for page, path in borrowed().items()}, **_OWN}


def text_of(page: str) -> str:
    """Read the text of a borrowed page, with its relative links turned to pages of the site."""
    path = borrowed()[page]
    return relinked(path.read_text(encoding="utf-8"), repository_path(page, path), page)


def relinked(text: str, at: str, page: str) -> str:
    """Turn the relative links of a text, which lies ``at`` a path of the repository, to those of its page."""
    targets = {target for target, _ in links(text, at) if not re.match(r"[a-z]+:|#", target)}
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
    def turned(match: re.Match[str]) -> str:
        image, words, target = match.groups()
        if target not in targets:
            return match[0]
        return f"![{words}]({_image(target, at)})" if image else _link(words, target, at, page)

    return _LINK.sub(turned, text)


def _image(target: str, at: str) -> str:
    """Say where an image beside a borrowed text lies, from the folder of the site, as Sphinx wants it."""
    return "/" + Path(relpath(ROOT / Path(at).parent / target, DOCS)).as_posix()


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
