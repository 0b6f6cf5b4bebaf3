"""Campaigns: many cases, each drawn by its number, computed on both sides and compared bit for bit.

A case is drawn from its number, its format and a seed, and from nothing else, so that one that differs is repeated by
its number alone. A `Campaign` says how a case is drawn and compared and how many a budget has; `Campaign.run` runs as
many and sums up, `Campaign.steps` shows the sum after every case. All cases are run, whether they differ or not.

Nothing is asked of the canaries here: on a machine whose arithmetic is not the modelled one, differences mean nothing,
and the caller asks `Campaign.modelled` first.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Generic, Literal, Protocol, TypeAlias, TypeVar

import attrs

from kvlaw.reference.numerics import DTYPES, DType

Budget: TypeAlias = Literal["ci", "deep"]
BUDGETS: Final[tuple[Budget, ...]] = ("ci", "deep")
Counts: TypeAlias = Mapping[str, int]


class Case(Protocol):
    """One comparison."""

    def describe(self) -> str:
        """Say in one line what the case is and how to draw it again."""
        ...


CaseT = TypeVar("CaseT", bound=Case)


@attrs.frozen
class Tally:
    """How many values of each sort were compared, what is notable of them, and how many differ; tallies add up."""

    compared: Counts = attrs.field(factory=dict[str, int])
    noted: Counts = attrs.field(factory=dict[str, int])
    differing: int = 0

    @property
    def values(self) -> int:
        """All values that were compared."""
        return sum(self.compared.values())

    def share(self, what: str) -> float:
        """The share of all values that is noted as ``what``."""
        return self.noted.get(what, 0) / self.values if self.values else 0.0

    def __add__(self, other: "Tally") -> "Tally":
        """Add sort by sort."""
        compared, noted = _sum(self.compared, other.compared), _sum(self.noted, other.noted)
        return Tally(compared, noted, self.differing + other.differing)


@attrs.frozen
class Result:
    """What a campaign has shown in one format, or has so far."""

    campaign: str
    dtype: DType
    cases: int = 0
    tally: Tally = attrs.field(factory=Tally)
    first_difference: str | None = None

    def describe(self) -> str:
        """Sum the campaign up in one line."""
        compared = ", ".join(f"{count} {what}" for what, count in self.tally.compared.items())
        noted = ", ".join(f"{count} {what}" for what, count in self.tally.noted.items())
        found = f"{self.cases} cases, {compared} ({noted}), {self.tally.differing} differ"
        return f"{self.campaign} in {self.dtype}: {found}"

    def with_case(self, case: Case, tally: Tally) -> "Result":
        """Add one more case."""
        first = self.first_difference
        if first is None and tally.differing:
            first = f"{case.describe()}: {tally.differing} of {tally.values} values differ"
        return attrs.evolve(self, cases=self.cases + 1, tally=self.tally + tally, first_difference=first)


@attrs.frozen
class Campaign(Generic[CaseT]):
    """A comparison of one part of the arithmetic; ``cases`` says how many a budget has in each of ``dtypes``."""

    name: str
    draw: Callable[[int, DType, int], CaseT]
    """Draw a case by its number, format and seed."""

    compare: Callable[[CaseT], Tally]
    """Compute a case on both sides."""

    modelled: Callable[[], bool]
    """Ask the canary whether the running MLX computes as the model does."""

    cases: Mapping[Budget, int]
    dtypes: tuple[DType, ...] = DTYPES

    def steps(self, dtype: DType, cases: int, *, seed: int = 0) -> Iterator[Result]:
        """Run the cases 0 to ``cases`` - 1, and show after each of them what all have shown so far."""
        result = Result(self.name, dtype)
        for number in range(cases):
            case = self.draw(number, dtype, seed)
            result = result.with_case(case, self.compare(case))
            yield result

    def run(self, dtype: DType, cases: int, *, seed: int = 0) -> Result:
        """Run the cases 0 to ``cases`` - 1, one at least, and sum up."""
        return deque(self.steps(dtype, cases, seed=seed), maxlen=1).pop()


AnyCampaign: TypeAlias = Campaign[Any]


def _sum(first: Counts, second: Counts) -> dict[str, int]:
    return {name: first.get(name, 0) + second.get(name, 0) for name in {**first, **second}}
