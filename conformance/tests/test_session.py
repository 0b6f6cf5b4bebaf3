"""A session: coverage by clause, the shortest failure of each clause, and its charge by control runs."""

from typing import Any

import pytest
from attrs import evolve

from kvlaw.conformance.adapter import AdapterSubject
from kvlaw.conformance.failures import ConformanceFailure, failure_class
from kvlaw.conformance.lockstep import Lockstep
from kvlaw.conformance.session import Findings, Session, StoppedError
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.reference.layout import Cache, Planes, Read
from kvlaw.spec.clauses import load_clauses
from kvlaw.spec.text_form import parse, write
from kvlaw.spec.trace import Trace

ALL = frozenset(load_clauses())


def trace(text: str) -> Trace:
    return parse(text).trace


def session(adapter: type[ReferenceAdapter] = ReferenceAdapter, **options: Any) -> Session:
    return Session(AdapterSubject(adapter()), "layout", ALL, "a cache", **options)


class Forgets(ReferenceAdapter):
    """Says one position too few past eight."""

    def show(self, cache: Any) -> Any:
        view = super().show(cache)
        return evolve(view, offset=8) if (view.offset or 0) > 8 else view


class Borrows(ReferenceAdapter):
    """Keeps the caller's arrays of the first append."""

    class Borrower(Cache):
        def append_window(self, keys: Any, values: Any, dtype: str, window: Any = None, array: Any = False) -> Read:
            read = super().append_window(keys, values, dtype, window, array)
            if self.offset == keys.shape[2]:
                self.planes = Planes(keys, values)
            return read

    cache_type = Borrower


def test_coverage_counts_steps_by_clause():
    found = session()
    found.play(trace("ring window=3 ; window 2 ; decode x2"))
    assert (found.traces, found.calls) == (1, 3)
    assert found.exercised["POS-2"] == 3
    assert found.exercised["POS-3"] == 1  # the third append alone passes the window
    assert found.exercised["VIS-1"] == 2
    assert found.exercised["VIS-2"] == 1
    assert found.exercised["MASK-13"] == 0
    assert found.failures == {}


def test_the_shortest_failure_of_a_clause_is_kept():
    found = session(Forgets)
    for text in ("full ; window 20 ; decode", "full ; window 9", "full ; window 30"):
        found.play(trace(text))
    assert {clause: write(f.trace) for clause, f in found.failures.items()} == {"POS-2": "full ; window 9"}
    failure = found.failures["POS-2"]
    assert (failure.target, failure.divergence.expected, failure.divergence.observed) == ("a cache", "9", "8")


def test_a_failing_trace_is_cut_after_the_failing_call():
    found = session(Forgets)
    found.play(trace("full ; window 9 ; decode x5 ; trim 2"))
    assert write(found.failures["POS-2"].trace) == "full ; window 9"


def test_a_failure_is_shortened_and_keeps_its_clause():
    found = session(Forgets)
    found.play(trace("full dtype=f32 heads=1 D=128 ; decode x3 ; state as s ; window 20 ; clone as c ; decode x2"))
    shortest = found.shortest(found.failures["POS-2"])
    assert (shortest.clause, shortest.minimal) == ("POS-2", True)
    assert write(shortest.trace) == "full ; window 9"
    assert found.traces == 1  # shortening is no coverage


class Drops(ReferenceAdapter):
    """Says that a list of layers can always trim."""

    def can_trim_layers(self, caches: list[Any], n: int) -> bool | None:
        return True


def test_a_trace_that_nobody_can_be_asked_is_no_shorter_form():
    """Taking the codes from a trace with a list of layers of codes leaves a list that cannot be."""
    text = "full bits=4 group=32 start=3 ; list full bits=4 group=32 start=2 as l ; window 3 on l ; clone as c"
    found = session(Drops)
    found.play(trace(text))
    (failure,) = found.failures.values()
    shortest = found.shortest(failure)
    assert shortest.minimal
    assert write(shortest.trace).startswith("full bits=4 group=32")
    unasked = trace("full ; list full bits=4 group=32 start=2 as l ; window 3 on l")
    assert found.diverges(unasked) is None


