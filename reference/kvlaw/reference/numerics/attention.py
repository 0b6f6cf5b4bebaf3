"""Scaled dot-product attention over dense keys and values as MLX's x86-64 CPU computes it, bit for bit.

`attend` is `mx.fast.scaled_dot_product_attention` on that backend, for any bits of bf16, f16 or f32. In order:

1. scale: round the scale to the format, multiply the queries by it, round;
2. scores: scaled queries times keys (`products`), each group of query heads with its own key-value head, round;
3. mask: a masked score becomes the lowest finite value of the format, not -infinity; an additive mask is added, and
   the sum rounded;
4. sinks: learned sink logits, if any, stand as one more score before the first key;
5. weights: precise `softmax` over the row, round, then drop the sink's weight;
6. output: weights times values, round.

Two consequences that surprise: a query that may see no key at all gets the mean of *all* values, masked ones included;
and a masked value that is NaN or infinite still makes the output NaN (0 * NaN), while a masked key cannot.
Every rounding listed here changes results visibly; a missing one alters 13 to 61 % of bf16 and f16 outputs.

Shapes: B batch rows, H query heads, G key-value heads, L queries, S keys, D head size, E value size.
"""

from typing import Literal, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from kvlaw.reference.numerics.formats import Bits, DType, Float32, decode, encode, lowest, round_to
from kvlaw.reference.numerics.products import multiply_matrices
from kvlaw.reference.numerics.softmax import softmax

Mask: TypeAlias = NDArray[np.bool_] | Bits | Literal["causal"] | None


def attend(
    queries: Bits,
    keys: Bits,
    values: Bits,
    *,
    scale: float,
    mask: Mask,
    dtype: DType,
    sink_logits: Bits | None = None,
) -> Bits:
    """Attend ``queries`` to ``keys`` and return the weighted ``values`` as bits of ``dtype``, [B, H, L, E].

    ``queries`` is [B, H, L, D], ``keys`` [B, G, S, D] and ``values`` [B, G, S, E], bits of ``dtype``, with H a multiple
    of G and S at least 1. ``scale`` multiplies the queries.

    ``mask`` is None (every key), ``"causal"`` (query i sees keys 0 .. S - L + i), a bool array (True: visible) or bits
    of ``dtype`` to add to the scores; arrays broadcast to [B, H, L, S]. ``sink_logits`` [H] are the learned logits of
    one further place per head that takes weight and holds no value.

    Raises ValueError if shapes do not fit, TypeError if an array is not of the bits of ``dtype``.
    """
    _check_shapes(queries, keys, values)
    batch, heads, length, _ = queries.shape
    scores = attention_scores(queries, keys, scale, dtype)
    scores = masked(scores, mask, dtype)
    weights = _weights(scores, sink_logits, dtype)
    grouped_weights = _by_key_head(weights, keys.shape[1])
    output = multiply_matrices(grouped_weights, _rows(decode(values, dtype)), dtype)
    return encode(output.reshape(batch, heads, length, values.shape[3]), dtype)


def attention_scores(queries: Bits, keys: Bits, scale: float, dtype: DType) -> Float32:
    """Return the scores [B, H, L, S] of ``queries`` [B, H, L, D] against ``keys`` [B, G, S, D] before any mask."""
    batch, heads, length, _ = queries.shape
    scaled = scaled_queries(decode(queries, dtype), scale, dtype)
    keys_across = _rows(decode(keys, dtype)).transpose(0, 2, 1)
    scores = multiply_matrices(_by_key_head(scaled, keys.shape[1]), keys_across, dtype)
    return scores.reshape(batch, heads, length, keys.shape[2])


def scaled_queries(queries: Float32, scale: float, dtype: DType) -> Float32:
    """Multiply ``queries`` by ``scale``, where the scale itself is rounded to ``dtype`` first."""
    with np.errstate(all="ignore"):
        return round_to(round_to(np.asarray(scale, np.float32), dtype) * queries, dtype)


def masked(scores: Float32, mask: Mask, dtype: DType) -> Float32:
    """Apply ``mask`` to ``scores`` [B, H, L, S]; the kinds of mask are those of `attend`."""
    if mask is None:
        return scores
    if isinstance(mask, str):
        return np.where(causal_mask(scores.shape[2], scores.shape[3]), scores, lowest(dtype))
    _check_mask(mask, scores.shape)
    if is_additive(mask):
        with np.errstate(all="ignore"):
            return round_to(scores + decode(mask, dtype), dtype)
    return np.where(mask, scores, lowest(dtype))


def causal_mask(length: int, width: int) -> NDArray[np.bool_]:
    """Return the [length, width] mask in which the last query sees all keys and each earlier one a key less."""
    last_visible = np.arange(width - length, width)
    return np.arange(width)[np.newaxis, :] <= last_visible[:, np.newaxis]


def is_additive(mask: NDArray[np.bool_] | Bits) -> TypeGuard[Bits]:
    """Tell a mask of bits, which is added to the scores, from a bool mask."""
    return mask.dtype != np.bool_


def _weights(scores: Float32, sink_logits: Bits | None, dtype: DType) -> Float32:
    """Return the softmax weights [B, H, L, S] of ``scores``, with the sinks [H] counted in the sum if there are any."""
    if sink_logits is None:
        return softmax(scores, dtype)
    batch, heads, length, _ = scores.shape
    if sink_logits.shape != (heads,):
        raise ValueError(f"sink logits are one per query head, [{heads}], got {sink_logits.shape}")
    sinks = decode(sink_logits, dtype)[np.newaxis, :, np.newaxis, np.newaxis]
    first = np.broadcast_to(sinks, (batch, heads, length, 1))
    return softmax(np.concatenate([first, scores], axis=3), dtype)[..., 1:]


def _by_key_head(array: Float32, key_heads: int) -> Float32:
    """Join the query heads that share a key-value head: [B, H, L, X] to [B * G, (H / G) * L, X]."""
    batch, heads, length, last = array.shape
    return array.reshape(batch * key_heads, heads // key_heads * length, last)


def _rows(array: Float32) -> Float32:
    """Join batch rows and key-value heads: [B, G, S, X] to [B * G, S, X]."""
    batch, heads, width, last = array.shape
    return array.reshape(batch * heads, width, last)


def _check_shapes(queries: Bits, keys: Bits, values: Bits) -> None:
    """Raise ValueError, naming the three shapes, unless they are [B, H, L, D], [B, G, S, D] and [B, G, S, E]."""
    shapes = f"queries {queries.shape}, keys {keys.shape}, values {values.shape}"
    if not queries.ndim == keys.ndim == values.ndim == 4:
        raise ValueError(f"attention takes arrays of rank 4, got {shapes}")
    if keys.shape[:3] != values.shape[:3] or queries.shape[0] != keys.shape[0] or queries.shape[3] != keys.shape[3]:
        raise ValueError(f"queries [B, H, L, D], keys [B, G, S, D] and values [B, G, S, E] do not fit: {shapes}")
    if keys.shape[1] == 0 or queries.shape[1] % keys.shape[1] or keys.shape[2] == 0:
        raise ValueError(f"attention takes H a multiple of G and at least one key, got {shapes}")


def _check_mask(mask: NDArray[np.bool_] | Bits, scores_shape: tuple[int, ...]) -> None:
    """Raise ValueError unless ``mask`` broadcasts to the scores without widening them."""
    try:
        np.broadcast_to(mask, scores_shape)
    except ValueError:
        raise ValueError(f"a mask of shape {mask.shape} does not broadcast to [B, H, L, S] = {scores_shape}") from None
