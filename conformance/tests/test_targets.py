"""Targets by name: what can be opened, which kinds it serves, and what is said of a target that cannot be run."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvlaw.conformance.adapter import AdapterSubject
from kvlaw.conformance.demands import terms_of
from kvlaw.conformance.faults.registry import load_faults
from kvlaw.conformance.lockstep import Lockstep, Step
from kvlaw.conformance.subjects import canary
from kvlaw.conformance.subjects.declared import check_declared
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.conformance.subjects.targets import (
    TargetError,
    arithmetic_is_modelled,
    known_targets,
    open_object,
    open_target,
    target_kinds,
)
from kvlaw.reference.oracle import Profile
from kvlaw.spec.clauses import load_clauses
from kvlaw.spec.contract import Subject
from kvlaw.spec.text_form import parse

EXAMPLES = Path(__file__).parent / "vendor_examples"
NUMPY = {"array": "numpy"}


@pytest.fixture(autouse=True)
def on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the examples be imported, as a vendor's own modules are."""
    monkeypatch.syspath_prepend(str(EXAMPLES))


def walk(subject: Subject, text: str, profile: Profile = "core") -> tuple[Step, ...]:
    return Lockstep(subject, profile, frozenset(load_clauses().of_profile(profile).by_id)).run(parse(text).trace)


def visible(step: Step) -> Any:
    assert step.record.read is not None
    return step.record.read.visible


# Names.


def test_every_builtin_opens_and_serves_its_kinds() -> None:
    kinds = {target: target_kinds(target) for target in known_targets()}
    assert kinds == {
        "builtin:oracle": ("full", "ring", "full_rows", "ring_rows", "recurrent", "recurrent_rows"),
        "builtin:mlx_impl.full": ("full",),
        "builtin:mlx_impl.ring": ("ring",),
        "builtin:mlx_impl.affine_full": ("full",),
        "builtin:mlx_impl.affine_ring": ("ring",),
        "builtin:mlx_impl.bf16_first_full": ("full",),
        "builtin:mlx_impl.bf16_first_ring": ("ring",),
        "builtin:mlx_impl.full_rows": ("full_rows",),
        "builtin:mlx_impl.ring_rows": ("ring_rows",),
        "builtin:mlx_impl.affine_full_rows": ("full_rows",),
        "builtin:mlx_impl.affine_ring_rows": ("ring_rows",),
        "builtin:mlx_impl.bf16_first_full_rows": ("full_rows",),
        "builtin:mlx_impl.bf16_first_ring_rows": ("ring_rows",),
        "builtin:mlx_impl.recurrent": ("recurrent",),
        "builtin:mlx_impl.recurrent_rows": ("recurrent_rows",),
        "builtin:mlx_lm.ArraysCache": ("recurrent", "recurrent_rows"),
        "builtin:mlx_lm.KVCache": ("full",),
        "builtin:mlx_lm.RotatingKVCache": ("ring",),
        "builtin:mlx_lm.ConcatenateKVCache": ("full",),
        "builtin:mlx_lm.QuantizedKVCache": ("full",),
        "builtin:mlx_lm.KVCache+convert": ("full",),
        "builtin:mlx_lm.RotatingKVCache+convert": ("ring",),
        "builtin:mlx_lm.BatchKVCache": ("full_rows",),
        "builtin:mlx_lm.BatchRotatingKVCache": ("ring_rows",),
        "builtin:mlx_lm.CacheList": ("full", "ring", "full_rows", "ring_rows"),
    }
    for target, serves in kinds.items():
        subject = open_target(target)
        assert isinstance(subject, AdapterSubject)
        assert (subject.name, terms_of(subject).kinds) == (target, serves)


