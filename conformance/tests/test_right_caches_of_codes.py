"""Python caches of codes as ``py:`` targets: right ones are never called wrong, one fault in any is found."""

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from kvlaw.conformance.check import counted
from kvlaw.conformance.corpus import entries_for
from kvlaw.conformance.lockstep import Lockstep, Step
from kvlaw.conformance.machines.base import bind, play
from kvlaw.conformance.machines.contract import ContractMachine
from kvlaw.conformance.machines.policies import served
from kvlaw.conformance.opening import Opened, SettingError, open_any
from kvlaw.conformance.session import Session
from kvlaw.conformance.subjects.errors import TargetError
from kvlaw.conformance.subjects.python import Factory, adapter, arrays_named
from kvlaw.spec.config import Config, LayerSpec
from kvlaw.spec.text_form import parse, write

CACHES = Path(__file__).parent / "right_caches"
LIKE_MLX_LM = {"bits": "kv_bits", "group": "group_size", "start": "quantized_kv_start"}
MAPPED = {"Duck": LIKE_MLX_LM, "SwapsScalesAndBiases": LIKE_MLX_LM}
RIGHT = ("Packed", "Duck", "Restoring", "CodedBook")
FOUND_BY = {
    "ConvertsLate": "full bits=4 start=2 ; window 2",
    "FloorIsTheStart": "full bits=4 start=2 ; window 3",
    "QuantizesAgain": "full bits=4 ; window 2 ; trim 1 ; decode",
    "TurnsDense": "full bits=4 start=2 ; window 2 ; trim 1",
    "SwapsScalesAndBiases": "full bits=4 ; decode",
    "RestoresWithoutBiases": "full bits=4 ; dense 1",
}
"""A trace that shows each fault of ``with_codes``, worked out from what its docstring says."""


@pytest.fixture(autouse=True)
def on_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the caches be imported, as a vendor's own modules are, and forget them afterwards."""
    monkeypatch.syspath_prepend(str(CACHES))
    yield
    for name in ("by_position", "with_codes"):
        sys.modules.pop(name, None)


def opened(name: str, **settings: Any) -> Opened:
    return open_any(f"py:with_codes:{name}", {"array": "numpy", **settings}, MAPPED.get(name, {}))


def core(found: Opened, text: str) -> tuple[Step, ...]:
    trace, able = parse(text).trace, found.subject.capabilities
    return Lockstep(found.subject, "core", counted("core", trace.config.kind, able)).run(trace)


def explored(found: Opened, number: int) -> Session:
    """Play every third stored trace that fits the fixed fields, and a few machine traces."""
    subject, (kind, *_) = found.subject, found.kinds
    able = subject.capabilities
    session = Session(subject, "core", counted("core", kind, able), found.name)
    for entry in entries_for(kind, able, "core", served(subject, able))[number % 3 :: 3]:
        if all(getattr(entry.trace.config, name) == value for name, value in found.fixed.items()):
            session.play(entry.trace)
    play(bind(ContractMachine, session, kind, found.fixed), 12, 12, number)
    return session


def told(session: Session) -> list[str]:
    failures = session.failures.values()
    return [f"{f.clause}: {f.divergence.expected}, not {f.divergence.observed}: {write(f.trace)}" for f in failures]


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_cache_of_codes_is_never_called_wrong(name: str) -> None:
    session = explored(opened(name), RIGHT.index(name))
    assert not told(session)
    assert not session.errors
    assert session.calls > 100
    assert {"PREC-11", "POS-2"} <= set(session.exercised) if name in ("Packed", "Duck") else session.exercised


def test_a_policy_can_be_fixed_as_on_the_command_line() -> None:
    found = opened("Packed", bits=4, start=16)
    assert found.fixed == {"bits": 4, "start": 16}
    session = explored(found, 2)
    assert not told(session)
    assert {"PREC-1", "PREC-4", "PREC-5", "PREC-10", "READ-10", "READ-11"} <= set(session.exercised)
    assert not {"PREC-2", "PREC-3", "PREC-11"} & set(session.exercised)  # they speak of other starts


@pytest.mark.parametrize(("name", "trace"), FOUND_BY.items())
def test_one_fault_in_a_right_cache_of_codes_is_found(name: str, trace: str) -> None:
    faults: Any = import_module("with_codes").FAULTS
    wanted = next(clauses for wrong, clauses in faults.items() if wrong.__name__ == name)
    steps = core(opened(name), trace)
    assert steps[-1].divergences[0].clause in wanted
    assert len(steps) - 1 == len(parse(trace).trace.calls)


def test_every_planted_fault_has_a_trace() -> None:
    assert {wrong.__name__ for wrong in import_module("with_codes").FAULTS} == set(FOUND_BY)


@pytest.mark.parametrize(("name", "right"), [("Packed", True), ("SpansInOnePiece", False)])
@pytest.mark.parametrize(
    "text", ["full dtype=f16 stamp=random ; known 3", "full bits=4 stamp=random ; window 2 ; known 3"]
)
def test_known_appends_of_a_python_cache_are_compared_query_by_query(name: str, right: bool, text: str) -> None:
    clauses = frozenset({"READ-13"})
    last = Lockstep(opened(name).subject, "layout", clauses).run(parse(text).trace)[-1]
    assert last.exercised == clauses
    assert [divergence.clause for divergence in last.divergences] == ([] if right else ["READ-13"])


