"""Which storage policies the machines draw: every width of code, groups that divide the head dims, telling starts."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from attrs import evolve
from hypothesis import strategies as st

from kvlaw.conformance.demands import terms_of
from kvlaw.spec.config import CODE_BITS, GROUPS, Config, LayerSpec, Policy, Start

DIMS = (64, 96, 128, 256)
"""Head dims of keys and values: with 96 and 256, words of some widths are not laid out as one might guess."""
FIELDS = ("bits", "value_bits", "group", "start")
DEFAULT_BITS = 8
"""Bits of a policy of which only the rest is fixed."""


def served(subject: object, capabilities: Collection[str]) -> tuple[Policy, ...]:
    """List the kinds of policy with which a target is checked: what it names, as far as it can be asked for them."""
    able = {"dense", *(capabilities if "policy" in capabilities else ())}
    return tuple(policy for policy in terms_of(subject).policies if policy in able)


def fitting(policies: tuple[Policy, ...], fixed: Mapping[str, Any]) -> tuple[Policy, ...]:
    """Keep the kinds of policy that can have the fixed fields."""
    if "start" in fixed:
        return tuple(p for p in policies if p == "bf16_first")
    return tuple(p for p in policies if p != "dense") if any(name in fixed for name in FIELDS) else policies


def starts(window: int | None) -> tuple[Start, ...]:
    """List the starts that matter: at once, around the window or the allocation step, never."""
    if window is None:
        return (0, 1, 2, 3, 7, 255, 256, 257, "never")
    return tuple(dict.fromkeys((0, 1, 2, max(0, window - 1), window, window + 1, 2 * window, "never")))


@st.composite
def with_policy(
    draw: st.DrawFn,
    config: Config,
    policies: tuple[Policy, ...],
    fixed: Mapping[str, Any],
    widths: tuple[int, ...] = CODE_BITS,
) -> Config:
    """Draw a storage policy and head dims for a configuration; dense half the time, if that is served."""
    coded = tuple(policy for policy in policies if policy != "dense")
    if not coded or ("dense" in policies and draw(st.booleans())):
        return config
    drawn = draw(st.sampled_from(coded))
    bits = st.sampled_from(widths)
    start = draw(st.sampled_from(starts(config.window))) if drawn == "bf16_first" else None
    value_bits = draw(st.none() | bits) if "value_bits" not in fixed else None
    config = evolve(config, bits=draw(bits), value_bits=value_bits, start=start)
    return draw(_dims(config, fixed))


@st.composite
def _dims(draw: st.DrawFn, config: Config, fixed: Mapping[str, Any]) -> Config:
    """Draw head dims and a group that divides them; seldom one that does not (PREC-13)."""
    keys = fixed.get("head_dim", draw(st.sampled_from(DIMS)))
    values = fixed.get("value_dim", draw(st.sampled_from((keys, keys, *DIMS))))
    dividing = tuple(g for g in GROUPS if keys % g == values % g == 0)
    others = tuple(g for g in GROUPS if g not in dividing)
    misfit = bool(others) and draw(st.sampled_from((False,) * 11 + (True,)))
    group = draw(st.sampled_from(others if misfit or not dividing else dividing))
    return evolve(config, head_dim=keys, value_dim=values, group=group)


def layers(policies: tuple[Policy, ...], plain: tuple[LayerSpec, ...], config: Config) -> st.SearchStrategy[LayerSpec]:
    """Draw a layer of a list: one of the plain ones, left alone or with the bits of ``config`` and its own start."""
    own: list[st.SearchStrategy[Start]] = [st.none()] if "affine" in policies else []
    own += [st.sampled_from((0, 2, 3, 5, "never"))] if "bf16_first" in policies else []
    policed = st.one_of(*own) if own else st.nothing()
    coded = st.builds(_coded, st.sampled_from(plain), st.just(config), policed)
    return st.sampled_from(plain) | coded


def _coded(layer: LayerSpec, config: Config, start: Start) -> LayerSpec:
    return evolve(layer, bits=config.bits, value_bits=config.value_bits, group=config.group, start=start)


def told_of(configs: Iterable[Config]) -> tuple[str, ...]:
    """Say which policies and head dims these are: ``bits=5 group=32: D=96, 128, 256``."""
    dims: dict[str, list[int]] = {}
    for config in configs:
        dims.setdefault(f"bits={config.bits} group={config.group}", []).append(config.head_dim)
    return tuple(f"{policy}: D={', '.join(map(str, sorted(set(known))))}" for policy, known in sorted(dims.items()))


SWEEP: tuple[tuple[int, int, int], ...] = tuple((bits, 32, dim) for dim in DIMS for bits in CODE_BITS)
"""Bits, group and head dim of the traces that every check of a policy plays, so that none is left to chance."""
MISFITS: tuple[tuple[int, int, int], ...] = ((4, 64, 96), (8, 128, 64))
"""The same of policies whose groups do not divide the head dim."""


def sweep(plain: Config, policies: tuple[Policy, ...], fixed: Mapping[str, Any]) -> tuple[Config, ...]:
    """Give the configurations of the sweep, for each kind of policy but dense."""
    start = {"affine": None, "bf16_first": 2}
    return tuple(
        evolve(plain, bits=bits, group=group, head_dim=dim, value_dim=dim, start=start[policy])
        for policy in fitting(policies, fixed)
        if policy != "dense"
        for bits, group, dim in (*SWEEP, *MISFITS)
    )
