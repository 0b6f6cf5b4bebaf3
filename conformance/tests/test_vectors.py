"""Offline vectors: exported alike each time, replayed by native tests, judged like any target, refused when wrong."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from kvlaw.conformance.check import Plan, check
from kvlaw.conformance.cli import cli
from kvlaw.conformance.result import CheckResult
from kvlaw.conformance.subjects.errors import TargetError
from kvlaw.conformance.subjects.targets import open_target
from kvlaw.conformance.vectors.export import export, made
from kvlaw.conformance.vectors.form import VectorsError, digest, read_vectors
from kvlaw.conformance.vectors.recorded import open_results
from kvlaw.conformance.vectors.replaying import replay
from kvlaw.spec.config import Kind
from kvlaw.spec.text_form import parse
from kvlaw.spec.wire_tensors import decode_tensor

NODE = shutil.which("node")
EXAMPLE = Path(__file__).parents[1] / "testees" / "vectors-node"


def write(path: Path, lines: Any) -> Path:
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The vectors of rings."""
    return write(tmp_path_factory.mktemp("vectors") / "ring.jsonl", export("ring", "core"))


def observed(vectors: Path, target: str, to: Path) -> Path:
    return write(to, replay(vectors, open_target(target), target))


def judged(results: Path, vectors: Path | None = None) -> CheckResult:
    subject = open_results(results, vectors)
    return check(Plan("results", subject.kinds, subject.results.vectors.profile, "ci"), subject)


def failing(result: CheckResult) -> set[str]:
    return {c.clause.id for c in result.clauses if c.outcome == "fail"}


# The file.


def test_the_bytes_are_the_same_in_another_process_and_under_another_hash_seed(ring: Path) -> None:
    run = [sys.executable, "-m", "kvlaw.conformance.cli", "vectors", "export", "--kind", "ring"]
    again = subprocess.run(run, capture_output=True, check=True, env={**os.environ, "PYTHONHASHSEED": "7"})
    assert again.stdout == ring.read_bytes()


def test_a_vector_worked_out_by_hand(ring: Path) -> None:
    """A window of 4 on a ring of 2 that holds t1: queries at positions 1 to 4 see their own newest two."""
    header, *rest = map(json.loads, ring.read_text().splitlines())
    vector = next(line for line in rest if line.get("id") == "example-RING-11-1")
    assert vector["asks"] == [
        {"call": "decode", "tokens": [1], "expect": {"outcome": "ok", "offset": 1, "sees": [[[1, 1]]]}},
        {
            "call": "window",
            "length": 4,
            "tokens": [2, 3, 4, 5],
            "expect": {"outcome": "ok", "offset": 5, "sees": [[[1, 2]], [[2, 3]], [[3, 4]], [[4, 5]]]},
        },
    ]
    assert (header["kvlaw"], header["version"], header["kind"], header["profile"]) == ("vectors", 1, "ring", "core")
    assert header["vectors"] == len([line for line in rest if "id" in line])


def test_sinks_and_refusals_are_expected(ring: Path) -> None:
    asks = {line["id"]: line for line in map(json.loads, ring.read_text().splitlines()) if "id" in line}
    pinned = [a for v in asks.values() if v["config"]["sinks"] for a in v["asks"] if len(a.get("tokens", ())) == 1]
    assert any(len(a["expect"]["sees"][0]) == 2 and a["expect"]["sees"][0][0][0] == 1 for a in pinned if "expect" in a)
    opened = {v["config"].get("window"): v["open"]["outcome"] for v in asks.values()}
    assert opened[0] == "refused"
    assert opened[4] == "ok"


def test_every_token_row_head_and_side_has_bytes_of_its_own(ring: Path) -> None:
    tables = [line for line in map(json.loads, ring.read_text().splitlines()) if "keys" in line]
    assert {table["keys"]["dtype"] for table in tables} == {"bf16", "f16", "f32"}
    for table in tables:
        keys, values = (decode_tensor(table[side], side) for side in ("keys", "values"))
        columns = [column.tobytes() for side in (keys, values) for column in side[1:].reshape(-1, side.shape[-1])]
        assert len(set(columns)) == len(columns) == 2 * np.prod(keys.shape[:3]) - 2 * keys[0, :, :, 0].size


