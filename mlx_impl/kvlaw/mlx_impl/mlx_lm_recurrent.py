"""Drop-ins for the recurrent layers of mlx-lm's models (gated DeltaNet), and ``recording``, which lets them draft.

mlx-lm's linear attention computes convolution and recurrence itself: it takes two arrays from its cache, the newest
inputs of the convolution and the state, and puts two others back.  A ``RecurrentDropIn`` answers that by a recurrent
cache of ours, and a ``RecurrentRowsDropIn`` by a group, so that models run and batch as with ``ArraysCache``.

What is taken back of a round has to be played again, from inputs that no cache gets to see.  ``with recording(model):``
hands them over: in each linear attention module the convolution shows what it reads, and the name
``gated_delta_update`` stands for a function that runs the recurrence of mlx-lm through the cache.  The module's own
code computes everything else, so that the outputs are what they are without.  Nothing outside the model's modules is
touched, and on exit they are what they were.
"""

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import Any, Self, cast

import attrs
import mlx.core as mx

from kvlaw.mlx_impl.counts import as_count
from kvlaw.mlx_impl.delta_rule import Run
from kvlaw.mlx_impl.errors import ConfigError, RoundError, ShapeError, TrimError
from kvlaw.mlx_impl.mlx_lm_parts import TakesRounds
from kvlaw.mlx_impl.recurrent import RecurrentCache
from kvlaw.mlx_impl.recurrent_rows import RecurrentRows, merge_recurrent
from kvlaw.mlx_impl.recurrent_state import State
from kvlaw.spec.cite import clause

UPDATE = "gated_delta_update"
"""The name by which the code of a linear attention module calls the recurrence."""

RECORDED = "hands_over_its_inputs"
"""The class attribute of modules that are recorded."""


# Caches ---------------------------------------------------------------------------------------------------------------


class _Arrays(TakesRounds):
    """Two arrays by number, as mlx-lm's ``ArraysCache`` has them: 0 is the convolution's tail, 1 the state."""

    __slots__ = ("_put", "cache", "recorded", "shared")

    cache: Any
    shared: bool
    """Of no meaning here: nothing is fetched."""
    recorded: bool
    """Whether the step that is under way goes to the cache by itself, input by input."""
    _put: dict[int, mx.array]

    def __init__(self, cache: Any) -> None:
        self.cache = cache
        self.shared = self.recorded = False
        self._put = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.cache!r})"

    # -- what models call ---------------------------------------------------------------------------------------------

    def __getitem__(self, number: int) -> mx.array | None:
        held = self.cache.state()
        return held.get("conv" if number == 0 else "matrix")

    def __setitem__(self, number: int, array: mx.array) -> None:
        if not self.recorded:
            self._put[number] = array

    @clause("REC-6")
    def advance(self, n: int) -> None:
        """Take over what was put back for ``n`` positions, unless the step was recorded.

        Raises:
            RoundError: if a round is open: without ``recording`` nothing could be taken back.
        """
        put, self._put = self._put, {}
        if self.recorded:
            return
        if self.in_round:
            raise RoundError("a step in a round", "within recording(model) alone it can be taken back", "ROUND-9")
        held, state = self[0], State(put[0][...], put[1][...])
        wanted = None if held is None else (held.shape, held.dtype)
        fits = wanted in (None, (state.tail.shape, state.tail.dtype)) and state.tail.shape[1] == self.cache.kernel - 1
        if not fits or state.matrix.dtype != mx.float32:
            told = f"a tail {list(state.tail.shape)} of {state.tail.dtype} and a matrix of {state.matrix.dtype}"
            possible = f"{self.cache.kernel - 1} inputs as before and a float32 matrix are needed"
            raise ShapeError(told, possible, "REC-1")
        self._hold(state, n)

    def _hold(self, state: State, n: int) -> None:
        raise NotImplementedError

    # -- what drafting asks of ours -----------------------------------------------------------------------------------

    @clause("ROUND-2", "REC-6")
    def roll_back(self, keep: Any) -> None:
        """Close the round and keep its first ``keep`` positions, of a group also one number per row.

        Raises:
            RoundError: if no round is open, or ``keep`` is not from 0 to what was appended in it.
        """
        self.cache.roll_back(keep.tolist() if isinstance(keep, mx.array) else keep)

    # -- what servers ask ---------------------------------------------------------------------------------------------

    @clause("REC-13")
    def is_trimmable(self) -> bool:
        """Say False."""
        return False

    @clause("REC-13", "ERR-5")
    def trim(self, n: int) -> int:
        """Refuse.

        Raises:
            CountError: if ``n`` is negative or no integer.
            TrimError: otherwise.
        """
        count = as_count(n, "trim of", "ERR-5")
        raise TrimError(f"trim of {count}", "a recurrent state cannot be cut; a round can be taken back", "REC-13")

    @property
    def offset(self) -> int:
        """Return the position of the next token, of the row that is furthest."""
        return self.cache.offset

    def empty(self) -> bool:
        """Say whether nothing was appended yet."""
        return self[0] is None

    @property
    def nbytes(self) -> int:
        """Return the bytes of the state."""
        return self.cache.nbytes

    @property
    def state(self) -> tuple[Any, ...]:
        """Return arrays and integers, to evaluate or to look at: ``mx.eval([c.state for c in caches])``."""
        return tuple(self.cache.state().values())

    def __copy__(self) -> Self:
        return type(self)(self.cache.clone())

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.__copy__()


