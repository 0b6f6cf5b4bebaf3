"""What a recurrent layer is handed for tokens, and whose its state and its outputs are (``kvlaw.spec.slots``)."""

from typing import cast

import numpy as np
import numpy.typing as npt
from attrs import evolve, frozen

from kvlaw.conformance.stamps import Stamper
from kvlaw.reference.numerics.formats import decode, encode
from kvlaw.spec.config import DType
from kvlaw.spec.observations import Bits, Payload, StateView
from kvlaw.spec.records import CacheRecord, Tokens
from kvlaw.spec.slots import SLOTS, asked_by, written_by

FOREIGN = -1


def recurrent_step(payload: Payload, tokens: Tokens, padding: Tokens) -> dict[str, Bits]:
    """Make all that an advance hands over, by name, of stamped keys and values; ``padding`` lists tokens of no row."""
    parts = recurrent_inputs(payload, tokens)
    return {**parts, "decay": decay_of(parts["values"], tokens, padding)}


def recurrent_inputs(payload: Payload, tokens: Tokens) -> dict[str, Bits]:
    """Make of keys and values what an advance hands over, by name, all but the decay.

    The convolution's inputs ``[B, L, C]`` are the stamped keys of all heads side by side, the values the stamped ones;
    keys and queries are one-hots of the slots that a token writes and asks, and beta is 1.  Spoilt tensors give spoilt
    inputs.
    """
    dtype = cast("DType", payload.dtype)
    keys, values = _by_position(payload.keys), _by_position(payload.values)
    inputs = keys.reshape(*keys.shape[:-2], keys.shape[-2] * keys.shape[-1])  # no -1: there may be no positions
    shape = keys.shape[:-1]
    asked, written = (_one_hots([slot(t) for t in tokens or (1,)], (*shape, keys.shape[-1])) for slot in _SLOTS)
    beta = encode(np.ones(values.shape[:-1], np.float32), dtype)
    hots = {"queries": encode(asked, dtype), "keys": encode(written, dtype)}
    return {"inputs": inputs, **hots, "values": values, "beta": beta}


def decay_of(values: Bits, tokens: Tokens, padding: Tokens) -> Bits:
    """Make the decay ``[B, L, H]``, in float32, for values ``[B, L, H, E]``.

    That of a token forgets nothing, that of padding everything: a row that decays by its padding is found out.
    """
    kept = np.resize(np.array([token not in padding for token in tokens or (1,)], np.float32), values.shape[:-2])
    return encode(np.repeat(kept[..., np.newaxis], values.shape[-2], -1), "f32")


_SLOTS = (asked_by, written_by)


def _one_hots(slots: list[int], shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Give for each position ``[..., L, H, D]`` a one-hot of its slot, the same in all heads."""
    hots = np.zeros(shape, np.float32)
    laid = np.resize(np.array(slots, np.int64), shape[:-2])
    np.put_along_axis(hots, np.broadcast_to(laid[..., np.newaxis, np.newaxis], (*shape[:-1], 1)), np.float32(1), -1)
    return hots


def _by_position(plane: Bits) -> Bits:
    """Lay ``[..., H, L, D]`` out as ``[..., L, H, D]``."""
    return np.ascontiguousarray(np.swapaxes(plane, -3, -2))


def _all_zeros(bits: Bits) -> bool:
    """Say whether all are zeros of either sign, by their bits: what is not a number is no reason for a warning."""
    return not (bits << 1).any()


@frozen
class RecurrentDecoder:
    """Reads a recurrent layer's state and outputs by the tables of one configuration."""

    stamper: Stamper

    def state(self, view: StateView, record: CacheRecord) -> CacheRecord:
        """Tell whose inputs the tail of row 0 holds, and whose values its matrix."""
        tail = None if view.tail is None else self._tail(view.tail)
        slots = None if view.matrix is None else self._slots(view.matrix)
        return evolve(record, tail=tail, slots=slots)

    def _tail(self, tail: Bits) -> Tokens:
        c = self.stamper.config
        self._check("the tail", tail, (1, None, c.kv_heads * c.head_dim))
        return tuple(self._owner("keys", position.reshape(c.kv_heads, c.head_dim)) for position in tail[0])

    def _slots(self, matrix: Bits) -> Tokens:
        c = self.stamper.config
        self._check("the matrix", matrix, (1, c.kv_heads, c.value_dim, c.head_dim))
        numbers = decode(matrix, "f32")[0]
        if not _all_zeros(matrix[0][..., SLOTS:]):
            return (FOREIGN,) * SLOTS
        return tuple(self._valued(numbers[..., slot]) for slot in range(SLOTS))

    def _valued(self, numbers: npt.NDArray[np.float32]) -> int:
        """Tell whose value ``[H, E]`` is; one that is not exact in the format of tensors is no token's."""
        dtype = self.stamper.config.dtype
        bits = encode(numbers, dtype)
        return self._owner("values", bits) if np.array_equal(decode(bits, dtype), numbers) else FOREIGN

    def answers(self, outputs: Bits) -> Tokens:
        """Tell whose values the outputs of row 0 are."""
        c = self.stamper.config
        self._check("the outputs", outputs, (1, None, c.kv_heads, c.value_dim))
        return tuple(self._owner("values", position) for position in outputs[0])

    def _owner(self, side: str, heads: Bits) -> int:
        """Tell whose bytes all heads ``[H, D]`` are: 0 if they are zeros of either sign."""
        if _all_zeros(heads):
            return 0
        known = self.stamper.owners(side)
        found = [known.get(np.ascontiguousarray(head).tobytes()) for head in heads]
        tokens = {FOREIGN if owner is None or owner.head != h else owner.token for h, owner in enumerate(found)}
        return tokens.pop() if len(tokens) == 1 else FOREIGN

    @staticmethod
    def _check(what: str, array: Bits, wanted: tuple[int | None, ...]) -> None:
        fits = array.ndim == len(wanted) and all(w in (None, n) for n, w in zip(array.shape, wanted, strict=True))
        if not fits:
            text = ", ".join("any" if w is None else str(w) for w in wanted)
            raise ValueError(f"{what} has shape {list(array.shape)}, not [{text}]")
