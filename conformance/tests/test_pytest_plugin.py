"""The pytest plugin, in a vendor's own suite: one plain item per clause, told apart by passed, failed and skipped."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from kvlaw.conformance.adapter import AdapterSubject
from kvlaw.conformance.check import Plan, check
from kvlaw.conformance.failures import Failure
from kvlaw.conformance.pytest_shared import shared
from kvlaw.conformance.rerunning import Rerun
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
from kvlaw.spec.clauses import load_clauses

LOADED = [
    import_module(f"kvlaw.conformance.{name}")
    for name in ("check", "pytest_items", "reports.terminal", "subjects.python")
]
"""Loaded once, so that suites that are run in this process do not load them again and again."""

pytest_plugins = ["pytester"]

CORE = load_clauses().of_profile("core")

CACHE = '''
import numpy as np


class Ring:
    """A ring that keeps its newest window - 1 columns before each append; ``wrong`` lets it forget one more."""

    wrong = 0

    def __init__(self, window):
        self.window, self.offset, self.keys, self.values = window, 0, None, None

    def update_and_fetch(self, keys, values):
        if self.keys is not None:
            first = max(0, self.keys.shape[2] - (self.window - 1) + self.wrong)
            keys = np.concatenate([self.keys[:, :, first:], keys], 2)
            values = np.concatenate([self.values[:, :, first:], values], 2)
            self.offset += keys.shape[2] - (self.keys.shape[2] - first)
        else:
            self.offset = keys.shape[2]
        self.keys, self.values = keys.copy(), values.copy()
        return self.keys, self.values


class Short(Ring):
    """Forgets a token too early."""

    wrong = 1
'''

SUITE = """
from kvlaw.conformance import conformance_tests

test_ring = conformance_tests("acme:{cache}", kind="ring", array="numpy", window=4, budget="quick"{more})
"""


@pytest.fixture
def vendor(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a vendor's suite, in this process unless ``apart`` asks for one of its own."""
    pytester.makepyfile(acme=CACHE)
    pytester.syspathinsert()
    monkeypatch.setenv("PYTHONPATH", str(pytester.path))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def run(suite: str, *options: str, apart: bool = False) -> pytest.RunResult:
        pytester.makepyfile(test_suite=suite)
        go = pytester.runpytest_subprocess if apart else pytester.runpytest_inprocess
        return go(
            "-p", "no:cacheprovider", "-p", "no:xdist" if "-n" not in options else "xdist", "-W", "error", *options
        )

    return run


def outcomes(result: pytest.RunResult) -> dict[str, str]:
    """Read the outcome of every item from a verbose report."""
    words = {"PASSED", "FAILED", "SKIPPED", "ERROR"}
    lines = [line.split() for line in result.outlines if "::" in line]
    return {line[0].partition("::")[2]: line[1] for line in lines if len(line) > 1 and line[1] in words}


def suite(cache: str, more: str = "") -> str:
    return SUITE.format(cache=cache, more=more)


def test_a_right_cache_passes_or_is_skipped_and_the_verdict_says_what_is_missing(vendor: Any):
    result = vendor(suite("Ring"), "-v", "-rs")
    told = outcomes(result)
    assert set(told) == {f"test_ring[{name}]" for name in (*CORE, "verdict")}
    assert told["test_ring[VIS-1]"] == "PASSED"
    assert told["test_ring[RING-1]"] == "PASSED"
    assert told["test_ring[TRIM-4]"] == "SKIPPED"
    assert told["test_ring[GROW-1]"] == "SKIPPED"
    assert "FAILED" not in {outcome for name, outcome in told.items() if "verdict" not in name}
    result.stdout.fnmatch_lines(["*SKIPPED*not applicable: speaks of full only*"])
    result.stdout.fnmatch_lines(["*SKIPPED*not applicable: the target lacks trim*"])