def test_a_fault_opens_by_name() -> None:
    name, fault = min(load_faults().items())
    assert open_target(f"fault:{name}").capabilities
    assert target_kinds(f"fault:{name}") == fault.kinds


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (
            "builtin:mlx_impl.rink",
            ["'builtin:mlx_impl.rink'", "did you mean 'mlx_impl.ring'?", "builtin:mlx_lm.KVCache"],
        ),
        ("mlx_impl.ring", ["did you mean 'builtin:mlx_impl.ring'?"]),
        ("acme.cache:RingCache", ["did you mean 'py:acme.cache:RingCache'?"]),
        ("bultin:oracle", ["did you mean 'builtin'?"]),
        ("", ["unknown target ''", "py:module:attribute"]),
        ("py:", ["unknown target 'py:'"]),
        ("py:numpy_caches", ["write py:module:attribute"]),
        ("py:numpy_caches:", ["write py:module:attribute"]),
        ("py:numpy_cashes:Ring", ["no module 'numpy_cashes'", "PYTHONPATH"]),
        ("py:numpy_caches:Rign", ["has no 'Rign'", "did you mean 'Ring'?"]),
        ("py:broken_import:Ring", ["importing broken_import failed", "a_module_that_nobody_has"]),
        ("py:leaving_import:Ring", ["importing leaving_import failed", "sys.exit('not today')"]),
        ("py:interrupting_import:Ring", ["py:interrupting_import:Ring cannot be run: the target raised Keyboard"]),
        ("py:hostile:answer", ["py:hostile:answer is a int", "a class, a factory or an Adapter"]),
        ("py:hostile:Nobody", ["makes a Nobody without update_and_fetch", "Adapter"]),
        ("py:hostile:Unbuildable", ["building py:hostile:Unbuildable", "OSError: no room"]),
        ("py:hostile:Uninterruptible", ["cannot be run: the target raised KeyboardInterrupt"]),
        ("py:hostile:Needy", ["wants 'pool'", "--map FIELD=pool"]),
        ("py:numpy_caches:Ring", ["wants 'max_size', which no field of a ring is called", "--map window=max_size"]),
        ("fault:no-such-fault", ["unknown fault 'no-such-fault'", "kvlaw faults"]),
    ],
)
def test_a_target_that_cannot_be_run_is_named_with_a_way_out(text: str, named: list[str]) -> None:
    with pytest.raises(TargetError) as caught:
        open_target(text, NUMPY if text.startswith("py:") else {})
    for word in named:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("text", "options", "mapping", "named"),
    [
        ("builtin:oracle", {"arary": "numpy"}, {}, ["no option 'arary'", "clone, kernels, seconds"]),
        ("py:numpy_caches:Growing", {"arary": "numpy"}, {}, ["no option 'arary'", "did you mean 'array'?"]),
        ("py:numpy_caches:Growing", {"array": "torch"}, {}, ["array=torch", "mlx and numpy"]),
        ("py:numpy_caches:Growing", {**NUMPY, "kind": "rign"}, {}, ["kind=rign", "full, ring"]),
        ("py:numpy_caches:Growing", {**NUMPY, "kind": "ring"}, {}, ["takes no window", "--map window="]),
        ("py:numpy_caches:Growing", {**NUMPY, "clone": "copy"}, {}, ["clone=copy", "deepcopy"]),
        ("py:numpy_caches:Growing", {**NUMPY, "seconds": "soon"}, {}, ["seconds=soon"]),
        ("py:numpy_caches:Growing", {**NUMPY, "seconds": "0"}, {}, ["seconds=0"]),
        ("py:numpy_caches:Ring", NUMPY, {"windw": "max_size"}, ["no field 'windw'", "did you mean 'window'?"]),
        ("py:numpy_caches:Ring", NUMPY, {"window": "maxsize"}, ["takes no 'maxsize'", "did you mean 'max_size'?"]),
        ("py:numpy_caches:Ring", {**NUMPY, "kind": "full"}, {"window": "max_size"}, ["makes rings"]),
        ("builtin:oracle", {}, {"window": "max_size"}, ["only py: targets map fields"]),
    ],
)
def test_options_and_mappings_that_are_wrong_are_named(
    text: str, options: dict[str, str], mapping: dict[str, str], named: list[str]
) -> None:
    with pytest.raises(TargetError) as caught:
        open_target(text, options, mapping)
    for word in named:
        assert word in str(caught.value)


# Foreign caches.


RING: dict[str, Any] = {"options": NUMPY, "mapping": {"window": "max_size"}}


