"""The planes of a group: one part for all rows, or two where some rows hold codes and some do not.

A part is ``DensePlanes`` or ``AffinePlanes`` with an axis of rows, so a group in one storage is stored and moved like a
serial cache.  ``MixedPlanes`` has a part of each, with the same columns, and flags that say which part a row is in;
each row is written, read and moved in its own storage.

What happens to rows, other than appends, is here too: ``take_rows``, ``rolled``, ``converted`` and ``joined``.
Nothing here quantizes but an append and a conversion, and every function leaves the planes it is given as they are.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar, overload

import attrs
import mlx.core as mx

from kvlaw.mlx_impl.codec import Codes, as_codes
from kvlaw.mlx_impl.codes import AffinePlanes, AffineStore
from kvlaw.mlx_impl.errors import ConfigError
from kvlaw.mlx_impl.geometry import Index, Plan, columns_index
from kvlaw.mlx_impl.group_geometry import Roll
from kvlaw.mlx_impl.group_plans import ExtractPlan, Flags, Piece
from kvlaw.mlx_impl.inputs import Layout
from kvlaw.mlx_impl.masks import Lease, Mask
from kvlaw.mlx_impl.planes import AXIS, DENSE_STORE, DensePlanes, Keys, Planes, Values
from kvlaw.mlx_impl.plans import REMEMBERED
from kvlaw.spec.cite import clause

Part = DensePlanes | AffinePlanes

SomePart = TypeVar("SomePart", DensePlanes, AffinePlanes)


@attrs.frozen
class Sides:
    """The rows of each part of a mixed group, in order, and where the rows lie once dense and coded are joined."""

    dense: tuple[int, ...]
    coded: tuple[int, ...]
    dense_index: mx.array
    coded_index: mx.array
    back: mx.array

    def place(self, row: int) -> tuple[bool, int]:
        """Return whether ``row`` is coded, and its place among its like."""
        return (True, self.coded.index(row)) if row in self.coded else (False, self.dense.index(row))


@lru_cache(maxsize=REMEMBERED)
def sides(flags: Flags) -> Sides:
    """Return the sides of flags that differ."""
    dense = tuple(row for row, coded in enumerate(flags) if not coded)
    coded = tuple(row for row, coded in enumerate(flags) if coded)
    order = dense + coded
    back = [order.index(row) for row in range(len(flags))]
    return Sides(dense, coded, mx.array(dense, mx.int32), mx.array(coded, mx.int32), mx.array(back, mx.int32))


class MixedPlanes:
    """A dense part and a part of codes; row b is in the one that ``flags[b]`` says."""

    __slots__ = ("coded", "dense_part", "flags", "sides")

    def __init__(self, flags: Flags, dense_part: DensePlanes, coded: AffinePlanes) -> None:
        self.flags = flags
        self.dense_part = dense_part
        self.coded = coded
        self.sides = sides(flags)

    @property
    def columns(self) -> int:
        """Return how many columns there are."""
        return self.dense_part.columns

    @property
    def arrays(self) -> dict[str, mx.array]:
        """Return the planes of both parts by name, each of its own rows."""
        return {**self.dense_part.arrays, **self.coded.arrays}

    @property
    def nbytes(self) -> int:
        """Return the bytes of both parts."""
        return self.dense_part.nbytes + self.coded.nbytes

    @clause("PREC-24")
    def append(self, plan: Plan, keys: Keys, values: Values) -> "tuple[MixedPlanes, MixedPlanes]":
        """Carry out ``plan`` on both parts, each with its rows of what is new."""
        at = self.sides
        dense, seen = self.dense_part.append(plan, keys[at.dense_index], values[at.dense_index])
        coded, seen_codes = self.coded.append(plan, keys[at.coded_index], values[at.coded_index])
        return MixedPlanes(self.flags, dense, coded), MixedPlanes(self.flags, seen, seen_codes)

    def at(self, index: Index) -> "MixedPlanes":
        """Take a range of columns."""
        return MixedPlanes(self.flags, self.dense_part.at(index), self.coded.at(index))

    def first(self, columns: int) -> "MixedPlanes":
        """Take the first ``columns`` columns."""
        return self.at(columns_index(0, columns))

    def row(self, row: int) -> Part:
        """Take one row."""
        coded, place = self.sides.place(row)
        return self.coded.row(place) if coded else self.dense_part.row(place)

    def stored(self) -> tuple[Any, Any]:
        """Refuse: rows are stored in different ways.

        Raises:
            ConfigError: always.
        """
        raise ConfigError("the stored columns of a mixed group", "ask the rows of the read", "READ-16")

    @clause("READ-17")
    def dense(self) -> tuple[Keys, Values]:
        """Return keys and values of all rows, codes dequantized."""
        pairs = zip(self.dense_part.dense(), self.coded.dense(), strict=True)
        keys, values = (mx.concatenate(list(pair))[self.sides.back] for pair in pairs)
        return keys, values

    @clause("READ-16")
    def attend(self, queries: mx.array, scale: float, mask: Mask, sinks: mx.array | None) -> mx.array:
        """Attend the queries of each row over its own storage.

        Raises:
            ConfigError: if there are learned sinks: only dense storage attends with them.
        """
        at = self.sides
        coded = self.coded.attend(queries[at.coded_index], scale, _mask_of(mask, at.coded_index), sinks)
        dense = self.dense_part.attend(queries[at.dense_index], scale, _mask_of(mask, at.dense_index), sinks)
        return mx.concatenate([dense, coded])[at.back]


def _mask_of(mask: Mask, index: mx.array) -> Mask:
    return Lease(mask.array[index], mask.meaning) if isinstance(mask, Lease) else mask


def begin(flags: Flags, codes: AffineStore | None, plan: Plan, keys: Keys, values: Values) -> tuple[Planes, Planes]:
    """Carry out the first ``plan`` of a group of empty rows, each in the storage that ``flags`` say."""
    if codes is None or not any(flags):
        return DENSE_STORE.begin(plan, keys, values)
    if all(flags):
        return codes.begin(plan, keys, values)
    at = sides(flags)
    dense, seen = DENSE_STORE.begin(plan, keys[at.dense_index], values[at.dense_index])
    coded, seen_codes = codes.begin(plan, keys[at.coded_index], values[at.coded_index])
    return MixedPlanes(flags, dense, coded), MixedPlanes(flags, seen, seen_codes)


# -- rows -------------------------------------------------------------------------------------------------------------


@overload
def each(part: DensePlanes, act: Callable[[mx.array], mx.array]) -> DensePlanes: ...
@overload
def each(part: AffinePlanes, act: Callable[[mx.array], mx.array]) -> AffinePlanes: ...


def each(part: Part, act: Callable[[mx.array], mx.array]) -> Part:
    """Act on each array of a part."""
    if isinstance(part, DensePlanes):
        return DensePlanes(act(part.keys), act(part.values))
    return AffinePlanes(part.store, as_codes([act(a) for a in part.keys]), as_codes([act(a) for a in part.values]))


@clause("PAD-16")
def rolled(planes: Planes, roll: Roll) -> Planes:
    """Keep the first columns of all rows, each row rolled to the right by its own shift."""
    if isinstance(planes, MixedPlanes):
        at = planes.sides
        dense = _rolled(planes.dense_part, roll.columns, [roll.shifts[row] for row in at.dense])
        coded = _rolled(planes.coded, roll.columns, [roll.shifts[row] for row in at.coded])
        return MixedPlanes(planes.flags, dense, coded)
    assert isinstance(planes, Part)  # noqa: S101  # there is no third kind
    return _rolled(planes, roll.columns, roll.shifts)


@overload
def _rolled(part: DensePlanes, columns: int, shifts: Sequence[int]) -> DensePlanes: ...
@overload
def _rolled(part: AffinePlanes, columns: int, shifts: Sequence[int]) -> AffinePlanes: ...


def _rolled(part: Part, columns: int, shifts: Sequence[int]) -> Part:
    shift = mx.array([[[[shift]]] for shift in shifts], mx.int32)
    index = (mx.arange(columns)[None, None, :, None] - shift) % columns
    return each(part, lambda array: mx.take_along_axis(array, index, AXIS))


@clause("ROWS-16", "ROWS-21")
def take_rows(planes: Planes, rows: Sequence[int], first: int = 0) -> Planes:
    """Take ``rows``, in this order, from column ``first`` on: a copy, so that it keeps no other row alive."""
    if not isinstance(planes, MixedPlanes):
        assert isinstance(planes, Part)  # noqa: S101  # there is no third kind
        return _take(planes, rows, first)
    places = [planes.sides.place(row) for row in rows]
    flags = tuple(coded for coded, _ in places)
    dense = [place for coded, place in places if not coded]
    codes = [place for coded, place in places if coded]
    if not codes:
        return _take(planes.dense_part, dense, first)
    if not dense:
        return _take(planes.coded, codes, first)
    return MixedPlanes(flags, _take(planes.dense_part, dense, first), _take(planes.coded, codes, first))


@overload
def _take(part: DensePlanes, rows: Sequence[int], first: int = 0) -> DensePlanes: ...
@overload
def _take(part: AffinePlanes, rows: Sequence[int], first: int = 0) -> AffinePlanes: ...


def _take(part: Part, rows: Sequence[int], first: int = 0) -> Part:
    index = _index(tuple(rows))
    if first:
        return each(part, lambda array: array[:, :, first:][index])
    return each(part, lambda array: array[index])


@lru_cache(maxsize=REMEMBERED)
def _index(rows: tuple[int, ...]) -> mx.array:
    return mx.array(rows, mx.int32)


@clause("PREC-24", "PREC-9")
def converted(planes: Planes, before: Flags, after: Flags, codes: AffineStore) -> Planes:
    """Convert the rows whose flags differ, as they lie, and leave the others as they are."""
    fresh = [row for row, (was, will) in enumerate(zip(before, after, strict=True)) if will and not was]
    if isinstance(planes, DensePlanes):
        if all(after):
            return codes.convert(planes)
        kept = [row for row, coded in enumerate(after) if not coded]
        return MixedPlanes(after, _take(planes, kept), codes.convert(_take(planes, fresh)))
    assert isinstance(planes, MixedPlanes)  # noqa: S101  # where all rows hold codes none can be converted
    at = planes.sides
    if all(after):
        more = codes.convert(planes.dense_part)
    else:
        more = codes.convert(_take(planes.dense_part, [at.dense.index(row) for row in fresh]))
    order = [*at.coded, *fresh]
    coded = _stacked(planes.coded, more, [order.index(row) for row in sorted(order)])
    if all(after):
        return coded
    kept = [place for place, row in enumerate(at.dense) if not after[row]]
    return MixedPlanes(after, _take(planes.dense_part, kept), coded)


def _stacked(first: AffinePlanes, second: AffinePlanes, order: list[int]) -> AffinePlanes:
    """Join the rows of two parts, in an order."""
    keys = [mx.concatenate([a, b]) for a, b in zip(first.keys, second.keys, strict=True)]
    values = [mx.concatenate([a, b]) for a, b in zip(first.values, second.values, strict=True)]
    both = AffinePlanes(first.store, as_codes(keys), as_codes(values))
    return both if order == sorted(order) else _take(both, order)


# -- rows that come and go -------------------------------------------------------------------------------------------


@clause("ROWS-13")
def lifted(planes: Planes, row: int, plan: ExtractPlan, heads: int) -> Part:
    """Copy the columns of one row, in temporal order, so that they keep no other row alive."""
    part, pieces = part_of(planes, row), plan.pieces
    if plan.partial and heads > 1:  # the columns of one head do not adjoin those of the next
        at = pieces[0]
        if type(part) is DensePlanes:  # what ``each`` does, written out: the most common case
            return DensePlanes(mx.contiguous(part.keys[at]), mx.contiguous(part.values[at]))
        return each(part, lambda array: mx.contiguous(array[at]))
    if plan.turn:
        return each(part, lambda array: mx.roll(array[plan.row], plan.turn, AXIS))
    if len(pieces) > 1:
        return each(part, lambda array: mx.concatenate([array[at] for at in pieces], AXIS))
    first, columns = _index((plan.row.start, plan.first)), plan.columns

    def copy(array: mx.array) -> mx.array:  # a slice that begins at an array is a copy, what adjoins or not
        _, heads, _, dim = array.shape
        return mx.slice(array, first, (0, AXIS), (1, heads, columns, dim))

    return each(part, copy)


def part_of(planes: Planes, row: int) -> Part:
    """Return the part that a row is in."""
    if type(planes) is DensePlanes:
        return planes
    if isinstance(planes, MixedPlanes):
        return planes.coded if planes.flags[row] else planes.dense_part
    assert isinstance(planes, Part)  # noqa: S101  # there is no third kind
    return planes


def place_in_part(flags: Flags, row: int) -> int:
    """Return which row of its part a row is."""
    return flags[:row].count(flags[row])


@clause("ROWS-6")
def filled(blank: SomePart, pieces: Sequence[Piece], sources: Sequence[Planes | None]) -> SomePart:
    """Write pieces of sources into blank planes of the same storage."""
    targets = _arrays(blank)
    for piece in pieces:
        source = sources[piece.source]
        if isinstance(source, MixedPlanes):
            source = source.dense_part if isinstance(blank, DensePlanes) else source.coded
        assert isinstance(source, Part)  # noqa: S101  # a row that has columns has planes
        for target, array in zip(targets, _arrays(source), strict=True):
            target[piece.to] = array[piece.of]
    return blank


def blank_dense(layout: Layout, rows: int, columns: int) -> DensePlanes:
    """Return dense planes of zeros."""
    shape = (rows, layout.heads, columns)
    keys, values = (mx.zeros((*shape, dim), layout.dtype) for dim in (layout.key_dim, layout.value_dim))
    return DensePlanes(keys, values)


def blank_codes(store: AffineStore, layout: Layout, rows: int, columns: int) -> AffinePlanes:
    """Return codes of zeros."""
    codec, shape = store.codec, (rows, layout.heads, columns)

    def codes(dim: int, bits: int) -> Codes:
        groups = (*shape, dim // codec.group)
        words = mx.zeros((*shape, dim * bits // 32), mx.uint32)
        return words, mx.zeros(groups, layout.dtype), mx.zeros(groups, layout.dtype)

    return AffinePlanes(store, codes(layout.key_dim, codec.bits), codes(layout.value_dim, codec.value_bits))


def _arrays(part: Part) -> tuple[mx.array, ...]:
    return (part.keys, part.values) if isinstance(part, DensePlanes) else (*part.keys, *part.values)
