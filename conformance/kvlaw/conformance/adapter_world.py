"""What the world of an adapter keeps under its names, and the tensors that its calls bring."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from attrs import astuple, frozen

from kvlaw.conformance.interface import Adapter, NonsenseError, RecurrentStep, UnsupportedError
from kvlaw.spec.calls import (
    Append,
    AppendName,
    BeginRound,
    Call,
    CommitRound,
    Load,
    Publish,
    Reuse,
    RollBack,
    Save,
)
from kvlaw.spec.observations import Payload


@frozen(eq=False)
class HeldRead:
    """One read, or one per layer of a list (``listed``), with the queries that it was last asked.

    ``known`` says that its append was one of decided tokens, ``grouped`` that it is the read of a group.
    """

    reads: tuple[Any, ...]
    payload: Payload
    listed: bool = False
    known: bool = False
    grouped: bool = False


@frozen(eq=False)
class HeldArrays:
    """Handed-out arrays, alive as the cache's own objects; ``masks`` are looked at as masks."""

    arrays: Mapping[str, Any]
    masks: bool = False


@frozen(eq=False)
class HeldList:
    """The caches of a list of layers; the list itself may be changed by the adapter."""

    caches: list[Any]


@frozen(eq=False)
class HeldGroup:
    """A group of rows."""

    group: Any


@frozen(eq=False)
class HeldFile:
    """A file, and of how many layers; None: of a cache."""

    file: Any
    layers: int | None = None


@frozen(eq=False)
class FileCalls:
    """Saves and loads through an adapter; what is made goes into its world."""

    adapter: Adapter
    world: dict[str, Any]

    def saved(self, thing: Any, call: Save) -> None:
        """Save a cache, or the caches of a list."""
        if isinstance(thing, HeldList):
            self.world[call.as_] = HeldFile(self.adapter.save_layers(thing.caches), len(thing.caches))
        else:
            self.world[call.as_] = HeldFile(self.adapter.save(thing))

    def loaded(self, held: HeldFile, call: Load) -> Any:
        """Load a cache or a list, and give what was made."""
        if held.layers is None:
            made: Any = self.adapter.load(held.file, call.other)
        else:
            caches = self.adapter.load_layers(held.file, call.other)
            if len(caches) != held.layers:
                raise NonsenseError(f"{held.layers} layers were saved, and {len(caches)} were loaded")
            made = HeldList(caches)
        self.world[call.as_] = made
        return made


@frozen(eq=False)
class ReuseCalls:
    """Publishes and reuses through an adapter; what is made goes into its world."""

    adapter: Adapter
    world: dict[str, Any]

    def published(self, thing: Any, call: Publish, payload: Payload) -> None:
        """Publish a cache, or the caches of a list, under the tokens that they hold."""
        self.adapter.publish(_caches_of(thing), payload.tokens, call.space)

    def reused(self, thing: Any, call: Reuse, build: Callable[[], list[Any]]) -> tuple[Any, int]:
        """Make what a prompt finds, or an empty cache or list by ``build``; say how much was found."""
        like = _caches_of(thing)
        caches, length = self.adapter.reuse(like, call.tokens, call.space)
        if caches is None:
            caches, length = build(), 0
        if len(caches) != len(like):
            raise NonsenseError(f"{len(like)} layers are needed, and {len(caches)} were found")
        self.world[call.as_] = made = HeldList(caches) if isinstance(thing, HeldList) else caches[0]
        return made, length


def _caches_of(thing: Any) -> list[Any]:
    return list(thing.caches) if isinstance(thing, HeldList) else [thing]


@frozen(eq=False)
class Giver:
    """Gives an adapter the tensors of a call, in its own arrays."""

    adapter: Adapter

    def tensors(self, payload: Payload) -> tuple[Any, Any]:
        """Make keys and values."""
        return self.adapter.tensor(payload.keys, payload.dtype), self.adapter.tensor(payload.values, payload.dtype)

    def step(self, payload: Payload) -> RecurrentStep:
        """Make what an advance hands over."""
        dtypes = dict.fromkeys(payload.step, payload.dtype) | {"decay": "f32"}
        return RecurrentStep(**{name: self.adapter.tensor(bits, dtypes[name]) for name, bits in payload.step.items()})

    def spend_step(self, step: RecurrentStep) -> None:
        """Overwrite the caller's arrays of an advance, where the trace asks for it."""
        if self.adapter.config.poison:
            for part in astuple(step, recurse=False):
                self.adapter.poison(part)

    def spend(self, keys: Any, values: Any) -> None:
        """Overwrite the caller's arrays, where the trace asks for it."""
        if self.adapter.config.poison:
            self.adapter.poison(keys)
            self.adapter.poison(values)


def is_of_round(call: Call) -> bool:
    """Say whether a call begins or ends a round."""
    return isinstance(call, BeginRound | CommitRound | RollBack)


def take_round(
    call: Call,
    held: Any,
    begin: Callable[[Any], None],
    commit: Callable[[Any], None],
    roll_back: Callable[[Any, Any], None],
) -> None:
    """Begin or end a round of what is held, by the one of an adapter's three ways that the call is."""
    match call:
        case BeginRound():
            begin(held)
        case CommitRound():
            commit(held)
        case RollBack():
            roll_back(held, call.keep)
        case _:
            raise UnsupportedError(f"{call.verb} is no call of a round")


def phase_of(call: Append) -> AppendName:
    """Name the append that a call is."""
    return cast("AppendName", call.verb)
