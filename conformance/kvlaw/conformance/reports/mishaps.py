"""Calls that came to no answer: a crash, a hang, an exception, told before the clause to which they are charged.

A call that never returns breaks whatever clause asks for its answer.  What a reader has to know first is that it never
returned: in which call, and how.
"""

import re

from attrs import frozen

from kvlaw.conformance.events import FailureFound
from kvlaw.conformance.reports.words import clean
from kvlaw.conformance.timelimit import NO_ANSWER

_ENDS = {
    "hung": NO_ANSWER,
    "crashed": r"the testee (?:was ended|exited|is lost)|its process |the target called sys\.exit",
    "broke off": r"the testee closed",
}
"""How a call ended, by how the message of its error begins."""
_RAISED = r"(?P<name>(?:\w+\.)*[A-Z]\w*)(?:: (?P<text>.*))?$"
"""An exception: its name, and what it says."""


@frozen
class Mishap:
    """How a call came to no answer: in one word, in which call, and what was heard of it."""

    word: str
    call: str
    text: str

    @property
    def sentence(self) -> str:
        """Say it in one line."""
        return f"the target {self.word} in `{self.call}`{f': {self.text}' if self.text else ''}"


def mishap(failure: FailureFound) -> Mishap | None:
    """Tell how the failing call came to no answer; None if it answered, or refused without an exception."""
    last = next((step.call for step in reversed(failure.steps) if step.diverges), None)
    call = last if last is not None else failure.text.rpartition(";")[2].strip()
    return mishap_of(failure.field, failure.expected, failure.observed, call)


def mishap_of(field: str, expected: str, observed: str, call: str) -> Mishap | None:
    """Tell the same of one divergence."""
    outcome, _, message = observed.partition(" ")
    if field.rpartition(" ")[2] != "outcome":
        return None
    if outcome == "error":
        word = next((word for word, begin in _ENDS.items() if re.match(begin, message)), "failed")
        return Mishap(word, clean(call, 200), clean(message, 400))
    raised = re.match(_RAISED, message)
    if outcome == "refused" and "refused" not in expected and raised is not None:
        return Mishap(f"raised {raised['name']}", clean(call, 200), clean(raised["text"] or "", 400))
    return None


__all__ = ["Mishap", "mishap", "mishap_of"]
