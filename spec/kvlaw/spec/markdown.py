"""The little markdown that the chapters use: headings, fenced blocks and lines, each with its line number.

``sections`` cuts a chapter at its headings; ``links`` and ``anchors`` serve the check for broken links.  A fence that
is never closed is refused (``SpecError``): everything behind it would silently stop being text.
"""

import re
from collections.abc import Iterator

from attrs import frozen

_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*$")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`[^`]*`")


class SpecError(ValueError):
    """A text of the spec that cannot be read: ``file:line: what is wrong``."""

    @classmethod
    def at(cls, name: str, line: int, problem: str) -> "SpecError":
        """Make an error that says where it stands."""
        return cls(f"{name}:{line}: {problem}")


@frozen
class Line:
    """One line of text and its number in the file, from 1."""

    text: str
    number: int


@frozen
class Fence:
    """A fenced block: what stands behind the opening backticks, the lines inside, the number of the opening line."""

    info: str
    lines: tuple[Line, ...]
    number: int


@frozen
class Section:
    """A heading (level 1 to 6; level 0 and no title before the first one) and what follows up to the next heading."""

    level: int
    title: str
    number: int
    body: tuple[Line | Fence, ...]

    @property
    def prose(self) -> str:
        """The lines outside fences, trimmed of blank lines at both ends."""
        return "\n".join(part.text for part in self.body if isinstance(part, Line)).strip("\n")


def sections(text: str, name: str) -> tuple[Section, ...]:
    """Cut a chapter at its headings.

    Args:
        text: the whole chapter.
        name: the file name, for messages.

    Raises:
        SpecError: for a fence that is never closed.
    """
    found: list[Section] = []
    level, title, number = 0, "", 1
    body: list[Line | Fence] = []
    for part in _parts(text, name):
        heading = _HEADING.match(part.text) if isinstance(part, Line) else None
        if heading is None:
            body.append(part)
            continue
        found.append(Section(level, title, number, tuple(body)))
        level, title, number, body = len(heading[1]), heading[2], part.number, []
    found.append(Section(level, title, number, tuple(body)))
    return tuple(s for s in found if s.level or any(not isinstance(p, Line) or p.text.strip() for p in s.body))


def _parts(text: str, name: str) -> Iterator[Line | Fence]:
    lines = iter([Line(line.rstrip(), i) for i, line in enumerate(text.split("\n"), 1)])
    for line in lines:
        ticks = re.match(r"(`{3,}|~{3,})(.*)", line.text)
        yield _fence(lines, ticks[1], Line(ticks[2].strip(), line.number), name) if ticks else line


def _fence(lines: Iterator[Line], ticks: str, opening: Line, name: str) -> Fence:
    inside: list[Line] = []
    for line in lines:
        if line.text.startswith(ticks) and not line.text.strip(ticks[0]):
            return Fence(opening.text, tuple(inside), opening.number)
        inside.append(line)
    raise SpecError.at(name, opening.number, f"the block {ticks}{opening.text} is never closed")


def links(text: str, name: str) -> Iterator[tuple[str, int]]:
    """Give every link target outside code, with its line number."""
    for part in _parts(text, name):
        if isinstance(part, Line):
            for match in _LINK.finditer(_CODE.sub("", part.text)):
                yield match[1], part.number


def anchors(text: str, name: str) -> frozenset[str]:
    """Give the anchors that the headings of a text have where markdown is shown (GitHub's rule, repeats numbered)."""
    seen: dict[str, int] = {}
    found: set[str] = set()
    for section in sections(text, name):
        slug = re.sub(r"[^\w\- ]", "", _CODE.sub(lambda m: m[0][1:-1], section.title).lower()).replace(" ", "-")
        found.add(slug if slug not in seen else f"{slug}-{seen[slug]}")
        seen[slug] = seen.get(slug, 0) + 1
    return frozenset(found)
