"""Lemmas on growing caches: growth, masks with a window argument, trims."""

# ruff: noqa: F401 -- contracts use names that the code does not
# pyright: reportUnusedImport=false

from kvlaw.conformance.proofs.registry import lemma, twin_of
from kvlaw.reference.index import (
    STEP,
    Full,
    after_full,
    can_narrow,
    can_trim,
    capacity_for,
    full_visible,
    is_valid,
    mask_kind,
    max_columns,
    plan_trim,
    visible,
)


@lemma("GROW-1", "GROW-3", "POS-2")
def full_growth_fits(full: Full, length: int) -> bool:
    """Hold every position after an append: in the same buffer if it fits, else with less than STEP spare columns.

    pre: is_valid(full) and length >= 1
    post: _
    """
    after = after_full(full, length)
    if full.offset + length <= full.columns:
        return is_valid(after) and after.offset == full.offset + length and after.columns == full.columns
    return is_valid(after) and after.offset == full.offset + length and after.columns < after.offset + STEP


@twin_of(full_growth_fits)
def full_growth_by_the_append(full: Full, length: int) -> bool:
    """Add columns for the append rounded up, without cutting the stale ones of a trim.

    pre: is_valid(full) and length >= 1
    post: _
    """
    after = after_full(full, length)
    grown = after.offset > full.columns
    columns = full.columns + capacity_for(length) if grown else full.columns
    return columns == full.columns or columns < after.offset + STEP


@lemma("GROW-3")
def full_capacity_is_smallest(positions: int) -> bool:
    """Round a capacity up to the smallest multiple of STEP that holds the positions.

    pre: positions >= 0
    post: _
    """
    capacity = capacity_for(positions)
    return capacity % STEP == 0 and positions <= capacity < positions + STEP


@twin_of(full_capacity_is_smallest)
def full_capacity_always_grows(positions: int) -> bool:
    """Add a whole step even at a multiple of STEP.

    pre: positions >= 0
    post: _
    """
    capacity = (positions // STEP + 1) * STEP
    return capacity % STEP == 0 and positions <= capacity < positions + STEP


@lemma("GROW-3")
def full_growth_is_bounded(full: Full, length: int) -> bool:
    """Allocate at most STEP columns beyond the positions held, unless a trim has left more.

    pre: is_valid(full) and length >= 1
    post: _
    """
    after = after_full(full, length)
    return after.columns <= max_columns(full, length, "window") <= max(full.columns, after.offset + STEP)


@twin_of(full_growth_is_bounded)
def full_growth_is_exact(full: Full, length: int) -> bool:
    """Allocate no spare columns.

    pre: is_valid(full) and length >= 1
    post: _
    """
    after = after_full(full, length)
    return after.columns <= max(full.columns, after.offset)


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


@lemma("TRIM-1", "POS-4")
def full_trim_drops_the_newest(full: Full, count: int) -> bool:
    """Lower the offset of a growing cache by exactly `count`, in the same buffer.

    pre: is_valid(full) and can_trim(full, count)
    post: _
    """
    after = plan_trim(full, count)
    return is_valid(after) and after.offset == full.offset - count >= 0 and after.columns == full.columns


@twin_of(full_trim_drops_the_newest)
def full_trim_clamps(full: Full, count: int) -> bool:
    """Always keep a position.

    pre: is_valid(full) and can_trim(full, count)
    post: _
    """
    return plan_trim(full, count).offset == max(1, full.offset - count)
