"""``kvlaw init``: all three files or none, in every kind of folder; and the check after it is green."""

import json
import os
import re
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from kvlaw.conformance import files
from kvlaw.conformance.cli import cli
from kvlaw.conformance.cli_docs import CHECKOUT
from kvlaw.conformance.corpus import example_entries
from kvlaw.conformance.expectations.file import read_file
from kvlaw.conformance.faults.registry import load_faults
from kvlaw.conformance.init.contents import kvlaw_source

TARGET = "fault:trims-a-wrapped-ring"
WROTE = [".github/workflows/kvlaw.yml", "kvlaw-expectations.toml", "kvlaw.toml"]
ACTION = Path(__file__).parents[1] / "action" / "action.yml"


def constantly(answer: Any) -> Any:
    """Make a function that gives one answer, whatever it is asked."""

    def give(*_: object) -> Any:
        return answer

    return give


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, and play some stored traces only."""
    few = [e for e in example_entries() if e.trace.config.kind == "ring"][:6]
    few.append(load_faults()["trims-a-wrapped-ring"].entry)
    monkeypatch.setattr("kvlaw.conformance.parts.entries_for", constantly(few))
    monkeypatch.setattr("kvlaw.conformance.parts.sweep", constantly(()))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def init(*arguments: str, target: str = TARGET) -> Result:
    return run("init", target, "--budget", "quick", *arguments)


def there(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and ".kvlaw" not in p.parts)


def test_several_files_that_are_there_are_told_in_one_sentence(folder: Path):
    for name in ("kvlaw-expectations.toml", ".github/workflows/kvlaw.yml", "kvlaw.toml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    names = "kvlaw-expectations.toml, .github/workflows/kvlaw.yml and kvlaw.toml"
    assert f"{names} are there already: use --force to write them anew, or edit them" in " ".join(init().output.split())


def test_a_target_that_goes_to_another_folder_leaves_the_files_where_they_were_asked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    (folder / "away").mkdir()
    body = "import os, numpy as np\n\nos.chdir('away')\n\n\nclass Cache:\n    offset = 0\n"
    body += "    def __init__(self, window):\n        pass\n\n"
    body += "    def update_and_fetch(self, keys, values):\n        return keys, values\n"
    for module in ("goes", "goes_again"):
        (folder / f"{module}.py").write_text(body)
        monkeypatch.delitem(sys.modules, module, raising=False)
        monkeypatch.syspath_prepend(str(folder))
    done = run("init", "py:goes:Cache", "--budget", "quick", "--set", "array=numpy")
    assert done.exit_code == 0, done.output
    assert "wrote .github/workflows/kvlaw.yml" in done.output
    monkeypatch.chdir(folder)
    options = ("--expectations", "other.toml", "--update-expectations", "--set", "array=numpy")
    done = run("check", "py:goes_again:Cache", *options)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    assert (folder / "other.toml").exists()
    assert list((folder / "away").iterdir()) == []


def test_an_empty_folder_is_set_up_and_then_green(folder: Path):
    done = init("--name", "ring")
    assert done.exit_code == 0, done.output
    assert there(folder) == WROTE
    assert "wrote kvlaw-expectations.toml" in done.output
    assert "commit the three files" in done.output
    (entry,) = read_file(folder / "kvlaw-expectations.toml")
    assert (entry.target, entry.clause) == ("ring", "TRIM-4")
    settings = tomllib.loads((folder / "kvlaw.toml").read_text())
    assert settings["targets"] == [{"name": "ring", "target": TARGET}]
    assert settings["spec"] == "1.4"
    assert settings["allow_incomplete"]  # some clauses are never exercised by seven traces
    check = run("check")
    assert check.exit_code == 0, check.output
    assert "but for 1 expected failure " in check.output


def test_a_project_keeps_its_pyproject(folder: Path):
    before = '# mine\n[project]\nname = "acme"   # ours\n\n[tool.ruff]\nline-length = 100\n'
    (folder / "pyproject.toml").write_text(before)
    done = init("--set", "seconds=5")
    assert done.exit_code == 0, done.output
    text = (folder / "pyproject.toml").read_text()
    assert text.startswith(before)
    assert tomllib.loads(text)["tool"]["kvlaw"]["targets"] == [{"target": TARGET, "set": {"seconds": 5}}]
    assert not (folder / "kvlaw.toml").exists()
    assert "pip install ." in (folder / ".github/workflows/kvlaw.yml").read_text()
    assert run("check").exit_code == 0


@pytest.mark.parametrize(
    "before",
    [
        "",
        "[tool]\n",
        '[tool.kvl]\nx = 1\n[[tool.other]]\ny = 2\n[project]\nname = "a"\n',
        "[project]\nname='a'\n[tool.x]\ny=1",
    ],
)
def test_odd_pyprojects_are_added_to(folder: Path, before: str):
    (folder / "pyproject.toml").write_text(before)
    assert init().exit_code == 0
    data = tomllib.loads((folder / "pyproject.toml").read_text())
    data["tool"].pop("kvlaw")
    was = tomllib.loads(before)
    assert {**data, "tool": data["tool"]} == {**was, "tool": was.get("tool", {})}


@pytest.mark.parametrize("before", ["tool = { x = 1 }\n", "[project\n"])
def test_a_pyproject_that_cannot_be_added_to_is_left_alone(folder: Path, before: str):
    (folder / "pyproject.toml").write_text(before)
    done = init()
    assert done.exit_code == 2
    assert (folder / "pyproject.toml").read_text() == before
    assert there(folder) == ["pyproject.toml"]


@pytest.mark.parametrize("name", WROTE)
def test_what_is_there_is_not_overwritten_without_force(folder: Path, name: str):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("# precious\n")
    done = init()
    assert done.exit_code == 2
    assert f"{name} is there already: use --force" in done.output
    assert there(folder) == [name]
    assert path.read_text() == "# precious\n"
    assert init("--force").exit_code == 0
    assert there(folder) == WROTE
    assert "precious" not in path.read_text()


def test_force_replaces_our_table_alone(folder: Path):
    (folder / "pyproject.toml").write_text(
        '[project]\nname = "a" # ours\n\n[tool.kvlaw]\nseed = 9\n\n[tool.z]\nq = 1\n'
    )
    assert "pyproject.toml with [tool.kvlaw] is there already" in init().output
    assert init("--force").exit_code == 0
    text = (folder / "pyproject.toml").read_text()
    assert 'name = "a" # ours' in text
    assert tomllib.loads(text)["tool"]["z"] == {"q": 1}
    assert tomllib.loads(text)["tool"]["kvlaw"]["seed"] == 0


@pytest.mark.parametrize(
    ("target", "code"),
    [("py:nowhere.at:all", 3), ("builtin:mlx_lm.Rotating", 2), ("fault:none-such", 2), ("builtin:mlx_impl", 2)],
)
def test_a_target_that_cannot_be_run_leaves_nothing(folder: Path, target: str, code: int):
    done = init(target=target)
    assert done.exit_code == code
    assert there(folder) == []


def test_an_interrupt_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch):
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kvlaw.conformance.parts.Player._play", interrupt)
    done = init()
    assert done.exit_code == 130
    assert "interrupted: nothing is written" in done.output
    assert there(folder) == []


@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_what_fails_while_it_is_written_is_undone(
    folder: Path, at: int, error: BaseException, monkeypatch: pytest.MonkeyPatch
):
    (folder / "pyproject.toml").write_text("[project]\nname = 'a'\n")
    real, count = Path.replace, 0

    def replace(self: Path, target: Path) -> Path:
        nonlocal count
        count += self.name.endswith(".partial")
        if count == at and self.name.endswith(".partial"):
            raise error
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    done = init()
    assert done.exit_code in (2, 130)
    assert there(folder) == ["pyproject.toml"]
    assert (folder / "pyproject.toml").read_text() == "[project]\nname = 'a'\n"
    assert not (folder / ".github").exists()


def test_several_files_are_written_or_none(tmp_path: Path):
    files.write_all({tmp_path / "a" / "b" / "one": "1", tmp_path / "two": "2"})
    assert (tmp_path / "a" / "b" / "one").read_text() == "1"
    with pytest.raises(OSError, match="two"):
        files.write_all({tmp_path / "three": "3", tmp_path / "two" / "x": "no folder"})
    assert there(tmp_path) == ["a/b/one", "two"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_is_read_only_is_refused_before_the_check(folder: Path):
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    done = init()
    folder.chmod(stat.S_IRWXU)
    assert done.exit_code == 2
    assert "read-only" in done.output


def test_a_folder_that_cannot_be_written_is_refused_before_the_check(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("kvlaw.conformance.init.places.os.access", constantly(False))
    done = init()
    assert done.exit_code == 2
    assert f"the folder {folder} is read-only" in done.output
    assert "checking" not in done.output


@pytest.mark.parametrize("path", [".github", ".github/workflows", "kvlaw.toml"])
def test_what_stands_in_the_way_is_told(folder: Path, path: str):
    place = folder / path
    place.parent.mkdir(parents=True, exist_ok=True)
    if path == "kvlaw.toml":
        place.mkdir()
    else:
        place.write_text("a file")
    done = init("--force")
    assert done.exit_code == 2
    assert str(place) in done.output


def test_too_many_failures_are_not_listed(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("kvlaw.conformance.expectations.learn.MOST_ROUNDS", 1)
    done = init()
    assert done.exit_code == 1
    assert "too many ways to list them (TRIM-4)" in done.output
    assert there(folder) == []


def test_when_the_time_is_over_what_was_found_is_written_and_what_is_left_is_said(folder: Path):
    done = init("--minutes", "0.00001")
    assert done.exit_code == 4
    assert there(folder) == WROTE
    assert "left  1e-05 minutes were not enough for: ring: stored traces" in done.output
    assert "kvlaw check --update-expectations goes on from here" in done.output
    assert "is green now" not in done.output
    assert run("check", "--update-expectations").exit_code == 4  # incomplete: some stored traces only
    assert len(read_file(folder / "kvlaw-expectations.toml")) == 1
    assert run("check", "--allow-incomplete").exit_code == 0


def test_each_failure_is_told_when_it_is_found_and_numbers_agree(folder: Path):
    done = init()
    assert "s  TRIM-4  ring window=1 ; decode ; trim 1\n" in done.output
    assert "round 1: 1 failure found\n" in done.output
    assert "but for 1 expected failure\n" in done.output
    assert "why the failure is there" in done.output
    (entry,) = read_file(folder / "kvlaw-expectations.toml")
    assert entry.reason == (
        "a trim that the cache says it cannot do drops nothing: at `trim 1` the law says refused, the target shows ok"
    )
    assert "# >2  trim 1         refused       ok, drops 1\n" in (folder / "kvlaw-expectations.toml").read_text()


# The workflow and the action.


def workflow(folder: Path) -> dict[str, Any]:
    assert init().exit_code == 0
    return yaml.safe_load((folder / ".github/workflows/kvlaw.yml").read_text())


def test_the_workflow_is_yaml_and_runs_what_it_should(folder: Path):
    (job,) = workflow(folder)["jobs"].values()
    steps = job["steps"]
    assert [s["uses"].partition("@")[0] for s in steps if "uses" in s] == [
        "actions/checkout",
        "actions/setup-python",
        "actions/upload-artifact",
    ]
    python = next(s["with"]["python-version"] for s in steps if s.get("uses", "").startswith("actions/setup-python"))
    assert python == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert all("@" not in s.get("run", "") for s in steps)


def shell(script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script as a runner does, with a stand-in for kvlaw and for python that tells how it was called."""
    bin_ = folder / "bin"
    bin_.mkdir(exist_ok=True)
    for name in ("kvlaw", "python"):
        path = bin_ / name
        path.write_text(
            '#!/bin/bash\nprintf "%s\\n" "$(basename "$0")" "$@" >> calls.txt\n'
            'for word in "$@"; do case "$word" in md=*) echo "# report" > "${word#md=}";; esac; done\n'
            'exit "${STAND_IN_CODE:-0}"\n'
        )
        path.chmod(0o755)
    for name in ("summary", "output"):
        (folder / name).touch()
    given = {
        **os.environ,
        "PATH": f"{bin_}:{os.environ['PATH']}",
        "GITHUB_STEP_SUMMARY": str(folder / "summary"),
        "GITHUB_OUTPUT": str(folder / "output"),
        "GITHUB_ACTION_PATH": "/checkout/conformance/action",
        **environment,
    }
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True, check=False)


