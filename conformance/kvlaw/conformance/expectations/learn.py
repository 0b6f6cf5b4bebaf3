"""What ``--update-expectations`` and ``kvlaw init`` do: check again until nothing is found that is not listed.

Each round goes around what was listed by the rounds before, so that it comes further. An entry whose witness passes is
dropped, one that fails otherwise is refreshed, and what is found anew is added, with a reason that says what was seen;
the cause is for people to write. What turns out to be another one's failure in special circumstances is not added.
"""

import time
from collections.abc import Callable, Iterable

from attrs import evolve, frozen

from kvlaw.conformance.check import OnFailure, Plan, Report, check
from kvlaw.conformance.counting import counted
from kvlaw.conformance.expectations.entries import Expected
from kvlaw.conformance.expectations.tell import Teller
from kvlaw.conformance.expectations.witnesses import Witness, replayed
from kvlaw.conformance.parts import Player
from kvlaw.conformance.result import CheckResult
from kvlaw.conformance.session import OutOfTimeError, Session
from kvlaw.spec.config import Kind
from kvlaw.spec.contract import Subject

MOST_ROUNDS = 12


@frozen
class Learnt:
    """The last result, and what is listed now.

    ``became`` has, for each entry that was listed before, by where it stands, what it has become (None: it is dropped);
    ``added`` has the new ones. ``late`` says that the time was over before all was played.
    """

    result: CheckResult
    became: tuple[tuple[str, Expected | None], ...]
    added: tuple[Expected, ...]
    rounds: int
    late: bool = False

    @property
    def settled(self) -> bool:
        """The last round found nothing that was not listed."""
        return self.result.whole and not self.result.learnt and not self.result.outdated


@frozen
class Listener:
    """Who is told how far a check is, of each failure that is new, and in a line what a round has found."""

    report: Report | None = None
    on_failure: OnFailure | None = None
    told: Callable[[str], object] | None = None

    def in_round(self, number: int) -> Report | None:
        """Give who is told how far a round is, which begins anew: its progress says which one it is."""
        report = self.report
        return None if report is None else lambda p: report(evolve(p, stage=f"round {number}, {p.stage}"))


def learn(
    plan: Plan, subject: Subject, called: str, listener: Listener | None = None, seconds: float | None = None
) -> Learnt:
    """Check until the list is complete, or until its time is over.

    Args:
        plan: the check; what it expects is what is listed before.
        subject: the target.
        called: what the entries call it.
        listener: who is told what happens.
        seconds: how long it may take (None: as long as it takes).
    """
    heard = listener or Listener()
    until = None if seconds is None else time.monotonic() + seconds
    entries: list[Expected | None] = list(plan.expected)
    places = [entry.where for entry in plan.expected]
    added: list[Expected] = []
    number = 0
    while True:
        number += 1
        known = [entry for entry in (*entries, *added) if entry is not None]
        learning = evolve(plan, expected=tuple(known), learn=True)
        result = check(learning, subject, heard.in_round(number), on_failure=heard.on_failure, until=until)
        late = bool(result.stopped) and until is not None and time.monotonic() > until
        last = number >= MOST_ROUNDS or not (result.whole or late) or not (result.learnt or result.outdated)
        if last:
            return Learnt(result, tuple(zip(places, entries, strict=True)), tuple(added), number, late)
        teller = Teller(plan, subject, result)
        became = {id(w.expected): _become(w, teller) for w in result.outdated}
        entries = [became.get(id(e), e) if e is not None else None for e in entries]
        added = [now for e in added if (now := became.get(id(e), e)) is not None]
        listed = {e.id for e in (*entries, *added) if e is not None}
        new = [teller.expected(failure, called) for failure in result.learnt]
        added += [entry for entry in dict.fromkeys(new) if entry.id not in listed]
        if late:
            return Learnt(result, tuple(zip(places, entries, strict=True)), tuple(added), number, late)
        added = without_explained(learning, subject, [e for e in entries if e is not None], added)
        if heard.told is not None:
            heard.told(f"round {number}: {_counts(len(result.learnt), len(result.outdated))}")


def _counts(found: int, outdated: int) -> str:
    counts = [f"{counted(found, 'failure')} found"]
    if outdated:
        counts += [f"{outdated} {'entry is' if outdated == 1 else 'entries are'} not as listed"]
    return ", ".join(counts)


def without_explained(
    plan: Plan, subject: Subject, listed: Iterable[Expected], added: Iterable[Expected]
) -> list[Expected]:
    """Leave those out of the new entries that are another entry's failure, in circumstances that it can do without.

    The first that was found need not be the plainest: of two that are each other's failure the shorter one stays.
    """
    player = Player(evolve(plan, learn=False), subject)
    sessions: dict[Kind, Session] = {kind: player.session(kind) for kind in plan.kinds}
    kept = list(added)
    replayed(sessions, (*listed, *kept), plan.profile, plan.called or plan.target, plan.fixed)
    for entry in sorted(kept, key=_length, reverse=True):
        session = sessions[entry.trace.config.kind]
        if session.steering.is_explained(entry.id):
            session.steering.drop(entry.id)
            kept.remove(entry)
    return kept


def _length(entry: Expected) -> tuple[int, int]:
    return len(entry.trace.calls), len(entry.text)


def _become(witness: Witness, teller: Teller) -> Expected | None:
    """Refresh an entry whose trace fails otherwise; drop any other that is not as listed."""
    failure = witness.failure
    if witness.state != "changed" or failure is None:
        return None
    now = teller.expected(failure, witness.expected.target)
    return evolve(witness.expected, clause=now.clause, trace=now.trace, observed=now.observed, comments=now.comments)


__all__ = ["MOST_ROUNDS", "Learnt", "Listener", "OutOfTimeError", "learn", "without_explained"]
