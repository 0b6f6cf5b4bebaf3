"""The user's interrupt (Ctrl-C, SIGINT), told from a ``KeyboardInterrupt`` that foreign code raises of its own.

Only the signal speaks for the user: it passes whatever the foreign code does with it, even if it is swallowed there.
SIGTERM, by which CI runners and containers end what they run, is such an interrupt too, once (``heed_termination``):
what was found is kept, and what follows the first signal, which is seldom long in coming, disturbs nothing.
"""

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any]
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
TERMINATED = 128 + signal.SIGTERM
"""The exit code of a run that SIGTERM ended before it had a result."""


class _Ending:
    """Whether the run is to end: by SIGTERM, or since it is ending already; ``heeded`` once somebody knows it."""

    terminated = False
    begun = False
    heeded = False


def heed_termination() -> None:
    """Take SIGTERM for the user's interrupt from now on, unless somebody else has a use for it."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)


def _terminate(_number: int, _frame: FrameType | None) -> None:
    if _Ending.begun:
        return
    _Ending.terminated = _Ending.begun = True
    raise KeyboardInterrupt


def ending() -> None:
    """Say that an interrupt is being heeded: no SIGTERM that follows breaks off what is still to be written."""
    _Ending.begun = _Ending.heeded = True
    here = threading.current_thread() is threading.main_thread()
    if here and signal.getsignal(signal.SIGTERM) is _terminate:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # also while Python itself is leaving


def terminated() -> bool:
    """Say whether SIGTERM ends this run: there is little time left."""
    return _Ending.terminated


class OwnInterruptError(BaseException):
    """Foreign code raised ``KeyboardInterrupt``, and nobody had asked for it."""


class Watch:
    """Whether the user interrupted while foreign code ran; ``before`` is who would have been told."""

    def __init__(self, before: Handler) -> None:
        """Stand before a handler."""
        self.before, self.pressed = before, False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Take note of the signal, and hand it on."""
        self.pressed = True
        self.before(number, frame)

    @property
    def must_end(self) -> bool:
        """Say whether the interrupt ends the run; a handler of somebody else's decides that by itself."""
        return self.pressed and self.before in (signal.default_int_handler, _terminate)


@contextmanager
def users_alone() -> Generator[None]:
    """Let the user's interrupt out of the body, whatever becomes of it there, and no other ``KeyboardInterrupt``.

    SIGTERM is told once more where it came in code out of which Python lets no exception: a finalizer, or what the
    garbage collector calls.

    Raises:
        OwnInterruptError: if the body raises ``KeyboardInterrupt`` without a signal.
    """
    if _Ending.terminated and not _Ending.heeded and threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt
    watches = _watches()
    for number, watch in watches.items():
        signal.signal(number, watch)
    pressed = must_end = False
    try:
        try:
            yield
        finally:
            for number, watch in watches.items():
                signal.signal(number, watch.before)
            pressed = any(watch.pressed for watch in watches.values())
            must_end = any(watch.must_end for watch in watches.values())
    except BaseException as error:
        if must_end and not isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        if isinstance(error, KeyboardInterrupt) and not pressed:
            raise OwnInterruptError("the target raised KeyboardInterrupt of its own") from error
        raise
    if must_end:
        raise KeyboardInterrupt


def _watches() -> dict[int, Watch]:
    """Make the watches, in the main thread, where signals are told to Python code."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    return {n: Watch(b) for n, b in before.items() if callable(b) and not isinstance(b, signal.Handlers)}


__all__ = ["TERMINATED", "OwnInterruptError", "ending", "heed_termination", "terminated", "users_alone"]
