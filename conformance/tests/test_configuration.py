"""The configuration: where it is found, what it says, and how hostile files are refused."""

import os
from pathlib import Path
from typing import Any

import pytest

from kvlaw.conformance.configuration import (
    Configuration,
    ConfigurationError,
    TargetSettings,
    find,
    read,
)
from kvlaw.conformance.expectations.entries import Expected
from kvlaw.conformance.project import Given, Project
from kvlaw.spec.clauses import load_clauses
from kvlaw.spec.text_form import parse

WHOLE = """
[tool.kvlaw]
spec = "1.0"
budget = "quick"
profile = "layout"
seed = 7
expectations = "known.toml"
allow_incomplete = true

[[tool.kvlaw.targets]]
name = "ring"
target = "py:acme.cache:RingCache"
set = { window = 8, array = "numpy" }
map = { window = "max_size" }
kinds = ["ring"]
profile = "core"

[[tool.kvlaw.targets]]
target = "builtin:oracle"
"""


def written(folder: Path, text: str, name: str = "pyproject.toml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


def test_every_key_is_read(tmp_path: Path):
    found = read(written(tmp_path, WHOLE))
    assert (found.spec, found.budget, found.profile, found.seed) == ("1.0", "quick", "layout", 7)
    assert found.allow_incomplete
    assert found.expectations_file == tmp_path / "known.toml"
    ring, oracle = found.targets
    assert ring == TargetSettings(
        "py:acme.cache:RingCache",
        "ring",
        {"window": 8, "array": "numpy"},
        {"window": "max_size"},
        ("ring",),
        "core",
    )
    assert (ring.called, oracle.called) == ("ring", "builtin:oracle")


def test_kvlaw_toml_has_the_same_keys_at_its_top(tmp_path: Path):
    text = WHOLE.replace("[tool.kvlaw]\n", "").replace("tool.kvlaw.", "")
    assert read(written(tmp_path, text, "kvlaw.toml")) == read(written(tmp_path, WHOLE))


def test_the_nearest_configuration_above_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    assert find() == Configuration()
    written(tmp_path, "[tool.kvlaw]\nseed = 1\n")
    assert find().seed == 1
    written(tmp_path / "a", "[project]\nname = 'no kvlaw here'\n")
    assert find().seed == 1
    written(tmp_path / "a", "[tool.kvlaw]\nseed = 2\n")
    assert find().seed == 2
    written(tmp_path / "a", "seed = 3\n", "kvlaw.toml")  # comes before the project's
    assert find().seed == 3
    written(deep, "this is no TOML")  # nobody of ours
    assert find().seed == 3
    assert find().folder == tmp_path / "a"


def test_expectations_beside_the_configuration_are_taken_without_being_named(tmp_path: Path):
    path = written(tmp_path, "seed = 1\n", "kvlaw.toml")
    assert read(path).expectations_file is None
    written(tmp_path, "", "kvlaw-expectations.toml")
    assert read(path).expectations_file == tmp_path / "kvlaw-expectations.toml"
    assert Configuration().expectations_file is None


HOSTILE = {
    "tool.kvlaw.buget: there is no such key; did you mean 'budget'": {"buget": '"ci"'},
    "tool.kvlaw.path: there is no such key": {"path": '"x"'},
    "tool.kvlaw.budget: 'fast' is not one of quick, ci, deep": {"budget": '"fast"'},
    "tool.kvlaw.budget: 3 is not one of": {"budget": "3"},
    "tool.kvlaw.profile: 'all' is not one of core, layout": {"profile": '"all"'},
    "tool.kvlaw.seed: true is not an integer": {"seed": "true"},
    "tool.kvlaw.seed: 1.5 is not an integer": {"seed": "1.5"},
    "tool.kvlaw.seed: a seed goes from 0 on, not -1": {"seed": "-1"},
    "tool.kvlaw.spec: there is no version '9.9'; this kvlaw knows 1.0": {"spec": '"9.9"'},
    "tool.kvlaw.spec: 1.0 is not text": {"spec": "1.0"},
    "tool.kvlaw.expectations: a list is not text": {"expectations": "[]"},
    "tool.kvlaw.allow_incomplete: 1 is not true or false": {"allow_incomplete": "1"},
    "tool.kvlaw.targets: a list of tables is wanted, not 'builtin:oracle'": {"targets": '"builtin:oracle"'},
    "tool.kvlaw.targets[0]: a table is wanted, not 'builtin:oracle'": {"targets": '["builtin:oracle"]'},
    "tool.kvlaw.targets[0]: target is missing": {"targets": '[{ name = "x" }]'},
    "tool.kvlaw.targets[0].target: a target is wanted": {"targets": '[{ target = " " }]'},
    "tool.kvlaw.targets[0].kind: there is no such key; did you mean 'kinds'": {
        "targets": '[{ target = "x", kind = "ring" }]'
    },
    "tool.kvlaw.targets[1].kinds[0]: 'rings' is not one of": {
        "targets": '[{ target = "x" }, { target = "y", kinds = ["rings"] }]'
    },
    "tool.kvlaw.targets[0].kinds: a list is wanted, not 'ring'": {"targets": '[{ target = "x", kinds = "ring" }]'},
    "tool.kvlaw.targets[0].set: a table is wanted, not 'window=8'": {"targets": '[{ target = "x", set = "window=8" }]'},
    "tool.kvlaw.targets[0].set.window: a number, text, true or false is wanted, not a list": {
        "targets": '[{ target = "x", set = { window = [8] } }]'
    },
    "tool.kvlaw.targets[0].set.day: a number, text, true or false is wanted": {
        "targets": '[{ target = "x", set = { day = 2026-01-01 } }]'
    },
    "tool.kvlaw.targets[0].map.window: the name of a parameter is wanted, not 8": {
        "targets": '[{ target = "x", map = { window = 8 } }]'
    },
    "tool.kvlaw.targets[1]: 'x' is called like targets[0]": {"targets": '[{ target = "x" }, { target = "x" }]'},
}


@pytest.mark.parametrize(("message", "keys"), list(HOSTILE.items()))
def test_hostile_values_are_refused_with_their_path(message: str, keys: dict[str, str], tmp_path: Path):
    path = written(tmp_path, "[tool.kvlaw]\n" + "".join(f"{name} = {value}\n" for name, value in keys.items()))
    with pytest.raises(ConfigurationError) as refused:
        read(path)
    assert str(refused.value).startswith(f"{path}: {message}")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("kvlaw.toml", b"seed = ", "no valid TOML"),
        ("kvlaw.toml", b"seed = 1\nseed = 2", "no valid TOML"),
        ("kvlaw.toml", b"\xff\xfe", "no text in UTF-8"),
        ("kvlaw.toml", b"x = " + b"[" * 5000, "no valid TOML"),
        ("kvlaw.toml", b"[tool.kvlaw]\nseed = 1", "tool: there is no such key"),
        ("pyproject.toml", b"[tool]\nkvlaw = 5", "tool.kvlaw: a table is wanted, not 5"),
        ("pyproject.toml", b"[project]\nname = 'x'", "there is no [tool.kvlaw] in it; `kvlaw init TARGET` writes one"),
        ("pyproject.toml", b"tool = 5", "there is no [tool.kvlaw] in it"),
    ],
)
def test_files_that_cannot_be_used_are_refused(name: str, content: bytes, message: str, tmp_path: Path):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ConfigurationError) as refused:
        read(path)
    assert str(refused.value).startswith(f"{path}: {message}")


