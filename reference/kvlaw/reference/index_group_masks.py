"""Which fetched columns each query of an append to a group may see, in plain integers, from the state before it.

* `row_sees_block`, `row_sees_decode`: the mask of one row, entry by entry, as formulas without loops.
* `block_visible`, `decode_visible`: the same, asked of a group.
* `mask_kind`: what the mask of all rows can be replaced by: nothing, "causal", or only an array.

A window argument `w` asks a read for a narrower window: `w < W` narrows, `w >= W` is W; a growing group obeys any `w`.
What padded queries see is free; these formulas show them no column of left padding.

Source: `geometry.md` section 5.
"""

from kvlaw.reference.index_group_plans import column_of_decode, history
from kvlaw.reference.index_group_state import Group, active, overruns, rows, temporal_place, valid
from kvlaw.reference.index_masks import MaskKind
from kvlaw.reference.index_plans import Phase
from kvlaw.spec.cite import clause


@clause("MASK-4", "MASK-8", "MASK-9")
def obeyed_window(window: int | None, window_argument: int | None) -> int | None:
    """Give the window that a read obeys, or None if it sees everything up to itself."""
    if window is None or window_argument is None:
        return window if window_argument is None else window_argument
    return min(window, window_argument)


@clause("ROWS-1", "PAD-4", "MASK-7", "VIS-1", "VIS-2")
def row_sees_block(past: int, offset: int, window: int | None, i: int, j: int) -> bool:
    """Tell whether query `i` of a block sees column `j` of its fetch.

    past: columns of the fetch before the block. offset: the row's valid offset before it. window: the one obeyed.
    """
    if not 0 <= j <= past + i or (window is not None and past + i - j >= window):
        return False
    return j >= past - offset


@clause("MASK-1")
def decode_width(window: int | None, counting: int) -> int:
    """Count the columns that a decode fetches, `counting` columns before it."""
    return counting + 1 if window is None else min(counting + 1, window)


@clause("VIS-7")
def decode_place(window: int | None, counting: int, write_index: int, column: int) -> int:
    """Give the place in temporal order, after a decode, of a physical column of its fetch."""
    full = window is not None and counting >= window
    return temporal_place(window, column_of_decode(window, write_index) + 1, full, column)


@clause("ROWS-1", "MASK-10", "VIS-1", "VIS-2")
def row_sees_decode(width: int, place: int, offset: int, window: int | None) -> bool:
    """Tell whether the query of a decode at position `offset` sees the column at `place` of `width`."""
    if not 0 <= place < width or (window is not None and width - 1 - place >= window):
        return False
    return place >= width - (offset + 1)


def past_of_block(group: Group) -> int:
    """Count the columns of a block's fetch that were there before it."""
    return history(group.window, active(group) - min(overruns(group), default=0))


@clause("MASK-7", "MASK-8", "VIS-2")
def block_visible(group: Group, row: int, length: int, i: int, j: int, window_argument: int | None = None) -> bool:
    """Tell whether query `i` of a row in a block of `length` positions sees column `j` of the fetch."""
    window = obeyed_window(group.window, window_argument)
    return 0 <= i < length and row_sees_block(past_of_block(group), valid(group, row), window, i, j)


@clause("MASK-8", "MASK-10", "VIS-1")
def decode_visible(group: Group, row: int, column: int, window_argument: int | None = None) -> bool:
    """Tell whether the query of a row in a decode sees physical column `column` of the fetch."""
    width = decode_width(group.window, active(group))
    if not 0 <= column < width:
        return False
    place = decode_place(group.window, active(group), group.write_index, column)
    return row_sees_decode(width, place, group.offsets[row], obeyed_window(group.window, window_argument))


@clause("MASK-14", "MASK-15")
def mask_kind(group: Group, length: int, phase: Phase, window_argument: int | None = None) -> MaskKind:
    """Give the simplest mask that says the same for every row; a block is at least causal."""
    window = obeyed_window(group.window, window_argument)
    shortest = min((valid(group, row) for row in range(rows(group))), default=0)
    decodes = phase == "decode"
    past = decode_width(group.window, active(group)) - 1 if decodes else past_of_block(group)
    if (window is not None and past + length > window) or past > shortest:
        return "array"
    return "none" if decodes else "causal"
