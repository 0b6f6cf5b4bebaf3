"""Rules that call anything at any time on caches and groups, and the boundary values that they draw."""

from typing import Any, ClassVar, cast

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from kvlaw.conformance.machines.base import LockstepMachine
from kvlaw.reference.model import Model
from kvlaw.reference.oracle import ReadModel
from kvlaw.spec.calls import (
    MALFORMED,
    AppendDecode,
    AppendKnown,
    AppendWindow,
    Attend,
    Call,
    Clone,
    Drop,
    FetchDense,
    LookAt,
    MakeMask,
    Malformed,
    Reset,
    TakeState,
    Trim,
)
from kvlaw.spec.config import Start

data_ = st.data()
_SPOILT_ALWAYS = ("rank", "lengths", "empty")
_SPOILT_QUERIES: tuple[Malformed, ...] = ("rank", "batch", "head_dim", "dtype")


def lengths(window: int | None, offset: int, start: Start = None) -> list[int]:
    """List the lengths that matter: around the window, the allocation step and the start, and some small ones."""
    around = [1, 2, 3, 5] if window is None else [1, 2, window - 1, window, window + 1, 2 * window + 1]
    step = [256 - offset, 257 - offset] if window is None and 200 < offset < 256 else []  # near the step
    left = start - offset if isinstance(start, int) else 0
    due = [left - 1, left, left + 1] if 0 < left <= 40 or (window is None and 0 < left <= 60) else []
    return sorted({n for n in (*around, *step, *due) if n >= 1})


def arguments(window: int | None, *, narrow: bool) -> list[int | None]:
    """List window arguments: none, the ring's own, wider, and narrower ones where they are defined."""
    if window is None:
        return [None, None, 1, 2, 3, 8]
    return [None, None, window, window + 1, *([w for w in (1, window - 1) if 1 <= w < window] if narrow else [])]


