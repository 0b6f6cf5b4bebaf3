"""Reports on the command line: written by ``kvlaw check``, made of records by ``kvlaw report``, scripts of failures."""

import ast
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from attrs import evolve
from click.testing import CliRunner, Result
from homemade_caches import growing

from kvlaw.conformance.check import replay
from kvlaw.conformance.cli import cli
from kvlaw.conformance.event_file import read_events
from kvlaw.conformance.events import FailureFound, TargetEnded
from kvlaw.conformance.failures import Failure
from kvlaw.conformance.faults.registry import load_faults
from kvlaw.conformance.opening import open_any
from kvlaw.conformance.reports.run import gather
from kvlaw.conformance.reports.steps import first_divergence
from kvlaw.conformance.scripts.checks import CHECKS
from kvlaw.conformance.scripts.made import ScriptError
from kvlaw.conformance.scripts.write import write_script
from kvlaw.conformance.store import save
from kvlaw.spec.text_form import parse

SAMPLE = Path(__file__).parent / "report_samples" / "run.ndjson"
WRONG = growing(
    "Forgets its first token with the third{doc}.",
    """\
        if {when}:
            self.keys, self.values = self.keys[:, :, 1:], self.values[:, :, 1:]
        return self.keys, self.values
""",
)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    for name in ("wrong", "mended"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    Path("wrong.py").write_text(WRONG.format(doc="", when="self.offset == 3"))
    Path("mended.py").write_text(WRONG.format(doc=", no more", when="False"))


def kvlaw(*arguments: str) -> Result:
    found = CliRunner().invoke(cli, list(arguments))
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    assert "Traceback" not in found.output
    return found


def flat(found: Result) -> str:
    return " ".join(found.output.split())


def check_wrong(*more: str) -> Result:
    return kvlaw("check", "wrong:Cache", "--set", "array=numpy", "--budget", "quick", *more)


def test_a_check_writes_every_report_that_is_asked_for_and_a_record_of_which_they_are_made():
    forms = ("html", "junit", "md", "json", "terminal")
    asked = [word for form in forms for word in ("--report", f"{form}=out.{form}")]
    found = check_wrong("--events", "run.ndjson", *asked)
    assert found.exit_code == 1
    for form in forms:
        made = kvlaw("report", "run.ndjson", "--format", form, "-o", "again")
        assert made.exit_code == 0
        assert made.output == ""
        assert Path("again").read_bytes() == Path(f"out.{form}").read_bytes()
    assert (
        "GROW-1" in ET.parse("out.junit").getroot()[0][1].get("name", "") or "GROW-1" in Path("out.junit").read_text()
    )
    shown = kvlaw("report", "run.ndjson")
    assert shown.output.strip() in found.output  # what the check showed, and no more


def test_a_failure_is_recorded_when_it_is_found_and_again_on_its_shortest_trace():
    check_wrong("--events", "run.ndjson")
    found = [event for event in read_events(Path("run.ndjson")) if isinstance(event, FailureFound)]
    of_grow = [event for event in found if event.clause == "GROW-1"]
    assert [event.minimal for event in of_grow] == [False, True, True]
    assert [bool(event.steps) for event in of_grow] == [False, False, True]
    sees = next(strip for strip in of_grow[-1].steps[-1].strips if strip.what == "sees")
    # t1 is forgotten with t3: the window fetches t2 and t3, of which its first query sees the first
    assert (of_grow[-1].text, sees.query, sees.law, sees.shown) == ("full ; decode ; window 2", 0, (1, 2), (2,))


def test_a_target_that_cannot_be_run_is_reported_as_such():
    found = kvlaw("check", "no_such:Cache", "--events", "run.ndjson", "--report", "junit=out.xml")
    assert found.exit_code == 3
    (target,) = gather(read_events(Path("run.ndjson"))).targets
    assert (target.end.verdict, target.end.exit_code) == ("unusable", 3)
    errors = list(ET.parse("out.xml").getroot().iter("error"))
    assert "no_such" in errors[0].get("message", "")


def test_a_wrong_command_line_leaves_older_files_as_they_are():
    for name in ("run.ndjson", "out.html"):
        Path(name).write_text("older")
    outputs = ("--events", "run.ndjson", "--report", "html=out.html")
    assert check_wrong(*outputs, "--set", "window=0").exit_code == 2
    assert (Path("run.ndjson").read_text(), Path("out.html").read_text()) == ("older", "older")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("out.html", "write FORM=FILE, as in --report html=report.html"),
        ("html=", "write FORM=FILE"),
        ("=out", "write FORM=FILE"),
        ("htm=out", "did you mean 'html'"),
        ("html=.", "is a folder"),
        ("json=same", "same is given twice"),
    ],
)
def test_a_report_that_cannot_be_is_refused(value: str, said: str):
    more = ("--json", "same") if value == "json=same" else ()
    found = check_wrong("--report", value, *more)
    assert found.exit_code == 2
    assert said in flat(found)
    assert "checking" not in found.output


