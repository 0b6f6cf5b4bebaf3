"""What saving and loading must answer: a file holds what was saved in it, or it is not loaded.

In ``layout`` a spoilt file is refused. In ``core`` another design may find out what it held all the same: then it is
loaded as exactly that.
"""

from attrs import evolve, frozen

from kvlaw.reference.expectation import Expectation, Expected
from kvlaw.reference.index import Full
from kvlaw.reference.model import Model
from kvlaw.reference.states import States
from kvlaw.reference.world import File, Layers, Seen
from kvlaw.spec.calls import Damage, Load
from kvlaw.spec.cite import clause

SPOILT: dict[Damage, str] = {
    "truncate": "PERS-8",
    "empty": "PERS-8",
    "extra": "PERS-9",
    "header": "PERS-9",
    "tensor": "PERS-9",
    "version": "PERS-10",
    "older": "PERS-10",
    "foreign": "PERS-11",
}
"""The clause that keeps a file which is spoilt so from being loaded as something else."""
_NUMBERS = ("offset", "size", "can_trim", "round", "nbytes_min", "nbytes_max")
_PRECISION = ("storage", "floor", "max_append")


@clause("PERS-2", "PERS-6", "PERS-7", "PERS-17")
def as_saved(thing: Model | Layers) -> Model | Layers:
    """Give what a file holds of a cache, or of the layers of a list: all but what stands in spare columns."""
    if isinstance(thing, Layers):
        return Layers(tuple(_without_spare(model, "PERS-13") for model in thing.models))
    return _without_spare(thing, "PERS-2")


def _without_spare(model: Model, loaded: str) -> Model:
    state = model.state
    rotated = not isinstance(state, Full) and state.rotated
    active = len(model.slots) if rotated else state.offset if isinstance(state, Full) else state.write_index
    slots = tuple(token if column < active else 0 for column, token in enumerate(model.slots))
    return evolve(model, slots=slots).was(loaded=loaded, converted=False, saved=False)


@frozen
class Files:
    """Files of one configuration and profile."""

    states: States

    @clause("PERS-5", "PERS-14", "PERS-15")
    def saved(self, thing: Model | Layers, expectation: Expectation, seen: Seen) -> Expectation:
        """Give what saving shows: the cache, unchanged; ``expectation`` is what a look at it shows."""
        empty = thing.offset == 0
        if empty and self.states.profile == "core" and seen.outcome == "refused":
            return Expectation(("refused", "ok"))
        first = ("PERS-14",) if empty else ()
        charged = ("PERS-13",) if isinstance(thing, Layers) else ("PERS-1",)
        kept = tuple(evolve(e, clauses=("PERS-5", *e.clauses)) for e in expectation.expected)
        layers = tuple(
            evolve(inner, expected=tuple(evolve(e, clauses=("PERS-5", *e.clauses)) for e in inner.expected))
            for inner in expectation.layers
        )
        return evolve(expectation, charged=(*first, *charged), expected=kept, layers=layers)

    @clause("PERS-1", "PERS-3", "PERS-8", "PERS-9", "PERS-10", "PERS-11", "PERS-12", "PERS-16")
    def loaded(self, file: File, call: Load, moved: bool, seen: Seen) -> tuple[Expectation, Model | Layers | None]:
        """Give what loading shows, and what it makes; ``moved`` says that the source has acted since it was saved."""
        if call.other:
            return Expectation(("refused",), ("PERS-16",)), None
        spoilt = SPOILT[file.damage] if file.damage else ""
        if spoilt and (self.states.profile == "layout" or seen.outcome != "ok"):
            charged = ("PERS-12", spoilt) if file.damage == "extra" else (spoilt, "PERS-12")
            return Expectation(("refused",), charged), None
        own = (spoilt,) if spoilt else (*(("PERS-4",) if file.loaded else ()), *(("PERS-3",) if moved else ()))
        if isinstance(file.holds, Model):
            model = file.holds.was(spoilt=spoilt)
            charged = own or (("PERS-14",) if not model.offset else ("PERS-1",))
            return Expectation(charged=charged, expected=self._of_cache(model, call, own)), model
        held = file.holds.models if isinstance(file.holds, Layers) else ()
        layers = Layers(tuple(model.was(spoilt=spoilt) for model in held))
        own = (*own, "PERS-13")
        inner = tuple(Expectation(charged=own, expected=self._of_cache(m, call, own)) for m in layers.models)
        whole = tuple(evolve(e, clauses=own) for e in self.states.of_list(layers))
        return Expectation(charged=own, layers=inner, expected=whole), layers

    def _of_cache(self, model: Model, call: Load, own: tuple[str, ...]) -> tuple[Expected, ...]:
        def cited(name: str) -> tuple[str, ...]:
            speaks = "PERS-1" if name in _NUMBERS else "PERS-6" if name in _PRECISION else "PERS-7"
            stale = ("PERS-17",) if name == "held" and model.past.trimmed | model.past.rolled else ()
            return (*own, *stale, speaks)

        return tuple(evolve(e, clauses=cited(e.field)) for e in self.states.after(model, call))
