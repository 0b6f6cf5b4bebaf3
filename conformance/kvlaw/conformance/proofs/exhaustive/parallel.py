"""Several searches side by side, each in a process of its own that tells how far it is and ends with its coverage."""

import multiprocessing
import signal
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from attrs import define

from kvlaw.conformance.proofs.exhaustive.search import Coverage, OnProgress, Space, search


def search_all(spaces: Sequence[Space], on_progress: OnProgress, jobs: int) -> list[Coverage]:
    """Search spaces, `jobs` at a time, the last ones of the list first; an interrupt ends all of them.

    Returns a coverage for each space that was begun, in the order of the list.
    """
    if jobs == 1:
        return _one_by_one(spaces, on_progress)
    waiting, running, done = list(spaces), dict[Connection, _Running](), dict[Space, Coverage]()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                started = _Running.start(waiting.pop())
                running[started.told] = started
            for told in wait(list(running)):
                one = running[_connection(told)]
                if (coverage := one.listen(on_progress)) is not None:
                    done[one.space] = coverage
                    del running[one.told]
    except KeyboardInterrupt:
        done |= {one.space: one.interrupted() for one in running.values()}
    finally:
        for one in running.values():
            one.process.kill()
            one.process.join()
    return [done[space] for space in spaces if space in done]


def _one_by_one(spaces: Sequence[Space], on_progress: OnProgress) -> list[Coverage]:
    covered: list[Coverage] = []
    for space in spaces:
        covered.append(search(space, on_progress))
        if covered[-1].interrupted:
            break
    return covered


def _connection(ready: Any) -> Connection:
    """Narrow what `wait` gives: one of the connections that it was given."""
    return ready


@define
class _Running:
    """Hold a search that goes on elsewhere, and how far it said that it was."""

    space: Space
    process: BaseProcess
    told: Connection
    started: float
    states: int = 0
    transitions: int = 0

    @classmethod
    def start(cls, space: Space) -> "_Running":
        context = multiprocessing.get_context("spawn")
        told, tells = context.Pipe(duplex=False)
        process = context.Process(target=_serve, args=(space, tells), daemon=True)
        process.start()
        tells.close()
        return cls(space, process, told, time.monotonic())

    def listen(self, on_progress: OnProgress) -> Coverage | None:
        """Take one message: the coverage at the end, or how far the search is."""
        try:
            message = self.told.recv()
        except EOFError:
            raise RuntimeError(f"the search of {self.space.name} ended without a result") from None
        if isinstance(message, Coverage):
            self.process.join()
            return message
        self.states, self.transitions = message
        on_progress(self.space, self.states, self.transitions)
        return None

    def interrupted(self) -> Coverage:
        """Say how far the search was when it last told."""
        seconds = time.monotonic() - self.started
        return Coverage(self.space, self.states, self.transitions, seconds, closed=False, interrupted=True)


def _serve(space: Space, tells: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it ends it
    tells.send(search(space, lambda _, states, transitions: tells.send((states, transitions))))
