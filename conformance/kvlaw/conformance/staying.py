"""A process that foreign code ends, or makes of ours: it stays one, and nobody else goes on as the check.

``os._exit`` in a call would end us with a status of the target's choice, and a 0 be read as our verdict: conformant. It
is an error like any other.  A child that is forked in a call, and comes out of it instead of ending, would go on in our
place: it ends there.
"""

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import NoReturn

STRAYED = 70
"""With which status a child ends that comes out of the call in which it was forked; in sysexits.h an internal error."""


class OwnExitError(BaseException):
    """Foreign code asked that our process end at once."""


@contextmanager
def staying() -> Generator[None]:
    """Let nobody out of the body by ``os._exit``, and no other process out of it at all.

    A process that is forked in it and other threads leave as they like.

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
        if os.getpid() != here[0]:
            leave(STRAYED)


__all__ = ["STRAYED", "OwnExitError", "staying"]
