"""What is saved of a cache: its configuration, where it stands, and the columns that hold positions.

A ``LayerDescription`` is plain data, read from JSON and believed only as far as such a cache can stand.
``described`` takes caches apart, ``rebuilt`` makes them of descriptions and tensors; the spare columns are zeros again.
``saved_states`` does both for recurrent layers.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import mlx.core as mx

from kvlaw.mlx_impl.caches import Cache
from kvlaw.mlx_impl.codes import AffinePlanes
from kvlaw.mlx_impl.errors import CacheError, FileError
from kvlaw.mlx_impl.evaluate import evaluate
from kvlaw.mlx_impl.file_format import DTYPES, NAMES
from kvlaw.mlx_impl.geometry import FullGeometry, Geometry, RingGeometry
from kvlaw.mlx_impl.inputs import FLOATS, Layout
from kvlaw.mlx_impl.kinds import FullCache, RingCache, make
from kvlaw.mlx_impl.layer_description import LayerDescription, Restored
from kvlaw.mlx_impl.planes import DensePlanes, Planes
from kvlaw.mlx_impl.precision import Precision
from kvlaw.mlx_impl.recurrent import RecurrentCache
from kvlaw.mlx_impl.saved_states import KIND, describe_state, restored_state
from kvlaw.mlx_impl.standing import Content
from kvlaw.spec.cite import clause

MOST_COLUMNS = 2**31 - 1
"""As many columns as MLX can count."""
PARTS = ("words", "scales", "biases")


def described(caches: Sequence[Cache | RecurrentCache]) -> tuple[list[LayerDescription], dict[str, mx.array]]:
    """Describe caches, and name their tensors.

    Raises:
        FileError: if there is none, one is of no kind that can be saved, or a round is open.
    """
    layers: list[LayerDescription] = []
    tensors: dict[str, mx.array] = {}
    if not caches:
        raise FileError("a save of no caches", "at least one layer is needed", "PERS-13")
    for number, cache in enumerate(caches):
        told, arrays = describe_state(cache) if isinstance(cache, RecurrentCache) else _described(cache)
        layers.append(told)
        tensors |= {f"{number}.{name}": array for name, array in arrays.items()}
    return layers, tensors


def _described(cache: Cache) -> tuple[LayerDescription, dict[str, mx.array]]:
    """Describe a cache of columns, and name those of its arrays that hold positions."""
    told, content = _description(cache), cache.content
    active = content.geometry.active
    return told, content.planes.first(active).arrays if content.planes is not None and active else {}


@clause("PERS-15")
def _description(cache: Cache) -> LayerDescription:
    if not isinstance(cache, FullCache | RingCache):
        possible = "growing caches, rings and recurrent caches can be; a row of a group is extracted first"
        raise FileError(f"a save of a {type(cache).__name__}", possible, "PERS-1")
    if cache.in_round:
        raise FileError("a save in a round", "commit it or roll it back first", "PERS-15")
    content = cache.content
    layout = content.layout
    shapes = (layout.batch, layout.heads, layout.key_dim, layout.value_dim) if layout else None
    return LayerDescription(
        {**_kind(content.geometry), **_policy(cache.policy)},
        _place(content.geometry),
        content.converted,
        content.floor,
        shapes,
        NAMES[layout.dtype] if layout else None,
    )


def _kind(geometry: Geometry) -> dict[str, Any]:
    if isinstance(geometry, RingGeometry):
        return {"kind": "ring", "window": geometry.window, "sinks": geometry.sinks}
    return {"kind": "full", "window": None, "sinks": 0}


def _policy(policy: Precision) -> dict[str, Any]:
    """Give what ``make`` makes the policy of; a kernel set goes with it, so that reads go on as they were."""
    if policy.codes is None:
        return {}
    codec, kernels = policy.codes.codec, policy.codes.kernels.name
    told: dict[str, Any] = {"bits": codec.bits, "value_bits": codec.value_bits, "group": codec.group}
    dtype = {} if policy.dtype is None else {"dtype": NAMES[policy.dtype]}
    return {**told, "start": policy.start, "kernels": kernels, **dtype}


def _place(geometry: Geometry) -> dict[str, int]:
    place = {"offset": geometry.offset, "columns": geometry.columns}
    if isinstance(geometry, RingGeometry):
        place |= {"write_index": geometry.write_index, "rotated": int(geometry.rotated), "block": geometry.block}
    return place


@clause("PERS-1", "PERS-2", "PERS-6", "PERS-7", "PERS-12", "PERS-17")
def rebuilt(layers: Sequence[LayerDescription], tensors: Mapping[str, mx.array]) -> list[Any]:
    """Make caches, after all of them were found possible and all tensors to be theirs.

    Raises:
        FileError: if a description is of no cache that can be, or tensors are missing, too many or of another shape.
    """
    restored = [
        restored_state(layer, number, tensors)
        if layer.config.get("kind") == KIND
        else _restored(layer, number, tensors)
        for number, layer in enumerate(layers)
    ]
    named = {name for layer in restored for name in layer.names}
    if named != set(tensors):
        raise FileError(f"tensors {sorted(named ^ set(tensors))!a:.80}", "they belong to no layer", "PERS-9")
    for layer in restored:
        layer.hold()
    return [layer.cache for layer in restored]


def _restored(layer: LayerDescription, number: int, tensors: Mapping[str, mx.array]) -> Restored:
    cache = _empty(layer)
    content = _content(layer, cache, number, tensors)
    return Restored(cache, tuple(_names(number, content)), lambda: cache.hold(content))


def _names(number: int, content: Content) -> list[str]:
    planes = content.planes
    return [f"{number}.{name}" for name in planes.arrays] if planes is not None and content.geometry.active else []


def _empty(layer: LayerDescription) -> Cache:
    """Build the cache of a description's configuration."""
    config = dict(layer.config)
    if "dtype" in config:
        config["dtype"] = DTYPES[config["dtype"]][0] if config["dtype"] in tuple(DTYPES) else None
    try:
        return make(**config)
    except (CacheError, TypeError, ValueError, KeyError) as error:
        raise FileError(f"a layer {layer.config!a:.80}", f"{error}", "PERS-9") from None


