"""Work that is spread over processes of our own: each takes one item after the other, and tells how far it is.

A ``Pool`` gives the results as they come.  With one job everything is done here, without a process.  Whoever leaves
the loop, by an interrupt or otherwise, ends the processes; what an item told before then is not lost.
"""

import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, Self, TypeVar

from attrs import define, field, frozen

Item = TypeVar("Item")
Result = TypeVar("Result")
Tell = Callable[[Any], None]
"""Takes what an item tells on the way; it must be picklable."""
Work = Callable[[Item, Tell], Result]
"""A function of a module, for a process of its own has to find it: an item to its result."""
OnTold = Callable[[int, Any], None]
"""Takes the index of an item, and what it told."""


Recover = Callable[[int, "WorkerError"], Any]
"""Takes the index of an item whose process died; gives the item to go on with under this index, or raises."""


class WorkerError(RuntimeError):
    """A process ended, or failed, before it had its result; the text says on what, and how."""

    def __init__(self, what: str, how: str) -> None:
        """Say on ``what`` it ended, and ``how``."""
        super().__init__(f"{what}: {how}")
        self.how = how
        self.pid = 0
        """The process that died, if it did."""


def _give_up(_index: int, error: WorkerError) -> Any:
    raise error


@define(eq=False)
class Pool:
    """Processes that are started when they are first needed, and stay until the pool is closed.

    ``jobs``: how many work side by side; with one, everything is done here, without a process.
    """

    jobs: int = 1
    _workers: "list[_Worker]" = field(factory=list["_Worker"], init=False)

    def __enter__(self) -> Self:
        """Use the pool."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the pool."""
        self.close()

    def close(self) -> None:
        """End every process, whatever it is doing."""
        while self._workers:
            self._workers.pop().end()

    def spread(
        self, work: Work[Item, Result], items: Sequence[Item], on_told: OnTold, recover: Recover = _give_up
    ) -> Generator[tuple[int, Result]]:
        """Give the result of each item with its index, as they come.

        A process that died is started again, with the item that ``recover`` gives for the one on which it died.
        Whoever leaves the loop before its end closes the pool.

        Raises:
            WorkerError: if a process ends without its result, or ``work`` raises there.
        """
        if self.jobs == 1:
            for index, item in enumerate(items):
                yield index, work(item, lambda told, index=index: on_told(index, told))
            return
        waiting = list(enumerate(items))[::-1]
        whole = False
        try:
            self._workers.extend(_Worker.start() for _ in range(min(self.jobs, len(items)) - len(self._workers)))
            for worker in self._workers:
                worker.take(work, waiting)
            while busy := {worker.pipe: worker for worker in self._workers if worker.doing is not None}:
                for ready in wait(list(busy)):
                    worker = busy[_connection(ready)]
                    done = self._listen(worker, work, on_told, recover)
                    if done is not None:
                        worker.take(work, waiting)
                        yield done
            whole = True
        finally:
            if not whole:
                self.close()

    def _listen(
        self, worker: "_Worker", work: Work[Any, Any], on_told: OnTold, recover: Recover
    ) -> tuple[int, Any] | None:
        try:
            return worker.listen(on_told)
        except _DiedError as error:
            item = recover(error.index, error)
            self._workers[self._workers.index(worker)] = worker.replaced(work, item)
            return None


def spread(
    work: Work[Item, Result], items: Sequence[Item], jobs: int, on_told: OnTold, recover: Recover = _give_up
) -> Generator[tuple[int, Result]]:
    """Spread items over a pool of their own (``Pool.spread``)."""
    with Pool(min(jobs, len(items)) or 1) as pool:
        yield from pool.spread(work, items, on_told, recover)


def _connection(ready: Any) -> Connection:
    """Narrow what ``wait`` gives: one of the connections that it was given."""
    return ready


class _DiedError(WorkerError):
    """A process ended without a word."""

    index: int = -1