def test_what_is_read_back_is_what_was_made(ring: Path) -> None:
    assert read_vectors(ring) == made("ring", "core")
    known = {vector.id: vector.trace for vector in read_vectors(ring).vectors}
    assert known["example-RING-11-1"] == parse("ring window=2 ; decode ; window 4").trace


SPOILT: list[tuple[Callable[[str], str], str]] = [
    (lambda text: "", "is empty"),
    (lambda text: text[:-20], "the last line is cut short"),
    (lambda text: "\n".join(text.split("\n")[:-3]) + "\n", "altered or cut short"),
    (lambda text: text.replace('"offset":1', '"offset":2', 1), "altered or cut short"),
    (
        lambda text: text.replace('"version":1', '"version":2', 1),
        "vectors of version 2; this kvlaw reads version 1",
    ),
    (lambda text: text.replace('"version":1', '"version":true', 1), "vectors of version true"),
    (lambda text: text.replace('"kvlaw":"vectors"', '"kvlaw":"results"', 1), "this is a file of kvlaw results"),
    (lambda text: "[1]\n", "an object is wanted, not a list"),
    (lambda text: "{\n", "no valid JSON"),
]


@pytest.mark.parametrize(("spoil", "says"), SPOILT)
def test_a_file_of_vectors_that_is_none(ring: Path, tmp_path: Path, spoil: Callable[[str], str], says: str) -> None:
    with pytest.raises(VectorsError, match=re.escape(says)):
        read_vectors(write(tmp_path / "v.jsonl", spoil(ring.read_text())))


def test_lines_that_are_no_vectors_are_told_with_their_number(ring: Path, tmp_path: Path) -> None:
    header, *rest = ring.read_text().splitlines(keepends=True)
    at = next(i for i, line in enumerate(rest) if '"asks"' in line)
    for wrong in ({"asks": [1]}, {"asks": 1}, {"config": []}, {"needs": [[]]}, {"asks": [{"call": "flip"}]}):
        body = [*rest[:at], json.dumps({**json.loads(rest[at]), **wrong}) + "\n", *rest[at + 1 :]]
        told = json.dumps({**json.loads(header), "sha256": digest(body)}) + "\n"
        with pytest.raises(VectorsError, match=rf"v\.jsonl:{at + 2}: "):
            read_vectors(write(tmp_path / "v.jsonl", [told, *body]))


# Judging.

KINDS: tuple[Kind, ...] = ("ring", "ring_rows", "recurrent", "recurrent_rows")


@pytest.mark.parametrize("kind", KINDS)
def test_the_oracle_is_conformant_by_vectors_alone(kind: Kind, tmp_path: Path) -> None:
    vectors = write(tmp_path / "v.jsonl", export(kind, "layout"))
    result = judged(observed(vectors, "builtin:oracle", tmp_path / "r.jsonl"), vectors)
    assert (result.verdict, result.stopped) == ("conformant", ""), [c.clause.id for c in result.open]
    assert result.traces == made(kind, "layout").vectors.__len__()


@pytest.mark.parametrize(
    ("fault", "clause"),
    [
        ("drops-one-too-many", "RING-1"),
        ("trims-a-wrapped-ring", "TRIM-4"),
        ("read-is-a-view", "OWN-1"),
        ("masks-its-sinks", "VIS-9"),
    ],
)
def test_planted_faults_are_found_by_their_clause(ring: Path, tmp_path: Path, fault: str, clause: str) -> None:
    result = judged(observed(ring, f"fault:{fault}", tmp_path / "r.jsonl"))
    assert result.verdict == "violations"
    assert clause in failing(result)


def test_every_broken_clause_has_a_vector_as_its_trace(ring: Path, tmp_path: Path) -> None:
    subject = open_results(observed(ring, "fault:drops-one-too-many", tmp_path / "r.jsonl"))
    result = check(Plan("results", ("ring",), "core", "deep"), subject)
    begun = [(trace.config, trace.calls) for trace in subject.traces]
    for failure in (f for c in result.failed for f in c.failures):
        calls = failure.trace.calls
        assert any(config == failure.trace.config and known[: len(calls)] == calls for config, known in begun)