def _content(layer: LayerDescription, cache: Cache, number: int, tensors: Mapping[str, mx.array]) -> Content:
    geometry = _geometry(layer, cache)
    layout = _layout(layer, cache)
    if (layout is None) != (geometry.columns == 0):
        raise FileError(f"{geometry.columns} columns", "columns and shapes come together", "PERS-9")
    _check_precision(layer, cache.policy, geometry.offset)
    planes = None if layout is None else _planes(layer, cache, geometry, layout, number, tensors)
    return Content(geometry, planes, layout, layer.converted, layer.floor)


def _layout(layer: LayerDescription, cache: Cache) -> Layout | None:
    if layer.shapes is None or layer.dtype is None:
        return None
    dtype = DTYPES[layer.dtype][0]
    if dtype not in FLOATS or 0 in layer.shapes:
        raise FileError(f"shapes {layer.shapes} of {layer.dtype}", "no cache holds such", "PERS-9")
    if len(layer.shapes) != 4:
        raise FileError(f"a layer of shapes {layer.shapes!a:.40}", "four numbers are needed", "PERS-9")
    batch, heads, key_dim, value_dim = layer.shapes
    layout = Layout(batch, heads, key_dim, value_dim, dtype).of_rows(batch)
    try:
        cache.policy.check(layout)
    except CacheError as error:
        raise FileError(f"shapes {layer.shapes} of {layer.dtype}", f"{error}", "PERS-9") from None
    return layout


def _geometry(layer: LayerDescription, cache: Cache) -> Geometry:
    """Give the place of a layer, if a cache can stand there."""
    place = layer.place
    ring = isinstance(cache, RingCache)
    names = {"offset", "columns", "write_index", "rotated", "block"} if ring else {"offset", "columns"}
    if set(place) != names or place["columns"] > MOST_COLUMNS:
        raise FileError(f"a place {place!a:.80}", "a cache stands nowhere like it", "PERS-9")
    if not isinstance(cache, RingCache):
        found: Geometry = FullGeometry(**place)
        possible = found.offset <= found.columns
    else:
        rotated = place["rotated"]
        integers = {name: number for name, number in place.items() if name != "rotated"}
        found = RingGeometry(cache.window, cache.sinks, rotated=rotated == 1, **integers)
        possible = rotated in (0, 1) and can_stand(found)
    if not possible:
        raise FileError(f"a place {place!a:.80}", "a cache stands nowhere like it", "PERS-9")
    return found


