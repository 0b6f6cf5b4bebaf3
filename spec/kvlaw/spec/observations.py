"""What a subject shows after a call: raw arrays and numbers, never interpreted.

Tensors are unsigned-integer arrays of bits (uint16 for bf16 and f16, uint32 for f32).  ``None`` means *not observed*: a
subject that cannot show something leaves it out, and no verdict is drawn from it.  The harness turns observations into
``records`` (token ids) before it compares or prints them.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

Bits: TypeAlias = npt.NDArray[np.unsignedinteger[Any]]
Outcome = Literal["ok", "refused", "unsupported", "error"]
MaskKind = Literal["none", "causal", "array"]
Form = Literal["dense", "affine", "restored"]
"""What columns are: tensors as appended, affine codes, or tensors dequantized from codes."""
Unbounded = Literal["unbounded"]
RoundWord = Literal["open", "none"]


@frozen(eq=False)
class MaskView:
    """A mask as it was handed out: its form, and the bool array ``[..., L, S]`` if it is one."""

    kind: MaskKind
    array: npt.NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, mask: object) -> "MaskView":
        """Wrap what mask builders hand out: None, the word ``"causal"`` or an array."""
        if mask is None:
            return cls("none")
        return cls("causal") if isinstance(mask, str) else cls("array", np.array(mask))


@frozen(eq=False)
class ReadView:
    """What a read shows: fetched keys and values ``[B, Hkv, S, D]``, its mask, the output for the call's queries.

    ``form`` says what the columns are: tensors (``dense``), or codes (``affine``, as ``join_codes`` lays them).
    ``alone`` is, of a known append, what each of those queries gives when it is asked by itself (READ-13).
    ``outputs`` are those of an advance, ``[B, L, H, E]``; it fetches nothing.
    """

    keys: Bits | None = None
    values: Bits | None = None
    mask: MaskView | None = None
    output: Bits | None = None
    form: Form = "dense"
    alone: Bits | None = None
    outputs: Bits | None = None


@frozen(eq=False)
class StateView:
    """What a cache shows of its state.

    ``keys`` and ``values`` are the allocated planes ``[B, Hkv, columns, D]`` in physical order; ``can_trim[n]`` answers
    for n = 0 .. offset + 1; bytes count whole planes; ``write_index`` is the next column to write. ``form`` says what
    the planes hold (see ``ReadView``), ``floor`` is the reuse floor (0: none), ``max_append`` how many appended
    positions make the cache due: an append of that many changes the storage when it ends, of one fewer does not.
    ``round`` says whether a round is open.

    A recurrent layer shows its ``tail`` ``[B, K - 1, C]`` in the dtype of the configuration and its ``matrix`` ``[B, H,
    E, D]`` in float32, neither before its first position, instead of planes.

    A group shows how many ``rows`` it has, and what they share; each row's own state is in the row's observation.
    """

    offset: int | None = None
    size: int | None = None
    nbytes: int | None = None
    columns: int | None = None
    bytes_per_token: int | None = None
    identity: str | None = None
    storage: str | None = None
    can_trim: tuple[bool, ...] | None = None
    write_index: int | None = None
    keys: Bits | None = None
    values: Bits | None = None
    form: Form = "dense"
    floor: int | None = None
    max_append: int | Unbounded | None = None
    rows: int | None = None
    round: RoundWord | None = None
    tail: Bits | None = None
    matrix: Bits | None = None


def join_codes(words: npt.NDArray[Any], scales: npt.NDArray[Any], biases: npt.NDArray[Any]) -> Bits:
    """Lay the codes of columns side by side in uint32, so that a column is one row of bits.

    words ``[..., S, words]``, scales and biases ``[..., S, groups]``; gives ``[..., S, words + 2 * groups]``.
    """
    parts = [words.astype(np.uint32), scales.astype(np.uint32), biases.astype(np.uint32)]
    return np.concatenate(parts, axis=-1)


@frozen(eq=False)
class Observation:
    """The answer to one call: outcome, what it returned, and the state afterwards of what it acted on.

    ``arrays`` are handed-out arrays by name (state, dense fetches); ``layers`` has one observation per layer of a list,
    ``rows`` one per row of a group, each like that of a cache with one sequence.
    """

    outcome: Outcome = "ok"
    message: str = ""
    answer: int | None = None
    read: ReadView | None = None
    mask: MaskView | None = None
    state: StateView | None = None
    arrays: Mapping[str, npt.NDArray[Any]] | None = None
    layers: tuple["Observation", ...] = ()
    rows: tuple["Observation", ...] = ()

    @property
    def ok(self) -> bool:
        """The call was carried out."""
        return self.outcome == "ok"

    @property
    def refused(self) -> bool:
        """The call was turned down, by a refusal or by an exception."""
        return self.outcome == "refused"


@frozen(eq=False)
class Payload:
    """The tensors of one call, made from token ids; those of a call with ``malformed`` are spoilt already.

    Keys are ``[B, Hkv, L, Dk]``, values ``[B, Hkv, L, Dv]``, queries ``[B, H, L, Dk]``, all of ``dtype``.  An advance
    has a ``step`` instead, by name: ``inputs`` [B, L, C], ``queries`` and ``keys`` [B, L, H, D], ``values`` [B, L, H,
    E], ``beta`` [B, L, H], and ``decay`` [B, L, H] in float32.
    """

    tokens: tuple[int, ...] = ()
    keys: Bits = field(factory=lambda: np.zeros(0, np.uint16))
    values: Bits = field(factory=lambda: np.zeros(0, np.uint16))
    queries: Bits = field(factory=lambda: np.zeros(0, np.uint16))
    dtype: str = "bf16"
    scale: float = 1.0
    step: Mapping[str, Bits] = field(factory=dict[str, Bits])
