"""One line that says what is going on, from an event of progress."""

from kvlaw.conformance.counting import counted
from kvlaw.conformance.events import Event, Progressed


def line(event: Event) -> str:
    """Say what is going on; an empty text for an event that is no progress."""
    if not isinstance(event, Progressed):
        return ""
    failed = f", {counted(event.failures, 'clause')} broken" if event.failures else ""
    part = f", {event.done} of {event.parts} parts done" if event.parts else ""
    return f"{event.kind}: {event.stage}, {counted(event.calls, 'call')}{part}{failed}"


__all__ = ["line"]
