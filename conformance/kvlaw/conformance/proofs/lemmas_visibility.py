"""Lemmas on the law of visibility, and on the mask and the fetch of a decode.

Each append has a pair: what the mask shows is what the law shows (sound), and what the law shows stands in the fetch
(complete). Windows are in `lemmas_window_masks`.
"""

# ruff: noqa: F401 -- contracts use names that the code does not
# pyright: reportUnusedImport=false

from kvlaw.conformance.proofs.registry import lemma, twin_of
from kvlaw.reference.index import (
    Ring,
    State,
    after_decode,
    can_narrow,
    column_position,
    decode_temporal,
    decode_visible,
    decode_width,
    effective_window,
    is_valid,
    mask_kind,
    position_column,
    temporal_column,
    temporal_index,
    visible,
)


@lemma("VIS-9", "RING-12")
def law_needs_no_case(query: int, key: int, window: int, sinks: int) -> bool:
    """State the law with sinks in one line, for queries below W too: pinned, or among the newest W - s.

    pre: 0 <= sinks < window
    post: _
    """
    return visible(query, key, window, sinks) == (0 <= key <= query and (key < sinks or query - key < window - sinks))


@twin_of(law_needs_no_case)
def law_without_counting_sinks(query: int, key: int, window: int, sinks: int) -> bool:
    """Show W newest positions besides the sinks.

    pre: 0 <= sinks < window
    post: _
    """
    return visible(query, key, window, sinks) == (0 <= key <= query and (key < sinks or query - key < window))


@lemma("VIS-5", "RING-10", "RING-14")
def query_sees_itself(query: int, window: int, sinks: int) -> bool:
    """Show every query its own position, and with W = 1 nothing else.

    pre: 0 <= sinks < window and query >= 0
    post: _
    """
    alone = window > 1 or not visible(query, query - 1, window, sinks)
    return visible(query, query, window, sinks) and alone


@twin_of(query_sees_itself)
def query_with_all_sinks_sees_itself(query: int, window: int, sinks: int) -> bool:
    """Allow as many sinks as the window is wide.

    pre: 0 <= sinks < window and query >= 0
    post: _
    """
    return visible(query, query, window, sinks + 1)


@lemma("VIS-1", "VIS-2", "VIS-4")
def law_counts_the_window(query: int, key: int, window: int, sinks: int) -> bool:
    """Show a query at q >= W the first s positions and q - (W - s) + 1..q, and below W all of 0..q.

    pre: 0 <= sinks < window and query >= 0
    post: _
    """
    if query < window:
        return visible(query, key, window, sinks) == (0 <= key <= query)
    oldest = query - (window - sinks) + 1
    return visible(query, key, window, sinks) == (0 <= key < sinks or oldest <= key <= query)


@twin_of(law_counts_the_window)
def law_counts_one_more(query: int, key: int, window: int, sinks: int) -> bool:
    """Show the position that is W - s older than the query.

    pre: 0 <= sinks < window and query >= 0
    post: _
    """
    if query < window:
        return visible(query, key, window, sinks) == (0 <= key <= query)
    oldest = query - (window - sinks)
    return visible(query, key, window, sinks) == (0 <= key < sinks or oldest <= key <= query)


@lemma("VIS-7")
def decode_order_is_temporal_order(ring: Ring, column: int) -> bool:
    """Know from the state before a decode where each fetched column will stand in temporal order.

    pre: is_valid(ring)
    pre: 0 <= column < decode_width(ring)
    post: _
    """
    return decode_temporal(ring, column) == temporal_index(after_decode(ring), column)


@twin_of(decode_order_is_temporal_order)
def decode_order_of_the_state_before(ring: Ring, column: int) -> bool:
    """Take the temporal order before the write for the one after it.

    pre: is_valid(ring)
    pre: 0 <= column < decode_width(ring)
    post: _
    """
    return temporal_index(ring, column) == temporal_index(after_decode(ring), column)


