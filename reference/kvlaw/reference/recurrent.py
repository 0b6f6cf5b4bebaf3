"""Recurrent rows in NumPy: a row is the list of its positions, and its state is what they make, one after the other.

A row keeps the convolution's input of every position, and the matrix after each.  So nothing is restored or played
again here: what a round takes back is cut off both lists, and what is left is what it would be without.  Padding never
enters a row.  A serial cache of one sequence is a group of one row.

Everything is bits: inputs of the layer's format, matrices of float32.  The arithmetic is ``numerics.gated_delta``.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from attrs import define, evolve, field, frozen
from numpy.typing import NDArray

from kvlaw.reference.layout import Refusal
from kvlaw.reference.numerics import Bits, bits_dtype
from kvlaw.reference.numerics.gated_delta import Inputs, gated_delta
from kvlaw.spec.cite import clause

Numbers: TypeAlias = Sequence[int]


@frozen(eq=False)
class Row:
    """The positions of one row: ``inputs`` [C] of the convolution, ``matrices`` [H, E, D] after each of them."""

    inputs: tuple[Bits, ...] = ()
    matrices: tuple[Bits, ...] = ()

    def first(self, count: int) -> "Row":
        """Return the row as it was after its first ``count`` positions."""
        return Row(self.inputs[:count], self.matrices[:count])


@frozen
class Shapes:
    """What the first advance fixes: the convolution's channels and format, and the shape [H, E, D] of a matrix."""

    channels: int
    dtype: str
    matrix: tuple[int, ...]


