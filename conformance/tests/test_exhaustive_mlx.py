"""The integers of the MLX caches take every step of the exhaustive search as the reference does, rounds included.

The search goes through the reference; at each of its calls the geometry of the MLX cache that stands at the same place
is asked as well. So what the search shows of the reference, in every state, holds of the geometry of the MLX caches.
"""

# A method that is replaced may be any function, so lambdas have no types.
# pyright: reportUnknownLambdaType=false

from collections import Counter
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, cast

import pytest
from attrs import evolve

from kvlaw.conformance.proofs.exhaustive.search import Space, search
from kvlaw.conformance.subjects import mlx_geometry, mlx_serial_geometry
from kvlaw.mlx_impl.geometry import FullGeometry, Plan, RingGeometry
from kvlaw.mlx_impl.group_geometry import GroupCut, GroupGeometry, Roll
from kvlaw.reference import (
    index_group_masks,
    index_group_plans,
    index_group_state,
    index_masks,
    index_plans,
    index_rounds,
)

SMALL = (Space(1, 1), Space(2, 1), Space(3, 1), Space(1, 2), Space(None, 2, positions=3))
SERIAL = (*(Space(window, 1, serial=True) for window in (1, 2, 3)), Space(None, 1, positions=4, serial=True))
QUICK = (Space(1, 1), Space(2, 1), Space(None, 1, positions=3), Space(1, 2))


def ask_mlx(
    mirrored: dict[str, Callable[..., None]], modules: Sequence[ModuleType], monkeypatch: pytest.MonkeyPatch
) -> Counter[str]:
    """Ask MLX at each call of a rule of the reference; count the calls at which it was asked."""
    asked = Counter[str]()
    asking = False

    def beside(name: str, rule: Callable[..., Any]) -> Callable[..., Any]:
        def both(first: Any, *others: Any) -> Any:
            nonlocal asking
            found = rule(first, *others)
            if not asking:
                asking = True
                try:
                    mirrored[name](first, found, *others)
                finally:
                    asking = False
                asked[name] += 1
            return found

        return both

    for module in modules:
        for name in mirrored:
            if getattr(getattr(module, name, None), "__module__", None) == module.__name__:
                monkeypatch.setattr(module, name, beside(name, getattr(module, name)))
    return asked


