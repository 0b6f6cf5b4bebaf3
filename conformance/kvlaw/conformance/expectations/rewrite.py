"""Write what was learnt into a file of expectations, or make the file; comments and order stay."""

from collections.abc import Iterable

from kvlaw.conformance.configuration import ConfigurationError, text_of
from kvlaw.conformance.expectations.entries import Expected
from kvlaw.conformance.expectations.file import HEAD, Edits, check_written, edited
from kvlaw.conformance.expectations.learn import Learnt
from kvlaw.conformance.files import write_all
from kvlaw.conformance.project import Project


def rewrite(project: Project, learnt: Iterable[Learnt]) -> str:
    """Edit the file of a project's expectations; say what has changed.

    Raises:
        ConfigurationError: for a file that is written in a form that is not edited; OSError if it cannot be written.
    """
    edits, after = edits_of(project.expected, learnt)
    path = project.where
    if not edits and (project.file is None or path.exists()):
        return "nothing to change"
    text = edited(text_of(path) if path.exists() else HEAD, edits)
    if not check_written(text, after):
        raise ConfigurationError("what would be written is not what was learnt: edit it by hand")
    write_all({path: text})
    counts = ((len(edits.added), "added"), (len(edits.refreshed), "refreshed"), (len(edits.removed), "removed"))
    return ", ".join(f"{count} {what}" for count, what in counts if count) or "made, with nothing to list"


def edits_of(before: tuple[Expected, ...], learnt: Iterable[Learnt]) -> tuple[Edits, list[Expected]]:
    """Work out the edits of a file, and what it lists behind them."""
    became: dict[str, Expected | None] = {}
    edits = Edits()
    for found in learnt:
        became |= dict(found.became)
        edits.added += found.added
    after: list[Expected] = []
    for place, entry in enumerate(before):
        now = became.get(entry.where, entry)
        if now is None:
            edits.removed.add(place)
            continue
        after.append(now)
        if now != entry:
            edits.refreshed[place] = {"clause": now.clause, "trace": now.text, "observed": now.observed}
            edits.comments[place] = now.comments
    return edits, [*after, *edits.added]


__all__ = ["edits_of", "rewrite"]
