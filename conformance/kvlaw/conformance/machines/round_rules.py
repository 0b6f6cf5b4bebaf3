"""Rules of rounds: drafts that are verified and taken back, and any call while a round is open.

``DraftRules`` drafts and verifies as a runtime does; ``RoundRules`` leaves rounds open for whatever comes next, and
asks the forbidden in the layout profile alone. Both serve caches and groups of rows.
"""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from kvlaw.conformance.machines.base import LockstepMachine
from kvlaw.conformance.machines.calls import CallRules
from kvlaw.reference.model import Model
from kvlaw.reference.oracle import Group
from kvlaw.spec.calls import (
    AppendDecode,
    AppendWindow,
    BeginRound,
    Call,
    Clone,
    CommitRound,
    Extract,
    FetchDense,
    Filter,
    HandBack,
    LookAt,
    MakeMask,
    Merge,
    Prepare,
    Reset,
    RollBack,
    Trim,
)

data_ = st.data()
_WHILE_OPEN = ("append", "append", "append", "dense", "mask", "look", "clone", "filter")
_DRAFTS = ("window", "window", "decodes", "drafted", "pieces")
Keep = tuple[int, ...]


class EndsRounds(LockstepMachine):
    """What drafts and rounds share: what is open, and how much of it is kept."""

    def appended(self, name: str) -> tuple[int, ...] | None:
        """Count what was appended to each row in the open round of an object; None if none is open."""
        thing = self.run_.oracle.world.get(name)
        if isinstance(thing, Group):
            return tuple(row.appended_in_round for row in thing.rows) if thing.in_round else None
        return (thing.appended_in_round,) if isinstance(thing, Model) and thing.round is not None else None

    def kept(self, data: st.DataObject, name: str, around: int | None = None) -> Keep:
        """Draw how much of an open round is kept: nothing, all, the edges, or ``around`` so much; per row or not."""
        counts = self.appended(name) or (0,)
        told = len(counts) > 1 and data.draw(st.booleans(), label="row by row")
        return tuple(data.draw(_keep(most, around), label="keep") for most in (counts if told else (min(counts),)))

    def end(self, data: st.DataObject, name: str, around: int | None = None) -> None:
        """End an open round: mostly take some of it back."""
        if not self.over and self.appended(name) is not None:
            kept = self.kept(data, name, around)
            self.do(CommitRound(on=name) if data.draw(st.integers(0, 4)) == 0 else RollBack(keep=kept, on=name))


