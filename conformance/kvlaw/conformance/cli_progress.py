"""How far a check is, on stderr: a line that changes on a terminal, plain lines from time to time in a log.

A log shows a line when a part of the check has ended, though not more often than every ``OFTEN`` seconds, and one every
``RARELY`` seconds in any case; what is over in less says nothing.
"""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from attrs import define, field

from kvlaw.conformance.cli_options import errors
from kvlaw.conformance.events import Event, Progressed
from kvlaw.conformance.reports.progress import line

OFTEN, RARELY = 5.0, 10.0
Show = Callable[[Event], None]


@define
class Lines:
    """Writes a line for events of progress, now and then."""

    write: Callable[[str], object]
    clock: Callable[[], float] = time.monotonic
    began: float = field(init=False)
    _last: float = field(init=False)
    _place: tuple[str, str, int] = field(default=("", "", -1), init=False)

    def __attrs_post_init__(self) -> None:
        """Begin to count."""
        self.began = self._last = self.clock()

    def show(self, event: Event) -> None:
        """Write a line, if it is time for one."""
        if not isinstance(event, Progressed):
            return
        now, place = self.clock(), (event.target, event.kind, event.done)
        if now - self._last < (RARELY if place == self._place else OFTEN):
            return
        self._last, self._place = now, place
        self.write(f"{now - self.began:5.0f} s  {line(event)}")


@contextmanager
def shown(*, quiet: bool = False) -> Generator[Show]:
    """Give what shows events of progress; ``quiet`` shows none."""
    if quiet:
        yield lambda _: None
    elif not errors.is_terminal or errors.is_dumb_terminal:
        yield Lines(lambda told: errors.print(told, style="dim", markup=False, soft_wrap=True)).show
    else:
        with errors.status("starting") as status:
            yield lambda event: status.update(told) if (told := line(event)) else None


__all__ = ["OFTEN", "RARELY", "Lines", "Show", "shown"]
