"""Compiled decodes in the suite: what freezes its position is found, what cannot be compiled is said."""

from typing import Any

import pytest

from kvlaw.conformance.lockstep import Lockstep, Step
from kvlaw.conformance.minimise import minimise
from kvlaw.conformance.subjects import mlx_impl
from kvlaw.conformance.subjects.targets import TargetError, open_target
from kvlaw.mlx_impl import compiled
from kvlaw.spec.calls import AppendDecode, CompiledDecode
from kvlaw.spec.clauses import load_clauses
from kvlaw.spec.text_form import parse
from kvlaw.spec.trace import Trace

NAIVE = {"step": "naive_compile"}


def play(text: str, target: str, profile: Any = "core", **options: str) -> tuple[Step, ...]:
    counted = frozenset(load_clauses().of_profile(profile).by_id)
    return Lockstep(open_target(target, options), profile, counted).run(parse(text).trace)


def charged(steps: tuple[Step, ...]) -> list[str]:
    return [divergence.clause for divergence in steps[-1].divergences]


@pytest.mark.parametrize(
    ("kind", "name"), [("full", "KVCache"), ("ring window=4", "RotatingKVCache"), ("ring window=9", "RotatingKVCache")]
)
def test_a_naive_compile_freezes_offset_and_write_position(kind: str, name: str) -> None:
    """Report B105: append 3, compile a step, feed 4, 5, 6: the offset stays, and the last token is overwritten."""
    steps = play(f"{kind} ; window 3 ; compiled x3", f"builtin:mlx_lm.{name}", **NAIVE)
    assert "DEC-1" in charged(steps)
    assert "DEC-2" in charged(steps)


def test_mlx_lm_is_not_asked_for_compiled_steps_without_the_option() -> None:
    assert "compiled" not in open_target("builtin:mlx_lm.KVCache").capabilities
    assert play("full ; window 3 ; compiled", "builtin:mlx_lm.KVCache")[-1].record.outcome == "unsupported"


def test_a_concatenating_cache_is_traced_at_every_length_and_keeps_the_law() -> None:
    assert not charged(play("full ; window 3 ; compiled x4 ; decode", "builtin:mlx_lm.ConcatenateKVCache", **NAIVE))


@pytest.mark.parametrize(
    ("target", "step", "told"),
    [
        ("builtin:mlx_lm.KVCache", "naive", "naive_compile"),
        ("builtin:mlx_impl.full", "naive_compile", "mlx_lm.KVCache"),
        ("builtin:oracle", "naive_compile", "mlx_lm.KVCache"),
    ],
)
def test_a_step_that_there_is_not_is_told(target: str, step: str, told: str) -> None:
    with pytest.raises(TargetError, match=told):
        open_target(target, {"step": step})


def test_where_nothing_compiles_it_is_not_observed_and_not_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "compiles", lambda: False)
    found = play("full ; window 3 ; compiled", "builtin:mlx_impl.full")[-1]
    assert found.record.outcome == "unsupported"
    assert mlx_impl.MlxImplAdapter("full").capabilities >= {"compiled"}


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        ("full", "mlx_impl.full"),
        ("ring window=3 sinks=1", "mlx_impl.ring"),
        ("full bits=4 start=4", "mlx_impl.bf16_first_full"),
        ("ring window=3 bits=4 start=6", "mlx_impl.bf16_first_ring"),
        ("full_rows rows=2", "mlx_impl.full_rows"),
        ("ring_rows window=3 rows=2 bits=8", "mlx_impl.affine_ring_rows"),
    ],
)
@pytest.mark.parametrize("options", ["", " w=2", " array", " unread"])
def test_our_caches_decode_compiled_as_they_decode(kind: str, target: str, options: str) -> None:
    if "sinks" in kind and "w=" in options:
        options = " w=3"
    text = f"{kind} ; window 2 ; compiled{options} x3 ; window 2 ; compiled{options} x5 ; decode"
    for of in (f"builtin:{target}", "builtin:oracle"):
        assert not any(charged((step,)) for step in play(text, of, "layout"))


def test_a_compiled_decode_is_shortened_to_a_decode_where_that_fails_too() -> None:
    trace = parse("full ; window 2 ; compiled as r1 ; compiled").trace

    def appends(found: Trace) -> bool:
        return any(isinstance(call, AppendDecode) for call in found.calls)

    assert minimise(trace, appends, most=100).trace.calls == (AppendDecode(),)

    def compiles(found: Trace) -> bool:
        return any(isinstance(call, CompiledDecode) for call in found.calls)

    assert minimise(trace, compiles, most=100).trace.calls == (CompiledDecode(),)
