"""Rounds of mlx-lm's caches, as its ``speculative_generate_step`` has them: take back by ``trim_prompt_cache``.

mlx-lm does not tell its caches that drafts are coming. Its runtime counts what it appends, and afterwards trims what
was rejected; whether the caches can be trimmed it asks once, before the first token. So a round begins with a note of
the offset, its commit does nothing, and its roll back is that trim. The runtime does not look at what the trim answers;
here an answer of fewer positions than were to be taken back is a refusal.

A group is trimmed by one number for all rows; that rows keep each its own number has no call.
"""

from collections.abc import Sequence
from typing import Any, cast
from weakref import WeakKeyDictionary

from kvlaw.conformance.interface import Adapter, UnsupportedError
from kvlaw.conformance.subjects.duck_rows import DuckGroup


class TrimmedRounds(Adapter):
    """The part of an adapter of mlx-lm's caches that takes rounds back by mlx-lm's helper; ``_library`` has it."""

    _library: Any

    def _notes(self) -> WeakKeyDictionary[Any, int]:
        """Give the counts of positions before each open round."""
        found = self.__dict__.setdefault("_starts", WeakKeyDictionary[Any, int]())
        return cast("WeakKeyDictionary[Any, int]", found)

    def begin_round(self, cache: Any) -> None:
        """Note how many positions there are; one round at a time."""
        self.begin_round_layers([cache])

    def commit_round(self, cache: Any) -> None:
        """Forget the note."""
        self.commit_round_layers([cache])

    def roll_back(self, cache: Any, keep: Sequence[int]) -> None:
        """Trim what was not kept."""
        self.roll_back_layers([cache], keep)

    def begin_round_layers(self, caches: list[Any]) -> None:
        """Note how many positions there are in each layer."""
        if any(cache in self._notes() for cache in caches):
            raise RuntimeError("the runtime is in a round already")
        for cache in caches:
            self._notes()[cache] = _count(cache)

    def commit_round_layers(self, caches: list[Any]) -> None:
        """Forget the notes."""
        for cache in caches:
            self._begun(cache)
        for cache in caches:
            self._notes().pop(cache)

    def roll_back_layers(self, caches: list[Any], keep: Sequence[int]) -> None:
        """Trim all layers by the number that one layer is to take back, as the runtime does."""
        counts = [_count(cache) - self._begun(cache) for cache in caches]
        if len(set(keep)) > 1:
            raise UnsupportedError("mlx-lm trims all rows of a group by one number")
        rejected = counts[0] - keep[0]
        trimmed = self._library.trim_prompt_cache([_plain(cache) for cache in caches], rejected)
        if trimmed != rejected:
            raise RuntimeError(f"trim_prompt_cache trimmed {trimmed} of {rejected} positions")
        for cache in caches:
            self._notes().pop(cache)

    def clone(self, cache: Any) -> Any:
        """Copy a cache, and the note of its round."""
        twin = super().clone(cache)
        if cache in self._notes():
            self._notes()[twin] = self._notes()[cache]
        return twin

    def _begun(self, cache: Any) -> int:
        if cache not in self._notes():
            raise RuntimeError("the runtime is in no round")
        return self._notes()[cache]


def _plain(cache: Any) -> Any:
    """Give the cache as mlx-lm has it."""
    return cache.cache if isinstance(cache, DuckGroup) else cache


def _count(cache: Any) -> int:
    """Count the positions of a cache; of a group those of its first row, as all rows get as many."""
    offset = _plain(cache).offset
    return int(offset if isinstance(offset, int) else offset[0].item())


__all__ = ["TrimmedRounds"]
