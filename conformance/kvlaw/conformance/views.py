"""What a subject shows of caches, reads, masks and handed-out arrays: an adapter's answers, checked, as observations.

Everything is asked through ``guard.show``: what cannot be shown, or cannot be what it claims to be (None instead of
keys and values, another dtype, a mask that is none), is a ``ShowingError`` that names it.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import index
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from attrs import evolve, frozen

from kvlaw.conformance.decode import spread
from kvlaw.conformance.guard import ShowingError, show
from kvlaw.conformance.interface import Adapter, NonsenseError, Unshown, UnsupportedError
from kvlaw.spec.config import Config
from kvlaw.spec.observations import Bits, Form, MaskView, Observation, Payload, ReadView, StateView, join_codes

_MASKING = frozenset({"mask", "attend", "phases", "lists"})
"""A cache with one of these sees to its masks by itself, shown or not, or has several windows; the fetch of another is
judged as it is (chapter 7)."""


@frozen
class Views:
    """Shows what an adapter's caches answer."""

    adapter: Adapter

    def read(self, read: Any, payload: Payload, known: bool = False) -> ReadView:
        """Show a read: what it fetched, its mask, and its answer to the payload's queries.

        Of a ``known`` append also what each of its queries answers alone.
        """
        fetched = show("the fetch", self.adapter.fetched, read)
        mask = show("the mask", self.adapter.read_mask, read)
        parts = () if fetched is None else show("the fetch", pair, fetched)
        asked = "attend" in self.adapter.capabilities and payload.queries.size > 0
        output = self._attended(read, payload, parts, mask) if asked else None
        pieces = [piece for part in parts for piece in (part if self.is_codes(part) else (part,))]
        lazy = [part for part in (*pieces, mask, output) if not (part is None or isinstance(part, str | Unshown))]
        show("the read", self.adapter.settle, lazy)
        keys = self.columns("the fetched keys", parts[0]) if parts else None
        values = self.columns("the fetched values", parts[1]) if parts else None
        form: Form = "affine" if parts and self.is_codes(parts[0]) else "dense"
        answer = None if output is None else self.tensor("the output", output)
        seen = (
            by_the_fetch(self.adapter.capabilities, self.adapter.config, keys, payload)
            if isinstance(mask, Unshown)
            else self.mask(mask)
        )
        alone = self._alone(read, payload, keys, seen) if known and answer is not None else None
        return ReadView(keys, values, seen, answer, form, alone)

    def _alone(self, read: Any, payload: Payload, keys: Bits | None, mask: MaskView | None) -> Bits | None:
        """Ask each query of a known append by itself, under its own row of the mask; None if that cannot be done."""
        if keys is None or mask is None or keys.ndim != 4:  # [B, Hkv, S, D]
            return None
        length, scale = int(payload.queries.shape[2]), payload.scale
        rows = spread(mask, keys.shape[0], length, keys.shape[2])
        if rows is None:
            return None
        parts: list[Any] = []
        for i in range(length):
            query = self.adapter.tensor(payload.queries[:, :, i : i + 1], payload.dtype)
            row = np.ascontiguousarray(rows[:, None, i : i + 1])
            try:
                parts.append(show("a query alone", self.adapter.attend_alone, read, query, scale, row))
            except UnsupportedError:
                return None
        show("the queries alone", self.adapter.settle, parts)
        return np.concatenate([self.tensor("a query alone", part) for part in parts], 2)

    def _attended(self, read: Any, payload: Payload, parts: Sequence[Any], mask: Any) -> Any:
        """Attend; an attention that fails because the mask does not fit is shown by the mask itself (MASK-1)."""
        queries = self.adapter.tensor(payload.queries, payload.dtype)
        try:
            return show("the output", self.adapter.attend, read, queries, payload.scale)
        except ShowingError:
            if self._misfit(mask, parts, payload):
                return None
            raise

    def _misfit(self, mask: Any, parts: Sequence[Any], payload: Payload) -> bool:
        fetch: tuple[int, ...] = getattr(parts[0], "shape", ()) if parts else ()
        if mask is None or isinstance(mask, str | Unshown) or len(fetch) != 4:
            return False
        shape = (1, *show("the mask", self.adapter.mask_array, mask).shape)
        return shape[-1] != fetch[2] or shape[-2] not in (1, payload.queries.shape[2])

    def tensor(self, what: str, array: Any) -> Bits:
        """Show the bits of keys, values or outputs, which must have the dtype of the configuration."""
        said = show(what, self.adapter.dtype_of, array)
        if said is not None and said != self.adapter.config.dtype:
            raise ShowingError(f"{what}: {said} instead of {self.adapter.config.dtype}")
        return self.bits(what, array)

    def bits(self, what: str, array: Any) -> npt.NDArray[Any]:
        """Copy the bits of an array."""
        return show(what, _array, self.adapter.bits, array)

    def outputs(self, outputs: Any) -> ReadView:
        """Show the outputs of an advance."""
        show("the outputs", self.adapter.settle, [outputs])
        return ReadView(outputs=self.tensor("the outputs", outputs))

    def columns(self, what: str, part: Any) -> Bits:
        """Show columns: tensors, or codes as words, scales and biases."""
        if not self.is_codes(part):
            return self.tensor(what, part)
        words, scales, biases = part
        return join_codes(self.bits(what, words), self.tensor(what, scales), self.tensor(what, biases))

    def is_codes(self, part: Any) -> bool:
        """Tell whether columns came as codes: words, scales and biases, from an adapter that has such."""
        parts = _parts(part)
        return "codes" in self.adapter.capabilities and parts is not None and len(parts) == 3

    def mask(self, mask: Any) -> MaskView:
        """Show a mask."""
        if mask is None:
            return MaskView("none")
        if isinstance(mask, str):
            if mask != "causal":
                raise ShowingError(f"the mask: {mask!r} is no mask; the only word is 'causal'")
            return MaskView("causal")
        array = show("the mask", _array, self.adapter.mask_array, mask)
        if array.dtype != np.bool_:
            raise ShowingError(f"the mask: an array of {array.dtype}, not of bool")
        return MaskView("array", array)

    def state(self, cache: Any) -> StateView:
        """Show a cache's state."""
        state: Any = show("the state", self.adapter.show, cache)
        if not isinstance(state, StateView):
            raise ShowingError(f"the state: {_named(state)} instead of a StateView")
        return state

    def arrays(self, arrays: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
        """Copy handed-out arrays."""
        return {
            str(name): np.array(array) if isinstance(array, int | float) else self.bits(str(name), array)
            for name, array in arrays.items()
        }

    def masks(self, masks: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
        """Copy handed-out masks."""
        shown = {name: self.mask(mask).array for name, mask in masks.items()}
        return {name: array for name, array in shown.items() if array is not None}

    def row_reads(self, read: Any, payload: Payload, known: bool = False) -> list[ReadView]:
        """Show the read of a group row by row: what each fetched, its part of the mask, and of the answer."""
        parts = show("the fetch of each row", self.adapter.fetched_rows, read)
        if parts is None:
            return self._sliced(self.read(read, payload, known), payload)
        mask = show("the mask", self.adapter.read_mask, read)
        asked = "attend" in self.adapter.capabilities and payload.queries.size > 0
        output = self._attended(read, payload, (), mask) if asked else None
        answer = None if output is None else self.tensor("the output", output)
        whole = ReadView(None, None, None if isinstance(mask, Unshown) else self.mask(mask), answer)
        rows = self._sliced(whole, payload)
        if len(parts) != len(rows):
            raise ShowingError(f"the fetch has {len(parts)} rows, asked were {len(rows)}")
        return [self._with_columns(row, *show("the fetch", pair, part)) for row, part in zip(rows, parts, strict=True)]

    def _with_columns(self, view: ReadView, keys: Any, values: Any) -> ReadView:
        form: Form = "affine" if self.is_codes(keys) else "dense"
        shown = self.columns("the fetched keys", keys), self.columns("the fetched values", values)
        return evolve(view, keys=shown[0], values=shown[1], form=form)

    def _sliced(self, whole: ReadView, payload: Payload) -> list[ReadView]:
        count = (
            int(payload.queries.shape[0]) if payload.queries.ndim == 4 else int(payload.keys.shape[0])
        )  # [B, H, L, D]
        for array in (whole.keys, whole.values, whole.output):
            if array is not None and array.ndim == 4 and array.shape[0] != count:  # [B, H, L, D]
                raise ShowingError(f"the read has {array.shape[0]} rows instead of {count}")

        def row(array: npt.NDArray[Any] | None, number: int) -> npt.NDArray[Any] | None:
            return array if array is None or array.ndim != 4 else array[number : number + 1]  # [B, H, L, D]

        return [
            ReadView(
                row(whole.keys, b),
                row(whole.values, b),
                row_of_mask(whole.mask, b, count),
                row(whole.output, b),
                whole.form,
                row(whole.alone, b),
            )
            for b in range(count)
        ]

    def group(self, group: Any, reads: Sequence[ReadView | None]) -> Observation:
        """Show a group and its rows, with what each of them read."""
        states: Sequence[Any] = show("the rows", self.adapter.show_rows, group)
        if any(not isinstance(state, StateView) for state in states):
            raise ShowingError("the rows: a StateView of each is wanted")
        read = [*reads, *[None] * (len(states) - len(reads))]
        rows = tuple(Observation(read=r, state=s) for r, s in zip(read, states, strict=False))
        return Observation(state=self.state(group), rows=rows)

    def layers(self, caches: Sequence[Any], reads: Sequence[ReadView | None]) -> Observation:
        """Show a list of layers, with the reads that they made."""
        states = [self.state(cache) for cache in caches]
        layers = tuple(Observation(read=r, state=s) for r, s in zip(reads, states, strict=True))
        return Observation(layers=layers, state=self._together(list(caches), states))

    def _together(self, caches: list[Any], states: Sequence[StateView]) -> StateView | None:
        if not caches:
            return None
        offset = states[0].offset
        counts = range((offset or 0) + 2)
        flags = [show("can_trim of the list", self.adapter.can_trim_layers, caches, n) for n in counts]
        return StateView(
            offset=offset,
            can_trim=None if None in flags else tuple(bool(flag) for flag in flags),
            max_append=show("max_append of the list", self.adapter.max_append_layers, caches),
        )


def by_the_fetch(capabilities: frozenset[str], config: Config, keys: Bits | None, payload: Payload) -> MaskView | None:
    """Mask the fetch of a cache without masks: a query sees what is not later, in a ring its newest W of that."""
    if keys is None or keys.ndim != 4 or _MASKING & capabilities:  # [B, Hkv, S, D]
        return None
    length, width, window = int(payload.queries.shape[2]), int(keys.shape[2]), config.window
    if length == 1:
        return MaskView("none")
    own: npt.NDArray[np.int64] = np.arange(width - length, width)[:, None]
    column: npt.NDArray[np.int64] = np.arange(width)[None]
    return MaskView("array", (column <= own) & (column > own - (window or width)))


def row_of_mask(mask: MaskView | None, number: int, count: int) -> MaskView | None:
    """Take one row's part of a group's mask; one that has no axis of so many rows stays as it is (MASK-16)."""
    if mask is None or mask.array is None or mask.array.ndim != 4 or mask.array.shape[0] != count:  # [B, H, L, S]
        return mask
    return MaskView(mask.kind, mask.array[number : number + 1])


def _array(get: Callable[[Any], Any], given: Any) -> npt.NDArray[Any]:
    """Check that what is shown of an array is an array of numbers."""
    shown: Any = get(given)
    if not isinstance(shown, np.ndarray):
        raise NonsenseError(f"{_named(shown)} instead of an array of bits")
    array = cast("npt.NDArray[Any]", shown)
    if array.dtype.kind in "OSUMm":
        raise NonsenseError(f"an array of {array.dtype} instead of an array of bits")
    return array


def pair(answer: Any) -> tuple[Any, Any]:
    """Check that an answer is keys and values."""
    parts = _parts(answer)
    if parts is None or len(parts) != 2:
        raise NonsenseError(f"{_named(answer)} instead of keys and values")
    return parts[0], parts[1]


def count(answer: Any) -> int | None:
    """Check that an answer is a whole number, or nothing."""
    if answer is None:
        return None
    try:
        return index(answer)
    except TypeError as error:
        raise NonsenseError(f"the answer {_named(answer)} is no whole number") from error


def _parts(answer: Any) -> Sequence[Any] | None:
    return cast("Sequence[Any]", answer) if isinstance(answer, tuple | list) else None


def _named(answer: Any) -> str:
    if answer is None or isinstance(answer, int | float | str):
        return repr(answer)
    parts = _parts(answer)
    return f"a {type(answer).__name__}" + ("" if parts is None else f" of {len(parts)}")
