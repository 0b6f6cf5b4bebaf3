"""What is said of a target that cannot be run, and of a planted fault that cannot be one."""

from collections.abc import Iterable
from difflib import get_close_matches


class TargetError(Exception):
    """A target that cannot be run: the text names it and says what to do."""


class MisnamedError(TargetError):
    """A name, or an option, that no target can have: the command line is wrong, and nothing was opened."""


class FaultError(ValueError):
    """A planted fault that cannot be registered."""


def nearest(word: str, known: Iterable[str]) -> str:
    """Suggest the known word that is meant, or nothing."""
    close = get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""
