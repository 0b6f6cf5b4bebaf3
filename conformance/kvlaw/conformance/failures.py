"""One failure class per clause, made on demand, so that Hypothesis and pytest tell faults apart."""

from functools import cache

from attrs import frozen

from kvlaw.conformance.compare import Divergence
from kvlaw.spec.clauses import Profile
from kvlaw.spec.trace import Trace

ENDED = "its process ended by "
"""How the message begins of a call that ended the process in which a cache ran."""


def is_crash(divergence: Divergence) -> bool:
    """Say whether a call ended the process in which a cache ran."""
    return divergence.observed.startswith(f"error {ENDED}")


class ConformanceFailure(AssertionError):  # a failed test, as pytest names them
    """A cache breaks a clause; the subclass names which."""

    clause = ""
    kvlaw_block: str | None = None
    """What pytest reports instead of a traceback, if it is set."""


@cache
def failure_class(clause: str) -> type[ConformanceFailure]:
    """Give the failure class of a clause: ``TRIM-4`` is ``TRIM_4``."""
    return type(clause.replace("-", "_"), (ConformanceFailure,), {"clause": clause, "__module__": __name__})


@frozen
class Failure:
    """A failing trace: the clause that is charged, the divergence, and the trace, cut after the failing call.

    ``target`` is what it was found on, with its options, and ``profile`` says which clauses counted: the same trace is
    another failure on another target. ``seen`` lists the policies and head dims of the sweep that failed by the same
    clause.
    """

    clause: str
    trace: Trace
    divergence: Divergence
    target: str = ""
    profile: Profile = "core"
    minimal: bool = False
    seed: int = 0
    seen: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """A short id that names the clause, and tells the trace, the target and the profile apart from others."""
        from hashlib import blake2b  # only when a failure is named

        parts = f"{self.trace.dumps()}\n{self.target}\n{self.profile}"
        return f"{self.clause}-{blake2b(parts.encode(errors='replace'), digest_size=4).hexdigest()}"
