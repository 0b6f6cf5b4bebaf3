"""A time limit for one call into foreign Python code.

The limit is a ``BaseException``, which a cache's ``except Exception`` does not swallow, and it is raised again every
second until the call is left. A call that hangs inside compiled code is only interrupted when it comes back to
Python.
"""

import signal
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

NO_ANSWER = "no answer within"
"""How the message of a call begins that took longer than its limit, in this process or in another."""


class TimeLimitError(BaseException):
    """The call took longer than its limit."""


@contextmanager
def time_limit(seconds: float) -> Generator[None]:
    """Interrupt the body after ``seconds``; without effect outside the main thread and where there is no such signal.

    An outer timer (a limit on a whole test, say) goes on where it was.
    """
    if seconds <= 0 or threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TimeLimitError(f"{NO_ANSWER} {seconds:.2g} s")

    before = signal.signal(signal.SIGALRM, stop)
    started = time.monotonic()
    outer, interval = signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if outer:
            signal.setitimer(signal.ITIMER_REAL, max(outer - (time.monotonic() - started), 1e-3), interval)
