"""Faults of prefix reuse: too much of a prompt, what is below a floor, entries that are lent themselves (REUSE)."""

from typing import Any

from kvlaw.conformance.faults.registry import fault
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.conformance.subjects.oracle_store import Store, Stored, Tokens

_PUBLISHED = "window 3 ; publish"


class WrongReuse(ReferenceAdapter):
    """Caches whose store is right, but for what a fault overrides."""

    store_type = Store


@fault("reuses-the-whole-prompt", breaks="REUSE-1", trace=f"full ; {_PUBLISHED} ; reuse t1..t3 as c1")
class ReusesTheWholePrompt(WrongReuse):
    """A prompt that is an entry is reused to its last token, so that there is nothing to read."""

    class Whole(Store):
        def most(self, tokens: Tokens) -> int:
            return len(tokens)

    store_type = Whole


@fault("trusts-the-length", breaks="REUSE-1", trace=f"full ; {_PUBLISHED} ; reuse t1,t2,t8,t9 as c1")
class TrustsTheLength(WrongReuse):
    """An entry whose first token is that of the prompt is taken for as much of it as there is."""

    class Hasty(Store):
        def usable(self, entry: Stored, tokens: Tokens) -> int:
            alike = entry.tokens[:1] == tokens[:1]
            return super().usable(entry, (*entry.tokens[: len(tokens) - 1], 0) if alike else tokens)

    store_type = Hasty


@fault(
    "reuses-below-the-floor", breaks="REUSE-2", trace="full bits=4 start=2 ; window 3 ; publish ; reuse t1,t2,t9 as c1"
)
class ReusesBelowTheFloor(WrongReuse):
    """The reuse floor is not asked for."""

    class Floorless(Store):
        def floor(self, entry: Stored) -> int:
            return 0

    store_type = Floorless


@fault("finds-whole-entries-only", breaks="REUSE-3", trace=f"full ; {_PUBLISHED} ; reuse t1,t9 as c1", profile="layout")
class FindsWholeEntriesOnly(WrongReuse):
    """No entry is cut for a prompt that parts from it."""

    class Whole(Store):
        def can_cut(self, entry: Stored, count: int) -> bool:
            return count == 0

    store_type = Whole


@fault(
    "first-hit-wins",
    breaks="REUSE-3",
    trace="full ; decode ; publish ; window 2 ; publish ; reuse t1..t3,t9 as c1",
    profile="layout",
)
class FirstHitWins(WrongReuse):
    """The first entry that can give anything is lent."""

    class First(Store):
        def get(self, like: list[Any], tokens: Tokens, space: str) -> tuple[list[Any] | None, int]:
            for entry in self.entries:
                count = self.usable(entry, tokens) if self.fits(entry, like, space) else 0
                if count:
                    return self.lent(entry, count), count
            return None, 0

    store_type = First


@fault(
    "lends-the-entry-itself",
    breaks="REUSE-4",
    trace=f"full ; {_PUBLISHED} ; reuse t1..t3,t9 as c1 ; decode on c1 ; reuse t1..t3,t9 as c2",
    report="B100",
)
class LendsTheEntryItself(WrongReuse):
    """What fits as it is is lent without a copy."""

    class Lending(Store):
        def lent(self, entry: Stored, length: int) -> list[Any]:
            return entry.caches if length == len(entry.tokens) else super().lent(entry, length)

    store_type = Lending


@fault(
    "trims-the-entry",
    breaks="REUSE-4",
    trace=f"full ; {_PUBLISHED} ; reuse t1,t9 as c1 ; reuse t1,t2,t9 as c2",
    profile="layout",
)
class TrimsTheEntry(WrongReuse):
    """An entry that was cut for a prompt stays cut."""

    class Trimming(Store):
        def lent(self, entry: Stored, length: int) -> list[Any]:
            at = self.entries.index(entry)
            found = super().lent(entry, length)
            self.entries[at] = Stored(self.copied(found), entry.tokens[:length], entry.space)
            return found

    store_type = Trimming


