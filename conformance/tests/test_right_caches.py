"""Right caches of other designs are never called wrong at profile core, and one fault in any of them is found."""

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
from kvlaw.conformance.machines.protocol import ProtocolMachine
from kvlaw.conformance.opening import open_any
from kvlaw.conformance.session import Session
from kvlaw.spec.contract import Subject
from kvlaw.spec.text_form import parse, write

CACHES = Path(__file__).parent / "right_caches"
RINGS = {
    "Book",
    "Rolling",
    "Wide",
    "Compacting",
    "Cutting",
    "Clamping",
    "AllOrWindow",
    "Promising",
    "FullMasks",
    "NeverCausal",
    "Additive",
    "NewestFirst",
    "Shuffled",
    "SinksLast",
    "Tight",
    "Casting",
    "Pinning",
}
RIGHT = [
    *(f"by_position:{name}" for name in sorted(RINGS)),
    *(f"by_array:{name}" for name in ("Exact", "Doubling", "Paged", "InPlace")),
    *(f"with_reads:{name}" for name in ("OutputsOnly", "Blind", "FetchesOnly", "NoMask", "Named", "Holey")),
]
FOUND_BY = {
    "ReversedMaskIsOneLate": "ring window=2 ; window 3 x2",
    "ForgetsOneWithSinks": "ring window=3 sinks=1 ; window 4",
    "KeepsWhatWasTrimmed": "ring window=1 ; decode ; trim 1 ; decode",
    "CompactsOneTooFew": "ring window=2 ; window 259 ; decode",
    "DropsOneLess": "ring window=1 ; window 2 ; trim 1",
    "AnswersWhatWasAsked": "ring window=1 ; trim 1",
    "SaysZeroAndDrops": "ring window=1 ; decode ; trim 1",
    "LastRowSeesLess": "ring window=2 batch=2 ; window 2 ; decode",
    "SinksCountTwice": "ring window=3 sinks=1 ; window 4 ; decode",
    "SharesItsMask": "ring window=2 ; mask 5 array as m1 ; decode ; mask 5 ; look m1",
    "RefusesTooLate": "ring window=1 ; decode ; decode malformed=head_dim",
    "LeavesTrimmedColumns": "ring window=2 ; window 2 ; trim 1 ; window 2",
    "GrowsOneShort": "full ; window 4 ; decode",
    "ClonesShareAPage": "full ; window 2 ; clone as c2 ; trim 1 ; decode ; decode on c2",
    "TrimsAllForNone": "full ; decode ; trim 0",
    "ReadsTooWide": "ring window=2 ; window 2 ; decode",
    "SwapsTwoValues": "ring window=1 ; window 3",
    "ReadsAnotherHead": "ring window=1 ; decode",
    "ReadsLater": "ring window=1 look=last ; decode x2",
    "SeesTheFuture": "ring window=1 groups=4 ; window 2",
    "FetchesTooMuch": "ring window=1 ; decode x2",
    "ShowsADeadColumn": "ring window=2 ; decode ; trim 1 ; decode",
    "WindowOfOneSeesMore": "ring window=1 ; decode ; window 1",
}
"""A trace that shows each fault of ``one_fault_each``, worked out from what its docstring says."""


@pytest.fixture(autouse=True)
def on_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the caches be imported, as a vendor's own modules are, and forget them afterwards."""
    monkeypatch.syspath_prepend(str(CACHES))
    yield
    for name in ("by_position", "by_array", "with_reads", "one_fault_each"):
        sys.modules.pop(name, None)


def opened(name: str) -> tuple[Subject, Any]:
    adapter = name.startswith("with_reads:") and name.split(":")[1] not in ("Named", "Holey")
    found = open_any(f"py:{name}", {} if adapter else {"array": "numpy"})
    return found.subject, found.kinds


def core(subject: Subject, text: str) -> tuple[Step, ...]:
    trace = parse(text).trace
    return Lockstep(subject, "core", counted("core", trace.config.kind, subject.capabilities)).run(trace)


def broken(steps: tuple[Step, ...]) -> set[str]:
    return {clause for step in steps for divergence in step.divergences for clause in divergence.clauses}


