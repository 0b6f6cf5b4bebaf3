"""MLX arrays as the suite moves them: every bit in and out as it is (``numerics.md``, section 2).

In: ``mx.array(np.uint16).view(mx.bfloat16)``, one copy. Out: ``np.array(x.view(mx.uint16))``, a copy, since a view of
MLX's memory would change or dangle when MLX reuses it. MLX is imported when the first ``MlxArrays`` is made.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from kvlaw.conformance.decode import NonsenseError
from kvlaw.conformance.subjects.arrays import POISON, mask_bits
from kvlaw.reference.numerics.affine import Codes
from kvlaw.spec.config import Config
from kvlaw.spec.observations import Bits


def has_mlx() -> bool:
    """Say whether MLX is installed, without importing it."""
    return find_spec("mlx") is not None and find_spec("mlx.core") is not None


class MlxArrays:
    """MLX arrays, and MLX's fused attention."""

    name = "mlx"
    attends = True

    def __init__(self, *, cpu: bool = False) -> None:
        """Import MLX; ``cpu`` computes on the CPU, where the arithmetic can be compared (the only device on Linux)."""
        import mlx.core as mx

        if cpu:
            mx.set_default_device(mx.Device(mx.cpu))
        self._mx: Any = mx
        self._dtypes: dict[str, Any] = {"bf16": mx.bfloat16, "f16": mx.float16, "f32": mx.float32}
        self._names: dict[Any, str] = {dtype: name for name, dtype in self._dtypes.items()}
        self._unsigned: dict[Any, Any] = {
            mx.bfloat16: (np.uint16, mx.uint16),
            mx.float16: (np.uint16, mx.uint16),
            mx.float32: (np.uint32, mx.uint32),
        }
        self._attend: Any = mx.fast.scaled_dot_product_attention

    def tensor(self, bits: Bits, dtype: str) -> Any:
        """Make a new array, computed, so that it is a buffer of its own."""
        return self._mx.array(bits).view(self._dtypes[dtype])

    def bits(self, array: Any) -> npt.NDArray[Any]:
        """Copy the bits of a floating array; copy any other as it is.

        A contiguous array is copied out of its buffer, without asking MLX for a view of another dtype: 1 µs, not 20.
        """
        unsigned = self._unsigned.get(array.dtype)
        if unsigned is None:
            return np.array(array)
        buffer = memoryview(array)
        if buffer.c_contiguous and buffer.nbytes:
            return np.frombuffer(buffer, unsigned[0]).reshape(buffer.shape).copy()
        return np.array(array.view(unsigned[1]))

    def dtype_of(self, array: Any) -> str:
        """Name the dtype."""
        if not isinstance(array, self._mx.array):
            raise NonsenseError(f"a {type(array).__name__} instead of an mx.array")
        return self._names.get(array.dtype) or str(array.dtype)

    def mask(self, array: Any) -> npt.NDArray[np.bool_]:
        """Copy a mask."""
        if isinstance(array, self._mx.array) and self._mx.issubdtype(array.dtype, self._mx.floating):
            array = array.astype(self._mx.float32)
        return mask_bits(np.array(array))

    def visible(self, mask: npt.NDArray[np.bool_]) -> Any:
        """Make a bool array."""
        return self._mx.array(mask)

    def is_array(self, value: Any) -> bool:
        """Say whether this is an MLX array."""
        return isinstance(value, self._mx.array)

    def dtype(self, name: str) -> Any:
        """Give the MLX dtype."""
        return self._dtypes[name]

    def settle(self, arrays: Sequence[Any]) -> None:
        """Compute the arrays in one go; what is no MLX array is left to who looks at it."""
        self._mx.eval([array for array in arrays if isinstance(array, self._mx.array)])

    def poison(self, array: Any) -> None:
        """Overwrite an array in place, as seen by all who hold this very object."""
        array[...] = POISON

    def attend(self, queries: Any, keys: Any, values: Any, scale: float, mask: Any) -> Any:
        """Attend with MLX's fused kernel, as mlx-lm's models do."""
        if isinstance(mask, np.ndarray):
            mask = self._mx.array(mask)
        return self._attend(queries, keys, values, scale=scale, mask=mask)

    def attend_codes(
        self, queries: Any, keys: Any, values: Any, scale: float, mask: npt.NDArray[np.bool_], config: Config
    ) -> Any:
        """Attend with MLX's plain operations over codes, as mlx-lm's models do: the kernel of decodes of every set."""
        from kvlaw.conformance.subjects.mlx_codec import attend_quantized

        coded = [
            Codes(self.bits(words), self.bits(scales), self.bits(biases)) for words, scales, biases in (keys, values)
        ]
        widths = {"key_bits": config.bits or 0, "value_bits": config.bits_of_values or 0, "group": config.group}
        asked = {"scale": scale, "mask": mask, "dtype": config.dtype, **widths}
        attend: Any = attend_quantized
        return self.tensor(attend(self.bits(queries), *coded, **asked), config.dtype)
