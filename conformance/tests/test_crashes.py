"""A cache that ends the process in which it runs: what was being asked is known, and with several processes judged."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from homemade_caches import growing

from kvlaw.conformance import blackbox
from kvlaw.conformance.cli import cli
from kvlaw.conformance.crashes import MOST, Crashes, steps_of
from kvlaw.conformance.event_file import read_events
from kvlaw.conformance.events import FailureFound
from kvlaw.conformance.failures import Failure
from kvlaw.conformance.machines.contract import ContractMachine
from kvlaw.conformance.parts import Elsewhere, Ended, Part, Plan, Task
from kvlaw.conformance.processes import WorkerError
from kvlaw.conformance.reports.run import gather
from kvlaw.conformance.session import Findings
from kvlaw.conformance.subjects.targets import open_target
from kvlaw.spec.text_form import parse, write

CALL = "from kvlaw.conformance.cli import main; main()"
CACHE = growing(
    "Ends its process where it is asked to take back a negative number of positions.",
    """\
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
""",
    "ctypes",
    "os",
    "signal",
)
ENDS = {"a signal": "os.kill(os.getpid(), signal.SIGSEGV)", "an exit": "ctypes.CDLL(None)._exit(3)", "none": "return 0"}


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
    assert found.exit_code == 1, found.output
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


PLAN = Plan("dying", ("ring",), budget="quick")
ABLE = frozenset(("trim", "can_trim", "mask", "reset"))
STORED = Part("ring", "stored traces")


def died_in(text: str, crashes: Crashes, what: Part | Failure = STORED, going: Findings | None = None) -> Task:
    """Let a process die in a trace, and give what is done in the place of its part."""
    error = WorkerError("ring, stored traces", "its process ended by signal SIGKILL, without a result")
    error.pid = 7
    box = blackbox.BlackBox.made(Path(crashes.folder()) / "7")
    box.begins(text)
    return crashes.recovered(Task(Elsewhere(PLAN, lambda: open_target("builtin:oracle")), what), error, going)


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("ring window=4", None),
        ("ring window=4 ; window 6 ; reset", None),
        ("ring window=2 ; decode ; trim -1", "TRIM-9"),
    ],
)
def test_a_crash_is_charged_as_any_error_of_its_last_call_is(text: str, clause: str | None) -> None:
    crashes = Crashes(PLAN, ABLE)
    died_in(text, crashes)
    (failure,) = crashes.found
    assert write(failure.trace) == text
    assert failure.divergence.observed == "error its process ended by signal SIGKILL"
    assert clause in (None, failure.clause)
    steps = steps_of(failure, PLAN, ABLE)
    assert [bool(step.divergences) for step in steps] == [False] * len(failure.trace.calls) + [True]
    crashes.close()


def test_a_part_that_crashed_is_played_again_without_what_begins_so_and_in_the_end_left() -> None:
    crashes, known = Crashes(PLAN, ABLE), Findings()
    known.exercised["VIS-1"] = 3
    task = died_in("ring window=2 ; decode ; reset", crashes, going=known)
    for number in range(2, MOST + 1):
        assert isinstance(task.what, Part)
        assert len(task.what.avoided) == number - 1
        task = died_in(f"ring window={number + 1} ; decode ; reset", crashes, task.what, known)
    assert task.instead is None
    task = died_in("ring window=40 ; decode ; reset", crashes, task.what, known)
    assert isinstance(task.instead, Ended)
    assert task.instead.findings.exercised == {"VIS-1": 3}
    assert crashes.trouble.total() == MOST + 1
    crashes.close()


def test_of_a_machine_that_crashed_what_it_had_found_is_kept() -> None:
    crashes, known = Crashes(PLAN, ABLE), Findings()
    task = died_in("ring window=2 ; decode ; reset", crashes, Part("ring", "any call", ContractMachine, 5, 5), known)
    assert task.instead == Ended(known)
    crashes.close()


def test_a_failure_whose_shortening_crashes_stays_as_it_is() -> None:
    crashes = Crashes(PLAN, ABLE)
    died_in("ring window=2 ; decode ; reset", crashes)
    (failure,) = crashes.found
    task = died_in("ring window=1 ; reset", crashes, failure)
    assert task.instead is failure
    assert crashes.found == [failure]
    crashes.close()


def test_a_process_that_died_nobody_knows_where_ends_the_check() -> None:
    crashes = Crashes(PLAN, ABLE)
    with pytest.raises(WorkerError):
        died_in("", crashes)
    crashes.close()


SAVING = '''
from kvlaw.conformance.subjects.files_on_disk import FilesOnDisk
from kvlaw.conformance.subjects.oracle import ReferenceAdapter


class Saving(FilesOnDisk, ReferenceAdapter):
    """Saves nothing that could be loaded, but saves it to the disk."""

    capabilities = frozenset(("files",))
    kinds = ("full",)

    def write(self, path, caches):
        path.write_bytes(b"nothing")
        open("saved", "a").write(f"{path.parent.parent}\\n")

    def read(self, path, other):
        raise ValueError("nothing is in it")
'''


def test_processes_leave_no_file_behind_that_a_target_saved() -> None:
    """They are killed at the end, and remove nothing themselves."""
    Path("saving.py").write_text(SAVING)
    command = [sys.executable, "-c", CALL, "check", "py:saving:Saving", "--budget", "quick", "--jobs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert list(Path.cwd().glob("kvlaw-*")) == []
    assert any(Path(line).name.startswith("kvlaw-") for line in Path("saved").read_text().splitlines())
