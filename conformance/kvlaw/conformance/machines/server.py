"""The server machines: all that the other machines do apart, in one world.

Requests come with a prompt of which a part may have been published, are read in chunks, join the batch that is being
decoded, draft and verify, convert to codes on the way, leave, are published, saved and let go of, and come again from a
file or a prefix. A target without groups serves several sequences, each by a cache of its own.
"""

from collections.abc import Callable
from typing import ClassVar

from hypothesis import strategies as st

from kvlaw.conformance.machines.batch_rules import BatchRules
from kvlaw.conformance.machines.list_rules import ActsOnLists, list_acts
from kvlaw.conformance.machines.row_rules import some_rows
from kvlaw.conformance.machines.server_rules import Acts, ServerRules, Tokens
from kvlaw.reference.model import Model
from kvlaw.reference.oracle import File, Layers
from kvlaw.spec.calls import AppendDecode, AppendWindow, BeginRound, Call, Clone, Drop, Filter, MakeCache, Reset, Reuse

_NOBODYS = (800_000, 800_001)
"""A prompt that nobody shares."""


class ServerMachine(ServerRules, ActsOnLists):
    """Serves several sequences, each by a cache of its own, and lists of layers beside them."""

    optional = ("own_window", "compiled", "spoilt")
    ACTS: ClassVar[Acts] = (*ServerRules.ACTS, "layers", "layers")
    most: ClassVar[int] = 4
    """How many sequences are served at once."""

    def whole_files(self) -> list[str]:
        """List the files of single caches."""
        lists = {n for n, x in self.run_.oracle.world.items() if isinstance(x, File) and isinstance(x.holds, Layers)}
        return [name for name in super().whole_files() if name not in lists]

    @property
    def few(self) -> bool:
        """Say whether there is nothing to be decoded."""
        world = self.run_.oracle.world
        return not any(isinstance(found, Model) and found.offset for found in world.values())

    def serving(self, data: st.DataObject) -> str | None:
        """Name one of the sequences."""
        names = self.caches()
        return data.draw(st.sampled_from(names), label="sequence") if names else None

    def arrive(self, data: st.DataObject) -> bool:
        """Let a new request come: with an empty cache, a copy of another's, or one that is emptied for it."""
        made, source = self.fresh("c"), self.serving(data)
        ways: dict[str, Callable[[str], Call]] = {
            "reuse": lambda on: Reuse(tokens=_NOBODYS, on=on, as_=made),
            "clone": lambda on: Clone(on=on, as_=made),
            "reset": lambda on: Reset(on=on),
        }
        if source is None:
            return False
        able = [way for way in ways if way in self.can and (way == "reset" or len(self.caches()) < self.most)]
        way = data.draw(st.sampled_from(able), label="room") if able else ""
        if way:
            self.do(ways[way](source))
        self.read(data, made if made in self.run_.oracle.world else source)
        return True

    def again(self, data: st.DataObject) -> bool:
        """Let a request come again: from its file, or with what was published of it."""
        return bool(self.caches()) and len(self.caches()) <= self.most and self.resumed(data) is not None

    def look_up(self, data: st.DataObject, tokens: Tokens, made: str) -> None:
        """Make a cache of what a prompt shares with what was published."""
        self.do(Reuse(tokens=tokens, on=self.caches()[0], as_=made))

    def finish(self, data: st.DataObject) -> bool:
        """Let a request end, and keep what it leaves behind."""
        name = self.serving(data)
        if name is None or not {"files", "reuse"} & self.can:
            return False
        self.keep(data, name)
        return True

    def layers(self, data: st.DataObject) -> bool:
        """Serve a model of several layers: open it first, and act on it some times."""
        if "lists" not in self.can:
            return False
        acts = data.draw(list_acts)
        self.act(data, self.lists()[0], acts) if self.lists() else self.act(
            data, self.new_list(data), ["window", *acts]
        )
        return True

    def evict(self, name: str) -> None:
        """Let go of a cache, or empty it if it is the last."""
        if len(self.caches()) > 1:
            super().evict(name)
        elif "reset" in self.can:
            self.do(Reset(on=name))


