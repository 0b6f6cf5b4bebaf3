"""The contract machine of groups: any call at any time, on groups and on the serial caches beside them.

In the layout profile also what our design refuses is asked: rows that are not there, sources that do not fit, padding
that cannot be, decodes while padding is announced, appends to a group without rows.
"""

from collections.abc import Callable

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from kvlaw.conformance.demands import terms_of
from kvlaw.conformance.machines.calls import CallRules, lengths
from kvlaw.conformance.machines.compiled_rules import CompiledRules
from kvlaw.conformance.machines.round_rules import RoundRules
from kvlaw.conformance.machines.row_rules import RowRules, prepare_of, some_rows
from kvlaw.reference import index_group
from kvlaw.reference.model import Model
from kvlaw.reference.oracle import Group
from kvlaw.spec.calls import (
    MALFORMED,
    AppendDecode,
    AppendKnown,
    AppendWindow,
    BeginPrefill,
    Call,
    Clone,
    CommitPrefill,
    EndPrefill,
    Extract,
    FetchDense,
    Filter,
    Finalize,
    HandBack,
    LookAt,
    MakeCache,
    MakeMask,
    Malformed,
    Merge,
    Prepare,
    Reset,
    Trim,
)
from kvlaw.spec.config import LayerSpec

data_ = st.data()


