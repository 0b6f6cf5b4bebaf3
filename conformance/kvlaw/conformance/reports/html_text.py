"""Texts within HTML: escaped, cut, and names of places that cannot clash."""

import re
from collections.abc import Iterable
from html import escape

from attrs import define, field

from kvlaw.conformance.events import FailureFound
from kvlaw.conformance.reports.words import MOST, clean


def text(words: str, most: int = MOST) -> str:
    """Write a foreign text on one line."""
    return escape(clean(words, most))


def code(words: str, most: int = MOST) -> str:
    """Write a foreign text as code."""
    return f"<code>{text(words, most)}</code>"


def inline(words: str) -> str:
    """Write a foreign text in which calls stand in backticks."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text(words))


def element(name: str, words: str) -> str:
    """Write a text within an element."""
    return f"<{name}>{text(words)}</{name}>"


def prose(words: str) -> str:
    """Write the text of a clause: sentences, lists, and words in backticks or asterisks."""
    lines = [re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(line)) for line in words.splitlines()]
    lines = [re.sub(r"(?<![\w*])\*([^*<>]+)\*(?![\w*])", r"<em>\1</em>", line) for line in lines]
    return "".join(f"<p>{line}</p>" for line in _joined(lines))


def _joined(lines: Iterable[str]) -> list[str]:
    """Put the sentences of a paragraph together; a line of a list or a table stands for itself."""
    paragraphs: list[str] = []
    fresh = True
    for line in lines:
        alone = line.lstrip().startswith(("- ", "* ", "|"))
        if not line.strip():
            fresh = True
        elif fresh or alone:
            paragraphs.append(line)
            fresh = alone
        else:
            paragraphs[-1] += f" {line}"
    return paragraphs


@define
class Anchors:
    """Names of the places of a page: of targets by their order, of failures by the order in which they are named."""

    targets: tuple[str, ...]
    _failures: dict[tuple[str, str, str], str] = field(factory=dict[tuple[str, str, str], str], init=False)

    def target(self, name: str) -> str:
        """Name the place of a target."""
        return f"target-{self.targets.index(name) + 1}"

    def failure(self, failure: FailureFound, target: str) -> str:
        """Name the place of a failure among the results of a target, which may be one of several of the same name."""
        key = (target, failure.clause, failure.kind)
        return self._failures.setdefault(key, f"{self.of_clause(target, failure.clause)}{self._more(key)}")

    def of_clause(self, target: str, clause: str) -> str:
        """Name the place of the first failure of a clause."""
        return f"{self.target(target)}-{re.sub(r'[^A-Za-z0-9-]', '', clause)}"

    def _more(self, key: tuple[str, str, str]) -> str:
        same = sum(known[:2] == key[:2] for known in self._failures)
        return f"-{same + 1}" if same else ""


__all__ = ["Anchors", "code", "element", "inline", "prose", "text"]
