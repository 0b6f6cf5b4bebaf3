"""One call of a trace as Python: an expression that makes it, and what has to be known to write the next one.

``Writer`` keeps what the calls so far made: which names are groups, how many rows they have, and the next token id.
"""

from collections.abc import Callable
from itertools import groupby
from typing import Any

from attrs import define, field

from kvlaw.conformance.scripts.made import Made, ScriptError
from kvlaw.spec.calls import (
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

MOST, MOST_ROWS = 4096, 64
"""Longer appends and larger groups make no script that anyone reads."""
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

    def opening(self) -> str:
        """Write how ``c0`` is made."""
        built = self.made.build(self.config.layer.serial, self.config)
        if not self.config.is_rows:
            return self.keep("c0", built)
        if not 1 <= self.config.row_count <= MOST_ROWS:
            raise ScriptError(f"its group has {self.config.row_count:.10g} rows, and a script makes 1 to {MOST_ROWS}")
        self.rows["c0"] = self.config.row_count
        return self.keep("c0", f"merged([{', '.join([built] * self.config.row_count)}])")

    def write(self, call: Call, *, refused: bool) -> str:
        """Write a call as an expression; ``refused`` says that it was refused, so that it made nothing."""
        for kind, write in _WRITERS.items():
            if isinstance(call, kind):
                return write(self, call, refused)
        raise ScriptError(f"a script makes the calls of a runtime, and {call.verb!r} is none of them")

    def keep(self, name: str, value: str) -> str:
        """Write that a value gets a name."""
        return f"keep({name!r}, {value})"


def _append(writer: Writer, call: Any, refused: bool) -> str:
    if call.verb not in ("decode", "window", "dense") or not 1 <= call.length <= MOST:
        raise ScriptError(f"a script makes no call {call.verb!r} of {call.length:.10g} positions")
    how = call.malformed
    if how is not None and how not in SPOILS:
        raise ScriptError(f"a script cannot spoil tensors by {how!r}")
    count = writer.rows.get(call.on, writer.config.batch)
    alike = call.on not in writer.rows  # the sequences of a batch get the same tokens
    first = 1000 if how is not None else writer.token
    starts = [first + (0 if alike else row * call.length) for row in range(count)]
    rows = [list(range(start, start + call.length)) for start in starts]
    if how is None and not refused:
        writer.token += call.length * (1 if alike else count)
    options = [f"window={call.window}"] if getattr(call, "window", None) is not None else []
    options += ["array=True"] if getattr(call, "array", False) else []
    options += [f"spoil=lambda keys, values: {SPOILS[how]}"] if how is not None else []
    text = f"append({', '.join([repr(call.on), repr(rows), *options])})"
    return text if call.as_ is None else f"remember({call.as_!r}, {text})"


def _merge(writer: Writer, call: Any, _refused: bool) -> str:
    parts: list[str] = []
    for grouped, names in groupby(call.sources, lambda name: name in writer.rows):
        listed = [f"things[{name!r}]" for name in names]
        parts += [f"copy.deepcopy({name})" for name in listed] if grouped else [f"merged([{', '.join(listed)}])"]
    writer.rows[call.as_] = sum(writer.rows.get(name, 1) for name in call.sources)
    return writer.keep(call.as_, parts[0] if len(parts) == 1 else f"extended([{', '.join(parts)}])")


def _prepare(_writer: Writer, call: Any, _refused: bool) -> str:
    given = {"left_padding": call.left if any(call.left or ()) else None}
    given |= {"lengths": call.lengths, "right_padding": call.right}
    named = ", ".join(f"{name}={list(counts)}" for name, counts in given.items() if counts is not None)
    return f"things[{call.on!r}].prepare({named})"


def _filter(writer: Writer, call: Any, refused: bool) -> str:
    writer.rows[call.on] = writer.rows.get(call.on, 1) if refused else len(call.rows)
    return f"things[{call.on!r}].filter({list(call.rows)})"


def _clone(writer: Writer, call: Any, _refused: bool) -> str:
    source = f"things[{call.on!r}]"
    ways = {"deepcopy": f"copy.deepcopy({source})", "from_state": f"type({source}).from_state({source}.state)"}
    if call.on in writer.rows:
        writer.rows[call.as_] = writer.rows[call.on]
    return writer.keep(call.as_, ways.get(writer.made.clone, f"{source}.clone()"))


def _cache(writer: Writer, call: Any, _refused: bool) -> str:
    layer: LayerSpec = (call.layer or writer.config.layer).serial
    return writer.keep(call.as_, writer.made.build(layer, writer.config))


def _roll_back(writer: Writer, call: Any, _refused: bool) -> str:
    if writer.made.of_mlx_lm:
        if len(set(call.keep)) > 1:
            raise ScriptError("mlx-lm trims all rows of a group by one number, and here each row has its own")
        return f"roll_back({call.on!r}, {call.keep[0]})"
    return f"things[{call.on!r}].roll_back({call.keep[0] if len(call.keep) == 1 else list(call.keep)})"


def _round(writer: Writer, call: Any, _refused: bool) -> str:
    if not writer.made.of_mlx_lm:
        return f"things[{call.on!r}].{call.verb}()"
    return f"begin_round({call.on!r})" if isinstance(call, BeginRound) else f"starts.pop({call.on!r})"


def _save(writer: Writer, call: Any, _refused: bool) -> str:
    if not writer.made.of_mlx_lm:
        raise ScriptError("by which call the class is saved to a file is known to its adapter alone")
    return f"save({call.on!r}, {call.as_!r})"


def _load(writer: Writer, call: Any, _refused: bool) -> str:
    return writer.keep(call.as_, f"load({call.on!r})")


def _trim(_writer: Writer, call: Any, _refused: bool) -> str:
    return f"things[{call.on!r}].trim({call.n}{', bypass=True' if call.bypass else ''})"


def _plain(text: str) -> Callable[[Writer, Any, bool], str]:
    return lambda _writer, call, _refused: text.format(
        on=repr(call.on), made=repr(getattr(call, "as_", None)), call=call
    )


_WRITERS: dict[type[Any], Callable[[Writer, Any, bool], str]] = {
    AppendDecode: _append,
    AppendWindow: _append,
    FetchDense: _append,
    MakeMask: _plain("hand_out({made}, mask_of(things[{on}], {call.length}, {call.window}, {call.array}))"),
    TakeState: _plain("hand_out({made}, things[{on}].state)"),
    Attend: _plain("things[{on}]"),
    LookAt: _plain("things[{on}]"),
    Trim: _trim,
    Clone: _clone,
    Reset: _plain("things[{on}].reset()"),
    Drop: _plain("things.pop({on})"),
    BeginRound: _round,
    CommitRound: _round,
    RollBack: _roll_back,
    MakeCache: _cache,
    Merge: _merge,
    Extract: _plain("keep({made}, things[{on}].extract({call.row}))"),
    Filter: _filter,
    Prepare: _prepare,
    Finalize: _plain("things[{on}].finalize()"),
    Save: _save,
    Load: _load,
}
"""How each kind of call is written."""

__all__ = ["Writer"]
