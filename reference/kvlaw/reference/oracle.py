"""The oracle: what every call of a trace must answer, and which clauses ask for it.

It keeps a world of models by name. ``open`` and ``step`` give the ``Expectation`` of one call and move the world on. In
the ``layout`` profile the oracle knows one right answer. In ``core`` a cache of another design may choose (refuse a
trim or do it, refuse spoilt tensors or end the trace by accepting them): then the observed choice is judged first and
followed.
"""

from typing import Literal

from attrs import evolve, frozen

from kvlaw.reference.citations import layout_clauses, mask_clauses, offset_clauses, sight_clauses
from kvlaw.reference.expectation import Expectation, Expected
from kvlaw.reference.index import Full, can_trim, mask_kind
from kvlaw.reference.model import Model
from kvlaw.reference.refusals import is_open, refusal
from kvlaw.spec.calls import Append, Attend, Call, FetchDense, MakeMask, OpenList, Phase, Trim
from kvlaw.spec.cite import clause
from kvlaw.spec.config import Config
from kvlaw.spec.observations import Observation

Profile = Literal["core", "layout"]


class UnknownObjectError(ValueError):
    """A call on a name that nothing carries, or that carries something of another kind."""


@frozen
class ReadModel:
    """A read in the world: what it shows, whose it is, and which act of its owner made it."""

    shows: Expectation
    owner: str
    version: int


@frozen
class Handed:
    """Handed-out arrays in the world, and the clause that keeps them unchanged."""

    clauses: tuple[str, ...]
    shows: Expectation | None = None


@frozen
class Layers:
    """A list of layers in the world."""

    models: tuple[Model, ...]


WorldObject = Model | Layers | ReadModel | Handed


@frozen
class Seen:
    """What the subject did with a call, as far as the oracle follows it in ``core``.

    ``said`` is what ``can_trim`` had promised for the count asked for (None: nothing).
    """

    outcome: str = "ok"
    answer: int | None = None
    offset: int | None = None
    said: bool | None = None

    @classmethod
    def of(cls, observation: Observation, said: bool | None = None) -> "Seen":
        """Take the choice out of an observation."""
        offset = observation.state.offset if observation.state else None
        return cls(observation.outcome, observation.answer, offset, said)


