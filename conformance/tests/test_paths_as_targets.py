"""A file where a target is wanted: the target that may be meant is told, and nothing of the file is run."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvlaw.conformance.cli import cli

RING = """
open("imported", "w").close()


class Settings:
    size: int = 8


class Ring:
    class Inner: ...

    def update_and_fetch(self, keys, values):
        return keys, values


def make():
    return Ring()


ready = make()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    (here / "caches").mkdir(parents=True)
    monkeypatch.chdir(here)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for path in ("ring.py", "caches/ring.py", "../beside.py"):
        Path(path).write_text(RING)
    Path("caches/__init__.py").write_text("class Package: ...\n")
    Path("makers.py").write_text("def make(): ...\n\n\ndef _own(): ...\n")
    Path("broken.py").write_text("class Ring(: ...\n")
    Path("binary.py").write_bytes(b"\0\xff")
    Path("testee.mjs").write_text("")
    Path("results.jsonl").write_text("")


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("ring.py", "'ring.py' is no target; did you mean 'py:ring:Ring' or 'py:ring:Settings'?"),
        ("./ring.py", "did you mean 'py:ring:Ring' or 'py:ring:Settings'?"),
        ("ring.py:Ring", "'ring.py:Ring' is no target; did you mean 'py:ring:Ring'?"),
        ("./ring.py:Ring", "did you mean 'py:ring:Ring'?"),
        ("py:ring.py:Ring", "did you mean 'py:ring:Ring'?"),
        ("py:./ring.py:Ring", "did you mean 'py:ring:Ring'?"),
        ("caches/ring.py:Ring", "did you mean 'py:caches.ring:Ring'?"),
        ("caches/__init__.py", "did you mean 'py:caches:Package'?"),
        ("../here/ring.py:Ring", "did you mean 'py:ring:Ring'?"),
        ("../beside.py:Ring", "did you mean 'py:beside:Ring'? with PYTHONPATH=.."),
        ("ring.py:Rign", "ring.py defines no 'Rign', but 'Ring'; write py:module:attribute"),
        ("ring.py:Ring.Inner", "did you mean 'py:ring:Ring.Inner'?"),
        ("ring.py:ready", "did you mean 'py:ring:ready'?"),
        ("ring.py:make", "did you mean 'py:ring:make'?"),
        ("x" * 300 + ".py", "there is no file xxx"),
        ("makers.py", "did you mean 'py:makers:make'?"),
        ("broken.py", "broken.py defines no class and no function"),
        ("binary.py", "binary.py defines no class and no function"),
        ("nope.py:Ring", "there is no file nope.py"),
        ("testee.mjs", "did you mean 'cmd:./testee.mjs'?"),
        ("./results.jsonl", "did you mean 'vectors:results.jsonl'?"),
    ],
)
@pytest.mark.parametrize("command", [("check",), ("try", "full", "--target")])
def test_a_path_is_told_as_the_target_that_it_may_mean(command: tuple[str, ...], target: str, says: str):
    found = CliRunner().invoke(cli, [*command, target])
    assert found.exit_code == 2, found.output
    assert says in found.output
    assert not Path("imported").exists()


def test_a_configured_name_that_looks_like_a_path_is_one():
    Path("kvlaw.toml").write_text('[[targets]]\nname = "ring.py"\ntarget = "builtin:oracle"\n')
    assert CliRunner().invoke(cli, ["try", "full", "--target", "ring.py"]).exit_code == 0