def lines_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="session")
def right(ring: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of a right ring."""
    return observed(ring, "builtin:oracle", tmp_path_factory.mktemp("results") / "r.jsonl")


def with_lines(right: Path, to: Path, change: Callable[[list[Any]], object]) -> Path:
    lines = lines_of(right)
    change(lines)
    return write(to, [json.dumps(line) + "\n" for line in lines])


def _first_window(lines: list[Any]) -> Any:
    return next(o for line in lines[1:] for o in line["observations"] if o.get("read", {}).get("keys"))


HOSTILE: list[tuple[Callable[[list[Any]], object], str]] = [
    (lambda x: x.pop(0), "results are wanted, and this is no such file"),
    (lambda x: x[0].update(kvlaw="vectors"), "this is a file of kvlaw vectors"),
    (lambda x: x[0].update(version=3), "results of version 3; this kvlaw reads version 1"),
    (lambda x: x[0].pop("vectors"), "vectors is missing"),
    (lambda x: x[0].update(vectors="abc"), "vectors is missing"),
    (lambda x: x[0]["vectors"].update(version=7), "vectors of version 7"),
    (lambda x: x[0]["vectors"].update(sha256="0" * 64), "has results of other vectors"),
    (lambda x: x[0]["vectors"].update(sha256=None), "has results of other vectors"),
    (lambda x: x[0]["vectors"].update(kind="cube"), "no kind 'cube'"),
    (lambda x: x[0].update(capabilities=["trimm"]), "unknown capability 'trimm'; did you mean 'trim'?"),
    (lambda x: x[0].update(capabilities="trim"), "a list of words is wanted"),
    (lambda x: x[0].update(capabilities=["attend"]), "they have no queries; leave it out"),
    (lambda x: x[0].update(capabilties=[]), "unknown field 'capabilties'; did you mean 'capabilities'?"),
    (lambda x: x[1].update(id="nobody"), "no vector has the id 'nobody'"),
    (lambda x: x[1].pop("id"), "no vector has the id null"),
    (lambda x: x.append(x[1]), "has results twice"),
    (lambda x: x[1].update(observation=[]), "unknown field 'observation'; did you mean 'observations'?"),
    (lambda x: x[1].pop("open"), "open: an object is wanted, not null"),
    (lambda x: x[1]["observations"].extend([{"outcome": "ok"}] * 9), "observations of"),
    (lambda x: x[1]["open"].update(outcome="fine"), "open.outcome: 'fine' is not one of ok, refused"),
    (lambda x: x[1]["open"].pop("outcome"), "open.outcome: is missing"),
    (lambda x: x[1]["open"].update(stat={}), "unknown field 'open.stat'; did you mean 'state'?"),
    (lambda x: x[1]["open"]["state"].update(ofset=1), "unknown field 'open.state.ofset'; did you mean 'offset'?"),
    (lambda x: x[1]["open"]["state"].update(offset=1.5), "open.state.offset: 1.5 is not an integer"),
    (lambda x: x[1]["open"]["state"].update(can_trim=[1]), "is not true or false"),
    (lambda x: _first_window(x)["read"]["keys"].update(shape=[1, 2, 3]), "read.keys"),
    (lambda x: _first_window(x)["read"]["keys"].update(base64="!" * 8), "read.keys.base64"),
    (lambda x: _first_window(x)["read"]["keys"].update(dtype="fp4"), "read.keys"),
    (lambda x: _first_window(x)["read"].update(mask="diagonal"), "is no mask"),
]


@pytest.mark.parametrize(("change", "says"), HOSTILE)
def test_results_that_are_none_are_refused_with_the_line(
    right: Path, tmp_path: Path, change: Callable[[list[Any]], object], says: str
) -> None:
    path = with_lines(right, tmp_path / "r.jsonl", change)
    with pytest.raises(TargetError, match=re.escape(says)) as told:
        open_target(f"vectors:{path}")
    assert str(path) in str(told.value)


def test_a_torn_line_is_told_from_a_missing_one(right: Path, tmp_path: Path) -> None:
    text = right.read_text()
    torn = write(tmp_path / "torn.jsonl", text[: len(text) // 2])
    with pytest.raises(VectorsError, match="cut short"):
        open_results(torn)
    bytes_ = tmp_path / "bytes.jsonl"
    bytes_.write_bytes(b"\xff\xfe" + text.encode())
    with pytest.raises(VectorsError, match="no text in UTF-8"):
        open_results(bytes_)
    with pytest.raises(VectorsError, match="No such file"):
        open_results(tmp_path / "none.jsonl")
    with pytest.raises(VectorsError, match="Is a directory"):
        open_results(tmp_path)


def test_vectors_without_results_make_it_incomplete_and_are_named(right: Path, tmp_path: Path) -> None:
    path = with_lines(right, tmp_path / "r.jsonl", lambda lines: lines.pop(2))
    gone = lines_of(right)[2]["id"]
    result = judged(path)
    assert result.verdict == "incomplete"
    assert result.stopped == f"1 of {len(lines_of(right)) - 1} vectors have no results, or not all of them: {gone}"
    run = CliRunner().invoke(cli, ["vectors", "judge", str(path), "--allow-incomplete"])
    assert run.exit_code == 4
    assert gone in run.output


def test_a_vector_that_ends_too_early_is_missing_but_one_that_crashed_is_not(right: Path, tmp_path: Path) -> None:
    lines = lines_of(right)
    at = next(i for i, line in enumerate(lines) if i and len(line["observations"]) > 2)
    short = with_lines(right, tmp_path / "s.jsonl", lambda x: x[at]["observations"].pop())
    assert judged(short).verdict == "incomplete"
    crash = {"outcome": "error", "message": "Segmentation\nfault"}
    crashed = with_lines(right, tmp_path / "c.jsonl", lambda x: x[at].update(observations=[crash]))
    result = judged(crashed)
    assert result.verdict == "violations"
    assert result.errors == {"Segmentation\nfault": 1}


def test_a_harness_that_supports_nothing_is_no_pass(right: Path, tmp_path: Path) -> None:
    def nothing(lines: list[Any]) -> None:
        for line in lines[1:]:
            line["observations"] = [{"outcome": "unsupported"}] * bool(line["observations"])

    result = judged(with_lines(right, tmp_path / "r.jsonl", nothing))
    assert result.verdict == "incomplete"
    assert "VIS-1" in {c.clause.id for c in result.open}


def test_what_a_cache_lacks_is_not_applicable_and_its_vectors_are_not_missed(right: Path, tmp_path: Path) -> None:
    def small(lines: list[Any]) -> None:
        needs = {v.id: v.needs for v in made("ring", "core").vectors}
        lines[0]["capabilities"] = ["trim"]
        lines[1:] = [line for line in lines[1:] if needs[line["id"]] <= {"trim"}]

    result = judged(with_lines(right, tmp_path / "r.jsonl", small))
    assert (result.stopped, result.verdict) == ("", "conformant")
    outcomes = {c.clause.id: c.outcome for c in result.clauses}
    assert outcomes["VIS-9"] == "not applicable"
    assert outcomes["TRIM-9"] == "pass"


def test_other_vectors_are_judged_by_the_file_that_was_replayed(tmp_path: Path) -> None:
    layout = write(tmp_path / "v.jsonl", export("ring_rows", "layout"))
    header, *rest = layout.read_text().splitlines(keepends=True)
    fewer = [line for line in rest if '"id":"example-' not in line or "ROWS" in line]
    told = {**json.loads(header), "vectors": len(fewer), "sha256": digest(fewer)}
    old = write(tmp_path / "old.jsonl", [json.dumps(told, separators=(",", ":")) + "\n", *fewer])
    results = observed(old, "builtin:oracle", tmp_path / "r.jsonl")
    with pytest.raises(VectorsError, match="--vectors FILE"):
        open_results(results)
    assert judged(results, old).failed == ()
    run = CliRunner().invoke(cli, ["check", f"vectors:{results}", "--set", f"vectors={old}", "--profile", "layout"])
    assert run.exit_code in (0, 4)
    assert "broken" not in run.output


# The command line.


def test_judge_and_check_say_the_same(ring: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    results = observed(ring, "fault:drops-one-too-many", tmp_path / "r.jsonl")
    told = [
        CliRunner().invoke(cli, words)
        for words in (["vectors", "judge", str(results), "--json", "a.json"], ["check", f"vectors:{results}"])
    ]
    assert [run.exit_code for run in told] == [1, 1]
    assert "RING-1" in told[0].output
    cut = [re.sub(r"in [0-9.]+ s; budget \w+", "", run.output.partition("╭")[2]) for run in told]
    assert cut[0] == cut[1]
    clauses = json.loads(Path("a.json").read_text())["clauses"]
    assert clauses["RING-1"]["outcome"] == "fail"
    again = CliRunner().invoke(cli, ["replay", clauses["RING-1"]["traces"][0]["id"]])
    assert again.exit_code == 1
    assert "breaks RING-1" in again.output


def test_a_trace_that_is_no_vector_is_not_asked(right: Path) -> None:
    run = CliRunner().invoke(cli, ["try", "ring window=8 ; window 77", "--target", f"vectors:{right}"])
    assert run.exit_code == 0
    assert "not asked further: only what is among the vectors was recorded" in run.output


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["vectors", "export"], 2, "--kind"),
        (["vectors", "export", "--kind", "cube"], 2, "cube"),
        (["vectors", "judge", "nowhere.jsonl"], 2, "'nowhere.jsonl' does not exist"),
        (["vectors", "replay", "builtin:oracle", "nowhere.jsonl"], 2, "nowhere.jsonl: No such file"),
        (["vectors", "replay", "builtin:nobody", "nowhere.jsonl"], 2, "unknown target 'builtin:nobody'"),
        (["check", "vectors:nowhere.jsonl"], 3, "nowhere.jsonl: No such file"),
        (["check", "vectors:x", "--set", "clone=method"], 2, "a vectors: target has no option 'clone'"),
        (["vectors", "export", "--kind", "recurrent", "-o", "/nowhere/at/all"], 2, "No such file"),
    ],
)
def test_wrong_words_are_told(
    words: list[str], code: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke(cli, words)
    assert (run.exit_code, says in run.output) == (code, True), run.output


# A native test suite.


def native(ring: Path, to: Path, fault: str = "") -> subprocess.CompletedProcess[str]:
    assert NODE is not None
    env = {**os.environ, "VECTORS": str(ring), "RESULTS": str(to), "FAULT": fault}
    return subprocess.run([NODE, "--test"], cwd=EXAMPLE, env=env, capture_output=True, text=True, check=False)


def test_the_page_shows_the_test_as_it_is() -> None:
    page = (EXAMPLE.parents[1] / "docs" / "vectors.md").read_text()
    (block,) = re.findall(r"^```js\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    lines = iter((EXAMPLE / "ring.test.mjs").read_text().splitlines())
    assert all(line in lines for line in block.splitlines() if "import {" not in line)


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_the_right_cache_of_the_native_suite_is_conformant(ring: Path, tmp_path: Path) -> None:
    run = native(ring, tmp_path / "r.jsonl")
    assert run.returncode == 0, run.stdout[-2000:]
    result = judged(tmp_path / "r.jsonl")
    assert (result.verdict, result.stopped) == ("conformant", "")
    assert {c.clause.id for c in result.clauses if c.outcome == "pass"} >= {"RING-1", "VIS-9", "TRIM-4", "OWN-1"}


@pytest.mark.skipif(NODE is None, reason="node is not installed")
@pytest.mark.parametrize(
    ("fault", "clauses", "code"),
    [("forgets-early", {"RING-1"}, 1), ("wide-mask", {"VIS-2"}, 1), ("trims-a-full-ring", {"TRIM-4"}, 0)],
)
def test_planted_faults_of_the_native_suite_are_found(
    ring: Path, tmp_path: Path, fault: str, clauses: set[str], code: int
) -> None:
    run = native(ring, tmp_path / "r.jsonl", fault)
    assert run.returncode == code, run.stdout[-2000:]  # what the law leaves open, the native suite cannot expect
    result = judged(tmp_path / "r.jsonl")
    assert result.verdict == "violations"
    assert failing(result) >= clauses