def test_what_was_never_exercised_is_no_pass(vendor: Any):
    never = suite("Ring", ", head_dim=160")  # no stored trace has this width
    result = vendor(never, "-v", "-rs")
    told = outcomes(result)
    assert "PASSED" not in told.values()
    assert told["test_ring[VIS-1]"] == "SKIPPED"
    result.stdout.fnmatch_lines(["*SKIPPED*not exercised: its situation never arose within budget quick*"])
    assert told["test_ring[verdict]"] == "FAILED"
    result.stdout.fnmatch_lines(["*incomplete: never exercised within budget quick: *VIS-1*"])
    allowed = vendor(suite("Ring", ", head_dim=160, allow_incomplete=True"), "-v", "-k", "verdict")
    assert outcomes(allowed) == {"test_ring[verdict]": "PASSED"}


def test_a_wrong_cache_fails_by_clause_with_its_block(vendor: Any):
    result = vendor(suite("Short"), "-v")
    told = outcomes(result)
    failed = [name for name, outcome in told.items() if outcome == "FAILED"]
    assert "test_ring[RING-1]" in failed
    assert "test_ring[verdict]" in failed
    assert told["test_ring[VIS-3]"] == "PASSED"
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "*RING-1  *MUST*",
            "*target  py:acme:Short*fixed window=4   shortest trace*",
            "*built   by Short(window=4)*",
            "*trace   ring window=4 *",
            "*sees t*",
            "*kvlaw replay RING-1-*",
        ]
    )
    result.stdout.fnmatch_lines(["*violations: py:acme:Short*(fixed window=4) breaks *RING-1*"])
    result.stdout.fnmatch_lines(["FAILED *test_ring?RING-1? - RING-1: a ring holds *"])
    result.stdout.no_fnmatch_line("*kvlaw_run.judge*")  # the block, and no frames of ours


HANGS = """

import time


class Hangs(Ring):
    def is_trimmable(self):
        return False

    def trim(self, n):
        if n < 0:
            time.sleep(60)
        return 0
"""


