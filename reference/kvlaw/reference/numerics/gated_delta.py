"""The gated delta rule as MLX's x86-64 CPU computes it (``mlx_lm.models.gated_delta``), bit for bit.

A head keeps a matrix of state, [E, D] in float32, whatever the format of the inputs. One position does to it:

1. decay: multiply every element by the gate, one number per head or one per column;
2. recall: the running sum, over the D columns in ascending order, of the decayed state times the key;
3. delta: the value minus what was recalled, times beta;
4. write: add the key times the delta;
5. output: the running sum of the written state times the query, rounded to the format of the queries.

Every multiplication, addition and subtraction is rounded once, to float32; nothing is fused. So the state after some
positions does not depend on how they were split into calls. At a masked position the state stays as it was; the output
there is that of the write that was dropped, and is not to be compared: other kernels of MLX answer 0.

`decay_gates` and `beta_gates` make gates of what a model projects, with `sigmoid` and `softplus` beneath them.

Shapes: B batch rows, L positions, G key heads, H value heads (a multiple of G), D key size, E value size.
"""

import attrs
import numpy as np
from numpy.typing import NDArray

from kvlaw.reference.numerics.exponential import exponential
from kvlaw.reference.numerics.formats import Bits, DType, Float32, decode, encode, round_to
from kvlaw.reference.numerics.logarithm import log_of_one_plus
from kvlaw.reference.numerics.softmax import sequential_sum

Padding = NDArray[np.bool_] | None
"""Which positions count, [B, L]; None: all."""


@attrs.frozen(eq=False)
class Inputs:
    """What a recurrence reads, position by position, as bits: all of ``dtype``, but for the decay, which is float32.

    ``queries`` and ``keys`` are [B, L, G, D], ``values`` [B, L, H, E], ``decay`` [B, L, H] or [B, L, H, D], ``beta``
    [B, L, H].
    """

    queries: Bits
    keys: Bits
    values: Bits
    decay: Bits
    beta: Bits
    dtype: DType

    @property
    def length(self) -> int:
        """The number of positions."""
        return self.keys.shape[1]

    def state_shape(self) -> tuple[int, int, int, int]:
        """Return the shape [B, H, E, D] of the state; ValueError if the inputs do not fit each other."""
        batch, length, heads, value_size = _rank_four(self.values, "values")
        key_shape = _rank_four(self.keys, "keys")
        shapes = f"queries {self.queries.shape}, keys {key_shape}, values {self.values.shape}"
        if self.queries.shape != key_shape or key_shape[:2] != (batch, length):
            raise ValueError(f"queries and keys [B, L, G, D] and values [B, L, H, E] do not fit: {shapes}")
        if not key_shape[2] or heads % key_shape[2]:
            raise ValueError(f"the value heads must be a multiple of the key heads: {shapes}")
        gates = (batch, length, heads)
        if self.beta.shape != gates or self.decay.shape not in (gates, (*gates, key_shape[3])):
            raise ValueError(f"decay {self.decay.shape} and beta {self.beta.shape} do not fit {shapes}")
        return batch, heads, value_size, key_shape[3]

    def first(self, length: int) -> "Inputs":
        """Return the first ``length`` positions."""
        return self.between(0, length)

    def between(self, start: int, stop: int) -> "Inputs":
        """Return the positions from ``start`` to before ``stop``."""
        at = np.s_[:, start:stop]
        return Inputs(self.queries[at], self.keys[at], self.values[at], self.decay[at], self.beta[at], self.dtype)


def gated_delta(inputs: Inputs, state: Bits | None = None, padding: Padding = None) -> tuple[Bits, Bits]:
    """Run the recurrence from ``state`` [B, H, E, D] (float32 bits; None: zeros).

    Returns the outputs [B, L, H, E] as bits of the inputs' format, and the state after the last position.

    Raises ValueError if shapes do not fit, TypeError if an array is not of the bits of its format.
    """
    shape = inputs.state_shape()
    held = np.zeros(shape, np.float32) if state is None else decode(state, "f32")
    if held.shape != shape:
        raise ValueError(f"a state of shape {held.shape}, where the inputs need {shape}")
    if padding is not None and padding.shape != inputs.keys.shape[:2]:
        raise ValueError(f"padding of shape {padding.shape}, where the inputs need {inputs.keys.shape[:2]}")
    repeats = shape[1] // inputs.keys.shape[2]
    queries, keys = (np.repeat(decode(part, inputs.dtype), repeats, 2) for part in (inputs.queries, inputs.keys))
    values, beta = decode(inputs.values, inputs.dtype), decode(inputs.beta, inputs.dtype)
    decay = _across_the_state(decode(inputs.decay, "f32"))
    outputs = np.zeros(values.shape, np.float32)
    for position in range(inputs.length):
        written, outputs[:, position] = _step(
            held, *(part[:, position] for part in (queries, keys, values, decay, beta))
        )
        held = written if padding is None else np.where(padding[:, position, None, None, None], written, held)
    return encode(outputs, inputs.dtype), encode(held, "f32")


