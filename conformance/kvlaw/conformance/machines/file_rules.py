"""Rules of files: caches that are saved, go on, and are loaded again, and files that were spoilt in between.

``ResumeRules`` restarts as a server does; ``FileRules`` saves, loads and spoils at any time, lists of layers too.
"""

from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from kvlaw.conformance.demands import terms_of
from kvlaw.conformance.machines.base import LockstepMachine
from kvlaw.conformance.machines.calls import CallRules
from kvlaw.reference.model import Model
from kvlaw.reference.oracle import File, Layers
from kvlaw.spec.calls import (
    AppendDecode,
    AppendWindow,
    BeginRound,
    Call,
    Damage,
    Drop,
    Load,
    LookAt,
    Reset,
    RollBack,
    Save,
    SpoilFile,
    Trim,
)

data_ = st.data()
_NAMES = ("f1", "f2")
"""Few names, so that files are replaced."""


class KnowsFiles(LockstepMachine):
    """What the rules of files share."""

    @property
    def damages(self) -> tuple[Damage, ...]:
        """The ways in which the target's files can be spoilt."""
        return terms_of(self.session.subject).damages

    def file(self, name: str) -> File | None:
        """Give the file of that name, if there is one."""
        found = self.run_.oracle.world.get(name)
        return found if isinstance(found, File) else None

    def spoil_and_load(self, data: st.DataObject, name: str, made: str) -> None:
        """Spoil a file, and try to load it."""
        file = self.file(name)
        if file is None:
            return
        if file.damage is None:
            self.do(SpoilFile(how=data.draw(st.sampled_from(self.damages), label="damage"), on=name))
        self.do(Load(as_=made, on=name))
        if made in self.run_.oracle.world and not self.over:  # it was read all the same
            self.do(AppendDecode(on=made))


class ResumeRules(KnowsFiles):
    """The part of a machine that restarts as a server does."""

    def resume(self, data: st.DataObject, passing: dict[str, Any]) -> None:
        """Save, go on for a while, and start anew from the file: with the prompt read in one go, drafts or a trim."""
        name, made = data.draw(st.sampled_from(_NAMES)), f"c{len(self.calls) + 1}"
        self.do(Save(as_=name))
        for _ in range(data.draw(st.integers(0, 2), label="decodes before the restart")):
            self.do(AppendDecode(**passing))
        self.start_from(data, name, made, passing)
        self.do(AppendDecode(**passing))
        self.do(Drop(on=made))

    def start_from(self, data: st.DataObject, name: str, made: str, passing: dict[str, Any]) -> None:
        """Load a file, decode, read a prompt in one go, perhaps verify drafts, and decode."""
        self.do(Load(as_=made, on=name))
        self.do(AppendDecode(on=made, **passing))
        self.do(AppendWindow(length=data.draw(st.integers(1, 4), label="prompt"), on=made, **passing))
        if "rounds" in self.can and data.draw(st.booleans(), label="drafts"):
            self.do(BeginRound(on=made))
            self.do(AppendWindow(length=3, on=made, **passing))
            self.do(RollBack(keep=(data.draw(st.integers(0, 3), label="keep"),), on=made))
        self.do(AppendDecode(on=made, **passing))


