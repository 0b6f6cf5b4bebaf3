"""Storage policies as they are drawn, fixed, swept and put on stored traces; all expectations worked out by hand."""

from typing import Any

import pytest
from attrs import evolve
from hypothesis import find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from kvlaw.conformance import corpus
from kvlaw.conformance.corpus import Entry, entries_for
from kvlaw.conformance.machines.policies import (
    DIMS,
    fitting,
    layers,
    served,
    starts,
    sweep,
    told_of,
    with_policy,
)
from kvlaw.conformance.opening import SettingError, open_any
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.spec.config import CODE_BITS, GROUPS, Config, LayerSpec, Policy
from kvlaw.spec.contract import CAPABILITIES
from kvlaw.spec.text_form import parse, write

ALL: tuple[Policy, ...] = ("dense", "affine", "bf16_first")
ABLE = frozenset(CAPABILITIES)
RING = Config("ring", 4)


class Named:
    """Names the policies with which it is checked."""

    policies = ("affine", "bf16_first")


# What a target is checked with.


@pytest.mark.parametrize(
    ("target", "able", "policies"),
    [
        (object(), {"trim"}, ("dense",)),
        (object(), {"affine"}, ("dense",)),  # without ``policy`` it cannot be built with one
        (object(), {"policy", "affine"}, ("dense", "affine")),
        (object(), {"policy", "affine", "bf16_first"}, ALL),
        (Named(), {"policy", "affine", "bf16_first"}, ("affine", "bf16_first")),
        (Named(), {"policy", "bf16_first"}, ("bf16_first",)),
        (Named(), {"trim"}, ()),
    ],
)
def test_a_target_is_served_what_it_names_and_can_be_asked_for(
    target: object, able: set[str], policies: tuple[str, ...]
) -> None:
    assert served(target, able) == policies


@pytest.mark.parametrize(
    ("fixed", "policies"),
    [
        ({}, ALL),
        ({"window": 8}, ALL),
        ({"bits": 4}, ("affine", "bf16_first")),
        ({"group": 32}, ("affine", "bf16_first")),
        ({"value_bits": 8}, ("affine", "bf16_first")),
        ({"start": 5}, ("bf16_first",)),
        ({"bits": 4, "start": "never"}, ("bf16_first",)),
    ],
)
def test_a_fixed_field_leaves_the_policies_that_have_it(fixed: dict[str, Any], policies: tuple[str, ...]) -> None:
    assert fitting(ALL, fixed) == policies


def test_a_start_leaves_nothing_of_a_target_without_one() -> None:
    assert fitting(("dense", "affine"), {"start": 5}) == ()


# What is drawn.


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (None, (0, 1, 2, 3, 7, 255, 256, 257, "never")),
        (1, (0, 1, 2, "never")),  # W - 1 = 0, W = 1, W + 1 = 2W = 2
        (2, (0, 1, 2, 3, 4, "never")),
        (8, (0, 1, 2, 7, 8, 9, 16, "never")),
    ],
)
def test_starts_stand_around_the_window(window: int | None, expected: tuple[Any, ...]) -> None:
    assert starts(window) == expected


@settings(max_examples=200, deadline=None, database=None)
@given(data=st.data())
def test_a_drawn_policy_is_a_possible_one_of_those_asked_for(data: st.DataObject) -> None:
    coded = ALL[1:]
    asked = data.draw(st.lists(st.sampled_from(coded), min_size=1, unique=True))
    config = data.draw(with_policy(RING, tuple(asked), {}, (4, 8)))
    assert config.problem is None
    assert config.policy in asked
    assert config.bits in (4, 8)
    assert config.value_bits in (None, 4, 8)
    assert config.start in ((None,) if config.policy == "affine" else (0, 1, 2, 3, 4, 5, 8, "never"))
    assert {config.head_dim, config.value_dim} <= set(DIMS)
    assert config.group in GROUPS
    assert evolve(config, **{name: getattr(RING, name) for name in CODED}) == RING  # nothing else was changed


CODED = ("bits", "value_bits", "group", "start", "head_dim", "value_dim")


