"""A cache that ends the process in which it runs: what was being asked is known, and with several processes judged."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kvlaw.conformance import blackbox
from kvlaw.conformance.cli import cli
from kvlaw.conformance.event_file import read_events
from kvlaw.conformance.events import FailureFound
from kvlaw.conformance.reports.run import gather
from kvlaw.spec.text_form import parse, write

CALL = "from kvlaw.conformance.cli import main; main()"
CACHE = '''
import os
import signal

import numpy as np


class Cache:
    """Ends its process where it is asked to take back a negative number of positions."""

    def __init__(self):
        self.keys, self.values, self.offset = None, None, 0

    def update_and_fetch(self, keys, values):
        past = () if self.keys is None else (self.keys,), () if self.values is None else (self.values,)
        self.keys, self.values = np.concatenate([*past[0], keys], 2), np.concatenate([*past[1], values], 2)
        self.offset += keys.shape[2]
        return self.keys.copy(), self.values.copy()

    def is_trimmable(self):
        return True

    def trim(self, n):
        if n < 0:
            END
        n = min(n, self.offset)
        self.offset -= n
        self.keys, self.values = (None, None) if self.keys is None else (
            self.keys[:, :, : self.offset], self.values[:, :, : self.offset]
        )
        return n
'''
ENDS = {"a signal": "os.kill(os.getpid(), signal.SIGSEGV)", "an exit": "os._exit(3)", "none": "return 0"}


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def cache(end: str) -> list[str]:
    Path("dying.py").write_text(CACHE.replace("END", ENDS[end]))
    return ["check", "py:dying:Cache", "--set", "array=numpy", "--budget", "quick"]


def alone(end: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", CALL, *cache(end)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_box_holds_the_trace_that_was_begun_last(tmp_path: Path) -> None:
    first, second = parse("ring window=8 sinks=1 ; window 12 ; decode x3 ; trim 2"), parse("full look=last ; decode")
    blackbox.begin(tmp_path / "box")
    try:
        for written in (first, second, first, second):
            blackbox.opening(written.trace.config)
            for call in written.trace.calls:
                blackbox.calling(call)
            assert blackbox.read(tmp_path / "box") == written.trace
        blackbox.opening(first.trace.config)
        for _ in range(20_000):  # more than there is room for
            blackbox.calling(first.trace.calls[0])
        kept = blackbox.read(tmp_path / "box")
        assert kept is not None
        assert write(kept).startswith("ring window=8 sinks=1 ; window 12")
    finally:
        blackbox.forget()
    assert blackbox.read(tmp_path / "none") is None
    (tmp_path / "torn").write_bytes(b"ring window=8 ; wind\0\0")
    assert blackbox.read(tmp_path / "torn") is None


@pytest.mark.parametrize("end", ["a signal", "an exit"])
def test_a_process_that_ends_says_in_which_call(end: str) -> None:
    done = alone(end)
    assert done.returncode == (-11 if end == "a signal" else 3)
    assert [line for line in done.stderr.splitlines() if line.startswith("    full") and line.endswith("trim -1")]
    assert "kvlaw check 'cmd:kvlaw testee serve py:dying:Cache --set array=numpy'" in done.stderr
    assert ("dying.py" in done.stderr) == (end == "a signal")  # its lines, by faulthandler
    (kept,) = Path.cwd().glob("kvlaw-*.trace")
    trace = blackbox.read(kept)
    assert trace is not None
    assert write(trace).endswith("; trim -1")


def test_a_process_that_ends_well_leaves_nothing_and_says_nothing() -> None:
    done = alone("none")
    assert done.stderr == "" or " s  full" in done.stderr
    assert list(Path.cwd().glob("kvlaw-*")) == []


def failures(record: str) -> dict[str, FailureFound]:
    return {failure.clause: failure for failure in gather(read_events(Path(record))).targets[0].failures}


def test_in_processes_a_crash_is_the_outcome_of_its_trace() -> None:
    found: Any = CliRunner().invoke(cli, [*cache("a signal"), "--jobs", "2", "--events", "run.ndjson"])
    assert found.exit_code == 1
    failure = failures("run.ndjson")["TRIM-9"]
    assert failure.text.endswith("; trim -1")
    line = Path("dying.py").read_text().splitlines().index("            os.kill(os.getpid(), signal.SIGSEGV)") + 1
    assert failure.observed == f"error its process ended by signal SIGSEGV in trim (dying.py, line {line})"
    assert failure.steps[-1].diverges
    report = " ".join(found.output.split())
    assert "the target crashed charged to TRIM-9 MUST" in report
    assert "the target crashed in `trim -1`: its process ended by" in report
    judged = {c.clause: c.outcome for c in gather(read_events(Path("run.ndjson"))).targets[0].clauses}
    assert (judged["TRIM-9"], judged["TRIM-1"], judged["GROW-1"]) == ("fail", "pass", "pass")  # the rest was played
