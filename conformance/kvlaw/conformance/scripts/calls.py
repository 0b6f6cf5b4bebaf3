"""One call of a trace as Python: an expression that makes it, and what has to be known to write the next one.

``Writer`` keeps what the calls so far made: which names are groups, how many rows they have, and the next token id.
"""

from collections.abc import Callable
from itertools import groupby
from typing import Any

from attrs import define, field

from kvlaw.conformance.scripts.made import Made, ScriptError
from kvlaw.spec.calls import (
    Append,
    AppendDecode,
    AppendWindow,
    Attend,
    BeginRound,
    Call,
    Clone,
    CommitRound,
    Drop,
    Extract,
    FetchDense,
    Filter,
    Finalize,
    Load,
    LookAt,
    MakeCache,
    MakeMask,
    Merge,
    Prepare,
    Reset,
    RollBack,
    Save,
    TakeState,
    Trim,
)
from kvlaw.spec.config import Config, LayerSpec

SPOILS = {
    "rank": "(keys[0], values[0])",
    "batch": "(twice(keys, 0), twice(values, 0))",
    "heads": "(twice(keys, 1), twice(values, 1))",
    "head_dim": "(keys[..., :-8], values)",
    "lengths": "(keys, twice(values, 2)[:, :, : keys.shape[2] + 1])",
    "two": "(twice(keys, 2), twice(values, 2))",
}
"""The ways to spoil tensors (ERR-2 to ERR-4) as expressions."""


@define
class Writer:
    """Writes the calls of one trace, in their order."""

    made: Made
    config: Config
    rows: dict[str, int] = field(factory=dict[str, int], init=False)
    """Names of groups, and how many rows each has; a serial cache is not among them."""
    token: int = field(default=1, init=False)
    spoils: bool = field(default=False, init=False)

    def opening(self) -> str:
        """Write how ``c0`` is made."""
        built = self.made.build(self.config.layer.serial, self.config)
        if not self.config.is_rows:
            return self._keep("c0", built)
        if not self.config.row_count:
            raise ScriptError("mlx-lm makes no group without rows")
        self.rows["c0"] = self.config.row_count
        return self._keep("c0", f"merged([{', '.join([built] * self.config.row_count)}])")

    def write(self, call: Call, *, refused: bool) -> str:
        """Write a call as an expression; ``refused`` says that it was refused, so that it made nothing."""
        for kind, write in _WRITERS.items():
            if isinstance(call, kind):
                return write(self, call, refused)
        raise ScriptError(f"no script can make the call {call.verb!r}")

    def _keep(self, name: str, value: str) -> str:
        return f"things.__setitem__({name!r}, {value})"

    def _append(self, call: Any, refused: bool) -> str:
        if call.verb not in ("decode", "window", "dense") or call.length < 1:
            raise ScriptError(f"no script can make the call {call.verb!r} of {call.length} positions")
        how = call.malformed
        if how is not None and how not in SPOILS:
            raise ScriptError(f"no script can spoil tensors by {how!r}")
        count = self.rows.get(call.on, self.config.batch)
        alike = call.on not in self.rows  # the sequences of a batch get the same tokens
        first = 1000 if how is not None else self.token
        rows = [
            list(range(first + (0 if alike else row * call.length), first + (1 if alike else row + 1) * call.length))
            for row in range(count)
        ]
        if alike:
            rows = [list(range(first, first + call.length))] * count
        if how is None and not refused:
            self.token += call.length * (1 if alike else count)
        options = [f"window={call.window}"] if getattr(call, "window", None) is not None else []
        options += ["array=True"] if getattr(call, "array", False) else []
        options += [f"spoil=lambda keys, values: {SPOILS[how]}"] if how is not None else []
        self.spoils = self.spoils or how is not None
        text = f"append({', '.join([repr(call.on), repr(rows), *options])})"
        return text if call.as_ is None else f"remember({call.as_!r}, {text})"

    def _merge(self, call: Any, _refused: bool) -> str:
        parts: list[str] = []
        for grouped, names in groupby(call.sources, lambda name: name in self.rows):
            listed = [f"things[{name!r}]" for name in names]
            parts += [f"copy.deepcopy({name})" for name in listed] if grouped else [f"merged([{', '.join(listed)}])"]
        self.rows[call.as_] = sum(self.rows.get(name, 1) for name in call.sources)
        return self._keep(call.as_, parts[0] if len(parts) == 1 else f"extended([{', '.join(parts)}])")

    def _prepare(self, call: Any, _refused: bool) -> str:
        given = {"left_padding": call.left if any(call.left or ()) else None}
        given |= {"lengths": call.lengths, "right_padding": call.right}
        named = ", ".join(f"{name}={list(counts)}" for name, counts in given.items() if counts is not None)
        return f"things[{call.on!r}].prepare({named})"

    def _filter(self, call: Any, refused: bool) -> str:
        self.rows[call.on] = self.rows.get(call.on, 1) if refused else len(call.rows)
        return f"things[{call.on!r}].filter({list(call.rows)})"

    def _clone(self, call: Any, _refused: bool) -> str:
        source = f"things[{call.on!r}]"
        ways = {"deepcopy": f"copy.deepcopy({source})", "from_state": f"type({source}).from_state({source}.state)"}
        if call.on in self.rows:
            self.rows[call.as_] = self.rows[call.on]
        return self._keep(call.as_, ways.get(self.made.clone, f"{source}.clone()"))

    def _cache(self, call: Any, _refused: bool) -> str:
        layer: LayerSpec = (call.layer or self.config.layer).serial
        return self._keep(call.as_, self.made.build(layer, self.config))

    def _roll_back(self, call: Any, _refused: bool) -> str:
        if self.made.of_mlx_lm:
            if len(set(call.keep)) > 1:
                raise ScriptError("mlx-lm trims all rows of a group by one number")
            return f"roll_back({call.on!r}, {call.keep[0]})"
        return f"things[{call.on!r}].roll_back({call.keep[0] if len(call.keep) == 1 else list(call.keep)})"

    def _round(self, call: Any, _refused: bool) -> str:
        if not self.made.of_mlx_lm:
            return f"things[{call.on!r}].{call.verb}()"
        noted = f"starts.__setitem__({call.on!r}, count(things[{call.on!r}]))"
        return noted if isinstance(call, BeginRound) else f"starts.pop({call.on!r})"

    def _save(self, call: Any, _refused: bool) -> str:
        if not self.made.of_mlx_lm:
            raise ScriptError("no script can save a cache: by which call is not known")
        return f"save({call.on!r}, {call.as_!r})"

    def _load(self, call: Any, _refused: bool) -> str:
        return self._keep(call.as_, f"load({call.on!r})")

    def _trim(self, call: Any, _refused: bool) -> str:
        return f"things[{call.on!r}].trim({call.n}{', bypass=True' if call.bypass else ''})"