def test_a_hang_is_told_with_the_whole_limit(vendor: Any, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    pytester.makepyfile(acme_hangs=CACHE + HANGS)
    seen: list[str] = []
    monkeypatch.setattr("kvlaw.conformance.rerunning.Rerun.again", _noted(seen))
    hung = suite("Hangs", ', seconds="0.6"').replace("acme:", "acme_hangs:")
    result = vendor(hung)
    result.stdout.fnmatch_lines(["*the target hung in `trim -1`: no answer within 0.6 s*"])
    assert seen  # each failure is walked by the one path that the command line has
    assert "cut from" not in "".join(line for line in result.outlines if "the target hung" in line)


def _noted(seen: list[str]) -> Callable[..., Any]:
    """Give ``Rerun.again`` as it is, which notes what it walks."""
    walked = Rerun.again

    def again(rerun: Rerun, failure: Failure) -> Any:
        seen.append(failure.clause)
        return walked(rerun, failure)

    return again


def test_items_are_chosen_with_k(vendor: Any):
    result = vendor(
        suite("Short"), "-v", "-k", "RING-1 and not RING-10 and not RING-11 and not RING-12 and not RING-14"
    )
    assert outcomes(result) == {"test_ring[RING-1]": "FAILED"}


def test_a_clause_may_be_marked_and_a_verdict_left_out(vendor: Any):
    result = vendor(suite("Short"), "-k", "VIS-3 or VIS-4")
    result.assert_outcomes(passed=2, deselected=len(CORE) - 1)


def test_options_win_over_the_suite(vendor: Any):
    result = vendor(
        suite("Ring"), "-v", "--kvlaw-target", "acme:Short", "--kvlaw-seed", "5", "--kvlaw-profile", "layout"
    )
    told = outcomes(result)
    assert set(told) == {f"test_ring[{name}]" for name in (*load_clauses(), "verdict")}
    assert told["test_ring[RING-1]"] == "FAILED"


def test_a_suite_without_a_target_needs_the_option(vendor: Any):
    bare = "from kvlaw.conformance import conformance_tests\ntest_it = conformance_tests(budget='quick', kind='ring')\n"
    result = vendor(bare, "-k", "VIS-1", "-x")
    result.stdout.fnmatch_lines(["*no target: name one in conformance_tests(...) or with --kvlaw-target*"])
    assert vendor(bare, "-k", "VIS-3", "--kvlaw-target", "builtin:oracle").ret == 0


OBJECTS = """
import numpy as np
from kvlaw.conformance import Adapter, conformance_tests
from kvlaw.conformance.subjects.oracle import ReferenceAdapter
import acme


class Mine(ReferenceAdapter):
    pass


assert issubclass(Mine, Adapter)
OPTIONS = dict(kind="ring", window=4, budget="quick")
test_class = conformance_tests(acme.Ring, array="numpy", **OPTIONS)
test_factory = conformance_tests(lambda window: acme.Ring(window), array="numpy", **OPTIONS)
test_adapter = conformance_tests(Mine, **OPTIONS)
test_instance = conformance_tests(Mine(), **OPTIONS)
test_builtin = conformance_tests("builtin:oracle", **OPTIONS)
test_mapped = conformance_tests("py:acme:Ring", array="numpy", mapping={"window": "window"}, **OPTIONS)
"""


def test_targets_are_names_classes_factories_and_adapters(vendor: Any):
    result = vendor(OBJECTS, "-k", "VIS-1] or VIS-2] or VIS-4]")
    result.assert_outcomes(passed=18, deselected=6 * (len(CORE) + 1) - 18)


def test_several_suites_in_classes_and_under_other_names(vendor: Any):
    both = """
from kvlaw.conformance import conformance_tests
import acme


test_ring = conformance_tests(acme.Ring, kind="ring", array="numpy", window=4, budget="quick")
test_short = conformance_tests(acme.Short, kind="ring", array="numpy", window=4, budget="quick")
"""
    told = outcomes(vendor(both, "-v", "-k", "RING-1] or VIS-3]"))
    assert told == {
        "test_ring[RING-1]": "PASSED",
        "test_ring[VIS-3]": "PASSED",
        "test_short[RING-1]": "FAILED",
        "test_short[VIS-3]": "PASSED",
    }


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (", sinks=4", "*the target could not be run: *sinks=4*0 to 3 sinks*"),
        (", colour=3", "*the target could not be run: *no option 'colour'*"),
        (", clone='sideways'", "*the target could not be run: *clone=sideways*"),
    ],
)
def test_a_setting_that_cannot_be_fails_with_its_message(vendor: Any, more: str, says: str):
    result = vendor(suite("Ring", more), "-x", "-k", "VIS-1")
    result.stdout.fnmatch_lines([says])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_target_that_is_not_there_is_no_error_of_collection(vendor: Any):
    missing = suite("Ring").replace("acme:Ring", "nowhere.at.all:Ring")
    assert vendor(missing, "--collect-only", "-q").ret == 0
    result = vendor(missing, "-x", "-k", "VIS-1")
    result.stdout.fnmatch_lines(["*the target could not be run: no module 'nowhere'*"])


def test_a_profile_or_budget_that_there_is_not_is_an_error_of_collection_without_a_traceback(vendor: Any):
    result = vendor(suite("Ring", ", profile='strict'"))
    assert result.ret == 2
    result.stdout.fnmatch_lines(["*kvlaw: unknown profile 'strict'; known are core, layout*"])
    budget = vendor(suite("Ring").replace("quick", "huge"))
    budget.stdout.fnmatch_lines(["*kvlaw: unknown budget 'huge'; known are quick, ci, deep*"])
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*pytest_plugin.py*")


COUNTED = """
import os
from pathlib import Path

import acme
from kvlaw.conformance import conformance_tests


class Short(acme.Short):
    def __init__(self, window):
        with Path(os.environ["BUILT"], str(os.getpid())).open("a") as file:
            file.write("x")
        super().__init__(window)


class Ring(Short):
    wrong = 0


OPTIONS = dict(kind="ring", array="numpy", window=4, budget="quick")
test_short = conformance_tests(Short, **OPTIONS)
test_ring = conformance_tests(Ring, **OPTIONS)
"""


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[int]]:
    """Count how many caches each process built since the last time."""
    monkeypatch.setenv("BUILT", str(tmp_path))

    def counts() -> list[int]:
        files = list(tmp_path.iterdir())
        sizes = [file.stat().st_size for file in files]
        for file in files:
            file.unlink()
        return sorted(sizes)

    return counts