def test_a_numpy_ring_is_driven_by_its_duck_type_and_keeps_the_core_law() -> None:
    subject = open_target("py:numpy_caches:Ring", **RING)
    assert target_kinds("py:numpy_caches:Ring", **RING) == ("ring",)
    assert subject.capabilities == frozenset(
        {
            "dense",
            "mask",
            "window_argument",
            "as_array",
            "trim",
            "can_trim",
            "reset",
            "clone",
            "planes",
            "columns",
            "nbytes",
        }
    )
    calls = (
        "window 6 as r1 ; decode ; window 2 w=3 ; attend r1 ; clone as c1 ; decode on c1 ; dense 2 as d1 ; decode ; "
        "look d1 ; trim 1 ; mask 2 array ; reset ; window 2 ; trim 1 ; decode x4 ; decode w=2"
    )
    steps = walk(subject, f"ring window=4 batch=2 ; {calls}")
    assert not steps[-1].divergences
    assert len(steps) == 20
    assert visible(steps[1])[0] == ((1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6))
    assert visible(steps[2])[1] == ((4, 5, 6, 7),)
    assert visible(steps[3])[0] == ((6, 7, 8), (7, 8, 9))
    assert steps[10].record.answer == 0, "the ring has wrapped: nothing is dropped"
    assert steps[-1].record.read is not None
    assert steps[-1].record.read.output is None, "a cache without attention is not attended"


def test_a_ring_without_masks_gets_those_of_a_runtime() -> None:
    subject = open_target("py:numpy_caches:MasklessRing", **RING)
    assert not subject.capabilities & {"mask", "window_argument", "as_array"}
    steps = walk(subject, "ring window=3 ; window 5 ; decode ; window 2 ; decode")
    assert not steps[-1].divergences
    assert visible(steps[1])[0] == ((1,), (1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 5))
    assert visible(steps[3])[0] == ((5, 6, 7), (6, 7, 8))
    assert walk(subject, "ring window=3 ; decode w=2")[-1].record.outcome == "unsupported"


def test_a_growing_cache_with_nothing_else() -> None:
    subject = open_target("py:numpy_caches:Growing", NUMPY)
    assert target_kinds("py:numpy_caches:Growing", NUMPY) == ("full",)
    assert subject.capabilities == {"dense"}
    steps = walk(subject, "full dtype=f16 ; window 3 ; decode ; dense 2 as d1 ; decode ; look d1")
    assert not steps[-1].divergences
    assert visible(steps[1])[0] == ((1,), (1, 2), (1, 2, 3))
    assert walk(subject, "full ; decode ; trim 1")[-1].record.outcome == "unsupported"
    copied = open_target("py:numpy_caches:Growing", {**NUMPY, "clone": "deepcopy"})
    steps = walk(copied, "full ; window 2 ; clone as c1 ; decode on c1 ; decode")
    assert not steps[-1].divergences
    assert visible(steps[-1])[0] == ((1, 2, 4),)


def test_planes_of_another_layout_are_not_shown_instead_of_called_wrong() -> None:
    steps = walk(open_target("py:numpy_caches:Transposed", NUMPY), "full ; window 3 ; decode", "layout")
    assert not steps[-1].divergences
    assert steps[-1].record.after is not None
    assert (steps[-1].record.after.held, steps[-1].record.after.columns) == (None, None)


def test_a_near_miss_is_told_from_the_law() -> None:
    steps = walk(open_target("py:numpy_caches:ForgetfulRing", **RING), "ring window=3 ; decode x3")
    assert steps[-1].divergences[0].expected == "sees t1..t3"
    assert steps[-1].divergences[0].observed == "sees t2..t3"
    steps = walk(
        open_target("py:numpy_caches:SharingRing", **RING),
        "ring window=2 ; window 2 ; decode as r1 ; decode ; attend r1",
    )
    assert (steps[-1].divergences[0].clause, steps[-1].divergences[0].observed) == ("OWN-1", "sees t3..t4")


