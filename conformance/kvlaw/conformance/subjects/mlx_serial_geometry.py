"""The integers of the MLX serial caches beside those of the reference, as `mlx_geometry` compares those of groups.

`MIRRORED` names a rule of `index` and what compares it, given a state, what the rule said of it, and what else it was
given.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from kvlaw.conformance.proofs.exhaustive.product import demand
from kvlaw.conformance.subjects.mlx_places import NEW, fetched, laid_out, refused
from kvlaw.mlx_impl import masks as mlx_masks
from kvlaw.mlx_impl.errors import RoundError, TrimError, WindowError
from kvlaw.mlx_impl.geometry import FullGeometry, Geometry, RingGeometry
from kvlaw.mlx_impl.geometry import Plan as Found
from kvlaw.reference import index as of
from kvlaw.reference.index import Full, MaskKind, Phase, Plan, Ring

State = Full | Ring


def geometry(state: State, drafted: int | None = None) -> FullGeometry | RingGeometry:
    """Give the MLX geometry at the same place, in a round of so many positions, or in none."""
    start = None if drafted is None else state.offset - drafted
    if isinstance(state, Full):
        return FullGeometry(state.offset, state.columns, start)
    numbers = (state.offset, state.columns, state.write_index, state.rotated, state.block)
    return RingGeometry(state.window, state.sinks, *numbers, start)


def _same(found: Geometry, after: State, drafted: int | None = None) -> None:
    demand(found == geometry(after, drafted), f"MLX stands at {found}, the reference at {after}")


def decode(ring: Ring, plan: Plan[Any]) -> None:
    """Compare a decode."""
    _append(ring, geometry(ring).append_in_place(), plan)


def block(state: State, plan: Plan[Any], length: int) -> None:
    """Compare a window; a growing cache appends a decode as one."""
    _append(state, geometry(state).append_block(length), plan)
    if length == 1 and isinstance(state, Full):
        _append(state, geometry(state).append_in_place(), plan)


def in_round(state: State, plan: Plan[Any], length: int, appended: int) -> None:
    """Compare an append in a round."""
    place = geometry(state, appended)
    _append(state, place.append_block(length), plan, appended + length)
    if length == 1:
        _append(state, place.append_in_place(), plan, appended + length)


def _append(state: State, found: Found, plan: Plan[Any], drafted: int | None = None) -> None:
    _same(found.then, plan.after, drafted)
    grown = (*range(state.columns), *(None,) * plan.add)
    kept = grown if plan.keep is None else tuple(grown[column] for column in plan.keep)
    expected = (*kept[: plan.write_at], *(NEW,) * plan.length, *kept[plan.write_at + plan.length :])
    mine, active = laid_out(tuple(range(state.columns)), found, plan.length), found.then.active
    demand(len(mine) == plan.after.columns, f"MLX lays out {len(mine)} columns, not {plan.after.columns}")
    demand(mine[:active] == expected[:active], f"MLX lays out columns {mine}, not {expected}")
    pins = () if found.pins is None else fetched(found.pins, len(mine))
    fetch = (*pins, *fetched(found.fetch, len(mine)))
    demand(fetch == plan.fetch, f"MLX fetches columns {fetch}, not {plan.fetch}")


def roll_back(state: State, after: State, count: int) -> None:
    """Compare a roll back that keeps nothing of a round of `count` positions, and what a round refuses."""
    place = geometry(state, count)
    demand(place.tail(0) == count, f"MLX takes {place.tail(0)} positions back, not {count}")
    _same(place.taken_back(place.tail(0)), after)
    for keep in (-1, count + 1):
        demand(refused((RoundError,), place.tail, keep), f"MLX keeps {keep} of {count}")
    for asked in (place.begun, lambda: place.trim(0), lambda: place.cut(0)):
        demand(refused((RoundError,), asked), "MLX begins a round, or trims, in a round")
    demand(not place.can_trim(0), "MLX says that it can trim in a round")
    demand(refused((RoundError,), geometry(state).tail, 0), "MLX ends a round that is not open")
    _same(geometry(state).begun(), state, 0)


def can_trim(state: State, able: bool, count: int) -> None:
    """Compare whether a trim is possible."""
    place = geometry(state)
    demand(place.can_trim(count) == able, f"MLX says of a trim of {count} that it is {place.can_trim(count)}")
    demand(able or refused((TrimError,), place.trim, count), f"MLX trims {count}")


def trim(state: State, after: State, count: int) -> None:
    """Compare a trim."""
    _same(geometry(state).trim(count), after)


def can_bypass(ring: Ring, able: bool, count: int) -> None:
    """Compare whether a bypass trim is possible."""
    demand(able != refused((TrimError,), geometry(ring).cut, count), f"MLX cuts, or does not cut, {count} off")


def bypass(ring: Ring, after: Ring, count: int) -> None:
    """Compare a bypass trim."""
    _same(geometry(ring).cut(count), after)


def can_narrow(state: State, able: bool, argument: int | None) -> None:
    """Compare whether a window argument can be honoured."""
    demand(able != refused((WindowError,), geometry(state).bound, argument), f"MLX honours {argument}, or does not")


def masks(state: State, kind: MaskKind, length: int, phase: Phase, argument: int | None = None) -> None:
    """Compare a mask outside a round, and that of a decode in one too: there it is a block."""
    for drafted in (None, 0) if phase == "decode" else (None,):
        place = geometry(state, drafted)
        shapes: list[Any] = [_shape(place, length, phase, argument, as_array) for as_array in (False, True)]
        found = "none" if shapes[0] is None else "causal" if shapes[0] == "causal" else "array"
        demand(found == kind, f"MLX has mask {found} for a {phase}, not {kind}")
        for shape in shapes if found == "array" else shapes[1:]:
            entries = np.array(shape.build(), dtype=np.bool_)
            for i in range(length):
                expected = [_shows(state, length, phase, i, j, argument, drafted) for j in range(entries.shape[-1])]
                demand(entries[i].tolist() == expected, f"MLX hides other columns from query {i} of a {phase}")


def _shape(place: Geometry, length: int, phase: Phase, argument: int | None, as_array: bool) -> object:
    if phase == "decode":
        return mlx_masks.decode_shape.__wrapped__(place, argument, as_array)
    return mlx_masks.window_shape.__wrapped__(place, length, argument, as_array)


def _shows(state: State, length: int, phase: Phase, i: int, j: int, argument: int | None, drafted: int | None) -> bool:
    if isinstance(state, Full):
        return of.full_visible(state, length, i, j, argument)
    if phase == "decode" and drafted is None:
        return of.decode_visible(state, j, argument)
    return of.block_visible(state, length, i, j, argument)


MIRRORED: dict[str, Callable[..., None]] = {
    "plan_decode": decode,
    "plan_block": block,
    "full_plan": block,
    "plan_in_round": in_round,
    "after_roll_back": roll_back,
    "can_trim": can_trim,
    "plan_trim": trim,
    "can_bypass": can_bypass,
    "plan_bypass": bypass,
    "can_narrow": can_narrow,
    "mask_kind": masks,
}
"""Per rule of the reference: what MLX must say; it is given the state, the result, and the other arguments."""