def test_an_incomplete_run_that_is_allowed_says_so_in_its_record():
    found = kvlaw(
        *("check", "mended:Cache", "--set", "array=numpy", "--budget", "quick"),
        *("--allow-incomplete", "--events", "run.ndjson"),
    )
    assert found.exit_code == 0
    (ended,) = [event for event in read_events(Path("run.ndjson")) if isinstance(event, TargetEnded)]
    assert (ended.verdict, ended.exit_code) == ("incomplete", 0)


def run_until_found(stop: int) -> tuple[int, str]:
    """Run a check as a process of its own, and stop it when its record names a failure."""
    command = [sys.executable, "-m", "kvlaw.conformance.cli", "check", "wrong:Cache", "--set", "array=numpy"]
    outputs = ["--events", "run.ndjson", "--report", "html=out.html", "--budget", "deep"]
    process = subprocess.Popen([*command, *outputs], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    record, until = Path("run.ndjson"), time.monotonic() + 60
    while time.monotonic() < until and not (record.exists() and "failure_found" in record.read_text()):
        time.sleep(0.05)
    os.kill(process.pid, stop)
    out, _ = process.communicate(timeout=60)
    return process.returncode, out


def test_an_interrupted_run_keeps_what_it_found():
    code, out = run_until_found(signal.SIGINT)
    assert code in {1, 130}, out
    run = gather(read_events(Path("run.ndjson")))
    assert run.ended is not None
    assert run.ended.interrupted
    assert run.targets[0].failures
    assert "This is not the whole run" in Path("out.html").read_text()


def test_a_killed_run_leaves_what_it_found_in_its_record():
    code, _ = run_until_found(signal.SIGKILL)
    assert code == -signal.SIGKILL
    refused = kvlaw("report", "run.ndjson")
    assert refused.exit_code == 2
    assert "Run the check again, or use --partial" in flat(refused)
    shown = kvlaw("report", "run.ndjson", "--partial")
    assert shown.exit_code == 0
    assert "VIOLATIONS" in shown.output
    assert "the record was cut off" in shown.output


def test_reports_are_made_of_records_only():
    for arguments, said in (
        (("report",), "Missing argument"),
        (("report", "wrong.py"), "no valid JSON"),
        (("report", str(SAMPLE), "--format", "pdf"), "'pdf' is no form of a report"),
        (("report", str(SAMPLE), str(SAMPLE)), "use --combine"),
        (("report", str(SAMPLE), str(SAMPLE), "--combine"), "its counts would be taken twice"),
        (("report", str(SAMPLE), "-o", "no/where"), "there is no folder"),
        (("report", str(SAMPLE), "--script", "VIS-1"), "there are VIS-1-00000003, PAD-1-00000004"),
        (("report", str(SAMPLE), "--script", "VIS-1-00000003", "--format", "html"), "leave --format out"),
    ):
        found = kvlaw(*arguments)
        assert found.exit_code == 2
        assert said in flat(found), found.output


def test_the_verdict_of_all_shards_is_an_exit_code_if_that_is_asked_for():
    codes = {"wrong": 1, "mended": 4}
    for name, code in codes.items():
        files = [f"{name}{share}.ndjson" for share in (1, 2)]
        for share, file in enumerate(files, 1):
            checked = ("check", f"{name}:Cache", "--set", "array=numpy", "--budget", "quick", "--events", file)
            found = kvlaw(*checked, "--shard", f"{share}/2")
            assert found.exit_code == (1 if name == "wrong" and share == 1 else 0)
        assert kvlaw("report", "--combine", *files).exit_code == 0
        assert kvlaw("report", "--combine", *files, "--exit-code").exit_code == code
        lenient = ("--exit-code", "--allow-incomplete")
        assert kvlaw("report", "--combine", *files, *lenient).exit_code == (1 if name == "wrong" else 0)
        assert kvlaw("report", "--combine", files[1], *lenient).exit_code == 4  # the other share is missing
    both = kvlaw("report", "--combine", "wrong1.ndjson", "wrong2.ndjson", "mended1.ndjson", "--exit-code")
    assert both.exit_code == 1


def test_two_vendors_are_shown_side_by_side():
    for name in ("wrong", "mended"):
        kvlaw("check", f"{name}:Cache", "--set", "array=numpy", "--budget", "quick", "--events", f"{name}.ndjson")
    found = kvlaw("report", "--combine", "wrong.ndjson", "mended.ndjson", "--format", "markdown")
    lines = found.output.splitlines()
    assert "* **T1** ❌ violations: `py:wrong:Cache --set array=numpy`" in lines
    assert "* **T2** ⚠️ incomplete: `py:mended:Cache --set array=numpy`" in lines
    assert "| GROW-1 | ✗ | ✓ | a growing cache keeps every position |" in lines
    page = kvlaw("report", "--combine", "wrong.ndjson", "mended.ndjson", "--format", "html").output
    assert page.count('<section id="target-') == 2


# Scripts.


def kept(text: str, target: str) -> str:
    """Keep a trace as a failure of a target."""
    Path("kept.json").write_text(json.dumps({**parse(text).trace.to_json(), "id": "kept", "target": target}))
    return "kept.json"


def run_script(text: str, *arguments: str) -> Any:
    Path("script.py").write_text(text)
    environment = {**os.environ, "PYTHONPATH": ""}
    command = [sys.executable, "script.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_a_script_shows_the_fault_without_kvlaw_and_passes_once_it_is_gone():
    check_wrong("--events", "run.ndjson")
    target = "py:wrong:Cache --set array=numpy"
    text = kvlaw("replay", kept("full ; window 2 ; decode", target), "--script").output
    assert "kvlaw" not in text.split('"""')[2]
    broken = run_script(text)
    assert broken.returncode == 1, broken.stderr
    assert "the law says:     sees t1..t3" in broken.stdout
    assert "the cache shows:  sees t2, t3" in broken.stdout
    mended = run_script(text, "mended:Cache")
    assert mended.returncode == 0, mended.stderr
    assert "the law is kept" in mended.stdout
    failure = next(f for f in gather(read_events(Path("run.ndjson"))).targets[0].failures if f.clause == "GROW-1")
    assert run_script(kvlaw("report", "run.ndjson", "--script", failure.id).output).returncode == 1


@pytest.mark.parametrize("field", ["sights", "answer", "outcome"])
def test_a_script_of_a_fault_that_is_mended_by_now_is_a_regression_test(field: str):
    trace, broken = MENDED_SINCE[field]
    write_later(broken)
    walk_and_keep(trace, "py:later:Cache")
    write_later("")
    (name,) = [path.stem for path in Path(".kvlaw/failures").glob("*.json")]
    found = CliRunner().invoke(cli, ["replay", name, "--script"])
    assert found.exit_code == 0, found.output
    assert f"{name} does not fail any more on py:later:Cache" in found.stderr
    assert run_script(found.stdout).returncode == 0
    write_later(broken)
    again = run_script(found.stdout)
    assert again.returncode == 1, again.stdout + again.stderr


def write_later(broken: str) -> None:
    """Write a cache that is right, but for what is broken."""
    Path("later.py").write_text(f"{LATER}\n\nclass Cache(Right):\n    pass\n{broken}")
    sys.modules.pop("later", None)


LATER = """
from mended import Cache as Mended


class Right(Mended):
    def trim(self, n):
        n = min(n, self.offset)
        self.offset -= n
        self.keys, self.values = self.keys[:, :, : self.offset], self.values[:, :, : self.offset]
        return n
"""
MENDED_SINCE = {
    "sights": (
        "full ; window 2 ; decode",
        """
    def update_and_fetch(self, keys, values):
        keys, values = super().update_and_fetch(keys, values)
        return keys[:, :, -2:], values[:, :, -2:]
""",
    ),
    "answer": ("full ; window 4 ; trim 2", "    def trim(self, n):\n        return super().trim(n) - 1\n"),
    "outcome": ("full ; decode", "    def update_and_fetch(self, keys, values):\n        raise ValueError('no')\n"),
}


def walk_and_keep(text: str, target: str) -> None:
    """Keep a failure as a check does that finds it on this trace."""
    opened = open_any(target, {"array": "numpy"})
    trace = parse(text).trace
    first = first_divergence(replay(opened.subject, "core", trace))
    assert first is not None
    save(Failure(first.clause, trace, first, opened.name))


MENDED_RING = '''
import mlx.core as mx
from mlx_lm.models.cache import RotatingKVCache


class Ring(RotatingKVCache):
    """A ring that refuses what it says it cannot trim, and keeps its own copies."""

    def trim(self, n):
        return super().trim(n) if 0 <= n and self.is_trimmable() else 0

    def make_mask(self, N, window_size=None, return_array=False):
        return super().make_mask(N, min(window_size or self.max_size, self.max_size), return_array)

    @property
    def state(self):
        return tuple(mx.array(x) for x in super().state)
'''


FAULTS = (
    ("ring window=1 ; decode ; trim 1", 0),
    ("ring window=1 ; trim -1", 0),
    ("ring window=1 ; window 2 w=2", 0),
    ("ring window=1 ; decode ; state as s ; decode ; look s", 0),
    ("ring window=1 look=last ; decode x2", 1),  # a fault that is not mended
)


@pytest.fixture
def mlx_lm(monkeypatch: pytest.MonkeyPatch) -> str:
    pytest.importorskip("mlx_lm")
    Path("mended_ring.py").write_text(MENDED_RING)
    monkeypatch.delitem(sys.modules, "mended_ring", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return "builtin:mlx_lm.RotatingKVCache"


def test_a_script_of_a_real_fault_of_mlx_lm_runs_by_itself(mlx_lm: str):
    script = kvlaw("replay", kept(FAULTS[0][0], mlx_lm), "--script").output
    assert run_script(script).returncode == 1
    mended = run_script(script, "mended_ring:Ring")
    assert mended.returncode == 0, mended.stdout + mended.stderr


@pytest.mark.parametrize(("text", "mended"), FAULTS)
def test_a_script_fails_on_mlx_lm_and_passes_on_a_mended_class(
    text: str, mended: int, mlx_lm: str, monkeypatch: pytest.MonkeyPatch
):
    script = compile(kvlaw("replay", kept(text, mlx_lm), "--script").output, "script", "exec")
    for arguments, code in (((), 1), (("mended_ring:Ring",), mended)):
        monkeypatch.setattr(sys, "argv", ["script", *arguments])
        monkeypatch.setattr(sys, "excepthook", sys.excepthook)
        with pytest.raises(SystemExit) as left:
            exec(script, {"__name__": "__main__"})
        assert left.value.code == code


ROWS = "ring_rows window=2 rows=1 ; window 2 ; cache as s1 ; merge c0 s1 as g1 ; decode on g1 ; window 2 on g1"


def test_a_script_of_rows_shows_each_row(
    mlx_lm: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    script = kvlaw("replay", kept(ROWS, "builtin:mlx_lm.BatchRotatingKVCache"), "--script").output
    monkeypatch.setattr(sys, "argv", ["script"])
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    with pytest.raises(SystemExit) as left:
        exec(compile(script, "script", "exec"), {"__name__": "__main__"})
    assert left.value.code == 1
    out = capsys.readouterr().out
    assert "row 0 sees t3, t2; row 1 sees t4" in out
    assert "the law says:     sees t4,t7" in out
    assert "the cache shows:  sees t7" in out


@pytest.mark.parametrize(
    ("text", "target", "why"),
    [
        ("ring window=1 ; decode ; trim 1", "builtin:mlx_impl.ring", "its calls are not those of mlx-lm's caches"),
        ("full ; window 3 ; trim 1", "fault:", "lives in kvlaw's own reference"),
        ("full bits=4 ; trim -1", "builtin:mlx_lm.QuantizedKVCache", "by the columns of"),
        ("full ; decode ; save as f1 ; damage f1 how=older ; load f1 as c1", "builtin:mlx_lm.KVCache", "'damage'"),
        ("ring window=4 ; window 2", "builtin:mlx_lm.RotatingKVCache", "does not fail any more"),
    ],
)
def test_where_there_can_be_no_script_it_is_said_why(text: str, target: str, why: str):
    target = f"fault:{next(iter(load_faults()))}" if target == "fault:" else target
    found = kvlaw("replay", kept(text, target), "--script")
    assert found.exit_code == 2
    assert why in flat(found)
    assert "does not fail any more" in why or "Instead, send" in flat(found)


@pytest.mark.parametrize(
    ("text", "needs", "lacks"),
    [
        (
            "full ; window 2 ; decode",
            {"sees", "append", "inspect"},
            {"copy", "tempfile", "offsets", "leaves", "starts"},
        ),
        ("full ; window 2 ; decode ; clone as c1 ; decode on c1", {"sees", "keep"}, {"tempfile", "leaves", "starts"}),
    ],
)
def test_a_script_brings_nothing_that_its_trace_does_not_need(text: str, needs: set[str], lacks: set[str]):
    script = kvlaw("replay", kept(text, OF_WRONG), "--script").output
    body = ast.parse(script).body
    functions = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    imports = {alias.asname or alias.name for node in body if isinstance(node, ast.Import) for alias in node.names}
    empty = {
        node.targets[0].id for node in body if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    assert needs <= functions | imports
    assert lacks.isdisjoint(functions | imports | empty)
    read = {node.id for node in ast.walk(ast.parse(script)) if isinstance(node, ast.Name)}
    assert functions | imports <= read
    assert run_script(script).returncode == 1


MISSING = {
    "ml_dtypes": "ml_dtypes is missing: pip install ml-dtypes",
    "wrong": "run this where wrong can be imported",
}
OF_WRONG = "py:wrong:Cache --set array=numpy"


@pytest.mark.parametrize("missing", MISSING)
def test_a_script_that_cannot_be_run_says_so_and_never_that_the_fault_is_there(missing: str):
    script = kvlaw("replay", kept("full ; window 2 ; decode", OF_WRONG), "--script").output
    gone = "raise ModuleNotFoundError('No module named here', name=__name__)"
    Path(f"{missing}.py").write_text(gone)
    done = run_script(script)
    Path(f"{missing}.py").unlink()  # the folder stays on the path of this process, and of those that it starts
    assert done.returncode == 2
    assert MISSING[missing] in done.stderr
    assert "nothing is known about the fault" in done.stderr
    assert "2: the script could not be run" in script


def test_a_script_whose_class_cannot_be_built_says_so():
    script = kvlaw("replay", kept("full ; window 2 ; decode", OF_WRONG), "--script").output
    done = run_script(script, "wrong:np")
    assert done.returncode == 2
    assert "the class cannot be built" in done.stderr


MASKED = """
    def make_mask(self, N, window_size=None, return_array=False):
        return np.tri(N, {width}, self.offset, dtype=bool)
"""


def test_a_script_judges_the_shape_of_a_mask():
    plain = WRONG.format(doc="", when="False")
    Path("narrow_mask.py").write_text(plain + MASKED.format(width="N"))
    Path("fitting_mask.py").write_text(plain + MASKED.format(width="self.offset + N"))
    file = kept("full ; window 2 ; decode", "py:narrow_mask:Cache --set array=numpy")
    script = kvlaw("replay", file, "--script").output
    assert "a mask of shape [..., 1, 3]" in script
    assert run_script(script).returncode == 1
    assert run_script(script, "fitting_mask:Cache").returncode == 0


CODE = "0) or __import__('os').abort() or ("


@pytest.mark.parametrize("field", sorted(CHECKS))
@pytest.mark.parametrize(
    "target",
    [
        "builtin:mlx_lm.RotatingKVCache",
        f"py:{CODE}",
        f"py:x:Y --map 'window={CODE}'",
        "py:x:Y --set 'a",
        "py:x:Y --set",
    ],
)
def test_a_record_that_someone_wrote_puts_no_code_into_a_script(field: str, target: str):
    failure = gather(read_events(SAMPLE)).targets[0].failures[0]
    last = evolve(failure.steps[-1], field=field, law=CODE, expected=CODE, observed=CODE)
    texts = dict.fromkeys(("clause", "id", "title", "level", "text", "expected", "observed"), f'"""{CODE}\n"""\\')
    evil = evolve(failure, **texts, prose=CODE, field=field, target=target, steps=(*failure.steps[:-1], last))
    try:
        script = write_script(evil)
    except ScriptError:
        script = "Cache"
    names = {node.id for node in ast.walk(ast.parse(script)) if isinstance(node, ast.Name)}
    assert "Cache" in names
    assert "__import__" not in names


# What a first user stumbled over.

TRIMMED = '''
import numpy as np


class Ring:
    """A ring; what a trim does when the ring has wrapped is to be mended."""

    def __init__(self, window):
        self.window, self.offset, self.ids = window, 0, []
        self.keys = self.values = None

    def update_and_fetch(self, keys, values):
        for column in range(keys.shape[2]):
            self.ids = [*self.ids, (keys[:, :, column], values[:, :, column])][-self.window :]
            self.offset += 1
        return tuple(np.stack([pair[side] for pair in self.ids], 2) for side in (0, 1))

    def is_trimmable(self):
        return {able}

    def trim(self, n):
        if self.offset >= self.window:
            {wrapped}
        n = min(n, len(self.ids))
        del self.ids[len(self.ids) - n :]
        self.offset -= n
        return n
'''


def test_a_script_takes_a_trim_that_drops_nothing_for_a_refusal():
    stale = "self.offset -= n; return n"  # what was dropped is seen again
    Path("trimmed.py").write_text(TRIMMED.format(able="True", wrapped=stale))
    Path("honest.py").write_text(TRIMMED.format(able="self.offset < self.window", wrapped="return 0"))
    file = kept("ring window=2 ; decode x3 ; trim 1 ; decode", "py:trimmed:Ring --set array=numpy")
    script = kvlaw("replay", file, "--script").output
    assert run_script(script).returncode == 1
    honest = run_script(script, "honest:Ring")
    assert (honest.returncode, "the law is kept" in honest.stdout) == (0, True), honest.stdout


def test_a_cache_that_is_handed_arrays_it_does_not_use_is_helped():
    found = kvlaw("check", "wrong:Cache", "--budget", "quick")
    assert "--set array=numpy hands over NumPy's" in flat(found)
    assert "--set array=numpy hands over NumPy's" not in flat(check_wrong())


def test_the_verdict_of_several_records_is_an_exit_code_where_that_is_asked_for():
    for name in ("wrong", "mended"):
        kvlaw("check", f"{name}:Cache", "--set", "array=numpy", "--budget", "quick", "--events", f"{name}.ndjson")
    both = ("report", "--combine", "wrong.ndjson", "mended.ndjson")
    assert kvlaw(*both).exit_code == 0
    assert kvlaw(*both, "--exit-code").exit_code == 1
    assert kvlaw("report", "mended.ndjson", "--exit-code").exit_code == 4
    kvlaw(
        "check",
        "mended:Cache",
        "--set",
        "array=numpy",
        "--budget",
        "quick",
        "--shard",
        "1/2",
        "--events",
        "half.ndjson",
    )
    half = kvlaw("report", "--combine", "half.ndjson", "--exit-code")
    assert (half.exit_code, "shard 2/2 is missing" in flat(half)) == (4, True), half.output


def test_what_cannot_be_asked_is_not_replayed_as_kept():
    found = kvlaw("replay", kept("full ; decode ; trim 1", "py:wrong:Cache --set array=numpy"))
    assert found.exit_code == 3
    assert "1 could not be replayed" in flat(found)


def test_what_a_failure_blocks_is_named_with_it():
    Path("deaf.py").write_text(
        WRONG.format(doc="", when="True").replace("self.offset += keys.shape[2]", "raise OSError")
    )
    found = kvlaw("check", "deaf:Cache", "--set", "array=numpy", "--budget", "quick")
    (line,) = [line for line in found.output.splitlines() if line.startswith("blocked ")]
    assert {"VIS-1", "VIS-4", "READ-2"} <= set(line.split())
    assert "by POS-2" in flat(found)
