"""What is saved of a recurrent layer: its convolution, its offset, and the two arrays of its state.

As in ``saved_layers`` a description is believed only as far as such a cache can stand.
"""

from collections.abc import Mapping
from typing import Any

import mlx.core as mx

from kvlaw.mlx_impl.errors import CacheError, FileError
from kvlaw.mlx_impl.file_format import DTYPES, NAMES
from kvlaw.mlx_impl.inputs import FLOATS
from kvlaw.mlx_impl.layer_description import LayerDescription, Restored
from kvlaw.mlx_impl.recurrent import RecurrentCache
from kvlaw.mlx_impl.recurrent_state import State
from kvlaw.spec.cite import clause

KIND = "recurrent"


@clause("REC-18", "PERS-15")
def describe_state(cache: RecurrentCache) -> tuple[LayerDescription, dict[str, mx.array]]:
    """Describe a recurrent layer, and name its arrays.

    Raises:
        FileError: if a round is open.
    """
    if cache.in_round:
        raise FileError("a save in a round", "commit it or roll it back first", "PERS-15")
    state, offset = cache.content
    config, place = {"kind": KIND, "conv": cache.kernel}, {"offset": offset}
    if state is None:
        return LayerDescription(config, place, False, 0, None, None), {}
    (batch, _, channels), (_, *matrix) = state.tail.shape, state.matrix.shape
    told = LayerDescription(config, place, False, 0, (batch, channels, *matrix), NAMES[state.tail.dtype])
    return told, {name: array for name, array in state.arrays.items() if array.size}


@clause("REC-18", "PERS-12")
def restored_state(layer: LayerDescription, number: int, tensors: Mapping[str, mx.array]) -> Restored:
    """Make a recurrent cache, and say which tensors it takes, and how it comes to hold them.

    Raises:
        FileError: if the description is of no cache that can be, or tensors are missing or of another shape.
    """
    cache = _empty(layer)
    if set(layer.place) != {"offset"} or layer.converted or layer.floor:
        raise FileError(f"a place {layer.place!a:.80}", "a recurrent layer stands nowhere like it", "PERS-9")
    offset = layer.place["offset"]
    if layer.shapes is None or layer.dtype is None:
        if offset:
            raise FileError(f"{offset} positions", "positions and shapes come together", "PERS-9")
        return Restored(cache, (), lambda: cache.hold(None, 0))
    wanted = _wanted(layer, cache.kernel)
    found = {name: _taken(f"{number}.{name}", shape, dtype, tensors) for name, (shape, dtype) in wanted.items()}
    names = tuple(f"{number}.{name}" for name, array in found.items() if array.size)
    state = State(found["conv"], found["matrix"])
    return Restored(cache, names, lambda: cache.hold(state, offset))


def _empty(layer: LayerDescription) -> RecurrentCache:
    config: dict[str, Any] = {name: value for name, value in layer.config.items() if name != "kind"}
    try:
        if set(config) != {"conv"}:
            raise FileError(f"{sorted(config)!a:.80}", "a convolution is needed, and nothing else", "PERS-9")
        return RecurrentCache(config["conv"])
    except CacheError as error:
        raise FileError(f"a layer {layer.config!a:.80}", f"{error}", "PERS-9") from None


def _wanted(layer: LayerDescription, kernel: int) -> dict[str, tuple[tuple[int, ...], mx.Dtype]]:
    """Give shape and dtype of both arrays."""
    shapes, dtype = layer.shapes or (), DTYPES[layer.dtype or "F32"][0]
    if len(shapes) != 5 or 0 in shapes or dtype not in FLOATS:  # batch, channels, heads, value dim, key dim
        raise FileError(f"shapes {shapes} of {layer.dtype}", "no recurrent layer holds such", "PERS-9")
    batch, channels, *matrix = shapes
    return {"conv": ((batch, kernel - 1, channels), dtype), "matrix": ((batch, *matrix), mx.float32)}


def _taken(name: str, shape: tuple[int, ...], dtype: mx.Dtype, tensors: Mapping[str, mx.array]) -> mx.array:
    found = mx.zeros(shape, dtype) if 0 in shape else tensors.get(name)
    if found is None or found.shape != shape or found.dtype != dtype:
        given = "no tensor" if found is None else f"a tensor {found.shape} of {found.dtype}"
        raise FileError(f"{given} for {name}", f"{shape} of {dtype} is needed", "PERS-9")
    return found
