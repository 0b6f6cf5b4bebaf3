"""One decode carried out by a graph of the caller's: prepared, run and committed.

``prepare_decode_step`` does the host's part of a decode (growth, the overshoot of a window, rotation) and writes
nothing; the cache stays as it is until ``commit_decode_step``.  In between the caller runs a graph over
``decode_inputs``, which a compiler may keep: what depends on the position is an array among them.

The phase says what the graph is given and what it gives back, ``n`` planes each (2 dense ones, 6 of codes: words,
scales, biases of keys, then of values):

* ``concat``: the planes of the active columns; back come the planes of the new column, and the commit writes them;
* ``ring``: all columns of a full ring and the column to write, int32 ``[1]``; the write is in the graph, back come the
  updated planes, and all columns are fetched, in ring order;
* ``fixed``: as ``ring``, for allocations that are not full, with a mask over all columns behind the write.

``decode_phase`` says which of the first two it is; ``fixed`` stands in for ``concat`` where one graph is to serve many
positions.  A mask, bool ``[1, S]`` or of rows ``[B, 1, 1, S]``, is the last input wherever a group hides columns.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import attrs
import mlx.core as mx

from kvlaw.mlx_impl.caches import Cache
from kvlaw.mlx_impl.codec import Codec, as_codes
from kvlaw.mlx_impl.codes import AffinePlanes
from kvlaw.mlx_impl.errors import ConfigError, RoundError
from kvlaw.mlx_impl.geometry import Geometry, Plan, RingGeometry, columns_index
from kvlaw.mlx_impl.group_content import GroupContent
from kvlaw.mlx_impl.group_geometry import GroupGeometry
from kvlaw.mlx_impl.group_masks import group_decode_mask
from kvlaw.mlx_impl.group_planes import MixedPlanes
from kvlaw.mlx_impl.group_settle import settled_for_append
from kvlaw.mlx_impl.groups import RowGroup
from kvlaw.mlx_impl.inputs import Layout
from kvlaw.mlx_impl.masks import Lease, Mask
from kvlaw.mlx_impl.planes import DensePlanes, Planes, moved
from kvlaw.mlx_impl.plans import REMEMBERED, decode_plan
from kvlaw.spec.cite import clause

DecodePhase = Literal["concat", "ring", "fixed"]

Target = Cache | RowGroup
"""What can be decoded by a graph."""


def _key(slot: "DecodeSlot") -> str:
    codec = f":{slot.bits}:{slot.value_bits}:{slot.group}" if slot.storage == "affine" else ""
    flags = f"{':masked' if slot.masked else ''}{':guarded' if slot.guarded else ''}"
    return f"{slot.phase}:{slot.storage}{codec}{flags}"


@attrs.frozen
class DecodeSlot:
    """What a graph depends on besides shapes; never an offset, and no number of columns."""

    phase: DecodePhase
    storage: Literal["dense", "affine"]
    bits: int = 0
    value_bits: int = 0
    group: int = 0
    masked: bool = False
    guarded: bool = False
    """Values behind the column that is written are replaced by zeros before they are attended."""
    key: str = attrs.field(init=False, default=attrs.Factory(_key, takes_self=True))
    """All of it as text: ``fixed:affine:4:4:64:masked``."""

    @property
    def planes(self) -> int:
        """Return how many planes go in and come out."""
        return 2 if self.storage == "dense" else 6


@clause("DEC-4")
def decode_phase(cache: Target) -> Literal["concat", "ring"]:
    """Return the phase of the next decode and change nothing.

    ``ring`` once the decode fills the window or finds it full, ``concat`` before, and always for a growing cache.
    """
    return _phase(cache.place)


def _phase(place: Geometry) -> Literal["concat", "ring"]:
    full = isinstance(place, RingGeometry) and place.active + 1 >= place.window
    return "ring" if full else "concat"


class Shared:
    """Numbers and masks as arrays, one for all layers of a step that stand at the same place."""

    def __init__(self) -> None:
        self._numbers: dict[int, mx.array] = {}
        self._positions: dict[int, mx.array] = {}
        self._prefixes: dict[tuple[int, int], mx.array] = {}

    def number(self, value: int) -> mx.array:
        """Return int32 ``[1]``."""
        found = self._numbers.get(value)
        if found is None:
            self._numbers[value] = found = mx.array([value], mx.int32)
        return found

    def position(self, value: int) -> mx.array:
        """Return int32 ``[]``."""
        found = self._positions.get(value)
        if found is None:
            self._positions[value] = found = mx.array(value, mx.int32)
        return found

    def prefix(self, count: int, columns: int) -> mx.array:
        """Return bool ``[1, columns]``, true for the first ``count``."""
        found = self._prefixes.get((count, columns))
        if found is None:
            self._prefixes[count, columns] = found = mx.arange(columns)[None] < count
        return found


@attrs.frozen
class _Place:
    """What a decode at one place comes to, in integers: the same for all layers that stand there."""

    move: Plan
    phase: DecodePhase
    write: int
    columns: int
    spare: bool
    """Columns that are no spare zeros of this move may lie behind the column that is written."""


@lru_cache(maxsize=REMEMBERED)
def _placed(place: Geometry, whole: bool) -> _Place:
    move, phase = decode_plan(place), _phase(place)
    write = move.write[2].start if move.write else sum(index[2].stop - index[2].start for index in move.front)
    columns = move.then.columns
    stale = whole and phase == "concat" and move.write is not None and write + 1 < columns
    return _Place(move, "fixed" if whole and phase == "concat" else phase, write, columns, stale)


class DecodeStep:
    """A decode that was prepared: what a graph needs for it, until it is committed."""

    __slots__ = ("_before", "_cache", "_content", "_mask", "_place", "_planes", "_then", "decode_slot", "layout")

    _planes: Planes | None

    def __init__(
        self, cache: Target, at: _Place, parts: "_Parts", planes: Planes, before: Planes, guarded: bool
    ) -> None:
        self._cache, self._place, self._planes, self._before = cache, at, planes, before
        self._mask = parts.mask.array if isinstance(parts.mask, Lease) else None
        self._then, self._content, self.layout = parts.then, parts.content, parts.layout
        masked = at.phase == "fixed" or self._mask is not None
        self.decode_slot = _slot(planes, at.phase, masked, guarded and at.spare)

    @property
    def write(self) -> int:
        """Return the column that is written."""
        return self._place.write

    @property
    def columns(self) -> int:
        """Return how many columns are allocated after it."""
        return self._place.columns

    @property
    def position(self) -> int | mx.array:
        """Return where the token stands: a number, of a group int32 ``[B]``."""
        return self._cache.positions if isinstance(self._cache, RowGroup) else self._cache.offset

    @property
    def capacity(self) -> int:
        """Return how many columns the planes among the inputs have."""
        return self.write if self.decode_slot.phase == "concat" else self.columns

    @clause("DEC-1", "DEC-2")
    def decode_inputs(self, shared: Shared | None = None) -> list[mx.array]:
        """Return planes, the column to write (``ring``, ``fixed``) and the mask, if there is one, in that order.

        Raises:
            ConfigError: if the step was committed.
        """
        planes, phase = self._planes, self.decode_slot.phase
        if planes is None:
            raise ConfigError("inputs of a step that was committed", "prepare another", "DEC-1")
        if phase == "concat":
            return [*arrays_of(planes.first(self.write)), *([] if self._mask is None else [self._mask])]
        shared = shared or Shared()
        inputs = arrays_of(planes)
        inputs.append(shared.number(self._place.write))
        if phase == "fixed" and self._mask is None:
            inputs.append(shared.prefix(self._place.write + 1, self._place.columns))
        elif self._mask is not None:
            inputs.append(widened(self._mask, self._place.columns))
        return inputs

    def planes_of(self, outputs: Sequence[mx.array]) -> Planes:
        """Return updated planes as what the cache stores; ``ring`` and ``fixed`` only.

        Raises:
            ConfigError: if the step was committed.
        """
        if self._planes is None:
            raise ConfigError("planes of a step that was committed", "prepare another", "DEC-1")
        return like(self._planes, outputs)

    def fetched(self, planes: Planes) -> Planes:
        """Return the columns of updated planes that a read of this decode is owed."""
        fetch = self._place.move.fetch
        return planes if fetch is None else planes.first(fetch[2].stop)

    @clause("DEC-1", "DEC-3", "DEC-4", "DEC-8")
    def commit_decode_step(self, outputs: Sequence[mx.array]) -> list[mx.array]:
        """Take over the planes that the graph gave back: from here on the cache has decoded.

        Returns the arrays that are to be evaluated with the step: in ``concat`` the buffers written to, else none.

        Raises:
            ConfigError: if the outputs are of another number, or the cache was changed or the step committed before.
        """
        planes, slot, cache = self._planes, self.decode_slot, self._cache
        if planes is None or cache.planes is not self._before:
            raise ConfigError("a commit of a decode", "it was committed, or the cache changed since", "DEC-1")
        if len(outputs) != slot.planes:
            raise ConfigError(f"a commit of {len(outputs)} planes", f"{slot.planes} are needed", "DEC-3")
        roots: list[mx.array] = []
        if slot.phase == "concat":
            roots = [_written(old, new, self.write) for old, new in zip(arrays_of(planes), outputs, strict=True)]
        held = like(planes, roots or outputs)
        self._planes = self._before = None
        content, then = self._content, self._then
        if isinstance(cache, RowGroup):
            assert isinstance(content, GroupContent)  # noqa: S101  # what it was prepared from
            assert isinstance(then, GroupGeometry)  # noqa: S101  # as above
            cache.hold(attrs.evolve(content, planes=held, geometry=then))
        else:
            assert isinstance(then, Geometry)  # noqa: S101  # as above
            cache.hold_step(held, then)
        return roots


@attrs.frozen(eq=False)
class _Parts:
    """What a decode starts from: the planes, and what holds afterwards besides them."""

    place: Geometry
    planes: Planes
    layout: Layout
    mask: Mask
    then: Geometry | GroupGeometry
    content: GroupContent | None


@clause("DEC-1", "DEC-4", "DEC-5", "DEC-6", "DEC-7", "DEC-10")
def prepare_decode_step(cache: Target, *, whole: bool = False, guarded: bool = False) -> DecodeStep:
    """Prepare a decode of ``cache``, which stays as it is.

    ``whole`` asks for ``fixed`` instead of ``concat``.  Hidden columns then weigh exactly 0, which makes nothing of a
    number, but NaN of what is none; ``guarded`` asks for a graph that keeps such columns out (``finite_tail``).

    Raises:
        RoundError: if a round is open.
        PaddingError: if padding is announced.
        ConfigError: if nothing is stored yet, or the rows of a group are stored in two ways.
    """
    if cache.in_round:
        raise RoundError("a compiled decode in a round", "decode, or end the round first", "DEC-6")
    before = cache.planes
    if isinstance(cache, RowGroup):
        cache.content.geometry.refuse_padding("a compiled decode")
    if before is None:
        raise ConfigError(f"a compiled decode of {cache!r}", "it is empty: append first", "DEC-5")
    parts = _rows_parts(cache) if isinstance(cache, RowGroup) else _serial_parts(cache, before)
    at = _placed(parts.place, whole)
    planes = parts.planes if at.move.write is not None else _laid_out(parts.planes, at.move)
    return DecodeStep(cache, at, parts, planes, before, guarded)


@clause("DEC-3")
def finite_tail(cache: Target) -> mx.array | None:
    """Say, as an array to be evaluated, whether all values behind the next column are finite; None if there are none.

    What was trimmed or taken back lies there as it was.
    """
    planes = cache.planes
    if planes is None or not _placed(cache.place, True).spare:
        return None
    arrays = [planes.values] if isinstance(planes, DensePlanes) else []
    if isinstance(planes, AffinePlanes):
        arrays = list(planes.values[1:])  # scales and biases
    write = cache.place.write_index
    finite = [mx.all(mx.isfinite(array[:, :, write:])) for array in arrays]
    return mx.all(mx.stack(finite)) if finite else None


def guarded(planes: Sequence[mx.array], write: mx.array) -> list[mx.array]:
    """Replace what stands behind column ``write`` of values by zeros: of dense ones, or of scales and biases."""
    seen = (mx.arange(planes[0].shape[2]) <= write)[:, None]
    count = 1 if len(planes) == 2 else 2
    hidden = [mx.where(seen, plane, mx.zeros((), plane.dtype)) for plane in planes[-count:]]
    return [*planes[:-count], *hidden]


def _serial_parts(cache: Cache, planes: Planes) -> _Parts:
    place, layout = cache.place, cache.layout
    assert layout is not None  # noqa: S101  # what holds planes knows their shape
    return _Parts(place, planes, layout, None, decode_plan(place).then, None)


def _rows_parts(group: RowGroup) -> _Parts:
    content = settled_for_append(group.content)
    geometry, planes, layout = content.geometry, content.planes, content.layout
    assert planes is not None  # noqa: S101  # settling only converts
    assert layout is not None  # noqa: S101  # what holds planes knows their shape
    if isinstance(planes, MixedPlanes):
        raise ConfigError("a compiled decode of rows that are stored in two ways", "decode them as they are", "DEC-10")
    mask = group_decode_mask(geometry, None, as_array=False)
    return _Parts(geometry.place, planes, layout, mask, decode_plan(geometry).then, content)


@lru_cache(maxsize=REMEMBERED)
def _dense_slot(phase: DecodePhase, masked: bool, guarded: bool) -> DecodeSlot:
    return DecodeSlot(phase, "dense", masked=masked, guarded=guarded)


@lru_cache(maxsize=REMEMBERED)
def _affine_slot(codec: Codec, phase: DecodePhase, masked: bool, guarded: bool) -> DecodeSlot:
    return DecodeSlot(phase, "affine", codec.bits, codec.value_bits, codec.group, masked, guarded)


def _slot(planes: Planes, phase: DecodePhase, masked: bool, guarded: bool) -> DecodeSlot:
    if isinstance(planes, AffinePlanes):
        return _affine_slot(planes.store.codec, phase, masked, guarded)
    return _dense_slot(phase, masked, guarded)


def arrays_of(planes: Planes) -> list[mx.array]:
    """Return the arrays of planes, keys first."""
    if isinstance(planes, AffinePlanes):
        return [*planes.keys, *planes.values]
    assert isinstance(planes, DensePlanes)  # noqa: S101  # mixed planes are refused
    return [planes.keys, planes.values]


def like(planes: Planes, arrays: Sequence[mx.array]) -> Planes:
    """Return planes of these arrays, stored as others are."""
    if isinstance(planes, AffinePlanes):
        return AffinePlanes(planes.store, as_codes(arrays[:3]), as_codes(arrays[3:]))
    return DensePlanes(*arrays)


def _laid_out(planes: Planes, move: Plan) -> Planes:
    """Carry out a plan with a zero column in place of the new one."""
    return like(planes, [moved(array, move, _zero_column(array)) for array in arrays_of(planes)])


def _zero_column(array: mx.array) -> mx.array:
    batch, heads, _, dim = array.shape
    return mx.zeros((batch, heads, 1, dim), array.dtype)


def _written(array: mx.array, column: mx.array, at: int) -> mx.array:
    held = array[...]
    held[columns_index(at, at + 1)] = column
    return held


def widened(mask: mx.array, columns: int) -> mx.array:
    """Hide the columns behind a mask of rows ``[B, 1, 1, width]``."""
    spare = columns - mask.shape[-1]
    return mx.concatenate([mask, mx.zeros((*mask.shape[:-1], spare), mx.bool_)], -1) if spare else mask
