"""Recurrent layers (gated DeltaNet): a state that every position changes, instead of keys and values.

A ``RecurrentCache`` holds the newest inputs of a layer's convolution and a float32 matrix.  A model asks ``window`` for
what its convolution reads, and hands in by ``advance`` what the recurrence reads, position by position.  Such a state
cannot be cut: nothing of it is one token's.  What is taken back of a *round* is therefore played again: a round keeps
the state before it and the inputs since, and ``roll_back`` runs those that are kept.

``recurrent_rows`` has groups of rows.
"""

from abc import ABC, abstractmethod
from typing import Any, Self

import attrs
import mlx.core as mx

from kvlaw.mlx_impl.counts import as_count, as_integer
from kvlaw.mlx_impl.delta_rule import Run, gated_delta
from kvlaw.mlx_impl.errors import ConfigError, RoundError, TrimError
from kvlaw.mlx_impl.recurrent_state import State, Step, admit, advanced, convolved, replayed
from kvlaw.spec.cite import clause


@attrs.frozen(eq=False)
class Round:
    """An open round: the state that it began with, and each step since with the state that came out of it."""

    state: State | None
    steps: tuple[tuple[Step, State], ...] = ()
    appended: int = 0
    """How many positions were appended in it."""

    def with_step(self, step: Step, then: State) -> "Round":
        """Return the round with one more step."""
        steps = (*self.steps, (step.first(step.length), then))
        return Round(self.state, steps, self.appended + step.length)

    def kept(self, keeps: list[int], kernel: int) -> State | None:
        """Return the state of rows that keep the first ``keeps`` positions of it."""
        if not any(keeps):
            return self.state
        before = self.state or self.steps[0][0].empty_state(kernel)
        return replayed(before, self.steps, keeps)


class Recurrent(ABC):
    """What a cache and a group of recurrent layers have alike: no trim, and copies by ``become``."""

    __slots__ = ()

    kernel: int

    @abstractmethod
    def __init__(self, kernel: int) -> None: ...

    @abstractmethod
    def _take(self, other: Any) -> None:
        """Take over what another of the same class and kernel holds."""

    def become(self, other: Self) -> None:
        """Take over the state of another of the same kernel, as it is now.

        Raises:
            ConfigError: if ``other`` is of another kernel.
        """
        if other.kernel != self.kernel:
            raise ConfigError(f"{self!r} as {other!r}", "the configuration must be the same", "ID-3")
        self._take(other)

    @clause("REC-13")
    def can_trim(self, n: int) -> bool:
        """Say False: no state is that of fewer positions."""
        return False

    @clause("REC-13", "ERR-5")
    def trim(self, n: int, *, bypass: bool = False) -> int:
        """Refuse.

        Raises:
            CountError: if ``n`` is negative or no integer.
            TrimError: otherwise.
        """
        count = as_count(n, "trim of", "ERR-5")
        raise TrimError(f"trim of {count}", "a recurrent state cannot be cut; a round can be taken back", "REC-13")

    @clause("OWN-2", "OWN-3")
    def clone(self) -> Self:
        """Return an independent twin in the same state, with the same open round."""
        twin = type(self)(self.kernel)
        twin.become(self)
        return twin

    def __copy__(self) -> Self:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.clone()


