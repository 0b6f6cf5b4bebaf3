"""The replay of what is listed, before anything else is played: is each failure still there, and still the same?

Each expected failure gets a ``Witness``: its state, and in words why it is no other. The state is

* ``holds``: the trace still fails at its last call, by the clause that is listed, and the target shows the same;
* ``stale``: the trace passes now (or the target has no such call any more);
* ``changed``: it fails by another clause, at another call, or the target shows something else;
* ``unknown``: the clause is not in the specification, is retired, or is not of the profile and the kind checked;
* ``twice``: the same trace is listed for the same target before;
* ``misplaced``: no such target is checked or configured.

Only ``holds`` keeps a run green.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, get_args

from attrs import evolve, frozen

from kvlaw.conformance.expectations.entries import Expected, observed_of
from kvlaw.conformance.failures import Failure
from kvlaw.conformance.limits import trace_too_large
from kvlaw.conformance.session import Session
from kvlaw.conformance.subjects.errors import nearest
from kvlaw.spec.clauses import Profile, load_clauses
from kvlaw.spec.config import Kind
from kvlaw.spec.trace import Trace

NOTHING: Mapping[str, Any] = {}
State = Literal["holds", "stale", "changed", "unknown", "twice", "misplaced"]
STATES: tuple[State, ...] = get_args(State)


@frozen
class Witness:
    """What became of an expected failure.

    ``why`` says what is wrong with it, and what to do; ``failure`` is what its trace shows now, if it fails. ``met``
    counts how often it was met again behind its witness.
    """

    expected: Expected
    state: State
    why: str = ""
    failure: Failure | None = None
    met: int = 0

    @property
    def holds(self) -> bool:
        """It still fails as it is listed."""
        return self.state == "holds"


def replayed(
    sessions: Mapping[Kind, Session],
    expected: Iterable[Expected],
    profile: Profile,
    called: str,
    fixed: Mapping[str, Any] = NOTHING,
) -> tuple[Witness, ...]:
    """Replay expected failures, each in the session of its kind of cache, which then goes around those that hold.

    ``called`` is what entries call the target; others are for a target that is not there. ``fixed`` are the fields of
    a configuration that the target comes with.
    """
    found: list[Witness] = []
    seen: set[str] = set()
    for entry in expected:
        if entry.target == called:
            why = _misfit(entry, fixed)
            found.append(
                Witness(entry, "unknown", why) if why else _replayed(sessions, entry, profile, entry.id in seen)
            )
        else:
            meant = nearest(entry.target, [called]) or ";"
            why = f"no target is called {entry.target!r}{meant} correct it, or remove the entry"
            found.append(Witness(entry, "misplaced", why))
        seen.add(entry.id)
    return tuple(found)


def _replayed(sessions: Mapping[Kind, Session], entry: Expected, profile: Profile, twice: bool) -> Witness:
    if twice:
        return Witness(entry, "twice", "the same trace is listed before for this target: remove one of the two")
    if why := _unknown(entry.clause, profile):
        return Witness(entry, "unknown", why)
    session = sessions.get(entry.trace.config.kind)
    if session is None:
        kinds = ", ".join(sessions)
        why = f"its trace opens a {entry.trace.config.kind} cache, and the target is checked as {kinds}: remove it"
        return Witness(entry, "unknown", why)
    if why := trace_too_large(entry.trace):
        return Witness(entry, "unknown", why)
    if entry.clause not in session.clauses:
        why = f"{entry.clause} does not apply to this target as it is checked: remove it, or change the target's kinds"
        return Witness(entry, "unknown", why)
    return _walked(session, entry)


def _misfit(entry: Expected, fixed: Mapping[str, Any]) -> str:
    """Say which field of a trace is not as the target is checked; else nothing."""
    config = entry.trace.config
    others = [f"{name}={getattr(config, name)}" for name, value in fixed.items() if getattr(config, name) != value]
    wanted = ", ".join(f"{name}={value}" for name, value in fixed.items())
    return f"its trace has {', '.join(others)}, and the target is checked with {wanted}: remove it" if others else ""


def _unknown(clause: str, profile: Profile) -> str:
    """Say why nothing can be expected to break a clause; else nothing."""
    clauses = load_clauses()
    if clause in clauses.retired:
        gone = clauses.retired[clause].retired
        return f"{clause} is retired (specification {gone}) and no longer checked: remove it"
    if clause not in clauses:
        return f"there is no clause {clause!r}{nearest(clause, clauses) or ';'} correct it, or remove it"
    if clause not in clauses.of_profile(profile):
        return f"{clause} is a LAYOUT clause, and the profile is {profile}: remove it, or check with profile layout"
    return ""


def _walked(session: Session, entry: Expected) -> Witness:
    steps = session.walk(entry.trace)
    if steps is None:
        return Witness(entry, "unknown", "its trace asks an object that is not there: correct the trace, or remove it")
    if not steps[-1].divergences:
        last = steps[-1].record.outcome
        gone = f"the target cannot be asked it ({steps[-1].message})" if last == "unsupported" else "its trace passes"
        return Witness(entry, "stale", f"{gone}: remove it")
    cut = Trace(entry.trace.config, entry.trace.calls[: len(steps) - 1])
    failure = session.attribute(cut, steps[-1].divergences[0])
    if why := _difference(entry, failure, len(steps) - 1):
        if session.steering.learn:  # the entry will be refreshed: what it shows now is not found anew
            session.steering.add(failure, entry.id)
        return Witness(entry, "changed", why, failure)
    if not session.steering.add(failure, entry.id):
        why = "its trace fails now and then: the target does not answer the same calls in the same way each time"
        return Witness(entry, "changed", why, failure)
    return Witness(entry, "holds", failure=failure)


def _difference(entry: Expected, failure: Failure, calls: int) -> str:
    """Say in which way a trace fails that is not the listed one; else nothing."""
    if failure.clause != entry.clause:
        return f"its trace breaks {failure.clause} now, not {entry.clause}"
    if calls < len(entry.trace.calls):
        return f"its trace fails at call {calls} of {len(entry.trace.calls)} now"
    now = observed_of(failure.divergence)
    return f"the target shows {now!r} now, not {entry.observed!r}" if entry.observed not in ("", now) else ""


def met(witnesses: Iterable[Witness], count: Callable[[str], int]) -> tuple[Witness, ...]:
    """Say of witnesses how often each was met again."""
    return tuple(evolve(witness, met=count(witness.expected.id)) for witness in witnesses)


__all__ = ["STATES", "State", "Witness", "met", "replayed"]
