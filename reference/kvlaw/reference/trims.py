"""What a trim must answer, and what is left after it.

``done`` is the trim of our design, in the layout profile.  ``judged`` follows another design: it looks at what was
answered, whether that was owed or promised, and holds the cache to it (TRIM-3 to TRIM-5).
"""

from attrs import frozen

from kvlaw.reference.expectation import Expectation, Expected
from kvlaw.reference.model import Model
from kvlaw.reference.states import States
from kvlaw.reference.world import Seen
from kvlaw.spec.calls import Trim
from kvlaw.spec.cite import clause

Judged = tuple[Expectation, Model]


@frozen
class Trims:
    """Trims of one cache, for one configuration and profile."""

    states: States

    @clause("TRIM-1", "TRIM-2", "TRIM-3", "TRIM-10", "TRIM-11", "POS-4")
    def done(self, model: Model, call: Trim) -> Judged:
        """Carry out a trim that our design does not refuse: in full."""
        count = int(call.n)
        after = model.trimmed(count, call.bypass)
        cited = ("TRIM-11",) if _cuts(model, call) else _specific(model, count)
        expected = (*self.states.after(after, call, cited), Expected("answer", count, ("TRIM-3", *cited)))
        charged = cited if _cuts(model, call) else ("TRIM-5", *cited)
        return Expectation(charged=charged, expected=expected, answer=count), after

    @clause("TRIM-3", "TRIM-4", "TRIM-5", "TRIM-9")
    def judged(self, model: Model, call: Trim, seen: Seen) -> Judged:
        """Judge a trim by what it answered: exactly that many positions are gone, or none (TRIM-3)."""
        count, dropped = int(call.n), dropped_by(model.offset, seen)
        if dropped is None:
            return Expectation(("ok", "refused"), ends=True), model
        most = min(max(count, 0), model.offset)
        speaks = not call.bypass  # can_trim speaks of plain trims only
        said = seen.said(count) if speaks and 0 <= count <= model.offset else None
        denied = speaks and 0 < dropped <= model.offset and seen.said(dropped) is False
        due = self.due(model, call, said)
        if seen.outcome == "ok" and not 0 <= dropped <= most:
            return self._untrue(model, most, ("TRIM-9",) if count < 0 else ("TRIM-3",))
        if denied:
            return Expectation(("refused",), ("TRIM-4",), expected=(Expected("answer", 0, ("TRIM-4",)),)), model
        if due and dropped != count:
            return self._less(model, count, due, seen)
        if not dropped:
            return self._nothing(model, count, said, due, seen)
        after = model.trimmed(dropped)
        cited = due or _specific(model, dropped)
        owed = (Expected("answer", count, ("TRIM-3", *due)),) if due else ()
        return Expectation(expected=(*self.states.after(after, call, cited), *owed), answer=dropped), after

    @staticmethod
    def due(model: Model, call: Trim, said: bool | None) -> tuple[str, ...]:
        """Cite the clauses by which this trim must be done in full: because it was promised, or is owed."""
        window = model.layer.window
        fits = 0 <= call.n <= model.offset
        owed = fits and (window is None or (model.offset < window and not call.bypass))
        return (*(("TRIM-5",) if said else ()), *(_specific(model, 1) if owed else ()))

    def _untrue(self, model: Model, most: int, cited: tuple[str, ...]) -> Judged:
        """Expect what a true answer could have been at most, of an answer that cannot be true."""
        expected = (Expected("answer", most, cited), Expected("offset", model.offset - most, cited))
        return Expectation(charged=cited, expected=expected, answer=most), model

    def _less(self, model: Model, count: int, due: tuple[str, ...], seen: Seen) -> Judged:
        """Expect the whole count, where less was dropped than is due."""
        kept = self.states.unchanged(model, ("ERR-1",)) if seen.outcome != "ok" else ()
        return Expectation(charged=due, expected=(Expected("answer", count, due), *kept), answer=count), model

    def _nothing(self, model: Model, count: int, said: bool | None, due: tuple[str, ...], seen: Seen) -> Judged:
        """Expect that nothing has changed, of a trim that dropped nothing and may."""
        own = "TRIM-9" if count < 0 else "TRIM-3" if count else "TRIM-10"
        denied = ("TRIM-4",) if said is False and count else ()
        refused = ("ERR-1",) if seen.outcome != "ok" else ()
        cited = (own, *refused, *denied) if count == 0 else (*refused, own, *denied)
        outcomes = ("ok",) if due else ("ok", "refused")
        expected = self.states.unchanged(model, (*cited, *due))
        return Expectation(outcomes, (*due, own), expected=expected), model.was(refused=bool(refused))


def dropped_by(offset: int, seen: Seen) -> int | None:
    """Say how many positions a trim dropped, by its answer or else by the offset; None: there is no telling."""
    if seen.outcome != "ok":
        return 0
    if seen.answer is not None:
        return seen.answer
    return None if seen.offset is None else offset - seen.offset


def _cuts(model: Model, call: Trim) -> bool:
    """Tell whether this trim cuts columns off a ring, rather than moving its counters."""
    return call.bypass and model.layer.window is not None


def _specific(model: Model, count: int) -> tuple[str, ...]:
    if count == 0:
        return ("TRIM-10",)
    return ("TRIM-1",) if model.layer.window is None else ("TRIM-2",)


__all__ = ["Judged", "Trims", "dropped_by"]
