"""The run that samples of reports are made of, and what a form of a report says, whatever its width."""

from io import StringIO
from pathlib import Path

from rich.console import Console

from kvlaw.conformance.event_file import read_events
from kvlaw.conformance.reports.run import gather

SAMPLE = Path(__file__).parent / "report_samples" / "run.ndjson"
RUN = gather(read_events(SAMPLE))


def printed(thing: object, width: int = 100) -> str:
    """Print something that rich can show."""
    out = StringIO()
    Console(file=out, width=width, color_system=None).print(thing)
    return out.getvalue()


def flat(text: str) -> str:
    """Take the frame and the line breaks out of a text."""
    return " ".join(text.replace("│", " ").split())