def test_with_xdist_every_item_has_the_same_outcome_and_the_check_is_made_once(
    vendor: Any, built: Callable[[], list[int]]
):
    pytest.importorskip("xdist")
    alone = outcomes(vendor(COUNTED, "-v", apart=True))
    (once,) = built()
    assert len(alone) == 2 * (len(CORE) + 1)
    assert {"PASSED", "FAILED", "SKIPPED"} == set(alone.values())
    for dist in ((), ("--dist", "worksteal"), ("--dist", "loadgroup")):
        result = vendor(COUNTED, "-v", "-n", "2", *dist, apart=True)
        lines = (re.search(r"%\] (PASSED|FAILED|SKIPPED) .*?::(\S+)", line) for line in result.outlines)
        told = {line[2]: line[1] for line in lines if line is not None}
        assert told == alone
        assert sum(built()) < 1.3 * once  # each worker builds some to look at, and to show its failures


def test_with_xdist_chosen_items_have_the_same_outcome(vendor: Any, built: Callable[[], list[int]]):
    pytest.importorskip("xdist")
    chosen = "RING-1] or VIS-3] or VIS-4]"
    result = vendor(COUNTED, "-n", "2", "-k", chosen, apart=True)
    result.assert_outcomes(passed=5, failed=1)
    assert len(built()) == 2
    vendor(COUNTED, "-n", "2", "-k", "test_short and (RING-1] or verdict)", apart=True).assert_outcomes(failed=2)


def test_a_worker_that_dies_leaves_the_check_to_another(tmp_path: Path):
    result = check(Plan("a cache", ("full",), budget="quick"), AdapterSubject(ReferenceAdapter()))
    path = tmp_path / "kvlaw.result"
    path.write_bytes(b"torn")
    assert shared(path, lambda: result) == result
    assert shared(path, lambda: pytest.fail("made again")) == result
    assert shared(None, lambda: result) is result


def test_a_check_that_was_cut_short_is_not_shared(tmp_path: Path):
    whole = check(Plan("a cache", ("full",), budget="quick"), AdapterSubject(ReferenceAdapter()))
    path = tmp_path / "kvlaw.result"
    shared(path, lambda: evolve(whole, interrupted=True))
    assert shared(path, lambda: whole) is whole


def test_the_check_is_made_once(vendor: Any):
    counting = """
import acme
from kvlaw.conformance import conformance_tests

BUILT = []


class Counted(acme.Ring):
    def __init__(self, window):
        BUILT.append(window)
        super().__init__(window)


test_ring = conformance_tests(Counted, kind="ring", array="numpy", window=4, budget="quick")


def test_after():
    BUILT.append("after")
    assert len(BUILT) > 30
    assert BUILT.count("after") == 1


def test_again():
    before = len(BUILT)
    assert BUILT[-1] == "after"
    assert before == BUILT.index("after") + 1
"""
    result = vendor(counting, "-k", "VIS or after or again")
    assert result.ret == 0


def test_collecting_loads_nothing_heavy(vendor: Any):
    light = suite("Ring") + (
        "\nimport sys\nassert not [m for m in sys.modules if m.split('.')[0] in ('mlx', 'acme') or '.machines' in m]\n"
    )
    assert vendor(light, "--collect-only", "-q", apart=True).ret == 0


