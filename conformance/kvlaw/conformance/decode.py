"""From raw observations to token ids: whose bytes stands where, and what each query sees.

``Decoder`` looks columns up in the stamp's tables. A column whose key bytes are no token's is 0; a column whose key,
value, heads or rows disagree is *torn*. Masks are read as MLX reads them: none shows every column, ``causal`` is
aligned at the lower right, an array is broadcast over rows and heads.
"""

import hashlib
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from attrs import evolve, frozen

from kvlaw.conformance.recurrent_stamps import RecurrentDecoder
from kvlaw.conformance.stamps import Stamper
from kvlaw.reference.numerics.formats import differing
from kvlaw.spec.observations import Bits, Form, MaskView, Observation, ReadView, StateView
from kvlaw.spec.records import CacheRecord, ReadRecord, Tokens

Torn = tuple[tuple[int, int, str], ...]


class NonsenseError(ValueError):
    """An observation that cannot be what it claims to be: a wrong rank, width or type."""


@frozen
class Columns:
    """Token ids of columns, ``ids[row][column]``, and the torn ones as (row, column, what)."""

    ids: tuple[tuple[int, ...], ...]
    torn: Torn = ()


@frozen
class Decoder:
    """Reads bytes by the tables of one configuration."""

    stamper: Stamper

    def columns(self, keys: Bits, values: Bits, form: Form = "dense") -> Columns:
        """Decode fetched or stored planes ``[B, Hkv, S, D]``, or codes ``[B, Hkv, S, words + 2 * groups]``."""
        self._check(keys, values, form)
        rows, width = keys.shape[0], keys.shape[2]
        ids = tuple(self._tokens(keys[row, 0], form) for row in range(rows))
        wanted = np.array(ids, np.int64).reshape(rows, width)
        held = np.flatnonzero(wanted.any(0))
        most = int(wanted.max(initial=0))
        if held.size == 0:
            return Columns(ids)
        wanted = wanted[:, held]
        torn: list[tuple[int, int, str]] = []
        for side, plane in (("key", keys), ("value", values)):
            right = self.stamper.table(side + "s", most, form)[wanted, np.arange(rows)[:, None]].transpose(0, 2, 1, 3)
            wrong = (right != plane[:, :, held]).any(-1) & (wanted > 0)[:, None, :]
            if wrong.any():
                everywhere = np.zeros((rows, plane.shape[1], width), np.bool_)
                everywhere[:, :, held] = wrong
                torn += self._torn(side, plane, everywhere, form)
        return Columns(ids, tuple(dict.fromkeys(torn)))

    def _tokens(self, plane: npt.NDArray[Any], form: Form) -> tuple[int, ...]:
        """Look up the token of each column of one head, ``[S, D]``; a column of zeros is nobody's."""
        known = self.stamper.owners("keys", form)
        ids = [0] * plane.shape[0]
        written = np.flatnonzero(plane.any(-1))
        columns = np.ascontiguousarray(plane[written])
        whole = columns.view(np.dtype((np.void, columns.itemsize * plane.shape[1]))).ravel().tolist()
        for column, bits in zip(written.tolist(), whole, strict=True):
            owner = known.get(bits)
            ids[column] = owner.token if owner else 0
        return tuple(ids)

    def _torn(self, side: str, plane: Bits, wrong: npt.NDArray[np.bool_], form: Form) -> list[tuple[int, int, str]]:
        known = self.stamper.owners(side + "s", form)
        found: list[tuple[int, int, str]] = []
        for row, head, column in np.argwhere(wrong):
            owner = known.get(plane[row, head, column].tobytes())
            what = (
                f"{side} of head {head} is no token's"
                if owner is None
                else f"{side} of head {head} is t{owner.token}'s"
            )
            if owner is not None and (owner.row, owner.head) != (row, head):
                what += f" of row {owner.row}, head {owner.head}"
            found.append((int(row), int(column), what))
        return found

    def _check(self, keys: Any, values: Any, form: Form) -> None:
        c = self.stamper.config
        if form == "affine" and not self.stamper.grid:
            raise NonsenseError("codes, from a cache that was built without bits")
        for name, plane in (("keys", keys), ("values", values)):
            width = int(self.stamper.table(name, 1, form).shape[-1])
            array = cast("npt.NDArray[Any]", plane)
            if not isinstance(plane, np.ndarray) or array.ndim != 4:  # [B, H, S, D]
                raise NonsenseError(f"{name} are no array [B, H, S, D]")
            if (array.shape[0], array.shape[1], array.shape[3]) != (c.batch, c.kv_heads, width):
                wanted = f"[{c.batch}, {c.kv_heads}, S, {width}]"
                raise NonsenseError(f"{name} have shape {list(array.shape)}, not {wanted}")
            if array.dtype.itemsize != (4 if c.dtype == "f32" or form == "affine" else 2):
                raise NonsenseError(f"{name} are not {c.dtype}: {array.dtype.itemsize} bytes an element")
        if keys.shape[2] != values.shape[2]:
            raise NonsenseError(f"{keys.shape[2]} keys, but {values.shape[2]} values")

    def read(self, view: ReadView, length: int) -> ReadRecord:
        """Decode a read of ``length`` queries."""
        output = None if view.output is None else digest(view.output)
        mask = view.mask
        kind = None if mask is None else mask.kind
        shape = None if mask is None or mask.array is None else tuple(mask.array.shape)
        if view.outputs is not None:
            return ReadRecord(output=digest(view.outputs), answers=RecurrentDecoder(self.stamper).answers(view.outputs))
        if view.keys is None or view.values is None:
            return ReadRecord(mask=kind, mask_shape=shape, output=output)
        columns = self.columns(view.keys, view.values, view.form)
        width = int(view.keys.shape[2])
        apart = self._apart(view)
        record = ReadRecord(None, columns.ids, width, kind, shape, columns.torn, output, view.form, apart)
        if mask is None:
            return record
        shown = spread(mask, self.stamper.config.batch, length, width)
        if shown is None:
            return record
        return evolve(record, visible=tuple(_visible(columns.ids[row], shown[row]) for row in range(len(columns.ids))))

    def _apart(self, view: ReadView) -> tuple[int, ...] | None:
        """List the queries whose output is not, bit for bit, what they answer alone."""
        if view.alone is None or view.output is None or view.alone.shape != view.output.shape:
            return None
        other = differing(view.output, view.alone, self.stamper.config.dtype)
        return tuple(int(i) for i in np.flatnonzero(other.any((0, 1, 3))))

    def state(self, view: StateView | None) -> CacheRecord | None:
        """Decode a cache's state."""
        if view is None:
            return None
        record = CacheRecord(
            view.offset,
            view.size,
            view.nbytes,
            view.columns,
            view.bytes_per_token,
            view.identity,
            view.storage,
            view.can_trim,
            view.write_index,
            form=view.form,
            floor=view.floor,
            max_append=view.max_append,
            rows=view.rows,
            round=view.round,
        )
        if view.tail is not None or view.matrix is not None:
            return RecurrentDecoder(self.stamper).state(view, record)
        if view.keys is None or view.values is None:
            return evolve(record, held=()) if view.columns == 0 else record
        if view.form == "affine" and self.stamper.grid and not self.stamper.fits:
            return record  # whatever it holds, it is no token's codes
        if view.keys.shape[2] == 0:
            return evolve(record, held=())
        columns = self.columns(view.keys, view.values, view.form)
        torn = (*columns.torn, *_unequal_rows(columns.ids))
        return evolve(record, held=columns.ids[0], torn=torn, digest=digest(view.keys, view.values))


