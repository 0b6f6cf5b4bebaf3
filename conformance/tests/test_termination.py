"""SIGTERM, by which CI runners end what they run, is an interrupt: reports are written, and no process is left."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from kvlaw.conformance.event_file import read_events
from kvlaw.conformance.interrupts import OwnInterruptError, ending, heed_termination, users_alone
from kvlaw.conformance.reports.run import gather

KVLAW = (sys.executable, "-m", "kvlaw.conformance.cli")
CHECK = ("check", "fault:trims-a-wrapped-ring", "--budget", "deep")
OUTPUTS = ("--events", "run.ndjson", "--report", "html=out.html", "--json", "out.json")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def started(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*KVLAW, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def waited(process: subprocess.Popen[str], ready: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until and not ready() and process.poll() is None:
        time.sleep(0.05)
    assert process.poll() is None, process.communicate()[0]


def found_something() -> bool:
    record = Path("run.ndjson")
    return record.exists() and "failure_found" in record.read_text()


def of_its_session(process: subprocess.Popen[str]) -> list[int]:
    """List the processes that it has started, and itself, by the session that they are in."""
    found: list[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == process.pid and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


@pytest.mark.parametrize(
    ("jobs", "send"),
    [
        ("1", os.kill),
        ("2", os.kill),
        ("2", os.killpg),  # as a runner does, and a container's end
    ],
    ids=["alone", "two jobs", "all processes"],
)
def test_a_check_that_is_terminated_writes_its_reports_and_leaves_no_process(
    jobs: str, send: Callable[[int, int], None]
):
    process = started(*CHECK, "--jobs", jobs, *OUTPUTS)
    waited(process, found_something)
    if Path("/proc").is_dir():
        assert len(of_its_session(process)) >= int(jobs)
    send(process.pid, signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1, out  # violations: what was found
    assert "VIOLATIONS" in out
    assert "interrupted: what was found so far is shown" in " ".join(out.split())
    assert "Traceback" not in out
    run = gather(read_events(Path("run.ndjson")))
    assert run.ended is not None
    assert run.ended.interrupted
    assert json.loads(Path("out.json").read_text())["verdict"] == "violations"
    assert "This is not the whole run" in Path("out.html").read_text()
    until = time.monotonic() + 10  # what counts the resources of processes leaves when it sees that they are gone
    while of_its_session(process) and time.monotonic() < until:
        time.sleep(0.05)
    assert of_its_session(process) == []


def test_sigterm_right_behind_an_interrupt_does_not_break_off_the_reports():
    """A runner that cancels sends SIGINT, and SIGTERM soon after it."""
    process = started(*CHECK, *OUTPUTS)
    waited(process, found_something)
    process.send_signal(signal.SIGINT)
    for _ in range(40):
        time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1, out
    assert json.loads(Path("out.json").read_text())["verdict"] == "violations"
    assert "This is not the whole run" in Path("out.html").read_text()


def test_what_has_no_result_yet_ends_with_the_code_of_sigterm():
    Path("slow.py").write_text(
        "import time\nclass Cache:\n    def __init__(self, window):\n        open('begun', 'a').close()\n"
        "        time.sleep(60)\n    def update_and_fetch(self, keys, values):\n        return keys, values\n"
    )
    process = started("try", "ring window=2 ; decode", "--target", "py:slow:Cache", "--set", "array=numpy")
    waited(process, Path("begun").exists)
    process.send_signal(signal.SIGTERM)
    while process.poll() is None:  # and once more while it leaves, as a runner does that has no patience
        time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 143, out
    assert "interrupted" in out


@pytest.fixture
def heeded() -> object:
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    heed_termination()
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("heeded")
def test_foreign_code_that_swallows_it_does_not_stop_it(monkeypatch: pytest.MonkeyPatch):
    for name in ("begun", "terminated"):
        monkeypatch.setattr(f"kvlaw.conformance.interrupts._Ending.{name}", False)
    monkeypatch.setattr("kvlaw.conformance.interrupts._Ending.heeded", True)
    with pytest.raises(KeyboardInterrupt):
        _swallowed()


def _swallowed() -> None:
    with users_alone(), suppress(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)


class _Finalized:
    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.01)


@pytest.mark.usefixtures("heeded")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_one_that_came_where_python_lets_no_exception_out_ends_the_run_at_the_next_call(
    monkeypatch: pytest.MonkeyPatch,
):
    for name in ("begun", "terminated", "heeded"):
        monkeypatch.setattr(f"kvlaw.conformance.interrupts._Ending.{name}", False)
    _Finalized()  # the interrupt is lost in its end
    with pytest.raises(KeyboardInterrupt), users_alone():
        pass
    ending()
    with users_alone():  # reports are still made
        pass


@pytest.mark.usefixtures("heeded")
def test_a_keyboard_interrupt_of_the_targets_own_is_nobodys_signal():
    with pytest.raises(OwnInterruptError), users_alone():
        raise KeyboardInterrupt


def test_a_handler_of_somebody_elses_stays():
    def theirs(*_: object) -> None:
        return

    before = signal.signal(signal.SIGTERM, theirs)
    try:
        heed_termination()
        assert signal.getsignal(signal.SIGTERM) is theirs
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        heed_termination()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
