"""Our MLX caches and mlx-lm's as subjects: what they show, that ours conform, and what mlx-lm's are known to break."""

from functools import cache
from importlib import import_module
from typing import Any

import pytest
from attrs import evolve

from kvlaw.conformance.lockstep import Lockstep, Step
from kvlaw.conformance.subjects.mlx_impl import POLICY
from kvlaw.conformance.subjects.targets import open_target
from kvlaw.reference.oracle import Profile
from kvlaw.spec.clauses import load_clauses
from kvlaw.spec.contract import CAPABILITIES, ROW_CAPABILITIES, Subject
from kvlaw.spec.text_form import parse

FLOWS = """
    window 12 ; decode x3 ; trim 2
    window 5 ; decode x8 ; window 3 ; decode x9 ; reset ; decode x2 ; window 20 ; decode
    decode x8 ; window 1 ; decode ; window 4 unread ; decode unread ; decode ; trim 1
    window 3 ; trim 1 ; decode x2 ; trim 4 ; window 2 ; decode x8 ; look c0
    window 9 as r1 ; decode ; attend r1 ; clone as c1 ; window 3 on c1 ; decode ; look c1 ; drop c0 ; attend r1
    window 6 ; dense 3 as d1 ; decode ; dense 1 as d2 ; decode x3 ; look d1 ; look d2
    window 10 ; trim 3 bypass ; decode ; window 3 ; trim 2 bypass ; trim 2 bypass ; decode
    window 3 ; decode malformed=heads ; decode malformed=dtype ; decode malformed=two ; decode malformed=rank ; decode
    decode ; window 2 malformed=lengths ; decode malformed=batch ; window 2 malformed=empty ; decode malformed=head_dim
    window 2 ; trim -1 ; trim 1.5 ; trim 0 ; decode w=0 ; decode
    list full + ring window=4 as l0 ; window 3 on l0 ; decode on l0 ; trim 2 on l0 ; decode on l0 x4 ; trim 1 on l0
    list full + ring window=3 as l0 ; window 5 on l0 ; clone on l0 as l1 ; decode on l1 ; look l0 ; reset on l0
    list ring window=2 + full as l0 ; window 3 on l0 ; window 2 on l0 malformed=heads ; look l0 ; decode on l0
    state as s0 ; window 7 ; state as s1 ; decode x5 ; look s1 ; look s0
    window 300 ; decode x2
    window 2 as r1 ; attend r1 malformed=rank ; attend r1 malformed=heads ; attend r1 malformed=dtype ; attend r1
""".strip().splitlines()
NARROW = """
    window 4 w=3 ; decode w=3 ; decode w=2 array ; window 3 w=5 array ; decode w=20
    window 6 ; mask 4 ; mask 1 decode w=2 array as m1 ; decode ; look m1 ; mask 2 w=3
""".strip().splitlines()
OPENINGS = {
    "full": ["full", "full poison dtype=f32 groups=1 batch=3", "full stamp=random dtype=f16"],
    "ring": [
        "ring window=8",
        "ring window=8 sinks=2 poison",
        "ring window=8 stamp=random",
        "ring window=4 dtype=f16 batch=2 Dv=96",
        "ring window=1 dtype=f32",
    ],
}


@cache
def subject(target: str) -> Subject:
    return open_target(target)


@cache
def clauses(profile: Profile) -> frozenset[str]:
    return frozenset(load_clauses().of_profile(profile).by_id)


def walk(target: str, text: str, profile: Profile, look: Any = "every") -> tuple[Lockstep, tuple[Step, ...]]:
    trace = parse(text).trace
    run = Lockstep(subject(target), profile, clauses(profile), arithmetic=True)
    return run, run.run(evolve(trace, config=evolve(trace.config, look=look)))


def first(steps: tuple[Step, ...]) -> tuple[str, str, str]:
    """The clause that a trace's last step is charged to, and both sides in words."""
    divergence = steps[-1].divergences[0]
    return divergence.clause, divergence.expected, divergence.observed


