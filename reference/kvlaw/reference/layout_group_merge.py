"""Put rows together: groups and serial caches of one kind become a new group; they stay as they are.

Source: `geometry.md` section 7 (join), and of its section 8 what a join settles.
"""

from collections.abc import Sequence

from attrs import frozen

from kvlaw.reference import index, index_group
from kvlaw.reference.layout import Cache, Refusal
from kvlaw.reference.layout_group_rows import RowGroup
from kvlaw.reference.layout_group_state import check_fit
from kvlaw.reference.layout_row import Row, Shape
from kvlaw.spec.cite import clause
from kvlaw.spec.config import LayerSpec

Source = RowGroup | Cache


@frozen(eq=False)
class _Part:
    """One row on its way into a group."""

    geometry: index_group.Group
    index: int
    row: Row
    prefilling: bool


@clause("ROWS-3", "ROWS-4", "ROWS-5", "ROWS-6", "ROWS-9", "ROWS-10")
def merge(sources: Sequence[Source]) -> RowGroup:
    """Make a new group of all rows of the sources, in their order; refuse what does not fit (ROWS-7, ROWS-8, PAD-9)."""
    if not sources:
        raise Refusal("a merge needs a source (ROWS-8)")
    group = RowGroup(_joint_layer([source.layer for source in sources]))
    for source in sources:
        if isinstance(source, RowGroup):
            source.demand_rest("a merge")
        elif source.round is not None:
            raise Refusal("a merge of a cache in an open round (ROUND-9)")
        elif isinstance(source.state, index.Ring) and index.active(source.state) < index.live(source.state):
            raise Refusal("a ring that a bypass trim has left short of its window is no row (ROWS-8, ROWS-12)")
    shape = _joint_shape(sources, group.layer)
    parts = [part for source in sources for part in _parts(source)]
    moved = index_group.joined(group.layer.window, [(part.geometry, part.index) for part in parts])
    group.take(moved, [part.row for part in parts], shape)
    group.prefilling = any(isinstance(source, RowGroup) and source.prefilling for source in sources)
    _settle(group, parts)
    return group


@clause("PREC-22")
def _settle(group: RowGroup, parts: Sequence[_Part]) -> None:
    """Convert the rows that are due and come from outside into an open bracket."""
    if group.prefilling:
        group.rows = group.settled(b for b, part in enumerate(parts) if not part.prefilling)


def _parts(source: Source) -> list[_Part]:
    if isinstance(source, Cache):
        row = Row(source.planes, source.storage == "affine", source.floor)
        return [_Part(index_group.lone(source.state), 0, row, prefilling=False)]
    return [_Part(source.state, b, row, source.prefilling) for b, row in enumerate(source.rows)]


@clause("ROWS-7", "ROWS-8")
def _joint_layer(layers: Sequence[LayerSpec]) -> LayerSpec:
    """Give the layer of a group of such rows; a bf16-first policy takes in raw rows, dense and of its codec."""
    first = layers[0]
    for layer in layers:
        if (layer.grows, layer.window) != (first.grows, first.window):
            raise Refusal(f"{layer.describe()} and {first.describe()} do not make one group (ROWS-7)")
        if layer.sinks:
            raise Refusal(f"{layer.describe()}: the rows of a group pin no sinks (ROWS-7)")
    coded = [layer for layer in layers if layer.bits is not None]
    if any(_codec(layer) != _codec(coded[0]) for layer in coded):
        raise Refusal(f"codes of {', '.join(layer.describe() for layer in coded)} do not make one group (ROWS-7)")
    waiting = [layer for layer in layers if layer.policy == "bf16_first"]
    if any(layer.start != waiting[0].start for layer in waiting):
        raise Refusal(f"starts {', '.join(str(layer.start) for layer in waiting)} do not make one group (ROWS-8)")
    if not waiting and 0 < len(coded) < len(layers):
        raise Refusal("dense rows and rows of codes do not make one group without a bf16-first one (ROWS-8)")
    return (waiting or layers)[0].grouped


def _codec(layer: LayerSpec) -> tuple[int | None, int | None, int]:
    return layer.bits, layer.bits_of_values, layer.group


@clause("ROWS-8", "PREC-13")
def _joint_shape(sources: Sequence[Source], layer: LayerSpec) -> Shape | None:
    """Give the dtype, heads and widths that all sources share which hold any; refuse others."""
    found = [source.shape if isinstance(source, RowGroup) else Shape.of_cache(source) for source in sources]
    shapes = [shape for shape in found if shape is not None]
    for shape in shapes:
        if shape != shapes[0]:
            raise Refusal(f"{shape} and {shapes[0]} do not make one group (ROWS-8)")
        check_fit(layer, shape)
    return shapes[0] if shapes else None
