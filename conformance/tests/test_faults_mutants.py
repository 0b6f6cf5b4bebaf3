"""Mutants of the MLX implementation: loaded in memory, killed by traces, and accounted for one way or another."""

import sys
from copy import deepcopy

import pytest

pytest.importorskip("mlx.core", reason="mutants change the MLX implementation")

from kvlaw.conformance.faults.changed import PACKAGE, importers, load
from kvlaw.conformance.faults.mutants import (
    Kill,
    Mutant,
    MutantHunt,
    control,
    hunt_mutants,
    kill,
    listed,
    mutants,
    stored,
    suited,
)
from kvlaw.conformance.faults.report import FaultReport
from kvlaw.spec.cite import CITATIONS
from kvlaw.spec.clauses import load_clauses
from kvlaw.spec.text_form import parse

CLAUSES = load_clauses()
SHORT = "masks.window_shape: history + length > bound -> history + length >= bound"
"""An array one position early: MASK-5, MASK-7."""
SHORTER_KEYS = (
    "recurrent_state._fit_each_other: step.keys.shape[:2] == step.values.shape[:2] == (batch, length) -> "
    "step.keys.shape[:2] <= step.values.shape[:2] == (batch, length)"
)
SWAPPED_GATES = (
    "recurrent_state.advanced: step.run(step.queries, step.keys, step.values, step.decay, step.beta, "
    "state.matrix, padding) -> step.run(step.queries, step.keys, step.values, step.beta, step.decay, "
    "state.matrix, padding)"
)


def the(name: str) -> Mutant:
    (found,) = [mutant for mutant in mutants() if mutant.name == name]
    return found


def test_every_mutant_has_a_name_of_its_own() -> None:
    names = [mutant.name for mutant in mutants()]
    assert len(names) == len(set(names)) > 300


def test_a_mutant_is_killed_by_the_clause_that_it_breaks_and_the_unchanged_code_is_not() -> None:
    traces = [("within", parse("full ; window 2").trace), ("reaching", parse("full ; window 2 w=2").trace)]
    assert control(traces, CLAUSES) == ()
    found = kill(the(SHORT), traces, CLAUSES)
    assert (found.word, found.trace, found.clause, found.calls) == ("killed", "reaching", "MASK-5", 1)
    assert kill(the(SHORT), traces[:1], CLAUSES).word == "survived"


def test_loading_a_mutant_leaves_modules_and_citations_as_they_were() -> None:
    ours = load()
    modules = {n: m for n, m in sys.modules.items() if n.startswith(PACKAGE)}
    cited = deepcopy(CITATIONS)
    mutant = the(SHORT)
    theirs = load(mutant.module, mutant.mutation.code())
    assert theirs.package is not ours.package
    assert theirs.package.RingCache is not ours.package.RingCache
    assert {n: m for n, m in sys.modules.items() if n.startswith(PACKAGE)} == modules
    assert cited == CITATIONS
    assert load().package is ours.package


def test_what_a_change_does_not_reach_is_shared() -> None:
    reached = importers(f"{PACKAGE}.group_merge")
    assert reached >= {PACKAGE, f"{PACKAGE}.group_merge", f"{PACKAGE}.groups"}
    assert not reached & {f"{PACKAGE}.{name}" for name in ("geometry", "planes", "caches", "group_geometry")}
    assert importers(f"{PACKAGE}.geometry") >= {
        f"{PACKAGE}.{name}" for name in ("geometry", "caches", "group_geometry")
    }
    assert f"{PACKAGE}.errors" not in importers(f"{PACKAGE}.geometry")
    mutant = next(m for m in mutants() if m.module == "group_merge")
    theirs = load(mutant.module, mutant.mutation.code())
    assert theirs.package.CacheError is load().package.CacheError
    assert theirs.package.RowGroup is not load().package.RowGroup
    assert theirs.package.RingCache is load().package.RingCache


def test_modules_of_groups_walk_the_traces_of_groups_and_others_the_others() -> None:
    texts = {"serial": "full ; decode", "rows": "full_rows ; decode", "codes": "full_rows bits=4 ; decode"}
    traces = tuple((name, parse(text).trace) for name, text in texts.items())
    serial, rows = (next(m for m in mutants() if m.module == name) for name in ("masks", "group_masks"))
    assert [name for name, _ in suited(serial, traces)] == ["serial"]
    assert [name for name, _ in suited(rows, traces)] == ["rows", "codes"]
    assert [name for name, _ in suited(rows, traces, {rows.name})] == ["rows"]
    of_codes = next(m for m in mutants() if m.name.startswith("codes.AffinePlanes.row: "))
    assert [name for name, _ in suited(of_codes, traces)] == ["rows", "codes"]


