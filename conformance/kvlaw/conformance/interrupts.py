"""The user's interrupt (Ctrl-C, SIGINT), told from a ``KeyboardInterrupt`` that foreign code raises of its own.

Only the signal speaks for the user: it passes whatever the foreign code does with it, even if it is swallowed there.
"""

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any]


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
        return self.pressed and self.before is signal.default_int_handler


@contextmanager
def users_alone() -> Generator[None]:
    """Let the user's interrupt out of the body, whatever becomes of it there, and no other ``KeyboardInterrupt``.

    Raises:
        OwnInterruptError: if the body raises ``KeyboardInterrupt`` without a signal.
    """
    watch = _watch()
    if watch is not None:
        signal.signal(signal.SIGINT, watch)
    try:
        yield
    except BaseException as error:
        if watch is not None and watch.must_end and not isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        if isinstance(error, KeyboardInterrupt) and not (watch is not None and watch.pressed):
            raise OwnInterruptError("the target raised KeyboardInterrupt of its own") from error
        raise
    finally:
        if watch is not None:
            signal.signal(signal.SIGINT, watch.before)
    if watch is not None and watch.must_end:
        raise KeyboardInterrupt


def _watch() -> Watch | None:
    """Make the watch, in the main thread, where signals are told to Python code."""
    if threading.current_thread() is not threading.main_thread():
        return None
    before = signal.getsignal(signal.SIGINT)
    return Watch(before) if callable(before) and not isinstance(before, signal.Handlers) else None


__all__ = ["OwnInterruptError", "users_alone"]
