"""Parts of a line that stay together: a line of a terminal is broken before them, never inside.

Rich breaks at every space, also at one that is called non-breaking.  So the spaces of such a part are written as a sign
that no text has (``fit`` spells it out of foreign ones), and are spaces again once the line is broken.
"""

from collections.abc import Iterator

from attrs import frozen
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

_GLUE = "\ue000"
"""A character for private use; it is not printable, so that no text that was made fit has it."""


def whole(part: str) -> str:
    """Write a part of a line that is not broken where there is room for it."""
    return part.replace(" ", _GLUE)


def wrapped(console: Console, text: Text, width: int) -> Iterator[Text]:
    """Break a text into lines; a part that is wider than a line is broken like any other."""
    told = text.copy()
    told.plain = " ".join(word if len(word) <= width else _spaced(word) for word in told.plain.split(" "))
    for line in told.wrap(console, width):
        line.rstrip()
        line.plain = _spaced(line.plain)
        yield line


def _spaced(text: str) -> str:
    return text.replace(_GLUE, " ")


@frozen
class Kept:
    """A text whose whole parts stay together, over the width of the terminal."""

    text: Text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Write its lines."""
        yield from wrapped(console, self.text, options.max_width)


__all__ = ["Kept", "whole", "wrapped"]
