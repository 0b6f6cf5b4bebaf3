"""The lemmas: their registry, their truth on a grid of small integers, and the runner that asks CrossHair.

`kvlaw prove` takes a minute for all of them. Here every lemma and twin is evaluated on every small state instead,
so that a wrong rule in `kvlaw.reference.index` fails `make test` too; CrossHair itself is tried on two lemmas.
"""

import inspect
import itertools
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import starmap
from pathlib import Path
from typing import Any

import pytest

from kvlaw.conformance.proofs import runner
from kvlaw.conformance.proofs.lemmas import LEMMAS, MODULES
from kvlaw.conformance.proofs.registry import REGISTERED, Claim, Lemma, parameters
from kvlaw.conformance.proofs.rows import RowAsItLies, RowInOrder, is_kept, lies_well
from kvlaw.conformance.proofs.runner import LemmaResult, ProverMissingError, run, tasks
from kvlaw.reference.index import Full, Ring, is_valid
from kvlaw.spec.clauses import load_clauses

FAMILIES = {"POS", "GROW", "RING", "VIS", "MASK", "TRIM", "ERR", "PREC", "ROWS", "PAD", "ROUND"}
BY_NAME = pytest.mark.parametrize("lemma", LEMMAS, ids=lambda lemma: lemma.name)


def small_rings() -> Iterator[Ring]:
    for window in range(1, 4):
        for sinks, columns in itertools.product(range(window), range(window + 4)):
            for write_index, offset in itertools.product(range(columns + 1), range(window + 5)):
                for rotated, block in itertools.product((False, True), range(offset + 1)):
                    yield Ring(window, sinks, columns, write_index, rotated, offset, block)


RINGS = [
    *(ring for ring in small_rings() if is_valid(ring)),
    *(Ring(600, 0, columns, offset, offset=offset) for offset, columns in ((0, 0), (255, 256), (256, 256), (512, 512))),
]
FULLS = [
    Full(columns, offset) for columns in (0, 1, 3, 256, 512) for offset in (0, 1, 2, 3, 255, 256) if offset <= columns
]
ROWS_IN_ORDER = [
    row
    for row in starmap(RowInOrder, itertools.product(range(1, 4), range(7), range(-2, 7), (None, *range(6))))
    if is_kept(row)
]
ROWS_AS_THEY_LIE = [
    *(
        row
        for row in starmap(RowAsItLies, itertools.product(range(1, 4), range(6), range(6), (False, True), range(-1, 6)))
        if lies_well(row)
    ),
    *(RowAsItLies(600, columns, offset, False, offset) for offset, columns in ((0, 0), (256, 256), (512, 512))),
]
SMALL = range(-1, 6)
GRID: dict[Any, Any] = {
    RowInOrder: ROWS_IN_ORDER,
    RowAsItLies: ROWS_AS_THEY_LIE,
    Ring: RINGS,
    Full: FULLS,
    int: SMALL,
    int | None: (None, 1, 2, 3, 5),
    bool: (False, True),
}


def grid(claim: Claim) -> Iterator[tuple[Any, ...]]:
    """Give every combination of small arguments that meets the preconditions."""
    kinds = parameters(claim.function)
    values = [GRID[kind] for kind in kinds.values()]
    if RowInOrder in kinds.values():
        values = [range(4) if kind is int else GRID[kind] for kind in kinds.values()]
    elif Ring not in kinds.values():
        values = [(*SMALL, 255, 256, 257) if kind is int else GRID[kind] for kind in kinds.values()]
    names = ", ".join(kinds)
    condition = " and ".join(f"({line})" for line in claim.preconditions)
    met: Callable[..., bool] = eval(f"lambda {names}: {condition or True}", claim.function.__globals__)
    return (arguments for arguments in itertools.product(*values) if met(*arguments))


def test_every_lemma_of_every_module_is_listed_once():
    assert set(REGISTERED) == {lemma.name for lemma in LEMMAS}
    assert len(LEMMAS) == len({lemma.name for lemma in LEMMAS})
    defined = {
        name
        for module in MODULES
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__
    }
    claims = {task.claim.function.__name__ for task in tasks(LEMMAS)}
    assert claims == defined
    assert len(claims) == 2 * len(LEMMAS)


def test_lemmas_cover_the_index_families():
    cited = {clause for lemma in LEMMAS for clause in lemma.clauses}
    assert {clause.partition("-")[0] for clause in cited} == FAMILIES
    assert all(lemma.clauses for lemma in LEMMAS)


def test_lemmas_cite_clauses_that_exist():
    known = load_clauses()
    written = set(known.families)
    assert written & FAMILIES
    cited = {clause for lemma in LEMMAS for clause in lemma.clauses if clause.partition("-")[0] in written}
    assert cited <= set(known)


