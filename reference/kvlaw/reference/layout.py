"""NumPy caches: arrays moved with the integers of ``index``, every operation as check, plan, move, count.

A cache holds keys ``[B, H, columns, D]`` and values ``[B, H, columns, Dv]`` as arrays of bits. Refusals (``Refusal``)
come before any change. These caches are the subject ``builtin:oracle`` and the ground on which planted faults are
built.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from attrs import frozen

from kvlaw.reference import index, index_policy
from kvlaw.reference.codes import Codec, Side
from kvlaw.reference.numerics import attention
from kvlaw.reference.numerics.formats import DType, bits_dtype
from kvlaw.spec.calls import Phase
from kvlaw.spec.cite import clause
from kvlaw.spec.config import LayerSpec, Storage
from kvlaw.spec.observations import Bits, Form, Unbounded

MaskValue = npt.NDArray[np.bool_] | str | None


class Refusal(ValueError):
    """A call that is turned down before anything changes; the text names the clause."""


@frozen(eq=False)
class Read:
    """One append's read: fetched keys and values, and the mask; asking it again gives the same answer (READ-2)."""

    keys: Bits
    values: Bits
    mask: MaskValue
    length: int
    dtype: str
    codec: Codec | None = None

    @property
    def form(self) -> Form:
        """What was fetched: tensors, or columns of codes if there is a codec."""
        return "dense" if self.codec is None else "affine"

    def attend(self, queries: Bits, scale: float) -> Bits:
        """Attend queries ``[B, H, L, D]`` over the fetch; refuse another shape or dtype (READ-9)."""
        rows, heads, _, columns = self.keys.shape
        width = columns if self.codec is None else self.codec.key_width
        fits = queries.ndim == 4 and queries.shape[0] == rows and queries.shape[1] % heads == 0  # [B, H, L, D]
        dtype = cast("DType", self.dtype)
        if not fits or queries.shape[2:] != (self.length, width) or queries.dtype != bits_dtype(dtype):
            wanted = f"[{rows}, a multiple of {heads}, {self.length}, {width}]"
            raise Refusal(f"queries {list(queries.shape)} of {queries.dtype}: this read takes {wanted} (READ-9)")
        if self.codec is not None:
            return self.codec.attend(queries, self.keys, self.values, scale, cast("Any", self.mask))
        return attention.attend(queries, self.keys, self.values, scale=scale, mask=cast("Any", self.mask), dtype=dtype)


@frozen(eq=False)
class Planes:
    """Keys and values side by side: what moves when columns move."""

    keys: Bits
    values: Bits

    def each(self, move: Callable[[Bits], Bits]) -> "Planes":
        """Move both planes alike."""
        return Planes(move(self.keys), move(self.values))

    def grown(self, count: int) -> "Planes":
        """Add zero columns at the end."""
        return self.each(lambda plane: _grown(plane, count)) if count > 0 else self

    def kept(self, columns: tuple[int, ...] | None) -> "Planes":
        """Keep these columns, laid out in this order."""
        return self if columns is None else self.each(lambda plane: plane[:, :, list(columns)])

    def written(self, start: int, new: "Planes") -> "Planes":
        """Write new columns at ``start``, extending the planes if they end there."""
        return Planes(_written(self.keys, start, new.keys), _written(self.values, start, new.values))


def _encoded(codec: Codec, planes: Planes) -> Planes:
    return Planes(codec.encode("keys", planes.keys), codec.encode("values", planes.values))


def _grown(plane: Bits, count: int) -> Bits:
    return np.concatenate([plane, np.zeros_like(plane, shape=(*plane.shape[:2], count, plane.shape[3]))], 2)


def _written(plane: Bits, start: int, new: Bits) -> Bits:
    end = start + new.shape[2]
    extended = np.zeros_like(plane, shape=(*plane.shape[:2], max(end, plane.shape[2]), plane.shape[3]))
    extended[:, :, : plane.shape[2]] = plane
    extended[:, :, start:end] = new
    return extended


