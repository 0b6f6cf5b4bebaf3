"""Shorter traces of rounds: a round fewer, a round that keeps all, fewer positions appended and kept.

What a round keeps is bounded by what is appended in it, so that both are lowered together.
"""

from collections.abc import Iterator

from attrs import evolve

from kvlaw.spec.calls import AppendKnown, AppendWindow, BeginRound, Call, CommitRound, FetchDense, RollBack
from kvlaw.spec.trace import Trace

Calls = tuple[Call, ...]
_LENGTHS = (AppendKnown, AppendWindow, FetchDense)


def fewer_rounds(trace: Trace) -> Iterator[Trace]:
    """Give the trace without one of its rounds: with all that it holds, and with its appends left as they are."""
    calls = trace.calls
    for begin, end in _rounds(calls):
        own = {at for at in range(begin, end + 1) if calls[at].on == calls[begin].on}
        yield evolve(trace, calls=tuple(call for at, call in enumerate(calls) if at not in own))
        yield evolve(trace, calls=tuple(call for at, call in enumerate(calls) if at not in (begin, end)))


def simpler_round_call(call: Call) -> Iterator[Call]:
    """Give plainer ends of a round: one number for all rows, less of it."""
    if isinstance(call, RollBack) and call.keep:
        keep = call.keep
        yield from [evolve(call, keep=keep[:1]), evolve(call, keep=(min(keep),))] if len(keep) > 1 else []
        for at, n in enumerate(keep):
            lower = dict.fromkeys(m for m in (0, 1, n // 2, n - 1) if 0 <= m < n)
            yield from (evolve(call, keep=(*keep[:at], m, *keep[at + 1 :])) for m in lower)
        yield from [CommitRound(on=call.on)]


def smaller_rounds(trace: Trace) -> Iterator[Trace]:
    """Give the trace with less appended in one of its rounds and as much less kept at its end."""
    calls = trace.calls
    for begin, end in _rounds(calls):
        closing = calls[end]
        if not isinstance(closing, RollBack):
            continue
        for at in range(begin + 1, end):
            call = calls[at]
            if call.on != closing.on or not call.appends:
                continue
            for less in dict.fromkeys(n for n in (call.appends, call.appends - 1, call.appends // 2, 1) if n > 0):
                shorter = _shorter(call, less)
                kept = evolve(closing, keep=tuple(max(0, n - less) for n in closing.keep))
                yield evolve(trace, calls=(*calls[:at], *shorter, *calls[at + 1 : end], kept, *calls[end + 1 :]))


def _shorter(call: Call, less: int) -> Calls:
    """Give an append that brings so much less, or none."""
    if less < call.appends and isinstance(call, _LENGTHS):
        return (evolve(call, length=call.length - less),)
    return ()


def _rounds(calls: Calls) -> Iterator[tuple[int, int]]:
    """Number the calls that begin a round, each with the next one that ends one of the same object."""
    for begin, call in enumerate(calls):
        if isinstance(call, BeginRound):
            ends = (n for n in range(begin + 1, len(calls)) if _ends(calls[n], call.on))
            end = next(ends, None)
            yield from [(begin, end)] if end is not None else []


def _ends(call: Call, name: str) -> bool:
    return isinstance(call, CommitRound | RollBack) and call.on == name


__all__ = ["fewer_rounds", "simpler_round_call", "smaller_rounds"]