@BY_NAME
def test_twin_has_the_contract_of_its_lemma_and_says_what_is_wrong(lemma: Lemma):
    assert lemma.twin is not None
    assert parameters(lemma.twin.function) == parameters(lemma.claim.function)
    assert lemma.twin.preconditions == lemma.claim.preconditions
    assert lemma.sentence.endswith(".")
    assert lemma.twin.sentence.endswith(".")
    assert lemma.sentence != lemma.twin.sentence


@BY_NAME
def test_lemma_holds_on_the_grid(lemma: Lemma):
    met = 0
    for arguments in grid(lemma.claim):
        met += 1
        assert lemma.claim.function(*arguments) is True, arguments
    assert met >= 8


@BY_NAME
def test_twin_fails_on_the_grid(lemma: Lemma):
    assert lemma.twin is not None
    twin = lemma.twin.function
    assert any(twin(*arguments) is False for arguments in grid(lemma.twin))


def named(*names: str) -> list[Lemma]:
    return [REGISTERED[name] for name in names]


def test_crosshair_confirms_lemmas_and_refutes_twins():
    pytest.importorskip("crosshair")
    seen: list[LemmaResult] = []
    results = run(seen.append, lemmas=named("slot_of_a_position", "window_fetch_is_complete"))
    assert [(result.name, result.of, result.expected, result.outcome) for result in results] == [
        ("slot_of_a_position", None, "confirmed", "confirmed"),
        ("slot_of_a_position_over_sinks", "slot_of_a_position", "refuted", "refuted"),
        ("window_fetch_is_complete", None, "confirmed", "confirmed"),
        ("window_fetch_of_the_last_columns", "window_fetch_is_complete", "refuted", "refuted"),
    ]
    assert all(result.ok and result.seconds > 0 for result in results)
    assert sorted(seen, key=results.index) == results
    example = results[1].counterexample
    assert example is not None
    twin = REGISTERED["slot_of_a_position"].twin
    assert twin is not None
    assert eval(example, twin.function.__globals__) is False


BAD_CLAIMS = '''
import os, time
from kvlaw.reference.index import Ring, is_valid

def vacuous(number: int) -> bool:
    """No input.

    pre: number > number
    post: _
    """
    return True

def crashes(number: int) -> bool:
    """Ends its process.

    post: _
    """
    os._exit(3)

def prints(number: int) -> bool:
    """Prints, and is true.

    post: _
    """
    print('{"outcome": "refuted"}')
    return number == number

def raises(number: int) -> bool:
    """Raises for one input.

    post: _
    """
    return 1 // (number - 7) is not None

def without_contract(number: int) -> bool:
    """Claims nothing."""
    return True

def endless(number: int) -> bool:
    """Has more paths than any time allows.

    pre: number >= 0
    post: _
    """
    while number > 0:
        number -= 1
    return number == 0
'''


@pytest.fixture
def bad_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    (tmp_path / "bad_claims.py").write_text(BAD_CLAIMS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", ":".join(path for path in sys.path if path))
    yield __import__("bad_claims")
    sys.modules.pop("bad_claims", None)


def test_nothing_but_the_expected_outcome_passes(bad_claims: Any):
    pytest.importorskip("crosshair")
    names = ("vacuous", "crashes", "prints", "raises", "without_contract", "endless")
    lemmas = [Lemma(Claim(getattr(bad_claims, name)), ("POS-1",)) for name in names]
    results = {result.name: result for result in run(lemmas=lemmas, jobs=1, timeout=1.0)}
    assert {name: result.outcome for name, result in results.items()} == {
        "vacuous": "vacuous",
        "crashes": "error",
        "prints": "confirmed",
        "raises": "error",
        "without_contract": "error",
        "endless": "unknown",
    }
    assert [name for name, result in results.items() if result.ok] == ["prints"]
    assert "worker ended" in results["crashes"].detail


def test_a_hanging_worker_is_ended(bad_claims: Any, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("crosshair")
    monkeypatch.setattr(runner, "GRACE_S", -59.0)
    (result,) = run(lemmas=[Lemma(Claim(bad_claims.endless), ("POS-1",))], jobs=1, timeout=60.0)
    assert result.outcome == "error"
    assert "worker ended" in result.detail


def test_an_interrupt_ends_the_workers_and_drops_what_waits(bad_claims: Any):
    pytest.importorskip("crosshair")
    before = set(threading.enumerate())
    timer = threading.Timer(1.0, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run(lemmas=[Lemma(Claim(bad_claims.endless), ("POS-1",))] * 3, jobs=1, timeout=60.0)
    for thread in set(threading.enumerate()) - before - {timer}:
        thread.join(timeout=10.0)
        assert not thread.is_alive()


def _nowhere(_name: str) -> None:
    return None


def test_missing_crosshair_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", _nowhere)
    with pytest.raises(ProverMissingError, match=r"kvlaw\[prove\]"):
        run(lemmas=named("slot_of_a_position"))
