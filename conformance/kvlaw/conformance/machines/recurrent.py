"""The machine of recurrent layers: prefills, decodes, drafts, copies and rows that come and go, at any time.

In the layout profile also what our design refuses is asked: tensors that do not fit, ends of rounds that are not open,
rows that are not there, padding that cannot be.
"""

from typing import get_args

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from kvlaw.conformance.machines.file_rules import KnowsFiles
from kvlaw.conformance.machines.padding import padded
from kvlaw.conformance.machines.row_rules import prepare_of, some_rows
from kvlaw.reference.oracle import RecurrentModel
from kvlaw.spec.calls import (
    Advance,
    BeginRound,
    Call,
    Clone,
    CommitRound,
    Drop,
    Extract,
    Filter,
    Finalize,
    Load,
    LookAt,
    MakeCache,
    Merge,
    Prepare,
    Reset,
    RollBack,
    Save,
    SpoilFile,
    Spoilt,
    Trim,
)
from kvlaw.spec.config import LayerSpec

data_ = st.data()
LENGTHS = (1, 1, 1, 2, 3, 4, 5, 9)
FAR = 101
"""Positions that lead past what a small state might hold of them."""
MOST_ROWS = 5
CROWD = 8
_FILES = ("f1", "f2")


class RecurrentContractMachine(KnowsFiles):
    """Calls anything at any time."""

    optional = ("round", "clone", "reset", "trim", "rows", "padding", "wrong", "file")

    # Who is there.

    def things(self, *, rows: bool | None = None) -> list[str]:
        """List what advances; with ``rows`` groups alone, or caches alone."""
        found = {n: x for n, x in self.run_.oracle.world.items() if isinstance(x, RecurrentModel)}
        return [name for name, thing in found.items() if rows is None or thing.is_rows == rows]

    def found_again(self) -> bool:
        """Say whether there is a state to act on, behind a detour."""
        return bool(self.things())

    def thing(self, name: str) -> RecurrentModel:
        """Give what the oracle knows of an object."""
        found = self.run_.oracle.world.get(name)
        return found if isinstance(found, RecurrentModel) else RecurrentModel.empty(self.config.layer, 0)

    def ready(self, *, rows: bool | None = None) -> list[str]:
        """List what may advance by any design: it has rows."""
        return [name for name in self.things(rows=rows) if self.thing(name).count]

    def still(self, *, rows: bool | None = None) -> list[str]:
        """List what may be taken apart or put together by any design: no round is open, no padding to come."""
        return [n for n in self.ready(rows=rows) if not self.thing(n).in_round and not self.thing(n).pends]

    def one_of(self, data: st.DataObject, names: list[str]) -> str:
        """Draw one: mostly the first."""
        return data.draw(st.sampled_from([names[0], *names]))

    @property
    def roomy(self) -> bool:
        """The world is still small."""
        return not self.over and len(self.run_.oracle.world) < CROWD

    def may(self, use: str, *capabilities: str) -> bool:
        """This trace asks for a thing that the target can do; for rows only where a group was opened."""
        fits = use not in ("rows", "padding") or self.config.is_rows
        return not self.over and fits and use in self.used and self.can.issuperset(capabilities)

    # Positions.

    @precondition(lambda self: not self.over and bool(self.ready()))
    @rule(data=data_, again=st.integers(1, 3))
    def advance(self, data: st.DataObject, again: int) -> None:
        """Run some positions, in one step or several."""
        name = self.one_of(data, self.ready())
        for _ in range(again):
            self.do(Advance(length=data.draw(st.sampled_from(LENGTHS)), on=name))
        if data.draw(st.integers(0, 19), label="far") == 0:
            self.do(Advance(length=FAR, on=name))
        self.fired("advance")

    @precondition(lambda self: not self.over)
    @rule(data=data_, drop=st.integers(0, 5))
    def look(self, data: st.DataObject, drop: int) -> None:
        """Look at an object again, or let it go."""
        name = data.draw(st.sampled_from(list(self.run_.oracle.world)))
        self.do(Drop(on=name) if drop == 0 and name != "c0" else LookAt(on=name))
        self.fired("look")

    @precondition(lambda self: self.may("reset", "reset"))
    @rule(data=data_)
    def reset(self, data: st.DataObject) -> None:
        """Empty an object and go on."""
        name = self.one_of(data, self.things())
        self.do(Reset(on=name))
        if self.thing(name).count:
            self.do(Advance(length=data.draw(st.sampled_from(LENGTHS)), on=name))
        self.fired("reset")

    @precondition(lambda self: self.may("trim", "trim"))
    @rule(data=data_)
    def trim(self, data: st.DataObject) -> None:
        """Ask for what no state can do."""
        name = self.one_of(data, self.things())
        counts = [0, 1, 2, max(self.thing(name).furthest, 0), *((-1, 1.5) if self.layout else ())]
        self.do(Trim(n=data.draw(st.sampled_from(counts)), on=name))
        self.fired("trim")

    # Rounds.

    @precondition(lambda self: self.may("round", "rounds") and bool(self.still()))
    @rule(data=data_, pieces=st.lists(st.sampled_from(LENGTHS), min_size=1, max_size=7), copied=st.booleans())
    def draft_and_verify(self, data: st.DataObject, pieces: list[int], copied: bool) -> None:
        """Run drafts in a round, keep those that are accepted, and go on; now and then a copy ends it otherwise."""
        name = self.one_of(data, self.still())
        self.do(BeginRound(on=name))
        for length in pieces:
            self.do(Advance(length=length, on=name))
        self.amid(data, name)
        twin = self.fresh("t")
        if copied and "clone" in self.can and self.roomy:
            self.do(Clone(as_=twin, on=name))
        self.end(data, name)
        self.do(Advance(length=1, on=name))
        if twin in self.run_.oracle.world:
            self.end(data, twin)
            self.do(Advance(length=1, on=twin))
        self.fired("draft_and_verify")

    def amid(self, data: st.DataObject, name: str) -> None:
        """Do what seldom comes while padding or a round is pending: filter, copy, empty, or ask for what must wait."""
        act = data.draw(st.sampled_from(("", "filter", "clone", "reset", "wrong", "wrong")), label="amid")
        model, made = self.thing(name), self.fresh("m")
        wrong = [call for able, calls in self._forbidden(name).items() if able in self.can for call in calls]
        if act == "wrong" and self.layout and "wrong" in self.used:
            misfit = Advance(length=1, malformed=data.draw(st.sampled_from(("rank", "lengths"))), on=name)
            self.do(data.draw(st.sampled_from([*wrong, misfit, misfit, misfit])))
        elif act == "filter" and model.is_rows and model.count and "filter" in self.can:
            self.do(Filter(rows=some_rows(data, model.count, least=1), on=name))
        elif act == "clone" and "clone" in self.can and self.roomy:
            self.do(Clone(as_=made, on=name))
            self.do(Advance(length=2, on=made))
        elif act == "reset" and "reset" in self.can and data.draw(st.booleans()):
            self.do(Reset(on=name))
            self.do(Advance(length=2, on=name))

    @precondition(lambda self: self.may("round", "rounds") and bool(self.still()))
    @rule(data=data_)
    def begin(self, data: st.DataObject) -> None:
        """Open a round, and leave it open for whatever comes next."""
        self.do(BeginRound(on=self.one_of(data, self.still())))
        self.fired("begin")

    @precondition(lambda self: self.may("round", "rounds") and bool(self.open_ones()))
    @rule(data=data_)
    def close(self, data: st.DataObject) -> None:
        """End an open round."""
        self.end(data, self.one_of(data, self.open_ones()))
        self.fired("close")

    def open_ones(self) -> list[str]:
        """List what has an open round."""
        return [name for name in self.things() if self.thing(name).in_round]

    def end(self, data: st.DataObject, name: str) -> None:
        """End an open round: mostly take some of it back, of a group in each row as much as it likes."""
        model = self.thing(name)
        if self.over or not model.in_round:
            return
        told = model.is_rows and data.draw(st.booleans(), label="row by row")
        keeps = tuple(data.draw(st.integers(0, model.appended)) for _ in range(model.count if told else 1))
        self.do(CommitRound(on=name) if data.draw(st.integers(0, 4)) == 0 else RollBack(keep=keeps, on=name))

    # Copies and rows.

    @precondition(lambda self: self.may("clone", "clone") and self.roomy)
    @rule(data=data_, first=st.booleans())
    def clone(self, data: st.DataObject, first: bool) -> None:
        """Copy an object, and go on with one of the two."""
        name, made = self.one_of(data, self.things()), self.fresh("c")
        self.do(Clone(as_=made, on=name))
        one, other = (name, made) if first else (made, name)
        if self.thing(one).count:
            self.do(Advance(length=data.draw(st.sampled_from(LENGTHS)), on=one))
            self.do(LookAt(on=other))
        self.fired("clone")

    @precondition(lambda self: self.may("rows", "merge") and self.roomy and bool(self.still()))
    @rule(data=data_, new=st.booleans())
    def join(self, data: st.DataObject, new: bool) -> None:
        """Merge caches and groups, often with a new one, empty or not."""
        made, came = self.fresh("g"), self.fresh("s")
        if new and "rows" in self.can:
            self.do(MakeCache(as_=came))
            self.do(Advance(length=data.draw(st.sampled_from(LENGTHS)), on=came)) if data.draw(st.booleans()) else None
        names = data.draw(st.lists(st.sampled_from(self.still() or ["c0"]), min_size=1, max_size=3))
        if sum(self.thing(name).count for name in names) <= MOST_ROWS:
            self.do(Merge(sources=tuple(names), as_=made))
            if made in self.run_.oracle.world and data.draw(st.booleans()):
                self.do(Advance(length=1, on=made))
                self.do(LookAt(on=names[0]))
        self.fired("join")

    @precondition(lambda self: self.may("rows", "extract") and self.roomy and bool(self.still(rows=True)))
    @rule(data=data_)
    def leave(self, data: st.DataObject) -> None:
        """Take a row out, and go on with both."""
        name, made = self.one_of(data, self.still(rows=True)), self.fresh("e")
        self.do(Extract(row=data.draw(st.integers(0, self.thing(name).count - 1)), as_=made, on=name))
        if made in self.run_.oracle.world and data.draw(st.booleans()):
            self.do(Advance(length=1, on=made))
            self.do(Advance(length=1, on=name))
            self.do(LookAt(on=made))
        self.fired("leave")

    @precondition(lambda self: self.may("rows", "filter") and bool(self.ready(rows=True)))
    @rule(data=data_)
    def filter(self, data: st.DataObject) -> None:
        """Keep some rows, in any order; now and then while padding or a round is open."""
        name = self.one_of(data, self.ready(rows=True))
        rows = some_rows(data, self.thing(name).count, least=0 if self.layout and "empty_group" in self.can else 1)
        self.do(Filter(rows=rows, on=name))
        if rows:
            self.do(Advance(length=1, on=name))
        self.fired("filter")

    @precondition(lambda self: self.may("padding", "padding") and bool(self.still(rows=True)))
    @rule(data=data_, whole=st.booleans())
    def prefill(self, data: st.DataObject, whole: bool) -> None:
        """Run prompts of different lengths as one block of columns, in chunks; now and then stop on the way."""
        name = self.one_of(data, self.still(rows=True))
        left = "left_padding" in self.can and not self.thing(name).holds
        plan = data.draw(padded(self.thing(name).count, self.config.layer.kernel, left=left), label="padded")
        prepare = prepare_of(data, plan, name, left=left)
        if self.layout and data.draw(st.integers(0, 7), label="lengths alone") == 0:  # which end nothing (PAD-3)
            prepare = Prepare(lengths=plan.lengths, on=name)
        if self.layout or any((*plan.left, *plan.right)):  # lengths alone end nothing by our design
            self.do(prepare)
            self.amid(data, name)
        for chunk in plan.chunks if whole else plan.chunks[:1]:
            self.do(Advance(length=chunk, on=name))
            self.amid(data, name)
        if whole:
            self.do(Finalize(on=name))
            self.do(Advance(length=1, on=name))
        self.fired("prefill")

    @precondition(lambda self: self.may("padding", "left_padding") and bool(self.pads_left()))
    @rule(data=data_, ended=st.booleans())
    def pad_on_the_left(self, data: st.DataObject, ended: bool) -> None:
        """Announce left padding, in a group that is emptied if it must be, and do something before it is used."""
        name = self.one_of(data, self.pads_left())
        if self.thing(name).holds:
            self.do(Reset(on=name))
        pads = tuple(data.draw(st.integers(0, 3), label="left") for _ in range(self.thing(name).count))
        self.do(Prepare(left=pads, on=name))
        if ended:
            self.do(Finalize(on=name))
        self.amid(data, name)
        for _ in range(2):
            if self.thing(name).count:
                self.do(Advance(length=data.draw(st.sampled_from((1, 2, 3))), on=name))
        self.fired("pad_on_the_left")

    def pads_left(self) -> list[str]:
        """List the groups whose rows can be padded on the left: they hold no arrays, or can be emptied."""
        return [name for name in self.still(rows=True) if not self.thing(name).holds or "reset" in self.can]

    @precondition(lambda self: self.may("round", "rounds", "filter", "padding") and bool(self.several()))
    @rule(data=data_)
    def filter_in_a_round(self, data: st.DataObject) -> None:
        """Bring rows to different offsets, and change their order in a round."""
        name = self.one_of(data, self.several())
        lengths = tuple(data.draw(st.integers(0, 2), label="length") for _ in range(self.thing(name).count))
        self.do(Prepare(lengths=lengths, right=tuple(2 - length for length in lengths), on=name))
        self.do(Advance(length=2, on=name))
        self.do(Finalize(on=name))
        self.do(BeginRound(on=name))
        self.do(Advance(length=data.draw(st.integers(1, 3)), on=name))
        self.do(Filter(rows=some_rows(data, self.thing(name).count, least=1), on=name))
        self.end(data, name)
        self.do(Advance(length=1, on=name))
        self.fired("filter_in_a_round")

    def several(self) -> list[str]:
        """List the groups of several rows that are still."""
        return [name for name in self.still(rows=True) if self.thing(name).count > 1]

    @precondition(lambda self: self.may("padding", "padding") and any(self.thing(n).pends for n in self.things()))
    @rule(data=data_)
    def finalize(self, data: st.DataObject) -> None:
        """End a padded prefill, early or late."""
        self.do(Finalize(on=self.one_of(data, [n for n in self.things() if self.thing(n).pends])))
        self.fired("finalize")

    # Files.

    @precondition(lambda self: self.may("file", "files") and self.roomy and bool(self.still(rows=False)))
    @rule(data=data_, twice=st.booleans())
    def save_and_go_on(self, data: st.DataObject, twice: bool) -> None:
        """Save, go on, load once or twice, and go on with all of them."""
        name, file = self.one_of(data, self.still(rows=False)), data.draw(st.sampled_from(_FILES))
        self.do(Save(on=name, as_=file))
        self.do(Advance(length=data.draw(st.sampled_from(LENGTHS)), on=name))
        made = [f"n{len(self.calls)}", f"n{len(self.calls)}.2"][: 2 if twice else 1]
        for one in made:
            self.do(Load(on=file, as_=one))
        for one in (*made, name):
            self.do(Advance(length=data.draw(st.sampled_from(LENGTHS)), on=one))
        self.do(LookAt(on=made[0]))
        self.fired("save_and_go_on")

    @precondition(lambda self: self.may("file", "files") and self.roomy and bool(self.still(rows=False)))
    @rule(data=data_, other=st.booleans())
    def save_and_spoil(self, data: st.DataObject, other: bool) -> None:
        """Save, spoil the file or load it for another model; the cache goes on."""
        name, file = self.one_of(data, self.still(rows=False)), data.draw(st.sampled_from(_FILES))
        self.do(Save(on=name, as_=file))
        other = other and "fingerprint" in self.can
        if not other:
            self.do(SpoilFile(how=data.draw(st.sampled_from(self.damages)), on=file))
        self.do(Load(on=file, as_=self.fresh("n"), other=other))
        self.do(Advance(length=1, on=name))
        self.fired("save_and_spoil")

    # What our design refuses.

    @precondition(lambda self: self.layout and not self.over and "wrong" in self.used and bool(self.ready()))
    @rule(data=data_, how=st.sampled_from(get_args(Spoilt)))
    def spoilt(self, data: st.DataObject, how: Spoilt) -> None:
        """Run tensors that do not fit."""
        name = self.one_of(data, self.ready())
        if how in ("rank", "lengths", "empty") or self.thing(name).holds:
            self.do(Advance(length=data.draw(st.integers(1, 2)), malformed=how, on=name))
        self.fired("spoilt")

    @precondition(lambda self: self.layout and not self.over and "wrong" in self.used)
    @rule(data=data_)
    def forbidden(self, data: st.DataObject) -> None:
        """Ask for what is not there, or has to wait."""
        name = self.one_of(data, self.things())
        asks: list[Call] = [call for able, calls in self._forbidden(name).items() if able in self.can for call in calls]
        if asks:
            self.do(data.draw(st.sampled_from(asks)))
            self.fired("forbidden")

    def _forbidden(self, name: str) -> dict[str, list[Call]]:
        """List by capability what cannot be done with an object as it is now."""
        model = self.thing(name)
        count, most, made = model.count, model.appended, self.fresh("f")
        keeps = [(most + 1,), (-1,), (0,) * (count + 2)]
        waits = model.in_round or model.pends
        ends: list[Call] = [RollBack(keep=keep, on=name) for keep in keeps]
        ends += [BeginRound(on=name)] if waits else []
        ends += [] if model.in_round else [CommitRound(on=name)]
        found: dict[str, list[Call]] = {
            "rounds": ends,
            "files": [Save(as_=made, on=name)] if model.in_round and not model.is_rows else [],
            "merge": [Merge(sources=(name,), as_=made)] if waits and self.config.is_rows else [],
        }
        if not model.is_rows:
            return found
        ones, zeros = (1,) * count, (0,) * count
        gone = (-1, count, *((0,) if waits and count else ()))
        found["extract"] = [Extract(row=b, as_=made, on=name) for b in gone]
        found["filter"] = [Filter(rows=kept, on=name) for kept in ((-1,), (count,), *(((0, 0),) if count else ()))]
        found["padding"] = [
            Prepare(lengths=(*ones, 1), right=ones, on=name),
            *([Prepare(right=ones, on=name), Prepare(lengths=zeros, right=(-1, *ones[1:]), on=name)] if count else []),
            *([Prepare(lengths=ones, right=ones, on=name)] if waits and count else []),
        ]
        return found

    @precondition(
        lambda self: self.layout and self.config.is_rows and self.may("wrong", "rows", "merge") and self.roomy
    )
    @rule(data=data_)
    def misfit(self, data: st.DataObject) -> None:
        """Merge with a layer of another convolution, and append to a group without rows."""
        name, made = self.one_of(data, self.things()), self.fresh("o")
        if data.draw(st.booleans()):
            self.do(MakeCache(layer=LayerSpec("recurrent", conv=self.config.kernel + 1), as_=made))
            self.do(Merge(sources=(name, made), as_=self.fresh("g")))
        elif not self.thing(name).count:
            self.do(Advance(length=1, on=name))
        self.fired("misfit")


__all__ = ["RecurrentContractMachine"]