class RowsContractMachine(RowRules, CompiledRules, RoundRules, CallRules):
    """Calls anything at any time."""

    crowd = 10
    optional = (
        "argument",
        "array",
        "known",
        "dense",
        "mask",
        "trim",
        "clone",
        "state",
        "reset",
        "spoilt",
        "unread",
        "keep",
        "far",
        "odd",
        "bracket",
        "back",
        "beyond",
        "round",
        "compiled",
    )

    def on(self, draw: st.DataObject) -> str:
        """Choose a group or a cache; what only our design refuses is asked in the layout profile alone."""
        names = [*self.groups(), *self.groups(), *self.caches()]
        fit = [name for name in names if self.asks(name)] or names
        return draw.draw(st.sampled_from(fit)) if len(set(fit)) > 1 else fit[0]

    def asks(self, name: str) -> bool:
        """Say whether an object may be asked anything: a group that is ready for all, or beyond that by choice."""
        thing = self.run_.oracle.world[name]
        ready = not isinstance(thing, Group) or (bool(thing.rows) and not thing.pends)
        return ready or (self.layout and "beyond" in self.used)

    def thing(self, name: str) -> Model:
        """Give a cache's model; of a group, by turns, the model of its longest and of its shortest row."""
        found = self.run_.oracle.world[name]
        if isinstance(found, Model):
            return found
        rows = sorted(self.group(name).rows, key=lambda row: row.offset)
        return rows[-(len(self.calls) % 2)] if rows else Model.empty(self.config.layer.serial)

    def legible(self, layer: LayerSpec) -> bool:
        """Say whether what such a layer stores can be read: tensors, or codes as the trace's configuration has them."""
        own = self.config
        codec = (layer.bits, layer.bits_of_values, layer.group)
        return layer.bits is None or codec == (own.bits, own.bits_of_values, own.group)

    def groups(self) -> list[str]:
        """List the groups that can be read."""
        return [name for name in super().groups() if self.legible(self.group(name).layer)]

    def found_again(self) -> bool:
        """Say whether there is a group or a cache, behind a detour."""
        return bool(self.groups() or self.caches())

    def caches(self) -> list[str]:
        """List the serial caches that can be read."""
        return [name for name in super().caches() if self.legible(self.thing(name).layer)]

    def edges(self, window: int | None) -> tuple[int, ...]:
        """List the offsets around an allocation boundary; several rows go no further."""
        return (255, 256, 257) if window is None else (257, window + 257)

    def resting(self) -> list[str]:
        """List the groups that have rows and no padding announced."""
        return [name for name in self.groups() if self.group(name).rows and not self.group(name).pends]

    def some_group(self, data: st.DataObject, names: list[str] | None = None) -> str:
        """Draw a group."""
        return data.draw(st.sampled_from(names or self.groups()))

    # Who comes.

    @precondition(lambda self: not self.over and self.roomy)
    @rule(data=data_)
    def new_cache(self, data: st.DataObject) -> None:
        """Make a fresh cache, seldom of another layer, and mostly append to it."""
        name = self.fresh("s")
        other = self.layout and data.draw(st.integers(0, 5)) == 0
        layer = data.draw(st.sampled_from(self.others())) if other else None
        self.do(MakeCache(as_=name, layer=layer))
        if (layer is None or self.legible(layer)) and data.draw(st.booleans()):
            self.do(AppendWindow(length=data.draw(st.sampled_from(lengths(self.config.window, 0))), on=name))
        self.fired("new_cache")

    def others(self) -> tuple[LayerSpec, ...]:
        """List serial layers that do not go together with the group's, and some that do."""
        layer = self.config.layer.serial
        plain = evolve(layer, bits=None, value_bits=None, start=None, group=64)
        made = [plain, evolve(plain, kind="full", window=None), evolve(plain, kind="ring", window=5)]
        made += [evolve(layer, sinks=1)] if "sinks" in self.can and (layer.window or 0) > 1 else []
        if "affine" in self.can:
            made += [evolve(plain, bits=4, group=32), evolve(plain, bits=8, group=64)]
            made += [evolve(layer, start=None)] if layer.bits else []
        if "bf16_first" in self.can:
            made += [evolve(plain, bits=4, group=32, start=2)]
            made += [evolve(layer, start=start) for start in (1, "never")] if layer.bits else []
        kinds = terms_of(self.session.subject).kinds
        return tuple(made if len(kinds) > 1 else [x for x in made if x.kind == layer.kind])

    @precondition(lambda self: not self.over and "merge" in self.can and self.roomy)
    @rule(data=data_)
    def merge(self, data: st.DataObject) -> None:
        """Merge any groups and caches, the same one twice among them; seldom none at all."""
        names = [*super().groups(), *super().caches()]
        wild = self.layout and "beyond" in self.used
        fit = [n for n in names if wild or not self.group(n).pends] or names
        least = 0 if wild and data.draw(st.integers(0, 9)) == 0 else 1
        sources = tuple(data.draw(st.lists(st.sampled_from(fit), min_size=least, max_size=3 if least else 0)))
        if self.rows_in(sources) <= self.most_rows:
            made = self.fresh("g")
            self.do(Merge(sources=sources, as_=made))
            if made in self.groups() and self.group(made).rows and data.draw(st.booleans()):
                self.do(AppendDecode(on=made))
                self.do(LookAt(on=sources[0]))
        self.fired("merge")

    # Who goes.

    def a_row(self, data: st.DataObject, name: str) -> int:
        """Draw a row; in the layout profile seldom one that is not there."""
        count = len(self.group(name).rows)
        there = list(range(count))
        gone = [-1, count] if self.layout and (not there or "beyond" in self.used) else []
        return data.draw(st.sampled_from([*there, *there, *there, *gone] or [0]))

    @precondition(lambda self: not self.over and "extract" in self.can and self.roomy and bool(self.resting()))
    @rule(data=data_, again=st.booleans())
    def extract(self, data: st.DataObject, again: bool) -> None:
        """Take a row out, and go on with it or with the group."""
        name, made = self.some_group(data, self.resting()), self.fresh("e")
        back = "back" in self.used and "hand_back" in self.can and data.draw(st.booleans())
        make: Callable[..., Call] = HandBack if back else Extract
        self.do(make(row=self.a_row(data, name), as_=made, on=name))
        if again and made in self.run_.oracle.world:
            self.all_of(AppendDecode(on=made), LookAt(on=name), AppendDecode(on=name), LookAt(on=made))
        self.fired("extract")

    @precondition(lambda self: not self.over and "filter" in self.can)
    @rule(data=data_)
    def filter(self, data: st.DataObject) -> None:
        """Keep any rows, in any order; in the layout profile seldom one twice, or one that is not there."""
        name = self.some_group(data)
        count = len(self.group(name).rows)
        rows = some_rows(data, count, least=0 if self.layout and "empty_group" in self.can else 1)
        if self.layout and "beyond" in self.used and data.draw(st.integers(0, 3)) == 0:
            rows = (*rows, data.draw(st.sampled_from((-1, 0, count))))
        if rows or self.layout:
            self.do(Filter(rows=rows, on=name))
        self.fired("filter")

    # What single calls seldom meet.

    @precondition(lambda self: not self.over and self.layout and bool(self.resting()))
    @rule(data=data_, hows=st.lists(st.sampled_from(MALFORMED), min_size=2, max_size=4, unique=True))
    def spoilt_in_several_ways(self, data: st.DataObject, hows: list[Malformed]) -> None:
        """Append to a group that holds something tensors that do not fit, one way after another."""
        name = self.some_group(data, self.resting())
        self.do(AppendDecode(on=name))
        for how in hows:
            if how == "two":
                self.do(AppendDecode(on=name, malformed=how))
            else:
                self.do(AppendWindow(length=data.draw(st.integers(1, 2)), on=name, malformed=how))
        self.fired("spoilt_in_several_ways")

    @precondition(lambda self: not self.over and "trim" in self.can and bool(self.resting()))
    @rule(data=data_, count=st.integers(0, 2), short=st.booleans())
    def trim_and_write_again(self, data: st.DataObject, count: int, short: bool) -> None:
        """Trim rows that can be trimmed, those with a start at it or one short of it, and append again."""
        able = [name for name in self.resting() if index_group.can_trim(self.group(name).state, count)]
        name = self.some_group(data, able or self.resting())
        if not able and "reset" in self.can:
            self.do(Reset(on=name))
        start = self.config.start if isinstance(self.config.start, int) else 2
        left = start - max((row.offset for row in self.group(name).rows), default=0) - short
        self.do(AppendWindow(length=left if 0 < left <= 40 else 1, on=name))
        self.all_of(Trim(n=count, on=name), AppendDecode(on=name))
        self.fired("trim_and_write_again")

    @precondition(
        lambda self: not self.over and bool(self.config.bits) and "known" in self.can and bool(self.resting())
    )
    @rule(data=data_, before=st.integers(1, 3), length=st.integers(1, 3))
    def known_after_a_window(self, data: st.DataObject, before: int, length: int) -> None:
        """Append decided tokens to a group that stores codes, or soon will."""
        name = self.some_group(data, self.resting())
        self.all_of(AppendWindow(length=before, on=name), AppendKnown(length=length, on=name))
        self.fired("known_after_a_window")

    # Padding.

    @precondition(lambda self: not self.over and "padding" in self.can)
    @rule(data=data_, whole=st.booleans())
    def pad(self, data: st.DataObject, whole: bool) -> None:
        """Announce padding that can be, and append some of the columns or all."""
        name = self.some_group(data)
        group = self.group(name)
        if not self.layout and (group.pends or not group.rows):
            return
        plan = self.draw_padded(data, name, data.draw(st.integers(1, 3)))
        if whole and not group.pends:
            bracket = "bracket" in self.used
            self.prefill_padded(data, name, plan, bracket=bracket, retire=data.draw(st.booleans()))
        else:
            self.do(prepare_of(data, plan, name, left=self.pads_left))
            self.do(AppendWindow(length=plan.chunks[0], on=name))
        self.fired("pad")

    @precondition(lambda self: not self.over and "padding" in self.can and self.layout and "beyond" in self.used)
    @rule(data=data_)
    def pad_wrongly(self, data: st.DataObject) -> None:
        """Announce padding that cannot be: negative, of the wrong count, without lengths, or late on the left."""
        name = self.some_group(data)
        count = len(self.group(name).rows) or 2
        ones, zeros = (1,) * count, (0,) * count
        wrong = (
            Prepare(right=ones, on=name),
            Prepare(lengths=(*ones, 1), right=ones, on=name),
            Prepare(lengths=ones, right=(-1, *ones[1:]), on=name),
            Prepare(lengths=(-1, *ones[1:]), right=ones, on=name),
            Prepare(lengths=zeros, right=ones[1:], on=name),
            *((Prepare(left=ones, on=name), Prepare(left=(-1, *zeros[1:]), on=name)) if self.pads_left else ()),
            *((Prepare(left=(2, *zeros[1:]), lengths=ones, right=ones, on=name),) if self.pads_left else ()),
        )
        self.do(data.draw(st.sampled_from(wrong)))
        self.fired("pad_wrongly")

    @precondition(lambda self: not self.over and "padding" in self.can)
    @rule(data=data_)
    def finalize(self, data: st.DataObject) -> None:
        """End a padded prefill, or one that never was."""
        pending = [name for name in self.groups() if self.group(name).pends]
        self.do(Finalize(on=self.some_group(data, pending or None)))
        self.fired("finalize")

    @precondition(lambda self: not self.over and any(self.group(n).pends for n in self.groups()))
    @rule(data=data_, what=st.sampled_from(("filter", "reset", "clone", "mask", "append", "dense", "refused", "trim")))
    def while_padding_pends(self, data: st.DataObject, what: str) -> None:
        """Do to a group whose padding is announced what may be done, or in the layout profile what may not."""
        name = self.some_group(data, [n for n in self.groups() if self.group(n).pends])
        rows, made = some_rows(data, len(self.group(name).rows), least=1), self.fresh("c")
        length = data.draw(st.integers(1, 3))
        able: dict[str, tuple[str, Call]] = {
            "filter": ("filter", Filter(rows=rows, on=name)),
            "reset": ("reset", Reset(on=name)),
            "clone": ("clone", Clone(as_=made, on=name)),
            "mask": ("mask", MakeMask(length=length, on=name)),
            "dense": ("dense", FetchDense(length=length, on=name)),
            **({"trim": ("trim", Trim(n=data.draw(st.integers(0, 2)), on=name))} if self.layout else {}),
        }
        needed, call = able.get(what, ("rows", AppendWindow(length=length, on=name)))
        if what == "refused" and self.layout:
            call = data.draw(st.sampled_from((AppendDecode(on=name), Merge(sources=(name,), as_=made))))
            needed = "merge"
        if needed in self.can:
            self.do(call)
        self.fired("while_padding_pends")

    # The prefill bracket.

    @precondition(lambda self: not self.over and "bracket" in self.used and "bracket" in self.can)
    @rule(data=data_, what=st.sampled_from(("begin", "begin", "commit", "commit", "end")))
    def bracket(self, data: st.DataObject, what: str) -> None:
        """Open the bracket, commit rows, or close it."""
        name = self.some_group(data)
        if what == "commit":
            rows = some_rows(data, len(self.group(name).rows))
            if self.layout and "beyond" in self.used and data.draw(st.integers(0, 5)) == 0:
                rows = (*rows, data.draw(st.sampled_from((-1, len(self.group(name).rows)))))
            self.do(CommitPrefill(rows=rows, on=name))
        else:
            self.do(BeginPrefill(on=name) if what == "begin" else EndPrefill(on=name))
        self.fired("bracket")

    @precondition(
        lambda self: not self.over and "bracket" in self.used and "bracket" in self.can and bool(self.resting())
    )
    @rule(data=data_, first=st.booleans())
    def cross_the_start_in_a_bracket(self, data: st.DataObject, first: bool) -> None:
        """Bring rows over their start while the bracket is open; commit some, close it, and decode."""
        name = self.some_group(data, self.resting())
        start = self.config.start if isinstance(self.config.start, int) else 0
        left = max(1, min(40, start - min(row.offset for row in self.group(name).rows)))
        rows = some_rows(data, len(self.group(name).rows))
        self.all_of(BeginPrefill(on=name), AppendWindow(length=left, on=name), AppendDecode(on=name))
        if first:
            self.all_of(CommitPrefill(rows=rows, on=name), AppendWindow(length=2, on=name))
        self.all_of(EndPrefill(on=name), LookAt(on=name), AppendDecode(on=name))
        self.fired("cross_the_start_in_a_bracket")

    @precondition(
        lambda self: not self.over and "merge" in self.can and "bracket" in self.can and "bracket" in self.used
    )
    @rule(data=data_)
    def join_an_open_bracket(self, data: st.DataObject) -> None:
        """Let a cache that is due, or not yet, join a group whose bracket is open."""
        name, made, joined = self.some_group(data), self.fresh("s"), f"{self.fresh('g')}b"
        if self.group(name).pends or len(self.group(name).rows) >= self.most_rows:
            return
        start = self.config.start if isinstance(self.config.start, int) else 1
        length = max(1, min(40, start + data.draw(st.sampled_from((-1, 0, 1)))))
        self.all_of(BeginPrefill(on=name), MakeCache(as_=made), AppendWindow(length=length, on=made))
        if made in self.run_.oracle.world and "extract" in self.can and data.draw(st.booleans()):
            group = f"{made}g"
            self.do(Merge(sources=(made, made), as_=group))
            made = group
        self.all_of(Merge(sources=(name, made), as_=joined), AppendWindow(length=1, on=joined))
        self.fired("join_an_open_bracket")


__all__ = ["RowsContractMachine"]
