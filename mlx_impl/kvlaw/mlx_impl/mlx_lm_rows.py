"""Groups of rows for mlx-lm's batch generator: what ``DropIn.merge`` makes of serial drop-ins, one per layer.

``BatchGenerator`` merges the caches of its requests, extends groups by groups, announces right padding before a prompt
(``prepare``) and takes it out behind it (``finalize``), keeps rows (``filter``) and gives rows back (``extract``).  A
``RowsDropIn`` answers these calls by one of our groups, ``group``: growing or a ring, dense or of codes.

Rows convert to codes each at its own position, so that a group may hold half precision for some and codes for others.
A ``RowsDropIn`` hands out half precision, dequantized if need be.  A ``QuantizedRowsDropIn`` hands out codes once every
row has them, and has ``bits`` and ``group_size`` only while what it last handed out were codes.

What is extracted goes on by itself: it has the policy of its group, and is settled (``hand_back``).
"""

from collections.abc import Sequence
from typing import Any, Literal, Self

import mlx.core as mx

from kvlaw.mlx_impl.caches import Cache
from kvlaw.mlx_impl.counts import as_count
from kvlaw.mlx_impl.errors import ConfigError, TrimError
from kvlaw.mlx_impl.groups import RowGroup, merge
from kvlaw.mlx_impl.mlx_lm import DropIn, QuantizedDropIn
from kvlaw.mlx_impl.mlx_lm_parts import HandsOutCodes, TakesRounds
from kvlaw.mlx_impl.planes import Keys, Values
from kvlaw.spec.cite import clause


@clause("ROWS-3", "ROWS-4", "ROWS-7")
def merge_drop_ins(caches: Sequence[Any]) -> "RowsDropIn":
    """Make a group of the rows of drop-ins, serial ones and groups, in their order; these stay as they are.

    It hands out codes if all of them do.

    Raises:
        CacheError: if they are no drop-ins, or cannot be rows of one group; the message names why.
    """
    coded, shared = True, False
    for cache in caches:
        if not isinstance(cache, DropIn | RowsDropIn):
            possible = "drop-ins of kvlaw can be merged with each other"
            raise ConfigError(f"a merge of a {type(cache).__name__}", possible, "ROWS-7")
        coded = coded and isinstance(cache, QuantizedDropIn | QuantizedRowsDropIn)
        shared = shared or cache.shared
    made = (QuantizedRowsDropIn if coded else RowsDropIn)(merge([cache.cache for cache in caches]))
    made.shared = shared
    return made


