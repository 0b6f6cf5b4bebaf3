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
from typing import Literal

import attrs
import mlx.core as mx

from kvlaw.mlx_impl.caches import Cache
from kvlaw.mlx_impl.codec import as_codes
from kvlaw.mlx_impl.codes import AffinePlanes
from kvlaw.mlx_impl.errors import ConfigError, RoundError
from kvlaw.mlx_impl.geometry import Geometry, Plan, RingGeometry, columns_index
from kvlaw.mlx_impl.group_content import GroupContent
from kvlaw.mlx_impl.group_masks import group_decode_mask
from kvlaw.mlx_impl.group_planes import MixedPlanes
from kvlaw.mlx_impl.group_settle import settled_for_append
from kvlaw.mlx_impl.groups import RowGroup
from kvlaw.mlx_impl.inputs import Layout
from kvlaw.mlx_impl.masks import Lease, Mask, decode_mask
from kvlaw.mlx_impl.planes import DensePlanes, Planes, moved
from kvlaw.mlx_impl.plans import decode_plan
from kvlaw.mlx_impl.standing import Content
from kvlaw.spec.cite import clause

DecodePhase = Literal["concat", "ring", "fixed"]

Target = Cache | RowGroup
"""What can be decoded by a graph."""


@attrs.frozen(cache_hash=True)
class DecodeSlot:
    """What a graph depends on besides shapes; never an offset, and no number of columns."""

    phase: DecodePhase
    storage: Literal["dense", "affine"]
    bits: int = 0
    value_bits: int = 0
    group: int = 0
    masked: bool = False

    @property
    def key(self) -> str:
        """Write it as text: ``fixed:affine:4:4:64:masked``."""
        codec = f":{self.bits}:{self.value_bits}:{self.group}" if self.storage == "affine" else ""
        return f"{self.phase}:{self.storage}{codec}{':masked' if self.masked else ''}"

    @property
    def planes(self) -> int:
        """Return how many planes go in and come out."""
        return 2 if self.storage == "dense" else 6


@clause("DEC-5", "DEC-6", "DEC-7")
def decode_phase(cache: Target) -> Literal["concat", "ring"]:
    """Return the phase of the next decode and change nothing.

    ``ring`` once the decode fills the window or finds it full, ``concat`` before, and always for a growing cache.
    """
    place = place_of(cache)
    full = isinstance(place, RingGeometry) and place.active + 1 >= place.window
    return "ring" if full else "concat"