class Oracle:
    """A world of models, and what each call on it must answer."""

    def __init__(self, profile: Profile = "layout") -> None:
        """Make an oracle of one profile; ``open`` it before the first step."""
        self.profile: Profile = profile
        self.world: dict[str, WorldObject] = {}
        self.config = Config("full")

    @clause("POS-1", "ERR-6", "RING-14")
    def open(self, config: Config, seen: Seen | None = None) -> Expectation:
        """Make ``c0``; refuse an impossible configuration, or in ``core`` let each query at least see itself."""
        self.config, self.world = config, {}
        if config.problem is None:
            self.world["c0"] = model = Model.empty(config.layer)
            return Expectation(expected=self._state(model, None))
        pinned = config.kind == "ring" and config.window is not None and config.sinks >= config.window >= 1
        cited = ("RING-14", "ERR-6") if pinned else ("ERR-6",)
        accepted = self.profile == "core" and seen is not None and seen.outcome == "ok"
        if accepted and pinned:
            self.world["c0"] = Model.empty(config.layer, lenient=True)
            return Expectation(("ok", "refused"), ("RING-14",))
        return Expectation(("refused", "ok") if accepted else ("refused",), cited, ends=True)

    def step(self, call: Call, tokens: tuple[int, ...], seen: Seen | None = None) -> Expectation:
        """Give what ``call`` must answer, and move the world on."""
        seen = seen or Seen()
        target = self.find(call.on) if not isinstance(call, OpenList) else None
        if isinstance(call, OpenList):
            return self._open_list(call)
        if isinstance(target, Layers):
            return self._on_layers(target, call, tokens, seen)
        if isinstance(target, Model):
            expectation, after = self._on_model(target, call, tokens, seen)
            self.world[call.on] = after
            return self._name(call, expectation, after)
        return self._on_handed(target, call)

    def find(self, name: str) -> WorldObject:
        """Give the object of that name, or raise ``UnknownObjectError``."""
        if name not in self.world:
            raise UnknownObjectError(
                f"nothing is called {name!r} here; there are {', '.join(self.world) or 'no objects'}"
            )
        return self.world[name]

    # Calls on one cache.

    def _on_model(self, model: Model, call: Call, tokens: tuple[int, ...], seen: Seen) -> tuple[Expectation, Model]:
        if is_open(model, call):
            return Expectation(("ok", "refused"), ends=True), model
        if isinstance(call, Trim) and self.profile == "core" and not model.lenient:
            return self._core_trim(model, call, seen)
        if cited := refusal(model, call):
            return self._refused(model, call, cited, seen)
        if call.appends:
            return self._append(model, call, tokens)
        if isinstance(call, MakeMask):
            return self._mask(model, call), model
        if isinstance(call, Trim):
            return self._trimmed(model, call, int(call.n))
        if call.verb == "reset":
            fresh = Model.empty(model.layer, model.lenient).was(reset=True, dropped=frozenset(model.row.tokens))
            after = evolve(fresh, version=model.version + 1)
            return Expectation(expected=self._state(after, call)), after
        if call.verb == "clone":
            model = model.was(related=True)
        return Expectation(expected=self._state(model, call)), model

    @clause("ERR-1", "ERR-2", "ERR-3", "ERR-4", "ERR-5", "ERR-7", "MASK-13", "TRIM-7", "TRIM-12")
    def _refused(self, model: Model, call: Call, cited: tuple[str, ...], seen: Seen) -> tuple[Expectation, Model]:
        after = model.was(refused=True)
        if self.profile == "core" and seen.outcome == "ok":
            return Expectation(("ok", "refused"), ends=True), after
        return Expectation(("refused",), cited, expected=self._unchanged(after, cited)), after

    @clause("POS-2", "POS-3", "READ-1", "READ-5", "READ-6", "READ-7", "READ-8", "VIS-3", "VIS-5", "VIS-7", "VIS-8")
    def _append(self, model: Model, call: Call, tokens: tuple[int, ...]) -> tuple[Expectation, Model]:
        phase: Phase = "decode" if call.verb == "decode" or (call.verb == "dense" and call.appends == 1) else "window"
        argument = getattr(call, "window", None)
        after, plan = model.appended(phase, tokens, bool(getattr(call, "unread", False)))
        sights = after.sights(len(tokens), argument)
        fetched = tuple(after.slots[column] for column in plan.fetch)
        sets = [frozenset(sight.allowed) for sight in sights]
        order = tuple(tuple(t for t in fetched if t in ids) for ids in sets)
        expected = self._state(after, call, layout_clauses(model, call, phase))
        expectation = Expectation(
            charged=("POS-2",),
            sights=sights,
            order=order,
            fetched=fetched,
            live_before=model.row.tokens,
            live=after.row.tokens,
        )
        if not getattr(call, "unread", False):
            expected += self._read(model, after, call, phase, expectation)
        kind = mask_kind(model.state, len(tokens), phase, argument) if self.profile == "layout" else None
        return evolve(expectation, expected=expected, mask=kind), after

    @clause(
        "MASK-1", "MASK-11", "GROW-4", "GROW-8", "VIS-4", "VIS-6", "VIS-10", "RING-1", "RING-11", "RING-12", "TRIM-8"
    )
    def _read(self, model: Model, after: Model, call: Call, phase: Phase, shows: Expectation) -> tuple[Expected, ...]:
        cited = sight_clauses(model, after, call, phase, self.config)
        if isinstance(call, FetchDense):
            cited = ("READ-6", *(c for c in cited if c not in ("VIS-1", "VIS-2", "VIS-5", "VIS-8")))
            dense = [Expected("dense_sights", shows.sights, cited)]
            return tuple(dense + self._layout_only(Expected("fetched", shows.fetched, ("READ-7", "VIS-7"))))
        argument, array = getattr(call, "window", None), bool(getattr(call, "array", False))
        read = [Expected("sights", shows.sights, cited), Expected("mask_width", len(shows.sights), ("MASK-1",))]
        read.append(Expected("probes", None, ("READ-3", "READ-4")))
        kind = "array" if array else mask_kind(model.state, len(shows.sights), phase, argument)
        mask = mask_clauses(model, phase, argument, array)
        if array:
            read.append(Expected("mask", kind, mask))
        else:
            read += self._layout_only(Expected("mask", kind, mask))
        return tuple(read + self._layout_only(Expected("order", shows.order, ("VIS-7",))))

    @clause("MASK-2", "MASK-3", "MASK-5", "MASK-6", "MASK-7", "MASK-10", "MASK-12", "POS-5")
    def _mask(self, model: Model, call: MakeMask) -> Expectation:
        kind = mask_kind(model.state, call.length, call.phase, call.window)
        kind = "array" if call.array else kind
        cited = mask_clauses(model, call.phase, call.window, call.array)
        expected = self._state(model, call)
        layout = self._layout_only(
            Expected("mask", kind, cited), Expected("mask_array", self._matrix(model, call), cited)
        )
        return Expectation(charged=cited, expected=(*expected, *layout), mask=kind)

    def _matrix(self, model: Model, call: MakeMask) -> tuple[tuple[bool, ...], ...]:
        """Work out what the next append's queries see of its fetch, by trying it: the law, not a mask formula."""
        fresh = tuple(-1 - i for i in range(call.length))
        after, plan = model.appended(call.phase, fresh, unread=True)
        sights = after.sights(call.length, call.window)
        return tuple(tuple(after.slots[c] in set(sight.allowed) for c in plan.fetch) for sight in sights)

    @clause("TRIM-1", "TRIM-2", "TRIM-3", "TRIM-10", "TRIM-11", "POS-4")
    def _trimmed(self, model: Model, call: Trim, count: int) -> tuple[Expectation, Model]:
        after = model.trimmed(count, call.bypass)
        cited = ("TRIM-11",) if call.bypass and model.layer.window is not None else self._trim_clauses(model, count)
        expected = (*self._state(after, call, cited), Expected("answer", count, ("TRIM-3", *cited)))
        return Expectation(charged=("TRIM-5", *cited), expected=expected, answer=count), after

    @staticmethod
    def _trim_clauses(model: Model, count: int) -> tuple[str, ...]:
        if count == 0:
            return ("TRIM-10",)
        return ("TRIM-1",) if model.layer.window is None else ("TRIM-2",)

    @clause("TRIM-3", "TRIM-4", "TRIM-5", "TRIM-9")
    def _core_trim(self, model: Model, call: Trim, seen: Seen) -> tuple[Expectation, Model]:
        """Judge a trim by what it answered: exactly that many positions are gone, or none (TRIM-3)."""
        if type(call.n) is not int:
            return self._refused(model, call, ("ERR-5",), seen)
        said = None if call.bypass else seen.said  # can_trim speaks of plain trims only
        dropped = self._answer(model, seen)
        legal = 0 <= dropped <= min(max(call.n, 0), model.offset)
        if seen.outcome != "ok" or dropped == 0:
            promised = bool(said) and call.n > 0
            outcomes = ("ok",) if promised and seen.outcome != "ok" else ("ok", "refused")
            answer = Expected("answer", call.n, ("TRIM-5",)) if promised else None
            after = model.was(refused=True)
            expected = self._unchanged(after, ("TRIM-9" if call.n < 0 else "TRIM-3" if call.n else "TRIM-10",))
            return Expectation(outcomes, ("TRIM-5",), expected=(*expected, *((answer,) if answer else ()))), after
        if not legal:
            cited = ("TRIM-9",) if call.n < 0 else ("TRIM-3",)
            return Expectation(("ok",), expected=(Expected("answer", min(max(call.n, 0), model.offset), cited),)), model
        if said is False:
            return Expectation(("refused",), ("TRIM-4",), expected=(Expected("answer", 0, ("TRIM-4",)),)), model
        if said and dropped != call.n:
            return Expectation(("ok",), expected=(Expected("answer", call.n, ("TRIM-5",)),)), model
        after = model.trimmed(dropped)
        expected = self._state(after, call, self._trim_clauses(model, dropped))
        honest = (
            Expected(
                "answer", dropped, ("TRIM-3", *(("TRIM-5",) if said else ()), *self._trim_clauses(model, dropped))
            ),
        )
        return Expectation(("ok",), expected=(*expected, *honest), answer=dropped), after

    @staticmethod
    def _answer(model: Model, seen: Seen) -> int:
        if seen.outcome != "ok":
            return 0
        if seen.answer is not None:
            return seen.answer
        return model.offset - (model.offset if seen.offset is None else seen.offset)

    # States.

    @clause(
        "POS-6",
        "GROW-1",
        "GROW-2",
        "GROW-3",
        "GROW-5",
        "GROW-6",
        "GROW-7",
        "RING-8",
        "RING-9",
        "ID-1",
        "ID-2",
        "ID-3",
        "ID-4",
    )
    def _state(self, model: Model, call: Call | None, held: tuple[str, ...] = ()) -> tuple[Expected, ...]:
        """Give what a cache shows after a call that was carried out."""
        cited = offset_clauses(model, call)
        if call is not None and call.verb == "trim":
            cited = (*held, *cited) if "TRIM-10" in held else (*cited, *held)
        state = [Expected("offset", model.offset, cited)]
        if model.lenient:
            return tuple(state)
        context = ("OWN-7",) if call is not None and call.verb == "reset" else ()
        state += self._bytes(model, context)
        if self.profile == "core":
            return tuple(state)
        state.append(Expected("size", model.live, (*context, "POS-6")))
        state.append(Expected("identity", model.layer.identity, ("ID-1", "ID-3") if call is None else ("ID-2", "ID-1")))
        state.append(Expected("storage", "dense", ("ID-4",)))
        flags = tuple(can_trim(model.state, n) for n in range(model.offset + 2))
        state.append(Expected("can_trim", flags, ("TRIM-6",)))
        return tuple(state + self._columns(model, call, held))

    def _bytes(self, model: Model, context: tuple[str, ...]) -> list[Expected]:
        row_bytes = self.config.batch * self.config.token_bytes
        state = [Expected("nbytes_min", model.needed * row_bytes, (*context, "GROW-6"))]
        if model.layer.window is not None:
            most = 2 * model.layer.window + model.past.longest + 512
            state.append(Expected("nbytes_max", most * row_bytes, ("RING-8",)))
        if self.profile == "layout":
            state.append(Expected("nbytes_per_column", row_bytes, ("GROW-7",)))
            state.append(Expected("bytes_per_token", self.config.token_bytes if model.slots else 0, ("GROW-5",)))
        return state

    @clause("RING-2", "RING-3", "RING-4", "RING-5", "RING-6", "RING-7", "RING-10", "RING-13", "RING-15", "OWN-9")
    def _columns(self, model: Model, call: Call | None, held: tuple[str, ...]) -> list[Expected]:
        context = {"reset": ("OWN-9",), "clone": ("OWN-2",), "mask": ("MASK-12",)}.get(call.verb, ()) if call else ()
        related = ("OWN-3",) if model.past.related and not context else ()
        if isinstance(model.state, Full):
            slots = model.slots[: model.offset]
            bound = [Expected("columns_max", model.past.peak + 256, ("GROW-3",))]
            growth = ("GROW-2",) if model.past.grew else ()
            return [*bound, Expected("held", slots, (*context, *held, *growth, *related, "GROW-1"))]
        cited = (*context, *held, *related) or ("RING-2",)
        exact = [
            Expected("columns", model.state.columns, (*context, *(("RING-7",) if "RING-7" in held else ()), "RING-9"))
        ]
        return [*exact, Expected("held", model.slots, cited), Expected("write_index", model.state.write_index, cited)]

    def _unchanged(self, model: Model, cited: tuple[str, ...]) -> tuple[Expected, ...]:
        """Give what a cache shows after a call that was refused: what it showed before (ERR-1)."""
        first = tuple(c for c in cited if c in ("TRIM-10", "TRIM-13", "ERR-8"))
        own = tuple(c for c in cited if c in ("TRIM-3", "TRIM-4", "TRIM-9"))
        state = self._state(model, None)
        return tuple(
            evolve(e, clauses=(*first, "ERR-1", *own)) if e.field in ("offset", "held", "write_index", "columns") else e
            for e in state
        )

    def _layout_only(self, *expected: Expected) -> list[Expected]:
        return list(expected) if self.profile == "layout" else []

    # Other objects.

    @clause("OWN-2", "OWN-3", "OWN-4", "OWN-5", "OWN-6")
    def _name(self, call: Call, expectation: Expectation, after: Model) -> Expectation:
        """Put what a call made under its name, and let go of what it drops."""
        if "refused" in expectation.outcomes and "ok" not in expectation.outcomes:
            return expectation
        name = getattr(call, "as_", None)
        if call.verb == "drop":
            self.world.pop(call.on)
        elif call.verb == "clone" and name:
            self.world[name] = after
        elif name and isinstance(call, Append):
            self.world[name] = ReadModel(expectation, call.on, after.version)
        elif name:
            kept = {"state": ("OWN-4",), "dense": ("OWN-5",), "mask": ("OWN-6",)}[call.verb]
            self.world[name] = Handed(kept, expectation)
        return expectation

    @clause("OWN-1", "READ-2", "READ-9")
    def _on_handed(self, target: ReadModel | Handed | WorldObject | None, call: Call) -> Expectation:
        if call.verb == "drop":
            self.world.pop(call.on)
            return Expectation()
        if isinstance(target, Handed) and call.verb == "look":
            return Expectation(expected=(Expected("handed", True, target.clauses),))
        if not isinstance(target, ReadModel) or call.verb not in ("attend", "look"):
            raise UnknownObjectError(f"{call.on!r} cannot be asked to {call.verb}")
        if isinstance(call, Attend) and call.malformed is not None:
            ends = self.profile == "core"
            return Expectation(("refused", "ok") if ends else ("refused",), ("READ-9",), ends=ends)
        return self._again(target)

    def _again(self, read: ReadModel) -> Expectation:
        owner = self.world.get(read.owner)
        moved = not isinstance(owner, (Model, Layers)) or self.version_of(owner) != read.version
        cited = ("OWN-1", "READ-2") if moved else ("READ-2",)
        return self._reread(read.shows, cited)

    def _reread(self, shows: Expectation, cited: tuple[str, ...]) -> Expectation:
        layers = tuple(self._reread(layer, cited) for layer in shows.layers)
        kept = [Expected("sights", shows.sights, cited), Expected("probes", None, cited)] if shows.sights else []
        order = self._layout_only(Expected("order", shows.order, cited)) if shows.sights else []
        return evolve(shows, outcomes=("ok",), charged=cited, expected=(*kept, *order), layers=layers)

    @staticmethod
    def version_of(owner: Model | Layers) -> int:
        """Count the acts on a cache or a list."""
        return owner.version if isinstance(owner, Model) else sum(m.version for m in owner.models)

    # Lists of layers.

    @clause("POS-7", "TRIM-13", "TRIM-14", "ERR-8")
    def _open_list(self, call: OpenList) -> Expectation:
        if problems := [layer.problem for layer in call.layers if layer.problem]:
            return Expectation(("refused",), ("ERR-6",), ends=bool(problems))
        self.world[call.as_] = layers = Layers(tuple(Model.empty(layer) for layer in call.layers))
        inner = tuple(Expectation(expected=self._state(m, None)) for m in layers.models)
        return Expectation(layers=inner, expected=self._list_state(layers))

    def _on_layers(self, target: Layers, call: Call, tokens: tuple[int, ...], seen: Seen) -> Expectation:
        if call.verb == "drop":
            self.world.pop(call.on)
            return Expectation()
        if isinstance(call, Trim):
            expectation, models = self._trim_layers(target, call, seen)
        else:
            expectation, models = self._call_layers(target, call, tokens, seen)
        self.world[call.on] = after = Layers(models)
        expectation = evolve(
            expectation, expected=(*expectation.expected, *self._list_state(after, expectation.charged))
        )
        name = getattr(call, "as_", None)
        if name and "ok" in expectation.outcomes:
            is_read = isinstance(call, Append)
            made = (
                ReadModel(expectation, call.on, self.version_of(after))
                if is_read
                else after
                if call.verb == "clone"
                else None
            )
            self.world[name] = made or Handed({"state": ("OWN-4",), "dense": ("OWN-5",), "mask": ("OWN-6",)}[call.verb])
        return expectation

    def _call_layers(
        self, target: Layers, call: Call, tokens: tuple[int, ...], seen: Seen
    ) -> tuple[Expectation, tuple[Model, ...]]:
        refusing = [cited for m in target.models if (cited := refusal(m, call))]
        if any(is_open(m, call) for m in target.models):
            return Expectation(("ok", "refused"), ends=True), target.models
        if refusing:
            cited = ("ERR-8", *refusing[0])
            results = [self._refused(m, call, cited, seen) for m in target.models]
            ends = self.profile == "core" and seen.outcome == "ok"
            inner = tuple(e for e, _ in results)
            return Expectation(("refused", "ok") if ends else ("refused",), cited, layers=inner, ends=ends), tuple(
                m for _, m in results
            )
        results = [self._on_model(m, call, tokens, seen) for m in target.models]
        return Expectation(layers=tuple(e for e, _ in results)), tuple(m for _, m in results)

    def _trim_layers(self, target: Layers, call: Trim, seen: Seen) -> tuple[Expectation, tuple[Model, ...]]:
        able = all(not refusal(m, call) for m in target.models)
        if self.profile == "layout":
            if not able:
                inner = [self._refused(m, call, ("TRIM-13", "TRIM-7"), seen) for m in target.models]
                return Expectation(("refused",), ("TRIM-13", "ERR-8"), layers=tuple(e for e, _ in inner)), tuple(
                    m for _, m in inner
                )
            done = [self._trimmed(m, call, int(call.n)) for m in target.models]
            return Expectation(
                layers=tuple(e for e, _ in done), expected=(Expected("answer", call.n, ("TRIM-13",)),)
            ), tuple(m for _, m in done)
        first = target.models[0]
        judged, _ = self._core_trim(first, call, seen)
        dropped = judged.answer or 0
        models = tuple(m.trimmed(dropped) if dropped else m for m in target.models)
        inner = tuple(
            Expectation(judged.outcomes, expected=(Expected("offset", m.offset, ("TRIM-13", "POS-7")),)) for m in models
        )
        kept = tuple(evolve(e, clauses=("TRIM-13", *e.clauses)) for e in judged.expected if e.field == "answer")
        return evolve(judged, expected=kept, layers=inner), models

    def _list_state(self, layers: Layers, charged: tuple[str, ...] = ()) -> tuple[Expected, ...]:
        refused = tuple(c for c in charged if c in ("ERR-8", "TRIM-13"))
        offsets = Expected("offset", layers.models[0].offset, (*refused, "POS-7"))
        return offsets, Expected("layers_can_trim", None, ("TRIM-14",))


__all__ = ["Handed", "Layers", "Oracle", "Profile", "ReadModel", "Seen", "UnknownObjectError"]