class RowsDropIn(TakesRounds):
    """One layer's group of rows with the duck type of mlx-lm's batch caches; ``cache`` is our group."""

    __slots__ = ("_last", "cache", "shared")

    cache: RowGroup
    shared: bool
    """Whether other layers ask for what was last handed out (``keys_and_values``)."""
    _last: tuple[Any, Any] | None

    def __init__(self, group: RowGroup) -> None:
        self.cache = group
        self.shared = False
        self._last = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.cache!r})"

    # -- what models call ---------------------------------------------------------------------------------------------

    @property
    @clause("OWN-10")
    def offset(self) -> mx.array:
        """Return the position of each row's next token ``[B]``, as it is now; negative in unused left padding."""
        return self.cache.positions

    @clause("READ-17")
    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[Any, Any]:
        """Append keys and values ``[B, H, L, D]`` and return what the queries of this step attend over."""
        fetched = self.cache.fetch_dense(keys, values)
        self._last = fetched if self.shared else None
        return fetched

    def keys_and_values(self) -> tuple[Keys, Values]:
        """Return what the last append fetched, for layers that reuse it.

        Raises:
            ConfigError: if it is not kept, since no layer was to reuse it.
        """
        if self._last is None:
            raise ConfigError("the last fetch again", "it is kept only for models whose layers share it", "READ-17")
        return self._last

    @clause("MASK-14", "MASK-15")
    def make_mask(
        self, N: int, return_array: bool = False, window_size: int | None = None
    ) -> Literal["causal"] | mx.array | None:
        """Return the mask of the append of ``N`` positions that comes next, ``[B, 1, N, S]`` if it is an array.

        One position that sees everything needs none, whatever ``return_array`` says.
        """
        if N == 1 and self.cache.may_decode:
            return self.cache.mask(1, phase="decode", window=window_size)
        return self.cache.mask(N, phase="window", window=window_size, as_array=return_array)

    # -- what batch generation calls ----------------------------------------------------------------------------------

    @classmethod
    def merge(cls, caches: "Sequence[DropIn | RowsDropIn]") -> "RowsDropIn":
        """Make a group of the rows of drop-ins, serial ones and groups, in their order; these stay as they are."""
        return merge_drop_ins(caches)

    def extend(self, other: "RowsDropIn") -> None:
        """Add the rows of another group behind these; the other group stays as it is, and this one hands out as it did.

        Raises:
            CacheError: if they cannot be rows of one group; then nothing has changed.
        """
        self.cache = merge_drop_ins([self, other]).cache

    @clause("PAD-1", "PAD-2", "PAD-3")
    def prepare(
        self,
        *,
        left_padding: Sequence[int] | None = None,
        lengths: Sequence[int] | None = None,
        right_padding: Sequence[int] | None = None,
    ) -> None:
        """Announce padding of the appends that follow, one count per row; ``lengths`` includes the left padding.

        Raises:
            CacheError: if such padding cannot be; then nothing has changed.
        """
        self.cache.prepare(left_padding, lengths, right_padding)

    @clause("PAD-7")
    def finalize(self) -> None:
        """Take the right padding out that was appended."""
        self.cache.finalize()

    @clause("ROWS-12", "ROWS-28")
    def extract(self, idx: int) -> DropIn:
        """Give one row as a serial drop-in that goes on by itself; the group stays as it is.

        Raises:
            CacheError: if there is no such row, or padding is pending.
        """
        serial = self._serial(self.cache.hand_back(idx))
        serial.shared = self.shared
        return serial

    def _serial(self, cache: Cache) -> DropIn:
        return DropIn(cache)

    @clause("ROWS-16", "ROWS-17", "ROWS-18")
    def filter(self, batch_indices: Sequence[int] | mx.array) -> None:
        """Keep these rows, in this order.

        Raises:
            CacheError: if one is not there, or repeated; then nothing has changed.
        """
        listed: Any = batch_indices.tolist() if isinstance(batch_indices, mx.array) else batch_indices
        self.cache.filter(tuple(listed))

    # -- what servers call --------------------------------------------------------------------------------------------

    def is_trimmable(self) -> bool:
        """Say whether newest positions can be dropped."""
        return self.cache.can_trim(0)

    @clause("ROWS-19", "TRIM-4", "ERR-5")
    def trim(self, n: int) -> int:
        """Drop the newest ``n`` positions of every row, or as many as the shortest has, and return how many.

        Raises:
            CountError: if ``n`` is negative or no integer.
            TrimError: if the group is not trimmable.
            RoundError: if a round is open, which ``roll_back`` ends.
        """
        count = as_count(n, "trim of", "ERR-5")
        if not self.is_trimmable() and not self.in_round:
            raise TrimError(f"trim of {n}", f"{self.cache.identity} cannot be trimmed now", "ROWS-20", "TRIM-4")
        return self.cache.trim(min(count, *self.cache.offsets)) if self.cache.rows else self.cache.trim(0)

    # -- what drafting asks of ours -----------------------------------------------------------------------------------

    @clause("ROUND-2", "ROUND-4", "ROUND-13")
    def roll_back(self, keep: int | Sequence[int] | mx.array) -> None:
        """Close the round and keep its first ``keep`` positions: one number for all rows, or one per row.

        Raises:
            RoundError: if no round is open, or a number is not from 0 to what was appended in it.
        """
        listed: Any = keep.tolist() if isinstance(keep, mx.array) else keep
        self.cache.roll_back(listed)

    # -- what servers ask ---------------------------------------------------------------------------------------------

    def size(self) -> int:
        """Return how many positions the longest row holds."""
        return max(self.cache.sizes, default=0)

    def empty(self) -> bool:
        """Say whether nothing was appended yet."""
        return self.cache.columns == 0

    @property
    def left_padding(self) -> mx.array:
        """Return how many dead columns stand before each row's positions ``[B]``, as it is now."""
        return mx.array(self.cache.left_padding, mx.int32)

    @property
    def nbytes(self) -> int:
        """Return the allocated bytes."""
        return self.cache.nbytes

    @property
    def state(self) -> tuple[Any, ...]:
        """Return arrays and integers, to evaluate or to look at: ``mx.eval([c.state for c in caches])``."""
        return tuple(self.cache.state().values())

    @property
    def max_size(self) -> int:
        """Return the window of a ring; a growing group has none."""
        if self.cache.max_tokens is None:
            raise AttributeError(f"{self.cache.identity} has no max_size", name="max_size", obj=self)
        return self.cache.max_tokens

    def __copy__(self) -> Self:
        twin = type(self)(self.cache.clone())
        twin.shared, twin._last = self.shared, self._last  # noqa: SLF001  # the twin is one as well
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.__copy__()


class QuantizedRowsDropIn(HandsOutCodes, RowsDropIn):
    """A group whose rows hold codes, now or later, and that hands them to mlx-lm's quantized attention.

    ``bits`` and ``group_size`` are there only while what it last handed out were codes: mlx-lm asks ``hasattr``.
    """

    __slots__ = ("_codes",)

    _codes: tuple[int, int] | None

    def __init__(self, group: RowGroup) -> None:
        super().__init__(group)
        self._codes = None

    @clause("READ-10", "READ-17")
    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[Any, Any]:
        """Append keys and values ``[B, H, L, D]``; return codes if every row has them, else arrays."""
        fetched = self.cache.fetch_alike(keys, values)
        codes = None if isinstance(fetched[0], mx.array) else self.cache.policy.codes
        self._codes = (codes.codec.bits, codes.codec.group) if codes else None
        self._last = fetched if self.shared else None
        return fetched

    def _serial(self, cache: Cache) -> DropIn:
        return QuantizedDropIn(cache)

    def __copy__(self) -> Self:
        twin = super().__copy__()
        twin._codes = self._codes  # noqa: SLF001  # as above
        return twin