class Shared:
    """Numbers and masks, made once each for as long as this object is kept: one step."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, ...], mx.array] = {}

    def number(self, value: int) -> mx.array:
        """Return int32 ``[1]``."""
        found = self._made.get((value,))
        if found is None:
            self._made[value,] = found = mx.array([value], mx.int32)
        return found

    def prefix(self, count: int, columns: int) -> mx.array:
        """Return bool ``[1, columns]``, true for the first ``count``."""
        found = self._made.get((count, columns))
        if found is None:
            self._made[count, columns] = found = mx.arange(columns)[None] < count
        return found


@attrs.define(eq=False)
class DecodeStep:
    """A decode that was prepared: what a graph needs for it, until it is committed."""

    decode_slot: DecodeSlot
    layout: Layout
    write: int
    """The column that is written."""
    columns: int
    """How many columns are allocated after it."""
    _cache: Target
    _before: Planes | None
    _planes: Planes | None
    _mask: mx.array | None
    _then: Content | GroupContent

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
        if self._planes is None:
            raise ConfigError("inputs of a step that was committed", "prepare another", "DEC-1")
        shared, phase = shared or Shared(), self.decode_slot.phase
        planes = self._planes.first(self.write) if phase == "concat" else self._planes
        inputs = arrays_of(planes)
        if phase != "concat":
            inputs.append(shared.number(self.write))
        if self._mask is not None:
            inputs.append(_widened(self._mask, self.columns) if phase == "fixed" else self._mask)
        elif phase == "fixed":
            inputs.append(shared.prefix(self.write + 1, self.columns))
        return inputs

    @clause("DEC-1", "DEC-3", "DEC-4", "DEC-8")
    def commit_decode_step(self, outputs: Sequence[mx.array]) -> list[mx.array]:
        """Take over the planes that the graph gave back: from here on the cache has decoded.

        Returns the arrays that are to be evaluated with the step: in ``concat`` the buffers written to, else none.

        Raises:
            ConfigError: if the outputs are of another number, or the cache was changed or the step committed before.
        """
        planes, slot = self._planes, self.decode_slot
        if planes is None or planes_of(self._cache) is not self._before:
            raise ConfigError("a commit of a decode", "it was committed, or the cache changed since", "DEC-1")
        if len(outputs) != slot.planes:
            raise ConfigError(f"a commit of {len(outputs)} planes", f"{slot.planes} are needed", "DEC-3")
        arrays = list(outputs)
        if slot.phase == "concat":
            arrays = [_written(old, new, self.write) for old, new in zip(arrays_of(planes), arrays, strict=True)]
        held = like(planes, arrays)
        self._planes = self._before = None
        _hold(self._cache, _of_its_own(self._then) if slot.phase == "fixed" else self._then, held)
        return arrays if slot.phase == "concat" else []


@attrs.frozen(eq=False)
class _Parts:
    """What a decode starts from: where its new column goes, the planes before it, and what holds afterwards."""

    move: Plan
    planes: Planes
    layout: Layout
    mask: Mask
    then: Content | GroupContent


@clause("DEC-1", "DEC-4", "DEC-5", "DEC-6", "DEC-7", "DEC-10")
def prepare_decode_step(cache: Target, *, whole: bool = False, clean: bool = False) -> DecodeStep:
    """Prepare a decode of ``cache``, which stays as it is.

    ``whole`` asks for ``fixed`` instead of ``concat``.  Hidden columns then weigh exactly 0, which makes nothing of a
    number but NaN of what is none; so stale ones are cleared, unless the caller knows that they are ``clean``.

    Raises:
        RoundError: if a round is open.
        PaddingError: if padding is announced.
        ConfigError: if nothing is stored yet, or the rows of a group are stored in two ways.
    """
    if cache.in_round:
        raise RoundError("a compiled decode in a round", "decode, or end the round first", "DEC-6")
    before = planes_of(cache)
    parts = _rows_parts(cache) if isinstance(cache, RowGroup) else _serial_parts(cache)
    phase = decode_phase(cache)
    chosen: DecodePhase = "fixed" if whole and phase == "concat" else phase
    move = parts.move
    write = _written_column(move)
    columns = place_in(parts.then).columns
    if chosen == "fixed" and not clean and move.write is not None and write + 1 < columns:
        move = Plan(move.then, front=(columns_index(0, write),), spare=columns - write - 1)
    planes = parts.planes if move.write is not None else _laid_out(parts.planes, move)
    mask = parts.mask.array if isinstance(parts.mask, Lease) else None
    slot = _slot(planes, chosen, masked=chosen == "fixed" or mask is not None)
    return DecodeStep(slot, parts.layout, write, columns, cache, before, planes, mask, parts.then)


def planes_of(cache: Target) -> Planes | None:
    """Return the planes that a cache or a group holds now."""
    return cache.content.planes


def _serial_parts(cache: Cache) -> _Parts:
    content = cache.content
    if content.planes is None or content.layout is None:
        raise ConfigError("a compiled decode of an empty cache", "append first", "DEC-5")
    move = decode_plan(content.geometry)
    mask = decode_mask(content.geometry, None, as_array=False)
    return _Parts(move, content.planes, content.layout, mask, attrs.evolve(content, geometry=move.then))


def _rows_parts(group: RowGroup) -> _Parts:
    geometry = group.content.geometry
    geometry.refuse_padding("a compiled decode")
    if group.content.planes is None:
        raise ConfigError("a compiled decode of an empty group", "append first", "DEC-5")
    content = settled_for_append(group.content, 1)
    planes, layout = content.planes, content.layout
    assert planes is not None  # noqa: S101  # settling only converts
    assert layout is not None  # noqa: S101  # what holds planes knows their shape
    if isinstance(planes, MixedPlanes):
        raise ConfigError("a compiled decode of rows that are stored in two ways", "decode them as they are", "DEC-10")
    plan = decode_plan(geometry)
    mask = group_decode_mask(geometry, None, as_array=False)
    return _Parts(plan.move, planes, layout, mask, attrs.evolve(content, geometry=plan.then))


def place_in(content: Content | GroupContent) -> Geometry:
    """Return where the columns stand, of a group those that all its rows share."""
    return content.geometry.place if isinstance(content, GroupContent) else content.geometry


def place_of(cache: Target) -> Geometry:
    """Return where the columns of a cache or a group stand."""
    return place_in(cache.content)


def _written_column(move: Plan) -> int:
    if move.write is not None:
        return move.write[2].start
    return sum(index[2].stop - index[2].start for index in move.front)


def _slot(planes: Planes, phase: DecodePhase, *, masked: bool) -> DecodeSlot:
    if isinstance(planes, AffinePlanes):
        codec = planes.store.codec
        return DecodeSlot(phase, "affine", codec.bits, codec.value_bits, codec.group, masked)
    return DecodeSlot(phase, "dense", masked=masked)


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


def _widened(mask: mx.array, columns: int) -> mx.array:
    """Hide the columns behind a mask of rows ``[B, 1, 1, width]``."""
    spare = columns - mask.shape[-1]
    return mx.concatenate([mask, mx.zeros((*mask.shape[:-1], spare), mx.bool_)], -1) if spare else mask


def _of_its_own(then: Content | GroupContent) -> Content | GroupContent:
    """Give a content a geometry object that no plan has, by which a later step knows that nobody came in between."""
    if isinstance(then, GroupContent):
        geometry = then.geometry
        return attrs.evolve(then, geometry=attrs.evolve(geometry, place=attrs.evolve(geometry.place)))
    return attrs.evolve(then, geometry=attrs.evolve(then.geometry))


def _hold(cache: Target, then: Content | GroupContent, planes: Planes) -> None:
    """Hold what a step gave; a cache that is due is converted then."""
    if isinstance(cache, RowGroup):
        assert isinstance(then, GroupContent)  # noqa: S101  # what it was prepared from
        cache.hold(attrs.evolve(then, planes=planes))
        return
    assert isinstance(then, Content)  # noqa: S101  # as above
    cache.hold(attrs.evolve(then, planes=planes))
    cache.settle()
