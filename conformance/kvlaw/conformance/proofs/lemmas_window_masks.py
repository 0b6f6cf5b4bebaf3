"""Lemmas on the mask and the fetch of a window, on window arguments, and on what decodes and windows share."""

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
    decode_visible,
    decode_width,
    effective_window,
    history,
    is_valid,
    mask_kind,
    position_column,
    visible,
)


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


@lemma("MASK-8", "MASK-13", "MASK-4", "ERR-7")
def window_arguments_allowed(ring: Ring, full: Full, window_argument: int) -> bool:
    """Allow any window argument from 1 on, but none below W on a ring with sinks.

    pre: is_valid(ring) and is_valid(full)
    post: _
    """
    by_ring = window_argument >= 1 and (ring.sinks == 0 or window_argument >= ring.window)
    always = can_narrow(ring, None) and can_narrow(full, None)
    return (
        always
        and can_narrow(ring, window_argument) == by_ring
        and can_narrow(full, window_argument) == (window_argument >= 1)
    )


@twin_of(window_arguments_allowed)
def window_arguments_allowed_with_sinks(ring: Ring, full: Full, window_argument: int) -> bool:
    """Allow a ring with sinks to be narrowed as long as the sinks fit.

    pre: is_valid(ring) and is_valid(full)
    post: _
    """
    return can_narrow(ring, window_argument) == (window_argument >= 1 and window_argument > ring.sinks)


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
