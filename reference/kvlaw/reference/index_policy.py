"""When a cache that holds half precision turns to codes, in plain integers.

* `is_due`: whether a conversion is due at an offset; `positions_left`: how many more
  positions make it due.
* `floor_after`: the reuse floor that a conversion leaves.
* `after_conversion`: the geometry after a conversion, that of before: columns stay where they lie.

A start of `never` and storage that holds codes from the first append on have no start here: nobody asks for them.
Every function is free of loops, so that CrossHair can prove it for all sizes.

Source: `geometry.md` section 8, for one cache outside a round.
"""

from kvlaw.reference.index_state import State
from kvlaw.spec.cite import clause


@clause("PREC-1", "PREC-2")
def is_due(start: int, offset: int) -> bool:
    """Say whether a dense cache at `offset` converts, `offset >= 0`: an empty one never does."""
    return offset >= start and offset > 0


@clause("PREC-10")
def positions_left(start: int, offset: int) -> int | None:
    """Count the positions that make a dense cache due, None if that is no matter of their number.

    Appending exactly that many makes it due, one fewer does not.
    """
    return start - offset if offset < start else None


@clause("PREC-5")
def floor_after(start: int, offset: int) -> int:
    """Give the reuse floor of a conversion at `offset`: none (0) with start 0."""
    return offset if start > 0 else 0


@clause("PREC-8", "PREC-9")
def after_conversion(state: State) -> State:
    """Give the geometry after a conversion: no column moves, spare ones and the write index included."""
    return state
