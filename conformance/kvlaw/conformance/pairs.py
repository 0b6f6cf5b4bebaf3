"""The second runs of pair laws: the same tokens in other pieces, without what was trimmed, with no read ever asked.

``make_pair`` plays a trace on a subject, then one decode; and, on the same subject opened anew, the same tokens told in
another way, then a decode of the same token.  Only traces that act on ``c0`` alone have a second run.
"""

from collections.abc import Iterable
from itertools import groupby

from attrs import evolve, frozen

from kvlaw.conformance.lockstep import Lockstep
from kvlaw.reference.oracle import UnknownObjectError
from kvlaw.spec.calls import (
    Advance,
    Append,
    AppendDecode,
    AppendWindow,
    Call,
    FetchDense,
    LookAt,
    MakeMask,
    Reset,
    Trim,
)
from kvlaw.spec.config import Config
from kvlaw.spec.contract import Subject
from kvlaw.spec.laws import Pair as How
from kvlaw.spec.records import Run
from kvlaw.spec.trace import Trace

_TELLABLE = (Advance, Append, FetchDense, LookAt, MakeMask, Reset, Trim)


@frozen
class Pair:
    """Two runs that pair laws compare, and how the second was made from the first."""

    how: str
    one: Run
    other: Run


@frozen
class Told:
    """A call, and for an append the id of its first token (None: the next one)."""

    call: Call
    first: int | None = None


def make_pair(how: How, trace: Trace, subject: Subject) -> Pair | None:
    """Play both runs; None if the trace has no second run of this kind."""
    if not _is_tellable(trace) or (how == "rechunked" and any(isinstance(c, Trim) and c.bypass for c in trace.calls)):
        return None
    if trace.config.is_recurrent and how != "rechunked":
        return None
    next_one: Call = Advance(length=1) if trace.config.is_recurrent else AppendDecode()
    one = play_on(trace.config, [*map(Told, trace.calls), Told(next_one)], subject)
    if one.opened != "ok" or not all(step.ok for step in one.steps if step.call is not None and step.call.appends):
        return None
    last = one.steps[-1]
    other = [*_retell(how, trace, last.live_before), Told(next_one, last.tokens[0])]
    return Pair(how, one, play_on(trace.config, other, subject))


def play_on(config: Config, calls: Iterable[Told], subject: Subject) -> Run:
    """Play calls with chosen tokens to their end, whatever the law says of them; look at every step.

    A run whose objects the oracle does not know (a clone that it refuses) ends there.
    """
    lockstep = Lockstep(subject, "layout", frozenset())
    opened = lockstep.open(evolve(config, look="every"))
    for told in () if opened.ends else calls:
        lockstep.tokens = lockstep.tokens if told.first is None else told.first
        try:
            lockstep.step(told.call)
        except UnknownObjectError:
            break
    return lockstep.history()


def _is_tellable(trace: Trace) -> bool:
    tellable = all(isinstance(call, _TELLABLE) and call.on == "c0" for call in trace.calls)
    spoilt = any(getattr(call, "malformed", None) is not None for call in trace.calls)
    return tellable and not spoilt and trace.config.problem is None and any(call.appends for call in trace.calls)


def _retell(how: How, trace: Trace, live: tuple[int, ...]) -> list[Told]:
    if how == "retold":
        return [Told(AppendWindow(length=length), first) for first, length in _stretches(live)]
    if how == "unread":
        return [Told(evolve(c, unread=True) if isinstance(c, Append) else c) for c in trace.calls]
    return list(_rechunk(trace.calls))


def _rechunk(calls: tuple[Call, ...]) -> Iterable[Told]:
    """Turn appends in a row into decodes, or into one window if they were decodes; advances likewise."""
    for appends, group in groupby(calls, key=lambda call: call.appends > 0):
        run = list(group)
        count = sum(call.appends for call in run)
        if not appends:
            yield from map(Told, run)
        elif isinstance(run[0], Advance):
            single = all(call.appends == 1 for call in run)
            yield from [Told(Advance(length=count))] if single else [Told(Advance(length=1))] * count
        elif all(isinstance(call, AppendDecode) for call in run):
            yield Told(AppendWindow(length=count))
        else:
            yield from [Told(AppendDecode())] * count


def _stretches(live: tuple[int, ...]) -> list[tuple[int, int]]:
    """Cut ids into stretches of consecutive ones: (first id, length)."""
    stretches: list[tuple[int, int]] = []
    for token in live:
        if stretches and sum(stretches[-1]) == token:
            stretches[-1] = (stretches[-1][0], stretches[-1][1] + 1)
        else:
            stretches.append((token, 1))
    return stretches
