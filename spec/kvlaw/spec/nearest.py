"""Which known word a misspelled one may mean, for messages."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(word: str, known: Iterable[str]) -> str:
    """Suggest the known word that is meant, or nothing."""
    close = get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


__all__ = ["nearest"]
