"""Walk the trace of each failure once more, to tell it step by step; a hang is waited for as long as was asked.

While a check goes on, a target that has hung once is given less time (``guard.Patience``): it would hang hundreds of
times.  What is told of a hang in the end is what it does within the limit that is in force, for as many failures as
``WAIT`` seconds allow, and for one in any case.
"""

import time
from collections.abc import Callable

from attrs import define, evolve

from kvlaw.conformance.check import Plan
from kvlaw.conformance.check import replay as walk
from kvlaw.conformance.crashes import steps_of
from kvlaw.conformance.failures import Failure, is_crash
from kvlaw.conformance.guard import Patience
from kvlaw.conformance.lockstep import Step
from kvlaw.conformance.session import StoppedError
from kvlaw.conformance.timelimit import NO_ANSWER
from kvlaw.spec.config import Config
from kvlaw.spec.contract import Subject

WAIT = 30.0
"""Seconds that are spent on waiting for hangs in full."""


@define
class Rerun:
    """The failures of one check, walked again one by one."""

    subject: Subject
    plan: Plan
    waited: float = 0.0

    def again(self, failure: Failure) -> tuple[Failure, tuple[Step, ...]]:
        """Walk a failure; give it as it shows itself now, and its steps, or none for want of memory."""
        if is_crash(failure.divergence):
            return failure, steps_of(failure, self.plan, self.subject.capabilities)
        hangs = NO_ANSWER in failure.divergence.observed
        patience: Patience | None = getattr(self.subject, "patience", None)
        if hangs and patience is not None and self.waited < WAIT:
            patience.hung = False
        started = time.monotonic()
        try:
            steps = walk(self.subject, self.plan.profile, failure.trace, spec=self.plan.spec)
        except StoppedError:
            return failure, ()
        self.waited += time.monotonic() - started if hangs else 0.0
        first = next((d for step in steps for d in step.divergences[:1]), None)
        if hangs and first is not None and first.field == failure.divergence.field:
            failure = evolve(failure, divergence=evolve(failure.divergence, observed=first.observed))
        return failure, steps


def built_by(subject: Subject, config: Config) -> str:
    """Tell by which call of the vendor's the first cache of a trace is built; nothing where only its adapter knows."""
    told: Callable[[Config], str] | None = getattr(
        getattr(getattr(subject, "adapter", None), "make", None), "told", None
    )
    return told(config) if told is not None else ""


__all__ = ["WAIT", "Rerun", "built_by"]
