"""Masks of attention as campaigns draw them: of any shape that broadcasts, and of caches before and after the wrap."""

from collections.abc import Callable
from typing import TypeAlias

import attrs
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from kvlaw.reference.numerics import DType, Mask, causal_mask, encode

DrawMask: TypeAlias = Callable[[Generator, "Sizes", DType], Mask]


@attrs.frozen
class Sizes:
    """The sizes of one case: B, H, G, L, S, D and E of `kvlaw.reference.numerics.attend`."""

    batch: int
    heads: int
    key_heads: int
    length: int
    width: int
    head_size: int
    value_size: int


def no_mask(_rng: Generator, _sizes: Sizes, _dtype: DType) -> Mask:
    """Leave every key visible."""
    return None


def causal(_rng: Generator, _sizes: Sizes, _dtype: DType) -> Mask:
    """Ask for the causal mask by name."""
    return "causal"


def causal_array(_rng: Generator, sizes: Sizes, _dtype: DType) -> Mask:
    """Write the causal mask out, [L, S]."""
    return causal_mask(sizes.length, sizes.width)


def any_rows(rng: Generator, sizes: Sizes, _dtype: DType) -> Mask:
    """Draw a bool mask [L, S] in which about one row in ten sees nothing."""
    return _bools(rng, (sizes.length, sizes.width))


def any_rows_of_the_batch(rng: Generator, sizes: Sizes, dtype: DType) -> Mask:
    """Draw the same of shape [L, S] or [B, 1, L, S]: mlx-lm takes no other over codes."""
    return any_rows(rng, sizes, dtype) if rng.random() < 0.5 else _bools(rng, _shape(sizes, sizes.batch, 1))


def any_rows_of_all_shapes(rng: Generator, sizes: Sizes, _dtype: DType) -> Mask:
    """Draw the same of shape [L, S], [B, 1, L, S] or [B, H, L, S]."""
    return _bools(rng, _any_shape(rng, sizes))


def additive(rng: Generator, sizes: Sizes, dtype: DType) -> Mask:
    """Draw an additive mask: normal numbers, about a third of them -infinity, in few cases all of a row."""
    shape = _any_shape(rng, sizes)
    addends = np.where(rng.random(shape) < 0.3, -np.inf, rng.standard_normal(shape))
    addends[..., 0] = np.where(rng.random(shape[:-1]) < 0.95, 0, addends[..., 0])
    return encode(addends, dtype)


def ring(rng: Generator, sizes: Sizes, _dtype: DType) -> Mask:
    """Draw the mask [L, S] of the newest L positions on a full ring of S slots, wrapped at a random place.

    The columns stand in the ring's order. The window is drawn so that the oldest query's whole window is still on the
    ring: at most S - L + 1. S is at least L.
    """
    length, width = sizes.length, sizes.width
    offset = width + int(rng.integers(0, 3 * width))
    window = int(rng.integers(1, width - length + 2))
    newest_in_slot = offset - 1 - (offset - 1 - np.arange(width)) % width
    return _windowed(newest_in_slot, np.arange(offset - length, offset), window)


def window(rng: Generator, sizes: Sizes, _dtype: DType) -> Mask:
    """Draw the mask [L, S] of a window append on a ring that has wrapped: in order, the pinned positions first.

    Of the S columns, the last L are new; a query sees its window of what is behind the pinned ones. S is at least L.
    """
    length, width = sizes.length, sizes.width
    pinned = int(rng.integers(0, min(4, width - length) + 1))
    reach = int(rng.integers(1, width - pinned + 1))
    columns = np.arange(width)
    queries = np.arange(width - length, width)
    return _windowed(columns, queries, reach) | ((columns < pinned) & (columns <= queries[:, np.newaxis]))


def _windowed(positions: NDArray[np.int64], queries: NDArray[np.int64], reach: int) -> NDArray[np.bool_]:
    """Let each query see ``reach`` of the ``positions`` up to its own."""
    behind = queries[:, np.newaxis] - positions
    return (behind >= 0) & (behind < reach)


def _bools(rng: Generator, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    seeing_rows = rng.random((*shape[:-1], 1)) < 0.9
    return (rng.random(shape) < 0.6) & seeing_rows


def _shape(sizes: Sizes, *leading: int) -> tuple[int, ...]:
    return (*leading, sizes.length, sizes.width)


def _any_shape(rng: Generator, sizes: Sizes) -> tuple[int, ...]:
    """Draw one of the three shapes of an array mask."""
    leading = ((), (sizes.batch, 1), (sizes.batch, sizes.heads))[int(rng.integers(3))]
    return _shape(sizes, *leading)