class RecurrentDropIn(_Arrays):
    """One recurrent layer's cache with the duck type of mlx-lm's ``ArraysCache``; ``cache`` is ours."""

    __slots__ = ()

    cache: RecurrentCache
    lengths = left_padding = None

    def _hold(self, state: State, n: int) -> None:
        self.cache.hold(state, self.cache.offset + n)

    def make_mask(self, N: int) -> None:
        """Return None: every position counts."""
        return

    @classmethod
    @clause("REC-9")
    def merge(cls, caches: Sequence[Any]) -> "RecurrentRowsDropIn":
        """Make a group of the rows of drop-ins, in their order; these stay as they are.

        Raises:
            CacheError: if they cannot be rows of one group; the message names why.
        """
        for found in caches:
            if not isinstance(found, _Arrays):
                possible = "drop-ins for recurrent layers can be merged with each other"
                raise ConfigError(f"a merge of a {type(found).__name__}", possible, "ROWS-7")
        return RecurrentRowsDropIn(merge_recurrent([found.cache for found in caches]))


class RecurrentRowsDropIn(_Arrays):
    """One recurrent layer's group of rows with the duck type of mlx-lm's ``ArraysCache``; ``cache`` is our group."""

    __slots__ = ()

    cache: RecurrentRows

    def _hold(self, state: State, n: int) -> None:
        rows = self.cache.content
        self.cache.hold(attrs.evolve(rows, offsets=rows.moved(n), state=state))

    def make_mask(self, N: int) -> mx.array | None:
        """Return which of the next ``N`` columns count, bool ``[B, N]``; None: all of them."""
        return self.cache.padding(N)

    @property
    def lengths(self) -> mx.array | None:
        """Return how many of the next columns come before each row's right padding ``[B]``; None: there is none."""
        rows = self.cache.content
        if rows.ends is None:
            return None
        return mx.array([end - offset for end, offset in zip(rows.ends, rows.offsets, strict=True)], mx.int32)

    @classmethod
    def merge(cls, caches: Sequence[Any]) -> "RecurrentRowsDropIn":
        """Make a group of the rows of drop-ins, serial ones and groups, in their order; these stay as they are."""
        return RecurrentDropIn.merge(caches)

    @clause("REC-9")
    def extend(self, other: "RecurrentRowsDropIn") -> None:
        """Add the rows of another group behind these; the other group stays as it is.

        Raises:
            CacheError: if they cannot be rows of one group; then nothing has changed.
        """
        self.cache = RecurrentDropIn.merge([self, other]).cache

    @clause("REC-10")
    def extract(self, idx: int) -> RecurrentDropIn:
        """Give one row as a serial drop-in; the group stays as it is.

        Raises:
            CacheError: if there is no such row, or padding or a round is pending.
        """
        return RecurrentDropIn(self.cache.extract(idx))

    @clause("REC-11")
    def filter(self, batch_indices: Sequence[int] | mx.array) -> None:
        """Keep these rows, in this order.

        Raises:
            CacheError: if one is not there, or repeated; then nothing has changed.
        """
        listed: Any = batch_indices.tolist() if isinstance(batch_indices, mx.array) else batch_indices
        self.cache.filter(tuple(listed))

    @clause("REC-8", "PAD-12")
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

    @clause("REC-8", "PAD-7")
    def finalize(self) -> None:
        """Forget where rows were to end."""
        self.cache.finalize()


# Recording ------------------------------------------------------------------------------------------------------------


@contextmanager
@clause("REC-6")
def recording(model: Any) -> Generator[None, None, None]:
    """Let the linear attention modules of an mlx-lm ``model`` hand their inputs to our caches while the context lasts.

    Other caches pass through untouched, and so does a model without such modules.  It may be entered again within.

    Raises:
        ConfigError: if a module runs the recurrence, but has not the one convolution that we know.
    """
    with _Swaps() as swaps:
        for module in linear_modules(model):
            if not hasattr(module, RECORDED):
                _record(module, swaps)
        yield


