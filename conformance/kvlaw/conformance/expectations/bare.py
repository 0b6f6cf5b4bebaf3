"""A failing trace without what a listed failure has no need of: does it still fail, then that is what it is.

Taken away are special calls that are not needed (who made a copy of a cache gives its name back to that cache), looks
on the way, arguments that are not needed, special ways to append, poison and late looking.
"""

from typing import Any

from attrs import define, evolve, field, fields

from kvlaw.conformance.expectations.detours import CALM
from kvlaw.conformance.expectations.marks import Mark
from kvlaw.conformance.expectations.triggers import PLAINER, Trigger
from kvlaw.conformance.minimise import acted_on, is_sound
from kvlaw.spec.calls import (
    Append,
    AppendDecode,
    AppendWindow,
    Attend,
    Call,
    Clone,
    CompiledDecode,
    Drop,
    FetchDense,
    Load,
    LookAt,
    Merge,
    Reuse,
    Save,
)
from kvlaw.spec.config import Config
from kvlaw.spec.trace import Trace

_PLAIN_FIELDS = ("bits", "value_bits", "group", "start", "batch", "kv_heads", "groups", "head_dim", "value_dim")
_PLAINEST = {a.name: a.default for a in fields(Config) if a.name in (*_PLAIN_FIELDS, "dtype", "stamp", "seed")}
_COPIES = (Clone, Load, Reuse, Save)
"""The calls whose object stands for the one that they act on, when they are left out."""


def bare(trace: Trace, marks: tuple[Mark, ...], found: Trigger, listed: Trigger) -> tuple[Trace, ...]:
    """Take away what is not needed, in some ways: which of several like calls is needed, and whose calls, is unknown.

    Args:
        trace: a trace that fails at its last call.
        marks: those of its calls.
        found: its trigger.
        listed: the trigger of the failure that it may be.
    """
    special = [i for i, mark in enumerate(marks[:-1]) if mark.special]
    lefts: list[Trace] = []
    for places in listed.places(found):
        needed = {special[at]: listed.before[n] for n, at in enumerate(places)}
        needed[len(marks) - 1] = listed.mark
        every = frozenset(range(len(trace.calls)))
        amid = frozenset(found.mark.amid) - set(listed.mark.amid)
        for kept, stays in ((_lineage(trace, needed), False), (every, False), (every, True)):
            undressed = _Undressed(needed, _asked(trace), "begin_round" if stays and "round" in amid else "", stays)
            for index, (call, mark) in enumerate(zip(trace.calls, marks, strict=False)):
                if index in kept:
                    undressed.take(index, call, mark)
            calm = _calm(trace.config, listed)
            lefts += [Trace(config, tuple(undressed.calls)) for config in (calm, _plainest(calm, listed))]
    return tuple(left for left in dict.fromkeys(lefts) if is_sound(left))


def _asked(trace: Trace) -> set[str]:
    """List what is asked again: those reads keep their names."""
    return {call.on for call in trace.calls if isinstance(call, Attend | LookAt)}


def _lineage(trace: Trace, needed: dict[int, Mark]) -> frozenset[int]:
    """List the calls on what the last call acts on, and on what that was made of, before it was."""
    names = {trace.calls[-1].on}
    kept: set[int] = set()
    for index in range(len(trace.calls) - 1, -1, -1):
        call = trace.calls[index]
        made = getattr(call, "as_", None)
        if index in needed or call.on in names or made in names:
            kept.add(index)
            names |= {*acted_on(call), call.on}
        if made in names and isinstance(call, _COPIES) and index not in needed:
            names.discard(made)
    return frozenset(kept)


def _calm(config: Config, listed: Trigger) -> Config:
    for need, plain in CALM.items():
        config = config if need in listed.needs else evolve(config, **plain)
    return config


def _plainest(config: Config, listed: Trigger) -> Config:
    """Give the plainest configuration that has what is needed, for the same kind, window and sinks."""
    kept = {name for name in _PLAINEST if name in listed.needs}
    plainest = {name: value for name, value in _PLAINEST.items() if name not in kept}
    return config if {"affine", "bf16_first"} & listed.needs else evolve(config, **plainest)


@define
class _Undressed:
    """The calls that are left: those that are ``needed``, as they are needed, and the appends, as plain ones.

    With ``stays`` the other calls are left as they are, but those of the verb ``out``.
    """

    needed: dict[int, Mark]
    asked: set[str]
    out: str = ""
    stays: bool = False
    names: dict[str, str] = field(factory=dict[str, str])
    calls: list[Call] = field(factory=list[Call])

    def take(self, index: int, call: Call, mark: Mark) -> None:
        """Take one call in, or leave it out."""
        wanted = self.needed.get(index)
        if wanted is None and self.stays:
            self.calls += [call] if call.verb != self.out else []
            return
        call = self._renamed(call)
        if isinstance(call, Append | FetchDense) and (wanted is None or not _stays(call, wanted)):
            self.calls.append(_plain(call, wanted or Mark(), keep=call.as_ in self.asked))
        elif wanted is not None:
            self.calls.append(call)
        elif isinstance(call, _COPIES):
            self.names[call.as_] = call.on
        elif mark.verb == "advance":
            self.calls.append(call)

    def _renamed(self, call: Call) -> Call:
        if isinstance(call, Merge):
            return evolve(call, sources=tuple(self.names.get(name, name) for name in call.sources))
        made = getattr(call, "as_", None)
        on = self.names.get(call.on, call.on)
        if made is not None:
            self.names.pop(made, None)  # the name is given anew
        return call if isinstance(call, Drop) else evolve(call, on=on)


def _stays(call: Append | FetchDense, wanted: Mark) -> bool:
    """Tell whether the very call is needed: a special way to append, or spoilt tensors."""
    return call.verb == wanted.verb and (call.verb in PLAINER or call.malformed is not None)


def _plain(call: Append | FetchDense, wanted: Mark, *, keep: bool) -> Call:
    """Give the plain form of an append, with those arguments that are needed."""
    argument = any(how in wanted.how for how in ("wider", "narrower", "window"))
    options: dict[str, Any] = {"on": call.on, "as_": call.as_ if keep else None}
    if isinstance(call, Append):
        options |= {"window": call.window if argument else None, "array": call.array and "array" in wanted.how}
    if isinstance(call, AppendDecode | CompiledDecode) or call.appends == 1:
        return AppendDecode(**options)
    return AppendWindow(length=call.appends, **options)


__all__ = ["bare"]