class Cache:
    """A cache of one layer: geometry of ``index`` and NumPy planes."""

    def __init__(self, layer: LayerSpec) -> None:
        """Build an empty cache; refuse an impossible configuration (ERR-6, RING-14)."""
        if problem := layer.problem:
            raise Refusal(f"{problem} (ERR-6)")
        self.layer = layer
        self.reset()

    def reset(self) -> None:
        """Return to the constructed, empty state (OWN-7, OWN-9)."""
        ring = self.layer.window is not None
        self.state: index.State = index.Ring(self.layer.window or 0, self.layer.sinks) if ring else index.Full()
        self.planes: Planes | None = None
        self.dtype = ""
        self.codec: Codec | None = None
        self.floor = 0
        self.round: int | None = None

    # Rounds.

    @property
    def appended_in_round(self) -> int:
        """Positions that were appended in the open round."""
        return 0 if self.round is None else self.offset - self.round

    def begin_round(self) -> None:
        """Open a round (ROUND-16)."""
        if self.round is not None:
            raise Refusal(f"a round is open since position {self.round}; commit it or roll it back (ROUND-7)")
        self.round = self.offset

    def commit_round(self) -> None:
        """Close the round, keep all of it, and convert what is due (ROUND-1, ROUND-11)."""
        self._demand_round("commit")
        self._close(0)

    def roll_back(self, keep: Sequence[int]) -> None:
        """Close the round and take back all but its first ``keep`` positions (ROUND-2, ROUND-4, ROUND-14)."""
        self._demand_round("roll back")
        if len(keep) != 1 or not 0 <= keep[0] <= self.appended_in_round:
            raise Refusal(f"keep {keep}: one number from 0 to {self.appended_in_round} (ROUND-7)")
        self._close(self.appended_in_round - keep[0])

    def _demand_round(self, asked: str) -> None:
        if self.round is None:
            raise Refusal(f"no round is open to {asked} (ROUND-7)")

    def _close(self, count: int) -> None:
        """Take back the newest positions, and let what is left settle."""
        self.round, self.state = None, index.after_roll_back(self.state, count)
        if self.planes is not None and self.columns < self.planes.keys.shape[2]:
            self.planes = self.planes.kept(tuple(range(self.columns))) if self.columns else None
            self.dtype = self.dtype if self.planes else ""
        self.settle()

    # Appends.

    def append_decode(
        self, keys: Bits, values: Bits, dtype: str, window: int | None = None, array: bool = False
    ) -> Read:
        """Append one position per row and read it."""
        if keys.ndim == 4 and keys.shape[2] != 1:  # [B, H, L, D]
            raise Refusal(f"a decode appends 1 position per row, not {keys.shape[2]} (ERR-4)")
        return self._append(keys, values, dtype, "decode", window, array)

    @clause("DEC-5", "DEC-6")
    def append_compiled(
        self, keys: Bits, values: Bits, dtype: str, window: int | None = None, array: bool = False
    ) -> Read:
        """Decode as a compiled step may: not in a round, and not while there are no columns."""
        if self.round is not None:
            raise Refusal("no compiled decode while a round is open (DEC-6)")
        if self.planes is None:
            raise Refusal("no compiled decode of an empty cache (DEC-5)")
        return self.append_decode(keys, values, dtype, window, array)

    def append_window(
        self, keys: Bits, values: Bits, dtype: str, window: int | None = None, array: bool = False
    ) -> Read:
        """Append L positions per row, causal inside, and read them."""
        return self._append(keys, values, dtype, "window", window, array)

    def append_known(
        self, keys: Bits, values: Bits, dtype: str, window: int | None = None, array: bool = False
    ) -> Read:
        """Append L decided positions; on this arithmetic a query alone answers as in its window (READ-12, READ-13)."""
        return self._append(keys, values, dtype, "window", window, array)

    def fetch_dense(self, keys: Bits, values: Bits, dtype: str) -> Planes:
        """Append and hand out what a read would fetch, as tensors; one position is written as a decode (READ-8)."""
        phase: Phase = "decode" if keys.ndim == 4 and keys.shape[2] == 1 else "window"  # [B, H, L, D]
        read = self._append(keys, values, dtype, phase, None, False)
        if read.codec is None:
            return Planes(read.keys, read.values)
        return Planes(read.codec.decode("keys", read.keys), read.codec.decode("values", read.values))

    def _append(self, keys: Bits, values: Bits, dtype: str, phase: Phase, window: int | None, array: bool) -> Read:
        self.check_tensors(keys, values, dtype)
        length = int(keys.shape[2])
        mask = self.mask(length, phase, window, array)
        plan = self.plan(phase, length)
        codec = self.codec or (self.make_codec(keys, values, dtype) if self.layer.policy == "affine" else None)
        new = Planes(keys, values) if codec is None else _encoded(codec, Planes(keys, values))
        held = self.planes or Planes(new.keys[:, :, :0], new.values[:, :, :0])
        self.planes = held.grown(plan.add).kept(plan.keep).written(plan.write_at, new)
        self.state, self.dtype, self.codec = plan.after, dtype, codec
        fetch = self.planes.kept(plan.fetch)
        read = Read(fetch.keys, fetch.values, mask, length, dtype, codec)
        self.settle()
        return read

    def make_codec(self, keys: Bits, values: Bits, dtype: str) -> Codec:
        """Make the codec for tensors of these shapes."""
        return Codec(self.layer, cast("DType", dtype), keys.shape[-1], values.shape[-1])

    def settle(self) -> None:
        """Convert every column as laid out, if that is due by now (PREC-1, PREC-5, PREC-8, PREC-9, ROUND-11)."""
        start = self.layer.start
        if self.round is not None:
            return
        if self.codec is not None or self.planes is None or not isinstance(start, int) or not self.due_at(self.offset):
            return
        self.codec = self.make_codec(self.planes.keys, self.planes.values, self.dtype)
        self.planes, self.state = _encoded(self.codec, self.planes), index_policy.after_conversion(self.state)
        self.floor = index_policy.floor_after(start, self.offset)

    def due_at(self, offset: int) -> bool:
        """Say whether a dense cache of this policy is to convert at an offset (PREC-1 to PREC-3)."""
        return isinstance(self.layer.start, int) and index_policy.is_due(self.layer.start, offset)

    def plan(self, phase: Phase, length: int) -> index.Plan[Any]:
        """Plan one append."""
        if self.round is not None:
            return index.plan_in_round(self.state, length, self.appended_in_round)
        if isinstance(self.state, index.Full):
            return index.full_plan(self.state, length)
        return index.plan_decode(self.state) if phase == "decode" else index.plan_block(self.state, length)

    def check_tensors(self, keys: Bits, values: Bits, dtype: str) -> None:
        """Refuse tensors that do not fit each other or the storage (ERR-2, ERR-3, ERR-4)."""
        if keys.ndim != 4 or values.ndim != 4:  # [B, H, L, D]
            raise Refusal(f"keys {list(keys.shape)}, values {list(values.shape)}: both are [B, H, L, D] (ERR-2)")
        if keys.shape[:3] != values.shape[:3]:
            raise Refusal(f"keys {list(keys.shape)} and values {list(values.shape)} differ in B, H or L (ERR-2)")
        if keys.shape[2] < 1:
            raise Refusal("an append needs at least 1 position (ERR-4)")
        if self.layer.bits is not None and not self.make_codec(keys, values, dtype).fits:
            raise Refusal(f"head dims {keys.shape[3]} and {values.shape[3]}: groups have {self.layer.group} (PREC-13)")
        if self.planes is None:
            return
        for name, new, held in (("keys", keys, self.planes.keys), ("values", values, self.planes.values)):
            side = cast("Side", name)
            width = held.shape[3] if self.codec is None else self.codec.width(side)
            if (*new.shape[:2], new.shape[3]) != (*held.shape[:2], width):
                wanted = [*held.shape[:2], "L", width]
                raise Refusal(f"{name} {list(new.shape)}: this cache holds {wanted} (ERR-2)")
        if dtype != self.dtype:
            raise Refusal(f"{dtype} tensors: this cache holds {self.dtype} (ERR-3)")

    # Masks.

    def mask(self, length: int, phase: Phase, window: int | None = None, array: bool = False) -> MaskValue:
        """Build the mask of the append that comes next; nothing changes (MASK-12)."""
        if length < 1 or (phase == "decode" and length != 1):
            raise Refusal(f"no mask for a {phase} of {length} positions (ERR-4)")
        if window is not None and window < 1:
            raise Refusal(f"a window argument is at least 1, not {window} (ERR-7)")
        if not index.can_narrow(self.state, window):
            raise Refusal(f"a ring with sinks cannot be narrowed to {window} (MASK-13)")
        kind = index.mask_kind(self.state, length, phase, window)
        if kind != "array" and not array:
            return None if kind == "none" else "causal"
        width = len(self.plan(phase, length).fetch)
        return np.array([[self.sees(length, phase, i, j, window) for j in range(width)] for i in range(length)])

    def sees(self, length: int, phase: Phase, query: int, column: int, window: int | None) -> bool:
        """Say whether query ``query`` of the next append sees fetched column ``column``."""
        if isinstance(self.state, index.Full):
            return index.full_visible(self.state, length, query, column, window)
        if phase == "decode" and self.round is None:
            return index.decode_visible(self.state, column, window)
        return index.block_visible(self.state, length, query, column, window)

    # Trims and copies.

    def can_trim(self, count: int) -> bool:
        """Say whether ``trim(count)`` would be carried out (TRIM-5, TRIM-6, ROUND-9)."""
        return self.round is None and index.can_trim(self.state, count)

    def trim(self, count: int, bypass: bool = False) -> int:
        """Drop the newest ``count`` positions, or refuse (TRIM-1, TRIM-2, TRIM-7, TRIM-11, TRIM-12)."""
        if type(count) is not int or count < 0:
            raise Refusal(f"a trim drops a whole number of positions, 0 or more, not {count!r} (ERR-5)")
        if self.round is not None:
            raise Refusal(f"{count} positions cannot be dropped while a round is open (ROUND-9)")
        if bypass and isinstance(self.state, index.Ring):
            self._cut(count, self.state)
        elif not self.can_trim(count):
            raise Refusal(f"{count} of {self.offset} positions cannot be dropped here (TRIM-7)")
        else:
            self.state = index.plan_trim(self.state, count)
        return count

    def _cut(self, count: int, ring: index.Ring) -> None:
        if not index.can_bypass(ring, count):
            raise Refusal(f"{count} columns: the newest window has {ring.block} left to cut (TRIM-12)")
        self.state = after = index.plan_bypass(ring, count)
        kept = self.planes.kept(tuple(range(after.columns))) if self.planes and after.columns else None
        self.planes, self.dtype = kept, self.dtype if kept else ""

    def clone(self) -> "Cache":
        """Make an independent cache that equals this one (OWN-2, OWN-3)."""
        twin = type(self)(self.layer)
        twin.state, twin.dtype = self.state, self.dtype
        twin.planes = self.planes and self.planes.each(np.copy)
        twin.codec, twin.floor, twin.round = self.codec, self.floor, self.round
        return twin

    def take_state(self) -> Mapping[str, npt.NDArray[Any]]:
        """Hand out copies of the state's arrays (OWN-4)."""
        planes = {} if self.planes is None else {"keys": self.planes.keys.copy(), "values": self.planes.values.copy()}
        return {**planes, "offset": np.array(self.offset)}

    # Counts.

    @property
    def offset(self) -> int:
        """The next position."""
        return self.state.offset

    @property
    def size(self) -> int:
        """Positions that count: the offset, or at most the window (POS-6)."""
        return self.offset if self.layer.window is None else min(self.offset, self.layer.window)

    @property
    def columns(self) -> int:
        """Allocated columns."""
        return self.state.columns

    @property
    def write_index(self) -> int:
        """The next column to write."""
        return self.state.write_index if isinstance(self.state, index.Ring) else self.state.offset

    @property
    def storage(self) -> Storage:
        """What it holds now: tensors, or codes."""
        return "affine" if self.codec is not None or self.layer.policy == "affine" else "dense"

    @property
    def max_append(self) -> int | Unbounded:
        """How many positions make it due: an append of that many converts, of one fewer does not (PREC-10)."""
        start = self.layer.start
        if not isinstance(start, int) or self.codec is not None:
            return "unbounded"
        left = index_policy.positions_left(start, self.offset)
        return "unbounded" if left is None else left

    @property
    def nbytes(self) -> int:
        """Bytes of the allocated planes (GROW-7)."""
        return 0 if self.planes is None else self.columns * self.planes.keys.shape[0] * self.bytes_per_token

    @property
    def bytes_per_token(self) -> int:
        """Bytes of one position of one row; 0 while empty (GROW-5)."""
        if self.planes is None:
            return 0
        keys, values = self.planes.keys, self.planes.values
        if self.codec is not None:
            return keys.shape[1] * (self.codec.column_bytes("keys") + self.codec.column_bytes("values"))
        return keys.shape[1] * (keys.shape[3] * keys.itemsize + values.shape[3] * values.itemsize)