def test_modules_of_recurrent_layers_walk_their_traces_alone() -> None:
    texts = {"alone": "recurrent ; advance 1", "group": "recurrent_rows ; advance 1", "serial": "full ; decode"}
    traces = tuple((name, parse(text).trace) for name, text in texts.items())
    for module in ("recurrent", "recurrent_rows", "recurrent_state"):
        mutant = next(m for m in mutants() if m.module == module)
        assert [name for name, _ in suited(mutant, traces)] == ["alone", "group"]
    assert [name for name, _ in suited(the(SHORT), traces)] == ["serial"]
    assert control(traces, CLAUSES) == ()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        # what the convolution reads, of a group without a state
        ("recurrent_rows.RecurrentRows.window: self.kernel - 1 -> self.kernel + 1", "recurrent_rows ; advance 1"),
        # queries and keys shorter than the rest, on an empty copy
        (
            SHORTER_KEYS,
            "recurrent ; advance 2",
        ),
        # beta 0 for decay, on a copy with a state
        (
            SWAPPED_GATES,
            "recurrent ; advance 1 ; advance 1",
        ),
        # what a cache stores, and whether it is due
        ("caches.Cache.fetch_stored: self._fetch(keys, values) -> self._fetch(values, keys)", "full ; dense 1"),
        (
            "precision.Precision.due: 0 -> -1 in return boundary is not None and offset >= boundary and (offset != 0)",
            "full bits=4 start=0",
        ),
    ],
)
def test_what_is_asked_of_copies_kills(name: str, text: str) -> None:
    assert kill(the(name), [("one", parse(text).trace)], CLAUSES).word == "killed"


def test_a_mutant_that_cannot_be_imported_is_killed_by_that() -> None:
    found = kill(the("geometry.module: STEP = 256 -> dropped"), [("one", parse("full ; decode").trace)], CLAUSES)
    assert (found.word, found.clause) == ("killed", "NonsenseError" if found.trace == "import" else found.clause)


def test_a_failure_that_is_no_cache_error_is_an_error_and_no_refusal() -> None:
    name = "geometry.FullGeometry.trim: not self.can_trim(count) -> self.can_trim(count)"
    refused = parse("full ; window 2 ; trim 1").trace
    assert kill(the(name), [("", refused)], CLAUSES).clause in ("TRIM-5", "TRIM-1")
    dropped = [m for m in mutants() if m.name.startswith("geometry.FullGeometry.append_block: end = ")]
    assert [kill(m, [("", parse("full ; decode").trace)], CLAUSES).word for m in dropped] == ["killed"]


def test_what_is_listed_and_killed_or_listed_and_gone_fails_the_report() -> None:
    fine = MutantHunt([Kill("a", "t", "VIS-1", 2), Kill("b", reason="never used")])
    assert FaultReport([], fine).exit_code == 0
    wrong = {
        "a: survived": MutantHunt([Kill("a")]),
        "a: wrongly listed": MutantHunt([Kill("a", "t", "VIS-1", 2, reason="never used")]),
        "a: listed as equivalent, but no mutant is called so": MutantHunt([], stale=("a",)),
        "t: the unchanged implementation fails this stored trace": MutantHunt([], unfit=("t",)),
    }
    for problem, hunt in wrong.items():
        assert (FaultReport([], hunt).problems, FaultReport([], hunt).exit_code) == ((problem,), 1)


def test_every_listed_mutant_exists_and_has_a_reason() -> None:
    names = {mutant.name for mutant in mutants()}
    reasons = listed()
    assert set(reasons) | set(listed("dense")) <= names
    assert all(len(reason) > 20 for reason in reasons.values())
    assert len(reasons) < len(names) // 10


def test_the_unchanged_implementation_passes_every_stored_trace() -> None:
    assert control(stored(), CLAUSES) == ()


@pytest.mark.slow
def test_every_twentieth_mutant_is_killed_or_equivalent() -> None:
    told: list[Kill] = []
    hunt = hunt_mutants(told.append, every=20)  # `kvlaw faults --mutants` hunts them all
    assert len(told) == -(-len(mutants()) // 20)
    assert [k for k in hunt.kills if not k.fine] == []
    assert (hunt.stale, hunt.unfit, list(hunt.kills)) == ((), (), told)
