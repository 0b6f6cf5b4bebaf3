"""What an adapter needs of an array library: bits in, bits out, and attention where the library has it.

``Arrays`` is the protocol, ``NumpyArrays`` the plain case; ``mlx_arrays`` has MLX's. ``mask_bits`` reads array masks
of both usual forms: bool (True is visible), and additive (0 is visible, a huge negative number or -inf is hidden).
"""

from collections.abc import Sequence
from typing import Any, Protocol, cast

import ml_dtypes
import numpy as np
import numpy.typing as npt

from kvlaw.conformance.decode import NonsenseError
from kvlaw.spec.config import Config
from kvlaw.spec.observations import Bits

POISON = 77.0
"""What the caller's arrays are overwritten with: exact in every dtype, and no token's column."""

HIDDEN = -1e4
"""An additive mask hides with this or less."""


class Arrays(Protocol):
    """An array library."""

    name: str
    attends: bool

    def tensor(self, bits: Bits, dtype: str) -> Any:
        """Make a new array from bits."""
        ...

    def bits(self, array: Any) -> npt.NDArray[Any]:
        """Copy the bits of a floating array; copy any other as it is."""
        ...

    def dtype_of(self, array: Any) -> str:
        """Name the dtype: ``bf16``, ``f16``, ``f32``, or the library's word for another."""
        ...

    def mask(self, array: Any) -> npt.NDArray[np.bool_]:
        """Copy an array mask."""
        ...

    def visible(self, mask: npt.NDArray[np.bool_]) -> Any:
        """Make a mask: a bool array, True where a query sees a column."""
        ...

    def is_array(self, value: Any) -> bool:
        """Say whether this is one of the library's arrays."""
        ...

    def dtype(self, name: str) -> Any:
        """Give the library's dtype of a name."""
        ...

    def settle(self, arrays: Sequence[Any]) -> None:
        """Compute lazy arrays."""
        ...

    def poison(self, array: Any) -> None:
        """Overwrite an array in place."""
        ...

    def attend(self, queries: Any, keys: Any, values: Any, scale: float, mask: Any) -> Any:
        """Attend ``[B, H, L, D]`` over ``[B, Hkv, S, D]`` with a mask of the library's, None or ``"causal"``."""
        ...

    def attend_codes(
        self, queries: Any, keys: Any, values: Any, scale: float, mask: npt.NDArray[np.bool_], config: Config
    ) -> Any:
        """Attend over codes, triples of words, scales and biases, with the library's plain operations."""
        ...


def mask_bits(mask: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Read a bool or an additive mask; raise ``NonsenseError`` for another."""
    if mask.dtype == np.bool_:
        return mask
    if not np.issubdtype(mask.dtype, np.floating):
        raise NonsenseError(f"a mask of {mask.dtype}, neither bool nor floating")
    seen, hidden = mask == 0, mask <= HIDDEN
    if not (seen | hidden).all():
        raise NonsenseError(f"an additive mask with other entries than 0 and {HIDDEN:g} or less")
    return seen


class NumpyArrays:
    """NumPy arrays, with ``ml_dtypes.bfloat16`` for bf16; they have no attention of their own."""

    name = "numpy"
    attends = False
    _dtypes: dict[str, np.dtype[Any]] = {  # noqa: RUF012  # a constant table
        "bf16": np.dtype(ml_dtypes.bfloat16),
        "f16": np.dtype(np.float16),
        "f32": np.dtype(np.float32),
    }
    _names: dict[np.dtype[Any], str] = {dtype: name for name, dtype in _dtypes.items()}  # noqa: RUF012  # as above

    def tensor(self, bits: Bits, dtype: str) -> Any:
        """Make a new, writable array."""
        return np.array(bits, order="C").view(self._dtypes[dtype])

    def bits(self, array: Any) -> npt.NDArray[Any]:
        """Copy the bits of a floating array, also of a view; copy any other as it is."""
        copy = np.array(array, order="C")
        if copy.dtype not in self._names:
            return copy
        return copy.view(np.uint32 if copy.dtype.itemsize == 4 else np.uint16)

    def dtype_of(self, array: Any) -> str:
        """Name the dtype."""
        if not isinstance(array, np.ndarray):
            raise NonsenseError(f"a {type(array).__name__} instead of a NumPy array")
        dtype = cast("np.dtype[Any]", array.dtype)  # type: ignore[reportUnknownMemberType] # isinstance leaves it open
        return self._names.get(dtype, str(dtype))

    def mask(self, array: Any) -> npt.NDArray[np.bool_]:
        """Copy a mask."""
        return mask_bits(np.array(array))

    def visible(self, mask: npt.NDArray[np.bool_]) -> Any:
        """Give the mask itself."""
        return mask

    def is_array(self, value: Any) -> bool:
        """Say whether this is a NumPy array."""
        return isinstance(value, np.ndarray)

    def dtype(self, name: str) -> Any:
        """Give the NumPy dtype."""
        return self._dtypes[name]

    def settle(self, arrays: Sequence[Any]) -> None:
        """Do nothing: NumPy is not lazy."""

    def poison(self, array: Any) -> None:
        """Overwrite an array in place."""
        array[...] = POISON

    def attend(self, queries: Any, keys: Any, values: Any, scale: float, mask: Any) -> Any:
        """Raise: NumPy has no attention."""
        raise NotImplementedError

    def attend_codes(
        self, queries: Any, keys: Any, values: Any, scale: float, mask: npt.NDArray[np.bool_], config: Config
    ) -> Any:
        """Raise: NumPy has no attention."""
        raise NotImplementedError
