"""What servers of groups and of serial caches share: requests that come, are read, are kept and come again.

A request finds nothing, a published prefix, its file, or what it left behind; it is read in chunks and generates by
decodes, compiled steps and rounds of drafts. When it is done it is published and saved, and let go of. Each rule of a
server plays several *acts* in a row, drawn from a list in which the frequent ones stand more than once; where an act is
not possible now, something is decoded.
"""

from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from kvlaw.conformance.machines.calls import lengths
from kvlaw.conformance.machines.compiled_rules import GeneratesCompiled
from kvlaw.conformance.machines.file_rules import ResumeRules
from kvlaw.conformance.machines.reuse_rules import SharesPrefixes
from kvlaw.conformance.machines.round_rules import DraftRules
from kvlaw.reference import index, index_group
from kvlaw.reference.model import Model
from kvlaw.reference.oracle import File, Group
from kvlaw.spec.calls import (
    AppendDecode,
    AppendWindow,
    BeginRound,
    Call,
    Drop,
    Extract,
    Load,
    LookAt,
    Merge,
    Publish,
    RollBack,
    Save,
    Trim,
)

data_ = st.data()
Acts = tuple[str, ...]
Tokens = tuple[int, ...]
_FILES = ("f1", "f2", "f3")
"""Few names, so that files are replaced."""
_ENOUGH = 12
"""How many objects there may be before everything that is done with is let go of."""
_MISSHAPEN = ("rank", "lengths", "empty")
"""Tensors that fit no cache, whatever it holds."""