@lemma("VIS-1", "VIS-4", "MASK-8", "MASK-9", "MASK-10")
def decode_mask_is_sound(ring: Ring, column: int, window_argument: int | None) -> bool:
    """Show in each fetched column of a decode what the law shows of its position, with any window argument.

    pre: is_valid(ring) and can_narrow(ring, window_argument)
    pre: 0 <= column < decode_width(ring)
    post: _
    """
    position = column_position(after_decode(ring), column)
    window = effective_window(ring, window_argument)
    shown = decode_visible(ring, column, window_argument)
    return position is not None and shown == visible(ring.offset, position, window, ring.sinks)


@twin_of(decode_mask_is_sound)
def decode_mask_in_temporal_order(ring: Ring, column: int, window_argument: int | None) -> bool:
    """Build the mask of a narrowed decode as if the fetch were in temporal order.

    pre: is_valid(ring) and can_narrow(ring, window_argument)
    pre: 0 <= column < decode_width(ring)
    post: _
    """
    position = column_position(after_decode(ring), column)
    window = effective_window(ring, window_argument)
    shown = column < ring.sinks or window is None or decode_width(ring) - 1 - column < window - ring.sinks
    return position is not None and shown == visible(ring.offset, position, window, ring.sinks)


@lemma("VIS-1", "VIS-3", "RING-1")
def decode_fetch_is_complete(ring: Ring, key: int) -> bool:
    """Fetch with a decode every position that its query sees.

    pre: is_valid(ring)
    pre: visible(ring.offset, key, ring.window, ring.sinks)
    post: _
    """
    column = position_column(after_decode(ring), key)
    return column is not None and column < decode_width(ring) and decode_visible(ring, column)


@twin_of(decode_fetch_is_complete)
def decode_fetch_without_its_own(ring: Ring, key: int) -> bool:
    """Read the columns as they were before the write.

    pre: is_valid(ring)
    pre: visible(ring.offset, key, ring.window, ring.sinks)
    post: _
    """
    return position_column(ring, key) is not None


@lemma("MASK-6")
def decode_needs_no_mask(ring: Ring, column: int, window_argument: int | None) -> bool:
    """Say "none" for a decode only where every fetched column is visible.

    pre: is_valid(ring) and can_narrow(ring, window_argument)
    pre: mask_kind(ring, 1, "decode", window_argument) == "none"
    pre: 0 <= column < decode_width(ring)
    post: _
    """
    return decode_visible(ring, column, window_argument)


@twin_of(decode_needs_no_mask)
def decode_never_needs_a_mask(ring: Ring, column: int, window_argument: int | None) -> bool:
    """Forget the mask of a decode whose fetch is one column wider than the window argument.

    pre: is_valid(ring) and can_narrow(ring, window_argument)
    pre: mask_kind(ring, 1, "decode", window_argument) == "none"
    pre: 0 <= column < decode_width(ring)
    post: _
    """
    narrower = None if window_argument is None or ring.sinks or window_argument == 1 else window_argument - 1
    return decode_visible(ring, column, narrower)


@lemma("MASK-10", "MASK-8")
def decode_mask_hides_something(ring: Ring, window_argument: int | None) -> bool:
    """Say "array" for a decode only where offset + 1 > w for a narrower w, and then the oldest column is hidden.

    pre: is_valid(ring) and can_narrow(ring, window_argument)
    post: _
    """
    narrowed = window_argument is not None and window_argument < ring.window and ring.offset + 1 > window_argument
    if mask_kind(ring, 1, "decode", window_argument) == "none":
        return not narrowed
    oldest = temporal_column(after_decode(ring), 0)
    return narrowed and oldest < decode_width(ring) and not decode_visible(ring, oldest, window_argument)


@twin_of(decode_mask_hides_something)
def decode_mask_by_offset(ring: Ring, window_argument: int | None) -> bool:
    """Ask for an array one decode too early.

    pre: is_valid(ring) and can_narrow(ring, window_argument)
    post: _
    """
    narrowed = window_argument is not None and window_argument < ring.window and ring.offset + 1 >= window_argument
    return (mask_kind(ring, 1, "decode", window_argument) == "array") == narrowed
