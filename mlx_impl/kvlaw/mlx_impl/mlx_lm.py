"""Drop-in caches for mlx-lm: ``model(tokens, cache=make_cache(model))``.

``make_cache`` asks mlx-lm for the caches that a model would get and replaces each by ours of the same kind and window
(``replace``).  A ``DropIn`` is an adapter: mlx-lm's duck type outside, one of our caches inside, as ``cache``.

What mlx-lm leaves to the length of an append is decided here: one position is a decode, more are a window.  Where
mlx-lm's caches would silently lose data, ours refuse: a trim of a ring that has evicted, a ring whose sinks fill it.
A DropIn never has an attribute ``bits``: by it mlx-lm would choose quantized attention.
"""

from typing import Any, Literal, Self

import mlx.core as mx

from kvlaw.mlx_impl.caches import Cache
from kvlaw.mlx_impl.counts import as_count
from kvlaw.mlx_impl.errors import ConfigError, TrimError
from kvlaw.mlx_impl.kinds import FullCache, RingCache
from kvlaw.mlx_impl.planes import Keys, Values
from kvlaw.spec.cite import clause


def make_cache(model: Any, max_kv_size: int | None = None) -> "list[DropIn]":
    """Make one cache per layer of an mlx-lm ``model``, of the kinds that mlx-lm would make.

    ``max_kv_size`` is the window, with 4 sinks, of the layers of a model that does not make its own caches.

    Raises:
        ConfigError: if a layer needs a kind that we do not have, named in the message, or an impossible ring.
    """
    from mlx_lm.models.cache import make_prompt_cache  # noqa: PLC0415  # only who uses the drop-in needs mlx-lm

    return [replace(cache) for cache in make_prompt_cache(model, max_kv_size)]


@clause("ERR-6")
def replace(cache: Any) -> "DropIn":
    """Make an empty cache of the kind and configuration of one of mlx-lm's.

    Raises:
        ConfigError: if it is of another kind than ``KVCache`` and ``RotatingKVCache``, or holds tokens.
    """
    from mlx_lm.models.cache import KVCache, RotatingKVCache  # noqa: PLC0415  # as above

    if type(cache) not in {KVCache, RotatingKVCache}:
        possible = "KVCache and RotatingKVCache can be replaced"
        raise ConfigError(f"a drop-in for {type(cache).__name__}", possible, "ERR-6")
    if not cache.empty():
        raise ConfigError(f"a drop-in for a {type(cache).__name__} that holds tokens", "it must be empty", "ERR-6")
    if type(cache) is KVCache:
        return DropIn(FullCache())
    return DropIn(RingCache(cache.max_size, cache.keep))


class DropIn:
    """One layer's cache with the duck type of mlx-lm's; ``cache`` is ours."""

    __slots__ = ("cache",)

    def __init__(self, cache: Cache) -> None:
        self.cache = cache

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
        """
        count = as_count(n, "trim of", "ERR-5")
        if not self.is_trimmable():
            raise TrimError(f"trim of {n}", f"{self.cache.identity} has evicted positions", "TRIM-4", "TRIM-7")
        return self.cache.trim(min(count, self.offset))

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

    def __copy__(self) -> Self:
        return type(self)(self.cache.clone())

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.__copy__()
