"""Lemmas on masks: the mask of every append says, over columns, what the law of visibility says over positions.

Each append has a pair: what the mask shows is what the law shows (sound), and what the law shows stands in the fetch
(complete).
"""

# ruff: noqa: ARG001, F401 -- a twin has all parameters of its lemma; contracts use names that the code does not
# pyright: reportUnusedImport=false

from kvlaw.conformance.proofs.registry import lemma, twin_of
from kvlaw.reference.index import (
    Full,
    Ring,
    active,
    after_block,
    after_decode,
    block_visible,
    can_narrow,
    column_position,
    decode_temporal,
    decode_visible,
    decode_width,
    effective_window,
    full_visible,
    history,
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


@lemma("VIS-2", "VIS-4", "VIS-9", "RING-11", "MASK-8", "MASK-9")
def window_mask_is_sound(ring: Ring, length: int, i: int, j: int, window_argument: int | None) -> bool:
    """Show query i of a window in each fetched column what the law shows of its position, with any window argument.

    pre: is_valid(ring) and can_narrow(ring, window_argument)
    pre: 0 <= i < length
    pre: 0 <= j < history(ring) + length
    post: _
    """
    position = column_position(after_block(ring, length), j)
    window = effective_window(ring, window_argument)
    shown = block_visible(ring, length, i, j, window_argument)
    return position is not None and shown == visible(ring.offset + i, position, window, ring.sinks)


@twin_of(window_mask_is_sound)
def window_mask_forgets_the_sinks(ring: Ring, length: int, i: int, j: int, window_argument: int | None) -> bool:
    """Hide the sinks once the window has left them behind, as mlx-lm's mask of a wrapped ring does.

    pre: is_valid(ring) and can_narrow(ring, window_argument)
    pre: 0 <= i < length
    pre: 0 <= j < history(ring) + length
    post: _
    """
    position = column_position(after_block(ring, length), j)
    window = effective_window(ring, window_argument)
    query = history(ring) + i
    shown = j <= query and (window is None or query - j < window)
    return position is not None and shown == visible(ring.offset + i, position, window, ring.sinks)


@lemma("VIS-2", "VIS-3", "RING-11", "RING-12")
def window_fetch_is_complete(ring: Ring, length: int, i: int, key: int) -> bool:
    """Fetch with a window every position that any of its queries sees.

    pre: is_valid(ring)
    pre: 0 <= i < length
    pre: visible(ring.offset + i, key, ring.window, ring.sinks)
    post: _
    """
    column = position_column(after_block(ring, length), key)
    return column is not None and block_visible(ring, length, i, column)


@twin_of(window_fetch_is_complete)
def window_fetch_of_the_last_columns(ring: Ring, length: int, i: int, key: int) -> bool:
    """Fetch only the newest W columns of a window.

    pre: is_valid(ring)
    pre: 0 <= i < length
    pre: visible(ring.offset + i, key, ring.window, ring.sinks)
    post: _
    """
    column = position_column(after_block(ring, length), key)
    return column is not None and column >= history(ring) + length - ring.window


@lemma("MASK-7", "VIS-2")
def window_is_plain_causal(ring: Ring, length: int, i: int, j: int, window_argument: int | None) -> bool:
    """Say "causal" for a window only where its mask is plain causal, offset from the history.

    pre: is_valid(ring) and can_narrow(ring, window_argument)
    pre: 0 <= i < length
    pre: 0 <= j < history(ring) + length
    pre: mask_kind(ring, length, "window", window_argument) == "causal"
    post: _
    """
    return block_visible(ring, length, i, j, window_argument) == (j <= history(ring) + i)


@twin_of(window_is_plain_causal)
def window_is_causal_without_history(ring: Ring, length: int, i: int, j: int, window_argument: int | None) -> bool:
    """Align plain causal with the first column instead of the last.

    pre: is_valid(ring) and can_narrow(ring, window_argument)
    pre: 0 <= i < length
    pre: 0 <= j < history(ring) + length
    pre: mask_kind(ring, length, "window", window_argument) == "causal"
    post: _
    """
    return block_visible(ring, length, i, j, window_argument) == (j <= i)


@lemma("MASK-7")
def window_mask_hides_something(ring: Ring, length: int, window_argument: int | None) -> bool:
    """Say "array" for a window iff min(offset, W - 1) + L > min(w, W), and then the last query sees less than causal.

    pre: is_valid(ring) and can_narrow(ring, window_argument)
    pre: length >= 1
    post: _
    """
    bound = ring.window if window_argument is None else min(window_argument, ring.window)
    wide = min(ring.offset, ring.window - 1) + length > bound
    if mask_kind(ring, length, "window", window_argument) == "causal":
        return not wide
    return wide and not block_visible(ring, length, length - 1, ring.sinks, window_argument)


@twin_of(window_mask_hides_something)
def window_mask_by_length(ring: Ring, length: int, window_argument: int | None) -> bool:
    """Look at the length of the window alone, not at the history before it.

    pre: is_valid(ring) and can_narrow(ring, window_argument)
    pre: length >= 1
    post: _
    """
    bound = ring.window if window_argument is None else min(window_argument, ring.window)
    return (mask_kind(ring, length, "window", window_argument) == "array") == (length > bound)


@lemma("MASK-9")
def window_argument_never_widens(ring: Ring, length: int, i: int, j: int, window_argument: int) -> bool:
    """Let a window argument of W or more mean W, in decodes and windows.

    pre: is_valid(ring) and window_argument >= ring.window
    post: _
    """
    decode = decode_visible(ring, j, window_argument) == decode_visible(ring, j)
    window = block_visible(ring, length, i, j, window_argument) == block_visible(ring, length, i, j)
    return decode and window and mask_kind(ring, length, "window", window_argument) == mask_kind(ring, length, "window")


@twin_of(window_argument_never_widens)
def window_argument_never_narrows(ring: Ring, length: int, i: int, j: int, window_argument: int) -> bool:
    """Let a window argument of W - 1 mean W too.

    pre: is_valid(ring) and window_argument >= ring.window
    post: _
    """
    return block_visible(ring, length, i, j, window_argument - 1) == block_visible(ring, length, i, j)


@lemma("VIS-8")
def window_of_one_sees_what_a_decode_sees(ring: Ring, key: int) -> bool:
    """Show the query of a one-token window the same positions as that of a decode.

    pre: is_valid(ring)
    post: _
    """
    decoded = position_column(after_decode(ring), key)
    windowed = position_column(after_block(ring, 1), key)
    by_decode = decoded is not None and decode_visible(ring, decoded)
    return by_decode == (windowed is not None and block_visible(ring, 1, 0, windowed))


@twin_of(window_of_one_sees_what_a_decode_sees)
def window_of_one_stands_where_a_decode_stands(ring: Ring, key: int) -> bool:
    """Store the positions of a one-token window in the columns of a decode.

    pre: is_valid(ring)
    post: _
    """
    return position_column(after_decode(ring), key) == position_column(after_block(ring, 1), key)


@lemma("VIS-1", "VIS-2", "VIS-4", "MASK-4")
def full_mask_is_the_law(full: Full, length: int, i: int, j: int, window_argument: int | None) -> bool:
    """Show every query of a growing cache what the law shows, with any window argument.

    pre: is_valid(full) and can_narrow(full, window_argument)
    pre: 0 <= i < length
    post: _
    """
    shown = full_visible(full, length, i, j, window_argument)
    return shown == visible(full.offset + i, j, window_argument, 0)


@twin_of(full_mask_is_the_law)
def full_mask_ignores_the_window_argument(full: Full, length: int, i: int, j: int, window_argument: int | None) -> bool:
    """Let a growing cache ignore the window argument.

    pre: is_valid(full) and can_narrow(full, window_argument)
    pre: 0 <= i < length
    post: _
    """
    return full_visible(full, length, i, j) == visible(full.offset + i, j, window_argument, 0)


@lemma("MASK-2", "MASK-3", "MASK-5")
def full_mask_kind_is_exact(full: Full, length: int, i: int, j: int, window_argument: int | None) -> bool:
    """Say "array" for a growing cache iff offset + L > w; else nothing or plain causal says the same.

    pre: is_valid(full) and can_narrow(full, window_argument)
    pre: 0 <= i < length
    pre: 0 <= j < full.offset + length
    post: _
    """
    if mask_kind(full, length, "window", window_argument) == "array":
        hidden = not full_visible(full, length, length - 1, 0, window_argument)
        return window_argument is not None and full.offset + length > window_argument and hidden
    return full_visible(full, length, i, j, window_argument) == (j <= full.offset + i)


@twin_of(full_mask_kind_is_exact)
def full_mask_kind_by_length(full: Full, length: int, i: int, j: int, window_argument: int | None) -> bool:
    """Ask for an array only when the append alone is longer than the window argument.

    pre: is_valid(full) and can_narrow(full, window_argument)
    pre: 0 <= i < length
    pre: 0 <= j < full.offset + length
    post: _
    """
    if window_argument is not None and length > window_argument:
        return not full_visible(full, length, length - 1, 0, window_argument)
    return full_visible(full, length, i, j, window_argument) == (j <= full.offset + i)


@lemma("MASK-2", "MASK-5")
def full_decode_needs_no_mask(full: Full, j: int, window_argument: int | None) -> bool:
    """Say "none" for a decode of a growing cache iff its query sees every column.

    pre: is_valid(full) and can_narrow(full, window_argument)
    pre: 0 <= j <= full.offset
    post: _
    """
    if mask_kind(full, 1, "decode", window_argument) == "array":
        return not full_visible(full, 1, 0, 0, window_argument)
    return full_visible(full, 1, 0, j, window_argument)


@twin_of(full_decode_needs_no_mask)
def full_decode_never_needs_a_mask(full: Full, j: int, window_argument: int | None) -> bool:
    """Never mask a decode.

    pre: is_valid(full) and can_narrow(full, window_argument)
    pre: 0 <= j <= full.offset
    post: _
    """
    return full_visible(full, 1, 0, j, window_argument)


@lemma("VIS-4")
def nothing_outside_the_fetch_is_visible(ring: Ring, length: int, i: int, j: int) -> bool:
    """Show no query a column outside its fetch.

    pre: is_valid(ring)
    post: _
    """
    windowed = 0 <= j < active(after_block(ring, length)) or not block_visible(ring, length, i, j)
    return windowed and (0 <= j < decode_width(ring) or not decode_visible(ring, j))


@twin_of(nothing_outside_the_fetch_is_visible)
def sinks_are_visible_before_they_exist(ring: Ring, length: int, i: int, j: int) -> bool:
    """Show a decode every column below s, written or not.

    pre: is_valid(ring)
    post: _
    """
    return 0 <= j < decode_width(ring) or not (decode_visible(ring, j) or 0 <= j < ring.sinks)