class ServerRules(GeneratesCompiled, DraftRules, ResumeRules, SharesPrefixes):
    """The part of a machine that serves requests; what they are read into is the business of the machine."""

    ACTS: ClassVar[Acts] = ("arrive", "generate", "compiled", "draft", "trim", "finish", "again", "amiss", "look")
    """What can be drawn; each is a method that answers whether it was possible."""

    @precondition(lambda self: not self.over)
    @rule(data=data_, count=st.integers(3, 6))
    def serve(self, data: st.DataObject, count: int) -> None:
        """Do a little of everything."""
        self.play(data, count, ("arrive", "arrive", "draft", "draft", "finish", "again", "compiled"))
        self.fired("serve")

    @precondition(lambda self: not self.over)
    @rule(data=data_, count=st.integers(3, 6))
    def turn_over(self, data: st.DataObject, count: int) -> None:
        """Mostly let requests come and go."""
        self.play(data, count, ("arrive", "again", "again", "finish", "finish", "draft"))
        self.fired("turn_over")

    @precondition(lambda self: not self.over)
    @rule(data=data_, count=st.integers(2, 4))
    def speculate(self, data: st.DataObject, count: int) -> None:
        """Mostly verify drafts."""
        self.play(data, count, ("draft", "draft", "arrive", "finish", "compiled"))
        self.fired("speculate")

    def play(self, data: st.DataObject, count: int, often: Acts) -> None:
        """Play some acts: what is due, those that are frequent now, and seldom any other."""
        for _ in range(count):
            act = data.draw(st.sampled_from((*self.due() * 6, *often, *often, *self.ACTS)), label="act")
            if self.over:
                return
            if getattr(self, act)(data):
                self.fired(act)
            elif not self.over:
                self.generate(data)

    def due(self) -> Acts:
        """List what has not been yet: several requests, something that is kept of one, one that came again, a round."""
        if self.few:
            return ("arrive",)
        kept = bool(self.whole_files() or self.run_.oracle.reuses.entries)
        done = {call.verb for call in self.calls}
        back = ("again",) if kept and not done & {"load", "reuse"} else ()
        return (*(back if kept else ("finish",)), *(() if "begin_round" in done else ("draft",)))

    # What a machine says.

    @property
    def few(self) -> bool:
        """Say whether few requests are being served."""
        raise NotImplementedError

    def serving(self, data: st.DataObject) -> str | None:
        """Name what generates next; None if nothing can."""
        raise NotImplementedError

    def arrive(self, data: st.DataObject) -> bool:
        """Let a new request come."""
        raise NotImplementedError

    def again(self, data: st.DataObject) -> bool:
        """Let a request come that was here before."""
        raise NotImplementedError

    def finish(self, data: st.DataObject) -> bool:
        """Let a request end."""
        raise NotImplementedError

    def look_up(self, data: st.DataObject, tokens: Tokens, made: str) -> None:
        """Make a cache of what a prompt shares with what was published."""
        raise NotImplementedError

    # Acts that all servers have.

    def generate(self, data: st.DataObject) -> bool:
        """Decode some tokens."""
        name = self.serving(data)
        if name is None:
            return False
        self.all_of(*[AppendDecode(on=name, **self.passing)] * data.draw(st.integers(1, 3), label="decodes"))
        return True

    def compiled(self, data: st.DataObject) -> bool:
        """Decode some tokens by compiled steps."""
        name = self.serving(data)
        if name is None or not self.compiling:
            return False
        self.generate_by_steps(data, name, data.draw(st.integers(1, 4), label="steps"), self.passing)
        return True

    def draft(self, data: st.DataObject) -> bool:
        """Verify drafts in a round, some of which are taken back."""
        name = self.serving(data)
        if name is None or "rounds" not in self.can:
            return False
        self.draft_and_verify(data, name, self.passing)
        return True

    def trim(self, data: st.DataObject) -> bool:
        """Verify drafts in one window, and trim what was rejected, where nothing else would be lost."""
        name, count = self.serving(data), data.draw(st.integers(2, 4), label="drafts")
        if name is None or "trim" not in self.can:
            return False
        self.do(AppendWindow(length=count, on=name, **self.passing))
        found, rejected = self.run_.oracle.world.get(name), data.draw(st.integers(0, count), label="rejected")
        whole = isinstance(found, Group) and index_group.can_trim(found.state, rejected)
        if whole or (isinstance(found, Model) and index.can_trim(found.state, rejected)):
            self.all_of(Trim(n=rejected, on=name), AppendDecode(on=name, **self.passing))
        return True

    def look(self, data: st.DataObject) -> bool:
        """Look at anything again."""
        self.do(LookAt(on=data.draw(st.sampled_from(list(self.run_.oracle.world)), label="look")))
        return True

    def amiss(self, data: st.DataObject) -> bool:
        """Let something go wrong: a file that was spoilt or is another model's, tensors, or what rounds forbid."""
        name, files = self.serving(data), self.whole_files()
        if files and data.draw(st.booleans(), label="a file"):
            self._wrong_file(data, data.draw(st.sampled_from(files)))
            return True
        if name is None:
            return False
        wrong = data.draw(st.sampled_from(("tensors", *(("round",) * 3 if self._rounds_wrongly() else ()))))
        if wrong == "tensors":
            self.do(AppendWindow(length=2, on=name, malformed=data.draw(st.sampled_from(_MISSHAPEN))))
        else:
            self.do(RollBack(keep=(0,), on=name))
            self.all_of(BeginRound(on=name), AppendDecode(on=name), BeginRound(on=name))
            self.do(data.draw(st.sampled_from(self._forbidden(name)), label="forbidden"))
            self.do(RollBack(keep=(data.draw(st.integers(0, 1), label="keep"),), on=name))
        self.do(AppendDecode(on=name, **self.passing))
        return True

    def _rounds_wrongly(self) -> bool:
        """Say whether it may be asked what only our design refuses."""
        return self.layout and "rounds" in self.can

    def _wrong_file(self, data: st.DataObject, file: str) -> None:
        if "fingerprint" in self.can and data.draw(st.booleans(), label="of another model"):
            self.do(Load(on=file, as_=self.fresh("n"), other=True))
        else:
            self.spoil_and_load(data, file, self.fresh("n"))

    def _forbidden(self, name: str) -> list[Call]:
        """List calls of which one or another is refused in a round, and a look."""
        made = self.fresh("n")
        calls: dict[str, Call] = {"reuse": Publish(on=name), "files": Save(on=name, as_=_FILES[0])}
        if isinstance(self.run_.oracle.world.get(name), Group):
            calls = {"extract": Extract(row=0, on=name, as_=made), "merge": Merge(sources=(name, name), as_=made)}
        return [LookAt(on=name), *(call for needed, call in calls.items() if needed in self.can)]

    # What is kept, and found again.

    def whole_files(self) -> list[str]:
        """List the files that are as they were written."""
        return [n for n, x in self.run_.oracle.world.items() if isinstance(x, File) and x.damage is None]

    def read(self, data: st.DataObject, name: str) -> None:
        """Read a prompt in one chunk or two, of a length around the window, the start or an edge."""
        found = self.run_.oracle.world.get(name)
        rows = found.rows if isinstance(found, Group) else (found,)
        offset = min((row.offset for row in rows if isinstance(row, Model)), default=0)
        length = data.draw(st.sampled_from(lengths(self.config.window, offset, self.config.start)), label="prompt")
        cut = data.draw(st.integers(0, length - 1), label="cut")
        for chunk in (cut, length - cut):
            if chunk:
                self.do(AppendWindow(length=chunk, on=name, **self.passing))

    def keep(self, data: st.DataObject, name: str) -> None:
        """Publish and save what a request leaves behind, and mostly let go of it; it may go on before."""
        how = data.draw(st.sampled_from(("both", "both", "published", "saved", "let go of")), label="kept")
        publishes = "reuse" in self.can and how in ("both", "published")
        saves = "files" in self.can and how in ("both", "saved")
        if publishes:
            self.do(Publish(on=name))
        if saves:
            self.do(Save(on=name, as_=data.draw(st.sampled_from(_FILES), label="file")))
        if (publishes or saves) and data.draw(st.integers(0, 2), label="goes on") == 0:
            self.do(AppendDecode(on=name, **self.passing))
        if len(self.run_.oracle.world) > _ENOUGH or ((publishes or saves) and data.draw(st.integers(0, 3))):
            self.evict(name)

    def evict(self, name: str) -> None:
        """Let go of a cache."""
        self.do(Drop(on=name))

    def resumed(self, data: st.DataObject) -> str | None:
        """Make a cache of a file or of a published prefix, and read on; None if there is nothing to make it of."""
        files, made = self.whole_files(), self.fresh("r")
        ways = ["file"] * bool(files) + ["prefix"] * bool(self.run_.oracle.reuses.entries)
        if not ways or self.over:
            return None
        if data.draw(st.sampled_from(ways), label="way") == "file":
            self.start_from(data, data.draw(st.sampled_from(files), label="file"), made, self.passing)
        else:
            whole = data.draw(st.integers(0, 3), label="all of it") > 0
            self.look_up(data, self.next_turn(data) if whole else self.prompt(data), made)
            self.read(data, made)
        return made if made in self.run_.oracle.world else None


__all__ = ["Acts", "ServerRules", "Tokens"]
