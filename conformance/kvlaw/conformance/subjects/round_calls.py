"""Rounds of caches and groups that have ``begin_round()``, ``commit_round()`` and ``roll_back(keep)``.

``in_round``, an attribute or a property, says whether a round is open, where that is to be shown.
"""

from collections.abc import Sequence
from typing import Any

from kvlaw.conformance.subjects.array_adapter import ArrayAdapter, plain
from kvlaw.spec.observations import RoundWord

ROUND_CALLS = ("begin_round", "commit_round", "roll_back")
"""What a cache needs so that it is asked for rounds."""


def takes_rounds(example: Any) -> bool:
    """Say whether a cache has the calls of a round."""
    return all(callable(getattr(example, name, None)) for name in ROUND_CALLS)


class RoundCalls(ArrayAdapter):
    """The part of an adapter that begins and ends rounds by the cache's own calls."""

    def begin_round(self, cache: Any) -> None:
        """Open a round."""
        cache.begin_round()

    def commit_round(self, cache: Any) -> None:
        """Keep the round."""
        cache.commit_round()

    def roll_back(self, cache: Any, keep: Sequence[int]) -> None:
        """Take back all but the first positions of the round; one number is given as it is."""
        cache.roll_back(keep[0] if len(keep) == 1 else list(keep))

    def round_of(self, cache: Any) -> RoundWord | None:
        """Say whether a round is open, ``open`` or ``none``; None where that is not said."""
        said: Any = plain(cache, "in_round") if "rounds" in self.capabilities else None
        return None if said is None else "open" if said else "none"


__all__ = ["ROUND_CALLS", "RoundCalls", "takes_rounds"]
