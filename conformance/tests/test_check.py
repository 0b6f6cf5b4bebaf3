"""A check as a whole: outcomes, verdicts and exit codes, on the reference, on lesser and on wrong caches."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from kvlaw.conformance.adapter import AdapterSubject
from kvlaw.conformance.check import (
    EFFORTS,
    Plan,
    Progress,
    applicable,
    check,
    counted,
    machines,
    probe,
    replay,
)
from kvlaw.conformance.lockstep import Lockstep
from kvlaw.conformance.opening import SettingError, name_of, open_any
from kvlaw.conformance.result import EXIT_CODES, ArithmeticResult, CheckResult, ClauseResult
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.conformance.subjects.targets import TargetError
from kvlaw.reference.layout_group import RowGroup
from kvlaw.spec.clauses import load_clauses
from kvlaw.spec.config import KINDS, RECURRENT_KINDS, ROW_KINDS, SERIAL_KINDS
from kvlaw.spec.text_form import parse, write

CLAUSES = load_clauses()
POLICIES = ("", "affine_", "bf16_first_")
CORE_ONLY = frozenset(("attend", "planes", "columns"))


class Less(ReferenceAdapter):
    """The reference, with few capabilities."""

    capabilities = CORE_ONLY


class NeverEvicts(ReferenceAdapter):
    """Trims a full ring by moving its counters."""

    def trim(self, cache: Any, n: Any, bypass: bool) -> int | None:
        ring = cache.state
        if type(n) is int and 0 < n <= cache.offset and ring.offset >= getattr(ring, "window", 1 << 30):
            cache.state = evolve(ring, offset=ring.offset - n)
            return n
        return super().trim(cache, n, bypass)


def result(adapter: type[ReferenceAdapter], **options: Any) -> CheckResult:
    chosen: dict[str, Any] = {"kinds": ("ring",), "budget": "quick", **options}
    return check(Plan("a cache", **chosen), AdapterSubject(adapter()))


def outcome(found: CheckResult, clause: str) -> ClauseResult:
    return next(r for r in found.clauses if r.clause.id == clause)


def test_a_clause_applies_by_kind_and_by_capability():
    assert applicable(CLAUSES["GROW-1"], "full", frozenset()) == ""
    assert applicable(CLAUSES["GROW-1"], "ring", frozenset()) == "speaks of full, full_rows only"
    assert applicable(CLAUSES["TRIM-4"], "ring", frozenset({"trim", "can_trim"})) == ""
    why = applicable(CLAUSES["TRIM-4"], "ring", frozenset({"trim"}))
    assert why == "the target lacks can_trim: it says beforehand what it can trim"
    counting = counted("core", "ring", frozenset())
    assert "VIS-1" in counting
    assert not {"TRIM-4", "GROW-1", "VIS-7"} & counting


def test_the_reference_is_told_to_be_right_as_far_as_it_was_asked():
    found = result(ReferenceAdapter, profile="layout")
    assert found.failed == ()
    assert found.verdict in {"conformant", "incomplete"}
    assert {r.outcome for r in found.clauses} <= {"pass", "not exercised", "not applicable"}
    assert outcome(found, "GROW-1").why == "speaks of full, full_rows only"
    assert outcome(found, "VIS-1").exercised > 0
    assert {r.clause.id for r in found.clauses} == set(CLAUSES)


def test_core_holds_to_must_alone():
    assert {r.clause.level for r in result(Less).clauses} == {"MUST"}


def test_a_lesser_cache_is_not_held_to_what_it_lacks():
    found = result(Less)
    assert found.failed == ()
    assert outcome(found, "TRIM-3").outcome == "not applicable"
    assert outcome(found, "TRIM-3").why.startswith("the target lacks trim")
    assert outcome(found, "VIS-1").outcome == "pass"


def test_a_clause_whose_situation_never_arose_is_open_and_no_pass():
    found = result(ReferenceAdapter, fixed={"seed": 12345})  # no stored trace has this seed
    assert {r.outcome for r in found.clauses} == {"not exercised", "not applicable"}
    assert (found.verdict, found.exit_code, found.calls) == ("incomplete", 4, 0)


def test_a_wrong_cache_is_found_and_shown_on_a_short_trace():
    found = result(NeverEvicts)
    assert (found.verdict, found.exit_code) == ("violations", 1)
    assert "TRIM-4" in {r.clause.id for r in found.failed}
    failure = outcome(found, "TRIM-4").failures[0]
    assert failure.minimal
    assert len(failure.trace.calls) == 2
    steps = replay(AdapterSubject(NeverEvicts()), "core", failure.trace)
    assert steps[-1].divergences[0].clause == "TRIM-4"


def test_both_kinds_of_a_target_are_checked():
    found = result(ReferenceAdapter, kinds=("full", "ring"))
    assert outcome(found, "GROW-1").outcome == "pass"
    assert outcome(found, "RING-1").outcome == "pass"


def test_an_interrupt_keeps_what_was_found():
    played = 0

    def report(progress: Progress) -> None:
        nonlocal played
        played += 1
        if progress.failures:
            raise KeyboardInterrupt

    found = check(Plan("a cache", ("ring",), "core", "ci"), AdapterSubject(NeverEvicts()), report)
    assert found.interrupted
    assert found.failed
    assert found.verdict == "violations"
    assert played > 0


def test_an_interrupt_of_the_users_during_a_call_keeps_what_was_found():
    class Pressed(NeverEvicts):
        """The user presses Ctrl-C while the thousandth array is made."""

        arrays_made = 0

        def tensor(self, bits: Any, dtype: str) -> Any:
            Pressed.arrays_made += 1
            if Pressed.arrays_made == 1000:
                signal.raise_signal(signal.SIGINT)
            return super().tensor(bits, dtype)

    found = result(Pressed)
    assert found.interrupted
    assert found.failed
    assert Pressed.arrays_made == 1000


@pytest.mark.parametrize("error", [MemoryError("pages"), RecursionError("deep"), SystemExit(3), KeyboardInterrupt()])
def test_what_a_target_raises_is_the_outcome_of_a_trace(error: BaseException):
    class Raises(ReferenceAdapter):
        def trim(self, cache: Any, n: Any, bypass: bool) -> Any:
            raise error

    found = result(Raises)
    assert not found.interrupted
    assert found.whole
    assert found.verdict == "violations"
    families = {r.clause.family for r in found.failed}
    assert "TRIM" in families
    assert families <= {"TRIM", "ERR"}  # a trim by no whole number is refused by ERR-5


def test_a_check_that_runs_out_of_memory_keeps_what_was_found(monkeypatch: pytest.MonkeyPatch):
    step, steps = Lockstep.step, 0

    def exhausted(self: Lockstep, call: Any) -> Any:
        nonlocal steps
        steps += 1
        if steps == 1000:
            raise MemoryError
        return step(self, call)

    monkeypatch.setattr(Lockstep, "step", exhausted)
    found = check(Plan("a cache", ("ring",), "core", "ci"), AdapterSubject(NeverEvicts()))
    assert not found.interrupted
    assert not found.whole
    assert "ran out of memory" in found.stopped
    assert found.failed
    assert found.to_json()["stopped"] == found.stopped
    assert steps == 1000


def test_the_json_is_what_the_issue_promises():
    found = result(NeverEvicts).to_json()
    assert {
        "target",
        "verdict",
        "profile",
        "versions",
        "seed",
        "budget",
        "arithmetic",
        "clauses",
        "calls",
        "seconds",
    } <= set(found)
    told = found["clauses"]["TRIM-4"]
    assert {"level", "outcome", "exercised", "traces"} <= set(told)
    assert told["outcome"] == "fail"
    assert told["traces"][0]["config"]["kind"] == "ring"
    assert [c["call"] for c in told["traces"][0]["calls"]][-1] == "trim"
    assert json.loads(json.dumps(found)) == found


def made(*outcomes: tuple[str, Any], interrupted: bool = False) -> CheckResult:
    clauses = tuple(ClauseResult(CLAUSES[i], o) for i, o in outcomes)
    return CheckResult("t", "layout", "ci", 0, {}, clauses, interrupted=interrupted)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (made(("VIS-1", "pass"), ("VIS-7", "pass")), "conformant"),
        (made(("VIS-1", "pass"), ("VIS-7", "not exercised")), "conformant"),  # LAYOUT alone
        (made(("VIS-1", "not exercised"), ("VIS-7", "pass")), "incomplete"),
        (made(("VIS-1", "not applicable"), ("VIS-7", "pass")), "conformant"),
        (made(("VIS-1", "not exercised"), ("VIS-7", "fail")), "violations"),
        (made(("VIS-1", "pass"), interrupted=True), "incomplete"),
        (evolve(made(("VIS-1", "pass")), stopped="out of memory"), "incomplete"),
        (made(("VIS-1", "fail"), interrupted=True), "violations"),
    ],
)
def test_verdicts(found: CheckResult, verdict: str):
    assert found.verdict == verdict
    assert found.exit_code == EXIT_CODES[verdict]


def test_exit_codes_are_those_of_the_design():
    failing = {"violations": 1, "stale expectations": 1}
    assert {"conformant": 0, **failing, "usage": 2, "unusable": 3, "incomplete": 4} == EXIT_CODES


def test_arithmetic_has_a_line_of_its_own():
    assert ArithmeticResult(modelled=False, reads=9).word == "not observed"
    assert ArithmeticResult(modelled=True).word == "not observed"
    assert ArithmeticResult(modelled=True, reads=9).word == "exact"
    assert ArithmeticResult(modelled=True, reads=9, different=2).word == "differs (2 of 9 reads)"


# Opening.


def test_targets_are_opened_by_name_or_as_objects():
    assert open_any("builtin:oracle").kinds == KINDS
    assert open_any("builtin:oracle", {"kind": "ring"}).kinds == ("ring",)
    assert open_any("builtin:oracle", {"window": 8}).kinds == ("ring", "ring_rows")
    for target in (ReferenceAdapter, ReferenceAdapter(), AdapterSubject(ReferenceAdapter())):
        assert open_any(target).subject.open(parse("full").trace.config).ok


def test_objects_are_named_by_where_they_come_from():
    assert name_of(ReferenceAdapter) == "py:kvlaw.conformance.subjects.oracle:ReferenceAdapter"
    assert name_of(ReferenceAdapter()) == "kvlaw.conformance.subjects.oracle:ReferenceAdapter (an object)"

    class Local(ReferenceAdapter):
        pass

    assert name_of(Local).endswith("(an object)")


def test_the_name_has_the_options_of_the_target_but_not_the_fixed_fields():
    found = open_any("builtin:oracle", {"window": 8, "seconds": 5})
    assert (found.name, found.fixed) == ("builtin:oracle --set seconds=5", {"window": 8})


@pytest.mark.parametrize(
    ("target", "settings", "says"),
    [
        ("builtin:oracle", {"window": 0}, "window=0: a ring needs a window of at least 1, not 0"),
        ("builtin:oracle", {"window": 4, "sinks": 4}, "a ring of window 4 can pin 0 to 3 sinks, not 4"),
        ("builtin:oracle", {"kind": "rong"}, "kind=rong: the kinds are full, ring"),
        ("builtin:oracle", {"kind": "full", "window": 8}, "only a ring has a window and sinks"),
        ("builtin:oracle", {"dtype": "f8"}, ".*dtype: .*f8.* one of bf16, f16, f32"),
        ("builtin:oracle", {"window": "wide"}, ".*window: 'wide' is not an integer"),
        ("builtin:oracle", {"head_dim": 8}, ".*head_dim.*32"),
        ("builtin:oracle", {"window": 100_000}, "window=100000: .*up to 8,192"),
        ("builtin:oracle", {"batch": 10**9}, "batch=1000000000.* too large for a check: .*512 MiB"),
        ("builtin:oracle", {"seed": 10**30}, "seed goes from 0 to 4,294,967,295"),
    ],
)
def test_settings_that_cannot_be(target: str, settings: dict[str, Any], says: str):
    with pytest.raises(SettingError, match=says):
        open_any(target, settings)


def test_an_option_that_a_target_does_not_take_is_named():
    with pytest.raises(TargetError, match="no option 'windows'"):
        open_any("builtin:oracle", {"windows": 4})


def test_a_target_that_opens_nothing_is_told_before_the_check():
    class Closed(ReferenceAdapter):
        def build(self, layer: Any) -> Any:
            raise MemoryError("no pages")

    trouble = probe(AdapterSubject(Closed()), ("full", "ring"), {})
    assert trouble == "a full cache: MemoryError: no pages"
    assert probe(AdapterSubject(ReferenceAdapter()), ("ring",), {"sinks": 3}) == ""


def test_the_shortest_trace_names_its_calls():
    failure = outcome(result(NeverEvicts), "TRIM-4").failures[0]
    assert write(failure.trace).startswith("ring window=")
    assert "trim 1" in write(failure.trace)


# Groups of rows.


def test_groups_are_checked_by_the_machines_of_groups():
    named = {kind: [machine.__name__ for machine, _, _ in machines(kind, EFFORTS["ci"])] for kind in KINDS}
    assert named["full"] == named["ring"] == ["ProtocolMachine", "ContractMachine", "ServerMachine"]
    assert (
        named["full_rows"] == named["ring_rows"] == ["RowsProtocolMachine", "RowsContractMachine", "RowsServerMachine"]
    )
    assert all(examples == 0 for kind in KINDS for _, examples, _ in machines(kind, EFFORTS["quick"]))


class TrimsTheLongestAlone(ReferenceAdapter):
    """Answers for every row what it has trimmed of none."""

    def trim(self, cache: Any, n: Any, bypass: bool) -> int | None:
        if isinstance(cache, RowGroup) and type(n) is int and n > 0 and cache.can_trim(n):
            return n
        return super().trim(cache, n, bypass)


def test_a_wrong_group_is_found_and_shown_on_a_short_trace():
    found = result(TrimsTheLongestAlone, kinds=("full_rows",))
    assert found.verdict == "violations"
    failure = outcome(found, "ROWS-19").failures[0]
    assert failure.trace.config.row_count == 1
    assert [call.verb for call in failure.trace.calls] == ["decode", "trim"]


@pytest.mark.parametrize(
    "name", [*(policy + kind for policy in POLICIES for kind in (*SERIAL_KINDS, *ROW_KINDS)), *RECURRENT_KINDS]
)
def test_the_stored_traces_alone_reach_every_clause_of_each_of_our_kinds(name: str):  # at layout: make conform
    pytest.importorskip("mlx.core")
    target = f"builtin:mlx_impl.{name}"
    opened = open_any(target)
    assert (len(opened.kinds), probe(opened.subject, opened.kinds, {})) == (1, "")
    found = check(Plan(target, opened.kinds, "core", "quick"), opened.subject)
    assert [r.clause.id for r in found.open if r.clause.level == "MUST"] == []
    assert found.verdict == "conformant"


def test_a_factory_that_takes_rows_makes_groups_and_the_caches_beside_them(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("mlx.core")
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "right_caches"))
    opened = open_any("py:groups:group_or_cache")
    assert opened.kinds == ROW_KINDS
    assert {"rows", "merge", "extract", "hand_back", "filter", "padding", "bracket"} <= opened.subject.capabilities
    assert not {"policy", "sinks", "bypass"} & opened.subject.capabilities
    text = "ring_rows window=2 rows=1 ; window 3 ; cache as s1 ; decode on s1 ; merge c0 s1 as g1 ; decode on g1"
    steps = replay(opened.subject, "layout", parse(text).trace)
    assert (len(steps), [d for step in steps for d in step.divergences]) == (6, [])
    assert open_any("py:groups:group_or_cache", {"kind": "ring"}).kinds == ("ring",)