def test_where_only_dense_storage_is_served_nothing_is_drawn() -> None:
    assert find(with_policy(RING, ("dense",), {}), lambda _: True) == RING
    assert find(with_policy(RING, ALL, {}), lambda c: c.bits is None) == RING


def test_every_kind_of_policy_and_both_sorts_of_groups_are_drawn() -> None:
    drawn = with_policy(RING, ALL, {})
    assert find(drawn, lambda c: c.policy == "affine").start is None
    assert find(drawn, lambda c: c.start == "never").policy == "bf16_first"
    assert find(drawn, lambda c: c.value_bits not in (None, c.bits)).bits in CODE_BITS
    assert find(drawn, lambda c: c.bits is not None and c.head_dim % c.group == c.value_dim % c.group == 0)
    misfit = find(drawn, lambda c: c.bits is not None and c.head_dim % c.group + c.value_dim % c.group > 0)
    assert misfit.problem is None  # it shows at the first append only (PREC-13)


def test_fixed_head_dims_and_value_bits_are_left_to_who_fixed_them() -> None:
    fixed = {"head_dim": 96, "value_dim": 32, "value_bits": 8}
    drawn = with_policy(RING, ("affine",), fixed)
    found = find(drawn, lambda c: c.bits is not None)
    assert (found.head_dim, found.value_dim, found.value_bits) == (96, 32, None)
    assert find(drawn, lambda c: c.group == 32)  # the one group that divides both


def test_the_layers_of_a_list_have_the_codes_of_the_first_cache_or_none() -> None:
    plain = (LayerSpec("full"), LayerSpec("ring", 4))
    config = Config("full", bits=4, value_bits=8, group=32, start=3)
    drawn = layers(ALL, plain, config)
    for layer in plain:
        assert find(drawn, lambda drawn, layer=layer: drawn == layer)
    for start in (None, 0, 2, 3, 5, "never"):
        coded = LayerSpec("ring", 4, bits=4, value_bits=8, group=32, start=start)
        assert find(drawn, lambda drawn, coded=coded: drawn == coded)
    for only in (layers(("dense",), plain, Config("full")), layers(("affine",), plain, config)):
        assert find(only, lambda layer: layer.start is None)
    with pytest.raises(NoSuchExample):
        find(layers(("affine",), plain, config), lambda layer: layer.start is not None)


# The sweep.


def test_the_sweep_plays_each_width_at_each_head_dim_under_each_policy() -> None:
    plain = Config("ring", 3, kv_heads=1, groups=1)
    configs = sweep(plain, ALL, {})
    assert len(configs) == 2 * (6 * 4 + 2)  # affine and bf16-first; six widths at four head dims, and two misfits
    assert {(c.policy, c.start) for c in configs} == {("affine", None), ("bf16_first", 2)}
    fitting_groups = [c for c in configs if c.head_dim % c.group == 0]
    assert {(c.bits, c.head_dim) for c in fitting_groups} == {(b, d) for b in CODE_BITS for d in (64, 96, 128, 256)}
    misfits = {(c.bits, c.group, c.head_dim) for c in configs if c.head_dim % c.group}
    assert misfits == {(4, 64, 96), (8, 128, 64)}
    assert all((c.window, c.kv_heads, c.value_dim) == (3, 1, c.head_dim) for c in configs)


def test_the_sweep_keeps_to_what_is_served_and_fixed() -> None:
    assert sweep(RING, ("dense",), {}) == ()
    assert {c.policy for c in sweep(RING, ALL, {"start": 5})} == {"bf16_first"}
    assert {c.policy for c in sweep(RING, ("dense", "affine"), {"bits": 4})} == {"affine"}


def test_failing_policies_are_told_by_bits_group_and_head_dims() -> None:
    configs = [Config("full", bits=b, group=32, head_dim=d) for b, d in ((6, 96), (5, 256), (5, 96), (5, 96))]
    assert told_of(configs) == ("bits=5 group=32: D=96, 256", "bits=6 group=32: D=96")
    assert told_of([]) == ()


