"""Rules that make lists of layers and act on them: all layers or none."""

from typing import cast

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from kvlaw.conformance.demands import terms_of
from kvlaw.conformance.machines.file_rules import KnowsFiles
from kvlaw.conformance.machines.policies import layers as layers_of
from kvlaw.conformance.machines.reuse_rules import SharesPrefixes
from kvlaw.reference.oracle import Layers
from kvlaw.spec.calls import (
    AppendDecode,
    AppendKnown,
    AppendWindow,
    BeginRound,
    Clone,
    CommitRound,
    CompiledDecode,
    Drop,
    Load,
    LookAt,
    OpenList,
    Publish,
    Reset,
    RollBack,
    Save,
    Trim,
)
from kvlaw.spec.config import LayerSpec

data_ = st.data()
_LIST_ACTS = (
    "decode",
    "compiled",
    "window",
    "window",
    "known",
    "trim",
    "trim",
    "clone",
    "reset",
    "look",
    "spoilt",
    *("round",) * 4,
    *("file",) * 2,
    *("share",) * 2,
)
list_acts = st.lists(st.sampled_from(_LIST_ACTS), min_size=1, max_size=4)


class ActsOnLists(KnowsFiles, SharesPrefixes):
    """What is done with lists: opened, and acted on some times in a row."""

    def new_list(self, data: st.DataObject) -> str:
        """Open a list of layers with windows of their own, and give its name."""
        full, rings = LayerSpec("full"), tuple(LayerSpec("ring", window) for window in (2, 3, 4))
        one_kind = (full,) if self.kind == "full" else rings
        policies = self.policies if self.config.bits else ()
        layer = layers_of(policies, (full, full, *rings) if self.both_kinds else one_kind, self.config)
        layers = data.draw(st.lists(layer, min_size=2, max_size=3))
        name = f"l{len(self.calls)}"
        self.do(OpenList(layers=tuple(layers), as_=name))
        return name

    @property
    def both_kinds(self) -> bool:
        """The target builds growing caches and rings, so that lists can mix them."""
        return self.layout or len(terms_of(self.session.subject).kinds) > 1

    def lists(self) -> list[str]:
        """Name the lists."""
        return [n for n, x in self.run_.oracle.world.items() if isinstance(x, Layers)]

    def act(self, data: st.DataObject, name: str, acts: list[str]) -> None:
        """Act on a list, some times in a row, until the trace is over."""
        for act in acts:
            if not self.over:
                self._act(data, name, act)

    def _round(self, data: st.DataObject, name: str) -> None:
        """Begin a round of all layers, or end the one that is open; in the layout profile wrongly now and then."""
        first = cast("Layers", self.run_.oracle.world[name]).models[0]
        wrong = self.layout and data.draw(st.integers(0, 5), label="wrong") == 0
        if (first.round is None) is not wrong:
            self.do(BeginRound(on=name))
            return
        most = first.appended_in_round
        keep = most + 1 if wrong else data.draw(st.integers(0, most), label="keep")
        self.do(CommitRound(on=name) if data.draw(st.integers(0, 3)) == 0 else RollBack(keep=(keep,), on=name))

    def _file(self, data: st.DataObject, name: str) -> None:
        """Save a list, go on, load it, and go on with what was loaded; it is spoilt now and then."""
        made, spoilt = f"l{len(self.calls)}", data.draw(st.integers(0, 3), label="spoilt") == 0
        if cast("Layers", self.run_.oracle.world[name]).models[0].round is not None and not self.layout:
            return
        self.do(Save(on=name, as_="f0"))
        self.do(AppendDecode(on=name))
        if spoilt and "f0" in self.run_.oracle.world:
            self.spoil_and_load(data, "f0", made)
        else:
            self.do(Load(on="f0", as_=made))
            self.do(AppendDecode(on=made))
        self.do(Drop(on=made))

    def _promise(self, data: st.DataObject, name: str, act: str) -> None:
        """Begin what may come back: a round, a file, or a prefix that is shared."""
        if act == "round" and "rounds" in self.can:
            self._round(data, name)
        elif act == "file" and "files" in self.can:
            self._file(data, name)
        elif act == "share" and "reuse" in self.can:
            self._share(data, name)

    def _share(self, data: st.DataObject, name: str) -> None:
        """Publish a list, go on, and let another request start from what it shares."""
        layers = cast("Layers", self.run_.oracle.world[name]).models
        if layers[0].round is None or self.layout:
            self.do(Publish(on=name))
            self.do(AppendDecode(on=name))
            self.request(data, name, {})

    def _act(self, data: st.DataObject, name: str, act: str) -> None:
        offset = cast("Layers", self.run_.oracle.world[name]).offset
        if act == "decode":
            self.do(AppendDecode(on=name))
        elif act == "compiled" and "compiled" in self.can and "compiled" in self.used and (offset or self.layout):
            self.do(CompiledDecode(on=name))
        elif act == "window":
            self.do(AppendWindow(on=name, length=data.draw(st.integers(1, 5))))
        elif act == "known" and "known" in self.can:
            self.do(AppendKnown(on=name, length=data.draw(st.integers(1, 4))))
        elif act == "trim" and "trim" in self.can:
            self.do(Trim(on=name, n=data.draw(st.sampled_from((0, 1, 2, offset, offset + 1)))))
        elif act == "clone" and "clone" in self.can and len(self.run_.oracle.world) < 8:  # a small world
            self.do(Clone(on=name, as_=f"l{len(self.calls)}"))
        elif act == "reset" and "reset" in self.can:
            self.do(Reset(on=name))
        elif act in ("round", "file", "share"):
            self._promise(data, name, act)
        elif act == "spoilt" and "spoilt" in self.used and "list_appends" in self.can and offset:
            self.do(AppendWindow(on=name, length=2, malformed="heads"))
        else:
            self.do(LookAt(on=name))


class ListRules(ActsOnLists):
    """The part of a machine that acts on lists."""

    @precondition(lambda self: not self.over and "list" in self.used and "lists" in self.can and not self.lists())
    @rule(data=data_, acts=list_acts)
    def open_list(self, data: st.DataObject, acts: list[str]) -> None:
        """Open a list of layers with windows of their own, and use it."""
        self.act(data, self.new_list(data), ["window", *acts])
        self.fired("open_list")

    @precondition(lambda self: not self.over and bool(self.lists()))
    @rule(data=data_, acts=list_acts)
    def on_list(self, data: st.DataObject, acts: list[str]) -> None:
        """Act on a list, some times in a row: all layers or none."""
        name = data.draw(st.sampled_from(self.lists()))
        self.act(data, name, acts)
        self.fired("on_list")
