"""What is asked of a subject: the tensors of each append, and queries that can be asked again in the same way.

Every append gets queries of its own, whose probes change from turn to turn; a pointer asks for a token that its query
surely sees.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from attrs import define, evolve, field, frozen

from kvlaw.conformance.recurrent_stamps import recurrent_step
from kvlaw.conformance.stamps import Stamper, spoil, spoil_queries
from kvlaw.reference.expectation import Expectation
from kvlaw.reference.model import Model
from kvlaw.reference.oracle import Group, Layers
from kvlaw.spec.calls import Advance, Append, AppendDecode, Attend, Call, FetchDense, LookAt
from kvlaw.spec.config import Config
from kvlaw.spec.observations import Bits, Payload

_stampers: dict[Config, Stamper] = {}
_MOST_STAMPERS = 64
_SPOILT_FROM = (1000, 9000)
"""Tokens of spoilt appends count from here, so that one that is stored all the same is told apart."""


def stamper_of(config: Config) -> Stamper:
    """Give the stamp tables of a configuration, shared by all traces with the same shapes."""
    key = evolve(config, kind="full", window=None, sinks=0, start=None, conv=None, look="every", poison=False)
    if key not in _stampers:
        if len(_stampers) > _MOST_STAMPERS:
            _stampers.clear()
        _stampers[key] = Stamper(key)
    return _stampers[key]


@frozen
class Asked:
    """The queries of a read, kept so that it can be asked again in the same way, and what it must answer."""

    queries: Bits
    pointers: npt.NDArray[np.int64]
    turn: int
    expectation: Expectation = field(factory=Expectation)
    rows: tuple["Asked", ...] = ()
    """Of a group's read, what each row is asked."""
    alone: bool = False
    """Each query stands alone, in a decode or a known append: the kernel of a decode attends (READ-13, READ-15)."""


@define
class Questions:
    """The questions of one trace: how many were asked, and by name those that can be asked again."""

    stamper: Stamper
    turn: int = 0
    kept: dict[str, Asked] = field(factory=dict[str, Asked])

    def ask(self, call: Call, tokens: tuple[int, ...], world: Mapping[str, object]) -> Asked | None:
        """Choose the queries of an append, or take those of the read that is asked again."""
        if isinstance(call, Attend | LookAt):
            return self.kept.get(call.on)
        if not tokens or not isinstance(call, Append):
            return None
        self.turn += 1
        thing = world.get(call.on)
        if isinstance(thing, Group) and thing.rows:
            return self._ask_rows(call, tokens, thing)
        pointers = self._pointers(call, tokens, thing)
        queries = self.stamper.queries(pointers, self.turn, self.turn)
        return Asked(queries, pointers, self.turn, alone=call.verb != "window")

    def _ask_rows(self, call: Append, tokens: tuple[int, ...], group: Group) -> Asked:
        """Ask every row for tokens of its own."""
        rows: list[Asked] = []
        length = len(tokens) // len(group.rows)
        for number, row in enumerate(group.rows):
            own = tokens[number * length : (number + 1) * length]
            pointers = self._row_pointers(call, own, row, group.paddings[number].real(length))
            seed = self.turn * 64 + number
            rows.append(Asked(self.stamper.queries(pointers, self.turn, seed), pointers, self.turn))
        alone = call.verb != "window"
        rows = [evolve(row, alone=alone) for row in rows]
        whole = np.concatenate([row.queries for row in rows])
        return Asked(whole, rows[0].pointers, self.turn, alone=alone, rows=tuple(rows))

    def _row_pointers(
        self, call: Append, tokens: tuple[int, ...], row: Model, real: tuple[int, ...]
    ) -> npt.NDArray[np.int64]:
        """Choose pointers for a row's real queries; a padded one asks for itself."""
        pointers = np.array(tokens, np.int64)
        if real:
            pointers[list(real)] = self._pointers(call, tuple(tokens[i] for i in real), row)
        return pointers

    def _pointers(self, call: Append, tokens: tuple[int, ...], thing: object) -> npt.NDArray[np.int64]:
        """Choose for each query a token that it surely sees: one of its newest, never below a pinned one."""
        models = thing.models if isinstance(thing, Layers) else (thing,) if isinstance(thing, Model) else ()
        bounds = [m.layer.window - m.layer.sinks for m in models if m.layer.window is not None]
        bounds += [call.window] if call.window is not None else []
        reach = max(1, min(bounds, default=1 << 30))
        line = (*(models[0].row.tokens if models else ()), *tokens)
        start = len(line) - len(tokens)
        back = [(self.turn * 7 + i * 3) % min(reach, start + i + 1) for i in range(len(tokens))]
        return np.array([line[start + i - b] for i, b in enumerate(back)], np.int64)

    def _stacked(self, tokens: tuple[int, ...], queries: Bits, rows: int) -> Payload:
        """Make the tensors of an append, each row of a group with tokens of its own."""
        if rows == 1:
            return self.stamper.payload(tokens, queries)
        length = len(tokens) // rows
        parts = [self.stamper.payload(tokens[b * length : (b + 1) * length], queries) for b in range(rows)]
        keys, values = (np.concatenate(side) for side in zip(*((p.keys, p.values) for p in parts), strict=True))
        return evolve(parts[0], tokens=tokens, keys=keys, values=values)

    def payload(
        self,
        call: Call,
        tokens: tuple[int, ...],
        asked: Asked | None,
        rows: int = 1,
        padding: tuple[int, ...] = (),
    ) -> Payload | None:
        """Make the tensors of a call, for so many rows of a group, spoilt where the call says so.

        None for a call that has none; ``padding`` lists, of an advance, the tokens that are padding of their row.
        """
        if isinstance(call, Advance | Append | FetchDense):
            return self._given(call, tokens, asked, rows, padding)
        if asked is None:
            return None
        again = Payload((), queries=asked.queries, dtype=self.stamper.config.dtype, scale=self.stamper.scale)
        spoilt = isinstance(call, Attend) and call.malformed
        return spoil_queries(again, spoilt) if spoilt else again

    def _given(
        self,
        call: Advance | Append | FetchDense,
        tokens: tuple[int, ...],
        asked: Asked | None,
        rows: int,
        padding: tuple[int, ...],
    ) -> Payload:
        """Make the tensors of an append or an advance."""
        queries = asked.queries if asked else np.zeros(0, np.uint16)
        given = self._stacked(tokens or (1,) * rows, queries, rows)
        how = call.malformed if tokens or call.malformed else "empty"
        if how is not None:
            given = spoil(given, how, decode_call=isinstance(call, AppendDecode))
        if not isinstance(call, Advance):
            return given
        return Payload(given.tokens, dtype=given.dtype, step=recurrent_step(given, given.tokens, padding))


def spoilt_from(tokens: int) -> int:
    """Give the first id of a spoilt append, far above the next good id ``tokens``."""
    return next((first for first in _SPOILT_FROM if first > tokens + 100), tokens + 1000)
