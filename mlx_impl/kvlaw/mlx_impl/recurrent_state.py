"""The arrays of recurrent rows, and what some positions make of them.

A row of a gated delta layer holds the newest K - 1 inputs of its convolution (the *tail*, zeros before its first
position) and a float32 matrix.  ``State`` has both, of all rows; ``Step`` is what a model hands in for some positions;
``advanced`` makes the one of the other, and ``replayed`` does so with the first positions of several steps.
"""

from collections.abc import Callable, Sequence

import attrs
import mlx.core as mx

from kvlaw.mlx_impl.delta_rule import Run
from kvlaw.mlx_impl.errors import DTypeError, ShapeError
from kvlaw.mlx_impl.inputs import FLOATS
from kvlaw.spec.cite import clause

Span = tuple[int, int]
"""Of one row: the first column of a step that counts, and the first behind it that does not."""


@attrs.frozen(eq=False)
class State:
    """Tails ``[B, K - 1, C]`` and matrices ``[B, H, E, D]`` of all rows."""

    tail: mx.array
    matrix: mx.array

    def describe(self) -> str:
        """Write its shapes for an error message."""
        batch, _, channels = self.tail.shape
        _, heads, value_dim, key_dim = self.matrix.shape
        sizes = f"{heads} heads of {value_dim} by {key_dim}"
        return f"{batch} rows, {channels} channels of {self.tail.dtype}, {sizes}"

    def taken(self, rows: Sequence[int]) -> "State":
        """Return ``rows`` in the order given, in arrays of their own."""
        picked = mx.array(list(rows), mx.int32)
        return State(mx.take(self.tail, picked, axis=0), mx.take(self.matrix, picked, axis=0))

    @property
    def arrays(self) -> dict[str, mx.array]:
        """Return ``conv`` and ``matrix``."""
        return {"conv": self.tail, "matrix": self.matrix}

    @property
    def nbytes(self) -> int:
        """Return the bytes of both arrays."""
        return self.tail.nbytes + self.matrix.nbytes


@attrs.frozen(eq=False)
class Step:
    """The inputs of L positions, position by position; ``run`` is the kernel that the model runs them through."""

    inputs: mx.array
    queries: mx.array
    keys: mx.array
    values: mx.array
    decay: mx.array
    beta: mx.array
    run: Run

    @property
    def length(self) -> int:
        """Return L."""
        return self.inputs.shape[1]

    def first(self, length: int) -> "Step":
        """Return the first ``length`` positions, in array objects that nobody else has."""
        return self.each(lambda part: part[:, :length])

    def each(self, act: Callable[[mx.array], mx.array]) -> "Step":
        """Return a step of what ``act`` makes of each array."""
        queries, keys, values = act(self.queries), act(self.keys), act(self.values)
        return Step(act(self.inputs), queries, keys, values, act(self.decay), act(self.beta), self.run)

    def empty_state(self, kernel: int) -> State:
        """Return the state of zeros that fits these inputs, for a convolution over ``kernel`` positions."""
        batch, _, channels = self.inputs.shape
        shape = (batch, self.values.shape[2], self.values.shape[3], self.keys.shape[3])
        return State(mx.zeros((batch, kernel - 1, channels), self.inputs.dtype), mx.zeros(shape, mx.float32))


@clause("ERR-2", "ERR-3", "ERR-4")
def admit(step: Step, state: State | None) -> None:
    """Check the inputs of an advance, by each other and by what is held.

    Raises:
        DTypeError: if one is no ``mx.array`` of bf16, f16 or f32, or the convolution's inputs are not of its dtype.
        ShapeError: if they do not fit each other, or what is held.
    """
    parts = attrs.asdict(step, recurse=False, filter=lambda field, _: field.name != "run")
    for name, part in parts.items():
        if not isinstance(part, mx.array) or part.dtype not in FLOATS:
            raise DTypeError(f"{name} {part!r:.40}", "an mx.array of bf16, f16 or f32 is needed", "ERR-3")
    shapes = ", ".join(f"{name} {list(part.shape)}" for name, part in parts.items())
    if not _fit_each_other(step):
        possible = "inputs [B, L, C], queries and keys [B, L, G, D], values [B, L, H, E] and gates [B, L, H], L >= 1"
        raise ShapeError(f"an advance of {shapes}", possible, "ERR-2", "ERR-4")
    if state is None:
        return
    if step.inputs.dtype != state.tail.dtype:
        possible = f"the cache holds {state.tail.dtype}"
        raise DTypeError(f"an advance of {step.inputs.dtype}", possible, "ERR-3")
    found = step.empty_state(state.tail.shape[1] + 1)
    if (found.tail.shape, found.matrix.shape) != (state.tail.shape, state.matrix.shape):
        possible = f"the cache holds {state.describe()}"
        raise ShapeError(f"an advance of {found.describe()}", possible, "ERR-2")