def test_a_factory_gets_the_fields_that_it_takes() -> None:
    subject: Any = open_target("py:numpy_caches:make", NUMPY)
    assert terms_of(subject).kinds == ("full", "ring")
    assert not walk(subject, "ring window=5 dtype=f32 batch=2 kv_heads=3 D=64 Dv=96 ; decode")[-1].divergences
    assert subject.world["c0"].asked == ("ring", 5, 64, 96, 3, 2, np.dtype(np.float32))
    assert not walk(subject, "full ; decode")[-1].divergences
    assert subject.world["c0"].asked[:2] == ("full", 7), "a growing cache has no window to pass"
    assert target_kinds("py:numpy_caches:make", {**NUMPY, "kind": "ring"}) == ("ring",)


def test_a_field_that_a_factory_does_not_take_is_unsupported() -> None:
    subject = open_target("py:numpy_caches:Ring", **RING)
    assert walk(subject, "ring window=4 sinks=1")[-1].record.outcome == "unsupported"
    assert walk(subject, "full")[-1].record.outcome == "unsupported"
    assert walk(subject, "ring window=0")[-1].record.outcome == "refused"


def test_a_cache_with_our_contract_is_told_decode_from_window() -> None:
    subject = open_target("py:contract_cache:Named", NUMPY)
    assert subject.capabilities == {"phases", "attend", "mask", "trim", "can_trim"}
    calls = "window 3 ; window 1 ; decode as r1 ; trim 2 ; decode ; attend r1 ; decode malformed=two"
    steps = walk(subject, f"full dtype=f32 ; {calls}")
    assert not steps[-1].divergences
    assert visible(steps[3])[0] == ((1, 2, 3, 4, 5),)
    assert visible(steps[5])[0] == ((1, 2, 3, 6),)
    assert steps[4].record.answer == 2
    assert steps[-1].record.refused
    assert "decode appends one position" in steps[-1].message
    assert "READ-3" in steps[1].exercised


def test_our_own_caches_are_recognised_by_their_contract() -> None:
    subject: Any = open_target("py:kvlaw.mlx_impl:RingCache", {"array": "mlx"})
    assert terms_of(subject).kinds == ("ring",)
    assert {"phases", "bypass", "sinks", "planes", "attend", "identity"} <= subject.capabilities
    steps = walk(subject, "ring window=4 sinks=1 ; window 6 ; decode x2 ; trim 1 ; window 3", "layout")
    assert not steps[-1].divergences
    assert len(steps) == 6


def test_mlx_lms_caches_are_driven_alike_by_import() -> None:
    subject: Any = open_target(
        "py:mlx_lm.models.cache:RotatingKVCache",
        {"array": "mlx", "clone": "deepcopy"},
        {"window": "max_size", "sinks": "keep"},
    )
    assert terms_of(subject).kinds == ("ring",)
    assert "sinks" in subject.capabilities
    assert walk(subject, "ring window=4 sinks=1 ; window 4 ; window 2")[-1].divergences[0].clause == "VIS-9"
    assert not walk(subject, "ring window=4 ; window 6 ; decode x3 ; clone as c1 ; decode on c1")[-1].divergences


@pytest.mark.parametrize("attribute", ["TapeAdapter", "tape"])
def test_an_adapter_is_used_as_it_is(attribute: str) -> None:
    subject: Any = open_target(f"py:own_adapter:{attribute}")
    assert (terms_of(subject).kinds, subject.capabilities) == (("full",), {"size", "clone"})
    steps = walk(subject, "full batch=2 ; window 2 ; decode ; clone as c1 ; decode on c1")
    assert not steps[-1].divergences
    assert visible(steps[-1])[1] == ((1, 2, 3, 4),)


# Hostile caches.


