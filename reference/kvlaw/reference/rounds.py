"""What the calls of a round must answer on one cache: what is taken back is gone, what came before is all there.

``refusals`` says which of them our design refuses.
"""

from attrs import frozen

from kvlaw.reference.expectation import Expectation, Expected
from kvlaw.reference.model import Model
from kvlaw.reference.states import States
from kvlaw.spec.calls import BeginRound, CommitRound, RollBack
from kvlaw.spec.cite import clause

RoundCall = BeginRound | CommitRound | RollBack


@frozen
class Rounds:
    """Rounds of one cache, for one configuration and profile."""

    states: States

    @clause("ROUND-1", "ROUND-2", "ROUND-4", "ROUND-5", "ROUND-10", "ROUND-11", "ROUND-14", "ROUND-16")
    def done(self, model: Model, call: RoundCall) -> tuple[Expectation, Model]:
        """Carry out a call of a round that our design does not refuse."""
        if isinstance(call, BeginRound):
            after, own = model.begun(), ("ROUND-16",)
        elif isinstance(call, CommitRound):
            after, own = model.closed(model.appended_in_round), ("ROUND-1",)
        else:
            after, own = model.closed(call.keep[0]), ("ROUND-2", "ROUND-4")
        codes = ("ROUND-10",) if after.storage == "affine" and not isinstance(call, BeginRound) else ()
        expected = tuple(self._cited(e, own, codes) for e in self.states.after(after, call))
        return Expectation(charged=own, expected=expected), after

    @staticmethod
    def _cited(expected: Expected, own: tuple[str, ...], codes: tuple[str, ...]) -> Expected:
        first = {
            "storage": ("ROUND-11",),
            "floor": ("ROUND-11",),
            "held": ("ROUND-14", *own, *codes),
            "columns": ("ROUND-14", "ROUND-15"),
            "write_index": ("ROUND-14",),
            "round": ("ROUND-16",),
            "can_trim": (),
        }
        return Expected(expected.field, expected.value, (*first.get(expected.field, own), *expected.clauses))