@define(eq=False)
class Recurrent:
    """Rows of one recurrent layer, whose convolution reads ``kernel`` positions.

    ``ends`` and ``pads`` are the announced padding: of each row, how many positions it may have, and how many columns
    of padding still come first.  ``starts`` are the positions at which an open round began.
    """

    kernel: int
    rows: list[Row] = field(factory=list[Row])
    shapes: Shapes | None = None
    pads: list[int] = field(init=False)
    ends: list[int] | None = None
    starts: list[int] | None = None
    fresh: Shapes | None = None
    """The shapes that the open round began with."""
    appended: int = 0
    """Columns in the open round."""

    def __attrs_post_init__(self) -> None:
        """Announce no padding."""
        if self.kernel < 1:
            raise Refusal(f"a convolution over {self.kernel} positions (ERR-6)")
        self.pads = [0] * len(self.rows)

    @classmethod
    def of_empty_rows(cls, kernel: int, count: int) -> "Recurrent":
        """Make rows without a position."""
        return cls(kernel, [Row()] * count)

    # -- what there is ------------------------------------------------------------------------------------------------

    @property
    def offsets(self) -> tuple[int, ...]:
        """The next position of each row; unused left padding counts below 0."""
        return tuple(len(row.inputs) - pad for row, pad in zip(self.rows, self.pads, strict=True))

    @property
    def padded(self) -> bool:
        """Whether padding is pending or unused."""
        return self.ends is not None or any(self.pads)

    @clause("REC-1", "REC-3")
    def tail(self, row: int) -> Bits:
        """Return the newest ``kernel`` - 1 inputs of a row [K - 1, C], zeros before its first position."""
        shapes = self._known()
        number = np.uint32 if shapes.dtype == "f32" else np.uint16
        inputs = np.array(self.rows[row].inputs, number).reshape(-1, shapes.channels)
        zeros = np.zeros((self.kernel - 1, shapes.channels), number)
        return np.concatenate([zeros, inputs])[len(inputs) :]

    @clause("REC-1")
    def matrix(self, row: int) -> Bits:
        """Return the state of a row [H, E, D], zeros before its first position."""
        matrices = self.rows[row].matrices
        return matrices[-1] if matrices else np.zeros(self._known().matrix, np.uint32)

    def state(self) -> tuple[Bits, Bits] | None:
        """Return tails [B, K - 1, C] and matrices [B, H, E, D]; None before any advance."""
        if self.shapes is None or not self.rows:
            return None
        tails, matrices = ([part(b) for b in range(len(self.rows))] for part in (self.tail, self.matrix))
        return np.stack(tails), np.stack(matrices)

    def _known(self) -> Shapes:
        if self.shapes is None:
            raise Refusal("no position has fixed shapes yet (ERR-2)")
        return self.shapes

    # -- positions ----------------------------------------------------------------------------------------------------

    @clause("REC-8")
    def counts(self, length: int) -> NDArray[np.bool_]:
        """Return which of the next ``length`` columns are positions, [B, L]."""
        counted = np.zeros((len(self.rows), length), np.bool_)
        for b, (row, pad) in enumerate(zip(self.rows, self.pads, strict=True)):
            room = length if self.ends is None else self.ends[b] - len(row.inputs)
            counted[b, pad : pad + max(0, room)] = True
        return counted

    @clause("REC-3", "REC-8")
    def window(self, inputs: Bits) -> Bits:
        """Return what the convolution of ``inputs`` [B, L, C] reads, [B, K - 1 + L, C], padding as zeros."""
        shown = np.where(self.counts(inputs.shape[1])[..., np.newaxis], inputs, inputs.dtype.type(0))
        before = self.kernel - 1
        tails = np.zeros((len(self.rows), before, inputs.shape[2]), inputs.dtype)
        if self.shapes is not None:
            tails = np.array([self.tail(b) for b in range(len(self.rows))]).reshape(tails.shape)
        return np.concatenate([tails, shown], axis=1)

    @clause("REC-2", "REC-3", "REC-4", "REC-8")
    def advance(self, inputs: Bits, projected: Inputs) -> Bits:
        """Give each row its positions among L columns and return the outputs [B, L, H, E], zeros in padding.

        ``inputs`` [B, L, C] are the convolution's, ``projected`` what the recurrence reads.  Raises Refusal if they do
        not fit; then nothing has changed.
        """
        found = self._fitting(inputs, projected)
        counted = self.counts(inputs.shape[1])
        outputs = np.zeros(projected.values.shape, bits_dtype(projected.dtype))
        self.shapes = found
        for b, row in enumerate(self.rows):
            for column in np.flatnonzero(counted[b]).tolist():
                before = row.matrices[-1][np.newaxis] if row.matrices else None
                outputs[b, column], after = _one(projected, b, column, before)
                row = Row((*row.inputs, inputs[b, column].copy()), (*row.matrices, after))  # noqa: PLW2901  # grows
            self.rows[b] = row
        self.pads = [max(0, pad - inputs.shape[1]) for pad in self.pads]
        self.appended += inputs.shape[1] if self.starts is not None else 0
        return outputs

    @clause("ERR-2")
    def _fitting(self, inputs: Bits, projected: Inputs) -> Shapes:
        try:
            batch, *matrix = projected.state_shape()
        except ValueError as error:
            raise Refusal(f"{error} (ERR-2)") from error
        known = inputs.ndim == 3 and 0 not in inputs.shape  # [B, L, C]
        if not known or inputs.shape[:2] != projected.keys.shape[:2] or batch != len(self.rows):
            raise Refusal(f"inputs {inputs.shape} for {len(self.rows)} rows (ERR-2)")
        dtype = "f32" if inputs.dtype == np.uint32 else projected.dtype
        found = Shapes(inputs.shape[2], dtype, tuple(matrix))
        if self.shapes not in (None, found):
            raise Refusal(f"{found} does not fit what is held, {self.shapes} (ERR-2)")
        return found

    # -- padding ------------------------------------------------------------------------------------------------------

    @clause("REC-8")
    def prepare(self, left: Numbers | None, lengths: Numbers | None, right: Numbers | None) -> None:
        """Announce the padding of the columns that come next, one number per row in each list."""
        self.refuse_unrest("a preparation")
        count = len(self.rows) or max(len(found or ()) for found in (left, lengths, right))
        lists = [found for found in (left, lengths, right) if found is not None]
        if any(len(found) != count or min(found, default=0) < 0 for found in lists):
            raise Refusal(f"lists of {count} numbers of at least 0 are needed (PAD-12)")
        pads = list(left or [0] * count)
        if any(pads) and self.shapes is not None:
            raise Refusal("only empty rows can be padded on the left (PAD-12)")
        behind = any(right or ())
        if behind and (lengths is None or any(n < pad for n, pad in zip(lengths, pads, strict=True))):
            raise Refusal("right padding needs lengths, which count the left padding (PAD-12)")
        self.rows = self.rows or [Row()] * count
        self.pads = pads
        if behind and lengths is not None:
            held = (len(row.inputs) for row in self.rows)
            self.ends = [n + length - pad for n, length, pad in zip(held, lengths, pads, strict=True)]

    @clause("REC-8")
    def finalize(self) -> None:
        """Forget where rows were to end."""
        self.ends = None

    def refuse_unrest(self, asked: str) -> None:
        """Refuse what has to wait for padding and rounds."""
        if self.starts is not None:
            raise Refusal(f"{asked} in an open round (ROUND-9)")
        if self.padded:
            raise Refusal(f"{asked} while padding is announced (PAD-9)")

    # -- rounds -------------------------------------------------------------------------------------------------------

    @clause("ROUND-7")
    def begin_round(self) -> None:
        """Open a round."""
        if self.starts is not None:
            raise Refusal("a round is open (ROUND-7)")
        if self.padded:
            raise Refusal("a round while padding is announced (PAD-9)")
        self.starts, self.fresh, self.appended = [len(row.inputs) for row in self.rows], self.shapes, 0

    def commit_round(self) -> None:
        """Close the round and keep all of it."""
        self.roll_back([self.appended] * len(self.rows))

    @clause("REC-6", "ROUND-13")
    def roll_back(self, keeps: Numbers) -> None:
        """Close the round and keep the first ``keeps`` positions of each row."""
        if self.starts is None:
            raise Refusal("no round is open (ROUND-7)")
        if len(keeps) != len(self.rows) or any(not 0 <= keep <= self.appended for keep in keeps):
            raise Refusal(f"0 to {self.appended} positions can be kept in each of {len(self.rows)} rows (ROUND-7)")
        cut = zip(self.rows, self.starts, keeps, strict=True)
        self.rows = [row.first(start + keep) for row, start, keep in cut]
        if not any(keeps):
            self.shapes = self.fresh
        self.starts = self.fresh = None

    # -- rows, copies -------------------------------------------------------------------------------------------------

    @clause("REC-10")
    def extract(self, row: int) -> "Recurrent":
        """Return a row alone; without a position it has no shapes."""
        self.refuse_unrest("an extraction")
        self._check([row])
        return Recurrent(self.kernel, [self.rows[row]], self.shapes if self.offsets[row] else None)

    @clause("REC-11")
    def filter(self, rows: Numbers) -> None:
        """Keep ``rows``, in the order given."""
        self._check(rows)
        if len(set(rows)) != len(rows):
            raise Refusal("a row cannot be kept twice (ROWS-18)")
        self.rows, self.pads = [self.rows[b] for b in rows], [self.pads[b] for b in rows]
        self.ends = None if self.ends is None or not rows else [self.ends[b] for b in rows]
        self.starts = None if self.starts is None else [self.starts[b] for b in rows]
        self.shapes, self.fresh = (self.shapes, self.fresh) if rows else (None, None)

    def _check(self, rows: Numbers) -> None:
        if any(not 0 <= row < len(self.rows) for row in rows):
            raise Refusal(f"rows {list(rows)} of {len(self.rows)} (ROWS-18)")

    @clause("OWN-2")
    def clone(self) -> "Recurrent":
        """Return an independent copy, its open round included."""
        twin = evolve(self, rows=list(self.rows))
        twin.pads = list(self.pads)
        return twin

    @clause("OWN-2")
    def reset(self) -> None:
        """Empty every row, and forget padding, round and shapes."""
        self.rows, self.pads = [Row()] * len(self.rows), [0] * len(self.rows)
        self.shapes = self.ends = self.starts = self.fresh = None


@clause("REC-9")
def merge(sources: Sequence[Recurrent]) -> Recurrent:
    """Return the rows of all sources, in order; the sources stay as they are."""
    for source in sources:
        source.refuse_unrest("a merge")
    if len({source.kernel for source in sources}) != 1:
        raise Refusal("a merge needs sources of one kernel (ROWS-7, ROWS-8)")
    shapes = {source.shapes for source in sources if source.shapes is not None}
    if len(shapes) > 1:
        raise Refusal("the arrays of a merge do not fit each other (ROWS-8)")
    return Recurrent(
        sources[0].kernel, [row for source in sources for row in source.rows], shapes.pop() if shapes else None
    )


def _one(projected: Inputs, row: int, column: int, before: Bits | None) -> tuple[Bits, Bits]:
    """Run one position of one row: its output [H, E], and the matrix [H, E, D] after it."""
    at = np.s_[row : row + 1, column : column + 1]
    parts = projected.queries[at], projected.keys[at], projected.values[at], projected.decay[at], projected.beta[at]
    outputs, after = gated_delta(Inputs(*parts, projected.dtype), before)
    return outputs[0, 0], after[0]