# Stored traces.


def entry(name: str, text: str) -> Entry:
    return Entry(name, "", "fault:none", "VIS-1", parse(text).trace)


STORED = (
    entry("plain", "ring window=4 dtype=f16 ; decode x2"),
    entry("trimming", "ring window=4 ; decode ; trim 1"),
    entry("impossible", "ring window=0"),
    entry("affine", "ring window=4 bits=5 ; decode"),
    entry("late", "ring window=4 bits=5 start=1 ; decode"),
    entry("growing", "full ; decode"),
)


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        (
            ALL,
            {
                "plain": "ring window=4 dtype=f16 ; decode x2",
                "impossible": "ring window=0",
                "affine": "ring window=4 bits=5 ; decode",
                "late": "ring window=4 bits=5 start=1 ; decode",
            },
        ),
        (("dense",), {"plain": "ring window=4 dtype=f16 ; decode x2", "impossible": "ring window=0"}),
        (
            ("affine", "bf16_first"),  # nothing dense: what was dense holds codes from the first append on
            {
                "plain": "ring window=4 bits=4 group=32 dtype=f16 ; decode x2",
                "affine": "ring window=4 bits=5 ; decode",
                "late": "ring window=4 bits=5 start=1 ; decode",
            },
        ),
        (
            ("bf16_first",),
            {
                "plain": "ring window=4 bits=4 group=32 start=2 dtype=f16 ; decode x2",
                "late": "ring window=4 bits=5 start=1 ; decode",
            },
        ),
    ],
)
def test_dense_traces_are_played_under_a_policy_where_nothing_is_dense(
    policies: tuple[Policy, ...], expected: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "load_corpus", lambda: STORED)
    monkeypatch.setattr(corpus, "example_entries", tuple)
    able = frozenset({"policy", "affine", "bf16_first"})  # it cannot trim
    found = {e.id: write(e.trace) for e in entries_for("ring", able, "core", policies)}
    assert found == {name: write(parse(text).trace) for name, text in expected.items()}


def test_a_trace_under_a_policy_needs_what_the_policy_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "load_corpus", lambda: STORED)
    monkeypatch.setattr(corpus, "example_entries", tuple)
    (plain,) = [e for e in entries_for("ring", ABLE, "core", ("affine",)) if e.id == "plain"]
    assert plain.needs == {"policy", "affine"}
    assert entries_for("ring", frozenset(), "core", ("affine",)) == ()


# Fixed on the command line.


class Coded(ReferenceAdapter):
    """Is checked with codes from the first append on."""

    policies = ("affine",)


@pytest.mark.parametrize(
    ("target", "settings", "fixed"),
    [
        ("builtin:oracle", {"window": 8}, {"window": 8}),
        ("builtin:oracle", {"bits": 4}, {"bits": 4}),
        ("builtin:oracle", {"start": 5}, {"bits": 8, "start": 5}),  # a start asks for bits
        ("builtin:oracle", {"value_bits": 4, "start": "never"}, {"bits": 8, "value_bits": 4, "start": "never"}),
        (Coded(), {"group": 32}, {"bits": 8, "group": 32}),
        (Coded(), {}, {}),
    ],
)
def test_part_of_a_policy_asks_for_the_usual_bits(target: Any, settings: dict[str, Any], fixed: dict[str, Any]) -> None:
    assert open_any(target, settings).fixed == fixed


def test_a_policy_that_a_target_is_not_checked_with_is_refused() -> None:
    with pytest.raises(SettingError, match=r"start=5: .*Coded \(an object\) is checked with affine storage only$"):
        open_any(Coded(), {"start": 5})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"bits": 7}, "bits is one of 2, 3, 4, 5, 6, 8, not 7"),
        ({"bits": 4, "group": 48}, "a group is one of 32, 64, 128, not 48"),
        ({"start": -1}, "start is a number of positions from 0 on, or never, not -1"),
    ],
)
def test_an_impossible_policy_is_refused_before_anything_is_played(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        open_any("builtin:oracle", settings)
