"""The kinds of caches: ``FullCache`` grows, ``RingCache`` keeps the newest ``window`` positions.

A kind is a starting geometry and an identity; what it does is ``caches.Cache``'s.  ``make`` builds either from a flat
configuration.
"""

from typing import Literal, cast

import mlx.core as mx

from kvlaw.mlx_impl.caches import Cache
from kvlaw.mlx_impl.counts import as_integer
from kvlaw.mlx_impl.errors import ConfigError
from kvlaw.mlx_impl.geometry import FullGeometry, RingGeometry
from kvlaw.mlx_impl.precision import Precision, Start, dense, make_precision
from kvlaw.spec.cite import clause


class FullCache(Cache):
    """A growing cache: every position is kept.  It stays dense without a ``policy``."""

    __slots__ = ()

    def __init__(self, *, policy: Precision | None = None) -> None:
        super().__init__(FullGeometry(), policy or dense())

    @property
    @clause("ID-1", "ID-2", "ID-3", "PREC-12")
    def identity(self) -> str:
        """Return ``full``, or ``full(bits=4,group=64)`` with a policy."""
        fields = self.policy.fields
        return f"full({fields})" if fields else "full"


class RingCache(Cache):
    """A sliding-window ring: the newest ``window`` positions are kept, and the first ``sinks`` of all for ever.

    Sinks count in the window.  ``0 <= sinks < window``.  It stays dense without a ``policy``.

    Raises:
        ConfigError: if the window is below 1 or sinks are not below the window (ERR-6).
    """

    __slots__ = ()

    @clause("ERR-6", "RING-14")
    def __init__(self, window: int, sinks: int = 0, *, policy: Precision | None = None) -> None:
        found, pinned = as_integer(window), as_integer(sinks)
        if found is None or found < 1:
            raise ConfigError(f"a ring of window {window!r}", "a window of at least 1 is needed", "ERR-6")
        if pinned is None or not 0 <= pinned < found:
            possible = f"a window of {found} can pin 0 to {found - 1} sinks"
            raise ConfigError(f"a ring with sinks {sinks!r}", possible, "ERR-6", "RING-14")
        super().__init__(RingGeometry(found, pinned), policy or dense())

    @property
    def window(self) -> int:
        """Return how many positions the ring keeps."""
        return self._ring.window

    @property
    def sinks(self) -> int:
        """Return how many first positions are pinned."""
        return self._ring.sinks

    @property
    def _ring(self) -> RingGeometry:
        return cast("RingGeometry", self._geometry)

    @property
    @clause("ID-1", "ID-2", "ID-3", "PREC-12")
    def identity(self) -> str:
        """Return ``ring(window=W,sinks=s)``, with the fields of its policy behind."""
        fields = self.policy.fields
        return f"ring(window={self.window},sinks={self.sinks}{',' if fields else ''}{fields})"

    def _integers(self) -> dict[str, int]:
        ring = self._ring
        return {
            **super()._integers(),
            "window": ring.window,
            "sinks": ring.sinks,
            "rotated": int(ring.rotated),
            "block": ring.block,
        }


@clause("ERR-6", "PREC-13")
def make(
    kind: Literal["full", "ring"],
    window: int | None = None,
    sinks: int = 0,
    *,
    bits: int | None = None,
    value_bits: int | None = None,
    group: int = 64,
    start: Start = None,
    kernels: str = "unfused",
    dtype: mx.Dtype | None = None,
) -> Cache:
    """Build a cache of ``kind``: dense without ``bits``, codes from the first append on without ``start``.

    Raises:
        ConfigError: if there is no such cache.
    """
    policy = make_precision(bits, value_bits, group, start, kernels, dtype)
    if kind == "ring":
        return RingCache(cast("int", window), sinks, policy=policy)  # refuses None
    if kind != "full":
        raise ConfigError(f"a cache of kind {kind!r}", "the kinds are 'full' and 'ring'", "ERR-6")
    if window is not None or sinks:
        raise ConfigError("a growing cache with window or sinks", "only a ring takes them", "ERR-6")
    return FullCache(policy=policy)
