"""What a NumPy group of rows holds and shows: its integers, its rows, the mask that comes next, and its counts."""

from collections.abc import Iterable, Sequence

import numpy as np
from attrs import evolve

from kvlaw.reference import index_group, index_policy
from kvlaw.reference.layout import MaskValue, Planes, Refusal
from kvlaw.reference.layout_row import Row, Shape
from kvlaw.spec.calls import Phase
from kvlaw.spec.cite import clause
from kvlaw.spec.config import LayerSpec, Storage
from kvlaw.spec.observations import Bits, Unbounded


class GroupState:
    """Geometry of `index_group`, and NumPy planes for each row."""

    def __init__(self, layer: LayerSpec, rows: int = 0) -> None:
        """Build a group of empty rows; refuse an impossible configuration (ERR-6)."""
        if problem := layer.problem or (None if layer.is_rows else f"a {layer.kind} cache is no group of rows"):
            raise Refusal(f"{problem} (ERR-6)")
        if rows < 0:
            raise Refusal(f"a group has 0 rows or more, not {rows} (ERR-6)")
        self.layer = layer
        self.state = index_group.Group(layer.window, offsets=(0,) * rows)
        self._empty()

    @clause("ROWS-23", "PAD-13")
    def reset(self) -> None:
        """Empty every row and keep their number; padding, codes, floors and the bracket are gone."""
        self.state = index_group.reset_rows(self.state)
        self._empty()

    def _empty(self) -> None:
        self.rows: tuple[Row, ...] = (self.empty_row(),) * self.count
        self.shape: Shape | None = None
        self.prefilling = False

    def empty_row(self) -> Row:
        """Make a row of this policy in which nothing was appended."""
        return Row(coded=self.layer.policy == "affine")

    def take(self, moved: index_group.Moved, rows: Sequence[Row], shape: Shape | None) -> None:
        """Take ``rows`` for the group's, their columns moved; without columns nothing stays allocated.

        The shape is then kept only as long as a row is converted.
        """
        if moved.after.columns == 0 or shape is None:
            kept = self.layer.policy == "bf16_first" and any(row.coded for row in rows)
            self.rows, self.shape = tuple(evolve(row, planes=None) for row in rows), shape if kept else None
        else:
            moves = zip(rows, moved.sources, strict=True)
            self.rows = tuple(row.moved(sources, shape, self.layer) for row, sources in moves)
            self.shape = shape
        self.state = moved.after

    # What is asked for fits.

    def check_tensors(self, keys: Bits, values: Bits, dtype: str) -> None:
        """Refuse tensors that do not fit each other, the rows or the storage (ERR-2, ERR-3, ERR-4, ROWS-30)."""
        if keys.ndim != 4 or values.ndim != 4:  # [B, H, L, D]
            raise Refusal(f"keys {list(keys.shape)}, values {list(values.shape)}: both are [B, H, L, D] (ERR-2)")
        if keys.shape[:3] != values.shape[:3]:
            raise Refusal(f"keys {list(keys.shape)} and values {list(values.shape)} differ in B, H or L (ERR-2)")
        if keys.shape[2] < 1:
            raise Refusal("an append needs at least 1 position (ERR-4)")
        if self.count == 0:
            raise Refusal("a group without rows takes no tokens (ROWS-11)")
        if keys.shape[0] != self.count:
            raise Refusal(f"tensors of {keys.shape[0]} rows: this group has {self.count} (ROWS-30)")
        new = Shape.of(keys, values, dtype)
        check_fit(self.layer, new)
        if self.shape is None:
            return
        if evolve(new, dtype=self.shape.dtype) != self.shape:
            raise Refusal(
                f"keys {list(keys.shape)}, values {list(values.shape)}: this group holds {self.shape} (ERR-2)"
            )
        if dtype != self.shape.dtype:
            raise Refusal(f"{dtype} tensors: this group holds {self.shape.dtype} (ERR-3)")

    def check_row(self, row: int) -> None:
        """Refuse a row that is not there."""
        if type(row) is not int or not 0 <= row < self.count:
            raise Refusal(f"row {row!r}: this group has {self.count} (ROWS-29)")

    def demand_settled_padding(self, asked: str) -> None:
        """Refuse while right padding is pending or left padding is unused."""
        if not index_group.is_settled_padding(self.state):
            raise Refusal(f"{asked} while padding is pending or unused: positions {list(self.state.offsets)} (PAD-9)")

    def demand_rest(self, asked: str) -> None:
        """Refuse while a round is open, or padding is to come (ROUND-9, PAD-9)."""
        if self.state.starts is not None:
            raise Refusal(f"{asked} while a round is open (ROUND-9)")
        self.demand_settled_padding(asked)

    # Masks.

    def plan(self, phase: Phase, length: int) -> index_group.RowsPlan:
        """Plan one append."""
        in_place = phase == "decode" and self.state.starts is None
        return index_group.plan_decode(self.state) if in_place else index_group.plan_block(self.state, length)

    @clause("MASK-14", "MASK-15", "MASK-16", "MASK-17")
    def mask(self, length: int, phase: Phase, window: int | None = None, array: bool = False) -> MaskValue:
        """Build the mask of the append that comes next, ``[B, 1, L, S]`` if it is an array; nothing changes."""
        if self.count == 0:
            raise Refusal("a group without rows has no mask (ROWS-11)")
        if length < 1 or (phase == "decode" and length != 1):
            raise Refusal(f"no mask for a {phase} of {length} positions (ERR-4)")
        if window is not None and window < 1:
            raise Refusal(f"a window argument is at least 1, not {window} (ERR-7)")
        if phase == "decode":
            self.demand_settled_padding("a decode")
        kind = index_group.mask_kind(self.state, length, phase, window)
        if kind != "array" and not array:
            return None if kind == "none" else "causal"
        width = len(self.plan(phase, length).fetch)
        entries = [
            [[self.sees(b, length, phase, i, j, window) for j in range(width)] for i in range(length)]
            for b in range(self.count)
        ]
        return np.array(entries)[:, None]

    def sees(self, b: int, length: int, phase: Phase, query: int, column: int, window: int | None) -> bool:
        """Say whether a query of row ``b`` in the next append sees fetched column ``column``."""
        if phase == "decode" and self.state.starts is None:
            return index_group.decode_visible(self.state, b, column, window)
        return index_group.block_visible(self.state, b, length, query, column, window)

    # Precision.

    def is_due(self, b: int) -> bool:
        """Say whether a row is to convert, by its valid offset alone."""
        start, row = self.layer.start, self.rows[b]
        return isinstance(start, int) and not row.coded and index_policy.is_due(start, self.offsets[b])

    @clause("PREC-26")
    def settled(self, chosen: Iterable[int]) -> tuple[Row, ...]:
        """Give the rows with those of ``chosen`` converted that are due; the group stays as it is."""
        rows = list(self.rows)
        for b in dict.fromkeys(chosen):
            if self.is_due(b) and self.shape is not None and isinstance(self.layer.start, int):
                rows[b] = rows[b].converted(self.offsets[b], self.layer.start, self.shape, self.layer)
        return tuple(rows)

    # Counts.

    @property
    def count(self) -> int:
        """Rows (ROWS-25)."""
        return index_group.rows(self.state)

    @property
    def offsets(self) -> tuple[int, ...]:
        """Each row's next position, padding left out; negative while left padding is unused."""
        return tuple(index_group.valid(self.state, b) for b in range(self.count))

    @property
    def columns(self) -> int:
        """Allocated columns, the same for every row."""
        return self.state.columns

    @property
    def write_index(self) -> int:
        """The next column to write."""
        return self.state.write_index

    @property
    def identity(self) -> str:
        """Kind and configuration (ROWS-27)."""
        return self.layer.identity

    @property
    def storage(self) -> str:
        """What it holds now: dense, affine, or of a bf16-first policy dense, mixed or packed (PREC-25)."""
        if self.layer.policy != "bf16_first":
            return self.layer.policy
        coded = {row.coded for row in self.rows}
        return "mixed" if len(coded) > 1 else "packed" if True in coded else "dense"

    def row_storage(self, b: int) -> Storage:
        """What a row holds: tensors, or codes."""
        return "affine" if self.rows[b].coded else "dense"

    def floor(self, b: int) -> int:
        """Give the reuse floor of a row (PREC-27)."""
        return self.rows[b].floor

    def planes(self, b: int) -> Planes:
        """Show the planes of a row, ``[1, H, columns, D]`` in physical order, for a group that has columns."""
        planes = self.rows[b].planes
        if planes is None:
            raise ValueError("a group without columns has no planes")
        return planes

    @clause("PREC-28")
    def max_append_of(self, b: int) -> int | Unbounded:
        """Count the positions that make a row due."""
        start = self.layer.start
        if not isinstance(start, int) or self.rows[b].coded:
            return "unbounded"
        left = index_policy.positions_left(start, max(0, self.offsets[b]))
        return "unbounded" if left is None else left

    @property
    @clause("PREC-28")
    def max_append(self) -> int | Unbounded:
        """Count the positions that make the first row due."""
        bounds = [bound for b in range(self.count) if isinstance(bound := self.max_append_of(b), int)]
        return min(bounds) if bounds else "unbounded"

    @property
    def nbytes(self) -> int:
        """Bytes of the allocated planes of all rows, each in its storage (ROWS-26)."""
        return self.columns * sum(self._position_bytes())

    @property
    def bytes_per_token(self) -> int:
        """The most that a position of one row takes; 0 while nothing is allocated (GROW-5, GROW-9)."""
        return max(self._position_bytes(), default=0) if self.columns else 0

    def _position_bytes(self) -> list[int]:
        """List the bytes of a position of each row."""
        return [self.shape.bytes_per_position(self.layer, row.coded) for row in self.rows] if self.shape else []


def check_fit(layer: LayerSpec, shape: Shape) -> None:
    """Refuse head dims that the groups of a policy do not divide (PREC-13)."""
    if layer.bits is not None and not shape.codec(layer).fits:
        raise Refusal(f"head dims {shape.key_width} and {shape.value_width}: groups have {layer.group} (PREC-13)")