class CallRules(LockstepMachine):
    """The part of a machine that appends, trims, copies, asks for masks and states, and looks again."""

    crowd: ClassVar[int] = 8
    """How many objects a small world may have before nothing more is made."""

    @property
    def roomy(self) -> bool:
        """The world is still small."""
        return len(self.run_.oracle.world) < self.crowd

    def on(self, draw: st.DataObject) -> str:
        """Choose a cache: mostly the first."""
        names = [n for n, thing in self.run_.oracle.world.items() if isinstance(thing, Model)]
        return draw.draw(st.sampled_from(names)) if len(names) > 1 else names[0]

    def thing(self, name: str) -> Model:
        """Give a cache's model."""
        return cast("Model", self.run_.oracle.world[name])

    def options(self, draw: st.DataObject, name: str) -> dict[str, Any]:
        """Draw the options of an append."""
        model = self.thing(name)
        options: dict[str, Any] = {"on": name}
        if "argument" in self.used and "window_argument" in self.can:
            options["window"] = draw.draw(
                st.sampled_from(arguments(model.layer.window, narrow=model.layer.sinks == 0 or self.layout))
            )
        if "array" in self.used and "as_array" in self.can:
            options["array"] = draw.draw(st.booleans())
        if "unread" in self.used:
            options["unread"] = draw.draw(st.integers(0, 3)) == 0
        if "keep" in self.used and not options.get("unread") and self.roomy:
            options["as_"] = draw.draw(st.sampled_from((None, None, f"r{len(self.calls)}")))
        return options

    @precondition(lambda self: not self.over)
    @rule(data=data_, again=st.integers(1, 3))
    def decode(self, data: st.DataObject, again: int) -> None:
        """Decode one to three times."""
        name = self.on(data)
        for _ in range(again):
            if not self.over:
                self.decode_once(data, name)
        self.fired("decode")

    def decode_once(self, data: st.DataObject, name: str) -> None:
        """Decode in one of the ways that there are."""
        self.do(AppendDecode(**self.options(data, name)))

    @precondition(lambda self: not self.over)
    @rule(data=data_)
    def window(self, data: st.DataObject) -> None:
        """Append a window."""
        name = self.on(data)
        self.do(AppendWindow(length=self.length(data, name), **self.options(data, name)))
        self.fired("window")

    def length(self, draw: st.DataObject, name: str) -> int:
        """Draw how much to append to a cache."""
        model = self.thing(name)
        return draw.draw(st.sampled_from(lengths(model.layer.window, model.offset, model.layer.start)))

    @precondition(lambda self: not self.over and "known" in self.used and "known" in self.can)
    @rule(data=data_)
    def known(self, data: st.DataObject) -> None:
        """Append decided tokens."""
        name = self.on(data)
        self.do(AppendKnown(length=self.length(data, name), **self.options(data, name)))
        self.fired("known")

    @precondition(lambda self: not self.over and self.left > 0)
    @rule(data=data_, short=st.integers(0, 2), name=st.sampled_from(("decode", "window", "known", "dense")))
    def convert(self, data: st.DataObject, short: int, name: str) -> None:
        """Append all but a few of the positions that make the cache due, then the rest."""
        parts = [n for n in (self.left - short, short) if n > 0]
        calls: dict[str, Call] = {
            "known": AppendKnown(length=parts[-1]),
            "dense": FetchDense(length=parts[-1]),
            "decode": AppendDecode() if parts[-1] == 1 else AppendWindow(length=parts[-1]),
        }
        if len(parts) > 1:
            self.do(AppendWindow(length=parts[0], unread=parts[0] > 40))
        whole = AppendWindow(length=parts[-1])
        self.do(calls.get(name, whole) if name not in ("known", "dense") or name in self.can else whole)
        if "trim" in self.used and "trim" in self.can and data.draw(st.booleans()):
            self.do(Trim(n=data.draw(st.sampled_from((1, 2, self.model.offset)))))
        self.do(AppendDecode())
        self.fired("convert")

    @precondition(lambda self: not self.over and 0 < self.left <= 40 and "clone" in self.can and self.roomy)
    @rule(source=st.booleans())
    def convert_one_of_two(self, source: bool) -> None:
        """Clone shortly before the cache is due, bring one of the two over, and go on with both."""
        twin = f"c{len(self.calls) + 1}"
        self.do(Clone(as_=twin))
        one, other = ("c0", twin) if source else (twin, "c0")
        for call in (AppendWindow(length=self.left, on=one), LookAt(on=other), AppendDecode(on=one)):
            self.do(call)
        self.do(AppendDecode(on=other))
        self.fired("convert_one_of_two")

    @property
    def left(self) -> int:
        """Count the positions that make the first cache due; 0 if there is no such number, or it is large."""
        left = self.model.max_append
        return left if isinstance(left, int) and left <= 300 and not self.model.lenient else 0

    @precondition(lambda self: not self.over and "far" in self.used and self.model.offset < 300)
    @rule(data=data_)
    def far(self, data: st.DataObject) -> None:
        """Bring a cache to an allocation boundary; a ring far past it, where one that stores more must make room."""
        window, start = self.config.window, self.config.start
        near = (start - 1, start, start + 1) if isinstance(start, int) and start > 100 else ()
        edge = data.draw(st.sampled_from((*self.edges(window), *near)))
        if edge > self.model.offset:
            self.do(AppendWindow(length=edge - self.model.offset, unread=True))
            self.fired("far")

    def edges(self, window: int | None) -> tuple[int, ...]:
        """List the offsets around an allocation boundary."""
        return (255, 256, 257, 512) if window is None else (257, 512, window + 257)

    @precondition(lambda self: not self.over and "dense" in self.used and "dense" in self.can)
    @rule(data=data_)
    def dense(self, data: st.DataObject) -> None:
        """Fetch dense."""
        name = self.on(data)
        model = self.thing(name)
        length = data.draw(st.sampled_from(lengths(model.layer.window, model.offset)))
        kept = f"d{len(self.calls)}" if "keep" in self.used and data.draw(st.booleans()) else None
        self.do(FetchDense(length=length, on=name, as_=kept))
        self.fired("dense")

    @precondition(lambda self: not self.over and "mask" in self.used and "mask" in self.can)
    @rule(data=data_)
    def mask(self, data: st.DataObject) -> None:
        """Ask for a mask without appending."""
        name = self.on(data)
        model = self.thing(name)
        length = data.draw(st.sampled_from(lengths(model.layer.window, model.offset)[:4]))
        phase = "decode" if length == 1 and ("phases" not in self.can or data.draw(st.booleans())) else "window"
        options = {k: v for k, v in self.options(data, name).items() if k in ("window", "array")}
        kept = f"m{len(self.calls)}" if "keep" in self.used and data.draw(st.booleans()) else None
        self.do(MakeMask(length=length, phase=phase, on=name, as_=kept, **options))
        self.fired("mask")

    @precondition(lambda self: not self.over and "trim" in self.used and "trim" in self.can)
    @rule(data=data_)
    def trim(self, data: st.DataObject) -> None:
        """Trim by a count around the limits."""
        name = self.on(data)
        offset = self.thing(name).offset
        counts = [0, 1, 2, offset, offset + 1, max(0, offset - 1)]
        start = self.thing(name).layer.start
        counts += [offset - start, offset - start + 1] if isinstance(start, int) and offset > start else []
        bypass = "bypass" in self.used and "bypass" in self.can and data.draw(st.booleans())
        self.do(Trim(n=data.draw(st.sampled_from(counts)), bypass=bypass, on=name))
        self.fired("trim")

    @precondition(lambda self: not self.over and "odd" in self.used and "trim" in self.can)
    @rule(data=data_)
    def odd_trim(self, data: st.DataObject) -> None:
        """Trim by a count that is none."""
        self.do(Trim(n=data.draw(st.sampled_from((-1, -2, 1.5) if self.layout else (-1, -2))), on=self.on(data)))
        self.fired("odd_trim")

    @precondition(lambda self: not self.over and "clone" in self.used and "clone" in self.can and self.roomy)
    @rule(data=data_)
    def clone(self, data: st.DataObject) -> None:
        """Clone a cache."""
        self.do(Clone(on=self.on(data), as_=f"c{len(self.calls) + 1}"))
        self.fired("clone")

    @precondition(lambda self: not self.over and "state" in self.used and "state" in self.can and self.roomy)
    @rule(data=data_)
    def state(self, data: st.DataObject) -> None:
        """Take the state and keep it."""
        self.do(TakeState(on=self.on(data), as_=f"s{len(self.calls)}"))
        self.fired("state")

    @precondition(lambda self: not self.over and self._hands() and self.roomy)
    @rule(data=data_)
    def hand_out_and_go_on(self, data: st.DataObject) -> None:
        """Take arrays, go on with the cache, and look at the arrays again."""
        name, kept = self.on(data), f"h{len(self.calls)}"
        model = self.thing(name)
        length = data.draw(st.sampled_from(lengths(model.layer.window, model.offset)[:4]))
        calls: dict[str, Call] = {
            "state": TakeState(on=name, as_=kept),
            "dense": FetchDense(length=length, on=name, as_=kept),
            "mask": MakeMask(length=length, on=name, as_=kept, array="as_array" in self.can),
        }
        self.do(calls[data.draw(st.sampled_from(self._hands()))])
        self.do(data.draw(st.sampled_from((AppendDecode(on=name), AppendWindow(length=length, on=name)))))
        self.do(LookAt(on=kept))
        self.fired("hand_out_and_go_on")

    def _hands(self) -> list[str]:
        """List the calls of this trace that hand out arrays."""
        return [call for call in ("state", "dense", "mask") if call in self.used and call in self.can]

    @precondition(lambda self: not self.over and "reset" in self.used and "reset" in self.can)
    @rule(data=data_)
    def reset(self, data: st.DataObject) -> None:
        """Reset a cache."""
        self.do(Reset(on=self.on(data)))
        self.fired("reset")

    @precondition(lambda self: not self.over and any(isinstance(x, ReadModel) for x in self.run_.oracle.world.values()))
    @rule(data=data_)
    def attend(self, data: st.DataObject) -> None:
        """Ask an earlier read again."""
        names = [n for n, x in self.run_.oracle.world.items() if isinstance(x, ReadModel)]
        spoilt = "spoilt" in self.used and self.layout and data.draw(st.integers(0, 3)) == 0
        how = data.draw(st.sampled_from(_SPOILT_QUERIES)) if spoilt else None
        self.do(Attend(on=data.draw(st.sampled_from(names)), malformed=how))
        self.fired("attend")

    @precondition(lambda self: not self.over and "spoilt" in self.used and self.layout and self.roomy)
    @rule(data=data_)
    def read_and_ask_wrongly(self, data: st.DataObject) -> None:
        """Keep a read, and ask it with queries that do not fit."""
        name, kept = self.on(data), f"w{len(self.calls)}"
        self.do(AppendWindow(length=data.draw(st.integers(1, 2)), on=name, as_=kept))
        if "attend" in self.can and kept in self.run_.oracle.world:
            self.do(Attend(on=kept, malformed=data.draw(st.sampled_from(_SPOILT_QUERIES))))
            self.fired("read_and_ask_wrongly")

    @precondition(lambda self: not self.over and len(self.run_.oracle.world) > 1)
    @rule(data=data_, drop=st.integers(0, 5))
    def look(self, data: st.DataObject, drop: int) -> None:
        """Look at any object again, or let it go."""
        names = list(self.run_.oracle.world)
        name = data.draw(st.sampled_from(names))
        if drop == 0 and name != "c0":
            self.do(Drop(on=name))
        elif isinstance(self.run_.oracle.world[name], ReadModel):
            self.do(Attend(on=name))
        else:
            self.do(LookAt(on=name))
        self.fired("look")

    @precondition(lambda self: not self.over and "spoilt" in self.used)
    @rule(data=data_)
    def spoilt(self, data: st.DataObject) -> None:
        """Append tensors that do not fit."""
        name = self.on(data)
        decode = data.draw(st.booleans())
        fitting = (*MALFORMED, "dtype", "dtype") if self.thing(name).slots else _SPOILT_ALWAYS
        hows = [how for how in fitting if how != "two" or (decode and "phases" in self.can)]
        how: Any = data.draw(st.sampled_from(hows))
        self.do(AppendDecode(on=name, malformed=how) if decode else AppendWindow(on=name, length=2, malformed=how))
        self.fired("spoilt")

    @precondition(lambda self: not self.over and "odd" in self.used and self.layout and "window_argument" in self.can)
    @rule(data=data_)
    def odd_argument(self, data: st.DataObject) -> None:
        """Pass a window argument below 1."""
        self.do(AppendWindow(length=2, window=data.draw(st.sampled_from((0, -1))), on=self.on(data)))
        self.fired("odd_argument")


__all__ = ["CallRules", "arguments", "lengths"]
