"""Rules of compiled decodes: by turns with all other calls; in the layout profile also where they are refused.

Each step is a decode, so its columns, kinds of storage and masks are those of whatever came before.
"""

from typing import Any

from hypothesis import strategies as st

from kvlaw.conformance.machines.base import LockstepMachine
from kvlaw.conformance.machines.calls import CallRules
from kvlaw.reference.model import Model
from kvlaw.reference.oracle import Group
from kvlaw.spec.calls import (
    AppendDecode,
    AppendWindow,
    BeginRound,
    CommitRound,
    CompiledDecode,
    Finalize,
    Prepare,
    Reset,
    Trim,
)

_STYLES = (*[""] * 4, *["as it is"] * 3, "over what was trimmed", "where it is refused")
_REFUSED = {"empty": "reset", "round": "rounds", "padding": "padding"}
"""The ways to be refused a compiled step, and what they need."""


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
        """Decode by compiled steps, now and then by another; stop where they are refused."""
        for _ in range(count):
            if not takes_compiled(self.run_.oracle.world.get(name)):
                if self.layout:
                    self.do(CompiledDecode(on=name))
                return
            other = data.draw(st.integers(0, 7), label="other")
            self.do(CompiledDecode(on=name, **passing) if other else AppendDecode(on=name, **passing))


class CompiledRules(GeneratesCompiled, CallRules):
    """The part of a machine that decodes by compiled steps at any time."""

    def decode_once(self, data: st.DataObject, name: str) -> None:
        """Decode, now and then by a compiled step: as things are, over stale columns, or where it is refused."""
        style = data.draw(st.sampled_from(_STYLES)) if self.compiling else ""
        if style == "over what was trimmed" and "trim" in self.can and takes_compiled(self.run_.oracle.world[name]):
            self._leave_stale_columns(data, name)
        elif style == "where it is refused" and self.layout:
            self._refuse(data, name)
        if style and (self.layout or takes_compiled(self.run_.oracle.world.get(name))):
            self.do(CompiledDecode(**self.options(data, name)))
        else:
            super().decode_once(data, name)

    def _leave_stale_columns(self, data: st.DataObject, name: str) -> None:
        """Append, and trim some of it, so that a step meets columns that hold what is gone."""
        length = data.draw(st.integers(2, 5))
        self.do(AppendWindow(length=length, on=name))
        thing = self.run_.oracle.world[name]
        rows = [row.offset for row in thing.rows] if isinstance(thing, Group) else [self.thing(name).offset]
        if rows and min(rows) >= 0 and (self.config.window is None or max(rows) < self.config.window):
            self.do(Trim(n=min(data.draw(st.integers(1, length)), *rows), on=name))

    def _refuse(self, data: st.DataObject, name: str) -> None:
        """Ask for a step of an empty cache, in a round, or while padding is pending."""
        thing = self.run_.oracle.world[name]
        ways = [way for way, needed in _REFUSED.items() if needed in self.can]
        way = data.draw(st.sampled_from(ways)) if ways else ""
        if way == "empty":
            self.do(Reset(on=name))
            self.do(CompiledDecode(on=name))
            self.do(AppendWindow(length=2, on=name))
        elif way == "round":
            self.do(BeginRound(on=name))
            self.do(AppendDecode(on=name))
            self.do(CompiledDecode(on=name))
            self.do(CommitRound(on=name))
        elif way == "padding" and isinstance(thing, Group) and thing.rows:
            count = len(thing.rows)
            self.do(Prepare(lengths=(1,) * count, right=(1,) * count, on=name))
            self.do(CompiledDecode(on=name))
            self.do(AppendWindow(length=2, on=name))
            self.do(Finalize(on=name))


__all__ = ["CompiledRules", "GeneratesCompiled", "takes_compiled"]