def calls(folder: Path) -> list[str]:
    path = folder / "calls.txt"
    found = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return found


def test_the_scripts_of_the_workflow_run(folder: Path):
    (job,) = workflow(folder)["jobs"].values()
    for step in job["steps"]:
        if "run" in step:
            done = shell(step["run"], folder, KVLAW="ci/kvlaw-0.1.0-py3-none-any.whl")
            assert done.returncode == 0, done.stderr
    assert calls(folder)[:4] == ["python", "-m", "pip", "install"]
    assert (folder / "summary").read_text() == "# report\n"


def test_a_workflow_in_which_nobody_said_what_kvlaw_is_fails_and_says_so(folder: Path):
    (job,) = workflow(folder)["jobs"].values()
    assert job["env"] == {"KVLAW": ""}  # no name of PyPI, where kvlaw is not
    (install,) = [step["run"] for step in job["steps"] if step.get("name") == "install kvlaw"]
    done = shell(install, folder, KVLAW="")
    assert done.returncode == 1
    assert "KVLAW is empty: set it to what pip installs as kvlaw" in done.stdout
    assert calls(folder) == []


@pytest.mark.parametrize(
    ("told", "source"),
    [
        (
            {"url": "https://me:secret@host/kvlaw", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}},
            "git+https://...@host/kvlaw@c0ffee",
        ),
        (
            {"url": "https://host/kvlaw.git", "vcs_info": {"vcs": "git", "commit_id": "c0"}},
            "git+https://host/kvlaw.git@c0",
        ),
        ({"url": "file:///here/kvlaw", "vcs_info": {"vcs": "git", "commit_id": "c0"}}, ""),
        ({"url": "file:///here/kvlaw-0.1.0-py3-none-any.whl", "archive_info": {}}, ""),
        ({"url": "file:///here", "dir_info": {"editable": True}}, ""),
        ({}, ""),
        ([], ""),
        (None, ""),
    ],
)
def test_the_workflow_installs_the_commit_that_is_installed_here(
    told: Any, source: str, monkeypatch: pytest.MonkeyPatch
):
    class Installed:
        def read_text(self, _name: str) -> str | None:
            return None if told is None else json.dumps(told)

    monkeypatch.setattr("kvlaw.conformance.init.contents.distribution", constantly(Installed()))
    assert kvlaw_source() == source


