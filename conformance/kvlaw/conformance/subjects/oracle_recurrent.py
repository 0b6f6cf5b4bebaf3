"""The NumPy rows of recurrent layers, as the reference adapter asks and shows them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import asdict, evolve

from kvlaw.conformance.interface import RecurrentStep
from kvlaw.reference.layout import Refusal
from kvlaw.reference.numerics.gated_delta import Inputs
from kvlaw.reference.recurrent import Recurrent, Row, Shapes, merge
from kvlaw.spec.config import LayerSpec
from kvlaw.spec.observations import Bits, StateView


class RecurrentLayer:
    """The rows of one layer under its identity; a serial cache has one."""

    rows_type: type[Recurrent] = Recurrent

    def __init__(self, layer: LayerSpec, rows: int = 1) -> None:
        """Make rows without a position."""
        if problem := layer.problem:
            raise Refusal(f"{problem} (ERR-6)")
        self.layer = layer
        self.rows = self.rows_type.of_empty_rows(layer.kernel, rows)

    def like(self, rows: Recurrent, layer: LayerSpec) -> "RecurrentLayer":
        """Make a layer of its own class that holds these rows."""
        made = type(self)(layer)
        made.rows = self.adopted(rows)
        return made

    def adopted(self, rows: Recurrent) -> Recurrent:
        """Give rows in the class of this layer's own."""
        if isinstance(rows, self.rows_type):
            return rows
        made = self.rows_type(rows.kernel, rows.rows, rows.shapes)
        made.pads, made.ends, made.starts = rows.pads, rows.ends, rows.starts
        made.fresh, made.appended = rows.fresh, rows.appended
        return made

    @property
    def round(self) -> list[int] | None:
        """Where its open round began, None if none is open."""
        return self.rows.starts

    # Files.

    def told(self, arrays: list[Any]) -> dict[str, Any]:
        """Describe it for a file, and put its inputs and its matrix in line."""
        (row,), shapes = self.rows.rows, self.rows.shapes
        told: dict[str, Any] = {"layer": asdict(self.layer), "state": {"offset": len(row.inputs)}}
        if shapes is not None and row.inputs:
            planes = [np.array(row.inputs), row.matrices[-1]]
            told["planes"] = [[list(plane.shape), plane.dtype.name] for plane in planes]
            told["shapes"] = asdict(shapes)
            arrays += planes
        return told

    def hold(self, told: dict[str, Any]) -> None:
        """Hold what a file tells; the matrices before the last are gone, and nobody asks for them."""
        if "shapes" in told:
            shapes = told["shapes"]
            self.rows.shapes = Shapes(shapes["channels"], shapes["dtype"], tuple(shapes["matrix"]))
            inputs, matrix = tuple(told["keys"]), told["values"]
            self.rows.rows = [Row(inputs, (matrix,) * len(inputs))]

    # Calls.

    def advance(self, step: RecurrentStep) -> Bits:
        """Run positions."""
        queries, keys, values = step.queries.bits, step.keys.bits, step.values.bits
        projected = Inputs(queries, keys, values, step.decay.bits, step.beta.bits, step.inputs.dtype)
        return self.rows.advance(step.inputs.bits, projected)

    def roll_back(self, keep: Sequence[int]) -> None:
        """Take back all but the first positions of the round."""
        count = len(self.rows.rows)
        if len(keep) == 1 and self.rows.starts is not None and not 0 <= keep[0] <= self.rows.appended:
            raise Refusal(f"0 to {self.rows.appended} positions can be kept (ROUND-7)")  # of no rows as well
        self.rows.roll_back(list(keep) * count if len(keep) == 1 else keep)

    def trim(self, n: Any) -> int:
        """Refuse: a state is not cut."""
        raise Refusal(f"trim of {n} from a recurrent state (REC-13)")

    def clone(self) -> "RecurrentLayer":
        """Copy it, its open round included."""
        return self.like(self.rows.clone(), self.layer)

    def extract(self, row: int) -> "RecurrentLayer":
        """Make the cache of one row."""
        return self.like(self.rows.extract(row), self.layer.serial)

    def merged(self, sources: Sequence["RecurrentLayer"]) -> "RecurrentLayer":
        """Make a group of the rows of all sources."""
        return self.like(merge([source.rows for source in sources]), self.layer.grouped)

    # What is shown.

    def show(self) -> StateView:
        """Show what is not of one row; of a serial cache its row as well."""
        rows = self.rows
        offset = max(rows.offsets, default=0)
        state = rows.state()
        whole = StateView(
            nbytes=0 if state is None else sum(part.nbytes for part in state),
            bytes_per_token=0,
            identity=self.layer.identity,
            can_trim=(False,) * (offset + 2),
            round="none" if rows.starts is None else "open",
        )
        if self.layer.is_rows:
            return evolve(whole, rows=len(rows.rows))
        row = self.show_row(0)
        return evolve(whole, offset=row.offset, tail=row.tail, matrix=row.matrix)

    def show_row(self, row: int) -> StateView:
        """Show one row."""
        state = self.rows.state()
        tail, matrix = (None, None) if state is None else (np.array(part[row : row + 1]) for part in state)
        return StateView(offset=self.rows.offsets[row], tail=tail, matrix=matrix)
