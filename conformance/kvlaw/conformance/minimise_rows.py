"""Shorter traces of groups: a row fewer, a source fewer in a merge, less padding.

A row is dropped everywhere: where it is opened, joins or is announced, in every list that has an entry for it, and
every later number of a row moves down.
"""

from collections.abc import Iterator

from attrs import define, evolve, field, frozen

from kvlaw.spec.calls import (
    Call,
    Clone,
    CommitPrefill,
    Extract,
    Filter,
    HandBack,
    MakeCache,
    Merge,
    Prepare,
    Reset,
    RollBack,
)
from kvlaw.spec.trace import Trace

Birth = tuple[int, int]
"""Where a row comes from: the number of a call (-1: the opening), and which of those that came by it."""
_OPENING = -1


@frozen
class _Member:
    """A row of a group: where it came from, and whether it is there without the dropped one."""

    birth: Birth
    stays: bool


@define
class _Walk:
    """A walk through a trace that drops what was born at ``gone``; ``births`` lists what could be dropped."""

    gone: Birth | None
    groups: dict[str, list[_Member]] = field(factory=dict[str, list[_Member]])
    births: list[Birth] = field(factory=list[Birth])

    def walked(self, trace: Trace) -> Trace:
        """Give the trace without the dropped row."""
        config = trace.config
        if config.is_rows:
            self.groups["c0"] = self._born(_OPENING, config.row_count)
            left = sum(member.stays for member in self.groups["c0"])
            config = config if left == config.row_count else evolve(config, rows=left)
        calls = (self._call(number, call) for number, call in enumerate(trace.calls))
        return Trace(config, tuple(call for call in calls if call is not None))

    def _born(self, number: int, count: int) -> list[_Member]:
        births = [(number, i) for i in range(count)]
        self.births += births
        return [_Member(birth, birth != self.gone) for birth in births]

    def _call(self, number: int, call: Call) -> Call | None:
        if isinstance(call, Merge):
            return self._merged(number, call)
        members = self.groups.get(call.on)
        if members is None:
            return call
        if isinstance(call, Clone):
            self.groups[call.as_] = members
        if isinstance(call, Extract | HandBack):
            there = 0 <= call.row < len(members)
            return evolve(call, row=_moved(members, call.row)) if not there or members[call.row].stays else None
        if isinstance(call, CommitPrefill):
            return evolve(call, rows=_kept(members, call.rows))
        if isinstance(call, Filter):
            if all(0 <= row < len(members) for row in call.rows):
                self.groups[call.on] = [members[row] for row in call.rows]
            return evolve(call, rows=_kept(members, call.rows))
        if isinstance(call, RollBack) and len(call.keep) == len(members):
            keep = tuple(n for n, member in zip(call.keep, members, strict=True) if member.stays)
            return evolve(call, keep=keep or (0,))
        return self._prepared(number, call, members) if isinstance(call, Prepare) else call

    def _merged(self, number: int, call: Merge) -> Merge:
        kept: list[str] = []
        joined: list[_Member] = []
        for i, source in enumerate(call.sources):
            if len(call.sources) > 1:
                self.births.append((number, i))
            dropped = (number, i) == self.gone
            kept += [] if dropped else [source]
            rows = self.groups.get(source, [_Member((number, i), stays=True)])
            joined += [evolve(row, stays=row.stays and not dropped) for row in rows]
        self.groups[call.as_] = joined
        return evolve(call, sources=tuple(kept))

    def _prepared(self, number: int, call: Prepare, members: list[_Member]) -> Prepare:
        counts = [len(given) for given in (call.left, call.lengths, call.right) if given is not None]
        if not members and counts:
            members = self.groups[call.on] = self._born(number, counts[0])
        lists = {"left": call.left, "lengths": call.lengths, "right": call.right}
        kept = {
            name: tuple(n for n, member in zip(given, members, strict=True) if member.stays)
            for name, given in lists.items()
            if given is not None and len(given) == len(members)
        }
        return evolve(call, **kept)


def _moved(members: list[_Member], row: int) -> int:
    return row - sum(not member.stays for member in members[: max(0, row)])


def _kept(members: list[_Member], rows: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(_moved(members, row) for row in rows if not 0 <= row < len(members) or members[row].stays)


def fewer_rows(trace: Trace, fixed: frozenset[str]) -> Iterator[Trace]:
    """Give the trace without one of its rows, or without one of the sources of a merge."""
    first = _Walk(None)
    first.walked(trace)
    for birth in first.births:
        if birth[0] != _OPENING or "rows" not in fixed:
            yield _Walk(birth).walked(trace)


def simpler_row_call(call: Call) -> Iterator[Call]:
    """Give plainer forms of a call on groups: less padding, fewer lists, fewer rows."""
    if isinstance(call, Prepare):
        yield from _less_padding(call)
    if isinstance(call, HandBack):
        yield Extract(row=call.row, as_=call.as_, on=call.on)
    if isinstance(call, Extract | HandBack) and call.row > 0:
        yield evolve(call, row=0)
    if isinstance(call, MakeCache) and call.layer is not None:
        yield evolve(call, layer=None)
    if isinstance(call, Filter | CommitPrefill):
        yield from (evolve(call, rows=call.rows[:i] + call.rows[i + 1 :]) for i in range(len(call.rows)))
        yield from [evolve(call, rows=tuple(sorted(call.rows)))] if list(call.rows) != sorted(call.rows) else []
    if isinstance(call, Filter) and not call.rows:
        yield Reset(on=call.on)


def _less_padding(call: Prepare) -> Iterator[Prepare]:
    lists = {"left": call.left, "lengths": call.lengths, "right": call.right}
    given = {name: counts for name, counts in lists.items() if counts is not None}
    if len(given) > 1:
        yield from (evolve(call, **{name: None}) for name in given)
    for name, counts in given.items():
        for i, n in enumerate(counts):
            lower = dict.fromkeys(m for m in (0, 1, n // 2, n - 1) if 0 <= m < n)
            yield from (evolve(call, **{name: (*counts[:i], m, *counts[i + 1 :])}) for m in lower)


__all__ = ["fewer_rows", "simpler_row_call"]
