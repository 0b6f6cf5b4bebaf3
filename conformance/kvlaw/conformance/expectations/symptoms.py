"""What a failure looks like, apart from where in a trace it shows: two of one fault look alike.

Of tokens that a query sees it is which come in beside those that it may see, and which it misses, counted in positions
from those: a mask that is one too wide lets ``1 before`` the oldest in, in whatever ring, before the wrap and behind
it. Of numbers it is whether they are too low or too high; of all else what was wanted, and what was
shown in its place.
"""

from collections.abc import Sequence

from attrs import evolve, frozen

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
    all_gone: bool = False
    """All that was there before the call is missing."""

    @classmethod
    def of(
        cls, divergence: Divergence, live: Sequence[int] = (), window: int | None = None, appended: int = 0
    ) -> "Symptom":
        """Take the symptom of a divergence.

        ``live`` lists the tokens at the positions of the cache that shows it, the last ``appended`` of them by the call
        that shows it; ``window`` is that of a ring.
        """
        wanted, seen = _tokens(divergence.expected), _tokens(divergence.observed)
        if wanted and seen is not None:
            places = {token: place for place, token in enumerate(live, 1)}
            if not places.keys() >= {*wanted, *seen}:  # others' tokens, or nobody's
                return _of_tokens(wanted, seen)
            return _of_places([places[t] for t in wanted], [places[t] for t in seen], window, len(live) - appended)
        return cls(told=_difference(divergence))

    def alike(self, other: "Symptom") -> bool:
        """Tell whether another failure looks the same."""
        extra = self.extra == other.extra or (self.all_in and other.all_in)
        missing = any(mine == theirs for mine, theirs in zip(self.missing, other.missing, strict=True))
        missing = missing or (self.all_gone and other.all_gone)
        return self.told == other.told and self.of_tokens == other.of_tokens and extra and missing


def _of_places(wanted: Sequence[int], seen: Sequence[int], window: int | None, before: int) -> Symptom:
    """Tell by positions, counted from 1, of which ``before`` were there when the call came."""
    newest = max(wanted)
    held = range(1 if window is None else max(1, newest - window + 1), newest + 1)
    all_in = sorted(seen) == list(held) and set(seen) > set(wanted)
    old = {place for place in wanted if place <= before}
    all_gone = bool(old) and old == set(wanted) - set(seen)
    return evolve(_of_tokens(wanted, seen), all_in=all_in, all_gone=all_gone)


def _of_tokens(wanted: Sequence[int], seen: Sequence[int]) -> Symptom:
    if not all(seen):  # what it shows is no token's, and no more can be said
        return Symptom(extra=(("nobody's", 0),), of_tokens=True)
    ages = sorted(wanted)
    extra = [_beside(t, ages) for t in seen if t not in wanted]
    extra += [("twice", 0)] if len(set(seen)) < len(seen) else []
    gone = [place for place, t in enumerate(ages) if t not in seen]
    from_new = tuple(len(ages) - 1 - place for place in reversed(gone))
    return Symptom(extra=tuple(sorted(extra)), missing=(tuple(gone), from_new), of_tokens=True)


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
