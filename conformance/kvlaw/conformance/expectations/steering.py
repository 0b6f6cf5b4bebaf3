"""Exploration that goes on behind listed failures.

A ``Session`` asks ``Steering.listed`` whether a failure is a listed one. It is, if the trigger of that is in it
(``triggers``), if it looks the same at such a call (``symptoms``), or if it still fails in the listed way when
everything else is taken away from it (``bare``), whatever clause it was charged to in its circumstances. If so,
``Steering.detour`` gives the way around.

While expectations are being written, ``learn`` is on: what is found is shortened at once, and gone around as well, but
only from the next machine on (``turn``): Hypothesis asks that the same draws always lead to the same calls.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from attrs import define, field, frozen

from kvlaw.conformance.compare import Divergence
from kvlaw.conformance.expectations.bare import bare
from kvlaw.conformance.expectations.detours import Detour, around
from kvlaw.conformance.expectations.marks import Mark
from kvlaw.conformance.expectations.masks import Masks
from kvlaw.conformance.expectations.symptoms import Symptom
from kvlaw.conformance.expectations.triggers import Trigger
from kvlaw.conformance.failures import Failure
from kvlaw.spec.config import Config
from kvlaw.spec.trace import Trace

if TYPE_CHECKING:
    from kvlaw.conformance.lockstep import Step

MOST_DETOURS = 4
"""How often a trace is gone on with."""
MOST_LEARNT = 40
"""How many failures are learnt of one kind of cache; behind so many, exploration stops where one more is found."""
Walk = Callable[[Trace], "tuple[Step, ...] | None"]
"""Walks a trace without noting anything; None for a trace that nobody can be asked."""


@frozen
class Known:
    """A failure that is listed, under a name, and what it needs."""

    name: str
    clause: str
    trigger: Trigger
    symptom: Symptom

    def explains(self, found: "Found") -> bool:
        """Tell whether a failure looks the same at such a call: one of wrong tokens by whatever clause it is charged.

        Of one fault, which lets a query see one token too many, each clause that speaks of a case of it is broken.
        """
        failure, symptom = found.failure, found.symptom
        charged = self.clause == failure.clause or symptom.of_tokens
        return charged and self.symptom.alike(symptom) and self.trigger.looks_on(found.trigger)

    def covers(self, clause: str, trigger: Trigger) -> bool:
        """Tell whether a failure that has nothing beside what this one needs is this one."""
        return clause == self.clause and self.trigger.covers(trigger)


@frozen
class Found:
    """A failure that was found: with the marks of its calls, the opening's left out, and its trigger."""

    failure: Failure
    marks: tuple[Mark, ...]
    trigger: Trigger
    symptom: Symptom

    def listed(self, name: str) -> Known:
        """List it under a name."""
        return Known(name, self.failure.clause, self.trigger, self.symptom)


