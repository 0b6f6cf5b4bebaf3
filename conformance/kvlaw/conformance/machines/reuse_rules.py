"""Rules of prefix reuse: what was published is lent to prompts that begin alike, more or less.

``SharesPrefixes`` lets another request come as a server does; ``ReuseRules`` publishes and reuses at any time.
"""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from kvlaw.conformance.machines.base import LockstepMachine
from kvlaw.conformance.machines.calls import CallRules
from kvlaw.reference.model import Model
from kvlaw.spec.calls import AppendDecode, AppendWindow, BeginRound, CommitRound, Drop, Publish, Reset, Reuse, Trim

data_ = st.data()
_NEW = 900_000
"""Tokens that nobody ever appends."""


class SharesPrefixes(LockstepMachine):
    """What the rules of reuse share: a prompt that begins as something that was published."""

    def prompt(self, data: st.DataObject) -> tuple[int, ...]:
        """Draw a prompt: the beginning of an entry, cut at an edge, and what is new."""
        entries = self.run_.oracle.reuses.entries
        line = data.draw(st.sampled_from(entries), label="entry").tokens if entries else (1,)
        floor = max((entry.floor for entry in entries), default=0)
        edges = {1, 2, len(line) - 1, len(line), floor - 1, floor, floor + 1, len(line) // 2}
        edges |= {len(entry.tokens) for entry in entries}
        kept = data.draw(st.sampled_from(sorted({n for n in edges if 0 <= n <= len(line)})), label="shared")
        return (*line[:kept], *(_NEW + i for i in range(data.draw(st.integers(0, 2), label="new"))))

    def next_turn(self, data: st.DataObject) -> tuple[int, ...]:
        """Draw a prompt that goes on where an entry ends."""
        line = data.draw(st.sampled_from(self.run_.oracle.reuses.entries), label="entry").tokens
        return (*line, *(_NEW + i for i in range(data.draw(st.integers(1, 3), label="new"))))

    def request(self, data: st.DataObject, like: str, passing: dict[str, Any]) -> None:
        """Start from what a prompt shares, read on, and let go of it."""
        made = f"p{len(self.calls)}"
        self.do(Reuse(tokens=self.prompt(data), on=like, as_=made))
        self.do(AppendWindow(length=data.draw(st.integers(1, 3), label="rest"), on=made, **passing))
        self.do(AppendDecode(on=made, **passing))
        self.do(Drop(on=made))


class ReuseRules(SharesPrefixes, CallRules):
    """The part of a machine that publishes and reuses at any time."""

    @property
    def shares(self) -> bool:
        """This trace asks for reuse."""
        return not self.over and "reuse" in self.used and "reuse" in self.can

    @precondition(lambda self: self.shares)
    @rule(data=data_, space=st.sampled_from(("main", "main", "main", "b")))
    def publish(self, data: st.DataObject, space: str) -> None:
        """Publish a cache."""
        name = self.on(data)
        if self.thing(name).round is None or self.layout:
            self.do(Publish(on=name, space=space))
            self.fired("publish")

    @precondition(lambda self: self.shares and self.roomy)
    @rule(data=data_, space=st.sampled_from(("main", "main", "main", "b")))
    def reuse(self, data: st.DataObject, space: str) -> None:
        """Reuse, and see what the next query sees."""
        made = f"p{len(self.calls)}"
        self.do(Reuse(tokens=self.prompt(data), on=self.on(data), as_=made, space=space))
        if data.draw(st.booleans(), label="go on"):
            self.do(AppendDecode(on=made))
        self.fired("reuse")

    @precondition(lambda self: self.shares and self.roomy)
    @rule(data=data_, how=st.sampled_from(("decode", "trim", "reset", "window")), twice=st.booleans())
    def publish_and_go_on(self, data: st.DataObject, how: str, twice: bool) -> None:
        """Publish, let the source do something, and let one or two prompts start from the entry."""
        name = self.on(data)
        if self.thing(name).round is not None:
            return
        self.do(Publish(on=name))
        acts = {"trim": Trim(n=1, on=name), "reset": Reset(on=name), "window": AppendWindow(length=3, on=name)}
        self.do(acts[how] if how in acts and how in (*self.can, "window") else AppendDecode(on=name))
        made = [f"p{len(self.calls)}", f"p{len(self.calls)}.2"][: 2 if twice else 1]
        prompt = self.prompt(data)
        for one in made:
            self.do(Reuse(tokens=prompt, on=name, as_=one))
            self.do(AppendDecode(on=one))
        self.do(AppendDecode(on=made[0]))
        self.do(AppendDecode(on=name))
        self.fired("publish_and_go_on")

    @precondition(lambda self: self.shares and self.layout and "rounds" in self.can)
    @rule(data=data_)
    def publish_in_a_round(self, data: st.DataObject) -> None:
        """Publish in an open round, and again when it has ended."""
        name = self.on(data)
        if isinstance(self.run_.oracle.world.get(name), Model) and self.thing(name).round is None:
            for call in (BeginRound(on=name), AppendDecode(on=name), Publish(on=name), CommitRound(on=name)):
                self.do(call)
            self.do(Publish(on=name))
            self.fired("publish_in_a_round")


__all__ = ["ReuseRules", "SharesPrefixes"]
