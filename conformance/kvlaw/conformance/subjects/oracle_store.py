"""A store of NumPy reference caches that were published, every part of which planted faults may override."""

from typing import Any

from attrs import define, field, frozen

from kvlaw.reference.layout import Refusal

Tokens = tuple[int, ...]


@frozen(eq=False)
class Stored:
    """Published layers, and the tokens that they hold."""

    caches: list[Any]
    tokens: Tokens
    space: str


@define
class Store:
    """Keeps all that was published."""

    entries: list[Stored] = field(factory=list[Stored])

    def put(self, caches: list[Any], tokens: Tokens, space: str) -> None:
        """Keep copies of caches; refuse one in an open round (REUSE-9)."""
        if any(cache.round is not None for cache in caches):
            raise Refusal("a cache in an open round is not published (REUSE-9)")
        if tokens:
            self.entries.append(Stored(self.copied(caches), tokens, space))

    def copied(self, caches: list[Any]) -> list[Any]:
        """Copy what is stored, and what is lent."""
        return [cache.clone() for cache in caches]

    def get(self, like: list[Any], tokens: Tokens, space: str) -> tuple[list[Any] | None, int]:
        """Lend copies of the entry that has the longest usable part of a prompt, cut to that; say how long it is."""
        best, length = None, 0
        for entry in self.entries:
            count = self.usable(entry, tokens) if self.fits(entry, like, space) else 0
            if count and count >= length:  # of several the newest
                best, length = entry, count
        if best is None:
            return None, 0
        return self.lent(best, length), length

    def fits(self, entry: Stored, like: list[Any], space: str) -> bool:
        """Say whether an entry is of the same configurations and space."""
        return entry.space == space and [c.layer for c in entry.caches] == [c.layer for c in like]

    def usable(self, entry: Stored, tokens: Tokens) -> int:
        """Count the tokens of a prompt that an entry can give."""
        count = min(common(entry.tokens, tokens), self.most(tokens))
        able = self.can_cut(entry, len(entry.tokens) - count)
        return count if count >= self.floor(entry) and able else 0

    def most(self, tokens: Tokens) -> int:
        """Leave one token of a prompt to be read."""
        return len(tokens) - 1

    def can_cut(self, entry: Stored, count: int) -> bool:
        """Say whether all layers can be cut by so many positions."""
        return count == 0 or all(cache.can_trim(count) for cache in entry.caches)

    def floor(self, entry: Stored) -> int:
        """Give the largest reuse floor of the layers."""
        return max(cache.floor for cache in entry.caches)

    def lent(self, entry: Stored, length: int) -> list[Any]:
        """Copy an entry's caches, and cut them."""
        twins, cut = self.copied(entry.caches), len(entry.tokens) - length
        for twin in twins if cut else []:
            twin.trim(cut)
        return twins


def common(one: Tokens, other: Tokens) -> int:
    """Count the tokens with which both begin."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


__all__ = ["Store", "Stored", "common"]
