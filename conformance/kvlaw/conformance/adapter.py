"""From an adapter to a Subject: the world of named objects, and one observation per call.

``AdapterSubject`` keeps what the calls of a trace make (caches, lists of layers, reads, handed-out arrays), carries a
call out through its ``Adapter`` (``interface``) and shows what there is to see. Every call is guarded (``guard``):
whatever the cache does, the answer is an observation. A refused call shows the state that it left behind; a spoilt call
or a trim by no whole number that is carried out all the same shows nothing, since nothing is known of what it should
show.
"""

from typing import Any

import numpy.typing as npt
from attrs import define, evolve, field

from kvlaw.conformance.adapter_groups import GroupCalls
from kvlaw.conformance.adapter_world import (
    FileCalls,
    Giver,
    HeldArrays,
    HeldFile,
    HeldGroup,
    HeldList,
    HeldRead,
    ReuseCalls,
    is_of_round,
    phase_of,
    take_round,
)
from kvlaw.conformance.demands import Demands, Terms
from kvlaw.conformance.guard import Patience
from kvlaw.conformance.interface import Adapter, NonsenseError, UnsupportedError
from kvlaw.conformance.views import Views, count, pair
from kvlaw.spec.calls import (
    Advance,
    Append,
    Attend,
    Call,
    Clone,
    Drop,
    FetchDense,
    Load,
    LookAt,
    MakeCache,
    MakeMask,
    Malformed,
    Merge,
    OpenList,
    Publish,
    Reset,
    Reuse,
    Save,
    SpoilFile,
    TakeState,
    Trim,
)
from kvlaw.spec.config import Config, LayerSpec
from kvlaw.spec.observations import Observation, Payload, ReadView, StateView


