"""Lemmas on rounds: what an append in a round keeps, and what a roll back leaves.

They are the inductive step: `in_round` holds before the first append, every append keeps it, and a roll back leads from
it to a valid ring.
"""

# ruff: noqa: ARG001, F401 -- a twin has all parameters of its lemma; contracts use names that the code does not
# pyright: reportUnusedImport=false

from kvlaw.conformance.proofs.registry import lemma, twin_of
from kvlaw.conformance.proofs.rounds import in_round
from kvlaw.reference.index import (
    Full,
    Ring,
    active,
    after_block,
    after_roll_back,
    after_round_block,
    column_position,
    history,
    is_valid,
    kept_in_round,
    live,
    position_column,
    round_source,
    temporal_column,
)


@lemma("ROUND-5", "ROUND-8", "RING-9", "POS-2")
def round_block_keeps_the_invariant(ring: Ring, length: int, appended: int) -> bool:
    """Lead every ring of a round to a valid ring that holds, beside the round, what it held: any append, any number.

    pre: length >= 1 and in_round(ring, appended)
    post: _
    """
    after = after_round_block(ring, length, appended)
    return in_round(after, appended + length) and after.offset == ring.offset + length and not after.rotated


@twin_of(round_block_keeps_the_invariant)
def plain_block_keeps_the_invariant(ring: Ring, length: int, appended: int) -> bool:
    """Append as outside a round, and keep W - 1 columns.

    pre: length >= 1 and in_round(ring, appended)
    post: _
    """
    return in_round(after_block(ring, length), appended + length)


@lemma("ROUND-8", "RING-12")
def round_block_keeps_its_columns(ring: Ring, length: int, appended: int, index: int) -> bool:
    """Lay the kept columns out so that each holds what its source held before: the sinks, then the newest.

    pre: length >= 1 and in_round(ring, appended)
    pre: 0 <= index < kept_in_round(ring.window, active(ring), appended)
    post: _
    """
    source = round_source(ring, index, active(ring) - kept_in_round(ring.window, active(ring), appended))
    kept = column_position(after_round_block(ring, length, appended), index)
    return 0 <= source < active(ring) and kept is not None and kept == column_position(ring, source)


@twin_of(round_block_keeps_its_columns)
def round_block_keeps_the_oldest(ring: Ring, length: int, appended: int, index: int) -> bool:
    """Keep the head of the temporal order instead of its tail.

    pre: length >= 1 and in_round(ring, appended)
    pre: 0 <= index < kept_in_round(ring.window, active(ring), appended)
    post: _
    """
    kept = column_position(after_round_block(ring, length, appended), index)
    return kept is not None and kept == column_position(ring, temporal_column(ring, index))


@lemma("ROUND-15", "ROUND-8")
def round_memory_is_bounded(ring: Ring, length: int, appended: int) -> bool:
    """Allocate at most W columns and those of the round.

    pre: length >= 1 and in_round(ring, appended)
    post: _
    """
    return after_round_block(ring, length, appended).columns <= ring.window + appended + length


@twin_of(round_memory_is_bounded)
def round_memory_is_bounded_by_the_history(ring: Ring, length: int, appended: int) -> bool:
    """Allocate at most W - 1 columns and those of the round.

    pre: length >= 1 and in_round(ring, appended)
    post: _
    """
    return after_round_block(ring, length, appended).columns < ring.window + appended + length


@lemma("ROUND-6", "VIS-2")
def what_a_round_does_not_fetch_is_out_of_sight(ring: Ring, length: int, appended: int, column: int) -> bool:
    """Leave out of a read in a round only columns behind the sinks that its first query does not see.

    pre: length >= 1 and in_round(ring, appended)
    pre: ring.sinks <= column
    pre: column < ring.sinks + kept_in_round(ring.window, active(ring), appended) - history(ring)
    post: _
    """
    position = column_position(after_round_block(ring, length, appended), column)
    return position is not None and position >= ring.sinks and ring.offset - position >= ring.window - ring.sinks


@twin_of(what_a_round_does_not_fetch_is_out_of_sight)
def a_round_fetches_one_too_few(ring: Ring, length: int, appended: int, column: int) -> bool:
    """Leave one column more out.

    pre: length >= 1 and in_round(ring, appended)
    pre: ring.sinks <= column
    pre: column < ring.sinks + kept_in_round(ring.window, active(ring), appended) - history(ring)
    post: _
    """
    position = column_position(after_round_block(ring, length, appended), column + 1)
    return position is not None and ring.offset - position >= ring.window - ring.sinks


@lemma("ROUND-2", "ROUND-14", "RING-9")
def roll_back_keeps_the_invariant(ring: Ring, appended: int, count: int) -> bool:
    """Lead every ring of a round to a valid ring, `count` positions back, with `count` columns fewer.

    pre: in_round(ring, appended) and 0 <= count <= appended
    post: _
    """
    after = after_roll_back(ring, count)
    assert isinstance(after, Ring)
    return is_valid(after) and after.offset == ring.offset - count and after.columns == ring.columns - count


