"""The gated delta rule in plain operations: what a recurrent cache runs unless it is handed another kernel.

Whatever is handed in as ``run`` has the signature of ``gated_delta`` and must be sequential: the state after some
positions, and their outputs, must not depend on how they are split into calls.
"""

from collections.abc import Callable
from typing import TypeAlias

import mlx.core as mx

Run: TypeAlias = Callable[
    [mx.array, mx.array, mx.array, mx.array, mx.array, mx.array, mx.array | None], tuple[mx.array, mx.array]
]
"""Queries, keys, values, decay, beta, state and padding to outputs and state."""


def gated_delta(
    queries: mx.array,
    keys: mx.array,
    values: mx.array,
    decay: mx.array,
    beta: mx.array,
    state: mx.array,
    padding: mx.array | None,
) -> tuple[mx.array, mx.array]:
    """Run L positions from ``state`` ``[B, H, E, D]``, and return outputs ``[B, L, H, E]`` and the state after them.

    ``queries`` and ``keys`` are ``[B, L, G, D]``, ``values`` ``[B, L, H, E]``, ``decay`` ``[B, L, H]`` or
    ``[B, L, H, D]``, ``beta`` ``[B, L, H]``.  Where ``padding`` ``[B, L]`` is false the state stays as it is.
    """
    repeats = values.shape[2] // keys.shape[2]
    if repeats > 1:
        queries, keys = mx.repeat(queries, repeats, axis=2), mx.repeat(keys, repeats, axis=2)
    gates = decay[..., None, None] if decay.ndim == 3 else decay[..., None, :]
    outputs: list[mx.array] = []
    for position in range(values.shape[1]):
        key, decayed = keys[:, position, :, None], state * gates[:, position]
        delta = (values[:, position] - (decayed * key).sum(axis=-1)) * beta[:, position, :, None]
        written = decayed + key * delta[..., None]
        outputs.append((written * queries[:, position, :, None]).sum(axis=-1).astype(queries.dtype))
        state = written if padding is None else mx.where(padding[:, position, None, None, None], written, state)
    return mx.stack(outputs, axis=1), state
