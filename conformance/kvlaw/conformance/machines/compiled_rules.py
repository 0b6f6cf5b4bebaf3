"""Rules of compiled decodes: by turns with all other calls; in the layout profile also where they are refused.

Each step is a decode, so its columns, kinds of storage and masks are those of whatever came before.
"""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from kvlaw.conformance.machines.base import LockstepMachine
from kvlaw.conformance.machines.calls import CallRules
from kvlaw.reference.model import Model
from kvlaw.reference.oracle import Group
from kvlaw.spec.calls import AppendDecode, AppendWindow, BeginRound, CommitRound, CompiledDecode, Reset, Trim

data_ = st.data()


def takes_compiled(thing: object) -> bool:
    """Say whether our design decodes a cache or a group by a compiled step, as it is now."""
    if isinstance(thing, Group):
        rest = bool(thing.rows) and not thing.in_round and not thing.pends and thing.state.columns > 0
        return rest and thing.appended("decode", ((-1,),) * len(thing.rows), unread=True)[0].storage != "mixed"
    return isinstance(thing, Model) and thing.round is None and bool(thing.slots)


class GeneratesCompiled(LockstepMachine):
    """The part of a machine that generates by compiled steps as a runtime does."""

    @property
    def compiling(self) -> bool:
        """This trace asks for compiled decodes."""
        return not self.over and "compiled" in self.used and "compiled" in self.can

    def generate_by_steps(self, data: st.DataObject, name: str, count: int, passing: dict[str, Any]) -> None:
        """Decode by compiled steps, now and then by another; the steps go on over a longer window."""
        for _ in range(count):
            if self.over or not takes_compiled(self.run_.oracle.world.get(name)):
                return
            other = data.draw(st.integers(0, 7), label="other")
            self.do(CompiledDecode(on=name, **passing) if other else AppendDecode(on=name, **passing))


class CompiledRules(GeneratesCompiled, CallRules):
    """The part of a machine that decodes by compiled steps at any time."""

    @precondition(lambda self: self.compiling)
    @rule(data=data_, again=st.integers(1, 3))
    def compiled(self, data: st.DataObject, again: int) -> None:
        """Decode by one to three compiled steps; what refuses them is asked in the layout profile alone."""
        name = self.on(data)
        for _ in range(again):
            if self.layout or takes_compiled(self.run_.oracle.world.get(name)):
                self.do(CompiledDecode(**self.options(data, name)))
        self.fired("compiled")

    @precondition(lambda self: self.compiling and "trim" in self.can)
    @rule(data=data_, length=st.integers(2, 5), steps=st.integers(1, 3))
    def compiled_over_what_was_trimmed(self, data: st.DataObject, length: int, steps: int) -> None:
        """Append, trim some of it, and decode by compiled steps where stale columns lie."""
        name = self.on(data)
        self.do(AppendWindow(length=length, on=name))
        thing = self.run_.oracle.world[name]
        rows = [row.offset for row in thing.rows] if isinstance(thing, Group) else [self.thing(name).offset]
        if rows and (self.config.window is None or max(rows) < self.config.window):
            self.do(Trim(n=min(data.draw(st.integers(1, length)), *rows), on=name))
        for _ in range(steps):
            if takes_compiled(self.run_.oracle.world.get(name)):
                self.do(CompiledDecode(on=name))
        self.fired("compiled_over_what_was_trimmed")

    @precondition(lambda self: self.compiling and self.layout)
    @rule(data=data_)
    def compiled_where_it_is_refused(self, data: st.DataObject) -> None:
        """Ask for a compiled step of an empty cache, or in a round, and go on."""
        name = self.on(data)
        if "reset" in self.can and data.draw(st.booleans()):
            self.do(Reset(on=name))
            self.do(CompiledDecode(on=name))
        elif "rounds" in self.can:
            self.do(BeginRound(on=name))
            self.do(AppendDecode(on=name))
            self.do(CompiledDecode(on=name))
            self.do(CommitRound(on=name))
        self.do(CompiledDecode(on=name))
        self.fired("compiled_where_it_is_refused")


__all__ = ["CompiledRules", "GeneratesCompiled", "takes_compiled"]