@twin_of(roll_back_keeps_the_invariant)
def roll_back_into_the_time_before(ring: Ring, appended: int, count: int) -> bool:
    """Take one position back that was there before the round.

    pre: in_round(ring, appended) and 0 <= count <= appended
    post: _
    """
    return is_valid(after_roll_back(ring, count + 1))


@lemma("ROUND-2", "ROUND-3")
def roll_back_takes_the_newest(ring: Ring, appended: int, count: int, position: int) -> bool:
    """Take exactly the newest `count` positions back, and leave every other in its column.

    pre: in_round(ring, appended) and 0 <= count <= appended
    post: _
    """
    after = after_roll_back(ring, count)
    assert isinstance(after, Ring)
    kept = position_column(ring, position) if position < ring.offset - count else None
    return position_column(after, position) == kept


@twin_of(roll_back_takes_the_newest)
def roll_back_leaves_one_of_them(ring: Ring, appended: int, count: int, position: int) -> bool:
    """Leave the first of the positions that are taken back.

    pre: in_round(ring, appended) and 0 <= count <= appended
    post: _
    """
    after = after_roll_back(ring, count)
    assert isinstance(after, Ring)
    kept = position_column(ring, position) if position <= ring.offset - count else None
    return position_column(after, position) == kept


@lemma("ROUND-4", "RING-1")
def roll_back_leaves_a_whole_window(ring: Ring, length: int, more: int, count: int) -> bool:
    """Leave, of a ring that began with all it owes, all that it owes: after any two appends and any roll back.

    pre: is_valid(ring) and active(ring) >= live(ring)
    pre: length >= 1 and more >= 1 and 0 <= count <= length + more
    post: _
    """
    after = after_roll_back(after_round_block(after_round_block(ring, length, 0), more, length), count)
    assert isinstance(after, Ring)
    return active(after) >= live(after)


@twin_of(roll_back_leaves_a_whole_window)
def roll_back_of_plain_blocks_leaves_a_whole_window(ring: Ring, length: int, more: int, count: int) -> bool:
    """Count no positions of the round before the second append.

    pre: is_valid(ring) and active(ring) >= live(ring)
    pre: length >= 1 and more >= 1 and 0 <= count <= length + more
    post: _
    """
    after = after_roll_back(after_round_block(after_round_block(ring, length, 0), more, 0), count)
    assert isinstance(after, Ring)
    return active(after) >= live(after)


@lemma("ROUND-4", "ROUND-1", "RING-1")
def a_round_loses_nothing_in_the_window(ring: Ring, length: int, count: int, position: int) -> bool:
    """Hold after a roll back whatever it held of the sinks, of the newest W - s before the round, and of what is kept.

    pre: is_valid(ring) and length >= 1 and 0 <= count <= length
    pre: 0 <= position < ring.offset + length - count
    pre: position < ring.sinks or position >= ring.offset - (ring.window - ring.sinks)
    post: _
    """
    after = after_roll_back(after_round_block(ring, length, 0), count)
    assert isinstance(after, Ring)
    held = position >= ring.offset or position_column(ring, position) is not None
    return (position_column(after, position) is not None) == held


@twin_of(a_round_loses_nothing_in_the_window)
def a_plain_block_loses_nothing_in_the_window(ring: Ring, length: int, count: int, position: int) -> bool:
    """Append as outside a round.

    pre: is_valid(ring) and length >= 1 and 0 <= count <= length
    pre: 0 <= position < ring.offset + length - count
    pre: position < ring.sinks or position >= ring.offset - (ring.window - ring.sinks)
    post: _
    """
    after = after_roll_back(after_block(ring, length), count)
    assert isinstance(after, Ring)
    held = position >= ring.offset or position_column(ring, position) is not None
    return (position_column(after, position) is not None) == held


@lemma("ROUND-2", "ROUND-14", "GROW-1")
def roll_back_of_a_growing_cache_moves_nothing(full: Full, appended: int, count: int) -> bool:
    """Lower the offset of a growing cache, and leave its columns.

    pre: is_valid(full) and 0 <= appended <= full.offset and 0 <= count <= appended
    post: _
    """
    return is_valid(after_roll_back(full, count)) and after_roll_back(full, count) == Full(
        full.columns, full.offset - count
    )


@twin_of(roll_back_of_a_growing_cache_moves_nothing)
def roll_back_of_a_growing_cache_gives_columns_back(full: Full, appended: int, count: int) -> bool:
    """Give the columns behind the offset back.

    pre: is_valid(full) and 0 <= appended <= full.offset and 0 <= count <= appended
    post: _
    """
    return after_roll_back(full, count).columns == full.offset - count
