"""Plans are shared and remembered in bounded number; a cache never holds a plan of another place."""

from typing import Any

from kvlaw.mlx_impl import FullCache, RingCache, plans
from kvlaw.mlx_impl.geometry import FullGeometry, RingGeometry


def test_layers_at_the_same_place_share_one_geometry(stamp: Any) -> None:
    first, second = RingCache(4, 1), RingCache(4, 1)
    for length in (1, 3, 1, 1):
        for cache in (first, second):
            name = "append_decode" if length == 1 else "append_window"
            getattr(cache, name)(*stamp([1] * length))
        assert first._geometry is second._geometry


def test_a_remembered_plan_is_the_plan() -> None:
    place = RingGeometry(5)
    for _ in range(40):
        plan = plans.decode_plan(place)
        assert plan is plans.decode_plan(place)
        assert plan == place.append_in_place()
        place = plan.then
    assert place.offset == 40


def test_plans_are_remembered_in_bounded_number() -> None:
    for window in range(1, 200):
        plans.decode_plan(RingGeometry(window))
        assert len(plans._decodes) < plans.REMEMBERED + 16
    assert plans.decode_plan(FullGeometry()).then == FullGeometry(1, 256)


def test_caches_at_many_places_do_not_disturb_each_other(stamp: Any, ids: Any) -> None:
    caches = [RingCache(window) for window in range(1, 40)] + [FullCache()]
    for token in range(1, 13):
        for cache in caches:
            cache.append_decode(*stamp([token]))
    for cache in caches:
        held = min(cache.size, 12)
        fetched = sorted(ids(cache.peek()[0]))
        assert fetched == list(range(13 - held, 13))
