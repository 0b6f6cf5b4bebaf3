"""What is timed: 16 layers that append and attend, ours, mlx-lm's, and ours behind mlx-lm's duck type.

A ``Runner`` makes 16 caches of one implementation and knows one step of them.  Layers hang on each other as in a model:
the output of a layer is the query and the key of the next, and the value of the one after that.  (Layers that could run
side by side would show MLX's scheduler, not the caches.)  mlx-lm's step is what its models do: one mask per step, then
``update_and_fetch`` and its attention function in every layer.  A case with ``bits`` runs over codes, beside mlx-lm's
``QuantizedKVCache``.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

import attrs
import mlx.core as mx
from mlx_lm.models import base
from mlx_lm.models.cache import KVCache, QuantizedKVCache, RotatingKVCache

from kvlaw.mlx_impl import Cache, make
from kvlaw.mlx_impl.mlx_lm import DropIn, QuantizedDropIn

evaluate = cast("Callable[[Any], None]", vars(mx)["eval"])  # mlx's stub leaves its arguments untyped
attend = cast("Callable[..., mx.array]", vars(base)["scaled_dot_product_attention"])  # as does mlx-lm

LAYERS = 16
HEADS = 4
DIM = 64
WINDOW = 128
SCALE = DIM**-0.5

Who = Literal["ours", "drop-in", "theirs", "again"]
"""Who runs a step; ``again`` is a second mlx-lm, whose ratio to the first is the A/A ratio."""


@attrs.frozen
class Case:
    """A step of ``length`` tokens on caches that hold ``start`` tokens; ``window`` is None for growing caches.

    With ``bits`` they hold codes, in groups of 64.

    A round times ``steps`` steps.  A case that is ``repeated`` trims what a step appended, so that every step starts at
    the same place.
    """

    name: str
    length: int
    start: int
    window: int | None
    steps: int
    repeated: bool = False
    bits: int | None = None

    def tokens(self) -> mx.array:
        """Draw the input of a step."""
        return tokens(self.length)

    def runner(self, who: Who) -> "Runner":
        """Make the caches of ``who``."""
        return make_runner(who, self)


CASES = (
    Case("decode, growing", 1, 200, None, 8),
    Case("decode, ring 128", 1, 300, WINDOW, 8),
    Case("window of 64, growing", 64, 150, None, 2, repeated=True),
    Case("window of 64, ring 128", 64, 150, WINDOW, 2),
    Case("decode, 4 bits", 1, 200, None, 8, bits=4),
    Case("decode, 8 bits", 1, 200, None, 8, bits=8),
    Case("window of 16, 4 bits", 16, 150, None, 1, repeated=True, bits=4),
    Case("window of 16, 8 bits", 16, 150, None, 1, repeated=True, bits=8),
)


def tokens(length: int, rows: int = 1) -> mx.array:
    """Draw the input of a step of ``length`` tokens: bf16 ``[rows, HEADS, length, DIM]``."""
    mx.random.seed(length)
    drawn = mx.random.normal((rows, HEADS, length, DIM)).astype(mx.bfloat16)
    evaluate(drawn)
    return drawn


def nothing() -> None:
    """Do nothing."""


def itself(found: Any) -> Any:
    """Return what it is given."""
    return found


@attrs.frozen
class Runner:
    """16 caches of one implementation: one step of them, and what is not timed.

    ``undo`` follows every step, ``rewind`` begins every round, and ``arrays`` says what to evaluate of a step.
    """

    step: Callable[[mx.array], Any]
    undo: Callable[[], None] = nothing
    rewind: Callable[[], None] = nothing
    arrays: Callable[[Any], Any] = itself


def make_runner(who: Who, case: Case) -> Runner:
    """Make the caches of ``who``, fill them with ``case.start`` tokens, and warm them up by two steps."""
    runner = _MAKERS[who](case)
    evaluate(runner.step(tokens(case.start)))
    for _ in range(2):
        evaluate(runner.step(tokens(case.length)))
        runner.undo()
    return runner


def _caches(case: Case) -> list[Cache]:
    return [make("ring" if case.window else "full", case.window, bits=case.bits) for _ in range(LAYERS)]


def _ours(case: Case) -> Runner:
    caches = _caches(case)

    def step(x: mx.array) -> mx.array:
        below = x
        if x.shape[2] == 1:
            for cache in caches:
                x, below = cache.append_decode(x, below).attend(x, scale=SCALE), x
        else:
            for cache in caches:
                x, below = cache.append_window(x, below).attend(x, scale=SCALE), x
        return x

    return Runner(step, _trim(caches, case))


def _duck(caches: list[Any], case: Case) -> Runner:
    """Run caches as mlx-lm's models do; mlx-lm scales queries in place, so over codes they must be its own."""

    def step(x: mx.array) -> mx.array:
        below = x
        mask = caches[0].make_mask(x.shape[2], return_array=False, window_size=case.window)
        for cache in caches:
            keys, values = cache.update_and_fetch(x, below)
            queries = x if isinstance(keys, mx.array) else x[...]
            x, below = attend(queries, keys, values, cache=cache, scale=SCALE, mask=mask), x
        return x

    return Runner(step, _trim(caches, case))


def _trim(caches: Sequence[Any], case: Case) -> Callable[[], None]:
    def undo() -> None:
        for cache in caches:
            cache.trim(case.length)

    return undo if case.repeated else nothing


def _drop_in(case: Case) -> Runner:
    drop_in = DropIn if case.bits is None else QuantizedDropIn
    return _duck([drop_in(cache) for cache in _caches(case)], case)


def _theirs(case: Case) -> Runner:
    def cache() -> Any:
        if case.bits is not None:
            return QuantizedKVCache(64, case.bits)
        return RotatingKVCache(case.window) if case.window else KVCache()

    return _duck([cache() for _ in range(LAYERS)], case)


_MAKERS: dict[Who, Callable[[Case], Runner]] = {
    "ours": _ours,
    "drop-in": _drop_in,
    "theirs": _theirs,
    "again": _theirs,
}
