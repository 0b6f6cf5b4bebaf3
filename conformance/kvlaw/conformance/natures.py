"""The nature of a difference: which clauses speak of this very kind of it, the most telling first.

A query that sees a token twice is a matter of VIS-3, a dropped token that comes back of TRIM-8, a lost sink of RING-12.
The comparison charges a difference to the first of these clauses that asks for the value.
"""

from collections.abc import Iterator

from kvlaw.reference.history import Sight
from kvlaw.reference.model import Model

_COMPILED = ("DEC-9", "DEC-2")
"""They are cited for compiled decodes alone."""


def sight_nature(ids: tuple[int, ...], sight: Sight, model: Model | None, fetched: tuple[int, ...]) -> Iterator[str]:
    """Name the clauses that speak of this very difference, the most telling first."""
    extra, missing = set(ids) - set(sight.allowed), set(sight.required) - set(ids)
    pinned = missing & set(model.row.tokens[: model.layer.sinks]) if model is not None else set[int]()
    yield from ("ROWS-7",) if pinned else ()
    yield from _COMPILED if 0 in extra else ()
    yield from _group_nature(extra, missing, model, fetched)
    if model is not None:
        yield from past_nature(extra, missing, model)
    yield from _COMPILED
    known = [token for token in ids if token]
    if len(set(known)) < len(known):
        yield "VIS-3"
    if 0 in extra:
        yield from ("GROW-2", "OWN-8", "VIS-4") if missing else ("VIS-4",)
    if pinned:
        yield from ("VIS-9", "RING-12") if pinned & set(fetched) else ("RING-12", "VIS-9")
    if missing and sight.allowed and sight.allowed[-1] in missing:
        yield "VIS-5"
    yield from _bounds_nature(extra, missing, sight, model)


def _group_nature(extra: set[int], missing: set[int], model: Model | None, fetched: tuple[int, ...]) -> Iterator[str]:
    """Name the clauses that speak of a row of a group: what was fetched and is hidden is a matter of the mask."""
    past = model.past if model is not None else None
    if past is not None and extra & past.padding and past.finalized:
        yield from ("PAD-8", "ROWS-2")
    sinks = model is not None and model.layer.sinks > 0
    if missing and missing <= set(fetched) and not sinks and not (past is not None and extra & past.dropped):
        yield "MASK-16"
    if 0 in extra and not missing:
        yield from ("ROWS-1", "MASK-17")
    if missing and past is not None and past.joined and not extra & past.padding:
        yield from ("ROWS-12", "ROWS-3")
    yield "READ-18"  # it is cited for known appends of codes alone


def past_nature(extra: set[int], missing: set[int], model: Model) -> Iterator[str]:
    """Name the clauses that speak of what happened to the cache before."""
    past = model.past
    if model.lenient:
        yield "RING-14"
    yield from _copied_nature(extra, model)
    if extra & past.dropped and past.rolled:
        yield "ROUND-3"
    if extra & past.dropped:
        yield from ("OWN-7", "TRIM-8") if past.reset and not past.trimmed else ("TRIM-8",)
    if missing and missing <= past.unread:
        yield "READ-5"
    if extra & past.padding:
        yield from ("PAD-10", "PAD-4") if past.filtered else ("PAD-4",)
    if extra - past.dropped - past.padding - set(model.row.tokens) - {0}:
        yield from ("ROWS-15",) if past.lent else ()
        yield from ("ROWS-16", "ROWS-1", "OWN-3") if past.filtered else ("ROWS-1", "OWN-3")
    if past.rolled and any(token < max(past.dropped, default=0) for token in missing):
        yield "ROUND-4"
    if missing & _before_a_trim(model):
        yield from ("TRIM-1", "TRIM-2")


def _copied_nature(extra: set[int], model: Model) -> Iterator[str]:
    """Name the clauses that speak of caches that were loaded or lent, and of those that they were made of."""
    past = model.past
    if extra - past.dropped - set(model.row.tokens) - {0}:
        yield from ("REUSE-4",) if past.reused or past.published else ()
        yield from ("PERS-4",) if past.loaded or past.saved else ()
    yield from file_nature(model)
    yield from ("REUSE-5",) if past.reused else ()


def file_nature(model: Model | None) -> tuple[str, ...]:
    """Name the clauses that speak of a cache which was loaded: of its file, of its list, of going on."""
    past = model.past if model is not None else None
    return (past.spoilt, past.loaded, "PERS-2") if past is not None and past.loaded else ()


def _before_a_trim(model: Model) -> set[int]:
    """Give the tokens that stood last after a trim: a trim that takes one too many takes these."""
    line = model.row.tokens
    return {line[i - 1] for i in range(1, len(line)) if line[i] - 1 in model.past.dropped}


def _bounds_nature(extra: set[int], missing: set[int], sight: Sight, model: Model | None) -> Iterator[str]:
    narrow = ("READ-15", "MASK-11", "MASK-4", "MASK-8", "MASK-9")
    yield from ("READ-12", "PREC-8")  # they are cited for known appends and next to a conversion alone
    own = sight.allowed[-1] if sight.allowed else 0
    beyond = {t for t in extra if 0 < t < own} & set(model.row.tokens if model else ())
    if beyond or missing:
        yield from narrow
        yield from ("RING-10", "RING-11")
    if missing and model and model.layer.window is None:
        yield "GROW-1"
    if missing and model and model.layer.window is not None:
        yield "RING-1"
    yield from ("VIS-8", "VIS-1", "VIS-2", "VIS-4")


def held_nature(held: tuple[int, ...], wanted: tuple[int, ...], model: Model | None) -> tuple[str, ...]:
    """Name the clauses that speak of columns that hold other tokens."""
    pinned = model.layer.sinks if model else 0
    came_back = model is not None and bool((set(held) - set(wanted)) & model.past.dropped)
    lost = set(wanted) - set(held) - {0}
    return (
        *(("PAD-11",) if lost else ()),
        *(("RING-13",) if held[:pinned] != wanted[:pinned] else ()),
        *(("RING-15",) if came_back else ()),
    )


def torn_nature(what: str) -> tuple[str, ...]:
    """Name the clauses that speak of a torn column, by what is told of it."""
    return ("VIS-10", "VIS-6") if "row" in what else ("GROW-2", "OWN-8", "VIS-6") if "no token" in what else ("VIS-6",)
