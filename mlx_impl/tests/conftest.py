"""Arrays that carry token ids, so that tests can say which token stands where."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import mlx.core as mx
import pytest

from kvlaw.mlx_impl import Cache

Stamp = Callable[..., tuple[mx.array, mx.array]]


def stamped(
    ids: Sequence[int],
    *,
    batch: int = 1,
    heads: int = 1,
    key_dim: int = 2,
    value_dim: int = 2,
    dtype: mx.Dtype = mx.float32,
) -> tuple[mx.array, mx.array]:
    """Make keys and values ``[batch, heads, len(ids), dim]``.

    Key elements are ``id + 64 * head + 128 * row``, value elements one half more.
    """
    token = mx.array(list(ids), mx.float32)[None, None, :, None]
    lane = mx.arange(heads)[None, :, None, None] * 64 + mx.arange(batch)[:, None, None, None] * 128
    code = token + lane
    keys = mx.broadcast_to(code, (batch, heads, len(ids), key_dim)).astype(dtype)
    values = mx.broadcast_to(code + 0.5, (batch, heads, len(ids), value_dim)).astype(dtype)
    return keys, values


def ids_of(keys: mx.array, values: mx.array | None = None) -> list[int]:
    """Read the token ids of columns back, checking that every row, head and element agrees."""
    plain = keys.astype(mx.float32)
    batch, heads, _, _ = plain.shape
    lane = mx.arange(heads)[None, :, None, None] * 64 + mx.arange(batch)[:, None, None, None] * 128
    code = plain[0, 0, :, 0]
    spare = code == 0  # spare columns are zero in every lane
    expected = mx.where(spare[None, None, :, None], 0, code[None, None, :, None] + lane)
    assert bool(mx.all(plain == expected))
    if values is not None:
        half = mx.where(spare[None, None, :, None], 0, expected + 0.5)
        assert bool(mx.all(values.astype(mx.float32) == half[..., :1]))
    listed: Any = code.tolist()
    return [int(number) for number in listed]


def shown(cache: Cache) -> dict[str, object]:
    """Everything that a caller can observe of a cache, as plain values."""
    state = {name: part.tolist() if isinstance(part, mx.array) else part for name, part in cache.state().items()}
    masks = [_plain(cache.mask(1, phase="decode", as_array=True)), _plain(cache.mask(3, phase="window"))]
    trims = [cache.can_trim(n) for n in range(cache.offset + 2)]
    numbers = [cache.offset, cache.size, cache.columns, cache.write_index, cache.rows]
    sizes = [cache.nbytes, cache.bytes_per_token]
    names = [cache.identity, cache.storage]
    return {"state": state, "masks": masks, "trims": trims, "numbers": numbers, "sizes": sizes, "names": names}


def _plain(mask: object) -> object:
    return mask.tolist() if isinstance(mask, mx.array) else mask


@pytest.fixture
def stamp() -> Stamp:
    return stamped


@pytest.fixture
def ids() -> Callable[..., list[int]]:
    return ids_of


@pytest.fixture
def show() -> Callable[[Cache], dict[str, object]]:
    return shown


@pytest.fixture(scope="module")
def uncompiled() -> Iterator[None]:
    """Spare seconds of compiling per kernel; results are the same bits (numerics.md section 6)."""
    mx.disable_compile()
    yield
    mx.enable_compile()
