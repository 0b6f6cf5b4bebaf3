"""Catch a planted fault: play its shortest trace, and say which clause caught it after how many calls.

A fault is *caught* if the first divergence is charged to the clause that it breaks, or lists that clause beside a more
specific one.  Its trace must hold on the unmodified reference in both profiles: a trace that the reference fails shows
nothing (``reference_fails``).
"""

from typing import Literal

from attrs import field, frozen

from kvlaw.conformance.adapter import AdapterSubject
from kvlaw.conformance.faults.registry import Fault, subject
from kvlaw.conformance.lockstep import Lockstep
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.reference.oracle import Profile
from kvlaw.spec.clauses import PROFILES, Clauses
from kvlaw.spec.contract import CAPABILITIES
from kvlaw.spec.trace import Trace

Word = Literal["caught", "caught beside", "charged elsewhere", "missed"]


@frozen
class Catch:
    """What came of one fault: the clause charged first, the others listed, and the calls that it took."""

    breaks: str
    by: str = ""
    others: tuple[str, ...] = field(default=(), converter=tuple)
    calls: int = 0
    expected: str = ""
    observed: str = ""

    @property
    def word(self) -> Word:
        """Say whether the fault was caught, and by what."""
        if not self.by:
            return "missed"
        if self.by == self.breaks:
            return "caught"
        return "caught beside" if self.breaks in self.others else "charged elsewhere"

    @property
    def caught(self) -> bool:
        """The clause that the fault breaks was charged or listed."""
        return self.word in ("caught", "caught beside")


def binding(clauses: Clauses, profile: Profile, trace: Trace) -> frozenset[str]:
    """List the clauses that bind a cache with every capability on this trace."""
    kind, able = trace.config.kind, frozenset(CAPABILITIES)
    return frozenset(c.id for c in clauses.of_profile(profile).values() if c.applicable(kind, able))


def catch(fault: Fault, clauses: Clauses) -> Catch:
    """Play a fault's trace against it, in the profile in which it must be caught."""
    trace = fault.trace
    steps = Lockstep(subject(fault.name), fault.profile, binding(clauses, fault.profile, trace)).run(trace)
    found = steps[-1].divergences
    if not found:
        return Catch(fault.breaks, calls=len(trace.calls))
    calls = min(len(steps) - 1, len(trace.calls))  # looks at the end of a trace are no calls of its own
    first = found[0]
    return Catch(fault.breaks, first.clause, first.others, calls, first.expected, first.observed)


def reference_fails(trace: Trace, clauses: Clauses) -> str:
    """Say how the unmodified reference fails a trace; an empty text if it holds in both profiles."""
    for profile in PROFILES:
        oracle = AdapterSubject(ReferenceAdapter(), name="builtin:oracle")
        steps = Lockstep(oracle, profile, binding(clauses, profile, trace)).run(trace)
        for divergence in steps[-1].divergences:
            what = f"expected {divergence.expected}, observed {divergence.observed}"
            return f"the reference breaks {divergence.clause} in {profile}: {what}"
    return ""
