"""The softmax of MLX's x86-64 CPU in its precise form, bit for bit.

All steps are float32, whatever the format of the scores: subtract the row's maximum, take `exponential`, add the row up
from the first element to the last, multiply by the rounded reciprocal of the sum (there is no division by it), and
round once to the format. A row that contains NaN is all NaN, and so is a row whose maximum is infinite.
"""

import numpy as np

from kvlaw.reference.numerics.exponential import exponential
from kvlaw.reference.numerics.formats import DType, Float32, round_to


def softmax(scores: Float32, dtype: DType) -> Float32:
    """Turn ``scores`` [..., S] into weights [..., S] over the last axis, rounded to ``dtype``; S is at least 1."""
    with np.errstate(all="ignore"):
        powers = exponential(scores - scores.max(axis=-1, keepdims=True))
        reciprocal: Float32 = np.divide(np.float32(1), sequential_sum(powers))
        return round_to(powers * reciprocal, dtype)


def sequential_sum(values: Float32) -> Float32:
    """Add ``values`` [..., S] over the last axis in float32, from index 0 upwards, and return [..., 1]."""
    total = np.zeros(values.shape[:-1], np.float32)
    for element in np.ascontiguousarray(np.moveaxis(values, -1, 0)):
        np.add(total, element, out=total)
    return total[..., np.newaxis]