# Ours.


@pytest.mark.parametrize("kind", ["full", "ring"])
def test_our_caches_show_everything(kind: str) -> None:
    assert (
        subject(f"builtin:mlx_impl.{kind}").capabilities
        == frozenset(CAPABILITIES) - {"recurrent"} - ROW_CAPABILITIES - POLICY
    )


@pytest.mark.parametrize("kind", ["full", "ring"])
@pytest.mark.parametrize("policy", ["affine", "bf16_first"])
def test_our_caches_of_codes_show_everything(kind: str, policy: str) -> None:
    others = {"affine", "bf16_first"} - {policy}
    assert (
        subject(f"builtin:mlx_impl.{policy}_{kind}").capabilities
        == frozenset(CAPABILITIES) - {"recurrent"} - ROW_CAPABILITIES - others
    )


CODED = {
    "affine": ("bits=4", "bits=3 value_bits=5 group=32 D=96", "bits=8 stamp=random dtype=f16"),
    "bf16_first": ("bits=4 start=5", "bits=6 group=32 start=0", "bits=2 start=never", "bits=8 start=4 stamp=random"),
}
CODED_FLOWS = (
    "window 3 ; decode x4 ; window 2 ; decode ; dense 2 ; known 3 ; decode",
    "decode x2 ; clone as c1 ; window 3 ; decode on c1 ; look c0 ; window 9 on c1 ; decode on c1",
    "window 4 as r1 ; decode ; attend r1 ; state as s1 ; decode ; look s1 ; reset ; window 2 ; decode",
)


@pytest.mark.parametrize("flow", CODED_FLOWS)
@pytest.mark.parametrize("opening", [(p, o) for p, texts in CODED.items() for o in texts], ids=lambda x: x[1])
@pytest.mark.parametrize("kind", ["full", "ring window=4"])
def test_our_caches_of_codes_conform(kind: str, opening: tuple[str, str], flow: str) -> None:
    policy, fields = opening
    target = f"builtin:mlx_impl.{policy}_{kind.split(maxsplit=1)[0]}"
    for look in ("every", "last"):
        run, steps = walk(target, f"{kind} {fields} ; {flow}", "layout", look)
        assert not steps[-1].divergences, steps[-1].divergences
        assert len(steps) > len(parse(f"{kind} {fields} ; {flow}").trace.calls), "the trace ended early"
        assert run.arithmetic.different == 0


@pytest.mark.parametrize(
    ("fields", "fails"),
    [("bits=5 group=32 D=96 Dv=96", True), ("bits=6 D=128 Dv=128", True), ("bits=3 D=256 Dv=256", True),
     ("bits=5", False), ("bits=6", False), ("bits=3 D=128 Dv=128", False), ("bits=4 D=256 Dv=256", False)],
)  # fmt: skip
def test_mlx_lm_cannot_fill_codes_whose_words_part_an_element(fields: str, fails: bool) -> None:
    _, steps = walk("builtin:mlx_lm.QuantizedKVCache", f"full {fields} ; window 2 ; decode", "core")
    assert bool(steps[-1].divergences) == fails
    assert not fails or first(steps)[0] == "POS-2"


def test_mlx_lm_moves_the_offset_before_it_refuses_a_head_size() -> None:
    _, steps = walk("builtin:mlx_lm.QuantizedKVCache", "full bits=4 group=64 D=96 ; window 2", "core")
    assert (first(steps)[0], steps[-1].record.after and steps[-1].record.after.offset) == ("ERR-1", 2)


