"""How rows come and go: caches made of rows, and groups made of caches and groups."""

from collections.abc import Sequence

from attrs import evolve

from kvlaw.reference import index_group
from kvlaw.reference.group import Group
from kvlaw.reference.group_refusals import Source, merged_layer, rows_of
from kvlaw.reference.history import Padding
from kvlaw.reference.model import Model
from kvlaw.spec.cite import clause
from kvlaw.spec.config import LayerSpec


@clause("ROWS-12", "ROWS-13", "ROWS-14", "ROWS-15", "PREC-23", "PREC-24")
def extracted(group: Group, number: int) -> Model:
    """Make the cache of a row's raw storage: it never changes its precision."""
    row = group.rows[number]
    return _alone(group, number, raw_layer(group.layer.serial, row.storage == "affine"), converted=False)


@clause("ROWS-28", "PREC-21")
def handed_back(group: Group, number: int) -> Model:
    """Make the cache of a row that goes on by the policy of its group, settled as such a cache is."""
    return _alone(group, number, group.layer.serial, converted=group.rows[number].converted).settled()


def raw_layer(layer: LayerSpec, coded: bool) -> LayerSpec:
    """Give the layer that holds what is stored as it is: tensors, or codes from the first append on."""
    if coded:
        return evolve(layer, start=None)
    return evolve(layer, bits=None, value_bits=None, start=None, group=LayerSpec("full").group)


def _alone(group: Group, number: int, layer: LayerSpec, converted: bool) -> Model:
    row = group.rows[number]
    columns = index_group.extracted(group.state, number)
    past = evolve(row.past, related=True, joined=True, converted=False, lent=True)
    return evolve(
        row,
        layer=layer,
        state=index_group.alone(group.state, number),
        slots=tuple(row.slots[column] for column in columns),
        converted=converted,
        past=past,
    )


@clause("ROWS-3", "ROWS-5", "ROWS-6", "ROWS-9", "PREC-22")
def merged(sources: Sequence[Source]) -> Group:
    """Make a group of the rows of its sources, in their order."""
    layer = merged_layer(sources)
    prefilling = any(isinstance(source, Group) and source.prefilling for source in sources)
    parts = [part for source in sources for part in _parts(source)]
    plan = index_group.joined(layer.window, parts)
    from_outside = [
        not (isinstance(source, Group) and source.prefilling) for source in sources for _ in rows_of(source)
    ]
    rows = tuple(_joining(row, layer) for source in sources for row in rows_of(source))
    paddings = (Padding(),) * len(rows)
    group = Group(layer, rows, paddings, plan.after, prefilling).moved(plan.sources, plan.after)
    return group.settled(tuple(b for b, new in enumerate(from_outside) if new)) if prefilling else group


def is_lone(sources: Sequence[Source]) -> bool:
    """Say whether a merge is of a single row that stands alone in its source."""
    return sum(len(rows_of(source)) for source in sources) == 1


def _parts(source: Source) -> list[tuple[index_group.Group, int]]:
    if isinstance(source, Group):
        return [(source.state, b) for b in range(len(source.rows))]
    return [(index_group.lone(source.state), 0)]


def _joining(row: Model, layer: LayerSpec) -> Model:
    """Make a row of a group out of a row or a cache: in its storage, with its floor."""
    past = evolve(row.past, related=True, joined=True, converted=False)
    converted = layer.policy == "bf16_first" and row.storage == "affine"
    return evolve(
        Model.empty(layer.serial), row=row.row, slots=row.slots, past=past, floor=row.floor, converted=converted
    )
