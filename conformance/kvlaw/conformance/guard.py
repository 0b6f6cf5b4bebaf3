"""What keeps a foreign cache from taking the suite down: every call into it is made through ``guarded``.

* It may raise: an exception out of the call itself is a refusal, out of the showing of its results an error.
* It may hang: the call is interrupted after its time limit (``Patience``, ``timelimit``), which is an error.
* It may print: what it prints goes to stderr, so that a report on stdout stays whole.
* It may leave (``sys.exit``, ``os._exit``, a ``KeyboardInterrupt`` of its own): that is an error; only the user's
  interrupt passes.
"""

import re
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any, TypeVar

import numpy as np
from attrs import define, evolve

from kvlaw.conformance.interface import NonsenseError, UnsupportedError
from kvlaw.conformance.interrupts import OwnInterruptError, users_alone
from kvlaw.conformance.staying import OwnExitError, staying
from kvlaw.conformance.timelimit import NO_ANSWER, TimeLimitError, time_limit
from kvlaw.spec.observations import Observation, Outcome

T = TypeVar("T")


class ShowingError(Exception):
    """A call was carried out, but what it made cannot be shown; the text names what."""


def show(what: str, get: Callable[..., T], *arguments: Any) -> T:
    """Call ``get`` to show ``what``; whatever it raises becomes a ``ShowingError`` that names it."""
    try:
        return get(*arguments)
    except (UnsupportedError, ShowingError):
        raise
    except NonsenseError as error:
        raise ShowingError(f"{what}: {error}") from error
    except Exception as error:
        raise ShowingError(f"{what}: {describe(error)}") from error


@define
class Patience:
    """How long calls into one target may take: ``seconds``, or less once one has hung.

    A target that hangs in one trace does so in hundreds. After the first time a call gets 5 times as long as the
    slowest one that was answered took, and no less than a quarter of a second.
    """

    seconds: float
    slowest: float = 0.0
    hung: bool = False

    @property
    def limit(self) -> float:
        """The limit of the next call, in seconds."""
        return min(self.seconds, max(0.25, 5 * self.slowest)) if self.hung else self.seconds

    def guarded(self, act: Callable[[], Observation]) -> Observation:
        """Make one call, and remember how long it took."""
        limit, started = self.limit, time.monotonic()
        observation = guarded(limit, act)
        took = time.monotonic() - started
        hung = took >= limit and observation.outcome == "error"
        self.note(took, hung=hung)
        if not hung or limit >= self.seconds or NO_ANSWER not in observation.message:
            return observation
        return evolve(observation, message=f"{observation.message} (cut from {self.seconds:.2g} s: it hung before)")

    def note(self, took: float, *, hung: bool = False) -> None:
        """Remember how long a call took, or that it hung."""
        if hung:
            self.hung = True
        else:
            self.slowest = max(self.slowest, took)


def guarded(seconds: float, act: Callable[[], Observation]) -> Observation:
    """Make one call into a foreign cache, ``seconds`` long at most, and turn whatever happens into an observation."""
    try:
        with users_alone(), staying(), time_limit(seconds), redirect_stdout(sys.stderr), np.errstate(all="ignore"):
            return act()
    except UnsupportedError as error:
        return Observation("unsupported", message=str(error) or "the target has no such call")
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit included
        return Observation(_outcome(error), message=describe(error))


def _outcome(error: BaseException) -> Outcome:
    wrong = isinstance(error, ShowingError | NonsenseError | TimeLimitError) or not isinstance(error, Exception)
    return "error" if wrong else "refused"


def describe(error: BaseException) -> str:
    """Say in one line what was raised."""
    text = printable(_message(error))
    if isinstance(error, ShowingError | NonsenseError | TimeLimitError | OwnInterruptError | OwnExitError):
        return text
    if isinstance(error, SystemExit):
        return f"the target called sys.exit({text})"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def printable(text: str) -> str:
    """Put a foreign text on one line, in which no escape sequence reaches a terminal."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in " ".join(text.split()))


def without_secrets(text: str) -> str:
    """Take a user's name and password out of the addresses in a text."""
    return re.sub(r"(?<=://)[^/@\s]+(?=@)", "...", text)


def _message(error: BaseException) -> str:
    """Read an exception's text, which may be code of the target's."""
    try:
        return repr(error.code) if isinstance(error, SystemExit) else str(error)
    except Exception as other:
        return f"(its text cannot be shown: {type(other).__name__})"