def test_the_plugin_itself_imports_only_pytest():
    code = (
        "import sys, pytest; before = set(sys.modules); import kvlaw.pytest_plugin\n"
        "print(sorted(m for m in set(sys.modules) - before if not m.startswith('kvlaw')))\n"
        "print(sorted(m for m in set(sys.modules) - before if m.startswith('kvlaw')))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["[]", "['kvlaw', 'kvlaw.pytest_plugin']"]


def test_public_names_are_imported_on_first_use():
    code = (
        "import sys, kvlaw.conformance as c\n"
        "assert not [m for m in sys.modules if m.startswith('kvlaw.conformance.')]\n"
        "print(c.Adapter.__module__, c.conformance_tests.__module__)\n"
        "try:\n    c.nothing\nexcept AttributeError as error:\n    print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, second = run.stdout.splitlines()
    assert first == "kvlaw.conformance.interface kvlaw.conformance.pytest_items"
    assert second == "module 'kvlaw.conformance' has no attribute 'nothing'"


# A target by its options, without a suite.

ALONE = ("--kvlaw-set", "array=numpy", "--kvlaw-set", "kind=ring", "--kvlaw-set", "window=4", "--kvlaw-budget", "quick")


@pytest.fixture
def bare(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run pytest in a folder without any test."""
    pytester.makepyfile(acme=CACHE)
    pytester.syspathinsert()
    monkeypatch.setenv("PYTHONPATH", str(pytester.path), prepend=os.pathsep)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def run(*options: str, apart: bool = False) -> pytest.RunResult:
        go = pytester.runpytest_subprocess if apart else pytester.runpytest_inprocess
        xdist = "xdist" if "-n" in options else "no:xdist"
        return go("-p", "no:cacheprovider", "-p", xdist, "-W", "error", *options)

    return run


def test_a_target_alone_makes_an_item_per_clause_without_any_test_file(bare: Any):
    told = bare("--kvlaw-target", "py:acme:Short", *ALONE, "--collect-only", "-q")
    assert told.outlines[: len(CORE) + 1] == [f"kvlaw::test_conformance[{name}]" for name in (*CORE, "verdict")]
    assert bare("--collect-only", "-q").ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_a_target_alone_fails_by_clause_and_is_chosen_with_k(bare: Any):
    result = bare("--kvlaw-target", "acme:Short", *ALONE, "-v", "-k", "RING-1] or VIS-3 or verdict")
    assert outcomes(result) == {
        "test_conformance[RING-1]": "FAILED",
        "test_conformance[VIS-3]": "PASSED",
        "test_conformance[verdict]": "FAILED",
    }
    result.stdout.fnmatch_lines(["*trace   ring window=4 *"])


def test_a_pinned_version_of_the_specification_keeps_later_clauses_out(bare: Any, pytester: pytest.Pytester):
    options = ("--kvlaw-target", "acme:Short", *ALONE, "--collect-only", "-q")
    pinned = load_clauses().of_version("1.0").of_profile("core")
    assert set(pinned) < set(CORE)
    told = bare(*options, "--kvlaw-spec", "1.0").outlines
    assert told[: len(pinned) + 1] == [f"kvlaw::test_conformance[{name}]" for name in (*pinned, "verdict")]
    result = bare("--kvlaw-target", "acme:Short", *ALONE, "--kvlaw-spec", "1.0", "-k", "RING-1] or VIS-3")
    result.assert_outcomes(failed=1, passed=1, deselected=len(pinned) - 1)
    bare(*options, "--kvlaw-spec", "9.9").stdout.fnmatch_lines(["*unknown version '9.9' of the specification*"])
    pytester.makepyfile(test_suite=suite("Ring").replace("window=4", "window=4, spec='1.0'"))
    assert len([line for line in bare("--collect-only", "-q").outlines if "::test_ring[" in line]) == len(pinned) + 1


def test_a_target_alone_under_xdist(bare: Any):
    pytest.importorskip("xdist")
    for dist in ("load", "loadfile"):
        options = ("-n", "2", "--dist", dist, "-k", "RING-1] or VIS-3 or VIS-4")
        bare("--kvlaw-target", "acme:Short", *ALONE, *options, apart=True).assert_outcomes(passed=2, failed=1)


def test_the_items_of_a_target_stand_beside_other_tests_and_not_beside_a_suite(bare: Any, pytester: pytest.Pytester):
    pytester.makepyfile(test_other="def test_other(): pass")
    both = bare("--kvlaw-target", "acme:Ring", *ALONE, "-v", "-k", "other or VIS-3")
    assert outcomes(both) == {"test_other": "PASSED", "test_conformance[VIS-3]": "PASSED"}
    pytester.makepyfile(test_suite=suite("Ring"))
    own = bare("--kvlaw-target", "acme:Short", "-v", "-k", "other or VIS-3")
    assert outcomes(own) == {"test_other": "PASSED", "test_ring[VIS-3]": "PASSED"}


def test_own_names_of_tests_do_not_hide_it(bare: Any, pytester: pytest.Pytester):
    pytester.makeini("[pytest]\npython_functions = check_*\npython_files = checks.py\n")
    result = bare("--kvlaw-target", "acme:Ring", *ALONE, "-k", "VIS-3")
    result.assert_outcomes(passed=1, deselected=len(CORE))


def test_an_incomplete_verdict_may_be_allowed(bare: Any):
    never = ("--kvlaw-target", "acme:Ring", *ALONE, "--kvlaw-set", "head_dim=160", "-k", "verdict")
    bare(*never).assert_outcomes(failed=1, deselected=len(CORE))
    bare(*never, "--kvlaw-allow-incomplete").assert_outcomes(passed=1, deselected=len(CORE))


def test_a_field_may_be_mapped(bare: Any, pytester: pytest.Pytester):
    pytester.makepyfile(named="import acme\n\n\ndef ring(max_size):\n    return acme.Ring(max_size)\n")
    result = bare("--kvlaw-target", "named:ring", "--kvlaw-map", "window=max_size", *ALONE, "-k", "VIS-3")
    result.assert_outcomes(passed=1, deselected=len(CORE))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--kvlaw-target=",), "*--kvlaw-target : unknown target ''*"),
        (("--kvlaw-target", "acme"), "*unknown target 'acme'*"),
        (("--kvlaw-target", "builtin:orcle"), "*did you mean 'oracle'*"),
        (("--kvlaw-target", "fault:none"), "*unknown fault 'none'*"),
        (("--kvlaw-target", "py:acme"), "*write py:module:attribute, such as py:acme.cache:RingCache*"),
        (("--kvlaw-target", "release:mlx-lm:KVCache"), "*write PACKAGE==VERSION:CACHE*"),
        (("--kvlaw-target", "acme:Ring", "--kvlaw-set", "colour=3"), "*a py: target has no option 'colour'*"),
        (("--kvlaw-target", "builtin:oracle", "--kvlaw-map", "window=w"), "*only py: targets map fields*"),
        (("--kvlaw-set", "window"), "*'window': write NAME=VALUE*"),
        (("--kvlaw-set", "window=1", "--kvlaw-set", "window=2"), "*window is given twice*"),
        (("--kvlaw-map", "=x"), "*write NAME=VALUE*"),
        (("--kvlaw-budget", "huge"), "*invalid choice: 'huge'*"),
        (("--kvlaw-profile", "strict"), "*invalid choice: 'strict'*"),
        (("--kvlaw-seed", "-1"), "*'-1' is no seed: a whole number from 0 to 4,294,967,295*"),
        (("--kvlaw-seed", "4294967296"), "*'4294967296' is no seed*"),
        (("--kvlaw-seed", "one"), "*'one' is no seed*"),
    ],
)
def test_options_that_cannot_be_are_usage_errors(bare: Any, options: tuple[str, ...], says: str):
    result = bare(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([says])
    result.stderr.no_fnmatch_line("*Traceback*")


def test_an_unrelated_project_loads_nothing_of_it(pytester: pytest.Pytester):
    """Hypothesis' own plugin loads Hypothesis in any session, so it is left out here."""
    pytester.makepyfile(test_other="def test_other(): pass")
    heavy = (
        "kvlaw.conformance",
        "kvlaw.spec",
        "kvlaw.reference",
        "hypothesis",
        "mlx",
        "numpy",
        "attrs",
        "click",
        "rich",
    )
    pytester.makeconftest(
        "import sys\n\n\ndef pytest_sessionfinish():\n"
        f"    found = [m for m in sys.modules if any(m == h or m.startswith(h + '.') for h in {heavy})]\n"
        "    print('loaded:', found, 'kvlaw.pytest_plugin' in sys.modules)\n"
    )
    result = pytester.runpytest_subprocess("--co", "-q", "-s", "-p", "no:hypothesispytest", "-p", "no:cacheprovider")
    result.stdout.fnmatch_lines(["*loaded: [[]] True"])