def of_row(read: ReadRecord, real: tuple[int, ...]) -> ReadRecord:
    """Keep of a row's read the queries that are real tokens of the row."""
    visible = read.visible and tuple(tuple(row[q] for q in real if q < len(row)) for row in read.visible)
    answers = read.answers and tuple(read.answers[q] for q in real if q < len(read.answers))
    return evolve(
        read,
        visible=visible,
        answers=answers,
        apart=read.apart and tuple(real.index(q) for q in read.apart if q in real),
    )


def of_padding(read: ReadRecord, padding: frozenset[int]) -> ReadRecord:
    """Tell the columns of a row's fetch that hold its padding as no token's; what its queries see stays as it is."""
    if read.fetched is None or not padding:
        return read
    return evolve(read, fetched=tuple(tuple(0 if t in padding else t for t in row) for row in read.fetched))


def own_columns(columns: Columns, padding: frozenset[int]) -> Columns:
    """Take the padding out of a row's columns: no token's."""
    ids = tuple(tuple(0 if token in padding else token for token in row) for row in columns.ids)
    return Columns(ids, tuple(t for t in columns.torn if ids[t[0]][t[1]]))


def own_state(record: CacheRecord, own: frozenset[int]) -> CacheRecord:
    """Keep of a row's columns those that hold a token of the row at one of its positions."""
    if record.held is None:
        return record
    held = tuple(token if token in own else 0 for token in record.held)
    return evolve(record, held=held, torn=tuple(t for t in record.torn if held[t[1]]))