@pytest.mark.parametrize(
    ("name", "outcome", "named"),
    [
        ("Raises", "refused", "RuntimeError: the pool is empty"),
        ("Hangs", "error", "no answer within 0.2 s"),
        ("Nothing", "error", "None instead of keys and values"),
        ("Three", "error", "a tuple of 3 instead of keys and values"),
        ("Lists", "error", "the fetched keys: a list instead of a NumPy array"),
        ("WrongShape", "ok", "keys have shape [1, 2, 1, 64], not [1, 1, S, 64]"),
        ("WrongDtype", "error", "the fetched keys: f32 instead of bf16"),
        ("NotANumber", "ok", "sees _"),
        ("Torn", "ok", "value of head 0 is t2's"),
        ("Short", "ok", "but 1 values"),
        ("Leaves", "error", "sys.exit(3)"),
        ("Interrupts", "error", "the target raised KeyboardInterrupt of its own"),
        ("OutOfMemory", "refused", "MemoryError: no pages"),
        ("TooDeep", "refused", "RecursionError: maximum recursion depth"),
        ("Abandons", "error", "GeneratorExit: leaving"),
        ("Unspeakable", "refused", "Error: (its text cannot be shown: RuntimeError)"),
        ("BadNumber", "error", "nbytes is nan, no whole number"),
    ],
)
def test_a_hostile_cache_is_a_result_and_the_next_trace_is_judged(name: str, outcome: str, named: str) -> None:
    subject = open_target(f"py:hostile:{name}", {**NUMPY, "seconds": "0.2"})
    steps = walk(
        subject, "full kv_heads=1 groups=1 ; decode ; decode ; decode" if name == "WrongShape" else "full ; decode x3"
    )
    assert steps[2].record.outcome == outcome
    divergence = steps[2].divergences[0]
    assert named in f"{steps[2].message} {divergence.observed}"
    assert len(steps) == 3, "the trace ends at its first divergence"
    assert not walk(subject, "full ; decode")[-1].divergences, "the next trace is judged as if nothing had happened"


def test_the_users_interrupt_ends_it_all() -> None:
    with pytest.raises(KeyboardInterrupt):
        walk(open_target("py:hostile:IsInterrupted", NUMPY), "full ; decode x2")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_cache_that_prints_leaves_stdout_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert not walk(open_target("py:hostile:Prints", NUMPY), "full ; decode x3")[-1].divergences
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "appending\n" * 2)


def test_a_property_that_breaks_is_an_error_of_the_cache() -> None:
    steps = walk(open_target("py:hostile:BreaksLater", NUMPY), "full ; decode x3")
    assert [step.record.outcome for step in steps] == ["ok", "ok", "error"]
    assert "the state: size: AttributeError: 'BreaksLater' object has no attribute 'no_such_thing'" in steps[-1].message
    assert "what is not to be shown raises NotImplementedError" in steps[-1].message
    assert steps[-1].divergences
    with pytest.raises(TargetError, match="nbytes: AttributeError: 'NoneType' object has no attribute 'nbytes'"):
        open_target("py:hostile:BreaksAtOnce", NUMPY)


def test_a_state_that_breaks_is_an_error_of_the_cache() -> None:
    subject = open_target("py:hostile:BrokenState", NUMPY)
    assert "state" in subject.capabilities
    steps = walk(subject, "full ; decode ; state as s")
    assert steps[-1].record.outcome == "error"
    assert steps[-1].message.startswith("state: AttributeError: 'NoneType' object has no attribute 'keys'")


@pytest.mark.parametrize("name", ["Declares", "Asks"])
def test_what_is_only_declared_or_not_there_is_not_shown(name: str) -> None:
    subject = open_target(f"py:hostile:{name}", NUMPY)
    assert not {"nbytes", "size", "write_index", "floor"} & subject.capabilities
    assert not walk(subject, "full ; decode x3")[-1].divergences


def test_mlx_lms_quantized_cache_shows_its_bytes_once_it_has_any() -> None:
    pytest.importorskip("mlx_lm")
    steps = walk(open_target("builtin:mlx_lm.QuantizedKVCache"), "full bits=8 ; decode")
    shown = [step.record.after.nbytes for step in steps if step.record.after is not None]
    assert shown[0] is None
    assert shown[1]