@pytest.fixture
def with_mlx(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    modules = (index_group_state, index_group_plans, index_group_masks)
    return ask_mlx(mlx_geometry.MIRRORED, modules, monkeypatch)


@pytest.fixture
def with_serial_mlx(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    return ask_mlx(mlx_serial_geometry.MIRRORED, (index_plans, index_rounds, index_masks), monkeypatch)


@pytest.mark.parametrize(
    "space", [*SMALL, pytest.param(Space(2, 2), marks=pytest.mark.slow)], ids=lambda space: space.name
)
def test_mlx_takes_every_step_of_the_reference(space: Space, with_mlx: Counter[str]):
    found = search(space)
    assert found.violation is None
    assert found.closed
    assert set(with_mlx) == set(mlx_geometry.MIRRORED)


@pytest.mark.parametrize(
    "space",
    [*SERIAL, pytest.param(Space(4, 1, serial=True), marks=pytest.mark.slow)],
    ids=lambda space: space.name,
)
def test_serial_mlx_takes_every_step_of_the_reference(space: Space, with_serial_mlx: Counter[str]):
    found = search(space)
    assert found.violation is None
    assert found.closed
    missing = {"full_plan"} if space.window else {"plan_decode", "plan_block", "can_bypass", "plan_bypass"}
    assert set(with_serial_mlx) == set(mlx_serial_geometry.MIRRORED) - missing


# Planted changes of the MLX geometry, each named by what is wrong.


def with_keeps(change: Callable[[list[int], int], Sequence[int]]) -> Callable[..., GroupCut]:
    right = GroupGeometry.taken_back

    def planted(self: GroupGeometry, keep: Any) -> GroupCut:
        right(self, keep)  # which refuses what it should
        return right(self, tuple(change(list(keep), self.place.appended)))

    return planted


def rolled_by(change: Callable[[int], int]) -> Callable[..., GroupCut]:
    right = GroupGeometry.taken_back

    def planted(self: GroupGeometry, keep: Any) -> GroupCut:
        cut = right(self, keep)
        shifts = () if cut.roll is None else tuple(map(change, cut.roll.shifts))
        return cut if cut.roll is None else evolve(cut, roll=Roll(cut.roll.columns, shifts))

    return planted


def spared(
    change: Callable[[RingGeometry, int], int], before: Callable[[RingGeometry], RingGeometry] = lambda ring: ring
) -> Callable[..., Plan]:
    """Append a block, in a round, as one that is not in a round but evicts so many fewer columns."""
    right = RingGeometry.append_block

    def planted(self: RingGeometry, length: int, spared: int = 0) -> Plan:
        if self.start is None:
            return right(self, length, spared)
        plan = right(before(self.at_start(None)), length, change(self, spared))
        then = evolve(cast("RingGeometry", plan.then), start=self.start, block=0, sinks=self.sinks)
        return evolve(plan, then=then)

    return planted


def in_place(self: RingGeometry) -> Plan:
    plan = IN_PLACE(self.at_start(None))
    return evolve(plan, then=cast("RingGeometry", plan.then).at_start(self.start))


IN_PLACE = RingGeometry.append_in_place
OLDEST: Callable[[RingGeometry], int] = cast("Any", RingGeometry.decode_oldest).fget
TAIL, TAKEN_BACK, CUT = RingGeometry.tail, RingGeometry.taken_back, RingGeometry.cut

PLANTS: dict[str, tuple[type, str, Any]] = {
    "a roll back keeps one too many": (
        GroupGeometry,
        "taken_back",
        with_keeps(lambda keeps, n: [min(n, keep + 1) for keep in keeps]),
    ),
    "a roll back to 0 is a commit": (
        GroupGeometry,
        "taken_back",
        with_keeps(lambda keeps, n: [keep or n for keep in keeps]),
    ),
    "the keeps of rows are swapped": (GroupGeometry, "taken_back", with_keeps(lambda keeps, n: keeps[::-1])),
    "one keep too many is allowed": (
        RingGeometry,
        "tail",
        lambda self, keep: -1 if keep == self.appended + 1 and self.in_round else TAIL(self, keep),
    ),
    "a row that keeps less is not rolled": (GroupGeometry, "taken_back", rolled_by(lambda shift: 0)),
    "a row that keeps less rolls to the left": (GroupGeometry, "taken_back", rolled_by(lambda shift: -shift)),
    "a row that keeps less rolls by one too many": (GroupGeometry, "taken_back", rolled_by(lambda shift: shift + 1)),
    "a decode in a round writes in place": (RingGeometry, "append_in_place", in_place),
    "a block in a round keeps W - 1 columns": (RingGeometry, "append_block", spared(lambda ring, more: more)),
    "a block in a round keeps W columns": (RingGeometry, "append_block", spared(lambda ring, more: 1)),
    "a block in a round keeps W - 1 and those of the round": (
        RingGeometry,
        "append_block",
        spared(lambda ring, more: ring.appended),
    ),
    "a block in a round keeps one more": (RingGeometry, "append_block", spared(lambda ring, more: ring.appended + 2)),
    "the mask of a decode in a round is turned": (
        RingGeometry,
        "decode_oldest",
        property(lambda ring: OLDEST(ring.at_start(None))),
    ),
    "a round may begin in a round": (RingGeometry, "begun", lambda self: self.at_start(self.offset)),
    "a trim is allowed in a round": (
        FullGeometry,
        "can_trim",
        lambda self, count: 0 <= count <= self.offset,
    ),
    "what a group is asked in a round is not refused": (RingGeometry, "refuse_round", lambda self, asked: None),
    "a roll back of growing rows cuts columns off": (
        FullGeometry,
        "taken_back",
        lambda self, count: FullGeometry(self.offset - count, self.offset - count),
    ),
}


@pytest.mark.usefixtures("with_mlx")
@pytest.mark.parametrize("wrong", PLANTS)
def test_a_change_of_mlx_is_found(wrong: str, monkeypatch: pytest.MonkeyPatch):
    owner, name, planted = PLANTS[wrong]
    monkeypatch.setattr(owner, name, planted)
    found = next((one.violation for one in map(search, QUICK) if one.violation is not None), None)
    assert found is not None
    assert "MLX" in found.message
    assert "begin_round" in found.calls
    assert len(found.calls) <= 6


SERIAL_PLANTS: dict[str, tuple[type, str, Any]] = {
    **{wrong: plant for wrong, plant in PLANTS.items() if plant[1] in ("append_in_place", "append_block", "tail")},
    "a roll back leaves the columns": (
        RingGeometry,
        "taken_back",
        lambda self, count: evolve(self, offset=self.offset - count, start=None),
    ),
    "a roll back takes one more": (
        RingGeometry,
        "taken_back",
        lambda self, count: TAKEN_BACK(self, count + (count > 1)),
    ),
    "a round drops pinned positions": (
        RingGeometry,
        "append_block",
        spared(lambda ring, more: ring.appended + 1, lambda ring: evolve(ring, sinks=0)),
    ),
    "a round may begin in a round": (RingGeometry, "begun", lambda self: self.at_start(self.offset)),
    "a bypass trim is allowed in a round": (
        RingGeometry,
        "cut",
        lambda self, count: CUT(self.at_start(None), count),
    ),
    "the mask of a decode in a round is turned": PLANTS["the mask of a decode in a round is turned"],
}


@pytest.mark.usefixtures("with_serial_mlx")
@pytest.mark.parametrize("wrong", SERIAL_PLANTS)
def test_a_change_of_serial_mlx_is_found(wrong: str, monkeypatch: pytest.MonkeyPatch):
    owner, name, planted = SERIAL_PLANTS[wrong]
    monkeypatch.setattr(owner, name, planted)
    found = next((one.violation for one in map(search, SERIAL) if one.violation is not None), None)
    assert found is not None
    assert "MLX" in found.message
    assert len(found.calls) <= 6