@define
class Steering:
    """The listed failures of one session, how often each was met, and what each kept from being exercised."""

    walk: Walk
    attribute: Callable[[Trace, Divergence], Failure]
    known: list[Known] = field(factory=list[Known])
    learn: bool = False
    learnt: list[Failure] = field(factory=list[Failure])
    coming: list[Known] = field(factory=list[Known])
    """What is learnt, and gone around from the next turn on."""
    met: Counter[str] = field(factory=Counter[str])
    detours: int = 0
    hidden: dict[str, set[str]] = field(factory=dict[str, set[str]])
    """Clause to the clauses of the listed failures that stood before its situation."""
    alike: dict[str, set[str]] = field(factory=dict[str, set[str]])
    """Clause to the names of the failures that are listed for others and break it as well."""
    walked: dict[Trace, Found | None] = field(factory=dict[Trace, Found | None])
    entered: dict[str, Found] = field(factory=dict[str, Found])
    """What is listed since its trace was replayed, by its name."""

    def masks(self, *, noted: bool) -> Masks:
        """Make what hides wrong reports in one walk."""
        return Masks(self._hides, self._note if noted else _ignore)

    def _note(self, name: str) -> None:
        self.met[name] += 1

    def _hides(self, divergence: Divergence, config: Config, marks: tuple[Mark, ...]) -> str:
        found = Trigger.of(divergence, config, marks)
        return next((k.name for k in self.known if k.clause == divergence.clause and k.trigger.masks(found)), "")

    def examine(self, failure: Failure) -> Found | None:
        """Walk a failure's trace again for its trigger; None if the target does not answer as before."""
        steps = self.walk(failure.trace)
        if steps is None or len(steps) < 1 or not steps[-1].divergences:
            return None
        return _found(failure, failure.trace.config, steps)

    def listed(self, failure: Failure) -> tuple[Known, Found] | None:
        """Say which listed failure this is."""
        if not (self.known or self.coming):
            return None
        found = self.examine(failure)
        if found is None:
            return None
        known = next((k for k in (*self.known, *self.coming) if self._is(k, found)), None)
        return None if known is None else (known, found)

    def _is(self, known: Known, found: Found) -> bool:
        """Look whether the trigger is in a failure; else take away what that does without: does it fail as listed?"""
        if known.explains(found):
            return True
        if not known.trigger.may_be(found.trigger):
            return False
        if known.clause == found.failure.clause and known.trigger.is_in(found.trigger):
            return True
        trace = found.failure.trace
        lefts = bare(trace, found.marks, found.trigger, known.trigger)
        others = (self._barely(left) for left in lefts if left != trace)
        return any(other is not None and known.covers(other.failure.clause, other.trigger) for other in others)

    def _barely(self, left: Trace) -> Found | None:
        """Walk what is left of a failure's trace, once; None if it does not fail at its last call."""
        if left not in self.walked:
            steps = self.walk(left)
            fails = steps is not None and len(steps) > len(left.calls) and bool(steps[-1].divergences)
            self.walked[left] = self._told(left, steps) if steps is not None and fails else None
        return self.walked[left]

    def _told(self, left: Trace, steps: "tuple[Step, ...]") -> Found:
        return _found(self.attribute(left, steps[-1].divergences[0]), left.config, steps)

    def add(self, failure: Failure, name: str) -> bool:
        """List a failure; give False if the target does not answer as before."""
        found = self.examine(failure)
        if found is None:
            return False
        self.known.append(found.listed(name))
        self.entered[name] = found
        behind = self._behind(failure)
        if behind is not None:
            self.known.append(behind.listed(name))
        return True

    def _behind(self, failure: Failure) -> Found | None:
        """Walk a trace behind the wrong report that is hidden since it is listed: what it shows next is the same one.

        It breaks the same clause on the same trace, so that nobody could list it beside the first.
        """
        trace = failure.trace
        steps = self.walk(trace)
        if steps is None or len(steps) <= len(trace.calls) or not steps[-1].divergences:
            return None
        found = self._told(trace, steps)
        return found if found.failure.clause == failure.clause else None

    def is_explained(self, name: str) -> bool:
        """Tell whether a listed failure is another listed one, in circumstances that this can do without."""
        found = self.entered.get(name)
        return found is not None and any(known.name != name and self._is(known, found) for known in self.known)

    def drop(self, name: str) -> None:
        """List a failure no more."""
        self.known = [known for known in self.known if known.name != name]

    def learns(self, failure: Failure, name: str) -> bool:
        """Take in a failure that is not listed, on its shortest trace; say whether it is a new one."""
        found = self.examine(failure)
        new = found is not None and all(known.name != name for known in (*self.known, *self.coming))
        if found is not None and new:
            self.learnt.append(failure)
            self.coming.append(found.listed(name))
        return new

    def forget(self) -> None:
        """Begin to count anew; what is listed and learnt stays."""
        self.met.clear()
        self.hidden.clear()
        self.alike.clear()
        self.detours = 0

    def turn(self) -> None:
        """Go around what was learnt so far."""
        self.known += self.coming
        self.coming.clear()

    def detour(self, whole: Trace, known: Known, found: Found, step: "Step") -> Detour | None:
        """Give the way around a listed failure, and note what it keeps from being exercised; None before its turn."""
        if known not in self.known:
            return None
        self.met[known.name] += 1
        self.detours += 1
        if found.failure.clause != known.clause and known.explains(found):
            self.alike.setdefault(found.failure.clause, set()).add(known.name)
        cited = {*step.expectation.charged, *(c for e in step.expectation.expected for c in e.clauses)}
        self.keeps(cited - step.exercised, known)
        return around(whole, found.failure.trace, found.marks, known.trigger)

    def keeps(self, clauses: Iterable[str], known: Known) -> None:
        """Note that a listed failure stood before the situations of these clauses."""
        for clause in clauses:
            self.hidden.setdefault(clause, set()).add(known.clause)


def _found(failure: Failure, config: Config, steps: "tuple[Step, ...]") -> Found:
    """Take what tells a failure from others from the steps of a walk that ends with it."""
    last, marks = steps[-1], tuple(step.mark for step in steps)
    first = last.divergences[0]
    record = last.record if first.row is None or first.row >= len(last.record.rows) else last.record.rows[first.row]
    trigger = Trigger.of(first, config, marks)
    appended = last.call.appends if last.call is not None else 0
    return Found(failure, marks[1:], trigger, Symptom.of(first, record.live, config.window, appended))


def _ignore(name: str) -> None:
    """Take no note of a report that a control run hides."""


__all__ = ["MOST_DETOURS", "MOST_LEARNT", "Found", "Known", "Steering", "Walk"]
