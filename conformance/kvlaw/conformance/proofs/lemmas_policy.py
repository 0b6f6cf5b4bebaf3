"""Lemmas on the boundary: when a conversion is due, how much may come before it, and that it moves no position."""


# pyright: reportUnusedImport=false

from kvlaw.conformance.proofs.registry import lemma, twin_of
from kvlaw.reference.index import Ring, active, after_decode, column_position, is_valid
from kvlaw.reference.index_policy import after_conversion, floor_after, is_due, positions_left


@lemma("PREC-10", "PREC-1")
def max_append_makes_it_due(start: int, offset: int, length: int) -> bool:
    """Make a dense cache due by an append exactly when it is of all the positions that are left, or of more.

    pre: start >= 0 and offset >= 0 and length >= 1
    pre: not is_due(start, offset)
    post: _
    """
    left = positions_left(start, offset)
    return is_due(start, offset + length) == (left is None or length >= left)


@twin_of(max_append_makes_it_due)
def max_append_is_one_less(start: int, offset: int, length: int) -> bool:
    """Leave one position fewer than make it due.

    pre: start >= 0 and offset >= 0 and length >= 1
    pre: not is_due(start, offset)
    post: _
    """
    left = positions_left(start, offset)
    return is_due(start, offset + length) == (left is None or length >= left - 1)


@lemma("PREC-1", "PREC-2")
def nothing_is_left_where_it_is_due(start: int, offset: int) -> bool:
    """Leave at least one position while a bound is given, and give none where a conversion is due.

    pre: start >= 0 and offset >= 0
    post: _
    """
    left = positions_left(start, offset)
    return left is None if is_due(start, offset) else (left is None) == (start == 0 and offset == 0)


@twin_of(nothing_is_left_where_it_is_due)
def an_empty_cache_is_due(start: int, offset: int) -> bool:
    """Convert an empty cache with start 0.

    pre: start >= 0 and offset >= 0
    post: _
    """
    left = positions_left(start, offset)
    return (left is None) == (offset >= start) and (left is not None or is_due(start, offset))


@lemma("PREC-5")
def floor_is_at_least_the_start(start: int, offset: int) -> bool:
    """Leave a floor of at least the start, and none with start 0.

    pre: start >= 0 and is_due(start, offset)
    post: _
    """
    floor = floor_after(start, offset)
    return (floor == offset >= start) if start > 0 else floor == 0


@twin_of(floor_is_at_least_the_start)
def floor_is_the_start(start: int, offset: int) -> bool:
    """Take the start for the floor.

    pre: start >= 0 and is_due(start, offset)
    post: _
    """
    return floor_after(start, offset) == start


@lemma("PREC-8", "PREC-9")
def conversion_keeps_the_position_map(ring: Ring, column: int) -> bool:
    """Leave every position in its column, and the column that the next decode overwrites, as without a conversion.

    pre: is_valid(ring)
    post: _
    """
    after = after_conversion(ring)
    if not isinstance(after, Ring):
        return False
    same = column_position(after, column) == column_position(ring, column)
    return is_valid(after) and same and after_decode(after) == after_decode(ring)


@twin_of(conversion_keeps_the_position_map)
def conversion_in_temporal_order(ring: Ring, column: int) -> bool:
    """Lay the columns out oldest first, and write on behind the newest.

    pre: is_valid(ring)
    post: _
    """
    columns = active(ring)
    after = Ring(ring.window, ring.sinks, columns, columns, False, ring.offset)
    return column_position(after, column) == column_position(ring, column)