@frozen
class _Told:
    """Say how far an item is."""

    what: Any


@frozen
class _Done(Generic[Result]):
    """Give the result of an item."""

    result: Result


@frozen
class _Failed:
    """Say how an item failed."""

    text: str


@define(eq=False)
class _Worker:
    """Hold a process, our end of its pipe, and what it is doing: the index of an item and the item."""

    process: BaseProcess
    pipe: Connection
    doing: tuple[int, Any] | None = None

    @classmethod
    def start(cls) -> "_Worker":
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs,), daemon=True)
        with _undisturbed():
            process.start()
        theirs.close()
        return cls(process, ours)

    def take(self, work: Work[Any, Any], waiting: list[tuple[int, Any]]) -> None:
        """Begin the next item, or rest."""
        self.doing = waiting.pop() if waiting else None
        if self.doing is not None:
            with suppress(OSError):  # its death is heard when it is listened to
                self.pipe.send((work, self.doing[1]))

    def replaced(self, work: Work[Any, Any], item: Any) -> "_Worker":
        """Start another process in its place, with an item for the index at which it died."""
        index = self.doing[0] if self.doing is not None else -1
        self.end()
        other = _Worker.start()
        other.take(work, [(index, item)])
        return other

    def listen(self, on_told: OnTold) -> tuple[int, Any] | None:
        """Take one message; give the index and the result at the end of an item."""
        index = self.doing[0] if self.doing is not None else -1
        try:
            message = self.pipe.recv()
        except (EOFError, OSError):
            raise self.died() from None
        if isinstance(message, _Failed):
            raise WorkerError(self.what, message.text)
        if isinstance(message, _Told):
            on_told(index, message.what)
            return None
        return index, message.result

    @property
    def what(self) -> str:
        """Name what it is doing."""
        item = self.doing[1] if self.doing is not None else None
        return str(getattr(item, "name", item))

    def died(self) -> _DiedError:
        """Say that it ended without a result."""
        self.process.join(1)
        code = self.process.exitcode
        how = f"signal {_signal(-code)}" if code is not None and code < 0 else f"exit code {code}"
        error = _DiedError(self.what, f"its process ended by {how}, without a result")
        error.index = self.doing[0] if self.doing is not None else -1
        error.pid = self.process.pid or 0
        return error

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self.pipe.close()
        self.process.kill()
        self.process.join()


def _signal(number: int) -> str:
    """Name a signal; those for real time have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _end_with_parent() -> None:
    """End this process as soon as the one that started it is gone, whatever it is doing."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


@contextmanager
def _undisturbed() -> Generator[None]:
    """Start a process to which the signals that end a run are nothing, also before it can say so itself."""
    resource_tracker.ensure_running()  # which would let interrupts in again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_ENDING = {signal.SIGINT, signal.SIGTERM}
"""The signals that end a run; whoever sends them to one process of it often sends them to all."""


def _pass(_number: int, _frame: object) -> None:
    """Do nothing; unlike a signal that is ignored this is not handed down to what a process starts."""


def _serve(pipe: Connection) -> None:
    for number in _ENDING:
        signal.signal(number, _pass)  # whoever started it ends it; what it starts itself hears them
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    threading.Thread(target=_end_with_parent, daemon=True, name="ends with its parent").start()
    while True:
        try:
            work, item = pipe.recv()
        except (EOFError, OSError):
            return

        def tell(told: Any) -> None:
            _send(pipe, _Told(told))

        try:
            answer: _Done[Any] | _Failed = _Done(work(item, tell))
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            answer = _Failed(f"{type(error).__name__}: {error}")
        _send(pipe, answer)


def _send(pipe: Connection, message: Any) -> None:
    try:
        pipe.send(message)
    except OSError:  # nobody hears it
        os._exit(1)


__all__ = ["OnTold", "Pool", "Tell", "Work", "WorkerError", "spread"]