class RowsServerMachine(ServerRules, BatchRules):
    """Serves a batch of rows, which requests join and leave."""

    optional = ("own_window", "compiled", "bracket", "retire", "back", "keep_old")
    ACTS: ClassVar[Acts] = (*ServerRules.ACTS, "pad", "cancel", "snapshot")

    def waiting(self) -> list[str]:
        """List the caches of requests that left, and are still there."""
        return [name for name in self.away if name in self.run_.oracle.world]

    def serving(self, data: st.DataObject) -> str | None:
        """Name the batch, if it has rows; seldom a cache that waits."""
        waiting = self.waiting()
        if waiting and data.draw(st.integers(0, 5), label="alone") == 0:
            return data.draw(st.sampled_from(waiting))
        return self.batch if self.here.rows else None

    @property
    def few(self) -> bool:
        """Say whether another row has room, and there are less than two."""
        return not self.full and len(self.here.rows) < 2

    @property
    def full(self) -> bool:
        """Say whether no more requests can join."""
        return "merge" not in self.can or len(self.here.rows) >= self.most_rows

    def enter(self, data: st.DataObject, name: str) -> None:
        """Let a cache join the batch, before or behind the others, and decode."""
        first = data.draw(st.integers(0, 2), label="first") == 0
        self.away = [*self.waiting(), *(() if name in self.away else (name,))]
        self.join((name, self.batch) if first else (self.batch, name))
        self.go_on()

    def go_on(self) -> None:
        """Decode the next token of the batch."""
        if self.running:
            self.do(AppendDecode(on=self.batch, **self.passing))

    def arrive(self, data: st.DataObject) -> bool:
        """Let a new request come and join; if the batch is full, its rows read on."""
        if self.full:
            return self.pad(data)
        made = self.fresh("s")
        self.do(MakeCache(as_=made))
        self.read(data, made)
        if made in self.run_.oracle.world:
            self.enter(data, made)
        return True

    def again(self, data: st.DataObject) -> bool:
        """Let a request come again and join: from its file, with what was published of it, or as it was left."""
        if self.full and not self.finish(data):
            return False
        waiting = self.waiting()
        as_left = bool(waiting) and data.draw(st.integers(0, 2), label="as it was left") == 0
        made = data.draw(st.sampled_from(waiting)) if as_left else self.resumed(data)
        if made is not None and not self.over:
            self.enter(data, made)
        return made is not None

    def look_up(self, data: st.DataObject, tokens: Tokens, made: str) -> None:
        """Make a cache of what a prompt shares with what was published."""
        like = self.fresh("s")
        self.all_of(MakeCache(as_=like), Reuse(tokens=tokens, on=like, as_=made), Drop(on=like))

    def finish(self, data: st.DataObject) -> bool:
        """Let a row leave, and keep what it leaves behind; the others go on."""
        if not self.here.rows or "extract" not in self.can:
            return False
        if not any(row.offset for row in self.here.rows) and data.draw(st.integers(0, 3), label="unread"):
            return self.pad(data)
        name = self.take_out(data, back=data.draw(st.booleans(), label="back"))
        if name in self.run_.oracle.world:
            self.keep(data, name)
        self.away = self.waiting()
        self.go_on()
        return True

    def pad(self, data: st.DataObject) -> bool:
        """Prefill a prompt for each row, with padding where that can be."""
        if not self.here.rows:
            return False
        if "padding" in self.can:
            plan = self.draw_padded(data, self.batch)
            retire = "retire" in self.used
            self.prefill_padded(data, self.batch, plan, bracket="bracket" in self.used, retire=retire)
        else:
            self.read(data, self.batch)
        return True

    def snapshot(self, data: st.DataObject) -> bool:
        """Clone the batch, let both go their own ways, and go on with one of them."""
        if not self.here.rows or "clone" not in self.can:
            return False
        old, made = self.batch, self.part_ways(data.draw(st.integers(1, 4), label="window"))
        if made in self.run_.oracle.world:
            self.batch, gone = (made, old) if data.draw(st.booleans(), label="the clone") else (old, made)
            self.do(Drop(on=gone))
        return True

    def cancel(self, data: st.DataObject) -> bool:
        """Keep some rows, perhaps in another order, also while drafts are being verified, and decode on."""
        if not self.here.rows or "filter" not in self.can:
            return False
        drafts = "rounds" in self.can and data.draw(st.booleans(), label="in a round")
        if drafts:
            self.all_of(BeginRound(on=self.batch), AppendWindow(length=2, on=self.batch, **self.passing))
        self.do(Filter(rows=some_rows(data, len(self.here.rows), least=1), on=self.batch))
        self.go_on()
        self.end(data, self.batch)
        self.go_on()
        return True


__all__ = ["RowsServerMachine", "ServerMachine"]