@define
class AdapterSubject:
    """A Subject made of an adapter; ``seconds`` bounds every call."""

    adapter: Adapter
    seconds: float = 10.0
    name: str = "py"
    world: dict[str, Any] = field(factory=dict[str, Any])
    layers: dict[str, tuple[LayerSpec, ...]] = field(factory=dict[str, tuple[LayerSpec, ...]])
    """Of what configurations the caches and lists of the world, and what was saved of them, are."""
    views: Views = field(init=False, repr=False)
    patience: Patience = field(init=False, repr=False)
    giver: Giver = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        """Show things as the adapter does, and wait for it as long as was said."""
        self.views, self.patience = Views(self.adapter), Patience(self.seconds)
        self.giver = Giver(self.adapter)

    @property
    def groups(self) -> GroupCalls:
        """Calls on groups, in the world as it is."""
        return GroupCalls(self.adapter, self.views, self.giver, self.world)

    @property
    def demands(self) -> Demands:
        """What the adapter can be asked."""
        return Demands(self.capabilities, self.terms)

    @property
    def capabilities(self) -> frozenset[str]:
        """What the adapter can do and show."""
        return self.adapter.capabilities

    @property
    def terms(self) -> Terms:
        """With what the adapter is checked."""
        return Terms.of(self.adapter)

    def open(self, config: Config) -> Observation:
        """Forget everything and make ``c0``."""
        self.world, self.layers = {}, {"c0": (config.layer,)}
        self.adapter.config = config
        self.adapter.empty_store()
        return self.patience.guarded(lambda: self._opened(config))

    def close(self) -> None:
        """Let go of everything."""
        self.world = {}

    def apply(self, call: Call, payload: Payload | None, look: bool) -> Observation:
        """Carry out one call."""
        observation = self.patience.guarded(lambda: self._apply(call, payload or Payload(), look))
        self._note_layers(call)
        if observation.refused and look:
            return self.patience.guarded(lambda: self._left_by(call, observation))
        return observation

    def _opened(self, config: Config) -> Observation:
        layer = config.layer
        self.demands.check_opening(config)
        if config.is_rows:
            if config.rows_problem:
                raise NonsenseError(config.rows_problem)
            self.world["c0"] = held = HeldGroup(self.adapter.build_rows(layer, config.row_count))
            return self.groups.shown(held.group, look=True)
        self.world["c0"] = cache = self._made(layer)
        return Observation(state=self._state(cache, look=True))

    def _made(self, layer: LayerSpec) -> Any:
        self.demands.check_layer(layer)
        return self.adapter.build(layer)

    def _note_layers(self, call: Call) -> None:
        """Remember of what configurations that is which a call has made."""
        made = getattr(call, "as_", None)
        if isinstance(call, OpenList):
            self.layers[call.as_] = call.layers
        elif isinstance(call, MakeCache):
            self.layers[call.as_] = (call.layer or self.adapter.config.layer.serial,)
        elif made and call.on in self.layers:
            self.layers[made] = self.layers[call.on]

    def _left_by(self, call: Call, refused: Observation) -> Observation:
        """Add the state that a refused call left behind (ERR-1)."""
        target = self.world.get(call.on)
        if target is None or isinstance(target, HeldRead | HeldArrays | HeldFile) or isinstance(call, _MAKING):
            return refused
        if isinstance(target, HeldGroup):
            return evolve(self.groups.shown(target.group, look=True), outcome="refused", message=refused.message)
        if isinstance(target, HeldList):
            return evolve(self._layers(target.caches, look=True), outcome="refused", message=refused.message)
        return evolve(refused, state=self._state(target, look=True))

    def _state(self, cache: Any, look: bool) -> StateView | None:
        return self.views.state(cache) if look else None

    # One call.

    def _apply(self, call: Call, payload: Payload, look: bool) -> Observation:
        self.demands.check_call(call)
        if isinstance(call, OpenList | Merge | MakeCache):
            return self._making(call, look)
        if call.on not in self.world:
            raise NonsenseError(f"nothing is called {call.on!r} in the target's world")
        if isinstance(call, Drop):
            del self.world[call.on]
            return Observation()
        target = self.world[call.on]
        if isinstance(target, HeldRead):
            return self._again(target, call, payload, look)
        if isinstance(target, HeldArrays):
            return Observation(arrays=self._copies(target)) if look else Observation()
        if isinstance(target, HeldFile):
            return self._on_file(target, call, look)
        if isinstance(call, Publish | Reuse) and not isinstance(target, HeldGroup):
            return self._for_reuse(target, call, payload, look)
        if isinstance(target, HeldList):
            return self._on_list(target.caches, call, payload, look)
        if isinstance(target, HeldGroup):
            return self.groups.call(target.group, call, payload, look)
        return self._on_cache(target, call, payload, look)

    def _making(self, call: OpenList | Merge | MakeCache, look: bool) -> Observation:
        if isinstance(call, OpenList):
            layers = [self._made(layer) for layer in call.layers]
            self.world[call.as_] = HeldList(layers)
            return self._layers(layers, look)
        if isinstance(call, Merge):
            return self.groups.merged(call, look)
        self.world[call.as_] = cache = self._made(call.layer or self.adapter.config.layer.serial)
        return Observation(state=self._state(cache, look))

    def _on_file(self, held: HeldFile, call: Call, look: bool) -> Observation:
        if isinstance(call, SpoilFile):
            self.adapter.damage(held.file, call.how)
        elif isinstance(call, Load):
            made = FileCalls(self.adapter, self.world).loaded(held, call)
            shown = self._layers(made.caches, look) if isinstance(made, HeldList) else None
            return shown or Observation(state=self._state(made, look))
        elif not isinstance(call, LookAt):
            raise UnsupportedError(f"a file cannot be asked to {call.verb}")
        return Observation()

    def _for_reuse(self, target: Any, call: Publish | Reuse, payload: Payload, look: bool) -> Observation:
        store, answer, shown = ReuseCalls(self.adapter, self.world), None, target
        if isinstance(call, Publish):
            store.published(target, call, payload)
        else:
            shown, answer = store.reused(target, call, lambda: [self._made(x) for x in self.layers[call.on]])
        if isinstance(shown, HeldList):
            return evolve(self._layers(shown.caches, look), answer=answer)
        return Observation(answer=answer, state=self._state(shown, look))

    def _on_cache(self, cache: Any, call: Call, payload: Payload, look: bool) -> Observation:
        if isinstance(call, Append):
            return self._append(cache, call, payload, look)
        if isinstance(call, Advance):
            return self._advance(cache, call, payload, look)
        if isinstance(call, FetchDense):
            return self._dense(cache, call, payload, look)
        if isinstance(call, MakeMask):
            return self._mask(cache, call, look)
        if isinstance(call, Trim):
            return self._trimmed(cache, call, look)
        if isinstance(call, Clone):
            self.world[call.as_] = twin = self.adapter.clone(cache)
            return Observation(state=self._state(twin, look))
        if isinstance(call, TakeState):
            self.world[call.as_] = held = HeldArrays(dict(self.adapter.state(cache)))
            return Observation(arrays=self.views.arrays(held.arrays) if look else None, state=self._state(cache, look))
        self._change(cache, call)
        return Observation(state=self._state(cache, look))

    def _change(self, cache: Any, call: Call) -> None:
        if isinstance(call, Reset):
            self.adapter.reset(cache)
        elif isinstance(call, Save):
            FileCalls(self.adapter, self.world).saved(cache, call)
        elif is_of_round(call):
            adapter = self.adapter
            take_round(call, cache, adapter.begin_round, adapter.commit_round, adapter.roll_back)
        elif not isinstance(call, LookAt):
            raise UnsupportedError(f"a cache cannot be asked to {call.verb}")

    def _append(self, cache: Any, call: Append, payload: Payload, look: bool) -> Observation:
        keys, values = self.giver.tensors(payload)
        read = self.adapter.append(cache, keys, values, phase_of(call), call.window, call.array)
        self.giver.spend(keys, values)
        if call.as_:
            self.world[call.as_] = HeldRead((read,), payload, known=call.verb == "known")
        if call.malformed is not None:
            return Observation()
        shown = self.views.read(read, payload, call.verb == "known") if look and not call.unread else None
        return Observation(read=shown, state=self._state(cache, look))

    def _advance(self, cache: Any, call: Advance, payload: Payload, look: bool) -> Observation:
        step = self.giver.step(payload)
        outputs = self.adapter.advance(cache, step)
        self.giver.spend_step(step)
        if not look or call.malformed is not None:
            return Observation()
        return Observation(read=self.views.outputs(outputs), state=self._state(cache, look))

    def _dense(self, cache: Any, call: FetchDense, payload: Payload, look: bool) -> Observation:
        keys, values = self.giver.tensors(payload)
        handed = pair(self.adapter.fetch_dense(cache, keys, values))
        self.giver.spend(keys, values)
        arrays: dict[str, Any] = {"keys": handed[0], "values": handed[1]}
        if call.as_:
            self.world[call.as_] = HeldArrays(arrays)
        if not look or call.malformed is not None:
            return Observation()
        copies = {name: self.views.tensor(f"the fetched {name}", array) for name, array in arrays.items()}
        return Observation(
            read=ReadView(copies["keys"], copies["values"]), arrays=copies, state=self._state(cache, look)
        )

    def _mask(self, cache: Any, call: MakeMask, look: bool) -> Observation:
        mask = self.adapter.mask(cache, call.length, call.phase, call.window, call.array)
        if call.as_:
            self.world[call.as_] = HeldArrays(
                {} if mask is None or isinstance(mask, str) else {"mask": mask}, masks=True
            )
        return Observation(mask=self.views.mask(mask) if look else None, state=self._state(cache, look))

    def _copies(self, held: HeldArrays) -> dict[str, npt.NDArray[Any]]:
        """Copy handed-out arrays; masks as when they were handed out, additive ones as booleans."""
        return self.views.masks(held.arrays) if held.masks else self.views.arrays(held.arrays)

    def _trimmed(self, cache: Any, call: Trim, look: bool) -> Observation:
        answer = self.adapter.trim(cache, call.n, call.bypass)
        if type(call.n) is not int:
            return Observation()
        return Observation(answer=count(answer), state=self._state(cache, look))

    def _again(self, target: HeldRead, call: Call, payload: Payload, look: bool) -> Observation:
        asked = payload if payload.queries.size else target.payload
        if isinstance(call, Attend) and call.malformed is not None:
            self._ask_wrongly(target, asked, call.malformed)
            return Observation()
        if not look:
            return Observation()
        if target.grouped:
            shown = self.views.row_reads(target.reads[0], asked, target.known)
            return Observation(rows=tuple(Observation(read=read) for read in shown))
        shown = [self.views.read(read, asked, target.known) for read in target.reads]
        return (
            Observation(layers=tuple(Observation(read=s) for s in shown))
            if target.listed
            else Observation(read=shown[0])
        )

    def _ask_wrongly(self, target: HeldRead, asked: Payload, how: Malformed) -> None:
        """Ask reads with spoilt queries (READ-9)."""
        if how == "heads" and self.adapter.config.kv_heads == 1:
            raise UnsupportedError("one KV head takes any number of query heads")
        for read in target.reads:
            queries = self.adapter.tensor(asked.queries, asked.dtype)
            self.adapter.settle([self.adapter.attend(read, queries, asked.scale)])

    # Lists of layers.

    def _on_list(self, caches: list[Any], call: Call, payload: Payload, look: bool) -> Observation:
        if isinstance(call, Append):
            return self._append_list(caches, call, payload, look)
        if isinstance(call, Trim):
            return self._trim_list(caches, call, look)
        if isinstance(call, Clone):
            caches = [self.adapter.clone(cache) for cache in caches]
            self.world[call.as_] = HeldList(caches)
        elif isinstance(call, Reset):
            for cache in caches:
                self.adapter.reset(cache)
        elif isinstance(call, Save):
            FileCalls(self.adapter, self.world).saved(HeldList(caches), call)
        elif is_of_round(call):
            adapter = self.adapter
            begin, commit = adapter.begin_round_layers, adapter.commit_round_layers
            take_round(call, caches, begin, commit, adapter.roll_back_layers)
        elif not isinstance(call, LookAt):
            raise UnsupportedError(f"a list of layers cannot be asked to {call.verb}")
        return self._layers(caches, look)

    def _trim_list(self, caches: list[Any], call: Trim, look: bool) -> Observation:
        if call.bypass:
            raise UnsupportedError("the layers of a list are trimmed without a bypass")
        answer = self.adapter.trim_layers(caches, call.n)
        if type(call.n) is not int:
            return Observation()
        return evolve(self._layers(caches, look), answer=count(answer))

    def _append_list(self, caches: list[Any], call: Append, payload: Payload, look: bool) -> Observation:
        tensors = [self.giver.tensors(payload) for _ in caches]
        reads = self.adapter.append_layers(caches, tensors, phase_of(call), call.window, call.array)
        for keys, values in tensors:
            self.giver.spend(keys, values)
        if call.as_:
            self.world[call.as_] = HeldRead(tuple(reads), payload, listed=True, known=call.verb == "known")
        if not look or call.malformed is not None:
            return Observation()
        known = call.verb == "known"
        return self.views.layers(caches, [None if call.unread else self.views.read(r, payload, known) for r in reads])

    def _layers(self, caches: list[Any], look: bool) -> Observation:
        return self.views.layers(caches, [None] * len(caches)) if look else Observation()


_MAKING = (OpenList, Merge, MakeCache, Reuse)
"""Calls that make an object and act on none."""


__all__ = ["Adapter", "AdapterSubject", "HeldArrays", "HeldGroup", "HeldList", "HeldRead", "UnsupportedError"]