def _keep(most: int, around: int | None) -> st.SearchStrategy[int]:
    told = {0, most, max(0, most - 1), min(1, most), most // 2}
    near = set[int]() if around is None else {around - 1, around, around + 1}
    return st.sampled_from(sorted({n for n in near if 0 <= n <= most} or told))


class DraftRules(EndsRounds):
    """The part of a machine that drafts and verifies as a runtime does."""

    def draft_and_verify(self, data: st.DataObject, name: str, passing: dict[str, Any]) -> None:
        """Let drafts be read in a round, keep those that are accepted, and decode the next token."""
        drafts, style = data.draw(st.integers(1, 5), label="drafts"), data.draw(st.sampled_from(_DRAFTS))
        if style == "drafted":  # by the same cache, which takes all of it back
            self.do(BeginRound(on=name))
            self._decodes(drafts, name, passing)
            self.do(RollBack(keep=(0,), on=name))
        self.do(BeginRound(on=name))
        if style == "decodes":
            self._decodes(drafts + 1, name, passing)
        elif style == "pieces":
            self.do(AppendWindow(length=drafts, on=name, **passing))
            self.do(AppendWindow(length=2, on=name, **passing))
        else:
            self.do(AppendWindow(length=drafts + 1, on=name, **passing))
        self.end(data, name)
        self.do(AppendDecode(on=name, **passing))

    def _decodes(self, count: int, name: str, passing: dict[str, Any]) -> None:
        for _ in range(count):
            self.do(AppendDecode(on=name, **passing))


class RoundRules(EndsRounds, CallRules):
    """The part of a machine that begins and ends rounds at any time, and calls anything between."""

    @property
    def turns(self) -> bool:
        """This trace asks for rounds."""
        return not self.over and "round" in self.used and "rounds" in self.can

    def in_round(self) -> list[str]:
        """List the caches and groups with an open round."""
        return [name for name in self.run_.oracle.world if self.appended(name) is not None]

    def begin(self, name: str) -> None:
        """Open a round, unless one is open or padding is in the way and that may not be asked."""
        thing = self.run_.oracle.world[name]
        fit = self.appended(name) is None and not (isinstance(thing, Group) and thing.pends)
        if fit or self.layout:
            self.do(BeginRound(on=name))

    @precondition(lambda self: self.turns)
    @rule(data=data_)
    def begin_round(self, data: st.DataObject) -> None:
        """Open a round, and leave it open."""
        self.begin(self.on(data))
        self.fired("begin_round")

    @precondition(lambda self: self.turns and bool(self.in_round()))
    @rule(data=data_)
    def end_round(self, data: st.DataObject) -> None:
        """End an open round and see what the next queries see."""
        name = data.draw(st.sampled_from(self.in_round()))
        self.end(data, name)
        self._append(data, name)
        self.fired("end_round")

    @precondition(lambda self: self.turns)
    @rule(data=data_, acts=st.lists(st.sampled_from(_WHILE_OPEN), min_size=1, max_size=4))
    def round_of(self, data: st.DataObject, acts: list[str]) -> None:
        """Begin a round, do this and that in it, end it, and go on."""
        name = self.on(data)
        self.begin(name)
        for act in acts:
            self._in_round(data, name, act)
        self.end(data, name)
        self._append(data, name)
        self.fired("round_of")

    def _in_round(self, data: st.DataObject, name: str, act: str) -> None:
        thing = self.run_.oracle.world[name]
        length, count = self.length(data, name), len(thing.rows) if isinstance(thing, Group) else 0
        if act == "dense" and "dense" in self.can:
            self.do(FetchDense(length=length, on=name))
        elif act == "mask" and "mask" in self.can:
            self.do(MakeMask(length=length, on=name, array="as_array" in self.can))
        elif act == "clone" and "clone" in self.can and self.roomy:
            self.do(Clone(as_=f"t{len(self.calls)}", on=name))
        elif act == "filter" and "filter" in self.can and count > 1:
            gone = data.draw(st.integers(0, count - 1))
            self.do(Filter(rows=tuple(row for row in reversed(range(count)) if row != gone), on=name))
        elif act == "look":
            self.do(LookAt(on=name))
        else:
            self._append(data, name)

    def _append(self, data: st.DataObject, name: str) -> None:
        """Decode or append a window, as the trace's options have it."""
        options = self.options(data, name)
        decodes = data.draw(st.booleans())
        self.do(AppendDecode(**options) if decodes else AppendWindow(length=self.length(data, name), **options))

    @precondition(lambda self: self.turns and 0 < self.left <= 40)
    @rule(data=data_, short=st.integers(0, 2), more=st.integers(0, 3))
    def round_across_the_start(self, data: st.DataObject, short: int, more: int) -> None:
        """Cross the start in a round, keep about as much as makes the cache due, and go on."""
        left, before = self.left, data.draw(st.integers(0, 1))
        if before and left > 1:
            self.do(AppendWindow(length=1))
            left -= 1
        self.begin("c0")
        for length in (max(1, left - short), short + more):
            self.do(AppendWindow(length=length) if length else LookAt())
        self.end(data, "c0", left)
        self.do(AppendDecode())
        self.do(AppendDecode())
        self.fired("round_across_the_start")

    @precondition(lambda self: self.turns and "clone" in self.can and self.roomy)
    @rule(data=data_, first=st.booleans(), later=st.booleans())
    def round_of_two(self, data: st.DataObject, first: bool, later: bool) -> None:
        """Clone in an open round; the two end it in ways of their own, or one is emptied."""
        name, twin = self.on(data), f"t{len(self.calls) + 2}"
        self.begin(name)
        self._append(data, name)
        self.do(Clone(as_=twin, on=name))
        if twin not in self.run_.oracle.world:
            return
        one, other = (name, twin) if first else (twin, name)
        self.do(AppendWindow(length=2, on=one))
        if later and "reset" in self.can:
            self.do(Reset(on=one))
        self.end(data, one)
        self.do(LookAt(on=other))
        self.end(data, other)
        self.do(AppendDecode(on=one))
        self.do(AppendDecode(on=other))
        self.fired("round_of_two")

    @precondition(lambda self: self.turns and self.layout)
    @rule(data=data_)
    def wrong_end(self, data: st.DataObject) -> None:
        """End a round that is not open, or keep what is not there: too much, less than nothing, or another count."""
        name = data.draw(st.sampled_from(self.in_round() or [self.on(data)]))
        counts = self.appended(name) or (0,)
        most, rows = min(counts), len(counts)
        keeps: list[Keep] = [(most + 1,), (-1,), (0,) * (rows + 1), (*counts[1:], counts[0] + 1), (0, most + 1)]
        wrong: list[Call] = [RollBack(keep=keep, on=name) for keep in keeps]
        if self.appended(name) is None:
            wrong += [RollBack(keep=(0,), on=name), CommitRound(on=name)]
        self.do(data.draw(st.sampled_from(wrong)))
        self.fired("wrong_end")

    @precondition(lambda self: self.turns and self.layout and bool(self.in_round()))
    @rule(data=data_)
    def forbidden_in_a_round(self, data: st.DataObject) -> None:
        """Ask what an open round forbids, and then end it."""
        name = data.draw(st.sampled_from(self.in_round()))
        made, count = f"f{len(self.calls)}", len(self.appended(name) or ())
        rows = isinstance(self.run_.oracle.world[name], Group)
        asks: dict[str, list[Callable[[], Call]]] = {
            "trim": [lambda: Trim(n=0, on=name), lambda: Trim(n=1, on=name)],
            "bypass": [lambda: Trim(n=1, bypass=True, on=name)] if not rows else [],
            "extract": [lambda: Extract(row=0, as_=made, on=name)] if rows else [],
            "hand_back": [lambda: HandBack(row=0, as_=made, on=name)] if rows else [],
            "merge": [lambda: Merge(sources=(name,), as_=made)],
            "padding": [lambda: Prepare(right=(1,) * count, lengths=(0,) * count, on=name)] if rows else [],
        }
        able = [ask for needed, found in asks.items() if needed in self.can for ask in found]
        self.do(BeginRound(on=name))
        if able:
            self.do(data.draw(st.sampled_from(able))())
        self.end(data, name)
        self.fired("forbidden_in_a_round")


__all__ = ["DraftRules", "EndsRounds", "RoundRules"]
