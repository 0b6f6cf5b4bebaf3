"""The shape of the project: arrows between the rooms, what an import pulls in, pins that fit the bounds."""

import ast
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import kvlaw

ROOT = Path(__file__).parents[2]
ROOMS = ("spec", "reference", "mlx_impl", "conformance")
LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"

# An allowed tree in small, as file and content; every contract holds in it.
MINIATURE = {
    "spec/kvlaw/spec/calls.py": "import numpy\n",
    "reference/kvlaw/reference/index.py": "import kvlaw.spec.calls\n",
    "mlx_impl/kvlaw/mlx_impl/full.py": "import mlx.core\nimport kvlaw.spec.calls\n",
    "mlx_impl/kvlaw/mlx_impl/mlx_lm.py": "import mlx_lm.models.cache\n",
    "conformance/kvlaw/conformance/lockstep.py": "import kvlaw.reference.index\n",
    "conformance/kvlaw/conformance/subjects/mlx.py": "import mlx.core\nimport kvlaw.mlx_impl.full\n",
    "conformance/kvlaw/conformance/cli.py": "import kvlaw.conformance.subjects.mlx\n",
    "conformance/kvlaw/conformance/faults/mutants.py": "import kvlaw.mlx_impl.full\n",
}

FORBIDDEN = [
    ("arrows", "spec/kvlaw/spec/calls.py", "import kvlaw.reference.index"),
    ("arrows", "spec/kvlaw/spec/calls.py", "from kvlaw import conformance"),
    ("arrows", "reference/kvlaw/reference/index.py", "from kvlaw.mlx_impl import full"),
    ("arrows", "mlx_impl/kvlaw/mlx_impl/full.py", "def late():\n    import kvlaw.reference.index"),
    ("plain-law", "reference/kvlaw/reference/index.py", "import mlx.core as mx"),
    ("plain-law", "spec/kvlaw/spec/calls.py", "import hypothesis"),
    ("product", "mlx_impl/kvlaw/mlx_impl/full.py", "import mlx_lm"),
    ("vendor", "conformance/kvlaw/conformance/lockstep.py", "import mlx.core"),
    ("vendor", "conformance/kvlaw/conformance/lockstep.py", "from kvlaw.mlx_impl import full"),
    ("vendor", "conformance/kvlaw/conformance/faults/planted.py", "import kvlaw.mlx_impl.full"),
]


def settings() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def run(code: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-c", code], check=False, capture_output=True, text=True, timeout=60, **options
    )


def lint(folder: Path, contract: str) -> subprocess.CompletedProcess[str]:
    for room in ROOMS:
        for package in sorted(folder.glob(f"{room}/kvlaw/{room}/**/")):
            (package / "__init__.py").touch()
    (folder / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    paths = os.pathsep.join(str(folder / room) for room in ROOMS)
    code = f"import sys; sys.argv[1:] = ['--no-cache', '--contract', {contract!r}]; {LINT}"
    return run(code, cwd=folder, env={**os.environ, "PYTHONPATH": paths, "COLUMNS": "200"})


def build(folder: Path, extra: dict[str, str]) -> None:
    for name, content in {**MINIATURE, **extra}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


@pytest.mark.parametrize("contract", sorted({contract for contract, _, _ in FORBIDDEN}))
def test_allowed_imports_keep_the_contract(tmp_path: Path, contract: str) -> None:
    build(tmp_path, {})
    result = lint(tmp_path, contract)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 kept, 0 broken" in result.stdout


@pytest.mark.parametrize(("contract", "where", "line"), FORBIDDEN)
def test_a_forbidden_import_breaks_the_contract(tmp_path: Path, contract: str, where: str, line: str) -> None:
    build(tmp_path, {where: MINIATURE.get(where, "") + line + "\n"})
    result = lint(tmp_path, contract)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "0 kept, 1 broken" in result.stdout


def test_every_contract_is_shown_to_break() -> None:
    declared = {contract["id"] for contract in settings()["tool"]["importlinter"]["contracts"]}
    assert declared == {contract for contract, _, _ in FORBIDDEN}


def test_the_namespace_belongs_to_no_room() -> None:
    assert getattr(kvlaw, "__file__", None) is None
    owners = [found for room in ROOMS for found in (ROOT / room / "kvlaw").glob("__*__.py")]
    assert owners == []


def loaded_by(statement: str) -> set[str]:
    result = run(f"import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)))")
    assert result.returncode == 0, result.stderr
    return set(json.loads(result.stdout))


def test_the_pytest_plugin_loads_pytest_only() -> None:
    heavy = {"kvlaw.conformance", "kvlaw.reference", "kvlaw.spec", "numpy", "hypothesis", "mlx", "mlx.core"}
    assert heavy & loaded_by("import kvlaw.pytest_plugin") == set()


def test_the_command_line_starts_without_mlx() -> None:
    loaded = loaded_by("import kvlaw.conformance.cli")
    assert {name for name in loaded if name.partition(".")[0] in {"mlx", "mlx_lm"}} == set()
    assert {name for name in loaded if name.startswith("kvlaw.mlx_impl")} == set()


def requirements() -> list[Requirement]:
    project = settings()["project"]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    return [Requirement(line) for line in project["dependencies"] + extras]


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


def test_what_the_packages_import_is_declared() -> None:
    files = [path for room in kvlaw.__path__ for path in Path(room).rglob("*.py")]
    used = {name for path in files for name in imported(path)} - sys.stdlib_module_names - {"kvlaw"}
    project = settings()["project"]
    extras = project["optional-dependencies"]
    declared = {
        Requirement(line).name
        for line in project["dependencies"] + extras["prove"] + extras["mlx-lm"] + extras["redis"]
    }
    modules = {{"crosshair-tool": "crosshair"}.get(name, name.replace("-", "_")) for name in declared}
    assert {"numpy", "mlx", "attrs"} <= used
    assert used - {"attr"} <= modules


def pins() -> dict[str, Requirement]:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    return {canonicalize_name(pin.name): pin for pin in map(Requirement, lines)}


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_every_dependency_has_a_lower_bound_and_a_pin_above_it(requirement: Requirement) -> None:
    assert [spec.operator for spec in requirement.specifier] == [">="]
    (pin,) = pins()[canonicalize_name(requirement.name)].specifier
    assert pin.operator == "=="
    assert requirement.specifier.contains(pin.version)
