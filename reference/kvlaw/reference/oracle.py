"""The oracle: what every call of a trace must answer, and which clauses ask for it.

It keeps a world of models by name. ``open`` and ``step`` give the ``Expectation`` of one call and move the world on. In
the ``layout`` profile the oracle knows one right answer. In ``core`` a cache of another design may choose (refuse a
trim or do it, refuse spoilt tensors or end the trace by accepting them): then the observed choice is judged first and
followed.

* ``judge``: calls on one cache, with ``states`` (what it shows) and ``trims``; ``lists``: calls on a list of layers.
* ``world``: what can stand under a name; ``citations``, ``refusals``: which clauses ask, and which refuse.
"""

from attrs import evolve

from kvlaw.reference.expectation import Expectation, Expected
from kvlaw.reference.files import Files, as_saved
from kvlaw.reference.group import Group
from kvlaw.reference.group_judge import GroupJudge
from kvlaw.reference.group_refusals import merge_refusal, pins_sinks
from kvlaw.reference.group_states import Context
from kvlaw.reference.judge import Judge
from kvlaw.reference.lists import Lists
from kvlaw.reference.membership import is_lone, merged
from kvlaw.reference.model import Model
from kvlaw.reference.recurrent_judge import RecurrentJudge
from kvlaw.reference.recurrent_model import RecurrentModel
from kvlaw.reference.recurrent_model import merged as merged_rows
from kvlaw.reference.recurrent_refusals import merge_refusal as recurrent_merge_refusal
from kvlaw.reference.reuse import Reuses
from kvlaw.reference.world import (
    HANDING,
    File,
    Handed,
    Layers,
    Profile,
    ReadModel,
    Seen,
    UnknownObjectError,
    WorldObject,
)
from kvlaw.spec.calls import (
    Append,
    Attend,
    Call,
    Clone,
    Drop,
    Extract,
    HandBack,
    Load,
    LookAt,
    MakeCache,
    Merge,
    OpenList,
    Publish,
    Reuse,
    Save,
    SpoilFile,
)
from kvlaw.spec.cite import clause
from kvlaw.spec.config import Config


