"""Prove all lemmas: `run` checks each lemma and its twin, two at a time, and gives one result for each.

Each of the `jobs` threads owns one `worker` process. A worker that dies or does not answer in time is ended, the claim
counts as an error, and the next claim gets a new worker: no result is lost.
"""

import importlib.util
import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Literal

from attrs import field, frozen

from kvlaw.conformance.proofs.lemmas import LEMMAS
from kvlaw.conformance.proofs.registry import Claim, Lemma

Outcome = Literal["confirmed", "refuted", "unknown", "vacuous", "error"]
"""confirmed: no counterexample on any path; refuted: one was found; unknown: the time was over before all paths were
done; vacuous: no input meets the preconditions; error: the claim raised, has no contract, or its worker died."""

TIMEOUT_S = 30.0
"""Seconds for one claim; the slowest takes about 3."""

GRACE_S = 15.0
"""Seconds beyond the timeout after which a worker that has not answered is ended."""


class ProverMissingError(RuntimeError):
    """Say that CrossHair is not installed."""


@frozen
class LemmaResult:
    """Hold what CrossHair found for one lemma or twin.

    name: the function; of: the lemma that it is the twin of, or None for a lemma itself.
    expected: confirmed for a lemma, refuted for a twin; nothing else passes.
    counterexample: the refuting call, as Python text. detail: the message of CrossHair, or why there is none.
    """

    name: str
    of: str | None
    sentence: str
    clauses: tuple[str, ...]
    expected: Outcome
    outcome: Outcome
    seconds: float
    counterexample: str | None = None
    detail: str = ""

    @property
    def ok(self) -> bool:
        """Tell whether the outcome is the expected one."""
        return self.outcome == self.expected


@frozen
class _Task:
    order: int
    lemma: Lemma
    claim: Claim
    expected: Outcome = field(kw_only=True)

    def result(self, answer: dict[str, Any]) -> LemmaResult:
        name = self.claim.function.__name__
        return LemmaResult(
            name=name,
            of=None if name == self.lemma.name else self.lemma.name,
            sentence=self.claim.sentence,
            clauses=self.lemma.clauses,
            expected=self.expected,
            **answer,
        )


class _Worker:
    """Own one worker process, started on the first question and again after a crash."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.process: subprocess.Popen[str] | None = None

    def ask(self, address: str) -> dict[str, Any]:
        started = time.monotonic()
        process = self.process = self.process or self.start()
        timer = threading.Timer(self.timeout + GRACE_S, process.kill)
        timer.start()
        try:
            line = self.exchange(process, json.dumps({"address": address, "timeout": self.timeout}))
        finally:
            timer.cancel()
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        self.close()
        seconds = time.monotonic() - started
        return {
            "outcome": "error",
            "seconds": seconds,
            "detail": f"the worker ended without an answer after {seconds:.0f} s",
        }

    @staticmethod
    def start() -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "kvlaw.conformance.proofs.worker"]
        return subprocess.Popen(  # noqa: S603 -- our own interpreter and module
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    @staticmethod
    def exchange(process: subprocess.Popen[str], question: str) -> str:
        if process.stdin is None or process.stdout is None:
            return ""
        try:
            process.stdin.write(question + "\n")
            process.stdin.flush()
            return process.stdout.readline()
        except (BrokenPipeError, ValueError):
            return ""

    def kill(self) -> None:
        """End the process from another thread; whoever asks it gets no answer."""
        if self.process is not None:
            self.process.kill()

    def close(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.communicate()


def tasks(lemmas: Sequence[Lemma]) -> list[_Task]:
    """List each lemma and its twin, with what is expected of them."""
    found: list[_Task] = []
    for lemma in lemmas:
        found.append(_Task(len(found), lemma, lemma.claim, expected="confirmed"))
        if lemma.twin is not None:
            found.append(_Task(len(found), lemma, lemma.twin, expected="refuted"))
    return found


def run(
    on_result: Callable[[LemmaResult], None] | None = None,
    jobs: int = 2,
    lemmas: Sequence[Lemma] = LEMMAS,
    timeout: float = TIMEOUT_S,
) -> list[LemmaResult]:
    """Check lemmas and their twins with CrossHair.

    on_result: called with each result as it comes, never from two threads at once.
    jobs: worker processes at a time.
    lemmas: what to check, by default everything.
    timeout: seconds for one claim.
    Returns the results in the order of the lemmas, each twin behind its lemma.
    Raises ProverMissingError if CrossHair is not installed.
    """
    if importlib.util.find_spec("crosshair") is None:
        raise ProverMissingError("the proofs need CrossHair: pip install 'kvlaw[prove]'")
    waiting: queue.SimpleQueue[_Task] = queue.SimpleQueue()
    for task in tasks(lemmas):
        waiting.put(task)
    done: dict[int, LemmaResult] = {}
    lock = threading.Lock()

    def report(task: _Task, answer: dict[str, Any]) -> None:
        with lock:
            done[task.order] = task.result(answer)
            if on_result is not None:
                on_result(done[task.order])

    workers = [_Worker(timeout) for _ in range(max(1, jobs))]
    threads = [threading.Thread(target=_work, args=(waiting, worker, report), daemon=True) for worker in workers]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException:  # an interrupt: without this the threads would go on with all that waits
        with suppress(queue.Empty):
            while True:
                waiting.get_nowait()
        for worker in workers:
            worker.kill()
        raise
    return [done[order] for order in sorted(done)]


def _work(
    waiting: "queue.SimpleQueue[_Task]", worker: _Worker, report: Callable[[_Task, dict[str, Any]], None]
) -> None:
    """Take claims until none is waiting."""
    try:
        while True:
            task = waiting.get_nowait()
            report(task, worker.ask(task.claim.address))
    except queue.Empty:
        pass
    finally:
        worker.close()
