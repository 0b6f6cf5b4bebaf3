"""The contract machine: any call at any time, within the target's capabilities and the stated preconditions."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from kvlaw.conformance.machines.calls import CallRules, arguments, lengths
from kvlaw.conformance.machines.compiled_rules import CompiledRules
from kvlaw.conformance.machines.file_rules import FileRules
from kvlaw.conformance.machines.list_rules import ListRules
from kvlaw.conformance.machines.reuse_rules import ReuseRules
from kvlaw.conformance.machines.round_rules import RoundRules
from kvlaw.spec.calls import AppendWindow, Trim

data_ = st.data()


class ContractMachine(ListRules, CompiledRules, RoundRules, FileRules, ReuseRules, CallRules):
    """Calls anything at any time."""

    optional = (
        "argument",
        "array",
        "known",
        "dense",
        "mask",
        "trim",
        "bypass",
        "clone",
        "state",
        "reset",
        "list",
        "spoilt",
        "unread",
        "keep",
        "far",
        "odd",
        "round",
        "file",
        "reuse",
        "compiled",
    )

    @precondition(lambda self: not self.over and "bypass" in self.used and "bypass" in self.can)
    @rule(data=data_)
    def window_then_bypass(self, data: st.DataObject) -> None:
        """Append a window and cut some of its newest columns."""
        name = self.on(data)
        model = self.thing(name)
        length = data.draw(st.sampled_from(lengths(model.layer.window, model.offset)))
        self.do(AppendWindow(length=length, on=name))
        if not self.over:
            self.do(Trim(n=data.draw(st.integers(0, length + 1)), bypass=True, on=name))
        self.fired("window_then_bypass")


__all__ = ["ContractMachine", "arguments", "lengths"]
