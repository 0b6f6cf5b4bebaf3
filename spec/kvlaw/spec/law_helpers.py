"""What a law may call: small functions over records and token ids.

A helper that meets an unobserved value raises ``Unobserved``: the law then does not apply to that step.
"""

from collections.abc import Callable
from typing import Any

from kvlaw.spec.config import Config
from kvlaw.spec.records import CacheRecord, ReadRecord, Tokens, Unobserved, compared, same
from kvlaw.spec.slots import answers_of, slots_of, tail_of


def same_observed(one: Any, other: Any) -> bool:
    """Tell whether two records agree in every field that both observed; unobserved if there is none."""
    if not compared(one, other):
        raise Unobserved
    return same(one, other)


def same_in(one: Any, other: Any, *names: str) -> bool:
    """Tell whether two records agree in those of the named fields that both observed; unobserved if there is none."""
    if one is None or other is None:
        raise Unobserved
    pairs = [(getattr(one, name), getattr(other, name)) for name in names]
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    if not known:
        raise Unobserved
    return all(a == b for a, b in known)


def seen(read: ReadRecord | None) -> Tokens:
    """List what the last query of row 0 sees, in fetch order."""
    if read is None or read.visible is None:
        raise Unobserved
    return read.visible[0][-1]


def queries(read: ReadRecord | None) -> tuple[tuple[int, int, Tokens], ...]:
    """List (row, query, ids seen) for every query of a read."""
    if read is None or read.visible is None:
        raise Unobserved
    return tuple((r, q, ids) for r, row in enumerate(read.visible) for q, ids in enumerate(row))


def newest(live: Tokens, count: int, sinks: int = 0) -> Tokens:
    """Give, oldest first, the ids of ``count`` positions: up to ``sinks`` pinned ones, then the newest others."""
    kept = min(count, len(live))
    pinned = min(sinks, kept)
    return live[:pinned] + live[len(live) - (kept - pinned) :]


def window_of(live: Tokens, position: int, window: int | None, sinks: int = 0) -> set[int]:
    """Give the ids that a query at ``position`` may see: ``window`` of them, up to ``sinks`` pinned ones counted in."""
    if window is None or position < window:
        return set(live[: position + 1])
    return set(live[:sinks]) | set(live[max(sinks, position + 1 - (window - sinks)) : position + 1])


def all_see(read: ReadRecord | None, live: Tokens, offset: int, window: int | None, sinks: int = 0) -> bool:
    """Tell whether every query of every row sees exactly ``window_of`` its position; the first stands at ``offset``."""
    return all(set(ids) == window_of(live, offset + q, window, sinks) for _, q, ids in queries(read))


def own(read: ReadRecord | None, live: Tokens) -> bool:
    """Tell whether every query sees only tokens of its own sequence: no neighbour's, no padding, nothing dropped."""
    return all(set(ids) <= set(live) for _, _, ids in queries(read))


def due(config: Config, offset: int) -> bool:
    """Tell whether half precision that stands at ``offset`` is to become codes by the policy of ``config``."""
    return isinstance(config.start, int) and offset >= config.start and offset > 0


def in_round(state: CacheRecord | None) -> bool:
    """Tell whether a cache shows that a round is open; one that says nothing of rounds has none."""
    return state is not None and state.round == "open"


def narrower(window: int | None, argument: int | None) -> int | None:
    """Combine a cache's window and a window argument: the smaller one counts, None bounds nothing."""
    bounds = [w for w in (window, argument) if w is not None]
    return min(bounds) if bounds else None


HELPERS: dict[str, Callable[..., Any]] = {
    "same": same_observed,
    "same_in": same_in,
    "seen": seen,
    "queries": queries,
    "newest": newest,
    "window_of": window_of,
    "all_see": all_see,
    "own": own,
    "due": due,
    "in_round": in_round,
    "narrower": narrower,
    "tail_of": tail_of,
    "slots_of": slots_of,
    "answers_of": answers_of,
}
"""The helpers by the names that laws use."""
