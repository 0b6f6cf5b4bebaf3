"""The interface by which the suite drives one kind of cache: subclass ``Adapter`` for a cache with calls of its own.

``build``, ``tensor``, ``bits``, ``append`` and ``fetched`` are needed. Every other method may be left out: what it
would do is then *unsupported*, what it would show is *not observed*, and clauses that need it are *not applicable*.
Name in ``capabilities`` what is there (``kvlaw.spec.contract.CAPABILITIES`` says what each word means).

An exception out of a method that *acts* (build, append, fetch_dense, mask, trim, clone, state, reset) is the cache's
refusal of that call. An exception out of a method that *shows* (bits, fetched, read_mask, show, and attend of an
accepted append) is an error of the cache. Raise ``UnsupportedError`` where there is no such call, ``NonsenseError``
where the cache answered with something that cannot be what it claims to be.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from attrs import frozen

from kvlaw.conformance.decode import NonsenseError
from kvlaw.reference.numerics.quantized_attention import KernelSet
from kvlaw.spec.calls import DAMAGES, AppendName, Damage, Phase
from kvlaw.spec.config import CODE_BITS, DTYPES, SERIAL_KINDS, Config, DType, Kind, LayerSpec, Policy
from kvlaw.spec.observations import Bits, StateView, Unbounded


@frozen
class RecurrentStep:
    """What a recurrent layer is handed for L positions, in the cache's own arrays.

    ``inputs`` [B, L, C] are the convolution's; ``queries`` and ``keys`` [B, L, H, D], ``values`` [B, L, H, E] and
    ``beta`` [B, L, H] the recurrence's, with ``decay`` [B, L, H] in float32.
    """

    inputs: Any
    queries: Any
    keys: Any
    values: Any
    decay: Any
    beta: Any


Tensors = list[tuple[Any, Any]]
"""Keys and values for each layer of a list."""


class UnsupportedError(Exception):
    """The cache has no such call."""


class Unshown(Enum):
    """What stands in for a value that a cache cannot show."""

    UNSHOWN = "not shown"


UNSHOWN = Unshown.UNSHOWN


class Adapter:
    """One kind of cache, as the suite asks it.

    ``tensor`` and ``bits`` turn arrays of bits into the cache's own arrays and back; all other methods take and give
    the cache's own arrays. ``config`` is set before the first ``build``; ``kinds`` says which kinds of cache can be
    built, ``policies`` with which kinds of storage policy they are checked, ``dtypes`` and ``code_bits`` with which
    tensors and codes; ``kernel_set`` is the order of operations of its reads of codes (READ-15).

    With the capability ``codes`` keys or values may be a triple (words, scales, biases) wherever they are fetched.
    """

    capabilities: frozenset[str] = frozenset()
    kinds: tuple[Kind, ...] = SERIAL_KINDS
    policies: tuple[Policy, ...] = ("dense",)
    code_bits: tuple[int, ...] = CODE_BITS
    dtypes: tuple[DType, ...] = DTYPES
    kernel_set: KernelSet = "unfused"
    computes: Literal["mlx", "model", "own"] = "own"
    """Whose arithmetic its reads have: MLX's fused attention, the NumPy model of it, or another (not compared)."""
    config: Config = Config("full")

    # Arrays.

    def tensor(self, bits: Bits, dtype: str) -> Any:
        """Turn bits ``[B, H, L, D]`` of ``bf16``, ``f16`` or ``f32`` into a new array of the cache's own type."""
        raise NotImplementedError

    def bits(self, array: Any) -> npt.NDArray[Any]:
        """Turn one of the cache's arrays into a copy of its bits; an array of integers or booleans stays what it is."""
        raise NotImplementedError

    def dtype_of(self, array: Any) -> str | None:
        """Name the dtype of one of the cache's arrays (``bf16``, ``f16``, ``f32``, another); None: not said."""
        return None

    def mask_array(self, mask: Any) -> npt.NDArray[np.bool_]:
        """Turn an array mask into a copy, True where a query sees a column."""
        return self.bits(mask)

    def settle(self, arrays: Sequence[Any]) -> None:
        """Compute lazy arrays that are about to be shown, all at once."""

    def poison(self, array: Any) -> None:
        """Overwrite one of the caller's own arrays in place (OWN-8)."""

    # One cache.

    def build(self, layer: LayerSpec) -> Any:
        """Make an empty cache; raise if such a cache cannot be built."""
        raise NotImplementedError

    def append(self, cache: Any, keys: Any, values: Any, phase: AppendName, window: int | None, array: bool) -> Any:
        """Append and give the read: anything that ``fetched``, ``read_mask`` and ``attend`` understand."""
        raise NotImplementedError

    def fetched(self, read: Any) -> tuple[Any, Any] | None:
        """Give the keys and values that the read attends, ``[B, Hkv, S, D]``, or None if it cannot show them."""
        raise NotImplementedError

    def read_mask(self, read: Any) -> Any:
        """Give the read's mask: None, ``"causal"``, a bool array, or ``UNSHOWN``."""
        return UNSHOWN

    def attend(self, read: Any, queries: Any, scale: float) -> Any:
        """Attend queries ``[B, H, L, D]``."""
        raise UnsupportedError

    def attend_alone(self, read: Any, queries: Any, scale: float, mask: npt.NDArray[np.bool_]) -> Any:
        """Attend one query ``[B, H, 1, D]`` over the fetch of a known append, as a decode would (READ-13).

        ``mask`` ``[B, 1, 1, S]`` is the query's own row of the read's mask.
        """
        raise UnsupportedError

    def fetch_dense(self, cache: Any, keys: Any, values: Any) -> tuple[Any, Any]:
        """Append and hand out what a graph attends by itself."""
        raise UnsupportedError

    def mask(self, cache: Any, length: int, phase: Phase, window: int | None, array: bool) -> Any:
        """Build the mask of the append that comes next."""
        raise UnsupportedError

    def trim(self, cache: Any, n: Any, bypass: bool) -> Any:
        """Drop the newest n positions; answer how many were dropped (None: not said)."""
        raise UnsupportedError

    def clone(self, cache: Any) -> Any:
        """Make an independent copy."""
        raise UnsupportedError

    def state(self, cache: Any) -> Mapping[str, Any]:
        """Hand out the state's arrays by name."""
        raise UnsupportedError

    def reset(self, cache: Any) -> None:
        """Empty the cache."""
        raise UnsupportedError

    def show(self, cache: Any) -> StateView:
        """Show the state; leave out what cannot be shown."""
        return StateView()

    # The state of a recurrent layer, of a cache or of a group.

    def advance(self, cache: Any, step: RecurrentStep) -> Any:
        """Run positions through the layer, and give their outputs ``[B, L, H, E]``."""
        raise UnsupportedError

    # Rounds, of a cache or of a group.

    def begin_round(self, cache: Any) -> None:
        """Open a round: what is appended from here on can be taken back."""
        raise UnsupportedError

    def commit_round(self, cache: Any) -> None:
        """Close the round and keep all of it."""
        raise UnsupportedError

    def roll_back(self, cache: Any, keep: Sequence[int]) -> None:
        """Close the round and keep its first ``keep`` positions: one number, or one per row."""
        raise UnsupportedError

    # Files.

    damages: tuple[Damage, ...] = DAMAGES
    """The ways to spoil its files that mean anything for them."""

    def save(self, cache: Any) -> Any:
        """Write a cache to a file, and give a handle of it; the plain way is a list of one layer."""
        return self.save_layers([cache])

    def load(self, file: Any, other: bool) -> Any:
        """Make a new cache of a file that one was saved in; ``other``: for another model."""
        caches = self.load_layers(file, other)
        if len(caches) != 1:
            raise NonsenseError(f"one cache was saved, and {len(caches)} were loaded")
        return caches[0]

    def save_layers(self, caches: list[Any]) -> Any:
        """Write the layers of a list to a file, and give a handle of it."""
        raise UnsupportedError

    def load_layers(self, file: Any, other: bool) -> list[Any]:
        """Make new caches of all layers that were saved in a file; ``other``: for another model."""
        raise UnsupportedError

    def damage(self, file: Any, how: Damage) -> None:
        """Spoil a file."""
        raise UnsupportedError

    # Reuse of what was published.

    def empty_store(self) -> None:
        """Forget everything that was published."""

    def publish(self, caches: list[Any], tokens: Sequence[int], space: str) -> None:
        """Store the layers of a model, which hold these tokens, for prompts of that space; they stay the caller's."""
        raise UnsupportedError

    def reuse(self, caches: list[Any], tokens: Sequence[int], space: str) -> tuple[list[Any] | None, int]:
        """Make layers like ``caches`` with the beginning of a prompt in them, and say how long it is; None: nothing."""
        raise UnsupportedError

    # A group of rows. ``append``, ``mask``, ``trim``, ``clone``, ``state``, ``reset`` and ``show`` are asked of it too.

    def build_rows(self, layer: LayerSpec, rows: int) -> Any:
        """Make a group of empty rows; raise if such a group cannot be built."""
        raise UnsupportedError

    def merge(self, sources: Sequence[Any]) -> Any:
        """Make a new group of the rows of caches and groups, in their order; the sources stay as they are."""
        raise UnsupportedError

    def extract(self, group: Any, row: int) -> Any:
        """Make a cache of one row."""
        raise UnsupportedError

    def hand_back(self, group: Any, row: int) -> Any:
        """Make a cache of one row that goes on by the policy of its group."""
        raise UnsupportedError

    def filter(self, group: Any, rows: Sequence[int]) -> None:
        """Keep these rows, in this order."""
        raise UnsupportedError

    def prepare(
        self, group: Any, left: Sequence[int] | None, lengths: Sequence[int] | None, right: Sequence[int] | None
    ) -> None:
        """Announce the padding of a prefill, one number per row."""
        raise UnsupportedError

    def finalize(self, group: Any) -> None:
        """End a padded prefill."""
        raise UnsupportedError

    def begin_prefill(self, group: Any) -> None:
        """Open the bracket in which appends change no row's storage."""
        raise UnsupportedError

    def commit_prefill(self, group: Any, rows: Sequence[int]) -> None:
        """Settle these rows."""
        raise UnsupportedError

    def end_prefill(self, group: Any) -> None:
        """Close the bracket."""
        raise UnsupportedError

    def show_rows(self, group: Any) -> Sequence[StateView]:
        """Show the state of each row, its planes ``[1, H, columns, D]`` among it; leave out what cannot be shown."""
        raise NotImplementedError

    def fetched_rows(self, read: Any) -> Sequence[tuple[Any, Any]] | None:
        """Give the keys and values that each row of a read attends, where they are no slices of one array."""
        return None

    # A list of layers.

    def append_layers(
        self, caches: list[Any], tensors: Tensors, phase: AppendName, window: int | None, array: bool
    ) -> list[Any]:
        """Append to every layer its own keys and values, or to none; the plain way is one by one."""
        pairs = zip(caches, tensors, strict=True)
        return [self.append(cache, keys, values, phase, window, array) for cache, (keys, values) in pairs]

    def trim_layers(self, caches: list[Any], n: Any) -> Any:
        """Drop the newest n positions of every layer, or of none."""
        raise UnsupportedError

    def can_trim_layers(self, caches: list[Any], n: int) -> bool | None:
        """Say whether every layer can trim n (None: not said)."""
        return None

    def begin_round_layers(self, caches: list[Any]) -> None:
        """Open a round of every layer, or of none."""
        raise UnsupportedError

    def commit_round_layers(self, caches: list[Any]) -> None:
        """Close the round of every layer and keep all of it."""
        raise UnsupportedError

    def roll_back_layers(self, caches: list[Any], keep: Sequence[int]) -> None:
        """Close the round of every layer and keep its first ``keep`` positions, or refuse and change none."""
        raise UnsupportedError

    def max_append_layers(self, caches: list[Any]) -> int | Unbounded | None:
        """Say how many positions make a layer due, one fewer making none (None: not said)."""
        return None


__all__ = ["UNSHOWN", "Adapter", "NonsenseError", "RecurrentStep", "Unshown", "UnsupportedError"]