@pytest.mark.parametrize("name", ["nowhere.toml", "", "a\0b", "x" * 5000])
def test_a_file_that_is_not_there_is_named(name: str, tmp_path: Path):
    with pytest.raises(ConfigurationError, match=r"No such file|Is a directory|null|too long"):
        read(tmp_path / name)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_folder_that_may_not_be_entered_is_passed_by(tmp_path: Path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    assert find(closed) == Configuration()
    closed.chmod(0o700)


def test_the_known_versions_are_those_of_the_clauses():
    assert load_clauses().versions[0] == "1.0"
    assert "1.4" in load_clauses().versions
    assert list(load_clauses().versions) == sorted(load_clauses().versions, key=float)


# What is checked.


def project(text: str, tmp_path: Path, *entries: str) -> Project:
    expected = tuple(Expected(e, "TRIM-4", parse("ring window=1 ; decode ; trim 1").trace, reason="r") for e in entries)
    return Project(read(written(tmp_path, text)), None, expected)


def test_all_targets_are_checked_as_they_are_configured(tmp_path: Path):
    ring, oracle = project(WHOLE, tmp_path).jobs(None, Given())
    assert (ring.target, ring.called, ring.profile, ring.kinds) == (
        "py:acme.cache:RingCache",
        "ring",
        "core",
        ("ring",),
    )
    assert (oracle.profile, oracle.budget, oracle.seed, oracle.spec) == ("layout", "quick", 7, "1.0")
    assert ring.settings == {"window": 8, "array": "numpy"}
    assert ring.allow_incomplete


@pytest.mark.parametrize("called", ["ring", "py:acme.cache:RingCache"])
def test_the_command_line_wins(called: str, tmp_path: Path):
    given = Given({"window": 4}, {"sinks": "keep"}, budget="deep", profile="layout", seed=0)
    (job,) = project(WHOLE, tmp_path).jobs(called, given)
    assert job.settings == {"window": 4, "array": "numpy"}
    assert job.mapping == {"window": "max_size", "sinks": "keep"}
    assert (job.budget, job.profile, job.seed) == ("deep", "layout", 0)


def test_a_target_that_is_not_configured_is_checked_by_itself(tmp_path: Path):
    (job,) = project(WHOLE, tmp_path).jobs("builtin:mlx_impl.ring", Given())
    assert (job.settings, job.kinds, job.seed) == ({}, (), 7)


def test_a_family_is_checked_member_by_member(tmp_path: Path):
    text = '[tool.kvlaw]\n[[tool.kvlaw.targets]]\nname = "theirs"\ntarget = "builtin:mlx_lm"\n'
    jobs = project(text, tmp_path, "builtin:mlx_lm.KVCache", "builtin:mlx_lm.ArraysCache").jobs(None, Given())
    assert len(jobs) > 5
    listed: dict[str, Any] = {job.called: len(job.expected) for job in jobs if job.expected}
    assert listed == {"builtin:mlx_lm.KVCache": 1, "builtin:mlx_lm.ArraysCache": 1}


def test_expectations_go_to_their_target_and_lost_ones_to_the_first(tmp_path: Path):
    ring, oracle = project(WHOLE, tmp_path, "ring", "builtin:oracle", "rnig").jobs(None, Given())
    assert [e.target for e in ring.expected] == ["ring", "rnig"]
    assert [e.target for e in oracle.expected] == ["builtin:oracle"]
    (alone,) = project(WHOLE, tmp_path, "ring", "builtin:oracle", "rnig").jobs("builtin:oracle", Given())
    assert [e.target for e in alone.expected] == ["builtin:oracle", "rnig"]


def test_without_a_configuration_only_what_cannot_be_is_lost():
    entries = ("builtin:oracle", "builtin:mlx_lm.KVCache", "builtin:oracel", "py:acme:Ring")
    expected = tuple(Expected(e, "TRIM-4", parse("ring window=1").trace) for e in entries)
    (job,) = Project(Configuration(), None, expected).jobs("builtin:oracle", Given())
    assert [e.target for e in job.expected] == ["builtin:oracle", "builtin:oracel"]


def test_nothing_to_check_is_told_with_the_way_out(tmp_path: Path):
    with pytest.raises(ConfigurationError, match="no configuration here or above; name one"):
        Project(Configuration()).jobs(None, Given())
    with pytest.raises(ConfigurationError, match=r"pyproject\.toml names no targets"):
        project("[tool.kvlaw]\nseed = 1\n", tmp_path).jobs(None, Given())
