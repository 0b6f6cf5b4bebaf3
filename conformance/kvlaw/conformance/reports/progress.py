"""One line that says what is going on, from an event of progress."""

from kvlaw.conformance.events import Event, Progressed


def line(event: Event) -> str:
    """Say what is going on; an empty text for an event that is no progress."""
    if not isinstance(event, Progressed):
        return ""
    failed = f", {event.failures} clauses broken" if event.failures else ""
    return f"{event.kind}: {event.stage}, {event.calls} calls{failed}"


__all__ = ["line"]