def _plain(text: str) -> Callable[[Writer, Any, bool], str]:
    return lambda _writer, call, _refused: text.format(
        on=repr(call.on), made=repr(getattr(call, "as_", None)), call=call
    )


_WRITERS: dict[type[Any], Callable[[Writer, Any, bool], str]] = {
    AppendDecode: Writer._append,  # noqa: SLF001  # a table of its own methods
    AppendWindow: Writer._append,  # noqa: SLF001
    FetchDense: Writer._append,  # noqa: SLF001
    MakeMask: _plain("hand_out({made}, mask_of(things[{on}], {call.length}, {call.window}, {call.array}))"),
    TakeState: _plain("hand_out({made}, things[{on}].state)"),
    Attend: _plain("things[{on}]"),
    LookAt: _plain("things[{on}]"),
    Trim: Writer._trim,  # noqa: SLF001
    Clone: Writer._clone,  # noqa: SLF001
    Reset: _plain("things[{on}].reset()"),
    Drop: _plain("things.pop({on})"),
    BeginRound: Writer._round,  # noqa: SLF001
    CommitRound: Writer._round,  # noqa: SLF001
    RollBack: Writer._roll_back,  # noqa: SLF001
    MakeCache: Writer._cache,  # noqa: SLF001
    Merge: Writer._merge,  # noqa: SLF001
    Extract: _plain("things.__setitem__({made}, things[{on}].extract({call.row}))"),
    Filter: Writer._filter,  # noqa: SLF001
    Prepare: Writer._prepare,  # noqa: SLF001
    Finalize: _plain("things[{on}].finalize()"),
    Save: Writer._save,  # noqa: SLF001
    Load: Writer._load,  # noqa: SLF001
}
"""How each kind of call is written."""

__all__ = ["Append", "Writer"]
