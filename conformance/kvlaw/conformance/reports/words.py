"""Foreign texts, made fit for a report: cut to a length, on one line, without what a terminal or a parser obeys."""

from kvlaw.conformance.guard import printable

MOST = 2000
"""How many characters of a message are told."""


def cut(text: str, most: int = MOST) -> str:
    """Cut a long text, and say how much is missing."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text) - most} characters more)"


def clean(text: str, most: int = MOST) -> str:
    """Cut a text and put it on one line, with every control character spelt out."""
    return printable(cut(text, most))


def spelt(line: str) -> str:
    """Spell out every control character of a line, and leave its spaces as they are."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)


__all__ = ["MOST", "clean", "cut", "spelt"]
