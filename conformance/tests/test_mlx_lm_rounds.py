"""Rounds of mlx-lm's caches, taken back by ``trim_prompt_cache`` as its speculative decoding does.

Each fault is replayed on its shortest trace, and was read off mlx-lm 0.32.2's ``models/cache.py`` and ``generate.py``;
a release that mends one turns its line red. The report (B12, ...) is that of ``shared/reports.md``.
"""

from functools import cache
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.models.cache import RotatingKVCache, trim_prompt_cache

from kvlaw.conformance.check import replay
from kvlaw.conformance.lockstep import Lockstep, Step
from kvlaw.conformance.subjects.targets import open_target
from kvlaw.reference.oracle import Profile
from kvlaw.spec.contract import Subject
from kvlaw.spec.text_form import parse

GROWING, RING, CODES = (f"builtin:mlx_lm.{name}" for name in ("KVCache", "RotatingKVCache", "QuantizedKVCache"))
JOINED, LIST = "builtin:mlx_lm.ConcatenateKVCache", "builtin:mlx_lm.CacheList"
ROWS, RING_ROWS = "builtin:mlx_lm.BatchKVCache", "builtin:mlx_lm.BatchRotatingKVCache"


@cache
def subject(target: str) -> Subject:
    return open_target(target)


def walk(target: str, text: str, profile: Profile = "core") -> tuple[Step, ...]:
    return replay(subject(target), profile, parse(text).trace)


@pytest.mark.parametrize("target", [GROWING, RING, CODES, JOINED, ROWS, RING_ROWS, LIST])
def test_mlx_lms_caches_are_asked_for_rounds(target: str) -> None:
    assert "rounds" in subject(target).capabilities


KEPT = """
    begin_round ; window 4 ; roll_back 2 ; decode ; begin_round ; decode x3 ; roll_back 0 ; window 2
    window 3 ; begin_round ; window 2 ; decode ; commit_round ; decode
    window 2 ; begin_round ; window 3 ; clone as c1 ; roll_back 1 on c1 ; roll_back 3 ; decode on c1 ; decode
    window 2 ; begin_round ; roll_back 0 ; decode
""".strip().splitlines()
"""Rounds that end below the window."""


@pytest.mark.parametrize("flow", KEPT)
@pytest.mark.parametrize(
    ("target", "opening"),
    [
        (GROWING, "full"),
        (RING, "ring window=16"),
        (RING, "ring window=16 sinks=4"),
        (CODES, "full bits=8"),
        (ROWS, "full_rows"),
        (RING_ROWS, "ring_rows window=16"),
        (LIST, "full"),
        (LIST, "ring_rows window=16"),
    ],
)
def test_rounds_below_the_window_keep_the_law(target: str, opening: str, flow: str) -> None:
    steps = walk(target, f"{opening} ; {flow}")
    assert not steps[-1].divergences, steps[-1].divergences
    assert len(steps) == len(parse(f"{opening} ; {flow}").trace.calls) + 1


LOST = {
    # RotatingKVCache.is_trimmable: ``offset < max_size``. speculative_generate_step asks it once, before the first
    # token; the round itself fills the ring, trim_prompt_cache trims nothing, and the rejected drafts stay
    "B12": (RING, "ring window=8 ; window 6 ; begin_round ; window 4 ; roll_back 2", "ROUND-2"),
    "B12, the shortest": (RING, "ring window=1 ; begin_round ; decode ; roll_back 0", "ROUND-2"),
    "B12 after the window": (RING, "ring window=4 ; window 9 ; begin_round ; window 3 ; roll_back 1", "ROUND-2"),
    # BatchRotatingKVCache.is_trimmable: the same of ``_offset``, which counts padding as well
    "B12 of rows": (RING_ROWS, "ring_rows window=1 rows=1 ; begin_round ; decode ; roll_back 0", "ROUND-13"),
    # trim_prompt_cache: all layers or none, so that one full ring keeps every layer's drafts
    "B12 of a list": (
        GROWING,
        "full ; list full + ring window=3 as l0 ; begin_round on l0 ; window 3 on l0 ; roll_back 1 on l0",
        "ROUND-12",
    ),
}


@pytest.mark.parametrize("report", LOST)
def test_a_round_that_fills_the_window_is_not_taken_back(report: str) -> None:
    target, text, clause = LOST[report]
    steps = walk(target, text)
    assert len(steps) == len(parse(text).trace.calls) + 1, "the trace ended early"
    assert not any(step.divergences for step in steps[:-1])
    divergence = steps[-1].divergences[0]
    assert (divergence.clause, divergence.expected) == (clause, "ok")
    assert "trim_prompt_cache trimmed 0 of" in divergence.observed


def test_what_was_rejected_stays_in_a_ring_that_is_full() -> None:
    """B12 as its runtime goes on: the trim is not looked at, and the next token sees what was rejected."""
    ring = RotatingKVCache(8)
    ring.update_and_fetch(*stamped(1, 2, 3, 4, 5, 6))
    ring.update_and_fetch(*stamped(7, 8, 9, 10))
    assert trim_prompt_cache([ring], 2) == 0
    keys: Any = ring.update_and_fetch(*stamped(11))[0]
    assert {9, 10} <= set(keys[0, 0, :, 0].tolist())


def stamped(*ids: int) -> tuple[mx.array, mx.array]:
    """Make keys and values of token ids."""
    plane = mx.broadcast_to(mx.array(ids, mx.float32)[None, None, :, None], (1, 1, len(ids), 4))
    return plane, plane


def test_a_stale_count_of_drafts_grows_the_cache() -> None:
    """B70: more is kept than was drafted, the trim is negative, and positions appear that nobody appended."""
    text = "full ; window 3 ; begin_round ; window 1 ; roll_back 3"
    assert not walk(GROWING, text)[-1].divergences  # which only our design refuses
    steps = Lockstep(subject(GROWING), "layout", frozenset({"ROUND-7"})).run(parse(text).trace)
    assert steps[-1].divergences[0].clause == "ROUND-7"
    assert steps[-1].record.after is not None
    assert steps[-1].record.after.offset == 6


def test_what_is_rejected_comes_back_with_the_next_token() -> None:
    """B79: ``ConcatenateKVCache.trim`` lowers the offset, and the next append goes behind what was trimmed."""
    steps = walk(JOINED, "full ; begin_round ; decode ; roll_back 0 ; decode")
    assert [len(step.divergences) > 0 for step in steps] == [False] * 4 + [True]
    divergence = steps[-1].divergences[0]
    assert (divergence.clause, divergence.expected, divergence.observed) == ("POS-2", "1", "2")
    assert any(d.clause == "ROUND-3" and d.observed == "sees t1..t2" for d in steps[-1].divergences)


def test_rows_that_keep_different_numbers_are_not_asked() -> None:
    steps = walk(ROWS, "full_rows rows=2 ; window 3 ; begin_round ; window 3 ; roll_back 1,3")
    assert (steps[-1].record.outcome, steps[-1].ends, steps[-1].divergences) == ("unsupported", True, ())


@pytest.mark.parametrize("text", ["full ; begin_round ; begin_round", "full ; commit_round", "full ; roll_back 0"])
def test_a_runtime_has_one_round_at_a_time(text: str) -> None:
    steps = walk(GROWING, text)
    assert steps[-1].record.refused
    assert not steps[-1].divergences
