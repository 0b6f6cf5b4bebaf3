"""When rows of a group are converted to codes: each by its own offset, whatever its siblings do.

A row is *due* iff it holds half precision and its offset, padding not counted, has reached the start of the policy and
is not 0.  A serial cache converts at the end of an append; a row waits for the next moment at which that could show:

* an append, for the rows that get a real token in it;
* a trim that is carried out, and the begin of a prefill bracket: for all rows;
* between begin and end of the bracket only the commit of the rows that it names, and a merge of rows from outside;
* the begin and the end of a round, outside a bracket, for all rows; in an open round none.

(geometry.md section 8.)
"""

from collections.abc import Iterable

import attrs

from kvlaw.mlx_impl.evaluate import evaluate
from kvlaw.mlx_impl.group_content import GroupContent
from kvlaw.mlx_impl.group_planes import converted
from kvlaw.spec.cite import clause


@clause("PREC-26", "ROUND-11")
def due_rows(content: GroupContent, among: Iterable[int] | None = None) -> tuple[int, ...]:
    """Return the rows, of all or of ``among``, that hold half precision and are to be converted: none in a round."""
    if content.policy.boundary is None or content.geometry.place.in_round or all(content.converted):
        return ()
    valid = content.geometry.valid
    rows = range(content.rows) if among is None else among
    return tuple(row for row in rows if not content.converted[row] and content.policy.due(valid[row]))


@clause("PREC-9", "PREC-26", "PREC-27")
def settled(content: GroupContent, among: Iterable[int] | None = None) -> GroupContent:
    """Convert the due rows, of all or of ``among``, as they lie, and set their floors; the arrays are computed."""
    rows = due_rows(content, among)
    policy, planes = content.policy, content.planes
    if not rows or planes is None or policy.codes is None:
        return content
    after = tuple(was or row in rows for row, was in enumerate(content.converted))
    evaluate(*planes.arrays.values())  # first frees what the append before replaced
    planes = converted(planes, content.converted, after, policy.codes)
    evaluate(*planes.arrays.values())
    valid = content.geometry.valid
    floors = tuple(policy.floor(valid[row]) if row in rows else floor for row, floor in enumerate(content.floors))
    return attrs.evolve(content, planes=planes, converted=after, floors=floors)


@clause("PREC-16", "PREC-18", "PREC-20")
def settled_for_append(content: GroupContent) -> GroupContent:
    """Convert, outside a bracket, the due rows that get a token in an append; what is due has no left padding left."""
    if content.prefilling:
        return content
    geometry = content.geometry
    return settled(content, [row for row in range(content.rows) if geometry.goes_on(row)])


@clause("PREC-17", "PREC-18", "ROUND-11")
def settled_at_once(content: GroupContent) -> GroupContent:
    """Convert all due rows outside a bracket: before a trim, and where a round begins or ends."""
    return content if content.prefilling else settled(content)
