"""A target that is configured is taken by its name, with its options, by every command; what is no name is told."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kvlaw.conformance.cli import cli

RING = """
import numpy as np


class Ring:
    def __init__(self, max_size):
        self.max_size, self.offset = max_size, 0
        self.keys = self.values = None

    def update_and_fetch(self, keys, values):
        kept = self.max_size - 1 + keys.shape[2]
        before = (self.keys, self.values) if self.keys is not None else (keys[:, :, :0], values[:, :, :0])
        self.keys, self.values = (
            np.concatenate([old, new], 2)[:, :, -kept:] for old, new in zip(before, (keys, values))
        )
        self.offset += keys.shape[2]
        return self.keys, self.values


class Factory:
    def __new__(cls, max_size):
        return Ring(max_size)


def make(max_size):
    return Ring(max_size)
"""
CONFIGURED = """
[[targets]]
name = "ring"
target = "py:own_ring:Ring"
set = { window = 4, array = "numpy" }
map = { window = "max_size" }

[[targets]]
name = "reference"
target = "builtin:oracle"

[[targets]]
name = "process"
target = "cmd:COMMAND"
set = { window = 4, seconds = 20 }
"""
SERVED = f"{sys.executable} -c 'from kvlaw.conformance.cli import main; main()' testee serve reference"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.delitem(sys.modules, "own_ring", raising=False)
    Path("own_ring.py").write_text(RING)
    Path("kvlaw.toml").write_text(CONFIGURED.replace("COMMAND", SERVED))


def kvlaw(*arguments: str) -> Result:
    found = CliRunner().invoke(cli, list(arguments))
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    return found


@pytest.mark.parametrize("target", ["ring", "py:own_ring:Ring", "own_ring:Ring"])
def test_a_try_takes_a_target_as_it_is_configured(target: str):
    found = kvlaw("try", "ring window=8 ; window 9 -> sees t2..t9", "--target", target)
    assert found.exit_code == 0, found.output
    assert "py:own_ring:Ring shows" in found.output


def test_options_of_the_command_line_win():
    found = kvlaw("try", "ring window=8 ; window 9", "--target", "ring", "--map", "window=size")
    assert found.exit_code == 2
    assert "takes no 'size', to which window is mapped" in found.output


def test_a_replay_takes_a_configured_name():
    Path("case.json").write_text('{"config": {"kind": "ring", "window": 4}, "calls": [{"call": "decode"}]}')
    found = kvlaw("replay", "case.json", "--target", "ring")
    assert found.exit_code == 0, found.output
    assert "case on py:own_ring:Ring" in found.output


def test_the_profile_that_is_configured_counts():
    trace = "ring window=2 ; decode x3"  # whose columns stand in the order of time, not of the ring
    assert kvlaw("try", trace, "--target", "ring").exit_code == 0
    Path("kvlaw.toml").write_text(CONFIGURED.replace('name = "ring"', 'name = "ring"\nprofile = "layout"'))
    assert kvlaw("try", trace, "--target", "ring").exit_code == 1
    assert kvlaw("try", trace, "--target", "ring", "--profile", "core").exit_code == 0


def test_a_configured_process_is_tried_and_a_configured_cache_served():
    assert "only processes are tried" in kvlaw("testee", "smoke", "ring").output
    assert "is served by itself" in kvlaw("testee", "serve", "process").output
    found = kvlaw("testee", "smoke", "process")
    assert found.exit_code == 0, found.output  # its command line serves a configured name


@pytest.mark.parametrize(
    "command",
    [
        ("check", "rig"),
        ("try", "full", "--target", "rig"),
        ("testee", "serve", "rig"),
        ("testee", "smoke", "rig"),
        ("replay", "case.json", "--target", "rig"),
        ("vectors", "replay", "rig", "vectors.jsonl"),
    ],
)
def test_a_misspelled_name_is_told_with_those_that_are_configured(command: tuple[str, ...]):
    found = kvlaw(*command)
    assert found.exit_code == 2
    said = found.output.partition("Error: ")[2]
    assert said.startswith("unknown target 'rig'; did you mean 'ring'? configured are ring, reference, process; ")
    assert "builtin:mlx_lm" not in said


def test_a_name_like_no_other_is_told_with_all_that_there_are():
    said = kvlaw("check", "zzz").output.partition("Error: ")[2]
    assert said.index("  ring\n") < said.index("builtin:oracle\n") < said.index("py:module:attribute")


def test_without_a_configuration_nothing_is_called_configured():
    Path("kvlaw.toml").unlink()
    found = kvlaw("check", "oracel")
    assert found.exit_code == 2
    assert "did you mean 'oracle'?" in found.output or "did you mean 'builtin:oracle'?" in found.output
    assert "configured" not in found.output


def test_a_broken_configuration_is_told_by_every_command():
    Path("kvlaw.toml").write_text("[[targets]")
    for command in (("try", "full"), ("testee", "serve", "ring"), ("check",)):
        run = subprocess.run(
            [sys.executable, "-c", "from kvlaw.conformance.cli import main; main()", *command],
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert run.returncode == 2
        assert "kvlaw.toml: no valid TOML" in run.stderr


def test_the_first_line_says_by_which_file_a_check_is_configured():
    found = kvlaw("check", "reference", "--set", "kind=full", "--budget", "quick", "--allow-incomplete")
    assert found.output.startswith("configured by kvlaw.toml\n")