def test_reads_of_tensors_out_of_codes_can_be_asked_again() -> None:
    """A cache that hands out what its codes stand for shows no codes: nobody asks in which form its reads are."""
    assert "codes" not in opened("Restoring").subject.capabilities
    steps = core(opened("Restoring"), "full bits=4 ; window 2 as r ; attend r ; decode ; attend r")
    assert not steps[-1].divergences
    assert len(steps) == 5


# What a factory can be given.


def test_what_a_cache_of_codes_can_be_asked_follows_from_its_signature_and_what_it_hands_out() -> None:
    packed, duck, book = (opened(name).subject for name in ("Packed", "Duck", "CodedBook"))
    assert {"policy", "affine", "bf16_first", "value_bits", "codes", "known", "floor"} <= packed.capabilities
    assert {"policy", "affine", "bf16_first", "codes", "storage", "max_append"} <= duck.capabilities
    assert not {"value_bits", "dense", "attend"} & duck.capabilities
    assert {"policy", "affine", "codes"} <= book.capabilities
    assert not {"bf16_first", "value_bits", "floor"} & book.capabilities
    assert served(packed, packed.capabilities) == ("dense", "affine", "bf16_first")
    assert served(book, book.capabilities) == ("affine",)  # its bits cannot be left out, and it has no start


def plain() -> None: ...
def coded(bits: Any = None) -> None: ...
def always_coded(bits: Any = 8, group: Any = 64) -> None: ...
def late(bits: Any = None, start: Any = None) -> None: ...
def never_at_once(bits: Any = None, start: Any = 0) -> None: ...
def anything(**options: Any) -> None: ...


@pytest.mark.parametrize(
    ("make", "mapping", "policies"),
    [
        (plain, {}, ("dense",)),
        (coded, {}, ("dense", "affine")),
        (always_coded, {}, ("affine",)),
        (late, {}, ("dense", "affine", "bf16_first")),
        (never_at_once, {}, ("dense", "bf16_first")),  # left out, its start is 0 and not none
        (anything, {}, ("dense",)),
        (anything, {"bits": "kv_bits", "start": "after"}, ("dense", "affine", "bf16_first")),
    ],
)
def test_the_policies_of_a_factory_follow_from_its_parameters(
    make: Any, mapping: dict[str, str], policies: tuple[str, ...]
) -> None:
    assert Factory(make, "x:y", mapping, arrays_named("numpy")).policies == policies


def test_a_field_that_a_policy_leaves_out_is_not_passed() -> None:
    given: list[dict[str, Any]] = []

    def make(**options: Any) -> None:
        given.append(options)

    mapping = {name: name for name in ("bits", "value_bits", "group", "start")}
    factory = Factory(make, "x:y", mapping, arrays_named("numpy"))
    for layer in (LayerSpec("full"), LayerSpec("full", bits=4), LayerSpec("full", bits=4, value_bits=8, start=0)):
        factory(layer, Config("full"))
    assert given == [{}, {"bits": 4, "group": 64}, {"bits": 4, "value_bits": 8, "group": 64, "start": 0}]


def test_an_impossible_policy_is_the_factorys_to_refuse() -> None:
    subject = opened("Packed").subject
    assert core(opened("Packed"), "full bits=7")[-1].record.outcome == "refused"
    assert "no such codes" in subject.open(Config("full", bits=7)).message
    assert "what is to be quantized" in subject.open(Config("full", start=5)).message


@pytest.mark.parametrize(
    ("name", "config", "words"),
    [
        ("Restoring", Config("full", bits=4, start=2), "checked with affine storage"),
        ("Duck", Config("full", bits=4, value_bits=8), "lacks value_bits"),
        ("CodedBook", Config("ring", 4, sinks=1, bits=4), "lacks sinks"),
    ],
)
def test_what_a_factory_cannot_be_told_is_unsupported(name: str, config: Config, words: str) -> None:
    observation = opened(name).subject.open(config)
    assert observation.outcome == "unsupported"
    assert words in observation.message


def test_a_factory_without_a_group_is_asked_for_the_usual_one_only() -> None:
    factory = Factory(coded, "x:coded", {}, arrays_named("numpy"))
    factory.check(LayerSpec("full", bits=4))
    with pytest.raises(TargetError, match="x:coded takes no group; say by which parameter it does: --map group="):
        factory.check(LayerSpec("full", bits=4, group=32))


def test_a_policy_by_another_name_is_hinted_at() -> None:
    def make(kv_bits: Any = None) -> Any: ...

    with pytest.raises(TargetError, match="--map bits=kv_bits"):
        Factory(make, "x:make", {}, arrays_named("numpy")).check(LayerSpec("full", bits=4))
    with pytest.raises(SettingError, match=r"checked with dense storage only.*--map bits=") as caught:
        open_any("py:with_codes:Duck", {"array": "numpy", "bits": 4})
    assert "py:with_codes:Duck" in str(caught.value)


def test_the_adapter_of_a_coded_cache_builds_what_a_layer_asks() -> None:
    made: Any = adapter("with_codes:Packed", {"array": "numpy"}, {})
    cache = made.build(LayerSpec("full", bits=4, value_bits=8, group=32, start=3))
    assert (cache.policy.bits, cache.policy.group, cache.policy.start) == ((4, 8), 32, 3)
    assert made.build(LayerSpec("full")).policy.bits == (None, None)