def test_what_is_written_names_no_page_that_a_wheel_does_not_have(folder: Path):
    assert init().exit_code == 0
    written = "".join((folder / name).read_text() for name in WROTE)
    assert "conformance/docs" not in written
    named = re.findall(r"kvlaw docs ([a-z-]+)", written)
    assert named == ["ci"]
    assert run("docs", *named).output.startswith("# Add kvlaw to CI\n")


def test_pages_are_listed_and_a_wrong_name_says_which_there_are():
    listed = run("docs").output.splitlines()
    assert {line.split()[0] for line in listed} == {p.stem for p in CHECKOUT.glob("*.md")}
    wrong = run("docs", "cii")
    assert wrong.exit_code == 2
    assert "there is no page 'cii'; did you mean 'ci'?" in wrong.output


def test_every_page_ships_in_the_wheel():
    root = Path(__file__).parents[2]
    built = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    pages = {f"conformance/docs/{p.name}": f"kvlaw/conformance/pages/{p.name}" for p in CHECKOUT.glob("*.md")}
    assert built["force-include"] == pages


def action() -> dict[str, Any]:
    return yaml.safe_load(ACTION.read_text())


def scripts(given: dict[str, str]) -> list[tuple[str, dict[str, str]]]:
    """Give the scripts of the action that run with these inputs, and the variables that they get."""
    described = action()
    inputs = {name: str(i.get("default", "")) for name, i in described["inputs"].items()} | given
    found: list[tuple[str, dict[str, str]]] = []
    for step in described["runs"]["steps"]:
        name = step.get("if", "").removeprefix("inputs.").removesuffix(" != ''")
        if "run" in step and (not name or inputs[name]):
            values = {k: v.removeprefix("${{ inputs.").removesuffix(" }}") for k, v in step.get("env", {}).items()}
            found.append((step["run"], {k: inputs[v] for k, v in values.items()}))
    return found