def _fit_each_other(step: Step) -> bool:
    if (step.inputs.ndim, step.keys.ndim, step.values.ndim) != (3, 4, 4) or step.queries.shape != step.keys.shape:
        return False
    (batch, length, _), (*_, groups, key_dim), (*_, heads, _) = step.inputs.shape, step.keys.shape, step.values.shape
    gates = (batch, length, heads)
    lengths_agree = step.keys.shape[:2] == step.values.shape[:2] == (batch, length)
    gates_agree = step.beta.shape == gates and step.decay.shape in (gates, (*gates, key_dim))
    empty = 0 in (*step.inputs.shape, *step.keys.shape, *step.values.shape)
    return lengths_agree and gates_agree and not empty and heads % groups == 0


@clause("REC-3", "REC-8")
def convolved(state: State, inputs: mx.array, spans: Sequence[Span] | None) -> mx.array:
    """Return what the convolution of ``inputs`` ``[B, L, C]`` reads: the tail, then the inputs, padding as zeros."""
    if spans is not None:
        inputs = mx.where(counted(spans, inputs.shape[1])[..., None], inputs, mx.zeros((), inputs.dtype))
    return mx.concatenate([state.tail, inputs], axis=1)


@clause("REC-2", "REC-3", "REC-8")
def advanced(state: State, step: Step, spans: Sequence[Span] | None) -> tuple[mx.array, State]:
    """Return the outputs ``[B, L, H, E]`` of a step and the state after it; ``spans``: what counts of each row."""
    length, kept = step.length, state.tail.shape[1]
    padding = None if spans is None else counted(spans, length)
    read = convolved(state, step.inputs, spans)
    outputs, matrix = step.run(step.queries, step.keys, step.values, step.decay, step.beta, state.matrix, padding)
    _check_matrix(matrix, state.matrix)
    if spans is None:
        tail = mx.contiguous(read[:, length:])
    else:
        ends = mx.array([end for _, end in spans], mx.int32)
        tail = mx.take_along_axis(read, (ends[:, None] + mx.arange(kept))[..., None], axis=1)
    return outputs, State(tail, matrix)


def _check_matrix(found: object, held: mx.array) -> None:
    """Refuse what a kernel gives instead of a matrix.

    Raises:
        ShapeError: if it is no float32 array of the shape of what is held.
    """
    if isinstance(found, mx.array) and (found.shape, found.dtype) == (held.shape, held.dtype):
        return
    told = f"{list(found.shape)} of {found.dtype}" if isinstance(found, mx.array) else f"{found!r:.40}"
    raise ShapeError(f"a kernel that gives a matrix {told}", f"{list(held.shape)} of {held.dtype} is needed", "REC-1")


@clause("REC-6")
def replayed(state: State, steps: Sequence[tuple[Step, State]], keeps: Sequence[int]) -> State:
    """Return the state of rows that had, of the positions of all ``steps``, only their first ``keeps``.

    A step goes with the state that came out of it, which stands where every row keeps all of it.
    """
    start = 0
    for step, then in steps:
        left = [min(max(keep - start, 0), step.length) for keep in keeps]
        longest = max(left, default=0)
        if min(left, default=0) == step.length:
            state = then
        elif longest:
            spans = None if min(left) == longest else [(0, count) for count in left]
            _, state = advanced(state, step.first(longest), spans)
        start += step.length
    return state


def counted(spans: Sequence[Span], length: int) -> mx.array:
    """Return which of ``length`` columns count, bool ``[B, L]``."""
    starts, ends = (mx.array(list(part), mx.int32)[:, None] for part in zip(*spans, strict=True))
    columns = mx.arange(length)
    return (columns >= starts) & (columns < ends)
