"""Which fetched columns each query of an append may see, in plain integers, from the state before the append.

* `visible`: the law, over positions. Everything else here is a formula over columns that must say the same (proved).
* `block_visible`, `decode_visible`, `full_visible`: the mask of an append, entry by entry.
* `mask_kind`: what the mask can be replaced by: nothing, "causal", or only an array.

A window argument `w` asks a read for a narrower window: `w < W` narrows, `w >= W` is W; a growing cache obeys any `w`.
A ring with sinks can not be narrowed: `can_narrow` is the check, the formulas here take it as done.

Source: `geometry.md` sections 5 and 6, `design.md` section 7 (decisions 30, 31).
"""

from typing import Literal

from kvlaw.reference.index_plans import Phase, decode_column
from kvlaw.reference.index_state import Full, Ring, State, active, history
from kvlaw.spec.cite import clause

MaskKind = Literal["none", "causal", "array"]
"""none: every fetched column is visible; causal: column j iff j <= history + i; array: anything else."""


@clause("VIS-1", "VIS-2", "VIS-5", "VIS-9", "RING-12")
def visible(query: int, key: int, window: int | None, sinks: int) -> bool:
    """Tell whether the query at position `query` sees the key at position `key`: the law of visibility."""
    if not 0 <= key <= query:
        return False
    if window is None or query < window:
        return True
    return key < sinks or query - key < window - sinks


@clause("MASK-13", "ERR-7")
def can_narrow(state: State, window_argument: int | None) -> bool:
    """Tell whether a read of `state` may be asked with this window argument."""
    if window_argument is None:
        return True
    narrows_sinks = isinstance(state, Ring) and state.sinks > 0 and window_argument < state.window
    return window_argument >= 1 and not narrows_sinks


@clause("MASK-4", "MASK-8", "MASK-9")
def effective_window(state: State, window_argument: int | None) -> int | None:
    """Give the window that a read obeys, or None if it sees everything up to itself."""
    if isinstance(state, Full):
        return window_argument
    return state.window if window_argument is None else min(state.window, window_argument)


def _ring_window(ring: Ring, window_argument: int | None) -> int:
    return ring.window if window_argument is None else min(ring.window, window_argument)


@clause("MASK-7", "MASK-8", "VIS-2", "VIS-9")
def block_visible(before: Ring, length: int, i: int, j: int, window_argument: int | None = None) -> bool:
    """Tell whether query `i` of a window of `length` positions sees column `j` of its fetch, [0, history + length)."""
    column_of_query = history(before) + i
    if not (0 <= i < length and 0 <= j <= column_of_query):
        return False
    window = _ring_window(before, window_argument)
    return j < before.sinks or column_of_query - j < window - before.sinks


@clause("MASK-1")
def decode_width(before: Ring) -> int:
    """Count the columns that a decode fetches."""
    return min(active(before) + 1, before.window)


@clause("VIS-7")
def decode_temporal(before: Ring, column: int) -> int:
    """Give the place in temporal order, after a decode, of a physical column of its fetch."""
    if active(before) < before.window or column < before.sinks:
        return column
    newest = decode_column(before)
    if column > newest:
        return before.sinks + column - newest - 1
    return column + before.window - newest - 1


@clause("MASK-8", "MASK-10", "VIS-1")
def decode_visible(before: Ring, column: int, window_argument: int | None = None) -> bool:
    """Tell whether the query of a decode sees physical column `column` of its fetch, [0, decode_width)."""
    width = decode_width(before)
    if not 0 <= column < width:
        return False
    window = _ring_window(before, window_argument)
    return column < before.sinks or width - 1 - decode_temporal(before, column) < window - before.sinks


@clause("MASK-4", "VIS-1", "VIS-2")
def full_visible(before: Full, length: int, i: int, j: int, window_argument: int | None = None) -> bool:
    """Tell whether query `i` of an append of `length` positions to a growing cache sees column `j`."""
    query = before.offset + i
    if not (0 <= i < length and 0 <= j <= query):
        return False
    return window_argument is None or query - j < window_argument


@clause("MASK-2", "MASK-3", "MASK-5", "MASK-6", "MASK-7", "MASK-10")
def mask_kind(before: State, length: int, phase: Phase, window_argument: int | None = None) -> MaskKind:
    """Give the simplest mask that says the same as the visible sets of an append; a window is at least causal."""
    window = effective_window(before, window_argument)
    if isinstance(before, Full):
        width = before.offset + length
    else:
        width = decode_width(before) if phase == "decode" else history(before) + length
    if window is not None and width > window:
        return "array"
    return "none" if phase == "decode" else "causal"