def test_fixed_fields_survive_shortening():
    found = session(Forgets, fixed=frozenset({"dtype"}))
    found.play(trace("full dtype=f32 heads=1 ; decode x9"))
    assert write(found.shortest(found.failures["POS-2"]).trace) == "full dtype=f32 ; window 9"


def test_what_shows_only_with_poison_is_charged_to_ownership():
    found = session(Borrows)
    for look in ("every", "last"):
        found.play(trace(f"ring window=4 poison look={look} ; window 3 ; window 1"))
    assert set(found.failures) == {"OWN-8"}
    assert found.failures["OWN-8"].trace.config.poison


def test_what_shows_without_poison_too_is_not():
    found = session(Forgets)
    found.play(trace("full poison look=last ; window 9 unread ; decode"))
    assert set(found.failures) == {"POS-2"}
    assert write(found.failures["POS-2"].trace) == "full ; window 9"


def test_trouble_is_counted_by_its_message():
    class Breaks(ReferenceAdapter):
        def show(self, cache: Any) -> Any:
            raise RuntimeError("gone")

    found = session(Breaks)
    for _ in range(3):
        found.play(trace("full ; decode"))
    assert list(found.errors.values()) == [3]
    assert "gone" in next(iter(found.errors))


def test_arithmetic_is_summed_over_runs():
    found = session(arithmetic=True)
    for _ in range(2):
        found.play(trace("full stamp=random ; window 2 ; decode"))
    assert (found.reads_compared, found.reads_different) == (4, 0)


def test_progress_is_told():
    told: list[int] = []

    def tell(one: Session) -> None:
        told.append(one.calls)

    found = session(on_progress=tell)
    found.play(trace("full ; decode x45"))
    assert told == [0, 20, 40]


def test_failures_have_a_class_per_clause_and_an_id():
    assert failure_class("TRIM-4") is failure_class("TRIM-4")
    assert failure_class("TRIM-4").__name__ == "TRIM_4"
    assert issubclass(failure_class("TRIM-4"), ConformanceFailure)
    assert failure_class("TRIM-4").clause == "TRIM-4"
    found = session(Forgets)
    found.play(trace("full ; window 9"))
    identity = found.failures["POS-2"].id
    assert identity.startswith("POS-2-")
    again = session(Forgets)
    again.play(trace("full ; window 9"))
    again.play(trace("full ; window 10"))
    assert again.failures["POS-2"].id == identity
    elsewhere = Session(AdapterSubject(Forgets()), "layout", ALL, "another cache")
    elsewhere.play(trace("full ; window 9"))
    assert elsewhere.failures["POS-2"].trace == again.failures["POS-2"].trace
    assert elsewhere.failures["POS-2"].id != identity


def test_a_failure_says_by_which_profile():
    found = Session(AdapterSubject(Forgets()), "core", ALL)
    found.play(trace("full ; window 9"))
    assert found.failures["POS-2"].profile == "core"


@pytest.mark.parametrize("error", [MemoryError, RecursionError])
def test_a_check_that_runs_out_of_means_stops(error: type[Exception], monkeypatch: pytest.MonkeyPatch):
    """What the suite itself runs out of ends the check, and is no failure that Hypothesis would look for again."""

    def exhausted(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(Lockstep, "run", exhausted)
    with pytest.raises(StoppedError, match="the check ran out of"):
        session().play(trace("full ; decode"))
    assert not issubclass(StoppedError, Exception)


def test_codes_of_arbitrary_data_are_asked_for_only_where_their_arithmetic_is_known() -> None:
    stamps: list[str] = []

    class Asked(ReferenceAdapter):
        def build(self, layer: Any) -> Any:
            stamps.append(self.config.stamp)
            return super().build(layer)

    for arithmetic in (False, True):
        run = session(Asked, arithmetic=arithmetic)
        run.play(trace("full bits=4 stamp=random ; decode"))
        run.play(trace("full stamp=random ; decode"))
    assert stamps == ["code", "random", "random", "random"]


def test_what_two_parts_found_adds_up_in_every_count():
    one, other = Findings(), Findings()
    counts = ("calls", "traces", "reads_compared", "reads_different", "detours")
    for number, name in enumerate(counts, 1):
        setattr(one, name, number)
        setattr(other, name, 10 * number)
    one.add(other)
    assert [getattr(one, name) for name in counts] == [11, 22, 33, 44, 55]