class Oracle:
    """A world of models, and what each call on it must answer."""

    def __init__(self, profile: Profile = "layout") -> None:
        """Make an oracle of one profile; ``open`` it before the first step."""
        self.profile: Profile = profile
        self.world: dict[str, WorldObject] = {}
        self.acted: Model | Group | Layers | RecurrentModel | None = None
        self.reuses = Reuses(Judge(Config("full"), profile).states)
        self.judge = Judge(Config("full"), profile)
        self.lists, self.groups = Lists(self.judge), GroupJudge(Config("full_rows"), profile)
        self.recurrent = RecurrentJudge(Config("recurrent"), profile)

    @clause("POS-1", "ERR-6", "RING-14")
    def open(self, config: Config, seen: Seen | None = None) -> Expectation:
        """Make ``c0``; refuse an impossible configuration, or in ``core`` let each query at least see itself."""
        self.world, self.judge, self.acted = {}, Judge(config, self.profile), None
        self.reuses = Reuses(self.judge.states)
        self.lists, self.groups = Lists(self.judge), GroupJudge(config, self.profile)
        self.recurrent = RecurrentJudge(config, self.profile)
        if config.is_recurrent:
            return self._open_recurrent(config, seen)
        if config.problem is None and config.is_rows:
            self.world["c0"] = self.acted = group = Group.empty(config.layer, config.row_count)
            return self.groups.states.after(group, Context())
        if config.problem is None:
            self.world["c0"] = self.acted = model = Model.empty(config.layer)
            return Expectation(expected=self.judge.states.after(model, None))
        pinned = config.kind == "ring" and config.window is not None and config.sinks >= config.window >= 1
        policy = config.policy_problem is not None and config.ring_problem is None
        cited = ("RING-14", "ERR-6") if pinned else ("PREC-13", "ERR-6") if policy else ("ERR-6",)
        cited += ("ROWS-7",) if config.is_rows and 0 < config.sinks < (config.window or 0) else ()
        accepted = self.profile == "core" and seen is not None and seen.outcome == "ok"
        if accepted and pinned:
            self.world["c0"] = self.acted = Model.empty(config.layer, lenient=True)
            return Expectation(("ok", "refused"), ("RING-14",))
        if accepted and config.rows_problem is None and pins_sinks([config.layer]):
            self.world["c0"] = self.acted = Group.empty(config.layer, config.row_count)
            return Expectation(("ok", "refused"), ("ROWS-7",))
        return Expectation(("refused", "ok") if accepted else ("refused",), cited, ends=True)

    @clause("REC-1", "REC-15", "REC-17")
    def _open_recurrent(self, config: Config, seen: Seen | None) -> Expectation:
        if config.problem is None:
            count = config.row_count if config.is_rows else 1
            self.world["c0"] = self.acted = model = RecurrentModel.empty(config.layer, count)
            return self.recurrent.shows(model, None)
        accepted = self.profile == "core" and seen is not None and seen.outcome == "ok"
        return Expectation(("refused", "ok") if accepted else ("refused",), ("REC-15", "ERR-6"), ends=True)

    def step(self, call: Call, tokens: tuple[int, ...], seen: Seen | None = None) -> Expectation:
        """Give what ``call`` must answer, and move the world on; ``acted`` is then what it acted on, as it is now."""
        self.acted = None
        if isinstance(call, OpenList):
            expectation, self.acted = self.lists.opened(call)
            if self.acted is not None:
                self.world[call.as_] = self.acted
            return expectation
        if isinstance(call, Merge | MakeCache):
            return self._made(call, seen or Seen())
        target = self.find(call.on)
        if isinstance(call, Drop) and not isinstance(target, Model):
            self.world.pop(call.on)
            return Expectation()
        if isinstance(target, RecurrentModel):
            return self._on_recurrent(target, call, tokens, seen or Seen())
        if not isinstance(target, Model | Group | Layers):
            return self._on_handed(target, call, seen or Seen())
        if isinstance(call, Reuse) and not isinstance(target, Group):
            return self._reused(target, call, seen or Seen())
        if isinstance(call, Extract | HandBack) and isinstance(target, Group):
            return self._taken(target, call, seen or Seen())
        return self._acted(target, call, tokens, seen or Seen())

    def _acted(self, target: Model | Group | Layers, call: Call, tokens: tuple[int, ...], seen: Seen) -> Expectation:
        """Act on a cache, a group or a list, and name what was made."""
        if isinstance(target, Layers):
            expectation, after = self.lists.call(target, call, tokens, seen)
        elif isinstance(target, Group):
            expectation, after = self.groups.call(target, call, tokens, seen)
        else:
            expectation, after = self.judge.call(target, call, tokens, seen)
        if isinstance(call, Save):
            return self._saved(call, expectation, after, seen)
        if isinstance(call, Publish) and not isinstance(after, Group):
            expectation, after = self.reuses.published(after, call, expectation)
        self.world[call.on] = self.acted = after
        self._name(call, expectation, after)
        return expectation

    def _on_recurrent(self, target: RecurrentModel, call: Call, tokens: tuple[int, ...], seen: Seen) -> Expectation:
        """Act on a recurrent layer's cache or group, and name what was made."""
        if isinstance(call, Extract):
            expectation, made = self.recurrent.taken(target, call, seen)
            self.world[call.on] = target.with_relatives()
            if made is not None:
                self.world[call.as_] = self.acted = made
            return expectation
        if isinstance(call, Save):
            expectation = self.recurrent.saved(target, call, seen)
            self.acted = target
            if expectation.outcomes == ("ok",):
                self.world[call.as_] = File(target, call.on, target.version)
            return expectation
        expectation, after = self.recurrent.call(target, call, tokens, seen)
        self.world[call.on] = self.acted = after
        if isinstance(call, Clone) and "ok" in expectation.outcomes:
            self.world[call.as_] = after
        return expectation

    def _merged_rows(self, call: Merge, sources: tuple[RecurrentModel, ...], seen: Seen) -> Expectation:
        made = None if recurrent_merge_refusal(sources) else merged_rows(sources)
        expectation = self.recurrent.joined(sources, call, made, seen)
        if made is not None:
            for name in call.sources:
                source = self.world[name]
                if isinstance(source, RecurrentModel):
                    self.world[name] = source.with_relatives()
            self.world[call.as_] = self.acted = made
        return expectation

    @clause("ROWS-3", "ROWS-7", "ROWS-8")
    def _made(self, call: Merge | MakeCache, seen: Seen) -> Expectation:
        """Make a cache, or a group of what there is."""
        if isinstance(call, MakeCache):
            layer = call.layer or self.judge.config.layer.serial
            if layer.problem or layer.is_rows:
                return Expectation(("refused",), ("ERR-6",), ends=True)
            if layer.is_recurrent:
                self.world[call.as_] = self.acted = empty = RecurrentModel.empty(layer)
                return self.recurrent.shows(empty, None)
            self.world[call.as_] = self.acted = model = Model.empty(layer)
            return Expectation(expected=self.judge.states.after(model, None))
        held = tuple(map(self.find, call.sources))
        states = tuple(source for source in held if isinstance(source, RecurrentModel))
        if states and len(states) == len(held):
            return self._merged_rows(call, states, seen)
        if states:  # a state and columns
            return self.recurrent.joined(states, call, None, seen)
        sources = [self._source(name) for name in call.sources]
        cited = merge_refusal(sources, call, self.judge.config)
        accepted = self.profile == "core" and seen.outcome == "ok"
        pinned = accepted and cited == ("ROWS-7",) and pins_sinks([source.layer for source in sources])
        if cited and not pinned:
            return Expectation(
                ("ok", "refused") if accepted else ("refused",), () if accepted else cited, ends=accepted
            )
        if any(isinstance(source, Model) and source.row.floor for source in sources):
            return Expectation(("ok", "refused"), ends=True)  # positions may be gone that a row is owed
        for name, source in zip(call.sources, sources, strict=True):
            self.world[name] = source.was(related=True, joined_others=True)
        self.world[call.as_] = self.acted = group = merged(sources)
        if pinned:
            return Expectation(("ok", "refused"), ("ROWS-7",))
        context = Context(call, lone=is_lone(sources), bracket=group.prefilling)
        return evolve(self.groups.states.after(group, context), charged=("ROWS-3",))

    def _source(self, name: str) -> Model | Group:
        source = self.find(name)
        if not isinstance(source, Model | Group):
            raise UnknownObjectError(f"{name!r} is no cache and no group: it cannot be merged")
        return source

    def _taken(self, group: Group, call: Extract | HandBack, seen: Seen) -> Expectation:
        """Make a cache of one row; the group stays as it is."""
        expectation, model = self.groups.taken(group, call, seen)
        self.world[call.on] = group.was(related=True, lent=True)
        if model is not None:
            self.world[call.as_] = self.acted = model
        return expectation

    def find(self, name: str) -> WorldObject:
        """Give the object of that name, or raise ``UnknownObjectError``."""
        if name not in self.world:
            raise UnknownObjectError(
                f"nothing is called {name!r} here; there are {', '.join(self.world) or 'no objects'}"
            )
        return self.world[name]

    @clause("OWN-2", "OWN-3", "OWN-4", "OWN-5", "OWN-6", "OWN-10")
    def _name(self, call: Call, expectation: Expectation, after: Model | Group | Layers) -> None:
        """Put what a call made under its name, and let go of what it drops."""
        name = getattr(call, "as_", None)
        if isinstance(call, Drop):
            self.world.pop(call.on)
        if not name or "ok" not in expectation.outcomes:
            return
        if isinstance(call, Clone):
            self.world[name] = after
        elif isinstance(call, Append):
            self.world[name] = ReadModel(expectation, call.on, after.version)
        else:
            positions = ("OWN-10",) if isinstance(after, Group) and call.verb == "state" else ()
            self.world[name] = Handed((*HANDING[call.verb], *positions), expectation)

    def _reused(self, like: Model | Layers, call: Reuse, seen: Seen) -> Expectation:
        """Make what a prompt finds."""
        expectation, self.acted = self.reuses.reused(like, call, seen, self._versions())
        self.world[call.as_] = self.acted
        return expectation

    def _versions(self) -> dict[str, int]:
        """Count the acts of all caches and lists."""
        return {name: thing.version for name, thing in self.world.items() if isinstance(thing, Model | Layers)}

    @property
    def files(self) -> Files:
        """What files hold."""
        return Files(self.judge.states)

    @clause("PERS-3", "PERS-4", "PERS-5")
    def _saved(self, call: Save, shows: Expectation, thing: Model | Group | Layers, seen: Seen) -> Expectation:
        """Keep what a cache or a list holds under the name of a file; the saved one stays as it is."""
        if isinstance(thing, Group):
            raise UnknownObjectError(f"{call.on!r} is a group: its rows are saved one by one, as caches")
        kept = not shows.ends and "ok" in shows.outcomes
        expectation = self.files.saved(thing, shows, seen) if kept else shows
        layers = isinstance(thing, Layers)
        after = Layers(tuple(m.was(saved=True) for m in thing.models)) if layers else thing.was(saved=True)
        self.world[call.on] = self.acted = after
        if kept and expectation.outcomes == ("ok",):
            self.world[call.as_] = File(as_saved(thing), call.on, after.version)
        return expectation

    @clause("PERS-3", "PERS-4", "PERS-8")
    def _on_file(self, file: File, call: Call, seen: Seen) -> Expectation:
        """Load a file, spoil it, or look at it."""
        if isinstance(call, Load):
            owner = self.world.get(file.owner)
            moved = not isinstance(owner, Model | Layers) or owner.version != file.version
            if isinstance(file.holds, RecurrentModel):
                expectation, made = self.recurrent.loaded(file.holds, file.damage, call, seen)
            else:
                expectation, made = self.files.loaded(file, call, moved, seen)
            if made is not None:
                self.world[call.on] = evolve(file, loaded=True)
                self.world[call.as_] = self.acted = made
            return expectation
        if isinstance(call, SpoilFile) and file.damage is None:
            self.world[call.on] = evolve(file, damage=call.how)
        elif not isinstance(call, LookAt):
            spoilt = "a spoilt file" if file.damage else "a file"
            raise UnknownObjectError(f"{call.on!r} is {spoilt}: it cannot be asked to {call.verb}")
        return Expectation()

    @clause("OWN-1", "OWN-4", "OWN-5", "OWN-6", "READ-2", "READ-9")
    def _on_handed(self, target: ReadModel | Handed | File, call: Call, seen: Seen) -> Expectation:
        if isinstance(target, File):
            return self._on_file(target, call, seen)
        if isinstance(target, Handed) and isinstance(call, LookAt):
            again = tuple(
                evolve(e, clauses=target.clauses)
                for e in (target.shows.expected if target.shows else ())
                if e.field in ("dense_sights", "fetched", "mask_array")
            )
            form = target.shows.form if target.shows else "dense"
            return Expectation(expected=(Expected("handed", True, target.clauses), *again), form=form)
        if not isinstance(target, ReadModel) or not isinstance(call, Attend | LookAt):
            kind = "a read" if isinstance(target, ReadModel) else "a set of arrays that was handed out"
            raise UnknownObjectError(f"{call.on!r} is {kind}: it cannot be asked to {call.verb}")
        if isinstance(call, Attend) and call.malformed is not None:
            ends = self.profile == "core"
            return Expectation(("refused", "ok") if ends else ("refused",), ("READ-9",), ends=ends)
        return self._again(target)

    def _again(self, read: ReadModel) -> Expectation:
        owner = self.world.get(read.owner)
        moved = not isinstance(owner, Model | Group | Layers) or owner.version != read.version
        return self._reread(read.shows, ("OWN-1", "READ-2") if moved else ("READ-2",))

    def _reread(self, shows: Expectation, cited: tuple[str, ...]) -> Expectation:
        layers = tuple(self._reread(layer, cited) for layer in shows.layers)
        rows = tuple(self._reread(row, cited) for row in shows.rows)
        kept = (Expected("sights", shows.sights, cited), Expected("probes", None, cited)) if shows.sights else ()
        order = self.judge.states.layout_only(Expected("order", shows.order, cited)) if shows.sights else ()
        policy = self.judge.config.bits is not None and shows.sights
        form = (Expected("form", shows.form, ("PREC-4",)),) if policy else ()
        apart = tuple(e for e in shows.expected if e.field == "apart")
        return evolve(
            shows, outcomes=("ok",), charged=cited, expected=(*form, *kept, *order, *apart), layers=layers, rows=rows
        )


__all__ = [
    "File",
    "Group",
    "Handed",
    "Layers",
    "Oracle",
    "Profile",
    "ReadModel",
    "RecurrentModel",
    "Seen",
    "UnknownObjectError",
]
