"""What a failure looks like, apart from where in a trace it shows: two of one fault look alike.

Of tokens that a query sees it is which come in beside those that it may see, and which it misses, counted in positions
from those: a mask that is one too wide lets ``1 before`` the oldest in, in whatever ring, before the wrap and behind
it. Of numbers it is whether they are too low or too high; of all else what was wanted, and what was
shown in its place.
"""

from collections.abc import Sequence

from attrs import frozen

from kvlaw.conformance.compare import Divergence
from kvlaw.spec.text_form import parse_tokens
from kvlaw.spec.trace import TraceError


@frozen
class Symptom:
    """What a failure looks like; ``missing`` is counted from the oldest and from the newest token, either may agree."""

    told: str = ""
    extra: tuple[tuple[str, int], ...] = ()
    missing: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    of_tokens: bool = False
    all_in: bool = False
    """All that a cache of that window holds came in."""

    @classmethod
    def of(cls, divergence: Divergence, live: Sequence[int] = (), window: int | None = None) -> "Symptom":
        """Take the symptom of a divergence.

        ``live`` lists the tokens at the positions of the cache that shows it; ``window`` is that of a ring.
        """
        wanted, seen = _tokens(divergence.expected), _tokens(divergence.observed)
        if wanted and seen is not None:
            places = {token: place for place, token in enumerate(live, 1)}
            if not places.keys() >= {*wanted, *seen}:  # others' tokens, or nobody's
                return _of_tokens(wanted, seen)
            return _of_tokens(tuple(places[t] for t in wanted), tuple(places[t] for t in seen), window, known=True)
        return cls(told=_difference(divergence))

    def alike(self, other: "Symptom") -> bool:
        """Tell whether another failure looks the same."""
        extra = self.extra == other.extra or (self.all_in and other.all_in)
        same = self.told == other.told and extra and self.of_tokens == other.of_tokens
        return same and any(mine == theirs for mine, theirs in zip(self.missing, other.missing, strict=True))


def _of_tokens(
    wanted: tuple[int, ...], seen: tuple[int, ...], window: int | None = None, *, known: bool = False
) -> Symptom:
    if not all(seen):  # what it shows is no token's, and no more can be said
        return Symptom(extra=(("nobody's", 0),), of_tokens=True)
    ages = sorted(wanted)
    extra = [_beside(t, ages) for t in seen if t not in wanted]
    extra += [("twice", 0)] if len(set(seen)) < len(seen) else []
    gone = [place for place, t in enumerate(ages) if t not in seen]
    from_new = tuple(len(ages) - 1 - place for place in reversed(gone))
    newest = range(max(ages[-1] - (window or ages[-1]), 0) + 1, ages[-1] + 1)
    all_in = known and bool(extra) and sorted(seen) == list(newest)
    return Symptom("", tuple(sorted(extra)), (tuple(gone), from_new), of_tokens=True, all_in=all_in)


def _beside(token: int, ages: list[int]) -> tuple[str, int]:
    """Say how far before the next token that may be seen one comes in, or how far behind the newest."""
    following = next((t for t in ages if t > token), None)
    return ("behind", token - ages[-1]) if following is None else ("before", following - token)


def _tokens(text: str) -> tuple[int, ...] | None:
    """Read the tokens of one query; None where none are told."""
    listed = text.removeprefix("sees ").removesuffix(", live ones only").removesuffix(" at least")
    try:
        return parse_tokens(listed)
    except TraceError:
        return None


def _difference(divergence: Divergence) -> str:
    wanted, seen = divergence.expected, divergence.observed
    if divergence.field == "outcome":
        return f"{wanted} -> {seen.split(' ', 1)[0]}"
    if _number(wanted) and _number(seen):
        return "less" if int(seen) < int(wanted) else "more"
    return f"{wanted} -> {seen}"


def _number(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and text.isascii() and len(text) < 20


__all__ = ["Symptom"]