@pytest.mark.parametrize(
    ("attribute", "value", "says"),
    [
        ("capabilities", ["trim"], "capabilities is a list; a frozenset of words is wanted"),
        ("capabilities", None, "capabilities is None; a frozenset"),
        ("capabilities", frozenset({"trimm"}), "capabilities has 'trimm'; did you mean 'trim'?; possible are attend"),
        ("capabilities", property(lambda _: 1 / 0), "ZeroDivisionError"),
        ("kinds", (), "kinds is (); a tuple is wanted, of full, ring"),
        ("kinds", "ring", "kinds is 'ring'; a tuple is wanted"),
        ("kinds", ("square",), "kinds has 'square'; possible are full, ring"),
        ("policies", ("none",), "policies has 'none'; possible are dense, affine, bf16_first"),
        ("dtypes", ("f64",), "dtypes has 'f64'; did you mean 'f16'?"),
        ("code_bits", (7,), "code_bits has 7; possible are 2, 3, 4"),
        ("code_bits", ([4],), "code_bits has [4]; possible are"),
        ("kernel_set", "magic", "kernel_set has 'magic'; possible are unfused"),
        ("computes", "mlz", "computes has 'mlz'; did you mean 'mlx'?"),
    ],
)
def test_what_an_adapter_says_wrongly_of_itself_is_named(attribute: str, value: object, says: str) -> None:
    adapter = type("Odd", (ReferenceAdapter,), {attribute: value})
    with pytest.raises(TargetError) as caught:
        open_object(adapter(), "py:acme:Odd")
    assert "py:acme:Odd" in str(caught.value)
    assert says in str(caught.value)


def test_every_builtin_says_what_it_may() -> None:
    for name in known_targets():
        check_declared(open_target(name), name)


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "1e300", "86401", "soon"])
def test_a_time_limit_that_no_clock_takes_is_refused(seconds: str) -> None:
    with pytest.raises(TargetError, match=f"seconds={seconds}: the time limit of a call is"):
        open_target("builtin:oracle", {"seconds": seconds})


def test_the_oracle_is_given_more_time_than_others() -> None:
    limits = [getattr(open_target(t, o), "seconds", 0) for t, o in (
        ("builtin:oracle", {}), ("builtin:oracle", {"seconds": "3"}), ("py:numpy_caches:Growing", NUMPY)
    )]  # fmt: skip
    assert limits == [60, 3, 10]


def test_a_trim_that_answers_nonsense_is_an_error() -> None:
    steps = walk(open_target("py:hostile:BadTrim", NUMPY), "full ; decode ; trim 1")
    assert steps[-1].record.outcome == "error"
    assert "'all of it' is no whole number" in steps[-1].message


# Without MLX.


def test_numpy_caches_are_checked_without_importing_mlx() -> None:
    script = (
        "import sys\n"
        "from kvlaw.conformance.subjects.targets import open_target, arithmetic_is_modelled\n"
        "from kvlaw.conformance.lockstep import Lockstep\n"
        "from kvlaw.spec.text_form import parse\n"
        "subject = open_target('py:numpy_caches:Ring', {'array': 'numpy'}, {'window': 'max_size'})\n"
        "trace = parse('ring window=4 ; window 6 ; decode').trace\n"
        "steps = Lockstep(subject, 'core', frozenset({'VIS-1', 'VIS-2'})).run(trace)\n"
        "assert not steps[-1].divergences and not arithmetic_is_modelled(subject)\n"
        "print(sorted(name for name in sys.modules if name.split('.')[0] in ('mlx', 'mlx_lm')), len(steps))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=EXAMPLES, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[] 3", done.stderr


def test_whose_arithmetic_is_modelled() -> None:
    modelled = canary.arithmetic_is_modelled()
    assert arithmetic_is_modelled(open_target("builtin:oracle"))
    assert arithmetic_is_modelled(open_target("builtin:mlx_impl.ring")) == modelled
    assert arithmetic_is_modelled(open_target("builtin:mlx_lm.KVCache")) == modelled
    assert not arithmetic_is_modelled(open_target("py:numpy_caches:Growing", NUMPY))
    assert not arithmetic_is_modelled(open_target("py:own_adapter:tape"))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("def __init__(self, window): raise RuntimeError('no GPU')", "failed: RuntimeError: no GPU"),
        ("def __init__(self, window, n_layers): pass", "wants 'n_layers'"),
    ],
)
def test_a_ring_that_cannot_be_built_says_why_and_not_that_it_does_not_grow(
    body: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "broken_ring.py").write_text(f"class Ring:\n    {body}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken_ring", raising=False)
    with pytest.raises(TargetError, match=said):
        open_target("py:broken_ring:Ring")
