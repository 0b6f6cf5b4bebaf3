"""Exact comparison of what was observed with what is expected, and which clause a difference is charged to.

No tolerances: numbers and ids are equal or not. A field that was not observed is not compared and exercises nothing. A
difference is charged to one primary clause, the most specific one that its *nature* speaks of (a duplicate is VIS-3, a
dropped token that comes back TRIM-8, ...); the other clauses that ask for the value are listed with it.

* ``checks_state``, ``checks_read``: one check per expected field; ``differences``: what they take and give.
* ``natures``: which clauses speak of a difference.
"""

from collections.abc import Iterator

from attrs import field, frozen

from kvlaw.conformance.checks_read import READ_CHECKS
from kvlaw.conformance.checks_state import STATE_CHECKS
from kvlaw.conformance.differences import Difference, Shown
from kvlaw.reference.expectation import Expectation
from kvlaw.reference.files import SPOILT
from kvlaw.reference.model import Model


@frozen
class Divergence:
    """One difference: the field, the clause charged, the others concerned, and both values in words."""

    field: str
    clause: str
    others: tuple[str, ...]
    expected: str
    observed: str
    layer: int | None = None
    row: int | None = None
    query: int | None = None

    @property
    def clauses(self) -> tuple[str, ...]:
        """The charged clause and the others."""
        return (self.clause, *self.others)


@frozen
class Verdict:
    """The comparison of one call: the differences, and which clauses were exercised by a field that was observed."""

    divergences: tuple[Divergence, ...] = field(default=(), converter=tuple)
    exercised: frozenset[str] = frozenset()


def compare(expectation: Expectation, shown: Shown, model: Model | None, clauses: frozenset[str]) -> Verdict:
    """Compare one call's observation with its expectation, by the clauses that count."""
    charged = tuple(c for c in expectation.charged if c in clauses)
    outcome = shown.observation.outcome
    if outcome == "unsupported":
        return Verdict()
    if expectation.ends and outcome in expectation.outcomes:
        return Verdict(exercised=frozenset(charged) if len(expectation.outcomes) == 1 else frozenset())
    if outcome not in expectation.outcomes or shown.nonsense:
        return Verdict((_misanswered(expectation, shown, clauses),), frozenset(charged))
    exercised: set[str] = set(charged) if len(expectation.outcomes) == 1 else set()
    found: list[Divergence] = []
    for expected in expectation.expected:
        cited = tuple(c for c in expected.clauses if c in clauses)
        if not cited:
            continue
        result = _CHECKS[expected.field](expected, shown, model)
        if result is None:
            continue
        exercised |= set(cited)
        found += [_charge(difference, cited) for difference in result]
    exercised |= clauses.intersection(_told_by_outputs(expectation, shown))
    return Verdict(tuple(sorted(found, key=_rank)), frozenset(exercised))


def _told_by_outputs(expectation: Expectation, shown: Shown) -> Iterator[str]:
    """List what is asked of the visible sets, where nothing but an output shows them and its census counted them."""
    hidden = shown.read is not None and shown.read.visible is None
    if hidden and shown.counted and shown.probes == ():
        for expected in expectation.expected:
            if expected.field == "sights":
                yield from expected.clauses


def _misanswered(expectation: Expectation, shown: Shown, clauses: frozenset[str]) -> Divergence:
    """Charge a wrong outcome, or an answer that is nonsense, to what the call was charged with."""
    observation = shown.observation
    outright = observation.outcome not in expectation.outcomes
    got = shown.nonsense or ""
    got = f"{observation.outcome} {observation.message}".strip() if outright or not got else got
    asked = [*expectation.charged, *(c for e in expectation.expected for c in e.clauses)]
    cited = tuple(dict.fromkeys(c for c in asked if c in clauses)) or ("POS-2",)
    misshapen = observation.outcome != "refused" and any(
        w in got for w in (" have shape ", " instead of ", " not bf16", " not f")
    )
    if set(cited[:1]) & set(SPOILT.values()):  # whatever it is, it comes of a spoilt file
        return _charge(Difference("outcome" if outright else "answer", _either(expectation), got), cited)
    nature = ("READ-14", "READ-10", "GROW-4") if misshapen else ()
    if observation.outcome == "error" and got.startswith("error the output"):
        nature = ("READ-10", "READ-11") if "words" in got and "scales" in got else ("READ-11",)
    name = "answer" if shown.nonsense else "outcome"
    return _charge(Difference(name, _either(expectation), got, nature), cited)


def _either(expectation: Expectation) -> str:
    return " or ".join(expectation.outcomes)


def _charge(difference: Difference, cited: tuple[str, ...]) -> Divergence:
    speaking = [c for c in dict.fromkeys(difference.nature) if c in cited]
    primary = speaking[0] if speaking else cited[0]
    others = (*speaking[1:], *(c for c in cited if c != primary and c not in speaking))
    return Divergence(
        difference.field, primary, others, difference.expected, difference.observed, query=difference.query
    )


_ORDER = (
    "answer",
    "rows",
    "offset",
    "storage",
    "form",
    "torn",
    "handed",
    "sights",
    "dense_sights",
    "held",
    "tail",
    "slots",
    "answers",
    "fetched",
    "mask",
    "mask_array",
    "mask_width",
    "order",
    "round",
    "can_trim",
    "columns",
    "spare",
    "apart",
    "probes",
)


def _rank(divergence: Divergence) -> int:
    return _ORDER.index(divergence.field) if divergence.field in _ORDER else len(_ORDER)


_CHECKS = {**STATE_CHECKS, **READ_CHECKS}

__all__ = ["Divergence", "Shown", "Verdict", "compare"]