@fault("lends-more-than-it-says", breaks="REUSE-5", trace=f"full ; {_PUBLISHED} ; reuse t1,t9 as c1", report="B51")
class LendsMoreThanItSays(WrongReuse):
    """An entry is lent whole, and only the answer is cut."""

    class Uncut(Store):
        def lent(self, entry: Stored, length: int) -> list[Any]:
            return self.copied(entry.caches)

    store_type = Uncut


@fault(
    "cuts-what-cannot-be-cut",
    breaks="REUSE-5",
    trace="ring window=2 ; window 3 ; publish ; reuse t1,t2,t9 as c1",
    report="B51",
)
class CutsWhatCannotBeCut(WrongReuse):
    """Whether its layers can be trimmed is not asked before an entry is lent."""

    class Cutting(Store):
        def can_cut(self, entry: Stored, count: int) -> bool:
            return True

        def lent(self, entry: Stored, length: int) -> list[Any]:
            twins = self.copied(entry.caches)
            for twin in twins:
                if twin.can_trim(len(entry.tokens) - length):
                    twin.trim(len(entry.tokens) - length)
            return twins

    store_type = Cutting


@fault(
    "keeps-the-source-itself",
    breaks="REUSE-6",
    trace=f"full ; {_PUBLISHED} ; decode ; reuse t1..t3,t9 as c1",
    report="B100",
)
class KeepsTheSourceItself(WrongReuse):
    """What is published is kept without a copy."""

    class Keeping(Store):
        def put(self, caches: list[Any], tokens: Tokens, space: str) -> None:
            super().put(caches, tokens, space)
            if tokens:
                self.entries[-1] = Stored(caches, tokens, space)

        def lent(self, entry: Stored, length: int) -> list[Any]:
            twins = self.copied(entry.caches)
            for twin in twins if length < len(entry.tokens) else []:
                twin.trim(min(twin.offset, len(entry.tokens) - length))
            return twins

    store_type = Keeping


@fault("publish-takes-it-away", breaks="REUSE-6", trace=f"full ; {_PUBLISHED}")
class PublishTakesItAway(WrongReuse):
    """A cache that was published is emptied."""

    class Taking(Store):
        def put(self, caches: list[Any], tokens: Tokens, space: str) -> None:
            super().put(caches, tokens, space)
            for cache in caches:
                cache.reset()

    store_type = Taking


@fault("one-space-for-all", breaks="REUSE-7", trace=f"full ; {_PUBLISHED} space=a ; reuse t1..t3,t9 space=b as c1")
class OneSpaceForAll(WrongReuse):
    """Spaces are not told apart."""

    class Mixed(Store):
        def fits(self, entry: Stored, like: list[Any], space: str) -> bool:
            return super().fits(entry, like, entry.space)

    store_type = Mixed


@fault(
    "first-layer-decides",
    breaks="REUSE-8",
    trace="full ; list full + ring window=2 as l0 ; window 3 on l0 ; publish on l0 ; reuse t1,t9 on l0 as l1",
    report="B51",
)
class FirstLayerDecides(WrongReuse):
    """A list is cut if its first layer can be, and the others are cut if they can."""

    class Deciding(Store):
        def can_cut(self, entry: Stored, count: int) -> bool:
            return count == 0 or entry.caches[0].can_trim(count)

        def lent(self, entry: Stored, length: int) -> list[Any]:
            twins, cut = self.copied(entry.caches), len(entry.tokens) - length
            for twin in twins:
                if twin.can_trim(cut):
                    twin.trim(cut)
            return twins

    store_type = Deciding


@fault("publishes-an-open-round", breaks="REUSE-9", trace="full ; begin_round ; decode ; publish", profile="layout")
class PublishesAnOpenRound(WrongReuse):
    """A cache is published with the positions of its open round."""

    class Publishing(Store):
        def put(self, caches: list[Any], tokens: Tokens, space: str) -> None:
            twins = self.copied(caches)
            for twin in twins:
                twin.round = None
            super().put(twins, tokens, space)

    store_type = Publishing


__all__ = ["WrongReuse"]
