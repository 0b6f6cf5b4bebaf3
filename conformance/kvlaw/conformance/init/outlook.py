"""What ``kvlaw init`` says at its end: what was not played, and what is left to do."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvlaw.conformance.counting import counted

if TYPE_CHECKING:
    from kvlaw.conformance.expectations.learn import Learnt


def left_to_do(learnt: "Learnt", listed: int, minutes: float) -> Iterator[str]:
    """Say, line by line, what is left to do after so many failures were listed."""
    if learnt.late:
        yield f"left  {counted(minutes, 'minute')} were not enough for: {'; '.join(learnt.result.left)}"
        yield "next  kvlaw check --update-expectations goes on from here; or repair some first"
    if listed:
        each = "the failure is" if listed == 1 else "each failure is"
        yield f"next  write into kvlaw-expectations.toml why {each} there, and a link to where it is tracked"
    if not learnt.late:
        yield "next  kvlaw check     is green now; it turns red when something changes"
    yield "next  set KVLAW in .github/workflows/kvlaw.yml to what pip installs there; see how this project is installed"
    yield "next  commit the three files"


__all__ = ["left_to_do"]