def _step(
    state: Float32, query: Float32, key: Float32, value: Float32, decay: Float32, beta: Float32
) -> tuple[Float32, Float32]:
    """Return the state [B, H, E, D] after one position, and the output [B, H, E] in float32."""
    with np.errstate(all="ignore"):
        decayed: Float32 = np.multiply(state, decay)
        recalled = sequential_sum(decayed * key[:, :, np.newaxis])[..., 0]
        delta = (value - recalled) * beta[..., np.newaxis]
        written: Float32 = np.add(decayed, key[:, :, np.newaxis] * delta[..., np.newaxis])
        return written, sequential_sum(written * query[:, :, np.newaxis])[..., 0]


def _across_the_state(decay: Float32) -> Float32:
    """Give gates [B, L, H] or [B, L, H, D] the axes of the state behind B and L: [B, L, H, 1, 1 or D]."""
    return decay[..., np.newaxis, np.newaxis] if decay.ndim == 3 else decay[..., np.newaxis, :]


def _rank_four(array: Bits, name: str) -> tuple[int, int, int, int]:
    if array.ndim != 4:
        raise ValueError(f"{name} have rank 4, got the shape {array.shape}")
    one, two, three, four = array.shape
    return one, two, three, four


# Gates ----------------------------------------------------------------------------------------------------------------


@attrs.frozen(eq=False)
class Projected:
    """What a model projects for a recurrence: `Inputs` whose gates are still to be made.

    ``decay`` and ``beta`` are [B, L, H] bits of ``dtype``, as is ``bias`` [H]; ``log_rates`` [H] is float32.
    """

    queries: Bits
    keys: Bits
    values: Bits
    decay: Bits
    beta: Bits
    log_rates: Bits
    bias: Bits
    dtype: DType

    def inputs(self) -> Inputs:
        """Make the gates."""
        decay = decay_gates(self.log_rates, self.decay, self.bias, self.dtype)
        return Inputs(self.queries, self.keys, self.values, decay, beta_gates(self.beta, self.dtype), self.dtype)


def decay_gates(log_rates: Bits, projected: Bits, bias: Bits, dtype: DType) -> Bits:
    """Return exp(-exp(``log_rates``) * softplus(``projected`` + ``bias``)) as float32 bits [B, L, H].

    ``log_rates`` [H] is float32, ``projected`` [B, L, H] and ``bias`` [H] are bits of ``dtype``.
    """
    with np.errstate(all="ignore"):
        shifted = round_to(decode(projected, dtype) + decode(bias, dtype), dtype)
        rates = -exponential(decode(log_rates, "f32"))
        return encode(exponential(rates * softplus(shifted, dtype)), "f32")


def beta_gates(projected: Bits, dtype: DType) -> Bits:
    """Return the sigmoid of ``projected`` [B, L, H] as bits of ``dtype``."""
    return encode(sigmoid(decode(projected, dtype), dtype), dtype)


def sigmoid(values: Float32, dtype: DType) -> Float32:
    """Compute ``1 / (1 + e^-x)``: by ``e^-|x|`` rounded to ``dtype``, for positive numbers as 1 minus that of -x."""
    with np.errstate(all="ignore"):
        one = np.float32(1)
        of_negative = one / (one + round_to(exponential(np.abs(values)), dtype))
        return round_to(np.where(values < 0, of_negative, one - of_negative), dtype)


def softplus(values: Float32, dtype: DType) -> Float32:
    """Compute log(1 + e^x) as MLX's logaddexp(x, 0): larger + log1p(e^(smaller - larger)), each step rounded."""
    zero = np.float32(0)
    with np.errstate(all="ignore"):
        larger = np.where(np.isnan(values) | (values > zero), values, zero)
        smaller = np.where(np.isnan(values) | (values < zero), values, zero)
        power = round_to(exponential(round_to(smaller - larger, dtype)), dtype)
        total = round_to(larger + round_to(log_of_one_plus(power), dtype), dtype)
        return np.where((smaller == -np.inf) | (larger == np.inf), larger, total)
