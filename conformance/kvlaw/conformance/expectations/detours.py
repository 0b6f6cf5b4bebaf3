"""How a trace goes on around a listed failure: the same trace without what sets the failure off.

* What needs poison, or that nothing is looked at until the end, is gone around by a trace without that.
* A call that is itself special (a trim, a filter, ...) is left out; a read that shows what a special call before it
  did is kept, and that call left out. Who closes what another call opened (a round, padding) goes with the opening one.

What is left out is not asked again in the same situation while the trace goes on (``avoided``).
"""

from attrs import evolve, frozen

from kvlaw.conformance.expectations.marks import Mark
from kvlaw.conformance.expectations.triggers import Trigger, within
from kvlaw.spec.trace import Trace

CALM = {"poison=True": {"poison": False}, "look=last": {"look": "every"}}
"""What a configuration may have that a trace can do without, and the same without it."""
_OPENED_BY = {
    "finalize": "prepare",
    "commit_round": "begin_round",
    "roll_back": "begin_round",
    "commit_prefill": "begin_prefill",
    "end_prefill": "begin_prefill",
}


@frozen
class Detour:
    """A trace to walk instead, and the mark of a call that is not to be asked again (None: there is no such)."""

    trace: Trace
    avoided: Mark | None = None


def around(whole: Trace, cut: Trace, marks: tuple[Mark, ...], trigger: Trigger) -> Detour:
    """Find the way around a failure.

    Args:
        whole: the trace that was being walked.
        cut: the failure's own trace: the same calls, as a control run had them, up to the one that diverges.
        marks: those of the calls of ``cut``.
        trigger: what the listed failure needs.
    """
    calm = {name: value for need in trigger.needs & CALM.keys() for name, value in CALM[need].items()}
    if calm and any(getattr(whole.config, name) != value for name, value in calm.items()):
        return Detour(evolve(whole, config=evolve(whole.config, **calm)))
    last = len(cut.calls) - 1
    if last < 0:
        return Detour(evolve(whole, calls=()))
    at = _to_leave_out(marks, trigger)
    gone = {at, _opening(marks, at)}
    avoided = marks[_opening(marks, at)]
    return Detour(evolve(whole, calls=tuple(c for i, c in enumerate(whole.calls) if i not in gone)), avoided)


def _to_leave_out(marks: tuple[Mark, ...], trigger: Trigger) -> int:
    """Choose the call to leave out: the last one if it is special, else the last special one that is needed."""
    last = len(marks) - 1
    if marks[last].special or marks[last].how:
        return last
    before = [i for i in range(last) if marks[i].special]
    found = within(trigger.before, [marks[i] for i in before])
    return before[found[-1]] if found else last


def _opening(marks: tuple[Mark, ...], at: int) -> int:
    """Find the call that opened what the call at a place closes; else that call."""
    wanted = _OPENED_BY.get(marks[at].verb)
    return next((i for i in range(at, -1, -1) if marks[i].verb == wanted), at)


__all__ = ["CALM", "Detour", "around"]
