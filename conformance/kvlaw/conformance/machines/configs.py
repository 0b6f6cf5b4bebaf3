"""Which configurations the machines draw: small windows, sinks up to and beyond them, a palette of tensor shapes."""

from collections.abc import Mapping
from typing import Any

from attrs import evolve
from hypothesis import strategies as st

from kvlaw.conformance.machines.policies import fitting, with_policy
from kvlaw.spec.config import CODE_BITS, DTYPES, RECURRENT_KINDS, ROW_KINDS, Config, DType, Kind, Policy

WINDOWS = (1, 2, 3, 4, 5, 8)
SHAPES: tuple[dict[str, Any], ...] = (
    {},
    {"kv_heads": 1, "groups": 4},
    {"batch": 2, "kv_heads": 1, "groups": 2},
    {"batch": 2, "groups": 1},
    {"head_dim": 96, "value_dim": 64, "groups": 1},
    {"head_dim": 128, "value_dim": 128, "kv_heads": 1, "groups": 2},
    {"head_dim": 64, "value_dim": 32, "groups": 4, "kv_heads": 1},
)
"""Batch, heads, query heads per KV head and head dims; the dtype is drawn beside them."""
ROW_SHAPES = tuple(shape for shape in SHAPES if "batch" not in shape)
"""The shapes of groups, whose rows are sequences of their own."""


@st.composite
def configs(
    draw: st.DrawFn,
    kind: Kind,
    capabilities: frozenset[str],
    fixed: Mapping[str, Any],
    *,
    policies: tuple[Policy, ...] = ("dense",),
    dtypes: tuple[DType, ...] = DTYPES,
    code_bits: tuple[int, ...] = CODE_BITS,
    odd: bool = False,
) -> Config:
    """Draw a configuration of ``kind``; ``fixed`` fields are as given, ``odd`` seldom draws an impossible one.

    ``policies``, ``dtypes`` and ``code_bits`` are those with which the target is checked.
    """
    if kind in RECURRENT_KINDS:
        return draw(_recurrent(kind, capabilities, fixed, dtypes, odd=odd))
    rows, none = kind in ROW_KINDS, (0,) * ("empty_group" in capabilities)
    config = Config(kind, dtype=draw(st.sampled_from(dtypes)), **draw(st.sampled_from(ROW_SHAPES if rows else SHAPES)))
    config = evolve(config, rows=draw(st.sampled_from((None, *none, 1, 2, 3, 4)))) if rows else config
    if kind == "ring_rows":
        window = fixed.get("window", draw(st.sampled_from(windows(0))))
        pinned = "sinks" in capabilities and window > 1 and draw(st.sampled_from((False,) * 15 + (True,)))
        config = evolve(config, window=window, sinks=int(pinned))  # which a group refuses, or keeps (ROWS-7)
    if kind == "ring":
        window = fixed.get("window", draw(st.sampled_from(windows(fixed.get("sinks", 0)))))
        config = evolve(config, window=window, sinks=draw(_sinks(window)) if "sinks" in capabilities else 0)
    policed = draw(with_policy(config, fitting(policies, fixed), fixed, code_bits))
    config = policed if "value_bits" in capabilities else evolve(policed, value_bits=None)
    config = evolve(
        config,
        stamp="random" if draw(st.integers(0, 3)) == 0 else "code",
        look="last" if draw(st.integers(0, 3)) == 0 else "every",
        poison=draw(st.integers(0, 7)) == 0,
    )
    if odd and not fixed and draw(st.sampled_from((False,) * 11 + (True,))):
        policed = _IMPOSSIBLE_POLICIES if config.bits else ()
        return evolve(config, **draw(st.sampled_from((*_IMPOSSIBLE[kind], *policed))))
    return evolve(config, **fixed)


@st.composite
def _recurrent(
    draw: st.DrawFn,
    kind: Kind,
    capabilities: frozenset[str],
    fixed: Mapping[str, Any],
    dtypes: tuple[DType, ...],
    *,
    odd: bool,
) -> Config:
    """Draw a configuration of a recurrent layer; its stamps are codes, whose sums are exact."""
    none = (0,) * ("empty_group" in capabilities)
    config = Config(kind, dtype=draw(st.sampled_from(dtypes)), **draw(st.sampled_from(ROW_SHAPES)))
    config = evolve(
        config,
        rows=draw(st.sampled_from((None, *none, 1, 2, 3, 4))) if kind == "recurrent_rows" else None,
        conv=draw(st.sampled_from((None, None, 1, 2, 3, 5))),
        look="last" if draw(st.integers(0, 3)) == 0 else "every",
        poison=draw(st.integers(0, 7)) == 0,
    )
    if odd and not fixed and draw(st.sampled_from((False,) * 11 + (True,))):
        return evolve(config, **draw(st.sampled_from(_IMPOSSIBLE[kind])))
    return evolve(config, **fixed)


_IMPOSSIBLE: dict[Kind, tuple[dict[str, int], ...]] = {
    "full": ({"window": 4}, {"sinks": 1}),
    "ring": ({"window": 0}, {"window": -1}, {"sinks": -1}),
    "full_rows": ({"window": 4}, {"sinks": 1}),
    "ring_rows": ({"window": 0}, {"window": -1}, {"sinks": 1}),
    **dict.fromkeys(RECURRENT_KINDS, ({"conv": 0}, {"conv": -1}, {"window": 4})),
}
"""Configurations of which no cache can be built, beside as many sinks as the window (ERR-6)."""


_IMPOSSIBLE_POLICIES: tuple[dict[str, Any], ...] = (
    {"bits": 7},
    {"value_bits": 1},
    {"group": 48},
    {"start": -1},
    {"bits": None, "value_bits": 4},
)
"""Storage policies that no cache can be built with (PREC-13)."""


def windows(sinks: int) -> tuple[int, ...]:
    """List the windows that have room for so many sinks."""
    return tuple(w for w in WINDOWS if w > sinks) or (sinks + 1, sinks + 2, sinks + 4)


def _sinks(window: int) -> st.SearchStrategy[int]:
    """Draw how many sinks: often none, often some, seldom as many as the window or more."""
    some = st.integers(0, max(0, window - 1))
    return st.one_of(st.just(0), some, some, st.sampled_from((*(0,) * 4, window, window + 1)))
