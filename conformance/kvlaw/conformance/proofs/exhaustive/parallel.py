"""Several searches side by side, each of which tells how far it is and ends with its coverage."""

import time
from collections.abc import Sequence

from attrs import frozen

from kvlaw.conformance.processes import Tell, spread
from kvlaw.conformance.proofs.exhaustive.search import Coverage, OnProgress, Space, search


@frozen
class _Reached:
    """Say how far a search is, and when it began."""

    states: int
    transitions: int
    began: float

    def interrupted(self, space: Space) -> Coverage:
        """Say what was covered when the search last told."""
        seconds = time.time() - self.began
        return Coverage(space, self.states, self.transitions, seconds, closed=False, interrupted=True)


def search_all(spaces: Sequence[Space], on_progress: OnProgress, jobs: int) -> list[Coverage]:
    """Search spaces, `jobs` at a time, the last ones of the list first; an interrupt ends all of them.

    Returns a coverage for each space that was begun, in the order of the list.
    """
    order = list(spaces) if jobs == 1 else list(spaces)[::-1]
    done, reached = dict[Space, Coverage](), dict[Space, _Reached]()

    def told(index: int, far: _Reached) -> None:
        reached[order[index]] = far
        if far.states:
            on_progress(order[index], far.states, far.transitions)

    try:
        for index, coverage in spread(_search, order, jobs, told):
            done[order[index]] = coverage
            if coverage.interrupted:
                break
    except KeyboardInterrupt:
        done |= {space: far.interrupted(space) for space, far in reached.items() if space not in done}
    return [done[space] for space in spaces if space in done]


def _search(space: Space, tell: Tell) -> Coverage:
    began = time.time()
    tell(_Reached(0, 0, began))
    return search(space, lambda _, states, transitions: tell(_Reached(states, transitions, began)))
