"""What a call is and in what situation it is made, as coarse as is needed to tell one failure's trigger from another.

A mark is taken before the call from the oracle's world, so that a machine can also ask for the mark of a call which it
has not made yet. Numbers are left out, but for what changes the meaning of a call: whether a ring's window is reached,
a count that is negative, nothing or beyond what there is, an argument wider than the window.
"""

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from kvlaw.reference.model import Model
from kvlaw.reference.oracle import File, Group, Handed, Layers, ReadModel, RecurrentModel
from kvlaw.reference.world import WorldObject
from kvlaw.spec.calls import Append, Call, Filter, Load, MakeCache, MakeMask, Merge, OpenList, Prepare, SpoilFile, Trim

PLAIN = frozenset({"", "decode", "window", "known", "dense", "compiled", "advance", "look", "attend", "drop"})
"""The verbs that only fill a cache or look at it; every other call of a shortest trace is there for a reason."""
_MAKE = (OpenList, MakeCache, Merge)


@frozen
class Mark:
    """One call: its verb and how it is asked, what it acts on, where that stands and how it is stored, what is open."""

    verb: str = ""
    how: tuple[str, ...] = ()
    on: str = ""
    place: str = ""
    storage: str = ""
    amid: tuple[str, ...] = ()

    @property
    def special(self) -> bool:
        """The call does more than to fill a cache, in whatever way, or to look."""
        return self.verb not in PLAIN


OPENING = Mark()
"""The mark of a trace's opening."""


def mark_of(call: Call | None, world: Mapping[str, WorldObject]) -> Mark:
    """Give the mark of a call that is about to be made; of None, the opening."""
    if call is None:
        return OPENING
    thing = None if isinstance(call, _MAKE) else world.get(call.on)
    verb = "decode" if call.verb == "window" and call.appends == 1 else call.verb
    return Mark(verb, tuple(_how(call, thing)), _kind(thing), _place(call, thing), _storage(thing), tuple(_amid(thing)))


def _models(thing: object) -> tuple[Model, ...]:
    """List the caches of one sequence that a thing consists of."""
    if isinstance(thing, Model):
        return (thing,)
    return thing.rows if isinstance(thing, Group) else thing.models if isinstance(thing, Layers) else ()


def _kind(thing: object) -> str:
    names: tuple[tuple[Any, str], ...] = (
        (Model, "cache"),
        (Group, "group"),
        (Layers, "list"),
        (RecurrentModel, "state"),
        (ReadModel | Handed | File, "handed"),
    )
    return next((name for kind, name in names if isinstance(thing, kind)), "")


def _place(call: Call, thing: object) -> str:
    """Say whether a window is reached, or passed by this call."""
    rings = [(m.offset, m.layer.window) for m in _models(thing) if m.layer.window is not None]
    if not rings:
        return ""
    coming = max(0, call.appends)
    if any(offset >= window for offset, window in rings):
        return "full"
    return "crossing" if any(offset + coming > window for offset, window in rings) else "below"


def _storage(thing: object) -> str:
    """Say in which storage a cache of codes is."""
    return " ".join(sorted({m.storage for m in _models(thing) if m.layer.policy != "dense"}))


def _amid(thing: object) -> list[str]:
    if isinstance(thing, Group | RecurrentModel):
        return ["round"] * thing.in_round + ["padding"] * thing.pends
    return ["round"] if any(model.round is not None for model in _models(thing)) else []


def _how(call: Call, thing: object) -> list[str]:
    found = [f"malformed={spoilt}"] if (spoilt := getattr(call, "malformed", None)) is not None else []
    if isinstance(call, Append | MakeMask):
        found += _argument(call.window, thing) + ["array"] * call.array
    if isinstance(call, Trim):
        found += _count(call, thing) + ["bypass"] * call.bypass
    if isinstance(call, Filter):
        found += [] if call.rows else ["none"]
    if isinstance(call, SpoilFile):
        found.append(call.how)
    if isinstance(call, Load):
        found += ["other"] * call.other
    if isinstance(call, Prepare):
        found += ["left"] * any(call.left or ()) + ["right"] * any(call.right or ())
    return found


def _argument(given: int | None, thing: object) -> list[str]:
    windows = [m.layer.window for m in _models(thing) if m.layer.window is not None]
    if given is None:
        return []
    return ["window"] if not windows else ["wider"] if given > min(windows) else ["narrower"] * (given < min(windows))


def _count(call: Trim, thing: object) -> list[str]:
    shortest = min((m.offset for m in _models(thing)), default=0)
    if call.n != int(call.n):
        return ["fraction"]
    return ["negative"] if call.n < 0 else ["zero"] if call.n == 0 else ["beyond"] * (call.n > shortest)


__all__ = ["OPENING", "PLAIN", "Mark", "mark_of"]
