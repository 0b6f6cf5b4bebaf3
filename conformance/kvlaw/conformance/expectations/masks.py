"""Reports that a listed failure gets wrong, while what is reported is right: a walk goes on without comparing them.

A size, a count of bytes, an identity, the form of a mask: the oracle decides nothing by them, so that a walk in which
one is wrong is as good as any other. The first wrong report must be the listed one, as ``Trigger.masks`` tells; from
there on the field stays hidden in that walk, for the clause that is charged.
"""

from collections.abc import Callable

from attrs import define, field

from kvlaw.conformance.compare import Divergence
from kvlaw.conformance.expectations.marks import Mark
from kvlaw.spec.config import Config

REPORTS = frozenset(
    {
        *("size", "nbytes", "bytes_per_token", "columns", "write_index"),
        *("identity", "storage", "can_trim", "floor", "max_append", "mask"),
    }
)
"""The fields of a divergence that are reports only."""

Hides = Callable[[Divergence, Config, tuple[Mark, ...]], str]
"""Names the listed failure to which a wrong report of a walk belongs (its configuration, its marks); else nothing."""


@define
class Masks:
    """What is hidden in one walk; ``told`` is called with the name of a listed failure that is met."""

    hides: Hides
    told: Callable[[str], object]
    hidden: set[tuple[str, str]] = field(factory=set[tuple[str, str]])

    def left(self, found: tuple[Divergence, ...], config: Config, marks: tuple[Mark, ...]) -> tuple[Divergence, ...]:
        """Keep the divergences of a step that are not hidden."""
        return tuple(divergence for divergence in found if not self._hidden(divergence, config, marks))

    def _hidden(self, divergence: Divergence, config: Config, marks: tuple[Mark, ...]) -> bool:
        if divergence.field not in REPORTS:
            return False
        key = (divergence.clause, divergence.field)
        if key not in self.hidden and (name := self.hides(divergence, config, marks)):
            self.hidden.add(key)
            self.told(name)
        return key in self.hidden


__all__ = ["REPORTS", "Masks"]
