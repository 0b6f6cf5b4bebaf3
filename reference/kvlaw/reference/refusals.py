"""Which calls our design refuses, and by which clauses; nothing changes by asking."""

from kvlaw.reference import index
from kvlaw.reference.model import Model
from kvlaw.spec.calls import (
    Append,
    BeginRound,
    Call,
    CommitRound,
    CompiledDecode,
    FetchDense,
    MakeMask,
    Malformed,
    Publish,
    RollBack,
    Save,
    Trim,
)
from kvlaw.spec.config import Config

ROUND_CALLS = (BeginRound, CommitRound, RollBack)
TENSORS: dict[Malformed, str] = {
    "rank": "ERR-2",
    "batch": "ERR-2",
    "heads": "ERR-2",
    "head_dim": "ERR-2",
    "lengths": "ERR-2",
    "dtype": "ERR-3",
    "two": "ERR-4",
    "empty": "ERR-4",
}
"""The clause by which spoilt tensors are refused, by the way in which they are spoilt."""
_NEEDS_STORAGE = ("batch", "heads", "head_dim", "dtype")


def refusal(model: Model, call: Call, config: Config) -> tuple[str, ...]:
    """Give the clauses by which ``call`` on ``model`` is refused; empty if it is carried out.

    ``config`` says which tensors are appended.
    """
    if isinstance(call, ROUND_CALLS):
        return _round_refusal(model, call)
    if isinstance(call, Trim):
        return _trim_refusal(model, call)
    if isinstance(call, Save | Publish):  # in an open round nobody knows yet what stays
        return () if model.round is None else ("PERS-15",) if isinstance(call, Save) else ("REUSE-9",)
    if isinstance(call, CompiledDecode) and (cited := _compiled_refusal(model)):
        return cited
    malformed = getattr(call, "malformed", None)
    if malformed is not None and not (malformed in _NEEDS_STORAGE and not model.slots):
        return (TENSORS[malformed],)
    length, phase = getattr(call, "length", 1), getattr(call, "phase", "window")
    counted = isinstance(call, (Append, FetchDense, MakeMask))
    if counted and (length < 1 or (phase == "decode" and length != 1)):
        return ("ERR-4",)
    if cited := _argument_refusal(model, getattr(call, "window", None)):
        return cited
    return ("PREC-13",) if call.appends and not fits(model, config) else ()


def fits(model: Model, config: Config) -> bool:
    """Say whether the groups of a cache's codes divide the head dims of what is appended (PREC-13)."""
    layer = model.layer
    return layer.bits is None or config.head_dim % layer.group == config.value_dim % layer.group == 0


def is_open(model: Model, call: Call) -> bool:
    """Say that the law leaves open what follows: spoilt tensors that an empty cache cannot tell from good ones."""
    return getattr(call, "malformed", None) in _NEEDS_STORAGE and not model.slots


def _compiled_refusal(model: Model) -> tuple[str, ...]:
    """Give the clauses by which a decode is not compiled that could be done otherwise."""
    if model.round is not None:
        return ("DEC-6",)
    return () if model.slots else ("DEC-5",)


def _argument_refusal(model: Model, argument: int | None) -> tuple[str, ...]:
    if argument is None:
        return ()
    if argument < 1:
        return ("ERR-7",)
    return () if index.can_narrow(model.state, argument) else ("MASK-13",)


def _trim_refusal(model: Model, call: Trim) -> tuple[str, ...]:
    if type(call.n) is not int or call.n < 0:
        return ("TRIM-9", "ERR-5") if call.n < 0 else ("ERR-5",)
    if model.round is not None:
        return ("ROUND-9", "TRIM-12" if call.bypass else "TRIM-7")
    if call.bypass and isinstance(model.state, index.Ring):
        return () if index.can_bypass(model.state, call.n) else ("TRIM-12",)
    if index.can_trim(model.state, call.n):
        return ()
    return ("TRIM-4", "TRIM-7") if 0 < call.n <= model.offset else ("TRIM-7",)


def _round_refusal(model: Model, call: Call) -> tuple[str, ...]:
    """Give the clauses by which a call of a round is refused."""
    if isinstance(call, BeginRound):
        return ("ROUND-7",) if model.round is not None else ()
    if isinstance(call, CommitRound | RollBack) and model.round is None:
        return ("ROUND-7",)
    if isinstance(call, RollBack):
        fits = len(call.keep) == 1 and 0 <= call.keep[0] <= model.appended_in_round
        return () if fits else ("ROUND-7",)
    return ()