def explored(name: str, number: int) -> Session:
    """Play every eighth stored trace and a few machine traces; other caches get others."""
    subject, (kind, *_) = opened(name)
    session = Session(subject, "core", counted("core", kind, subject.capabilities), name)
    for entry in entries_for(kind, subject.capabilities, "core")[number % 8 :: 8]:
        session.play(entry.trace)
    play(bind(ProtocolMachine, session, kind, {}), 3, 6, number)
    play(bind(ContractMachine, session, kind, {}), 10, 10, number)
    return session


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_cache_is_never_called_wrong(name: str) -> None:
    session = explored(name, RIGHT.index(name))
    told = [
        f"{f.clause}: {f.divergence.expected}, not {f.divergence.observed}: {write(f.trace)}"
        for f in session.failures.values()
    ]
    assert not told
    assert not session.errors
    assert session.calls > 50
    assert len(session.exercised) > 10


@pytest.mark.parametrize(("name", "trace"), FOUND_BY.items())
def test_one_fault_in_a_right_cache_is_found(name: str, trace: str) -> None:
    faulty: Any = import_module("one_fault_each")

    wrong: Any = getattr(faulty, name)
    settings = {} if issubclass(wrong, faulty.OutputsOnly | faulty.NoMask | faulty.FetchesOnly) else {"array": "numpy"}
    subject = open_any(wrong, settings).subject
    assert broken(core(subject, trace)) & faulty.FAULTS[wrong]


def test_every_planted_fault_has_a_trace() -> None:
    faulty: Any = import_module("one_fault_each")

    assert {wrong.__name__ for wrong in faulty.FAULTS} == set(FOUND_BY)


# What was once called wrong.


@pytest.mark.parametrize(
    ("name", "trace"),
    [
        # A ring of 4 with a sink holds 3 others: of 6 positions 3, 4, 5. Cut by 2, its next query stands at 4 and would
        # see 2 as well, which is gone.
        ("by_position:Cutting", "ring window=4 sinks=1 ; window 6 ; trim 2 ; decode ; decode ; window 3"),
        ("by_position:Cutting", "ring window=5 sinks=3 ; window 9 ; trim 2 ; trim 1 ; window 2 ; decode"),
        # An additive mask is shown as booleans, also when it is looked at again.
        ("by_position:Additive", "ring window=2 ; mask 3 as m1 ; look m1 ; decode ; look m1"),
    ],
)
def test_once_called_wrong(name: str, trace: str) -> None:
    assert not broken(core(opened(name)[0], trace))


def test_what_is_written_after_a_cut_has_to_be_seen() -> None:
    # 10 positions, 6 held for sure; cut by 4, position 6 is written anew, and the next query has to see it.
    steps = core(
        opened("one_fault_each:LosesWhatItWroteAnew")[0], "ring window=4 ; window 10 ; trim 4 ; decode ; decode"
    )
    assert broken(steps) & {"RING-1", "VIS-1"}


# What outputs and fetches tell by themselves.


@pytest.mark.parametrize("name", ["OutputsOnly", "NoMask", "FetchesOnly"])
def test_a_cache_that_shows_no_mask_is_judged_by_its_outputs_or_its_fetch(name: str) -> None:
    subject = opened(f"with_reads:{name}")[0]
    session = Session(subject, "core", counted("core", "ring", subject.capabilities))
    for text in ("ring window=2 groups=4 ; window 3 ; decode", "ring window=2 batch=2 groups=4 ; decode ; window 2"):
        session.play(parse(text).trace)
    assert not session.failures
    assert {"VIS-1", "VIS-2", "VIS-4", "VIS-6", "VIS-10", "RING-1", "RING-11"} <= set(session.exercised)


def test_outputs_without_a_census_do_not_tell_the_whole_set() -> None:
    subject = opened("with_reads:OutputsOnly")[0]
    session = Session(subject, "core", counted("core", "ring", subject.capabilities))
    session.play(parse("ring window=2 groups=1 ; decode").trace)  # the first probe of one group asks for the newest
    assert "READ-3" in session.exercised
    assert "VIS-1" not in session.exercised
