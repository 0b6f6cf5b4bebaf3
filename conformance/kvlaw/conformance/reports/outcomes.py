"""How each outcome of a clause is shown, in every form; an outcome that is not in the table is never a pass."""

from typing import Literal

from attrs import frozen

Case = Literal["passed", "failed", "skipped"]


@frozen
class Look:
    """How an outcome is shown.

    ``colour`` on a terminal, ``mark`` where there is room for one sign only, ``word`` as a class of style sheets;
    ``case`` is what it is for a test runner: a skipped one is no pass, and says why.  ``open`` says that a MUST clause
    with it leaves a check incomplete.  ``rank`` orders outcomes where those of several runs are put together: the
    highest one counts.
    """

    colour: str
    mark: str
    word: str
    case: Case
    rank: int
    open: bool = False
    about: str = ""


LOOKS: dict[str, Look] = {
    "pass": Look("green", "✓", "pass", "passed", 5, about="its situation arose, and the law was kept each time"),
    "fail": Look("bold red", "✗", "fail", "failed", 7, about="the law was broken"),
    "expected fail": Look("magenta", "⚠", "expected", "skipped", 6, about="broken, as the expectations say"),
    "not exercised": Look("yellow", "?", "open", "skipped", 2, open=True, about="its situation never arose"),
    "not observed": Look("yellow", "?", "open", "skipped", 3, open=True, about="the target does not show it"),
    "blocked": Look("yellow", "◌", "open", "skipped", 4, open=True, about="another failure hides it"),
    "not applicable": Look("dim", "-", "none", "skipped", 1, about="the target does not have what the clause needs"),
}
"""Outcome to how it is shown, in the order of tables."""

UNKNOWN = Look("yellow", "?", "open", "skipped", 4, open=True, about="this kvlaw does not know such an outcome")


def look_of(outcome: str) -> Look:
    """Give how an outcome is shown; one that is not known is open, never a pass; none at all was not asked for."""
    return LOOKS.get(outcome, UNKNOWN) if outcome else LOOKS["not applicable"]


VERDICTS: dict[str, tuple[str, str]] = {
    "conformant": ("green", "every MUST clause that applies was exercised, observed and kept"),
    "violations": ("red", "at least one clause of the profile is broken"),
    "stale expectations": ("red", "nothing is broken that is not listed, but a listed failure is not as it is listed"),
    "incomplete": ("yellow", "nothing is known to be broken, but not everything was checked"),
    "unusable": ("red", "the target could not be run"),
}
"""Verdict to its colour and what it says."""

__all__ = ["LOOKS", "UNKNOWN", "VERDICTS", "Case", "Look", "look_of"]
