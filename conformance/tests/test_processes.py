"""Work spread over processes: the same results as in one, and no process left, however it ends."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from kvlaw.conformance.processes import Pool, WorkerError, spread


def nobody(_index: int, _told: Any) -> None:
    pass


def square(item: int, tell: Any) -> int:
    tell(("at", item))
    return item * item


def process_of(item: int, _tell: Any) -> int:
    time.sleep(0.2)
    return os.getpid() + 0 * item


def dies_at_three(item: int, _tell: Any) -> int:
    if item == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def dies_by_a_signal_without_a_name(_item: int, _tell: Any) -> None:
    os.kill(os.getpid(), signal.SIGRTMIN + 6)


def fails_at_three(item: int, _tell: Any) -> int:
    if item == 3:
        raise ValueError("three is too many")
    return item


def waits(item: int, tell: Any) -> int:
    tell(item)
    time.sleep(60)
    return item


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_each_item_has_its_result_and_tells_under_its_index(jobs: int):
    told: list[tuple[int, Any]] = []
    found = dict(spread(square, [5, 7, 9], jobs, lambda index, what: told.append((index, what))))
    assert found == {0: 25, 1: 49, 2: 81}
    assert sorted(told) == [(0, ("at", 5)), (1, ("at", 7)), (2, ("at", 9))]


def test_two_jobs_are_two_processes_and_none_of_them_this_one():
    found = {pid for _, pid in spread(process_of, [1, 2, 3, 4], 2, nobody)}
    assert len(found) == 2
    assert os.getpid() not in found


def test_nothing_to_do_is_done():
    assert list(spread(square, [], 4, nobody)) == []


def test_a_process_that_dies_is_told_with_its_item_and_signal():
    with pytest.raises(WorkerError, match="3: its process ended by signal SIGKILL, without a result"):
        list(spread(dies_at_three, [1, 2, 3, 4], 2, nobody))
    assert multiprocessing.active_children() == []


@pytest.mark.skipif(not hasattr(signal, "SIGRTMIN"), reason="no signals for real time")
def test_a_signal_without_a_name_is_told_by_its_number():
    with pytest.raises(WorkerError, match=f"its process ended by signal {signal.SIGRTMIN + 6}, without a result"):
        list(spread(dies_by_a_signal_without_a_name, [1, 2], 2, nobody))


def test_an_exception_in_a_process_is_told():
    with pytest.raises(WorkerError, match="3: ValueError: three is too many"):
        list(spread(fails_at_three, [1, 2, 3, 4], 2, nobody))


def test_an_interrupt_leaves_no_process():
    def interrupt(_index: int, _what: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(spread(waits, [1, 2], 2, interrupt))
    assert multiprocessing.active_children() == []


def told_then_dies(item: tuple[int, int], tell: Any) -> None:
    for number in range(*item):
        if number == 4:
            os.kill(os.getpid(), signal.SIGSEGV)
        tell(number)


def test_who_can_recover_goes_on_behind_what_killed_the_process():
    told: list[int] = []
    died: list[tuple[int, str]] = []

    def recover(index: int, error: WorkerError) -> tuple[int, int]:
        died.append((index, error.how))
        return (5, 7)

    done = spread(told_then_dies, [(10, 12), (2, 7)], 2, lambda _, what: told.append(what), recover)
    assert sorted(index for index, _ in done) == [0, 1]
    assert died == [(1, "its process ended by signal SIGSEGV, without a result")]
    assert sorted(told) == [2, 3, 5, 6, 10, 11]


def deaf(_item: int, tell: Any) -> None:
    """Says its process, and never hears anything again."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    tell(os.getpid())
    time.sleep(60)


def starts_two() -> None:
    list(spread(deaf, [1, 2], 2, lambda _, pid: print(pid, flush=True)))  # noqa: T201


def test_processes_end_with_the_one_that_started_them():
    code = "from test_processes import starts_two; starts_two()"
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    parent = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert parent.stdout is not None
    assert parent.stderr is not None
    started = [int(parent.stdout.readline()) for _ in range(2)]
    parent.kill()
    said = parent.stderr.read()  # until nobody holds it open
    assert said == b""
    parent.communicate()
    until = time.monotonic() + 5
    while any(Path(f"/proc/{pid}").exists() for pid in started) and time.monotonic() < until:
        time.sleep(0.01)
    assert [pid for pid in started if Path(f"/proc/{pid}/cmdline").exists() and b"spawn" in _words(pid)] == []


def _words(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_an_interrupt_of_the_terminal_does_not_reach_a_process_that_is_just_starting(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    start = BaseProcess.start

    def interrupted(process: BaseProcess) -> None:
        start(process)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGINT)

    monkeypatch.setattr(BaseProcess, "start", interrupted)
    assert dict(spread(square, [2, 3], 2, nobody)) == {0: 4, 1: 9}
    assert capfd.readouterr().err == ""
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_pool_keeps_its_processes_until_it_is_closed():
    with Pool(2) as pool:
        first = {pid for _, pid in pool.spread(process_of, [1, 2, 3, 4], nobody)}
        again = {pid for _, pid in pool.spread(process_of, [1, 2, 3, 4], nobody)}
        assert first == again
    assert multiprocessing.active_children() == []