class RecurrentCache(Recurrent):
    """The state of one recurrent layer for a batch of B rows at one offset; ``kernel`` is the convolution's K.

    Raises:
        ConfigError: if ``kernel`` is below 1 (ERR-6).
    """

    __slots__ = ("__weakref__", "_offset", "_round", "_state", "kernel")

    kernel: int
    """How many positions the convolution reads at once."""
    _state: State | None
    _round: Round | None

    @clause("ERR-6")
    def __init__(self, kernel: int = 4) -> None:
        found = as_integer(kernel)
        if found is None or found < 1:
            raise ConfigError(f"a convolution over {kernel!r}", "at least 1 position is needed", "ERR-6")
        self.kernel = found
        self._clear()

    def _clear(self) -> None:
        self._state = self._round = None
        self._offset = 0

    # -- what it is and where it stands -------------------------------------------------------------------------------

    @property
    @clause("REC-17")
    def identity(self) -> str:
        """Return ``recurrent(conv=K)``."""
        return f"recurrent(conv={self.kernel})"

    def __repr__(self) -> str:
        return f"<{self.identity} offset={self.offset}>"

    @property
    def offset(self) -> int:
        """Return the position of the next token."""
        return self._offset

    @property
    def rows(self) -> int:
        """Return the batch size B; 0 while empty."""
        return self._state.tail.shape[0] if self._state else 0

    @property
    @clause("REC-5")
    def bytes_per_token(self) -> int:
        """Return 0: positions take no room."""
        return 0

    @property
    @clause("REC-5")
    def nbytes(self) -> int:
        """Return the bytes of the state, which no position changes; 0 while empty."""
        return self._state.nbytes if self._state else 0

    @property
    def in_round(self) -> bool:
        """Say whether a round is open, so that its positions can be taken back."""
        return self._round is not None

    @property
    def content(self) -> tuple[State | None, int]:
        """Return the state of its rows, None while empty, and its offset."""
        return self._state, self._offset

    def hold(self, state: State | None, offset: int) -> None:
        """Hold a state that belongs to nobody else, outside a round."""
        self._state, self._offset, self._round = state, offset, None

    @clause("REC-1", "OWN-4")
    def state(self) -> dict[str, mx.array | int]:
        """Return ``conv`` ``[B, K - 1, C]`` and ``matrix`` ``[B, H, E, D]``, none while empty, and the offset."""
        held = self._state
        arrays = {} if held is None else {"conv": held.tail[...], "matrix": held.matrix[...]}
        return {**arrays, "offset": self.offset}

    # -- positions ----------------------------------------------------------------------------------------------------

    @clause("REC-3")
    def window(self, inputs: mx.array) -> mx.array:
        """Return what the convolution of ``inputs`` ``[B, L, C]`` reads, ``[B, K - 1 + L, C]``, and change nothing."""
        if self._state is None:
            return mx.pad(inputs, [(0, 0), (self.kernel - 1, 0), (0, 0)])
        return convolved(self._state, inputs, None)

    @clause("REC-2", "REC-3")
    def advance(
        self,
        inputs: mx.array,
        queries: mx.array,
        keys: mx.array,
        values: mx.array,
        decay: mx.array,
        beta: mx.array,
        *,
        run: Run = gated_delta,
    ) -> mx.array:
        """Run L >= 1 positions and return their outputs ``[B, L, H, E]``.

        ``inputs`` ``[B, L, C]`` are the convolution's, before it; the others are behind it, as of ``gated_delta``.
        ``run`` is another kernel of the same signature; in a round it runs again what is kept.

        Raises:
            CacheError: if arrays are refused; then nothing has changed.
        """
        step = Step(inputs, queries, keys, values, decay, beta, run)
        admit(step, self._state)
        outputs, then = advanced(self._state or step.empty_state(self.kernel), step, None)
        self._state, self._offset = then, self._offset + step.length
        if self._round is not None:
            self._round = self._round.with_step(step, then)
        return outputs

    # -- rounds -------------------------------------------------------------------------------------------------------

    @clause("ROUND-7", "ROUND-16")
    def begin_round(self) -> None:
        """Open a round: what is appended from here on can be taken back.

        Raises:
            RoundError: if one is open.
        """
        if self._round is not None:
            raise RoundError("a round", "one is open", "ROUND-7")
        self._round = Round(self._state)

    @clause("ROUND-1", "ROUND-7")
    def commit_round(self) -> None:
        """Close the round and keep all of it.

        Raises:
            RoundError: if no round is open.
        """
        self._open()
        self._round = None

    @clause("REC-6", "ROUND-2", "ROUND-7")
    def roll_back(self, keep: int) -> None:
        """Close the round and keep its first ``keep`` positions, as if the others had never been.

        Raises:
            RoundError: if no round is open, or ``keep`` is not from 0 to what was appended in it.
        """
        found = self._open()
        kept = kept_count(keep, found.appended)
        self._state = found.kept([kept] * self.rows, self.kernel)
        self._offset += kept - found.appended
        self._round = None

    def _open(self) -> Round:
        if self._round is None:
            raise RoundError("an end of a round", "no round is open", "ROUND-7")
        return self._round

    # -- what it cannot do, and what it need not ----------------------------------------------------------------------

    floor = 0
    """It was never converted."""
    due = False
    """There is nothing to convert."""
    max_append: int | None = None
    """No number of positions makes it due."""

    def settle(self) -> bool:
        """Say False: there is nothing to convert."""
        return False

    # -- copies -------------------------------------------------------------------------------------------------------

    def _take(self, other: Self) -> None:
        self._state, self._offset, self._round = other._state, other._offset, other._round

    @clause("OWN-7")
    def reset(self) -> None:
        """Return to the constructed, empty state; other shapes or another dtype may follow."""
        self._clear()


@clause("ROUND-7")
def kept_count(keep: object, appended: int) -> int:
    """Check how many positions of a round a roll back keeps.

    Raises:
        RoundError: if that is not from 0 to ``appended``.
    """
    kept = as_integer(keep)
    if kept is None or not 0 <= kept <= appended:
        raise RoundError(f"a roll back that keeps {keep!r}", f"0 to {appended} can be kept", "ROUND-7")
    return kept
