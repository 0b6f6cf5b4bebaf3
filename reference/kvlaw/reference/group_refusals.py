"""Which calls on a group our design refuses, and by which clauses; nothing changes by asking."""

from collections.abc import Sequence

from kvlaw.reference import index, index_group
from kvlaw.reference.group import Group
from kvlaw.reference.model import Model
from kvlaw.reference.refusals import TENSORS, fits
from kvlaw.spec.calls import (
    Append,
    AppendDecode,
    BeginRound,
    Call,
    CommitPrefill,
    CommitRound,
    CompiledDecode,
    Extract,
    FetchDense,
    Filter,
    HandBack,
    MakeMask,
    Merge,
    Prepare,
    RollBack,
    Trim,
)
from kvlaw.spec.config import Config, LayerSpec

Source = Model | Group
_UNKNOWN_WHILE_EMPTY = ("heads", "head_dim", "dtype")


def refusal(group: Group, call: Call, config: Config) -> tuple[str, ...]:
    """Give the clauses by which ``call`` on ``group`` is refused; empty if it is carried out."""
    if isinstance(call, Append | FetchDense | MakeMask):
        return _append_refusal(group, call, config)
    if isinstance(call, BeginRound | CommitRound | RollBack):
        return _round_refusal(group, call)
    if isinstance(call, Trim):
        return _trim_refusal(group, call)
    if isinstance(call, Extract | HandBack):
        return _row_refusal(group, call.row)
    if isinstance(call, Filter):
        return () if index_group.can_filter(group.state, call.rows) else ("ROWS-18",)
    if isinstance(call, Prepare):
        return _prepare_refusal(group, call)
    if isinstance(call, CommitPrefill):
        there = all(0 <= row < len(group.rows) for row in call.rows)
        return () if there else ("PREC-19", "ROWS-29")
    return ()


def is_open(group: Group, call: Call) -> bool:
    """Say that the law leaves open what follows: spoilt tensors that an empty group cannot tell from good ones."""
    unstored = not any(row.slots for row in group.rows)
    return getattr(call, "malformed", None) in _UNKNOWN_WHILE_EMPTY and unstored and bool(group.rows)


def _append_refusal(group: Group, call: Append | FetchDense | MakeMask, config: Config) -> tuple[str, ...]:
    malformed = getattr(call, "malformed", None)
    if not group.rows:
        return ("ROWS-11", *((TENSORS[malformed],) if malformed else ()))
    if isinstance(call, CompiledDecode) and (cited := _compiled_refusal(group)):
        return cited
    if malformed is not None:
        return ("ROWS-30", "ERR-2") if malformed == "batch" else (TENSORS[malformed],)
    decodes = isinstance(call, AppendDecode) or getattr(call, "phase", "window") == "decode"
    argument = getattr(call, "window", None)
    if call.length < 1 or (decodes and call.length != 1):
        return ("ERR-4",)
    if argument is not None and argument < 1:
        return ("ERR-7",)
    if decodes and group.pends:
        return ("PAD-9",)
    return ("PREC-13",) if call.appends and group.layer.bits and not fits(group.rows[0], config) else ()


def _compiled_refusal(group: Group) -> tuple[str, ...]:
    """Give the clauses by which a decode is not compiled that could be done otherwise."""
    if group.in_round:
        return ("DEC-6",)
    if group.pends:
        return ("DEC-7", "PAD-9")
    if not group.state.columns:
        return ("DEC-5",)
    settled, _, _ = group.appended("decode", ((-1,),) * len(group.rows), unread=True)
    return ("DEC-10",) if settled.storage == "mixed" else ()


def _trim_refusal(group: Group, call: Trim) -> tuple[str, ...]:
    if type(call.n) is not int or call.n < 0:
        return ("TRIM-9", "ERR-5") if call.n < 0 else ("ERR-5",)
    if not is_at_rest(group):
        return ("ROUND-9" if group.in_round else "PAD-9", "ROWS-20")
    if index_group.can_trim(group.state, call.n):
        return ()
    return ("ROWS-20", "ROWS-19", "TRIM-7")


def _row_refusal(group: Group, row: int) -> tuple[str, ...]:
    if not 0 <= row < len(group.rows):
        return ("ROWS-29",)
    return _unrest(group)


def _unrest(group: Group) -> tuple[str, ...]:
    """Give the clause by which a group in a round, or with padding to come, refuses to be taken apart."""
    return ("ROUND-9",) if group.in_round else ("PAD-9",) if group.pends else ()


