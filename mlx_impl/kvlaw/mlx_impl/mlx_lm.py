"""Drop-in caches for mlx-lm: ``model(tokens, cache=make_cache(model))``.

``make_cache`` asks mlx-lm for the caches that a model would get and replaces each by ours of the same kind and window
(``replace``).  A ``DropIn`` is an adapter: mlx-lm's duck type outside, one of our caches inside, as ``cache``.

What mlx-lm leaves to the length of an append is decided here: one position is a decode, more are a window.  Where
mlx-lm's caches would silently lose data, ours refuse: a trim of a ring that has evicted, a ring whose sinks fill it.

Recurrent layers (gated DeltaNet) get drop-ins of their own (``mlx_lm_recurrent``); to draft with them, let the model
run within ``recording(model)``.

mlx-lm's attention takes its quantized kernel for a cache that has an attribute ``bits``.  A ``DropIn`` never has one:
it hands out half precision, dequantized if need be.  A ``QuantizedDropIn`` hands out what is stored, and has ``bits``
and ``group_size`` only while what it last handed out were codes.  Neither has ``to_quantized``: mlx-lm converts none.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import mlx.core as mx

from kvlaw.mlx_impl.caches import Cache
from kvlaw.mlx_impl.counts import as_count
from kvlaw.mlx_impl.errors import ConfigError, TrimError
from kvlaw.mlx_impl.kinds import FullCache, RingCache
from kvlaw.mlx_impl.mlx_lm_parts import HandsOutCodes, TakesRounds
from kvlaw.mlx_impl.mlx_lm_recurrent import RecurrentDropIn, kernel_of, recording
from kvlaw.mlx_impl.planes import Keys, Values
from kvlaw.mlx_impl.precision import Precision, Start, dense, make_precision
from kvlaw.mlx_impl.recurrent import RecurrentCache
from kvlaw.spec.cite import clause

if TYPE_CHECKING:
    from kvlaw.mlx_impl.mlx_lm_rows import RowsDropIn

__all__ = ["DENSE_FETCH", "SHARED_FETCH", "DropIn", "QuantizedDropIn", "make_cache", "recording", "replace"]

LATENT = {
    "bailing_hybrid",
    "bailing_moe_v3",
    "deepseek_v3",
    "deepseek_v32",
    "glm4_moe_lite",
    "kimi_k3",
    "kimi_linear",
    "longcat_flash",
    "mistral4",
}
DENSE_FETCH = frozenset({"gear", "gemma2", "gpt_oss", "mimo_v2_flash", "olmo", "plamo2"} | LATENT)
"""Modules of ``mlx_lm.models`` whose attention takes no codes: softcapped scores, learned sinks, latents, their own."""

SHARED_FETCH = frozenset({"gemma3n"})
"""Modules of ``mlx_lm.models`` in which other layers ask a cache again for what it last handed out."""

LayerBits = int | tuple[int, int] | Precision | None
"""One layer of a table: bits, bits and group, a policy, or None to stay dense."""


@clause("PREC-13")
def make_cache(
    model: Any,
    max_kv_size: int | None = None,
    *,
    kv_bits: int | None = None,
    group_size: int = 64,
    quantized_kv_start: Start = 0,
    v_bits: int | None = None,
    per_layer: Mapping[int, LayerBits] | None = None,
    dense_fetch: bool | None = None,
) -> list[Any]:
    """Make one drop-in per layer of an mlx-lm ``model``, of the kinds that mlx-lm would make.

    ``max_kv_size`` is the window, with 4 sinks, of the layers of a model that does not make its own caches.

    With ``kv_bits`` every layer, sliding ones too, is converted to codes at the end of the append that brings its
    offset to ``quantized_kv_start`` (None: codes from the first append on; ``"never"``).  ``v_bits`` gives values
    other bits than keys.  A table ``per_layer`` stands in for ``kv_bits``: layers that it does not name stay dense.
    ``dense_fetch`` says whether attention gets codes dequantized; by default where mlx-lm's attention cannot take
    them: modules of ``DENSE_FETCH``, and ``v_bits`` other than ``kv_bits``.

    Raises:
        ConfigError: if a layer needs a kind that we do not have, named in the message, an impossible ring or policy, or
            a table that names a layer that there is not.
    """
    from mlx_lm.models.cache import make_prompt_cache  # noqa: PLC0415  # only who uses the drop-in needs mlx-lm

    found = make_prompt_cache(model, max_kv_size)
    policies = _policies(len(found), per_layer, kv_bits, v_bits, group_size, quantized_kv_start)
    modules = _modules(model)
    wanted = not modules.isdisjoint(DENSE_FETCH) if dense_fetch is None else dense_fetch
    made: list[Any] = []
    for number, (cache, policy) in enumerate(zip(found, policies, strict=True)):
        recurrent = _recurrent(model, number, cache)
        made.append(recurrent or replace(cache, policy, dense_fetch=wanted))
    for drop_in in made:
        drop_in.shared = not modules.isdisjoint(SHARED_FETCH)
    return made


def _recurrent(model: Any, number: int, cache: Any) -> RecurrentDropIn | None:
    """Make the drop-in of a gated delta layer, which has no precision to change; None for other layers."""
    from mlx_lm.models.cache import ArraysCache  # noqa: PLC0415  # as above

    if type(cache) is not ArraysCache or not cache.empty():
        return None
    layers = getattr(model, "layers", [])
    kernel = kernel_of(layers[number]) if number < len(layers) else None
    return None if kernel is None else RecurrentDropIn(RecurrentCache(kernel))


def _modules(model: Any) -> set[str]:
    """Return the names of the modules that the parts of a model come from, whatever wraps it."""
    parts = [model] if not hasattr(model, "modules") else model.modules()
    return {type(part).__module__.rpartition(".")[2] for part in parts}


def _policies(
    count: int,
    per_layer: Mapping[int, LayerBits] | None,
    bits: int | None,
    value_bits: int | None,
    group: int,
    start: Start,
) -> list[Precision]:
    """Return the policy of every layer."""

    def policy(entry: LayerBits) -> Precision:
        if entry is None:
            return dense()
        if isinstance(entry, Precision):
            return entry
        keys, own_group = entry if isinstance(entry, tuple) else (entry, group)
        return make_precision(keys, value_bits, own_group, start)

    if per_layer is None:
        return [policy(bits)] * count
    if unknown := [layer for layer in per_layer if layer not in range(count)]:
        raise ConfigError(f"a policy for layers {unknown}", f"the layers are 0 to {count - 1}", "PREC-13")
    return [policy(per_layer.get(layer)) for layer in range(count)]


@clause("ERR-6")
def replace(cache: Any, policy: Precision | None = None, *, dense_fetch: bool = False) -> "DropIn":
    """Make an empty cache of the kind and configuration of one of mlx-lm's, with a policy of ours.

    Raises:
        ConfigError: if it is of another kind than ``KVCache`` and ``RotatingKVCache``, or holds tokens.
    """
    from mlx_lm.models.cache import KVCache, RotatingKVCache  # noqa: PLC0415  # as above

    if type(cache) not in {KVCache, RotatingKVCache}:
        possible = "KVCache and RotatingKVCache can be replaced, and the ArraysCache of a gated delta layer"
        raise ConfigError(f"a drop-in for {type(cache).__name__}", possible, "ERR-6")
    if not cache.empty():
        raise ConfigError(f"a drop-in for a {type(cache).__name__} that holds tokens", "it must be empty", "ERR-6")
    ours = FullCache(policy=policy) if type(cache) is KVCache else RingCache(cache.max_size, cache.keep, policy=policy)
    codec = ours.policy.codes.codec if ours.policy.codes else None
    takes_codes = codec is not None and codec.bits == codec.value_bits and not dense_fetch
    return QuantizedDropIn(ours) if takes_codes else DropIn(ours)


class DropIn(TakesRounds):
    """One layer's cache with the duck type of mlx-lm's; ``cache`` is ours."""

    __slots__ = ("cache", "shared")

    shared: bool
    """Whether other layers ask for what was last handed out (``keys_and_values``)."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.shared = False

    def __repr__(self) -> str:
        return f"DropIn({self.cache!r})"

    # -- what models call ---------------------------------------------------------------------------------------------

    @property
    def offset(self) -> int:
        """Return the position of the next token."""
        return self.cache.offset

    @clause("READ-8")
    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[Keys, Values]:
        """Append keys and values ``[B, H, L, D]`` and return what the queries of this step attend over."""
        return self.cache.fetch_dense(keys, values)

    def keys_and_values(self) -> tuple[Keys, Values]:
        """Return what the last append fetched, for layers that reuse it; meaningless after a trim."""
        return self.cache.peek()

    @clause("MASK-4", "MASK-11")
    def make_mask(
        self, N: int, window_size: int | None = None, return_array: bool = False
    ) -> Literal["causal"] | mx.array | None:
        """Return the mask of the append of ``N`` positions that comes next.

        As in mlx-lm one position that sees everything needs none, whatever ``return_array`` says.
        """
        if N == 1:
            return self.cache.mask(1, phase="decode", window=window_size)
        return self.cache.mask(N, phase="window", window=window_size, as_array=return_array)

    # -- what generation and servers call -----------------------------------------------------------------------------

    def is_trimmable(self) -> bool:
        """Say whether its newest positions can be dropped."""
        return self.cache.can_trim(0)

    @clause("TRIM-3", "TRIM-4", "ERR-5")
    def trim(self, n: int) -> int:
        """Drop the newest ``n`` positions, or all if there are fewer, and return how many were dropped.

        Raises:
            CountError: if ``n`` is negative or no integer.
            TrimError: if the cache is not trimmable; mlx-lm's rings would corrupt themselves here.
            RoundError: if a round is open, which ``roll_back`` ends.
        """
        count = as_count(n, "trim of", "ERR-5")
        if not self.is_trimmable() and not self.in_round:
            raise TrimError(f"trim of {n}", f"{self.cache.identity} has evicted positions", "TRIM-4", "TRIM-7")
        return self.cache.trim(min(count, self.offset))

    # -- what drafting asks of ours -----------------------------------------------------------------------------------

    @clause("ROUND-2", "ROUND-4")
    def roll_back(self, keep: int) -> None:
        """Close the round and keep its first ``keep`` positions.

        Raises:
            RoundError: if no round is open, or ``keep`` is not from 0 to what was appended in it.
        """
        self.cache.roll_back(keep)

    # -- what servers ask ---------------------------------------------------------------------------------------------

    def size(self) -> int:
        """Return how many positions a query may see."""
        return self.cache.size

    def empty(self) -> bool:
        """Say whether nothing was appended yet."""
        return self.cache.rows == 0

    @property
    def nbytes(self) -> int:
        """Return the allocated bytes."""
        return self.cache.nbytes

    @property
    def keys(self) -> Keys | None:
        """Return the allocated keys, or None while empty."""
        keys = self.cache.state().get("keys")
        return keys if isinstance(keys, mx.array) else None

    @property
    def values(self) -> Values | None:
        """Return the allocated values, or None while empty."""
        values = self.cache.state().get("values")
        return values if isinstance(values, mx.array) else None

    @property
    def state(self) -> tuple[mx.array | int, ...]:
        """Return arrays and integers, to evaluate or to look at: ``mx.eval([c.state for c in caches])``."""
        return tuple(self.cache.state().values())

    @property
    def max_size(self) -> int:
        """Return the window of a ring; a growing cache has none."""
        return self._ring("max_size").window

    @property
    def keep(self) -> int:
        """Return how many first positions a ring pins; a growing cache has none."""
        return self._ring("keep").sinks

    def _ring(self, name: str) -> RingCache:
        if not isinstance(self.cache, RingCache):
            raise AttributeError(f"{self.cache.identity} has no {name}", name=name, obj=self)  # noqa: TRY004  # hasattr asks
        return self.cache

    # -- what batch generation calls ----------------------------------------------------------------------------------

    @classmethod
    @clause("ROWS-3", "ROWS-4")
    def merge(cls, caches: "Sequence[DropIn]") -> "RowsDropIn":
        """Make a group of the rows of drop-ins, in their order; these stay as they are.

        Raises:
            CacheError: if they are no drop-ins, or cannot be rows of one group; the message names why.
        """
        from kvlaw.mlx_impl.mlx_lm_rows import merge_drop_ins  # noqa: PLC0415  # it imports this module

        return merge_drop_ins(caches)

    def __copy__(self) -> Self:
        twin = type(self)(self.cache.clone())
        twin.shared = self.shared
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.__copy__()


