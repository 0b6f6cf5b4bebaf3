"""``os._exit`` in foreign code that runs in our process: an error like any other, not the end of the run.

It would end us with a status of the target's choice, and a 0 be read as our verdict: conformant.
"""

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import NoReturn


class OwnExitError(BaseException):
    """Foreign code asked that our process end at once."""


@contextmanager
def staying() -> Generator[None]:
    """Let nobody out of the body by ``os._exit``; a process that is forked in it and other threads leave as they like.

    Raises:
        OwnExitError: in the place of the exit.
    """
    leave, here = os._exit, (os.getpid(), threading.get_ident())

    def stay(status: int) -> NoReturn:
        if (os.getpid(), threading.get_ident()) != here:
            leave(status)
        raise OwnExitError(f"the target called os._exit({status!r})")

    os._exit = stay
    try:
        yield
    finally:
        os._exit = leave


__all__ = ["OwnExitError", "staying"]
