"""KV caches for MLX that keep the law: growing (``FullCache``) and sliding-window (``RingCache``), composed of parts.

* ``geometry``: where positions stand, in host integers; every append is a plan; ``plans`` remembers them;
* ``planes``: the arrays, moved by plans;
* ``masks``: which columns a query sees, built once per position and leased;
* ``reads``: what an append returns, ready to be attended;
* ``caches``: the protocol that composes them; ``inputs`` and ``counts`` check what callers bring;
* ``layers``: lists of caches, all or none;
* ``mlx_lm``: drop-in caches for mlx-lm's models;
* ``errors``: what is refused, naming the clause.
"""

from kvlaw.mlx_impl.caches import Cache, FullCache, Phase, RingCache
from kvlaw.mlx_impl.errors import (
    CacheError,
    ConfigError,
    CountError,
    DTypeError,
    ShapeError,
    TrimError,
    WindowError,
)
from kvlaw.mlx_impl.reads import Read

__all__ = [
    "Cache",
    "CacheError",
    "ConfigError",
    "CountError",
    "DTypeError",
    "FullCache",
    "Phase",
    "Read",
    "RingCache",
    "ShapeError",
    "TrimError",
    "WindowError",
]