def can_stand(ring: RingGeometry) -> bool:
    """Say whether a ring can stand there (chapter 15)."""
    window, columns, written = ring.window, ring.columns, ring.write_index
    if not written <= columns or not (columns <= window or written == columns):
        return False
    if ring.rotated and not (columns == window and written > ring.sinks):
        return False
    if not _holds_enough(ring.offset, ring.active, window):
        return False
    if ring.active < min(window, ring.offset) and columns != written:
        return False
    return not ring.block or _can_be_cut(ring)


def _can_be_cut(ring: RingGeometry) -> bool:
    """Say whether the block that a bypass trim may still cut is there, and enough before it."""
    before, offset = ring.columns - ring.block, ring.offset - ring.block
    behind = not ring.rotated and ring.write_index == ring.columns
    return behind and before >= 0 and offset >= 0 and _holds_enough(offset, before, ring.window)


def _holds_enough(offset: int, active: int, window: int) -> bool:
    return active == offset if offset < window else window - 1 <= active <= offset


@clause("PREC-1", "PREC-5", "PERS-6")
def _check_precision(layer: LayerDescription, policy: Precision, offset: int) -> None:
    """Refuse a storage and a floor that the policy does not lead to."""
    always = policy.codes is not None and policy.start is None
    due = policy.boundary is not None and policy.due(offset)
    fits = layer.converted if always or due else not layer.converted or policy.boundary is not None
    floor = layer.floor == 0 if not layer.converted or policy.boundary == 0 else layer.floor >= (policy.boundary or 0)
    if not fits or not floor:
        told = f"{'codes' if layer.converted else 'half precision'} with floor {layer.floor} at {offset}"
        raise FileError(told, "the policy does not lead there", "PERS-9")


def _planes(
    layer: LayerDescription,
    cache: Cache,
    geometry: Geometry,
    layout: Layout,
    number: int,
    tensors: Mapping[str, mx.array],
) -> Planes:
    """Take a layer's tensors, each of its shape and dtype, and lay spare columns behind them."""
    codes = cache.policy.codes

    def taken(name: str, width: int, dtype: mx.Dtype) -> mx.array:
        shape = (layout.batch, layout.heads, geometry.active, width)
        spare = (layout.batch, layout.heads, geometry.columns - geometry.active, width)
        found = tensors.get(f"{number}.{name}") if geometry.active else mx.zeros(shape, dtype)
        if found is None or found.shape != shape or found.dtype != dtype:
            given = "no tensor" if found is None else f"a tensor {found.shape} of {found.dtype}"
            raise FileError(f"{given} for {number}.{name}", f"{shape} of {dtype} is needed", "PERS-9")
        return mx.concatenate([found, mx.zeros(spare, dtype)], 2) if spare[2] else found

    if not layer.converted or codes is None:
        planes: Planes = DensePlanes(
            taken("keys", layout.key_dim, layout.dtype), taken("values", layout.value_dim, layout.dtype)
        )
    else:
        codec = codes.codec
        sides = (("key", layout.key_dim, codec.bits), ("value", layout.value_dim, codec.value_bits))
        keys, values = (
            (
                taken(f"{side}_words", dim * bits // 32, mx.uint32),
                taken(f"{side}_scales", dim // codec.group, layout.dtype),
                taken(f"{side}_biases", dim // codec.group, layout.dtype),
            )
            for side, dim, bits in sides
        )
        planes = AffinePlanes(codes, keys, values)
    try:
        evaluate(*planes.arrays.values())
    except (RuntimeError, MemoryError) as error:
        raise FileError(f"{geometry.columns} columns", f"{error}", "PERS-12") from None
    return planes
