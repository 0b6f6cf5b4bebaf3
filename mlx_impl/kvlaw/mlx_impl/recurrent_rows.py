"""Groups of recurrent rows: sequences of their own that advance together.

A row's state is what it would be alone: padding leaves it as it is, and so does what a round takes back of it, which
may be more in one row than in another.  Rows join by ``merge_recurrent`` and leave by ``extract`` and ``filter``.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Self

import attrs
import mlx.core as mx

from kvlaw.mlx_impl.counts import as_integer
from kvlaw.mlx_impl.delta_rule import Run, gated_delta
from kvlaw.mlx_impl.errors import ConfigError, DTypeError, PaddingError, RoundError, RowError, ShapeError
from kvlaw.mlx_impl.recurrent import Recurrent, RecurrentCache, Round, kept_count
from kvlaw.mlx_impl.recurrent_state import Span, State, Step, admit, advanced, convolved, counted
from kvlaw.spec.cite import clause


@attrs.frozen(eq=False)
class Rows:
    """All that a group holds: each row's offset and, while right padding is announced, its end; state and round.

    An offset counts unused left padding below 0, and never passes the end.  Without any position there is no state.
    """

    offsets: tuple[int, ...]
    ends: tuple[int, ...] | None = None
    state: State | None = None
    round: Round | None = None

    @property
    def padded(self) -> bool:
        """Say whether padding is pending or unused."""
        return self.ends is not None or any(offset < 0 for offset in self.offsets)

    def refuse_padding(self, asked: str) -> None:
        """Refuse what has to wait for the padding.

        Raises:
            PaddingError: if padding is pending or unused.
        """
        if self.padded:
            raise PaddingError(asked, "padding is announced", "PAD-9")

    def refuse_unrest(self, asked: str) -> None:
        """Refuse what has to wait for padding and rounds.

        Raises:
            PaddingError: if padding is pending or unused.
            RoundError: if a round is open.
        """
        if self.round is not None:
            raise RoundError(asked, "a round is open", "ROUND-9")
        self.refuse_padding(asked)

    @clause("REC-8")
    def spans(self, length: int) -> list[Span] | None:
        """Return of each row which of the next ``length`` columns count; None: all of all rows."""
        if not self.padded:
            return None
        starts = [min(max(-offset, 0), length) for offset in self.offsets]
        if self.ends is None:
            return [(start, length) for start in starts]
        left = [end - offset for offset, end in zip(self.offsets, self.ends, strict=True)]
        return [(start, max(start, min(length, columns))) for start, columns in zip(starts, left, strict=True)]

    def moved(self, length: int) -> tuple[int, ...]:
        """Return the offsets behind the next ``length`` columns."""
        then = tuple(offset + length for offset in self.offsets)
        return then if self.ends is None else tuple(min(pair) for pair in zip(then, self.ends, strict=True))

    def taken(self, rows: Sequence[int]) -> "Rows":
        """Return ``rows`` in the order given, outside a round or in the same one."""
        offsets = tuple(self.offsets[row] for row in rows)
        if not rows:
            return Rows((), round=self.round and Round(None, appended=self.round.appended))
        ends = None if self.ends is None else tuple(self.ends[row] for row in rows)
        state = self.state and self.state.taken(rows)
        return Rows(offsets, ends, state, self.round and _taken_round(self.round, rows))


def _taken_round(found: Round, rows: Sequence[int]) -> Round:
    picked = mx.array(list(rows), mx.int32)
    steps = tuple(
        (step.each(lambda part: mx.take(part, picked, axis=0)), then.taken(rows)) for step, then in found.steps
    )
    return Round(found.state and found.state.taken(rows), steps, found.appended)


class RecurrentRows(Recurrent):
    """The state of one recurrent layer for rows with offsets of their own; opens with ``rows`` empty ones.

    Raises:
        ConfigError: if ``kernel`` is below 1, or ``rows`` below 0 (ERR-6).
    """

    __slots__ = ("__weakref__", "_rows", "kernel")

    kernel: int
    """How many positions the convolution reads at once."""

    @clause("ERR-6")
    def __init__(self, kernel: int = 4, rows: int = 0) -> None:
        count = as_integer(rows)
        if count is None or count < 0:
            raise ConfigError(f"a group of {rows!r} rows", "an integer of at least 0 is needed", "ERR-6")
        self.kernel = RecurrentCache(kernel).kernel
        self._rows = Rows((0,) * count)

    # -- what it is and where it stands -------------------------------------------------------------------------------

    @property
    @clause("REC-17")
    def identity(self) -> str:
        """Return ``recurrent_rows(conv=K)``."""
        return f"recurrent_rows(conv={self.kernel})"

    def __repr__(self) -> str:
        return f"<{self.identity} offsets={list(self.offsets)}>"

    @property
    def rows(self) -> int:
        """Return how many rows there are."""
        return len(self._rows.offsets)

    @property
    def offsets(self) -> tuple[int, ...]:
        """Return the next position of each row; unused left padding counts below 0."""
        return self._rows.offsets

    @property
    def offset(self) -> int:
        """Return the next position of the row that is furthest; 0 without rows."""
        return max(self.offsets, default=0)

    @property
    @clause("REC-5")
    def bytes_per_token(self) -> int:
        """Return 0: positions take no room."""
        return 0

    @property
    @clause("REC-5")
    def nbytes(self) -> int:
        """Return the bytes of the state of all rows; 0 while empty."""
        return self._rows.state.nbytes if self._rows.state else 0

    @property
    def in_round(self) -> bool:
        """Say whether a round is open, so that its positions can be taken back."""
        return self._rows.round is not None

    @property
    def content(self) -> Rows:
        """Return all that it holds."""
        return self._rows

    def hold(self, rows: Rows) -> None:
        """Hold what belongs to nobody else."""
        self._rows = rows

    @clause("REC-1", "OWN-4")
    def state(self) -> dict[str, Any]:
        """Return ``conv`` ``[B, K - 1, C]`` and ``matrix`` ``[B, H, E, D]``, none while empty, and the offsets."""
        held = self._rows.state
        arrays = {} if held is None else {"conv": held.tail[...], "matrix": held.matrix[...]}
        return {**arrays, "offsets": self.offsets}

    # -- positions ----------------------------------------------------------------------------------------------------

    @clause("REC-3", "REC-8")
    def window(self, inputs: mx.array) -> mx.array:
        """Return what the convolution of ``inputs`` ``[B, L, C]`` reads, padding as zeros, and change nothing."""
        spans = self._rows.spans(inputs.shape[1])
        state = self._rows.state
        if state is None:
            batch, _, channels = inputs.shape
            zeros = mx.zeros((batch, self.kernel - 1, channels), inputs.dtype)
            state = State(zeros, zeros)  # the matrix is not read
        return convolved(state, inputs, spans)

    @clause("REC-8")
    def padding(self, length: int) -> mx.array | None:
        """Return which of the next ``length`` columns count, bool ``[B, L]``; None: all of them."""
        spans = self._rows.spans(length)
        return counted(spans, length) if spans else None

    @clause("REC-2", "REC-3", "REC-4", "REC-8")
    def advance(
        self,
        inputs: mx.array,
        queries: mx.array,
        keys: mx.array,
        values: mx.array,
        decay: mx.array,
        beta: mx.array,
        *,
        run: Run = gated_delta,
    ) -> mx.array:
        """Run L >= 1 columns of all rows and return their outputs ``[B, L, H, E]``, meaningless in padding.

        The arguments are those of ``RecurrentCache.advance``, with one row of each array per row.

        Raises:
            CacheError: if arrays are refused; then nothing has changed.
        """
        step, rows = Step(inputs, queries, keys, values, decay, beta, run), self._rows
        admit(step, rows.state)
        if step.inputs.shape[0] != self.rows:
            possible = f"the group has {self.rows}"
            raise ShapeError(f"an advance of {step.inputs.shape[0]} rows", possible, "ERR-2")
        length = step.length
        outputs, then = advanced(rows.state or step.empty_state(self.kernel), step, rows.spans(length))
        recorded = rows.round and rows.round.with_step(step, then)
        self._rows = Rows(rows.moved(length), rows.ends, then, recorded)
        return outputs

    # -- padding ------------------------------------------------------------------------------------------------------

    @clause("REC-8", "PAD-9", "PAD-12")
    def prepare(
        self,
        left: Sequence[int] | None = None,
        lengths: Sequence[int] | None = None,
        right: Sequence[int] | None = None,
    ) -> None:
        """Announce the padding of the columns that come next, one number per row in each list.

        ``left`` columns before a row's first token, only while there is no state; ``right`` columns behind its last
        one, and with them ``lengths``, the columns before those.  A group without rows gets as many empty ones.

        Raises:
            PaddingError: if the lists do not fit the rows or each other, or padding is announced already.
            RoundError: if a round is open.
        """
        rows = self._rows
        rows.refuse_unrest("a preparation")
        lists = [_numbers(name, found) for name, found in (("left", left), ("lengths", lengths), ("right", right))]
        counts = {len(found) for found in lists if found is not None}
        count = self.rows or max(counts, default=0)
        if counts - {count}:
            raise PaddingError(f"a preparation of {sorted(counts)} rows", f"one number per row: {count}", "PAD-12")
        before, given, behind = lists
        pads = before or (0,) * count
        if any(pads) and rows.state is not None:
            raise PaddingError(f"left padding {list(pads)}", "only empty rows can be padded on the left", "PAD-12")
        offsets = tuple(offset - pad for offset, pad in zip(rows.offsets or (0,) * count, pads, strict=True))
        self._rows = attrs.evolve(rows, offsets=offsets, ends=_ends(offsets, pads, given, behind))

    @clause("REC-8", "PAD-7")
    def finalize(self) -> None:
        """Forget where rows were to end; unused left padding is still to come."""
        self._rows = attrs.evolve(self._rows, ends=None)

    # -- rounds -------------------------------------------------------------------------------------------------------

    @clause("ROUND-7", "ROUND-16", "PAD-9")
    def begin_round(self) -> None:
        """Open a round of all rows.

        Raises:
            PaddingError: if padding is announced.
            RoundError: if one is open.
        """
        rows = self._rows
        if rows.round is not None:
            raise RoundError("a round", "one is open", "ROUND-7")
        rows.refuse_padding("a round")
        self._rows = attrs.evolve(rows, round=Round(rows.state))

    @clause("ROUND-1", "ROUND-7")
    def commit_round(self) -> None:
        """Close the round and keep all of it.

        Raises:
            RoundError: if no round is open.
        """
        self._open()
        self._rows = attrs.evolve(self._rows, round=None)

    @clause("REC-6", "ROUND-2", "ROUND-7", "ROUND-13")
    def roll_back(self, keep: int | Sequence[int]) -> None:
        """Close the round and keep its first ``keep`` positions: one number for all rows, or one per row.

        Raises:
            RoundError: if no round is open, or a number is not from 0 to what was appended in it.
        """
        found, rows = self._open(), self._rows
        asked: list[object] = list(keep) if isinstance(keep, Sequence) else [keep] * self.rows
        if len(asked) != self.rows:
            raise RoundError(f"a roll back of {len(asked)} rows", f"the group has {self.rows}", "ROUND-7")
        if not isinstance(keep, Sequence):
            kept_count(keep, found.appended)  # of a group without rows as well
        keeps = [kept_count(number, found.appended) for number in asked]
        offsets = tuple(offset + kept - found.appended for offset, kept in zip(rows.offsets, keeps, strict=True))
        self._rows = Rows(offsets, None, found.kept(keeps, self.kernel))

    def _open(self) -> Round:
        if self._rows.round is None:
            raise RoundError("an end of a round", "no round is open", "ROUND-7")
        return self._rows.round

    # -- rows come and go ---------------------------------------------------------------------------------------------

    @clause("REC-10")
    def extract(self, row: int) -> RecurrentCache:
        """Return a row as a serial cache of its own, with arrays of its own; an empty one if it has no position.

        Raises:
            RowError: if there is no such row.
            PaddingError, RoundError: if padding is announced or a round is open.
        """
        self._rows.refuse_unrest("an extraction")
        (number,) = self._numbers([row])
        made = RecurrentCache(self.kernel)
        state, offset = self._rows.state, self.offsets[number]
        made.hold(state.taken([number]) if state and offset else None, offset)
        return made

    @clause("REC-11")
    def filter(self, rows: Sequence[int]) -> None:
        """Keep ``rows``, in the order given.

        Raises:
            RowError: if one is no row, or comes twice.
        """
        kept = self._numbers(rows)
        if len(set(kept)) != len(kept):
            raise RowError(f"a filter of {kept}", "no row can be kept twice", "ROWS-18")
        self._rows = self._rows.taken(kept)

    def _numbers(self, rows: Iterable[object]) -> list[int]:
        found = [(row, as_integer(row)) for row in rows]
        for row, number in found:
            if number is None or not 0 <= number < self.rows:
                raise RowError(f"row {row!r}", f"the group has {self.rows} rows", "ROWS-18", "ROWS-29")
        return [number for _, number in found if number is not None]

    # -- copies -------------------------------------------------------------------------------------------------------

    def _take(self, other: Self) -> None:
        self._rows = other._rows

    @clause("OWN-7")
    def reset(self) -> None:
        """Empty every row and forget padding and round; other shapes or another dtype may follow."""
        self._rows = Rows((0,) * self.rows)


@clause("REC-9", "ROWS-8")
def merge_recurrent(sources: Sequence[RecurrentCache | RecurrentRows]) -> RecurrentRows:
    """Return a new group of all rows of groups and serial caches, in order; the sources stay as they are.

    A row without a position gets a state of zeros where others have one.

    Raises:
        RowError: if there is no source, one is neither, or they differ in kernel, or a cache has several rows.
        PaddingError, RoundError: if padding is announced or a round is open in one.
        ShapeError, DTypeError: if their arrays do not fit each other.
    """
    parts = [_content(source) for source in sources]
    if not sources:
        raise RowError("a merge of nothing", "at least one source is needed", "ROWS-8")
    if len(kernels := {source.kernel for source in sources}) > 1:
        raise RowError(f"a merge of convolutions over {sorted(kernels)}", "all must be of one kind", "ROWS-7")
    merged = RecurrentRows(sources[0].kernel)
    merged.hold(Rows(tuple(offset for part in parts for offset in part.offsets), None, _merged_state(parts)))
    return merged


def _content(source: object) -> Rows:
    if isinstance(source, RecurrentRows):
        source.content.refuse_unrest("a merge")
        return source.content
    if not isinstance(source, RecurrentCache):
        raise RowError(f"a merge of {type(source).__name__}", "recurrent caches and groups can be merged", "ROWS-8")
    if source.in_round:
        raise RoundError("a merge", "a round is open", "ROUND-9")
    if source.rows > 1:
        raise RowError(f"a cache of batch {source.rows} as a row", "a row has batch 1", "ROWS-8")
    state, offset = source.content
    return Rows((offset,), None, state)


def _merged_state(parts: Sequence[Rows]) -> State | None:
    states = [part.state for part in parts if part.state is not None]
    if not states:
        return None
    first = states[0]
    for state in states:
        if state.tail.dtype != first.tail.dtype:
            asked = f"a merge of {first.tail.dtype} and {state.tail.dtype}"
            raise DTypeError(asked, "one dtype is needed", "ROWS-8", "ERR-3")
        if (state.tail.shape[1:], state.matrix.shape[1:]) != (first.tail.shape[1:], first.matrix.shape[1:]):
            raise ShapeError(f"a merge of {first.describe()} and {state.describe()}", "one is needed", "ROWS-8")

    def zeros(count: int) -> State:
        tail = mx.zeros((count, *first.tail.shape[1:]), first.tail.dtype)
        return State(tail, mx.zeros((count, *first.matrix.shape[1:]), mx.float32))

    laid = [part.state or zeros(len(part.offsets)) for part in parts if part.offsets]
    return State(mx.concatenate([s.tail for s in laid]), mx.concatenate([s.matrix for s in laid]))


def _numbers(name: str, found: object) -> tuple[int, ...] | None:
    """Check one list of ``prepare``."""
    if found is None:
        return None
    if not isinstance(found, Sequence):
        raise PaddingError(f"{name} {found!r}", "a list with one number per row is needed", "PAD-12")
    numbers: list[int] = []
    for item in found:  # pyright: ignore[reportUnknownVariableType]  # anything a caller hands in
        number = as_integer(item)  # pyright: ignore[reportUnknownArgumentType]
        if number is None or number < 0:
            raise PaddingError(f"{name} {found!r}", "integers of at least 0 are needed", "PAD-12")
        numbers.append(number)
    return tuple(numbers)


def _ends(
    offsets: tuple[int, ...],
    pads: tuple[int, ...],
    lengths: tuple[int, ...] | None,
    right: tuple[int, ...] | None,
) -> tuple[int, ...] | None:
    """Return where rows end, if right padding is announced."""
    if not any(right or ()):
        return None
    if lengths is None:
        raise PaddingError("right padding without lengths", "the lengths of all rows are needed", "PAD-12")
    if any(length < pad for length, pad in zip(lengths, pads, strict=True)):
        raise PaddingError(f"lengths {list(lengths)}", f"left padding {list(pads)} counts in them", "PAD-12")
    return tuple(offset + length for offset, length in zip(offsets, lengths, strict=True))
