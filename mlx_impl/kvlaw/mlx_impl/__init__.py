"""KV caches for MLX that keep the law: growing (``FullCache``) and sliding-window (``RingCache``), composed of parts.

* ``geometry``: where positions stand, in host integers; every append is a plan; ``plans`` remembers them;
* ``planes``: the arrays, moved by plans;
* ``masks``: which columns a query sees, built once per position and leased;
* ``reads``: what an append returns, ready to be attended;
* ``codec``, ``codes``, ``kernels``: the same planes as affine codes, and attention over them;
* ``precision``: when a cache holds codes: never, always, or from a position on;
* ``standing``, ``caches``: the state and the protocol that composes them; ``kinds``: the kinds; ``inputs`` and
  ``counts`` check what callers bring;
* ``groups``: many rows in one object, composed of the same parts for rows: ``group_geometry`` and ``group_plans``
  (integers), ``group_planes``, ``group_masks``, ``group_settle`` (precision), ``group_content`` and ``group_merge``
  (what each call makes of a group), ``group_standing`` and ``group_appends`` (questions and appends);
* ``recurrent`` and ``recurrent_rows``: layers whose state is no keys and values (gated DeltaNet), alone and in groups;
  ``recurrent_state`` (their arrays) and ``delta_rule`` (the recurrence in plain operations);
* ``persistence``: caches in files (``file_format``, ``saved_layers``, ``atomic``, ``mlx_lm_files``);
* ``reuse``: a store of prefixes that prompts share;
* ``layers``: lists of caches, all or none;
* ``compiled``: decodes of a model by ``mx.compile``, composed of ``decode_steps`` (prepare and commit), ``traced``
  (what the model finds in place of its caches) and, for one cache, ``compiled_append``;
* ``mlx_lm``: drop-in caches for mlx-lm's models; ``mlx_lm_rows``: groups of them for its batch generator;
  ``mlx_lm_recurrent``: drop-ins for recurrent layers, and how their models let them draft;
* ``errors``: what is refused, naming the clause.
"""

from kvlaw.mlx_impl.caches import Cache, Phase
from kvlaw.mlx_impl.codec import Codes
from kvlaw.mlx_impl.errors import (
    CacheError,
    ConfigError,
    CountError,
    DTypeError,
    FileError,
    PaddingError,
    RowError,
    ShapeError,
    TrimError,
    WindowError,
)
from kvlaw.mlx_impl.groups import RowGroup, make_rows, merge
from kvlaw.mlx_impl.kinds import FullCache, RingCache, make
from kvlaw.mlx_impl.precision import Precision, affine, bf16_first, dense
from kvlaw.mlx_impl.reads import KnownRead, Read
from kvlaw.mlx_impl.recurrent import RecurrentCache
from kvlaw.mlx_impl.recurrent_rows import RecurrentRows, merge_recurrent

__all__ = [
    "Cache",
    "CacheError",
    "Codes",
    "ConfigError",
    "CountError",
    "DTypeError",
    "FileError",
    "FullCache",
    "KnownRead",
    "PaddingError",
    "Phase",
    "Precision",
    "Read",
    "RecurrentCache",
    "RecurrentRows",
    "RingCache",
    "RowError",
    "RowGroup",
    "ShapeError",
    "TrimError",
    "WindowError",
    "affine",
    "bf16_first",
    "dense",
    "make",
    "make_rows",
    "merge",
    "merge_recurrent",
]