def _round_refusal(group: Group, call: Call) -> tuple[str, ...]:
    if isinstance(call, BeginRound):
        return ("ROUND-7",) if group.in_round else ("PAD-9",) if group.pends else ()
    if not group.in_round:
        return ("ROUND-7",)
    if not isinstance(call, RollBack):
        return ()
    fits = len(call.keep) in (1, len(group.rows))
    appended = [row.appended_in_round for row in group.rows]
    keeps = keeps_of(group, call) if group.rows else call.keep
    appended = appended or [0] * len(keeps)  # nothing is appended to a group without rows
    within = fits and all(0 <= keep <= most for keep, most in zip(keeps, appended, strict=True))
    return () if within else ("ROUND-7", "ROUND-13")


def keeps_of(group: Group, call: RollBack) -> tuple[int, ...]:
    """Give how much of a round each row keeps: one number is every row's."""
    return call.keep * len(group.rows) if len(call.keep) == 1 else call.keep


def is_at_rest(group: Group) -> bool:
    """Say that no round is open and no padding to come."""
    return not group.in_round and not group.pends


def _prepare_refusal(group: Group, call: Prepare) -> tuple[str, ...]:
    if unrest := _unrest(group):
        return unrest
    return ("PAD-12",) if index_group.prepare_problem(group.state, call.left, call.lengths, call.right) else ()


def merge_refusal(sources: Sequence[Source], call: Merge, config: Config) -> tuple[str, ...]:
    """Give the clauses by which a merge is refused; empty if it is carried out."""
    if not call.sources:
        return ("ROWS-8",)
    layers = [source.layer.grouped for source in sources]
    if len({(layer.kind, layer.window) for layer in layers}) > 1:
        return ("ROWS-8",)
    if any(layer.sinks for layer in layers):
        return ("ROWS-7",)
    if len({_codec(layer) for layer in layers if layer.bits}) > 1:
        return ("ROWS-8",)
    if any(_in_round(source) for source in sources):
        return ("ROUND-9", "ROWS-8")
    if any(isinstance(source, Group) and source.pends for source in sources):
        return ("PAD-9", "ROWS-8")
    if any(isinstance(source, Model) and _is_short(source) for source in sources):
        return ("ROWS-8", "ROWS-12")
    if len({layer.start for layer in layers if layer.policy == "bf16_first"}) > 1:
        return ("ROWS-8",)
    return _precision_refusal(sources, config)


def _precision_refusal(sources: Sequence[Source], config: Config) -> tuple[str, ...]:
    policies = {source.layer.policy for source in sources}
    if policies == {"dense", "affine"}:
        return ("ROWS-8",)
    codec = next((source.layer for source in sources if source.layer.bits), None)
    if codec is None or "bf16_first" not in policies:
        return ()
    raw = [source for source in sources if source.layer.policy == "dense"]
    stored = any(row.slots for source in raw for row in rows_of(source))
    misfit = config.head_dim % codec.group or config.value_dim % codec.group
    return ("PREC-13", "ROWS-8") if stored and misfit else ()


def _is_short(source: Model) -> bool:
    """Say whether a ring lacks columns of positions that it is owed: only a bypass trim leaves one so (TRIM-11)."""
    return isinstance(source.state, index.Ring) and index.active(source.state) < index.live(source.state)


def pins_sinks(layers: Sequence[LayerSpec]) -> bool:
    """Say whether these are rings of one window and as many sinks, so that sinks alone keep them out of a group."""
    if len({layer.serial for layer in layers}) != 1:
        return False
    return layers[0].window is not None and 0 < layers[0].sinks < layers[0].window and layers[0].policy == "dense"


def _in_round(source: Source) -> bool:
    return source.in_round if isinstance(source, Group) else source.round is not None


def rows_of(source: Source) -> tuple[Model, ...]:
    """List the rows that a source of a merge brings."""
    return (source,) if isinstance(source, Model) else source.rows


def merged_layer(sources: Sequence[Source]) -> LayerSpec:
    """Give the layer of a group that is made of these sources: half precision first goes before raw storage."""
    layers = [source.layer.grouped for source in sources]
    return next((layer for layer in layers if layer.policy == "bf16_first"), layers[0])


def _codec(layer: LayerSpec) -> tuple[int | None, int | None, int]:
    return layer.bits, layer.bits_of_values, layer.group
