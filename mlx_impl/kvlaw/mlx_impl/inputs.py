"""What an append accepts: keys ``[B, H, L, Dk]`` and values ``[B, H, L, Dv]`` of one floating dtype.

The first append fixes a cache's ``Layout``; later ones must agree with it in all but L.  Its
``fits_decode`` and ``fits_window`` are the hot path, a handful of comparisons; ``admit`` finds the reason of a refusal.
"""

from functools import lru_cache
from typing import cast

import attrs
import mlx.core as mx

from kvlaw.mlx_impl.errors import DTypeError, ShapeError
from kvlaw.spec.cite import clause

FLOATS = (mx.bfloat16, mx.float16, mx.float32)
"""The dtypes that are stored as they are."""

Shape = tuple[int, ...]

Array = mx.array


def _keys_step(layout: "Layout") -> Shape:
    return (layout.batch, layout.heads, 1, layout.key_dim)


def _values_step(layout: "Layout") -> Shape:
    return (layout.batch, layout.heads, 1, layout.value_dim)


@attrs.frozen(eq=False)
class Layout:
    """Shapes and dtype that a cache holds, all but the number of columns."""

    batch: int
    heads: int
    key_dim: int
    value_dim: int
    dtype: mx.Dtype
    keys_step: Shape = attrs.field(init=False, default=attrs.Factory(_keys_step, takes_self=True))
    values_step: Shape = attrs.field(init=False, default=attrs.Factory(_values_step, takes_self=True))

    @property
    @clause("GROW-5")
    def bytes_per_token(self) -> int:
        """Return the dense bytes of one position of one row."""
        return self.heads * (self.key_dim + self.value_dim) * self.dtype.size

    def fits_decode(self, keys: mx.array, values: mx.array) -> bool:
        """Say whether the arrays are one position per row of this layout."""
        return (
            type(keys) is Array
            and type(values) is Array
            and keys.shape == self.keys_step
            and values.shape == self.values_step
            and keys.dtype == self.dtype
            and values.dtype == self.dtype
        )

    def fits_window(self, keys: mx.array, values: mx.array) -> bool:
        """Say whether the arrays are the same number of positions per row of this layout."""
        if type(keys) is not Array or type(values) is not Array or keys.ndim != 4:
            return False
        length = keys.shape[2]
        return (
            length > 0
            and keys.shape == (self.batch, self.heads, length, self.key_dim)
            and values.shape == (self.batch, self.heads, length, self.value_dim)
            and keys.dtype == self.dtype
            and values.dtype == self.dtype
        )

    def fits_queries(self, queries: mx.array, length: int) -> bool:
        """Say whether ``queries`` are ``[batch, a multiple of heads, length, key_dim]`` of this dtype."""
        if type(queries) is not Array or queries.dtype != self.dtype:
            return False
        shape = queries.shape
        return (
            len(shape) == 4
            and shape == (self.batch, shape[1], length, self.key_dim)
            and shape[1] > 0
            and shape[1] % self.heads == 0
        )

    def of_rows(self, rows: int) -> "Layout":
        """Return the layout of the like with ``rows`` rows."""
        return _layout(rows, self.heads, self.key_dim, self.value_dim, self.dtype)

    def describe(self) -> str:
        """Write the layout for an error message."""
        shapes = f"keys [{self.batch}, {self.heads}, L, {self.key_dim}], values [..., {self.value_dim}]"
        return f"{shapes} of {self.dtype}"


@lru_cache(maxsize=64)
def _layout(batch: int, heads: int, key_dim: int, value_dim: int, dtype: mx.Dtype) -> Layout:
    """Return one layout for all caches that hold the like: the layers of a model then compare with the same object."""
    return Layout(batch, heads, key_dim, value_dim, dtype)


@clause("ERR-2", "ERR-3", "ERR-4")
def admit(keys: object, values: object, layout: Layout | None, *, decode: bool = False) -> Layout:
    """Return the layout of the arrays of an append, which is ``layout`` if there is one.

    Raises:
        DTypeError: if one is no ``mx.array``, not bf16, f16 or f32, or not of the same dtype as the other or as what
            is stored (ERR-3).
        ShapeError: if one is not of rank 4 or has an empty axis, if they disagree in B, H or L, if they do not fit
            what is stored (ERR-2), or if a decode does not bring exactly one position (ERR-4).
    """
    ours, theirs = _shape_of(keys, "keys"), _shape_of(values, "values")
    keys, values = cast("mx.array", keys), cast("mx.array", values)
    if keys.dtype != values.dtype:
        raise DTypeError(f"keys of {keys.dtype}, values of {values.dtype}", "both must have one dtype", "ERR-3")
    if ours[:3] != theirs[:3]:
        raise ShapeError(f"keys {ours}, values {theirs}", "B, H and L must agree", "ERR-2")
    if decode and ours[2] != 1:
        raise ShapeError(f"a decode of {ours[2]} positions", "a decode appends exactly 1 per row", "ERR-4")
    found = _layout(ours[0], ours[1], ours[3], theirs[3], keys.dtype)
    return found if layout is None else _agree(found, layout)


def _shape_of(array: object, name: str) -> Shape:
    """Return the shape of an array that could be stored somewhere."""
    if not isinstance(array, mx.array):
        raise DTypeError(f"{name} of type {type(array).__name__}", "an mx.array is needed", "ERR-2")
    if array.dtype not in FLOATS:
        raise DTypeError(f"{name} of {array.dtype}", "bfloat16, float16 or float32 is needed", "ERR-3")
    shape = array.shape
    if len(shape) != 4:
        raise ShapeError(f"{name} of shape {shape}", "the shape is [B, H, L, D]", "ERR-2")
    if 0 in shape:
        raise ShapeError(f"{name} of shape {shape}", "no axis may be empty", "ERR-4" if shape[2] == 0 else "ERR-2")
    return shape


def _agree(found: Layout, layout: Layout) -> Layout:
    if found.dtype != layout.dtype:
        raise DTypeError(f"an append of {found.dtype}", f"the cache holds {layout.dtype}", "ERR-3")
    if (found.keys_step, found.values_step) != (layout.keys_step, layout.values_step):
        raise ShapeError(f"an append of {found.describe()}", f"the cache holds {layout.describe()}", "ERR-2")
    return layout