@pytest.mark.parametrize("kernels", ["unfused", "tiled"])
def test_a_known_append_over_codes_by_the_kernel_of_windows_is_found(
    kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one kernel for all, as ``unfused``, there is nothing to find on a CPU: the bits are the same."""
    reads: Any = import_module("kvlaw.mlx_impl.reads")
    clauses, trace = frozenset({"READ-13"}), parse("full bits=4 stamp=random ; window 3 ; known 3").trace
    subject = open_target("builtin:mlx_impl.affine_full", {"kernels": kernels})
    right = Lockstep(subject, "layout", clauses).run(trace)[-1]
    assert (right.divergences, right.exercised) == ((), clauses)
    monkeypatch.setattr(reads.KnownRead, "attend", reads.Read.attend)
    wrong = Lockstep(subject, "layout", clauses).run(trace)[-1]
    assert [d.clause for d in wrong.divergences] == ([] if kernels == "unfused" else ["READ-13"])


def test_mlx_lms_conversion_path_is_half_precision_first() -> None:
    _, steps = walk("builtin:mlx_lm.KVCache+convert", "full bits=4 start=5 ; window 4 ; decode ; decode", "core")
    assert not steps[-1].divergences
    assert [s.record.after.storage for s in steps if s.record.after] == ["dense", "dense", "affine", "affine"]
    assert [s.record.read.form for s in steps if s.record.read] == ["dense", "dense", "affine"]


def test_mlx_lm_converts_no_ring() -> None:
    _, steps = walk("builtin:mlx_lm.RotatingKVCache+convert", "ring window=4 bits=4 start=3 ; window 3", "core")
    assert "NYI" in steps[-1].message or "not" in steps[-1].message.lower()
    assert steps[-1].divergences


@pytest.mark.parametrize("look", ["every", "last"])
@pytest.mark.parametrize("opening", [(k, o) for k, texts in OPENINGS.items() for o in texts], ids=lambda x: x[1])
def test_our_caches_conform_in_both_looks(opening: tuple[str, str], look: str) -> None:
    kind, config = opening
    flows = FLOWS if "sinks" in config else [*FLOWS, *NARROW]
    compared = 0
    for flow in flows:
        run, steps = walk(f"builtin:mlx_impl.{kind}", f"{config} ; {flow}", "layout", look)
        assert not steps[-1].divergences, (flow, steps[-1].divergences)
        assert len(steps) > len(parse(f"{config} ; {flow}").trace.calls), f"{flow}: the trace ended early"
        assert run.arithmetic.different == 0
        compared += run.arithmetic.reads
    assert (compared > 0) == ("random" in config)


def test_impossible_caches_of_ours_are_refused() -> None:
    for kind, text in (("ring", "ring window=0"), ("ring", "ring window=4 sinks=4"), ("full", "full window=3")):
        _, steps = walk(f"builtin:mlx_impl.{kind}", text, "layout")
        assert steps[0].record.refused
        assert not steps[0].divergences


# mlx-lm's.


LM = frozenset(
    "attend mask as_array window_argument dense planes columns nbytes trim can_trim clone state lists rounds".split()  # noqa: SIM905
) | {"files", "reuse"}


@pytest.mark.parametrize(
    ("name", "capabilities"),
    [
        ("KVCache", LM | {"size"}),
        ("RotatingKVCache", LM | {"size", "sinks"}),
        ("ConcatenateKVCache", LM),  # it has no size of its own
    ],
)
def test_mlx_lms_caches_show_what_they_have(name: str, capabilities: frozenset[str]) -> None:
    assert subject(f"builtin:mlx_lm.{name}").capabilities == capabilities


@pytest.mark.parametrize("argument", ["", " w=8"])
def test_mlx_lms_ring_keeps_the_law_as_models_drive_it(argument: str) -> None:
    """Prefill in chunks, then decode, with no window argument (Llama) or the ring's own (Gemma 3, GPT-OSS)."""
    calls = f"window 12{argument} ; window 3{argument} ; decode{argument} x12 ; window 2{argument} ; decode{argument}"
    _, steps = walk("builtin:mlx_lm.RotatingKVCache", f"ring window=8 ; {calls}", "core")
    assert not steps[-1].divergences
    assert steps[-1].record.read is not None
    assert steps[-1].record.read.visible is not None
    assert sorted(steps[-1].record.read.visible[0][0]) == list(range(23, 31)), "12 + 3 + 12 + 2 + 1 = 30 tokens"


def test_mlx_lms_growing_cache_keeps_the_law_as_models_drive_it() -> None:
    for name in ("KVCache", "ConcatenateKVCache"):
        _, steps = walk(
            f"builtin:mlx_lm.{name}", "full ; window 300 ; decode x3 ; window 2 w=4 ; decode w=4 ; clone as c1", "core"
        )
        assert not steps[-1].divergences
        assert len(steps) == 8


@pytest.mark.parametrize(
    ("target", "text", "clause"),
    [
        # trim never asks is_trimmable: a wrapped ring drops nothing it can name
        ("RotatingKVCache", "ring window=4 ; window 6 ; trim 1", "TRIM-4"),
        # make_mask knows no keep: sinks fall out of a window's mask
        ("RotatingKVCache", "ring window=4 sinks=1 ; window 4 ; window 2", "VIS-9"),
        # keep >= max_size: every decode writes behind the end
        ("RotatingKVCache", "ring window=2 sinks=2 ; window 2 ; decode", "RING-14"),
        # window_size or max_size: a wider argument widens
        ("RotatingKVCache", "ring window=2 ; window 4 w=3", "MASK-9"),
        # decode writes into the very array that the last one handed out
        ("RotatingKVCache", "ring window=1 ; dense 1 as d1 ; dense 1 ; look d1", "OWN-5"),
        # the first window is kept as the caller's own array
        ("RotatingKVCache", "ring window=4 poison ; window 2", "OWN-8"),
        # the offset is raised before the write can fail
        ("KVCache", "full ; window 2 ; decode malformed=heads", "ERR-1"),
        # state hands out the live buffer
        ("KVCache", "full ; window 2 ; state as s1 ; decode ; look s1", "OWN-4"),
        # n is taken as it is: a negative count moves the offset forward
        ("KVCache", "full ; window 2 ; trim -1", "TRIM-9"),
        # trim lowers the offset, the next append raises it again by what was dropped
        ("ConcatenateKVCache", "full ; window 3 ; trim 1 ; decode", "POS-2"),
    ],
)
def test_what_mlx_lm_is_known_to_break(target: str, text: str, clause: str) -> None:
    """Each of these was read off mlx-lm 0.32.2's source; a release that mends one turns its line red."""
    _, steps = walk(f"builtin:mlx_lm.{target}", text, "core")
    assert steps[-1].divergences, steps[-1]
    assert first(steps)[0] == clause


def test_the_vanished_sink_is_named() -> None:
    """A ring of 4 with one sink fetches t1,t3..t6 for the window t5,t6.

    t6 must see t1 and the newest three, t4..t6; mlx-lm's mask shows it the newest four columns, t3..t6.
    """
    _, steps = walk("builtin:mlx_lm.RotatingKVCache", "ring window=4 sinks=1 ; window 4 ; window 2", "core")
    assert first(steps) == ("VIS-9", "sees t1,t4..t6", "sees t3..t6")
    assert steps[-1].divergences[0].query == 1


def test_clones_can_go_through_the_saved_state() -> None:
    through_state = open_target("builtin:mlx_lm.RotatingKVCache", {"clone": "from_state"})
    run = Lockstep(through_state, "core", clauses("core"))
    steps = run.run(parse("ring window=4 ; window 6 ; clone as c1 ; decode on c1 ; look c0").trace)
    assert not steps[-1].divergences
    assert steps[-1].record.after is not None
    assert steps[-1].record.after.offset == 6


def test_lists_of_mlx_lm_mix_both_kinds() -> None:
    flow = "list full + ring window=4 as l0 ; window 3 on l0 ; trim 1 on l0 ; decode on l0 x4 ; trim 1 on l0"
    _, steps = walk("builtin:mlx_lm.KVCache", f"full ; {flow}", "core")
    assert not steps[-1].divergences
    assert steps[-1].record.answer == 0, "the ring has wrapped, so no layer is trimmed"
