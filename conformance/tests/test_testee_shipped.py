"""The testees that are shipped, in JavaScript and C++: conformant, and with a mistake switched on found by its clause.

They need ``node`` and ``g++``; without one its tests are skipped, and say so.
"""

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kvlaw.conformance.check import Plan, check
from kvlaw.conformance.subjects.targets import open_target
from kvlaw.conformance.testee.launch import Launch
from kvlaw.conformance.testee.smoke import Smoke
from kvlaw.reference.oracle import Profile

TESTEES = Path(__file__).parents[1] / "testees"
NODE_FAULTS = {
    "trim-after-wrap": "TRIM-8",
    "shared-clone": "OWN-3",
    "state-is-a-view": "OWN-4",
    "wrap-at-zero": "RING-12",
}
CPP_FAULTS = {"wrap-early": "RING-1", "trim-after-wrap": "TRIM-8", "shared-clone": "OWN-3"}


@pytest.fixture(scope="module")
def node() -> str:
    """Give the command of the Node testee."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed: apt-get install nodejs (18 or later)")
    return f"node {TESTEES / 'node' / 'testee.mjs'}"


@pytest.fixture(scope="module")
def cpp(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Build the C++ testee, once for all workers, and give its command."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed: apt-get install g++")
    source = TESTEES / "cpp" / "testee.cpp"
    name = f"kvlaw-cpp-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}"
    binary = tmp_path_factory.getbasetemp().parent / name
    if not binary.exists():
        partial = tmp_path_factory.mktemp("cpp") / "testee"
        subprocess.run(
            ["g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-pedantic", "-Werror", "-o", partial, source], check=True
        )
        partial.replace(binary)
    return str(binary)


@pytest.fixture
def command(request: pytest.FixtureRequest) -> str:
    """Give the command of the testee that a test names."""
    return request.getfixturevalue(request.param)


def broken(command: str, profile: Profile, kind: str = "ring") -> tuple[str, set[str]]:
    """Check a testee on the stored traces, and give the verdict and the clauses that it breaks."""
    subject = open_target(f"cmd:{command}")
    try:
        result = check(Plan(command, (kind,), profile, "quick"), subject)  # type: ignore[arg-type]
    finally:
        subject.close()
    return result.verdict, {r.clause.id for r in result.failed}


@pytest.mark.parametrize("command", ["node", "cpp"], indirect=True)
def test_it_speaks_the_protocol(command: str) -> None:
    steps = Smoke(Launch.of(command), 20.0).run()
    assert {step.word for step in steps} == {"ok"}, [s for s in steps if s.word != "ok"]


@pytest.mark.parametrize("kind", ["full", "ring"])
@pytest.mark.parametrize("command", ["node", "cpp"], indirect=True)
def test_it_conforms(command: str, kind: str) -> None:
    verdict, clauses = broken(command, "layout", kind)
    assert clauses == set()
    assert verdict == "conformant" or kind == "full"


@pytest.mark.parametrize(("fault", "clause"), NODE_FAULTS.items())
def test_a_mistake_in_javascript_is_found(node: str, fault: str, clause: str) -> None:
    verdict, clauses = broken(f"{node} --fault={fault}", "core")
    assert verdict == "violations"
    assert clause in clauses


@pytest.mark.parametrize(("fault", "clause"), CPP_FAULTS.items())
def test_a_mistake_in_cpp_is_found(cpp: str, fault: str, clause: str) -> None:
    verdict, clauses = broken(f"{cpp} --fault={fault}", "core")
    assert verdict == "violations"
    assert clause in clauses


def test_their_page_names_their_mistakes() -> None:
    told = re.findall(
        r"`--fault=([a-z-]+)`: .* \| ([a-z, ]+) \| ([A-Z]+-[0-9]+) \|", (TESTEES / "README.md").read_text()
    )
    for language, faults in (("node", NODE_FAULTS), ("cpp", CPP_FAULTS)):
        assert {fault: clause for fault, where, clause in told if language in where} == faults


def test_they_stay_small() -> None:
    cpp = (TESTEES / "cpp" / "testee.cpp").read_text().count("\n")
    node = sum(path.read_text().count("\n") for path in (TESTEES / "node").glob("*.mjs"))
    assert max(cpp, node) <= 400
