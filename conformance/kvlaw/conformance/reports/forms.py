"""The forms of a report by name; each is a function from what a run says to a text."""

from collections.abc import Callable
from io import StringIO

from kvlaw.conformance.reports.run import RunReport

Form = Callable[[RunReport], str]
WIDTH = 110


def _terminal(run: RunReport) -> str:
    from rich.console import Console

    from kvlaw.conformance.reports.terminal import print_run

    text = StringIO()
    print_run(Console(file=text, width=WIDTH, color_system=None, highlight=False, emoji=False), run)
    return text.getvalue()


def _junit(run: RunReport) -> str:
    from kvlaw.conformance.reports.junit import junit_report

    return junit_report(run)


def _json(run: RunReport) -> str:
    from kvlaw.conformance.reports.json_form import json_report

    return json_report(run)


def _markdown(run: RunReport) -> str:
    from kvlaw.conformance.reports.markdown import markdown_report

    return markdown_report(run)


def _html(run: RunReport) -> str:
    from kvlaw.conformance.reports.html import html_report

    return html_report(run)


FORMS: dict[str, Form] = {
    "terminal": _terminal,
    "junit": _junit,
    "json": _json,
    "markdown": _markdown,
    "html": _html,
}
"""Name to form."""

ALIASES = {"md": "markdown", "xml": "junit", "text": "terminal", "txt": "terminal"}
"""Other names of forms."""


def form_named(name: str) -> str:
    """Give the name of a form; raise ``ValueError`` that says which there are."""
    from kvlaw.conformance.subjects.errors import nearest

    known = ALIASES.get(name, name)
    if known not in FORMS:
        hint = nearest(name, (*FORMS, *ALIASES))
        raise ValueError(f"{name!r} is no form of a report{hint}; the forms are {', '.join(FORMS)}")
    return known


__all__ = ["ALIASES", "FORMS", "Form", "form_named"]
