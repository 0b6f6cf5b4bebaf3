"""What ``--update-expectations`` and ``kvlaw init`` do: check again until nothing is found that is not listed.

Each round goes around what was listed by the rounds before, so that it comes further. An entry whose witness passes is
dropped, one that fails otherwise is refreshed, and what is found anew is added, with a reason that says when and by
what it was found; the cause is for people to write.
"""

from collections.abc import Callable
from datetime import UTC, datetime

from attrs import evolve, frozen

from kvlaw.conformance.check import Plan, Report, check
from kvlaw.conformance.expectations.entries import Expected, observed_of
from kvlaw.conformance.expectations.witnesses import Witness
from kvlaw.conformance.failures import Failure
from kvlaw.conformance.result import CheckResult
from kvlaw.spec.contract import Subject

MOST_ROUNDS = 12


@frozen
class Learnt:
    """The last result, and what is listed now.

    ``became`` has, for each entry that was listed before, by where it stands, what it has become (None: it is dropped);
    ``added`` has the new ones.
    """

    result: CheckResult
    became: tuple[tuple[str, Expected | None], ...]
    added: tuple[Expected, ...]
    rounds: int

    @property
    def settled(self) -> bool:
        """The last round found nothing that was not listed."""
        return self.result.whole and not self.result.learnt and not self.result.outdated


def learn(
    plan: Plan, subject: Subject, called: str, report: Report | None = None, told: Callable[[str], object] | None = None
) -> Learnt:
    """Check until the list is complete; ``called`` is what the entries call the target."""
    entries: list[Expected | None] = list(plan.expected)
    places = [entry.where for entry in plan.expected]
    added: list[Expected] = []
    number = 0
    while True:
        number += 1
        known = [entry for entry in (*entries, *added) if entry is not None]
        result = check(evolve(plan, expected=tuple(known), learn=True), subject, report)
        if number >= MOST_ROUNDS or not result.whole or not (result.learnt or result.outdated):
            return Learnt(result, tuple(zip(places, entries, strict=True)), tuple(added), number)
        became = {id(w.expected): _become(w) for w in result.outdated}
        entries = [became.get(id(e), e) if e is not None else None for e in entries]
        added = [now for e in added if (now := became.get(id(e), e)) is not None]
        listed = {e.id for e in (*entries, *added) if e is not None}
        new = [expected_of(failure, called, result) for failure in result.learnt]
        added += [entry for entry in dict.fromkeys(new) if entry.id not in listed]
        if told is not None:
            told(f"round {number}: {len(result.learnt)} found, {len(result.outdated)} not as listed")


def _become(witness: Witness) -> Expected | None:
    """Refresh an entry whose trace fails otherwise; drop any other that is not as listed."""
    failure = witness.failure
    if witness.state != "changed" or failure is None:
        return None
    now = observed_of(failure.divergence)
    return evolve(witness.expected, clause=failure.clause, trace=failure.trace, observed=now)


def expected_of(failure: Failure, called: str, result: CheckResult) -> Expected:
    """List a failure, with a reason that says when and by what it was found."""
    return Expected(called, failure.clause, failure.trace, observed_of(failure.divergence), _reason(result))


def _reason(result: CheckResult) -> str:
    versions = result.versions
    about = [f"{name} {versions[name]}" for name in ("mlx", "mlx-lm") if name in versions]
    day = datetime.now(UTC).date().isoformat()
    return f"found on {day} by kvlaw {versions.get('kvlaw', '')} (budget {result.budget}, seed {result.seed}" + (
        f"; with {', '.join(about)}); not yet looked into" if about else "); not yet looked into"
    )


__all__ = ["MOST_ROUNDS", "Learnt", "expected_of", "learn"]
