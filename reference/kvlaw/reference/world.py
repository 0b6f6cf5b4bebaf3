"""What can stand in the oracle's world under a name, and what the oracle is told of a subject's choices."""

from typing import Literal

from attrs import frozen

from kvlaw.reference.expectation import Expectation
from kvlaw.reference.group import Group
from kvlaw.reference.model import Model
from kvlaw.reference.recurrent_model import RecurrentModel
from kvlaw.spec.calls import Damage
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
    """Handed-out arrays in the world: the clause that keeps them unchanged, and what the call that made them showed."""

    clauses: tuple[str, ...]
    shows: Expectation | None = None


@frozen
class Layers:
    """A list of layers in the world."""

    models: tuple[Model, ...]

    @property
    def offset(self) -> int:
        """The next position of every layer (POS-7)."""
        return self.models[0].offset

    @property
    def version(self) -> int:
        """Count the acts on all layers."""
        return sum(model.version for model in self.models)


@frozen
class File:
    """A file in the world: what was saved in it, of whom, after which of its acts; what was done to it since."""

    holds: Model | Layers | RecurrentModel
    owner: str
    version: int
    damage: Damage | None = None
    loaded: bool = False


WorldObject = Model | Group | Layers | RecurrentModel | ReadModel | Handed | File
HANDING: dict[str, tuple[str, ...]] = {"state": ("OWN-4",), "dense": ("OWN-5",), "mask": ("OWN-6",)}
"""The calls that hand out arrays, and the clause that keeps those arrays unchanged."""


@frozen
class Seen:
    """What the subject did with a call, as far as the oracle follows it in ``core``.

    ``able`` is what ``can_trim`` had said last, by count, ``columns`` how many columns it had shown last (None:
    nothing).
    """

    outcome: str = "ok"
    answer: int | None = None
    offset: int | None = None
    able: tuple[bool, ...] | None = None
    columns: int | None = None

    @classmethod
    def of(cls, observation: Observation, able: tuple[bool, ...] | None = None, columns: int | None = None) -> "Seen":
        """Take the choice out of an observation."""
        offset = observation.state.offset if observation.state else None
        return cls(observation.outcome, observation.answer, offset, able, columns)

    def said(self, count: int) -> bool | None:
        """Recall what ``can_trim`` had said for a count (None: nothing)."""
        return self.able[count] if self.able is not None and 0 <= count < len(self.able) else None