def _unequal_rows(ids: tuple[tuple[int, ...], ...]) -> Torn:
    """List the columns of other rows that hold another token than those of row 0."""
    return tuple(
        (row, column, f"row {row} holds t{token} where row 0 holds t{first}")
        for row, tokens in enumerate(ids)
        for column, (token, first) in enumerate(zip(tokens, ids[0], strict=True))
        if token != first
    )


def visible_under(mask: MaskView, read: ReadRecord, length: int) -> tuple[tuple[Tokens, ...], ...] | None:
    """Say what each query of a read would see under another mask; None if that mask does not fit its fetch."""
    if read.fetched is None or read.width is None:
        return None
    shown = spread(mask, len(read.fetched), length, read.width)
    if shown is None:
        return tuple(tuple(() for _ in range(length)) for _ in read.fetched)
    return tuple(_visible(ids, shown[row]) for row, ids in enumerate(read.fetched))


def spread(mask: MaskView, batch: int, length: int, width: int) -> npt.NDArray[np.bool_] | None:
    """Spread a mask to ``[B, L, S]``; None if it does not fit or differs between heads."""
    if mask.kind == "none":
        return np.ones((batch, length, width), np.bool_)
    if mask.kind == "causal":
        causal = np.arange(width)[None, :] <= width - length + np.arange(length)[:, None]
        return np.broadcast_to(causal, (batch, length, width))
    array = mask.array
    if array is None or array.dtype != np.bool_ or array.ndim == 0 or array.shape[-1] != width:
        return None
    try:
        full = np.broadcast_to(
            array if array.ndim == 4 else array.reshape((1,) * (4 - array.ndim) + array.shape),
            (batch, _heads(array), length, width),
        )
    except ValueError:
        return None
    return full[:, 0] if (full == full[:, :1]).all() else None


def _heads(array: npt.NDArray[Any]) -> int:
    return array.shape[1] if array.ndim == 4 else array.shape[0] if array.ndim == 3 else 1  # [B, H, L, S]


def _visible(ids: tuple[int, ...], shown: npt.NDArray[np.bool_]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(ids[column] for column in np.flatnonzero(row)) for row in shown)


def digest(*arrays: npt.NDArray[Any]) -> str:
    """Give a short fingerprint of arrays, shapes included."""
    whole = hashlib.sha256(usedforsecurity=False)
    for array in arrays:
        whole.update(repr(array.shape).encode())
        whole.update(np.ascontiguousarray(array).tobytes())
    return whole.hexdigest()[:16]


def handed(observation: Observation) -> tuple[tuple[str, str], ...]:
    """Fingerprint the arrays that an observation handed out."""
    arrays = dict(observation.arrays or {})
    if observation.mask is not None and observation.mask.array is not None:
        arrays["mask"] = observation.mask.array
    return tuple(sorted((name, digest(array)) for name, array in arrays.items()))
