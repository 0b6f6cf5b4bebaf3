"""Prefix reuse in lockstep: whom a difference is charged to, what core leaves open, and what mlx-lm's store does."""

import pytest

from kvlaw.conformance.check import replay
from kvlaw.conformance.faults.registry import load_faults, subject
from kvlaw.conformance.lockstep import Step
from kvlaw.conformance.minimise import is_sound
from kvlaw.conformance.subjects.targets import open_target
from kvlaw.reference.oracle import Profile
from kvlaw.spec.text_form import parse

FAULTS = [name for name, fault in load_faults().items() if fault.breaks.startswith("REUSE")]


def played(target: str, text: str, profile: Profile = "core") -> tuple[Step, ...]:
    return replay(open_target(target), profile, parse(text).trace)


def charged(steps: tuple[Step, ...]) -> list[str]:
    return [divergence.clause for step in steps for divergence in step.divergences][:1]


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_reuse_is_charged_to_its_clause(name: str) -> None:
    fault = load_faults()[name]
    assert charged(replay(subject(name), fault.profile, fault.trace)) == [fault.breaks]


@pytest.mark.parametrize("name", ["finds-whole-entries-only", "first-hit-wins"])
def test_core_lets_a_store_find_less(name: str) -> None:
    fault = load_faults()[name]
    steps = replay(subject(name), "core", fault.trace)
    assert charged(steps) == []
    assert steps[-1].record.ok


@pytest.mark.parametrize(
    ("text", "sound"),
    [
        ("full ; publish ; reuse t1 as c1 ; decode on c1 ; publish on c1 space=a", True),
        ("full ; list full as l0 ; publish on l0 ; reuse t1,t2 on l0 as l1 ; decode on l1", True),
        ("full ; reuse t1 on c1 as c2", False),
        ("full ; decode as r1 ; publish on r1", False),
        ("full ; save as f1 ; publish on f1", False),
        ("full ; save as f1 ; reuse t1 on f1 as c1", False),
    ],
)
def test_the_minimiser_knows_what_can_be_published(text: str, sound: bool) -> None:
    assert is_sound(parse(text).trace) is sound


LM = {"KVCache": "full", "RotatingKVCache": "ring window=3", "QuantizedKVCache": "full bits=8"}


@pytest.mark.parametrize("name", list(LM))
def test_mlx_lm_lends_a_prefix_of_a_longer_prompt_rightly(name: str) -> None:
    pytest.importorskip("mlx_lm")
    for text in (
        "window 2 ; publish ; decode ; reuse t1,t2,t9 as c1 ; reuse t1,t2,t9 as c2 ; decode on c1 ; decode on c2",
        "window 2 ; publish ; reuse t1,t9 as c1 ; decode on c1 ; reuse t1,t2,t9 as c2 ; window 4 on c2 ; decode",
        "window 5 ; publish ; reuse t1,t2,t9 as c1 ; decode on c1 ; reuse t1..t5,t9 as c2 ; decode on c2",
        "window 2 ; publish space=a ; reuse t1,t2,t9 space=b as c1 ; decode on c1",
    ):
        assert charged(played(f"builtin:mlx_lm.{name}", f"{LM[name]} ; {text}")) == [], text


@pytest.mark.parametrize("name", list(LM))
def test_mlx_lm_lends_the_whole_of_a_prompt_that_it_knows(name: str) -> None:
    """``fetch_nearest_cache`` answers an exact match with no rest: no token of the prompt is left to be read."""
    pytest.importorskip("mlx_lm")
    steps = played(f"builtin:mlx_lm.{name}", f"{LM[name]} ; window 3 ; publish ; reuse t1..t3 as c1")
    assert charged(steps) == ["REUSE-1"]
    assert steps[-1].record.answer == 3


def test_mlx_lm_lends_below_the_floor_of_its_conversion() -> None:
    """Its caches keep no floor: codes are cut to where half precision was attended."""
    pytest.importorskip("mlx_lm")
    text = "full bits=8 start=2 ; window 4 ; publish ; reuse t1,t2,t9 as c1"
    steps = played("builtin:mlx_lm.KVCache+convert", text)
    assert charged(steps) == ["REUSE-2"]
