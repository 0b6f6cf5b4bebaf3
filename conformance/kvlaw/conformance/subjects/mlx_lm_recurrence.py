"""mlx-lm's gated delta rule on raw bits, as its models call it: what the campaign of the recurrence asks.

Its compiled step is not compiled here: that costs seconds for every sort of case on a new machine, and gives the same
bits (measured on mlx 0.32.4).

mlx and mlx-lm are imported when the function is called: a vendor without them checks other targets.
"""

from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from kvlaw.conformance.subjects.canary import arithmetic_is_modelled
from kvlaw.conformance.subjects.mlx_arithmetic import from_mlx, to_mlx
from kvlaw.reference.numerics import Bits, encode, equal_bits
from kvlaw.reference.numerics.gated_delta import Padding, Projected
from kvlaw.reference.numerics.logarithm import log_of_one_plus


def gated_delta_update(projected: Projected, state: Bits | None, padding: Padding) -> tuple[Bits, Bits]:
    """Return what ``mlx_lm.models.gated_delta.gated_delta_update`` makes of the inputs: outputs and state."""
    import mlx.core as mx
    from mlx_lm.models import gated_delta

    dtype = projected.dtype
    update: Any = gated_delta.gated_delta_update
    counted: Any = padding  # MLX takes NumPy arrays, but its stubs leave them out
    alike = (projected.queries, projected.keys, projected.values, projected.decay, projected.beta)
    mx.disable_compile()
    try:
        outputs, then = update(
            *(to_mlx(part, dtype) for part in alike),
            to_mlx(projected.log_rates, "f32"),
            to_mlx(projected.bias, dtype),
            None if state is None else to_mlx(state, "f32"),
            None if padding is None else mx.array(counted),
        )
        return from_mlx(outputs), from_mlx(then)
    finally:
        mx.enable_compile()


@cache
def recurrence_is_modelled() -> bool:
    """Tell whether mlx-lm is there, and MLX computes as the model does, log(1 + x) too, which is the C library's."""
    try:
        import mlx.core as mx

        drawn = np.linspace(0, 1, 4001, dtype=np.float32)
        logarithms = from_mlx(mx.log1p(to_mlx(encode(drawn, "f32"), "f32")))
    except Exception:  # whatever a foreign backend raises, it isn't the modelled one
        return False
    agrees = equal_bits(logarithms, encode(log_of_one_plus(drawn), "f32"), "f32")
    return find_spec("mlx_lm") is not None and agrees and arithmetic_is_modelled()