class FileRules(KnowsFiles, CallRules):
    """The part of a machine that saves, loads and spoils at any time."""

    hows: ClassVar[tuple[str, ...]] = ("decode", "window", "trim", "reset", "look", "decode")

    @property
    def keeps_files(self) -> bool:
        """This trace asks for files."""
        return not self.over and "file" in self.used and "files" in self.can

    def whole(self, damaged: bool = False) -> list[str]:
        """List the files that are as they were written, or those that are not."""
        return [
            n for n, x in self.run_.oracle.world.items() if isinstance(x, File) and (x.damage is not None) == damaged
        ]

    def savable(self) -> list[str]:
        """List what can be saved."""
        world = self.run_.oracle.world.items()
        rounds = [n for n, x in world if isinstance(x, Model) and x.round is None]
        rounds += [n for n, x in world if isinstance(x, Layers) and all(m.round is None for m in x.models)]
        if self.layout:
            return [n for n, x in world if isinstance(x, Model | Layers)]
        return rounds

    @precondition(lambda self: self.keeps_files and self.roomy and bool(self.savable()))
    @rule(data=data_)
    def save(self, data: st.DataObject) -> None:
        """Save a cache or a list."""
        self.do(Save(on=data.draw(st.sampled_from(self.savable())), as_=data.draw(st.sampled_from(_NAMES))))
        self.fired("save")

    @precondition(lambda self: self.keeps_files and self.roomy and bool(self.whole()))
    @rule(data=data_)
    def load(self, data: st.DataObject) -> None:
        """Load a file, and see what the next query sees."""
        made = f"n{len(self.calls)}"
        self.do(Load(on=data.draw(st.sampled_from(self.whole())), as_=made))
        if data.draw(st.booleans(), label="go on"):
            self.do(AppendDecode(on=made))
        self.fired("load")

    @precondition(lambda self: self.keeps_files and "fingerprint" in self.can and bool(self.whole()))
    @rule(data=data_)
    def load_for_another(self, data: st.DataObject) -> None:
        """Load a file for another model."""
        self.do(Load(on=data.draw(st.sampled_from(self.whole())), as_=f"n{len(self.calls)}", other=True))
        self.fired("load_for_another")

    @precondition(lambda self: self.keeps_files and bool(self.whole() or self.whole(damaged=True)))
    @rule(data=data_)
    def spoil(self, data: st.DataObject) -> None:
        """Spoil a file and load it, or load one again that was spoilt before."""
        names = self.whole() or self.whole(damaged=True)
        self.spoil_and_load(data, data.draw(st.sampled_from(names)), f"n{len(self.calls)}")
        self.fired("spoil")

    @precondition(lambda self: self.keeps_files and self.roomy and bool(self.savable()))
    @rule(data=data_, how=st.sampled_from(hows), twice=st.booleans(), spoilt=st.booleans())
    def save_and_go_on(self, data: st.DataObject, how: str, twice: bool, spoilt: bool) -> None:
        """Save, let the source do something, load once or twice, and go on with all of them."""
        name, file = data.draw(st.sampled_from(self.savable())), data.draw(st.sampled_from(_NAMES))
        self.do(Save(on=name, as_=file))
        self.do(self._meanwhile(how, name))
        if spoilt:
            self.spoil_and_load(data, file, f"n{len(self.calls)}")
            self.do(LookAt(on=name))
            return
        made = [f"n{len(self.calls)}", f"n{len(self.calls)}.2"][: 2 if twice else 1]
        for one in made:
            self.do(Load(on=file, as_=one))
        for one in made:
            self.do(AppendDecode(on=one))
        self.do(AppendDecode(on=name))
        self.do(AppendWindow(length=2, on=made[-1]))
        self.do(LookAt(on=name))
        self.fired("save_and_go_on")

    def _meanwhile(self, how: str, name: str) -> Call:
        acts: dict[str, Call] = {
            "window": AppendWindow(length=3, on=name),
            "trim": Trim(n=1, on=name) if "trim" in self.can else LookAt(on=name),
            "reset": Reset(on=name) if "reset" in self.can else LookAt(on=name),
            "look": LookAt(on=name),
        }
        return acts.get(how, AppendDecode(on=name))

    @precondition(lambda self: self.keeps_files and self.layout and "rounds" in self.can)
    @rule(data=data_)
    def save_in_a_round(self, data: st.DataObject) -> None:
        """Save in an open round, end it, and save again."""
        name, file = self.on(data), data.draw(st.sampled_from(_NAMES))
        self.do(BeginRound(on=name))
        self.do(AppendDecode(on=name))
        self.do(Save(on=name, as_=file))
        self.do(RollBack(keep=(0,), on=name))
        self.do(Save(on=name, as_=file))
        if self.roomy:
            self.do(Load(on=file, as_=f"n{len(self.calls)}"))
        self.fired("save_in_a_round")


__all__ = ["FileRules", "KnowsFiles", "ResumeRules"]