class QuantizedDropIn(HandsOutCodes, DropIn):
    """A drop-in whose cache holds codes, now or later, and hands them to mlx-lm's quantized attention.

    ``bits`` and ``group_size`` are there only while what it last handed out were codes: mlx-lm asks ``hasattr``.
    """

    __slots__ = ("_codes", "_last")

    _codes: tuple[int, int] | None
    _last: tuple[Any, Any] | None

    def __init__(self, cache: Cache) -> None:
        super().__init__(cache)
        self._codes = self._last = None

    @clause("READ-10", "PREC-4")
    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[Any, Any]:
        """Append keys and values ``[B, H, L, D]`` and return arrays, or codes, of what the queries attend over."""
        cache = self.cache
        dense_before = cache.storage == "dense"
        fetched = cache.fetch_stored(keys, values)
        codes = None if isinstance(fetched[0], mx.array) else cache.policy.codes
        self._codes = (codes.codec.bits, codes.codec.group) if codes else None
        converted = dense_before and cache.storage != "dense" and codes is None
        self._last = fetched if converted and self.shared else None
        return fetched

    def keys_and_values(self) -> tuple[Any, Any]:
        """Return what the last append fetched, for layers that reuse it; meaningless after a trim."""
        if self._last is not None:
            return self._last
        return self.cache.peek() if self._codes is None else self.cache.peek_stored()

    def __copy__(self) -> Self:
        twin = super().__copy__()
        twin._codes, twin._last = self._codes, self._last  # noqa: SLF001  # the twin is one as well
        return twin