def test_the_action_describes_itself():
    described = action()
    assert described["runs"]["using"] == "composite"
    assert all("description" in i for i in described["inputs"].values())
    used = ACTION.read_text()
    assert all(f"inputs.{name}" in used for name in described["inputs"])
    steps = described["runs"]["steps"]
    assert all(s["shell"] == "bash" for s in steps if "run" in s)
    assert not any("${{" in s.get("run", "") for s in steps)  # inputs are no shell


@pytest.mark.parametrize("code", ["0", "1", "3"])
def test_the_scripts_of_the_action_run_with_its_inputs(folder: Path, code: str):
    given = {"target": "py:a b:C", "budget": "quick", "args": "--set\nwindow=8\n", "install": "python -m pip install ."}
    (install, e1), (project, e2), (check, e3) = scripts(given)
    assert shell(install, folder, **e1).returncode == 0
    assert calls(folder) == ["python", "-m", "pip", "install", "/checkout/conformance/action/../.."]
    (wheel, e4), *_ = scripts({**given, "kvlaw": "ci/kvlaw.whl"})
    assert shell(wheel, folder, **e4).returncode == 0
    assert calls(folder) == ["python", "-m", "pip", "install", "ci/kvlaw.whl"]
    assert shell(project, folder, **e2).returncode == 0
    assert calls(folder) == ["python", "-m", "pip", "install", "."]
    done = shell(check, folder, **e3, STAND_IN_CODE=code)
    assert done.returncode == int(code), done.stderr
    assert calls(folder)[:7] == ["kvlaw", "check", "py:a b:C", "--budget", "quick", "--set", "window=8"]
    assert (folder / "summary").read_text() == "# report\n"
    assert f"exit-code={code}\n" in (folder / "output").read_text()


def test_inputs_of_the_action_are_words_and_no_shell(folder: Path):
    ((check, environment),) = scripts({"target": "$(touch hacked); `touch hacked`", "kvlaw": "", "args": "a b\n*"})
    assert shell(check, folder, **environment).returncode == 0
    assert calls(folder)[:5] == ["kvlaw", "check", "$(touch hacked); `touch hacked`", "a b", "*"]
    assert not (folder / "hacked").exists()


def test_the_action_checks_the_configuration_without_inputs(folder: Path):
    ((check, environment),) = scripts({"kvlaw": ""})
    assert shell(check, folder, **environment).returncode == 0
    assert calls(folder)[:3] == ["kvlaw", "check", "--report"]
