"""The built site, checked from its HTML alone: every internal link and anchor leads somewhere, nothing is fetched.

External links are looked at for their form only; nothing here opens a connection.  No Sphinx here.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from posixpath import normpath
from urllib.parse import unquote, urlsplit

from attrs import frozen

_FETCHED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src")}


@frozen
class Page:
    """One page: the anchors that it has, the links that it has, what a browser fetches to show it, ids that repeat."""

    anchors: frozenset[str]
    links: tuple[str, ...]
    fetched: tuple[str, ...]
    repeated: tuple[str, ...]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.anchors: list[str] = []
        self.links: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag is, links to, or fetches."""
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.append(value)
            elif (tag, name) in _FETCHED and value:
                self.fetched.append(value)
            elif (tag, name) == ("a", "href") and value:
                self.links.append(value)


def read_page(text: str) -> Page:
    """Read one page."""
    reader = _Reader()
    reader.feed(text)
    twice = tuple(anchor for anchor, times in Counter(reader.anchors).items() if times > 1)
    return Page(frozenset(reader.anchors), tuple(reader.links), tuple(reader.fetched), twice)


def read_site(folder: Path) -> dict[str, Page]:
    """Read all pages of a built site, by their path below its folder."""
    paths = [path for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts]
    return {path.relative_to(folder).as_posix(): read_page(path.read_text(encoding="utf-8")) for path in paths}


def problems(folder: Path, site: Mapping[str, Page] | None = None) -> list[str]:
    """List what is broken: links, anchors, what a page fetches from elsewhere, ids that a page has twice."""
    pages = read_site(folder) if site is None else site
    return [problem for name in pages for problem in _problems(folder, name, pages)]


def _problems(folder: Path, name: str, pages: Mapping[str, Page]) -> Iterator[str]:
    page = pages[name]
    for anchor in page.repeated:
        yield f"{name}: the id {anchor!r} stands there twice"
    for address in dict.fromkeys((*page.links, *page.fetched)):
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            yield from _outside(name, address, fetched=address in page.fetched)
            continue
        there, anchor = target(name, address)
        if there in pages:
            if anchor and anchor not in pages[there].anchors:
                yield f"{name}: {address!r}: {there} has no anchor {anchor!r}"
        elif not (folder / there).is_file():
            yield f"{name}: {address!r}: there is no {there}"


def _outside(name: str, address: str, *, fetched: bool) -> Iterator[str]:
    parts = urlsplit(address)
    if fetched and parts.scheme != "data":
        yield f"{name}: it fetches {address!r} from elsewhere"
    elif parts.scheme not in {"https", "data", "mailto"} or (parts.scheme == "https" and "." not in parts.netloc):
        yield f"{name}: {address!r} is no address that a reader can open"


def target(name: str, address: str) -> tuple[str, str]:
    """Resolve a relative link on a page: the page that it leads to, and the anchor."""
    parts = urlsplit(address)
    path = unquote(parts.path)
    there = normpath(f"{name.rpartition('/')[0] or '.'}/{path}") if path else name
    return there, unquote(parts.fragment)


def reached(pages: Mapping[str, Page], start: str, clicks: int) -> set[tuple[str, str]]:
    """Follow links from a page for a number of clicks; give the places that are reached, as page and anchor."""
    found: set[tuple[str, str]] = {(start, "")}
    waiting = {start}
    seen: set[str] = set()
    for _ in range(clicks):
        there = {target(name, link) for name in waiting for link in pages[name].links if not urlsplit(link).scheme}
        found |= there
        seen |= waiting
        waiting = {name for name, _ in there if name in pages} - seen
    return found


def main() -> int:
    """Check the site in the folder that is named; print what is broken."""
    folder = Path(sys.argv[1])
    pages = read_site(folder)
    found = problems(folder, pages)
    for problem in found:
        sys.stdout.write(f"{problem}\n")
    links = sum(len(page.links) for page in pages.values())
    sys.stdout.write(f"{len(pages)} pages, {links} links, {len(found)} problems\n")
    return 1 if found or not pages else 0


if __name__ == "__main__":
    sys.exit(main())