def linear_modules(model: Any) -> list[Any]:
    """Return the modules of ``model`` whose own code runs mlx-lm's gated delta rule, and has one convolution before it.

    Raises:
        ConfigError: if one has other convolutions.
    """
    modules: list[Any] = model.modules()
    found = [module for module in modules if _runs_the_rule(_class_of(module))]
    for module in found:
        if not hasattr(module, "conv1d"):
            name = _class_of(module).__name__
            raise ConfigError(f"a recording of {name}", "one convolution named conv1d is needed", "ERR-6")
    return found


def kernel_of(layer: Any) -> int | None:
    """Return over how many positions the convolution of a layer's linear attention reads; None: it has none.

    Raises:
        ConfigError: if it has other convolutions than the one that we know.
    """
    found = linear_modules(layer)
    return found[0].conv1d.weight.shape[1] if found else None


def _runs_the_rule(kind: type) -> bool:
    codes = [getattr(vars(base).get("__call__"), "__code__", None) for base in kind.__mro__]
    return any(code is not None and UPDATE in code.co_names for code in codes)


def _class_of(thing: Any) -> type[Any]:
    return cast("type[Any]", type(thing))


class _Swaps:
    """Objects whose class was changed, to be changed back."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, type]] = []

    def swap(self, thing: Any, call: Callable[..., Any]) -> None:
        """Let ``thing`` be called as ``call``."""
        before = _class_of(thing)
        thing.__class__ = type(
            before.__name__, (before,), {"__call__": call, "__module__": before.__module__, RECORDED: True}
        )
        self._before.append((thing, before))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for thing, before in reversed(self._before):
            thing.__class__ = before


def _record(module: Any, swaps: _Swaps) -> None:
    """Let one module hand over what it computes with."""
    plain: Any = _class_of(module).__call__
    convolve: Any = _class_of(module.conv1d).__call__
    step = _Step(plain.__globals__[UPDATE])
    recorded = FunctionType(
        plain.__code__, {**plain.__globals__, UPDATE: step.update}, None, plain.__defaults__, plain.__closure__
    )

    def call(self: Any, inputs: mx.array, mask: mx.array | None = None, cache: Any = None) -> Any:
        if not isinstance(cache, _Arrays):
            return plain(self, inputs, mask, cache)
        step.cache, cache.recorded = cache, True
        try:
            return recorded(self, inputs, mask, cache)
        finally:
            step.cache, step.read, cache.recorded = None, None, False

    def show(self: Any, read: mx.array) -> Any:
        step.read = read
        return convolve(self, read)

    swaps.swap(module, call)
    swaps.swap(module.conv1d, show)


@attrs.define(eq=False)
class _Step:
    """One call of a module that is under way: its cache, and what its convolution read."""

    plain: Any
    cache: _Arrays | None = None
    read: mx.array | None = None

    def update(
        self, q: mx.array, k: mx.array, v: mx.array, a: mx.array, b: mx.array, *rest: Any, **options: Any
    ) -> Any:
        """Run mlx-lm's ``gated_delta_update`` through the cache: the arguments are its own."""
        if self.cache is None or self.read is None:
            return self.plain(q, k, v, a, b, *rest, **options)
        inputs = self.read[:, self.read.shape[1] - k.shape[1] :]
        rule = sys.modules[self.plain.__module__]
        decay, beta = _gates(rule, a, b, *rest[:2], **options)
        run = _kernel(rule, use_kernel=options.get("use_kernel", True))
        outputs = self.cache.cache.advance(inputs, q, k, v, decay, beta, run=run)
        return outputs, self.cache[1]


def _gates(
    rule: Any,
    a: mx.array,
    b: mx.array,
    log_rates: mx.array,
    bias: mx.array,
    *,
    lower_bound: float | None = None,
    allow_neg_eigval: bool = False,
    **_: Any,
) -> tuple[mx.array, mx.array]:
    """Make decay and beta as ``gated_delta_update`` does."""
    beta = mx.sigmoid(b)
    if allow_neg_eigval:
        beta = beta * 2.0
    if lower_bound is None:
        return rule.compute_g(log_rates, a, bias), beta
    return rule.compute_lower_bound_g(log_rates, a, bias, lower_bound), beta


def _kernel(rule: Any, *, use_kernel: bool) -> Run:
    """Choose the kernel as ``gated_delta_update`` does."""
    on_metal = use_kernel and mx.default_device() == mx.gpu and mx.metal.is_available()

    def run(
        queries: mx.array,
        keys: mx.array,
        values: mx.array,
        decay: mx.array,
        beta: mx.array,
        state: mx.array,
        padding: mx.array | None,
    ) -> tuple[mx.array, mx.array]:
        fits = keys.shape[-1] >= 32 and keys.shape[-1] % 32 == 0  # the lanes of a SIMD group
        update = rule.gated_delta_kernel if on_metal and fits else rule.gated_delta_ops
        return update(queries, keys, values, decay, beta, state, padding)

    return run
